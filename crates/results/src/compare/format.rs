//! What the text, Markdown and the page share: which figures are shown, and how.

use std::collections::BTreeMap;

use indexmap::{IndexMap, IndexSet};

use super::model::{
    CheckCount, CompareResult, ComparedConfiguration, ComparedFigure, ComparedPair, GateOutcome, Judgement,
    LeftOutTrial,
};
use crate::figures::{DOCUMENTS, THROUGHPUT};
use crate::human::{bytes, digits, duration, percent, plural, rate};
use crate::stats::Estimate;
use crate::times::INFINITE;
use crate::validity::Severity;

/// Percentiles that are shown unless all are.
const SHOWN: [&str; 3] = ["p50", "p99", "p99.9"];

/// The note on ratios that are not taken within rounds.
pub const APART: &str = "not paired: every ratio includes any drift of the machine between A and B";
/// The note on ratios within rounds.
pub const PAIRED: &str = "paired by round: drift of the machine between rounds cancels out";
/// The note on a single trial.
pub const ONE_TRIAL: &str = "a single trial has no interval; run with repeats = 5";

/// A figure with its unit.
pub fn value(figure: &ComparedFigure, estimate: &Estimate) -> String {
    if estimate.trials == 0 {
        return if figure.unit == "ns" { INFINITE } else { "none" }.to_owned();
    }
    match figure.unit.as_str() {
        "/s" => format!("{}/s", rate(estimate.value)),
        "ns" => duration(estimate.value),
        "B" => bytes(estimate.value),
        unit => format!("{} {unit}", digits(estimate.value)),
    }
}

/// `±1.2 %`; empty without an interval.
pub fn spread(estimate: &Estimate) -> String {
    estimate
        .relative_half_width()
        .filter(|share| *share > 0.0)
        .map_or_else(String::new, |share| format!("±{}", percent(share)))
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
    pair.figures.iter().filter(|figure| all || wanted(figure)).collect()
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
            _ => format!("{n} {with}{word}"),
        }));
    }
    if out.is_empty() { "no figure in common".to_owned() } else { out.join(", ") }
}

/// Facts about a configuration: run, name, version of the store, trials, when.
pub fn facts(configuration: &ComparedConfiguration) -> Vec<String> {
    let run =
        configuration.baseline.as_ref().map_or_else(|| configuration.run.clone(), |name| format!("baseline {name}"));
    let trials = plural(configuration.trials.len() as u64, "trial");
    // To the minute: enough to distinguish runs.
    let began = configuration.began.get(..16).unwrap_or(&configuration.began).replace('T', " ");
    [run, configuration.configuration.clone(), configuration.store_version.clone(), trials, began]
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
            let told =
                |t: &LeftOutTrial| format!("{}, trial {} is excluded: {}", configuration.label(), t.trial, t.why);
            out.extend(configuration.left_out.iter().map(told));
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
        GateOutcome::Inconclusive => "inconclusive",
        GateOutcome::Failed => "FAILED",
        GateOutcome::NotJudged => "not judged",
    }
}
