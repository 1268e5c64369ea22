//! The validity checks, worst first.

use maud::{Markup, html};
use storebench_results::RunResult;
use storebench_results::validity::{CheckResult, Severity, grouped};

use super::head::badge;
use crate::subject::{Subject, run_names};

pub(super) fn section(subject: &Subject) -> Markup {
    html! {
        section #checks {
            @for (run, name) in subject.runs.iter().zip(run_names(&subject.runs)) {
                @let checks = &run.result.checks;
                details.checks {
                    summary {
                        @if subject.runs.len() > 1 { (name) ": " }
                        "Validity checks: " (counted(checks))
                    }
                    (of_run(&run.result))
                }
            }
        }
    }
}

/// The number of checks by severity: `2 cautions, 3 notes, 15 passed`.
fn counted(checks: &[CheckResult]) -> String {
    let worst = |name: &str| checks.iter().filter(|check| check.check == name).map(|check| check.severity).max();
    let names: std::collections::BTreeSet<&str> = checks.iter().map(|check| check.check.as_str()).collect();
    let of = |severity: Severity| names.iter().filter(|name| worst(name) == Some(severity)).count() as u64;
    let told = [
        (of(Severity::Invalid), "invalid", "invalid"),
        (of(Severity::Caution), "caution", "cautions"),
        (of(Severity::Note), "note", "notes"),
        (of(Severity::Pass), "passed", "passed"),
    ];
    let told: Vec<String> = told
        .into_iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, one, many)| format!("{n} {}", if n == 1 { one } else { many }))
        .collect();
    if told.is_empty() { "none has run yet".to_owned() } else { told.join(", ") }
}

fn of_run(of: &RunResult) -> Markup {
    let (groups, passed) = grouped(of);
    html! {
        @if of.checks.is_empty() { p.dim { "No check has run yet." } }
        @for group in &groups {
            // One line each, so that the figures stay near the top. Invalid checks start open.
            details.check open[group.severity == Severity::Invalid] {
                summary {
                    (badge(group.severity)) " " b { (group.check) }
                    @if !group.trials.is_empty() { " " span.dim { (group.trials) } }
                    span.observed { @if group.short.is_empty() { (group.worst.observed) } @else { (group.short) } }
                }
                p { (group.in_words()) }
                @if !group.advice.is_empty() { p.advice { "→ " (group.advice) } }
                @if !group.others.is_empty() {
                    ul {
                        @for found in &group.others {
                            li {
                                @if found.severity != group.severity { (badge(found.severity)) " " }
                                @if !found.places.is_empty() { span.dim { (found.places) ": " } }
                                (found.observed)
                            }
                        }
                        @if group.more > 0 { li.dim { "and " (group.more) " more in run.json" } }
                    }
                }
                p.dim { (group.threshold) }
            }
        }
        @if !passed.is_empty() {
            p.passed { (badge(Severity::Pass)) " " (passed.join(", ")) }
        }
    }
}
