//! What a run tells while it goes on. Renderers read these; they never reach into the engine.

use std::path::Path;

use crate::measure::Recorder;
use crate::store::SessionCounters;

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// A trial begins: one store is measured once.
    TrialBegan {
        /// Its number in the order they run, from 1.
        trial: u32,
        /// Trials of the run.
        of: usize,
        /// Its configuration.
        configuration: &'a str,
        /// Where the run is kept, if it is.
        folder: Option<&'a Path>,
    },
    /// A phase has begun.
    PhaseBegan {
        /// Its name.
        phase: &'a str,
        /// Whether it loads or copies: how far it is counts in documents.
        loads: bool,
        /// Operations it will run, where it is known (loads, and phases by count or rate).
        operations: Option<u64>,
        /// How long it will send, in ns, where it is known.
        duration_ns: Option<u64>,
    },
    /// An interval has passed on every worker, or on those that could tell so far.
    Interval {
        /// The phase.
        phase: &'a str,
        /// Number of the interval, from 0.
        number: u64,
        /// Its end, in ns from the phase's start.
        to_ns: u64,
        /// What was seen in it.
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
    /// Something a user should know at once.
    Note {
        /// What.
        text: String,
    },
}

/// Receives events, on the thread that runs the phase.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: &Event<'_>);
}

impl<F: FnMut(&Event<'_>)> Observer for F {
    fn event(&mut self, event: &Event<'_>) {
        self(event);
    }
}
