//! One phase in `run.json`: its operations, its times, and what surrounded it.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use storebench_engine::measure::{LedgerReport, WorkerUse};
use storebench_engine::store::SessionCounters;

use crate::bottleneck::Bottleneck;
use crate::stats::Steadiness;

use super::answers::ReplayAnswers;
use super::broken::{FaultResult, RestartedResult};
use super::generators::GeneratorResult;
use super::history::HistoryResult;
use super::operations::OpResult;
use super::resources::ResourcesResult;

/// One phase on one store.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PhaseResult {
    /// Its name.
    pub name: String,
    /// Whether it loaded collections.
    pub loads: bool,
    /// Whether it only warmed up. It is then not a result.
    pub warm_up: bool,
    /// For a phase whose rate was searched: the probe that these figures come from, counted from 1. Null if it was
    /// measured once more after the search, and for other phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<u32>,
    /// When it began (RFC 3339, UTC).
    pub began: String,
    /// From its start to its end as planned (or as stopped), without the drain.
    pub sending_ns: u64,
    /// From its start until the last operation had ended or was given up.
    pub elapsed_ns: u64,
    /// Threads that sent operations.
    pub workers: u32,
    /// Connections of each worker.
    pub connections: u32,
    /// The most operations in flight on each connection.
    pub in_flight: u32,
    /// Connections that were requested: workers × connections. Each uses one socket, except for protocols that carry
    /// one operation at a time (HTTP/1.1): there it opens up to `in_flight` sockets.
    pub sessions: u64,
    /// The most operations in flight over all connections: `sessions` × `in_flight`.
    pub in_flight_limit: u64,
    /// How operations were drawn and given up, by the study's keys: `popularity`, `streams`, `arrival`, `think`,
    /// `timeout`, `retry`, `on_disconnect`, `pin_workers`, and `mix.NAME.KEY` for what an entry of the mix sets besides its
    /// weight.
    pub settings: IndexMap<String, serde_json::Value>,
    /// What happened to the connections.
    pub connection_events: SessionCounters,
    /// Share of the in-flight limit (workers × connections × in flight) that was in use, on average.
    pub in_flight_share: f64,
    /// What acknowledged writes survive, and how the store was set to guarantee it.
    pub durability: Guarantee,
    /// How fresh reads were, and how the store was set to guarantee it.
    pub consistency: Guarantee,
    /// How far transactions were kept apart from others, and how the store was set to guarantee it. Left out without
    /// transactions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Guarantee>,
    /// The rate of an open loop. Null in a closed loop.
    pub rate: Option<RateResult>,
    /// Operations by their name in the mix, or by the collection that was loaded. A copy has `copy-in` or `copy-out`,
    /// whose operations are its requests.
    pub ops: IndexMap<String, OpResult>,
    /// Times of all operations together.
    pub all: AllOps,
    /// What the client used of its machine. In a merged run: all clients together.
    pub client: ClientUse,
    /// For merged runs: what each part did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generators: Vec<GeneratorResult>,
    /// The documents it touched.
    pub documents: PhaseDocuments,
    /// Number of intervals in the table `intervals`.
    pub intervals: u64,
    /// Answers per second in equal parts of the phase, at most 40, in order. Empty if there were fewer than three
    /// intervals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub course_per_s: Vec<f64>,
    /// Some messages of failed operations.
    pub messages: Vec<Message>,
    /// Some checked documents that differed: key and difference.
    pub wrong_examples: Vec<String>,
    /// What the ledger found, if one was kept.
    pub ledger: Option<LedgerReport>,
    /// Whether some order explains what the workers saw, if a consistency check followed documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<HistoryResult>,
    /// What the store answered to the operations of a trace, if answers are compared: in the first trial of each
    /// configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<ReplayAnswers>,
    /// The faults that were injected during the phase, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultResult>,
    /// Why it ended early, if it did.
    pub partial: Option<String>,
    /// What the store's processes, the machine and the store's folder used, as far as known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesResult>,
    /// How the server was restarted before the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted: Option<RestartedResult>,
    /// What limited the phase, as far as known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<Bottleneck>,
    /// What the store reported about itself during the phase. Each answer is in the table `store_stats`.
    pub store_stats: StoreStatsResult,
    /// Writes that may or may not have been done: there was no answer, or none that says so. 0 if the outcome of every
    /// write is known.
    pub unknown_outcomes: u64,
    /// The store after the phase (and after settling, if that was asked for).
    pub store_after: Option<StoreAfter>,
    /// Whether the answers per second stayed level. Null with fewer than ten intervals.
    pub steadiness: Option<Steadiness>,
    /// The same for the median response time of each interval of an open loop, in ns, because its schedule sets the
    /// answers per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_steadiness: Option<Steadiness>,
    /// The study's limits on this phase.
    pub limits: Vec<LimitResult>,
    /// For a copy: how many of its tasks ran.
    pub tasks: Option<TasksResult>,
}

impl PhaseResult {
    /// How many operations failed.
    pub fn failed_operations(&self) -> u64 {
        self.ops.values().map(|op| op.errors).sum()
    }
}

/// A limit of the study on a phase, judged over all attempts. Operations that failed or were not answered count as
/// infinitely slow.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitResult {
    /// The limit's path in the study: `by-user.page.response.p99`.
    pub path: String,
    /// The highest value that meets it: ns for a time, a share for `errors`.
    pub limit: f64,
    /// The value that was found, in the same unit. Null if it is infinite.
    pub found: Option<f64>,
    /// For a time: the share of all attempts that were answered within the limit.
    pub share_within: Option<f64>,
    /// Number of attempts that it was judged over.
    pub attempts: u64,
    /// Whether it was met.
    pub met: bool,
}

/// How many tasks of a copy ran.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TasksResult {
    /// Tasks that were requested.
    pub asked: u32,
    /// The most that ran at once.
    pub at_once: u32,
    /// Parts into which the work was split.
    pub parts: u64,
}

/// A guarantee, and how this store was set to keep it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Guarantee {
    /// The name, the same on every store.
    pub name: String,
    /// The setting of the store.
    pub means: Option<String>,
    /// What the study asks for, if the store gives something else: `at least os`, `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
}

impl Guarantee {
    /// The name, what was asked for if that is something else, and the setting: `fsync (asked for: at least os;
    /// synchronous_commit=on)`.
    pub fn in_words(&self) -> String {
        let asked = self.asked.as_ref().map(|asked| format!("asked for: {asked}"));
        let more: Vec<String> = asked.into_iter().chain(self.means.clone()).collect();
        if more.is_empty() { self.name.clone() } else { format!("{} ({})", self.name, more.join("; ")) }
    }
}

/// The rate of an open loop.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RateResult {
    /// Operations that were scheduled within the phase.
    pub scheduled: u64,
    /// `scheduled` divided by the length of the schedule: the planned rate, on average.
    pub scheduled_per_s: f64,
    /// Successes and misses divided by the time until they were answered. That time is never shorter than the schedule,
    /// and excludes the least service time. Failures do not count.
    pub achieved_per_s: f64,
    /// `achieved_per_s` divided by `scheduled_per_s` (0 to 1).
    pub sustained_share: f64,
    /// The rate as the study gives it (a number, a ramp or steps).
    pub planned: serde_json::Value,
}

/// Times of all operations of a phase together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AllOps {
    /// As in [`OpResult`].
    pub response_ns: Option<Percentiles>,
    /// As in [`OpResult`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_of_attempts_ns: Option<Percentiles>,
    /// As in [`OpResult`].
    pub service_ns: Percentiles,
    /// As in [`OpResult`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_of_attempts_ns: Option<Percentiles>,
    /// As in [`OpResult`].
    pub client_queueing_ns: Option<Percentiles>,
    /// How much of each percentile is the client's own delay.
    pub own_delay_share: OwnDelay,
}

/// The share of each percentile that is the client's own delay, from 0 to 1: of the response time, or in closed loop of
/// the service time. Null if it is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnDelay {
    /// Of the median.
    pub p50: Option<f64>,
    /// Of 90 %.
    pub p90: Option<f64>,
    /// Of 95 %.
    pub p95: Option<f64>,
    /// Of 99 %.
    pub p99: Option<f64>,
    /// Of 99.9 %.
    pub p99_9: Option<f64>,
}

/// Percentiles of a merged histogram with 3 significant digits. Null if it is empty.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Percentiles {
    /// Number of values.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// The least value.
    pub min: Option<u64>,
    /// Half of the values are at most this.
    pub p50: Option<u64>,
    /// 90 %.
    pub p90: Option<u64>,
    /// 95 %.
    pub p95: Option<u64>,
    /// 99 %.
    pub p99: Option<u64>,
    /// 99.9 %.
    pub p99_9: Option<u64>,
    /// 99.99 %.
    pub p99_99: Option<u64>,
    /// The greatest value.
    pub max: Option<u64>,
}

/// What the client used of its machine in a phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClientUse {
    /// CPU time of the client itself per operation, in µs, without active waiting. Null if no operation ended, or if
    /// the client of an embedded store was not calibrated.
    pub cpu_us_per_op: Option<f64>,
    /// The same per document written or read (bulk operations hold many).
    pub cpu_us_per_document: Option<f64>,
    /// Where `cpu_us_per_op` comes from: `measured` on the workers' threads, or `calibrated-on-null` for an embedded
    /// store, whose work runs on the same threads.
    pub cpu_source: String,
    /// CPU time of the whole process per operation, in µs, without active waiting.
    pub process_cpu_us_per_op: Option<f64>,
    /// CPU time of all workers' threads, in s, including active waiting.
    pub worker_cpu_s: f64,
    /// The part of it that is active waiting (`pacing = "precise"`).
    pub spin_cpu_s: f64,
    /// Time the workers' threads were ready to run but not running, in s.
    pub run_queue_s: f64,
    /// CPU time of the whole process over the phase, in s.
    pub process_cpu_s: Option<f64>,
    /// The busiest worker: its CPU time without active waiting, divided by its elapsed time.
    pub busiest_worker_share: f64,
    /// By how much a thread that only sleeps was woken too late, in s, summed over delays of 5 ms and more. In that
    /// time the process was stopped, throttled or crowded out.
    pub starved_s: f64,
    /// How long operations were delayed for that reason, in ns. An estimate: `mean`, `min` and `max` are null, and `count`
    /// is the number of delays.
    pub stopped_ns: Percentiles,
    /// Peak resident memory, in bytes.
    pub rss_max_bytes: u64,
    /// Open loop: how late the client sent although the in-flight limit was not reached. Percentiles are null in a
    /// closed loop.
    pub send_delay_ns: Percentiles,
    /// CPU use of each worker.
    pub worker_use: Vec<WorkerUse>,
}

/// The documents that a phase touched.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PhaseDocuments {
    /// Documents written, read or found.
    pub count: u64,
    /// Bytes written and read.
    pub bytes: u64,
    /// Distinct keys touched, over all collections (an estimate within 1 %).
    pub distinct_keys: u64,
    /// zstd level 3 over 32 KiB pages: compressed / raw, over the collections touched, weighted by their bytes. Null if
    /// none was measured.
    pub compress_page: Option<f64>,
    /// Snappy over each document by itself, weighted in the same way.
    pub compress_doc: Option<f64>,
    /// Distinct keys by collection.
    pub distinct_keys_by_collection: IndexMap<String, u64>,
}

/// A message of failed operations, and how often it occurred.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Message {
    /// What the store said.
    pub message: String,
    /// How often it occurred.
    pub count: u64,
}

/// What the store reported about itself during a phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoreStatsResult {
    /// Number of answers.
    pub answers: u64,
    /// Requests that failed. They do not affect the measurement.
    pub failed: u64,
    /// The message of the first failure.
    pub message: Option<String>,
    /// Whether polling was given up because the store works on the client's processors and answers slowly. What it
    /// reports after the phase is in `store_after`.
    pub too_slow: bool,
    /// Its figures; the unit is in the name.
    pub figures: IndexMap<String, FigureResult>,
}

/// One figure of a store over a phase.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FigureResult {
    /// Its value when the phase began.
    pub first: f64,
    /// Its value when the phase had ended.
    pub last: f64,
    /// The greatest value that was seen.
    pub max: f64,
}

/// The store after a phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoreAfter {
    /// Size of its files, as the file system counts it (blocks in use). Known for embedded stores, and for servers with
    /// a `data` folder.
    pub disk_bytes: Option<u64>,
    /// Whether it settled, if that was waited for.
    pub settled: Option<bool>,
    /// How long settling took.
    pub settle_ns: Option<u64>,
    /// How long a compaction took, if one was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact_ns: Option<u64>,
    /// Peak size of its files while it settled or compacted, in bytes (blocks in use), sampled every 50 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_peak_bytes: Option<u64>,
    /// What it reports about itself; the unit is in the name.
    pub stats: IndexMap<String, f64>,
}
