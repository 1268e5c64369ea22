//! The loop under a fake clock: what it records must match arithmetic.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::clock::{Clock, FakeClock};
use super::drive::WorkerReport;
use super::maker::Maker;
use super::plan::PhasePlan;
use super::slots::Operations;
use super::stop::Stop;
use super::team::Outbox;
use super::worker::{Turn, Turns, Worker, WorkerCore};
use crate::ledger::TrialLedger;
use crate::measure::Recorder;
use crate::store::{
    CollectionId, CollectionLayout, Completions, ErrorKind, Layout, MemoryStore, NullStore, Op, OpError, PhaseStart,
    Prepare, Reply, Request, Session, SessionOptions, Slow, SlowOptions, Store, Token,
};
use storebench_documents::schedule::Arrivals;
use storebench_documents::{Catalog, CatalogOptions};
use storebench_study::workload::{Body, Study};

pub(super) const STUDY: &str = r#"
title = "simulated"
[collections.docs]
count = 1_000
size  = 200
[[phases]]
name     = "phase"
workers  = 1
check    = 1.0
mix      = { read = 1 }
duration = "10s"
"#;

pub(super) fn study(text: &str, overrides: &[&str]) -> (Study, Arc<Catalog>) {
    study_in(&std::env::temp_dir(), text, overrides)
}

/// The study whose files are in a folder.
fn study_in(dir: &Path, text: &str, overrides: &[&str]) -> (Study, Arc<Catalog>) {
    let overrides: Vec<String> = overrides.iter().map(|s| (*s).to_owned()).collect();
    let study = Study::parse(text, Path::new("simulated.toml"), &overrides).unwrap();
    let options = CatalogOptions { seed: 1, scale: 1.0, base_dir: dir, scratch_dir: dir };
    let catalog = Arc::new(Catalog::compile(&study.collections, &options).unwrap());
    (study, catalog)
}

fn loaded(catalog: &Catalog) -> MemoryStore {
    let store = MemoryStore::new();
    let layout = Layout {
        collections: vec![CollectionLayout {
            name: "docs".into(),
            body: Body::Json,
            indexes: Vec::new(),
            existing: None,
            uses: crate::store::Uses::ALL,
        }],
    };
    Store::prepare(&store, &layout, Prepare::Fresh).unwrap();
    let options = SessionOptions {
        durability: crate::store::Durability::MEMORY,
        consistency: Default::default(),
        timeout: Duration::from_secs(10),
        in_flight: 1,
        clock: Arc::new(FakeClock::new()),
        phase_start: PhaseStart::new(),
    };
    let mut caller = super::Caller::open(&store, &options).unwrap();
    let documents = catalog.get(0);
    for index in 0..documents.count() {
        let (mut key, mut body) = (Vec::new(), Vec::new());
        documents.write_key(index, &mut key);
        documents.write_document(index, 0, &mut body);
        let op = Op::Insert { key: std::str::from_utf8(&key).unwrap(), body: &body };
        caller.call(&Request { collection: CollectionId(0), op, contents: false }, |r| assert!(r.is_ok()));
    }
    store
}

pub(super) struct Run {
    pub(super) record: Recorder,
    pub(super) intervals: Vec<u64>,
    pub(super) report: WorkerReport,
    pub(super) ended_ns: u64,
}

impl Run {
    fn response_ms(&self, quantile: f64) -> f64 {
        self.record.ops[0].response.value_at_quantile(quantile) as f64 / 1e6
    }
    fn service_ms(&self, quantile: f64) -> f64 {
        self.record.ops[0].service.value_at_quantile(quantile) as f64 / 1e6
    }
}

pub(super) fn simulate<S: Session>(
    overrides: &[&str],
    late_ns: u64,
    open: impl FnOnce(&SessionOptions, &Catalog) -> S,
) -> Run {
    simulate_text(STUDY, overrides, late_ns, open)
}

/// Runs the study's phase on a session. Moves the clock to where the loop wants to be woken, and `late_ns` further.
pub(super) fn simulate_text<S: Session>(
    text: &str,
    overrides: &[&str],
    late_ns: u64,
    open: impl FnOnce(&SessionOptions, &Catalog) -> S,
) -> Run {
    simulate_on(&FakeClock::new(), text, overrides, late_ns, open)
}

pub(super) fn simulate_on<S: Session>(
    clock: &FakeClock,
    text: &str,
    overrides: &[&str],
    late_ns: u64,
    open: impl FnOnce(&SessionOptions, &Catalog) -> S,
) -> Run {
    simulate_until(clock, &Arc::new(Stop::new()), text, overrides, late_ns, open)
}

/// The same, stopped by `stop`.
pub(super) fn simulate_until<S: Session>(
    clock: &FakeClock,
    stop: &Arc<Stop>,
    text: &str,
    overrides: &[&str],
    late_ns: u64,
    open: impl FnOnce(&SessionOptions, &Catalog) -> S,
) -> Run {
    simulate_study(clock, stop, study(text, overrides), late_ns, open)
}

/// The same for a study whose files are in a folder.
pub(super) fn simulate_in<S: Session>(
    dir: &Path,
    clock: &FakeClock,
    text: &str,
    overrides: &[&str],
    open: impl FnOnce(&SessionOptions, &Catalog) -> S,
) -> Run {
    simulate_study(clock, &Arc::new(Stop::new()), study_in(dir, text, overrides), 0, open)
}

fn simulate_study<S: Session>(
    clock: &FakeClock,
    stop: &Arc<Stop>,
    (study, catalog): (Study, Arc<Catalog>),
    late_ns: u64,
    open: impl FnOnce(&SessionOptions, &Catalog) -> S,
) -> Run {
    let capabilities = NullStore::new().capabilities();
    let plan = Arc::new(PhasePlan::resolve(&study, &study.phases[0], &catalog, &capabilities).unwrap());
    clock.advance_to(1_000_000);
    let phase_start = PhaseStart::new();
    phase_start.begin(clock.now_ns());
    let options = SessionOptions {
        durability: crate::store::Durability::MEMORY,
        consistency: plan.guarantees.consistency,
        timeout: Duration::from_nanos(plan.timeout_ns),
        in_flight: plan.in_flight,
        clock: Arc::new(clock.clone()),
        phase_start,
    };
    let session = open(&options, &catalog);
    let ledger = plan.ledger.then(|| TrialLedger::default().split(1, &[catalog.get(0).count()]).remove(0));
    let maker = Maker::new(Arc::clone(&plan), Arc::clone(&catalog), 0, 1, vec![0], ledger).unwrap();
    let arrivals = plan.rate.as_ref().map(|(rate, arrival)| Arrivals::new(rate, *arrival, 0, 1, 1).unwrap());
    let (snapshots, received) = mpsc::channel();
    let (_give, spare) = mpsc::channel();
    let slots = Operations::new(Arc::clone(&plan), Arc::clone(&catalog), clock.clone(), 0, 1);
    let core = WorkerCore::new(
        Arc::clone(&plan),
        0,
        maker,
        slots,
        arrivals,
        clock.now_ns(),
        1_000_000_000,
        Arc::clone(stop),
        Outbox { snapshots, spare },
    );
    let mut worker = Worker::new(vec![session], core);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match worker.turn(&mut context) {
            Turn::Again => {}
            Turn::Until { at_ns, .. } => clock.advance_to(at_ns + late_ns),
            Turn::Ended => break,
        }
    }
    let report = worker.into_report();
    let mut record = Recorder::new(plan.recipes.len());
    let mut intervals = Vec::new();
    for snapshot in received.try_iter() {
        intervals.push(snapshot.interval);
        record.add(&snapshot.recorder);
    }
    Run { record, intervals, report, ended_ns: clock.now_ns() - 1_000_000 }
}

pub(super) fn slow(
    options: SlowOptions,
) -> impl FnOnce(&SessionOptions, &Catalog) -> <Slow<MemoryStore> as Store>::Session {
    move |session, catalog| {
        let store = Slow::new(loaded(catalog), options);
        let opened = std::pin::pin!(Store::open(&store, session));
        match std::future::Future::poll(opened, &mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Ready(session) => session.unwrap(),
            std::task::Poll::Pending => unreachable!("a memory store opens at once"),
        }
    }
}

pub(super) fn near(got: f64, want: f64) {
    assert!((got - want).abs() <= 0.02 * want, "{got} is not within 2 % of {want}");
}

const MS: Duration = Duration::from_millis(1);

/// Four servers of 1 ms, 1,000 operations a second, a stall of 1 s at second 5 of 10.
///
/// The k-th operation due in the stall is scheduled at 5 s + k ms. After the stall four are done each
/// millisecond, so it ends at 6 s + (k/4 + 1) ms: response 1001 − 0.75 k ms, for k up to 1,334, when
/// the backlog is gone. Of 10,000 operations the slowest 1 % are k < 100 (p99 = 926 ms), the slowest
/// 5 % are k < 500 (p95 = 626 ms), the slowest 10 % are k < 1,000 (p90 = 251 ms).
#[test]
fn a_stall_shows_in_response_time_and_not_in_service_time() {
    let stalled = SlowOptions {
        latency: MS,
        concurrency: std::num::NonZeroU32::new(4),
        stall_at: Some(Duration::from_secs(5)),
        stall_for: Duration::from_secs(1),
        ..SlowOptions::default()
    };
    let run = simulate(&["phases.phase.rate=1000", "phases.phase.in_flight=4"], 0, slow(stalled));
    let tally = &run.record.ops[0];
    assert_eq!((tally.succeeded, tally.unfinished, tally.errors()), (10_000, 0, 0));
    assert_eq!((tally.checked, tally.wrong), (10_000, 0));
    near(run.response_ms(0.99), 926.0);
    near(run.response_ms(0.95), 626.0);
    near(run.response_ms(0.90), 251.0);
    near(run.response_ms(0.50), 1.0);
    near(run.service_ms(0.99), 1.0);
    // Waiting for the store is not the client's lateness.
    assert!(run.record.send_delay.max() <= 1_000, "{}", run.record.send_delay.max());
    near(tally.client_queueing.value_at_quantile(0.95) as f64 / 1e6, 625.0);
    assert_eq!(run.intervals, (0..10).chain([10]).collect::<Vec<_>>()[..run.intervals.len()].to_vec());
}

/// The same stall seen by a closed loop: four requests notice. This is why open loop is the default.
#[test]
fn a_closed_loop_hides_the_stall() {
    let stalled = SlowOptions {
        latency: MS,
        concurrency: std::num::NonZeroU32::new(4),
        stall_at: Some(Duration::from_secs(5)),
        stall_for: Duration::from_secs(1),
        ..SlowOptions::default()
    };
    let run = simulate(&["phases.phase.in_flight=4"], 0, slow(stalled));
    near(run.service_ms(0.999), 1.0);
    assert!(run.record.ops[0].response.is_empty());
    near(run.record.ops[0].succeeded as f64, 36_000.0);
}

/// One server of 10 ms answers 100 operations a second, and 1,000 a second are scheduled. After T seconds, 100 T have
/// ended and 900 T are unfinished. The operation due at t ends at 10 t: it is answered after 9 t, or unfinished at age
/// T − t. So the median over all operations grows with T.
#[test]
fn a_rate_that_cannot_be_sustained_leaves_unfinished_operations() {
    let mut medians = Vec::new();
    for (seconds, text) in [(5u64, "5s"), (10, "10s")] {
        let slow_one =
            SlowOptions { latency: MS * 10, concurrency: std::num::NonZeroU32::new(1), ..SlowOptions::default() };
        let duration = format!("phases.phase.duration={text}");
        let run = simulate(&["phases.phase.rate=1000", &duration], 0, slow(slow_one));
        let tally = &run.record.ops[0];
        assert_eq!(tally.ended() + tally.unfinished, 1_000 * seconds, "every scheduled operation is counted");
        near(tally.ended() as f64, 100.0 * seconds as f64);
        assert_eq!(tally.response.len(), 1_000 * seconds);
        medians.push(run.response_ms(0.5));
        // Answered: 9 t for t up to T/10. Unfinished: T − t for t from T/10 to T.
        near(run.response_ms(1.0), 900.0 * seconds as f64);
    }
    near(medians[1], 2.0 * medians[0]);
}

/// With a drain, the backlog is worked off after the end and counted at its true response time.
#[test]
fn a_drain_works_off_the_backlog() {
    let slow_one = SlowOptions { latency: MS * 2, concurrency: std::num::NonZeroU32::new(1), ..SlowOptions::default() };
    let run = simulate(&["phases.phase.rate=1000", "phases.phase.drain=30s"], 0, slow(slow_one));
    let tally = &run.record.ops[0];
    assert_eq!((tally.succeeded, tally.unfinished), (10_000, 0));
    near(run.ended_ns as f64, 20e9);
    near(run.response_ms(1.0), 10_000.0);
}

/// A host that wakes 300 µs late is the client's fault, and is distinguished from waiting for the store.
#[test]
fn lateness_of_the_client_is_send_delay() {
    let quick = SlowOptions { latency: Duration::from_micros(100), ..SlowOptions::default() };
    let run = simulate(&["phases.phase.rate=1000", "phases.phase.in_flight=8"], 300_000, slow(quick));
    near(run.record.send_delay.value_at_quantile(0.5) as f64, 300_000.0);
    assert!(run.record.ops[0].client_queueing.max() <= 1_000);
}

/// A store that works on the caller's thread: each call takes this many ns of the clock.
struct Holding(FakeClock, u64);

impl Session for Holding {
    fn submit(&mut self, _: &Request<'_>, token: Token, out: &mut dyn Completions) {
        self.0.advance_to(self.0.now_ns() + self.1);
        out.complete(token, Ok(Reply { documents: 1, ..Reply::default() }));
    }
}

/// While a call blocks the thread, other slots are free. Operations scheduled in that time wait for the store.
#[test]
fn a_store_that_holds_the_thread_is_no_send_delay() {
    let clock = FakeClock::new();
    let run = simulate_on(
        &clock,
        STUDY,
        &["phases.phase.rate=1000", "phases.phase.in_flight=4", "phases.phase.drain=10s"],
        0,
        |_, _| Holding(clock.clone(), 1_500_000),
    );
    assert!(run.record.send_delay.max() <= 1_000, "{}", run.record.send_delay.max());
    // Served at 667 a second: the last of 10,000 waits for 5 s.
    near(run.record.ops[0].client_queueing.max() as f64, 5e9);
}

/// Answers all that is in flight in one poll: 5 ms after it was sent, and 1 ms for handling each answer.
struct Reading {
    clock: FakeClock,
    waiting: Vec<Token>,
    /// Whether it says that the answers came at once.
    at_once: bool,
}

impl Session for Reading {
    fn submit(&mut self, _: &Request<'_>, token: Token, _: &mut dyn Completions) {
        self.waiting.push(token);
    }

    fn poll(&mut self, _: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        if self.waiting.len() == 4 {
            self.clock.advance_to(self.clock.now_ns() + 5_000_000);
            if self.at_once {
                out.arrived();
            }
            for token in self.waiting.drain(..) {
                self.clock.advance_to(self.clock.now_ns() + 1_000_000);
                out.complete(token, Ok(Reply::written(1)));
            }
            // The next poll does not say so.
            self.at_once = false;
        }
        Poll::Pending
    }
}

/// Answers that one read brought came at its time, however long the client takes for each of them.
#[test]
fn answers_of_one_read_have_its_time() {
    let service = |at_once, operations: u32| {
        let clock = FakeClock::new();
        let study = STUDY.replace("duration = \"10s\"", &format!("in_flight = 4\noperations = {operations}"));
        let reading = |_: &SessionOptions, _: &Catalog| Reading { clock: clock.clone(), waiting: Vec::new(), at_once };
        let run = simulate_on(&clock, &study.replace("check    = 1.0\n", ""), &[], 0, reading);
        assert_eq!(run.record.ops[0].succeeded, u64::from(operations));
        [run.service_ms(0.0), run.service_ms(1.0)].map(|ms| ms.round() as u32)
    };
    assert_eq!(service(true, 4), [5, 5]);
    assert_eq!(service(false, 4), [6, 9]);
    assert_eq!(service(true, 8), [5, 9], "it counts only until the session returns");
}

/// Several operations are scheduled while the host sleeps. Each is late by its own time, although its slot was busy
/// with the previous operation when it was sent.
#[test]
fn a_batch_of_late_operations_is_all_send_delay() {
    let instant = SlowOptions::default();
    let run = simulate(&["phases.phase.rate=100000", "phases.phase.duration=1s"], 95_000, slow(instant));
    // Ten operations per batch, late by 95, 85, …, 5 µs.
    near(run.record.send_delay.mean(), 50_000.0);
    assert!(run.record.ops[0].client_queueing.max() <= 1_000);
}

#[test]
fn no_answer_within_the_timeout_is_an_unknown_outcome() {
    let stuck = SlowOptions { latency: Duration::from_secs(60), ..SlowOptions::default() };
    let run = simulate(&["phases.phase.timeout=1s"], 0, slow(stuck));
    let tally = &run.record.ops[0];
    assert_eq!(tally.timed_out, tally.failed_as(ErrorKind::OutcomeUnknown));
    // One is in flight, and each is given up after a second. The last one begins before the end.
    assert_eq!((tally.timed_out, tally.succeeded), (10, 0));
    near(tally.failed_time.max() as f64, 1e9);
    assert_eq!(run.report.messages[0].1, 10);
}

/// Fails each operation a number of times, as a busy store does.
struct Busy {
    fails: u32,
    seen: u32,
}

impl Session for Busy {
    fn submit(&mut self, _: &Request<'_>, token: Token, out: &mut dyn Completions) {
        self.seen += 1;
        if self.seen.is_multiple_of(self.fails + 1) {
            out.complete(token, Ok(Reply { documents: 1, ..Reply::default() }));
        } else {
            out.complete(token, Err(OpError::new(ErrorKind::Temporary, "busy")));
        }
    }
}

#[test]
fn temporary_failures_are_tried_again_as_often_as_the_study_says() {
    let retries = ["phases.phase.rate=10", "phases.phase.retry={ tries = 3, backoff = \"10ms\", cap = \"15ms\" }"];
    let run = simulate(&retries, 0, |_, _| Busy { fails: 2, seen: 0 });
    let tally = &run.record.ops[0];
    assert_eq!((tally.succeeded, tally.errors(), tally.retries), (100, 0, 200));
    // Two waits of at most 10 and 15 ms. The response time counts from the scheduled start.
    assert!(run.response_ms(1.0) <= 25.1 && run.response_ms(0.5) > 1.0, "{}", run.response_ms(1.0));
    let run = simulate(&retries, 0, |_, _| Busy { fails: 3, seen: 0 });
    let tally = &run.record.ops[0];
    assert_eq!(tally.succeeded + tally.failed_as(ErrorKind::Temporary), 100);
    assert_eq!(tally.failed_as(ErrorKind::Temporary), 50);
}

#[test]
fn think_time_and_counts_are_kept() {
    let quick = SlowOptions { latency: MS, ..SlowOptions::default() };
    let run = simulate(&["phases.phase.think=9ms"], 0, slow(quick));
    near(run.record.ops[0].succeeded as f64, 1_000.0);
    let quick = SlowOptions { latency: MS, ..SlowOptions::default() };
    let run = simulate_text(&STUDY.replace("duration = \"10s\"", "operations = 77"), &[], 0, slow(quick));
    assert_eq!(run.record.ops[0].succeeded, 77);
}

#[test]
fn compare_and_swap_reads_before_it_writes() {
    let quick = SlowOptions { latency: MS, ..SlowOptions::default() };
    let run = simulate(&["phases.phase.mix={ cas = 1 }"], 0, slow(quick));
    let tally = &run.record.ops[0];
    assert_eq!(tally.errors() + tally.missed, 0);
    near(tally.succeeded as f64, 5_000.0);
    near(run.service_ms(0.5), 2.0);
}
