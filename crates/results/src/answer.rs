//! Derives the answer of a run from its figures and checks alone: what was found, what each factor changes, and how far
//! to trust it.
//!
//! Outages from injected faults come first. Then comes the first of these that the run has:
//! 1. the highest rate within the study's limits on each store, with its cost, if the study searches for it;
//! 2. the given rates at which each store met the limits, if phases have both;
//! 3. what each factor changes on each store, and how the stores compare at their best values;
//! 4. what one setting changes, if two stores differ in one option;
//! 5. which store is ahead in each phase, and by how much;
//! 6. the figures themselves, if there is only one configuration.
//!
//! Every interval is given by its ends. Configurations that failed follow, and hide no other.

mod consistency;
mod cost;
mod enough;
mod factors;
mod failures;
mod faults;
mod left_out;
mod limits;
mod phases;
mod standings;
mod stores;
mod trust;
mod words;

use serde::{Deserialize, Serialize};

use crate::RunResult;
use crate::configurations::is_whole;
use crate::human::count;
use crate::validity::Severity;

/// What a run found, and how far to trust it. Plain text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// What was found, in one or more sentences.
    pub found: String,
    /// What each factor changes: one sentence for each store and phase.
    pub changes: Vec<String>,
    /// How far the checks support the answer.
    pub trust: String,
    /// The worst severity of the checks.
    pub severity: Severity,
    /// The phase that the answer is about, or the first of several.
    pub phase: Option<String>,
}

/// The answer of a run, which may still be in progress.
pub fn answer(result: &RunResult) -> Answer {
    let (trust, severity) = trust::trust(result);
    let (found, all_told) = found(result);
    let changes = if all_told { Vec::new() } else { enough::changes(result, &phases::told(result)) };
    let named_once = |text: String| words::named_once(&text);
    Answer {
        found: named_once(found),
        changes: changes.into_iter().map(named_once).collect(),
        trust,
        severity,
        phase: phases::first(result),
    }
}

pub(crate) use enough::enough;
pub use failures::in_one_line;
pub use phases::{Width, widths};

/// The phases that the answer covers, the main one first.
pub fn phases_told(result: &RunResult) -> Vec<String> {
    let first = phases::first(result);
    let told = phases::told(result).into_iter().filter(|phase| Some(phase) != first.as_ref());
    first.clone().into_iter().chain(told.collect::<Vec<_>>()).collect()
}

/// The sentences, and whether they say what each factor changes.
fn found(result: &RunResult) -> (String, bool) {
    let whole = result.trials.iter().filter(|trial| is_whole(trial)).count();
    let mut told = faults::broken(result);
    let limited = limits::searched(result).or_else(|| limits::given(result)).filter(|_| whole > 0);
    let all_told = limited.is_none();
    match limited {
        _ if result.trials.is_empty() => return ("Nothing was measured.".to_owned(), true),
        _ if whole == 0 => told.push("No trial completed.".to_owned()),
        Some(limited) => told.push(limited),
        None => {
            let nothing = match result.measured_phases().next() {
                None if result.phases().any(|phase| phase.warm_up) => "Only warm-ups were measured.",
                _ => "No operation was measured.",
            };
            told.push(phases::compared(result).unwrap_or_else(|| nothing.to_owned()));
        }
    }
    if whole > 0 {
        told.extend(cost::told(result, limits::searched(result).is_some()));
    }
    told.extend(failures::failures(result));
    told.extend(phases::uncounted(result));
    told.extend(left_out::left_out(result));
    if whole > 0 {
        told.extend(consistency::seen(result));
        told.extend(phases::noise(result));
        told.extend(unfinished(result, whole));
    }
    (told.join(" "), all_told)
}

/// How much of the plan is missing.
fn unfinished(result: &RunResult, whole: usize) -> Option<String> {
    let planned = result.plan.trials.len();
    if result.run.ended.is_none() && result.trials.len() <= planned {
        let at = count(result.trials.len() as u64);
        let at_most = if result.plan.until.is_some() { "at most " } else { "" };
        let planned = count(planned as u64);
        return Some(format!("The run has not ended: this covers the first {at} of {at_most}{planned} trials."));
    }
    match planned.saturating_sub(whole) {
        0 => None,
        n => Some(format!("{} of {} trials did not complete.", count(n as u64), count(planned as u64))),
    }
}

#[cfg(test)]
mod studies_tests;
#[cfg(test)]
mod tests;
