//! Groups checks for display, worst first. Results of one check stand together; those with the same severity, threshold
//! and advice are one group, in which each finding appears once, with all its places.

use std::collections::BTreeSet;

use indexmap::{IndexMap, IndexSet};

use super::model::{CheckResult, Severity};

/// The most findings that are shown for one check and severity.
const MOST_FINDINGS: usize = 6;
/// The most configurations with a finding, and the most trials of each, that are named.
const MOST_PLACES: usize = 4;
const MOST_TRIALS: usize = 6;

/// What one check found, at one severity and with one advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouped {
    /// The severity.
    pub severity: Severity,
    /// Name of the check.
    pub check: String,
    /// The first few findings, with their places.
    pub findings: Vec<FoundAt>,
    /// The number of further findings, which are in the result.
    pub more: usize,
    /// The thresholds of its severities.
    pub threshold: String,
    /// What to do. Empty if there is nothing to do.
    pub advice: String,
}

/// One finding with the places where it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundAt {
    /// `redb load (trials 1, 3)`; empty for the run as a whole.
    pub places: String,
    /// What was observed.
    pub observed: String,
}

/// All results except passes, worst first, and the names of the checks that passed everywhere.
pub fn grouped(checks: &[CheckResult]) -> (Vec<Grouped>, Vec<String>) {
    let trials: BTreeSet<u32> = checks.iter().filter_map(|v| v.trial).collect();
    let several = trials.len() > 1;
    let mut out = Vec::new();
    for severity in [Severity::Invalid, Severity::Caution, Severity::Note] {
        // By check in the order of the checks; findings of one check may have different thresholds.
        let mut groups: IndexMap<&str, Vec<Vec<&CheckResult>>> = IndexMap::new();
        for v in checks.iter().filter(|v| v.severity == severity) {
            let of = groups.entry(&v.check).or_default();
            let alike = |of: &&mut Vec<&CheckResult>| (&of[0].threshold, &of[0].advice) == (&v.threshold, &v.advice);
            match of.iter_mut().find(alike) {
                Some(group) => group.push(v),
                None => of.push(vec![v]),
            }
        }
        out.extend(groups.into_values().flatten().filter_map(|of| group(&of, several)));
    }
    // What one check found stands together, at the place of its worst severity.
    let order: IndexSet<String> = out.iter().map(|group| group.check.clone()).collect();
    out.sort_by_key(|group| order.get_index_of(&group.check));
    let failed: BTreeSet<&String> = checks.iter().filter(|v| v.severity > Severity::Pass).map(|v| &v.check).collect();
    let passed: IndexSet<&String> = checks.iter().map(|v| &v.check).filter(|check| !failed.contains(check)).collect();
    (out, passed.into_iter().cloned().collect())
}

fn group(checks: &[&CheckResult], several: bool) -> Option<Grouped> {
    let first = checks.first()?;
    // The same finding at several places is shown once.
    let mut observed: IndexMap<&str, Vec<&CheckResult>> = IndexMap::new();
    for v in checks {
        observed.entry(&v.observed).or_default().push(v);
    }
    let more = observed.len().saturating_sub(MOST_FINDINGS);
    let findings = observed
        .into_iter()
        .take(MOST_FINDINGS)
        .map(|(observed, of)| FoundAt { places: places(&of, several), observed: observed.to_owned() })
        .collect();
    Some(Grouped {
        severity: first.severity,
        check: first.check.clone(),
        findings,
        more,
        threshold: first.threshold.clone(),
        advice: first.advice.clone(),
    })
}

/// The places of checks, with the numbers of trials if the run has several: `sqlite load (trials 1, 3); redb load
/// (trial 2)`.
fn places(checks: &[&CheckResult], several: bool) -> String {
    if !several {
        let mut places: Vec<String> = checks.iter().map(|v| place(v)).filter(|place| !place.is_empty()).collect();
        places.dedup();
        return places.join(", ");
    }
    let mut by_place: IndexMap<String, Vec<String>> = IndexMap::new();
    for v in checks {
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

fn place(v: &CheckResult) -> String {
    match (v.configuration.as_ref().or(v.store.as_ref()), &v.phase) {
        (Some(configuration), Some(phase)) => format!("{configuration} {phase}"),
        (Some(configuration), None) => configuration.clone(),
        _ => String::new(),
    }
}
