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

pub use phase::{
    Amount, Ask, AskedQuery, Begin, Calibrated, Caller, Clock, Companion, ComparedAnswers, CopyPlan,
    DEFAULT_LOAD_BATCH, Event, Explained, FakeClock, Fit, Followed, Guarantees, Lack, Member, Observer, Outbox,
    OwnIndex, PhaseContext, PhasePlan, RealClock, Recipe, ResolvedPhase, Rows, Snapshot, Stop, StudyPart, Unsupported,
    Watch, WorkerJob, WorkerReport, Written, calibrate, canonical, drive, example_requests, explain_queries, run_phase,
    with_one_waker,
};
