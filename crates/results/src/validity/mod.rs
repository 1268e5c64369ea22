//! Validity checks: whether the figures of a run measure the store.
//!
//! Each check is a pure function of the [result](crate::RunResult), so checks can be recomputed from a run folder. Each
//! has its own file under `checks`. [`page`] says what each of them observes, and what to do.

mod check;
mod checks;
mod grouped;
mod guarantee;
mod judge;
mod lost;
mod memory;
mod model;
#[cfg(test)]
mod testing;
mod unlike;

pub(crate) use checks::answered;
pub use checks::page;
pub use grouped::{FoundAt, Grouped, grouped};
pub(crate) use guarantee::{forbidden, ledger_allowed, lost_writes, unread};
pub use judge::{PREPARE, data_trouble, exit_code, judge, spoiled};
pub use model::{CheckResult, Severity};

/// What a check means for the result if it does not pass, in a few plain words.
pub(crate) fn in_short(check: &str) -> Option<&'static str> {
    checks::CHECKS.iter().find(|known| known.name == check).map(|known| known.short)
}

/// The place of a check in the order of all checks, of which the worst come first. Checks of other versions come last.
pub(crate) fn rank(check: &str) -> usize {
    checks::CHECKS.iter().position(|known| known.name == check).unwrap_or(usize::MAX)
}

/// Whether the answer of a run itself depends on a check, not only its accuracy.
pub(crate) fn is_of_the_answer(check: &str) -> bool {
    checks::CHECKS.iter().any(|known| known.name == check && known.of_the_answer)
}
