//! Order-independent sums over records, in buckets by key.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::hash::{Odd, Seen};

/// Number of key buckets.
pub(crate) const BUCKETS: usize = 4_096;

/// The bucket of a key.
pub(crate) fn bucket(key: &str) -> usize {
    xxh3_64(key.as_bytes()) as usize % BUCKETS
}

/// One bucket: count, sum of hashes modulo 2^128, and odd values that stores may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Bucket(u64, u128, Odd);

impl Bucket {
    fn add(&mut self, other: Self) {
        self.0 += other.0;
        self.1 = self.1.wrapping_add(other.1);
        self.2 += other.2;
    }
}

/// All buckets.
#[derive(Clone)]
pub(crate) struct Sums(Vec<Bucket>);

impl Sums {
    pub(crate) fn new() -> Self {
        Self(vec![Bucket::default(); BUCKETS])
    }

    pub(crate) fn add(&mut self, key: &str, seen: Seen) {
        self.add_to(bucket(key), Bucket(1, seen.hash, seen.odd));
    }

    /// Adds to one bucket.
    pub(crate) fn add_to(&mut self, bucket: usize, more: Bucket) {
        if let Some(bucket) = self.0.get_mut(bucket) {
            bucket.add(more);
        }
    }

    /// One bucket.
    pub(crate) fn bucket(&self, bucket: usize) -> Bucket {
        self.0[bucket]
    }

    /// Number of records in all buckets.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|bucket| bucket.0).sum()
    }

    /// Buckets in which the two sides differ.
    pub(crate) fn unequal(&self, other: &Self) -> Vec<usize> {
        (0..BUCKETS).filter(|bucket| !self.equals(other, *bucket)).collect()
    }

    fn equals(&self, other: &Self, bucket: usize) -> bool {
        let (Bucket(count, sum, _), Bucket(others, others_sum, _)) = (&self.0[bucket], &other.0[bucket]);
        (count, sum) == (others, others_sum)
    }

    /// The odd values that the target changed, in buckets that are otherwise equal.
    pub(crate) fn changed(&self, found: &Self) -> Odd {
        let mut changed = Odd::default();
        (0..BUCKETS).filter(|bucket| self.equals(found, *bucket)).for_each(|bucket| {
            changed += self.0[bucket].2.lost(found.0[bucket].2);
        });
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(hash: u128) -> Seen {
        Seen { hash, odd: Odd::default() }
    }

    #[test]
    fn order_does_not_count_and_every_record_does() {
        let keys: Vec<String> = (0..10_000).map(|n| format!("key {n}")).collect();
        let (mut forth, mut back) = (Sums::new(), Sums::new());
        keys.iter().for_each(|key| forth.add(key, seen(7)));
        keys.iter().rev().for_each(|key| back.add(key, seen(7)));
        assert!(forth.unequal(&back).is_empty());
        back.add("key 0", seen(u128::MAX));
        assert_eq!(forth.unequal(&back), [bucket("key 0")]);
        assert_eq!((forth.count(), back.count()), (10_000, 10_001));
        let filled = (0..BUCKETS).filter(|b| keys.iter().any(|key| bucket(key) == *b)).count();
        assert!(filled > BUCKETS * 8 / 10, "{filled}");
    }
}
