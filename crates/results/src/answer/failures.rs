//! Configurations of which trials did not complete, and what they did before.

use indexmap::IndexMap;

use crate::configurations::{configurations_of, is_whole};
use crate::figures::in_documents;
use crate::human::{count, first_of, listed, rate, some_of};
use crate::{PhaseResult, RunResult, TrialResult};

/// The most sentences, each about configurations of one store that failed alike.
const MOST: usize = 4;
/// The most configurations that are named in one.
const MOST_NAMED: usize = 3;
/// The most phases whose figures are told of a configuration that never completed.
const MOST_PHASES: usize = 3;

/// A sentence for each store and way to fail: `pg failed in load: the disk is full.`
pub(super) fn failures(result: &RunResult) -> Vec<String> {
    struct Alike<'a> {
        names: Vec<&'a str>,
        failed: usize,
        trials: usize,
        before: Option<String>,
    }
    let mut found: IndexMap<(&str, String), Alike<'_>> = IndexMap::new();
    for configuration in configurations_of(&result.plan, &result.trials) {
        let failed: Vec<&TrialResult> = configuration.trials.iter().copied().filter(|trial| !is_whole(trial)).collect();
        let Some((trial, why)) = failed.iter().find_map(|trial| Some((*trial, why(trial)?))) else { continue };
        // What a configuration did that has a completed trial is among the figures.
        let before = if failed.len() == configuration.trials.len() { done(trial) } else { None };
        let alike = Alike { names: Vec::new(), failed: 0, trials: 0, before };
        let of = found.entry((&trial.store, why)).or_insert(alike);
        of.names.push(configuration.name);
        of.failed += failed.len();
        of.trials += configuration.trials.len();
    }
    // A store all of whose configurations failed alike needs no values.
    for ((store, _), of) in &mut found {
        let own = result.trials.iter().filter(|trial| trial.store == *store && !trial.control).count();
        if own == of.failed {
            of.names = vec![store];
        }
    }
    let told = found.into_iter().map(|((_, why), of)| {
        let names = some_of(of.names.into_iter().map(str::to_owned), MOST_NAMED);
        let how_often = match (of.failed, of.trials) {
            (1, 1) => String::new(),
            (failed, trials) => format!(" ({failed} of {trials} trials)"),
        };
        let before = of.before.map_or_else(String::new, |before| format!(" Before that it did {before}."));
        format!("{names} {}.{before}", why.replacen('\u{0}', &how_often, 1).trim_end_matches('.'))
    });
    first_of(told, MOST, |more| format!("{} more failures are in the checks.", count(more)))
}

/// Why a trial did not complete. A null character stands where its number belongs.
fn why(trial: &TrialResult) -> Option<String> {
    let ended = || {
        let phase = trial.phases.iter().find(|phase| phase.partial.is_some())?;
        Some(format!("ended early in {}\u{0}: {}", phase.name, in_one_line(phase.partial.as_ref()?)))
    };
    let failed = trial.failure.as_ref().map(|of| format!("failed in {}\u{0}: {}", of.during, in_one_line(&of.message)));
    failed.or_else(ended)
}

/// The first line of a message, and the last one: of what a server printed, its last words. The checks have all of it.
pub fn in_one_line(message: &str) -> String {
    let mut lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    match (lines.next_back(), lines.next()) {
        (None, _) => first.to_owned(),
        (Some(last), None) => format!("{first} {last}"),
        (Some(last), Some(_)) => format!("{first} … {last}"),
    }
}

/// The figures of the phases that completed before a trial failed, without loads unless there is nothing else.
fn done(trial: &TrialResult) -> Option<String> {
    let during = trial.failure.as_ref().map(|of| of.during.as_str());
    let before = trial.phases.iter().take_while(|phase| Some(phase.name.as_str()) != during);
    let whole = |phase: &&PhaseResult| !phase.warm_up && phase.partial.is_none() && !phase.ops.is_empty();
    let all: Vec<&PhaseResult> = before.filter(whole).collect();
    let measured: Vec<&PhaseResult> = all.iter().copied().filter(|phase| !phase.loads).collect();
    let shown = if measured.is_empty() { all } else { measured };
    let told = shown.iter().take(MOST_PHASES).map(|phase| {
        let (per_s, unit): (f64, _) = match in_documents([*phase]) {
            true => (phase.ops.values().map(|op| op.documents_per_s).sum(), "docs/s"),
            false => (phase.ops.values().map(|op| op.throughput_per_s).sum(), "ops/s"),
        };
        format!("{} {unit} in {}", rate(per_s), phase.name)
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| listed(told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Failure, FailureKind, fixture};

    #[test]
    fn of_many_lines_the_first_and_the_last_are_told() {
        assert_eq!(in_one_line("one"), "one");
        assert_eq!(in_one_line("its last output:\nat the port\n"), "its last output: at the port");
        assert_eq!(in_one_line("its last output:\na\nb\nin use"), "its last output: … in use");
    }

    fn failed(trial: &mut TrialResult, during: &str) {
        let message = "the disk is full".to_owned();
        trial.failure = Some(Failure { kind: FailureKind::Failed, during: during.into(), message });
    }

    #[test]
    fn what_failed_where_why_and_how_often() {
        let mut run = fixture::run_of(&[fixture::load(), fixture::closed_loop()]);
        assert!(failures(&run).is_empty());
        let mut again = run.trials[0].clone();
        (again.trial, again.round) = (2, 2);
        run.trials.push(again);
        failed(&mut run.trials[1], "mixed");
        // Its figures are those of the trial that completed.
        assert_eq!(failures(&run), ["sqlite failed in mixed (1 of 2 trials): the disk is full."]);
    }

    #[test]
    fn what_never_completed_says_what_it_did_before() {
        let mut run = fixture::run_of(&[fixture::load(), fixture::closed_loop()]);
        failed(&mut run.trials[0], "close");
        assert_eq!(
            failures(&run),
            ["sqlite failed in close: the disk is full. Before that it did 1,000 ops/s in mixed."]
        );
        failed(&mut run.trials[0], "mixed");
        assert_eq!(
            failures(&run),
            ["sqlite failed in mixed: the disk is full. Before that it did 10.0 k docs/s in load."]
        );
        run.trials[0].failure = None;
        run.trials[0].phases[1].partial = Some("interrupted".into());
        assert!(failures(&run)[0].starts_with("sqlite ended early in mixed: interrupted."), "{:?}", failures(&run));
    }

    #[test]
    fn configurations_that_failed_alike_are_one_sentence() {
        let mut run = fixture::swept();
        for trial in &mut run.trials {
            failed(trial, "load");
            trial.phases.clear();
        }
        assert_eq!(failures(&run), ["sqlite failed in load (12 of 12 trials): the disk is full."]);
        for trial in run.trials.iter_mut().filter(|trial| trial.configuration == "sqlite workers=8") {
            trial.failure = None;
        }
        assert_eq!(
            failures(&run),
            [
                "sqlite workers=1, sqlite workers=2 and sqlite workers=4 failed in load (9 of 9 trials): the disk is full."
            ]
        );
    }
}
