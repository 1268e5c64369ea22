//! The page of a history: the answer, the lines as a table, and a chart of each line with its changes.

use indexmap::IndexSet;
use maud::{Markup, html};
use storebench_results::exit;
use storebench_results::history::{
    HistoryChange, HistoryLine, HistoryReport, HistoryRun, HistoryValue, history_answer, history_changes,
    history_notes, history_table,
};
use storebench_results::human::{minute, plural};
use storebench_results::stats::Estimate;

use crate::data::{Axis, Chart, Mark, MarkKind, Scale, Series, Unit, keys};
use crate::page::charts::figure;
use crate::page::tables::{self, CARDS, numbered, text};
use crate::page::{Life, document, island};
use crate::subject::{COLOURS, ConfigurationOf, Subject};

/// The hue of lines that ended, and how much of it they have: grey, and light.
const ENDED: (usize, usize) = (7, 55);

/// The page of a history. It loads nothing.
pub fn history_page(report: &HistoryReport) -> String {
    let stores: IndexSet<&str> = report.lines.iter().map(|line| line.configuration.as_str()).collect();
    let colour = |line: &HistoryLine| match stores.get_index_of(line.configuration.as_str()) {
        Some(at) if line.current => (at % COLOURS, 100),
        _ => ENDED,
    };
    let configuration = |line: &HistoryLine| {
        let (colour, shade) = colour(line);
        ConfigurationOf { run: 0, name: line.name(), own: line.name(), colour, shade, panel: 0 }
    };
    let subject = Subject { configurations: report.lines.iter().map(configuration).collect(), ..Subject::default() };
    let charts: Vec<Chart> = report.lines.iter().enumerate().map(|(at, line)| chart(at, line)).collect();
    let title = report.branch.as_ref().map_or_else(|| "History".to_owned(), |branch| format!("History of {branch}"));
    let body = body(&title, report, &charts);
    document(&format!("{title} · Storebench"), &body, Some(&island(&subject, &charts)), Life::Written)
}

fn body(title: &str, report: &HistoryReport, charts: &[Chart]) -> Markup {
    let (class, word) = match report.exit_code() {
        exit::FINE => ("pass", "fine"),
        exit::UNDECIDED => ("caution", "undecided"),
        _ => ("invalid", "worse"),
    };
    let changes = history_changes(report);
    html! {
        header {
            p.brand { "Storebench history" }
            h1 { (title) }
            p.facts { (plural(report.runs.into(), "run")) ", " (minute(&report.from)) " to " (minute(&report.to)) " UTC" }
            div.answer { p.found { span class=(format!("badge {class}")) { (word) } " " (history_answer(report)) } }
        }
        main {
            figure.table { div.scroll { (tables::of_figures(CARDS, &history_table(report))) } }
            @if !changes.is_empty() { ul { @for change in changes { li { (change) } } } }
            @for note in history_notes(report) { p.dim { (note) } }
            section #charts {
                h2 { "Lines" }
                noscript { p.dim { "Charts need JavaScript, which is disabled here. Each chart also has a table." } }
                @for (line, chart) in report.lines.iter().zip(charts) { (figure(chart, &runs(line))) }
            }
        }
        footer {
            p {
                "Made by Storebench " (env!("CARGO_PKG_VERSION")) ". This file is self-contained: it loads nothing. \
                 Charts are drawn by uPlot (MIT licence)."
            }
        }
    }
}

/// The figure of each run in order, with its interval, and the changes.
fn chart(at: usize, line: &HistoryLine) -> Chart {
    let ended = if line.current { "" } else { " (ended)" };
    let x = Axis::new("run", Unit::Plain, Scale::Linear);
    let mut chart = Chart::lines(&format!("line-{at}"), &format!("{}{ended}", line.name()), x);
    chart.about = about(line);
    let (unit, label) = match line.unit.as_str() {
        "/s" => (Unit::PerSecond, "per second"),
        "ns" => (Unit::Ns, "time"),
        "B" => (Unit::Bytes, "size"),
        _ => (Unit::Plain, line.figure.as_str()),
    };
    let axis = chart.axis(Axis::new(label, unit, Scale::Near));
    let estimate = |of: &HistoryValue| Some(Estimate { value: of.value, low: of.low, high: of.high, trials: 1 });
    let values: Vec<Option<Estimate>> = line.values.iter().map(estimate).collect();
    let x = (1..=values.len()).map(|run| Some(run as f64)).collect();
    chart.add_estimates(Series::new(at, String::new(), keys([]), axis), x, &values);
    let number = |run: &HistoryRun| line.values.iter().position(|of| of.of == *run).map_or(0.0, |at| at as f64 + 1.0);
    chart.marks.extend(line.changes.iter().map(|change: &HistoryChange| {
        let kind = if change.worse { MarkKind::Worse } else { MarkKind::Better };
        let (from, to) = (number(&change.before_earliest), number(&change.latest));
        Mark::new(kind, from, Some(to), change.in_short(), at)
    }));
    chart
}

/// What the line consists of, and what it lacks.
fn about(line: &HistoryLine) -> String {
    let mut facts = vec![plural(line.values.len() as u64, "run"), line.machine.clone()];
    facts.extend(line.host.as_ref().map(|host| format!("store on {host}")));
    let left_out = [(line.invalid, "that a check found invalid"), (line.without, "without a value")];
    let left_out = left_out.into_iter().filter(|(runs, _)| *runs > 0);
    facts.extend(left_out.map(|(runs, why)| format!("not shown: {} {why}", plural(runs.into(), "run"))));
    let marks = if line.changes.is_empty() { "" } else { ". A band across: a change came with one of these runs" };
    format!("{}{marks}", facts.join("; "))
}

/// The runs of a line, the newest first.
fn runs(line: &HistoryLine) -> Markup {
    let titles = [
        ("run", true),
        ("began (UTC)", false),
        ("commit", false),
        ("figure", true),
        ("95 % interval", true),
        ("store", false),
    ];
    let row = |(at, of): (usize, &HistoryValue)| {
        let interval = of.low.zip(of.high).map(|(low, high)| format!("{} – {}", line.shown(low), line.shown(high)));
        vec![
            numbered(Some(at as f64 + 1.0), (at + 1).to_string()),
            text(minute(&of.of.began)),
            text(of.of.commit.as_deref().unwrap_or("unknown")),
            numbered(Some(of.value), line.shown(of.value)),
            numbered(of.low, interval.unwrap_or_default()),
            text(&of.version),
        ]
    };
    tables::table("sortable", titles, line.values.iter().enumerate().rev().map(row))
}
