//! The verdicts as text: worst first, what passed in one line.

use std::fmt::Write;

use super::{Paint, WIDTH};
use crate::lines::wrap;
use crate::verdicts::{Level, Verdict};

/// Columns before the text of a verdict: level and name of the check.
const INDENT: usize = 33;

/// Findings of one check and level that are shown.
const MOST_FINDINGS: usize = 6;

/// Adds the verdicts. Those of one check and level stand together, under one advice.
pub(super) fn verdicts(out: &mut String, verdicts: &[Verdict], paint: Paint) {
    if verdicts.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", paint.bold("What the result is worth"));
    for (level, colour) in [(Level::Invalid, "1;31"), (Level::Caution, "33"), (Level::Note, "36")] {
        let mut checks: Vec<&str> = Vec::new();
        for v in verdicts.iter().filter(|v| v.level == level) {
            if !checks.contains(&v.check.as_str()) {
                checks.push(&v.check);
            }
        }
        for check in checks {
            let of: Vec<&Verdict> = verdicts.iter().filter(|v| v.level == level && v.check == check).collect();
            group(out, &of, check, &paint.with(colour, &format!("{level:<7}")));
        }
    }
    let mut passed: Vec<&str> = Vec::new();
    for v in verdicts {
        let only_passed = verdicts.iter().filter(|w| w.check == v.check).all(|w| w.level == Level::Pass);
        if only_passed && !passed.contains(&v.check.as_str()) {
            passed.push(&v.check);
        }
    }
    if !passed.is_empty() {
        for (n, line) in wrap(&passed.join(", "), WIDTH - 11).into_iter().enumerate() {
            let head = if n == 0 { paint.with("32", "pass   ") } else { " ".repeat(7) };
            let _ = writeln!(out, "  {head}  {line}");
        }
    }
}

fn group(out: &mut String, verdicts: &[&Verdict], check: &str, level: &str) {
    let Some(first) = verdicts.first() else { return };
    // The same finding at several places is said once.
    let mut saw: Vec<(&str, Vec<String>)> = Vec::new();
    for v in verdicts {
        let place = place(v);
        match saw.iter_mut().find(|(text, _)| *text == v.saw) {
            Some((_, places)) => places.push(place),
            None => saw.push((&v.saw, vec![place])),
        }
    }
    let mut lines = Vec::new();
    let more = saw.len().saturating_sub(MOST_FINDINGS);
    for (text, mut places) in saw.into_iter().take(MOST_FINDINGS) {
        places.retain(|p| !p.is_empty());
        places.dedup();
        let text = if places.is_empty() { text.to_owned() } else { format!("{}: {text}", places.join(", ")) };
        lines.extend(wrap(&text, WIDTH - INDENT));
    }
    if more > 0 {
        lines.push(format!("and {more} more; run.json holds them all"));
    }
    lines.extend(wrap(&format!("[{}]", first.threshold), WIDTH - INDENT));
    if !first.advice.is_empty() {
        for (n, line) in wrap(&first.advice, WIDTH - INDENT - 2).into_iter().enumerate() {
            lines.push(format!("{}{line}", if n == 0 { "→ " } else { "  " }));
        }
    }
    for (n, line) in lines.into_iter().enumerate() {
        let _ =
            if n == 0 { writeln!(out, "  {level}  {check:<22}{line}") } else { writeln!(out, "{:INDENT$}{line}", "") };
    }
}

fn place(v: &Verdict) -> String {
    match (&v.store, &v.phase) {
        (Some(store), Some(phase)) => format!("{store} {phase}"),
        (Some(store), None) => store.clone(),
        _ => String::new(),
    }
}
