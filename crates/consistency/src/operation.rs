//! An operation on a key.

/// A value that a write gave to a key, as a number. No two writes of a key have the same one.
pub type Value = u32;

/// No value: the key does not exist.
pub const ABSENT: Value = 0;

/// The time of an answer that never came.
pub const UNKNOWN: u64 = u64::MAX;

/// The client of operations that were sent before the history began.
pub const EARLIER: u32 = u32::MAX;

/// What an operation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Returned this value.
    Read(Value),
    /// Wrote this value.
    Write(Value),
    /// Removed the value, if there was one.
    Delete,
    /// Replaced the first value with the second. [`ABSENT`] as the first: created it.
    Swap(Value, Value),
    /// Did not replace this value, because the key held another one.
    Differs(Value),
}

impl Action {
    /// The value that the key holds afterwards, if it changes that.
    pub fn leaves(self) -> Option<Value> {
        match self {
            Self::Write(value) | Self::Swap(_, value) => Some(value),
            Self::Delete => Some(ABSENT),
            Self::Read(_) | Self::Differs(_) => None,
        }
    }

    /// Whether it can take effect on a key that holds this value.
    pub(crate) fn fits(self, value: Value) -> bool {
        match self {
            Self::Read(read) | Self::Swap(read, _) => read == value,
            Self::Differs(other) => other != value,
            Self::Write(_) | Self::Delete => true,
        }
    }

    /// The value that it saw, if it tells.
    pub(crate) fn saw(self) -> Option<Value> {
        match self {
            Self::Read(value) | Self::Swap(value, _) => Some(value),
            _ => None,
        }
    }
}

/// An operation, as its client saw it. Operations that certainly did nothing, and reads without an answer, are not
/// part of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// When the client sent it, in ns.
    pub sent_ns: u64,
    /// When the client had the answer, in ns. [`UNKNOWN`] if it never came: the operation may take effect at any later
    /// time, or never.
    pub answered_ns: u64,
    /// What it did.
    pub action: Action,
    /// The client, which sends one operation after another.
    pub client: u32,
}
