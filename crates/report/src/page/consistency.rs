//! What the workers saw of the documents that a consistency check follows: how far reads were behind, and sequences
//! that no order explains.

use maud::{Markup, html};
use storebench_consistency::{BrokenKey, Step};
use storebench_results::human::{count, duration, plural};
use storebench_results::{HistoryResult, RunResult};

use super::tables::{self, number, text};
use crate::subject::{Subject, run_names};

/// Width and height of the picture of an operation.
const PICTURE: (f64, f64) = (240.0, 12.0);

pub(super) fn section(subject: &Subject) -> Markup {
    let followed = |of: &RunResult| of.trials.iter().any(|trial| trial.phases.iter().any(|p| p.history.is_some()));
    if !subject.runs.iter().any(|run| followed(&run.result)) {
        return html! {};
    }
    html! {
        section #consistency {
            h2 { "What the workers saw" }
            @for (run, name) in subject.runs.iter().zip(run_names(&subject.runs)) {
                @if followed(&run.result) {
                    @if subject.runs.len() > 1 { h3 { (name) } }
                    (of_run(&run.result))
                }
            }
        }
    }
}

fn of_run(of: &RunResult) -> Markup {
    let phases = || {
        of.trials.iter().flat_map(|trial| {
            let phases = trial.phases.iter().filter_map(|phase| Some((phase, phase.history.as_ref()?)));
            phases.map(move |(phase, history)| {
                let name = match of.trials.len() {
                    1 => phase.name.clone(),
                    _ => format!("{}, trial {}, {}", trial.configuration.as_str(), trial.trial, phase.name),
                };
                (name, phase.consistency.name.as_str(), history)
            })
        })
    };
    let whole = |n: u64| number(Some(n as f64), |_| count(n));
    let row = |(name, promised, of): (String, &str, &HistoryResult)| {
        let stale = &of.staleness;
        vec![
            text(name),
            text(promised),
            whole(of.operations),
            whole(of.linearizable),
            whole(of.broken),
            whole(of.undecided),
            whole(stale.reads),
            whole(stale.stale),
            number(Some(stale.time_behind_max_ns as f64), |ns| match stale.stale {
                0 => "0".to_owned(),
                _ => format!("{}, {}", plural(stale.versions_behind_max, "version"), duration(ns)),
            }),
            whole(stale.own_write_missed),
            whole(stale.went_back),
        ]
    };
    let titles = ["phase", "promised"].map(|title| (title, false)).into_iter();
    let of_operations = ["operations", "explained", "not", "undecided"].map(|title| (title, true));
    let of_reads = ["reads", "stale", "at most behind", "missed own", "went back"].map(|title| (title, true));
    let titles = titles.chain(of_operations).chain(of_reads);
    html! {
        p.about {
            "Each read and write of the documents that are followed was recorded with its times. A document is explained "
            "if each operation can have taken effect at one moment between its send and its answer. A read is stale if "
            "what it returned had been overwritten before it was sent. Versions that the phase wrote are counted from 1."
        }
        div.scroll { (tables::table("sortable", titles, phases().map(row))) }
        @for (name, _, history) in phases() {
            @for key in &history.examples {
                h3 { "No order explains " code { (key.key) } }
                p.dim {
                    (name) ". It held " code { (key.initial) } " at first. Times are from the first send on."
                    @if history.excused == history.broken { " A loss that the durability allows, or an eviction, explains it." }
                }
                (sequence(key))
            }
        }
    }
}

/// The operations of a sequence, with a picture of when each was in flight.
fn sequence(key: &BrokenKey) -> Markup {
    let steps: Vec<Step> = key.steps().collect();
    let whole_ns = steps.iter().flat_map(|step| [Some(step.sent_ns), step.answered_ns]).flatten().max().unwrap_or(0);
    let row = |step: &Step| {
        let ns = |ns: u64| number(Some(ns as f64), |ns| if ns == 0.0 { "0".to_owned() } else { duration(ns) });
        vec![
            text(&step.client),
            text(&step.did),
            ns(step.sent_ns),
            step.answered_ns.map_or_else(|| text("no answer"), ns),
            text(bar(step, whole_ns.max(1) as f64)),
        ]
    };
    let titles = [("", false), ("operation", false), ("sent", true), ("answered", true), ("in flight", false)];
    html! { div.scroll { (tables::table("", titles, steps.iter().map(row))) } }
}

fn bar(step: &Step, whole_ns: f64) -> Markup {
    let (width, height) = PICTURE;
    let x = |ns: u64| ns as f64 / whole_ns * (width - 2.0);
    let (from, to) = (x(step.sent_ns), step.answered_ns.map_or(width, x));
    let opacity = if step.answered_ns.is_some() { "0.7" } else { "0.3" };
    html! {
        svg viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height) aria-hidden="true" {
            rect x=(format!("{from:.1}")) y="1" width=(format!("{:.1}", (to - from).max(2.0))) height=(height - 2.0)
                fill="currentColor" fill-opacity=(opacity) {}
        }
    }
}
