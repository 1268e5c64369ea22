//! The measurement of one phase.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::answer::Answer;
use super::history::HistoryRecord;
use super::ledger::LedgerReport;
use super::recorder::{Interval, Recorder};
use super::resources::ResourceSample;
use super::store_stats::StoreStats;
use crate::store::{Durability, Isolation, OpKind, ReadConsistency};
use storebench_documents::keys::Distinct;
use storebench_study::Part;

/// A label of a phase: one kind of operation on one collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// Its name in the study's mix, or the name of the loaded collection.
    pub name: String,
    /// The kind of operation.
    #[serde(deserialize_with = "kind_by_name")]
    pub kind: OpKind,
    /// Position of the collection in the study.
    pub collection: usize,
    /// Documents per operation (1 except for bulk forms).
    pub batch: u32,
}

/// Everything that was measured in one phase on one store.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// The phase's name.
    pub name: String,
    /// Whether it is a warm-up.
    pub warm_up: bool,
    /// Whether it loads collections.
    pub loads: bool,
    /// The operations, in the order of [`Recorder::ops`].
    pub labels: Vec<Label>,
    /// When it began, in ns since 1970.
    pub began_unix_ns: u64,
    /// From its start to its planned end (or to the stop), without the drain, in ns.
    pub sending_ns: u64,
    /// From its start until its last operation ended or was given up, in ns.
    pub elapsed_ns: u64,
    /// Open loop: operations scheduled within it; `None` in a closed loop.
    pub scheduled: Option<u64>,
    /// Open loop: the time over which the schedule spreads the `scheduled` operations, in ns; `None` in a closed loop.
    pub scheduled_over_ns: Option<u64>,
    /// Workers, connections per worker, and operations in flight per connection.
    pub workers: u32,
    /// See `workers`.
    pub connections: u32,
    /// See `workers`.
    pub in_flight: u32,
    /// What acknowledged writes survive.
    pub durability: Durability,
    /// How fresh reads were.
    pub consistency: ReadConsistency,
    /// How far its transactions were kept apart from others. `None` if it had none.
    pub isolation: Option<Isolation>,
    /// All recorders, merged. A file does not contain it, because it is the sum of the intervals.
    #[serde(skip)]
    pub total: Recorder,
    /// The same, by interval.
    pub intervals: Vec<Interval>,
    /// Each worker's CPU use, in the order of workers.
    pub worker_use: Vec<WorkerUse>,
    /// The process's use of the machine during the phase.
    pub resources: Vec<ResourceSample>,
    /// Statistics that the store reported during the phase.
    pub store_stats: StoreStats,
    /// Distinct keys touched, by position of the collection in the study (an estimate within 1 %).
    pub distinct_keys: Vec<(usize, u64)>,
    /// Some messages of failed operations, each with its count.
    pub messages: Vec<(String, u64)>,
    /// Examples of checked documents that differed: the key, and what differs.
    pub wrong_examples: Vec<String>,
    /// What became of acknowledged writes, if a ledger was kept.
    pub ledger: Option<LedgerReport>,
    /// What the workers saw of the documents that a consistency check follows. Parts of a run have none.
    #[serde(skip)]
    pub history: Option<HistoryRecord>,
    /// What the store answered to each operation of a trace, in their order; `None` if it did not. Empty unless answers are
    /// compared.
    #[serde(skip)]
    pub answers: Vec<Option<Answer>>,
    /// Why it ended early, if it did.
    pub partial: Option<Partial>,
    /// What it takes to merge it with the records of the other parts. `None` if the run is not divided.
    pub of_part: Option<OfPart>,
}

/// What the record of one part of a run needs beyond the measurements, so that it can be [merged](super::merged).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OfPart {
    /// The part.
    pub part: Part,
    /// When all parts were to begin, in ns since 1970, if they agreed on a time.
    pub agreed_unix_ns: Option<u64>,
    /// The counters of distinct keys, by position of the collection.
    pub touched: Vec<(usize, Distinct)>,
}

/// Why a phase ended early.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// The cause.
    pub cause: PartialCause,
    /// The cause in words.
    pub why: String,
}

/// What ended a phase early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartialCause {
    /// The user interrupted it.
    Interrupted,
    /// A connection was lost, and the phase cannot or must not continue without it.
    Disconnected,
    /// The store failed in another way.
    Failed,
    /// Every key that a worker may write has a write of unknown outcome. The store may be healthy.
    NoKeys,
}

/// One worker's CPU use during a phase, in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerUse {
    /// CPU time of its thread.
    pub cpu_ns: u64,
    /// Of this: busy-waiting.
    pub spin_ns: u64,
    /// Time that its thread was ready to run but not running.
    pub run_queue_ns: u64,
    /// From its start to its end.
    pub wall_ns: u64,
    /// The processor that it was pinned to, as the system numbers them; null if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<u32>,
}

/// Reads the name of any kind of operation. [`OpKind`] itself reads only those that a mix may name.
fn kind_by_name<'de, D: Deserializer<'de>>(from: D) -> Result<OpKind, D::Error> {
    let name = String::deserialize(from)?;
    let known = OpKind::ALL.into_iter().find(|kind| kind.name() == name);
    known.ok_or_else(|| D::Error::custom(format!("unknown operation `{name}`")))
}

impl PhaseRecord {
    /// As JSON, so that another process can [merge](super::merged) it with the records of the other parts.
    ///
    /// # Errors
    /// Never in practice: every value has a form in JSON.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }

    /// From [`Self::to_json`].
    ///
    /// # Errors
    /// The text is not such a record, or it is damaged.
    pub fn from_json(text: &[u8]) -> serde_json::Result<Self> {
        let mut record: Self = serde_json::from_slice(text)?;
        record.sum_up();
        Ok(record)
    }

    /// Makes the total of the intervals.
    pub(super) fn sum_up(&mut self) {
        self.total = Recorder::new(self.labels.len());
        for interval in &self.intervals {
            self.total.add(&interval.record());
        }
    }

    /// Operations that ended, over all labels.
    pub fn operations(&self) -> u64 {
        self.total.ops.iter().map(super::Tally::ended).sum()
    }

    /// Connections that the phase asked for. Each is one socket, except for protocols that carry one operation at a
    /// time: their sessions open `in_flight` sockets.
    pub fn sessions(&self) -> u64 {
        u64::from(self.workers) * u64::from(self.connections)
    }

    /// Writes that may or may not have been applied: those that failed with an unknown outcome, and those that were
    /// sent but not answered when the phase ended.
    pub fn unknown_outcomes(&self) -> u64 {
        let labels = self.labels.iter().zip(&self.total.ops);
        labels.map(|(label, tally)| tally.unknown_outcomes(label.kind)).sum()
    }
}
