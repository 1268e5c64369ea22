//! Tests merges by an expression: each is applied once or listed, whatever happens to answers and whatever other
//! clients write.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use storebench_engine::store::ErrorKind;
use storebench_transfer::MergeBy;

use super::faulty::{Fate, Faulty};
use super::*;

fn merging(store: &Arc<dyn AnyStore>, expression: &str, absent: bool) -> StoreSink {
    let merge = Some(MergeBy { expression: Arc::new(Jq::of_merge(expression).unwrap()), absent });
    let options = StoreSinkOptions {
        merge,
        durability: store
            .capabilities()
            .durability
            .first()
            .map(|(d, _)| storebench_engine::store::DurabilityRequest::Exactly(*d)),
        ..sink_options(RecordOp::Merge)
    };
    let access = Access { timeout: Duration::from_millis(300), ..options.access };
    let options = StoreSinkOptions { access, ..options };
    StoreSink::open(Arc::clone(store), options).unwrap()
}

fn unknown() -> OpError {
    OpError::new(ErrorKind::OutcomeUnknown, "reset")
}

/// Stores this many documents with `n` 0.
fn zeros(store: &Arc<dyn AnyStore>, count: usize) {
    let lab = Lab::new();
    let text: String = (0..count).map(|n| format!("{{\"_id\":\"k{n:03}\",\"n\":0}}\n")).collect();
    lab.copy(&files(&[&lab.write("zeros.jsonl", text)]), &store_sink(store, RecordOp::Upsert)).unwrap();
}

/// The field `n` of each document.
fn numbers(store: &Arc<dyn AnyStore>) -> BTreeMap<String, i64> {
    let parse = |line: &String| {
        let document: serde_json::Value = serde_json::from_str(line).unwrap();
        (document["_id"].as_str().unwrap().to_owned(), document["n"].as_i64().unwrap())
    };
    contents(store).iter().map(parse).collect()
}

/// Lines that each add one to a document, cycling through the keys.
fn ones(count: usize, keys: usize) -> String {
    (0..count).map(|n| format!("{{\"_id\":\"k{:03}\",\"n\":1}}\n", n % keys)).collect()
}

#[test]
fn a_document_becomes_what_the_expression_makes_of_it() {
    let store = memory();
    let lab = Lab::new();
    let stored = "{\"_id\":\"a\",\"n\":1,\"t\":7.0}\n{\"_id\":\"b\",\"n\":2}\n{\"_id\":\"c\",\"n\":\"x\"}\n";
    lab.copy(&files(&[&lab.write("a.jsonl", stored)]), &store_sink(&store, RecordOp::Upsert)).unwrap();
    let new = "{\"_id\":\"a\",\"n\":10}\n{\"_id\":\"b\",\"n\":0}\n{\"_id\":\"c\",\"n\":1}\n{\"_id\":\"d\",\"n\":4}\n";
    let path = lab.write("b.jsonl", new);
    let lab = Lab::new();
    let report = lab.copy(
        &files(&[&path]),
        &merging(&store, ".n += $new.n | .key = if $new.n > 0 then $key else empty end", false),
    );
    let counts = report.unwrap().counts;
    assert_eq!((counts.read, counts.written, counts.skipped, counts.rejected), (4, 1, 1, 2));
    let why: BTreeMap<String, String> =
        lab.rejects().into_iter().map(|Rejected { reject: r, .. }| (r.key.unwrap(), r.error + ": " + &r.why)).collect();
    assert!(why["c"].contains("refused: --merge: cannot calculate \"x\" + 1"), "{why:?}");
    assert!(why["d"].starts_with("not-found"), "{why:?}");
    let wanted =
        "{\"_id\":\"a\",\"n\":11,\"t\":7.0,\"key\":\"a\"}\n{\"_id\":\"b\",\"n\":2}\n{\"_id\":\"c\",\"n\":\"x\"}\n";
    assert_eq!(contents(&store), sorted(wanted));
    // A missing document is treated as null, if that is requested.
    let lab = Lab::new();
    let report = lab.copy(&files(&[&path]), &merging(&store, ". // $new", true)).unwrap();
    assert_eq!((report.counts.written, report.counts.skipped), (1, 3));
    assert_eq!(contents(&store), sorted(&format!("{wanted}{{\"_id\":\"d\",\"n\":4}}\n")));
}

#[test]
fn records_with_one_key_are_merged_in_their_order() {
    let store = memory();
    zeros(&store, 7);
    let lab = Lab { parallel: 1, ..Lab::new() };
    let text: String = (0..700).map(|n| format!("{{\"_id\":\"k{:03}\",\"n\":{n}}}\n", n % 7)).collect();
    let report = lab.copy(&files(&[&lab.write("a.jsonl", text)]), &merging(&store, ".all += [$new.n]", false)).unwrap();
    assert_eq!(report.counts.written, 700);
    for (at, line) in contents(&store).iter().enumerate() {
        let document: serde_json::Value = serde_json::from_str(line).unwrap();
        let wanted: Vec<usize> = (0..100).map(|n| n * 7 + at).collect();
        assert_eq!(document["all"], serde_json::json!(wanted));
    }
}

/// A store that loses the answers of some conditional writes. All of them report the same error, so that a copy knows
/// no more than that.
fn loses_answers(every: i64, fate: fn() -> Fate) -> Faulty {
    let mut calls = 0;
    Faulty::new(move |request| {
        calls += i64::from(matches!(request.op, Op::CompareAndSwap { .. } | Op::Insert { .. }));
        let hit = matches!(request.op, Op::CompareAndSwap { .. } | Op::Insert { .. }) && calls % every == 0;
        if hit { fate() } else { Fate::Done }
    })
}

#[test]
fn what_was_not_done_is_done_again_and_what_may_have_been_is_listed() {
    for (fate, rejected) in
        [((|| Fate::Fails(unknown())) as fn() -> Fate, 0), (|| Fate::DoneBut(unknown()), 40), (|| Fate::Silent, 40)]
    {
        let faulty = loses_answers(5, fate);
        let sound: Arc<dyn AnyStore> = Arc::new(faulty.sound());
        let store: Arc<dyn AnyStore> = Arc::new(faulty);
        zeros(&sound, 200);
        let lab = Lab { parallel: 1, ..Lab::new() };
        let report = lab
            .copy(&files(&[&lab.write("a.jsonl", ones(200, 200))]), &merging(&store, ".n += $new.n", false))
            .unwrap();
        assert_eq!(report.counts.rejected, rejected);
        assert_eq!(report.counts.written, 200 - rejected);
        assert!(
            lab.rejects()
                .iter()
                .all(|reject| reject.error == "outcome-unknown" && reject.why.contains("may have been merged"))
        );
        assert!(numbers(&sound).values().all(|n| *n == 1), "each merge must be applied exactly once");
    }
}

#[test]
fn what_makes_no_difference_is_never_in_doubt() {
    for (expression, absent) in [(". * $new", false), (". // $new", true)] {
        for fate in [(|| Fate::Fails(unknown())) as fn() -> Fate, || Fate::DoneBut(unknown())] {
            let faulty = loses_answers(3, fate);
            let sound: Arc<dyn AnyStore> = Arc::new(faulty.sound());
            let store: Arc<dyn AnyStore> = Arc::new(faulty);
            zeros(&sound, if absent { 1 } else { 100 });
            let lab = Lab::new();
            let report = lab
                .copy(&files(&[&lab.write("a.jsonl", ones(100, 100))]), &merging(&store, expression, absent))
                .unwrap();
            let counts = report.counts;
            assert_eq!((counts.written + counts.skipped, counts.rejected), (100, 0), "{expression}");
            assert_eq!(numbers(&sound).values().sum::<i64>(), if absent { 99 } else { 100 });
        }
    }
}

#[test]
fn a_sum_is_exact_beside_another_writer() {
    for loses in [i64::MAX, 7] {
        let mut lost = 0;
        let faulty = loses_answers(loses, if loses == 7 { || Fate::DoneBut(unknown()) } else { || Fate::Done });
        let sound: Arc<dyn AnyStore> = Arc::new(faulty.sound());
        let store: Arc<dyn AnyStore> = Arc::new(faulty);
        zeros(&sound, 5);
        let (stop, theirs) = (AtomicBool::new(false), AtomicI64::new(0));
        let lab = Lab { parallel: 2, ..Lab::new() };
        let path = lab.write("a.jsonl", ones(600, 5));
        let report = std::thread::scope(|scope| {
            let (stop, theirs, sound) = (&stop, &theirs, &sound);
            scope.spawn(move || {
                let mut call = caller(&**sound);
                for turn in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = format!("k{:03}", turn % 5);
                    let reply = call(Op::Read { key: &key }).unwrap();
                    let reply = reply.as_reply();
                    let n = serde_json::from_slice::<serde_json::Value>(reply.body.unwrap()).unwrap()["n"]
                        .as_i64()
                        .unwrap();
                    let (expected, body) = (reply.revision.unwrap(), format!("{{\"n\":{}}}", n + 1));
                    let swapped = call(Op::CompareAndSwap { key: &key, expected, body: body.as_bytes() });
                    theirs.fetch_add(i64::from(swapped.is_ok()), Ordering::Relaxed);
                    // Without a pause, the copy's writes would all be too late.
                    std::thread::sleep(Duration::from_micros(200));
                }
            });
            let report = lab.copy(&files(&[&path]), &merging(&store, ".n += $new.n", false));
            stop.store(true, Ordering::Relaxed);
            report.unwrap()
        });
        let counts = report.counts;
        assert_eq!(counts.written + counts.rejected, 600);
        for reject in lab.rejects() {
            match reject.error.as_str() {
                "outcome-unknown" => lost += 1,
                other => assert_eq!(other, "conflict", "{reject:?}"),
            }
        }
        assert!(theirs.load(Ordering::Relaxed) > 0, "nobody wrote beside the copy");
        let sum: i64 = numbers(&sound).values().sum();
        // A write whose answer was lost was applied, unless the other writer changed the document first.
        let ours = sum - theirs.load(Ordering::Relaxed);
        assert!(
            (counts.written as i64..=counts.written as i64 + lost).contains(&ours),
            "{ours}, lost {lost}: {counts:?}"
        );
        assert_eq!(lost > 0, loses == 7);
    }
}

/// A store in which something happens at each conditional write. Its number counts from 1.
type Happens = dyn FnMut(u32, &str, &[u8], &[u8]) -> Fate + Send;

type Event = Arc<Mutex<Option<Box<Happens>>>>;

fn eventful() -> (Arc<dyn AnyStore>, Arc<dyn AnyStore>, Event) {
    let happens = Event::default();
    let (mut swaps, inner) = (0, Arc::clone(&happens));
    let faulty = Faulty::new(move |request| match request.op {
        Op::CompareAndSwap { key, expected, body } => {
            swaps += 1;
            inner.lock().unwrap().as_mut().map_or(Fate::Done, |happens| happens(swaps, key, expected, body))
        }
        _ => Fate::Done,
    });
    let sound: Arc<dyn AnyStore> = Arc::new(faulty.sound());
    zeros(&sound, 1);
    (sound, Arc::new(faulty), happens)
}

/// A write by another client in the meantime.
fn swap_beside(store: &dyn AnyStore, key: &str, expected: &[u8], body: &[u8]) {
    std::thread::scope(|scope| {
        scope.spawn(|| caller(store)(Op::CompareAndSwap { key, expected, body }).unwrap());
    });
}

#[test]
fn what_others_stored_is_not_taken_for_our_own() {
    // The write is not applied, but another client stores the same result in the meantime.
    let (sound, store, happens) = eventful();
    let theirs = Arc::clone(&sound);
    *happens.lock().unwrap() = Some(Box::new(move |swap, key, expected, body| {
        assert_eq!(swap, 1);
        swap_beside(&*theirs, key, expected, body);
        Fate::Fails(unknown())
    }));
    let lab = Lab::new();
    let report =
        lab.copy(&files(&[&lab.write("a.jsonl", ones(1, 1))]), &merging(&store, ".n += $new.n", false)).unwrap();
    assert_eq!((report.counts.written, report.counts.rejected), (0, 1), "one of the two would be lost");
    assert_eq!(numbers(&sound)["k000"], 1);
}

#[test]
fn a_write_that_arrives_late_is_not_done_twice() {
    // The first write gets no answer, and is applied only when the second arrives.
    let (sound, store, happens) = eventful();
    let theirs = Arc::clone(&sound);
    *happens.lock().unwrap() = Some(Box::new(move |swap, key, expected, body| match swap {
        1 => Fate::Fails(unknown()),
        _ => {
            swap_beside(&*theirs, key, expected, body);
            Fate::Done
        }
    }));
    let lab = Lab::new();
    let report =
        lab.copy(&files(&[&lab.write("a.jsonl", ones(1, 1))]), &merging(&store, ".n += $new.n", false)).unwrap();
    assert_eq!((report.counts.written, report.counts.rejected), (0, 1));
    assert_eq!((lab.rejects()[0].error.as_str(), numbers(&sound)["k000"]), ("outcome-unknown", 1));
}

/// The attempts of `Lab`.
const TRIES: u32 = 16;

/// Others come first each time, and the answers to the last `lost` attempts are lost; afterwards, reads fail if the store
/// is `away`.
fn contended(lost: u32, fate: fn() -> Fate, away: bool) -> (Result<CopyReport, TransferError>, Vec<Rejected>) {
    let sound: Arc<Mutex<Option<Arc<dyn AnyStore>>>> = Arc::default();
    let (mut swaps, theirs) = (0, Arc::clone(&sound));
    let faulty = Faulty::new(move |request| match request.op {
        Op::CompareAndSwap { key, expected, body } => {
            swaps += 1;
            if swaps > TRIES - lost {
                return fate();
            }
            swap_beside(&**theirs.lock().unwrap().as_ref().unwrap(), key, expected, body);
            Fate::Done
        }
        _ if away && swaps >= TRIES => Fate::Fails(OpError::new(ErrorKind::Temporary, "away")),
        _ => Fate::Done,
    });
    let other: Arc<dyn AnyStore> = Arc::new(faulty.sound());
    zeros(&other, 1);
    *sound.lock().unwrap() = Some(other);
    let store: Arc<dyn AnyStore> = Arc::new(faulty);
    let lab = Lab::new();
    let copied = lab.copy(&files(&[&lab.write("a.jsonl", ones(1, 1))]), &merging(&store, ".n += $new.n", false));
    (copied, lab.rejects())
}

/// A store that answers is told from one that is away by reading once more.
#[test]
fn a_record_that_others_keep_changing_does_not_end_the_copy() {
    let lost = || Fate::Fails(unknown());
    for (fate, error) in [(lost as fn() -> Fate, "conflict"), (|| Fate::DoneBut(unknown()), "outcome-unknown")] {
        let (copied, rejects) = contended(1, fate, false);
        assert_eq!((copied.unwrap().counts.rejected, rejects[0].error.as_str()), (1, error), "{rejects:?}");
    }
    for (lost_answers, away) in [(1, true), (2, false)] {
        let error = contended(lost_answers, lost, away).0.unwrap_err().to_string();
        assert!(error.contains("gave up after 16 attempts") && error.contains("--resume"), "{error}");
    }
}

#[test]
fn each_merge_is_done_once_or_listed_wherever_the_copy_breaks() {
    for breaks_at in [1, 99, 100, 777, 1_999] {
        let broken = Arc::new(AtomicBool::new(true));
        let (breaks, mut swaps) = (Arc::clone(&broken), 0);
        let faulty = Faulty::new(move |request| {
            swaps += i64::from(matches!(request.op, Op::CompareAndSwap { .. }));
            if breaks.load(Ordering::Relaxed) && swaps > breaks_at {
                return Fate::Fails(OpError::new(ErrorKind::Temporary, "gone"));
            }
            Fate::Done
        });
        let sound: Arc<dyn AnyStore> = Arc::new(faulty.sound());
        let store: Arc<dyn AnyStore> = Arc::new(faulty);
        zeros(&sound, 50);
        let mut lab = Lab { parallel: 1, ..Lab::new() };
        let path = lab.write("a.jsonl", ones(2_000, 50));
        lab.copy(&files(&[&path]), &merging(&store, ".n += $new.n", false)).unwrap_err();
        broken.store(false, Ordering::Relaxed);
        lab.begin = Begin::Resume;
        let report = lab.copy(&files(&[&path]), &merging(&store, ".n += $new.n", false)).unwrap();
        let counts = report.counts;
        assert_eq!((counts.read, counts.written + counts.rejected), (2_000, 2_000), "{breaks_at}");
        assert!(lab.rejects().iter().all(|reject| reject.error == "outcome-unknown") && counts.rejected <= 100);
        let sum: i64 = numbers(&sound).values().sum();
        assert!((counts.written as i64..=2_000).contains(&sum), "{breaks_at}: {sum} of {counts:?}");
    }
}

#[test]
fn what_a_store_or_a_flag_cannot_is_refused_before_anything_is_written() {
    let store = memory();
    let merge = Some(MergeBy { expression: Arc::new(Jq::of_merge(".").unwrap()), absent: false });
    let refused =
        |options: StoreSinkOptions, verify: bool| StoreSink::check(&*store, &options, verify).unwrap_err().to_string();
    let durability =
        store.capabilities().durability.first().map(|(d, _)| storebench_engine::store::DurabilityRequest::Exactly(*d));
    let of = |verb| StoreSinkOptions { durability, merge: merge.clone(), ..sink_options(verb) };
    assert!(refused(of(RecordOp::Upsert), false).contains("--merge requires --op merge"));
    assert!(refused(of(RecordOp::Merge), true).contains("not be verified"));
    StoreSink::check(&*store, &of(RecordOp::Merge), false).unwrap();
}
