//! What the text, Markdown and the page share: which figures are shown, and how.

use std::collections::BTreeMap;

use indexmap::{IndexMap, IndexSet};

use super::model::{
    CheckCount, CompareResult, ComparedConfiguration, ComparedFigure, ComparedPair, ComparedRun, GateOutcome,
    GateResult, Judgement, LeftOutTrial,
};
use crate::beside::is_central;
use crate::cost::money;
use crate::figures::{COST, DOCUMENTS, THROUGHPUT};
use crate::human::{bytes, digits, duration, percent, plural, rate};
use crate::stats::Estimate;
use crate::times::INFINITE;
use crate::validity::Severity;

/// Percentiles that are shown unless all are.
const SHOWN: [&str; 3] = ["p50", "p99", "p99.9"];

/// The note on ratios that are not taken within rounds.
pub const APART: &str = "each run counts as one measurement: B/A is the ratio of two sets of runs";
/// The note on ratios between two runs, or one run and others.
pub const ONE_RUN: &str =
    "with one run on a side, a difference may be run-to-run noise; compare several runs on each side";
/// The note on ratios within rounds.
pub const PAIRED: &str = "paired by round: drift of the machine between rounds cancels out";
/// What a reader must know about the intervals of several comparisons.
pub fn about_intervals(result: &CompareResult) -> Option<String> {
    let first = result.pairs.first()?;
    let one = result.pairs.iter().all(|pair| pair.a.label() == first.a.label());
    (one && result.pairs.len() > 1)
        .then(|| format!("the intervals of a figure hold together at 95 % in all {} comparisons", result.pairs.len()))
}

/// How A and B are compared.
pub fn how(pair: &ComparedPair) -> &'static str {
    match (pair.paired_by_round, pair.a.more_runs.is_empty() || pair.b.more_runs.is_empty()) {
        (true, _) => PAIRED,
        (_, true) => ONE_RUN,
        _ => APART,
    }
}

/// The note on a single trial.
pub const ONE_TRIAL: &str = "a single trial has no interval; run with repeats = 5";

/// A figure with its unit.
pub fn value(figure: &ComparedFigure, estimate: &Estimate) -> String {
    if estimate.trials == 0 {
        return if figure.unit == "ns" && !figure.too_few { INFINITE } else { "none" }.to_owned();
    }
    match figure.unit.as_str() {
        "/s" => format!("{}/s", rate(estimate.value)),
        "ns" => duration(estimate.value),
        "B" => bytes(estimate.value),
        // A store may be so fast that a million cost less than a thousandth.
        unit if figure.measure == COST.name => format!("{} {unit}", money(estimate.value)),
        unit => format!("{} {unit}", digits(estimate.value)),
    }
}

/// `±1.2 %`; empty without an interval.
pub fn spread(estimate: &Estimate) -> String {
    let Some(half) = estimate.relative_half_width().filter(|share| *share > 0.0) else { return String::new() };
    match estimate.high {
        // A search knows a range above its rate.
        Some(high) if !is_central(estimate) => format!("to +{}", percent(high / estimate.value - 1.0)),
        _ => format!("±{}", percent(half)),
    }
}

/// A ratio, with three decimals below 10; empty without a ratio.
pub fn ratio(of: Option<Estimate>) -> String {
    of.map_or_else(String::new, |of| times(of.value))
}

/// `0.981 – 1.034`; empty without an interval.
pub fn interval(of: Option<Estimate>) -> String {
    match of.and_then(|of| Some((of.low?, of.high?))) {
        Some((low, high)) => format!("{} – {}", times(low), times(high)),
        None => String::new(),
    }
}

fn times(ratio: f64) -> String {
    if ratio < 9.9995 { format!("{ratio:.3}") } else { digits(ratio) }
}

/// The figures of a pair to show: all, or those that most readers want. For an open loop that includes response times, not
/// service times.
pub fn shown(pair: &ComparedPair, all: bool) -> Vec<&ComparedFigure> {
    let has_response = |figure: &ComparedFigure| {
        pair.figures.iter().any(|other| other.phase == figure.phase && other.measure.starts_with("response."))
    };
    // If each operation is on one document, this repeats the throughput.
    let doubled = |figure: &ComparedFigure| {
        let of = |f: &ComparedFigure| (f.phase.clone(), f.op.clone(), f.a.value, f.b.value);
        figure.measure == DOCUMENTS.name
            && pair.figures.iter().any(|other| other.measure == THROUGHPUT.name && of(other) == of(figure))
    };
    let wanted = |figure: &&ComparedFigure| match figure.measure.split_once('.') {
        None => !doubled(figure),
        Some(("response", percentile)) => SHOWN.contains(&percentile),
        Some(("service", percentile)) => SHOWN.contains(&percentile) && !has_response(figure),
        _ => true,
    };
    // Neither side has enough attempts for this percentile.
    let empty = |figure: &ComparedFigure| figure.too_few && figure.a.trials + figure.b.trials == 0;
    pair.figures.iter().filter(|figure| all || wanted(figure) && !empty(figure)).collect()
}

/// `3 slower, 1 faster, 8 unchanged`, worst first.
pub fn counts(figures: &[&ComparedFigure]) -> String {
    let order = [
        Judgement::Missing,
        Judgement::Worse,
        Judgement::Better,
        Judgement::Inconclusive,
        Judgement::AtLeast,
        Judgement::Unchanged,
        Judgement::OneTrial,
        Judgement::OneRun,
    ];
    let mut out = Vec::new();
    for judgement in order {
        let mut words: IndexMap<&str, usize> = IndexMap::new();
        for figure in figures.iter().filter(|figure| figure.judgement == judgement) {
            *words.entry(&figure.word).or_default() += 1;
        }
        let with = if judgement == Judgement::OneTrial { "with " } else { "" };
        out.extend(words.into_iter().map(|(word, n)| match judgement {
            Judgement::Missing => format!("{} {word}", plural(n as u64, "figure")),
            Judgement::OneRun => format!("{}: {word}", plural(n as u64, "figure")),
            _ => format!("{n} {with}{word}"),
        }));
    }
    if out.is_empty() { "no figure in common".to_owned() } else { out.join(", ") }
}

/// Facts about a configuration: runs, name, version of the store, trials, when.
pub fn facts(configuration: &ComparedConfiguration) -> Vec<String> {
    let first = &configuration.first;
    let runs: Vec<_> = configuration.runs().collect();
    let name = configuration.baseline.as_ref().map_or_else(|| first.run.clone(), |name| format!("baseline {name}"));
    let name = match runs.len() {
        1 => name,
        n if configuration.baseline.is_some() => format!("{name}, {n} runs"),
        n => format!("{name} and {}", plural(n as u64 - 1, "more run")),
    };
    let trials = plural(runs.iter().map(|run| run.trials.len() as u64).sum(), "trial");
    // To the minute: enough to distinguish runs.
    let minute = |run: &ComparedRun| run.began.get(..16).unwrap_or(&run.began).replace('T', " ");
    let (begin, end) = (runs.iter().map(|run| minute(run)).min(), runs.iter().map(|run| minute(run)).max());
    let began = match (begin, end) {
        (Some(begin), Some(end)) if begin != end => format!("{begin} to {end}"),
        (begin, _) => begin.unwrap_or_default(),
    };
    [name, configuration.configuration.clone(), first.store_version.clone(), trials, began]
        .into_iter()
        .filter(|fact| !fact.is_empty())
        .collect()
}

/// `noisy-rounds (3)`: the checks of one severity.
pub fn checks(checks: &[CheckCount], severity: Severity) -> Option<String> {
    let told = |v: &CheckCount| if v.count == 1 { v.check.clone() } else { format!("{} ({})", v.check, v.count) };
    let checks: Vec<String> = checks.iter().filter(|v| v.severity == severity).map(told).collect();
    (!checks.is_empty()).then(|| checks.join(", "))
}

/// What a reader must know before any figure: differences, and incomplete trials.
pub fn reservations(result: &CompareResult) -> Vec<String> {
    let mut out = IndexSet::new();
    for pair in &result.pairs {
        let (a, b) = (pair.a.label(), pair.b.label());
        out.extend(pair.differences.iter().map(|d| format!("{a} and {b} differ: {}", d.place_and_text())));
        for configuration in [&pair.a, &pair.b] {
            let several = !configuration.more_runs.is_empty();
            for run in configuration.runs() {
                let of = if several {
                    format!("{}#{}", run.run, configuration.configuration)
                } else {
                    configuration.label()
                };
                let told = |t: &LeftOutTrial| format!("{of}, trial {} is excluded: {}", t.trial, t.why);
                out.extend(run.left_out.iter().map(told));
            }
        }
    }
    out.into_iter().collect()
}

/// Notes on a pair.
pub fn notes(pair: &ComparedPair) -> Vec<String> {
    let mut notes = pair.notes.clone();
    for (side, outlying) in [("A", outlying(pair, |f| &f.outlying_a)), ("B", outlying(pair, |f| &f.outlying_b))] {
        notes.extend(outlying.map(|text| format!("{side}, included in the figures: {text}")));
    }
    if pair.figures.iter().any(|figure| figure.judgement == Judgement::OneTrial) {
        notes.push(ONE_TRIAL.to_owned());
    }
    notes
}

/// `trial 3 is an outlier in read.response.p99`.
fn outlying(pair: &ComparedPair, of: impl Fn(&ComparedFigure) -> &Vec<u32>) -> Option<String> {
    let mut by_trial: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for figure in shown(pair, false) {
        of(figure).iter().for_each(|trial| by_trial.entry(*trial).or_default().push(&figure.figure));
    }
    let told = |(trial, figures): (&u32, &Vec<&str>)| format!("trial {trial} is an outlier in {}", figures.join(", "));
    (!by_trial.is_empty()).then(|| by_trial.iter().map(told).collect::<Vec<_>>().join("; "))
}

/// Configurations without a counterpart, in words.
pub fn unmatched(result: &CompareResult) -> Vec<String> {
    result
        .unmatched
        .iter()
        .map(|left| format!("only {} has the configuration {}", left.run, left.configuration))
        .collect()
}

/// The outcome of a gate, in words.
pub fn outcome(outcome: GateOutcome) -> &'static str {
    match outcome {
        GateOutcome::Passed => "passed",
        GateOutcome::Failed => "FAILED",
        GateOutcome::Undecided => "undecided",
        GateOutcome::TooWeak => "TOO WEAK",
    }
}

/// `would detect +12 %`: the smallest change that the gate could have detected; empty without an interval.
pub fn detectable(gate: &GateResult) -> String {
    let change = |ratio: f64| {
        let share = percent((ratio - 1.0).abs());
        if ratio < 1.0 { format!("−{share}") } else { format!("+{share}") }
    };
    gate.detectable.map_or_else(String::new, |ratio| format!("would detect {}", change(ratio)))
}

/// What a reader must know about all gates.
pub fn about_gates(result: &CompareResult) -> String {
    let figures: IndexSet<(u32, &str)> = result.gates.iter().map(|gate| (gate.pair, &*gate.figure)).collect();
    let together = match figures.len() {
        1 => String::new(),
        n => format!("The intervals of the gates hold together at 95 % for {}. ", plural(n as u64, "figure")),
    };
    match result.gates.iter().any(|gate| gate.detectable.is_some()) {
        true => format!("{together}A gate would detect such a change in 8 of 10 comparisons with this noise."),
        false => String::new(),
    }
}
