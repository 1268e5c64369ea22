//! Compares configurations: differences that the study does not vary, and those that it does.

use std::collections::BTreeSet;

use super::check::{Configurations, Finding, Severity, some};
use crate::comparability::{Difference, DifferenceKind, differences};
use crate::configurations::Trials;

/// One question about configurations: which differences, and which settings of a study explain them.
pub(super) struct Question<'a> {
    /// The kinds of difference that it covers.
    pub(super) kinds: &'static [DifferenceKind],
    /// Settings, as parts of a factor's path, that cause such a difference.
    pub(super) varied_by: &'static [&'static str],
    /// What is the same if there is no difference: `durability`.
    pub(super) what: &'static str,
    /// The thresholds of its severities.
    pub(super) threshold: &'a str,
    /// What to do about a difference that the study does not vary.
    pub(super) advice: &'static str,
}

/// A caution for differences that the study does not vary, a note for those that it varies, *pass* if there are none.
/// Empty if there is only one configuration.
pub(super) fn unlike(configurations: &Configurations<'_>, question: &Question<'_>) -> Vec<Finding> {
    if configurations.configurations.len() < 2 {
        return Vec::new();
    }
    let (mut asked, mut unasked) = (Vec::new(), Vec::new());
    let mut paths = BTreeSet::new();
    for (a, b) in pairs(&configurations.configurations) {
        let found = differences(&a.trials, &b.trials).into_iter().filter(|d| question.kinds.contains(&d.kind));
        let (varied, other): (Vec<_>, Vec<_>) = found
            .map(|d| (asked_for(configurations, a, b, &d, question.varied_by), d))
            .partition(|(path, _)| path.is_some());
        asked.extend(by_text(a, b, varied.iter().map(|(_, d)| d)));
        unasked.extend(by_text(a, b, other.iter().map(|(_, d)| d)));
        paths.extend(varied.into_iter().filter_map(|(path, _)| path));
    }
    let finding = |severity, observed, advice: String| Finding::new(severity, observed, question.threshold, advice);
    let mut findings = Vec::new();
    if !unasked.is_empty() {
        findings.push(finding(Severity::Caution, some(&unasked), question.advice.to_owned()));
    }
    if !asked.is_empty() {
        let paths: Vec<String> = paths.into_iter().collect();
        let advice = format!("the study varies this on purpose ({}): state it next to the figures", some(&paths));
        findings.push(finding(Severity::Note, some(&asked), advice));
    }
    if findings.is_empty() {
        let observed = format!("{} configurations: same {}", configurations.configurations.len(), question.what);
        findings.push(finding(Severity::Pass, observed, String::new()));
    }
    findings
}

/// Pairs each configuration with the first one at the same values, where nothing is varied, and with the first one of
/// its store (or of all), where the values explain every difference.
fn pairs<'a, 'b>(configurations: &'b [Trials<'a>]) -> Vec<(&'b Trials<'a>, &'b Trials<'a>)> {
    let values = |configuration: &Trials<'a>| configuration.trials.first().map(|trial| &trial.values);
    let store = |configuration: &Trials<'a>| configuration.trials.first().map(|trial| &trial.store);
    let mut pairs = Vec::new();
    for (at, configuration) in configurations.iter().enumerate().skip(1) {
        let earlier = &configurations[..at];
        let same = earlier.iter().position(|other| values(other) == values(configuration));
        let own = earlier.iter().position(|other| store(other) == store(configuration));
        let beside: BTreeSet<usize> = [same, own].into_iter().flatten().collect();
        let beside = if beside.is_empty() { BTreeSet::from([0]) } else { beside };
        pairs.extend(beside.into_iter().map(|other| (&earlier[other], configuration)));
    }
    pairs
}

/// The factor, or the search, that causes a difference between two configurations.
fn asked_for(
    configurations: &Configurations<'_>,
    a: &Trials<'_>,
    b: &Trials<'_>,
    found: &Difference,
    by: &[&str],
) -> Option<String> {
    // A search ends at a different rate on each store: that is its result.
    let searched = configurations.result.run.study["search"]["phase"].as_str();
    if found.kind == DifferenceKind::Work && searched.is_some() && searched == found.phase.as_deref() {
        return Some("search".to_owned());
    }
    let values =
        |configuration: &Trials<'_>| configuration.trials.first().map(|trial| trial.values.clone()).unwrap_or_default();
    let (x, y) = (values(a), values(b));
    x.keys().chain(y.keys()).find(|path| x.get(*path) != y.get(*path) && makes(path, found, by)).cloned()
}

/// Whether a setting can cause a difference: it is one of `by`, and belongs to the same phase if it belongs to one.
fn makes(path: &str, found: &Difference, by: &[&str]) -> bool {
    if let (Some(rest), Some(phase)) = (path.strip_prefix("phases."), &found.phase) {
        // A phase by its number, or every phase.
        let number = rest.split('.').next().is_some_and(|first| first == "*" || first.parse::<u32>().is_ok());
        let own = rest.strip_prefix(phase.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        if !number && !own {
            return false;
        }
        // The whole phase.
        if rest == phase {
            return true;
        }
    }
    path.split('.').any(|part| by.contains(&part))
}

/// One line for each text, with the phases it was seen in.
fn by_text<'d>(a: &Trials<'_>, b: &Trials<'_>, found: impl Iterator<Item = &'d Difference>) -> Vec<String> {
    let mut lines: Vec<(&str, Vec<&str>)> = Vec::new();
    for difference in found {
        let phase = difference.phase.as_deref();
        match lines.iter_mut().find(|(text, _)| *text == difference.text) {
            Some((_, phases)) => phases.extend(phase),
            None => lines.push((&difference.text, phase.into_iter().collect())),
        }
    }
    let line = |(text, phases): (&str, Vec<&str>)| match phases[..] {
        [] => format!("{} and {}: {text}", a.name, b.name),
        _ => format!("{} and {}, {}: {text}", a.name, b.name, phases.join(", ")),
    };
    lines.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_a_phase_explains_that_phase_only() {
        let difference = |phase: Option<&str>| Difference {
            kind: DifferenceKind::Work,
            phase: phase.map(str::to_owned),
            text: "text".into(),
        };
        let (steady, whole) = (difference(Some("steady")), difference(None));
        for (path, explains) in [
            ("phases.steady.rate", true),
            ("phases.steady", true),
            ("phases.0.rate", true),
            ("phases.*.rate", true),
            ("phases.*.workers", false),
            ("phases.steady-2.rate", false),
            ("phases.load.rate", false),
            ("phases.steady.workers", false),
            ("scale", true),
            ("rates", false),
        ] {
            assert_eq!(makes(path, &steady, &["rate", "scale"]), explains, "{path}");
        }
        assert!(makes("phases.load.rate", &whole, &["rate"]));
    }
}
