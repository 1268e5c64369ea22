//! The one run loop.

mod clock;
mod events;
mod stop;

pub use clock::{Clock, FakeClock, RealClock};
pub use events::{Event, Observer};
pub use stop::Stop;

/// One worker's part of a phase.
pub struct WorkerJob {}
/// What a worker did.
pub struct WorkerReport {}

/// Runs a worker.
pub fn drive<S: crate::store::Store>(_store: &S, _job: WorkerJob) -> WorkerReport {
    WorkerReport {}
}
