//! Derives the answer of a run from its figures and checks alone: what was found, what each factor changes, and how far
//! to trust it.
//!
//! Outages from injected faults come first. Then comes the first of these that the run has:
//! 1. the highest rate within the study's limits, if the study searches for it;
//! 2. the given rates at which the limits were met, if phases have both;
//! 3. which store is ahead in each phase, each at its best values, and by how much;
//! 4. which values are best, if there is only one store;
//! 5. the figures themselves, if there is only one configuration.

mod consistency;
mod factors;
mod faults;
mod limits;
mod phases;
mod worth;

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
    pub worth: String,
    /// The worst severity of the checks.
    pub severity: Severity,
    /// The phase that the answer is about, or the first of several.
    pub phase: Option<String>,
}

/// The answer of a run, which may still be in progress.
pub fn answer(result: &RunResult) -> Answer {
    let (worth, severity) = worth::worth(result);
    let changes = factors::changes(result, &phases::told(result));
    Answer { found: found(result), changes, worth, severity, phase: phases::first(result) }
}

pub use phases::{Width, widths};

/// The phases that the answer covers, the main one first.
pub(crate) fn phases_told(result: &RunResult) -> Vec<String> {
    let first = phases::first(result);
    let told = phases::told(result).into_iter().filter(|phase| Some(phase) != first.as_ref());
    first.clone().into_iter().chain(told.collect::<Vec<_>>()).collect()
}

fn found(result: &RunResult) -> String {
    let whole = result.trials.iter().filter(|trial| is_whole(trial)).count();
    if whole == 0 {
        let why = result.trials.iter().find_map(|t| Some((t, t.failure.as_ref()?)));
        return match why {
            Some((trial, failure)) => {
                format!("No trial completed: {} failed in {}: {}.", trial.store, failure.during, failure.message)
            }
            None if result.trials.is_empty() => "Nothing was measured.".to_owned(),
            None => "No trial completed.".to_owned(),
        };
    }
    let broken = faults::broken(result);
    let text = limits::searched(result).or_else(|| limits::given(result)).or_else(|| phases::ahead(result));
    let text = text.unwrap_or_else(|| "Only warm-ups were measured.".to_owned());
    let noise = phases::noise(result);
    let seen = consistency::seen(result);
    let text = broken.into_iter().chain([text]).chain(seen).chain(noise).collect::<Vec<_>>().join(" ");
    let planned = result.plan.trials.len();
    if result.run.ended.is_none() && result.trials.len() <= planned {
        let at = count(result.trials.len() as u64);
        let at_most = if result.plan.until.is_some() { "at most " } else { "" };
        return format!(
            "{text} The run has not ended: this covers the first {at} of {at_most}{} trials.",
            count(planned as u64)
        );
    }
    match planned.saturating_sub(whole) {
        0 => text,
        n => {
            format!("{text} {} of {} trials did not complete.", count(n as u64), count(result.plan.trials.len() as u64))
        }
    }
}

/// `a`, `a and b`, `a, b and c`.
fn listed<T: AsRef<str>>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<T> = all.into_iter().collect();
    let all: Vec<&str> = all.iter().map(T::as_ref).collect();
    match &all[..] {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

#[cfg(test)]
mod tests;
