//! Transactions under a fake clock: which documents their steps have, what is retried, and what the ledger learns.

use super::simulated::{STUDY, near};
use super::simulated_ledger::{run, run_text, text};
use crate::store::{ErrorKind, Op};

const MS: u64 = 1_000_000;

/// Two documents are read and written, as in a transfer.
const TRANSFER: &str = "{ transfer = { op = \"transaction\", steps = { \
                        from = { op = \"read\" }, to = { op = \"read\" }, \
                        debit = { op = \"upsert\", same_as = \"from\" }, \
                        credit = { op = \"replace\", same_as = \"to\" } } } }";

#[test]
fn the_steps_of_a_transaction_have_documents_of_their_own_and_no_two_writes_of_one_are_open() {
    for keys in ["6", "40"] {
        let count = format!("collections.docs.count={keys}");
        let overrides = [&count, "phases.phase.in_flight=4", "phases.phase.duration=1s"];
        let (run, seen) = run(TRANSFER, &overrides, |nth, _| Some((MS * (1 + nth % 3), Ok(()))));
        assert_eq!((seen.most, seen.repeated), (1, 2), "{keys} keys");
        assert!(run.report.partial.is_none(), "{:?}", run.report.partial);
        assert!(run.record.ops[0].succeeded > 500, "{}", run.record.ops[0].succeeded);
        assert_eq!(run.record.ops[0].missed > 0, keys == "40", "some are not there");
    }
}

#[test]
fn a_transaction_that_the_store_undid_is_tried_again_and_counted() {
    let retry = ["phases.phase.retry={ tries = 3, backoff = \"1ms\", cap = \"1ms\" }", "phases.phase.rate=10"];
    let often = |nth, _: &Op<'_>| Some((MS, if nth % 3 == 2 { Ok(()) } else { Err(ErrorKind::Aborted) }));
    let (run, seen) = run(TRANSFER, &retry, often);
    let tally = &run.record.ops[0];
    let answered = tally.succeeded + tally.missed;
    assert_eq!((answered, tally.errors(), tally.retries, tally.conflicts), (100, 0, 200, 200));
    // The response time counts from the scheduled start: three tries of 1 ms and two waits.
    assert!(tally.response.min() >= 3 * MS, "{}", tally.response.min());
    assert_eq!(seen.most, 1);
    let (run, _) = run_text(&text(TRANSFER), &["phases.phase.rate=10"], often);
    let tally = &run.record.ops[0];
    assert_eq!((tally.retries, tally.conflicts), (0, tally.failed_as(ErrorKind::Aborted)));
    near(tally.conflicts as f64, 67.0);
}

/// A write that finds nothing has changed nothing: the ledger does not expect it.
#[test]
fn a_step_that_writes_and_finds_nothing_is_not_acknowledged() {
    let overrides = ["collections.docs.count=10", "phases.phase.duration=1s"];
    let (run, _) = run(TRANSFER, &overrides, |_, _| Some((MS, Ok(()))));
    let ledger = run.report.ledger.unwrap();
    // Of a document that was never written, the ledger knows nothing here.
    let known = |index| ledger.floor((0, index)).is_some();
    assert!((0..10).all(|index| known(index) == (index != 7)), "all others were written");
}

/// A rolled-back transaction leaves its keys free, whatever became of it.
#[test]
fn a_transaction_that_is_rolled_back_leaves_no_open_write() {
    let mix = TRANSFER.replace("steps", "rollback = 1.0, steps");
    let overrides = ["collections.docs.count=4", "phases.phase.duration=10s", "phases.phase.timeout=100ms"];
    let (run, _) = run(&mix, &overrides, |nth, _| (nth % 5 > 0).then_some((MS, Ok(()))));
    let tally = &run.record.ops[0];
    assert!(run.report.partial.is_none(), "{:?}", run.report.partial);
    assert!(tally.timed_out > 50 && tally.succeeded > 200, "{} and {}", tally.timed_out, tally.succeeded);
    let ledger = run.report.ledger.unwrap();
    assert!((0..4).all(|index| !ledger.is_open((0, index))), "no key waits for an outcome");
    // A committed one that was not answered leaves its keys open, until none is left.
    let (run, _) = super::simulated_ledger::run(TRANSFER, &overrides, |nth, _| (nth % 5 > 0).then_some((MS, Ok(()))));
    assert!(run.report.partial.is_some());
}

#[test]
fn shares_of_rollbacks_are_kept_and_a_step_that_finds_nothing_is_a_miss() {
    let mix = STUDY.replace("{ read = 1 }", &TRANSFER.replace("steps", "rollback = 0.25, steps"));
    static ROLLED_BACK: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let (run, seen) = run_text(&mix, &["phases.phase.duration=100s"], |_, op| {
        if let Op::Transaction { rolls_back: true, .. } = op {
            ROLLED_BACK.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        Some((MS, Ok(())))
    });
    let rolled_back = ROLLED_BACK.load(std::sync::atomic::Ordering::Relaxed) as f64;
    let tally = &run.record.ops[0];
    near(rolled_back / (tally.succeeded + tally.missed) as f64, 0.25);
    // A tenth of the documents is not there, and each transaction needs two.
    near(tally.missed as f64 / tally.ended() as f64, 0.19);
    assert_eq!(seen.repeated, 2);
}
