//! Two configurations: their figures, the ratio of each, and how certain it is.

use std::collections::BTreeSet;

use indexmap::{IndexMap, IndexSet};

use super::error::CompareError;
use super::gate::{Gate, judge_gates};
use super::known::{of_all_sides, pairs_with_history};
use super::model::{
    COMPARE_FORMAT, CheckCount, CompareResult, ComparedConfiguration, ComparedFigure, ComparedPair, ComparedRun,
    Judgement, UnmatchedConfiguration,
};
use super::sides::{OneRun, SideConfiguration, Source, matched};
use crate::comparability::{
    Difference, client_differences, differences, index_differences, query_plan_differences, tls_difference,
};
use crate::cost::{PriceSheet, cost_figure};
use crate::figures::{Better, COST, DISK, Figure, Measure, RATE_WITHIN_LIMITS, SPACE_AMPLIFICATION, STORE_CPU};
use crate::history::HistoryBaseline;
use crate::own_settings::setting_differences;
use crate::series::{Series, over_runs, ratio_of, ratio_to_known_runs, spread_of_runs};
use crate::stats::{CONFIDENCE, Estimate};
use crate::validity::{CheckResult, Severity};
use crate::{RunResult, TrialResult};

/// Checks on lost, unread or wrong data.
const SPOILED: [&str; 3] = ["lost-writes", "unread-writes", "wrong-content"];

/// What is compared, and how.
#[derive(Debug, Clone, Copy)]
pub struct CompareRequest<'a> {
    /// The sides. The others are compared with the first. Of a single side, the configurations are compared.
    pub sides: &'a [Source],
    /// A history that all sides are compared with instead.
    pub history: Option<&'a HistoryBaseline>,
    /// Ratios within this share of 1 count as unchanged.
    pub threshold: f64,
    /// Limits on the change of figures.
    pub gates: &'a [Gate],
    /// The change that every gate must be able to detect, as a share.
    pub must_detect: Option<f64>,
    /// Whether undecided gates end with exit code 0.
    pub undecided_passes: bool,
    /// Whether to compare runs even if they are partial or not comparable.
    pub anyway: bool,
}

/// Compares runs.
///
/// # Errors
/// There is nothing to compare; a run is partial or not comparable without `anyway`; a gate names no
/// figure.
pub fn compare(request: &CompareRequest<'_>) -> Result<CompareResult, CompareError> {
    let mut unlike = IndexSet::new();
    let (pairs, unmatched) = match request.history {
        Some(history) => {
            let configurations = of_all_sides(request.sides)?;
            refuse_partial(request, configurations.iter())?;
            unlike.extend(configurations.iter().flat_map(unlike_runs));
            pairs_with_history(history, &configurations, request.threshold)?
        }
        None => pairs_of(request, &mut unlike)?,
    };
    if !request.anyway && !unlike.is_empty() {
        return Err(CompareError::Unlike(unlike.into_iter().collect()));
    }
    let gates = judge_gates(request.gates, request.must_detect, &pairs)?;
    Ok(CompareResult {
        format: COMPARE_FORMAT.to_owned(),
        threshold: request.threshold,
        confidence: CONFIDENCE,
        anyway: request.anyway,
        pairs,
        unmatched: unmatched.into_iter().chain(request.sides.iter().flat_map(Source::incomplete)).collect(),
        must_detect: request.must_detect,
        undecided_passes: request.undecided_passes,
        gates,
    })
}

fn refuse_partial<'a>(
    request: &CompareRequest<'_>,
    configurations: impl Iterator<Item = &'a SideConfiguration<'a>>,
) -> Result<(), CompareError> {
    let refused: IndexSet<String> = configurations.flat_map(SideConfiguration::partial).collect();
    match refused.is_empty() || request.anyway {
        true => Ok(()),
        false => Err(CompareError::Partial(refused.into_iter().collect())),
    }
}

/// The pairs of the sides, and configurations without a counterpart. `unlike` gets what makes them not comparable.
fn pairs_of(
    request: &CompareRequest<'_>,
    unlike: &mut IndexSet<String>,
) -> Result<(Vec<ComparedPair>, Vec<UnmatchedConfiguration>), CompareError> {
    let matched = matched(request.sides)?;
    refuse_partial(request, matched.pairs.iter().flat_map(|(a, b)| [a, b]))?;
    let mut pairs = Vec::new();
    for (a, b) in &matched.pairs {
        // Any of those that are compared with A may be the one that catches the eye.
        let together = matched.pairs.iter().filter(|(other, _)| other.is(a)).count();
        let pair = compare_configurations(a, b, request.threshold, together)?;
        let told = |d: &Difference| format!("{} and {}: {}", a.label(), b.label(), d.place_and_text());
        unlike.extend(pair.differences.iter().map(told));
        if a.is(b) {
            unlike.insert(format!("{} and {}: the same trials", a.label(), b.label()));
        }
        unlike.extend([a, b].into_iter().flat_map(unlike_runs));
        pairs.push(pair);
    }
    Ok((pairs, matched.unmatched))
}

/// How the runs of one side differ from its first one.
pub(super) fn unlike_runs(side: &SideConfiguration<'_>) -> Vec<String> {
    let Some((first, others)) = side.runs.split_first() else { return Vec::new() };
    let (trials, _) = first.whole();
    let mut unlike = Vec::new();
    for other in others {
        let found = differences(&trials, &other.whole().0);
        unlike
            .extend(found.iter().map(|d| format!("{} and {}: {}", first.run.name, other.run.name, d.place_and_text())));
    }
    unlike
}

fn compare_configurations(
    a: &SideConfiguration<'_>,
    b: &SideConfiguration<'_>,
    threshold: f64,
    together: usize,
) -> Result<ComparedPair, CompareError> {
    let (side_a, trials_a) = side(a)?;
    let (side_b, trials_b) = side(b)?;
    let rounds = |trials: &[&TrialResult]| trials.iter().map(|trial| trial.round).collect::<BTreeSet<_>>();
    let (rounds_a, rounds_b) = (rounds(&trials_a), rounds(&trials_b));
    let paired = a.source.is_run_of(b.source) && !rounds_a.is_disjoint(&rounds_b);
    // Paired figures and their ratio come from the same rounds.
    let shared: Option<BTreeSet<u32>> = paired.then(|| &rounds_a & &rounds_b);
    let (mut series_a, mut series_b) = (series(a, shared.as_ref()), series(b, shared.as_ref()));
    let others = a.runs.iter().chain(&b.runs).filter_map(|of| sheets(&a.runs[0].run.run, &of.run.run));
    // Another currency is worse than another sheet.
    let sheets = others.max_by_key(|(other_currency, _)| *other_currency);
    if let Some((true, _)) = sheets {
        series_a.retain(|_, series| series[0].figure.measure != COST);
        series_b.retain(|_, series| series[0].figure.measure != COST);
    }
    let of_some = rounds_a != rounds_b;
    let mut figures = Vec::new();
    for (name, of_a) in &series_a {
        let Some(of_b) = series_b.get(name) else { continue };
        let against = if paired { Against::SameRounds } else { Against::OtherRuns };
        let both = Both { a: of_a.iter().collect(), b: of_b.iter().collect(), against, of_some };
        figures.push(both.compared(&trials_a, threshold, together));
    }
    let others = b.runs.iter().chain(a.runs.iter().skip(1));
    let unlike: IndexSet<String> = others.flat_map(|other| notes(a.runs[0].run, other.run)).collect();
    let mut notes: Vec<String> = unlike.into_iter().collect();
    notes.extend([a, b].into_iter().flat_map(unlike_runs));
    if a.is(b) {
        notes.push("a run is on both sides: A and B have trials in common".to_owned());
    }
    let collections = |of: &SideConfiguration<'_>| of.runs[0].run.run.plan.collections.clone();
    let told = |what: &str, found: Vec<String>| (!found.is_empty()).then(|| format!("{what}: {}", found.join("; ")));
    notes.extend(told("indexes differ", index_differences(&collections(a), &collections(b))));
    notes.extend(tls_difference(&trials_a, &trials_b));
    // Those that have them need not be complete.
    notes.extend(told("settings differ", setting_differences(&a.runs[0].trials, &b.runs[0].trials)));
    notes.extend(told("queries were answered in another way", query_plan_differences(&trials_a, &trials_b)));
    notes.extend(told("the client was not the same", client_differences(&trials_a, &trials_b)));
    notes.extend(searched(&trials_a, &trials_b));
    notes.extend(sheets.map(|(_, told)| told));
    for (only, series, other) in [("A", &series_a, &series_b), ("B", &series_b, &series_a)] {
        let names: Vec<&str> = series.keys().filter(|name| !other.contains_key(*name)).map(String::as_str).collect();
        if !names.is_empty() {
            notes.push(format!("only {only} has {}", names.join(", ")));
        }
    }
    if paired && of_some {
        let told: Vec<String> = rounds_a.symmetric_difference(&rounds_b).map(u32::to_string).collect();
        notes.push(format!("in no figure, since one of them lacks it: round {}", told.join(", ")));
    }
    Ok(ComparedPair {
        a: side_a,
        b: side_b,
        paired_by_round: paired,
        from_history: false,
        differences: differences(&trials_a, &trials_b),
        notes,
        figures,
    })
}

/// A configuration as it is reported, and its complete trials.
pub(super) fn side<'a>(
    configuration: &SideConfiguration<'a>,
) -> Result<(ComparedConfiguration, Vec<&'a TrialResult>), CompareError> {
    let mut runs = Vec::new();
    let mut all = Vec::new();
    let mut checks: Vec<CheckCount> = Vec::new();
    for of in &configuration.runs {
        let (whole, left_out) = of.whole();
        let run = &of.run.run;
        let Some(first) = whole.first() else {
            let name = &of.run.name;
            let label = if configuration.runs.len() > 1 { name.clone() } else { configuration.label() };
            return Err(CompareError::Nothing(format!("{label} has no complete trial; run it again")));
        };
        let is_of = |trials: &[&TrialResult], number: u32| trials.iter().any(|trial| trial.trial == number);
        // Such data are reported even for excluded trials.
        let ours = |v: &CheckResult| match v.trial {
            None => true,
            Some(number) if SPOILED.contains(&v.check.as_str()) => is_of(&of.trials, number),
            Some(number) => is_of(&whole, number),
        };
        for v in run.checks.iter().filter(|v| v.severity >= Severity::Caution && ours(v)) {
            match checks.iter_mut().find(|found| found.check == v.check && found.severity == v.severity) {
                Some(found) => found.count += 1,
                None => checks.push(CheckCount { check: v.check.clone(), severity: v.severity, count: 1 }),
            }
        }
        runs.push(ComparedRun {
            run: of.run.name.clone(),
            began: run.run.began.clone(),
            storebench_version: run.run.storebench_version.clone(),
            store_version: first.version.clone(),
            trials: whole.iter().map(|trial| trial.trial).collect(),
            left_out,
        });
        all.extend(whole);
    }
    checks.sort_by_key(|found| std::cmp::Reverse(found.severity));
    let mut runs = runs.into_iter();
    let side = ComparedConfiguration {
        first: runs.next().unwrap_or_default(),
        more_runs: runs.collect(),
        baseline: configuration.source.baseline.clone(),
        configuration: configuration.name.to_owned(),
        title: configuration.runs[0].run.run.run.title.clone(),
        checks,
    };
    Ok((side, all))
}

/// Differences that leave two runs comparable, but may explain the figures.
fn notes(a: &OneRun, b: &OneRun) -> Option<String> {
    let (of_a, of_b) = (&a.run, &b.run);
    let facts = |run: &RunResult| {
        let of_run = [("Storebench", run.run.storebench_version.clone()), ("seed", run.run.seed.to_string())];
        of_run.into_iter().chain(run.environment.facts())
    };
    let told = |((what, a), (_, b)): ((&str, String), (&str, String))| format!("{what}: {a} and {b}");
    let differing: Vec<String> = facts(of_a).zip(facts(of_b)).filter(|(a, b)| a != b).map(told).collect();
    (!differing.is_empty()).then(|| format!("A and B differ in {}", differing.join("; ")))
}

/// The figures to compare, each for every run. A figure that a run lacks is left out. If a phase's rate was searched,
/// only the rate is compared: its times and throughput are those of a different rate in each trial.
pub(super) fn series(
    configuration: &SideConfiguration<'_>,
    rounds: Option<&BTreeSet<u32>>,
) -> IndexMap<String, Vec<Series>> {
    let mut all: IndexMap<String, Vec<Series>> = IndexMap::new();
    for of in &configuration.runs {
        let (trials, run) = (of.whole().0, &of.run.run);
        let searched = searched_phases(&trials);
        let kept = [RATE_WITHIN_LIMITS, DISK, SPACE_AMPLIFICATION, COST];
        let counted = trials.iter().copied().filter(|trial| rounds.is_none_or(|rounds| rounds.contains(&trial.round)));
        for (name, series) in Series::of(counted, |trial| cost_figure(run, trial).into_iter().collect()) {
            if !searched.contains(&series.figure.phase) || kept.contains(&series.figure.measure) {
                all.entry(name).or_default().push(series);
            }
        }
    }
    all.retain(|_, series| series.len() == configuration.runs.len());
    all
}

fn searched_phases(trials: &[&TrialResult]) -> BTreeSet<String> {
    trials.iter().flat_map(|trial| &trial.searches).map(|search| search.phase.clone()).collect()
}

fn searched(a: &[&TrialResult], b: &[&TrialResult]) -> Option<String> {
    let phases: Vec<String> = searched_phases(a).union(&searched_phases(b)).cloned().collect();
    let told = "was searched for its rate. Only the rate is compared, because the times are those of different rates";
    (!phases.is_empty()).then(|| format!("{} {told}", phases.join(", ")))
}

/// Whether two runs have costs in different currencies, and the names of their price sheets if these differ.
fn sheets(a: &RunResult, b: &RunResult) -> Option<(bool, String)> {
    let (a, b) = (&a.cost.as_ref()?.sheet, &b.cost.as_ref()?.sheet);
    let name = |sheet: &PriceSheet| format!("{}, {}, in {}", sheet.source, sheet.date, sheet.currency);
    let other = a.currency != b.currency;
    let told = if other { "costs are not compared" } else { "costs come from two price sheets" };
    (a != b).then(|| (other, format!("{told}: A is priced by {}; B by {}", name(a), name(b))))
}

/// What B is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Against {
    /// A of the same rounds.
    SameRounds,
    /// A of other runs.
    OtherRuns,
    /// Known runs of a history.
    Known,
}

/// A figure of both sides, for each run.
pub(super) struct Both<'a> {
    pub(super) a: Vec<&'a Series>,
    pub(super) b: Vec<&'a Series>,
    pub(super) against: Against,
    /// Whether a side has trials in rounds that the other lacks.
    pub(super) of_some: bool,
}

impl Both<'_> {
    pub(super) fn compared(&self, trials_a: &[&TrialResult], threshold: f64, together: usize) -> ComparedFigure {
        // No run of a history may have it.
        let no_run = self.a.is_empty();
        let first = if no_run { self.b[0] } else { self.a[0] };
        let Figure { phase, op, measure, .. } = &first.figure;
        let all =
            |series: &[&Series], of: fn(&Series) -> Vec<u32>| series.iter().flat_map(|series| of(series)).collect();
        let (none_in_a, none_in_b): (Vec<u32>, Vec<u32>) =
            (all(&self.a, Series::none_in), all(&self.b, Series::none_in));
        let uncertain = match self.against {
            Against::SameRounds => self.b[0].ratio_to(first),
            Against::OtherRuns => ratio_of(&self.b, &self.a),
            Against::Known => ratio_to_known_runs(&self.b, &self.a),
        };
        let paired = self.against == Against::SameRounds;
        let unknown_noise = self.against == Against::Known || self.a.len().min(self.b.len()) == 1 && !paired;
        let uncertain = uncertain.filter(|_| none_in_a.is_empty() && none_in_b.is_empty());
        let ratio = uncertain.map(|ratio| ratio.estimate(together));
        let at_least = self.a.iter().chain(&self.b).any(|series| series.at_least());
        let judgement = match ratio {
            None => Judgement::Missing,
            Some(_) if at_least => Judgement::AtLeast,
            Some(ratio) if ratio.low.is_none() && unknown_noise => Judgement::OneRun,
            Some(ratio) => judge(&ratio, measure.better, threshold),
        };
        let missing = none_in_a.len() + none_in_b.len();
        let too_few = self.a.iter().chain(&self.b).map(|series| series.too_few_in().len()).sum::<usize>();
        let never_enough = self.a.iter().chain(&self.b).all(|series| series.always_too_few());
        let word = match judgement {
            Judgement::Missing if no_run => "no run of A counts".to_owned(),
            Judgement::Missing if never_enough => "too few attempts".to_owned(),
            Judgement::Missing => match (none_in_a.is_empty(), none_in_b.is_empty()) {
                (true, _) => lacking("B", &none_in_b, &self.b),
                (_, true) => lacking("A", &none_in_a, &self.a),
                // Short enough for the last column of a row.
                _ if too_few == missing => "too few attempts in trials of A and B".to_owned(),
                _ => "missing in trials of A and B".to_owned(),
            },
            Judgement::OneTrial if self.of_some || first.trials() > 1 || !paired => {
                match *measure == RATE_WITHIN_LIMITS {
                    true => "too few searches".to_owned(),
                    false => "one round in common".to_owned(),
                }
            }
            _ => judgement.word(measure).to_owned(),
        };
        ComparedFigure {
            figure: first.figure.name(),
            phase: phase.clone(),
            op: op.clone(),
            measure: measure.name.to_owned(),
            unit: measure.unit.to_owned(),
            better: if measure.better == Better::More { "more" } else { "less" }.to_owned(),
            a: over_runs(&self.a),
            b: over_runs(&self.b),
            outlying_a: all(&self.a, Series::outlying_trials),
            outlying_b: all(&self.b, Series::outlying_trials),
            none_in_a,
            none_in_b,
            ratio,
            judgement,
            word,
            uncertain,
            spread_of_a: (self.against == Against::Known).then(|| spread_of_runs(&self.a)).flatten(),
            too_few: no_run || missing > 0 && too_few == missing,
            also: trials_a.first().and_then(|trial| lone_name(trial, &first.figure)),
        }
    }
}

/// `missing in 2 of 3 trials of B`, `too few attempts in 1 of 3 trials of B`.
fn lacking(side: &str, none_in: &[u32], series: &[&Series]) -> String {
    let of: usize = series.iter().map(|series| series.trials()).sum();
    let too_few: usize = series.iter().map(|series| series.too_few_in().len()).sum();
    let what = if too_few == none_in.len() { "too few attempts" } else { "missing" };
    match (none_in.len(), of) {
        (0, _) => format!("no round in common with {side}"),
        (_, 1) => format!("{what} in {side}"),
        (n, of) => format!("{what} in {n} of {of} trials of {side}"),
    }
}

/// A phase with a single operation has only totals. This is their name with that operation.
fn lone_name(trial: &TrialResult, figure: &Figure) -> Option<String> {
    let phase = trial.phases.iter().find(|phase| phase.name == figure.phase)?;
    let (op, _) = phase.ops.first().filter(|_| phase.ops.len() == 1)?;
    Some(format!("{}.{op}.{}", figure.phase, figure.measure.name))
}

/// How certain a ratio B / A is.
pub(super) fn judge(ratio: &Estimate, better: Better, threshold: f64) -> Judgement {
    let (Some(low), Some(high)) = (ratio.low, ratio.high) else { return Judgement::OneTrial };
    if low >= 1.0 - threshold && high <= 1.0 + threshold {
        Judgement::Unchanged
    } else if ratio.beyond(1.0) && (ratio.value - 1.0).abs() > threshold {
        if (ratio.value > 1.0) == (better == Better::More) { Judgement::Better } else { Judgement::Worse }
    } else {
        Judgement::Inconclusive
    }
}

impl Judgement {
    /// The word for this measure: times are faster, sizes smaller, costs cheaper.
    fn word(self, measure: &Measure) -> &'static str {
        let (better, worse) = match measure.unit {
            _ if measure.name == STORE_CPU.name => ("less", "more"),
            "/s" | "ns" => ("faster", "slower"),
            _ if measure.name == COST.name => ("cheaper", "more expensive"),
            _ => ("smaller", "larger"),
        };
        match self {
            Self::Better => better,
            Self::Worse => worse,
            Self::Unchanged => "unchanged",
            Self::Inconclusive => "inconclusive",
            Self::OneTrial => "one trial",
            Self::OneRun => "cannot tell run-to-run noise",
            Self::Missing => "missing",
            Self::AtLeast => "lower bound: the limits are met at the highest rate of the search",
        }
    }
}
