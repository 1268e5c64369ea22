//! Analyses results of Storebench with pure functions, without a store and without a machine.
//!
//! The document `run.json` and the other files of a run folder are at the root of this crate. The modules derive from
//! them: [configurations], [checks](validity), [costs](cost), [claims], a [summary], a [comparison](compare), a [bundle].

pub mod answer;
pub mod bottleneck;
pub mod bundle;
pub mod claims;
mod comparability;
pub mod compare;
pub mod conclude;
pub mod configurations;
pub mod cost;
pub mod environment;
pub mod exit;
mod figures;
mod generators;
pub mod history;
pub mod human;
mod identity;
mod in_flight;
pub mod lines;
pub mod merge;
mod new_file;
mod own_delay;
mod own_settings;
pub mod plan;
pub mod rounds_needed;
mod run_folder;
mod same_answers;
#[cfg(test)]
mod same_rounds_tests;
mod series;
pub mod side_by_side;
pub mod stats;
pub mod summary;
mod sums;
pub mod sweep;
pub mod table;
pub mod times;
pub mod validity;

pub use figures::in_documents;
pub use generators::generators;
pub use identity::Identity;
pub use own_delay::own_delay;
pub use own_settings::{ReportedSettings, reported_settings};
pub use run_folder::*;
pub use same_answers::{COMPARED_ANSWERS, DifferentAnswer, different_answers, replayed_before};
