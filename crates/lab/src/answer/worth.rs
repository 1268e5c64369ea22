//! What a run is worth, in a sentence.

use super::listed;
use crate::human::count;
use crate::results::RunResult;
use crate::verdicts::{Level, exit_code, in_short};

/// Checks that are named.
const MOST_NAMED: usize = 4;

/// The sentence, and the worst level.
pub(super) fn worth(result: &RunResult) -> (String, Level) {
    let of = |level: Level| {
        let mut names: Vec<String> = Vec::new();
        for verdict in result.verdicts.iter().filter(|v| v.level == level) {
            if !names.contains(&verdict.check) {
                names.push(verdict.check.clone());
            }
        }
        names
    };
    let (invalid, cautions, notes) = (of(Level::Invalid), of(Level::Caution), of(Level::Note));
    let checks: std::collections::BTreeSet<&str> = result.verdicts.iter().map(|v| v.check.as_str()).collect();
    let also = |names: &[String], what: &str, whats: &str| match names.len() {
        0 => String::new(),
        n => format!(", and {} {}", count(n as u64), if n == 1 { what } else { whats }),
    };
    let cut = if result.run.interrupted { " The run was interrupted." } else { "" };
    let (text, level) = if checks.is_empty() {
        ("Nothing was judged yet.".to_owned(), Level::Pass)
    } else if !invalid.is_empty() {
        let lost = exit_code(result) == 1;
        let what = if lost { "Data were lost, wrong or could not be verified" } else { "The measurement is invalid" };
        (format!("{what}: {}{}.", named(&invalid), also(&cautions, "caution", "cautions")), Level::Invalid)
    } else if !cautions.is_empty() {
        let text = format!("With reservations: {}{}.", named(&cautions), also(&notes, "note", "notes"));
        (text, Level::Caution)
    } else {
        let passed = checks.len() - notes.len();
        let text = format!(
            "Nothing speaks against it: {} checks passed{}.",
            count(passed as u64),
            also(&notes, "note", "notes")
        );
        (text, if notes.is_empty() { Level::Pass } else { Level::Note })
    };
    (text + cut, level)
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
