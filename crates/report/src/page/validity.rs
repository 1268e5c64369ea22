//! Validity checks: the checks, worst first.

use maud::{Markup, html};
use storebench_results::validity::{Severity, grouped};

use super::head::badge;
use crate::subject::{Subject, run_names};

pub(super) fn section(subject: &Subject) -> Markup {
    html! {
        section #checks {
            h2 { "Validity checks" }
            @for (run, name) in subject.runs.iter().zip(run_names(&subject.runs)) {
                @if subject.runs.len() > 1 { h3 { (name) } }
                (of_run(&run.result.checks))
            }
        }
    }
}

fn of_run(checks: &[storebench_results::validity::CheckResult]) -> Markup {
    let (groups, passed) = grouped(checks);
    html! {
        @if checks.is_empty() { p.dim { "No check has run yet." } }
        @for group in &groups {
            // A line each, until somebody asks or prints, so that the figures are near; what spoils them is open.
            details.check open[group.severity == Severity::Invalid] {
                summary {
                    (badge(group.severity)) " " b { (group.check) }
                    @if let Some(first) = group.findings.first() { span.observed { (first.observed) } }
                }
                ul {
                    @for found in &group.findings {
                        li {
                            @if !found.places.is_empty() { span.dim { (found.places) ": " } }
                            (found.observed)
                        }
                    }
                    @if group.more > 0 { li.dim { "and " (group.more) " more, which are in run.json" } }
                }
                @if !group.advice.is_empty() { p.advice { "→ " (group.advice) } }
                p.dim { (group.threshold) }
            }
        }
        @if !passed.is_empty() {
            p.passed { (badge(Severity::Pass)) " " (passed.join(", ")) }
        }
    }
}
