//! The result in ten to twenty lines: the answer, one small table, what the checks say, and where the rest is.

use std::fmt::Write;

use indexmap::IndexMap;

use super::{Layout, opening, trust};
use crate::RunResult;
use crate::answer::answer;
use crate::claims::ClaimVerdict;
use crate::human::{bytes, count, plural};
use crate::lines::{facts as in_lines, paragraph};
use crate::side_by_side::brief_table;

/// The fewest columns of the table, whatever the width.
const FEWEST_COLUMNS: usize = 3;

/// The answer of a run for a terminal. [`summary`](super::summary) says all of it.
pub fn brief(result: &RunResult, layout: Layout) -> String {
    let found = answer(result);
    let mut out = String::new();
    opening(&mut out, result, &found, layout);
    out.push('\n');
    if let Some(of) = brief_table(result) {
        out.push_str(&in_lines("", &constants(result), layout.width));
        let columns = of.table.columns.len();
        let table = of.table.narrowed(2, layout.width, FEWEST_COLUMNS);
        let left_out = columns - table.columns.len();
        out.push_str(&table.print(2));
        let more: Vec<String> = [(of.left_out, "row"), (left_out, "column")]
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| plural(n as u64, what))
            .collect();
        if !more.is_empty() {
            let _ = writeln!(out, "  not shown: {}; see --full", more.join(", "));
        }
        out.push('\n');
    }
    for change in &found.changes {
        out.push_str(&paragraph("", "  ", change, layout.width));
    }
    if !result.claims.is_empty() {
        let of = |verdict: ClaimVerdict| result.claims.iter().filter(|claim| claim.verdict == verdict).count();
        let told = ClaimVerdict::ALL.map(|verdict| (of(verdict), verdict)).into_iter().filter(|(n, _)| *n > 0);
        let told: Vec<String> =
            told.map(|(n, verdict)| format!("{} {}", count(n as u64), verdict.in_short())).collect();
        let none = of(ClaimVerdict::NotTestable) == result.claims.len();
        let why = if none { " (why: --full)" } else { "" };
        let text = format!("Published claims: {}{why}.", told.join(", "));
        out.push_str(&paragraph("", "  ", &text, layout.width));
    }
    out.push_str(&trust(&found, layout));
    out
}

/// What is the same for all configurations: documents, rounds, durability.
fn constants(result: &RunResult) -> Vec<String> {
    let mut facts = Vec::new();
    facts.extend(result.run.parts.as_ref().map(|parts| format!("{} of {} parts", parts.merged.len(), parts.of)));
    if let [one] = result.documents.as_slice()
        && one.existing.is_none()
    {
        facts.push(format!("{} documents of {}", count(one.count), bytes(one.mean_bytes as f64)));
    }
    let skipped: u64 = result.documents.iter().map(|documents| documents.skipped_lines).sum();
    facts.extend((skipped > 0).then(|| format!("{} of the file skipped", plural(skipped, "line"))));
    let rounds = result.plan.trials.iter().map(|trial| trial.round).max().unwrap_or(result.plan.repeats);
    if rounds > 1 {
        let at_most = if result.plan.until.is_some() && result.run.ended.is_none() { "at most " } else { "" };
        facts.push(format!("{at_most}{rounds} rounds, 95 % intervals"));
    }
    facts.extend(durability(result));
    let shared = result.trials.iter().all(|trial| trial.embedded);
    facts.extend((shared && !result.trials.is_empty()).then(|| "store runs within the client".to_owned()));
    facts
}

/// The durability, if each store gives one to all phases that are measured: `durability os`, or `durability os on sqlite,
/// fsync on pg`.
fn durability(result: &RunResult) -> Option<String> {
    let mut stores: IndexMap<&str, Vec<&str>> = IndexMap::new();
    for trial in &result.trials {
        let names = stores.entry(&trial.store).or_default();
        let measured = trial.phases.iter().filter(|phase| !phase.warm_up && !phase.ops.is_empty());
        names.extend(measured.map(|phase| phase.durability.name.as_str()));
        names.dedup();
    }
    stores.retain(|_, names| !names.is_empty());
    if stores.values().any(|names| names.len() > 1) {
        return None;
    }
    let given = |names: &Vec<&str>| names[0].to_owned();
    let first = given(stores.values().next()?);
    if stores.values().all(|names| given(names) == first) {
        return Some(format!("durability {first}"));
    }
    let each: Vec<String> = stores.iter().map(|(store, names)| format!("{} on {store}", given(names))).collect();
    Some(format!("durability {}", each.join(", ")))
}
