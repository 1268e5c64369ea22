//! Handling of answers: revisions, partly completed bulk writes, errors before a write.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::{Document, doc};
use storebench_engine::store::{
    AnyStore, BatchBuf, BulkWrite, CollectionLayout, ErrorKind, Layout, Op, Prepare, SessionOptions,
};
use storebench_fakes::mongodb::{Reply, single, usual};
use storebench_study::workload::Body;

use super::drive::{Driven, layout, options};
use super::{last, open, replica_set, serve};
use crate::server::Server;

fn revision(session: &mut Driven, key: &str) -> Vec<u8> {
    session.run(Op::Read { key }).unwrap().as_reply().revision.unwrap().to_vec()
}

#[test]
fn a_revision_from_before_a_touch_is_stale() {
    let server = Server::start("nx-27017");
    let store = open(&format!("{}/touched", server.url));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    let mut session = Driven::open(&*store, &options()).unwrap();
    session.run(Op::Upsert { key: "k", body: br#"{"n":1}"# }).unwrap();
    let before = revision(&mut session, "k");
    session.run(Op::Touch { key: "k", expiry: Duration::from_secs(3_600) }).unwrap();
    assert_ne!(revision(&mut session, "k"), before);
    let swap = Op::CompareAndSwap { key: "k", expected: &before, body: br#"{"n":2}"# };
    assert_eq!(session.run(swap).unwrap_err().kind, ErrorKind::Conflict);
    // nx-27017 returns the expiry as text, which the driver does not recognize as an expiry and passes on.
    let mut read: Document = serde_json::from_str(&session.read("k").unwrap()).unwrap();
    read.remove("_sb_exp");
    assert_eq!(read, doc! { "n": 1 });
}

#[test]
fn increments_and_touches_draw_a_revision_of_their_own() {
    let (port, seen) = replica_set(|name| {
        (name == "findAndModify").then(|| doc! { "ok": 1.0, "value": { "_id": "k", "n": 7_i64, "_sb_rev": 1_i64 } })
    });
    let store = open(&format!("mongodb://127.0.0.1:{port}/d?replicaSet=rs"));
    let collection = |body| CollectionLayout {
        name: "c".into(),
        body,
        indexes: vec![],
        existing: None,
        uses: storebench_engine::store::Uses::ALL,
    };
    let mut drawn = Vec::new();
    for body in [Body::Counter, Body::Json] {
        store.prepare(&Layout { collections: vec![collection(body)] }, Prepare::Fresh).unwrap();
        let mut session = Driven::open(&*store, &options()).unwrap();
        for _ in 0..2 {
            let update = if body == Body::Counter {
                session.run(Op::Counter { key: "k", delta: 1, initial: 0 }).unwrap();
                let commands = seen.lock().unwrap().clone();
                last(&commands, "findAndModify").get_document("update").unwrap().clone()
            } else {
                session.run(Op::Touch { key: "k", expiry: Duration::from_secs(9) }).unwrap();
                let commands = seen.lock().unwrap().clone();
                let updates = last(&commands, "update").get_array("updates").unwrap().clone();
                updates[0].as_document().unwrap().get_document("u").unwrap().clone()
            };
            drawn.push(update.get_document("$set").unwrap().get_i64("_sb_rev").unwrap());
        }
    }
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len(), 4, "{drawn:?}");
}

/// A store that sends bulk inserts in messages of 100 documents. The first one succeeds, the second one gets this
/// answer, and a third one must not be sent.
fn second_message(answer: impl Fn() -> Reply + Send + Sync + 'static) -> (Arc<dyn AnyStore>, Arc<AtomicUsize>) {
    let messages = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&messages);
    let mut hello = single();
    hello.insert("maxWriteBatchSize", 100);
    let port = serve(move |name, command| {
        if name == "insert" && command.get_str("insert").is_ok_and(|name| name == "books") {
            return match counted.fetch_add(1, Ordering::SeqCst) {
                0 => {
                    let error = doc! { "index": 4, "code": 11000, "errmsg": "E11000 duplicate key" };
                    Reply::Answer(doc! { "ok": 1.0, "n": 99, "writeErrors": [error] })
                }
                _ => answer(),
            };
        }
        Reply::Answer(usual(name, &hello))
    });
    let store = open(&format!("mongodb://127.0.0.1:{port}/d"));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    (store, messages)
}

fn items(count: usize) -> BatchBuf {
    let mut items = BatchBuf::new();
    (0..count).for_each(|n| items.push(&format!("k{n:03}"), b"{}"));
    items
}

#[test]
fn a_bulk_that_fails_in_a_later_message_keeps_the_answers_of_the_earlier_ones() {
    let error = |code: i32| doc! { "ok": 0.0, "code": code, "errmsg": "as it says" };
    let concern = doc! {
        "ok": 1.0, "n": 99, "writeErrors": [{ "index": 1, "code": 11000, "errmsg": "E11000 duplicate key" }],
        "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" },
    };
    let garbage = doc! { "ok": 1.0, "n": 100, "writeErrors": [{ "index": 7_000, "code": 11000, "errmsg": "whose?" }] };
    let cases: [(Option<Document>, ErrorKind); 6] = [
        (Some(error(10_107)), ErrorKind::Temporary),
        (Some(error(462)), ErrorKind::Temporary),
        // A single document may be the cause, so each must be sent again separately.
        (Some(error(13)), ErrorKind::Temporary),
        (Some(concern.clone()), ErrorKind::OutcomeUnknown),
        (Some(garbage), ErrorKind::OutcomeUnknown),
        // The connection breaks.
        (None, ErrorKind::OutcomeUnknown),
    ];
    for (answer, expected) in cases {
        let said = answer.clone();
        let (store, messages) = second_message(move || said.clone().map_or(Reply::Close, Reply::Answer));
        let mut session = Driven::open(&*store, &options()).unwrap();
        let reply = session.run(Op::BulkWrite { kind: BulkWrite::Insert, items: items(250).as_batch() });
        let reply = reply.unwrap_or_else(|error| panic!("{answer:?}: {error}"));
        let reply = reply.as_reply();
        assert_eq!(messages.load(Ordering::SeqCst), 2, "{answer:?}");
        assert_eq!(reply.documents, 99, "{answer:?}");
        let mut rejects = reply.rejects.to_vec();
        rejects.sort_by_key(|reject| reject.item);
        let places: Vec<usize> = rejects.iter().map(|reject| reject.item).collect();
        assert_eq!(places, std::iter::once(4).chain(100..250).collect::<Vec<_>>(), "{answer:?}");
        for reject in &rejects {
            let kind = match reject.item {
                4 => ErrorKind::Conflict,
                101 if answer.as_ref() == Some(&concern) => ErrorKind::Conflict,
                0..200 => expected,
                _ => ErrorKind::Temporary,
            };
            assert_eq!(reject.error.kind, kind, "{answer:?}: {reject:?}");
            assert_eq!(reject.error.message.contains("not sent"), reject.item >= 200, "{answer:?}: {reject:?}");
        }
    }
}

#[test]
fn a_bulk_whose_first_message_is_turned_away_was_not_done_at_all() {
    let mut hello = single();
    hello.insert("maxWriteBatchSize", 100);
    let port = serve(move |name, command| match name {
        "insert" if command.get_str("insert").is_ok_and(|name| name == "books") => {
            Reply::Answer(doc! { "ok": 0.0, "code": 462, "errmsg": "too many requests" })
        }
        _ => Reply::Answer(usual(name, &hello)),
    });
    let store = open(&format!("mongodb://127.0.0.1:{port}/d"));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    let mut session = Driven::open(&*store, &options()).unwrap();
    let error = session.run(Op::BulkWrite { kind: BulkWrite::Insert, items: items(250).as_batch() }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Temporary, "{error}");
}

#[test]
fn what_fails_while_a_write_only_reads_has_changed_nothing() {
    let present = Arc::new(Mutex::new(Document::new()));
    let told = Arc::clone(&present);
    let port = serve(move |name, command| {
        let books = command.get_str(name).is_ok_and(|collection| collection == "books");
        match name {
            "find" if books => Reply::Answer(told.lock().unwrap().clone()),
            // The swap finds no document with that revision, and then looks it up.
            "update" if books => Reply::Answer(doc! { "ok": 1.0, "n": 0 }),
            _ => Reply::Answer(usual(name, &single())),
        }
    });
    let store = open(&format!("mongodb://127.0.0.1:{port}/d"));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    let mut session = Driven::open(&*store, &options()).unwrap();
    for (answer, expected) in [
        (doc! { "ok": 0.0, "code": 50, "errmsg": "exceeded time limit" }, ErrorKind::Temporary),
        (doc! { "ok": 0.0, "code": 11_601, "errmsg": "interrupted" }, ErrorKind::Temporary),
        (doc! { "well": true }, ErrorKind::Failed),
        (doc! { "ok": 1.0, "cursor": 7 }, ErrorKind::Failed),
    ] {
        *present.lock().unwrap() = answer.clone();
        let swap = Op::CompareAndSwap { key: "k", expected: &7_i64.to_le_bytes(), body: b"{}" };
        for op in [Op::MergePatch { key: "k", patch: b"{}" }, swap] {
            let error = session.run(op).unwrap_err();
            assert_eq!(error.kind, expected, "{answer}: {error}");
        }
    }
}

#[test]
fn a_silent_host_leaves_the_others_their_time() {
    let silent = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&silent);
    let first = serve(
        move |name, _| {
            if told.load(Ordering::SeqCst) { Reply::Silence } else { Reply::Answer(usual(name, &single())) }
        },
    );
    let second = serve(|name, _| {
        // It needs more time than is left.
        std::thread::sleep(Duration::from_millis(20));
        Reply::Answer(usual(name, &single()))
    });
    let store = open(&format!("mongodb://127.0.0.1:{first},127.0.0.1:{second}/d"));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    silent.store(true, Ordering::SeqCst);
    let options = SessionOptions { timeout: Duration::from_secs(2), ..options() };
    let mut session = Driven::open(&*store, &options).unwrap();
    session.run(Op::Upsert { key: "k", body: b"{}" }).unwrap();
}

#[test]
fn errors_without_a_count_are_told_in_the_words_of_the_server_and_nothing_is_known_of_the_rest() {
    let port = serve(|name, command| {
        let books = name == "insert" && command.get_str(name).is_ok_and(|collection| collection == "books");
        let error = doc! { "index": 0, "code": 11000, "errmsg": "E11000 as it says" };
        Reply::Answer(if books {
            doc! { "ok": 1.0, "writeErrors": [error] }
        } else {
            usual(name, &single())
        })
    });
    let store = open(&format!("mongodb://127.0.0.1:{port}/d"));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    let mut session = Driven::open(&*store, &options()).unwrap();
    for count in [1, 3] {
        let reply = session.run(Op::BulkWrite { kind: BulkWrite::Insert, items: items(count).as_batch() }).unwrap();
        let reply = reply.as_reply();
        assert_eq!((reply.documents, reply.rejects.len()), (0, count));
        for reject in reply.rejects {
            let expected = if reject.item == 0 { ErrorKind::Conflict } else { ErrorKind::OutcomeUnknown };
            assert_eq!(reject.error.kind, expected, "{reject:?}");
        }
    }
}

/// FerretDB answers so where its own database accepts no writes.
#[test]
fn write_errors_without_a_count_are_told_in_the_servers_words() {
    let answer = doc! { "ok": 1.0, "writeErrors": [{ "index": 1, "code": 13, "errmsg": "no writes today" }] };
    let (store, _) = second_message(move || Reply::Answer(answer.clone()));
    let mut session = Driven::open(&*store, &options()).unwrap();
    let reply = session.run(Op::BulkWrite { kind: BulkWrite::Insert, items: items(200).as_batch() }).unwrap();
    let reply = reply.as_reply();
    assert_eq!((reply.documents, reply.rejects.len()), (99, 101));
    for reject in reply.rejects.iter().filter(|reject| reject.item != 4) {
        let expected = if reject.item == 101 { ErrorKind::Refused } else { ErrorKind::OutcomeUnknown };
        assert_eq!(reject.error.kind, expected, "{reject:?}");
        assert!(reject.error.message.contains("no writes today"), "{reject:?}");
    }
}

#[test]
fn what_a_server_does_not_tell_of_its_settings_is_left_out() {
    let port = serve(|name, _| {
        let cache = doc! { "cache": { "maximum bytes configured": 1_073_741_824_i64 } };
        Reply::Answer(match name {
            "getCmdLineOpts" => doc! { "ok": 0.0, "code": 13, "errmsg": "not authorized on admin" },
            "getParameter" => doc! { "ok": 0.0, "code": 59, "errmsg": "no such command" },
            "serverStatus" => doc! { "ok": 1.0, "storageEngine": { "name": "wiredTiger" }, "wiredTiger": cache },
            _ => usual(name, &single()),
        })
    });
    let told = open(&format!("mongodb://127.0.0.1:{port}/d")).own_settings().unwrap();
    assert_eq!((told.all.len(), told.memory_bytes, told.incomplete), (2, Some(1 << 30), true), "{told:?}");
    for (code, why) in [(13, "this user may not read its settings"), (59, "this server does not tell its settings")] {
        let port = serve(move |name, _| {
            Reply::Answer(match name {
                "getCmdLineOpts" | "getParameter" | "serverStatus" => doc! { "ok": 0.0, "code": code, "errmsg": "no" },
                _ => usual(name, &single()),
            })
        });
        let error = open(&format!("mongodb://127.0.0.1:{port}/d")).own_settings().unwrap_err();
        assert_eq!(error.to_string(), why);
    }
    let port = serve(|name, _| match name {
        "hello" | "buildInfo" => Reply::Answer(usual(name, &single())),
        _ => Reply::Close,
    });
    assert!(open(&format!("mongodb://127.0.0.1:{port}/d")).own_settings().is_err(), "a lost connection is an error");
}
