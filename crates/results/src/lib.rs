//! What a result of Storebench says: pure functions of it, without a store and without a machine.
//!
//! The document `run.json` and the other files of a run folder are at the root of this crate; the modules say what
//! follows from them: [arms], [verdicts], [costs](cost), [claims], a [summary], a [comparison](compare).

pub mod answer;
pub mod arms;
pub mod beside;
pub mod bottleneck;
pub mod claims;
mod comparability;
pub mod compare;
pub mod conclude;
pub mod cost;
pub mod environment;
mod figures;
pub mod human;
pub mod lines;
pub mod plan;
mod run_folder;
mod series;
mod slots;
pub mod stats;
pub mod summary;
pub mod sweep;
pub mod table;
pub mod times;
pub mod verdicts;

pub use run_folder::*;
