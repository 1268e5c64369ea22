//! Records on their way from a source to a target.

use storebench_core::store::{Batch, BatchBuf};

/// Where a record came from: stable over repeated reads of an unchanged source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Origin {
    /// Number of the file, from 0; of the split, where the source is a store.
    pub unit: u32,
    /// Byte offset in the (unpacked) file; position in the split, from 0, where the source is a store.
    pub at: u64,
}

/// A batch of records: keys, documents, and where each came from. Cleared and filled again, it costs no
/// allocation once its buffers have grown.
#[derive(Debug, Clone, Default)]
pub struct Records {
    pairs: BatchBuf,
    origins: Vec<Origin>,
    bytes: usize,
    /// What the records were before they were shaped; empty where they are as they came.
    before: Vec<u8>,
    before_ends: Vec<usize>,
}

impl Records {
    /// Empty buffers.
    pub const fn new() -> Self {
        Self { pairs: BatchBuf::new(), origins: Vec::new(), bytes: 0, before: Vec::new(), before_ends: Vec::new() }
    }

    /// Forgets the records, keeps the memory.
    pub fn clear(&mut self) {
        self.pairs.clear();
        self.origins.clear();
        self.before.clear();
        self.before_ends.clear();
        self.bytes = 0;
    }

    /// Adds a record.
    pub fn push(&mut self, key: &str, body: &[u8], origin: Origin) {
        self.pairs.push(key, body);
        self.bytes += key.len() + body.len();
        self.origins.push(origin);
    }

    /// Adds a record that was another before it was shaped. Either all records of a batch are added so, or
    /// none.
    pub fn push_shaped(&mut self, key: &str, body: &[u8], origin: Origin, before: &[u8]) {
        self.push(key, body, origin);
        self.before.extend_from_slice(before);
        self.before_ends.push(self.before.len());
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.origins.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    /// Bytes of keys and documents.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keys and documents.
    pub fn as_batch(&self) -> Batch<'_> {
        self.pairs.as_batch()
    }

    /// Key, document and origin of a record.
    pub fn get(&self, position: usize) -> Option<(&str, &[u8], Origin)> {
        let (key, body) = self.pairs.as_batch().get(position)?;
        Some((key, body, *self.origins.get(position)?))
    }

    /// Keys, documents and origins, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8], Origin)> {
        (0..self.len()).filter_map(|position| self.get(position))
    }

    /// The record as it came, where it was shaped.
    pub fn before(&self, position: usize) -> Option<&[u8]> {
        let end = *self.before_ends.get(position)?;
        let start = if position == 0 { 0 } else { self.before_ends[position - 1] };
        Some(&self.before[start..end])
    }

    /// Moves some of the records, by position, into an empty batch.
    pub fn pick(&self, positions: impl Iterator<Item = usize>, into: &mut Self) {
        into.clear();
        for position in positions {
            let Some((key, body, origin)) = self.get(position) else { continue };
            match self.before(position) {
                None => into.push(key, body, origin),
                Some(before) => into.push_shaped(key, body, origin, before),
            }
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
}
