//! What can be at a key.

use std::fmt;
use std::num::NonZeroU64;

/// A document: position of its collection, and index.
pub type Key = (usize, u64);

/// What is at a key: one version of the document, or none. Eight bytes, also in an `Option`, since there are several for each
/// key.
///
/// Every write has a number, and a later write of a key has a greater one. A version is the number of the write that left it;
/// a key without a document knows the number of the delete that left it so.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyState(NonZeroU64);

/// Numbers are at most 2^53.
const MOST: u64 = 1 << 53;

impl KeyState {
    /// Nobody here knows: it was there before the run.
    pub const UNKNOWN: Self = Self(NonZeroU64::MAX);
    /// No document, and none was ever there.
    pub const ABSENT: Self = Self(NonZeroU64::new(2).unwrap());

    const fn of(number: u64, absent: u64) -> Self {
        let number = if number > MOST { MOST } else { number };
        // Above 0: `saturating_add` says so to the compiler.
        Self(NonZeroU64::MIN.saturating_add(number << 1 | absent))
    }

    /// This version of the document; at most 2^53.
    pub const fn version(version: u64) -> Self {
        Self::of(version, 0)
    }

    /// No document, since the delete of this number; at most 2^53.
    pub const fn removed(number: u64) -> Self {
        Self::of(number, 1)
    }

    /// The version, where there is a document and it is known which.
    pub fn as_version(self) -> Option<u64> {
        if self == Self::UNKNOWN || self.is_absent() { None } else { Some(self.number()) }
    }

    /// Whether there is no document.
    pub fn is_absent(self) -> bool {
        self != Self::UNKNOWN && (self.0.get() - 1) & 1 == 1
    }

    /// Number of the write that left it. Of the unknown it has no meaning.
    pub fn number(self) -> u64 {
        (self.0.get() - 1) >> 1
    }
}

impl fmt::Debug for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self, self.as_version()) {
            (Self::UNKNOWN, _) => f.write_str("what was there before"),
            (_, None) => f.write_str("no document"),
            (_, Some(version)) => write!(f, "version {version}"),
        }
    }
}

/// What is known of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// What the latest acknowledged write left, or what was there before the first.
    pub acknowledged: KeyState,
    /// What a write leaves that is under way, or of which nobody knows whether it was done. There is one at most: the key
    /// takes no further write until it is settled.
    pub open: Option<KeyState>,
    /// The greatest version that a read has found; 0 where none was read.
    pub seen: u64,
    /// Deletes of it that were sent and not refused.
    pub(super) deletes: u32,
    /// Faults that had happened when it was written last.
    pub(super) written: u32,
    /// Faults that had happened when it was last found as it must be.
    pub(super) verified: u32,
    /// Whether the open write is still under way: its answer tells more than any read.
    pub(super) pending: bool,
    /// Whether a read has found what the open write leaves.
    pub(super) observed: bool,
}

impl Entry {
    pub(super) fn of(acknowledged: KeyState) -> Self {
        Self { acknowledged, open: None, seen: 0, deletes: 0, written: 0, verified: 0, pending: false, observed: false }
    }

    /// Whether a delete of it is open.
    pub(super) fn deleting(&self) -> bool {
        self.open.is_some_and(KeyState::is_absent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_deletes_are_told_apart_and_numbered() {
        for number in [0, 1, 7, 1 << 40, 1 << 53] {
            let (version, removed) = (KeyState::version(number), KeyState::removed(number));
            assert_eq!((version.as_version(), version.is_absent(), version.number()), (Some(number), false, number));
            assert_eq!((removed.as_version(), removed.is_absent(), removed.number()), (None, true, number));
            assert!(version != KeyState::UNKNOWN && removed != KeyState::UNKNOWN && version != removed);
        }
        assert_eq!(KeyState::ABSENT, KeyState::removed(0));
        assert_eq!((KeyState::UNKNOWN.as_version(), KeyState::UNKNOWN.is_absent()), (None, false));
        assert!(size_of::<Entry>() <= 40, "a million of them are kept");
    }
}
