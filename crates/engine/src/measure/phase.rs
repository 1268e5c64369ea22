//! The whole measurement of one phase.

use serde::{Deserialize, Serialize};

use super::ledger::LedgerReport;
use super::recorder::{Interval, Recorder};
use super::resources::ResourceSample;
use super::store_stats::StoreStats;
use crate::store::{Durability, OpKind, ReadConsistency};

/// A label of a phase: one kind of operation on one collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Its name in the study's mix, or of the collection that is loaded.
    pub name: String,
    /// What is done.
    pub kind: OpKind,
    /// Position of the collection in the study.
    pub collection: usize,
    /// Documents of one operation (1 but for bulk forms).
    pub batch: u32,
}

/// Everything that was measured in one phase on one store.
#[derive(Debug, Clone)]
pub struct PhaseRecord {
    /// The phase's name.
    pub name: String,
    /// Whether it only warms up.
    pub warm_up: bool,
    /// Whether it loads collections.
    pub loads: bool,
    /// What was done, in the order of [`Recorder::ops`].
    pub labels: Vec<Label>,
    /// When it began, in ns since 1970.
    pub began_unix_ns: u64,
    /// From its start to its end as planned (or as stopped), without the drain, in ns.
    pub sending_ns: u64,
    /// From its start until its last operation had ended or was given up, in ns.
    pub elapsed_ns: u64,
    /// Open loop: operations that were scheduled within it; none in closed loop.
    pub scheduled: Option<u64>,
    /// Open loop: the time in which `scheduled` operations are scheduled by the schedule, in ns; none in closed loop.
    pub scheduled_over_ns: Option<u64>,
    /// Workers, connections of each, operations in flight on each connection.
    pub workers: u32,
    /// See `workers`.
    pub connections: u32,
    /// See `workers`.
    pub in_flight: u32,
    /// What acknowledged writes survive.
    pub durability: Durability,
    /// How fresh reads were.
    pub consistency: ReadConsistency,
    /// Everything, merged.
    pub total: Recorder,
    /// The same by interval.
    pub intervals: Vec<Interval>,
    /// Each worker's use of its processor, in the order of workers.
    pub worker_use: Vec<WorkerUse>,
    /// The process's use of the machine over the phase.
    pub resources: Vec<ResourceSample>,
    /// What the store told about itself over the phase.
    pub store_stats: StoreStats,
    /// Distinct keys touched, by position of the collection in the study (an estimate within 1 %).
    pub distinct_keys: Vec<(usize, u64)>,
    /// Some messages of failed operations, each with how often it came.
    pub messages: Vec<(String, u64)>,
    /// Some checked documents that differed: key and what differs.
    pub wrong_examples: Vec<String>,
    /// What became of what was acknowledged, if a ledger was kept.
    pub ledger: Option<LedgerReport>,
    /// Why it ended early, if it did.
    pub partial: Option<Partial>,
}

/// Why a phase ended before its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partial {
    /// What ended it.
    pub cause: PartialCause,
    /// The same in words.
    pub why: String,
}

/// What ended a phase before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartialCause {
    /// The user.
    Interrupted,
    /// A connection was lost, and the phase cannot or shall not go on without it.
    Disconnected,
    /// The store failed otherwise.
    Failed,
    /// Every key that a worker may write has a write of unknown outcome. The store may be healthy.
    NoKeys,
}

/// One worker's use of its processor over a phase, in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerUse {
    /// Processor time of its thread.
    pub cpu_ns: u64,
    /// Of it: spent waiting actively.
    pub spin_ns: u64,
    /// Ready to run but not running.
    pub run_queue_ns: u64,
    /// From its start to its end.
    pub wall_ns: u64,
}

impl PhaseRecord {
    /// Operations that ended, over all labels.
    pub fn operations(&self) -> u64 {
        self.total.ops.iter().map(super::Tally::ended).sum()
    }

    /// Connections that were asked for: one socket each, but for protocols that carry one operation at
    /// a time, whose sessions open `in_flight` of them.
    pub fn sessions(&self) -> u64 {
        u64::from(self.workers) * u64::from(self.connections)
    }

    /// Writes that may or may not have been done: those that failed with an unknown outcome, and those
    /// that were sent and not answered when the phase ended.
    pub fn unknown_outcomes(&self) -> u64 {
        let labels = self.labels.iter().zip(&self.total.ops);
        labels.map(|(label, tally)| tally.unknown_outcomes(label.kind)).sum()
    }
}
