//! Comparison of runs: each figure of two configurations, their ratio with its interval, and how certain it is.
//!
//! A pure function of run folders. Configurations of one run are paired by round. Those of two runs are not, so every
//! ratio includes any drift of the machine between the two. Runs with different work are refused. `docs/compare.md`
//! explains each word.

mod baseline;
mod error;
pub mod format;
mod gate;
mod markdown;
mod model;
mod pairs;
mod sides;
#[cfg(test)]
mod tests;
mod text;

pub use crate::comparability::{Difference, DifferenceKind};
pub use baseline::{Saved, save_baseline};
pub use error::CompareError;
pub use gate::{Gate, GateError, parse_threshold};
pub use markdown::markdown;
pub use model::{
    COMPARE_FORMAT, CheckCount, CompareResult, ComparedConfiguration, ComparedFigure, ComparedPair, GateOutcome,
    GateResult, Judgement, LeftOutTrial, UnmatchedConfiguration,
};
pub use pairs::{CompareRequest, compare};
pub use sides::Source;
pub use text::text;

/// The default threshold. Smaller differences do not matter.
pub const DEFAULT_THRESHOLD: &str = "2%";

/// The JSON Schema of the output of `compare --json`.
#[cfg(feature = "schema")]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(CompareResult).to_value()
}
