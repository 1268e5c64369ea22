//! Transactions on a fake replica set: nx-27017 is a single server, which has none.

use std::time::{Duration, Instant};

use bson::doc;
use storebench_conformance::{Stop, suite};
use storebench_engine::store::{ErrorKind, Isolation, Op, OpError, OpKind, OwnedReply, Prepare, SessionOptions, Step};
use storebench_fakes::mongodb::ReplicaSet;

use super::drive::{Driven, layout, options};
use super::{last, open, replica_set};
use crate::server::Server;

fn url(set: &ReplicaSet) -> String {
    format!("mongodb://127.0.0.1:{}/d", set.port)
}

#[test]
fn a_replica_set_has_transactions() {
    let set = ReplicaSet::start().unwrap();
    let store = open(&url(&set));
    let of_transactions = |name: &str| name.starts_with("transaction: ") || name.contains("written together");
    let checks: Vec<_> = suite().into_iter().filter(|check| of_transactions(check.name)).collect();
    assert_eq!(checks.len(), 9);
    for check in checks {
        assert_eq!(check.run(&*store), Ok(()), "{}", check.name);
    }
    // Not even those whose sessions were dropped in the middle.
    store.close().unwrap();
    assert_eq!(set.open_transactions(), 0);
}

#[test]
fn a_single_server_refuses_them_and_says_why() {
    let server = Server::start("nx-27017");
    let store = open(&format!("{}/transactions", server.url));
    let checks: Vec<_> = suite().into_iter().filter(|check| check.name.starts_with("transaction: ")).collect();
    for check in checks {
        assert!(matches!(check.run(&*store), Err(Stop::NotSupported(_))), "{}", check.name);
    }
    let why = store.capabilities().transactions.remedy.unwrap();
    assert!(why.contains("replica set"), "{why}");
}

fn step(kind: OpKind, key: &str) -> Step {
    Step { kind: Some(kind), key: key.into(), body: b"{}".to_vec(), ..Step::default() }
}

fn transaction(steps: &[Step]) -> Op<'_> {
    Op::Transaction { isolation: Isolation::Snapshot, steps, rolls_back: false }
}

#[test]
fn a_transaction_says_what_it_is() {
    let set = ReplicaSet::start().unwrap();
    let store = open(&url(&set));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    let mut session = Driven::open(&*store, &options()).unwrap();
    let steps = [step(OpKind::Read, "a"), step(OpKind::Upsert, "a")];
    for number in [1, 2] {
        session.run(transaction(&steps)).unwrap();
        let commands = set.commands();
        let (first, second, commit) =
            (last(&commands, "find"), last(&commands, "update"), last(&commands, "commitTransaction"));
        for command in [first, second, commit] {
            assert_eq!(command.get_i64("txnNumber").unwrap(), number, "{command}");
            assert!(!command.get_bool("autocommit").unwrap(), "{command}");
            let id = command.get_document("lsid").unwrap().get("id").unwrap();
            assert_eq!(Some(id), first.get_document("lsid").unwrap().get("id"));
            assert!(matches!(id, bson::Bson::Binary(id) if id.subtype == bson::spec::BinarySubtype::Uuid), "{id}");
        }
        assert_eq!(first.get_document("readConcern").unwrap(), &doc! { "level": "snapshot" });
        assert!(first.contains_key("startTransaction") && !second.contains_key("startTransaction"));
        assert!(!second.contains_key("writeConcern") && !second.contains_key("readConcern"), "{second}");
        assert_eq!(commit.get_str("$db").unwrap(), "admin");
        assert_eq!(commit.get_document("writeConcern").unwrap(), &doc! { "w": 1, "j": false });
    }
}

/// Waits until the session is connected and no transaction is open in the server, which would keep its locks.
fn none_is_open(set: &ReplicaSet, session: &mut Driven) {
    let begun = Instant::now();
    while session.read("other").unwrap_err().kind != ErrorKind::NotFound || set.open_transactions() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "a transaction stays open");
        session.pass(Duration::from_millis(10));
    }
}

#[test]
fn a_transaction_that_is_given_up_leaves_no_locks() {
    let set = ReplicaSet::start().unwrap();
    let store = open(&url(&set));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    for in_flight in [1, 2] {
        let mut session = Driven::open(&*store, &SessionOptions { in_flight, ..options() }).unwrap();
        // As many steps as it takes for some to be done.
        let steps: Vec<Step> = (0..100).map(|n| step(OpKind::Upsert, &format!("k{n}"))).collect();
        for _ in 0..5 {
            let mut answers: Vec<Result<OwnedReply, OpError>> = Vec::new();
            session.submit(transaction(&steps), &mut answers);
            let number = session.last();
            session.pass(Duration::from_millis(1));
            session.abandon(number);
            none_is_open(&set, &mut session);
            assert!(answers.is_empty());
        }
        session.run(Op::Upsert { key: "k0", body: b"{\"n\":1}" }).unwrap();
        session.run(Op::Delete { key: "k0" }).unwrap();
        assert_eq!(session.read("k1").unwrap_err().kind, ErrorKind::NotFound);
    }
}

#[test]
fn a_transaction_whose_connection_breaks_is_aborted_unless_its_commit_was_sent() {
    let set = ReplicaSet::start().unwrap();
    let store = open(&url(&set));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    let steps = [step(OpKind::Upsert, "a"), step(OpKind::Upsert, "b")];
    for in_flight in [1, 2] {
        let mut session = Driven::open(&*store, &SessionOptions { in_flight, ..options() }).unwrap();
        set.cut_at("update");
        let error = session.run(transaction(&steps)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Temporary, "{error}");
        assert!(error.message.contains("the transaction was not committed"), "{error}");
        none_is_open(&set, &mut session);
        assert_eq!(session.read("a").unwrap_err().kind, ErrorKind::NotFound);
        set.cut_at("commitTransaction");
        let error = session.run(transaction(&steps)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::OutcomeUnknown, "{error}");
        none_is_open(&set, &mut session);
        for key in ["a", "b"] {
            session.run(Op::Delete { key }).unwrap();
        }
    }
}

/// Its connection is not kept for ever: operations that follow would wait for it.
#[test]
fn a_transaction_that_is_given_up_and_never_answered_loses_its_connection() {
    let set = ReplicaSet::start().unwrap();
    let store = open(&url(&set));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    let short = SessionOptions { in_flight: 1, timeout: Duration::from_millis(200), ..options() };
    let mut session = Driven::open(&*store, &short).unwrap();
    // Neither the step nor the abort that follows on another connection.
    set.silence_at("update");
    set.silence_at("abortTransaction");
    let mut answers = Vec::new();
    session.submit(transaction(&[step(OpKind::Upsert, "a")]), &mut answers);
    session.abandon(session.last());
    let begun = Instant::now();
    while session.read_within("other", Duration::from_millis(100)).is_none_or(|kind| kind != ErrorKind::NotFound) {
        assert!(begun.elapsed() < Duration::from_secs(20), "still waiting");
        session.pass(Duration::from_millis(10));
    }
    none_is_open(&set, &mut session);
}

/// What elsewhere means that nothing was done says nothing about a commit: a router may have begun it.
#[test]
fn only_the_label_says_that_nothing_was_committed() {
    for (code, label, expected) in [
        (10_107, false, ErrorKind::OutcomeUnknown),
        (251, false, ErrorKind::OutcomeUnknown),
        (251, true, ErrorKind::Aborted),
        (13, false, ErrorKind::Refused),
        (91, false, ErrorKind::OutcomeUnknown),
    ] {
        let (port, seen) = replica_set(move |name| {
            let labels: &[&str] = if label { &["TransientTransactionError"] } else { &[] };
            (name == "commitTransaction")
                .then(|| doc! { "ok": 0.0, "code": code, "errmsg": "as it says", "errorLabels": labels })
        });
        let store = open(&format!("mongodb://127.0.0.1:{port}/d"));
        store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
        let mut session = Driven::open(&*store, &options()).unwrap();
        let error = session.run(transaction(&[step(OpKind::Upsert, "a")])).unwrap_err();
        assert_eq!(error.kind, expected, "{code}: {error}");
        // It may still be open. Where the node has changed, the abort follows on a new connection.
        let aborted = || seen.lock().unwrap().iter().any(|command| command.contains_key("abortTransaction"));
        let begun = Instant::now();
        while expected != ErrorKind::Aborted && !aborted() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{code}: it is not aborted");
            session.pass(Duration::from_millis(10));
            let _ = session.read("other");
        }
        assert_eq!(aborted(), expected != ErrorKind::Aborted, "{code}");
    }
}

#[test]
fn of_two_transactions_that_write_one_document_one_is_aborted() {
    let set = ReplicaSet::start().unwrap();
    let store = open(&url(&set));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    let mut session = Driven::open(&*store, &options()).unwrap();
    let steps: Vec<Step> = ["k", "a", "b", "c", "d"].map(|key| step(OpKind::Upsert, key)).into();
    let mut aborted = 0;
    for _ in 0..20 {
        let mut answers = Vec::new();
        session.submit(transaction(&steps), &mut answers);
        session.submit(transaction(&steps), &mut answers);
        session.wait(2, &mut answers);
        for answer in answers {
            match answer {
                Ok(reply) => assert_eq!(reply.as_reply().steps, [1; 5]),
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::Aborted, "{error}");
                    aborted += 1;
                }
            }
        }
    }
    assert!(aborted > 0, "they never met");
    assert_eq!(set.open_transactions(), 0);
}
