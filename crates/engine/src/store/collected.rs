//! The documents of a reply of several, as they come.

use super::{BatchBuf, OwnedReply, Reply};

/// Documents that a read has found so far: counted, and kept where their contents are wanted. Used again and again, so that
/// its memory has grown.
#[derive(Debug, Default)]
pub struct Collected {
    contents: bool,
    rows: BatchBuf,
    documents: u32,
    bytes: u64,
}

impl Collected {
    /// starts again, with the memory that is there.
    pub fn begin(&mut self, contents: bool) -> &mut Self {
        self.rows.clear();
        (self.contents, self.documents, self.bytes) = (contents, 0, 0);
        self
    }

    /// Whether contents are wanted, and so keys.
    pub fn contents(&self) -> bool {
        self.contents
    }

    /// How many there are.
    pub fn documents(&self) -> u32 {
        self.documents
    }

    /// One more document.
    pub fn add(&mut self, key: &str, body: &[u8]) {
        self.count(body.len() as u64);
        if self.contents {
            self.rows.push(key, body);
        }
    }

    /// One more document of so many bytes, which are at hand only where its contents are wanted. What of its key is not
    /// UTF-8 becomes U+FFFD.
    pub fn add_measured(&mut self, key: &[u8], bytes: u64, body: &[u8]) {
        self.count(bytes);
        if self.contents {
            self.rows.push_with(|into| into.extend_from_slice(key), |into| into.extend_from_slice(body));
        }
    }

    fn count(&mut self, bytes: u64) {
        self.documents += 1;
        self.bytes += bytes;
    }

    /// The reply.
    pub fn reply(&self) -> Reply<'_> {
        let rows = self.contents.then(|| self.rows.as_batch());
        Reply { documents: self.documents, bytes: self.bytes, rows, ..Reply::default() }
    }

    /// The reply, with what it is of.
    pub fn into_reply(self) -> OwnedReply {
        if self.contents {
            OwnedReply::default().rows(self.rows)
        } else {
            OwnedReply::documents(self.documents).bytes(self.bytes)
        }
    }
}
