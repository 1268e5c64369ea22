//! What a history shows: its lines, where they changed, and what would have been found.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::baseline::no_runs_of;
use super::changes::{Change, Changes, FalseAlarms, LEAST_AFTER, LEAST_BEFORE, changes, clipped, detectable};
use super::folder::HistoryError;
use super::lines::{Line, Point, is_named, lines};
use super::model::HistoryEntry;
use crate::exit;
use crate::figures::Better;
use crate::stats::{Estimate, Observed, mean_of_runs, ratio_of_runs};

/// The format of `history check --json` and `history show --json`.
pub const HISTORY_REPORT_FORMAT: &str = "storebench-history-report/1";
/// Runs without a change in which one false alarm is allowed.
pub const DEFAULT_FALSE_ALARM_EVERY: u32 = 200;
/// A slowdown fails the check if one of so many last runs found it.
pub const DEFAULT_RECENT: u32 = 10;
/// The share of false alarms that may be changes for the better. They end no check, so they may take longer to be found.
const OF_THE_BETTER: f64 = 0.1;

/// What is asked of a history.
#[derive(Debug, Clone)]
pub struct HistoryRequest<'a> {
    /// Its entries, oldest first.
    pub entries: &'a [HistoryEntry],
    /// The branch to look at. `None`: that of the newest entry.
    pub branch: Option<&'a str>,
    /// The figures to look at, `[PHASE.][OP.]MEASURE`. Empty: the one that stands for each phase.
    pub figures: &'a [String],
    /// Runs without a change in which one false alarm is allowed, over all lines.
    pub false_alarm_every: u32,
    /// A slowdown fails the check if one of so many last runs found it.
    pub recent: u32,
}

/// What a history shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryReport {
    /// Always `storebench-history-report/1`.
    pub format: String,
    /// The branch. Null if the runs name none.
    pub branch: Option<String>,
    /// Runs of the branch.
    pub runs: u32,
    /// When the first and the last of them began (RFC 3339, UTC).
    pub from: String,
    /// See `from`.
    pub to: String,
    /// Runs of other branches, which were not looked at.
    pub other_branches: u32,
    /// Runs that name no branch, which were not looked at, if runs of a branch were.
    #[serde(default)]
    pub without_branch: u32,
    /// In how many runs without a change one false alarm is allowed, over all lines together.
    pub false_alarm_every: u32,
    /// A slowdown fails the check if one of so many last runs found it.
    pub recent: u32,
    /// The lines, in the order of their first runs.
    pub lines: Vec<HistoryLine>,
}

/// One figure of one configuration over the runs of one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryLine {
    /// The configuration.
    pub configuration: String,
    /// `PHASE.MEASURE` or `PHASE.OP.MEASURE`.
    pub figure: String,
    /// Its unit: `/s`, `ns`, `B`.
    pub unit: String,
    /// Whether `more` or `less` is better.
    pub better: String,
    /// The machine of the client.
    pub machine: String,
    /// The host of the store, if it is another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The number of the work: runs in which it differs are other lines.
    pub work: String,
    /// Whether it goes on. Other lines ended: since their newest run, one study ran 10 times on one machine, or `recent`
    /// times if that is more.
    pub current: bool,
    /// Whether its newest run has a value that counts.
    pub newest_counts: bool,
    /// Runs with the figure, oldest first.
    pub values: Vec<HistoryValue>,
    /// Runs without it: nothing succeeded, too few operations for a percentile, or only a lower bound.
    pub without: u32,
    /// Those of them since the last run with a value that counts or a lower bound. With 3 of them, a figure that had a value
    /// fails the check.
    #[serde(default)]
    pub without_since: u32,
    /// Runs in which a check found it invalid.
    pub invalid: u32,
    /// The mean since the last change.
    pub level: Option<Estimate>,
    /// How much one run differs from the mean of its time, as a share: the standard deviation. Null with too few runs.
    pub noise: Option<f64>,
    /// The smallest change for the worse that 5 further runs would show in 9 of 10 cases, as a ratio. Null if there are too
    /// few runs for any.
    pub detectable: Option<f64>,
    /// How many more runs it takes until a change can be found. 0 if one can.
    pub runs_missing: u32,
    /// Where it changed, oldest first.
    pub changes: Vec<HistoryChange>,
    /// Changes that were found and did not last.
    pub taken_back: Vec<HistoryTakenBack>,
}

/// A run of a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryRun {
    /// The run.
    pub run: String,
    /// When it began (RFC 3339, UTC).
    pub began: String,
    /// The commit that was measured.
    pub commit: Option<String>,
}

/// The figure of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryValue {
    /// The run.
    #[serde(flatten)]
    pub of: HistoryRun,
    /// Name and version of the store.
    pub version: String,
    /// The figure.
    pub value: f64,
    /// The lower end of its 95 % interval over the run's trials. Null without one.
    pub low: Option<f64>,
    /// The upper end, likewise.
    pub high: Option<f64>,
}

/// A change of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryChange {
    /// Whether it is for the worse.
    pub worse: bool,
    /// The mean after it divided by the mean before it, with the 95 % interval. Differences between runs are its unit.
    pub ratio: Estimate,
    /// The mean before it.
    pub before: f64,
    /// The mean after it.
    pub after: f64,
    /// The last run before the likeliest place.
    pub last_before: HistoryRun,
    /// The first run after it.
    pub first_after: HistoryRun,
    /// The first run that may be the first after it, with 95 % confidence.
    pub earliest: HistoryRun,
    /// The last such run.
    pub latest: HistoryRun,
    /// The last run that is certainly before it, with 95 % confidence: what changed is later than its commit.
    pub before_earliest: HistoryRun,
    /// The run with which it was found.
    pub found: HistoryRun,
    /// How many runs followed that one.
    pub runs_since_found: u32,
    /// Whether they show it. If not, the figures are those of the runs up to the one that found it.
    pub shown: bool,
    /// What else changed between the runs `before_earliest` and `latest`: versions of the store, of Storebench, the kernel.
    pub also_changed: Vec<String>,
}

/// A change that was found and did not last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryTakenBack {
    /// The first run after the place that was named.
    pub first_after: HistoryRun,
    /// The run with which it was found.
    pub found: HistoryRun,
    /// The run with which it was taken back.
    pub taken_back: HistoryRun,
}

/// What a history shows.
///
/// # Errors
/// The branch has no runs, or a figure is in none of them.
pub fn history_report(request: &HistoryRequest<'_>) -> Result<HistoryReport, HistoryError> {
    let nothing = |text: String| Err(HistoryError::Nothing(text));
    let newest = request.entries.last();
    let branch = request.branch.or_else(|| newest.and_then(|entry| entry.branch.as_deref()));
    let entries: Vec<&HistoryEntry> =
        request.entries.iter().filter(|entry| entry.branch.as_deref() == branch).collect();
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
        return Err(no_runs_of(branch.unwrap_or_default(), request.entries));
    };
    let without_branch = request.entries.iter().filter(|entry| branch.is_some() && entry.branch.is_none()).count();
    let found = lines(&entries, request.figures);
    for wanted in request.figures {
        if !found.iter().any(|line| is_named(line.of.figure, wanted)) {
            let configurations = entries.iter().flat_map(|entry| &entry.configurations);
            let figures = configurations.flat_map(|of| &of.figures).filter(|(_, [value, ..])| value.is_some());
            let there: BTreeSet<&str> = figures.map(|(name, _)| name.as_str()).collect();
            let near = storebench_study::workload::did_you_mean(wanted, there.iter().copied());
            let all = || there.iter().copied().collect::<Vec<_>>().join(", ");
            let hint = near.map_or_else(all, |near| format!("did you mean `{near}`?"));
            return nothing(format!("--figure {wanted}: no run of the history has a value of it; {hint}"));
        }
    }
    let found: Vec<(Line<'_>, bool)> = found
        .into_iter()
        .map(|line| {
            let current = goes_on(&line, &entries, request.recent);
            (line, current)
        })
        .collect();
    let current = found.iter().filter(|(_, current)| *current).count().max(1) as f64;
    let rate = 1.0 / (f64::from(request.false_alarm_every.max(1)) * current);
    Ok(HistoryReport {
        format: HISTORY_REPORT_FORMAT.to_owned(),
        branch: branch.map(str::to_owned),
        runs: entries.len() as u32,
        from: first.began.clone(),
        to: last.began.clone(),
        other_branches: (request.entries.len() - entries.len() - without_branch) as u32,
        without_branch: without_branch as u32,
        false_alarm_every: request.false_alarm_every,
        recent: request.recent,
        lines: found.iter().map(|(line, current)| HistoryLine::of(line, *current, rate)).collect(),
    })
}

/// Whether a line goes on: since its newest run, no study ran `recent` times on one machine. Studies and machines may take
/// turns.
fn goes_on(line: &Line<'_>, entries: &[&HistoryEntry], recent: u32) -> bool {
    let mut runs: IndexMap<(&str, &str), u32> = IndexMap::new();
    entries.iter().rev().take_while(|entry| !std::ptr::eq(**entry, line.newest)).all(|entry| {
        let runs = runs.entry((&entry.machine, &entry.title)).or_default();
        *runs += 1;
        *runs < recent.max(DEFAULT_RECENT)
    })
}

impl HistoryLine {
    fn of(line: &Line<'_>, current: bool, rate: f64) -> Self {
        let logs: Vec<f64> = line.points.iter().map(|point| point.value.ln()).collect();
        let more = line.measure.better == Better::More;
        let (worse, better) = (rate * (1.0 - OF_THE_BETTER), rate * OF_THE_BETTER);
        let allowed =
            if more { FalseAlarms { up: better, down: worse } } else { FalseAlarms { up: worse, down: better } };
        let found = changes(&logs, allowed);
        let last = found.changes.last();
        let since = last.map_or(0, |change| change.at);
        let today = last.map_or(0, Change::today);
        let level = mean_of_runs(&observed(&logs, today..logs.len(), found.noise)).map(|mean| mean.estimate(1));
        let needed = since + LEAST_BEFORE + LEAST_AFTER;
        let noise = found.noise.filter(|_| logs.len() >= LEAST_BEFORE);
        let step = noise.and_then(|noise| Some(detectable(worse, (logs.len() - since) as f64)? * noise));
        Self {
            configuration: line.of.configuration.to_owned(),
            figure: line.of.figure.to_owned(),
            unit: line.measure.unit.to_owned(),
            better: if more { "more" } else { "less" }.to_owned(),
            machine: line.of.machine.to_owned(),
            host: line.of.host.map(str::to_owned),
            work: line.of.work.to_owned(),
            current,
            newest_counts: line.points.last().is_some_and(|point| std::ptr::eq(point.entry, line.newest)),
            values: line.points.iter().map(HistoryValue::of).collect(),
            without: line.without,
            without_since: line.without_since,
            invalid: line.invalid,
            level,
            noise,
            detectable: step.map(|step| if more { (-step).exp() } else { step.exp() }),
            runs_missing: needed.saturating_sub(logs.len()) as u32,
            changes: found.changes.iter().map(|change| HistoryChange::of(line, &logs, change, found.noise)).collect(),
            taken_back: taken_back(line, &found),
        }
    }

    /// Changes for the worse that one of the last runs found.
    pub fn alarms(&self, recent: u32) -> impl Iterator<Item = &HistoryChange> {
        let alarm = move |change: &&HistoryChange| self.current && change.worse && change.runs_since_found < recent;
        self.changes.iter().filter(alarm)
    }

    /// Whether it had a value, and has none in so many of the newest runs that this is no odd night.
    pub fn is_lost(&self) -> bool {
        self.current && !self.values.is_empty() && self.without_since >= LEAST_AFTER as u32
    }

    /// Whether it fails the check.
    pub fn fails(&self, recent: u32) -> bool {
        self.is_lost() || self.alarms(recent).next().is_some()
    }

    /// Whether it has too few runs for a change to be found, and had none before.
    pub fn is_too_short(&self) -> bool {
        self.current && self.runs_missing > 0 && self.changes.is_empty()
    }
}

impl HistoryReport {
    /// The exit code of `history check`: 1 if a figure became worse or has no value any more; 5 if a line has too few runs
    /// to tell, or its newest run has no value that counts.
    pub fn exit_code(&self) -> u8 {
        let mut current = self.lines.iter().filter(|line| line.current);
        if self.lines.iter().any(|line| line.fails(self.recent)) {
            exit::SPOILED
        } else if self.newest_is_empty() || current.any(|line| line.is_too_short() || !line.newest_counts) {
            exit::UNDECIDED
        } else {
            exit::FINE
        }
    }

    /// How many more runs it takes until a change can be found in each line. 0 if it can.
    pub fn runs_missing(&self) -> u32 {
        self.lines.iter().filter(|line| line.is_too_short()).map(|line| line.runs_missing).max().unwrap_or(0)
    }

    /// Whether the newest run has no figure that counts.
    pub fn newest_is_empty(&self) -> bool {
        !self.lines.iter().any(|line| self.newest_has(line))
    }

    /// Whether the newest run has a value of a line that counts.
    fn newest_has(&self, line: &HistoryLine) -> bool {
        line.values.last().is_some_and(|value| value.of.began == self.to)
    }

    /// The lines whose newest run has no value that counts, and that are not lost.
    pub fn without_newest(&self) -> impl Iterator<Item = &HistoryLine> {
        self.lines.iter().filter(|line| line.current && !line.newest_counts && !line.is_lost())
    }

    /// The lines that go on and do not concern the newest run, which is on another machine, of another study, or lacks the
    /// configuration.
    pub fn not_in_newest(&self) -> impl Iterator<Item = &HistoryLine> {
        self.lines.iter().filter(|line| line.current && line.newest_counts && !self.newest_has(line))
    }
}

fn taken_back(line: &Line<'_>, found: &Changes) -> Vec<HistoryTakenBack> {
    let run = |at: usize| HistoryRun::of(&line.points[at]);
    let of = |back: &super::changes::TakenBack| HistoryTakenBack {
        first_after: run(back.at),
        found: run(back.found),
        taken_back: run(back.taken_back),
    };
    found.taken_back.iter().map(of).collect()
}

/// Figures of runs, of which none counts as further from the others than changes are judged by.
fn observed(logs: &[f64], runs: std::ops::Range<usize>, noise: Option<f64>) -> Vec<Observed> {
    clipped(&logs[runs], noise.unwrap_or(f64::INFINITY))
        .into_iter()
        .map(|log| Observed::exactly(0, log.exp()))
        .collect()
}

impl HistoryChange {
    fn of(line: &Line<'_>, logs: &[f64], change: &Change, noise: Option<f64>) -> Self {
        let (before, after) =
            (observed(logs, change.before.clone(), noise), observed(logs, change.after.clone(), noise));
        let mean = |figures: &[Observed]| mean_of_runs(figures).map_or(f64::NAN, |mean| mean.estimate(1).value);
        let ratio = ratio_of_runs(&after, &before).map(|ratio| ratio.estimate(1));
        let ratio = ratio.unwrap_or(Estimate { value: mean(&after) / mean(&before), low: None, high: None, trials: 1 });
        let point = |at: usize| &line.points[at];
        let run = |at: usize| HistoryRun::of(point(at));
        let (earliest, latest) = change.between;
        Self {
            worse: (ratio.value > 1.0) == (line.measure.better == Better::Less),
            ratio,
            before: mean(&before),
            after: mean(&after),
            last_before: run(change.at - 1),
            first_after: run(change.at),
            earliest: run(earliest),
            latest: run(latest),
            before_earliest: run(earliest - 1),
            found: run(change.found),
            runs_since_found: (line.points.len() - 1 - change.found) as u32,
            shown: change.shown,
            also_changed: also_changed(point(earliest - 1), point(latest)),
        }
    }
}

/// What else differs between two runs.
pub(super) fn also_changed(a: &Point<'_>, b: &Point<'_>) -> Vec<String> {
    let (x, y) = (&a.entry.system, &b.entry.system);
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    [
        ("store", a.version.to_owned(), b.version.to_owned()),
        ("Storebench", a.entry.storebench.clone(), b.entry.storebench.clone()),
        ("kernel", x.kernel.clone(), y.kernel.clone()),
        ("system", text(&x.os), text(&y.os)),
        ("governor", text(&x.governor), text(&y.governor)),
        ("clock source", text(&x.clock_source), text(&y.clock_source)),
    ]
    .into_iter()
    .filter(|(_, a, b)| a != b)
    .map(|(what, a, b)| format!("{what}: {a} → {b}"))
    .collect()
}

impl HistoryRun {
    fn of(point: &Point<'_>) -> Self {
        let HistoryEntry { run, began, commit, .. } = point.entry;
        Self { run: run.clone(), began: began.clone(), commit: commit.clone() }
    }
}

impl HistoryValue {
    fn of(point: &Point<'_>) -> Self {
        let Point { value, ends: [low, high], .. } = *point;
        Self { of: HistoryRun::of(point), version: point.version.to_owned(), value, low, high }
    }
}
