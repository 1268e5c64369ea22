//! What can be at a key.

use std::fmt;

/// A document: position of its collection, and index.
pub type Key = (usize, u64);

/// What is at a key: no document, or one version of the document. Eight bytes, since there is one for each key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct State(u64);

impl State {
    /// Nobody here knows: it was there before the run.
    pub const UNKNOWN: Self = Self(u64::MAX);
    /// No document.
    pub const ABSENT: Self = Self(0);

    /// This version of the document; at most 2^53.
    pub fn version(version: u64) -> Self {
        Self(version.saturating_add(1).min(u64::MAX - 1))
    }

    /// The version, where there is a document and it is known which.
    pub fn as_version(self) -> Option<u64> {
        if self == Self::UNKNOWN { None } else { self.0.checked_sub(1) }
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for State {
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
    pub acknowledged: State,
    /// What a write leaves that is under way, or of which nobody knows whether it was done. There is one at most: the key
    /// takes no further write until it is settled.
    pub open: Option<State>,
    /// Whether that write is still under way: its answer tells more than any read.
    pub(super) pending: bool,
    /// The greatest version that a read has found; 0 where none was read.
    pub seen: u64,
    /// Faults that had happened when it was written last.
    pub(super) written: u32,
    /// Faults that had happened when it was last found as it must be.
    pub(super) verified: u32,
}

impl Entry {
    pub(super) fn of(acknowledged: State) -> Self {
        Self { acknowledged, open: None, pending: false, seen: 0, written: 0, verified: 0 }
    }
}
