//! The document `run.json`: what was run and what was found. `--json` prints the same.
//!
//! These types define the format. They are separate from the types that measure, so that a change there does not change
//! the files. Fields may be added within a format; a field that changes its meaning requires a new format. Times are in
//! nanoseconds (`_ns`), sizes in bytes (`_bytes`), shares from 0 to 1 (`_share`).

use indexmap::IndexMap;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use storebench_documents::Compression;
use storebench_engine::measure::{LedgerReport, WorkerUse};
use storebench_engine::store::{SessionCounters, StoreError};
use storebench_study::Part;

use crate::bottleneck::Bottleneck;
use crate::claims::ClaimResult;
use crate::cost::CostResult;
use crate::environment::Environment;
use crate::plan::Plan;
use crate::stats::{Estimate, Steadiness};
use crate::sweep::Sweep;
use crate::validity::CheckResult;

use super::answers::{QueryAnswers, ReplayAnswers};
use super::broken::{FaultResult, RestartedResult};
use super::generators::{GeneratorResult, PartsResult};
use super::history::HistoryResult;
use super::indexes::IndexResult;
use super::operations::OpResult;
use super::resources::ResourcesResult;
use super::search::SearchResult;

/// The format that this version writes and reads.
pub const FORMAT: &str = "storebench-run/2";

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunResult {
    /// Always `storebench-run/2`.
    pub format: String,
    /// What was run, when, by which version.
    pub run: RunInfo,
    /// The plan of the run.
    pub plan: Plan,
    /// The machine of the client.
    pub environment: Environment,
    /// The documents, by collection, in the order of the study. A collection whose documents differ between
    /// configurations appears several times.
    pub documents: Vec<CollectionResult>,
    /// The trials, in the order they ran.
    pub trials: Vec<TrialResult>,
    /// Each configuration over its trials, in the order of the study. Derived from the trials.
    #[serde(default)]
    pub configurations: Vec<ConfigurationResult>,
    /// How each numeric factor changes each measured phase. Derived from the trials.
    #[serde(default)]
    pub sweeps: Vec<FactorSweep>,
    /// The study's published claims, and how they compare with the measurement.
    #[serde(default)]
    pub claims: Vec<ClaimResult>,
    /// What the configurations cost, with the price sheet. Null if none was given.
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

    /// Every phase of every trial, without warm-ups, which are not results.
    pub fn measured_phases(&self) -> impl Iterator<Item = &PhaseResult> + Clone {
        self.phases().filter(|phase| !phase.warm_up)
    }

    /// Whether a factor varies this phase alone.
    pub(crate) fn varies(&self, phase: &str) -> bool {
        let of = |path: &String| path.strip_prefix("phases.").and_then(|rest| rest.split('.').next()) == Some(phase);
        self.trials.iter().any(|trial| trial.values.keys().any(of))
    }
}

impl RunInfo {
    /// How long the run took from its begin to its end, in s. `None` if it has not ended, or was resumed after a break.
    pub fn took_s(&self) -> Option<f64> {
        let at = |text: &str| text.parse::<jiff::Timestamp>().ok();
        let (began, ended) = (at(&self.began)?, at(self.ended.as_deref()?)?);
        self.resumed.is_empty().then(|| ended.duration_since(began).as_secs_f64())
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
    /// When it ended. Null while it runs, and after a crash.
    pub ended: Option<String>,
    /// Version of Storebench.
    pub storebench_version: String,
    /// The commit it was built from, if known.
    pub storebench_commit: Option<String>,
    /// The seed of everything random.
    pub seed: u64,
    /// Factor on the number of documents.
    pub scale: f64,
    /// The study file as it was given; its text is in `study.toml`.
    pub study_file: Option<String>,
    /// Overrides `path=value`, in the order given.
    pub overrides: Vec<String>,
    /// The study with overrides, before scale; URLs of stores without secrets.
    pub study: serde_json::Value,
    /// What was found by search while making documents (calibration, sizes, files). With it, another run makes the same
    /// bytes without searching.
    pub frozen: serde_json::Value,
    /// When it was resumed after it had broken off (RFC 3339, UTC). Rounds that span such a moment contain any drift
    /// since then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<String>,
    /// Whether it was interrupted. What was measured until then is kept.
    pub interrupted: bool,
    /// The part of the run that this process ran. Null if it ran all of it, and for merged runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// For merged runs: the parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<PartsResult>,
    /// The run folder, if one was kept.
    pub folder: Option<String>,
}

/// The documents of one collection.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CollectionResult {
    /// Its name.
    pub collection: String,
    /// The configurations that had these documents. Empty if all had them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configurations: Vec<String>,
    /// Number of documents, after scale, relation and file.
    pub count: u64,
    /// Mean size of a document, from a sample.
    pub mean_bytes: u64,
    /// The store's name for them, if they already existed and are only read. Their number and size are in `sampled` of
    /// each trial.
    #[serde(default)]
    pub existing: Option<String>,
    /// Whether the documents are the user's own (`from`).
    pub own: bool,
    /// The kind of document: `json`, `bytes` or `counter`.
    pub body: String,
    /// Lines of the user's file that were skipped.
    pub skipped_lines: u64,
    /// The target compression ratio of pages with zstd, if one was set.
    pub compress_to: Option<f64>,
    /// How far a sample could be compressed. Null for counters.
    pub compression: Option<Compression>,
    /// One document as it was made, cut off if it is long. Null for the user's own documents, which are private, and
    /// for documents that are not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
}

impl CollectionResult {
    /// Whether a configuration had these documents.
    pub fn is_of(&self, configuration: &str) -> bool {
        self.configurations.is_empty() || self.configurations.iter().any(|name| name == configuration)
    }

    /// Its name, and the configurations with these documents if others had different ones: `books (a, b and 3 more)`.
    pub fn named(&self) -> String {
        let first = self.configurations.iter().take(2).map(String::as_str).collect::<Vec<_>>().join(", ");
        match self.configurations.len() {
            0 => self.collection.clone(),
            1 | 2 => format!("{} ({first})", self.collection),
            n => format!("{} ({first} and {} more)", self.collection, n - 2),
        }
    }
}

/// One configuration measured once.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TrialResult {
    /// Number of the trial in the order they ran, from 1.
    pub trial: u32,
    /// The round (repeat) it belongs to, from 1. Each round measures every configuration once.
    pub round: u32,
    /// Name of the store in the study.
    pub store: String,
    /// Its configuration: the store, and the values of the study's factors.
    #[serde(default)]
    pub configuration: String,
    /// Values of the study's factors by path, as the study gives them.
    pub values: IndexMap<String, serde_json::Value>,
    /// The folder of its server's data, if the run starts the server and the study names the folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_folder: Option<String>,
    /// Whether the configuration repeats the first one, to show how much two like configurations differ.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// The host that was used, if stores take turns on the study's `hosts`.
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
    /// Whether the host of its URL was this machine, by its addresses when the trial began. Null if unknown.
    #[serde(default)]
    pub here: Option<bool>,
    /// Notes of the driver for a reader.
    pub notes: Vec<String>,
    /// Operations that the driver builds from others, and from which.
    pub approximated: IndexMap<String, String>,
    /// When it began (RFC 3339, UTC).
    pub began: String,
    /// What was sampled from documents that already existed in the store, by collection.
    #[serde(default)]
    pub sampled: IndexMap<String, SampledResult>,
    /// How long its server took from its start until the store answered, in ns, if the run started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_ready_ns: Option<u64>,
    /// What queries with `same_on` answered once the documents were loaded, in the first trial of each configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<QueryAnswers>,
    /// Indexes in the store's own words, built after the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexResult>,
    /// Its phases, in order, including warm-ups. A phase whose rate was searched appears at the highest rate that met
    /// the limits.
    pub phases: Vec<PhaseResult>,
    /// Searches for the highest rate at which the study's limits are met.
    #[serde(default)]
    pub searches: Vec<SearchResult>,
    /// Why it ended early, if it did.
    pub failure: Option<Failure>,
}

/// What was sampled from documents that already existed in a store.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SampledResult {
    /// The store's name for them.
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
    /// How it ended early.
    pub kind: FailureKind,
    /// Where: the name of a phase, or `prepare`, `close`.
    pub during: String,
    /// What happened.
    pub message: String,
}

/// How a trial ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The store's URL is invalid.
    BadUrl,
    /// The place holds data that Storebench did not create.
    NotOurs,
    /// The store cannot do what was asked.
    NotSupported,
    /// The store could not be reached, or its connection was lost.
    Unreachable,
    /// No key was left to write.
    CutShort,
    /// Another part of the run failed, was lost, or is missing.
    OtherPart,
    /// It failed in another way.
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

impl PhaseResult {
    /// How many operations failed.
    pub fn failed_operations(&self) -> u64 {
        self.ops.values().map(|op| op.errors).sum()
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
    #[serde(default)]
    pub sessions: u64,
    /// The most operations in flight over all connections: `sessions` × `in_flight`.
    #[serde(default)]
    pub in_flight_limit: u64,
    /// How operations were drawn and given up, by the study's keys: `popularity`, `streams`, `arrival`, `think`,
    /// `timeout`, `retry`, `on_disconnect`, `pin_workers`, and `mix.NAME.KEY` for what an entry of the mix sets besides its
    /// weight.
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
    #[serde(default)]
    pub store_stats: StoreStatsResult,
    /// Writes that may or may not have been done: there was no answer, or none that says so. 0 if the outcome of every
    /// write is known.
    #[serde(default)]
    pub unknown_outcomes: u64,
    /// The store after the phase (and after settling, if that was asked for).
    pub store_after: Option<StoreAfter>,
    /// Whether the answers per second stayed level. Null with fewer than ten intervals.
    #[serde(default)]
    pub steadiness: Option<Steadiness>,
    /// The same for the median response time of each interval of an open loop, in ns, because its schedule sets the
    /// answers per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_steadiness: Option<Steadiness>,
    /// The study's limits on this phase.
    #[serde(default)]
    pub limits: Vec<LimitResult>,
    /// For a copy: how many of its tasks ran.
    #[serde(default)]
    pub tasks: Option<TasksResult>,
}

/// A limit of the study on a phase, judged over all attempts. Operations that failed or were not answered count as
/// infinitely slow.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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

/// How one factor changes one figure, with everything else equal.
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
    /// Tasks that were requested.
    pub asked: u32,
    /// The most that ran at once.
    pub at_once: u32,
    /// Parts into which the work was split.
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
    /// Whether it repeats the first one. `to_first` of its figures is then noise of the machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// Trials that completed. Figures count those of the rounds that all compared configurations completed.
    pub trials: u32,
    /// Trials that failed or ended early. They are in no figure.
    pub failed: u32,
    /// Whether it has not enough rounds in common with the others to be compared. Its figures then count all its trials.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub apart: bool,
    /// Each figure over its trials by name (`PHASE.OP.MEASURE`), with its interval.
    pub figures: IndexMap<String, FigureOverTrials>,
}

/// One figure of a configuration over its trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FigureOverTrials {
    /// Over the trials of the configuration that have it. It has no interval if some trials lack it, or if it is a
    /// lower bound.
    pub figure: Estimate,
    /// This configuration relative to the first one, paired by rounds. Null for the first configuration itself, and if
    /// a trial of either lacks the figure. If the two did different work, the check `work-differs` says so.
    pub to_first: Option<Estimate>,
    /// Trials without the figure: nothing succeeded, too few attempts were answered for the percentile, or no rate met
    /// the limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub none_in: Vec<u32>,
    /// Those of `none_in` in which too few attempts were answered for the percentile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub too_few_in: Vec<u32>,
    /// Whether it is a lower bound: a search found no rate that misses the limits.
    #[serde(default)]
    pub at_least: bool,
    /// Trials that are outliers among those of the configuration. They are included in the figure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outlying_trials: Vec<u32>,
}

/// A guarantee, and how this store was set to keep it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
    /// How much of each percentile is the client's own delay.
    #[serde(default)]
    pub own_delay_share: OwnDelay,
}

/// The share of each percentile that is the client's own delay, from 0 to 1: of the response time, or in closed loop of
/// the service time. Null if it is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
    #[serde(default, skip_serializing_if = "Percentiles::are_unknown")]
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
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Message {
    /// What the store said.
    pub message: String,
    /// How often it occurred.
    pub count: u64,
}

/// What the store reported about itself during a phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
