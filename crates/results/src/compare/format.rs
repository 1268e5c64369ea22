//! What the text, Markdown and the page share: which figures are shown, and how.

use std::collections::BTreeMap;

use indexmap::{IndexMap, IndexSet};

use super::model::{
    CheckCount, CompareResult, ComparedConfiguration, ComparedFigure, ComparedPair, GateOutcome, GateResult, Judgement,
    LeftOutTrial,
};
use crate::cost::money;
use crate::figures::{COST, DOCUMENTS, THROUGHPUT};
use crate::human::{bytes, count, digits, duration, minute, percent, plural, rate, some_of};
use crate::side_by_side::is_central;
use crate::stats::Estimate;
use crate::times::INFINITE;
use crate::validity::{Severity, in_short};

/// Percentiles that are shown unless all are.
const SHOWN: [&str; 3] = ["p50", "p99", "p99.9"];

/// The note on ratios that are not taken within rounds.
pub const APART: &str = "each run counts as one measurement: B/A is the ratio of two sets of runs";
/// The note on ratios between two runs, or one run and others.
pub const ONE_RUN: &str =
    "with one run on a side, a difference may be run-to-run noise; compare several runs on each side";
/// The note on ratios to the runs of a history.
pub const HISTORY: &str = "A is the last runs of a history: how much they differ is the noise of a run of B, too";
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
    if pair.from_history {
        return HISTORY;
    }
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

/// The most figures and cautions that are named. The others are counted.
const MOST_NAMED: usize = 2;

/// What the trials do not decide.
const UNCERTAIN: [Judgement; 4] = [Judgement::Inconclusive, Judgement::AtLeast, Judgement::OneTrial, Judgement::OneRun];

/// What is worse and what is better, the largest change first: `B is worse than A in response p99 of steady.read (+7.50 %),
/// disk of load (×9.52) and 14 more. It is better in throughput of steady (+21.0 %). The rest: 3 inconclusive.`
pub fn headline(figures: &[&ComparedFigure]) -> String {
    if figures.is_empty() {
        return "A and B have no figure in common.".to_owned();
    }
    let of = |judgement| figures.iter().copied().filter(move |figure| figure.judgement == judgement);
    let size = |figure: &ComparedFigure| figure.ratio.map_or(f64::INFINITY, |ratio| ratio.value.ln().abs());
    let named = |judgement| -> Option<String> {
        let mut all: Vec<&ComparedFigure> = of(judgement).collect();
        all.sort_by(|a, b| size(b).total_cmp(&size(a)));
        // Figures that say the same, such as disk and space amplification, are not both named.
        let same = |a: &ComparedFigure, b: &ComparedFigure| {
            a.phase == b.phase && a.ratio.is_some() && (size(a) - size(b)).abs() < 0.001
        };
        let (mut all, others): (Vec<_>, Vec<_>) =
            all.iter().enumerate().partition(|(nth, figure)| !all[..*nth].iter().any(|other| same(figure, other)));
        all.extend(others);
        let told = |figure: &ComparedFigure| {
            let how = figure.ratio.map_or_else(|| figure.word.clone(), |ratio| change(ratio.value));
            format!("{} ({how})", figure.in_words())
        };
        (!all.is_empty()).then(|| some_of(all.into_iter().map(|(_, figure)| told(figure)), MOST_NAMED))
    };
    let mut out = Vec::new();
    out.extend(named(Judgement::Missing).map(|what| format!("A and B cannot be compared in {what}.")));
    out.extend(named(Judgement::Worse).map(|what| format!("B is worse than A in {what}.")));
    let who = if out.iter().any(|text| text.starts_with("B is")) { "It" } else { "B" };
    out.extend(
        named(Judgement::Better)
            .map(|what| format!("{who} is better {}in {what}.", if who == "B" { "than A " } else { "" })),
    );
    let mut rest: IndexMap<String, u64> = IndexMap::new();
    for judgement in UNCERTAIN.into_iter().chain([Judgement::Unchanged]) {
        let with = if judgement == Judgement::OneTrial { "with " } else { "" };
        of(judgement).for_each(|figure| *rest.entry(format!("{with}{}", figure.word)).or_default() += 1);
    }
    let begin = match out.is_empty() {
        false => "The rest",
        true if of(Judgement::Unchanged).count() == figures.len() => "A and B do not differ",
        true => "No difference between A and B is certain",
    };
    let rest: Vec<String> = rest.into_iter().map(|(word, n)| format!("{} {word}", count(n))).collect();
    out.extend((!rest.is_empty()).then(|| format!("{begin}: {}.", rest.join(", "))));
    out.join(" ")
}

/// `+12.3 %`, `−4.00 %`; from twice as much `×2.40`.
pub(super) fn change(ratio: f64) -> String {
    match ratio {
        _ if ratio >= 2.0 => format!("×{}", digits(ratio)),
        _ if ratio < 1.0 => format!("−{}", percent(1.0 - ratio)),
        _ => format!("+{}", percent(ratio - 1.0)),
    }
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
    // A history does not know them.
    let trials: u64 = runs.iter().map(|run| run.trials.len() as u64).sum();
    let trials = if trials == 0 { String::new() } else { plural(trials, "trial") };
    // To the minute: enough to distinguish runs.
    let minutes = || runs.iter().map(|run| minute(&run.began));
    let (begin, end) = (minutes().min(), minutes().max());
    let began = match (begin, end) {
        (Some(begin), Some(end)) if begin != end => format!("{begin} to {end}"),
        (begin, _) => begin.unwrap_or_default(),
    };
    [name, configuration.configuration.clone(), first.store_version.clone(), trials, began]
        .into_iter()
        .filter(|fact| !fact.is_empty())
        .collect()
}

/// `rounds differ widely (noisy-rounds, 3 times) and 2 more`: the checks of one severity. Those that make a run invalid are
/// all named.
pub fn checks(checks: &[CheckCount], severity: Severity) -> Option<String> {
    let told = |v: &CheckCount| {
        let times = if v.count == 1 { String::new() } else { format!(", {} times", count(v.count.into())) };
        match in_short(&v.check) {
            Some(short) => format!("{short} ({}{times})", v.check),
            None => format!("{}{times}", v.check),
        }
    };
    let most = if severity == Severity::Invalid { usize::MAX } else { MOST_NAMED };
    let checks: Vec<String> = checks.iter().filter(|v| v.severity == severity).map(told).collect();
    (!checks.is_empty()).then(|| some_of(checks, most))
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
        .map(|left| match &left.why {
            Some(why) => format!("{}#{} is not compared: {why}", left.run, left.configuration),
            None => format!("only {} has the configuration {}", left.run, left.configuration),
        })
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

/// `would detect +12 %`: the smallest change that the gate could have detected. `None` without an interval.
pub fn detectable(gate: &GateResult) -> Option<String> {
    gate.detectable.map(|ratio| format!("would detect {}", change(ratio)))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(name: &str, ratio: Option<f64>, judgement: Judgement, word: &str) -> ComparedFigure {
        let (phase, measure) = name.split_once('.').unwrap();
        let one = serde_json::json!({ "value": 1.0, "low": 0.9, "high": 1.1, "trials": 3 });
        let ratio = ratio.map(|value| serde_json::json!({ "value": value, "low": value, "high": value, "trials": 3 }));
        serde_json::from_value(serde_json::json!({
            "figure": name, "phase": phase, "op": null, "measure": measure, "unit": "ns", "better": "less",
            "a": one, "b": one, "ratio": ratio, "judgement": judgement, "word": word,
        }))
        .unwrap()
    }

    #[test]
    fn the_headline_names_what_is_worse_before_what_is_better() {
        use Judgement::{Better, Inconclusive, Missing, OneTrial, Unchanged, Worse};
        let all = [
            figure("a.throughput", Some(1.21), Better, "faster"),
            figure("a.disk", Some(9.519), Worse, "larger"),
            figure("a.response.p99", Some(1.075), Worse, "slower"),
            figure("a.response.p99.9", Some(1.2), Worse, "slower"),
            figure("a.documents", Some(0.5), Worse, "slower"),
            figure("a.store-cpu", Some(1.0), Unchanged, "unchanged"),
            figure("a.store-memory", Some(1.1), Inconclusive, "inconclusive"),
            figure("a.service.p50", None, Missing, "missing in B"),
        ];
        let told = |which: &[usize]| headline(&which.iter().map(|nth| &all[*nth]).collect::<Vec<_>>());
        insta::assert_snapshot!(
            [
                told(&[0, 1, 2, 3, 4, 5, 6, 7]),
                told(&[0, 2]),
                told(&[0, 6]),
                told(&[5, 6]),
                told(&[5]),
                told(&[]),
                headline(&[&figure("a.disk", Some(3.0), OneTrial, "one trial")]),
            ]
            .join("\n"),
            @r"
            A and B cannot be compared in service p50 of a (missing in B). B is worse than A in disk of a (×9.52), documents of a (−50 %) and 2 more. It is better in throughput of a (+21.0 %). The rest: 1 inconclusive, 1 unchanged.
            B is worse than A in response p99 of a (+7.50 %). It is better in throughput of a (+21.0 %).
            B is better than A in throughput of a (+21.0 %). The rest: 1 inconclusive.
            No difference between A and B is certain: 1 inconclusive, 1 unchanged.
            A and B do not differ: 1 unchanged.
            A and B have no figure in common.
            No difference between A and B is certain: 1 with one trial.
            "
        );
    }
}
