//! What `compare --json` prints. These types are the format; within it fields may be added.

use indexmap::IndexSet;
use serde::{Deserialize, Serialize};

use crate::comparability::Difference;
use crate::exit;
use crate::stats::{Estimate, Uncertain};
use crate::validity::Severity;

/// The name of the format that this version writes.
pub const COMPARE_FORMAT: &str = "storebench-compare/2";

/// Configurations beside each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompareResult {
    /// Always `storebench-compare/2`.
    pub format: String,
    /// The share within which a figure counts as unchanged: 0.02 for 2 %.
    pub threshold: f64,
    /// Confidence of every interval: 0.95.
    pub confidence: f64,
    /// Whether `--anyway` allowed runs that are partial, invalid or not comparable.
    pub anyway: bool,
    /// The configurations that were compared, two by two.
    pub pairs: Vec<ComparedPair>,
    /// Configurations that only one of the runs has, or that no run of the history can be compared with.
    pub unmatched: Vec<UnmatchedConfiguration>,
    /// The change that every gate must be able to detect, as a share: 0.1 for 10 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub must_detect: Option<f64>,
    /// Whether undecided gates end with exit code 0 instead of 5 (`--undecided pass`).
    pub undecided_passes: bool,
    /// The outcome of each `--fail-on`, once for each figure that it names.
    pub gates: Vec<GateResult>,
}

/// Two configurations beside each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedPair {
    /// The reference.
    pub a: ComparedConfiguration,
    /// The configuration that is compared with A.
    pub b: ComparedConfiguration,
    /// Whether ratios were taken within rounds of one run. Otherwise they are between runs.
    pub paired_by_round: bool,
    /// Whether A is runs of a history, of which each figure has one value. How much they differ is then the noise of a
    /// single run B, too. Absent if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_history: bool,
    /// How their work, guarantees, copies or documents differ. Empty unless compared anyway.
    pub differences: Vec<Difference>,
    /// What else a reader should know.
    pub notes: Vec<String>,
    /// Every figure that both have.
    pub figures: Vec<ComparedFigure>,
}

/// One configuration, in a run or in several.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedConfiguration {
    /// The first run.
    #[serde(flatten)]
    pub first: ComparedRun,
    /// The other runs of this side.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_runs: Vec<ComparedRun>,
    /// The baseline's name, if it is one.
    pub baseline: Option<String>,
    /// The configuration.
    pub configuration: String,
    /// The study's title.
    pub title: String,
    /// Its checks at `caution` and `invalid`, worst first.
    pub checks: Vec<CheckCount>,
}

/// A run of a compared configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedRun {
    /// The run as it was named.
    pub run: String,
    /// When the run began (RFC 3339, UTC).
    pub began: String,
    /// Version of Storebench that measured it.
    pub storebench_version: String,
    /// Name and version of the store's engine or server.
    pub store_version: String,
    /// Trials that are in the figures.
    pub trials: Vec<u32>,
    /// Incomplete trials, which are in no figure.
    pub left_out: Vec<LeftOutTrial>,
}

/// An incomplete trial, which is in no figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOutTrial {
    /// Its number.
    pub trial: u32,
    /// Why it is incomplete.
    pub why: String,
}

/// How often a check reported a severity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckCount {
    /// Name of the check.
    pub check: String,
    /// The severity.
    pub severity: Severity,
    /// How often, over trials and phases.
    pub count: u32,
}

/// A configuration that only one run has, or that no run of the history can be compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnmatchedConfiguration {
    /// The run as it was named.
    pub run: String,
    /// The configuration.
    pub configuration: String,
    /// Why no run of the history can be compared with it. Absent without a history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// One figure of two configurations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedFigure {
    /// `PHASE.MEASURE` or `PHASE.OP.MEASURE`.
    pub figure: String,
    /// The phase.
    pub phase: String,
    /// The operation; null for all together.
    pub op: Option<String>,
    /// What was measured: `throughput`, `response.p99`.
    pub measure: String,
    /// Its unit: `/s`, `ns`, `B`.
    pub unit: String,
    /// Which way it is better: `more` or `less`.
    pub better: String,
    /// A over its trials.
    pub a: Estimate,
    /// B over its trials.
    pub b: Estimate,
    /// Trials of A in which there was none: nothing succeeded, the time was not reached by enough attempts, or no rate met
    /// the limits. There is no ratio then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub none_in_a: Vec<u32>,
    /// Trials of B, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub none_in_b: Vec<u32>,
    /// Trials of A that are unlike its others; they are in the figure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outlying_a: Vec<u32>,
    /// Trials of B, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outlying_b: Vec<u32>,
    /// B / A; null where a trial has none.
    pub ratio: Option<Estimate>,
    /// How certain the difference is.
    pub judgement: Judgement,
    /// The same in the figure's own word: `faster`, `larger`, `unchanged`, …
    pub word: String,
    /// Whether it is missing only because too few operations were attempted, or because no run of a history has it.
    #[serde(skip)]
    pub(crate) too_few: bool,
    /// The ratio before it gets an interval.
    #[serde(skip)]
    pub(crate) uncertain: Option<Uncertain>,
    /// The standard deviation between the runs of A, as a share, if A is a history.
    #[serde(skip)]
    pub(crate) spread_of_a: Option<f64>,
    /// The figure's name with the operation, where the phase has a single one: gates may say it.
    #[serde(skip)]
    pub(crate) also: Option<String>,
}

/// How certain a difference is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// B is better by more than the threshold, and the interval excludes that they are the same.
    Better,
    /// B is worse, likewise.
    Worse,
    /// The whole interval lies within the threshold.
    Unchanged,
    /// None of these: the trials do not decide.
    Inconclusive,
    /// A single trial has no interval.
    OneTrial,
    /// Two runs show a difference, but not how much runs differ by themselves.
    OneRun,
    /// A trial of A, of B or of both lacks the figure.
    Missing,
    /// The limits are met at the highest rate of a search, so the figure is a lower bound.
    AtLeast,
}

/// One gate on one figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GateResult {
    /// The gate as it was typed.
    pub gate: String,
    /// Number of the pair in `pairs`, from 1.
    pub pair: u32,
    /// The figure.
    pub figure: String,
    /// The limit as a ratio B / A.
    pub line: f64,
    /// B / A; null where a trial has no such figure. The intervals of all gates cover the true ratios together.
    pub ratio: Option<Estimate>,
    /// The smallest change beyond the limit at which this gate would have failed in 8 of 10 such comparisons, as a ratio
    /// B / A. Null without an interval.
    pub detectable: Option<f64>,
    /// The outcome.
    pub outcome: GateOutcome,
    /// Undecided: about how many rounds, or runs on each side, would decide it in half of all such comparisons, if B / A
    /// is as it was measured. Null if it is not known, or if 1,000 are not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Why it failed without a ratio, or is undecided, and what would decide it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The outcome of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GateOutcome {
    /// The whole interval is within the limit.
    Passed,
    /// The whole interval is beyond the limit, or only B has trials without the figure.
    Failed,
    /// Neither: the limit is inside the interval, or the ratio has no interval.
    Undecided,
    /// Undecided, and the gate would have overlooked a change that `--must-detect` asks it to detect.
    TooWeak,
}

impl CompareResult {
    /// The exit code: 4 if a run is invalid by its own checks (unless compared anyway), 1 if a gate failed, 4 if a gate
    /// is too weak, 5 if one is undecided (unless that passes), otherwise 0. The first that applies counts: a gate on
    /// invalid figures has no meaning.
    pub fn exit_code(&self) -> u8 {
        self.trouble_and_code().map_or(exit::FINE, |(_, code)| code)
    }

    /// Whether a run is invalid by its own checks, and is not compared anyway.
    pub fn is_invalid(&self) -> bool {
        !self.anyway && !self.invalid().is_empty()
    }

    /// The reason for an exit code other than 0.
    pub fn trouble(&self) -> Option<String> {
        self.trouble_and_code().map(|(trouble, _)| trouble)
    }

    fn trouble_and_code(&self) -> Option<(String, u8)> {
        let of = |outcome| -> Vec<String> {
            let gates = self.gates.iter().filter(|gate| gate.outcome == outcome);
            let why = |gate: &GateResult| gate.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
            gates.map(|gate| format!("{} ({}){}", gate.figure, gate.gate, why(gate))).collect()
        };
        let [failed, weak, undecided] = [GateOutcome::Failed, GateOutcome::TooWeak, GateOutcome::Undecided].map(of);
        if self.is_invalid() {
            let runs = self.invalid().join("; ");
            Some((format!("invalid by its own checks: {runs}; measure again, or use --anyway"), exit::INVALID))
        } else if !failed.is_empty() {
            Some((format!("gate failed: {}", failed.join("; ")), exit::SPOILED))
        } else if !weak.is_empty() {
            let next = "measure more rounds or longer phases, or use a quieter machine";
            Some((format!("gate too weak: {}; {next}", weak.join("; ")), exit::INVALID))
        } else if !undecided.is_empty() && !self.undecided_passes {
            let undecided = undecided.join("; ");
            let next = "to exit with 0 all the same, use --undecided pass";
            Some((format!("gate undecided: {undecided}; {next}"), exit::UNDECIDED))
        } else {
            None
        }
    }

    /// The pair of a gate, if there are several.
    pub fn pair_of(&self, gate: &GateResult) -> Option<&ComparedPair> {
        self.pairs.get(gate.pair as usize - 1).filter(|_| self.pairs.len() > 1)
    }

    /// Configurations that are invalid, each with its checks.
    fn invalid(&self) -> Vec<String> {
        let checks_of = |configuration: &ComparedConfiguration| {
            let invalid = configuration.checks.iter().filter(|v| v.severity == Severity::Invalid);
            let checks: Vec<&str> = invalid.map(|v| v.check.as_str()).collect();
            (!checks.is_empty()).then(|| format!("{} ({})", configuration.label(), checks.join(", ")))
        };
        let configurations = self.pairs.iter().flat_map(|pair| [&pair.a, &pair.b]);
        configurations.filter_map(checks_of).collect::<IndexSet<_>>().into_iter().collect()
    }
}

impl ComparedFigure {
    /// `PHASE` or `PHASE.OP`.
    pub(super) fn place(&self) -> String {
        self.op.as_ref().map_or_else(|| self.phase.clone(), |op| format!("{}.{op}", self.phase))
    }

    /// `response p99 of steady.read`.
    pub(super) fn in_words(&self) -> String {
        format!("{} of {}", self.measure.replacen('.', " ", 1).replace('-', " "), self.place())
    }
}

impl ComparedConfiguration {
    /// All runs of this side.
    pub fn runs(&self) -> impl Iterator<Item = &ComparedRun> {
        std::iter::once(&self.first).chain(&self.more_runs)
    }

    /// The names of its runs.
    pub fn names(&self) -> String {
        self.runs().map(|run| run.run.as_str()).collect::<Vec<_>>().join(",")
    }

    /// How it is named in one word: `RUN#CONFIGURATION`.
    pub fn label(&self) -> String {
        match &self.baseline {
            Some(name) => format!("baseline {name}#{}", self.configuration),
            None => format!("{}#{}", self.names(), self.configuration),
        }
    }
}
