//! A reply that outlives its session's buffers.

use super::{BatchBuf, Reject, Reply};

/// The contents of a [`Reply`], owned. When it is reused, it keeps its memory, so that holding replies back costs no
/// allocation once the buffers have grown.
///
/// Builder methods turn a client crate's answer into one:
///
/// ```
/// use storebench_engine::store::OwnedReply;
///
/// let reply = OwnedReply::documents(1).body(b"{}".to_vec()).revision(vec![7]);
/// assert_eq!(reply.as_reply().bytes, 2);
/// ```
#[derive(Debug, Clone, Default)]
pub struct OwnedReply {
    documents: u32,
    bytes: u64,
    body: Vec<u8>,
    has_body: bool,
    rows: BatchBuf,
    has_rows: bool,
    revision: Vec<u8>,
    has_revision: bool,
    counter: Option<i64>,
    rejects: Vec<Reject>,
    steps: Vec<u32>,
}

impl OwnedReply {
    /// A reply with this many documents written, removed, read or found; see [`Reply::documents`].
    pub fn documents(documents: u32) -> Self {
        Self { documents, ..Self::default() }
    }

    /// Bytes of the documents read, for replies whose contents are not handed over.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// The document of a single read. Sets the bytes too.
    #[must_use]
    pub fn body(mut self, body: Vec<u8>) -> Self {
        self.bytes = body.len() as u64;
        self.body = body;
        self.has_body = true;
        self
    }

    /// The documents of a page, scan or bulk read. Sets their number and their bytes too.
    #[must_use]
    pub fn rows(mut self, rows: BatchBuf) -> Self {
        self.documents = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        self.bytes = rows.as_batch().iter().map(|(_, body)| body.len() as u64).sum();
        self.rows = rows;
        self.has_rows = true;
        self
    }

    /// The document's revision.
    #[must_use]
    pub fn revision(mut self, revision: Vec<u8>) -> Self {
        self.revision = revision;
        self.has_revision = true;
        self
    }

    /// The value of a counter.
    #[must_use]
    pub fn counter(mut self, value: i64) -> Self {
        self.counter = Some(value);
        self
    }

    /// The items of a bulk operation that failed.
    #[must_use]
    pub fn rejects(mut self, rejects: Vec<Reject>) -> Self {
        self.rejects = rejects;
        self
    }

    /// Copies a reply into the existing memory.
    pub fn copy_from(&mut self, reply: &Reply<'_>) {
        self.documents = reply.documents;
        self.bytes = reply.bytes;
        self.counter = reply.counter;
        self.has_body = reply.body.is_some();
        self.body.clear();
        self.body.extend_from_slice(reply.body.unwrap_or_default());
        self.has_revision = reply.revision.is_some();
        self.revision.clear();
        self.revision.extend_from_slice(reply.revision.unwrap_or_default());
        self.has_rows = reply.rows.is_some();
        self.rows.clear();
        for (key, body) in reply.rows.iter().flat_map(|rows| rows.iter()) {
            self.rows.push(key, body);
        }
        self.rejects.clear();
        self.rejects.extend_from_slice(reply.rejects);
        self.steps.clear();
        self.steps.extend_from_slice(reply.steps);
    }

    /// Keeps only its rows.
    pub fn into_rows(self) -> BatchBuf {
        self.rows
    }

    /// Borrows it as a reply.
    pub fn as_reply(&self) -> Reply<'_> {
        Reply {
            documents: self.documents,
            bytes: self.bytes,
            body: self.has_body.then_some(&self.body),
            rows: self.has_rows.then(|| self.rows.as_batch()),
            revision: self.has_revision.then_some(&self.revision),
            counter: self.counter,
            rejects: &self.rejects,
            steps: &self.steps,
        }
    }
}

impl From<Reply<'_>> for OwnedReply {
    fn from(reply: Reply<'_>) -> Self {
        let mut owned = Self::default();
        owned.copy_from(&reply);
        owned
    }
}

#[cfg(test)]
mod tests {
    use super::super::OpError;
    use super::*;

    #[test]
    fn a_reply_copied_over_a_larger_one_leaves_nothing_of_it() {
        let mut rows = BatchBuf::new();
        rows.push("k", b"body");
        let rejects = vec![Reject { item: 3, error: OpError::not_found() }];
        let mut owned =
            OwnedReply::documents(9).body(vec![1; 100]).rows(rows).revision(vec![2]).counter(4).rejects(rejects);
        assert_eq!(owned.as_reply().documents, 1, "rows say how many");
        owned.copy_from(&Reply::written(2));
        let reply = owned.as_reply();
        assert_eq!((reply.documents, reply.bytes, reply.counter), (2, 0, None));
        assert!(reply.body.is_none() && reply.rows.is_none() && reply.revision.is_none() && reply.rejects.is_empty());
        owned.copy_from(&Reply { steps: &[1, 0], ..Reply::default() });
        assert_eq!(owned.as_reply().steps, [1, 0]);
    }

    #[test]
    fn an_empty_body_is_a_body() {
        let owned = OwnedReply::from(Reply { body: Some(b""), ..Reply::written(1) });
        assert_eq!(owned.as_reply().body, Some(&b""[..]));
    }
}
