//! Tests of the `opensearch` driver with a real server, and with small fake servers.

mod fakes;
mod queries;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use storebench_engine::store::{
    AnyStore, BatchBuf, BulkWrite, CollectionId, CopyId, Durability, ErrorKind, Namespace, Op, OpKind, Prepare,
    ReadConsistency, RowPage, Rows, SessionOptions, StoreError,
};

use crate::http_help::{Ask, existing, layout, options, raw};
use crate::server::{Server, free_port};

const DOCUMENTS: CollectionId = CollectionId(0);

fn open(url: &str) -> Arc<dyn AnyStore> {
    storebench_stores::open(url).unwrap()
}

fn ask(port: u16, method: &str, path: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    serde_json::from_str(&raw(port, method, path, &body)).unwrap()
}

/// All documents of a part. Each key must come once.
fn walk(store: &dyn AnyStore, part: &str) -> Result<BTreeMap<String, String>, StoreError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut all = BTreeMap::new();
    runtime.block_on(async {
        let mut rows = store.rows(Rows::Walk { collection: DOCUMENTS, part }).await?;
        let mut page = RowPage::default();
        while rows.next(&mut page).await? {
            assert!(page.bad.is_empty(), "{:?}", page.bad);
            for (key, body) in page.rows.as_batch().iter() {
                let before = all.insert(key.to_owned(), String::from_utf8(body.to_vec()).unwrap());
                assert_eq!(before, None, "{key} came twice");
            }
        }
        Ok(all)
    })
}

/// All documents of the prepared collection, which has each key once.
fn walked(store: &dyn AnyStore) -> BTreeMap<String, String> {
    let parts = store.parts().unwrap();
    let all: Vec<_> = parts.iter().flat_map(|part| walk(store, part).unwrap()).collect();
    let count = all.len();
    let all = BTreeMap::from_iter(all);
    assert_eq!(all.len(), count, "two parts hold the same key");
    all
}

/// A server of one node, which keeps one copy of each index.
pub(crate) fn quick(options: &[&str]) -> Server {
    Server::start_with("opensearch", &[&["--option=cluster.default_number_of_replicas=0"], options].concat())
}

/// One server for all of these, because it takes long to start. Each leaves nothing behind but the last.
#[test]
fn on_a_real_server() {
    let server = quick(&["--option=http.max_content_length=1mb"]);
    durability_is_a_setting_and_visibility_another(&server);
    what_the_server_does_not_take_is_refused_with_its_reason(&server);
    what_a_copy_writes_is_stored_as_it_is_and_stays(&server);
    queries::find_what_is_mapped(&server);
    a_killed_server_leaves_outcomes_unknown_and_the_session_returns(&server);
    their_indexes_are_left_alone_and_read(&server);
    pages_fit_the_window_of_an_index(&server);
}

fn durability_is_a_setting_and_visibility_another(server: &Server) {
    let store = open(&server.url);
    store.prepare(&layout("Users"), Prepare::Fresh).unwrap();
    assert_eq!(store.describe().version, "OpenSearch 2.19.6");
    let log = || {
        let path = "/storebench-$users/_settings/index.translog.durability?include_defaults=true";
        let told = ask(server.port, "GET", path, &Value::Null);
        let told = told["storebench-$users"].clone();
        let of = |part: &str| told[part]["index"]["translog"]["durability"].as_str().map(str::to_lowercase);
        of("settings").or_else(|| of("defaults")).unwrap()
    };
    for (durability, expected) in
        [(Durability::FSYNC, "request"), (Durability::MEMORY, "async"), (Durability::FSYNC, "request")]
    {
        Ask::open(&*store, &options(durability, 1)).unwrap();
        assert_eq!(log(), expected);
    }
    for durability in [Durability::OS, Durability::MAJORITY] {
        let error = Ask::open(&*store, &options(durability, 1)).err().unwrap();
        assert!(matches!(error, StoreError::NotSupported(_)), "{error:?}");
    }
    // A search without a refresh sees less than a read by key.
    let stale = SessionOptions { consistency: ReadConsistency::StaleOk, ..options(Durability::FSYNC, 1) };
    let body = json!({ "index.refresh_interval": "-1" });
    ask(server.port, "PUT", "/storebench-$users/_settings", &body);
    let scan = Op::Scan { start: "", end: None, limit: 10 };
    let (mut strong, mut stale) = (Ask::new(&*store, 1), Ask::open(&*store, &stale).unwrap());
    strong.upsert("a", r#"{"user":"x"}"#);
    assert!(stale.read("a").is_some());
    assert_eq!(stale.run(scan).unwrap().as_reply().documents, 0);
    assert_eq!(strong.run(scan).unwrap().as_reply().documents, 1);
    strong.upsert("b", "{}");
    assert_eq!(stale.run(scan).unwrap().as_reply().documents, 1);
    assert!(store.settle(Duration::from_secs(60)).unwrap());
    assert_eq!(stale.run(scan).unwrap().as_reply().documents, 2);
    let told = store.own_settings().unwrap();
    let has = |name: &str, value: &str| told.all.iter().any(|of| of.name == name && of.value == value);
    assert!(has("Users/index.refresh_interval", "-1") && has("http.max_content_length", "1mb"), "{told:?}");
    let stats: BTreeMap<String, f64> = store.stats().unwrap().into_iter().collect();
    assert!(stats["documents"] == 2.0 && stats["file_bytes"] > 0.0, "{stats:?}");
    store.compact().unwrap();
    store.remove().unwrap();
    assert_eq!(store.inspect().unwrap(), Namespace::Absent);
    assert_eq!(ask(server.port, "GET", "/_alias", &Value::Null), json!({}));
}

fn what_the_server_does_not_take_is_refused_with_its_reason(server: &Server) {
    let store = open(&server.url);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut session = Ask::new(&*store, 4);
    let long = "k".repeat(513);
    let mut refused = |op: Op<'_>, said: &str| {
        let error = session.run(op).unwrap_err();
        assert!(error.kind == ErrorKind::Refused && error.message.contains(said), "{error}");
    };
    refused(Op::Upsert { key: &long, body: b"{}" }, "512");
    refused(Op::Upsert { key: "a", body: br#"{"user":{"deep":1}}"# }, "user");
    refused(Op::Upsert { key: "a", body: br#"{"":1}"# }, "empty");
    refused(Op::Upsert { key: "a", body: br#"{"_id":1}"# }, "_id");
    refused(Op::Upsert { key: "a", body: br#"{"x":1,"x":2}"# }, "Duplicate");
    refused(Op::Page { field: "user", value: "null", limit: 1 }, "null");
    refused(Op::Page { field: "other", value: "1", limit: 1 }, "other");
    let large = json!({ "t": "x".repeat(1 << 20) }).to_string();
    refused(Op::Upsert { key: "a", body: large.as_bytes() }, "http.max_content_length");
    // Names with dots, long values of indexed fields, and numbers are kept as they are.
    let odd =
        format!(r#"{{"a.b":1,"a":{{"b":2}},"n":123456789012345678901234567890.10,"user":"{}"}}"#, "y".repeat(40_000));
    session.upsert("odd", &odd);
    let reply = session.run(Op::Read { key: "odd" }).unwrap();
    assert_eq!(reply.as_reply().body, Some(odd.as_bytes()));
    // A bulk is split by size; one document of it is too large, one is malformed, one has line breaks.
    let mut items = BatchBuf::new();
    let body = json!({ "t": "x".repeat(50_000) }).to_string();
    for n in 0..60 {
        let body = match n {
            7 => large.as_str(),
            8 => r#"{"user":[{"a":1}]}"#,
            9 => "{\n\"user\"\n:\n\"z\"}\n",
            _ => &body,
        };
        items.push(&format!("b{n}"), body.as_bytes());
    }
    let op = Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() };
    let reply = session.run(op).unwrap();
    let reply = reply.as_reply();
    let rejects: Vec<_> = reply.rejects.iter().map(|reject| (reject.item, reject.error.kind)).collect();
    assert_eq!((reply.documents, rejects), (58, vec![(7, ErrorKind::Refused), (8, ErrorKind::Refused)]));
    assert!(session.counters().splits >= 2, "{:?}", session.counters());
    assert_eq!(session.read("b9").unwrap()["user"], "z");
    let again = session.run(op).unwrap();
    let again = again.as_reply();
    let conflicts = again.rejects.iter().filter(|reject| reject.error.kind == ErrorKind::Conflict).count();
    assert_eq!((again.documents, conflicts), (0, 58));
    // A block, as the server sets it when its disk is full.
    let blocks = |on: Value| {
        ask(server.port, "PUT", "/storebench-users/_settings", &json!({ "index.blocks.read_only_allow_delete": on }))
    };
    blocks(json!(true));
    let error = session.run(Op::Upsert { key: "a", body: b"{}" }).unwrap_err();
    let kinds = [ErrorKind::Temporary, ErrorKind::Refused];
    assert!(kinds.contains(&error.kind) && error.message.contains("index.blocks"), "{error}");
    let reply = session.run(op).unwrap();
    let error = &reply.as_reply().rejects.iter().find(|reject| reject.item == 0).unwrap().error;
    assert!(kinds.contains(&error.kind) && error.message.contains("index.blocks"), "{error}");
    assert!(session.read("odd").is_some());
    let error = store.prepare(&layout("users"), Prepare::Fresh).unwrap_err();
    assert!(matches!(&error, StoreError::Failed(why) if why.contains("index.blocks")), "{error:?}");
    blocks(Value::Null);
    // An index that somebody removed is not created again by a write.
    ask(server.port, "DELETE", "/storebench-users", &Value::Null);
    for op in [
        Op::Upsert { key: "a", body: b"{}" },
        Op::Insert { key: "a", body: b"{}" },
        Op::Delete { key: "a" },
        Op::Read { key: "a" },
        Op::BulkRead { keys: items.as_batch() },
    ] {
        let error = session.run(op).unwrap_err();
        assert!(error.kind == ErrorKind::Failed && error.message.contains("removed meanwhile"), "{op:?} {error}");
    }
    let reply = session.run(op).map(|reply| reply.as_reply().rejects[0].error.kind);
    assert!(matches!(reply, Ok(ErrorKind::Failed | ErrorKind::Refused)), "{reply:?}");
    assert_eq!(store.inspect().unwrap(), Namespace::Absent);
}

fn their_indexes_are_left_alone_and_read(server: &Server) {
    let port = server.port;
    let put = |path: &str, body: Value| {
        let told = ask(port, "PUT", path, &body);
        assert!(told["error"].is_null(), "{path}: {told}");
    };
    put("/storebench-books", json!({ "settings": { "number_of_replicas": 0 } }));
    put("/storebench-books/_doc/emma", json!({ "n": 1 }));
    put(
        "/shop",
        json!({
            "settings": { "number_of_shards": 3, "number_of_replicas": 0 },
            "mappings": { "properties": { "user": { "type": "text", "fields": { "raw": { "type": "keyword" } } } } },
        }),
    );
    let mut expected = BTreeMap::new();
    for n in 0..500 {
        let body = format!(r#"{{ "user": "u {}", "n": {n}.50 }}"#, n % 7);
        raw(port, "PUT", &format!("/shop/_doc/users%2F{n:04}"), &body);
        expected.insert(format!("users/{n:04}"), body);
    }
    ask(port, "DELETE", "/shop/_doc/users%2F0007", &Value::Null);
    expected.remove("users/0007");
    raw(port, "PUT", "/shop/_doc/routed?routing=elsewhere", r#"{"user":"r"}"#);
    expected.insert("routed".into(), r#"{"user":"r"}"#.into());
    ask(port, "POST", "/_refresh", &Value::Null);
    let snapshot = || {
        let all =
            ["/_alias", "/_mapping", "/_settings", "/_all/_search?size=1000&seq_no_primary_term=true&sort=_seq_no"];
        all.map(|path| {
            let mut told = ask(port, "GET", path, &Value::Null);
            told.as_object_mut().unwrap().remove("took");
            told
        })
    };
    let before = snapshot();
    let store = open(&server.url);
    let Namespace::Foreign(what) = store.inspect().unwrap() else { panic!("foreign data was taken for ours") };
    assert!(what.contains("storebench-books"), "{what}");
    for how in [Prepare::Fresh, Prepare::Keep, Prepare::Discard] {
        let error = store.prepare(&layout("users"), how).unwrap_err();
        assert!(matches!(error, StoreError::NotOurs(_)), "{error:?}");
    }
    let error = store.prepare(&layout("books"), Prepare::IntoExisting).unwrap_err();
    assert!(matches!(error, StoreError::NotOurs(_)), "{error:?}");
    store.remove().unwrap();
    assert_eq!(store.collections().unwrap(), ["shop", "storebench-books"]);
    store.prepare(&existing("shop"), Prepare::ReadOnly).unwrap();
    assert_eq!(store.parts().unwrap(), ["shop/0", "shop/1", "shop/2"]);
    assert_eq!(walked(&*store), expected);
    let account = store.account(DOCUMENTS).unwrap();
    assert_eq!((account.documents, account.beside[0].0), (Some(500), 1));
    let keys = store.sample_keys(DOCUMENTS, 80, 7).unwrap();
    assert_eq!((keys.len(), &keys), (80, &store.sample_keys(DOCUMENTS, 80, 7).unwrap()));
    assert_ne!(keys, store.sample_keys(DOCUMENTS, 80, 8).unwrap());
    assert_eq!(store.sample_keys(DOCUMENTS, 5_000, 1).unwrap().len(), 500);
    let can = store.capabilities();
    assert!(can.supports(OpKind::Scan).is_none() && can.supports(OpKind::Read).is_some());
    let mut session = Ask::new(&*store, 2);
    assert!(session.read("users/0001").is_some());
    let page = session.run(Op::Page { field: "user", value: "\"u 3\"", limit: 100 }).unwrap();
    assert_eq!(page.as_reply().documents, 71);
    assert!(session.run(Op::Upsert { key: "x", body: b"{}" }).is_err());
    assert!(session.run(Op::Scan { start: "", end: None, limit: 1 }).is_err());
    let text = r#"{"search":{"query":{"match":{"user":"3"}},"size":100}}"#;
    let reply = session.run(Op::Query { number: 0, text, values: BatchBuf::new().as_batch() }).unwrap();
    assert_eq!(reply.as_reply().documents, 71);
    assert!(store.build_index(DOCUMENTS, "by-m", r#"{"m":{"type":"integer"}}"#).is_err());
    drop(session);
    assert_eq!(snapshot(), before);
    // A collection of Storebench beside theirs, and away again.
    store.prepare(&layout("users"), Prepare::IntoExisting).unwrap();
    Ask::new(&*store, 1).upsert("u1", r#"{"user":"a"}"#);
    assert!(store.collections().unwrap().contains(&"users".to_owned()));
    store.remove().unwrap();
    assert_eq!(snapshot(), before);

    put("/parts", json!({ "mappings": { "_source": { "excludes": ["secret"] } } }));
    put("/part", json!({ "mappings": { "_source": { "includes": ["public"] } } }));
    put("/nothing", json!({ "mappings": { "_source": { "enabled": false } } }));
    put("/shut", json!({}));
    ask(port, "POST", "/shut/_close", &Value::Null);
    let aliases = json!({ "actions": [
        { "add": { "index": "shop", "alias": "both" } },
        { "add": { "index": "storebench-books", "alias": "both" } },
        { "add": { "index": "shop", "alias": "some", "filter": { "term": { "n": 1 } } } },
        { "add": { "index": "shop", "alias": "one" } },
        { "add": { "index": "shop", "alias": "read", "is_write_index": false } },
        { "add": { "index": "shop", "alias": "half-shut" } },
        { "add": { "index": "shut", "alias": "half-shut" } },
    ] });
    ask(port, "POST", "/_aliases", &aliases);
    put("/_index_template/logs", json!({ "index_patterns": ["logs"], "data_stream": {} }));
    raw(port, "POST", "/logs/_doc?refresh=true", r#"{"@timestamp":"2024-01-01T00:00:00Z","n":1}"#);
    for (name, how, said) in [
        ("parts", Prepare::ReadOnly, "_source"),
        ("part", Prepare::ReadOnly, "_source"),
        ("part", Prepare::WriteExisting, "_source"),
        ("nothing", Prepare::ReadOnly, "_source"),
        ("half-shut", Prepare::ReadOnly, "closed (index `shut`)"),
        ("shut", Prepare::ReadOnly, "closed"),
        ("some", Prepare::ReadOnly, "filter"),
        ("sho*", Prepare::ReadOnly, "name one"),
        ("missing", Prepare::ReadOnly, "does not exist"),
        ("both", Prepare::WriteExisting, "write index"),
        ("both", Prepare::WriteExisting, "alias of several indexes"),
        ("read", Prepare::WriteExisting, "without a write index"),
        ("logs", Prepare::WriteExisting, "data stream"),
        (".ds-logs-000001", Prepare::WriteExisting, "data stream"),
        ("one", Prepare::WriteExisting, "has documents with _routing"),
    ] {
        let error = store.prepare(&existing(name), how).unwrap_err();
        assert!(matches!(error, StoreError::NotSupported(_)) && error.to_string().contains(said), "{name}: {error}");
    }
    // Two indexes of an alias hold the same keys. A reader drops a key that it sees again in one part.
    for n in 20..40 {
        put(&format!("/storebench-books/_doc/users%2F{n:04}"), json!({ "n": n }));
    }
    store.prepare(&existing("both"), Prepare::ReadOnly).unwrap();
    let parts = store.parts().unwrap();
    assert_eq!(parts, ["shop/0", "shop/1", "shop/2", "storebench-books/0"]);
    let counts: Vec<_> = parts.iter().map(|part| walk(&*store, part).unwrap().len()).collect();
    assert_eq!((counts[..3].iter().sum::<usize>(), counts[3]), (500, 21));
    for part in ["shop/3", "shut/0", "0"] {
        let error = walk(&*store, part).unwrap_err();
        assert!(error.to_string().contains("--restart"), "{part}: {error}");
    }
    assert!(store.capabilities().supports(OpKind::Read).is_none());
    store.prepare(&existing("logs"), Prepare::ReadOnly).unwrap();
    assert_eq!(walked(&*store).len(), 1);
    assert!(store.collections().unwrap().contains(&"logs".to_owned()));
    store.prepare(&existing("read"), Prepare::ReadOnly).unwrap();
    assert_eq!(walked(&*store).len(), 500);
    assert!(Ask::new(&*store, 1).read("users/0001").is_some());
    raw(port, "DELETE", "/shop/_doc/routed?routing=elsewhere", "");
    for (setting, how) in [
        ("index.search.default_pipeline", Prepare::ReadOnly),
        ("index.default_pipeline", Prepare::WriteExisting),
        ("index.final_pipeline", Prepare::WriteExisting),
    ] {
        put("/shop/_settings", json!({ setting: "mine" }));
        let error = store.prepare(&existing("one"), how).unwrap_err().to_string();
        assert!(error.contains("mine") && error.contains(setting) && error.contains("set it to _none"), "{error}");
        assert_eq!(store.prepare(&existing("one"), Prepare::ReadOnly).is_ok(), how != Prepare::ReadOnly);
        put("/shop/_settings", json!({ setting: "_none" }));
    }
    // Into an index of theirs, through an alias: nothing is added to documents, and the log stays as it is.
    store.prepare(&existing("one"), Prepare::WriteExisting).unwrap();
    assert!(Ask::open(&*store, &options(Durability::MEMORY, 1)).is_err());
    Ask::new(&*store, 1).upsert("new", r#"{ "n" : 1.0 }"#);
    assert_eq!(raw(port, "GET", "/shop/_source/new", ""), r#"{ "n" : 1.0 }"#);
}

/// The server refuses a page of more documents than the index lets it have.
fn pages_fit_the_window_of_an_index(server: &Server) {
    let port = server.port;
    let settings = json!({ "settings": { "max_result_window": 20, "number_of_replicas": 0 } });
    ask(port, "PUT", "/narrow", &settings);
    for n in 0..50 {
        ask(port, "PUT", &format!("/narrow/_doc/{n}"), &json!({ "n": n }));
    }
    let store = open(&server.url);
    store.prepare(&existing("narrow"), Prepare::ReadOnly).unwrap();
    assert_eq!(walked(&*store).len(), 50);
    ask(port, "DELETE", "/narrow", &Value::Null);
}

fn what_a_copy_writes_is_stored_as_it_is_and_stays(server: &Server) {
    let store = open(&server.url);
    store.prepare(&layout("users"), Prepare::Copy(CopyId(1))).unwrap();
    let mut session = Ask::new(&*store, 1);
    session.upsert("a", r#"{ "user": "x" }"#);
    assert_eq!(raw(server.port, "GET", "/storebench-users/_source/a", ""), r#"{ "user": "x" }"#);
    assert_eq!(session.run(Op::Page { field: "user", value: "\"x\"", limit: 9 }).unwrap().as_reply().documents, 1);
    drop(session);
    for how in [Prepare::Fresh, Prepare::Keep] {
        assert!(matches!(store.prepare(&layout("users"), how), Err(StoreError::NotOurs(_))));
    }
    let error = store.prepare(&existing("storebench-users"), Prepare::WriteExisting).unwrap_err();
    assert!(error.to_string().contains("made by Storebench"), "{error}");
    store.remove().unwrap();
    store.prepare(&layout("users"), Prepare::ReadOnly).unwrap();
    assert_eq!(walked(&*store).into_values().collect::<Vec<_>>(), [r#"{ "user": "x" }"#]);
    // An index on another field would not find what is there.
    let mut other = layout("users");
    other.collections[0].indexes.push(vec!["other".into()]);
    let error = store.prepare(&other, Prepare::Copy(CopyId(2))).unwrap_err();
    assert!(matches!(&error, StoreError::NotSupported(text) if text.contains("other")), "{error:?}");
    store.prepare(&layout("users"), Prepare::Discard).unwrap();
    store.remove().unwrap();
    assert_eq!(store.inspect().unwrap(), Namespace::Absent);
}

fn a_killed_server_leaves_outcomes_unknown_and_the_session_returns(server: &Server) {
    let store = open(&server.url);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut session = Ask::new(&*store, 8);
    session.upsert("before", r#"{"n":1}"#);
    let keys: Vec<String> = (0..20_000).map(|n| format!("k{n}")).collect();
    let ops: Vec<Op<'_>> = keys.iter().map(|key| Op::Insert { key, body: br#"{"n":2}"# }).collect();
    let ended = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_secs(1));
            server.kill();
        });
        session.all(&ops, Duration::from_secs(180))
    });
    assert_eq!(ended.len(), ops.len(), "every operation ends");
    let kinds = |kind| ended.iter().filter(|(_, r)| r.as_ref().is_err_and(|e| e.kind == kind)).count();
    assert!(kinds(ErrorKind::OutcomeUnknown) <= 3 * 8, "{}", kinds(ErrorKind::OutcomeUnknown));
    assert!(kinds(ErrorKind::Temporary) > 0, "the server must be killed before all were written");
    let acknowledged: Vec<u64> = ended.iter().filter(|(_, r)| r.is_ok()).map(|(number, _)| *number).collect();
    assert!(!acknowledged.is_empty() && session.counters().disconnects > 0);
    assert_eq!(
        acknowledged.len() + kinds(ErrorKind::OutcomeUnknown) + kinds(ErrorKind::Temporary),
        ops.len(),
        "other errors: {:?}",
        ended.iter().find_map(|(_, r)| r.as_ref().err().filter(|e| e.kind == ErrorKind::Failed))
    );
    server.restart();
    let found = (0..200).find_map(|_| {
        session.wait(Duration::from_millis(50));
        session.read("before")
    });
    assert_eq!(found.unwrap()["n"], 1, "the session must reconnect by itself");
    for number in acknowledged {
        assert!(session.read(&keys[number as usize]).is_some(), "k{number} was acknowledged");
    }
    store.remove().unwrap();
}

#[test]
fn a_wrong_port_or_url_is_named() {
    let store = open(&format!("elasticsearch://me:sec-wrong@127.0.0.1:{}", free_port()));
    let error = store.inspect().unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
    assert!(!format!("{error} {:?}", store.describe()).contains("sec-wrong"), "{error}");
    for url in [
        "opensearch://h/path",
        "opensearch://h,i",
        "opensearch://h?prefix=Capital",
        "opensearch://h?tls_name=x",
        "opensearch://h?refresh=maybe",
        "opensearch://h?shards=0",
    ] {
        assert!(matches!(storebench_stores::open(url).err(), Some(StoreError::BadUrl(_))), "{url}");
    }
    for scheme in ["opensearchs", "elasticsearchs"] {
        open(&format!("{scheme}://h?tls_name=x"));
    }
}

/// Each page is one search, and a later page takes no longer than an earlier one.
#[test]
#[ignore = "soak: loads 200,000 documents"]
fn soak_a_copy_out_is_linear() {
    const COUNT: usize = 200_000;
    let server = quick(&[]);
    let store = open(&format!("{}?shards=1", server.url));
    store.prepare(&layout("users"), Prepare::Copy(CopyId(1))).unwrap();
    let mut session = Ask::new(&*store, 1);
    for first in (0..COUNT).step_by(2_000) {
        let mut items = BatchBuf::new();
        for n in first..first + 2_000 {
            items.push(&format!("k{n}"), json!({ "user": "u", "t": "x".repeat(200), "n": n }).to_string().as_bytes());
        }
        session.run(Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() }).unwrap();
    }
    store.settle(Duration::from_secs(120)).unwrap();
    let searches = || {
        let told = ask(server.port, "GET", "/storebench-users/_stats/search", &Value::Null);
        told["_all"]["total"]["search"]["query_total"].as_u64().unwrap()
    };
    let processor_ticks = || -> u64 {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        stat.split(' ').skip(13).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    };
    let (before, ticks, begun) = (searches(), processor_ticks(), std::time::Instant::now());
    assert_eq!(walked(&*store).len(), COUNT);
    let took = begun.elapsed().as_secs_f64();
    println!("{:.0} documents/s, {} ticks of processor time", COUNT as f64 / took, processor_ticks() - ticks);
    let pages = searches() - before;
    assert!(pages <= (COUNT / 5_000) as u64 + 4, "{pages} searches");
}
