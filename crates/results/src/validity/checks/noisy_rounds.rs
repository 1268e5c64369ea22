//! `noisy-rounds`: do the trials of a configuration agree?

use indexmap::IndexMap;

use crate::OpResult;
use crate::configurations::Trials;
use crate::figures::in_documents;
use crate::human::{duration, percent, rate};
use crate::stats::{CONFIDENCE, Observed, mean_of_runs, mean_of_trials, outlying};
use crate::times;
use crate::validity::check::{Check, Configurations, Finding, Looks, Severity, some, worst_of};

pub(super) const CHECK: Check = Check::new("noisy-rounds", "rounds differ widely", &[Looks::Configurations(look)]);

/// The fewest trials of a configuration whose spread can be judged.
pub(super) const LEAST_TRIALS: usize = 3;
/// Half width of the interval of independent trials, relative to the figure: how far trials lie apart. Above this, differences that matter to people are hidden.
pub(super) const WIDE: f64 = 0.05;
/// Above this, the trials did not measure the same thing.
pub(super) const WILD: f64 = 0.25;
/// Above this, a half width says little: the lowest and the highest trial are named instead.
const EVEN: f64 = 1.0;
/// As `WIDE` and `WILD`, for the p99 of an open loop, which rests on few values.
pub(super) const WIDE_TAIL: f64 = 0.50;
pub(super) const WILD_TAIL: f64 = 1.0;

/// How far the trials of each configuration lie apart.
fn look(configurations: &Configurations<'_>) -> Vec<Finding> {
    let (mut wide, mut wild, mut odd) = (Vec::new(), Vec::new(), Vec::new());
    let mut widest: Option<(f64, String)> = None;
    for configuration in &configurations.configurations {
        for (phase, judged) in judged(configuration) {
            let values: Vec<f64> = judged.values.iter().map(|(_, value)| *value).collect();
            let place = format!("{} {phase}", configuration.name);
            let idle: Vec<String> =
                judged.values.iter().filter(|(_, value)| *value <= 0.0).map(|(trial, _)| trial.to_string()).collect();
            if !idle.is_empty() && idle.len() < values.len() {
                let idle = format!("{place}: nothing succeeded in trial {} of {}", idle.join(", "), values.len());
                wild.push((f64::MAX, idle));
            }
            let trials: Vec<Observed> =
                judged.values.iter().map(|(trial, value)| Observed::exactly(*trial, *value)).collect();
            let Some(figure) =
                mean_of_trials(&trials).map(|mean| mean.estimate(1)).filter(|_| values.len() >= LEAST_TRIALS)
            else {
                continue;
            };
            // The spread is judged, not the certainty of the mean, which also depends on how far trials depend on each
            // other.
            let apart = mean_of_runs(&trials).map(|mean| mean.estimate(1));
            let Some(half) = apart.and_then(|apart| apart.relative_half_width()).filter(|half| half.is_finite()) else {
                continue;
            };
            for (trial, value) in outlying(&values).into_iter().filter_map(|(at, _)| judged.values.get(at)) {
                odd.push(format!(
                    "{place}: {} in trial {trial}; the mean is {}",
                    (judged.text)(*value),
                    (judged.text)(figure.value)
                ));
            }
            let shown = figure.relative_half_width().map_or_else(String::new, percent);
            let observed = if half > EVEN {
                let by_value = |a: &&(u32, f64), b: &&(u32, f64)| a.1.total_cmp(&b.1);
                let ends = [judged.values.iter().min_by(by_value), judged.values.iter().max_by(by_value)];
                let told = |(trial, value): &(u32, f64)| format!("{} in trial {trial}", (judged.text)(*value));
                format!("{place}: {}", ends.into_iter().flatten().map(told).collect::<Vec<_>>().join(", "))
            } else {
                format!(
                    "{place}: {} ± {shown} over {} trials (± {} for independent ones)",
                    (judged.text)(figure.value),
                    values.len(),
                    percent(half)
                )
            };
            match half {
                _ if half > judged.wild => wild.push((half, observed.clone())),
                _ if half > judged.wide => wide.push((half, observed.clone())),
                _ => {}
            }
            if widest.as_ref().is_none_or(|(other, _)| half > *other) {
                widest = Some((half, observed));
            }
        }
    }
    let threshold = format!(
        "caution above ± {} for independent trials at {} confidence ({} for the p99 of an open loop), note for an outlying trial",
        percent(WIDE),
        percent(CONFIDENCE),
        percent(WIDE_TAIL)
    );
    let mut findings = Vec::new();
    let mut add = |severity, observed: Option<String>, advice: &str| {
        findings.extend(observed.map(|observed| Finding::new(severity, observed, threshold.clone(), advice)));
    };
    let advice = if wild.is_empty() {
        "a difference of that size from another run cannot be seen (configurations of one run are compared within rounds, \
         which may show smaller ones): raise `repeats`, lengthen the phase, and stop other programs"
    } else {
        "the trials did not measure the same thing: find out what changed between them (other load, a throttled disk, data \
         that grew) before you use any figure"
    };
    add(Severity::Caution, worst_of([wild, wide].concat()), advice);
    add(
        Severity::Note,
        (!odd.is_empty()).then(|| some(&odd)),
        "every figure includes it: find out what happened in it before you decide whether it is noise or the store",
    );
    if let (true, Some((_, observed))) = (findings.is_empty(), widest) {
        findings.push(Finding::new(Severity::Pass, format!("at most {observed}"), threshold, ""));
    }
    findings
}

/// The figure of a phase that is judged. In an open loop, whose rate is given, it is the p99 of the response time; for
/// a load or copy, documents per second; otherwise, operations per second.
pub(super) struct Judged {
    /// The values, with the numbers of their trials.
    pub(super) values: Vec<(u32, f64)>,
    /// What it is, in words.
    pub(super) what: &'static str,
    text: fn(f64) -> String,
    pub(super) wide: f64,
    wild: f64,
}

/// The judged figure of each phase by its name, without warm-ups. Failed trials and partial phases are left out, as in
/// every figure.
pub(super) fn judged<'a>(configuration: &Trials<'a>) -> IndexMap<&'a str, Judged> {
    let mut all: IndexMap<&str, Judged> = IndexMap::new();
    for trial in configuration.trials.iter().filter(|trial| trial.failure.is_none()) {
        for phase in trial.phases.iter().filter(|p| !p.warm_up && p.partial.is_none()) {
            let sum = |pick: fn(&OpResult) -> f64| phase.ops.values().map(pick).sum::<f64>();
            let tail =
                phase.rate.is_some().then(|| times::response_of_all(&phase.all).and_then(|times| times.p99)).flatten();
            let (value, text, wide, wild): (f64, fn(f64) -> String, f64, f64) = match tail {
                Some(p99) => (p99 as f64, |ns| format!("response p99 {}", duration(ns)), WIDE_TAIL, WILD_TAIL),
                None if in_documents([phase]) => {
                    (sum(|op| op.documents_per_s), |per_s| format!("{} docs/s", rate(per_s)), WIDE, WILD)
                }
                None => (sum(|op| op.throughput_per_s), |per_s| format!("{}/s", rate(per_s)), WIDE, WILD),
            };
            let what = if tail.is_some() { "response p99" } else { "throughput" };
            let judged =
                all.entry(&phase.name).or_insert_with(|| Judged { values: Vec::new(), what, text, wide, wild });
            judged.values.push((trial.trial, value));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use crate::RunResult;
    use crate::validity::Severity;
    use crate::validity::testing::{CAUTION, NOTE, PASS, all, closed, load, open, severity};

    /// One configuration whose trials had these throughputs.
    fn trials(per_s: &[f64]) -> RunResult {
        let mut result = closed(|_| ());
        let trial = result.trials.remove(0);
        for (at, per_s) in per_s.iter().enumerate() {
            let mut trial = trial.clone();
            trial.trial = at as u32 + 1;
            trial.phases[0].ops.values_mut().for_each(|op| op.throughput_per_s = per_s / 2.0);
            result.trials.push(trial);
        }
        result
    }

    #[test]
    fn trials_that_agree_and_trials_that_do_not() {
        assert_eq!(severity(&trials(&[1_000.0, 1_005.0, 995.0]), "noisy-rounds"), PASS);
        // 3 trials: half of the interval of independent ones is 2.48 standard deviations.
        assert_eq!(severity(&trials(&[1_000.0, 1_019.0, 981.0]), "noisy-rounds"), PASS);
        assert_eq!(severity(&trials(&[1_000.0, 1_021.0, 979.0]), "noisy-rounds"), CAUTION);
        let wild = all(&trials(&[1_000.0, 1_500.0, 600.0]), "noisy-rounds");
        assert!(wild[0].advice.contains("did not measure the same thing"), "{wild:?}");
        assert_eq!(Some(wild[0].severity), CAUTION);
    }

    #[test]
    fn few_trials_and_failed_ones_tell_nothing() {
        assert_eq!(severity(&trials(&[1_000.0, 2_000.0]), "noisy-rounds"), None);
        let mut failed = trials(&[1_000.0, 1_000.0, 2_000.0]);
        failed.trials[2].failure = Some(crate::Failure::default());
        assert_eq!(severity(&failed, "noisy-rounds"), None);
        assert_eq!(severity(&trials(&[0.0, 0.0, 0.0]), "noisy-rounds"), None);
        let idle = all(&trials(&[1_000.0, 0.0, 1_000.0]), "noisy-rounds");
        assert!(
            idle[0].severity == Severity::Caution && idle[0].observed.contains("nothing succeeded in trial 2 of 3"),
            "{idle:?}"
        );
    }

    #[test]
    fn an_outlying_trial_is_named() {
        let result = trials(&[1_000.0, 1_001.0, 999.0, 1_000.0, 1_002.0, 1_000.0, 998.0, 1_001.0, 960.0, 1_000.0]);
        let found = all(&result, "noisy-rounds");
        assert_eq!(severity(&result, "noisy-rounds"), NOTE);
        assert!(found[0].observed.starts_with("sqlite mixed: 960/s in trial 9"), "{found:?}");
    }

    /// The throughput of an open loop is its schedule, and says nothing about the store.
    #[test]
    fn open_loops_are_judged_by_their_tail_and_loads_by_their_documents() {
        let three = |result: RunResult, change: &dyn Fn(usize, &mut crate::PhaseResult)| {
            let mut result = result;
            let trial = result.trials.remove(0);
            for at in 0..3 {
                let mut trial = trial.clone();
                trial.trial = at as u32 + 1;
                change(at, &mut trial.phases[0]);
                result.trials.push(trial);
            }
            result
        };
        let tail = |p99: [u64; 3]| {
            let set = |at: usize, phase: &mut crate::PhaseResult| {
                phase.all.response_ns.as_mut().unwrap().p99 = Some(p99[at]);
            };
            all(&three(open(|_| ()), &set), "noisy-rounds")
        };
        assert_eq!(tail([4_000_000, 4_100_000, 3_900_000])[0].severity, Severity::Pass);
        let wild = tail([4_120_000, 192_000_000, 3_970_000]);
        let ends = "response p99 3.97 ms in trial 3, response p99 192 ms in trial 2";
        assert!(wild[0].severity == Severity::Caution && wild[0].observed.contains(ends), "{wild:?}");
        let per_s = [1_000.0, 1_400.0, 700.0];
        let set = |at: usize, phase: &mut crate::PhaseResult| {
            phase.ops.values_mut().for_each(|op| op.documents_per_s = per_s[at]);
        };
        let loads = all(&three(load(|_| ()), &set), "noisy-rounds");
        assert!(loads[0].severity == Severity::Caution && loads[0].observed.contains("docs/s"), "{loads:?}");
    }
}
