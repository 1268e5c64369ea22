//! The one run loop.

mod clock;

pub use clock::{Clock, FakeClock, RealClock};

/// One worker's part of a phase.
pub struct WorkerJob {}
/// What a worker did.
pub struct WorkerReport {}

/// Runs a worker.
pub fn drive<S: crate::store::Store>(_store: &S, _job: WorkerJob) -> WorkerReport {
    WorkerReport {}
}
