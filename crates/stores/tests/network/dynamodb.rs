//! Tests of the `dynamodb` driver with dynalite and moto, which are not DynamoDB, and with a fake server that
//! throttles.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use storebench_engine::store::{
    AnyStore, BatchBuf, BulkWrite, CollectionId, CopyId, Durability, ErrorKind, Layout, Namespace, Op, OpKind, Prepare,
    RowPage, Rows, StoreError,
};

use crate::driven::{Driven, layout, options};
use crate::server::Server;

mod fakes;
mod theirs;
mod transactions;

const DOCUMENTS: CollectionId = CollectionId(0);

fn open(url: &str) -> Arc<dyn AnyStore> {
    storebench_stores::open(url).unwrap()
}

fn indexed() -> Layout {
    let mut layout = layout();
    layout.collections[0].indexes = vec![vec!["user".into()]];
    layout
}

/// Calls an operation without the driver. Returns its answer.
fn call(port: u16, operation: &str, body: &Value) -> Value {
    let body = body.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(
        stream,
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nContent-Type: application/x-amz-json-1.0\r\n\
         X-Amz-Target: DynamoDB_20120810.{operation}\r\nX-Amz-Date: 20261130T120000Z\r\nAuthorization: AWS4-HMAC-SHA256 \
         Credential=a/20261130/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=x\r\nContent-Length: {}\r\n\
         \r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_default()
}

/// Makes a table with a hash key, and perhaps a range key, and puts items into it.
fn make(port: u16, table: &str, keys: &[(&str, &str)], items: &[Value]) {
    let schema: Vec<Value> = keys
        .iter()
        .zip(["HASH", "RANGE"])
        .map(|((name, _), kind)| json!({ "AttributeName": name, "KeyType": kind }))
        .collect();
    let types: Vec<Value> =
        keys.iter().map(|(name, kind)| json!({ "AttributeName": name, "AttributeType": kind })).collect();
    let made = json!({
        "TableName": table, "BillingMode": "PAY_PER_REQUEST", "KeySchema": schema, "AttributeDefinitions": types,
    });
    assert!(call(port, "CreateTable", &made)["TableDescription"].is_object());
    while call(port, "DescribeTable", &json!({ "TableName": table }))["Table"]["TableStatus"] != "ACTIVE" {
        thread::sleep(Duration::from_millis(10));
    }
    for item in items {
        let put = call(port, "PutItem", &json!({ "TableName": table, "Item": item }));
        assert_eq!(put, json!({}), "{item}");
    }
}

/// Everything that could change: the tables, and their items.
fn snapshot(port: u16) -> BTreeMap<String, Value> {
    let names = call(port, "ListTables", &json!({}));
    let names = names["TableNames"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
    names
        .map(|name| {
            let told = call(port, "DescribeTable", &json!({ "TableName": name }));
            let items = call(port, "Scan", &json!({ "TableName": name }))["Items"].take();
            (name, json!([told["Table"]["CreationDateTime"], told["Table"]["ItemCount"], items]))
        })
        .collect()
}

/// All rows of a prepared collection, and why others are none.
fn rows(store: &dyn AnyStore) -> (BTreeMap<String, Value>, Vec<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut found, mut bad) = (BTreeMap::new(), Vec::new());
    runtime.block_on(async {
        for part in store.parts().unwrap() {
            let mut stream = store.rows(Rows::Walk { collection: DOCUMENTS, part: &part }).await.unwrap();
            let mut page = RowPage::default();
            while stream.next(&mut page).await.unwrap() {
                for (key, body) in page.rows.as_batch().iter() {
                    assert!(
                        found.insert(key.to_owned(), serde_json::from_slice(body).unwrap()).is_none(),
                        "{key} twice"
                    );
                }
                bad.extend(page.bad.iter().map(|row| format!("{}: {}", row.key, row.why)));
            }
        }
    });
    (found, bad)
}

fn body(driven: &mut Driven, key: &str) -> Value {
    let reply = driven.call(Op::Read { key }).unwrap();
    serde_json::from_slice(reply.as_reply().body.unwrap()).unwrap()
}

#[test]
fn the_driver_against_dynalite() {
    let server = Server::start("dynalite");
    what_a_stand_in_cannot_guarantee_is_refused(&server);
    documents_come_back_byte_by_byte(&server);
    what_is_too_large_is_refused_alone(&server);
    their_tables_are_left_alone(&server);
    theirs::items_are_read_with_every_type(&server);
    theirs::items_are_written_as_theirs(&server);
    theirs::keys_have_one_notation(&server);
    theirs::a_copy_into_another_table_is_exact(&server);
    theirs::what_dynamodb_lacks_is_refused_alone(&server);
    theirs::the_largest_item_comes_back(&server);
    theirs::ranges_and_indexes_are_read_and_kept(&server);
    transactions::it_has_none(&server);
    an_index_that_a_kept_table_lacks_is_told(&server);
    native_documents_are_attributes(&server);
    a_removal_that_was_killed_is_finished(&server);
    consumed_capacity_is_counted(&server);
}

fn what_a_stand_in_cannot_guarantee_is_refused(server: &Server) {
    let store = open(&server.url);
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    assert!(store.describe().version.contains("not DynamoDB"), "{:?}", store.describe());
    for (durability, guaranteed) in
        [(Durability::MEMORY, true), (Durability::OS, false), (Durability::FSYNC, false), (Durability::MAJORITY, false)]
    {
        match Driven::open(&*store, durability) {
            Ok(_) => assert!(guaranteed, "{durability}"),
            Err(error) => assert!(!guaranteed && matches!(error, StoreError::NotSupported(_)), "{error:?}"),
        }
    }
    let aws = open("dynamodbs://k:s@dynamodb.eu-west-1.amazonaws.com").capabilities();
    assert!(aws.guarantees(Durability::FSYNC).is_some() && aws.guarantees(Durability::MEMORY).is_none());
    store.remove().unwrap();
    assert_eq!(snapshot(server.port).len(), 0);
}

fn documents_come_back_byte_by_byte(server: &Server) {
    let store = open(&server.url);
    store.prepare(&indexed(), Prepare::Fresh).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    let odd = br#"{ "user" : "\u0061nn", "n" : 1.0, "z":-0.0, "n":123456789012345678901234567890123456789012 }"#;
    driven.call(Op::Insert { key: "odd", body: odd }).unwrap();
    assert_eq!(driven.call(Op::Read { key: "odd" }).unwrap().as_reply().body.unwrap(), odd);
    let page = driven.call(Op::Page { field: "user", value: "\"ann\"", limit: 5 }).unwrap();
    assert_eq!(page.as_reply().rows.unwrap().iter().collect::<Vec<_>>(), [("odd", &odd[..])]);
    // A page longer than the 1 MB of an answer.
    let large = format!(r#"{{"user":"large","t":"{}"}}"#, "x".repeat(300_000));
    for n in 0..5 {
        driven.call(Op::Upsert { key: &format!("large-{n}"), body: large.as_bytes() }).unwrap();
    }
    for limit in [4, 20] {
        let page = driven.call(Op::Page { field: "user", value: "\"large\"", limit }).unwrap();
        assert_eq!(page.as_reply().documents, limit.min(5));
    }
    let error = driven.call(Op::Page { field: "other", value: "1", limit: 1 }).unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.message.contains("`other`"), "{error}");
    let (found, bad) = rows(&*store);
    assert_eq!((found.len(), bad.len()), (6, 0), "the marker is no row");
    let error = driven.call(Op::Upsert { key: "storebench:marker", body: b"{}" }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    let error = driven.call(Op::Scan { start: "", end: None, limit: 5 }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    store.remove().unwrap();
}

fn what_is_too_large_is_refused_alone(server: &Server) {
    let store = open(&server.url);
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    let large = format!(r#"{{"t":"{}"}}"#, "x".repeat(420_000));
    let error = driven.call(Op::Upsert { key: "a", body: large.as_bytes() }).unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.message.contains("maximum allowed size"), "{error}");
    let mut items = BatchBuf::new();
    let keys: Vec<String> = (0..60).map(|n| format!("k{n}")).collect();
    for (n, key) in keys.iter().enumerate() {
        items.push(key, if n == 33 { large.as_bytes() } else { b"{}" });
    }
    let reply = driven.call(Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() }).unwrap();
    let reply = reply.as_reply();
    assert_eq!((reply.documents, reply.rejects.len()), (59, 1));
    assert!(reply.rejects[0].item == 33 && reply.rejects[0].error.kind == ErrorKind::Refused, "{:?}", reply.rejects);
    assert!(driven.counters().splits > 0);
    let mut keys = BatchBuf::new();
    (0..250).for_each(|n| keys.push(&format!("k{n}"), b""));
    assert_eq!(driven.call(Op::BulkRead { keys: keys.as_batch() }).unwrap().as_reply().documents, 59);
    assert_eq!(driven.call(Op::BulkDelete { keys: keys.as_batch() }).unwrap().as_reply().documents, 59);
    store.remove().unwrap();
}

fn their_tables_are_left_alone(server: &Server) {
    let port = server.port;
    make(port, "storebench-books", &[("sb_key", "S")], &[json!({ "sb_key": { "S": "emma" } })]);
    make(port, "storebench-pairs", &[("a", "S"), ("b", "N")], &[json!({ "a": { "S": "x" }, "b": { "N": "1" } })]);
    make(port, "shop", &[("id", "S")], &[json!({ "id": { "S": "x" }, "n": { "N": "1" } })]);
    let before = snapshot(port);
    let store = open(&server.url);
    let Namespace::Foreign(what) = store.inspect().unwrap() else { panic!("foreign data was taken for ours") };
    assert!(what.contains("storebench-books"), "{what}");
    for how in [Prepare::Fresh, Prepare::Keep, Prepare::Discard] {
        let error = store.prepare(&layout(), how).unwrap_err();
        assert!(matches!(error, StoreError::NotOurs(_)), "{error:?}");
    }
    let mut books = layout();
    books.collections[0].name = "books".into();
    for how in [Prepare::IntoExisting, Prepare::Copy(CopyId(1))] {
        let error = store.prepare(&books, how).unwrap_err();
        assert!(matches!(&error, StoreError::NotOurs(text) if text.contains("storebench-books")), "{error:?}");
    }
    store.remove().unwrap();
    assert_eq!(snapshot(port), before);
    // Storebench's table is created and removed next to theirs.
    store.prepare(&layout(), Prepare::IntoExisting).unwrap();
    Driven::open(&*store, Durability::MEMORY).unwrap().call(Op::Upsert { key: "a", body: b"{}" }).unwrap();
    let mut names = store.collections().unwrap();
    names.sort_unstable();
    assert_eq!(names, ["documents", "shop", "storebench-books", "storebench-pairs"]);
    store.remove().unwrap();
    assert_eq!(snapshot(port), before);
    // Under another prefix nothing is foreign.
    assert_eq!(open(&format!("{}?prefix=other-", server.url)).inspect().unwrap(), Namespace::Absent);
    for table in ["storebench-books", "storebench-pairs", "shop"] {
        call(port, "DeleteTable", &json!({ "TableName": table }));
    }
}

fn an_index_that_a_kept_table_lacks_is_told(server: &Server) {
    let store = open(&server.url);
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let error = store.prepare(&indexed(), Prepare::Keep).unwrap_err();
    assert!(matches!(&error, StoreError::NotSupported(text) if text.contains("`user`")), "{error:?}");
    store.prepare(&indexed(), Prepare::Fresh).unwrap();
    // A study without the index maintains it nevertheless.
    store.prepare(&layout(), Prepare::Keep).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    driven.call(Op::Upsert { key: "a", body: br#"{"user":"ann"}"# }).unwrap();
    let page = driven.call(Op::Page { field: "user", value: "\"ann\"", limit: 5 }).unwrap();
    assert_eq!(page.as_reply().documents, 1);
    store.remove().unwrap();
}

fn native_documents_are_attributes(server: &Server) {
    let store = open(&format!("{}?documents=native", server.url));
    store.prepare(&indexed(), Prepare::Fresh).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    driven.call(Op::Insert { key: "a", body: br#"{"user":"ann","list":[1,{"b":null}]}"# }).unwrap();
    assert_eq!(body(&mut driven, "a"), json!({ "user": "ann", "list": [1, { "b": null }] }));
    let key = json!({ "TableName": "storebench-documents", "Key": { "sb_key": { "S": "a" } } });
    assert_eq!(call(server.port, "GetItem", &key)["Item"]["list"]["L"][0], json!({ "N": "1" }));
    driven.call(Op::MergePatch { key: "a", patch: br#"{"user":"bob"}"# }).unwrap();
    let page = driven.call(Op::Page { field: "user", value: "\"bob\"", limit: 5 }).unwrap();
    assert_eq!(page.as_reply().documents, 1);
    // The forms are not mixed up.
    let error = open(&server.url).prepare(&indexed(), Prepare::Keep).unwrap_err();
    assert!(matches!(error, StoreError::NotSupported(_)), "{error:?}");
    store.remove().unwrap();
}

fn a_removal_that_was_killed_is_finished(server: &Server) {
    let store = open(&server.url);
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let marker = json!({ "sb_key": { "S": "storebench:marker" }, "sb_mark": { "S": "json; removing 1" } });
    call(server.port, "PutItem", &json!({ "TableName": "storebench-documents", "Item": marker }));
    let begun = Instant::now();
    store.remove().unwrap();
    assert!(begun.elapsed() > Duration::from_secs(10), "the other removal may have been alive");
    assert!(!snapshot(server.port).contains_key("storebench-documents"));
}

fn consumed_capacity_is_counted(server: &Server) {
    let store = open(&server.url);
    store.prepare(&indexed(), Prepare::Fresh).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    let mut before = [0.0, 0.0];
    let mut used = || {
        let stats = store.stats().unwrap();
        let figure = |name: &str| stats.iter().find(|(other, _)| other == name).unwrap().1;
        let now = [figure("consumed_read_units_total"), figure("consumed_write_units_total")];
        let used = [now[0] - before[0], now[1] - before[1]];
        before = now;
        used
    };
    // 1 unit for each KB written, and for each 4 KB read, or for 8 KB of an index, which is eventually consistent.
    let large = format!(r#"{{"t":"{}"}}"#, "x".repeat(7_500));
    driven.call(Op::Upsert { key: "a", body: large.as_bytes() }).unwrap();
    assert_eq!(used(), [0.0, 8.0]);
    driven.call(Op::Read { key: "a" }).unwrap();
    assert_eq!(used(), [2.0, 0.0]);
    let mut items = BatchBuf::new();
    let keys: Vec<String> = (0..30).map(|n| format!("k{n}")).collect();
    keys.iter().for_each(|key| items.push(key, br#"{"user":"ann"}"#));
    driven.call(Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() }).unwrap();
    assert_eq!(used(), [0.0, 30.0], "dynalite does not count indexes, as AWS does");
    driven.call(Op::BulkRead { keys: items.as_batch() }).unwrap();
    assert_eq!(used(), [30.0, 0.0]);
    driven.call(Op::Page { field: "user", value: "\"ann\"", limit: 50 }).unwrap();
    let [read, written] = used();
    assert!((0.5..=1.0).contains(&read) && written == 0.0, "{read}");
    rows(&*store);
    let [read, written] = used();
    assert!(read >= 2.0 && written == 0.0, "{read}");
    store.remove().unwrap();
}

/// dynalite has no time to live.
#[test]
fn an_expiry_stays_until_the_document_is_overwritten() {
    let server = Server::start("moto");
    let store = open(&server.url);
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    assert!(store.capabilities().expires_late_by.is_some() && store.capabilities().supports(OpKind::Touch).is_some());
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    let key = "a";
    let expiry = Duration::from_secs(3_600);
    let error = driven.call(Op::Touch { key, expiry }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    driven.call(Op::Upsert { key, body: b"{}" }).unwrap();
    let until = || {
        let read = json!({ "TableName": "storebench-documents", "Key": { "sb_key": { "S": key } } });
        call(server.port, "GetItem", &read)["Item"]["sb_expires"]["N"].as_str().map(str::to_owned)
    };
    driven.call(Op::Touch { key, expiry }).unwrap();
    let first = until();
    assert!(first.is_some());
    driven.call(Op::MergePatch { key, patch: br#"{"n":1}"# }).unwrap();
    assert_eq!((until(), body(&mut driven, key)), (first, json!({ "n": 1 })));
    driven.call(Op::Upsert { key, body: b"{}" }).unwrap();
    assert_eq!(until(), None);
}

#[test]
fn dynalite_killed_mid_run_leaves_unknown_outcomes_and_is_found_again() {
    let server = Server::start("dynalite");
    let store = open(&server.url);
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let mut driven = Driven::open_with(&*store, &options(Durability::MEMORY)).unwrap();
    let keys: Vec<String> = (0..2_000).map(|n| format!("k{n}")).collect();
    let ended = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            server.kill();
        });
        let tokens: Vec<_> = keys.iter().map(|key| driven.submit(Op::Insert { key, body: b"{}" })).collect();
        (tokens, driven.finish(keys.len()))
    });
    let (tokens, answers) = ended;
    let key_of = |token| &keys[tokens.iter().position(|other| *other == token).unwrap()];
    let (mut acknowledged, mut unknown, mut temporary) = (Vec::new(), 0, 0);
    for (token, answer) in &answers {
        match answer {
            Ok(_) => acknowledged.push(key_of(*token)),
            Err(error) if error.kind == ErrorKind::OutcomeUnknown => unknown += 1,
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Temporary, "{error}");
                temporary += 1;
            }
        }
    }
    assert!(unknown <= 3 * 16 && temporary > 0, "{unknown} unknown, {temporary} temporary");
    server.restart();
    for key in acknowledged {
        let reply = driven.call_again(Op::Exists { key }).unwrap();
        assert_eq!(reply.as_reply().documents, 1, "{key} was acknowledged");
    }
    assert!(driven.counters().disconnects > 0);
}
