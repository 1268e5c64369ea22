//! Records on their way from a source to a target.

use jiff::Timestamp;
use storebench_engine::store::{Batch, BatchBuf};

use crate::shape::Expiry;
use crate::sink::RecordOp;
use crate::source::{Room, Unreadable};

/// Where a record came from. It is the same each time an unchanged source is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Origin {
    /// Number of the file, from 0. If the source is a store, number of the split.
    pub unit: u32,
    /// Byte offset in the decompressed file. If the source is a store, position in the split, from 0.
    pub at: u64,
}

/// Settings that differ from record to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mark {
    /// The operation for this record.
    pub(crate) verb: Option<RecordOp>,
    /// When the record expires.
    pub(crate) expiry: Option<Expiry>,
}

/// A batch of records: keys, documents, and the origin of each. Clearing and refilling a batch does not allocate once
/// its buffers have grown.
#[derive(Debug, Clone, Default)]
pub struct Records {
    pairs: BatchBuf,
    origins: Vec<Origin>,
    /// The records before shaping; empty if they were not shaped.
    before: BatchBuf,
    /// Marks by position. Records beyond the end have the default mark.
    marks: Vec<Mark>,
    /// Records that could not be read, among these.
    pub bad: Vec<Unreadable>,
    /// Records that were read and dropped, as requested.
    pub(crate) skipped: u64,
    skipped_bytes: usize,
    /// Records whose key was not a string in the source.
    pub(crate) keys_made_text: u64,
}

impl Records {
    /// Empty buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes the records and keeps the memory.
    pub fn clear(&mut self) {
        self.pairs.clear();
        self.origins.clear();
        self.before.clear();
        self.marks.clear();
        self.bad.clear();
        self.skipped = 0;
        self.skipped_bytes = 0;
        self.keys_made_text = 0;
    }

    /// Adds a record.
    pub fn push(&mut self, key: &str, body: &[u8], origin: Origin) {
        self.pairs.push(key, body);
        self.origins.push(origin);
    }

    /// Adds a record that was shaped, with its original text. Use this for all records of a batch, or for none.
    pub fn push_shaped(&mut self, key: &str, body: &[u8], origin: Origin, before: &[u8]) {
        self.push(key, body, origin);
        self.before.push("", before);
    }

    /// Marks the record that was added last.
    pub(crate) fn mark(&mut self, mark: Mark) {
        if mark != Mark::default() {
            self.marks.resize(self.len(), Mark::default());
            self.marks[self.origins.len() - 1] = mark;
        }
    }

    /// Gives the record that was added last the expiry that it has in the source, unless its mark already has one.
    pub(crate) fn expire_last(&mut self, at: Timestamp) {
        let Some(last) = self.len().checked_sub(1) else { return };
        let mark = self.mark_of(last);
        self.mark(Mark { expiry: mark.expiry.or(Some(Expiry::AsThere(at))), ..mark });
    }

    /// The mark of a record.
    pub(crate) fn mark_of(&self, position: usize) -> Mark {
        self.marks.get(position).copied().unwrap_or_default()
    }

    /// Counts a record of `bytes` bytes that was dropped, as requested.
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.skipped += 1;
        self.skipped_bytes += bytes;
    }

    /// Whether more records fit. Dropped records also use up room, so that no more than one batch is read before the
    /// target is polled again.
    pub(crate) fn has_room(&self, room: Room) -> bool {
        self.len() + (self.skipped as usize) < room.records && self.bytes() + self.skipped_bytes < room.bytes
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.origins.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    /// Bytes of all keys and documents.
    pub fn bytes(&self) -> usize {
        self.pairs.as_batch().total_bytes()
    }

    /// Bytes of one record's key and document.
    pub(crate) fn bytes_of(&self, position: usize) -> usize {
        self.get(position).map_or(0, |(key, body, _)| key.len() + body.len())
    }

    /// Keys and documents as a batch.
    pub fn as_batch(&self) -> Batch<'_> {
        self.pairs.as_batch()
    }

    /// Key, document and origin of one record.
    pub fn get(&self, position: usize) -> Option<(&str, &[u8], Origin)> {
        let (key, body) = self.pairs.as_batch().get(position)?;
        Some((key, body, *self.origins.get(position)?))
    }

    /// Keys, documents and origins, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8], Origin)> {
        (0..self.len()).filter_map(|position| self.get(position))
    }

    /// The record before shaping, if it was shaped.
    pub fn before(&self, position: usize) -> Option<&[u8]> {
        self.before.as_batch().get(position).map(|(_, before)| before)
    }

    /// Copies the records at these positions into another batch, which is cleared first.
    pub fn pick(&self, positions: impl Iterator<Item = usize>, into: &mut Self) {
        into.clear();
        for position in positions {
            let Some((key, body, origin)) = self.get(position) else { continue };
            match self.before(position) {
                None => into.push(key, body, origin),
                Some(before) => into.push_shaped(key, body, origin, before),
            }
            into.mark(self.mark_of(position));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at: u64) -> Origin {
        Origin { unit: 1, at }
    }

    #[test]
    fn records_come_back_with_what_they_were() {
        let mut records = Records::new();
        records.push_shaped("a", b"1", at(0), b"one");
        records.push_shaped("bb", b"22", at(9), b"");
        records.push_shaped("c", b"3", at(11), b"three");
        assert_eq!((records.len(), records.bytes()), (3, 8));
        assert_eq!(records.before(1), Some(&b""[..]));
        let mut some = Records::new();
        some.push("left over", b"x", at(1));
        records.pick([2, 0].into_iter(), &mut some);
        let all: Vec<_> = some.iter().map(|(k, b, o)| (k.to_owned(), b.to_vec(), o.at)).collect();
        assert_eq!(all, [("c".to_owned(), b"3".to_vec(), 11), ("a".to_owned(), b"1".to_vec(), 0)]);
        assert_eq!((some.before(0), some.before(1), some.before(2)), (Some(&b"three"[..]), Some(&b"one"[..]), None));
        assert_eq!(some.bytes(), 4);
    }

    #[test]
    fn marks_stay_with_their_records_and_what_is_left_out_takes_room() {
        let (mut records, mut some) = (Records::new(), Records::new());
        let gone = Mark { verb: Some(RecordOp::Delete), expiry: None };
        for (key, mark) in [("a", Mark::default()), ("b", gone), ("c", Mark::default())] {
            records.push(key, b"1", at(0));
            records.mark(mark);
        }
        records.pick([2, 1].into_iter(), &mut some);
        assert_eq!((some.mark_of(0), some.mark_of(1), records.mark_of(2)), (Mark::default(), gone, Mark::default()));
        let room = Room { records: 5, bytes: 1_000 };
        records.skip(10);
        assert!(records.has_room(room) && records.skipped == 1);
        records.skip(0);
        assert!(!records.has_room(room));
        records.clear();
        records.skip(1_000);
        assert!(!records.has_room(room) && records.is_empty() && records.mark_of(1) == Mark::default());
    }
}
