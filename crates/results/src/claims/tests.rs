//! Claims against hand-made runs.

use indexmap::IndexMap;
use serde_json::{Value, json};
use storebench_study::workload::Claim;

use super::*;
use crate::validity::{CheckResult, Severity};
use crate::{Failure, LimitResult, OpResult, Percentiles, PhaseResult, RunResult, TrialResult, fixture};

/// A trial whose phase `load` writes `documents_per_s`, in batches of its factor `batch` (10 if it has none).
fn trial(store: &str, values: Value, round: u32, documents_per_s: f64) -> TrialResult {
    let values: IndexMap<String, Value> = serde_json::from_value(values).unwrap();
    let batch = values.get("phases.load.batch").and_then(Value::as_u64).unwrap_or(10);
    let op = OpResult {
        kind: "bulk-insert".into(),
        succeeded: 1_000,
        documents: 1_000 * batch,
        throughput_per_s: documents_per_s / batch as f64,
        documents_per_s,
        service_ns: Percentiles { count: 1_000, p99: Some((1e9 / documents_per_s) as u64), ..Percentiles::default() },
        ..OpResult::default()
    };
    let mut phase = PhaseResult { name: "load".into(), ops: IndexMap::new(), ..PhaseResult::default() };
    phase.all.service_ns = op.service_ns;
    phase.ops.insert("docs".into(), op);
    TrialResult { store: store.into(), values, round, phases: vec![phase], ..TrialResult::default() }
}

/// A run of one store over one factor: figures by value (outer), round (inner).
fn run(factor: &str, figures: &[(u64, &[f64])]) -> RunResult {
    let mut trials = Vec::new();
    for (value, figures) in figures {
        for (round, figure) in (1..).zip(*figures) {
            trials.push(trial("a", json!({ factor: value }), round, *figure));
        }
    }
    of(trials)
}

fn of(mut trials: Vec<TrialResult>) -> RunResult {
    for (number, trial) in (1..).zip(&mut trials) {
        trial.trial = number;
    }
    RunResult { trials, ..fixture::run_of(&[]) }
}

fn claim(test: Value) -> Claim {
    serde_json::from_value(json!({ "says": "s", "figures": "f", "test": test })).unwrap()
}

fn judged(test: Value, run: &RunResult) -> ClaimResult {
    judge_claims(&[claim(test)], run).remove(0)
}

fn verdict(test: Value, run: &RunResult) -> ClaimVerdict {
    judged(test, run).verdict
}

const BATCH: &str = "phases.load.batch";

fn batches() -> RunResult {
    run(BATCH, &[(1, &[100.0, 120.0, 90.0]), (10, &[305.0, 355.0, 272.0]), (100, &[1_000.0, 1_210.0, 890.0])])
}

fn ratio(between: Value) -> Value {
    json!({ "ratio": "load.documents", "of": { "batch": 10 }, "to": { "batch": 1 }, "between": between })
}

#[test]
fn a_ratio_is_paired_by_rounds() {
    let run = batches();
    let result = judged(ratio(json!([2, 4])), &run);
    assert_eq!(result.verdict, ClaimVerdict::Matches, "{result:?}");
    let found = result.found.unwrap();
    // The rounds differ by a third, their ratios by 3 %. At batch 1 the figure is that of operations.
    assert!((found.value - 3.01).abs() < 0.02 && found.relative_half_width().unwrap() < 0.05, "{found:?}");
    assert_eq!(result.expected, "load.documents of batch = 10 over batch = 1: 2 to 4");
    assert_eq!(verdict(ratio(json!([2])), &run), ClaimVerdict::Matches);
    assert_eq!(verdict(ratio(json!([4])), &run), ClaimVerdict::Differs);
    assert_eq!(verdict(ratio(json!([0, 1])), &run), ClaimVerdict::Differs);
    assert_eq!(verdict(ratio(json!([3.01, 10])), &run), ClaimVerdict::Undecided);
}

#[test]
fn one_round_is_undecided_and_its_value_shown() {
    let one = run(BATCH, &[(1, &[100.0]), (10, &[300.0])]);
    let result = judged(ratio(json!([2, 4])), &one);
    assert_eq!(result.verdict, ClaimVerdict::Undecided);
    let found = result.found.unwrap();
    assert!((found.value - 3.0).abs() < 1e-9 && found.low.is_none());
    assert!(result.why.contains("one round has no interval; its value lies within"), "{}", result.why);
    assert!(judged(ratio(json!([4])), &one).why.contains("its value lies outside"));
}

#[test]
fn configurations_and_figures_that_are_not_there_are_not_testable() {
    let run = batches();
    let why = |test: Value| {
        let result = judged(test, &run);
        assert_eq!((result.verdict, result.found), (ClaimVerdict::NotTestable, None));
        result.why
    };
    let with = |of: Value, figure: &str| json!({ "ratio": figure, "of": of, "to": { "batch": 1 }, "between": [1] });
    assert_eq!(why(with(json!({ "batch": 1_000 }), "load.documents")), "no configuration has batch = 1,000");
    let unknown = why(with(json!({ "workers": 2 }), "load.documents"));
    assert_eq!(unknown, "`workers` was not varied; the factors of the run are `phases.load.batch`");
    let wrong = why(with(json!({ "batch": 10 }), "load.servic.p99"));
    assert!(wrong.contains("has the figure `load.servic.p99`; did you mean `load.service.p99`?"), "{wrong}");
    let same = why(with(json!({ "store": "a" }), "load.documents"));
    assert!(same.contains("a configuration is on both sides: store = a and batch = 1"), "{same}");
    assert!(why(json!({ "peak": "load.documents", "over": "batch", "between": [200, 300] })).contains("no value"));
    assert!(why(json!({ "peak": "load.documents", "over": "batch", "between": [1, 300] })).contains("no value"));
    assert!(why(json!({ "share_within": "load.service.p99", "between": [0.9, 1] })).contains("has the limit"));
}

#[test]
fn the_study_says_what_cannot_be_tested() {
    let run = batches();
    let base = claim(ratio(json!([2])));
    let cases = [
        (Claim { not_testable: Some("needs 50 nodes".into()), test: None, ..base.clone() }, "needs 50 nodes"),
        (Claim { at_least_scale: Some(2.0), ..base.clone() }, "the run's scale of 1 is below 2"),
        (Claim { test: None, ..base.clone() }, "gives no test"),
    ];
    for (claim, why) in cases {
        let result = judge_claims(&[claim], &run).remove(0);
        assert_eq!(result.verdict, ClaimVerdict::NotTestable);
        assert!(result.why.contains(why), "{}", result.why);
    }
    let few = judge_claims(&[Claim { at_least_trials: Some(5), ..base }], &run).remove(0);
    assert_eq!(few.verdict, ClaimVerdict::Undecided);
    assert!(few.why.starts_with("3 of at least 5 repeats") && few.found.is_some(), "{}", few.why);
}

#[test]
fn a_factor_goes_by_as_much_of_its_path_as_tells_it_apart() {
    let mut trials = Vec::new();
    for round in 1..=3 {
        for (load, read) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
            let values = json!({ "phases.load.workers": load, "phases.read.workers": read });
            trials.push(trial("a", values, round, 100.0 * f64::from(load) + f64::from(round)));
        }
    }
    let run = of(trials);
    let test = |name: &str| json!({ "rises": "load.documents", "over": name });
    let ambiguous = judged(test("workers"), &run);
    assert_eq!(ambiguous.why, "`workers` is ambiguous; use phases.load.workers or phases.read.workers");
    for name in ["load.workers", "phases.load.workers"] {
        let result = judged(test(name), &run);
        assert_eq!(result.verdict, ClaimVerdict::Matches, "{result:?}");
        // The other factor makes two groups with one observation per round, not two observations.
        assert_eq!((result.each.len(), result.found.unwrap().trials), (2, 3));
        assert_eq!(result.each[0].configurations, "a, workers = 1");
    }
}

#[test]
fn stores_that_disagree_are_not_averaged_into_a_match() {
    let mut trials = Vec::new();
    for round in 1..=4 {
        let wobble = 1.0 + 0.002 * f64::from(round);
        for (store, at_10) in [("a", 100.0), ("b", 900.0)] {
            trials.push(trial(store, json!({ BATCH: 1 }), round, 100.0));
            trials.push(trial(store, json!({ BATCH: 10 }), round, at_10 * wobble));
        }
    }
    let run = of(trials);
    // × 1 and × 9: together × 3.
    let result = judged(ratio(json!([2])), &run);
    assert_eq!(result.verdict, ClaimVerdict::Undecided);
    assert!((result.found.unwrap().value - 3.0).abs() < 0.05);
    assert!(result.why.starts_with("it matches on b and differs on a"), "{}", result.why);
    let found: Vec<_> = result.each.iter().map(|part| (part.configurations.as_str(), part.verdict)).collect();
    assert_eq!(found, [("a", ClaimVerdict::Differs), ("b", ClaimVerdict::Matches)]);
    // One store alone, or one against the other.
    let only = json!({ "ratio": "load.documents", "of": { "batch": 10, "store": "b" },
        "to": { "batch": 1, "store": "b" }, "between": [8, 10] });
    assert_eq!(verdict(only, &run), ClaimVerdict::Matches);
    let against = json!({ "ratio": "load.documents", "of": { "store": "b" }, "to": { "store": "a" }, "between": [2] });
    let against = judged(against, &run);
    assert_eq!(against.each.len(), 2, "{against:?}");
    assert_eq!(against.verdict, ClaimVerdict::Undecided);
}

#[test]
fn a_rise_holds_at_no_step_back_and_a_fall_is_the_reverse() {
    let over = |test: &str| json!({ test: "load.documents", "over": "batch" });
    let run_of =
        |middle: &[f64]| run(BATCH, &[(1, &[100.0, 101.0, 99.0]), (10, middle), (100, &[300.0, 303.0, 298.0])]);
    let rising = run_of(&[200.0, 201.0, 199.0]);
    assert_eq!(verdict(over("rises"), &rising), ClaimVerdict::Matches);
    assert_eq!(verdict(over("falls"), &rising), ClaimVerdict::Differs);
    let dented = judged(over("rises"), &run_of(&[80.0, 80.0, 79.0]));
    assert_eq!((dented.verdict, dented.why.as_str()), (ClaimVerdict::Differs, "it falls from 1 to 10"));
    let flat = run(BATCH, &[(1, &[100.0, 101.0, 99.0]), (100, &[101.0, 100.0, 99.0])]);
    assert_eq!(verdict(over("rises"), &flat), ClaimVerdict::Differs);
    // Times fall where throughput rises.
    assert_eq!(verdict(json!({ "falls": "load.service.p99", "over": "batch" }), &rising), ClaimVerdict::Matches);
    let steep = json!({ "rises": "load.documents", "over": "batch", "between": [5] });
    assert_eq!(verdict(steep, &rising), ClaimVerdict::Differs);
}

#[test]
fn a_rise_may_end_where_the_claim_does_and_values_that_failed_beyond_it_leave_it_open() {
    let peaked = [(1, &[100.0, 101.0, 99.0][..]), (10, &[300.0, 303.0, 298.0]), (100, &[150.0, 152.0, 149.0])];
    let mut run = run(BATCH, &peaked);
    let rises = json!({ "rises": "load.documents", "over": "batch" });
    let to_10 = json!({ "rises": "load.documents", "over": "batch", "up_to": 10 });
    assert_eq!(verdict(rises.clone(), &run), ClaimVerdict::Differs);
    assert_eq!(verdict(to_10.clone(), &run), ClaimVerdict::Matches);
    let is_100 = |t: &&mut TrialResult| t.values.values().any(|value| value == 100);
    run.trials.iter_mut().filter(is_100).for_each(|t| t.failure = Some(Failure::default()));
    assert_eq!(verdict(rises, &run), ClaimVerdict::Undecided);
    assert_eq!(verdict(to_10, &run), ClaimVerdict::Matches);
}

#[test]
fn a_peak_is_where_the_values_that_may_be_the_best_are() {
    let at = |between: Value| json!({ "peak": "load.documents", "over": "batch", "between": between });
    let far = [(1, &[100.0, 101.0, 99.0][..]), (10, &[300.0, 303.0, 298.0]), (100, &[200.0, 202.0, 199.0])];
    let clear = run(BATCH, &far);
    let result = judged(at(json!([10, 50])), &clear);
    let found = result.found.unwrap();
    assert_eq!(result.verdict, ClaimVerdict::Matches);
    assert_eq!((found.value, found.low, found.high), (10.0, Some(10.0), Some(10.0)));
    assert_eq!(verdict(at(json!([50])), &clear), ClaimVerdict::Differs);
    // The lowest time is at the same value.
    let times = json!({ "peak": "load.service.p99", "over": "batch", "between": [10, 50] });
    assert_eq!(verdict(times, &clear), ClaimVerdict::Matches);
    let near = run(BATCH, &[far[0], (10, &[300.0, 320.0, 290.0]), (100, &[310.0, 300.0, 298.0])]);
    let result = judged(at(json!([10, 50])), &near);
    let found = result.found.unwrap();
    assert_eq!(result.verdict, ClaimVerdict::Undecided);
    assert_eq!((found.low, found.high), (Some(10.0), Some(100.0)));
    // The highest value may be the best; what lies beyond it is unknown.
    assert_eq!(verdict(at(json!([10, 100])), &near), ClaimVerdict::Undecided);
    assert_eq!(verdict(at(json!([10])), &near), ClaimVerdict::Matches);
    let one = run(BATCH, &[(1, &[100.0]), (10, &[300.0])]);
    assert_eq!(verdict(at(json!([10])), &one), ClaimVerdict::Undecided);
}

#[test]
fn a_share_within_a_limit_is_a_mean_of_shares() {
    let path = "load.response.p99";
    let limited = |shares: &[f64]| {
        let mut trials = Vec::new();
        for (round, share) in (1..).zip(shares) {
            let mut trial = trial("a", json!({ "rate": 250 }), round, 100.0);
            trial.phases[0].limits =
                vec![LimitResult { path: path.into(), share_within: Some(*share), ..LimitResult::default() }];
            trials.push(trial);
        }
        of(trials)
    };
    let test = |between: Value| json!({ "share_within": path, "at": { "rate": 250.0 }, "between": between });
    let result = judged(test(json!([0.9, 1])), &limited(&[0.93, 0.935, 0.925]));
    assert_eq!(result.verdict, ClaimVerdict::Matches);
    let found = result.found.unwrap();
    assert!((found.value - 0.93).abs() < 1e-9 && (found.low.unwrap() - 0.905_436).abs() < 1e-6, "{found:?}");
    assert_eq!(result.expected, "share within the limit load.response.p99 at rate = 250: 0.900 to 1");
    assert_eq!(verdict(test(json!([0.9, 1])), &limited(&[0.0, 0.0, 0.0])), ClaimVerdict::Differs);
    assert_eq!(verdict(test(json!([0.9, 1])), &limited(&[1.0, 1.0, 0.6])), ClaimVerdict::Undecided);
    let typo = json!({ "share_within": "load.response.p98", "between": [0.9, 1] });
    assert!(judged(typo, &limited(&[1.0])).why.contains("did you mean `load.response.p99`?"));
}

#[test]
fn what_failed_takes_no_part_and_is_named() {
    let mut run = batches();
    // Round 2 lacks batch 10.
    run.trials[4].failure = Some(Failure::default());
    let result = judged(ratio(json!([2, 4])), &run);
    assert_eq!((result.verdict, result.found.unwrap().trials), (ClaimVerdict::Matches, 2), "{result:?}");
    assert!(result.why.ends_with("left out because a configuration is missing: round 2"), "{}", result.why);
    for trial in run.trials.iter_mut().filter(|trial| trial.values[BATCH] == 100) {
        trial.phases[0].partial = Some("the store went away".into());
    }
    let rises = judged(json!({ "rises": "load.documents", "over": "batch" }), &run);
    assert!(rises.why.ends_with("no trial completed at 100"), "{}", rises.why);
    let gone = json!({ "ratio": "load.documents", "of": { "batch": 100 }, "to": { "batch": 1 }, "between": [2] });
    assert_eq!(judged(gone, &run).why, "no trial with batch = 100 completed");
}

#[test]
fn invalid_figures_decide_nothing() {
    let mut run = batches();
    let invalid = CheckResult {
        check: "client-saturated".into(),
        severity: Severity::Invalid,
        observed: String::new(),
        threshold: String::new(),
        advice: String::new(),
        weight: None,
        trial: Some(1),
        store: None,
        configuration: None,
        phase: Some("load".into()),
    };
    run.checks = vec![invalid.clone()];
    let result = judged(ratio(json!([2, 4])), &run);
    assert_eq!(result.verdict, ClaimVerdict::Undecided);
    assert!(result.why.starts_with("these figures are invalid: client-saturated"), "{}", result.why);
    // Another phase, configurations that are not compared, or only a caution: no effect.
    for other in [
        CheckResult { phase: Some("read".into()), ..invalid.clone() },
        CheckResult { trial: Some(9), ..invalid.clone() },
        CheckResult { severity: Severity::Caution, ..invalid },
    ] {
        run.checks = vec![other];
        assert_eq!(verdict(ratio(json!([2, 4])), &run), ClaimVerdict::Matches);
    }
}

#[test]
fn a_phase_s_only_operation_may_be_named() {
    let run = batches();
    for figure in ["load.docs.documents", "load.docs.service.p99", "load.docs.throughput"] {
        let test = json!({ "ratio": figure, "of": { "batch": 10 }, "to": { "batch": 1 }, "between": [0, 100] });
        assert_eq!(verdict(test, &run), ClaimVerdict::Matches, "{figure}");
    }
}

#[test]
fn the_table_stays_within_120_columns() {
    let run = batches();
    let claims = [
        Claim {
            says: "Larger batches load faster, and the number of threads changes nothing at all".into(),
            figures: "about 1,250 docs/s at bulk 10,000".into(),
            source: Some(format!("https://example.org/{}", "x".repeat(150))),
            ..claim(ratio(json!([2, 4])))
        },
        Claim {
            says: "Fifty nodes take a million writes a second".into(),
            figures: "1.1 M/s".into(),
            not_testable: Some("one machine is not fifty".into()),
            ..Claim::default()
        },
    ];
    let results = judge_claims(&claims, &run);
    let text = claim_table(&results);
    assert!(text.lines().all(|line| line.chars().count() <= 120 && line == line.trim_end()), "{text}");
    insta::assert_snapshot!(text);
    let json = serde_json::to_string(&results).unwrap();
    assert_eq!(serde_json::from_str::<Vec<ClaimResult>>(&json).unwrap(), results);
}
