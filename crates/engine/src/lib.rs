//! The contract of stores, and the loop that drives one.
//!
//! A driver implements [`store::Store`] and [`store::Session`]. [`run_phase`] sends the operations of a phase, records
//! them in [`measure`], and keeps in a [`ledger`] what was acknowledged.
//!
//! This crate knows no driver, no command line, no file format of results.

pub mod ledger;
pub mod measure;
mod phase;
pub mod store;

pub use phase::{
    Amount, Ask, Calibrated, Caller, Clock, Companion, CopyPlan, DEFAULT_LOAD_BATCH, Event, Explained, FakeClock,
    Guarantees, Member, Observer, Outbox, PhaseContext, PhasePlan, RealClock, Recipe, ResolvedPhase, Rows, Snapshot,
    Stop, Watch, WorkerJob, WorkerReport, Written, calibrate, drive, explain_queries, run_phase,
};
