use super::*;
use crate::validity::CheckResult;
use crate::{Failure, LimitResult, RateResult, RunResult, SearchResult, TrialResult, fixture};

/// Stores with these speeds, one round for each speed.
fn stores(speeds: &[(&str, &[f64])]) -> RunResult {
    let mut run = fixture::run_of(&[fixture::load(), fixture::closed_loop()]);
    let one = run.trials.remove(0);
    for (store, speeds) in speeds {
        for (round, speed) in speeds.iter().enumerate() {
            let mut trial = TrialResult {
                trial: run.trials.len() as u32 + 1,
                round: round as u32 + 1,
                store: (*store).to_owned(),
                configuration: (*store).to_owned(),
                ..one.clone()
            };
            fixture::speed(&mut trial, *speed);
            run.trials.push(trial);
        }
    }
    run
}

fn found(run: &RunResult) -> String {
    answer(run).found
}

#[test]
fn the_store_that_is_ahead_and_by_how_much() {
    let run = stores(&[("a", &[1.0, 1.02, 1.01]), ("b", &[1.5, 1.52, 1.54])]);
    assert_eq!(
        found(&run),
        "b is ahead in mixed: 1,520 ops/s, 1.50 times (95 % interval 1.46 to 1.55) as many as a (1,010 ops/s)."
    );
    let alike = stores(&[("a", &[1.0, 1.2, 1.1]), ("b", &[1.2, 1.0, 1.12])]);
    assert!(found(&alike).starts_with("b and a cannot be told apart in mixed: "), "{}", found(&alike));
    let once = stores(&[("a", &[1.0]), ("b", &[1.5])]);
    assert_eq!(
        found(&once),
        "b came out ahead, measured too few times to rule out chance, in mixed: 1,500 ops/s, 1.50 times as many as a (1,000 \
         ops/s)."
    );
    let close = stores(&[("a", &[1.0]), ("b", &[1.004]), ("c", &[0.5])]);
    assert_eq!(
        found(&close),
        "b and a came out within 2 % of each other, measured too few times to rule out chance, in mixed: b 1,004 ops/s, 1.00 \
         times as many as a (1,000 ops/s) and 2.01 times as many as c (500 ops/s)."
    );
}

#[test]
fn phases_with_the_same_store_ahead_are_one_sentence() {
    let mut run = stores(&[("a", &[1.0, 1.02, 1.01]), ("b", &[1.5, 1.52, 1.54])]);
    for trial in &mut run.trials {
        let mut second = trial.phases[1].clone();
        second.name = "again".into();
        let turned = if trial.store == "a" { 4.0 } else { 1.0 };
        let mut of = TrialResult { phases: vec![second], ..TrialResult::default() };
        fixture::speed(&mut of, turned);
        trial.phases.extend(of.phases);
    }
    assert_eq!(
        found(&run),
        "b is ahead in mixed: 1,520 ops/s, 1.50 times (95 % interval 1.46 to 1.55) as many as a (1,010 ops/s). a is ahead in \
         again: 4,040 ops/s, 2.66 times (2.58 to 2.74) as many as b (1,520 ops/s)."
    );
    for trial in run.trials.iter_mut().filter(|trial| trial.store == "b") {
        let mut of = TrialResult { phases: trial.phases.drain(2..).collect(), ..TrialResult::default() };
        fixture::speed(&mut of, 4.0);
        trial.phases.extend(of.phases);
    }
    assert_eq!(
        found(&run),
        "b is ahead in mixed: 1,520 ops/s, 1.50 times (95 % interval 1.46 to 1.55) as many as a (1,010 ops/s); in again: \
         6,080 ops/s, 1.50 times (1.46 to 1.55) as many as a (4,040 ops/s)."
    );
    run.trials.retain(|trial| trial.round == 1);
    assert_eq!(
        found(&run),
        "b came out ahead, measured too few times to rule out chance, in mixed: 1,500 ops/s, 1.50 times as many as a \
         (1,000 ops/s); in again: 6,000 ops/s, 1.50 times as many as a (4,000 ops/s)."
    );
}

#[test]
fn of_three_stores_each_stands_beside_the_best() {
    let run = stores(&[("a", &[1.0, 1.02, 1.01]), ("b", &[1.5, 1.52, 1.54]), ("c", &[1.5, 1.5, 1.56])]);
    assert_eq!(
        found(&run),
        "b and c cannot be told apart in mixed: b 1,520 ops/s, 1.00 times (95 % interval 0.955 to 1.05) as many as c (1,520 \
         ops/s) and 1.50 times (1.44 to 1.57) as many as a (1,010 ops/s)."
    );
}

#[test]
fn a_single_configuration_is_its_figures() {
    let one = found(&stores(&[("a", &[1.0, 1.02, 1.01])]));
    assert_eq!(one, "a: 1,010 ops/s (95 % interval 962 to 1,060) in mixed.");
    let mut once = stores(&[("a", &[1.0])]);
    assert_eq!(found(&once), "a: 1,000 ops/s in mixed, measured once.");
    once.plan.replaced_stores = 2;
    assert_eq!(
        found(&once),
        "Nothing was compared: the study compares 2 stores, and this run has one; give --store once for each. a: 1,000 \
         ops/s in mixed, measured once."
    );
}

fn at_rates(met: &[(f64, bool)]) -> RunResult {
    let mut run = stores(&[("a", &vec![1.0; met.len()])]);
    for (trial, (rate, met)) in run.trials.iter_mut().zip(met) {
        (trial.configuration, trial.round) = (format!("a rate={rate}"), 1);
        let phase = &mut trial.phases[1];
        phase.rate = Some(RateResult { planned: (*rate).into(), ..RateResult::default() });
        phase.limits =
            vec![LimitResult { path: "mixed.response.p99".into(), limit: 200e6, met: *met, ..LimitResult::default() }];
    }
    run
}

#[test]
fn up_to_which_given_rate_limits_were_met() {
    assert_eq!(
        found(&at_rates(&[(250.0, true), (5_000.0, false), (1_000.0, true)])),
        "a met every limit (p99 ≤ 200 ms in mixed) up to 1,000/s, measured once, but not at 5,000/s: mixed.response.p99 was \
         missed."
    );
    assert_eq!(
        found(&at_rates(&[(250.0, true), (1_000.0, true)])),
        "a met every limit (p99 ≤ 200 ms in mixed) up to 1,000/s, the highest rate tried, measured once."
    );
    // A limit that is met above a rate at which it was missed is luck.
    assert_eq!(
        found(&at_rates(&[(250.0, false), (1_000.0, true)])),
        "a did not meet the limits (p99 ≤ 200 ms in mixed) even at 250/s: mixed.response.p99 was missed."
    );
    let mut failed = at_rates(&[(250.0, true), (1_000.0, true)]);
    failed.trials[1].failure = Some(Failure { message: "gone".into(), during: "mixed".into(), ..Failure::default() });
    let text = found(&failed);
    assert!(
        text.contains("but not at 1,000/s: the trial did not complete. a rate=1000 failed in mixed: gone."),
        "{text}"
    );
}

fn searched(found: &[(&str, f64)]) -> RunResult {
    let mut run = stores(&found.iter().map(|(store, _)| (*store, &[1.0][..])).collect::<Vec<_>>());
    for (nth, (trial, (_, rate))) in run.trials.iter_mut().zip(found).enumerate() {
        trial.configuration = format!("{} workers={}", trial.store, nth + 1);
        trial.searches =
            vec![SearchResult { phase: "mixed".into(), rate: Some(*rate), complete: true, ..SearchResult::default() }];
        trial.phases[1].limits =
            vec![LimitResult { path: "mixed.response.p95".into(), limit: 36e6, met: true, ..LimitResult::default() }];
    }
    run
}

#[test]
fn the_values_of_one_store_stand_beside_each_other_within_its_limits() {
    assert_eq!(
        found(&searched(&[("a", 100.0), ("a", 300.0), ("a", 200.0)])),
        "a reaches at least 100/s within the limits of mixed (p95 ≤ 36.0 ms) on a workers=1, and at least 300/s on a \
         workers=2, and at least 200/s on a workers=3. Where it says at least, the search ended at its highest rate."
    );
    assert_eq!(
        found(&searched(&[("a", 100.0)])),
        "a reaches at least 100/s within the limits of mixed (p95 ≤ 36.0 ms) on a workers=1. Where it says at least, the \
         search ended at its highest rate."
    );
}

#[test]
fn a_rate_that_was_not_sustained_is_the_answer() {
    let mut run = stores(&[("a", &[1.0])]);
    let phase = &mut run.trials[0].phases[1];
    phase.rate = Some(RateResult {
        planned: 1_000.into(),
        scheduled_per_s: 1_000.0,
        achieved_per_s: 745.0,
        ..RateResult::default()
    });
    // Unanswered operations leave the phase without a p99.
    for op in phase.ops.values_mut() {
        (op.count, op.unfinished) = (750, 250);
        op.response_of_attempts_ns = None;
    }
    phase.all.response_of_attempts_ns = None;
    let text = found(&run);
    assert!(
        text.ends_with(
            "a did not sustain 1,000/s in mixed: 745/s were answered, and 25 % of the scheduled operations were unfinished at the end."
        ),
        "{text}"
    );
}

#[test]
fn an_in_flight_limit_that_was_reached_stands_beside_a_rate_that_was_not_sustained() {
    let mut run = stores(&[("a", &[1.0])]);
    let phase = &mut run.trials[0].phases[1];
    phase.rate = Some(RateResult {
        planned: 1_000.into(),
        scheduled_per_s: 1_000.0,
        achieved_per_s: 745.0,
        ..RateResult::default()
    });
    (phase.in_flight_limit, phase.in_flight_share, phase.all.service_ns.mean) = (2, 0.89, Some(2.5e6));
    assert!(found(&run).ends_with("a did not sustain 1,000/s in mixed: 745/s were answered."), "{}", found(&run));
    run.trials[0].phases[1].in_flight_share = 0.90;
    let text = found(&run);
    assert!(
        text.ends_with("; at a mean service time of 2.50 ms its in-flight limit of 2 allows at most 800/s."),
        "{text}"
    );
}

#[test]
fn a_figure_of_few_requests_says_how_few() {
    let mut run = stores(&[("a", &[1.0, 1.02, 1.01]), ("b", &[1.5, 1.52, 1.54])]);
    for op in run.trials.iter_mut().flat_map(|t| &mut t.phases[1].ops).map(|(_, op)| op) {
        op.count = 1;
    }
    let text = found(&run);
    assert!(text.contains(" ops/s from 2 requests per trial, "), "{text}");
}

#[test]
fn a_search_is_told_first() {
    let mut run = stores(&[("a", &[1.0; 3]), ("b", &[1.0; 3])]);
    for (at, trial) in run.trials.iter_mut().enumerate() {
        let rate = [1_000.0, 1_010.0, 1_005.0, 2_000.0, 2_020.0, 2_010.0][at];
        let searched = SearchResult {
            phase: "mixed".into(),
            rate: Some(rate),
            fails_at: Some(rate * 1.01),
            ..SearchResult::default()
        };
        trial.searches.push(searched);
    }
    assert_eq!(
        found(&run),
        "b reaches 2,010/s (95 % interval 1,971 to 2,070) within the limits of mixed; a reaches 1,005/s (986 to 1,035). b is \
         ahead: 2.00 times (1.98 to 2.02) as many as a."
    );
    let mut twice = run.clone();
    twice.trials.retain(|trial| trial.round < 3);
    let text = found(&twice);
    assert!(text.starts_with("b reaches 2,000 to 2,040/s (2 trials, too few for an interval) within"), "{text}");
    let mut once = run.clone();
    once.trials.retain(|trial| trial.round == 1);
    assert_eq!(
        found(&once),
        "b reaches 2,000/s (measured once) within the limits of mixed; a reaches 1,000/s (measured once). b came out ahead, \
         measured too few times to rule out chance: 2.00 times as many as a."
    );
    // Who is meant is clear also if several come first.
    let mut alike = run.clone();
    for (trial, rate) in alike.trials.iter_mut().zip([1_000.0, 1_300.0, 1_600.0, 1_620.0, 1_010.0, 1_290.0]) {
        (trial.searches[0].rate, trial.searches[0].fails_at) = (Some(rate), Some(rate * 1.01));
    }
    let text = found(&alike);
    assert!(text.contains("b and a cannot be told apart: b reaches "), "{text}");
    run.trials[3].searches[0].rate = None;
    assert_eq!(
        found(&run),
        "a reaches 1,005/s (95 % interval 986 to 1,035) within the limits of mixed. b stayed within the limits at no rate in 1 \
         of 3 trials; otherwise it reached 2,010 to 2,020/s."
    );
    // The limits are named once.
    run.trials[2].searches[0].rate = None;
    let text = found(&run);
    let expected = "a stayed within the limits of mixed at no rate in 1 of 3 trials; otherwise it reached ";
    assert!(text.starts_with(expected) && text.contains(" b stayed within them at no rate in 1 of 3 trials"), "{text}");
    for trial in &mut run.trials {
        trial.searches[0].rate = None;
    }
    assert_eq!(found(&run), "a and b stayed within the limits of mixed at no rate that was tried.");
}

#[test]
fn what_did_not_end_is_said() {
    let mut run = stores(&[("a", &[1.0, 1.02])]);
    run.plan.trials = vec![crate::plan::PlannedTrial::default(); 3];
    assert!(found(&run).ends_with(" 1 of 3 trials did not complete."), "{}", found(&run));
    let mut runs = run.clone();
    runs.run.ended = None;
    assert!(found(&runs).ends_with(" The run has not ended: this covers the first 2 of 3 trials."), "{}", found(&runs));
    for trial in &mut run.trials {
        trial.failure = Some(Failure {
            kind: crate::FailureKind::Failed,
            during: "load".into(),
            message: "the disk is full".into(),
        });
    }
    assert_eq!(found(&run), "No trial completed. a failed in load (2 of 2 trials): the disk is full.");
    run.trials.clear();
    assert_eq!(found(&run), "Nothing was measured.");
}

#[test]
fn the_worst_checks_make_the_second_sentence() {
    let mut run = stores(&[("a", &[1.0])]);
    let check = |check: &str, severity| CheckResult {
        check: check.into(),
        severity,
        observed: String::new(),
        threshold: String::new(),
        advice: String::new(),
        weight: None,
        trial: None,
        store: None,
        configuration: None,
        phase: None,
    };
    let mut said = |checks: Vec<CheckResult>| {
        run.checks = checks;
        let found = answer(&run);
        (found.trust, found.severity)
    };
    let (pass, note) = (check("errors", Severity::Pass), check("single-run", Severity::Note));
    let (caution, invalid) = (check("too-short", Severity::Caution), check("send-delay", Severity::Invalid));
    assert_eq!(said(vec![]), ("No check has run yet.".into(), Severity::Pass));
    assert_eq!(said(vec![pass.clone()]), ("Valid: 1 check passed.".into(), Severity::Pass));
    assert_eq!(said(vec![pass.clone(), note.clone()]), ("Valid: 1 check passed, and 1 note.".into(), Severity::Note));
    assert_eq!(
        said(vec![pass, note.clone(), caution.clone()]),
        ("With cautions: phases were short (too-short), and 1 note.".into(), Severity::Caution)
    );
    let other = CheckResult { observed: "6 GB of 24".into(), ..check("data-to-memory-differs", Severity::Caution) };
    let doubted = CheckResult {
        configuration: Some("a".into()),
        observed: "5 GB of 24".into(),
        ..check("data-to-memory-differs", Severity::Caution)
    };
    assert_eq!(
        said(vec![caution.clone(), doubted.clone(), other, doubted.clone(), note.clone()]).0,
        "Doubtful: the data-to-memory ratio differs from the study's (data-to-memory-differs; a: 5 GB of 24; and 1 \
         more). With cautions: phases were short (too-short), and 1 note."
    );
    assert!(said(vec![doubted.clone()]).0.ends_with("; a: 5 GB of 24)."));
    assert!(said(vec![doubted, note.clone()]).0.ends_with("). There is 1 note."));
    assert_eq!(
        said(vec![note, caution, invalid]),
        ("The measurement is invalid: the client sent late (send-delay), and 1 caution.".into(), Severity::Invalid)
    );
}
