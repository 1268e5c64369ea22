//! What the result is worth: the verdicts, worst first.

use maud::{Markup, html};
use storebench_results::verdicts::{Level, grouped};

use super::head::badge;
use crate::subject::{Subject, run_names};

pub(super) fn section(subject: &Subject) -> Markup {
    html! {
        section #verdicts {
            h2 { "What the result is worth" }
            @for (run, name) in subject.runs.iter().zip(run_names(&subject.runs)) {
                @if subject.runs.len() > 1 { h3 { (name) } }
                (of_run(&run.result.verdicts))
            }
        }
    }
}

fn of_run(verdicts: &[storebench_results::verdicts::Verdict]) -> Markup {
    let (groups, passed) = grouped(verdicts);
    html! {
        @if verdicts.is_empty() { p.dim { "No check has run yet." } }
        @for group in &groups {
            // A line each, until somebody asks or prints, so that the figures are near; what spoils them is open.
            details.verdict open[group.level == Level::Invalid] {
                summary {
                    (badge(group.level)) " " b { (group.check) }
                    @if let Some(first) = group.findings.first() { span.saw { (first.saw) } }
                }
                ul {
                    @for found in &group.findings {
                        li {
                            @if !found.places.is_empty() { span.dim { (found.places) ": " } }
                            (found.saw)
                        }
                    }
                    @if group.more > 0 { li.dim { "and " (group.more) " more, which are in run.json" } }
                }
                @if !group.advice.is_empty() { p.advice { "→ " (group.advice) } }
                p.dim { (group.threshold) }
            }
        }
        @if !passed.is_empty() {
            p.passed { (badge(Level::Pass)) " " (passed.join(", ")) }
        }
    }
}
