//! `settings-differ`: are the stores set up alike?

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use crate::RunResult;
use crate::human::{bytes, count, first_of, plural, some_of};
use crate::own_settings::{MOST_NAMED, ReportedSettings, differing, reported_settings};
use crate::validity::check::{Check, Configurations, Finding, Looks, Severity};
use crate::validity::memory::documents_bytes;

pub(super) const CHECK: Check =
    Check::new("settings-differ", "stores are set up differently", &[Looks::Configurations(look)]);

/// The memory that stores may use for documents may differ by this factor.
pub(super) const FACTOR: f64 = 1.25;
/// The most stores that are named.
const MOST_STORES: usize = 4;

/// How the stores are set up, as they report it.
fn look(configurations: &Configurations<'_>) -> Vec<Finding> {
    let all = reported_settings(configurations.result);
    if all.len() < 2 {
        return Vec::new();
    }
    let (stores, unknown): (Vec<_>, Vec<_>) = all.into_iter().partition(|of| of.settings.unknown.is_none());
    let documents = documents(configurations.result);
    let mut found: Vec<Finding> = [memory(&stores, documents), changed(&stores), varied(&stores), untold(&unknown)]
        .into_iter()
        .flatten()
        .collect();
    if found.is_empty() {
        let all_say = stores.iter().all(|of| of.settings.says_what_was_changed());
        let unsaid = if all_say { "" } else { "; not all of them say what was changed" };
        let observed = format!("{}: nothing found{unsaid}", plural(stores.len() as u64, "store"));
        found.push(finding(Severity::Pass, observed, ""));
    }
    found
}

fn finding(severity: Severity, observed: String, advice: &str) -> Finding {
    let threshold = format!(
        "caution when stores of different kinds may use memory that differs by more than a factor of {FACTOR}, and the \
         documents do not fit into the smaller one, or when only one of them was changed from what it is shipped with; note when the settings of one kind of store differ, or are not known"
    );
    Finding::new(severity, observed, threshold, advice)
}

/// Whether two stores are compared: of different kinds, where the factors of both have the same values.
fn compared(a: &ReportedSettings<'_>, b: &ReportedSettings<'_>) -> bool {
    let same = |(path, value): (&String, &Value)| {
        b.values.and_then(|values| values.get(path)).is_none_or(|other| other == value)
    };
    a.kind != b.kind && a.values.into_iter().flatten().all(same)
}

/// The size of the documents of the trial that has the most.
fn documents(result: &RunResult) -> f64 {
    let of_trial = |trial| {
        let of = |of: &crate::CollectionResult| documents_bytes(result, trial, &of.collection);
        result.documents.iter().filter_map(of).sum::<f64>()
    };
    result.trials.iter().map(of_trial).fold(0.0, f64::max)
}

/// Whether one store may keep more documents in memory than another. What holds all of them needs no more.
fn memory(stores: &[ReportedSettings<'_>], documents: f64) -> Option<Finding> {
    let memory = |of: &ReportedSettings<'_>| of.settings.memory_bytes.filter(|n| *n > 0).map(|n| n as f64);
    let times = |a: &ReportedSettings<'_>, b: &ReportedSettings<'_>| {
        let (x, y) = (memory(a)?, memory(b)?);
        let times = x.max(y) / x.min(y);
        (compared(a, b) && times > FACTOR && documents > x.min(y)).then_some(times)
    };
    let most = |a: &ReportedSettings<'_>| stores.iter().filter_map(|b| times(a, b)).reduce(f64::max);
    let apart: Vec<(f64, String)> =
        stores.iter().filter_map(|of| Some((most(of)?, format!("{} {}", of.name, bytes(memory(of)?))))).collect();
    let worst = apart.iter().map(|(times, _)| *times).reduce(f64::max)?;
    let found = named(apart.into_iter().map(|(_, text)| text)).join(", ");
    let advice = "give both the same memory, or say in the study why not";
    Some(finding(Severity::Caution, found, advice).weighing(worst))
}

/// Whether one store was changed from what it is shipped with, while another one says of no setting that it was.
fn changed(stores: &[ReportedSettings<'_>]) -> Option<Finding> {
    let is_changed = |of: &ReportedSettings<'_>| of.settings.changed().next().is_some();
    let unlike = |a: &ReportedSettings<'_>, b: &ReportedSettings<'_>| {
        compared(a, b) && is_changed(a) && b.settings.as_shipped().is_some()
    };
    let text = |of: &ReportedSettings<'_>| {
        if stores.iter().any(|other| unlike(of, other)) {
            let changed = of.settings.changed().count() as u64;
            return Some(format!("{}: {} changed", of.name, plural(changed, "setting")));
        }
        let words = of.settings.as_shipped().filter(|_| stores.iter().any(|other| unlike(other, of)))?;
        Some(format!("{}: {words}", of.name))
    };
    let texts: Vec<String> = stores.iter().filter_map(text).collect();
    let advice = "change both for the work, or none, or say in the study why only one";
    (!texts.is_empty()).then(|| finding(Severity::Caution, named(texts).join("; "), advice))
}

/// The settings in which stores of one kind differ. The study has several of that kind, or varies a factor, so that is
/// on purpose.
fn varied(stores: &[ReportedSettings<'_>]) -> Option<Finding> {
    let mut kinds: IndexMap<&str, Vec<&ReportedSettings<'_>>> = IndexMap::new();
    for of in stores {
        kinds.entry(of.kind).or_default().push(of);
    }
    let text = |(kind, all): (&str, Vec<&ReportedSettings<'_>>)| {
        let (first, others) = all.split_first()?;
        let names: IndexSet<&str> = others.iter().flat_map(|of| differing(first.settings, of.settings)).collect();
        let names = some_of(names.into_iter().map(str::to_owned), MOST_NAMED);
        (!names.is_empty()).then(|| format!("{kind}: {names}"))
    };
    let texts: Vec<String> = kinds.into_iter().filter_map(text).collect();
    let advice = "if the study compares these settings, that is its subject; otherwise set both alike";
    (!texts.is_empty()).then(|| finding(Severity::Note, named(texts).join("; "), advice))
}

/// The stores that did not tell their settings, so that nothing is known about them.
fn untold(stores: &[ReportedSettings<'_>]) -> Option<Finding> {
    let texts = named(stores.iter().map(|of| format!("{}: {}", of.name, of.settings.in_words())));
    let advice = "let its user read the settings, or see for yourself that the stores are set up alike";
    (!texts.is_empty()).then(|| finding(Severity::Note, texts.join("; "), advice))
}

/// The first few of these texts, and how many more there are.
fn named(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    first_of(texts, MOST_STORES, |more| format!("and {} more", count(more)))
}

#[cfg(test)]
mod tests {
    use crate::fixture::settings;
    use crate::validity::testing::{CAUTION, NOTE, PASS, all, closed, two_configurations};
    use crate::{RunResult, SettingsResult};

    const MIB: u64 = 1 << 20;

    fn severity(result: &RunResult) -> Option<crate::validity::Severity> {
        crate::validity::testing::severity(result, "settings-differ")
    }

    fn observed(result: &RunResult) -> Vec<String> {
        all(result, "settings-differ").into_iter().map(|found| found.observed).collect()
    }

    /// Two stores of these kinds.
    fn two(one: (&str, SettingsResult), other: (&str, SettingsResult)) -> RunResult {
        let mut result = two_configurations(|_| ());
        for (trial, (kind, settings)) in result.trials.iter_mut().zip([one, other]) {
            (trial.store, trial.scheme) = (trial.configuration.clone(), kind.into());
            trial.settings = Some(settings);
        }
        result
    }

    fn with_memory(one: u64, other: u64) -> RunResult {
        two(("postgres", settings(Some(one), &[])), ("mongodb", settings(Some(other), &[])))
    }

    #[test]
    fn memory_that_differs() {
        // The documents have 19.5 MiB.
        assert_eq!(severity(&with_memory(8 * MIB, 10 * MIB)), PASS);
        assert_eq!(severity(&with_memory(8 * MIB, 11 * MIB)), CAUTION);
        assert_eq!(severity(&with_memory(20 * MIB, 11 << 30)), PASS, "both hold all of them");
        let result = with_memory(11 << 30, 8 * MIB);
        assert_eq!(observed(&result), ["one 11.0 GiB, other 8.00 MiB"]);
        assert!(all(&result, "settings-differ")[0].weight.is_some_and(|weight| weight > 80.0));
        assert_eq!(severity(&with_memory(0, 11 * MIB)), PASS, "no limit is not known to be less");
        let one = two(("postgres", settings(Some(MIB), &[])), ("mongodb", settings(None, &[("a", "1", None)])));
        assert_eq!(severity(&one), PASS);
    }

    #[test]
    fn one_that_was_changed_and_one_that_was_not() {
        let changed = || settings(None, &[("a", "1", Some(true)), ("b", "2", Some(true)), ("c", "3", Some(false))]);
        let shipped = || settings(None, &[("x", "1", Some(false)), ("y", "2", Some(false))]);
        let result = two(("postgres", changed()), ("redis", shipped()));
        assert_eq!(severity(&result), CAUTION);
        assert_eq!(observed(&result), ["one: 2 settings changed; other: as shipped"]);
        assert_eq!(severity(&two(("postgres", changed()), ("redis", changed()))), PASS);
        assert_eq!(severity(&two(("postgres", shipped()), ("redis", shipped()))), PASS);
        // A Redis cannot say it of each.
        let some = || settings(None, &[("x", "1", Some(false)), ("y", "2", None)]);
        let result = two(("postgres", changed()), ("redis", some()));
        assert_eq!(severity(&result), CAUTION);
        assert_eq!(observed(&result), ["one: 2 settings changed; other: nothing changed, as far as it says"]);
        let silent = || settings(None, &[("x", "1", None), ("y", "2", None)]);
        let result = two(("postgres", changed()), ("mongodb", silent()));
        assert_eq!(observed(&result), ["2 stores: nothing found; not all of them say what was changed"]);
        assert_eq!(severity(&result), PASS);
        let result = two(("postgres", shipped()), ("redis", shipped()));
        assert_eq!(observed(&result), ["2 stores: nothing found"]);
    }

    #[test]
    fn stores_of_one_kind_differ_on_purpose() {
        let of = |memory: u64, value: &'static str| {
            let all = ["a", "b", "c", "d", "e", "f"].map(|name| (name, value, Some(value != "1")));
            ("sqlite", settings(Some(memory), &all))
        };
        let result = two(of(MIB, "1"), of(9 * MIB, "2"));
        assert_eq!(severity(&result), NOTE);
        assert_eq!(observed(&result), ["sqlite: a, b, c, d, e and 1 more"]);
        assert_eq!(severity(&two(of(MIB, "1"), of(MIB, "1"))), PASS);
    }

    /// Of two stores and two values of a factor, those at the same value are compared.
    #[test]
    fn a_factor_explains_what_it_varies() {
        let with = |other_at_2: u64| {
            let mut result = with_memory(MIB, MIB);
            result.trials.extend(result.trials.clone());
            for (at, trial) in result.trials.iter_mut().enumerate() {
                let value = at as u64 / 2 + 1;
                trial.configuration = format!("{} x={value}", trial.store);
                trial.values = [("x".to_owned(), value.into())].into();
                let memory = if value == 1 {
                    MIB
                } else if at == 2 {
                    9 * MIB
                } else {
                    other_at_2
                };
                trial.settings = Some(settings(Some(memory), &[("m", if value == 1 { "1" } else { "2" }, None)]));
            }
            result
        };
        assert_eq!(severity(&with(9 * MIB)), NOTE);
        let found = observed(&with(2 * MIB));
        assert_eq!(found[0], "one x=2 9.00 MiB, other x=2 2.00 MiB");
    }

    #[test]
    fn where_it_has_no_meaning() {
        assert_eq!(severity(&closed(|_| ())), None);
        assert_eq!(severity(&two_configurations(|_| ())), None);
        let mut one = with_memory(MIB, 9 * MIB);
        one.trials[1].settings = None;
        assert_eq!(severity(&one), None);
    }

    #[test]
    fn a_store_that_does_not_tell_is_named() {
        let unknown = || SettingsResult { unknown: Some("no answer".into()), ..SettingsResult::default() };
        let result = two(("postgres", settings(Some(MIB), &[])), ("mongodb", unknown()));
        assert_eq!(severity(&result), NOTE);
        assert_eq!(observed(&result), ["other: settings unknown: no answer"]);
        let both = two(("couchdb", unknown()), ("mongodb", unknown()));
        assert_eq!(severity(&both), NOTE);
    }
}
