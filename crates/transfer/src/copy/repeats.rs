//! Counts records that repeat a key, in bounded memory.

use std::sync::{Mutex, PoisonError};

use storebench_documents::by_hash::{ByHash, Hashes};
use storebench_engine::store::SameKeys;
use xxhash_rust::xxh3::xxh3_64;

use crate::records::Records;

/// Most key hashes to keep: as many as fit in a hash table of 2^21 slots, about 20 MB.
pub(super) const MOST: usize = 1_835_008;

/// Counts repeated keys. The count is exact as long as all hashes fit (two keys share a 64-bit hash with probability
/// 2⁻⁶⁴). Beyond that it keeps only every second, fourth, … hash, and scales the count up: distinct sampling (P.
/// Gibbons, 2001).
pub(super) struct Repeats(Mutex<Seen>);

struct Seen {
    most: usize,
    hashes: Hashes,
    /// How often each repeated key was repeated.
    again: ByHash<u64>,
    /// Only hashes with at least this many trailing zero bits are kept.
    zeros: u32,
}

impl Repeats {
    pub(super) fn new(most: usize) -> Self {
        Self(Mutex::new(Seen { most, hashes: Hashes::default(), again: ByHash::default(), zeros: 0 }))
    }

    /// Adds the keys of a batch, except those at the positions in `but`. `same` says which keys are one.
    pub(super) fn add(&self, records: &Records, but: &[usize], same: SameKeys) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (position, (key, _, _)) in records.iter().enumerate() {
            if !but.contains(&position) {
                seen.add(xxh3_64(same.fold(key).as_bytes()));
            }
        }
    }

    /// The number of records that repeated a key, and whether it is exact.
    pub(super) fn count(&self) -> (u64, bool) {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (seen.again.values().sum::<u64>() << seen.zeros, seen.zeros == 0)
    }
}

impl Seen {
    fn add(&mut self, hash: u64) {
        if hash.trailing_zeros() < self.zeros {
            return;
        }
        if !self.hashes.insert(hash) {
            *self.again.entry(hash).or_default() += 1;
        } else if self.hashes.len() > self.most {
            self.zeros += 1;
            let zeros = self.zeros;
            self.hashes.retain(|hash| hash.trailing_zeros() >= zeros);
            self.again.retain(|hash, _| hash.trailing_zeros() >= zeros);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Origin;

    fn counted(most: usize, keys: impl Iterator<Item = u64>) -> (u64, bool) {
        let repeats = Repeats::new(most);
        let mut records = Records::new();
        for key in keys {
            records.clear();
            records.push(&format!("key {key}"), b"{}", Origin::default());
            repeats.add(&records, &[], SameKeys::Exact);
        }
        repeats.count()
    }

    #[test]
    fn keys_that_come_again_are_counted_exactly_while_all_are_held() {
        assert_eq!(counted(1_000, 0..1_000), (0, true));
        assert_eq!(counted(1_000, (0..500).chain(0..250).chain([7, 7])), (252, true));
    }

    #[test]
    fn beyond_that_they_are_estimated_in_the_same_memory() {
        let (count, exact) = counted(4_000, (0..100_000).chain(0..50_000));
        assert!(!exact && (45_000..55_000).contains(&count), "{count}");
        assert_eq!(counted(4_000, 0..100_000), (0, false));
    }

    #[test]
    fn what_was_refused_is_left_out() {
        let repeats = Repeats::new(MOST);
        let mut records = Records::new();
        ["a", "b", "a", "b"].iter().for_each(|key| records.push(key, b"{}", Origin::default()));
        repeats.add(&records, &[2], SameKeys::Exact);
        assert_eq!(repeats.count(), (1, true));
    }
}
