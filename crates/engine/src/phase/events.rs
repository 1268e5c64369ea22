//! Events of a run. Renderers read these; they never reach into the engine.

use std::path::Path;

use super::companion::StoreUse;
use crate::measure::{Label, Recorder};

/// One event.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// A trial begins: one store is measured once.
    TrialBegan {
        /// Its number in the order of execution, from 1.
        trial: u32,
        /// Trials in the run.
        of: usize,
        /// Its round, from 1.
        round: u32,
        /// Its store.
        store: &'a str,
        /// Its configuration.
        configuration: &'a str,
        /// The folder of the run, if it is kept.
        folder: Option<&'a Path>,
    },
    /// A phase has begun.
    PhaseBegan {
        /// Its name.
        phase: &'a str,
        /// Its operations, in the order of [`Recorder::ops`].
        labels: &'a [Label],
        /// Whether it loads or copies. Its progress then counts documents.
        loads: bool,
        /// Operations that it will run, if known (loads, and phases by count or rate).
        operations: Option<u64>,
        /// How long it will send, in ns, if known.
        duration_ns: Option<u64>,
    },
    /// An interval has passed on every worker, or on those that have reported so far.
    Interval {
        /// The phase.
        phase: &'a str,
        /// Number of the interval, from 0.
        number: u64,
        /// Its end, in ns from the phase's start.
        to_ns: u64,
        /// What was recorded in it.
        record: &'a Recorder,
        /// The state at its end.
        now: Gauges,
    },
    /// A phase has ended.
    PhaseEnded {
        /// Its name.
        phase: &'a str,
        /// Operations that ended.
        operations: u64,
        /// How long it took, in ns.
        elapsed_ns: u64,
        /// All that was recorded in it.
        total: &'a Recorder,
        /// What the store's processes used in it, if they run on this machine and not in this process.
        store: Option<StoreUse>,
    },
    /// Something that a user should know at once.
    Note {
        /// The text.
        text: String,
    },
}

/// What is known at one moment, apart from what was recorded until then. Unknown is not zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Operations that were sent and not answered.
    pub in_flight: Option<u64>,
    /// At a rate: how long ago the next operation was scheduled, in ns; 0 if its time has not come.
    pub behind_ns: Option<u64>,
    /// What the store's processes use, if they run on this machine and not in this process.
    pub store: Option<StoreUse>,
}

impl Gauges {
    /// The state of a phase from that of its workers: all of their operations, and the worker that is furthest behind.
    pub(super) fn of(workers: &[Self]) -> Self {
        let in_flight = workers.iter().filter_map(|worker| worker.in_flight).reduce(u64::saturating_add);
        Self { in_flight, behind_ns: workers.iter().filter_map(|worker| worker.behind_ns).max(), store: None }
    }
}

/// Receives events, on the thread that runs the phase.
pub trait Observer {
    /// Handles one event.
    fn event(&mut self, event: &Event<'_>);
}

impl<F: FnMut(&Event<'_>)> Observer for F {
    fn event(&mut self, event: &Event<'_>) {
        self(event);
    }
}
