//! What a result is worth: named checks over the data of a run.
//!
//! Each check is a pure function of the [result](crate::RunResult), so checks can be had
//! again from a run folder. Each has a file of its own under `checks`; [`page`] says what every one sees, and
//! what to do.

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

pub use checks::page;
pub use grouped::{FoundAt, Grouped, grouped};
pub(crate) use guarantee::{allowed, lost_writes};
pub use judge::{exit_code, judge, spoiled};
pub use model::{CheckResult, Severity};

/// What a check means for the result where it does not pass, in a few plain words.
pub(crate) fn in_short(check: &str) -> Option<&'static str> {
    checks::CHECKS.iter().find(|known| known.name == check).map(|known| known.short)
}

/// Whether the answer of a run itself hangs on a check, and not only how exact it is.
pub(crate) fn is_of_the_answer(check: &str) -> bool {
    checks::CHECKS.iter().any(|known| known.name == check && known.of_the_answer)
}
