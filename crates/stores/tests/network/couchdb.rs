//! Tests of the `couchdb` driver with pouchdb-server, and with small fake servers that misbehave.

mod fakes;

use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use storebench_engine::store::{
    AnyStore, CollectionId, Durability, ErrorKind, Namespace, Op, OpError, Prepare, Request, StoreError, ViewRows,
};
use storebench_fakes::certificates::{ADDRESS, CA};

use crate::http_help as help;
use crate::server::{Server, free_port};
use help::{Ask, existing, layout, options, raw};

fn open(url: &str) -> Arc<dyn AnyStore> {
    storebench_stores::open(url).unwrap()
}

#[test]
fn what_a_server_cannot_guarantee_is_refused() {
    let server = Server::start_with("pouchdb-server", &["--in-memory"]);
    let store = open(&server.url);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    assert!(store.describe().version.contains("in memory"), "{:?}", store.describe());
    for (durability, guaranteed) in [(Durability::MEMORY, true), (Durability::OS, false), (Durability::FSYNC, false)] {
        match Ask::open(&*store, &options(durability, 1)) {
            Ok(_) => assert!(guaranteed, "{durability}"),
            Err(error) => assert!(!guaranteed && matches!(error, StoreError::NotSupported(_)), "{error:?}"),
        }
    }
}

#[test]
fn wrong_port_password_or_database_are_named_without_the_password() {
    let server = Server::start_with("pouchdb-server", &["--password", "sec/ret pw"]);
    let right = open(&server.url);
    assert_eq!(right.inspect().unwrap(), Namespace::Absent);
    right.prepare(&layout("users"), Prepare::Fresh).unwrap();
    Ask::new(&*right, 1).upsert("a", "{}");
    assert!(!format!("{:?}", right.describe()).contains("sec"), "{:?}", right.describe());
    let nobody = free_port();
    let port = server.port;
    for url in [
        format!("couchdb://storebench:sec-wrong@127.0.0.1:{port}"),
        format!("couchdb://somebody:sec-wrong@127.0.0.1:{port}"),
        format!("couchdb://storebench:sec-wrong@127.0.0.1:{nobody}"),
    ] {
        let store = open(&url);
        for error in [store.inspect().unwrap_err(), store.prepare(&layout("users"), Prepare::Keep).unwrap_err()] {
            assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
            let text = format!("{error} {error:?} {:?}", store.describe());
            assert!(!text.contains("sec-wrong") && text.contains("127.0.0.1:"), "{text}");
        }
    }
    let error = right.prepare(&existing("no-such-database"), Prepare::ReadOnly).unwrap_err();
    assert!(error.to_string().contains("no-such-database"), "{error}");
    for url in ["couchdb://h/path", "couchdb://h,i", "couchdb://h?prefix=Capital", "couchdb://h?tls_name=x"] {
        assert!(matches!(storebench_stores::open(url).err(), Some(StoreError::BadUrl(_))), "{url}");
    }
}

#[test]
fn their_databases_are_left_alone() {
    let server = Server::start("pouchdb-server");
    let port = server.port;
    for database in ["storebench-books", "shop"] {
        raw(port, "PUT", &format!("/{database}"), "");
        raw(port, "POST", &format!("/{database}/_bulk_docs"), r#"{"docs":[{"_id":"emma","n":1},{"_id":"b","n":2}]}"#);
    }
    let snapshot = || {
        let all = ["storebench-books", "shop"].map(|database| {
            let rows = raw(port, "GET", &format!("/{database}/_all_docs?include_docs=true"), "");
            rows + &raw(port, "GET", &format!("/{database}/_changes"), "")
        });
        all.concat() + &raw(port, "GET", "/_all_dbs", "")
    };
    let before = snapshot();
    let store = open(&server.url);
    let Namespace::Foreign(what) = store.inspect().unwrap() else { panic!("foreign data was taken for ours") };
    assert!(what.contains("storebench-books"), "{what}");
    for how in [Prepare::Fresh, Prepare::Keep] {
        let error = store.prepare(&layout("users"), how).unwrap_err();
        assert!(matches!(error, StoreError::NotOurs(_)), "{error:?}");
        assert!(error.to_string().contains("--into-existing") && error.to_string().contains(&what), "{error}");
    }
    let error = store.prepare(&layout("books"), Prepare::IntoExisting).unwrap_err();
    assert!(matches!(error, StoreError::NotOurs(_)), "{error:?}");
    store.remove().unwrap();
    assert_eq!(snapshot(), before);
    // Storebench's collection is created and removed next to existing ones.
    store.prepare(&layout("Users"), Prepare::IntoExisting).unwrap();
    Ask::new(&*store, 1).upsert("u1", r#"{"user":"a"}"#);
    store.prepare(&layout("Users"), Prepare::IntoExisting).unwrap();
    assert!(Ask::new(&*store, 1).read("u1").is_some());
    assert!(raw(port, "GET", "/_all_dbs", "").contains("storebench-$users"));
    assert!(matches!(store.inspect().unwrap(), Namespace::Foreign(_)));
    store.remove().unwrap();
    assert_eq!(snapshot(), before);
}

#[test]
fn reading_and_sampling_their_database_changes_nothing() {
    let server = Server::start("pouchdb-server");
    let port = server.port;
    raw(port, "PUT", "/shop", "");
    for block in 0..4 {
        let docs: Vec<String> = (block * 1_000..block * 1_000 + 1_000)
            .map(|n| format!(r#"{{"_id":"users/{n:06}","user":"u{}","n":{n}}}"#, n % 50))
            .collect();
        raw(port, "POST", "/shop/_bulk_docs", &format!(r#"{{"docs":[{}]}}"#, docs.join(",")));
    }
    raw(port, "PUT", "/shop/_design/by", r#"{"views":{"user":{"map":"function(doc){emit(doc.user,null)}"}}}"#);
    // Not the size, because the server builds the index of a view at its first use.
    let sequence = || {
        let shop: serde_json::Value = serde_json::from_str(&raw(port, "GET", "/shop", "")).unwrap();
        format!("{} {} ", shop["update_seq"], shop["doc_count"])
            + &raw(port, "GET", "/shop/_all_docs?include_docs=true", "")
            + &raw(port, "GET", "/_all_dbs", "")
    };
    let before = sequence();
    let store = open(&server.url);
    assert_eq!(store.inspect().unwrap(), Namespace::Absent);
    store.prepare(&existing("shop"), Prepare::ReadOnly).unwrap();
    let keys = store.sample_keys(CollectionId(0), 80, 7).unwrap();
    assert_eq!(keys, store.sample_keys(CollectionId(0), 80, 7).unwrap(), "the seed determines the sample");
    assert_ne!(keys, store.sample_keys(CollectionId(0), 80, 8).unwrap());
    let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), 80);
    // The sample is spread: every quarter of the keys has its share, although only a part was read.
    for quarter in 0..4 {
        let inside = keys.iter().filter(|key| key[6..].parse::<usize>().unwrap() / 1_000 == quarter).count();
        assert!((4..=50).contains(&inside), "quarter {quarter} has {inside} of 80");
    }
    let mut ask = Ask::new(&*store, 4);
    assert!(keys.iter().take(20).all(|key| ask.read(key).is_some()));
    assert_eq!(ask.run(Op::Prefix { prefix: "users/00", limit: 3 }).unwrap().as_reply().documents, 3);
    let view = ask.run(Op::View { view: "by/user", rows: ViewRows::Keys("[\"u7\"]"), skip: 0, limit: 1_000 }).unwrap();
    assert_eq!(view.as_reply().documents, 80);
    let mut rows =
        |rows| ask.run(Op::View { view: "by/user", rows, skip: 0, limit: 1_000 }).unwrap().as_reply().documents;
    assert_eq!(rows(ViewRows::All), 1_000);
    let range = |start, end| ViewRows::Range { start, end };
    // The end key is included. There are 80 documents for each user.
    assert_eq!(rows(range(Some("\"u7\""), Some("\"u8\""))), 160);
    assert_eq!(rows(range(None, Some("\"u0\""))), 80);
    assert_eq!(rows(range(Some("\"u9\""), None)), 80);
    assert_eq!(rows(range(Some("\"a b\u{fc}&c\""), Some("\"a c\""))), 0);
    assert_eq!(
        ask.run(Op::View { view: "by/user", rows: ViewRows::All, skip: 0, limit: 5 }).unwrap().as_reply().documents,
        5
    );
    let skipped = Op::View { view: "by/user", rows: ViewRows::Keys("[\"u7\"]"), skip: 75, limit: 1_000 };
    assert_eq!(ask.run(skipped).unwrap().as_reply().documents, 5);
    for op in [Op::Upsert { key: "users/000001", body: b"{}" }, Op::Delete { key: "users/000001" }] {
        assert_eq!(ask.run(op).unwrap_err().kind, ErrorKind::Refused);
    }
    assert!(store.compact().is_err());
    assert!(store.stats().unwrap().iter().any(|(name, value)| name == "documents" && *value >= 4_000.0));
    store.remove().unwrap();
    assert_eq!(sequence(), before);
}

#[test]
fn pages_go_past_design_documents_and_tell_their_plan() {
    let server = Server::start_with("pouchdb-server", &["--in-memory"]);
    let store = open(&server.url);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    for name in ["x", "y", "z"] {
        raw(server.port, "PUT", &format!("/storebench-users/_design/{name}"), r#"{"views":{}}"#);
    }
    let mut ask = Ask::new(&*store, 4);
    let keys = ["A", "B", "a", "b", "c", "я"];
    for key in keys {
        ask.upsert(key, r#"{"user":"u"}"#);
    }
    for limit in 1..8 {
        let reply = ask.run(Op::Scan { start: "", end: None, limit }).unwrap();
        let reply = reply.as_reply();
        let got: Vec<&str> = reply.rows.unwrap().iter().map(|(key, _)| key).collect();
        assert_eq!(got, &keys[..keys.len().min(limit as usize)]);
    }
    let full_scan = |op| {
        let request = Request { collection: CollectionId(0), op, contents: false };
        store.explain(&request).unwrap().unwrap().full_scan
    };
    assert!(!full_scan(Op::Page { field: "user", value: "\"u\"", limit: 1 }));
    assert!(full_scan(Op::Page { field: "other", value: "\"u\"", limit: 1 }));
    assert!(!full_scan(Op::Prefix { prefix: "a", limit: 1 }));
    for key in ["", "_design/x", "_x"] {
        assert_eq!(ask.run(Op::Upsert { key, body: b"{}" }).unwrap_err().kind, ErrorKind::Refused, "{key}");
    }
}

/// Keys and documents of a view of `shop`, without CouchDB's own fields.
fn view(ask: &mut Ask, view: &str) -> Result<Vec<(String, Value)>, OpError> {
    let reply = ask.run(Op::View { view, rows: ViewRows::All, skip: 0, limit: 10 })?;
    let rows = reply.as_reply().rows.unwrap();
    let document = |(key, body): (&str, &[u8])| {
        let mut document: Value = serde_json::from_slice(body).unwrap();
        document.as_object_mut().unwrap().retain(|name, _| !name.starts_with('_'));
        (key.to_owned(), document)
    };
    Ok(rows.iter().map(document).collect())
}

#[test]
fn a_row_of_a_view_is_its_document_and_never_its_value() {
    let server = Server::start_with("pouchdb-server", &["--in-memory"]);
    raw(server.port, "PUT", "/shop", "");
    let map = |emit: &str| json!({ "map": format!("function(doc){{if(doc.to)emit(doc._id,{emit})}}") });
    let views = json!({ "link": map("{_id:doc.to}"), "value": map("{x:1}") });
    let docs = json!([{"_id": "a", "to": "b"}, {"_id": "b", "n": 2}, {"_id": "_design/by", "views": views}]);
    raw(server.port, "POST", "/shop/_bulk_docs", &json!({ "docs": docs }).to_string());
    let store = open(&server.url);
    store.prepare(&existing("shop"), Prepare::ReadOnly).unwrap();
    let mut ask = Ask::new(&*store, 1);
    assert_eq!(view(&mut ask, "by/value").unwrap(), [("a".to_owned(), json!({ "to": "b" }))]);
    // The document that the value names appears under its own key.
    assert_eq!(view(&mut ask, "by/link").unwrap(), [("b".to_owned(), json!({ "n": 2 }))]);
    raw(server.port, "PUT", "/shop/c", r#"{"to":"nowhere"}"#);
    let error = view(&mut ask, "by/link").unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.message.contains("`nowhere`"), "{error}");
    assert_eq!(view(&mut ask, "by/value").unwrap().len(), 2);
}

#[test]
fn a_server_killed_mid_run_leaves_unknown_outcomes_and_is_found_again() {
    let server = Server::start("pouchdb-server");
    let store = open(&server.url);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut ask = Ask::new(&*store, 8);
    ask.upsert("before", r#"{"n":1}"#);
    let keys: Vec<String> = (0..2_000).map(|n| format!("k{n}")).collect();
    let ops: Vec<Op<'_>> = keys.iter().map(|key| Op::Insert { key, body: br#"{"n":2}"# }).collect();
    let ended = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            server.kill();
        });
        ask.all(&ops, Duration::from_secs(180))
    });
    assert_eq!(ended.len(), ops.len(), "every operation ends");
    let mut acknowledged = Vec::new();
    for (number, result) in &ended {
        match result {
            Ok(_) => acknowledged.push(*number),
            Err(error) => {
                assert!(matches!(error.kind, ErrorKind::OutcomeUnknown | ErrorKind::Temporary), "{error}");
            }
        }
    }
    let kinds = |kind| ended.iter().filter(|(_, r)| r.as_ref().is_err_and(|e| e.kind == kind)).count();
    // Each connection carries one request. Some reconnect once more to the dying server.
    assert!(kinds(ErrorKind::OutcomeUnknown) <= 3 * 8, "{}", kinds(ErrorKind::OutcomeUnknown));
    assert!(kinds(ErrorKind::Temporary) > 0, "the server must be killed before all were written");
    assert!(ask.counters().disconnects > 0);
    server.restart();
    let found = (0..200).find_map(|_| {
        ask.wait(Duration::from_millis(50));
        ask.read("before")
    });
    assert_eq!(found.unwrap()["n"], 1, "the session must reconnect by itself");
    for number in acknowledged {
        assert!(ask.read(&keys[number as usize]).is_some(), "k{number} was acknowledged");
    }
}

#[test]
fn over_tls_with_an_authority_of_ones_own() {
    let server = Server::start_with("pouchdb-server", &["--in-memory"]);
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.pem");
    let port = tls_proxy(server.port, &authority);
    let url = format!("couchdbs://127.0.0.1:{port}?tls_ca={}", authority.display());
    let store = open(&url);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut ask = Ask::new(&*store, 4);
    let body = format!(r#"{{"t":"{}"}}"#, "x".repeat(300_000));
    ask.upsert("large", &body);
    assert_eq!(ask.read("large").unwrap()["t"].as_str().unwrap().len(), 300_000);
    for (url, said) in [
        (format!("{url}&tls_name=elsewhere"), "tls_name="),
        (format!("couchdbs://127.0.0.1:{}?tls_ca={}", server.port, authority.display()), "TLS"),
        (format!("couchdb://127.0.0.1:{port}"), "TLS"),
    ] {
        let error = open(&url).inspect().unwrap_err();
        assert!(matches!(error, StoreError::Unreachable(_)) && error.to_string().contains(said), "{url}: {error}");
    }
}

/// A proxy that accepts TLS and forwards the plain text. Writes its authority's certificate to a file.
fn tls_proxy(to: u16, authority: &std::path::Path) -> u16 {
    std::fs::write(authority, CA).unwrap();
    let certificate = CertificateDer::from_pem_slice(ADDRESS.pem.as_bytes()).unwrap();
    let private = PrivateKeyDer::from_pem_slice(ADDRESS.key.as_bytes()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], private)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((inside, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut inside) = acceptor.accept(inside).await else { return };
                    let mut outside = tokio::net::TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
                });
            }
        });
    });
    port
}
