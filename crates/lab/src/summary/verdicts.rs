//! The verdicts as text: worst first, what passed in one line.

use std::collections::BTreeSet;
use std::fmt::Write;

use indexmap::IndexMap;

use super::{Paint, WIDTH};
use crate::lines::wrap;
use crate::verdicts::{Level, Verdict};

/// Columns before the text of a verdict: level and name of the check.
const INDENT: usize = 33;

/// Findings of one check and level that are shown.
const MOST_FINDINGS: usize = 6;
/// Arms with a finding, and trials of each, that are named.
const MOST_PLACES: usize = 4;
const MOST_TRIALS: usize = 6;

/// Adds the verdicts. Those of one check and level stand together, under one advice.
pub(super) fn verdicts(out: &mut String, verdicts: &[Verdict], paint: Paint) {
    if verdicts.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", paint.bold("What the result is worth"));
    let trials: BTreeSet<u32> = verdicts.iter().filter_map(|v| v.trial).collect();
    let several = trials.len() > 1;
    for (level, colour) in [(Level::Invalid, "1;31"), (Level::Caution, "33"), (Level::Note, "36")] {
        let mut checks: Vec<&str> = Vec::new();
        for v in verdicts.iter().filter(|v| v.level == level) {
            if !checks.contains(&v.check.as_str()) {
                checks.push(&v.check);
            }
        }
        for check in checks {
            // Findings of one check may have different thresholds: each stands with its own.
            let mut groups: Vec<Vec<&Verdict>> = Vec::new();
            for v in verdicts.iter().filter(|v| v.level == level && v.check == check) {
                let alike = |of: &&mut Vec<&Verdict>| (&of[0].threshold, &of[0].advice) == (&v.threshold, &v.advice);
                match groups.iter_mut().find(alike) {
                    Some(group) => group.push(v),
                    None => groups.push(vec![v]),
                }
            }
            for of in groups {
                group(out, &of, check, &paint.with(colour, &format!("{level:<7}")), several);
            }
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

fn group(out: &mut String, verdicts: &[&Verdict], check: &str, level: &str, several: bool) {
    let Some(first) = verdicts.first() else { return };
    // The same finding at several places is said once.
    let mut saw: Vec<(&str, Vec<&Verdict>)> = Vec::new();
    for v in verdicts {
        match saw.iter_mut().find(|(text, _)| *text == v.saw) {
            Some((_, of)) => of.push(v),
            None => saw.push((&v.saw, vec![v])),
        }
    }
    let mut lines = Vec::new();
    let more = saw.len().saturating_sub(MOST_FINDINGS);
    for (text, of) in saw.into_iter().take(MOST_FINDINGS) {
        let places = places(&of, several);
        let text = if places.is_empty() { text.to_owned() } else { format!("{places}: {text}") };
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

/// Where verdicts are, each phase with its arms, of a run of several trials with their numbers: `load of sqlite in trials 1,
/// 3; redb in trial 2`. Where there is one trial its store stands for it.
fn places(verdicts: &[&Verdict], several: bool) -> String {
    if !several {
        let mut places: Vec<String> = verdicts.iter().map(|v| place(v)).filter(|place| !place.is_empty()).collect();
        places.dedup();
        return places.join(", ");
    }
    let mut by_place: IndexMap<String, Vec<String>> = IndexMap::new();
    for v in verdicts {
        let Some(trial) = v.trial else { continue };
        by_place.entry(place(v)).or_default().push(trial.to_string());
    }
    let told = |(place, trials): (&String, &Vec<String>)| {
        let more = trials.len().saturating_sub(MOST_TRIALS);
        let shown = trials.iter().take(MOST_TRIALS).cloned().collect::<Vec<_>>().join(", ");
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{place} (trial{} {shown}{rest})", if trials.len() == 1 { "" } else { "s" })
    };
    let more = by_place.len().saturating_sub(MOST_PLACES);
    let mut all: Vec<String> = by_place.iter().take(MOST_PLACES).map(told).collect();
    if more > 0 {
        all.push(format!("{more} more places"));
    }
    all.join("; ")
}

fn place(v: &Verdict) -> String {
    match (v.arm.as_ref().or(v.store.as_ref()), &v.phase) {
        (Some(arm), Some(phase)) => format!("{arm} {phase}"),
        (Some(arm), None) => arm.clone(),
        _ => String::new(),
    }
}
