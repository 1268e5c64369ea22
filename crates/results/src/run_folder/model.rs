//! The document `run.json`: what was run and what was found. `--json` prints the same.
//!
//! These types define the format. They are separate from the types that measure, so that a change there does not change
//! the files. Fields may be added within a format; a field that changes its meaning requires a new format. Times are in
//! nanoseconds (`_ns`), sizes in bytes (`_bytes`), shares from 0 to 1 (`_share`).

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use storebench_documents::Compression;
use storebench_engine::store::StoreError;
use storebench_study::Part;

use crate::claims::ClaimResult;
use crate::cost::CostResult;
use crate::environment::Environment;
use crate::plan::Plan;
use crate::stats::Estimate;
use crate::sweep::Sweep;
use crate::validity::CheckResult;

use super::answers::QueryAnswers;
use super::generators::PartsResult;
use super::indexes::IndexResult;
use super::phase::PhaseResult;
use super::search::SearchResult;
use super::settings::SettingsResult;

/// The format that this version writes and reads.
pub const FORMAT: &str = "storebench-run/3";

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunResult {
    /// Always `storebench-run/3`.
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
    pub configurations: Vec<ConfigurationResult>,
    /// How each numeric factor changes each measured phase. Derived from the trials.
    pub sweeps: Vec<FactorSweep>,
    /// The study's published claims, and how they compare with the measurement.
    pub claims: Vec<ClaimResult>,
    /// What the configurations cost, with the price sheet. Null if none was given.
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
    /// Why the run is partial, if it is.
    pub fn unfinished(&self) -> Option<&'static str> {
        if self.interrupted {
            Some("it was interrupted")
        } else if self.ended.is_none() {
            Some("it is still running, or was killed")
        } else {
            None
        }
    }

    /// Whether it ended at most so long ago.
    pub fn ended_within(&self, time: std::time::Duration) -> bool {
        let ended = self.ended.as_deref().and_then(|text| text.parse::<jiff::Timestamp>().ok());
        ended.is_some_and(|ended| jiff::Timestamp::now().duration_since(ended).as_secs_f64() <= time.as_secs_f64())
    }

    /// How long the run took from its begin to its end, in s. `None` if it has not ended, or was resumed after a break.
    pub fn took_s(&self) -> Option<f64> {
        let at = |text: &str| text.parse::<jiff::Timestamp>().ok();
        let (began, ended) = (at(&self.began)?, at(self.ended.as_deref()?)?);
        self.resumed.is_empty().then(|| ended.duration_since(began).as_secs_f64())
    }
}

/// What was run, when, by which version.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// What was found by search while making documents (calibration, sizes), and hashes of the files that were read.
    /// Runs in which this, the seed, the scale and the study are equal make the same bytes.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialResult {
    /// Number of the trial in the order they ran, from 1.
    pub trial: u32,
    /// The round (repeat) it belongs to, from 1. Each round measures every configuration once.
    pub round: u32,
    /// Name of the store in the study.
    pub store: String,
    /// Its configuration: the store, and the values of the study's factors.
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
    pub database_kept: bool,
    /// Documents that its phases drew from or loaded, by collection, after scale.
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
    pub here: Option<bool>,
    /// Notes of the driver for a reader.
    pub notes: Vec<String>,
    /// Operations that the driver builds from others, and from which.
    pub approximated: IndexMap<String, String>,
    /// When it began (RFC 3339, UTC).
    pub began: String,
    /// What was sampled from documents that already existed in the store, by collection.
    pub sampled: IndexMap<String, SampledResult>,
    /// How long its server took from its start until the store answered, in ns, if the run started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_ready_ns: Option<u64>,
    /// How the store says that it is set up, in the first trial of each configuration. Omitted if it says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<SettingsResult>,
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
    pub searches: Vec<SearchResult>,
    /// Why it ended early, if it did.
    pub failure: Option<Failure>,
}

/// What was sampled from documents that already existed in a store.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// How one factor changes one figure, with everything else equal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// A configuration over all its trials.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    pub at_least: bool,
    /// Trials that are outliers among those of the configuration. They are included in the figure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outlying_trials: Vec<u32>,
}
