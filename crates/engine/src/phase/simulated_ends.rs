//! How a phase ends, under a fake clock: lateness of the client, and writers without a key.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::clock::{Clock, FakeClock};
use super::simulated::{Run, STUDY, simulate, simulate_text, simulate_until, slow};
use super::stop::Stop;
use crate::measure::PartialCause;
use crate::store::{
    Completions, ErrorKind, MemoryStore, OpError, Reply, Request, Session, Slow, SlowOptions, Store, Token,
};

/// What a late client could have sent before the end is still sent for 100 ms after it.
#[test]
fn what_the_client_was_late_with_at_the_end_is_still_sent() {
    let run = simulate(&["phases.phase.rate=1000"], 50_000_000, slow(SlowOptions::default()));
    let tally = &run.record.ops[0];
    assert_eq!((tally.succeeded, tally.unfinished), (10_000, 0));
    assert!(run.ended_ns > 10_000_000_000, "some of it was sent after the end");
    // After that, scheduled operations count as never sent, and none is missing from the count.
    let run = simulate(&["phases.phase.rate=1000"], 150_000_000, slow(SlowOptions::default()));
    let tally = &run.record.ops[0];
    assert!(tally.unfinished > 0 && tally.succeeded + tally.unfinished == 10_000, "{}", tally.unfinished);
    assert_eq!(tally.unfinished_sent, 0);
}

/// The grace period is for the client's own lateness: what waited for the store is not sent after the end.
#[test]
fn what_waited_for_the_store_at_the_end_is_not_sent_any_more() {
    let latency = Duration::from_millis(30);
    let run = simulate(&["phases.phase.rate=1000"], 0, slow(SlowOptions { latency, ..SlowOptions::default() }));
    let tally = &run.record.ops[0];
    // One slot of 30 ms: 333 in 10 s, and one more is in flight at the end.
    assert_eq!((tally.succeeded + tally.unfinished, tally.unfinished_sent), (10_000, 1));
    assert_eq!(tally.succeeded, 333);
    assert!(run.ended_ns < 10_001_000_000);
}

/// With a ledger, a key whose write has an unknown outcome takes no further write. When no key is left, the phase ends
/// and says why.
#[test]
fn a_writer_whose_keys_are_all_open_ends_the_phase() {
    let text = STUDY.replace("{ read = 1 }", "{ upsert = 1 }\nledger = true\nstreams = \"disjoint\"");
    let never = SlowOptions { latency: Duration::from_secs(3_600), ..SlowOptions::default() };
    let run = simulate_text(
        &text,
        &["collections.docs.count=3", "phases.phase.timeout=1s", "phases.phase.duration=60s"],
        0,
        slow(never),
    );
    let tally = &run.record.ops[0];
    assert_eq!((tally.timed_out, tally.succeeded, tally.unfinished), (3, 0, 0));
    let partial = run.report.partial.expect("it ended early");
    assert_eq!(partial.cause, PartialCause::NoKeys);
    assert!(partial.why.contains("every key of a worker"), "{partial:?}");
    assert!(run.ended_ns < 10_000_000_000);
}

const SECOND: u64 = 1_000_000_000;
/// When the phase begins, by the simulation's clock.
const START: u64 = 1_000_000;

/// A session during which a stop is requested, at `at_ns`.
struct Interrupted<S> {
    inner: S,
    clock: FakeClock,
    at_ns: u64,
    stop: Arc<Stop>,
}

impl<S: Session> Session for Interrupted<S> {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        self.inner.submit(request, token, out);
    }
    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        if self.clock.now_ns() >= self.at_ns {
            self.stop.ask();
        }
        self.inner.poll(cx, out)
    }
    fn wake_at_ns(&self) -> Option<u64> {
        self.inner.wake_at_ns()
    }
    fn abandon(&mut self, token: Token) {
        self.inner.abandon(token);
    }
}

/// A phase on a store that serves one operation at a time. A stop is requested at `at_s`.
fn interrupted(text: &str, overrides: &[&str], latency: Duration, at_s: u64) -> Run {
    let (clock, stop) = (FakeClock::new(), Arc::new(Stop::new()));
    let options = SlowOptions { latency, concurrency: std::num::NonZeroU32::new(1), ..SlowOptions::default() };
    simulate_until(&clock, &stop, text, overrides, 0, |session, catalog| {
        let inner: <Slow<MemoryStore> as Store>::Session = slow(options)(session, catalog);
        Interrupted { inner, clock: clock.clone(), at_ns: START + at_s * SECOND, stop: Arc::clone(&stop) }
    })
}

/// Twice the store's capacity is scheduled, and a drain works off the rest. A user who stops the run need not wait for
/// it.
#[test]
fn a_request_to_end_is_heeded_while_a_drain_goes_on() {
    let drained = ["phases.phase.rate=1000", "phases.phase.drain=30s"];
    let run = interrupted(STUDY, &drained, Duration::from_millis(2), 12);
    let tally = &run.record.ops[0];
    assert_eq!(tally.succeeded + tally.unfinished, 10_000, "every operation scheduled in the phase is counted");
    assert!((5_990..=6_050).contains(&tally.succeeded), "{}", tally.succeeded);
    assert!(run.report.ended_early && run.ended_ns < 12_200_000_000, "{}", run.ended_ns);
    // If the stop comes after the phase has ended, nothing is cut off.
    let run = interrupted(STUDY, &drained, Duration::from_millis(2), 25);
    assert_eq!((run.record.ops[0].succeeded, run.report.ended_early), (10_000, false));
}

#[test]
fn a_request_to_end_is_heeded_while_a_closed_loop_awaits_its_last_answers() {
    let run = interrupted(STUDY, &["phases.phase.timeout=1h"], Duration::from_secs(600), 11);
    let tally = &run.record.ops[0];
    assert_eq!((tally.succeeded, tally.unfinished, tally.unfinished_sent), (0, 1, 1));
    assert!(run.report.ended_early && run.ended_ns < 11_200_000_000, "{}", run.ended_ns);
}

#[test]
fn an_open_loop_of_so_many_operations_counts_no_more_when_it_is_interrupted() {
    let text = STUDY.replace("duration = \"10s\"", "operations = 100");
    let overrides = ["phases.phase.rate=1000", "phases.phase.timeout=1h"];
    let run = interrupted(&text, &overrides, Duration::from_secs(600), 5);
    let tally = &run.record.ops[0];
    // One was sent, and 99 were scheduled but not sent. The 5 s after them add none: the phase has only 100 operations.
    assert_eq!((tally.ended(), tally.unfinished, tally.unfinished_sent), (0, 100, 1));
}

/// A drain ends exactly on time, also when its length is not a multiple of anything that a worker waits for.
#[test]
fn a_drain_ends_when_it_ends() {
    let stuck = SlowOptions { latency: Duration::from_secs(3_600), ..SlowOptions::default() };
    let run =
        simulate(&["phases.phase.rate=1000", "phases.phase.drain=37ms", "phases.phase.timeout=1h"], 0, slow(stuck));
    assert_eq!(run.ended_ns, 10_037_000_000);
    assert_eq!((run.record.ops[0].unfinished, run.report.ended_early), (10_000, false));
}

/// A connection that is lost at one time and can be restored from a later time on. Until then each operation is
/// rejected at once. Reconnecting happens only in `poll`, and no more often than the back-off allows.
struct Reconnecting {
    clock: FakeClock,
    down: std::ops::Range<u64>,
    up: bool,
    next_try_ns: u64,
    tries: u32,
}

impl Session for Reconnecting {
    fn submit(&mut self, _: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let now = self.clock.now_ns();
        self.up &= !self.down.contains(&now);
        let result = if self.up {
            Ok(Reply { documents: 1, ..Reply::default() })
        } else {
            Err(OpError::new(ErrorKind::Temporary, "not connected now"))
        };
        out.complete(token, result);
    }
    fn poll(&mut self, _: &mut Context<'_>, _: &mut dyn Completions) -> Poll<()> {
        let now = self.clock.now_ns();
        if !self.up && now >= self.next_try_ns {
            self.tries += 1;
            self.up = !self.down.contains(&now);
            self.next_try_ns = now + SECOND / 2;
        }
        Poll::Ready(())
    }
}

#[test]
fn a_session_that_connects_again_while_it_is_polled_comes_back_though_nothing_is_in_flight() {
    for pace in ["phases.phase.rate=200", "phases.phase.think=5ms"] {
        let clock = FakeClock::new();
        let run =
            super::simulated::simulate_on(&clock, STUDY, &[pace, "phases.phase.check=0"], 0, |_, _| Reconnecting {
                clock: clock.clone(),
                down: START + 2 * SECOND..START + 4 * SECOND,
                up: true,
                next_try_ns: 0,
                tries: 0,
            });
        let tally = &run.record.ops[0];
        let (failed, answered) = (tally.failed_as(ErrorKind::Temporary), tally.succeeded);
        // Two seconds, plus less than one wait of the back-off.
        let most = if pace.contains("rate") { 2_000 } else { 5_000 };
        assert!(failed > 100 && answered > 1_400 && failed + answered <= most, "{pace}: {failed} {answered}");
        assert!(tally.answered_at.last_ns > 9 * SECOND, "{pace}: {}", tally.answered_at.last_ns);
        assert!(pace.contains("think") || (390..=510).contains(&failed), "{failed}");
    }
}
