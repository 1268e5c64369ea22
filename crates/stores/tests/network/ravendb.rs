//! Tests of the `ravendb` driver with RavenDB 4.1, and with fake servers.

mod fakes;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use storebench_engine::RealClock;
use storebench_engine::store::{
    AnyStore, BatchBuf, BulkWrite, CollectionId, CollectionLayout, Durability, ErrorKind, Existing, Layout, Namespace,
    Op, OpError, OpKind, OwnedReply, PhaseStart, Prepare, ReadConsistency, Reply, Request, RowPage, Rows, Session,
    SessionOptions, StoreError, Token, merge_patch,
};
use storebench_fakes::certificates::{CA, CLIENT, LOCALHOST};
use storebench_study::workload::Body;

use crate::server::Server;

const DOCUMENTS: CollectionId = CollectionId(0);

fn layout(name: &str) -> Layout {
    Layout {
        collections: vec![CollectionLayout {
            name: name.into(),
            body: Body::Json,
            indexes: vec![vec!["user".into()]],
            existing: None,
            uses: storebench_engine::store::Uses::ALL,
        }],
    }
}

fn options() -> SessionOptions {
    SessionOptions {
        durability: Durability::FSYNC,
        consistency: ReadConsistency::Strong,
        timeout: Duration::from_secs(60),
        in_flight: 4,
        clock: Arc::new(RealClock::new()),
        phase_start: PhaseStart::new(),
    }
}

/// A session and its runtime.
struct Ask {
    session: Option<Box<dyn Session>>,
    runtime: tokio::runtime::Runtime,
}

impl Drop for Ask {
    fn drop(&mut self) {
        let _within = self.runtime.enter();
        drop(self.session.take());
    }
}

impl Ask {
    fn new(store: &dyn AnyStore) -> Self {
        Self::with(store, &options()).unwrap()
    }

    fn with(store: &dyn AnyStore, options: &SessionOptions) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let session = runtime.block_on(store.open_any(options))?;
        Ok(Self { session: Some(session), runtime })
    }

    /// Runs these operations together. Returns the result of each.
    fn together(&mut self, ops: &[Op<'_>], between: impl FnOnce()) -> Vec<Result<OwnedReply, OpError>> {
        let session = self.session.as_mut().unwrap();
        let mut answers: Vec<Option<Result<OwnedReply, OpError>>> = ops.iter().map(|_| None).collect();
        let mut take = |token: Token, result: Result<Reply<'_>, OpError>| {
            let place = &mut answers[usize::try_from(token.0).unwrap()];
            assert!(place.replace(result.map(OwnedReply::from)).is_none(), "completed twice");
        };
        self.runtime.block_on(async {
            for (i, op) in ops.iter().enumerate() {
                let request = Request { collection: DOCUMENTS, op: *op, contents: true };
                session.submit(&request, Token(i as u64), &mut take);
            }
            session.flush();
            between();
            let all = std::future::poll_fn(|cx| session.poll(cx, &mut take));
            tokio::time::timeout(Duration::from_secs(180), all).await.expect("answered within three minutes");
        });
        answers.into_iter().map(|answer| answer.expect("completed")).collect()
    }

    fn call(&mut self, op: Op<'_>) -> Result<OwnedReply, OpError> {
        self.together(&[op], || {}).pop().unwrap()
    }

    /// Repeats an operation while it fails as *temporary*.
    fn patient(&mut self, op: Op<'_>) -> Result<OwnedReply, OpError> {
        let begun = Instant::now();
        loop {
            match self.call(op) {
                Err(error) if error.kind == ErrorKind::Temporary && begun.elapsed() < Duration::from_secs(180) => {
                    // On the runtime, which reconnects meanwhile.
                    self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(20)).await });
                }
                other => return other,
            }
        }
    }

    fn upsert(&mut self, key: &str, body: &Value) {
        self.call(Op::Upsert { key, body: body.to_string().as_bytes() }).unwrap();
    }

    fn read(&mut self, key: &str) -> Option<Value> {
        match self.call(Op::Read { key }) {
            Ok(reply) => Some(serde_json::from_slice(reply.as_reply().body.unwrap()).unwrap()),
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
                None
            }
        }
    }

    fn keys(&mut self, op: Op<'_>) -> Vec<String> {
        let reply = self.call(op).unwrap();
        reply.as_reply().rows.unwrap().iter().map(|(key, _)| key.to_owned()).collect()
    }
}

/// Lists an existing collection to its end, or until it fails permanently. Returns the keys of each page.
fn list(store: &dyn AnyStore) -> Vec<Result<Vec<String>, StoreError>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut stream = match store.rows(Rows::Walk { collection: DOCUMENTS, part: "all" }).await {
            Ok(stream) => stream,
            Err(error) => return vec![Err(error)],
        };
        let (mut page, mut pages) = (RowPage::default(), Vec::<Result<Vec<String>, _>>::new());
        while pages.len() < 20 {
            match stream.next(&mut page).await {
                Ok(true) => pages.push(Ok(page.rows.as_batch().iter().map(|(key, _)| key.to_owned()).collect())),
                Ok(false) => break,
                Err(error) => {
                    let again = matches!(error, StoreError::Unreachable(_));
                    pages.push(Err(error));
                    if !again {
                        break;
                    }
                }
            }
        }
        pages
    })
}

/// Sends a request without the driver. Returns the status and the body.
fn http(port: u16, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    let status = text[9..12].parse().unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let body = if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        let mut whole = String::new();
        let mut rest = body;
        while let Some((size, after)) = rest.split_once("\r\n") {
            let size = usize::from_str_radix(size.trim(), 16).unwrap();
            if size == 0 {
                break;
            }
            whole += &after[..size];
            rest = &after[size + 2..];
        }
        whole
    } else {
        body.to_owned()
    };
    (status, serde_json::from_str(&body).unwrap_or_default())
}

/// Creates a foreign database with two collections and an automatic index.
fn theirs(port: u16, name: &str) {
    let (status, _) = http(
        port,
        "PUT",
        &format!("/admin/databases?name={name}&replicationFactor=1"),
        &json!({ "DatabaseName": name }).to_string(),
    );
    assert_eq!(status, 201);
    let commands: Vec<Value> = (0..300)
        .map(|i| {
            let collection = if i % 3 == 0 { "Authors" } else { "Books" };
            json!({ "Type": "PUT", "Id": format!("{collection}/{i}-A"), "ChangeVector": null,
                "Document": { "n": i, "by": format!("Ann {}", i % 10), "@metadata": { "@collection": collection } } })
        })
        .collect();
    let path = format!("/databases/{name}");
    let (status, told) = http(port, "POST", &format!("{path}/bulk_docs"), &json!({ "Commands": commands }).to_string());
    assert_eq!(status, 201, "{told}");
    let query = json!({ "Query": "from 'Books' where exact(by = 'x')", "WaitForNonStaleResults": true });
    assert_eq!(http(port, "POST", &format!("{path}/queries"), &query.to_string()).0, 200);
}

/// Everything that could change: documents, indexes, settings.
fn fingerprint(port: u16, name: &str) -> (Value, Value, Value) {
    let get = |path: &str| http(port, "GET", path, "").1;
    let stats = get(&format!("/databases/{name}/stats"));
    let whole = json!([
        stats["LastDocEtag"],
        stats["DatabaseChangeVector"],
        stats["CountOfDocuments"],
        stats["CountOfTombstones"],
        get(&format!("/databases/{name}/collections/stats")),
    ]);
    (whole, get(&format!("/databases/{name}/indexes")), get(&format!("/admin/databases?name={name}")))
}

#[test]
fn the_driver_against_one_server() {
    let server = Server::start("ravendb");
    scans_begin_anywhere(&server);
    merges_are_those_of_the_rfc(&server);
    a_document_that_ravendb_refuses_leaves_the_others(&server);
    a_strong_page_waits_for_its_index_and_a_stale_one_does_not(&server);
    their_database_is_told_and_left_alone(&server);
    their_collection_is_read_and_nothing_changes(&server);
    adding_beside_theirs_takes_only_ours_away(&server);
    queries_are_explained(&server);
    what_a_single_node_cannot_guarantee_is_refused(&server);
    over_tls_with_a_certificate_of_the_client(&server);
}

fn open(server: &Server, database: &str) -> Arc<dyn AnyStore> {
    storebench_stores::open(&format!("{}/{database}", server.url)).unwrap()
}

fn scans_begin_anywhere(server: &Server) {
    let store = open(server, "scans");
    store.prepare(&layout("c"), Prepare::Fresh).unwrap();
    let mut ask = Ask::new(&*store);
    let keys =
        ["", "B", "a", "a/", "a/1", "a/2", "aa", "b", "b!", "b ", "x~", "x|", "ключ/1", "日本", "zz/0001", "zz/0003"];
    let all: BTreeMap<&str, ()> = keys.iter().map(|key| (*key, ())).collect();
    for key in keys {
        ask.upsert(key, &json!({ "key": key }));
    }
    let starts = [
        "",
        "A",
        "B",
        "BB",
        "a",
        "a.",
        "a/",
        "a/0",
        "a/15",
        "a/3",
        "ab",
        "b",
        "b\"",
        "c",
        "x",
        "x~~",
        "y",
        "zz/0002",
        "zz/0004",
        "~",
        "ж",
        "яя",
        "\u{10FFFF}",
    ];
    for start in starts {
        for limit in [1, 3, 100] {
            let expected: Vec<&str> = all.range(start..).map(|(key, ())| *key).take(limit).collect();
            let got = ask.keys(Op::Scan { start, end: None, limit: u32::try_from(limit).unwrap() });
            assert_eq!(got, expected, "from {start:?}, {limit}");
        }
        for end in starts.into_iter().filter(|end| *end > start) {
            let expected: Vec<&str> = all.range(start..end).map(|(key, ())| *key).collect();
            assert_eq!(ask.keys(Op::Scan { start, end: Some(end), limit: 50 }), expected, "from {start:?} to {end:?}");
        }
    }
    store.remove().unwrap();
}

fn merges_are_those_of_the_rfc(server: &Server) {
    let store = open(server, "merges");
    store.prepare(&layout("c"), Prepare::Fresh).unwrap();
    let mut ask = Ask::new(&*store);
    let cases = [
        (json!({"n": 1.5}), json!({"m": [1.5, 1e30, 9_007_199_254_740_991_i64, -0.25, true, null, "é\n", {"d": {}}]})),
        (json!({"": 1}), json!({"": 2, "0": 3})),
        (json!({"length": 3}), json!({"length": 4, "constructor": {"a": 1}, "toString": "x", "__proto__": {"z": 1}})),
        (json!({"a": {"b": null}}), json!({"a": {"x": {"y": [null, {"a": null}]}}})),
        (json!({"a": 1}), json!({"a": null})),
    ];
    for (before, patch) in &cases {
        let expected = merge_patch(before.to_string().as_bytes(), patch.to_string().as_bytes()).unwrap();
        let expected: Value = serde_json::from_slice(&expected).unwrap();
        ask.upsert("k", before);
        ask.call(Op::MergePatch { key: "k", patch: patch.to_string().as_bytes() }).unwrap();
        assert_eq!(ask.read("k").unwrap(), expected, "{before} with {patch}");
    }
    let theirs = b"{\"a\":2,\"@metadata\":{\"@collection\":\"Elsewhere\"}}";
    let refused = ask.call(Op::MergePatch { key: "k", patch: theirs }).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Refused, "{refused}");
    // A merge keeps the expiry, like everything else that the patch does not name.
    ask.call(Op::Touch { key: "k", expiry: Duration::from_secs(3_600) }).unwrap();
    ask.call(Op::MergePatch { key: "k", patch: b"{\"z\":1}" }).unwrap();
    let raw = http(server.port, "GET", "/databases/merges/docs?id=c/k", "").1;
    assert!(raw["Results"][0]["@metadata"]["@expires"].is_string(), "{raw}");
    assert_eq!(raw["Results"][0]["@metadata"]["@collection"], "C");
    store.remove().unwrap();
}

fn a_document_that_ravendb_refuses_leaves_the_others(server: &Server) {
    let store = open(server, "refused");
    store.prepare(&layout("c"), Prepare::Fresh).unwrap();
    let mut ask = Ask::new(&*store);
    let bodies: Vec<&[u8]> =
        vec![b"{\"n\":0}", b"{\"n\":01}", b"{\"n\":2}", b"[3]", b"{\"n\":4}},{", b"{\"n\":5}", b"{n:6}"];
    for kind in [BulkWrite::Insert, BulkWrite::Upsert] {
        let mut items = BatchBuf::new();
        for (i, body) in bodies.iter().enumerate() {
            items.push(&format!("{kind:?}-{i}"), body);
        }
        let reply = ask.call(Op::BulkWrite { kind, items: items.as_batch() }).unwrap();
        let reply = reply.as_reply();
        let rejected: Vec<(usize, ErrorKind)> = reply.rejects.iter().map(|r| (r.item, r.error.kind)).collect();
        assert_eq!(rejected, [1, 3, 4, 6].map(|i| (i, ErrorKind::Refused)), "{reply:?}");
        assert_eq!(reply.documents, 3);
        for i in [0, 2, 5] {
            assert_eq!(ask.read(&format!("{kind:?}-{i}")), Some(json!({ "n": i })));
        }
    }
    // If a bulk insert contains a key twice, the first document is stored.
    let mut items = BatchBuf::new();
    for n in 0..3 {
        items.push("twice", json!({ "n": n }).to_string().as_bytes());
    }
    let reply = ask.call(Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() }).unwrap();
    let rejected: Vec<(usize, ErrorKind)> = reply.as_reply().rejects.iter().map(|r| (r.item, r.error.kind)).collect();
    assert_eq!((reply.as_reply().documents, rejected), (1, vec![(1, ErrorKind::Conflict), (2, ErrorKind::Conflict)]));
    assert_eq!(ask.read("twice"), Some(json!({ "n": 0 })));
    for body in
        bodies.iter().copied().filter(|body| serde_json::from_slice::<Value>(body).map_or(true, |v| !v.is_object()))
    {
        let error = ask.call(Op::Upsert { key: "one", body }).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    }
    let long = "k".repeat(3_000);
    let error = ask.call(Op::Upsert { key: &long, body: b"{}" }).unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.message.contains("512"), "{error}");
    store.remove().unwrap();
}

fn a_strong_page_waits_for_its_index_and_a_stale_one_does_not(server: &Server) {
    let store = open(server, "stale");
    store.prepare(&layout("c"), Prepare::Fresh).unwrap();
    let mut strong = Ask::new(&*store);
    let mut items = BatchBuf::new();
    for i in 0..5_000 {
        items.push(&format!("k{i}"), json!({ "user": format!("u{i}") }).to_string().as_bytes());
    }
    strong.call(Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() }).unwrap();
    let page = Op::Page { field: "user", value: "\"u4999\"", limit: 10 };
    assert_eq!(strong.keys(page), ["k4999"]);
    // If an index is stopped, the strong page times out, and the stale one answers immediately.
    assert_eq!(http(server.port, "POST", "/databases/stale/admin/indexes/stop", "").0, 204);
    strong.upsert("new", &json!({ "user": "new" }));
    let page = Op::Page { field: "user", value: "\"new\"", limit: 10 };
    let mut hasty = Ask::with(&*store, &SessionOptions { timeout: Duration::from_secs(1), ..options() }).unwrap();
    let error = hasty.call(page).unwrap_err();
    assert!(error.kind == ErrorKind::Temporary && error.message.contains("index"), "{error}");
    let stale = SessionOptions { consistency: ReadConsistency::StaleOk, ..options() };
    assert_eq!(Ask::with(&*store, &stale).unwrap().keys(page), Vec::<String>::new());
    let figures: BTreeMap<String, f64> = store.stats().unwrap().into_iter().collect();
    assert_eq!((figures["stale_indexes"], figures["index_lag_documents"]), (1.0, 1.0), "{figures:?}");
    assert_eq!(figures["documents"], 5_002.0, "including the marker");
    for name in ["disk_bytes", "data_file_bytes", "data_file_used_bytes", "journal_bytes", "index_disk_bytes"] {
        assert!(figures[name] > 0.0, "{name} in {figures:?}");
    }
    assert!(!store.settle(Duration::from_millis(100)).unwrap());
    assert_eq!(http(server.port, "POST", "/databases/stale/admin/indexes/start", "").0, 204);
    assert_eq!(strong.keys(page), ["new"]);
    assert!(store.settle(Duration::from_secs(60)).unwrap());
    store.remove().unwrap();
}

fn their_database_is_told_and_left_alone(server: &Server) {
    theirs(server.port, "theirs");
    let before = fingerprint(server.port, "theirs");
    let store = open(server, "theirs");
    let Namespace::Foreign(what) = store.inspect().unwrap() else { panic!("foreign data was taken for ours") };
    assert!(what.contains("300 documents") && what.contains("Books"), "{what}");
    for how in [Prepare::Fresh, Prepare::Keep] {
        let error = store.prepare(&layout("users"), how).unwrap_err();
        assert!(matches!(error, StoreError::NotOurs(_)), "{error:?}");
        assert!(error.to_string().contains(&what) && error.to_string().contains("--into-existing"), "{error}");
    }
    // Names and ids of existing collections belong to their owner, regardless of case.
    for name in ["books", "Authors", "AUTHORS"] {
        let error = store.prepare(&layout(name), Prepare::IntoExisting).unwrap_err();
        assert!(matches!(error, StoreError::NotOurs(_)), "{error:?}");
    }
    store.remove().unwrap();
    store.close().unwrap();
    assert_eq!(fingerprint(server.port, "theirs"), before);
    let nothing = open(server, "no-such-database");
    assert_eq!(nothing.inspect().unwrap(), Namespace::Absent);
    assert!(matches!(nothing.prepare(&layout("c"), Prepare::ReadOnly), Err(StoreError::Unreachable(_))));
    assert_eq!(nothing.inspect().unwrap(), Namespace::Absent);
}

fn their_collection_is_read_and_nothing_changes(server: &Server) {
    let before = fingerprint(server.port, "theirs");
    let store = open(server, "theirs");
    let mut read = layout("books-of-theirs");
    read.collections[0].existing = Some(Existing { name: "books".into(), key: None, body: None });
    store.prepare(&read, Prepare::ReadOnly).unwrap();
    let keys = store.sample_keys(DOCUMENTS, 50, 7).unwrap();
    assert_eq!(keys.len(), 50);
    assert_ne!(keys, store.sample_keys(DOCUMENTS, 50, 8).unwrap());
    assert_eq!(store.sample_keys(DOCUMENTS, 1_000, 7).unwrap().len(), 200);
    let mut ask = Ask::new(&*store);
    for key in &keys {
        let n: u64 = key.trim_start_matches("Books/").trim_end_matches("-A").parse().unwrap();
        assert_eq!(ask.read(key), Some(json!({ "n": n, "by": format!("Ann {}", n % 10) })));
        assert_eq!(ask.call(Op::Exists { key }).unwrap().as_reply().documents, 1);
    }
    // A document of another collection does not belong to this one.
    assert_eq!(ask.read("Authors/3-A"), None);
    assert_eq!(ask.call(Op::Exists { key: "Authors/3-A" }).unwrap().as_reply().documents, 0);
    assert_eq!(ask.keys(Op::Prefix { prefix: "Books/1-", limit: 10 }), ["Books/1-A"]);
    assert_eq!(ask.keys(Op::Prefix { prefix: "", limit: 250 }).len(), 200);
    // Existing ids have their own order, so they are listed.
    assert!(store.capabilities().supports(OpKind::Scan).is_none());
    assert_eq!(store.parts().unwrap().len(), 1);
    let mut listed: Vec<String> = list(&*store).into_iter().flat_map(Result::unwrap).collect();
    listed.sort_unstable();
    let mut books: Vec<String> = (0..300).filter(|i| i % 3 != 0).map(|i| format!("Books/{i}-A")).collect();
    books.sort_unstable();
    assert_eq!(listed, books);
    let page = ask.call(Op::Page { field: "by", value: "\"Ann 4\"", limit: 100 }).unwrap();
    assert_eq!(page.as_reply().documents, 20);
    assert_eq!(ask.call(Op::Page { field: "by", value: "\"ann 4\"", limit: 100 }).unwrap().as_reply().documents, 0);
    assert_eq!(ask.call(Op::Page { field: "n", value: "7", limit: 1 }).unwrap_err().kind, ErrorKind::Refused);
    for op in [Op::Upsert { key: "Books/1-A", body: b"{}" }, Op::Delete { key: "Books/1-A" }] {
        assert_eq!(ask.call(op).unwrap_err().kind, ErrorKind::Refused);
    }
    assert!(matches!(store.compact(), Err(StoreError::NotSupported(_))));
    assert_eq!(fingerprint(server.port, "theirs"), before);
    read.collections[0].existing = Some(Existing { name: "Films".into(), key: None, body: None });
    let error = store.prepare(&read, Prepare::ReadOnly).unwrap_err();
    assert!(error.to_string().contains("Authors"), "{error}");
    // A collection that Storebench did not create is not its own, and reading it as such would find nothing.
    for name in ["books", "Books", "Films"] {
        let error = store.prepare(&layout(name), Prepare::ReadOnly).unwrap_err();
        let told = error.to_string();
        assert!(matches!(error, StoreError::NotSupported(_)) && told.contains("it has: "), "{told}");
        assert!(told.contains("Authors") && told.contains("Books"), "{told}");
    }
}

fn adding_beside_theirs_takes_only_ours_away(server: &Server) {
    let (before, indexes, record) = fingerprint(server.port, "theirs");
    let store = open(server, "theirs");
    store.prepare(&layout("users"), Prepare::IntoExisting).unwrap();
    let mut ask = Ask::new(&*store);
    ask.upsert("u1", &json!({ "user": "a" }));
    assert_eq!(ask.keys(Op::Page { field: "user", value: "\"a\"", limit: 10 }), ["u1"]);
    let reader = open(server, "theirs");
    reader.prepare(&layout("users"), Prepare::ReadOnly).unwrap();
    assert!(reader.capabilities().supports(OpKind::Scan).is_some());
    assert_eq!(Ask::new(&*reader).keys(Op::Scan { start: "", end: None, limit: 10 }), ["u1"]);
    let mut counters = layout("users");
    counters.collections[0].body = Body::Counter;
    counters.collections[0].indexes.clear();
    let error = reader.prepare(&counters, Prepare::ReadOnly).unwrap_err();
    assert!(error.to_string().contains("kept as json"), "{error}");
    // This database does not remove expired documents, so a touch must be refused.
    let error = ask.call(Op::Touch { key: "u1", expiry: Duration::from_secs(1) }).unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.message.contains("expiration"), "{error}");
    let Namespace::Foreign(what) = store.inspect().unwrap() else { panic!("foreign data was taken for ours") };
    assert!(what.contains("beside 1"), "{what}");
    assert!(matches!(store.prepare(&layout("users"), Prepare::Fresh), Err(StoreError::NotOurs(_))));
    store.prepare(&layout("users"), Prepare::IntoExisting).unwrap();
    assert_eq!(Ask::new(&*store).read("u1"), Some(json!({ "user": "a" })));
    store.remove().unwrap();
    let (after, indexes_after, record_after) = fingerprint(server.port, "theirs");
    assert_eq!(before[2], after[2], "documents");
    assert_eq!(indexes, indexes_after);
    assert_eq!(record["Expiration"], record_after["Expiration"]);
    assert_eq!(http(server.port, "GET", "/databases/theirs/docs?id=storebench", "").0, 404);
}

fn queries_are_explained(server: &Server) {
    let store = open(server, "explained");
    store.prepare(&layout("c"), Prepare::Fresh).unwrap();
    let explain = |op| store.explain(&Request { collection: DOCUMENTS, op, contents: true }).unwrap();
    let indexed = explain(Op::Page { field: "user", value: "\"a\"", limit: 1 }).unwrap();
    assert!(!indexed.full_scan && indexed.plan.contains("Storebench/c/0-user"), "{indexed:?}");
    let automatic = explain(Op::Page { field: "other", value: "\"a\"", limit: 1 }).unwrap();
    assert!(automatic.plan.contains("automatic index"), "{automatic:?}");
    assert!(!explain(Op::Prefix { prefix: "a", limit: 1 }).unwrap().full_scan);
    assert!(explain(Op::Read { key: "a" }).is_none());
    store.remove().unwrap();
}

fn what_a_single_node_cannot_guarantee_is_refused(server: &Server) {
    let store = open(server, "replicated?replicas=2");
    store.prepare(&layout("c"), Prepare::Fresh).unwrap();
    let wanted = store.capabilities().durability[0].0;
    let refused = Ask::with(&*store, &SessionOptions { durability: wanted, ..options() }).map(drop).unwrap_err();
    assert!(matches!(refused, StoreError::NotSupported(_)), "{refused:?}");
    assert!(refused.to_string().contains("1 nodes"), "{refused}");
    store.remove().unwrap();
}

fn over_tls_with_a_certificate_of_the_client(server: &Server) {
    let folder = tempfile::tempdir().unwrap();
    let port = tls_in_front(server.port, folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let url = |host: &str, options: &str| format!("ravendbs://{host}:{port}/tls?tls_ca={}{options}", file("ca.pem"));
    let client = format!("&tls_cert={}&tls_key={}", file("client.pem"), file("client.key"));
    let store = storebench_stores::open(&url("localhost", &client)).unwrap();
    store.prepare(&layout("c"), Prepare::Fresh).unwrap();
    let mut ask = Ask::new(&*store);
    ask.upsert("k", &json!({ "n": 1 }));
    assert_eq!(ask.read("k"), Some(json!({ "n": 1 })));
    store.remove().unwrap();
    let fails = |url: &str, word: &str| {
        let error = storebench_stores::open(url).unwrap().inspect().unwrap_err();
        assert!(matches!(error, StoreError::Unreachable(_)) && error.to_string().contains(word), "{url}: {error}");
        assert!(!error.to_string().contains("PRIVATE KEY"), "{error}");
    };
    fails(&url("127.0.0.1", &client), "tls_name");
    // The server reports the missing certificate only when it reads the first request.
    let error = storebench_stores::open(&url("localhost", "")).unwrap().inspect().unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
    fails(&format!("ravendbs://localhost:{port}/tls"), "tls_ca");
    fails(&format!("ravendbs://127.0.0.1:{}/tls", server.port), "TLS");
}

/// A TLS proxy to a port, for clients with a certificate. Creates `ca.pem`, `client.pem` and `client.key`.
fn tls_in_front(to: u16, folder: &Path) -> u16 {
    std::fs::write(folder.join("ca.pem"), CA).unwrap();
    std::fs::write(folder.join("client.pem"), CLIENT.pem).unwrap();
    std::fs::write(folder.join("client.key"), CLIENT.key).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CA.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier =
        rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.unwrap())
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(LOCALHOST.pem.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(LOCALHOST.key.as_bytes()).unwrap(),
        )
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let mut to = tokio::net::TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut to).await;
                });
            }
        });
    });
    port
}

#[test]
fn a_server_killed_under_way_loses_nothing_it_acknowledged() {
    let server = Server::start("ravendb");
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout("c"), Prepare::Fresh).unwrap();
    let mut ask = Ask::new(&*store);
    let keys: Vec<String> = (0..1_000).map(|i| format!("k{i}")).collect();
    let bodies: Vec<String> = (0..1_000).map(|i| json!({ "n": i }).to_string()).collect();
    // Large enough that it is still being sent when the server is killed.
    let mut large = BatchBuf::new();
    let text = json!({ "text": "x".repeat(200_000) }).to_string();
    (0..200).for_each(|i| large.push(&format!("large{i}"), text.as_bytes()));
    let mut ended = Vec::new();
    for (chunk, (keys, bodies)) in keys.chunks(100).zip(bodies.chunks(100)).enumerate() {
        let mut ops: Vec<Op<'_>> =
            keys.iter().zip(bodies).map(|(key, body)| Op::Upsert { key, body: body.as_bytes() }).collect();
        if chunk != 5 {
            ended.extend(ask.together(&ops, || {}));
            continue;
        }
        ops.insert(0, Op::BulkWrite { kind: BulkWrite::Upsert, items: large.as_batch() });
        let mut answers = ask.together(&ops, || server.kill());
        let bulk = answers.remove(0).unwrap_err();
        assert_eq!(bulk.kind, ErrorKind::OutcomeUnknown, "{bulk}");
        ended.extend(answers);
    }
    let kinds = |kind| ended.iter().filter(|end| end.as_ref().is_err_and(|error| error.kind == kind)).count();
    let done = ended.iter().filter(|end| end.is_ok()).count();
    let (unknown, temporary) = (kinds(ErrorKind::OutcomeUnknown), kinds(ErrorKind::Temporary));
    assert_eq!(done + unknown + temporary, 1_000, "{:?}", ended.iter().find(|end| end.is_err()));
    assert!(done >= 500 && temporary > 0 && unknown <= 3, "{done} {unknown} {temporary}");
    assert!(ask.session.as_ref().unwrap().counters().disconnects > 0);
    server.restart();
    ask.patient(Op::Upsert { key: "after", body: b"{}" }).unwrap();
    for (key, _) in keys.iter().zip(&ended).filter(|(_, end)| end.is_ok()) {
        assert!(ask.patient(Op::Read { key }).is_ok(), "{key} was acknowledged");
    }
    store.remove().unwrap();
    drop(ask);
    drop(server);
    assert!(matches!(store.inspect(), Err(StoreError::Unreachable(_))));
}
