//! Tests of the `mongodb` driver with nx-27017 (MongoDB's protocol over SQLite). Another client writes to the same
//! database with MongoDB's own BSON crate. A fake covers what nx-27017 does not do.

mod answers;
mod drive;
mod transactions;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::{Bson, DateTime, Document, doc, oid::ObjectId};
use storebench_engine::store::{
    Acknowledged, AnyStore, BatchBuf, BulkWrite, CollectionId, Durability, ErrorKind, Namespace, Op, Persisted,
    Prepare, ReadConsistency, Request, SessionOptions, StoreError,
};

use crate::server::{Server, free_port};
use drive::{Driven, layout, options};
use storebench_fakes::mongodb::{Reply, single, usual};

fn serve(answer: impl Fn(&str, &Document) -> Reply + Send + Sync + 'static) -> u16 {
    storebench_fakes::mongodb::serve(answer).unwrap()
}

fn open(url: &str) -> Arc<dyn AnyStore> {
    storebench_stores::open(url).unwrap()
}

fn unreachable(result: Result<Namespace, StoreError>) -> String {
    match result {
        Err(StoreError::Unreachable(text)) => text,
        other => panic!("expected Unreachable, got {other:?}"),
    }
}

/// Another client of the same server.
struct Other(storebench_fakes::mongodb::Client);

impl Other {
    fn new(url: &str) -> Self {
        Self(storebench_fakes::mongodb::Client::connect(url).unwrap())
    }

    fn insert(&self, database: &str, collection: &str, documents: Vec<Document>) {
        self.0.insert(database, collection, documents).unwrap();
    }

    fn read(&self, database: &str, collection: &str, key: Bson) -> Option<Document> {
        self.0.find(database, collection, doc! { "_id": key }).unwrap().pop()
    }

    /// Everything in a database: collection names, documents, indexes.
    fn everything(&self, database: &str) -> Vec<String> {
        let mut all = Vec::new();
        for name in self.0.collections(database).unwrap() {
            let documents = self.0.find(database, &name, doc! {}).unwrap();
            all.extend(documents.iter().map(|document| format!("{name}: {document:?}")));
            all.push(format!("{name}: {:?}", self.0.indexes(database, &name).unwrap()));
        }
        all
    }
}

/// The indexes of `books` after a study that uses just this, and after one whose documents may also expire.
fn indexes_made(server: &Server) -> [Vec<String>; 2] {
    let store = open(&format!("{}/uses", server.url));
    let prepared = |expiry, indexes: &[&str], how| {
        let mut layout = layout("books", None);
        layout.collections[0].uses.expiry = expiry;
        layout.collections[0].indexes = indexes.iter().map(|field| vec![(*field).to_owned()]).collect();
        store.prepare(&layout, how).unwrap();
        let mut made = Other::new(&server.url).0.indexes("uses", "books").unwrap();
        made.sort();
        made
    };
    prepared(false, &[], Prepare::Fresh);
    let made = [prepared(false, &["user", "n"], Prepare::Keep), prepared(true, &["user", "n", "flag"], Prepare::Keep)];
    store.remove().unwrap();
    made
}

#[test]
fn only_indexes_that_the_study_uses_are_made() {
    let made = indexes_made(&Server::start("nx-27017"));
    // nx-27017 gives them names of its own: those of two members, and with an expiry those of three and its own.
    assert_eq!((made[0].len(), made[1].len()), (3, 5), "{made:?}");
    // FerretDB has no TTL indexes.
    let made = indexes_made(&Server::start("ferretdb"));
    assert_eq!(made[0], ["_id_", "n_1", "user_1"]);
    assert_eq!(made[1], ["_id_", "flag_1", "n_1", "user_1"]);
}

#[test]
fn ferretdb_samples_a_collection_without_the_stage_for_it() {
    let server = Server::start("ferretdb");
    Other::new(&server.url).insert("theirs", "books", (0..5_000).map(|n| doc! { "_id": format!("{n:05}") }).collect());
    let store = open(&format!("{}/theirs", server.url));
    store.prepare(&layout("theirs", Some("books")), Prepare::ReadOnly).unwrap();
    for (at_most, expected) in [(100, 100), (10_000, 5_000)] {
        let keys = store.sample_keys(CollectionId(0), at_most, 7).unwrap();
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!((keys.len(), distinct.len()), (expected, expected));
        // They come from all over it.
        assert!(keys.iter().any(|key| key.as_str() < "00500") && keys.iter().any(|key| key.as_str() > "04500"));
    }
    assert!(!store.capabilities().operations.iter().any(|(kind, _)| *kind == storebench_engine::store::OpKind::Touch));
}

#[test]
fn the_official_bson_and_this_driver_read_each_other() {
    let server = Server::start("nx-27017");
    let other = Other::new(&server.url);
    let store = open(&format!("{}/shared", server.url));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    let mut session = Driven::open(&*store, &options()).unwrap();
    let body = r#"{"whole":7,"large":9007199254740991,"half":0.5,"one":1.0,"list":[1,{"a":null}],"text":"ключ"}"#;
    session.run(Op::Upsert { key: "k", body: body.as_bytes() }).unwrap();
    let stored = other.read("shared", "books", "k".into()).unwrap();
    assert_eq!(stored.get_i32("whole").unwrap(), 7);
    assert_eq!(stored.get_i64("large").unwrap(), 9_007_199_254_740_991);
    assert_eq!(stored.get_f64("one").unwrap(), 1.0);
    assert_eq!(stored.get_str("text").unwrap(), "ключ");
    other.insert("shared", "books", vec![doc! { "_id": "theirs", "n": 1, "f": 2.5 }]);
    assert_eq!(session.read("theirs").unwrap(), r#"{"n":1,"f":2.5}"#);
    assert_eq!(session.read("k").unwrap(), body);
}

#[test]
fn what_others_made_is_neither_written_nor_dropped() {
    let server = Server::start("nx-27017");
    let other = Other::new(&server.url);
    other.insert("theirs", "users", vec![doc! { "_id": 1, "name": "ann" }]);
    let before = other.everything("theirs");
    let store = open(&format!("{}/theirs", server.url));
    assert!(matches!(store.inspect().unwrap(), Namespace::Foreign(what) if what.contains("`users`")));
    for how in [Prepare::Fresh, Prepare::Keep] {
        let refused = store.prepare(&layout("books", None), how);
        assert!(matches!(refused, Err(StoreError::NotOurs(_))), "{how:?}: {refused:?}");
    }
    let refused = store.prepare(&layout("users", None), Prepare::IntoExisting);
    assert!(matches!(refused, Err(StoreError::NotOurs(_))), "{refused:?}");
    store.remove().unwrap();
    assert_eq!(other.everything("theirs"), before);
    // Next to existing data if the user insists, and removed without it.
    store.prepare(&layout("books", None), Prepare::IntoExisting).unwrap();
    let mut session = Driven::open(&*store, &options()).unwrap();
    session.run(Op::Insert { key: "k", body: b"{}" }).unwrap();
    drop(session);
    assert!(matches!(store.inspect().unwrap(), Namespace::Foreign(_)));
    assert!(matches!(store.prepare(&layout("books", None), Prepare::Fresh), Err(StoreError::NotOurs(_))));
    store.remove().unwrap();
    assert_eq!(other.everything("theirs"), before);
}

#[test]
fn documents_of_others_are_read_and_nothing_changes() {
    let server = Server::start("nx-27017");
    let other = Other::new(&server.url);
    let ids: Vec<ObjectId> = (0..40).map(|_| ObjectId::new()).collect();
    let documents = ids.iter().map(|id| doc! { "_id": *id, "when": DateTime::from_millis(5), "user": "ann" });
    other.insert("theirs", "events", documents.collect());
    let before = other.everything("theirs");
    for (database, name) in [("theirs", "events"), ("storebench", "theirs.events")] {
        let store = open(&format!("{}/{database}", server.url));
        store.prepare(&layout("mine", Some(name)), Prepare::ReadOnly).unwrap();
        let keys = store.sample_keys(CollectionId(0), 20, 7).unwrap();
        assert_eq!(keys.len(), 20);
        assert!(keys.iter().all(|key| ids.iter().any(|id| id.to_hex() == *key)), "{keys:?}");
        let mut session = Driven::open(&*store, &options()).unwrap();
        for key in &keys {
            assert_eq!(session.read(key).unwrap(), r#"{"when":{"$date":{"$numberLong":"5"}},"user":"ann"}"#);
        }
        let mut batch = BatchBuf::new();
        keys.iter().for_each(|key| batch.push(key, b""));
        assert_eq!(session.run(Op::BulkRead { keys: batch.as_batch() }).unwrap().as_reply().documents, 20);
        assert_eq!(session.run(Op::Scan { start: "", end: None, limit: 7 }).unwrap().as_reply().documents, 7);
        let refused = session.run(Op::Delete { key: &keys[0] }).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Refused);
        store.settle(Duration::from_secs(1)).unwrap();
        store.stats().unwrap();
        assert!(matches!(store.compact(), Err(StoreError::NotSupported(_))));
        store.close().unwrap();
    }
    assert_eq!(other.everything("theirs"), before);
    let store = open(&format!("{}/theirs", server.url));
    let missing = store.prepare(&layout("mine", Some("nothing")), Prepare::ReadOnly).unwrap_err().to_string();
    assert!(missing.contains("nothing") && missing.contains("events"), "{missing}");
}

/// An existing collection `c` with these options, its first document, and three more keys of that type.
fn of_others(options: Document, first: Option<Document>) -> Result<Arc<dyn AnyStore>, StoreError> {
    let port = serve(move |name, _| {
        let batch: Vec<Document> = match name {
            "listCollections" => vec![doc! { "name": "c", "type": "collection", "options": options.clone() }],
            "find" => first.iter().cloned().collect(),
            "aggregate" => {
                let keys: Vec<Bson> = match first.as_ref().and_then(|first| first.get("_id")) {
                    Some(Bson::Int32(_)) => [10, 9, 100].map(Bson::from).into(),
                    Some(Bson::ObjectId(_)) => {
                        [[1; 12], [3; 12], [2; 12]].map(|id| ObjectId::from_bytes(id).into()).into()
                    }
                    _ => ["b", "a", "c"].map(Bson::from).into(),
                };
                keys.into_iter().map(|key| doc! { "_id": key }).collect()
            }
            _ => return Reply::Answer(usual(name, &single())),
        };
        Reply::Answer(doc! { "ok": 1.0, "cursor": { "id": 0_i64, "ns": "d.c", "firstBatch": batch } })
    });
    let store = open(&format!("mongodb://127.0.0.1:{port}/d"));
    store.prepare(&layout("mine", Some("c")), Prepare::ReadOnly)?;
    Ok(store)
}

#[test]
fn documents_of_others_without_a_key_are_refused() {
    let error = of_others(doc! {}, Some(doc! { "n": 1 })).map(drop).unwrap_err();
    assert!(matches!(&error, StoreError::NotSupported(text) if text.contains("`d.c` have no `_id`")), "{error:?}");
    assert!(of_others(doc! {}, None).is_ok(), "an empty collection");
}

#[test]
fn keys_in_the_order_of_a_language_are_not_cut_and_numbers_by_their_values() {
    let language = doc! { "collation": { "locale": "fr", "strength": 3 } };
    let simple = doc! { "collation": { "locale": "simple" } };
    let ids = [2, 3].map(|byte| ObjectId::from_bytes([byte; 12]).to_hex());
    for (options, key, cuts) in [
        (language.clone(), Bson::from("a"), &[][..]),
        // A collation does not change the order of values that are not texts.
        (language, Bson::from(ObjectId::new()), &[ids[0].as_str(), &ids[1]]),
        (simple, Bson::from("a"), &["b", "c"]),
        (doc! {}, Bson::from("a"), &["b", "c"]),
        (doc! {}, Bson::from(7), &["10", "100"]),
    ] {
        let store = of_others(options.clone(), Some(doc! { "_id": key })).unwrap();
        assert_eq!(store.cuts(CollectionId(0), 3).unwrap(), cuts, "{options}");
        // A collection that cannot be cut can still be sampled.
        assert_eq!(store.sample_keys(CollectionId(0), 5, 1).unwrap().len(), 3, "{options}");
    }
}

/// Writes until a write succeeds. The session reconnects in the background and gets time for it.
fn comes_back(session: &mut Driven) {
    let mut tries = 0;
    while let Err(error) = session.run(Op::Upsert { key: "after", body: b"{}" }) {
        assert!(matches!(error.kind, ErrorKind::Temporary | ErrorKind::OutcomeUnknown), "{error}");
        tries += 1;
        assert!(tries < 300, "the session does not come back: {error}");
        session.pass(Duration::from_millis(50));
    }
}

#[test]
fn a_killed_server_leaves_writes_unknown_and_the_session_comes_back() {
    const WRITES: usize = 5_000;
    let server = Server::start("nx-27017");
    let store = open(&format!("{}/crash", server.url));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    let mut session = Driven::open(&*store, &SessionOptions { in_flight: 8, ..options() }).unwrap();
    session.run(Op::Upsert { key: "before", body: b"{}" }).unwrap();
    // Each time it is likely, but not certain, that writes are in flight when the server is killed.
    let unknown = (0..20).any(|round| {
        let mut answers = Vec::new();
        std::thread::scope(|scope| {
            for n in 0..WRITES {
                session.submit(Op::Upsert { key: &format!("k{n}"), body: b"{}" }, &mut answers);
            }
            session.wait(100, &mut answers);
            scope.spawn(|| server.kill());
            session.wait(WRITES, &mut answers);
        });
        let errors: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
        assert!(
            errors.iter().all(|e| matches!(e.kind, ErrorKind::OutcomeUnknown | ErrorKind::Temporary)),
            "{errors:?}"
        );
        let found = errors.iter().any(|e| e.kind == ErrorKind::OutcomeUnknown);
        if !found {
            eprintln!("round {round}: no write was on its way");
            server.restart();
            comes_back(&mut session);
        }
        found
    });
    assert!(unknown, "no write was in flight in any of 20 kills");
    // Without a server, operations fail immediately, and nothing is done.
    let error = session.run(Op::Insert { key: "during", body: b"{}" }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Temporary, "{error}");
    server.restart();
    comes_back(&mut session);
    assert_eq!(session.read("before").unwrap(), "{}");
    assert!(session.counters().disconnects > 0);
}

#[test]
fn a_plan_says_whether_it_reads_everything() {
    let server = Server::start("nx-27017");
    let store = open(&format!("{}/plans", server.url));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    let explain = |op| store.explain(&Request { collection: CollectionId(0), op, contents: true }).unwrap();
    let indexed = explain(Op::Page { field: "user", value: "\"ann\"", limit: 5 }).unwrap();
    assert!(!indexed.full_scan, "{}", indexed.plan);
    let scanned = explain(Op::Page { field: "title", value: "\"ann\"", limit: 5 }).unwrap();
    assert!(scanned.full_scan, "{}", scanned.plan);
    assert_eq!(explain(Op::Read { key: "k" }), None);
    let stats = store.stats().unwrap();
    assert!(stats.iter().any(|(name, value)| name == "storage_bytes" && *value > 0.0), "{stats:?}");
}

#[test]
fn a_wrong_host_port_or_server_is_named_with_a_remedy() {
    let port = free_port();
    let text = unreachable(open(&format!("mongodb://u:hunter2@127.0.0.1:{port}/d")).inspect());
    assert!(text.contains(&format!("127.0.0.1:{port}")) && text.contains("the server runs"), "{text}");
    assert!(!text.contains("hunter2"));
    let text = unreachable(open("mongodb://no-such-host.invalid/d").inspect());
    assert!(text.contains("no-such-host.invalid:27017"), "{text}");
    // An HTTP server, which answers the message as a bad request.
    let port = serve(|_, _| Reply::Bytes(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec()));
    let text = unreachable(open(&format!("mongodb://u:hunter2@127.0.0.1:{port}/d")).inspect());
    assert!(text.contains("does not speak MongoDB's protocol") && !text.contains("hunter2"), "{text}");
    let port = serve(|_, _| Reply::Close);
    let text = unreachable(open(&format!("mongodb://127.0.0.1:{port}/d")).inspect());
    assert!(text.contains("closed the connection") && text.contains("tls=true"), "{text}");
    let port = serve(|_, _| Reply::Answer(doc! { "ok": 0.0, "code": 59, "errmsg": "no such command: 'hello'" }));
    let text = unreachable(open(&format!("mongodb://127.0.0.1:{port}/d")).inspect());
    assert!(text.contains("too old") && text.contains("4.4"), "{text}");
    let text = unreachable(open(&format!("mongodb://127.0.0.1:{port}/d?tls=true")).inspect());
    assert!(text.contains("TLS"), "{text}");
    let port = serve(|name, _| Reply::Answer(usual(name, &single())));
    let text = unreachable(open(&format!("mongodb://127.0.0.1:{port}/d?replicaSet=rs0")).inspect());
    assert!(text.contains("`rs0`"), "{text}");
}

#[test]
fn a_wrong_password_is_told_without_it() {
    // A server that even repeats the password.
    let port = serve(|name, _| match name {
        "saslStart" => Reply::Answer(doc! { "ok": 0.0, "code": 18, "errmsg": "Authentication failed (hunter2)." }),
        _ => Reply::Answer(usual(name, &single())),
    });
    let store = open(&format!("mongodb://ann:hunter2@127.0.0.1:{port}/d"));
    let text = unreachable(store.inspect());
    assert!(text.contains("`ann`") && text.contains("authSource"), "{text}");
    let told = format!("{text} {:?}", store.describe());
    assert!(!told.contains("hunter2"), "{told}");
    // nx-27017 has no users and accepts any login without proof, so the driver refuses it.
    let server = Server::start("nx-27017");
    let store = open(&format!("mongodb://ann:hunter2@127.0.0.1:{}/d", server.port));
    let text = unreachable(store.inspect());
    assert!(text.contains("SCRAM") && !text.contains("hunter2"), "{text}");
}

/// A fake with the user `ann,=` that verifies her password with SCRAM-SHA-256.
fn fake_with_users(password: &'static str) -> u16 {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use hmac::{Hmac, Mac};
    use sha2::{Digest, Sha256};
    let mac = |key: &[u8], text: &[u8]| -> [u8; 32] {
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).unwrap();
        mac.update(text);
        mac.finalize().into_bytes().into()
    };
    let mut salted = mac(password.as_bytes(), b"salt\0\0\0\x01");
    let mut round = salted;
    for _ in 1..4_096 {
        round = mac(password.as_bytes(), &round);
        salted.iter_mut().zip(round).for_each(|(a, b)| *a ^= b);
    }
    let stored_key: [u8; 32] = Sha256::digest(mac(&salted, b"Client Key")).into();
    let server_key = mac(&salted, b"Server Key");
    let begun = Mutex::new(String::new());
    serve(move |name, command| {
        let payload = || String::from_utf8(command.get_binary_generic("payload").unwrap().clone()).unwrap();
        let sasl = |done: bool, text: String| {
            let payload = bson::Binary { subtype: 0.into(), bytes: text.into_bytes() };
            Reply::Answer(doc! { "ok": 1.0, "conversationId": 1, "done": done, "payload": payload })
        };
        match name {
            "saslStart" => {
                assert_eq!(command.get_str("$db").unwrap(), "people");
                let first = payload();
                let bare = first.strip_prefix("n,,").unwrap();
                let nonce = bare.strip_prefix("n=ann=2C=3D,r=").unwrap();
                let answer = format!("r={nonce}more,s={},i=4096", STANDARD.encode("salt"));
                *begun.lock().unwrap() = format!("{bare},{answer}");
                sasl(false, answer)
            }
            "saslContinue" => {
                let last = payload();
                let (without_proof, proof) = last.split_once(",p=").unwrap();
                let signed = format!("{},{without_proof}", begun.lock().unwrap());
                let mut client_key = mac(&stored_key, signed.as_bytes());
                client_key.iter_mut().zip(STANDARD.decode(proof).unwrap()).for_each(|(a, b)| *a ^= b);
                if <[u8; 32]>::from(Sha256::digest(client_key)) != stored_key {
                    return Reply::Answer(doc! { "ok": 0.0, "code": 18, "errmsg": "Authentication failed." });
                }
                sasl(true, format!("v={}", STANDARD.encode(mac(&server_key, signed.as_bytes()))))
            }
            _ => Reply::Answer(usual(name, &single())),
        }
    })
}

#[test]
fn the_right_password_from_a_file_lets_in() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    let port = fake_with_users("pencil");
    for (password, lets_in) in [("pencil", true), ("pen", false)] {
        std::fs::write(&file, password).unwrap();
        let options = format!("authSource=people&password_file={}", file.display());
        let found = open(&format!("mongodb://ann%2C%3D@127.0.0.1:{port}/d?{options}")).inspect();
        match found {
            Ok(Namespace::Absent) if lets_in => {}
            Err(StoreError::Unreachable(text)) if !lets_in => assert!(text.contains("Authentication failed"), "{text}"),
            other => panic!("{password}: {other:?}"),
        }
    }
}

#[test]
fn garbage_never_panics_and_never_passes_for_an_answer() {
    let mut state = 0x1234_5678_9ABC_DEF1_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut answers: Vec<Vec<u8>> = (0..60).map(|_| (0..random() % 200).map(|_| random() as u8).collect()).collect();
    // Valid headers with invalid contents.
    let length = |n: u32, rest: &[u8]| [&n.to_le_bytes()[..], rest].concat();
    answers.push(length(u32::MAX, &[0; 40]));
    answers.push(length(60 << 20, &[0; 40]));
    answers.push(length(3, &[0; 40]));
    let right = |document: &[u8]| {
        let head = [0, 1, 2013_u32].map(u32::to_le_bytes).concat();
        length(21 + document.len() as u32, &[&head[..], &[0; 5], document].concat())
    };
    answers.push(right(&[5, 0, 0, 0, 0]));
    answers.push(right(&[255, 0, 0, 0, 0]));
    answers.push(right(&doc! { "ok": "yes" }.to_vec().unwrap()));
    answers.push(right(&doc! { "ok": 1, "cursor": 7 }.to_vec().unwrap()));
    answers.push(right(&doc! { "ok": 1, "cursor": { "id": 0_i64, "firstBatch": [7] } }.to_vec().unwrap()));
    let present = Arc::new(Mutex::new(None::<Vec<u8>>));
    let told = Arc::clone(&present);
    let port = serve(move |name, _| match told.lock().unwrap().clone() {
        Some(bytes) if name != "hello" => Reply::Bytes(bytes),
        _ => Reply::Answer(usual(name, &single())),
    });
    let store = open(&format!("mongodb://127.0.0.1:{port}/d"));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    for bytes in answers {
        *present.lock().unwrap() = Some(bytes.clone());
        let mut session = Driven::open(&*store, &options()).unwrap();
        let write = session.run(Op::Upsert { key: "k", body: b"{}" }).unwrap_err();
        assert_eq!(write.kind, ErrorKind::OutcomeUnknown, "{bytes:?}: {write}");
        let mut session = Driven::open(&*store, &options()).unwrap();
        let read = session.run(Op::Read { key: "k" }).unwrap_err();
        assert!(matches!(read.kind, ErrorKind::Failed | ErrorKind::Temporary), "{bytes:?}: {read}");
        assert!(store.inspect().is_err(), "{bytes:?}");
        assert!(store.stats().is_err() || store.stats().unwrap().is_empty(), "{bytes:?}");
    }
}

#[test]
fn a_silent_server_is_given_up() {
    let silent = Arc::new(Mutex::new(false));
    let told = Arc::clone(&silent);
    let port = serve(move |name, _| match (*told.lock().unwrap(), name) {
        (true, _) => Reply::Silence,
        _ => Reply::Answer(usual(name, &single())),
    });
    let store = open(&format!("mongodb://127.0.0.1:{port}/d"));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    *silent.lock().unwrap() = true;
    let error = Driven::open(&*store, &SessionOptions { timeout: Duration::from_millis(200), ..options() }).err();
    let text = error.expect("nobody answered").to_string();
    assert!(text.contains("no answer"), "{text}");
}

#[test]
fn an_operation_that_is_given_up_takes_its_connection_along_and_no_other() {
    let port = serve(|name, command| {
        let books = command.get_str(name).is_ok_and(|collection| collection == "books");
        if books && name == "find" { Reply::Silence } else { Reply::Answer(usual(name, &single())) }
    });
    let store = open(&format!("mongodb://127.0.0.1:{port}/d"));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    let mut session = Driven::open(&*store, &SessionOptions { in_flight: 1, ..options() }).unwrap();
    for _ in 0..3 {
        let mut answers = Vec::new();
        session.submit(Op::Read { key: "k" }, &mut answers);
        // It waits for the only connection, and is abandoned together with it.
        session.submit(Op::Read { key: "l" }, &mut answers);
        session.abandon(session.last());
        session.submit(Op::Upsert { key: "m", body: b"{}" }, &mut answers);
        session.wait(0, &mut answers);
        assert!(answers.is_empty(), "{answers:?}");
        let token = session.last() - 2;
        session.abandon(token);
        // The waiting operation is sent on the new connection, or fails because there is none.
        session.wait(1, &mut answers);
        match answers.pop().unwrap() {
            Ok(reply) => assert_eq!(reply.as_reply().documents, 1),
            Err(error) => assert!(error.kind == ErrorKind::Temporary, "{error}"),
        }
        comes_back(&mut session);
    }
    assert_eq!(session.counters().disconnects, 0, "the session closed the connection itself");
}

#[test]
fn a_bulk_over_the_limits_is_cut_and_its_errors_keep_their_items() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let mut hello = single();
    hello.insert("maxMessageSizeBytes", 20_000);
    hello.insert("maxBsonObjectSize", 4_000);
    hello.insert("maxWriteBatchSize", 100);
    let port = serve(move |name, command| {
        if name == "insert" && command.get_str("insert").is_ok_and(|name| name == "books") {
            let documents = command.get_array("documents").unwrap();
            told.lock().unwrap().push(documents.len());
            // The last document of each message already exists.
            let error = doc! { "index": documents.len() as i32 - 1, "code": 11000, "errmsg": "E11000 duplicate key" };
            return Reply::Answer(doc! { "ok": 1.0, "n": documents.len() as i32 - 1, "writeErrors": [error] });
        }
        Reply::Answer(usual(name, &hello))
    });
    let store = open(&format!("mongodb://127.0.0.1:{port}/d"));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    let mut session = Driven::open(&*store, &options()).unwrap();
    let mut items = BatchBuf::new();
    for n in 0..250 {
        // One document exceeds the server's limit, and one is not JSON.
        let text = "x".repeat(if n == 7 { 5_000 } else { n });
        let body = if n == 8 { "nonsense".to_owned() } else { format!(r#"{{"t":"{text}"}}"#) };
        items.push(&format!("k{n:03}"), body.as_bytes());
    }
    let reply = session.run(Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() }).unwrap();
    let messages = seen.lock().unwrap().clone();
    assert!(messages.len() >= 3 && messages.iter().all(|n| *n <= 100), "{messages:?}");
    assert_eq!(messages.iter().sum::<usize>(), 248);
    assert_eq!(session.counters().splits, messages.len() as u64 - 1);
    let reply = reply.as_reply();
    assert_eq!(reply.documents as usize, 248 - messages.len());
    // Items 7 and 8 were not sent, so later positions are shifted by two.
    let mut ends: Vec<usize> = messages
        .iter()
        .scan(1, |sum, n| {
            *sum += n;
            Some(*sum)
        })
        .collect();
    ends.extend([7, 8]);
    ends.sort_unstable();
    let mut rejected: Vec<usize> = reply.rejects.iter().map(|reject| reject.item).collect();
    rejected.sort_unstable();
    assert_eq!(rejected, ends);
    for reject in reply.rejects {
        let expected = if [7, 8].contains(&reject.item) { ErrorKind::Refused } else { ErrorKind::Conflict };
        assert_eq!(reject.error.kind, expected, "{reject:?}");
    }
    let body = format!(r#"{{"t":"{}"}}"#, "x".repeat(30_000));
    let refused = session.run(Op::Insert { key: "k", body: body.as_bytes() }).unwrap_err();
    assert!(refused.kind == ErrorKind::Refused && refused.message.contains("limit of 4000"), "{refused}");
}

/// A replica set of three whose primary is this fake. Also returns the commands that it received.
fn replica_set(answer: impl Fn(&str) -> Option<Document> + Send + Sync + 'static) -> (u16, Arc<Mutex<Vec<Document>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let port = serve(move |name, command| {
        told.lock().unwrap().push(command.clone());
        let mut hello = single();
        hello.insert("setName", "rs");
        hello.insert("hosts", vec!["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]);
        Reply::Answer(answer(name).unwrap_or_else(|| usual(name, &hello)))
    });
    (port, seen)
}

fn last<'d>(commands: &'d [Document], name: &str) -> &'d Document {
    commands.iter().rev().find(|command| command.keys().next().is_some_and(|first| first == name)).unwrap()
}

#[test]
fn durability_is_the_write_concern_and_what_cannot_be_is_refused() {
    let (port, seen) = replica_set(|_| None);
    let store = open(&format!("mongodb://127.0.0.1:{port}/d?replicaSet=rs"));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    let nodes = |n, persisted, on| Durability { acknowledged_by: Acknowledged::Nodes(n), persisted, on };
    let majority = |persisted, on| Durability { acknowledged_by: Acknowledged::Majority, persisted, on };
    for (durability, expected) in [
        (Durability::MEMORY, doc! { "w": 1, "j": false }),
        (Durability::OS, doc! { "w": 1, "j": true }),
        (Durability::FSYNC, doc! { "w": 1, "j": true }),
        (nodes(2, Persisted::Os, 1), doc! { "w": 2, "j": true, "wtimeout": 5_000_i64 }),
        (nodes(3, Persisted::None, 0), doc! { "w": 3, "j": false, "wtimeout": 5_000_i64 }),
        (Durability::MAJORITY, doc! { "w": "majority", "j": false, "wtimeout": 5_000_i64 }),
        (majority(Persisted::Disk, 2), doc! { "w": "majority", "j": true, "wtimeout": 5_000_i64 }),
    ] {
        let mut session = Driven::open(&*store, &SessionOptions { durability, ..options() }).unwrap();
        session.run(Op::Upsert { key: "k", body: b"{}" }).unwrap();
        let commands = seen.lock().unwrap().clone();
        assert_eq!(last(&commands, "update").get_document("writeConcern").unwrap(), &expected, "{durability}");
    }
    for durability in [nodes(4, Persisted::None, 0), majority(Persisted::Disk, 3)] {
        let refused = Driven::open(&*store, &SessionOptions { durability, ..options() }).err();
        assert!(
            matches!(&refused, Some(StoreError::NotSupported(text)) if text.contains("replica set of 3")),
            "{refused:?}"
        );
    }
    let single_port = serve(|name, _| Reply::Answer(usual(name, &single())));
    let store = open(&format!("mongodb://127.0.0.1:{single_port}/d"));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    let durability = nodes(2, Persisted::None, 0);
    let refused = Driven::open(&*store, &SessionOptions { durability, ..options() }).err();
    assert!(matches!(&refused, Some(StoreError::NotSupported(text)) if text.contains("one server")), "{refused:?}");
}

#[test]
fn reads_say_where_and_how_fresh() {
    let (port, seen) = replica_set(|_| None);
    let read = |url: String, consistency| {
        let store = open(&url);
        store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
        let mut session = Driven::open(&*store, &SessionOptions { consistency, ..options() }).unwrap();
        assert_eq!(session.run(Op::Read { key: "k" }).unwrap_err().kind, ErrorKind::NotFound);
        let commands = seen.lock().unwrap().clone();
        last(&commands, "find").clone()
    };
    let url = format!("mongodb://127.0.0.1:{port}/d");
    let strong = read(url.clone(), ReadConsistency::Strong);
    assert!(!strong.contains_key("$readPreference") && !strong.contains_key("readConcern"), "{strong}");
    // The secondaries of this set are unreachable, so the primary answers.
    let stale = read(url.clone(), ReadConsistency::StaleOk);
    assert_eq!(stale.get_document("$readPreference").unwrap(), &doc! { "mode": "secondaryPreferred" });
    let linear = read(format!("{url}?readConcernLevel=linearizable"), ReadConsistency::Strong);
    assert_eq!(linear.get_document("readConcern").unwrap(), &doc! { "level": "linearizable" });
}

#[test]
fn errors_of_the_server_mean_what_they_mean_everywhere() {
    let error = |code: i32| doc! { "ok": 0.0, "code": code, "errmsg": "as it says" };
    let item = |code: i32| doc! { "ok": 1.0, "n": 0, "writeErrors": [{ "index": 0, "code": code, "errmsg": "so" }] };
    let concern =
        doc! { "ok": 1.0, "n": 1, "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" } };
    let present = Arc::new(Mutex::new(Document::new()));
    let told = Arc::clone(&present);
    let (port, _) = replica_set(move |name| (name == "update").then(|| told.lock().unwrap().clone()));
    let store = open(&format!("mongodb://127.0.0.1:{port}/d"));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    let mut session = Driven::open(&*store, &options()).unwrap();
    for (answer, expected) in [
        (concern, ErrorKind::OutcomeUnknown),
        (error(13), ErrorKind::Refused),
        (error(112), ErrorKind::Temporary),
        (error(50), ErrorKind::OutcomeUnknown),
        (error(14_031), ErrorKind::Failed),
        (item(11_000), ErrorKind::Conflict),
        (item(10_334), ErrorKind::Refused),
        (item(121), ErrorKind::Refused),
        // Servers that are not MongoDB may leave the count out. One that wrote nothing is believed.
        (doc! { "ok": 1.0, "writeErrors": [{ "index": 0, "code": 121, "errmsg": "so" }] }, ErrorKind::Refused),
        (doc! { "ok": 1.0, "n": 0 }, ErrorKind::Refused),
        (error(10_107), ErrorKind::Temporary),
        (error(11_600), ErrorKind::OutcomeUnknown),
        (error(11_601), ErrorKind::OutcomeUnknown),
    ] {
        *present.lock().unwrap() = answer.clone();
        let mut got = session.run(Op::Upsert { key: "k", body: b"{}" });
        // After an election the session looks for the primary again.
        while matches!(&got, Err(error) if error.message.contains("not connected")) {
            session.pass(Duration::from_millis(20));
            got = session.run(Op::Upsert { key: "k", body: b"{}" });
        }
        let got = got.unwrap_err();
        assert_eq!(got.kind, expected, "{answer}: {got}");
    }
}

#[test]
fn a_connection_that_breaks_leaves_writes_unknown_and_reads_to_be_tried_again() {
    let port = serve(|name, command| {
        let books = command.get_str(name).is_ok_and(|collection| collection == "books");
        if books && matches!(name, "update" | "find") { Reply::Close } else { Reply::Answer(usual(name, &single())) }
    });
    let store = open(&format!("mongodb://127.0.0.1:{port}/d"));
    store.prepare(&layout("books", None), Prepare::Fresh).unwrap();
    for (op, expected) in [
        (Op::Upsert { key: "k", body: b"{}" }, ErrorKind::OutcomeUnknown),
        (Op::Read { key: "k" }, ErrorKind::Temporary),
        // The operation was still reading, so nothing was done.
        (Op::MergePatch { key: "k", patch: b"{}" }, ErrorKind::Temporary),
    ] {
        let mut session = Driven::open(&*store, &options()).unwrap();
        let error = session.run(op).unwrap_err();
        assert!(error.kind == expected && error.message.contains("connection was lost"), "{error}");
        assert_eq!(session.counters().disconnects, 1);
    }
}
