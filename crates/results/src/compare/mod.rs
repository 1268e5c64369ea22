//! Comparison of runs: each figure of two configurations, their ratio with its interval, and how certain it is.
//!
//! A pure function of run folders. Configurations of one run are paired by round. Two sides of several runs each are
//! compared by run, because runs differ by more than their trials show. Runs with different work are refused.
//! `docs/compare.md` explains each word.

mod baseline;
mod error;
pub mod format;
mod gate;
mod known;
mod markdown;
mod model;
mod pairs;
mod sides;
#[cfg(test)]
mod tests;
mod text;

pub use crate::comparability::{Difference, DifferenceKind};
pub use baseline::{Keep, Saved, save_baseline};
pub use error::CompareError;
pub use gate::{Gate, GateError, parse_change, parse_threshold};
pub use markdown::markdown;
pub use model::{
    COMPARE_FORMAT, CheckCount, CompareResult, ComparedConfiguration, ComparedFigure, ComparedPair, ComparedRun,
    GateOutcome, GateResult, Judgement, LeftOutTrial, UnmatchedConfiguration,
};
pub use pairs::{CompareRequest, compare};
pub use sides::{OneRun, Source, different};
pub use text::text;

/// The default threshold. Smaller differences do not matter.
pub const DEFAULT_THRESHOLD: &str = "2%";

/// The JSON Schema of the output of `compare --json`.
#[cfg(feature = "schema")]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(CompareResult).to_value()
}
