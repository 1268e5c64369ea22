//! What was acknowledged, and so must be found again.
//!
//! Each key has one writer, the worker that owns it, so its versions have one order. For each key written (or for a seeded
//! sample of them, at scale) the ledger keeps, in constant space, what the latest acknowledged write left and whether a write
//! of unknown outcome stands above it. Such a key takes no further write until a read has found that one: until then nobody
//! could say what must be there. What time-outs leave may still be done later, so a read that does not find it settles
//! nothing.
//!
//! - An *upsert*, *replace*, *insert* or *compare-and-swap* leaves a version; a *delete* leaves no document; what was refused
//!   leaves what was there. Operations that add to what they do not know (counters, appends, merges) and those that let
//!   documents expire leave nothing that could be told, and are refused in phases that keep a ledger.
//! - Documents that were loaded and never written since must be there as loaded.
//! - A [`Book`] is the ledger of a trial; phases borrow it, a [`Ledger`] for each writer.
//! - While a phase runs, a read is judged by every state that was current between its send and its answer: that which was
//!   acknowledged last before the send, and what writes left that were under way or sent since. Writes of a key are numbered,
//!   so what was remembered at the send ([`Floor`]) takes constant space and no memory of its own.
//! - [`Entry::fate`] says what became of a key, [`Ledger::read`] whether a read during the run broke an order.

mod book;
mod fate;
mod guarantee;
#[cfg(test)]
mod register;
mod state;
mod writer;

pub use book::{BYTES_PER_KEY, Book, MAX_KEYS};
pub use fate::{Fate, FoundAtKey};
pub use guarantee::{Struck, guarantee_table};
pub use state::{Entry, Key, KeyState};
pub use writer::{Floor, Ledger, Misread};

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
}
