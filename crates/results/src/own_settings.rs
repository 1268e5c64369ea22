//! How the stores of a run are set up, and how settings differ between configurations.

use indexmap::{IndexMap, IndexSet};
use storebench_study::workload::FactorValues;

use crate::configurations::configurations_of;
use crate::human::{count, first_of};
use crate::{RunResult, SettingsResult, TrialResult, setting_value};

/// The most settings that are named.
pub(crate) const MOST_NAMED: usize = 5;
/// The most characters of a value that are shown.
const VALUE_CHARS: usize = 40;

/// What a store of a run says of its settings.
#[derive(Debug, Clone, Copy)]
pub struct ReportedSettings<'a> {
    /// The store's name in the study, or the configuration's if the store's configurations differ in their settings.
    pub name: &'a str,
    /// The kind of store: the scheme of its URL.
    pub kind: &'a str,
    /// The values of factors for which it says so. `None` if it says the same for all.
    pub values: Option<&'a FactorValues>,
    /// What it says.
    pub settings: &'a SettingsResult,
}

/// What each store of a run says of its settings, in the order of the study. Stores that say nothing are left out.
pub fn reported_settings(result: &RunResult) -> Vec<ReportedSettings<'_>> {
    let mut stores: IndexMap<&str, Vec<ReportedSettings<'_>>> = IndexMap::new();
    for of in configurations_of(&result.plan, &result.trials) {
        if let Some((trial, settings)) = told(&of.trials) {
            let reported =
                ReportedSettings { name: of.name, kind: &trial.scheme, values: Some(&trial.values), settings };
            stores.entry(&trial.store).or_default().push(reported);
        }
    }
    let once = stores.into_iter().flat_map(|(store, all)| match all.first().copied() {
        Some(first) if all.iter().all(|of| of.settings == first.settings) => {
            vec![ReportedSettings { name: store, values: None, ..first }]
        }
        _ => all,
    });
    once.collect()
}

/// The settings that the trials of a configuration have, and the first trial with them.
pub(crate) fn told<'a>(trials: &[&'a TrialResult]) -> Option<(&'a TrialResult, &'a SettingsResult)> {
    trials.iter().copied().find_map(|trial| Some((trial, trial.settings.as_ref()?)))
}

/// The names of the settings that differ: of those that both report, and of those that were changed in one and that the
/// other, which told all of its settings, does not report. Empty if the settings of one are not known.
pub(crate) fn differing<'a>(a: &'a SettingsResult, b: &'a SettingsResult) -> Vec<&'a str> {
    if a.unknown.is_some() || b.unknown.is_some() {
        return Vec::new();
    }
    let names: IndexSet<&String> = a.all.keys().chain(b.all.keys()).collect();
    let differs = |name: &&String| match (a.all.get(*name), b.all.get(*name)) {
        (Some(x), Some(y)) => x.value != y.value,
        (Some(only), None) => only.changed == Some(true) && !b.incomplete,
        (None, Some(only)) => only.changed == Some(true) && !a.incomplete,
        (None, None) => false,
    };
    names.into_iter().filter(differs).map(String::as_str).collect()
}

/// The settings in which two configurations of the same kind of store differ: `work_mem 4MB → 64MB`. At most five, and
/// the number of the others.
pub(crate) fn setting_differences(a: &[&TrialResult], b: &[&TrialResult]) -> Vec<String> {
    let (Some((of_a, x)), Some((of_b, y))) = (told(a), told(b)) else { return Vec::new() };
    if of_a.scheme != of_b.scheme {
        return Vec::new();
    }
    let shown = |of: &SettingsResult, name: &str| {
        of.all.get(name).map_or_else(|| "not set".to_owned(), |setting| setting_value(&setting.value, VALUE_CHARS))
    };
    let texts = differing(x, y).into_iter().map(|name| format!("{name} {} → {}", shown(x, name), shown(y, name)));
    first_of(texts, MOST_NAMED, |more| format!("{} more", count(more)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, settings};

    /// A run of these stores: of each its name, its kind, the value of a factor and its settings.
    fn run(stores: &[(&str, &str, u64, Option<SettingsResult>)]) -> RunResult {
        let mut run = fixture::run_of(&[fixture::load()]);
        let trial = run.trials.remove(0);
        for (store, kind, value, settings) in stores {
            run.trials.push(TrialResult {
                store: (*store).into(),
                configuration: format!("{store} x={value}"),
                scheme: (*kind).into(),
                values: [("x".to_owned(), (*value).into())].into(),
                settings: settings.clone(),
                ..trial.clone()
            });
        }
        run
    }

    #[test]
    fn a_store_is_told_once_unless_its_configurations_differ() {
        let of = |value| Some(settings(None, &[("cache", value, None)]));
        let run = run(&[
            ("a", "sqlite", 1, of("1")),
            ("a", "sqlite", 2, of("2")),
            ("b", "redb", 1, of("1")),
            ("b", "redb", 2, of("1")),
            ("c", "fjall", 1, None),
        ]);
        let told = reported_settings(&run);
        let names: Vec<(&str, bool)> = told.iter().map(|of| (of.name, of.values.is_some())).collect();
        assert_eq!(names, [("a x=1", true), ("a x=2", true), ("b", false)]);
        assert_eq!(told.iter().map(|of| of.kind).collect::<Vec<_>>(), ["sqlite", "sqlite", "redb"]);
    }

    #[test]
    fn settings_of_the_same_kind_of_store_are_compared() {
        let few = settings(None, &[("work_mem", "4MB", Some(false)), ("same", "1", None), ("new", "1", Some(false))]);
        let more = settings(None, &[("work_mem", "64MB", Some(true)), ("same", "1", None), ("given", "x", Some(true))]);
        let run = run(&[
            ("a", "postgres", 1, Some(few)),
            ("b", "postgres", 1, Some(more)),
            ("c", "redis", 1, Some(settings(None, &[("work_mem", "1", None)]))),
            ("d", "postgres", 1, None),
        ]);
        let compared = |a: usize, b: usize| setting_differences(&[&run.trials[a]], &[&run.trials[b]]);
        assert_eq!(compared(0, 1), ["work_mem 4MB → 64MB", "given not set → x"]);
        for (a, b) in [(0, 0), (0, 2), (0, 3), (3, 0)] {
            assert_eq!(compared(a, b), Vec::<String>::new(), "{a} {b}");
        }
    }

    #[test]
    fn what_a_store_may_not_tell_is_no_difference() {
        let all = [("appendonly", "yes", Some(true)), ("io-threads", "4", Some(true)), ("save", "", Some(true))];
        let partly = settings(None, &[("appendonly", "yes", None), ("save", "60 1", None)]);
        let partly = SettingsResult { incomplete: true, ..partly };
        let run = run(&[("a", "redis", 1, Some(settings(None, &all))), ("b", "redis", 1, Some(partly))]);
        let compared = |a: usize, b: usize| setting_differences(&[&run.trials[a]], &[&run.trials[b]]);
        assert_eq!(compared(0, 1), ["save \"\" → 60 1"]);
        assert_eq!(compared(1, 0), ["save 60 1 → \"\""]);
    }

    #[test]
    fn at_most_five_differences_are_named() {
        let of = |value| {
            let all = ["a", "b", "c", "d", "e", "f", "g"].map(|name| (name, value, None));
            Some(settings(None, &all))
        };
        let run = run(&[("a", "redis", 1, of("1")), ("b", "redis", 1, of("2"))]);
        let found = setting_differences(&[&run.trials[0]], &[&run.trials[1]]);
        assert_eq!((found.len(), found[4].as_str(), found[5].as_str()), (6, "e 1 → 2", "2 more"));
        let mut unknown = run.trials[1].clone();
        unknown.settings = Some(SettingsResult { unknown: Some("no".into()), ..SettingsResult::default() });
        assert!(setting_differences(&[&run.trials[0]], &[&unknown]).is_empty());
    }
}
