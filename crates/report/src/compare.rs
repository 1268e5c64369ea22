//! The page of a comparison: the outcome and the gates, what changed and how certain it is, and the time lines of A
//! above those of B.

use indexmap::{IndexMap, IndexSet};
use maud::{Markup, PreEscaped, html};
use storebench_results::compare::format::{
    about_gates, checks, detectable, facts, headline, how, interval, notes, outcome, ratio, reservations, shown,
    spread, unmatched, value,
};
use storebench_results::compare::{
    CompareResult, ComparedConfiguration, ComparedFigure, ComparedPair, GateOutcome, GateResult,
};
use storebench_results::exit;
use storebench_results::human::{percent, plural, some_of};
use storebench_results::validity::Severity;

use crate::charts::charts as all_charts;
use crate::data::Chart;
use crate::page::head::badge;
use crate::page::tables::{self, CARDS, Cell, numbered, text};
use crate::page::{Life, charts, document, island};
use crate::ratios::{class_of, ratios};
use crate::recorded::{Recorded, ReportError};
use crate::subject::Subject;

/// The charts that show time lines of A and B.
const OVER_TIME: [&str; 3] = ["throughput-over-time", "latency-over-time", "errors-over-time"];

/// The most pairs side by side in charts over time.
const MOST_COLUMNS: usize = 3;
/// The most failed gates, and the most pairs, that the answer names.
const MOST_NAMED: usize = 3;
/// Hues of the two sides: grey and blue.
const COLOUR_OF_A: usize = 7;
const COLOUR_OF_B: usize = 0;

/// The page of a comparison. `runs` are the compared runs, with their names in the comparison. A run without tables,
/// such as a baseline, has no time line.
///
/// # Errors
/// A histogram log of a run is damaged.
pub fn compare_page(result: &CompareResult, runs: Vec<(String, Recorded)>) -> Result<String, ReportError> {
    let (names, runs): (Vec<String>, Vec<Recorded>) = runs.into_iter().unzip();
    let mut subject = Subject::of(runs);
    let mut panels: IndexMap<usize, String> = IndexMap::new();
    let mut labels: IndexMap<String, Option<usize>> = IndexMap::new();
    // All of A, then all of B. With a column for each pair, A is above B.
    for side in ["A", "B"] {
        for pair in &result.pairs {
            let of = if side == "A" { &pair.a } else { &pair.b };
            let position = |name: &str| {
                let run = names.iter().position(|known| known == name)?;
                Some(subject.position(run, &of.configuration))
            };
            // Of several runs, the first has the time line.
            let at = of.runs().find_map(|run| position(&run.run));
            labels.insert(of.label(), at);
            let Some(at) = at else { continue };
            // Green and red say better and worse on this page, so a side has neither.
            subject.paint(at, if side == "A" { COLOUR_OF_A } else { COLOUR_OF_B });
            panels.entry(at).or_insert_with(|| format!("{side}: {}", short(of)));
        }
    }
    let of_b: IndexSet<String> = result.pairs.iter().map(|pair| pair.b.label()).collect();
    subject.columns = (panels.len() == 2 * of_b.len() && of_b.len() <= MOST_COLUMNS).then_some(of_b.len());
    subject.in_panels(&panels);
    let mut over_time = all_charts(&subject)?;
    over_time.retain(|chart| OVER_TIME.contains(&chart.id.as_str()));
    for chart in &mut over_time {
        chart.panels = true;
        chart.series.retain(|series| panels.contains_key(&series.configuration));
        chart.marks.retain(|mark| mark.configuration.is_none_or(|of| panels.contains_key(&of)));
    }
    over_time.retain(|chart| !chart.is_empty());
    let drawn = |at: usize| over_time.iter().any(|chart| chart.series.iter().any(|series| series.configuration == at));
    labels.retain(|_, at| !at.is_some_and(drawn));
    let without: IndexSet<String> = labels.into_keys().collect();
    let body = body(result, &subject, &over_time, &without);
    let data = island(&subject, &over_time);
    Ok(document(&format!("{} · Storebench compare", title(result)), &body, Some(&data), Life::Written))
}

fn title(result: &CompareResult) -> String {
    let titles: IndexSet<&str> =
        result.pairs.iter().flat_map(|pair| [pair.a.title.as_str(), pair.b.title.as_str()]).collect();
    titles.into_iter().collect::<Vec<_>>().join(" / ")
}

fn body(result: &CompareResult, subject: &Subject, over_time: &[Chart], without: &IndexSet<String>) -> Markup {
    html! {
        header {
            p.brand { "Storebench compare" }
            div.run {
                h1 { "Comparison: " (title(result)) }
                @if let [pair] = &*result.pairs { (sides(pair)) }
                (answer(result))
                @for pair in &result.pairs { (pair_head(pair, result)) }
            }
        }
        main {
            (charts::section(subject, over_time, "Over time"))
            @if !without.is_empty() {
                p.dim {
                    "No time line of " (without.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
                    ": a baseline keeps results only, and short phases have too few intervals."
                }
            }
            @for pair in &result.pairs { (all_figures(pair, result.pairs.len() > 1)) }
            @for text in unmatched(result) { p.dim { (text) } }
        }
        footer {
            p {
                "Made by Storebench " (env!("CARGO_PKG_VERSION")) ". B is compared with A. Unchanged: the entire 95 % interval of B/A lies within "
                (percent(result.threshold)) " of 1. This file is self-contained: it loads nothing. Charts are drawn by uPlot (MIT licence)."
            }
        }
    }
}

/// The outcome of the gates, what is worse and better, and the cautions. Then a table of the gates.
fn answer(result: &CompareResult) -> Markup {
    let number = |outcome| result.gates.iter().filter(|gate| gate.outcome == outcome).count();
    let (failed, undecided) = (number(GateOutcome::Failed), number(GateOutcome::Undecided));
    let (gates, code) = (result.gates.len(), result.exit_code());
    // With an invalid run, the gates have no meaning.
    let is_weak = code == exit::INVALID && !result.is_invalid();
    let found = match failed {
        0 if code == exit::FINE && undecided == 0 => format!("All gates passed ({gates})"),
        0 if is_weak => "A gate could not have detected what it must".to_owned(),
        0 if code == exit::INVALID => "The gates say nothing: a run is invalid".to_owned(),
        0 => format!("No gate failed, but {undecided} of {gates} undecided"),
        n => format!("{n} of {gates} gates failed: {}", failed_gates(result)),
    };
    let (class, word) = match code {
        exit::FINE if undecided > 0 => ("caution", "undecided"),
        exit::FINE => ("pass", "passed"),
        exit::SPOILED => ("invalid", "failed"),
        exit::INVALID if is_weak => ("invalid", "too weak"),
        exit::INVALID => ("invalid", "invalid"),
        _ => ("caution", "undecided"),
    };
    let reservations = reservations(result);
    html! {
        div.answer {
            @if gates > 0 { p.found { span class=(format!("badge {class}")) { (word) } " " (found) } }
            @for pair in result.pairs.iter().take(MOST_NAMED) {
                p class=(if gates > 0 { "change" } else { "found" }) {
                    @if result.pairs.len() > 1 { b { (pair_name(pair)) } ": " }
                    (headline(&shown(pair, false)))
                }
            }
            @if result.pairs.len() > MOST_NAMED { p.change { "Below: " (result.pairs.len() - MOST_NAMED) " more." } }
            @if let [pair] = &*result.pairs { (of_checks(pair)) }
            p.why.dim {
                @if let (Some(trouble), 0) = (result.trouble(), failed) { (trouble) }
                @else if let Some(pair) = result.pairs.iter().find(|pair| !pair.paired_by_round).or(result.pairs.first()) {
                    (how(pair))
                }
            }
        }
        @if !reservations.is_empty() {
            p { b { "Compared anyway" } }
            ul { @for text in reservations { li { (text) } } }
        }
        @if gates > 0 { (gates_table(result)) }
    }
}

/// The figures of the gates that failed, with their ratios.
fn failed_gates(result: &CompareResult) -> String {
    let told = |gate: &GateResult| {
        let of = result.pair_of(gate).map_or_else(String::new, |pair| format!(" of {}", pair.b.configuration));
        match (&gate.ratio, &gate.why) {
            (Some(_), _) => format!("{}{of} ×{}", gate.figure, ratio(gate.ratio)),
            (None, Some(why)) => format!("{}{of} ({why})", gate.figure),
            (None, None) => format!("{}{of}", gate.figure),
        }
    };
    let failed = result.gates.iter().filter(|gate| gate.outcome == GateOutcome::Failed);
    some_of(failed.map(told), MOST_NAMED)
}

/// The configuration, and its run folder or baseline.
fn short(of: &ComparedConfiguration) -> String {
    let run = of.baseline.as_ref().map(|name| format!("baseline {name}"));
    let name = &of.first.run;
    let run = run.unwrap_or_else(|| name.rsplit('/').next().unwrap_or(name).to_owned());
    match of.more_runs.len() {
        0 => format!("{} ({run})", of.configuration),
        n => format!("{} ({run} and {})", of.configuration, plural(n as u64, "more run")),
    }
}

/// The name of a pair among several: `redb against sqlite`.
fn pair_name(pair: &ComparedPair) -> String {
    let (a, b) = (&pair.a, &pair.b);
    match a.configuration == b.configuration {
        true => b.configuration.clone(),
        false if a.names() == b.names() => format!("{} against {}", b.configuration, a.configuration),
        false => format!("{} against {}", short(b), short(a)),
    }
}

fn gates_table(result: &CompareResult) -> Markup {
    let titles = [
        ("outcome", false),
        ("fails if", false),
        ("figure", false),
        ("B/A", true),
        ("95 % interval", true),
        ("", false),
    ];
    let mut gates: Vec<&GateResult> = result.gates.iter().collect();
    gates.sort_by_key(|gate| match gate.outcome {
        GateOutcome::Failed | GateOutcome::TooWeak => 0,
        GateOutcome::Undecided => 1,
        GateOutcome::Passed => 2,
    });
    let row = |gate: &GateResult| -> Vec<Cell> {
        let mut figure = gate.figure.clone();
        figure.extend(result.pair_of(gate).map(|pair| format!(" of {}", pair_name(pair))));
        let class = match gate.outcome {
            GateOutcome::Passed => "pass",
            GateOutcome::Undecided => "caution",
            GateOutcome::Failed | GateOutcome::TooWeak => "invalid",
        };
        let more: Vec<String> = gate.why.clone().into_iter().chain(detectable(gate)).collect();
        let value = gate.ratio.map(|of| of.value);
        vec![
            text(html! { span class=(format!("badge {class}")) { (outcome(gate.outcome)) } }),
            text(html! { code { (gate.gate) } }),
            text(figure),
            numbered(value, ratio(gate.ratio)),
            numbered(value, interval(gate.ratio)),
            text(html! { span.dim { (more.join("; ")) } }),
        ]
    };
    html! {
        figure.table.brief #gates {
            figcaption { b { "Gates" } }
            div.scroll { (tables::table(CARDS, titles, gates.into_iter().map(row))) }
            p.dim { (about_gates(result)) }
        }
    }
}

/// What A and B are.
fn sides(pair: &ComparedPair) -> Markup {
    let told = |side: &ComparedConfiguration| {
        let facts = facts(side).into_iter().filter(|fact| *fact != side.configuration);
        facts.collect::<Vec<_>>().join(" · ")
    };
    html! {
        p.facts {
            @for (name, side) in [("A", &pair.a), ("B", &pair.b)] {
                @if name == "B" { br; }
                b { (name) " " (side.configuration) } " · " (told(side))
            }
        }
    }
}

/// The ratios of the figures of A and B. If there are several pairs, also what the two are.
fn pair_head(pair: &ComparedPair, result: &CompareResult) -> Markup {
    let figures = shown(pair, false);
    html! {
        @if result.pairs.len() > 1 {
            h2 { (pair_name(pair)) }
            p { (headline(&figures)) }
            (sides(pair))
            (of_checks(pair))
        }
        @if let Some(picture) = ratios(&figures, result.threshold) { figure.headline { (PreEscaped(picture)) } }
        @for note in notes(pair) { p.dim { "Note: " (note) } }
    }
}

/// The checks of both sides with severity caution or worse, the worst first.
fn of_checks(pair: &ComparedPair) -> Markup {
    html! {
        @for severity in [Severity::Invalid, Severity::Caution] {
            @let [a, b] = [&pair.a, &pair.b].map(|side| checks(&side.checks, severity));
            @let both = a == b;
            @for (side, names) in [(if both { "A and B" } else { "A" }, a), ("B", b.filter(|_| !both))] {
                @if let Some(names) = names { p.why { (badge(severity)) " " (side) ": " (names) } }
            }
        }
    }
}

fn all_figures(pair: &ComparedPair, several: bool) -> Markup {
    let titles =
        [("figure", false), ("A", true), ("B", true), ("B/A", true), ("95 % interval", true), ("change", false)];
    let row = |figure: &ComparedFigure| -> Vec<Cell> {
        let side = |of: &storebench_results::stats::Estimate| {
            let known = (of.trials > 0).then_some(of.value);
            numbered(known, format!("{} {}", value(figure, of), spread(of)).trim_end().to_owned())
        };
        let of = figure.ratio.map(|of| of.value);
        vec![
            text(&figure.figure),
            side(&figure.a),
            side(&figure.b),
            numbered(of, ratio(figure.ratio)),
            numbered(of, interval(figure.ratio)),
            text(html! { span class=(class_of(figure.judgement)) { (figure.word) } }),
        ]
    };
    html! {
        details.part {
            summary { "All figures" @if several { " of " (pair_name(pair)) } }
            section {
                figure.table {
                    figcaption { b { "All figures" @if several { " of " (pair_name(pair)) } } }
                    div.scroll { (tables::table("sortable", titles, pair.figures.iter().map(row))) }
                }
            }
        }
    }
}
