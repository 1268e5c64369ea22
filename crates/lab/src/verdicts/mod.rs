//! What a result is worth: named checks over the data of a run.
//!
//! Each check is a pure function of the [result](crate::results::RunResult), so verdicts can be had
//! again from a run folder. `docs/verdicts.md` says what each one sees, and what to do.

mod client;
mod design;
mod judge;
mod model;
mod outcome;
mod payload;
mod queries;
mod schedule;
#[cfg(test)]
mod tests;

pub use judge::{exit_code, judge};
pub use model::{Level, Verdict};
