//! Events of a run. Renderers read these; they never reach into the engine.

use std::path::Path;

use crate::measure::Recorder;
use crate::store::SessionCounters;

/// One event.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// A trial begins: one store is measured once.
    TrialBegan {
        /// Its number in the order of execution, from 1.
        trial: u32,
        /// Trials in the run.
        of: usize,
        /// Its configuration.
        configuration: &'a str,
        /// The folder of the run, if it is kept.
        folder: Option<&'a Path>,
    },
    /// A phase has begun.
    PhaseBegan {
        /// Its name.
        phase: &'a str,
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
    },
    /// A phase has ended.
    PhaseEnded {
        /// Its name.
        phase: &'a str,
        /// Operations that ended.
        operations: u64,
        /// How long it took, in ns.
        elapsed_ns: u64,
        /// What happened to its connections.
        connections: SessionCounters,
    },
    /// Something that a user should know at once.
    Note {
        /// The text.
        text: String,
    },
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
