//! Experiments over document stores: plans, trials, searches.
//!
//! A [run] measures the given stores through `storebench-engine`, and writes a run folder. `storebench-results`
//! interprets the result. This crate knows no drivers.

pub mod copied;
pub mod doctor;
mod environment;
pub mod plan;
pub mod run;
mod search;
pub mod space;
mod sync;
#[cfg(test)]
mod testing;
pub mod verify;
mod wall;
pub mod workers;
