//! The top of the page: the question, the answer, what it is worth. And its foot.

use maud::{Markup, html};
use storebench_results::answer::answer;
use storebench_results::human::{bytes, duration, plural};
use storebench_results::validity::Severity;

use crate::subject::{Subject, run_names};

/// The title of the page.
pub(super) fn title(subject: &Subject) -> String {
    let first = subject.runs.first().map_or("", |run| run.result.run.title.as_str());
    match subject.runs.len() {
        1 => format!("{first} · Storebench"),
        n => format!("{first} and {} more · Storebench", n - 1),
    }
}

/// A severity as a class and a word.
pub(super) fn badge(severity: Severity) -> Markup {
    html! { span class=(format!("badge {severity}")) { (severity.to_string()) } }
}

pub(super) fn head(subject: &Subject) -> Markup {
    let names = run_names(&subject.runs);
    html! {
        header {
            p.brand { "Storebench" span.live hidden { "running" } }
            @for (run, name) in subject.runs.iter().zip(&names) {
                @let of = &run.result;
                @let said = answer(of);
                div.run {
                    h1 { (of.run.title) }
                    @if let Some(question) = &of.run.question { p.question { (question) } }
                    div.answer {
                        p.found { (said.found) }
                        @for change in &said.changes { p.change { (change) } }
                        p.worth { (badge(said.severity)) " " (said.worth) }
                    }
                    p.facts {
                        @if subject.runs.len() > 1 { b { (name) } " · " }
                        (facts(run))
                    }
                }
            }
        }
    }
}

/// When, where, how much: one line.
fn facts(run: &crate::Recorded) -> String {
    let of = &run.result;
    let mut all = vec![of.run.began.get(..16).unwrap_or(&of.run.began).replace('T', " ") + " UTC"];
    all.push(plural(of.trials.len() as u64, "trial"));
    if of.run.scale != 1.0 {
        all.push(format!("scale {}", of.run.scale));
    }
    all.push(format!("seed {}", of.run.seed));
    let machine = &of.environment;
    let mut on = format!("{} processors", machine.cpus_available);
    if let Some(model) = &machine.cpu_model {
        on = format!("{} × {model}", machine.cpus_available);
    }
    if let Some(memory) = machine.memory_bytes {
        on += &format!(", {}", bytes(memory as f64));
    }
    all.push(on);
    let phases = of.measured_phases();
    let measured = phases.map(|p| p.elapsed_ns).fold(0, u64::saturating_add);
    all.push(format!("measured for {}", duration(measured as f64)));
    all.push(format!("storebench {}", of.run.storebench_version));
    all.join(" · ")
}

pub(super) fn foot(subject: &Subject) -> Markup {
    html! {
        footer {
            p {
                "Made by Storebench " (env!("CARGO_PKG_VERSION")) " of "
                @for (nth, name) in run_names(&subject.runs).iter().enumerate() {
                    @if nth > 0 { ", " }
                    code { (name) }
                }
                ". This file needs nothing else: no figure, script or font in it is loaded from anywhere. "
                "Charts are drawn by uPlot (MIT licence)."
            }
        }
    }
}
