//! Writers that keep a ledger, under a fake clock: which keys they write, and what they wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use super::clock::{Clock, FakeClock};
use super::maker::{Maker, More};
use super::plan::PhasePlan;
use super::simulated::{STUDY, near, simulate_on, study};
use crate::ledger::{KeyState, TrialLedger};
use crate::store::{Completions, ErrorKind, MemoryStore, Op, OpError, Reply, Request, Session, Store, Token};

/// The study with a ledger and this mix.
pub(super) fn text(mix: &str) -> String {
    STUDY.replace("{ read = 1 }", &format!("{mix}\nledger = true\nstreams = \"disjoint\""))
}

/// The answer to an operation, and its delay in ns; `None` if it is never answered.
pub(super) type Answer = fn(nth: u64, op: &Op<'_>) -> Option<(u64, Result<(), ErrorKind>)>;

/// What a session has seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Writes of each key that are in flight or have an unknown outcome.
    open: BTreeMap<String, u32>,
    /// The most open writes of one key.
    pub(super) most: u32,
    reads: u64,
    /// The most steps of one transaction that were about the same document.
    pub(super) repeated: usize,
}

/// A scheduled answer: when, to which request, of which keys, and the result.
type Flying = (u64, Token, Vec<String>, Result<(), ErrorKind>);

struct Scripted {
    clock: FakeClock,
    answer: Answer,
    nth: u64,
    seen: Arc<Mutex<Seen>>,
    /// The keys of the steps of the last transaction.
    steps: Vec<String>,
    flying: Vec<Flying>,
}

impl Session for Scripted {
    fn submit(&mut self, request: &Request<'_>, token: Token, _: &mut dyn Completions) {
        let keys: Vec<String> = match request.op {
            Op::Upsert { key, .. } | Op::Delete { key } | Op::CompareAndSwap { key, .. } => vec![key.to_owned()],
            Op::BulkWrite { items, .. } => items.iter().map(|(key, _)| key.to_owned()).collect(),
            Op::Transaction { steps, .. } => {
                let keys = steps.iter().filter(|step| step.writes()).map(|step| step.key.clone());
                keys.collect()
            }
            _ => Vec::new(),
        };
        let steps = if let Op::Transaction { steps, .. } = request.op { steps } else { &[] };
        let same = steps.iter().map(|step| steps.iter().filter(|other| other.key == step.key).count());
        let same = same.max().unwrap_or(0);
        self.steps = steps.iter().map(|step| step.key.clone()).collect();
        let mut seen = self.seen.lock().unwrap();
        seen.repeated = seen.repeated.max(same);
        seen.reads += u64::from(matches!(request.op, Op::Read { .. }));
        for key in &keys {
            let open = seen.open.entry(key.clone()).or_insert(0);
            *open += 1;
            let open = *open;
            seen.most = seen.most.max(open);
        }
        let answer = (self.answer)(self.nth, &request.op);
        self.nth += 1;
        if let Some((after_ns, result)) = answer {
            self.flying.push((self.clock.now_ns() + after_ns, token, keys, result));
        }
    }

    fn poll(&mut self, _: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        let now = self.clock.now_ns();
        let (scheduled, later) = std::mem::take(&mut self.flying).into_iter().partition(|(at, ..)| *at <= now);
        self.flying = later;
        let scheduled: Vec<_> = scheduled;
        for (_, token, keys, result) in scheduled {
            for key in &keys {
                *self.seen.lock().unwrap().open.get_mut(key).unwrap() -= 1;
            }
            // Documents whose key ends with 7 are not there.
            let found = |key: &String| u32::from(!key.ends_with('7'));
            let steps: Vec<u32> = self.steps.iter().map(found).collect();
            let reply = Reply { documents: 1, revision: Some(b"1"), steps: &steps, ..Reply::default() };
            out.complete(token, result.map(|()| reply).map_err(|kind| OpError::new(kind, "as scripted")));
        }
        Poll::Pending
    }

    fn wake_at_ns(&self) -> Option<u64> {
        self.flying.iter().map(|(at, ..)| *at).min()
    }
}

pub(super) fn run(mix: &str, overrides: &[&str], answer: Answer) -> (super::simulated::Run, Seen) {
    run_text(&text(mix), overrides, answer)
}

pub(super) fn run_text(text: &str, overrides: &[&str], answer: Answer) -> (super::simulated::Run, Seen) {
    let clock = FakeClock::new();
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let session = Scripted {
        clock: clock.clone(),
        answer,
        nth: 0,
        seen: Arc::clone(&seen),
        steps: Vec::new(),
        flying: Vec::new(),
    };
    let run = simulate_on(&clock, text, overrides, 0, |_, _| session);
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    (run, seen)
}

const MS: u64 = 1_000_000;

#[test]
fn with_more_lanes_than_keys_no_key_has_two_open_writes() {
    for (mix, keys) in [("{ upsert = 1 }", 3), ("{ upsert = 2, delete = 1 }", 2), ("{ upsert = { batch = 3 } }", 7)] {
        let count = format!("collections.docs.count={keys}");
        let answer: Answer = |nth, _| Some((MS * (1 + nth % 3), Ok(())));
        let (run, seen) = run(mix, &[&count, "phases.phase.in_flight=16", "phases.phase.duration=1s"], answer);
        assert_eq!(seen.most, 1, "{mix}");
        assert!(run.report.partial.is_none(), "{mix}: {:?}", run.report.partial);
        assert!(run.record.ops[0].succeeded > 300, "{mix}: {}", run.record.ops[0].succeeded);
    }
}

/// A key whose writes take 10 ms takes 100 a second, and 1,000 a second are scheduled. Waiting for the key counts as
/// waiting for the store: each operation counts from its scheduled start, and none is left out.
#[test]
fn a_write_that_waits_for_a_key_counts_from_its_scheduled_start() {
    let overrides = ["collections.docs.count=1", "phases.phase.in_flight=16", "phases.phase.rate=1000"];
    let (run, seen) = run("{ upsert = 1 }", &overrides, |_, _| Some((10 * MS, Ok(()))));
    let tally = &run.record.ops[0];
    assert_eq!((seen.most, tally.errors()), (1, 0));
    near(tally.succeeded as f64, 1_000.0);
    assert_eq!(tally.succeeded + tally.unfinished, 10_000, "every scheduled operation is counted");
    assert_eq!(tally.response.len(), 10_000);
    // Answered: 9 t for t up to 1 s. Due but not sent: 10 s − t.
    near(tally.response.max() as f64, 9e9);
    near(tally.client_queueing.max() as f64, 9e9);
    assert!(run.record.send_delay.max() <= 1_000, "not the client's lateness: {}", run.record.send_delay.max());
    assert!(run.ended_ns < 10_020_000_000);
}

/// A write that waits for a key is not replaced by a read.
#[test]
fn the_mix_stays_what_it_is_while_writes_wait_for_a_key() {
    let overrides = ["collections.docs.count=1", "phases.phase.in_flight=16"];
    let (run, _) = run("{ upsert = 1, read = 1 }", &overrides, |_, op| match op {
        Op::Read { .. } => Some((MS, Ok(()))),
        _ => Some((5 * MS, Ok(()))),
    });
    let [first, second] = [0, 1].map(|at| run.record.ops[at].succeeded as f64);
    assert!((first / (first + second) - 0.5).abs() < 0.04, "{first} and {second}");
}

#[test]
fn a_swap_whose_read_was_not_answered_has_written_nothing() {
    let overrides = ["collections.docs.count=1", "phases.phase.timeout=1s"];
    let (run, seen) = run("{ cas = 1 }", &overrides, |nth, _| (nth > 2).then_some((100 * MS, Ok(()))));
    let tally = &run.record.ops[0];
    assert!(run.report.partial.is_none(), "{:?}", run.report.partial);
    assert_eq!(tally.timed_out, 3);
    // A read and a swap of 100 ms each, for seven seconds.
    near(tally.succeeded as f64, 35.0);
    assert_eq!(seen.reads, 38);
    let entries: Vec<_> = run.report.ledger.as_ref().unwrap().entries().collect();
    assert_eq!(entries.len(), 1);
    assert!(entries[0].1.open.is_none(), "{entries:?}");
}

#[test]
fn a_retry_that_waits_is_made_though_no_key_is_left() {
    let overrides = [
        "collections.docs.count=1",
        "phases.phase.in_flight=4",
        "phases.phase.retry={ tries = 5, backoff = \"50ms\" }",
    ];
    let (run, seen) = run("{ upsert = 1 }", &overrides, |nth, _| {
        Some((MS, if nth.is_multiple_of(2) { Err(ErrorKind::Temporary) } else { Ok(()) }))
    });
    let tally = &run.record.ops[0];
    assert!(run.report.partial.is_none(), "{:?}", run.report.partial);
    assert!(tally.succeeded > 100 && tally.errors() == 0 && tally.retries >= tally.succeeded, "{}", tally.succeeded);
    assert_eq!(seen.most, 1);
}

#[test]
fn what_has_an_unknown_outcome_is_not_forgotten_for_want_of_keys() {
    let overrides = ["collections.docs.count=2", "phases.phase.in_flight=8", "phases.phase.timeout=1s"];
    // The first is never answered; the others are.
    let (run, seen) = run("{ upsert = 1 }", &overrides, |nth, _| (nth > 0).then_some((MS, Ok(()))));
    assert_eq!((seen.most, run.record.ops[0].timed_out), (1, 1));
    assert!(run.report.partial.is_none(), "the other key still takes writes: {:?}", run.report.partial);
    let ledger = run.report.ledger.as_ref().unwrap();
    assert_eq!(ledger.entries().filter(|(_, entry)| entry.open.is_some()).count(), 1);
}

/// Each document of a bulk write is settled separately.
#[test]
fn a_bulk_write_whose_outcome_is_unknown_leaves_each_of_its_keys_open() {
    let overrides = ["collections.docs.count=9", "phases.phase.timeout=1s", "phases.phase.duration=5s"];
    let (run, seen) = run("{ upsert = { batch = 3 } }", &overrides, |nth, _| (nth != 1).then_some((100 * MS, Ok(()))));
    assert_eq!((seen.most, run.record.ops[0].timed_out), (1, 1));
    let ledger = run.report.ledger.as_ref().unwrap();
    let (open, closed): (Vec<_>, Vec<_>) = ledger.entries().partition(|(_, entry)| entry.open.is_some());
    assert_eq!((open.len(), closed.len()), (3, 6));
    assert!(closed.iter().all(|(_, entry)| entry.acknowledged.number() > 0));
}

/// No two workers write the same document, even if keys are drawn again because they are taken.
#[test]
fn the_newest_documents_have_one_writer_each() {
    for (count, workers) in [(10, 3), (11, 4), (12, 4), (7, 2)] {
        let overrides = [
            format!("collections.docs.count={count}"),
            format!("phases.phase.workers={workers}"),
            "phases.phase.popularity=latest".to_owned(),
        ];
        let overrides: Vec<&str> = overrides.iter().map(String::as_str).collect();
        let (study, catalog) = study(&text("{ upsert = 3, insert = 1 }"), &overrides);
        let capabilities = MemoryStore::new().capabilities();
        let plan = Arc::new(PhasePlan::resolve(&study, &study.phases[0], &catalog, &capabilities).unwrap());
        let parts = TrialLedger::default().split(workers, &[count]);
        let mut written: Vec<BTreeSet<u64>> = Vec::new();
        for (worker, ledger) in parts.into_iter().enumerate() {
            let (plan, catalog) = (Arc::clone(&plan), Arc::clone(&catalog));
            let mut maker = Maker::new(plan, catalog, worker as u32, 1, vec![0], Some(ledger)).unwrap();
            let (mut own, mut more, mut open) = (BTreeSet::new(), More::default(), Vec::new());
            for _ in 0..3_000 {
                let Some(task) = maker.next(&mut more) else {
                    for index in open.drain(..) {
                        let state = maker.ledger.as_ref().unwrap().entries().find(|(key, _)| key.1 == index).unwrap().1;
                        maker.ledger.as_mut().unwrap().acknowledged((0, index), state.open.unwrap());
                    }
                    continue;
                };
                if task.version == 0 {
                    maker.ledger.as_mut().unwrap().acknowledged((0, task.index), KeyState::version(0));
                } else {
                    own.insert(task.index);
                    open.push(task.index);
                    if open.len() > 30 {
                        let index = open.remove(0);
                        let entry = maker.ledger.as_ref().unwrap().entries().find(|(key, _)| key.1 == index).unwrap().1;
                        maker.ledger.as_mut().unwrap().acknowledged((0, index), entry.open.unwrap());
                    }
                }
            }
            written.push(own);
        }
        let all: BTreeSet<&u64> = written.iter().flatten().collect();
        let sum: usize = written.iter().map(BTreeSet::len).sum();
        assert_eq!(all.len(), sum, "{count} documents, {workers} workers");
    }
}
