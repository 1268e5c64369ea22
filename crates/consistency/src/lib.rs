//! Whether what the clients of a store saw can be explained by some order of their operations.
//!
//! Each key is a register: it holds a value or nothing. Operations read it, write it, delete it, or replace a value that
//! they expect (compare-and-swap). Each has a time at which the client sent it and one at which the client had the answer
//! ([`Operation`]). No two writes of a key write the same value.
//!
//! - [`judge`] decides whether the operations of a key are *linearizable* (Herlihy and Wing 1990): whether each can have
//!   taken effect at one moment between its send and its answer. A write without an answer may have taken effect at any
//!   moment after its send, or never. The answer is yes, no with a short sequence that no order explains, or undecided if
//!   the search exceeds its budget; it is never a guess.
//! - [`staleness`] says how far reads were behind, for stores that promise less: in versions, and in time. It also says
//!   whether each client read its own writes, and never went back (monotonic reads).
//! - [`History`] reads and writes operations as JSON lines, judges all keys, and writes the form that Jepsen's tools read.
//!
//! Times are in ns from any moment that all clients share. An operation that begins when another ends counts as
//! concurrent with it.

mod history;
mod operation;
mod orders;
mod report;
mod shortest;
mod stale;
#[cfg(test)]
mod tests;
mod zones;

pub use history::{History, HistoryError};
pub use operation::{ABSENT, Action, EARLIER, Operation, UNKNOWN, Value};
pub use report::{BrokenKey, Report, Step};
pub use stale::{Staleness, staleness};

/// The outcome for one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Some order explains everything.
    Linearizable,
    /// No order does. The positions of a short sequence that no order explains: without any one of its reads, the others
    /// are explained.
    Broken(Vec<usize>),
    /// The search exceeded its budget, or more than 128 operations were pending at once.
    Undecided,
}

/// The budget of [`judge`] for each operation of a key: how many orders may be tried.
pub const BUDGET: usize = 1_000;

/// Whether the operations of one key, which holds `initial` at first, are linearizable. They may be in any order.
/// `budget` is the number of orders that may be tried for each operation; see [`BUDGET`].
pub fn judge(operations: &[Operation], initial: Value, budget: usize) -> Verdict {
    match explained(operations, initial, budget) {
        Some(true) => Verdict::Linearizable,
        Some(false) => Verdict::Broken(shortest::shortest(operations, initial, budget)),
        // What is too much for the search may still have a short proof.
        None => stale::proof(operations, initial).map_or(Verdict::Undecided, Verdict::Broken),
    }
}

/// Whether some order explains the operations. `None` if that is undecided.
fn explained(operations: &[Operation], initial: Value, budget: usize) -> Option<bool> {
    // Without deletes and compare-and-swaps, every read names its write, and time alone decides.
    let named = operations.iter().all(|of| matches!(of.action, Action::Read(_) | Action::Write(_)));
    if named { Some(zones::explained(operations, initial)) } else { orders::explained(operations, initial, budget) }
}
