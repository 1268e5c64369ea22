//! What an operation remembers from one of its requests to the next.

use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

use storebench_core::store::{BatchBuf, Op, OpError, OpKind, Reject, Reply};

use crate::repeats::{Rounds, Within};

/// What the request in flight is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Awaits {
    /// The answer ends the operation: a read, an insert.
    #[default]
    Last,
    /// The revision of the document, which the write that follows names.
    Revision,
    /// The write; when somebody else was quicker, it begins again.
    Write,
    /// The document, which is changed here and written.
    Document,
    /// Whether a compare-and-swap failed on another revision or on nothing.
    Existence,
    /// A page of rows.
    Rows,
    /// The revisions of a bulk operation's documents.
    BulkRevisions,
    /// What became of each document of a bulk write.
    BulkWrite,
    /// The documents of a bulk read.
    BulkRead,
}

/// The state of one operation. Its buffers are used again by later ones.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(super) awaits: Awaits,
    pub(super) kind: OpKind,
    pub(super) collection: usize,
    pub(super) contents: bool,
    pub(super) key: String,
    /// The body, bytes or patch that is written.
    pub(super) payload: Vec<u8>,
    pub(super) revision: Vec<u8>,
    pub(super) delta: i64,
    pub(super) initial: i64,
    pub(super) counter: Option<i64>,
    /// How often somebody else was quicker.
    pub(super) tries: u32,
    /// The first key that is not wanted, for pages.
    pub(super) end: Option<String>,
    pub(super) left: u32,
    /// How many rows the request in flight asks for.
    pub(super) asked: u32,
    pub(super) found: Found,
    pub(super) bulk: Bulk,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            awaits: Awaits::Last,
            kind: OpKind::Read,
            collection: 0,
            contents: false,
            key: String::new(),
            payload: Vec::new(),
            revision: Vec::new(),
            delta: 0,
            initial: 0,
            counter: None,
            tries: 0,
            end: None,
            left: 0,
            asked: 0,
            found: Found::default(),
            bulk: Bulk::default(),
        }
    }
}

/// Rows of a read of several documents.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) rows: BatchBuf,
    pub(super) documents: u32,
    pub(super) bytes: u64,
}

/// A bulk operation in parts.
#[derive(Debug, Default)]
pub(super) struct Bulk {
    /// Keys and bodies of all items.
    pub(super) items: BatchBuf,
    /// The items of the request in flight.
    pub(super) part: Vec<u32>,
    /// Their revisions, empty where there is no document, in the same order; all or none.
    pub(super) revisions: Revisions,
    /// Parts not yet sent.
    pub(super) waiting: Vec<Vec<u32>>,
    pub(super) written: usize,
    pub(super) rejects: Vec<Reject>,
}

/// Texts one after another in one buffer.
#[derive(Debug, Default)]
pub(super) struct Revisions {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Revisions {
    /// One more.
    pub(super) fn push(&mut self, revision: &[u8]) {
        self.bytes.extend_from_slice(revision);
        self.ends.push(self.bytes.len());
    }

    /// The one at this position, if there is one.
    pub(super) fn get(&self, position: usize) -> Option<&[u8]> {
        let end = *self.ends.get(position)?;
        let start = position.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.bytes.get(start..end)
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

impl Memory {
    /// Begins with an operation.
    pub(super) fn begin(&mut self, kind: OpKind, collection: usize, contents: bool, key: &str, payload: &[u8]) {
        (self.awaits, self.kind, self.collection, self.contents) = (Awaits::Last, kind, collection, contents);
        self.key.clear();
        self.key.push_str(key);
        self.payload.clear();
        self.payload.extend_from_slice(payload);
        self.revision.clear();
        (self.counter, self.tries) = (None, 0);
    }

    /// The operation again, as it was submitted, where it changes what is stored.
    pub(super) fn op(&self) -> Option<Op<'_>> {
        let (key, body) = (self.key.as_str(), self.payload.as_slice());
        Some(match self.kind {
            OpKind::Append => Op::Append { key, bytes: body },
            OpKind::Prepend => Op::Prepend { key, bytes: body },
            OpKind::MergePatch => Op::MergePatch { key, patch: body },
            OpKind::Counter => Op::Counter { key, delta: self.delta, initial: self.initial },
            OpKind::Touch => Op::Touch { key, expiry: Duration::ZERO },
            _ => return None,
        })
    }
}

impl Found {
    /// Nothing yet.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        (self.documents, self.bytes) = (0, 0);
    }

    /// One more document.
    pub(super) fn add(&mut self, key: &str, body: &[u8], contents: bool) {
        self.documents += 1;
        self.bytes += body.len() as u64;
        if contents {
            self.rows.push(key, body);
        }
    }

    /// The reply.
    pub(super) fn reply(&self, contents: bool) -> Reply<'_> {
        let rows = contents.then(|| self.rows.as_batch());
        Reply { documents: self.documents, bytes: self.bytes, rows, ..Reply::default() }
    }
}

impl Bulk {
    /// Nothing yet.
    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.part.clear();
        self.revisions.clear();
        self.waiting.clear();
        self.written = 0;
        self.rejects.clear();
    }

    /// Leaves an item of each key in the part; further ones of the same key wait. What a server makes of a request
    /// that names a document twice depends on the documents.
    pub(super) fn part_repeated(&mut self) {
        let mut rounds = Rounds::default();
        rounds.arrange(self.items.as_batch(), Within::Given);
        if rounds.ends.len() < 2 {
            return;
        }
        let sent: HashSet<u32> = self.part.drain(..).collect();
        let of = |round: Range<usize>| rounds.order[round].iter().copied().filter(|n| sent.contains(n)).collect();
        self.waiting.extend(rounds.ranges().rev().map(of));
        self.next_part();
    }

    /// The key and body of an item.
    pub(super) fn item(&self, number: u32) -> (&str, &[u8]) {
        self.items.as_batch().get(number as usize).unwrap_or_default()
    }

    /// The keys of the request in flight.
    pub(super) fn part_keys(&self) -> impl Iterator<Item = &str> + Clone {
        self.part.iter().map(|number| self.item(*number).0)
    }

    /// Fails one item.
    pub(super) fn reject(&mut self, number: u32, error: OpError) {
        self.rejects.push(Reject { item: number as usize, error });
    }

    /// Keeps the first half of the part; the second waits.
    pub(super) fn cut(&mut self) {
        let second = self.part.split_off(self.part.len() / 2);
        self.waiting.push(second);
        // What is left is sent or asked for anew.
        self.revisions.clear();
    }

    /// Takes the next part that waits, if there is one.
    pub(super) fn next_part(&mut self) -> bool {
        self.revisions.clear();
        match self.waiting.pop() {
            Some(part) => {
                self.part = part;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_keep_their_places() {
        let mut revisions = Revisions::default();
        for _ in 0..2 {
            for text in ["1-a", "", "22-bc"] {
                revisions.push(text.as_bytes());
            }
            assert_eq!(revisions.get(0), Some(&b"1-a"[..]));
            assert_eq!(revisions.get(1), Some(&b""[..]));
            assert_eq!(revisions.get(2), Some(&b"22-bc"[..]));
            assert_eq!(revisions.get(3), None);
            revisions.clear();
            assert_eq!(revisions.get(0), None);
        }
    }
}
