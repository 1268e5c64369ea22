//! Every check at both sides of each of its thresholds.

use super::*;
use storebench_core::measure::{Interval, PhaseRecord, Recorder};

use crate::results::fixture;
use crate::results::{Failure, LedgerResult, Percentiles, PhaseResult, RunResult, WorkerUseResult};

/// A run with one open-loop phase in which all is well, changed by `change`.
fn open(change: impl FnOnce(&mut PhaseResult)) -> RunResult {
    let mut result = fixture::run_of(&[fixture::open_loop()]);
    change(&mut result.trials[0].phases[0]);
    result
}

/// The same in closed loop.
fn closed(change: impl FnOnce(&mut PhaseResult)) -> RunResult {
    let mut result = fixture::run_of(&[fixture::closed_loop()]);
    let phase = &mut result.trials[0].phases[0];
    for op in phase.ops.values_mut() {
        op.errors = 0;
    }
    change(phase);
    result
}

fn separate(mut result: RunResult) -> RunResult {
    let trial = &mut result.trials[0];
    trial.embedded = false;
    trial.url = "couch://db.example.org/x".into();
    result
}

fn embedded(scheme: &str, own_us: f64, all_us: f64, busy: f64) -> RunResult {
    let mut result = closed(|p| {
        p.client.cpu_us_per_op = Some(own_us);
        p.client.process_cpu_us_per_op = Some(all_us);
        p.client.busiest_worker_share = busy;
    });
    result.trials[0].url = format!("{scheme}:x");
    result
}

fn all(result: &RunResult, check: &str) -> Vec<Verdict> {
    judge(result).into_iter().filter(|v| v.check == check).collect()
}

fn level(result: &RunResult, check: &str) -> Option<Level> {
    let found = all(result, check);
    for v in &found {
        assert!(!v.saw.is_empty() && !v.threshold.is_empty(), "{v:?}");
        assert_eq!(v.advice.is_empty(), v.level == Level::Pass, "{v:?}");
    }
    found.into_iter().map(|v| v.level).max()
}

const PASS: Option<Level> = Some(Level::Pass);
const NOTE: Option<Level> = Some(Level::Note);
const CAUTION: Option<Level> = Some(Level::Caution);
const INVALID: Option<Level> = Some(Level::Invalid);

#[test]
fn client_saturated_on_an_embedded_store() {
    for (own, scheme, busy, expected) in [
        (2.5, "sqlite", 0.9, PASS),
        (2.6, "sqlite", 0.9, CAUTION),
        (6.0, "sqlite", 0.9, CAUTION),
        (6.1, "sqlite", 0.9, INVALID),
        (12.0, "sqlite", 0.9, INVALID),
        (9.0, "sqlite", 0.49, NOTE),
        (9.0, "memory", 0.9, CAUTION),
        (9.0, "slow+memory", 0.9, CAUTION),
        (9.0, "null", 0.9, NOTE),
        (1.0, "null", 0.9, NOTE),
    ] {
        let result = embedded(scheme, own, 10.0, busy);
        assert_eq!(level(&result, "client-saturated"), expected, "{scheme} {own} {busy}");
    }
    let mut unknown = embedded("sqlite", 1.0, 10.0, 0.9);
    unknown.trials[0].phases[0].client.cpu_us_per_op = None;
    assert_eq!(level(&unknown, "client-saturated"), None);
}

#[test]
fn client_saturated_beside_a_store_of_its_own() {
    for (busy, expected) in [(0.70, PASS), (0.71, CAUTION), (0.90, CAUTION), (0.91, INVALID)] {
        let result = separate(closed(|p| p.client.busiest_worker_share = busy));
        assert_eq!(level(&result, "client-saturated"), expected, "{busy}");
    }
}

#[test]
fn client_saturated_when_it_is_kept_from_running() {
    for (late_s, expected) in [(0.6, PASS), (0.61, CAUTION), (3.0, CAUTION), (3.1, INVALID)] {
        let result = separate(closed(|p| {
            p.client.busiest_worker_share = 0.1;
            p.client.starved_s = late_s;
        }));
        assert_eq!(level(&result, "client-saturated"), expected, "{late_s}");
    }
    // Whatever the store: also null is not exempt from this.
    let mut null = embedded("null", 1.0, 1.0, 0.9);
    null.trials[0].phases[0].client.starved_s = 11.0;
    assert_eq!(level(&null, "client-saturated"), INVALID);
}

#[test]
fn client_saturated_when_workers_queue_for_processors() {
    let queued = |cpu_s: f64, queue_s: f64, process_s: f64| {
        separate(closed(|p| {
            p.client.worker_use = vec![WorkerUseResult { wall_ns: 12_000_000_000, ..Default::default() }];
            p.client.busiest_worker_share = 0.1;
            (p.client.worker_cpu_s, p.client.run_queue_s) = (cpu_s, queue_s);
            p.client.process_cpu_s = Some(process_s);
        }))
    };
    assert_eq!(level(&queued(9.0, 2.4, 9.0), "client-saturated"), PASS);
    // Its own threads take turns on both processors: a matter of too many workers.
    assert_eq!(level(&queued(24.0, 24.0, 24.0), "client-saturated"), CAUTION);
    // A tenth of a processor, where it was always ready to use one.
    assert_eq!(level(&queued(1.2, 10.8, 1.2), "client-saturated"), INVALID);
    assert_eq!(level(&queued(4.0, 8.0, 4.0), "client-saturated"), CAUTION);
    // Short bursts beside a busy neighbour: a fifth of what was wanted, but mostly nothing was wanted.
    assert_eq!(level(&queued(1.0, 7.2, 1.0), "client-saturated"), CAUTION);
    assert_eq!(level(&queued(1.0, 7.3, 1.0), "client-saturated"), INVALID);
}

#[test]
fn client_shares_host() {
    let at = |url: &str| {
        let mut result = separate(closed(|_| ()));
        result.trials[0].url = url.into();
        level(&result, "client-shares-host")
    };
    assert_eq!(level(&closed(|_| ()), "client-shares-host"), NOTE);
    for here in ["a://localhost:8091/b", "a://127.0.0.1", "a://me:x@[::1]:80/b"] {
        assert_eq!(at(here), NOTE, "{here}");
    }
    for away in ["a://db.example.org:8091/localhost", "a://10.0.0.1"] {
        assert_eq!(at(away), PASS, "{away}");
    }
}

#[test]
fn schedule_slip() {
    for (slip_ns, response_ns, expected) in [
        (999_999, 1_000_000, PASS),
        (1_000_000, 10_000_001, PASS),
        (1_000_000, 10_000_000, CAUTION),
        (4_999_999, 10_000_000, CAUTION),
        (5_000_000, 10_000_000, INVALID),
        (1_000_000, 1_100_000, INVALID),
    ] {
        let result = open(|p| {
            p.client.slip_ns.p99 = Some(slip_ns);
            p.all.response_ns = Some(Percentiles { p99: Some(response_ns), ..Default::default() });
        });
        assert_eq!(level(&result, "schedule-slip"), expected, "{slip_ns} of {response_ns}");
    }
    assert_eq!(level(&closed(|_| ()), "schedule-slip"), None);
}

#[test]
fn too_few_connections() {
    for (wait_ns, held, busy, expected) in [
        (999_999, 1.0, 1.0, PASS),
        (1_000_000, 1.0, 0.5, CAUTION),
        (1_000_000, 1.0, 0.49, NOTE),
        (1_000_000, 0.95, 1.0, CAUTION),
        (1_000_000, 0.94, 1.0, PASS),
    ] {
        let result = open(|p| {
            p.slots_busy_share = busy;
            p.all.slot_wait_ns = Some(Percentiles { p99: Some(wait_ns), ..Default::default() });
            p.all.response_ns = Some(Percentiles { p99: Some(2_000_000), ..Default::default() });
            p.rate.as_mut().unwrap().held_share = held;
        });
        assert_eq!(level(&result, "too-few-connections"), expected, "{wait_ns} {held} {busy}");
    }
    assert_eq!(level(&closed(|_| ()), "too-few-connections"), None);
}

#[test]
fn rate_not_held() {
    for (held, censored, expected) in [(1.0, 0, PASS), (0.99, 120, PASS), (0.989, 0, CAUTION), (1.0, 121, CAUTION)] {
        let result = open(|p| {
            p.rate.as_mut().unwrap().held_share = held;
            p.ops[0].censored = censored;
        });
        assert_eq!(level(&result, "rate-not-held"), expected, "{held} {censored}");
    }
    assert_eq!(level(&closed(|_| ()), "rate-not-held"), None);
}

/// The phase of the fixture answers 12,000 within 12 s.
#[test]
fn a_rate_is_held_by_answers_in_the_time_of_the_schedule() {
    let seen = |change: fn(&mut PhaseRecord)| {
        let mut record = fixture::open_loop();
        (record.due, record.due_over_ns) = (Some(12_000), Some(12_000_000_000));
        change(&mut record);
        let result = fixture::run_of(&[record]);
        let rate = result.trials[0].phases[0].rate.clone().unwrap();
        (level(&result, "rate-not-held"), rate)
    };
    assert_eq!(seen(|r| r.due = Some(12_000)).0, PASS);
    // Counted: the schedule was over in a tenth of the time.
    let (found, rate) = seen(|r| r.due_over_ns = Some(1_200_000_000));
    assert_eq!((found, rate.due_per_s), (CAUTION, 10_000.0));
    // Everything was answered in the end, but half of it after the schedule was over.
    let (found, rate) = seen(|r| {
        (r.due, r.due_over_ns) = (Some(12_000), Some(6_000_000_000));
    });
    assert!(found == CAUTION && (0.49..0.51).contains(&rate.held_share), "{rate:?}");
    // Failing fast holds no rate.
    let (found, rate) = seen(|r| {
        for tally in &mut r.total.ops {
            tally.failed[0] += tally.succeeded;
            tally.succeeded = 0;
        }
    });
    assert!(found == CAUTION && rate.achieved_per_s == 0.0, "{rate:?}");
    // One operation that hangs through a long drain does not speak for all.
    let (found, rate) = seen(|r| {
        let last = r.intervals.len() as u64;
        r.intervals.push(Interval::new(last, 12_000_000_000, 22_000_000_000, &Recorder::new(2)));
        r.elapsed_ns = 22_000_000_000;
    });
    assert!(found == PASS && rate.held_share == 1.0, "{rate:?}");
}

#[test]
fn rate_not_held_is_a_finding_and_no_failure() {
    let mut result = open(|p| {
        p.rate.as_mut().unwrap().held_share = 0.4;
        p.ops[0].censored = 7_000;
    });
    result.verdicts = judge(&result);
    assert_eq!(exit_code(&result), 0, "{:#?}", result.verdicts);
}

#[test]
fn errors() {
    assert_eq!(level(&closed(|_| ()), "errors"), PASS);
    assert_eq!(level(&closed(|p| p.ops[1].errors = 1), "errors"), CAUTION);
    assert_eq!(level(&closed(|p| p.ops[1].errors = p.ops[1].count - 1), "errors"), CAUTION);
    assert_eq!(level(&closed(|p| p.ops[1].errors = p.ops[1].count), "errors"), INVALID);
    assert_eq!(level(&closed(|p| p.ops.values_mut().for_each(|op| op.count = 0)), "errors"), INVALID);
    assert_eq!(level(&open(|p| (p.ops[1].count, p.ops[1].censored) = (0, 9)), "errors"), CAUTION);
    let failed_or_unanswered = open(|p| (p.ops[1].count, p.ops[1].errors, p.ops[1].censored) = (3, 3, 9));
    assert_eq!(level(&failed_or_unanswered, "errors"), INVALID);
}

#[test]
fn misses() {
    let count = 6_000;
    let of = |misses: u64| closed(|p| (p.ops[0].count, p.ops[0].misses) = (count, misses));
    assert_eq!(level(&of(0), "misses"), PASS);
    assert_eq!(level(&of(1), "misses"), NOTE);
    assert_eq!(level(&of(60), "misses"), NOTE);
    assert_eq!(level(&of(61), "misses"), CAUTION);
    let mut deletes = of(3_000);
    deletes.trials[0].phases[0].ops[1].kind = "delete".into();
    assert_eq!(level(&deletes, "misses"), NOTE);
}

#[test]
fn wrong_content() {
    assert_eq!(level(&closed(|_| ()), "wrong-content"), PASS);
    assert_eq!(level(&closed(|p| p.ops[0].checked = 0), "wrong-content"), NOTE);
    let mut wrong = closed(|p| p.ops[0].wrong = 1);
    assert_eq!(level(&wrong, "wrong-content"), INVALID);
    wrong.verdicts = judge(&wrong);
    assert_eq!(exit_code(&wrong), 1);
    let writes = closed(|p| {
        p.ops.shift_remove("read");
    });
    assert_eq!(level(&writes, "wrong-content"), None);
}

#[test]
fn lost_writes() {
    let with = |lost, unverifiable| {
        closed(|p| p.ledger = Some(LedgerResult { keys: 9, confirmed: 9, lost, unverifiable, ..Default::default() }))
    };
    assert_eq!(level(&closed(|_| ()), "lost-writes"), None);
    assert_eq!(level(&with(0, 0), "lost-writes"), PASS);
    for mut result in [with(1, 0), with(0, 1)] {
        assert_eq!(level(&result, "lost-writes"), INVALID);
        result.verdicts = judge(&result);
        assert_eq!(exit_code(&result), 1);
    }
}

#[test]
fn few_distinct_keys() {
    for (keys, operations, expected) in [
        (1_000, 50_000, PASS),
        (999, 50_000, CAUTION),
        (100, 200, PASS),
        (99, 200, CAUTION),
        (10_000, 1_000_000, PASS),
        (9_999, 1_000_000, CAUTION),
    ] {
        let result = closed(|p| {
            p.documents.distinct_keys = keys;
            (p.ops[0].count, p.ops[1].count) = (operations, 0);
        });
        assert_eq!(level(&result, "few-distinct-keys"), expected, "{keys} in {operations}");
    }
    assert_eq!(level(&closed(|p| p.loads = true), "few-distinct-keys"), None);
}

#[test]
fn compressible_payload() {
    let with = |page: f64, own: bool| {
        let mut result = closed(|_| ());
        result.documents[0].own = own;
        result.documents[0].compression.as_mut().unwrap().page_zstd3 = page;
        level(&result, "compressible-payload")
    };
    assert_eq!(with(0.25, false), PASS);
    assert_eq!(with(0.249, false), CAUTION);
    assert_eq!(with(0.01, true), NOTE);
}

#[test]
fn too_short() {
    for (sent_ns, count, expected) in [
        (10_000_000_000, 100_000, PASS),
        (9_998_000_000, 100_000, CAUTION),
        (10_000_000_000, 99_999, NOTE),
        (10_000_000_000, 1_000, NOTE),
        (10_000_000_000, 999, CAUTION),
    ] {
        let result = closed(|p| {
            p.sending_ns = sent_ns;
            p.ops.shift_remove("update");
            p.ops[0].count = count;
            p.ops[0].service_ns.count = count;
        });
        assert_eq!(level(&result, "too-short"), expected, "{sent_ns} ns, {count}");
    }
    assert_eq!(level(&closed(|p| p.loads = true), "too-short"), None);
}

#[test]
fn single_run_and_closed_loop() {
    let mut result = closed(|_| ());
    assert_eq!(level(&result, "single-run"), NOTE);
    result.plan.repeats = 2;
    assert_eq!(level(&result, "single-run"), PASS);
    assert_eq!(level(&result, "closed-loop-latency"), NOTE);
    assert_eq!(level(&open(|_| ()), "closed-loop-latency"), PASS);
}

#[test]
fn what_ended_early_says_so() {
    assert_eq!(level(&closed(|_| ()), "partial-run"), None);
    assert_eq!(level(&closed(|p| p.partial = Some("interrupted".into())), "partial-run"), CAUTION);
}

#[test]
fn warm_ups_are_judged_only_for_what_they_lost() {
    let result = closed(|p| {
        p.warm_up = true;
        p.ops[0].errors = p.ops[0].count;
        p.ops[0].wrong = 1;
    });
    let phase: Vec<String> = judge(&result).into_iter().filter(|v| v.phase.is_some()).map(|v| v.check).collect();
    assert_eq!(phase, ["wrong-content"]);
}

#[test]
fn exit_codes_in_order_of_weight() {
    let mut result = closed(|_| ());
    result.verdicts = judge(&result);
    assert_eq!(exit_code(&result), 0);
    result.verdicts[0].level = Level::Invalid;
    assert_eq!(exit_code(&result), 4);
    result.run.interrupted = true;
    assert_eq!(exit_code(&result), 130);
    for (kind, code) in [("failed", 1), ("unreachable", 3), ("not-ours", 2), ("bad-url", 2), ("not-supported", 2)] {
        result.trials[0].failure = Some(Failure { kind: kind.into(), ..Default::default() });
        assert_eq!(exit_code(&result), code, "{kind}");
    }
    result.trials[0].failure = Some(Failure { kind: "unreachable".into(), ..Default::default() });
    result.trials[0].phases[0].ops[0].wrong = 1;
    assert_eq!(exit_code(&result), 1);
}

/// What the demo measures on two cores: closed loop, both workers busy, taking turns with the
/// store's own threads.
#[test]
fn a_saturating_embedded_run_is_not_invalid() {
    let mut result = fixture::run_of(&[fixture::load(), fixture::closed_loop()]);
    for phase in &mut result.trials[0].phases {
        let client = &mut phase.client;
        client.busiest_worker_share = 0.97;
        client.cpu_us_per_op = Some(0.5);
        client.process_cpu_us_per_op = Some(8.0);
        client.worker_cpu_s = phase.elapsed_ns as f64 / 1e9 * 1.4;
        client.run_queue_s = phase.elapsed_ns as f64 / 1e9 * 0.6;
        client.process_cpu_s = Some(phase.elapsed_ns as f64 / 1e9 * 1.9);
    }
    result.verdicts = judge(&result);
    assert_eq!(exit_code(&result), 0, "{:#?}", result.verdicts);
    assert_eq!(level(&result, "client-shares-host"), NOTE);
}

#[test]
fn full_scan() {
    use crate::results::QueryPlanResult;
    let with = |plans: &[(&str, Option<&str>, &str, bool)]| {
        let mut result = open(|p| {
            for (op, field, plan, full_scan) in plans {
                p.ops[*op].query_plan = Some(QueryPlanResult {
                    field: field.map(str::to_owned),
                    plan: (*plan).to_owned(),
                    full_scan: *full_scan,
                });
            }
        });
        result.trials[0].phases[0].ops.values_mut().for_each(|op| op.collection = "books".into());
        result
    };
    let seek = "SEARCH books USING INDEX books.author (<expr>=?)";
    assert_eq!(level(&with(&[]), "full-scan"), None);
    assert_eq!(level(&with(&[("read", Some("author"), seek, false)]), "full-scan"), PASS);
    let scanned = with(&[("read", Some("author"), seek, false), ("update", Some("title"), "\n  SCAN books", true)]);
    assert_eq!(level(&scanned, "full-scan"), CAUTION);
    let verdict = &all(&scanned, "full-scan")[0];
    assert_eq!(verdict.saw, "update reads all of `books` (SCAN books)");
    assert!(verdict.advice.contains("index = [[\"title\"]] to collections.books"), "{}", verdict.advice);
    let mut theirs = scanned.clone();
    theirs.documents[0].existing = Some("library".into());
    assert!(all(&theirs, "full-scan")[0].advice.contains("make an index over `title` in the store"));
    let by_key = with(&[("read", None, "", true)]);
    assert_eq!(level(&by_key, "full-scan"), CAUTION);
    assert!(all(&by_key, "full-scan")[0].saw.contains("no plan was told"));
}
