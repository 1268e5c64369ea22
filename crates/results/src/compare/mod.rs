//! Runs beside each other: each figure of two configurations, their ratio with its interval, and what of it is sure.
//!
//! A pure function of run folders. Configurations of one run are paired by round; configurations of two runs are not, and then a drift of
//! the machine between the two is in every ratio. What did unlike work is refused. `docs/compare.md` tells what each
//! word means.

mod baseline;
mod error;
mod format;
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

/// The threshold below which a difference is too small to matter, where none is given.
pub const DEFAULT_THRESHOLD: &str = "2%";

/// The JSON Schema of what `compare --json` prints.
#[cfg(feature = "schema")]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(CompareResult).to_value()
}
