//! The document `run.json`: what a run was and what it found. Also what `--json` prints.
//!
//! These types are the format, apart from the types that measure: a change there does not change
//! what is on disk. Fields may be added within a format; a field that changes its meaning makes a
//! new format. Times are nanoseconds (`_ns`), sizes bytes (`_bytes`), shares 0 to 1 (`_share`).

use indexmap::IndexMap;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use storebench_documents::Compression;
use storebench_engine::measure::{LedgerReport, WorkerUse};
use storebench_engine::store::{SessionCounters, StoreError};

use crate::bottleneck::Bottleneck;
use crate::claims::ClaimResult;
use crate::cost::CostResult;
use crate::environment::Environment;
use crate::plan::Plan;
use crate::stats::{Estimate, Steadiness};
use crate::sweep::Sweep;
use crate::validity::CheckResult;

use super::broken::{FaultResult, RestartedResult};
use super::resources::ResourcesResult;
use super::search::SearchResult;

/// The name of the format that this version writes. It reads the one before as well.
pub const FORMAT: &str = "storebench-run/2";

/// A whole run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunResult {
    /// Always `storebench-run/2`.
    pub format: String,
    /// What was run, when, by which version.
    pub run: RunInfo,
    /// What it was to do.
    pub plan: Plan,
    /// The machine of the client.
    pub environment: Environment,
    /// The documents, by collection, in the order of the study; a collection whose documents differ between configurations is
    /// here several times.
    pub documents: Vec<CollectionResult>,
    /// One store measured once, in the order they ran.
    pub trials: Vec<TrialResult>,
    /// Each configuration over its trials, in the order of the study. Made of the trials.
    #[serde(default)]
    pub configurations: Vec<ConfigurationResult>,
    /// What each factor with numbers as values does to each measured phase. Made of the trials.
    #[serde(default)]
    pub sweeps: Vec<FactorSweep>,
    /// What was published of the study, and how it stands against what was measured.
    #[serde(default)]
    pub claims: Vec<ClaimResult>,
    /// What the configurations cost, with the price sheet; null where none was given.
    #[serde(default)]
    pub cost: Option<CostResult>,
    /// Validity checks, in the order of trials and phases.
    pub checks: Vec<CheckResult>,
}

impl RunResult {
    /// Every phase of every trial.
    pub fn phases(&self) -> impl Iterator<Item = &PhaseResult> + Clone {
        self.trials.iter().flat_map(|trial| &trial.phases)
    }

    /// The same without warm-ups, which are no result.
    pub fn measured_phases(&self) -> impl Iterator<Item = &PhaseResult> + Clone {
        self.phases().filter(|phase| !phase.warm_up)
    }
}

/// What was run, when, by which version.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunInfo {
    /// Name of the run: the first part of its folder's name.
    pub name: String,
    /// The study's title.
    pub title: String,
    /// The question it answers.
    pub question: Option<String>,
    /// When it began (RFC 3339, UTC).
    pub began: String,
    /// When it ended; none while it runs, and after a crash.
    pub ended: Option<String>,
    /// Version of Storebench.
    pub storebench_version: String,
    /// The commit it was built from, where that is known.
    pub storebench_commit: Option<String>,
    /// Everything random was drawn from it.
    pub seed: u64,
    /// Multiplied how many documents there were.
    pub scale: f64,
    /// The study file as it was named; its text is in `study.toml`.
    pub study_file: Option<String>,
    /// Overrides `path=value`, in the order given.
    pub overrides: Vec<String>,
    /// The study with overrides, before scale; URLs of stores without secrets.
    pub study: serde_json::Value,
    /// What was found by search while making documents (calibration, sizes, files): with it another
    /// run makes the same bytes without searching.
    pub frozen: serde_json::Value,
    /// When it was continued after it had broken off (RFC 3339, UTC). A drift between then and before is within its
    /// rounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<String>,
    /// Whether it was interrupted. What was measured until then is kept.
    pub interrupted: bool,
    /// The run folder, where one was kept.
    pub folder: Option<String>,
}

/// One collection's documents as they were made.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CollectionResult {
    /// Its name.
    pub collection: String,
    /// The configurations that had these documents; empty where all had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configurations: Vec<String>,
    /// Documents, after scale, relation and file.
    pub count: u64,
    /// Mean size of a document, from a sample.
    pub mean_bytes: u64,
    /// What the store calls them, where they were there already and are only read. Their number and size
    /// are with each trial, in `sampled`.
    #[serde(default)]
    pub existing: Option<String>,
    /// Whether the documents are the user's own (`from`).
    pub own: bool,
    /// What a document is: `json`, `bytes` or `counter`.
    pub body: String,
    /// Lines of the user's file that were left out.
    pub skipped_lines: u64,
    /// The wanted ratio of zstd over pages, if one was wanted.
    pub compress_to: Option<f64>,
    /// What compressors made of a sample; none for counters.
    pub compression: Option<Compression>,
    /// One document as it was made, cut off where it is long; none of the user's own, which are nobody else's business, and
    /// of those that are not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
}

impl CollectionResult {
    /// Whether a configuration had these documents.
    pub fn is_of(&self, configuration: &str) -> bool {
        self.configurations.is_empty() || self.configurations.iter().any(|name| name == configuration)
    }

    /// Its name, and the configurations whose documents these are where others had others: `books (a, b and 3 more)`.
    pub fn named(&self) -> String {
        let first = self.configurations.iter().take(2).map(String::as_str).collect::<Vec<_>>().join(", ");
        match self.configurations.len() {
            0 => self.collection.clone(),
            1 | 2 => format!("{} ({first})", self.collection),
            n => format!("{} ({first} and {} more)", self.collection, n - 2),
        }
    }
}

/// One store measured once.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TrialResult {
    /// Number of the trial in the order they ran, from 1.
    pub trial: u32,
    /// The round (repeat) it belongs to, from 1. Each round holds every store once.
    pub round: u32,
    /// Name of the store in the study.
    pub store: String,
    /// Its configuration: the store, and the values of the study's factors.
    #[serde(default)]
    pub configuration: String,
    /// Values of the study's factors by path, as the study says them.
    pub values: IndexMap<String, serde_json::Value>,
    /// The host whose turn it was, where stores take turns on the study's `hosts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Whether it measured the documents that an earlier trial had loaded (`database = "kept"`).
    #[serde(default)]
    pub database_kept: bool,
    /// Documents that its phases drew from or loaded, by collection, after scale.
    #[serde(default)]
    pub documents: IndexMap<String, u64>,
    /// Scheme of its URL.
    pub scheme: String,
    /// Its URL, without secrets.
    pub url: String,
    /// Name and version of the engine or server.
    pub version: String,
    /// Whether it ran within this process.
    pub embedded: bool,
    /// Whether the host of its URL is this machine, by its addresses when the trial began; null where that is not known.
    #[serde(default)]
    pub here: Option<bool>,
    /// What the driver wants a reader to know.
    pub notes: Vec<String>,
    /// Operations that the driver makes of something else, and of what.
    pub approximated: IndexMap<String, String>,
    /// When it began (RFC 3339, UTC).
    pub began: String,
    /// Documents that were in the store already: what was sampled of them, by collection.
    #[serde(default)]
    pub sampled: IndexMap<String, SampledResult>,
    /// How long its server took from its start until the store answered, in ns, where the run started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_ready_ns: Option<u64>,
    /// Its phases, in order, warm-ups too. Of a phase whose rate was searched: at the highest rate at which the limits were met.
    pub phases: Vec<PhaseResult>,
    /// Searches for the highest rate at which the study's limits are met.
    #[serde(default)]
    pub searches: Vec<SearchResult>,
    /// Why it ended early, if it did.
    pub failure: Option<Failure>,
}

/// What was sampled of documents that were in a store already.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SampledResult {
    /// What the store calls them.
    pub existing: String,
    /// Keys that phases draw from.
    pub keys: u64,
    /// Documents that were read before the measurement.
    pub documents_read: u64,
    /// Their mean size.
    pub mean_bytes: u64,
}

/// Why a trial ended early.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Failure {
    /// In which way.
    pub kind: FailureKind,
    /// Where: the name of a phase, or `prepare`, `close`.
    pub during: String,
    /// What happened.
    pub message: String,
}

/// In which way a trial ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The store's URL makes no sense.
    BadUrl,
    /// The place holds what Storebench did not make.
    NotOurs,
    /// The store cannot do what was asked.
    NotSupported,
    /// The store could not be reached, or its connection was lost.
    Unreachable,
    /// No key was left to write.
    CutShort,
    /// It failed otherwise.
    #[default]
    #[serde(other)]
    Failed,
}

impl From<&StoreError> for FailureKind {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::BadUrl(_) => Self::BadUrl,
            StoreError::NotOurs(_) => Self::NotOurs,
            StoreError::NotSupported(_) => Self::NotSupported,
            StoreError::Unreachable(_) => Self::Unreachable,
            StoreError::Failed(_) => Self::Failed,
        }
    }
}

/// One phase on one store.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PhaseResult {
    /// Its name.
    pub name: String,
    /// Whether it loaded collections.
    pub loads: bool,
    /// Whether it only warmed up; then it is no result.
    pub warm_up: bool,
    /// Of a phase whose rate was searched, which probe these figures are of, counted from 1; none where it was measured
    /// once more behind the search, and of other phases.
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
    /// Operations in flight on each connection, at most.
    pub in_flight: u32,
    /// Connections that were asked for: workers × connections. One socket each, but for protocols that
    /// carry one operation at a time (HTTP/1.1), where each opens up to `in_flight` of them.
    #[serde(default)]
    pub sessions: u64,
    /// Operations in flight over all connections, at most: `sessions` × `in_flight`.
    #[serde(default)]
    pub in_flight_limit: u64,
    /// How operations were drawn and given up, by the study's keys: `popularity`, `streams`, `arrival`, `think`, `timeout`,
    /// `retry`, `on_disconnect`, and `mix.NAME.KEY` for what an entry of the mix says besides its weight.
    #[serde(default)]
    pub settings: IndexMap<String, serde_json::Value>,
    /// What happened to the connections.
    #[serde(default)]
    pub connection_events: SessionCounters,
    /// Share of the in-flight limit (workers × connections × in flight) that was in use, on average.
    pub in_flight_share: f64,
    /// What acknowledged writes survive, and how the store was set to guarantee it.
    pub durability: Guarantee,
    /// How fresh reads were, and how the store was set to guarantee it.
    pub consistency: Guarantee,
    /// Open loop: the rate; none in closed loop.
    pub rate: Option<RateResult>,
    /// Operations by their name in the mix, or by the collection that was loaded; of a copy `copy-in` or `copy-out`,
    /// whose operations are its requests.
    pub ops: IndexMap<String, OpResult>,
    /// Times of all operations together.
    pub all: AllOps,
    /// What the client used of its machine.
    pub client: ClientUse,
    /// The documents it touched.
    pub documents: PhaseDocuments,
    /// Intervals in the table `intervals`.
    pub intervals: u64,
    /// Answers each second in equal parts of the phase, at most 40, in order: its course at a glance. Empty where it had
    /// fewer than three intervals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub course_per_s: Vec<f64>,
    /// Some messages of failed operations.
    pub messages: Vec<Message>,
    /// Some checked documents that differed: key and difference.
    pub wrong_examples: Vec<String>,
    /// What the ledger found, if one was kept.
    pub ledger: Option<LedgerReport>,
    /// What was done to the store's server meanwhile, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultResult>,
    /// Why it ended early, if it did.
    pub partial: Option<String>,
    /// What the store's processes, the machine and the store's folder used, as far as it could be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesResult>,
    /// How its server was started again before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted: Option<RestartedResult>,
    /// What kept it from going faster, as far as it could be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<Bottleneck>,
    /// What the store told about itself while the phase ran; each answer is in the table `store_stats`.
    #[serde(default)]
    pub store_stats: StoreStatsResult,
    /// Writes that may or may not have been done: no answer came, or none that tells. 0 when every
    /// write's outcome is known.
    #[serde(default)]
    pub unknown_outcomes: u64,
    /// The store after the phase (and after settling, if that was asked for).
    pub store_after: Option<StoreAfter>,
    /// Whether what was answered each second stayed at its value. Null where there are fewer than ten.
    #[serde(default)]
    pub steadiness: Option<Steadiness>,
    /// The same of the median response time of each interval of an open loop, in ns: what was answered is its schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_steadiness: Option<Steadiness>,
    /// The study's limits on this phase.
    #[serde(default)]
    pub limits: Vec<LimitResult>,
    /// Of a copy: how many of its tasks ran.
    #[serde(default)]
    pub tasks: Option<TasksResult>,
}

/// A limit of the study on a phase, judged over all attempts: what failed or was not answered counts as
/// infinitely slow.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LimitResult {
    /// The limit's path in the study: `by-user.page.response.p99`.
    pub path: String,
    /// The most that meets it: ns of a time, a share of `errors`.
    pub limit: f64,
    /// What was found, in the same unit; null where it is infinite.
    pub found: Option<f64>,
    /// Of a time: the share of all attempts that were answered within the limit.
    pub share_within: Option<f64>,
    /// Attempts that it was judged over.
    pub attempts: u64,
    /// Whether it was met.
    pub met: bool,
}

/// What one factor does to one figure, everything else alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FactorSweep {
    /// The factor's path.
    pub factor: String,
    /// Name of the store.
    pub store: String,
    /// The values of the other factors.
    pub others: IndexMap<String, serde_json::Value>,
    /// The figure: `PHASE.documents`, `PHASE.throughput`.
    pub figure: String,
    /// The curve, and where more stops helping.
    pub sweep: Sweep,
}

/// How many tasks of a copy ran.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TasksResult {
    /// Tasks that were asked for.
    pub asked: u32,
    /// The most that ran at once.
    pub at_once: u32,
    /// Parts that the work was cut into.
    pub parts: u64,
}

/// A configuration over all its trials.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ConfigurationResult {
    /// Its name: the store, and the values of the study's factors.
    pub configuration: String,
    /// Name of the store in the study.
    pub store: String,
    /// Values of the study's factors by path.
    pub values: IndexMap<String, serde_json::Value>,
    /// Trials that completed.
    pub trials: u32,
    /// Trials that failed or were cut off; they are in no figure.
    pub failed: u32,
    /// Each figure over its trials by name (`PHASE.OP.MEASURE`), with its interval.
    pub figures: IndexMap<String, FigureOverTrials>,
}

/// One figure of a configuration over its trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FigureOverTrials {
    /// Over the trials of the configuration that have it. Without an interval where some have not, or where it is a least value.
    pub figure: Estimate,
    /// This configuration over the first configuration, paired by rounds; null for the first configuration itself, and where a trial of one of them has
    /// no such figure. Where the two did not do the same the check `work-differs` says so.
    pub to_first: Option<Estimate>,
    /// Trials in which there was none: nothing succeeded, the time was not reached by enough attempts, or no rate met
    /// the limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub none_in: Vec<u32>,
    /// Whether it is at least this: a search found no rate at which the limits are not met.
    #[serde(default)]
    pub at_least: bool,
    /// Trials that are unlike the others of the configuration. They are in the figure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outlying_trials: Vec<u32>,
}

/// A guarantee by its name, and how this store was set to keep it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Guarantee {
    /// The name, alike on every store.
    pub name: String,
    /// What the store was set to.
    pub means: Option<String>,
}

/// The rate of an open loop.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RateResult {
    /// Operations that were scheduled within the phase.
    pub scheduled: u64,
    /// `scheduled` over the time in which the schedule has them start: the planned rate, on average.
    pub scheduled_per_s: f64,
    /// Successes and misses over the time until they were answered, which is never taken shorter than
    /// the schedule and leaves out the least service time. Failures do not count.
    pub achieved_per_s: f64,
    /// `achieved_per_s` over `scheduled_per_s` (0 to 1).
    pub sustained_share: f64,
    /// The rate as the study says it (a number, a ramp or steps).
    pub planned: serde_json::Value,
}

/// What happened to the operations of one label.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct OpResult {
    /// The operation: `read`, `upsert`, `bulk-insert`, `copy-in`, …
    pub kind: String,
    /// The collection.
    pub collection: String,
    /// Documents of one operation (1 but for bulk forms).
    pub batch: u32,
    /// Operations that ended: succeeded, missed or failed.
    pub count: u64,
    /// That did what was asked.
    pub succeeded: u64,
    /// That found no document.
    pub misses: u64,
    /// That failed.
    pub errors: u64,
    /// The failed by kind; kinds that did not come are left out.
    pub errors_by_kind: IndexMap<String, u64>,
    /// Of the failed: given up at the timeout.
    pub timed_out: u64,
    /// Scheduled, but unfinished when the phase ended.
    pub unfinished: u64,
    /// Further tries after temporary failures.
    pub retries: u64,
    /// Successes over the elapsed time of the phase; in an open loop over the time in which they come to the rate that
    /// was achieved, so that one answer that comes late in the drain does not stand for all.
    pub throughput_per_s: f64,
    /// Documents written, read or found.
    pub documents: u64,
    /// `documents` over the elapsed time of the phase.
    pub documents_per_s: f64,
    /// Bytes of keys and documents sent with writes.
    pub written_bytes: u64,
    /// Bytes of documents read.
    pub read_bytes: u64,
    /// Documents whose contents were compared with what they should be.
    pub checked: u64,
    /// Of them: those that differed.
    pub wrong: u64,
    /// How the store said that it would answer: for page, prefix, scan and view, where it tells.
    #[serde(default)]
    pub query_plan: Option<QueryPlanResult>,
    /// Open loop: from the scheduled start to the end, of successes, misses and unfinished operations
    /// (these at their age at the end, a lower bound). Null in closed loop.
    pub response_ns: Option<Percentiles>,
    /// The same over all attempts, where some failed or were not answered when the phase ended: those took for ever, and a
    /// percentile that is among them is null. Limits, and the figures that configurations are compared by, are over all attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_of_attempts_ns: Option<Percentiles>,
    /// From the send to the end, of successes and misses.
    pub service_ns: Percentiles,
    /// The same over all attempts, as of the response times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_of_attempts_ns: Option<Percentiles>,
    /// From the scheduled start (closed loop: the send) to the end, of failed operations.
    pub failed_ns: Percentiles,
    /// Open loop: how long a scheduled operation waited because the in-flight limit was reached. Null in closed loop.
    pub client_queueing_ns: Option<Percentiles>,
}

/// How a store would answer a query.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct QueryPlanResult {
    /// The field that is asked for, of a page.
    pub field: Option<String>,
    /// The plan as the store prints it, at most 8,000 characters.
    pub plan: String,
    /// Whether it reads the whole collection.
    pub full_scan: bool,
}

/// Times of all operations of a phase together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
}

/// Percentiles of a merged histogram with 3 significant digits; null when it holds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Percentiles {
    /// How many values.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Least.
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
    /// Greatest.
    pub max: Option<u64>,
}

/// What the client used of its machine in a phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ClientUse {
    /// Processor time of the client itself for one operation, in µs, without active waiting. Null
    /// when no operation ended, or an embedded store's client was not calibrated.
    pub cpu_us_per_op: Option<f64>,
    /// The same for one document written or read (bulk operations hold many).
    pub cpu_us_per_document: Option<f64>,
    /// Where `cpu_us_per_op` comes from: `measured` on the workers' threads, or, for an embedded
    /// store, whose work runs on the same threads, `calibrated-on-null`.
    pub cpu_source: String,
    /// Processor time of the whole process for one operation, in µs, without active waiting.
    pub process_cpu_us_per_op: Option<f64>,
    /// Processor time of all workers' threads, in s, active waiting included.
    pub worker_cpu_s: f64,
    /// Of it: active waiting (`pacing = "precise"`).
    pub spin_cpu_s: f64,
    /// Time the workers' threads were ready to run but not running, in s.
    pub run_queue_s: f64,
    /// Processor time of the whole process over the phase, in s.
    pub process_cpu_s: Option<f64>,
    /// The busiest worker: its processor time without active waiting, over its time.
    pub busiest_worker_share: f64,
    /// Time by which a thread that only sleeps was woken too late, summed over lateness of 5 ms and
    /// more, in s: the process was stopped, throttled or crowded out.
    pub starved_s: f64,
    /// Greatest resident memory, in bytes.
    pub rss_max_bytes: u64,
    /// Open loop: how late the client sent though the in-flight limit was not reached. Percentiles are null in closed loop.
    pub send_delay_ns: Percentiles,
    /// Each worker's use of its processor.
    pub worker_use: Vec<WorkerUse>,
}

/// The documents that a phase touched.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PhaseDocuments {
    /// Documents written, read or found.
    pub count: u64,
    /// Bytes written and read.
    pub bytes: u64,
    /// Distinct keys touched, over all collections (an estimate within 1 %).
    pub distinct_keys: u64,
    /// zstd value 3 over 32 KiB pages: compressed / raw, over the collections touched, weighted by
    /// their bytes. Null where none was measured.
    pub compress_page: Option<f64>,
    /// Snappy, each document by itself; weighted alike.
    pub compress_doc: Option<f64>,
    /// Distinct keys by collection.
    pub distinct_keys_by_collection: IndexMap<String, u64>,
}

/// A message of failed operations, and how often it came.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Message {
    /// What the store said.
    pub message: String,
    /// How often.
    pub count: u64,
}

/// What the store told about itself while a phase ran.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StoreStatsResult {
    /// Answers that it gave.
    pub answers: u64,
    /// Questions that failed. They take nothing from what was measured.
    pub failed: u64,
    /// What the first of them said.
    pub message: Option<String>,
    /// Whether asking was given up, since the store works on the client's processors and takes long to
    /// answer: what it tells after the phase is in `store_after`.
    pub too_slow: bool,
    /// Its figures; the unit is in the name.
    pub figures: IndexMap<String, FigureResult>,
}

/// One figure of a store over a phase.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FigureResult {
    /// When the phase began.
    pub first: f64,
    /// When it had ended.
    pub last: f64,
    /// The greatest that was seen.
    pub max: f64,
}

/// The store after a phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StoreAfter {
    /// Size of its files, where they are known (of embedded stores, and of servers with a `data` folder), as the file system
    /// counts it (blocks in use).
    pub disk_bytes: Option<u64>,
    /// Whether it came to rest, if that was waited for.
    pub settled: Option<bool>,
    /// How long that took.
    pub settle_ns: Option<u64>,
    /// How long a compaction took, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact_ns: Option<u64>,
    /// The most that its files took while it came to rest or compacted, in bytes (blocks in use), looked at every 50 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_peak_bytes: Option<u64>,
    /// What it tells about itself; the unit is in the name.
    pub stats: IndexMap<String, f64>,
}
