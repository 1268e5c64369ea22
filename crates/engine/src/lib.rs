//! The store contract, and the loop that drives a store.
//!
//! A driver implements [`store::Store`] and [`store::Session`]. [`run_phase`] sends the operations of a phase, records
//! them in [`measure`], and keeps acknowledged writes in a [`ledger`].
//!
//! This crate knows nothing of drivers, the command line, or the file format of results.

pub mod ledger;
pub mod measure;
mod phase;
pub mod store;

pub use phase::*;
