//! What was acknowledged, and so must be found again.
//!
//! Each key has one writer, the worker that owns it, so its versions have one order. The ledger
//! keeps, for each key written (or for a seeded sample of them, at scale), the latest acknowledged
//! version and whether a write of unknown outcome stands above it. Such a key takes no further
//! write: until a read has settled it nobody could say which version must be there.

use std::collections::HashMap;

use crate::keys::mix64;

/// A document: position of its collection, and index.
pub type Key = (usize, u64);

/// Keys that one worker's ledger keeps at most: beyond, a seeded sample of the key space is kept.
pub const MAX_KEYS: u64 = 1 << 20;

/// What is known of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Entry {
    /// Latest version that was acknowledged; 0 if none was (the document as loaded).
    pub acknowledged: u64,
    /// Latest version that was sent.
    pub sent: u64,
    /// Whether the outcome of `sent` is not known (yet).
    pub open: bool,
}

/// One worker's ledger.
#[derive(Debug, Clone)]
pub struct Ledger {
    entries: HashMap<Key, Entry>,
    seed: u64,
    /// Keys whose hash is at or below it are kept.
    sample: u64,
    /// Versions given to keys that are not followed.
    others: u64,
}

impl Ledger {
    /// An empty ledger for a study of so many documents.
    pub fn new(seed: u64, documents: u64) -> Self {
        let sample = if documents <= MAX_KEYS {
            u64::MAX
        } else {
            (u64::MAX as f64 * (MAX_KEYS as f64 / documents as f64)) as u64
        };
        Self { entries: HashMap::new(), seed, sample, others: 0 }
    }

    /// Whether this key is followed.
    pub fn keeps(&self, key: Key) -> bool {
        mix64(mix64(self.seed, key.0 as u64), key.1) <= self.sample
    }

    /// Whether a write of this key is under way or has an unknown outcome.
    pub fn is_open(&self, key: Key) -> bool {
        self.entries.get(&key).is_some_and(|e| e.open)
    }

    /// The version that the next write of this key carries, above `above`; marks it sent.
    /// A key that is not followed gets a fresh version all the same.
    pub fn next_version(&mut self, key: Key, above: u64) -> u64 {
        if !self.keeps(key) {
            self.others += 1;
            return above + self.others;
        }
        let entry = self.entries.entry(key).or_default();
        entry.sent = entry.sent.max(above) + 1;
        entry.open = true;
        entry.sent
    }

    /// The write of this version was acknowledged.
    pub fn acknowledged(&mut self, key: Key, version: u64) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.acknowledged = entry.acknowledged.max(version);
            entry.open = entry.open && entry.sent != version;
        }
    }

    /// The write of this version was certainly not done.
    pub fn refused(&mut self, key: Key, version: u64) {
        if let Some(entry) = self.entries.get_mut(&key)
            && entry.sent == version
        {
            entry.open = false;
        }
    }

    /// A read has found this version: an open write of it was done, or one above it was not.
    pub fn settled(&mut self, key: Key, found: u64) {
        if let Some(entry) = self.entries.get_mut(&key)
            && entry.open
        {
            if found == entry.sent {
                entry.acknowledged = found;
            }
            entry.open = false;
        }
    }

    /// Every key that is followed and was written, with what is known of it.
    pub fn entries(&self) -> impl Iterator<Item = (Key, Entry)> + '_ {
        self.entries.iter().map(|(key, entry)| (*key, *entry))
    }
}

/// Versions that phase number `phase` writes are above this one. Documents as loaded have version 0.
pub fn first_version(phase: u64) -> u64 {
    (phase + 1) << 40
}

/// Versions that a phase writes on documents that an earlier run left are above this one: the
/// milliseconds since 2024, with 4,096 versions in each. So a phase that writes less than 4 million
/// times a second never repeats a version of an earlier one, and all versions stay below 2^53 until 2093.
/// Phases below the 300th of a study that loads its documents lie below.
pub fn version_at(unix_ms: u64) -> u64 {
    const YEAR_2024_MS: u64 = 1_704_067_200_000;
    unix_ms.saturating_sub(YEAR_2024_MS) << 12
}

impl Entry {
    /// Whether a version that was found is one that may be there.
    pub fn allows(self, found: u64) -> bool {
        // Nothing was acknowledged in this phase: what was there before it is not known here.
        let before = self.acknowledged == 0 && found != self.sent;
        before || found == self.acknowledged || (self.open && found == self.sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_phases_write_later_versions() {
        let noon = 1_795_305_600_000; // 2026-11-22
        assert!(version_at(noon) > first_version(300));
        // An hour at 4 million writes a second ends before the next version.
        assert!(version_at(noon) + 3_600 * 4_000_000 < version_at(noon + 3_600_000));
        assert!(version_at(3_881_519_999_000) < 1 << 53, "the end of 2092");
    }

    #[test]
    fn an_acknowledged_version_must_be_found() {
        let mut ledger = Ledger::new(1, 10);
        let key = (0, 7);
        let first = ledger.next_version(key, first_version(0));
        assert!(ledger.is_open(key));
        ledger.acknowledged(key, first);
        let entry = ledger.entries().next().unwrap().1;
        assert!(entry.allows(first) && !entry.allows(0));
        let second = ledger.next_version(key, first_version(0));
        assert!(second > first);
        ledger.refused(key, second);
        let entry = ledger.entries().next().unwrap().1;
        assert!(entry.allows(first) && !entry.allows(second));
    }

    #[test]
    fn an_open_outcome_allows_both() {
        let mut ledger = Ledger::new(1, 10);
        let key = (0, 7);
        let first = ledger.next_version(key, first_version(0));
        ledger.acknowledged(key, first);
        let second = ledger.next_version(key, first_version(0));
        let entry = ledger.entries().next().unwrap().1;
        assert!(entry.allows(first) && entry.allows(second) && !entry.allows(0));
        ledger.settled(key, first);
        assert!(!ledger.is_open(key));
        assert!(!ledger.entries().next().unwrap().1.allows(second));
    }

    #[test]
    fn at_scale_a_sample_is_kept() {
        let ledger = Ledger::new(1, MAX_KEYS * 100);
        let kept = (0..100_000).filter(|i| ledger.keeps((0, *i))).count();
        assert!((800..1_200).contains(&kept), "{kept}");
    }
}
