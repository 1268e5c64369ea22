//! Counts the documents of a reply and keeps those whose contents are wanted.

use crate::store::{BatchBuf, Reply};

/// What a read of several documents has found so far.
pub(super) struct Found<'r> {
    rows: &'r mut BatchBuf,
    contents: bool,
    /// How many.
    pub(super) documents: u32,
    bytes: u64,
}

impl<'r> Found<'r> {
    /// Nothing yet; empties the buffer.
    pub(super) fn new(rows: &'r mut BatchBuf, contents: bool) -> Self {
        rows.clear();
        Self { rows, contents, documents: 0, bytes: 0 }
    }

    /// One more document.
    pub(super) fn add(&mut self, key: &str, body: &[u8]) {
        self.documents += 1;
        self.bytes += body.len() as u64;
        if self.contents {
            self.rows.push(key, body);
        }
    }

    /// The reply.
    pub(super) fn reply(self) -> Reply<'r> {
        let rows = self.contents.then(|| self.rows.as_batch());
        Reply { documents: self.documents, bytes: self.bytes, rows, ..Reply::default() }
    }
}
