//! The ledger of acknowledged writes, which later reads must find.
//!
//! Each key has one writer, the worker that owns it, so its versions are totally ordered. For each written key (at
//! scale, for a seeded sample) the ledger keeps two facts in constant space: the state that the latest acknowledged
//! write left, and whether a write of unknown outcome is open. Such a key takes no further write until a read finds the
//! open write, because until then its expected state is ambiguous. A timed-out write may still be applied later, so a
//! read that does not find it settles nothing.
//!
//! - An *upsert*, *replace*, *insert* or *compare-and-swap* leaves a version. A *delete* leaves no document. A refused
//!   write leaves the earlier state. Operations whose result depends on unknown content (counters, appends, merges) and
//!   those that let documents expire leave no predictable state. Phases that keep a ledger refuse them.
//! - Documents that were loaded and never written since must be there as loaded.
//! - A [`TrialLedger`] is the ledger of a trial. Phases borrow it as one [`Ledger`] per writer.
//! - While a phase runs, a read may find any state that was current between its send and its answer: the state
//!   acknowledged last before the send, or the result of a write that was in flight then or was sent later. Writes of a
//!   key are numbered, so the state remembered at the send ([`Floor`]) takes constant space and no allocation.
//! - [`Entry::fate`] says what became of a key. [`Ledger::read`] says whether a read during the run broke an order.

mod fate;
mod guarantee;
#[cfg(test)]
mod register;
mod state;
mod trial;
mod writer;

pub use fate::{Fate, FoundAtKey};
pub use guarantee::{FaultHit, guarantee_table};
pub use state::{Entry, Key, KeyState};
pub use trial::{BYTES_PER_KEY, MAX_KEYS, TrialLedger};
pub use writer::{Floor, Ledger, Misread};

/// Versions written by phase number `phase` are above this one. Loaded documents have version 0.
pub fn first_version(phase: u64) -> u64 {
    (phase + 1) << 40
}

/// Versions that a phase writes to documents of an earlier run are above this one: the milliseconds since 2024, with
/// 4,096 versions in each. A phase that writes less than 4 million times per second therefore never repeats an earlier
/// version, and all versions stay below 2^53 until 2093. Phases below number 300 of a study that loads its documents
/// use lower versions.
pub fn version_at(unix_ms: u64) -> u64 {
    const YEAR_2024_MS: u64 = 1_704_067_200_000;
    unix_ms.saturating_sub(YEAR_2024_MS) << 12
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_phases_write_later_versions() {
        let noon = 1_795_305_600_000; // 2026-11-22
        assert!(version_at(noon) > first_version(300));
        // The versions of an hour of 4 million writes per second end before those of the next hour begin.
        assert!(version_at(noon) + 3_600 * 4_000_000 < version_at(noon + 3_600_000));
        assert!(version_at(3_881_519_999_000) < 1 << 53, "the end of 2092");
    }
}
