//! Collects the documents of a reply as they arrive.

use super::{BatchBuf, OwnedReply, Reply};

/// Documents that a read has found so far: counted, and kept if their contents are wanted. It is reused, so that its
/// memory stays allocated.
#[derive(Debug, Default)]
pub struct Collected {
    contents: bool,
    rows: BatchBuf,
    documents: u32,
    bytes: u64,
}

impl Collected {
    /// Starts again, with the memory it has.
    pub fn begin(&mut self, contents: bool) -> &mut Self {
        self.rows.clear();
        (self.contents, self.documents, self.bytes) = (contents, 0, 0);
        self
    }

    /// Whether contents, and so keys, are wanted.
    pub fn contents(&self) -> bool {
        self.contents
    }

    /// The number of documents.
    pub fn documents(&self) -> u32 {
        self.documents
    }

    /// Adds a document.
    pub fn add(&mut self, key: &str, body: &[u8]) {
        self.count(body.len() as u64);
        if self.contents {
            self.rows.push(key, body);
        }
    }

    /// Adds a document of this many bytes. `body` is used only if contents are wanted. Bytes of the key that are not
    /// UTF-8 become U+FFFD.
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

    /// The reply, owned.
    pub fn into_reply(self) -> OwnedReply {
        if self.contents {
            OwnedReply::default().rows(self.rows)
        } else {
            OwnedReply::documents(self.documents).bytes(self.bytes)
        }
    }
}
