//! What the ledger found, during a phase and when it read everything back.

use crate::ledger::Fate;

/// What became of what was acknowledged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LedgerReport {
    /// Keys that were read back: those that were written since the trial began and are followed, and those that were loaded
    /// and never written (at most a sample of them).
    pub keys: u64,
    /// Of them: loaded, and never written since.
    pub loaded: u64,
    /// Share of all keys that is followed, 0 to 1.
    pub share: f64,
    /// What was acknowledged last is there.
    pub kept: u64,
    /// A write of unknown outcome was done after all.
    pub happened: u64,
    /// A write of unknown outcome was not done.
    pub not_happened: u64,
    /// A document was acknowledged, and there is none.
    pub lost: u64,
    /// An older version than the acknowledged one.
    pub stale: u64,
    /// Torn, foreign or changed content.
    pub torn: u64,
    /// Deleted, and yet there.
    pub resurrected: u64,
    /// Never written or refused, and yet there.
    pub never_written: u64,
    /// Could not be read.
    pub unreadable: u64,
    /// Some of those that are not as they should be, by key.
    pub examples: Vec<String>,
    /// What reads found during the phase.
    pub reads: LedgerReads,
}

/// What reads of followed keys found during the phase.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerReads {
    /// Reads that had to find a version that is known, or a later one.
    pub followed: u64,
    /// Of them: did not find what had been acknowledged before they were sent.
    pub stale: u64,
    /// Of them: found an older version than an earlier read had.
    pub backwards: u64,
    /// Of both: after a fault that may have taken what was acknowledged or read.
    pub after_fault: u64,
    /// Some of both.
    pub examples: Vec<String>,
}

impl LedgerReport {
    /// Counts a key that was read.
    pub fn count(&mut self, fate: Fate) {
        let of = match fate {
            Fate::Kept => &mut self.kept,
            Fate::Happened => &mut self.happened,
            Fate::NotHappened => &mut self.not_happened,
            Fate::Lost => &mut self.lost,
            Fate::Stale => &mut self.stale,
            Fate::Torn => &mut self.torn,
            Fate::Resurrected => &mut self.resurrected,
            Fate::NeverWritten => &mut self.never_written,
            Fate::Unknown => return,
        };
        *of += 1;
        self.keys += 1;
    }

    /// Keys that are not as they must be, of those that could be read.
    pub fn broken(&self) -> u64 {
        self.lost + self.stale + self.torn + self.resurrected + self.never_written
    }

    /// Keys that are as they may be.
    pub fn confirmed(&self) -> u64 {
        self.kept + self.happened + self.not_happened
    }
}

impl LedgerReads {
    /// Adds what another worker's reads found.
    pub fn add(&mut self, other: Self) {
        self.followed += other.followed;
        self.stale += other.stale;
        self.backwards += other.backwards;
        self.after_fault += other.after_fault;
        self.examples.extend(other.examples);
    }
}
