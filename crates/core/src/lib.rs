//! The vocabulary of a document-store experiment.
//!
//! Everything that decides what a number means lives here: the [study file](workload), the
//! [documents] and [keys] it asks for, the [schedule] of arrivals, the
//! [contract every store fulfils](store), the [one loop](engine) that drives it, the
//! [recorders](measure) and the [ledger] of what was acknowledged.
//!
//! This crate knows no driver, no command line, no file format of results.

pub mod documents;
pub mod engine;
pub mod json;
pub mod keys;
pub mod ledger;
pub mod measure;
pub mod schedule;
pub mod store;
pub mod units;
pub mod workload;
mod written;
