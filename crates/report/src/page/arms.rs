//! Arms beside each other, phase by phase; what factors do, what it costs, and what was published, as tables.

use maud::{Markup, html};
use storebench_lab::beside::{ArmsTable, ColumnKind, arms_beside, resources_beside};
use storebench_lab::claims::ClaimVerdict;
use storebench_lab::human::{bytes, count, digits, percent, rate};
use storebench_lab::results::{PhaseResult, RunResult};
use storebench_lab::stats::Estimate;
use storebench_lab::times;

use super::intervals::{Extent, bar, point};
use crate::subject::{Subject, run_names};

pub(super) fn section(subject: &Subject) -> Markup {
    html! {
        section #arms {
            h2 { "What was measured" }
            @for (run, (of, name)) in subject.runs.iter().zip(run_names(&subject.runs)).enumerate() {
                @if subject.runs.len() > 1 { h3 { (name) } }
                @let tables = arms_beside(&of.result);
                @for of_phase in &tables { (table(subject, run, of_phase, "")) }
                @if tables.is_empty() { (single(subject, run, &of.result)) }
                (disk(subject, run, &of.result))
                @for of_phase in &resources_beside(&of.result) { (table(subject, run, of_phase, " · what it took")) }
                (published(&of.result))
                (cost(&of.result))
            }
        }
    }
}

/// The dot of an arm's colour.
fn dot(subject: &Subject, at: usize) -> Markup {
    let colour = subject.arms.get(at).map_or(0, |arm| arm.colour);
    html! { svg.dot-of viewBox="0 0 10 10" width="10" height="10" aria-hidden="true" { circle class=(format!("dot c{colour}")) cx="5" cy="5" r="4" {} } }
}

/// Bytes on disk have a table of their own.
fn without_disk(of: &ArmsTable) -> ArmsTable {
    let mut of = of.clone();
    if let Some(at) = of.columns.iter().position(|column| column.title == "on disk") {
        of.columns.remove(at);
        of.rows.iter_mut().for_each(|row| drop(row.remove(at)));
    }
    of
}

fn table(subject: &Subject, run: usize, of: &ArmsTable, what: &str) -> Markup {
    let of = &without_disk(of);
    let pictured = of.columns.iter().position(|c| c.kind == ColumnKind::Ratio);
    let main = pictured.map_or(2, |ratio| ratio - 1);
    let extents: Vec<Option<Extent>> = (0..of.columns.len())
        .map(|column| {
            let figures: Vec<Estimate> = of.rows.iter().filter_map(|row| row.get(column)?.figure).collect();
            match of.columns[column].kind {
                ColumnKind::Ratio => Extent::about_one(&figures),
                ColumnKind::More | ColumnKind::Less if column == main => Extent::from_zero(&figures),
                _ => None,
            }
        })
        .collect();
    html! {
        figure.table {
            figcaption { b { (of.phase) } (what) }
            div.scroll {
                table.sortable {
                    thead { tr {
                        @for column in &of.columns {
                            th scope="col" class=[numeric(column.kind)] { (column.title) }
                        }
                    } }
                    tbody {
                        @for row in &of.rows {
                            @let arm = subject.position(run, row.first().map_or("", |cell| cell.text.as_str()));
                            @let colour = subject.arms.get(arm).map_or(0, |a| a.colour);
                            tr {
                                @for (nth, (cell, column)) in row.iter().zip(&of.columns).enumerate() {
                                    td class=[numeric(column.kind)] data-value=[cell.figure.map(|f| f.value)] {
                                        @if column.kind == ColumnKind::Arm { (dot(subject, arm)) " " }
                                        @if let (Some(figure), Some(extent)) = (&cell.figure, extents[nth]) {
                                            @if column.kind == ColumnKind::Ratio { (point(figure, extent, colour)) }
                                            @else { (bar(figure, extent, colour)) }
                                            " "
                                        }
                                        (figure_text(&cell.text))
                                    }
                                }
                            }
                        }
                    }
                }
            }
            @for note in &of.notes { p.dim { (note) } }
        }
    }
}

/// A figure with its interval, which may stand below it.
fn figure_text(text: &str) -> Markup {
    let at = text.find(" ±").or_else(|| text.find(" ["));
    let (figure, interval) = at.map_or((text, ""), |at| text.split_at(at));
    html! { span.value { (figure) } @if !interval.is_empty() { " " span.interval { (interval.trim_start()) } } }
}

fn numeric(kind: ColumnKind) -> Option<&'static str> {
    matches!(kind, ColumnKind::Count | ColumnKind::More | ColumnKind::Less).then_some("number")
}

/// One arm that was measured once: its phases, operation by operation.
fn single(subject: &Subject, run: usize, result: &RunResult) -> Markup {
    html! {
        @for trial in &result.trials {
            figure.table {
                figcaption { (dot(subject, subject.arm(run, trial))) " " b { (trial.store) } " · " (trial.url) " · " (trial.version) }
                div.scroll {
                    table.sortable {
                        thead { tr {
                            th scope="col" { "phase" } th scope="col" { "operation" }
                            @for name in ["count", "ops/s", "docs/s", "errors", "misses", "unanswered"] { th.number scope="col" { (name) } }
                            th scope="col" { "time" }
                            @for (name, ..) in times::SHOWN { th.number scope="col" { (name) } }
                        } }
                        tbody { @for phase in trial.phases.iter().filter(|p| !p.warm_up) { (operations(phase)) } }
                    }
                }
                @for phase in trial.phases.iter().filter(|p| !p.warm_up) {
                    @if let Some(note) = times::note([phase]) { p.dim { (phase.name) ": " (note) } }
                }
            }
        }
    }
}

fn operations(phase: &PhaseResult) -> Markup {
    html! {
        @for (name, op) in &phase.ops {
            @let (kind, times) = times::main(op);
            tr {
                td { (phase.name) } td { (name) }
                td.number data-value=(op.count) { (count(op.count)) }
                // Collections are loaded one after another, and nobody knows how long each of them took.
                @for per_s in [op.throughput_per_s, op.documents_per_s].map(|s| (!phase.loads || phase.ops.len() == 1).then_some(s)) {
                    td.number data-value=[per_s] { (per_s.map_or_else(|| "-".to_owned(), rate)) }
                }
                td.number data-value=(op.errors) { (count(op.errors)) }
                td.number data-value=(op.misses) { (count(op.misses)) }
                td.number data-value=(op.censored) { (count(op.censored)) }
                td { (kind) }
                @for shown in times::SHOWN {
                    td.number data-value=[shown.2(&times).filter(|_| times.count >= shown.1)] { (times::cell(&times, shown)) }
                }
            }
        }
    }
}

/// Bytes on disk after each phase, for arms that have files here.
fn disk(subject: &Subject, run: usize, result: &RunResult) -> Markup {
    let name = |phase: &str| format!("{phase}.disk");
    let mut phases: Vec<&str> = Vec::new();
    for phase in result.trials.iter().flat_map(|t| &t.phases).filter(|p| !p.warm_up) {
        let known = phases.contains(&phase.name.as_str());
        if !known && result.arms.iter().any(|arm| arm.figures.contains_key(&name(&phase.name))) {
            phases.push(&phase.name);
        }
    }
    let found = |arm: &storebench_lab::results::ArmResult, phase: &str| {
        arm.figures.get(&name(phase)).filter(|f| f.figure.trials > 0).map(|f| f.figure)
    };
    let all: Vec<Estimate> =
        result.arms.iter().flat_map(|arm| phases.iter().filter_map(move |phase| found(arm, phase))).collect();
    let extent = Extent::from_zero(&all);
    html! {
        @if !phases.is_empty() {
            figure.table {
                figcaption { b { "on disk" } " after each phase" }
                div.scroll { table.sortable {
                    thead { tr { th scope="col" { "arm" } @for phase in &phases { th.number scope="col" { (phase) } } } }
                    tbody { @for arm in &result.arms {
                        @let at = subject.position(run, &arm.arm);
                        tr {
                            td { (dot(subject, at)) " " (arm.arm) }
                            @for phase in &phases {
                                @let figure = found(arm, phase);
                                td.number data-value=[figure.map(|f| f.value)] {
                                    @if let (Some(figure), Some(extent)) = (&figure, extent) {
                                        (bar(figure, extent, subject.arms.get(at).map_or(0, |a| a.colour))) " "
                                    }
                                    span.value { (figure.map_or("-".to_owned(), |f| bytes(f.value))) }
                                }
                            }
                        }
                    } }
                } }
            }
        }
    }
}

/// What was published, beside what was found here.
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
    html! {
        @if !result.claims.is_empty() {
            figure.table #published {
                figcaption { b { "what was published" } " beside what was found here" }
                div.scroll { table.claims {
                    thead { tr { th scope="col" { "claim" } th scope="col" { "published" } th scope="col" { "found here" } th scope="col" { "verdict" } } }
                    tbody { @for claim in &result.claims {
                        tr {
                            td { (claim.says) @if let Some(source) = &claim.source { " " span.dim { (source) } } }
                            td { (claim.figures) }
                            td {
                                @match &claim.found { Some(found) => (interval(found)), None => "-" }
                                @for part in &claim.each { br; span.dim { (part.arms) ": " (interval(&part.found)) } }
                            }
                            td {
                                span class=(class(claim.verdict)) { (claim.verdict.to_string()) }
                                @if !claim.why.is_empty() { br; span.dim { (claim.why) } }
                            }
                        }
                    } }
                } }
            }
        }
    }
}

/// What the arms cost.
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

/// A share as text; kept here so that all tables show shares alike.
pub(super) fn share(of: f64) -> String {
    percent(of)
}
