//! The possible states of a key.

use std::fmt;
use std::num::NonZeroU64;

/// Identifies a document: position of its collection, and index in it.
pub type Key = (usize, u64);

/// The state of a key: one version of the document, or no document. It takes eight bytes, also in an `Option`, because
/// each entry holds several.
///
/// Every write has a number, and later writes of a key have greater numbers. A version is the number of the write that
/// left it. A key without a document holds the number of the delete that removed it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyState(NonZeroU64);

/// The greatest number.
const MOST: u64 = 1 << 53;

impl KeyState {
    /// Unknown: whatever was there before the run.
    pub const UNKNOWN: Self = Self(NonZeroU64::MAX);
    /// No document, and there never was one.
    pub const ABSENT: Self = Self(NonZeroU64::new(2).unwrap());

    const fn of(number: u64, absent: u64) -> Self {
        let number = if number > MOST { MOST } else { number };
        // `saturating_add` shows the compiler that the value is above 0.
        Self(NonZeroU64::MIN.saturating_add(number << 1 | absent))
    }

    /// This version of the document. Numbers above 2^53 are clamped.
    pub const fn version(version: u64) -> Self {
        Self::of(version, 0)
    }

    /// No document, since the delete with this number. Numbers above 2^53 are clamped.
    pub const fn removed(number: u64) -> Self {
        Self::of(number, 1)
    }

    /// The version, if there is a document and its version is known.
    pub fn as_version(self) -> Option<u64> {
        if self == Self::UNKNOWN || self.is_absent() { None } else { Some(self.number()) }
    }

    /// Whether there is no document.
    pub fn is_absent(self) -> bool {
        self != Self::UNKNOWN && (self.0.get() - 1) & 1 == 1
    }

    /// Number of the write that left this state. Meaningless for [`Self::UNKNOWN`].
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
            (Self::UNKNOWN, _) => f.write_str("an unknown earlier state"),
            (_, None) => f.write_str("no document"),
            (_, Some(version)) => write!(f, "version {version}"),
        }
    }
}

/// What is known about one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The state that the latest acknowledged write left, or the state before the first write.
    pub acknowledged: KeyState,
    /// The state that an unsettled write leaves: a write in flight or of unknown outcome. There is at most one, because
    /// the key takes no further write until it is settled.
    pub open: Option<KeyState>,
    /// The greatest version that a read has found; 0 if none.
    pub seen: u64,
    /// Deletes of this key that were sent and not refused.
    pub(super) deletes: u32,
    /// The number of faults when it was last written.
    pub(super) written: u32,
    /// The number of faults when it was last found in its expected state.
    pub(super) verified: u32,
    /// Whether the open write is still in flight: its answer says more than any read.
    pub(super) pending: bool,
    /// Whether a read has found the state that the open write leaves.
    pub(super) observed: bool,
}

impl Entry {
    pub(super) fn of(acknowledged: KeyState) -> Self {
        Self { acknowledged, open: None, seen: 0, deletes: 0, written: 0, verified: 0, pending: false, observed: false }
    }

    /// Whether a delete of this key is open.
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
