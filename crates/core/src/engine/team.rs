//! How the workers of a phase begin together, hand over what they saw, and are told to end.

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Barrier};

use super::clock::RealClock;
use super::stop::Stop;
use crate::measure::Recorder;
use crate::store::PhaseStart;

/// What a worker saw in one interval.
pub struct Snapshot {
    /// Number of the interval, from 0.
    pub interval: u64,
    /// The worker.
    pub worker: u32,
    /// What it saw; given back emptied through [`Outbox::spare`].
    pub recorder: Box<Recorder>,
}

/// Where a worker's recorders go, and where emptied ones come back.
pub struct Outbox {
    /// Takes what was seen.
    pub snapshots: Sender<Snapshot>,
    /// Gives emptied recorders back.
    pub spare: Receiver<Box<Recorder>>,
}

/// A worker's ties to the others.
pub struct Member {
    /// The run's clock.
    pub clock: RealClock,
    /// Asks this phase to end: because the user wants it, or because a load failed.
    pub stop: Arc<Stop>,
    /// Passed twice by all: when every worker's sessions are open, and when `start` is set.
    pub ready: Arc<Barrier>,
    /// When the phase begins.
    pub start: PhaseStart,
    /// Where what was seen goes.
    pub outbox: Outbox,
}
