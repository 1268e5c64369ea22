//! How a phase ends, under a fake clock: the client's own lateness, and writers without a key.

use std::time::Duration;

use super::simulated::{STUDY, simulate, simulate_text, slow};
use crate::measure::PartialCause;
use crate::store::SlowOptions;

/// What the client could have sent before the end, had it not been late, is sent for 100 ms after it.
#[test]
fn what_the_client_was_late_with_at_the_end_is_still_sent() {
    let run = simulate(&["phases.phase.rate=1000"], 50_000_000, slow(SlowOptions::default()));
    let tally = &run.record.ops[0];
    assert_eq!((tally.succeeded, tally.censored), (10_000, 0));
    assert!(run.ended_ns > 10_000_000_000, "some of it was sent after the end");
    // Later than that, what was due is told of as never sent, and nothing is lost from the count.
    let run = simulate(&["phases.phase.rate=1000"], 150_000_000, slow(SlowOptions::default()));
    let tally = &run.record.ops[0];
    assert!(tally.censored > 0 && tally.succeeded + tally.censored == 10_000, "{}", tally.censored);
    assert_eq!(tally.unanswered, 0);
}

/// The grace is for our own lateness: what waited for the store is not sent after the end.
#[test]
fn what_waited_for_the_store_at_the_end_is_not_sent_any_more() {
    let latency = Duration::from_millis(30);
    let run = simulate(&["phases.phase.rate=1000"], 0, slow(SlowOptions { latency, ..SlowOptions::default() }));
    let tally = &run.record.ops[0];
    // One slot of 30 ms: 333 in 10 s, and one more is in flight when the end comes.
    assert_eq!((tally.succeeded + tally.censored, tally.unanswered), (10_000, 1));
    assert_eq!(tally.succeeded, 333);
    assert!(run.ended_ns < 10_001_000_000);
}

/// With a ledger a key whose write has no known outcome takes no further one. When no key is left the
/// phase ends, and says why.
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
    assert_eq!((tally.timed_out, tally.succeeded, tally.censored), (3, 0, 0));
    let partial = run.report.partial.expect("it ended early");
    assert_eq!(partial.cause, PartialCause::Failed);
    assert!(partial.why.contains("every key of a worker"), "{partial:?}");
    assert!(run.ended_ns < 10_000_000_000);
}
