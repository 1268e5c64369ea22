//! How far a run can be trusted, in a sentence.

use std::collections::BTreeSet;

use indexmap::IndexSet;

use super::words::listed;
use crate::RunResult;
use crate::human::{count, plural};
use crate::validity::{Severity, exit_code, in_short, is_of_the_answer};

/// The most checks that are named.
const MOST_NAMED: usize = 4;

/// The sentence, and the worst severity.
pub(super) fn worth(result: &RunResult) -> (String, Severity) {
    let of = |severity: Severity| -> Vec<String> {
        let checks = result.checks.iter().filter(|v| v.severity == severity).map(|v| &v.check);
        checks.collect::<IndexSet<_>>().into_iter().cloned().collect()
    };
    // A check counts once, at its worst severity.
    let invalid = of(Severity::Invalid);
    let mut cautions = of(Severity::Caution);
    cautions.retain(|check| !invalid.contains(check));
    let mut notes = of(Severity::Note);
    notes.retain(|check| !invalid.contains(check) && !cautions.contains(check));
    let checks: BTreeSet<&str> = result.checks.iter().map(|v| v.check.as_str()).collect();
    let also = |names: &[String], what: &str, whats: &str| match names.len() {
        0 => String::new(),
        n => format!(", and {} {}", count(n as u64), if n == 1 { what } else { whats }),
    };
    let cut = if result.run.interrupted { " The run was interrupted." } else { "" };
    let (text, severity) = if checks.is_empty() {
        ("No check has run yet.".to_owned(), Severity::Pass)
    } else if !invalid.is_empty() {
        let lost = exit_code(result) == 1;
        let what = if lost { "Data was lost, wrong, or could not be verified" } else { "The measurement is invalid" };
        (format!("{what}: {}{}.", named(&invalid), also(&cautions, "caution", "cautions")), Severity::Invalid)
    } else if !cautions.is_empty() {
        let (grave, other): (Vec<_>, Vec<_>) = cautions.into_iter().partition(|check| is_of_the_answer(check));
        let doubts = grave.iter().map(|check| doubt(result, check) + " ").collect::<String>();
        let text = match other.is_empty() {
            true if notes.is_empty() => doubts.trim_end().to_owned(),
            true => format!("{doubts}There {}.", are_notes(notes.len())),
            false => format!("{doubts}With cautions: {}{}.", named(&other), also(&notes, "note", "notes")),
        };
        (text, Severity::Caution)
    } else {
        let passed = checks.len() - notes.len();
        let text = format!("Valid: {} passed{}.", plural(passed as u64, "check"), also(&notes, "note", "notes"));
        (text, if notes.is_empty() { Severity::Pass } else { Severity::Note })
    };
    (text + cut, severity)
}

/// What a check observed that puts the answer in doubt: `Doubtful: configurations did different work (work-differs; one
/// and other, load: …).`
fn doubt(result: &RunResult, check: &str) -> String {
    let mut found = result.checks.iter().filter(|v| v.check == check && v.severity == Severity::Caution);
    let Some(first) = found.next() else { return String::new() };
    let place = first.configuration.as_ref().map_or_else(String::new, |configuration| format!("{configuration}: "));
    let others: BTreeSet<&str> =
        found.map(|other| other.observed.as_str()).filter(|observed| *observed != first.observed).collect();
    let more = match others.len() {
        0 => String::new(),
        n => format!("; and {} more", count(n as u64)),
    };
    let short = in_short(check).unwrap_or(check);
    format!("Doubtful: {short} ({check}; {place}{}{more}).", first.observed)
}

fn are_notes(n: usize) -> String {
    format!("{} {}", if n == 1 { "is" } else { "are" }, plural(n as u64, "note"))
}

fn named(checks: &[String]) -> String {
    let more = checks.len().saturating_sub(MOST_NAMED);
    let name = |check: &String| match in_short(check) {
        Some(short) => format!("{short} ({check})"),
        None => check.clone(),
    };
    let mut names: Vec<String> = checks.iter().take(MOST_NAMED).map(name).collect();
    if more > 0 {
        names.push(format!("{} more", count(more as u64)));
    }
    listed(&names)
}
