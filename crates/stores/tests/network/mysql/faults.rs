//! Unreachable servers, wrong credentials, and a server that dies in the middle.

use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

use storebench_engine::store::{
    Batch, BatchBuf, BulkWrite, Durability, ErrorKind, Op, Prepare, SessionOptions, StoreError,
};

use super::{client, sql};
use crate::driven::{Driven, PATIENCE, layout, options};
use crate::server::{Server, free_port};

fn unreachable(url: &str) -> String {
    let error = storebench_stores::open(url).unwrap().inspect().unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{url}: {error:?}");
    let text = error.to_string();
    assert!(!text.contains("geheim"), "{text}");
    text
}

#[test]
fn wrong_port_password_or_user() {
    let server = Server::start("mariadb");
    let place = format!("127.0.0.1:{}", server.port);
    let text = unreachable(&format!("mysql://storebench:geheim@127.0.0.1:{}/d", free_port()));
    assert!(text.contains("nothing is listening"), "{text}");
    for user in ["storebench", "nobody"] {
        let text = unreachable(&format!("mysql://{user}:geheim@{place}/d"));
        assert!(text.contains("check the user and the password") && text.contains(&place), "{text}");
    }
    // A database that does not exist is empty.
    let absent = storebench_stores::open(&format!("{}other", server.url.strip_suffix("storebench").unwrap())).unwrap();
    assert_eq!(absent.inspect().unwrap(), storebench_engine::store::Namespace::Absent);
    assert_eq!(sql(&server, "SHOW DATABASES LIKE 'other'"), "");
    for wrong in ["mysql://h/a/b", "mysql://h,i/a", "mysql://h/information_schema", "mysql://h/d?tls_name=x"] {
        assert!(matches!(storebench_stores::open(wrong), Err(StoreError::BadUrl(_))), "{wrong}");
    }
}

#[test]
fn something_else_behind_the_port_is_named_as_such() {
    for answer in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"\x05\0\0\0\xff\x10\x04no", b"-ERR unknown\r\n", b""] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let _ = stream.unwrap().write_all(answer);
            }
        });
        let text = unreachable(&format!("mysql://u:geheim@127.0.0.1:{port}/d"));
        assert!(text.contains("MySQL") || text.contains("connections"), "{text}");
    }
}

#[test]
fn a_killed_server_leaves_unknown_outcomes_and_the_session_goes_on() {
    let server = Server::start("mariadb");
    let store = storebench_stores::open(&server.url).unwrap();
    let mut indexed = layout();
    indexed.collections[0].indexes = vec![vec!["user".into()]];
    store.prepare(&indexed, Prepare::Fresh).unwrap();
    let four = SessionOptions { in_flight: 4, timeout: Duration::from_secs(600), ..options(Durability::FSYNC) };
    let mut driven = Driven::open_with(&*store, &four).unwrap();
    driven.call(Op::Upsert { key: "kept", body: b"1" }).unwrap();
    // Lock the table, so that all operations are in flight when the server dies.
    let mut locked = client(&server).args(["-e", "LOCK TABLES documents WRITE; SELECT SLEEP(600)"]).spawn().unwrap();
    while sql(&server, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE state = 'User sleep'") == "0" {}
    let mut items = BatchBuf::new();
    items.push("bulk", b"1");
    let write = driven.submit(Op::Upsert { key: "new", body: b"1" });
    let read = driven.submit(Op::Read { key: "kept" });
    let bulk = driven.submit(Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() });
    let page = driven.submit(Op::Page { field: "user", value: "1", limit: 1 });
    let unsent = driven.submit(Op::Upsert { key: "unsent", body: b"1" });
    driven.wait(Duration::from_millis(500), |answers| answers > 0);
    server.kill();
    let _ = locked.wait();
    let answers = driven.finish(5);
    let kind = |token| {
        let (_, answer) = answers.iter().find(|(given, _)| *given == token).expect("it completes");
        answer.as_ref().unwrap_err().kind
    };
    assert_eq!((kind(write), kind(bulk)), (ErrorKind::OutcomeUnknown, ErrorKind::OutcomeUnknown));
    assert_eq!((kind(read), kind(page)), (ErrorKind::Temporary, ErrorKind::Temporary));
    assert_eq!(kind(unsent), ErrorKind::Temporary, "operations beyond the in-flight limit were not sent");
    let error = driven.call(Op::Upsert { key: "meanwhile", body: b"1" }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Temporary);
    server.restart();
    driven.call_again(Op::Upsert { key: "after", body: b"1" }).unwrap();
    assert_eq!(driven.call(Op::Read { key: "kept" }).unwrap().as_reply().body, Some(&b"1"[..]));
    assert_eq!(driven.call(Op::Page { field: "user", value: "1", limit: 1 }).unwrap().as_reply().documents, 0);
    assert_eq!(driven.counters().disconnects, 4);
}

#[test]
fn an_abandoned_operation_gives_its_connection_up() {
    let server = Server::start("mariadb");
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let one = SessionOptions { in_flight: 1, timeout: PATIENCE, ..options(Durability::FSYNC) };
    let mut driven = Driven::open_with(&*store, &one).unwrap();
    driven.call(Op::Upsert { key: "a", body: b"1" }).unwrap();
    let mut locked = client(&server).args(["-e", "LOCK TABLES documents WRITE; SELECT SLEEP(600)"]).spawn().unwrap();
    while sql(&server, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE state = 'User sleep'") == "0" {}
    let token = driven.submit(Op::Read { key: "a" });
    driven.wait(Duration::from_millis(200), |answers| answers > 0);
    driven.abandon(token);
    let asked = driven.submit(Op::Exists { key: "b" });
    driven.wait(Duration::from_millis(200), |answers| answers > 0);
    assert!(driven.take().is_none(), "the table is locked");
    locked.kill().unwrap();
    let _ = locked.wait();
    let begun = std::time::Instant::now();
    driven.wait(PATIENCE, |answers| answers > 0);
    assert_eq!(driven.take().unwrap().unwrap().as_reply().documents, 0, "{asked:?} after {:?}", begun.elapsed());
    // A server ends a statement of which nobody waits for the end.
    let brief = SessionOptions { in_flight: 1, timeout: Duration::from_secs(1), ..options(Durability::FSYNC) };
    let mut driven = Driven::open_with(&*store, &brief).unwrap();
    let query = Op::Query { number: 0, text: "SELECT SLEEP(600)", values: Batch::default() };
    driven.submit(query);
    driven.wait(PATIENCE, |answers| answers > 0);
    let answer = driven.take().unwrap();
    println!("after its time: {answer:?}");
    while sql(&server, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE state = 'User sleep'") != "0" {}
}

#[test]
fn locks_that_others_hold_are_temporary_and_abort_transactions() {
    use storebench_engine::store::{Isolation, OpKind, Step};

    let server = Server::start_with("mariadb", &["--option=innodb_lock_wait_timeout=1"]);
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
    driven.call(Op::Upsert { key: "a", body: b"1" }).unwrap();
    let hold = "-eSTART TRANSACTION; SELECT * FROM documents FOR UPDATE; SELECT SLEEP(600)";
    let mut locked = client(&server).arg(hold).stdout(std::process::Stdio::null()).spawn().unwrap();
    while sql(&server, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE state = 'User sleep'") == "0" {}
    let error = driven.call(Op::Upsert { key: "a", body: b"2" }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Temporary, "{error}");
    let step = |kind, key: &str| Step { kind: Some(kind), key: key.into(), body: b"3".to_vec(), ..Step::default() };
    let steps = [step(OpKind::Upsert, "b"), step(OpKind::Replace, "a")];
    let transaction = Op::Transaction { isolation: Isolation::ReadCommitted, steps: &steps, rolls_back: false };
    // The first row of the range is locked, and with it the place of the new one.
    let error = driven.call(transaction).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Aborted, "{error}");
    let sleeps = "FROM information_schema.PROCESSLIST WHERE state = 'User sleep'";
    sql(&server, &format!("KILL {}", sql(&server, &format!("SELECT id {sleeps}"))));
    let _ = locked.wait();
    while sql(&server, &format!("SELECT COUNT(*) {sleeps}")) != "0" {}
    let begun = std::time::Instant::now();
    while let Err(error) = driven.call_again(transaction) {
        assert!(error.kind == ErrorKind::Aborted && begun.elapsed() < PATIENCE, "{error}");
    }
    assert_eq!(sql(&server, "SELECT `key`, body FROM documents ORDER BY `key`"), "a\t3\nb\t3");
    // A server without room says so, and takes no part of a write.
    sql(&server, "SET GLOBAL max_prepared_stmt_count = 0, max_connections = 40");
    let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
    let error = driven.call(Op::Upsert { key: "c", body: b"1" }).unwrap_err();
    assert!(error.kind == ErrorKind::Temporary && error.message.contains("max_prepared_stmt_count"), "{error}");
    let many = SessionOptions { in_flight: 60, ..options(Durability::FSYNC) };
    let Err(StoreError::Unreachable(text)) = Driven::open_with(&*store, &many) else { panic!("opened") };
    assert!(text.contains("max_connections"), "{text}");
    // What a bulk write has committed is reported, though it cannot ask which keys of the rest exist.
    let one = SessionOptions { in_flight: 1, timeout: PATIENCE, ..options(Durability::FSYNC) };
    let mut driven = Driven::open_with(&*store, &one).unwrap();
    let mut items = BatchBuf::new();
    ["x", "y", "x"].iter().for_each(|key| items.push(key, b"1"));
    let prepared = sql(&server, "SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'");
    let prepared: u32 = prepared.split_whitespace().last().unwrap().parse().unwrap();
    sql(&server, &format!("SET GLOBAL max_prepared_stmt_count = {}", prepared + 2));
    let reply = driven.call(Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() }).unwrap();
    let rejected: Vec<_> = reply.as_reply().rejects.iter().map(|reject| (reject.item, reject.error.kind)).collect();
    assert_eq!((reply.as_reply().documents, rejected), (2, vec![(2, ErrorKind::Temporary)]));
}

#[test]
fn of_two_transactions_that_wait_for_each_other_one_is_aborted_and_leaves_nothing() {
    use storebench_engine::store::{Isolation, OpKind, Step};

    let server = super::quick();
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let two = SessionOptions { in_flight: 2, ..options(Durability::MEMORY) };
    let mut driven = Driven::open_with(&*store, &two).unwrap();
    for key in ["a", "b"] {
        driven.call(Op::Upsert { key, body: b"0" }).unwrap();
    }
    let step = |key: &str, body: &str| Step {
        kind: Some(OpKind::Replace),
        key: key.into(),
        body: body.as_bytes().to_vec(),
        ..Step::default()
    };
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let (begun, mut aborted) = (std::time::Instant::now(), None);
        for round in 0.. {
            let (one, other) = (format!("{round}"), format!("-{round}"));
            let (there, back) = ([step("a", &one), step("b", &one)], [step("b", &other), step("a", &other)]);
            let transaction = |steps| Op::Transaction { isolation, steps, rolls_back: false };
            driven.submit(transaction(&there));
            driven.submit(transaction(&back));
            let answers = driven.finish(2);
            aborted = aborted.or(answers.iter().find_map(|(_, answer)| answer.as_ref().err().cloned()));
            assert!(answers.iter().any(|(_, answer)| answer.is_ok()), "both failed");
            // Both are of one transaction.
            let both = sql(&server, "SELECT COUNT(DISTINCT body) FROM documents");
            assert_eq!(both, "1", "{isolation}, round {round}");
            if aborted.is_some() || begun.elapsed() > PATIENCE {
                break;
            }
        }
        let error = aborted.unwrap_or_else(|| panic!("{isolation}: none met another"));
        assert!(error.kind == ErrorKind::Aborted && error.message.ends_with(')'), "{isolation}: {error}");
    }
    assert_eq!(driven.counters().disconnects, 0);
}
