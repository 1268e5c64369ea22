//! A worker's recorder, and the merged recorders of an interval.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::packed;
use super::tally::{self, Tally, histogram};
use crate::store::SessionCounters;

/// What one worker recorded since its last snapshot. The worker owns it, so recording takes no lock.
#[derive(Debug, Clone)]
pub struct Recorder {
    /// One for each label of the phase, in the order of the plan.
    pub ops: Vec<Tally>,
    /// Open loop: how late the client sent an operation although the in-flight limit was not reached, in ns.
    pub send_delay: Histogram<u64>,
    /// CPU time of the worker's thread, in ns.
    pub cpu_ns: u64,
    /// Of this: busy-waiting.
    pub spin_ns: u64,
    /// Time that the worker's thread was ready to run but not running, in ns.
    pub run_queue_ns: u64,
    /// What happened to the worker's connections.
    pub connections: SessionCounters,
}

impl Default for Recorder {
    /// Without labels.
    fn default() -> Self {
        Self::new(0)
    }
}

impl Recorder {
    /// An empty recorder for this many labels.
    pub fn new(labels: usize) -> Self {
        Self {
            ops: (0..labels).map(|_| Tally::default()).collect(),
            send_delay: histogram(),
            cpu_ns: 0,
            spin_ns: 0,
            run_queue_ns: 0,
            connections: SessionCounters::default(),
        }
    }

    /// Operations that the store answered, also with *not found*: what every rate counts, during the run and in its result.
    pub fn answers(&self) -> u64 {
        self.ops.iter().map(|op| op.succeeded + op.missed).sum()
    }

    /// Adds another recorder of the same plan to this one.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.ops.iter_mut().zip(&other.ops) {
            mine.add(theirs);
        }
        tally::merge(&mut self.send_delay, &other.send_delay);
        self.cpu_ns += other.cpu_ns;
        self.spin_ns += other.spin_ns;
        self.run_queue_ns += other.run_queue_ns;
        self.connections += other.connections;
    }

    /// Clears it, but keeps its memory.
    pub fn clear(&mut self) {
        self.ops.iter_mut().for_each(Tally::clear);
        tally::reset(&mut self.send_delay);
        (self.cpu_ns, self.spin_ns, self.run_queue_ns) = (0, 0, 0);
        self.connections = SessionCounters::default();
    }
}

/// What all workers recorded in one interval of a phase.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Interval {
    /// Number of the interval, from 0.
    pub number: u64,
    /// Its start and end, in ns from the phase's start. The last interval may be shorter, or longer while operations
    /// drain.
    pub from_ns: u64,
    /// See `from_ns`.
    pub to_ns: u64,
    packed: packed::Recorder,
}

impl Interval {
    /// Stores the workers' merged recorders in a few kilobytes: a run of an hour has 3,600 intervals.
    pub fn new(number: u64, from_ns: u64, to_ns: u64, record: &Recorder) -> Self {
        Self { number, from_ns, to_ns, packed: packed::pack(record) }
    }

    /// All workers' recorders, merged.
    pub fn record(&self) -> Recorder {
        packed::unpack(&self.packed)
    }
}
