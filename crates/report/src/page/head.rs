//! The top of the page: the question, the answer and how far to trust it. Also the footer.

use maud::{Markup, PreEscaped, html};
use storebench_results::RunResult;
use storebench_results::answer::answer;
use storebench_results::environment::Environment;
use storebench_results::human::{bytes, duration, minute, plural};
use storebench_results::side_by_side::brief_table;
use storebench_results::table::Table;
use storebench_results::validity::{Severity, grouped};

use super::tables::{self, CARDS};
use crate::picture;
use crate::subject::{Subject, run_names};

/// Reasons for an invalid result that are shown with the answer. All are among the checks.
const MOST_INVALID: usize = 2;
/// The most sentences of an answer in one paragraph.
const MOST_SENTENCES: usize = 6;

/// The title of the page.
pub(crate) fn title(subject: &Subject) -> String {
    let first = subject.runs.first().map_or("", |run| run.result.run.title.as_str());
    match subject.runs.len() {
        1 => format!("{first} · Storebench"),
        n => format!("{first} and {} more · Storebench", n - 1),
    }
}

/// A severity as a class and a word.
pub(crate) fn badge(severity: Severity) -> Markup {
    html! { span class=(format!("badge {severity}")) { (severity.to_string()) } }
}

pub(crate) fn head(subject: &Subject) -> Markup {
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
                        (found(&said.found))
                        p.trust { (badge(said.severity)) " " (said.trust) }
                        (invalid(of))
                    }
                    @if let Some(picture) = picture::for_page(of) { figure.headline { (PreEscaped(picture)) } }
                    @if let Some(brief) = brief_table(of) { (table(&brief.table, brief.left_out)) }
                    @for change in &said.changes { p.change { (change) } }
                    p.facts {
                        @if subject.runs.len() > 1 { b { (name) } " · " }
                        (facts(run))
                    }
                }
            }
        }
    }
}

/// The answer as a paragraph. Of many stores, a sentence on each line, because nobody reads so long a paragraph.
fn found(text: &str) -> Markup {
    let sentences: Vec<&str> = text.split_inclusive(". ").collect();
    html! {
        @if sentences.len() > MOST_SENTENCES { div.found { @for sentence in sentences { p { (sentence.trim_end()) } } } }
        @else { p.found { (text) } }
    }
}

/// What makes a result invalid, and what to do about it.
fn invalid(of: &RunResult) -> Markup {
    let (groups, _) = grouped(of);
    html! {
        @for group in groups.iter().filter(|group| group.severity == Severity::Invalid).take(MOST_INVALID) {
            p.why {
                b { (group.check) }
                // A phone shows only what to do.
                @if group.advice.is_empty() { ": " (group.worst_in_words()) }
                @else { span.observed { ": " (group.worst_in_words()) } " → " (group.advice) }
            }
        }
    }
}

/// Configurations, the best first, with factors as columns.
fn table(of: &Table, left_out: usize) -> Markup {
    html! {
        figure.table.brief {
            div.scroll { (tables::of_figures(CARDS, of)) }
            @if left_out > 0 { p.dim { (plural(left_out as u64, "more row")) ", in All figures below or in run.json" } }
        }
    }
}

/// One line of facts: date, trials, seed, machine, measured time, version.
fn facts(run: &crate::Recorded) -> String {
    let of = &run.result;
    let mut all = vec![minute(&of.run.began) + " UTC"];
    all.push(plural(of.trials.len() as u64, "trial"));
    if of.run.scale != 1.0 {
        all.push(format!("scale {}", of.run.scale));
    }
    all.push(format!("seed {}", of.run.seed));
    all.push(machine(&of.environment));
    let phases = of.measured_phases();
    let measured = phases.map(|p| p.elapsed_ns).fold(0, u64::saturating_add);
    let took =
        of.run.took_s().map_or_else(String::new, |took| format!("the run took {}, of which ", duration(took * 1e9)));
    all.push(format!("{took}{} measured", duration(measured as f64)));
    all.push(format!("storebench {}", of.run.storebench_version));
    all.join(" · ")
}

/// The machine of the client: `2 × MODEL, 8 GiB`.
pub(crate) fn machine(of: &Environment) -> String {
    let mut on = format!("{} processors", of.cpus_available);
    if let Some(model) = &of.cpu_model {
        on = format!("{} × {model}", of.cpus_available);
    }
    if let Some(memory) = of.memory_bytes {
        on += &format!(", {}", bytes(memory as f64));
    }
    on
}

pub(crate) fn foot(subject: &Subject) -> Markup {
    html! {
        footer {
            p {
                "Made by Storebench " (env!("CARGO_PKG_VERSION")) " from "
                @for (nth, name) in run_names(&subject.runs).iter().enumerate() {
                    @if nth > 0 { ", " }
                    code { (name) }
                }
                ". This file is self-contained: it loads no data, script or font. "
                "Charts are drawn by uPlot (MIT licence)."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::found;

    #[test]
    fn a_long_answer_has_a_line_for_each_sentence() {
        let said = |sentences: usize| vec!["a is 2.5 times as fast."; sentences].join(" ");
        let lines = |text: &str| found(text).into_string().matches("<p").count();
        assert_eq!((lines(&said(6)), lines(&said(7))), (1, 7));
    }
}
