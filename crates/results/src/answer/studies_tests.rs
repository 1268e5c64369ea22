//! One test for each kind of study: the exact sentences, as the study's user reads them first.

use serde_json::{Value, json};
use storebench_study::units::Count;

use super::answer;
use crate::conclude::conclude;
use crate::cost::{CostResult, PriceSheet};
use crate::plan::{LeftOut, PlannedConfiguration};
use crate::{
    Failure, LimitResult, PhaseResult, RateResult, RunResult, SearchResult, TasksResult, TrialResult, fixture,
};

/// A configuration: its store, the values of its factors, and how fast it is in each phase but the load.
struct Case<'a> {
    store: &'a str,
    values: &'a [(&'a str, Value)],
    speeds: &'a [f64],
}

/// Three rounds of these, a little apart, with a load and these phases.
fn study(phases: &[&str], cases: &[Case<'_>]) -> RunResult {
    let mut run = fixture::run_of(&[fixture::load(), fixture::closed_loop()]);
    let one = run.trials.remove(0);
    run.plan.repeats = 3;
    for (round, noise) in [(1, 1.0), (2, 1.01), (3, 0.995)] {
        for (nth, case) in cases.iter().enumerate() {
            let short = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
            let named: String = case.values.iter().map(|(path, value)| format!(" {}={value}", short(path))).collect();
            let mut trial = TrialResult {
                trial: run.trials.len() as u32 + 1,
                round,
                store: case.store.into(),
                configuration: format!("{}{named}", case.store),
                url: format!("{}:x.db", case.store),
                values: case.values.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect(),
                phases: vec![one.phases[0].clone()],
                ..one.clone()
            };
            for (at, (phase, speed)) in phases.iter().zip(case.speeds).enumerate() {
                let mut of = TrialResult { phases: vec![one.phases[1].clone()], ..TrialResult::default() };
                of.phases[0].name = (*phase).to_owned();
                // Noise that differs from one configuration and phase to the next.
                fixture::speed(&mut of, speed * noise * (1.0 + 0.002 * f64::from(round) * ((nth + at) % 3) as f64));
                trial.phases.extend(of.phases);
            }
            run.trials.push(trial);
        }
    }
    run
}

fn concluded(mut run: RunResult) -> RunResult {
    conclude(&[], &mut run);
    run
}

fn found(run: RunResult) -> String {
    let run = concluded(run);
    let found = answer(&run).found;
    for trial in &run.trials {
        assert!(found.contains(&trial.store), "{} is not named: {found}", trial.store);
    }
    for senseless in ["NaN", "inf ", "inf)", "null"] {
        assert!(!found.contains(senseless), "{found}");
    }
    found
}

/// Makes a phase a copy.
fn copy(run: &mut RunResult, phase: &str, kind: &str, tasks: impl Fn(&TrialResult) -> TasksResult) {
    for trial in &mut run.trials {
        let of = tasks(trial);
        for phase in trial.phases.iter_mut().filter(|found| found.name == phase) {
            phase.tasks = Some(of);
            phase.ops.shift_remove("update");
            phase.ops.values_mut().for_each(|op| op.kind = kind.into());
        }
    }
}

fn tasks_case<'a>(store: &'a str, values: &'a [(&'a str, Value); 2], speeds: &'a [f64]) -> Case<'a> {
    Case { store, values, speeds }
}

#[test]
fn a_transfer_is_judged_by_its_tasks() {
    let at =
        |import: u32, export: u32| [("phases.import.tasks", json!(import)), ("phases.export.tasks", json!(export))];
    let values = [at(1, 1), at(4, 1), at(8, 1), at(1, 4), at(1, 8)];
    let mut cases = Vec::new();
    for (store, base, gain) in [("raven", 1.0, 3.1), ("pg", 2.0, 1.5)] {
        for (nth, values) in values.iter().enumerate() {
            let import = if (1..3).contains(&nth) { base * gain } else { base };
            let export = if store == "pg" && nth > 2 { base * 2.0 } else { base };
            cases.push((store, values, vec![import, export]));
        }
    }
    let cases: Vec<Case<'_>> = cases.iter().map(|(store, values, speeds)| tasks_case(store, values, speeds)).collect();
    let mut run = study(&["import", "export"], &cases);
    let asked = |trial: &TrialResult, path: &str| trial.values[path].as_u64().unwrap_or(0) as u32;
    copy(&mut run, "import", "copy-in", |trial| {
        let asked = asked(trial, "phases.import.tasks");
        TasksResult { asked, at_once: asked, parts: 32 }
    });
    copy(&mut run, "export", "copy-out", |trial| {
        let asked = asked(trial, "phases.export.tasks");
        let (at_once, parts) = if trial.store == "raven" { (1, 1) } else { (asked, 32) };
        TasksResult { asked, at_once, parts }
    });
    assert_eq!(
        found(run),
        "Import into raven grows 3.11 times (95 % interval 3.07 to 3.16) from 1 to 4 tasks, to 1,559 docs/s, \
         and no further; export out of raven ran 1 task at a time, because the source gave 1 part only, so \
         that more tasks could not matter: 503 docs/s (494 to 512). Import into pg grows 1.49 times (1.44 to \
         1.53) from 1 to 4 tasks, to 1,502 docs/s, and no further; export out of pg grows 2.00 times from 1 \
         to 4 tasks, to 2,003 docs/s, and no further. Each store at its best values: raven is ahead in \
         import: 1,565 docs/s, 1.04 times (1.02 to 1.05) as many as pg (1,508 docs/s). pg is ahead in export: \
         2,011 docs/s, 3.98 times (3.92 to 4.04) as many as raven (505 docs/s)."
    );
}

#[test]
fn what_falls_in_a_pair_but_not_among_all_pairs_is_not_clear() {
    let at = |workers: u32| [("phases.insert.workers", json!(workers))];
    let values = [at(2), at(4), at(8), at(16)];
    let cases: Vec<Case<'_>> = values.iter().map(|values| Case { store: "couch", values, speeds: &[2.0] }).collect();
    let mut run = study(&["insert"], &cases);
    for trial in &mut run.trials {
        let times = match (trial.configuration.as_str(), trial.round) {
            ("couch workers=4", round) => [0.654, 0.719, 0.79][round as usize - 1],
            ("couch workers=2", _) => 1.0,
            (_, round) => [0.957, 0.97, 0.984][round as usize - 1],
        };
        let mut of = TrialResult { phases: trial.phases.drain(1..).collect(), ..TrialResult::default() };
        fixture::speed(&mut of, times);
        trial.phases.extend(of.phases);
    }
    let told = found(run);
    assert!(told.contains("does not clearly change from 2 to 4 workers (0.7"), "{told}");
}

#[test]
fn an_insert_is_judged_by_each_of_its_factors() {
    let at = |batch: u32, workers: u32, stored: u32| {
        [
            ("phases.insert.batch", json!(batch)),
            ("phases.insert.workers", json!(workers)),
            ("collections.stored.count", json!(stored)),
        ]
    };
    let values = [at(1_000, 2, 20_000), at(10, 2, 20_000), at(1_000, 16, 20_000), at(1_000, 2, 60_000)];
    let speeds = [[2.0], [0.5], [2.0], [1.2]];
    let cases: Vec<Case<'_>> =
        values.iter().zip(&speeds).map(|(values, speeds)| Case { store: "couch", values, speeds }).collect();
    assert_eq!(
        found(study(&["insert"], &cases)),
        "Insert on couch grows 3.98 times (95 % interval 3.95 to 4.02) from batch = 10 to 1,000, to 2,003 \
         ops/s, the highest value measured; it stays at 2,003 ops/s from 2 to 16 workers (1.01 times, 0.991 to \
         1.03); it falls to 0.600 times (0.600 to 0.600) from stored.count = 20,000 to 60,000, to 1,202 ops/s."
    );
}

#[test]
fn two_stores_that_differ_in_one_option_are_judged_by_it() {
    let mut run = study(
        &["overwrite", "random", "mixed"],
        &[
            Case { store: "small", values: &[], speeds: &[1.0, 1.0, 2.0] },
            Case { store: "large", values: &[], speeds: &[1.5, 1.0, 1.6] },
        ],
    );
    for trial in &mut run.trials {
        trial.url =
            format!("sqlite:{}.db?cache={}", trial.store, if trial.store == "small" { "2MiB" } else { "256MiB" });
    }
    assert_eq!(
        found(run.clone()),
        "cache=256MiB (large) instead of cache=2MiB (small): 1.51 times (95 % interval 1.50 to 1.51) as many \
         ops/s in overwrite (1,508 against 1,002) and 0.794 times (0.786 to 0.802) as many ops/s in mixed \
         (1,603 against 2,019); no clear difference in random (1.00 times, 0.999 to 1.01)."
    );
    // Two servers that differ in their address only.
    run.trials.iter_mut().for_each(|trial| trial.url = format!("postgres://{}/x", trial.store));
    assert!(found(run).starts_with("large is ahead in overwrite: 1,"));
}

#[test]
fn a_setting_of_one_store_is_judged_by_what_it_changes() {
    let (lz4, none) = ([("store.compression", json!("lz4"))], [("store.compression", json!("none"))]);
    let run = study(
        &["overwrite", "random"],
        &[
            Case { store: "fjall", values: &lz4, speeds: &[1.0, 1.0] },
            Case { store: "fjall", values: &none, speeds: &[1.5, 1.0] },
        ],
    );
    assert_eq!(
        found(run),
        "Overwrite on fjall does 1.51 times (95 % interval 1.50 to 1.51) as many ops/s with compression = \
         none (1,508 ops/s), against lz4 (1,002 ops/s); random on fjall does not change with compression = \
         none (1.00 times, 0.999 to 1.01), against lz4 (1,006 ops/s)."
    );
}

fn limited(phase: &mut PhaseResult, per_s: u64, met: bool, found_ns: f64) {
    phase.rate = Some(RateResult { planned: per_s.into(), ..RateResult::default() });
    phase.limits = vec![LimitResult {
        path: format!("{}.response.p99", phase.name),
        limit: 200e6,
        found: Some(found_ns),
        share_within: Some(0.99),
        attempts: 1_000,
        met,
    }];
}

#[test]
fn given_rates_are_judged_by_the_limits_store_by_store() {
    let rate = |per_s: u32| [("phases.*.rate", json!(per_s))];
    let rates = [rate(250), rate(1_000), rate(5_000)];
    let stores = ["raven", "couchbase"];
    let cases: Vec<Case<'_>> = stores
        .iter()
        .flat_map(|store| rates.iter().map(|values| Case { store, values, speeds: &[1.0, 1.0] }))
        .collect();
    let mut run = study(&["by-key", "by-user"], &cases);
    for trial in &mut run.trials {
        let per_s = trial.values["phases.*.rate"].as_u64().unwrap_or(0);
        let slow = trial.store == "raven" && per_s > 250 && trial.round > 1;
        limited(&mut trial.phases[1], per_s, true, 12e6);
        limited(&mut trial.phases[2], per_s, !slow, if slow { 900e6 } else { 34e6 });
    }
    assert_eq!(
        found(run),
        "raven met every limit (p99 ≤ 200 ms in by-key and by-user) up to 250/s in all 3 trials (nearest to \
         its limit: by-user.response.p99 34.0 ms), but not at 1,000/s: by-user.response.p99 was missed in 2 \
         of 3 trials; couchbase met every limit up to 5,000/s, the highest rate tried, in all 3 trials \
         (nearest to its limit: by-user.response.p99 34.0 ms)."
    );
}

/// A store that failed before the phases with limits is no store without a rate, and its rates count as tried.
#[test]
fn rates_that_failed_were_tried() {
    let rate = |per_s: u32| [("phases.*.rate", json!(per_s))];
    let rates = [rate(250), rate(1_000)];
    let cases: Vec<Case<'_>> = ["pg", "raven"]
        .iter()
        .flat_map(|store| rates.iter().map(|values| Case { store, values, speeds: &[1.0] }))
        .collect();
    let mut run = study(&["by-key"], &cases);
    for trial in &mut run.trials {
        let per_s = trial.values["phases.*.rate"].as_u64().unwrap_or(0);
        limited(&mut trial.phases[1], per_s, true, 12e6);
        if trial.store == "pg" || per_s > 250 {
            trial.phases.truncate(1);
            let message = "too many clients".to_owned();
            trial.failure = Some(Failure { during: "by-key".into(), message, ..Failure::default() });
        }
    }
    assert_eq!(
        found(run),
        "raven met every limit (p99 ≤ 200 ms in by-key) up to 250/s in all 3 trials (nearest to its limit: \
         by-key.response.p99 12.0 ms), but not at 1,000/s: 3 of 3 trials did not complete. pg failed in \
         by-key (6 of 6 trials): too many clients. Before that it did 10.0 k docs/s in load. raven rate=1000 \
         failed in by-key (3 of 3 trials): too many clients. Before that it did 10.0 k docs/s in load."
    );
}

/// A store that leaves out phases with limits has not met those limits.
#[test]
fn limits_of_phases_that_were_left_out_are_not_met() {
    let rate = [("phases.*.rate", json!(250))];
    let cases = ["pg", "redis"].map(|store| Case { store, values: &rate, speeds: &[1.0, 1.0] });
    let mut run = study(&["by-key", "by-user"], &cases);
    for trial in &mut run.trials {
        limited(&mut trial.phases[1], 250, true, 12e6);
        limited(&mut trial.phases[2], 250, true, 34e6);
        trial.phases.truncate(if trial.store == "redis" { 2 } else { 3 });
    }
    let why = "does not support `page`".to_owned();
    let out = LeftOut { phase: Some("by-user".into()), operation: None, what: "phase `by-user`".into(), why };
    let leaves_out =
        |store: &str| PlannedConfiguration { store: store.into(), left_out: vec![out.clone()], ..Default::default() };
    run.run.study = json!({ "limits": { "by-key.response.p99": "200ms", "by-user.response.p99": "200ms" } });
    run.plan.configurations = vec![leaves_out("redis")];
    assert_eq!(
        found(run.clone()),
        "pg met every limit (p99 ≤ 200 ms in by-key and by-user) at 250/s in all 3 trials (nearest to its limit: \
         by-user.response.p99 34.0 ms); redis met every limit but those of by-user, which it leaves out, at 250/s in all \
         3 trials (nearest to its limit: by-key.response.p99 12.0 ms). Left out on redis: phase `by-user`, because it \
         does not support `page`."
    );
    // The limits of a phase that every store leaves out are in no phase.
    run.trials.iter_mut().for_each(|trial| trial.phases.truncate(2));
    run.plan.configurations = ["pg", "redis"].map(leaves_out).into();
    let found = found(run);
    for store in ["pg met every limit (p99 ≤ 200 ms in by-key)", "redis met every limit"] {
        assert!(found.contains(&format!("{store} but those of by-user, which it leaves out, at 250/s")), "{found}");
    }
}

const PRICES: &str = r#"
currency = "USD"
source   = "a test"
date     = "2026-11-22"

[nodes.small]
per_hour = 0.5

[stores.couch]
node  = "small"
nodes = 2
"#;

fn prices() -> PriceSheet {
    PriceSheet::parse(PRICES, std::path::Path::new("prices.toml")).unwrap()
}

#[test]
fn a_search_tells_the_rate_and_the_price_of_each_payload() {
    let payload = |ratio: f64| [("collections.items.compress_to", json!(ratio))];
    let (half, most) = (payload(0.5), payload(0.75));
    let mut run = study(
        &["steady"],
        &[
            Case { store: "couch", values: &half, speeds: &[1.0] },
            Case { store: "couch", values: &most, speeds: &[1.0] },
        ],
    );
    for trial in &mut run.trials {
        let rate =
            if trial.configuration.ends_with("=0.5") { 20_000.0 } else { 10_000.0 } + 50.0 * f64::from(trial.round);
        let phase = &mut trial.phases[1];
        phase.ops.shift_remove("read");
        limited(phase, rate as u64, true, 30e6);
        trial.searches = vec![SearchResult {
            phase: "steady".into(),
            rate: Some(rate),
            fails_at: Some(rate * 1.02),
            ..SearchResult::default()
        }];
    }
    assert_eq!(
        found(run.clone()),
        "couch reaches 20.1 k/s (95 % interval 20.1 k to 20.5 k) within the limits of steady (p99 ≤ 200 ms) \
         with items.compress_to = 0.5, and 10.1 k/s (10.0 k to 10.4 k) with items.compress_to = 0.75. couch \
         compress_to=0.5 is ahead: 1.99 times (1.95 to 2.03) as many as couch compress_to=0.75."
    );
    let sheet = prices();
    run.cost = Some(CostResult::unmeasured(sheet));
    assert_eq!(
        found(run),
        "couch reaches 20.1 k/s (95 % interval 20.1 k to 20.5 k) within the limits of steady (p99 ≤ 200 ms) \
         with items.compress_to = 0.5, at USD 0.01382 (0.01355 to 0.01382) for a million writes, or USD 49.75 \
         an hour for a million a second, and 10.1 k/s (10.0 k to 10.4 k) with items.compress_to = 0.75, at \
         USD 0.02750 (0.02683 to 0.02764), or USD 99.01 an hour. couch compress_to=0.5 is ahead: 1.99 times \
         (1.95 to 2.03) as many as couch compress_to=0.75."
    );
}

#[test]
fn prices_are_part_of_every_answer() {
    let mut run = study(
        &["mixed"],
        &[Case { store: "couch", values: &[], speeds: &[1.0] }, Case { store: "free", values: &[], speeds: &[2.0] }],
    );
    run.cost = Some(CostResult::unmeasured(prices()));
    assert_eq!(
        found(run),
        "free is ahead in mixed: 2,011 ops/s, 2.01 times (95 % interval 2.00 to 2.02) as many as couch (1,002 \
         ops/s). In mixed, a million operations cost USD 0.2773 (0.2701 to 0.2847) on couch."
    );
}

#[test]
fn what_a_cost_lacks_is_said_in_the_answer() {
    let run = |speed: f64| study(&["mixed"], &[Case { store: "free", values: &[], speeds: &[speed] }]);
    let mut unpriced = run(1.0);
    unpriced.cost = Some(CostResult::unmeasured(prices()));
    let told = found(unpriced);
    assert!(told.contains("What it costs is unknown: no price for free: add [stores.NAME]"), "{told}");
    let mut missed = study(&["mixed"], &[Case { store: "couch", values: &[], speeds: &[1.0] }]);
    missed.trials.iter_mut().for_each(|trial| limited(&mut trial.phases[1], 1_000, false, 300e6));
    missed.cost = Some(CostResult::unmeasured(PriceSheet { rate: Some(Count(900)), ..prices() }));
    let told = found(missed);
    assert!(
        told.contains(
            "No rate met the limits; at the measured rates they missed, in mixed, a million operations cost USD "
        ),
        "{told}"
    );
    let mut yours = study(&["mixed"], &[Case { store: "couch", values: &[], speeds: &[1.0] }]);
    yours.cost = Some(CostResult::unmeasured(PriceSheet { rate: Some(Count(250)), ..prices() }));
    let told = found(yours);
    assert!(told.ends_with("At your rate of 250/s, a million operations cost USD 1.11 on couch."), "{told}");
}

#[test]
fn a_failed_configuration_hides_no_other() {
    let mut run = study(
        &["mixed"],
        &[Case { store: "pg", values: &[], speeds: &[1.0] }, Case { store: "redis", values: &[], speeds: &[2.0] }],
    );
    for trial in run.trials.iter_mut().filter(|trial| trial.store == "pg") {
        trial.phases.truncate(1);
        trial.failure =
            Some(Failure { during: "mixed".into(), message: "connection refused".into(), ..Failure::default() });
    }
    assert_eq!(
        found(run.clone()),
        "redis: 2,011 ops/s (95 % interval 1,961 to 2,063) in mixed. pg failed in mixed (3 of 3 trials): \
         connection refused. Before that it did 10.0 k docs/s in load."
    );
    // Not even one that failed after it had finished all phases.
    for trial in run.trials.iter_mut().filter(|trial| trial.store == "redis") {
        trial.failure = Some(Failure { during: "close".into(), message: "it ended".into(), ..Failure::default() });
    }
    assert_eq!(
        found(run),
        "No trial completed. pg failed in mixed (3 of 3 trials): connection refused. Before that it did 10.0 \
         k docs/s in load. redis failed in close (3 of 3 trials): it ended. Before that it did 2,004 ops/s in \
         mixed."
    );
}

#[test]
fn totals_of_different_operations_are_not_compared() {
    let mut run = study(
        &["mixed"],
        &[Case { store: "pg", values: &[], speeds: &[1.0] }, Case { store: "redis", values: &[], speeds: &[70.0] }],
    );
    for trial in run.trials.iter_mut().filter(|trial| trial.store == "redis") {
        trial.phases[1].ops.shift_remove("update");
    }
    let run = concluded(run);
    assert_eq!(
        found(run.clone()),
        "redis leaves out update in mixed. Totals are not compared in mixed: redis does 35.2 k ops/s of read \
         and pg does 1,002 ops/s of read and update; the service time p99 of read is 2.94 µs on redis and \
         69.3 µs on pg."
    );
    assert!(answer(&run).trust.contains("redis leaves out update"), "{}", answer(&run).trust);
}

/// Whatever is measured, fails or is missing: every store is named, and every number is one.
#[test]
fn every_store_is_named_and_every_number_is_one() {
    let names = ["ant", "bee", "cat", "dog"];
    let speeds = [1e-9, 0.0, 1.0, 1.000_001, 1e9];
    let (one, four) = ([("phases.mixed.workers", json!(1))], [("phases.mixed.workers", json!(4))]);
    for seed in (0..600_usize).step_by(4) {
        let pick = |nth: usize, of: usize| (seed / 5_usize.pow(nth as u32 % 4) + 7 * nth) % of;
        let stores = &names[..1 + pick(0, 4)];
        let speeds: Vec<[f64; 2]> = (0..8).map(|nth| [speeds[pick(nth, 5)], speeds[pick(nth + 1, 5)]]).collect();
        let values: &[&[(&str, Value)]] = if pick(1, 2) == 0 { &[&[]] } else { &[&one, &four] };
        let cases: Vec<Case<'_>> = stores
            .iter()
            .flat_map(|store| values.iter().map(move |values| (store, *values)))
            .zip(&speeds)
            .map(|((store, values), speeds)| Case { store, values, speeds })
            .collect();
        let mut run = study(&["mixed", "again"], &cases);
        run.trials.retain(|trial| trial.round as usize <= 1 + pick(2, 3));
        for trial in run.trials.iter_mut().filter(|trial| trial.store == stores[pick(3, stores.len())]) {
            match pick(4, 6) {
                0 => trial.failure = Some(Failure { during: "again".into(), ..Failure::default() }),
                1 => drop(trial.phases[1].ops.shift_remove("update")),
                2 => trial.phases[2].partial = Some("interrupted".into()),
                3 => trial.phases.truncate(2),
                4 => limited(&mut trial.phases[1], 250, trial.round > 1, 1e6),
                _ => {}
            }
        }
        found(run);
    }
}
