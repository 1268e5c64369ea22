//! Which figures of a run are priced.

use super::super::{CostResult, Work, cost_figure, cost_of_run};
use super::plain;
use crate::conclude::conclude;
use crate::{Failure, LimitResult, RunResult, SearchResult, fixture};

const ONE_NODE: &str = "[nodes.n]\nper_hour = 3.6\n[stores]\ndefault = { node = \"n\" }";

/// Two configurations, `a` and `b`, in three rounds: a load, and two measured phases.
fn two() -> RunResult {
    let mut second = fixture::closed_loop();
    second.name = "second".into();
    let mut run = fixture::run_of(&[fixture::load(), fixture::closed_loop(), second]);
    let trial = run.trials.remove(0);
    for n in 0..6 {
        let mut trial = trial.clone();
        (trial.trial, trial.round) = (n + 1, n / 2 + 1);
        trial.configuration = if n % 2 == 0 { "a" } else { "b" }.into();
        run.trials.push(trial);
    }
    run
}

fn limit(path: &str, met: bool) -> LimitResult {
    LimitResult { path: path.into(), met, ..LimitResult::default() }
}

fn cost(mut run: RunResult) -> CostResult {
    conclude(&[], &mut run);
    cost_of_run(&plain(ONE_NODE), &run)
}

#[test]
fn the_phase_is_the_study_s_whatever_the_first_trial_came_to() {
    let mut run = two();
    run.trials[0].phases.truncate(2);
    run.trials[0].failure = Some(Failure::default());
    let found = cost(run);
    assert!(found.notes.contains(&"operations are those of the phase `second`".to_owned()), "{:?}", found.notes);
    let mut run = two();
    run.trials.iter_mut().for_each(|t| t.phases[1].limits = vec![limit("mixed.response.p99", true)]);
    let found = cost(run.clone());
    assert!(found.notes.contains(&"operations are those of the phase `mixed`".to_owned()), "{:?}", found.notes);
    run.trials[3].searches = vec![SearchResult { phase: "second".into(), rate: Some(10.0), ..SearchResult::default() }];
    let found = cost(run);
    assert!(found.notes.contains(&"operations are those of the phase `second`".to_owned()), "{:?}", found.notes);
}

#[test]
fn a_configuration_is_within_the_limits_only_if_all_of_them_were_met_in_every_trial() {
    let with = |change: &dyn Fn(&mut RunResult)| {
        let mut run = two();
        for trial in &mut run.trials {
            trial.phases[1].limits = vec![limit("mixed.response.p99", true)];
            trial.phases[2].limits = vec![limit("second.response.p99", true)];
        }
        change(&mut run);
        cost(run)
    };
    let all = with(&|_| ());
    assert!(all.configurations.iter().all(|configuration| configuration.within_limit.is_some()));
    assert_eq!(all.limit.as_deref(), Some("mixed.response.p99 and second.response.p99"));
    let earlier = with(&|run| run.trials[2].phases[1].limits[0].met = false);
    let failed = with(&|run| run.trials[2].failure = Some(Failure::default()));
    for found in [earlier, failed] {
        assert!(found.configurations[0].within_limit.is_none() && found.configurations[1].within_limit.is_some());
        assert_eq!(found.cheapest.as_deref(), Some("b"));
    }
    let searched = with(&|run| {
        for trial in &mut run.trials {
            let rate = (trial.trial != 3).then_some(100.0);
            trial.searches = vec![SearchResult { phase: "second".into(), rate, ..SearchResult::default() }];
        }
    });
    assert!(searched.configurations[0].within_limit.is_none() && searched.configurations[1].within_limit.is_some());
}

/// Single documents are not cheaper because they take more requests.
#[test]
fn where_operations_are_on_several_documents_these_are_priced() {
    let mut run = two();
    for trial in &mut run.trials {
        let batch = if trial.configuration == "a" { 1 } else { 100 };
        for op in trial.phases[2].ops.values_mut() {
            op.throughput_per_s = if batch == 1 { 4_000.0 } else { 400.0 };
            (op.documents, op.documents_per_s) = (op.succeeded * batch, op.throughput_per_s * batch as f64);
        }
    }
    conclude(&[], &mut run);
    run.cost = Some(cost_of_run(&plain(ONE_NODE), &run));
    let found = run.cost.as_ref().unwrap();
    assert_eq!((found.work, found.cheapest.as_deref()), (Work::Documents, Some("b")));
    let operations = run.trials[0].phases[2].ops.len() as f64;
    // 3.60 an hour is 0.001 a second.
    let price = found.configurations[0].measured.unwrap().per_million.without_clients.value;
    assert!((price - 1_000.0 / (4_000.0 * operations)).abs() < 1e-9, "{price}");
    let figure = cost_figure(&run, &run.trials[0]).unwrap();
    assert!((figure.value.unwrap() - price).abs() < 1e-9, "{figure:?}");
}

#[test]
fn a_configuration_of_which_nothing_was_measured_is_named() {
    let mut run = two();
    run.trials.iter_mut().filter(|t| t.configuration == "a").for_each(|t| t.failure = Some(Failure::default()));
    let found = cost(run);
    assert!(found.notes.iter().any(|note| note.ends_with("the cost is unknown: a")), "{:?}", found.notes);
}
