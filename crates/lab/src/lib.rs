//! Experiments over document stores: plans, trials, searches.
//!
//! A [run] measures stores that it is given, through `storebench-engine`, and writes a run folder; what the result says is
//! the matter of `storebench-results`. This crate names no driver.

pub mod copied;
pub mod doctor;
mod environment;
pub mod plan;
pub mod run;
mod search;
pub mod space;
#[cfg(test)]
mod testing;
pub mod verify;
