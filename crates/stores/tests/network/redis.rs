//! Tests of the `redis` driver with a server.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use storebench_engine::store::{
    Acknowledged, AnyStore, BatchBuf, BulkWrite, CollectionId, Durability, ErrorKind, Namespace, Op, Prepare, RowPage,
    Rows, StoreError,
};
use storebench_fakes::certificates::{BOTH, CA};

use crate::driven::{Driven, existing, layout, silent_connection_is_replaced};
use crate::proxy::{Fault, answering, proxy, random_bytes};
use crate::server::{Server, free_port};

/// A raw connection, to make changes without the driver.
struct Raw(TcpStream);

impl Raw {
    fn open(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self(stream)
    }

    /// The answer to a command: strings as they are, arrays flattened, nil omitted.
    fn ask(&mut self, words: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.0.write_all(&request).unwrap();
        let mut all = Vec::new();
        self.read(&mut all);
        all
    }

    fn one(&mut self, words: &[&str]) -> String {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        String::from_utf8(self.ask(&words).pop().unwrap_or_default()).unwrap()
    }

    fn read(&mut self, into: &mut Vec<Vec<u8>>) {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        let text = String::from_utf8(line[1..line.len() - 2].to_vec()).unwrap();
        match line[0] {
            b'$' if text != "-1" => {
                let mut bytes = vec![0; text.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                into.push(bytes);
            }
            b'*' => (0..text.parse().unwrap()).for_each(|_| self.read(into)),
            b'$' => {}
            _ => into.push(text.into_bytes()),
        }
    }

    /// Every key with its serialized value and whether it expires, to compare.
    fn everything(&mut self) -> BTreeMap<Vec<u8>, (Vec<u8>, bool)> {
        let keys = self.ask(&[b"KEYS", b"*"]);
        keys.into_iter()
            .map(|key| {
                let dump = self.ask(&[b"DUMP", &key]).remove(0);
                let lives_forever = self.ask(&[b"PTTL", &key])[0] == b"-1";
                (key, (dump, lives_forever))
            })
            .collect()
    }
}

fn open(url: &str) -> std::sync::Arc<dyn AnyStore> {
    storebench_stores::open(url).unwrap()
}

fn prepared(url: &str, durability: Durability) -> Driven {
    let store = open(url);
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    Driven::open(&*store, durability).unwrap()
}

#[test]
fn wrong_port_password_or_database_is_told_without_the_password() {
    let port = free_port();
    let error = open(&format!("redis://127.0.0.1:{port}")).inspect().unwrap_err();
    assert!(matches!(&error, StoreError::Unreachable(text) if text.contains(&port.to_string())), "{error}");
    let server = Server::start_with("redis", &["--password", "hemlich+1"]);
    let at = format!("127.0.0.1:{}", server.port);
    let cases = [
        (format!("redis://{at}"), "requires a password"),
        (format!("redis://:falsch-hemlich@{at}"), "rejected this user"),
        (format!("redis://somebody:hemlich+1@{at}"), "rejected this user"),
        (format!("redis://:hemlich+1@{at}/99"), "no database 99"),
        (format!("redis://:hemlich+1@{at}?cluster=yes"), "not a node of a cluster"),
    ];
    for (url, expected) in cases {
        let store = open(&url);
        let error = store.inspect().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        let kind = matches!(error, StoreError::BadUrl(_));
        assert_eq!(kind, expected.contains("database") || expected.contains("cluster"), "{error:?}");
        assert!(!format!("{error:?} {:?}", store.describe()).contains("hemlich"), "{error}");
    }
    let store = open(&format!("redis://:hemlich+1@{at}/3"));
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    Driven::open(&*store, Durability::MEMORY).unwrap().call(Op::Upsert { key: "a", body: b"{}" }).unwrap();
    assert!(!format!("{:?}", store.describe()).contains("hemlich"));
    // A password that the server does not require is an error too.
    let open_server = Server::start("redis");
    let error = open(&format!("redis://:hemlich+1@127.0.0.1:{}", open_server.port)).inspect().unwrap_err();
    assert!(error.to_string().contains("requires no password"), "{error}");
}

#[test]
fn another_server_behind_the_port_is_told() {
    let memcached = Server::start("memcached");
    let http = answering(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".to_vec());
    for port in [memcached.port, http] {
        let error = open(&format!("redis://127.0.0.1:{port}")).inspect().unwrap_err();
        assert!(matches!(&error, StoreError::Unreachable(text) if text.contains("not a Redis")), "{error:?}");
    }
    let error = open(&format!("redis://127.0.0.1:{}", answering(Vec::new()))).inspect().unwrap_err();
    assert!(matches!(&error, StoreError::Unreachable(text) if text.contains("closed")), "{error:?}");
}

#[test]
fn random_answers_are_errors_and_never_panics() {
    for seed in 0..200 {
        let bytes = random_bytes(seed, 300);
        // Sometimes after a valid start.
        let bytes = if seed % 2 == 0 { [&b"+PONG\r\n"[..], &bytes].concat() } else { bytes };
        let store = open(&format!("redis://127.0.0.1:{}", answering(bytes)));
        assert!(store.inspect().is_err(), "seed {seed}");
        assert!(store.stats().is_err(), "seed {seed}");
    }
}

#[test]
fn a_session_that_gets_garbage_gives_up_the_connection_and_goes_on() {
    let server = Server::start("redis");
    open(&server.url).prepare(&layout(), Prepare::Fresh).unwrap();
    for seed in 0..20 {
        // The number of bytes before the session's own answers depends on the version. It was found by experiment.
        let port = proxy(server.port, move |number| match number {
            1 => Fault::Garbage { after: 12_000 + seed as usize * 7, seed },
            _ => Fault::None,
        });
        let store = open(&format!("redis://127.0.0.1:{port}"));
        store.prepare(&layout(), Prepare::ReadOnly).unwrap();
        let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
        let keys: Vec<String> = (0..50).map(|i| format!("no-such-{i}")).collect();
        let mut failed = 0;
        for _ in 0..100 {
            keys.iter().for_each(|key| {
                driven.submit(Op::Read { key });
            });
            for (_, answer) in driven.finish(50) {
                let error = answer.unwrap_err();
                match error.kind {
                    ErrorKind::NotFound => {}
                    // A random answer may look like an error of the server.
                    _ => failed += 1,
                }
            }
        }
        assert!(failed > 0 && driven.counters().disconnects >= 1, "seed {seed}: {:?}", driven.counters());
        let error = driven.call_again(Op::Read { key: "no-such-1" }).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "seed {seed}: {error}");
    }
}

#[test]
fn a_killed_server_leaves_writes_unknown_and_comes_back() {
    let server = Server::start_with("redis", &["--option=appendonly yes", "--option=appendfsync always"]);
    let mut driven = prepared(&server.url, Durability::FSYNC);
    driven.call(Op::Upsert { key: "before", body: b"{}" }).unwrap();
    // Answers stop, so that operations are in flight when the server dies.
    Raw::open(server.port).one(&["CLIENT", "PAUSE", "60000", "ALL"]);
    let keys: Vec<String> = (0..16).map(|i| format!("k{i}")).collect();
    for key in &keys[..8] {
        driven.submit(Op::Upsert { key, body: b"{}" });
    }
    for key in &keys[8..15] {
        driven.submit(Op::Read { key });
    }
    let mut items = BatchBuf::new();
    keys.iter().for_each(|key| items.push(key, b"{}"));
    let bulk = driven.submit(Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() });
    driven.wait(Duration::from_millis(300), |_| false);
    server.kill();
    let answers = driven.finish(16);
    for (token, answer) in &answers {
        let kind = answer.as_ref().unwrap_err().kind;
        let writes = token.0 <= 9 || *token == bulk;
        let expected = if writes { ErrorKind::OutcomeUnknown } else { ErrorKind::Temporary };
        assert_eq!(kind, expected, "{token:?} {answer:?}");
    }
    assert_eq!(driven.call(Op::Upsert { key: "a", body: b"{}" }).unwrap_err().kind, ErrorKind::Temporary);
    assert_eq!(driven.counters().disconnects, 1);
    server.restart();
    driven.call_again(Op::Read { key: "before" }).unwrap();
    driven.call_again(Op::Counter { key: "x", delta: 1, initial: 1 }).unwrap_err();
    driven.call(Op::CompareAndSwap { key: "before", expected: b"{}", body: b"[]" }).unwrap();
    assert_eq!(driven.counters().disconnects, 1);
}

#[test]
fn a_half_closed_connection_is_left() {
    let server = Server::start("redis");
    open(&server.url).prepare(&layout(), Prepare::Fresh).unwrap();
    let port = proxy(server.port, |number| match number {
        1 => Fault::HalfClosed { after: 9_000 },
        _ => Fault::None,
    });
    let store = open(&format!("redis://127.0.0.1:{port}"));
    store.prepare(&layout(), Prepare::Keep).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    let mut unknown = 0;
    for i in 0..3_000 {
        match driven.call_again(Op::Upsert { key: &format!("k{i}"), body: b"{}" }) {
            Ok(_) => {}
            Err(error) if error.kind == ErrorKind::OutcomeUnknown => unknown += 1,
            Err(error) => panic!("{error}"),
        }
    }
    // None if the connection was closed between two answers.
    assert!(unknown <= 1);
    assert_eq!(driven.counters().disconnects, 1);
}

#[test]
fn what_others_put_there_is_read_and_left_as_it_is() {
    let server = Server::start("redis");
    let mut raw = Raw::open(server.port);
    for i in 0..500 {
        raw.one(&["SET", &format!("theirs:{i}"), &format!("{{\"n\":{i}}}")]);
    }
    raw.one(&["HSET", "theirs:hash", "a", "b"]);
    raw.one(&["RPUSH", "storebench:list", "a"]);
    raw.one(&["SET", "storebench:documentsx", "no collection of ours"]);
    raw.one(&["SET", "expires", "1", "PX", "3600000"]);
    let before = raw.everything();
    let store = open(&server.url);
    assert!(matches!(store.inspect().unwrap(), Namespace::Foreign(_)));
    for how in [Prepare::Fresh, Prepare::Keep] {
        assert!(matches!(store.prepare(&layout(), how), Err(StoreError::NotOurs(_))), "{how:?}");
    }
    assert!(matches!(store.prepare(&existing("theirs:"), Prepare::IntoExisting), Err(StoreError::NotOurs(_))));
    store.remove().unwrap();
    assert!(raw.everything() == before);
    // Read-only.
    store.prepare(&existing("theirs:"), Prepare::ReadOnly).unwrap();
    let keys = store.sample_keys(CollectionId(0), 100, 7).unwrap();
    assert_eq!((keys.len(), store.sample_keys(CollectionId(0), 100, 7).unwrap()), (100, keys.clone()));
    assert_ne!(store.sample_keys(CollectionId(0), 100, 8).unwrap(), keys);
    assert_eq!(store.sample_keys(CollectionId(0), 1_000, 8).unwrap().len(), 500);
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    for key in &keys {
        let reply = driven.call(Op::Read { key }).unwrap();
        assert_eq!(reply.as_reply().body, Some(format!("{{\"n\":{key}}}").as_bytes()));
    }
    for op in
        [Op::Upsert { key: "1", body: b"{}" }, Op::Delete { key: "1" }, Op::Touch { key: "1", expiry: Duration::ZERO }]
    {
        assert_eq!(driven.call(op).unwrap_err().kind, ErrorKind::Refused);
    }
    store.stats().unwrap();
    assert!(raw.everything() == before);
    // Next to existing data.
    store.prepare(&layout(), Prepare::IntoExisting).unwrap();
    assert!(matches!(store.inspect().unwrap(), Namespace::Foreign(_)));
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    for i in 0..1_500 {
        driven.submit(Op::Upsert { key: &format!("{i}"), body: b"{}" });
    }
    assert!(driven.finish(1_500).iter().all(|(_, answer)| answer.is_ok()));
    store.prepare(&layout(), Prepare::IntoExisting).unwrap();
    driven.call(Op::Read { key: "7" }).unwrap();
    store.remove().unwrap();
    assert!(raw.everything() == before);
    // Keys that look like Storebench's collection, but without a marker.
    raw.one(&["SET", "storebench:documents:1", "{}"]);
    let error = store.prepare(&layout(), Prepare::IntoExisting).unwrap_err();
    assert!(matches!(error, StoreError::NotOurs(_)), "{error}");
}

#[test]
fn two_nodes_acknowledge_only_while_there_are_two() {
    let server = Server::start("redis-replica");
    let both = Durability { acknowledged_by: Acknowledged::Nodes(2), ..Durability::MEMORY };
    let three = Durability { acknowledged_by: Acknowledged::Nodes(3), ..Durability::MEMORY };
    let store = open(&server.url);
    store.inspect().unwrap();
    assert!(store.capabilities().guarantees(both).is_some());
    let mut by_two = prepared(&server.url, both);
    let mut by_one = prepared_again(&server.url, Durability::MEMORY);
    let refused = Driven::open(
        &*{
            store.prepare(&layout(), Prepare::Keep).unwrap();
            store
        },
        three,
    )
    .err()
    .unwrap();
    assert!(matches!(&refused, StoreError::NotSupported(text) if text.contains("1 are connected")), "{refused}");
    let keys: Vec<String> = (0..40).map(|i| format!("k{i}")).collect();
    for key in &keys {
        by_two.submit(Op::Upsert { key, body: b"{}" });
    }
    assert!(by_two.finish(40).iter().all(|(_, answer)| answer.is_ok()));
    assert_eq!(by_two.call(Op::Delete { key: "none" }).unwrap_err().kind, ErrorKind::NotFound);
    server.kill_only("replica");
    let error = by_two.call(Op::Upsert { key: "k1", body: b"[]" }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutcomeUnknown, "{error}");
    assert!(error.message.contains("0 of 1"), "{error}");
    by_one.call(Op::Upsert { key: "k2", body: b"[]" }).unwrap();
    by_two.call(Op::Read { key: "k1" }).unwrap();
    server.restart();
    let begun = std::time::Instant::now();
    while by_two.call(Op::Upsert { key: "k1", body: b"{}" }).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "acknowledgements must resume with the replica");
    }
}

#[test]
fn how_the_server_is_set_up_is_told() {
    for name in ["redis", "valkey"] {
        let server = Server::start(name);
        let store = open(&server.url);
        let told = store.own_settings().unwrap();
        // The script that starts it switches snapshots off.
        let changed = told.all.iter().filter(|of| of.changed == Some(true)).map(|of| of.name.as_str());
        assert_eq!((changed.collect::<Vec<_>>(), told.memory_bytes), (vec!["save"], None), "{name}: {told:?}");
        assert!(told.all.iter().any(|of| of.name == "appendonly" && of.value == "no"), "{name}: {told:?}");
        let mut raw = Raw::open(server.port);
        assert_eq!(raw.one(&["CONFIG", "SET", "maxmemory", "100mb"]), "OK");
        let told = store.own_settings().unwrap();
        let limit = told.all.iter().find(|of| of.name == "maxmemory").map(|of| (of.value.as_str(), of.changed));
        assert_eq!((limit, told.memory_bytes), (Some(("104857600", Some(true))), Some(100 << 20)), "{name}");
        // A user who may not run CONFIG, as with managed services.
        assert_eq!(raw.one(&["ACL", "SETUSER", "guest", "on", ">hemlich", "~*", "&*", "+@all", "-config"]), "OK");
        let told = open(&format!("redis://guest:hemlich@127.0.0.1:{}", server.port)).own_settings().unwrap();
        let all: Vec<_> = told.all.iter().map(|of| (of.name.as_str(), of.value.as_str(), of.changed)).collect();
        let expected =
            [("appendonly", "no", None), ("maxmemory", "104857600", None), ("maxmemory-policy", "noeviction", None)];
        assert_eq!((&all[..], told.memory_bytes, told.incomplete), (&expected[..], Some(100 << 20), true), "{name}");
    }
}

fn prepared_again(url: &str, durability: Durability) -> Driven {
    let store = open(url);
    store.prepare(&layout(), Prepare::Keep).unwrap();
    Driven::open(&*store, durability).unwrap()
}

/// Reads all documents of a node.
fn walk(store: &dyn AnyStore, part: &str) -> Result<(), StoreError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut rows = store.rows(Rows::Walk { collection: CollectionId(0), part }).await?;
        let mut page = RowPage::default();
        while rows.next(&mut page).await? {}
        Ok(())
    })
}

#[test]
fn a_slot_that_moves_is_followed() {
    let server = Server::start("redis-cluster");
    let mut driven = prepared(&server.url, Durability::MEMORY);
    let keys: Vec<String> = (0..200).map(|i| format!("{{tag}}{i}")).collect();
    let (there, missing) = keys.split_at(100);
    for key in there {
        driven.call(Op::Insert { key, body: b"{}" }).unwrap();
    }
    let mut ports = vec![server.port, server.port_of("node-2"), server.port_of("node-3")];
    let slot = Raw::open(server.port).one(&["CLUSTER", "KEYSLOT", "storebench:documents:{tag}0"]);
    let from =
        ports.iter().position(|port| Raw::open(*port).one(&["CLUSTER", "COUNTKEYSINSLOT", &slot]) == "100").unwrap();
    let from = ports.swap_remove(from);
    let (mut source, mut target) = (Raw::open(from), Raw::open(ports[0]));
    let (source_id, target_id) = (source.one(&["CLUSTER", "MYID"]), target.one(&["CLUSTER", "MYID"]));
    assert_eq!(target.one(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source_id]), "OK");
    assert_eq!(source.one(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target_id]), "OK");
    // During the migration, keys that the source does not have are requested from the target (ASK).
    for key in &missing[..50] {
        driven.call(Op::Insert { key, body: b"{}" }).unwrap();
    }
    assert_eq!(target.one(&["CLUSTER", "COUNTKEYSINSLOT", &slot]), "50");
    // A copy that begins before the slot moves and ends afterwards may have missed keys.
    let copied = open(&server.url);
    copied.prepare(&layout(), Prepare::Keep).unwrap();
    let nodes = copied.parts().unwrap();
    let moved = source.ask(&[b"CLUSTER", b"GETKEYSINSLOT", slot.as_bytes(), b"1000"]);
    for key in moved {
        let port = ports[0].to_string();
        let answer = source.ask(&[b"MIGRATE", b"127.0.0.1", port.as_bytes(), &key, b"0", b"5000"]);
        assert_eq!(answer, [b"OK"]);
    }
    for raw in [&mut target, &mut source] {
        assert_eq!(raw.one(&["CLUSTER", "SETSLOT", &slot, "NODE", &target_id]), "OK");
    }
    let told = nodes.iter().filter_map(|part| walk(&*copied, part).err()).next().unwrap().to_string();
    assert!(told.contains("slots moved between the nodes"), "{told}");
    // A copy that begins now sees all.
    let copied = open(&server.url);
    copied.prepare(&layout(), Prepare::Keep).unwrap();
    copied.parts().unwrap().iter().for_each(|part| walk(&*copied, part).unwrap());
    // After the migration, single operations, merges and bulk operations all follow (MOVED).
    driven.call(Op::MergePatch { key: &keys[0], patch: br#"{"a":1}"# }).unwrap();
    for key in &missing[50..] {
        driven.submit(Op::Insert { key, body: b"{}" });
    }
    assert!(driven.finish(50).iter().all(|(_, answer)| answer.is_ok()));
    let mut all = BatchBuf::new();
    keys.iter().for_each(|key| all.push(key, b""));
    assert_eq!(driven.call(Op::BulkRead { keys: all.as_batch() }).unwrap().as_reply().documents, 200);
    assert_eq!(driven.call(Op::BulkDelete { keys: all.as_batch() }).unwrap().as_reply().documents, 200);
    assert_eq!(target.one(&["CLUSTER", "COUNTKEYSINSLOT", &slot]), "0");
    assert_eq!(driven.counters().disconnects, 0);
}

#[test]
fn tls_with_an_authority_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let [ca, certificate, key] = [("ca.pem", CA), ("cert.pem", BOTH.pem), ("key.pem", BOTH.key)].map(|(name, text)| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    });
    let server = Server::start_with("redis", &["--tls", certificate.to_str().unwrap(), key.to_str().unwrap()]);
    let base = format!("rediss://localhost:{}", server.port);
    let ca = format!("tls_ca={}", ca.display());
    let mut driven = prepared(&format!("{base}?{ca}"), Durability::MEMORY);
    let body = vec![b'x'; 300_000];
    for i in 0..40 {
        driven.submit(Op::Upsert { key: &format!("k{i}"), body: &body });
    }
    assert!(driven.finish(40).iter().all(|(_, answer)| answer.is_ok()));
    assert_eq!(driven.call(Op::Read { key: "k39" }).unwrap().as_reply().bytes, 300_000);
    for (url, expected) in [
        (base.clone(), "tls_ca"),
        (format!("{base}?{ca}&tls_name=other.example"), "another name"),
        (format!("redis://localhost:{}", server.port), "rediss://"),
    ] {
        let error = open(&url).inspect().unwrap_err();
        assert!(matches!(&error, StoreError::Unreachable(text) if text.contains(expected)), "{url}: {error}");
    }
}

#[test]
fn a_connection_that_leads_nowhere_is_replaced() {
    silent_connection_is_replaced("redis");
}

#[test]
fn a_server_that_came_back_without_its_disk_acknowledges_nothing() {
    let server = Server::start("redis");
    let mut raw = Raw::open(server.port);
    let set = |raw: &mut Raw, name: &str, value: &str| assert_eq!(raw.one(&["CONFIG", "SET", name, value]), "OK");
    set(&mut raw, "appendonly", "yes");
    set(&mut raw, "appendfsync", "always");
    let mut driven = prepared(&server.url, Durability::FSYNC);
    driven.call(Op::Upsert { key: "a", body: b"1" }).unwrap();
    // Settings are lost when the process ends.
    server.kill();
    server.restart();
    let error = loop {
        match driven.call_again(Op::Upsert { key: "a", body: b"2" }) {
            // Sent before the session noticed that the server was gone.
            Err(error) if error.kind == ErrorKind::OutcomeUnknown => {}
            answer => break answer.unwrap_err(),
        }
    };
    assert_eq!(error.kind, ErrorKind::Failed, "{error}");
    assert!(error.message.contains("came back") && error.message.contains("appendonly yes"), "{error}");
    raw = Raw::open(server.port);
    set(&mut raw, "appendonly", "yes");
    set(&mut raw, "appendfsync", "always");
    let begun = std::time::Instant::now();
    while let Err(error) = driven.call_again(Op::Upsert { key: "a", body: b"3" }) {
        assert!(error.kind == ErrorKind::Failed && begun.elapsed() < Duration::from_secs(60), "{error}");
        driven.wait(Duration::from_millis(20), |_| false);
    }
}
