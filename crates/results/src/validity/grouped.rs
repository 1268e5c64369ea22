//! Groups checks for display, worst first: each check says once what is wrong, in how many trials, where it is worst, and
//! what to do.

use std::collections::BTreeSet;

use indexmap::{IndexMap, IndexSet};

use super::in_short;
use super::model::{CheckResult, Severity};
use crate::RunResult;
use crate::human::{count, plural};

/// The most findings of a check that are listed besides the worst.
const MOST_FINDINGS: usize = 6;
/// The most trials that are named for one finding.
const MOST_TRIALS: usize = 6;

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouped {
    /// The worst severity.
    pub severity: Severity,
    /// Name of the check.
    pub check: String,
    /// What is wrong, in a few plain words. Empty for a note, whose finding says it.
    pub short: &'static str,
    /// In how many trials it was found: `in 3 of 12 trials`. Empty if it is about the run, or if there is one trial.
    pub trials: String,
    /// The worst finding.
    pub worst: FoundAt,
    /// The first few other findings.
    pub others: Vec<FoundAt>,
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
    /// Its severity.
    pub severity: Severity,
    /// `redb load (trials 1, 3)`; empty for the run as a whole.
    pub places: String,
    /// What was observed.
    pub observed: String,
}

/// All results except passes, worst first, and the names of the checks that passed everywhere. What a check found in a
/// load comes after what it found elsewhere, if both are as severe: a load is not what was asked about, unless a factor
/// varies it.
pub fn grouped(result: &RunResult) -> (Vec<Grouped>, Vec<String>) {
    let checks = &result.checks[..];
    let loads = result.phases().filter(|phase| phase.loads && !result.varies(&phase.name));
    let loads: BTreeSet<&str> = loads.map(|phase| &phase.name[..]).collect();
    let ran: BTreeSet<u32> = checks.iter().filter_map(|v| v.trial).collect();
    let names: IndexSet<&String> = checks.iter().map(|v| &v.check).collect();
    let mut out: Vec<Grouped> = names.iter().filter_map(|name| group(checks, name, &loads, ran.len())).collect();
    out.sort_by_key(|group| std::cmp::Reverse(group.severity));
    let failed = |name: &&&String| checks.iter().any(|v| v.check == ***name && v.severity > Severity::Pass);
    let passed = names.iter().filter(|name| !failed(name)).map(|name| (*name).clone()).collect();
    (out, passed)
}

fn group(checks: &[CheckResult], name: &str, loads: &BTreeSet<&str>, ran: usize) -> Option<Grouped> {
    let found: Vec<&CheckResult> = checks.iter().filter(|v| v.check == name && v.severity > Severity::Pass).collect();
    let measures = |v: &CheckResult| !v.phase.as_deref().is_some_and(|phase| loads.contains(phase));
    let by_weight = |a: &CheckResult, b: &CheckResult| {
        let weight = |v: &CheckResult| v.weight.unwrap_or(f64::MIN);
        a.severity.cmp(&b.severity).then(measures(a).cmp(&measures(b))).then(weight(a).total_cmp(&weight(b)))
    };
    // Of equals, the first.
    let worst = *found.iter().reduce(|worst, v| if by_weight(v, worst).is_gt() { v } else { worst })?;
    let trials: BTreeSet<u32> = found.iter().filter_map(|v| v.trial).collect();
    let in_trials = match trials.len() {
        0 => String::new(),
        _ if ran < 2 => String::new(),
        n if n == ran => format!("in all {} trials", count(ran as u64)),
        n => format!("in {} of {} trials", count(n as u64), count(ran as u64)),
    };
    // The same finding at several places is one.
    let mut same: IndexMap<(&str, Severity), Vec<&CheckResult>> = IndexMap::new();
    for v in found {
        same.entry((&v.observed, v.severity)).or_default().push(v);
    }
    let at_worst = same.shift_remove(&(worst.observed.as_str(), worst.severity)).unwrap_or_default();
    let mut others: Vec<Vec<&CheckResult>> = same.into_values().collect();
    others.sort_by(|a, b| by_weight(b[0], a[0]));
    let at = |all: &[&CheckResult]| FoundAt {
        severity: all[0].severity,
        places: places(all, ran > 1),
        observed: all[0].observed.clone(),
    };
    Some(Grouped {
        severity: worst.severity,
        check: worst.check.clone(),
        short: in_short(name).filter(|_| worst.severity > Severity::Note).unwrap_or_default(),
        trials: in_trials,
        worst: at(&at_worst),
        more: others.len().saturating_sub(MOST_FINDINGS),
        others: others.iter().take(MOST_FINDINGS).map(|of| at(of)).collect(),
        threshold: worst.threshold.clone(),
        advice: worst.advice.clone(),
    })
}

/// The place of these, with the numbers of its trials if there are several: `sqlite load (trials 1, 3)`; the first of
/// several places: `sqlite load and 3 other places`.
fn places(all: &[&CheckResult], with_trials: bool) -> String {
    let mut places: IndexMap<String, Vec<String>> = IndexMap::new();
    for v in all {
        places.entry(place(v)).or_default().extend(v.trial.map(|trial| trial.to_string()));
    }
    let Some((first, trials)) = places.first() else { return String::new() };
    match (places.len(), trials.len()) {
        (1, 1) if with_trials => format!("{first} (trial {})", trials[0]),
        (1, 2..) if with_trials => {
            let rest = match trials.len().saturating_sub(MOST_TRIALS) {
                0 => String::new(),
                more => format!(" and {} more", count(more as u64)),
            };
            format!("{first} (trials {}{rest})", trials[..trials.len().min(MOST_TRIALS)].join(", "))
        }
        (1, _) => first.clone(),
        (n, _) => format!("{first} and {}", plural(n as u64 - 1, "other place")),
    }
}

fn place(v: &CheckResult) -> String {
    match (v.configuration.as_ref().or(v.store.as_ref()), &v.phase) {
        (Some(configuration), Some(phase)) => format!("{configuration} {phase}"),
        (Some(configuration), None) => configuration.clone(),
        _ => String::new(),
    }
}

impl Grouped {
    /// What is wrong, in how many trials, and the worst finding: `operations failed, in 3 of 12 trials; the worst of 4
    /// findings, …`.
    pub fn in_words(&self) -> String {
        let what =
            [self.short, &self.trials].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        if what.is_empty() { self.worst_in_words() } else { format!("{what}; {}", self.worst_in_words()) }
    }

    /// The worst finding with its place, and how many others there are.
    pub fn worst_in_words(&self) -> String {
        let FoundAt { places, observed, .. } = &self.worst;
        let found = if places.is_empty() { observed.clone() } else { format!("{places}: {observed}") };
        match self.others.len() + self.more {
            0 => found,
            others => {
                let between = if places.is_empty() { ": " } else { ", " };
                format!("the worst of {}{between}{found}", plural(others as u64 + 1, "finding"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PhaseResult, TrialResult};

    fn found(trial: u32, phase: &str, severity: Severity, weight: f64) -> CheckResult {
        CheckResult {
            check: "errors".into(),
            severity,
            observed: format!("{weight} % failed"),
            threshold: "caution from one failure".into(),
            advice: "find the cause".into(),
            weight: Some(weight),
            trial: Some(trial),
            store: Some("sqlite".into()),
            configuration: Some("sqlite workers=1".into()),
            phase: Some(phase.into()),
        }
    }

    fn of(checks: &[CheckResult]) -> (Vec<Grouped>, Vec<String>) {
        let load = PhaseResult { name: "load".into(), loads: true, ..PhaseResult::default() };
        let trial = TrialResult { phases: vec![load], ..TrialResult::default() };
        grouped(&RunResult { checks: checks.to_vec(), trials: vec![trial], ..RunResult::default() })
    }

    #[test]
    fn a_check_says_once_what_is_wrong_in_how_many_trials_and_where_it_is_worst() {
        let mut all = vec![
            found(1, "mixed", Severity::Note, 90.0),
            found(2, "mixed", Severity::Caution, 3.0),
            found(3, "mixed", Severity::Caution, 7.0),
            found(3, "load", Severity::Caution, 1.0),
            found(4, "mixed", Severity::Pass, 0.0),
        ];
        let (groups, passed) = of(&all);
        let [group] = &groups[..] else { panic!("{groups:?}") };
        assert_eq!(group.severity, Severity::Caution);
        assert_eq!(
            group.in_words(),
            "operations failed, in 3 of 4 trials; the worst of 4 findings, sqlite workers=1 mixed (trial 3): 7 % failed"
        );
        let others: Vec<&str> = group.others.iter().map(|other| other.observed.as_str()).collect();
        assert_eq!((others, passed), (vec!["3 % failed", "1 % failed", "90 % failed"], vec![]));
        // A load is worse only if it is more severe.
        all.push(found(4, "load", Severity::Caution, 50.0));
        assert_eq!(of(&all).0[0].worst.observed, "7 % failed");
        all.push(found(4, "load", Severity::Invalid, 0.0));
        assert_eq!(of(&all).0[0].worst.observed, "0 % failed");
        // The same at one place is one finding.
        all.retain(|v| v.severity != Severity::Pass && v.phase.as_deref() == Some("mixed"));
        all.iter_mut().for_each(|v| (v.severity, v.observed, v.weight) = (Severity::Note, "slow".into(), None));
        let (groups, _) = of(&all);
        assert_eq!(groups[0].in_words(), "in all 3 trials; sqlite workers=1 mixed (trials 1, 2, 3): slow");
        all[2].phase = Some("load".into());
        let (groups, _) = of(&all);
        assert_eq!(groups[0].worst_in_words(), "sqlite workers=1 mixed and 1 other place: slow");
    }

    #[test]
    fn the_worst_check_comes_first_and_what_passed_is_named() {
        let mut all = vec![found(1, "mixed", Severity::Note, 1.0), found(1, "mixed", Severity::Invalid, 1.0)];
        all[0].check = "too-short".into();
        let mut passed = found(1, "mixed", Severity::Pass, 0.0);
        passed.check = "misses".into();
        all.push(passed);
        let (groups, passed) = of(&all);
        let names: Vec<&str> = groups.iter().map(|group| group.check.as_str()).collect();
        assert_eq!((names, passed), (vec!["errors", "too-short"], vec!["misses".to_owned()]));
        // One trial needs no number.
        assert!(
            groups[0].in_words().starts_with("operations failed; sqlite workers=1 mixed: "),
            "{}",
            groups[0].in_words()
        );
        assert_eq!(groups[0].worst.places, "sqlite workers=1 mixed");
    }
}
