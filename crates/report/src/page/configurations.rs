//! Tables of configurations side by side, phase by phase, with resources, published claims and cost.

use indexmap::IndexSet;
use maud::{Markup, html};
use storebench_results::claims::{ClaimResult, ClaimVerdict};
use storebench_results::human::{bytes, digits};
use storebench_results::side_by_side::{ConfigurationsTable, configuration_tables, operations, resource_tables};
use storebench_results::stats::Estimate;
use storebench_results::table::{Column, ColumnKind};
use storebench_results::times;
use storebench_results::{ConfigurationResult, RunResult};

use super::intervals::{Extent, bar, point};
use super::tables::{self, CARDS, numbered, sorted, text};
use crate::subject::{Subject, run_names};

pub(super) fn section(subject: &Subject) -> Markup {
    html! {
        section #configurations {
            h2 { "All figures" }
            @for (run, (of, name)) in subject.runs.iter().zip(run_names(&subject.runs)).enumerate() {
                @if subject.runs.len() > 1 { h3 { (name) } }
                @let tables = configuration_tables(&of.result);
                @for of_phase in &tables { (configurations_table(subject, run, of_phase, "")) }
                @if tables.is_empty() { (single(subject, run, &of.result)) }
                (disk(subject, run, &of.result))
                @for of_phase in &resource_tables(&of.result) { (configurations_table(subject, run, of_phase, " · resources")) }
                (published(&of.result))
                (cost(&of.result))
            }
        }
    }
}

/// A longer text, such as the evidence of a bottleneck, has several lines.
const LONGEST_LINE: usize = 40;

/// The dot of a configuration's colour.
fn dot(subject: &Subject, at: usize) -> Markup {
    let hue = subject.hue(at);
    html! {
        svg.dot-of viewBox="0 0 10 10" width="10" height="10" aria-hidden="true" {
            circle class=(hue.class("dot")) style=[hue.style()] cx="5" cy="5" r="4" {}
        }
    }
}

fn configurations_table(subject: &Subject, run: usize, of: &ConfigurationsTable, what: &str) -> Markup {
    // Bytes on disk have a separate table.
    let table = of.table.clone().without(&["on disk"]);
    let main = table.columns.iter().position(|c| c.kind == ColumnKind::Ratio).map_or(2, |ratio| ratio - 1);
    let extent = |(nth, column): (usize, &Column)| {
        let figures: Vec<Estimate> = table.rows.iter().filter_map(|row| row.get(nth)?.figure).collect();
        match column.kind {
            ColumnKind::Ratio => Extent::about_one(&figures),
            ColumnKind::More | ColumnKind::Less if nth == main => Extent::from_zero(&figures),
            _ => None,
        }
    };
    let extents: Vec<Option<Extent>> = table.columns.iter().enumerate().map(extent).collect();
    let row = |row: &Vec<storebench_results::table::Cell>| {
        let configuration = subject.position(run, row.first().map_or("", |cell| cell.text.as_str()));
        let cell = |(nth, cell): (usize, &storebench_results::table::Cell)| {
            let kind = table.columns[nth].kind;
            let shown = html! {
                @if kind == ColumnKind::Configuration { (dot(subject, configuration)) " " }
                @if let (Some(figure), Some(extent)) = (&cell.figure, extents[nth]) {
                    @if kind == ColumnKind::Ratio { (point(figure, extent, subject.hue(configuration))) }
                    @else { (bar(figure, extent, subject.hue(configuration))) }
                    " "
                }
                @if kind == ColumnKind::Text && cell.text.len() > LONGEST_LINE { div.wide { (cell.text) } }
                @else { (figure_text(&cell.text)) }
            };
            if kind.is_number() { numbered(cell.figure.map(|f| f.value), shown) } else { sorted(cell.figure, shown) }
        };
        row.iter().enumerate().map(cell).collect()
    };
    html! {
        figure.table {
            figcaption { b { (of.phase) } (what) }
            div.scroll { (tables::table(&format!("sortable {CARDS}"), tables::titles(&table), table.rows.iter().map(row))) }
            @for note in &of.notes { p.dim { (note) } }
        }
    }
}

/// A figure with its interval, which may wrap to the next line.
fn figure_text(text: &str) -> Markup {
    let at = text.find(" ±").or_else(|| text.find(" [")).or_else(|| text.find(" ("));
    let (figure, interval) = at.map_or((text, ""), |at| text.split_at(at));
    html! { span.value { (figure) } @if !interval.is_empty() { " " span.interval { (interval.trim_start()) } } }
}

/// Each trial of a run without a table of configurations: its phases, operation by operation.
fn single(subject: &Subject, run: usize, result: &RunResult) -> Markup {
    html! {
        @for trial in &result.trials {
            @let phases = || trial.phases.iter().filter(|p| !p.warm_up);
            @let table = operations(phases());
            figure.table {
                figcaption { (dot(subject, subject.position(run, &trial.configuration))) " " b { (trial.store) } " · " (trial.url) " · " (trial.version) }
                div.scroll { (tables::of_figures("sortable", &table)) }
                @for phase in phases() {
                    @if let Some(note) = times::note([phase]) { p.dim { (phase.name) ": " (note) } }
                }
            }
        }
    }
}

/// Bytes on disk after each phase, for configurations with files on this machine.
fn disk(subject: &Subject, run: usize, result: &RunResult) -> Markup {
    let name = |phase: &str| format!("{phase}.disk");
    let known = |phase: &str| {
        result.configurations.iter().any(|configuration| configuration.figures.contains_key(&name(phase)))
    };
    let all = result.measured_phases().filter(|p| known(&p.name));
    let phases: IndexSet<&str> = all.map(|phase| phase.name.as_str()).collect();
    let found = |configuration: &ConfigurationResult, phase: &str| {
        configuration.figures.get(&name(phase)).filter(|f| f.figure.trials > 0).map(|f| f.figure)
    };
    let all: Vec<Estimate> = result
        .configurations
        .iter()
        .flat_map(|configuration| phases.iter().filter_map(move |phase| found(configuration, phase)))
        .collect();
    let extent = Extent::from_zero(&all);
    let row = |configuration: &ConfigurationResult| {
        let at = subject.position(run, &configuration.configuration);
        let cell = |phase: &&str| {
            let figure = found(configuration, phase);
            let shown = html! {
                @if let (Some(figure), Some(extent)) = (&figure, extent) { (bar(figure, extent, subject.hue(at))) " " }
                span.value { (figure.map_or("not measured".to_owned(), |f| bytes(f.value))) }
            };
            numbered(figure.map(|f| f.value), shown)
        };
        std::iter::once(text(html! { (dot(subject, at)) " " (configuration.configuration) }))
            .chain(phases.iter().map(cell))
            .collect()
    };
    let titles = std::iter::once(("configuration", false)).chain(phases.iter().map(|phase| (*phase, true)));
    html! {
        @if !phases.is_empty() {
            figure.table {
                figcaption { b { "on disk" } " after each phase" }
                div.scroll { (tables::table("sortable", titles, result.configurations.iter().map(row))) }
            }
        }
    }
}

/// Published claims next to the results of this run.
fn published(result: &RunResult) -> Markup {
    let class = |verdict: ClaimVerdict| match verdict {
        ClaimVerdict::Matches => "badge pass",
        ClaimVerdict::Differs => "badge caution",
        ClaimVerdict::Undecided | ClaimVerdict::NotTestable => "badge note",
    };
    let interval = |found: &Estimate| match (found.low, found.high) {
        (Some(low), Some(high)) => format!("{} [{}, {}]", digits(found.value), digits(low), digits(high)),
        _ => digits(found.value),
    };
    let row = |claim: &ClaimResult| {
        vec![
            text(html! { (claim.says) @if let Some(source) = &claim.source { " " span.dim { (source) } } }),
            text(&claim.figures),
            text(html! {
                @match &claim.found { Some(found) => (interval(found)), None => "not measured" }
                @for part in &claim.each { br; span.dim { (part.configurations) ": " (interval(&part.found)) } }
            }),
            text(html! {
                span class=(class(claim.verdict)) { (claim.verdict.to_string()) }
                @if !claim.why.is_empty() { br; span.dim { (claim.why) } }
            }),
        ]
    };
    let titles = ["claim", "published", "this run", "outcome"].map(|title| (title, false));
    html! {
        @if !result.claims.is_empty() {
            figure.table #published {
                figcaption { b { "published claims" } " next to the results of this run" }
                div.scroll { (tables::table("claims", titles, result.claims.iter().map(row))) }
            }
        }
    }
}

/// What the configurations cost.
fn cost(result: &RunResult) -> Markup {
    html! {
        @if let Some(cost) = &result.cost {
            figure.table #money {
                figcaption {
                    b { "cost" } " in " (cost.sheet.currency) ", prices of " (cost.sheet.date.to_string()) ": " (cost.sheet.source)
                    @if let Some(best) = &cost.cheapest { ". Cheapest for a million " (cost.work.to_string()) ": " b { (best) } }
                }
                pre { (cost.to_string()) }
            }
        }
    }
}
