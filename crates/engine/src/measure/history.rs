//! The operations on documents that a consistency check follows, as their workers saw them.

/// What an operation found at a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// No document.
    Nothing,
    /// This version.
    Version(u64),
    /// A document that is no version of this one.
    Foreign,
}

/// What an operation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    /// Found this.
    Read(Content),
    /// Wrote this version.
    Wrote(u64),
    /// Removed the document.
    Deleted,
    /// Replaced the first version, which it had read, with the second.
    Swapped(u64, u64),
}

/// An operation on a document that is followed. Operations that certainly did nothing are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryOperation {
    /// Position of the collection in the study.
    pub collection: u32,
    /// The connection, counted over all workers.
    pub client: u32,
    /// Index of the document.
    pub index: u64,
    /// When it was sent, in ns since the phase began.
    pub sent_ns: u64,
    /// When it was answered, in ns since the phase began. `None` if its outcome is unknown.
    pub answered_ns: Option<u64>,
    /// What it did.
    pub did: Did,
}

/// What the workers of a phase saw of the documents that are followed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HistoryRecord {
    /// In no order.
    pub operations: Vec<HistoryOperation>,
    /// Versions that the phase wrote are above this one.
    pub versions_above: u64,
    /// By position of the collection: whether all of its documents existed when the phase began.
    pub complete: Vec<bool>,
    /// How many writes of earlier phases may take effect during this one, because their outcome is unknown.
    pub unsettled: u64,
    /// How many of them remove documents.
    pub late_deletes: u64,
    /// Whether there were more operations than are kept. The others are missing, so nothing can be decided.
    pub overflowed: bool,
}
