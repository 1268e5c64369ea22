//! `parts-incomplete`: is a part of the run missing?

use crate::environment::is_loopback;
use crate::human::plural;
use crate::validity::check::{Check, Configurations, Finding, Looks, Severity};
use crate::{RunResult, TrialResult};

pub(super) const CHECK: Check =
    Check::new("parts-incomplete", "a part of the run is missing", &[Looks::Configurations(look)]).for_the_answer();

/// Checks whether every part of a merged run is present and complete.
fn look(of: &Configurations<'_>) -> Vec<Finding> {
    let Some(parts) = &of.result.run.parts else { return Vec::new() };
    let mut wrong: Vec<String> = Vec::new();
    match &parts.missing[..] {
        [] => {}
        [one] => wrong.push(format!("part {one} of {} is missing", parts.of)),
        several => {
            let several: Vec<String> = several.iter().map(u32::to_string).collect();
            wrong.push(format!("parts {} of {} are missing", several.join(", "), parts.of));
        }
    }
    for part in &parts.merged {
        wrong.extend(part.incomplete.as_ref().map(|why| format!("part {} is incomplete: {why}", part.part)));
    }
    wrong.extend(different_stores(of.result));
    let complete = format!("{} merged", plural(parts.merged.len() as u64, "part"));
    let (severity, observed) =
        if wrong.is_empty() { (Severity::Pass, complete) } else { (Severity::Invalid, wrong.join("; ")) };
    vec![Finding::new(
        severity,
        observed,
        "invalid when a part is missing or incomplete",
        "the load was lower than the study says, and the figures omit some operations: run all parts again",
    )]
}

/// Reports a store whose URL refers to a different store on each machine: an embedded or a loopback one.
fn different_stores(result: &RunResult) -> Option<String> {
    let mut machines = result.run.parts.iter().flat_map(|parts| &parts.merged).map(|part| &part.environment.boot);
    let first = machines.next()?;
    if machines.all(|other| other == first) {
        return None;
    }
    let own = |trial: &&TrialResult| trial.embedded || is_loopback(&trial.url);
    let trial = result.trials.iter().find(own)?;
    Some(format!("the parts measured different stores: each machine has its own {}", trial.url))
}

#[cfg(test)]
mod tests {
    use crate::validity::testing::{INVALID, PASS, all, closed, severity};
    use crate::{PartResult, PartsResult};

    #[test]
    fn a_part_that_is_missing_or_incomplete_is_named() {
        assert_eq!(severity(&closed(|_| ()), "parts-incomplete"), None);
        let mut result = closed(|_| ());
        let part = |part| PartResult { part, ..PartResult::default() };
        result.run.parts = Some(PartsResult { of: 3, missing: Vec::new(), merged: (1..=3).map(part).collect() });
        assert_eq!(severity(&result, "parts-incomplete"), PASS);
        let parts = result.run.parts.as_mut().unwrap();
        parts.merged.remove(1);
        parts.missing = vec![2];
        parts.merged[1].incomplete = Some("it ended before its run did".into());
        assert_eq!(severity(&result, "parts-incomplete"), INVALID);
        let observed = &all(&result, "parts-incomplete")[0].observed;
        assert_eq!(observed, "part 2 of 3 is missing; part 3 is incomplete: it ended before its run did");
    }
}
