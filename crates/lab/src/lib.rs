//! Experiments over document stores: plans, trials, results, verdicts.
//!
//! A [run] measures stores that it is given, through `storebench-engine`; it writes
//! a [run folder](results) and says what the result is worth ([verdicts]). The [summary] is a
//! pure function of the result. This crate names no driver.

// What a result says: pure functions of it, without a store.
mod alike;
pub mod answer;
pub mod arms;
pub mod beside;
mod bottleneck;
pub mod claims;
pub mod compare;
pub mod conclude;
pub mod cost;
pub mod environment;
mod figures;
pub mod human;
pub mod lines;
pub mod results;
mod series;
mod slots;
pub mod stats;
pub mod summary;
pub mod sweep;
pub mod table;
pub mod times;
pub mod verdicts;

// How one is made.
pub mod copied;
pub mod doctor;
pub mod plan;
pub mod run;
mod search;
pub mod space;
pub mod verify;
