//! Experiments over document stores: plans, trials, results, verdicts.
//!
//! A [run] measures stores that it is given, through the engine of `storebench-core`; it writes
//! a [run folder](results) and says what the result is worth ([verdicts]). The [summary] is a
//! pure function of the result. This crate names no driver.

pub mod alike;
pub mod answer;
pub mod arms;
pub mod beside;
pub mod bottleneck;
pub mod claims;
pub mod compare;
pub mod conclude;
pub mod copied;
pub mod cost;
pub mod doctor;
pub mod environment;
pub mod figures;
pub mod human;
pub mod lines;
pub mod plan;
pub mod results;
pub mod run;
pub mod search;
pub mod series;
mod slots;
pub mod space;
pub mod stats;
pub mod summary;
pub mod sweep;
pub mod times;
pub mod verdicts;
pub mod verify;
