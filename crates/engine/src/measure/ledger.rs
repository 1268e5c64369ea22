//! What the ledger found during a phase, and when it read everything back.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ledger::Fate;

/// The most documents of a collection to read back that were loaded and never written. They are spread over the
/// collection.
pub const READ_BACK_OF_A_COLLECTION: u64 = 100_000;

/// What the ledger found when it read acknowledged writes back.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LedgerReport {
    /// Keys read back: followed keys that were written since the trial began, and keys that were loaded and never
    /// written (at most a sample of these).
    pub keys: u64,
    /// In an allowed state: the one acknowledged last, or the one that a write of unknown outcome left.
    pub confirmed: u64,
    /// In a wrong state: the sum of `gone`, `stale`, `torn`, `resurrected` and `never_written`. Losses that the
    /// guaranteed durability allows are included.
    pub lost: u64,
    /// Could not be read, because the store did not answer.
    pub unverifiable: u64,
    /// Examples of lost and unverifiable keys.
    pub examples: Vec<String>,
    /// Of `keys`: loaded, and never written since.
    pub loaded: u64,
    /// Share of all keys that is followed, 0 to 1.
    pub share: f64,
    /// Of `confirmed`: a write of unknown outcome was applied.
    pub happened: u64,
    /// Of `confirmed`: a write of unknown outcome was not applied.
    pub not_happened: u64,
    /// Of `lost`: a document was acknowledged but is missing.
    pub gone: u64,
    /// Of `lost`: an older version than the acknowledged one.
    pub stale: u64,
    /// Of `lost`: torn, foreign or changed content.
    pub torn: u64,
    /// Of `lost`: deleted but still there.
    pub resurrected: u64,
    /// Of `lost`: never written or refused, but present.
    pub never_written: u64,
    /// What reads of followed keys found while the phase ran.
    pub reads: LedgerReads,
}

/// What reads of followed keys found while a phase ran.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LedgerReads {
    /// Reads that had to find a known version or a later one.
    pub followed: u64,
    /// Of these: missed a write that had been acknowledged to the same client before the read was sent.
    pub stale: u64,
    /// Of these: found an older version than an earlier read of the same client.
    pub backwards: u64,
    /// Of `stale` and `backwards`: on keys whose latest write precedes a fault.
    pub after_fault: u64,
    /// Examples of stale and backwards reads.
    pub examples: Vec<String>,
}

impl LedgerReport {
    /// Keys that were not read back: the store did not answer, or reading back was interrupted.
    pub fn unread(&self) -> u64 {
        self.keys.saturating_sub(self.confirmed + self.lost).max(self.unverifiable)
    }

    /// Keys that were read back.
    pub fn read_back(&self) -> u64 {
        self.keys.saturating_sub(self.unread())
    }

    /// Counts a key that was read back.
    pub fn count(&mut self, fate: Fate) {
        match fate {
            Fate::Kept => {}
            Fate::Happened => self.happened += 1,
            Fate::NotHappened => self.not_happened += 1,
            Fate::Lost => self.gone += 1,
            Fate::Stale => self.stale += 1,
            Fate::Torn => self.torn += 1,
            Fate::Resurrected => self.resurrected += 1,
            Fate::NeverWritten => self.never_written += 1,
            Fate::Unknown => return,
        }
        *(if fate.is_broken() { &mut self.lost } else { &mut self.confirmed }) += 1;
        self.keys += 1;
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
