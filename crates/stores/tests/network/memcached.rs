//! Tests of the `memcached` driver with a server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use storebench_engine::store::{
    AnyStore, BatchBuf, BulkWrite, CollectionId, CopyId, Durability, ErrorKind, Namespace, Op, Prepare, StoreError,
};

use crate::driven::{Driven, existing, layout, silent_connection_is_replaced};
use crate::proxy::{Fault, answering, proxy, random_bytes, serve};
use crate::server::{Server, free_port};

/// A server that accepts the suite's documents of 1 MiB, which with their header exceed the default limit.
pub(crate) fn large() -> Server {
    Server::start_with("memcached", &["--option=-I 4m", "--memory", "128"])
}

fn open(url: &str) -> std::sync::Arc<dyn AnyStore> {
    storebench_stores::open(url).unwrap()
}

fn driven(store: &dyn AnyStore) -> Driven {
    Driven::open(store, Durability::MEMORY).unwrap()
}

/// A raw connection, to make changes without the driver.
struct Raw(BufReader<TcpStream>);

impl Raw {
    fn open(port: u16) -> Self {
        Self(BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap()))
    }

    /// The lines of an answer, up to one that is `last`.
    fn ask(&mut self, request: &str, last: &str) -> Vec<String> {
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the server closed the connection");
            lines.push(line.trim_end().to_owned());
            if line.trim_end() == last {
                return lines;
            }
        }
    }

    /// Every key with its revision, expiry and size, which change with every write.
    fn everything(&mut self) -> Vec<String> {
        let lines = self.ask("lru_crawler metadump hash\r\n", "END");
        let word =
            |line: &str, name: &str| line.split(' ').find(|word| word.starts_with(name)).unwrap_or("").to_owned();
        let mut all: Vec<_> =
            lines.iter().map(|line| ["key=", "cas=", "exp=", "size="].map(|name| word(line, name)).join(" ")).collect();
        all.sort();
        all
    }
}

#[test]
fn wrong_port_and_other_servers_are_told() {
    let port = free_port();
    let error = open(&format!("memcached://127.0.0.1:{port}")).inspect().unwrap_err();
    assert!(matches!(&error, StoreError::Unreachable(text) if text.contains(&port.to_string())), "{error}");
    let redis = Server::start("redis");
    let http = answering(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".to_vec());
    for port in [redis.port, http] {
        let error = open(&format!("memcached://127.0.0.1:{port}")).inspect().unwrap_err();
        assert!(matches!(&error, StoreError::Unreachable(text) if text.contains("not a memcached")), "{error:?}");
    }
    for url in ["memcached://h/db", "memcached://a,b", "memcached://h?prefix=a:b", "memcached://h?tls_name=x"] {
        assert!(matches!(storebench_stores::open(url), Err(StoreError::BadUrl(_))), "{url}");
    }
}

/// A proxy that requires a login, like a server started with `-Y`.
fn guarded(to: u16) -> u16 {
    serve(move |mut client| {
        let mut request = [0; 256];
        loop {
            let bytes = client.read(&mut request).unwrap_or(0);
            let answer: &[u8] = match &request[..bytes] {
                b"" => return,
                b"set auth 0 0 16\r\nsomebody hemlich\r\n" => b"STORED\r\n",
                login if login.starts_with(b"set ") => b"CLIENT_ERROR authentication failure\r\n",
                _ => b"CLIENT_ERROR unauthenticated\r\n",
            };
            if client.write_all(answer).is_err() {
                return;
            }
            if answer == b"STORED\r\n" {
                break;
            }
        }
        let server = TcpStream::connect(("127.0.0.1", to)).unwrap();
        let (mut requests, mut there) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut requests, &mut there));
        let _ = std::io::copy(&mut &server, &mut client);
    })
}

#[test]
fn a_login_is_checked_and_never_shown() {
    let server = Server::start("memcached");
    let at = format!("127.0.0.1:{}", guarded(server.port));
    for (url, expected) in [
        (format!("memcached://{at}"), "requires a user"),
        (format!("memcached://somebody:falsch-hemlich@{at}"), "rejected this user"),
    ] {
        let error = open(&url).inspect().unwrap_err();
        assert!(matches!(&error, StoreError::Unreachable(text) if text.contains(expected)), "{error:?}");
        assert!(!error.to_string().contains("hemlich"), "{error}");
    }
    // A server without authentication never receives a password, because it would store it.
    let error = open(&server.url.replace("//", "//somebody:hemlich@")).inspect().unwrap_err();
    assert!(error.to_string().contains("requires no password"), "{error}");
    assert_eq!(open(&server.url).inspect().unwrap(), Namespace::Absent);
    let store = open(&format!("memcached://somebody:hemlich@{at}"));
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    driven(&*store).call(Op::Upsert { key: "a", body: b"{}" }).unwrap();
    assert!(!format!("{:?}", store.describe()).contains("hemlich"));
}

#[test]
fn random_answers_are_errors_and_never_panics() {
    for seed in 0..200 {
        let bytes = random_bytes(seed, 300);
        // Sometimes after a valid start.
        let bytes = if seed % 2 == 0 { [&b"VERSION 1.6.18\r\nEN\r\n"[..], &bytes].concat() } else { bytes };
        let store = open(&format!("memcached://127.0.0.1:{}", answering(bytes)));
        let (inspected, told) = (store.inspect(), store.stats());
        // The random bytes may contain `EN`, which means that there is no marker. The bytes after it are then invalid.
        assert!(inspected.is_err(), "seed {seed}: {inspected:?}");
        assert!(told.is_err() || seed % 2 == 0, "seed {seed}: {told:?}");
    }
}

#[test]
fn a_session_that_gets_garbage_gives_up_the_connection_and_goes_on() {
    let server = Server::start("memcached");
    open(&server.url).prepare(&layout(), Prepare::Fresh).unwrap();
    for seed in 0..20 {
        let port = proxy(server.port, move |number| match number {
            1 => Fault::Garbage { after: 10_000 + seed as usize * 7, seed },
            _ => Fault::None,
        });
        let store = open(&format!("memcached://127.0.0.1:{port}"));
        store.prepare(&layout(), Prepare::ReadOnly).unwrap();
        let mut driven = driven(&*store);
        for _ in 0..100 {
            (0..50).for_each(|i| {
                driven.submit(Op::Read { key: &format!("no-such-{i}") });
            });
            for (_, answer) in driven.finish(50) {
                assert!(answer.is_err(), "seed {seed}: {answer:?}");
            }
        }
        assert_eq!(driven.counters().disconnects, 1, "seed {seed}");
        let error = driven.call_again(Op::Read { key: "no-such-1" }).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "seed {seed}: {error}");
    }
}

#[test]
fn a_server_that_dies_leaves_writes_unknown_and_comes_back() {
    let server = Server::start("memcached");
    open(&server.url).prepare(&layout(), Prepare::Fresh).unwrap();
    // Answers stop after some bytes, so that operations are in flight when the server dies.
    let port = proxy(server.port, |number| match number {
        1 => Fault::Silent { after: 4_000 },
        _ => Fault::None,
    });
    let store = open(&format!("memcached://127.0.0.1:{port}"));
    store.prepare(&layout(), Prepare::Keep).unwrap();
    let mut driven = driven(&*store);
    let (mut writes, mut reads) = (0, 0);
    let mut awaited = 0;
    // Until answers stop: a window's worth of operations stays unanswered.
    while awaited == 0 {
        for i in 0..8 {
            driven.submit(Op::Upsert { key: &format!("k{i}"), body: b"{}" });
            driven.submit(Op::Read { key: &format!("k{i}") });
        }
        let mut answered = 0;
        driven.wait(Duration::from_millis(500), |n| n >= 16);
        while let Some(answer) = driven.take() {
            answer.unwrap();
            answered += 1;
        }
        awaited = 16 - answered;
    }
    server.kill();
    for (_, answer) in driven.finish(awaited) {
        match answer.unwrap_err().kind {
            ErrorKind::OutcomeUnknown => writes += 1,
            ErrorKind::Temporary => reads += 1,
            other => panic!("{other}"),
        }
    }
    assert!(writes >= 1 && writes + reads == awaited, "{writes} writes and {reads} reads of {awaited}");
    assert_eq!(driven.call(Op::Upsert { key: "a", body: b"{}" }).unwrap_err().kind, ErrorKind::Temporary);
    server.restart();
    driven.call_again(Op::Upsert { key: "a", body: b"{}" }).unwrap();
    driven.call(Op::Read { key: "a" }).unwrap();
    assert!(driven.counters().disconnects >= 1);
}

#[test]
fn a_half_closed_connection_is_left() {
    let server = Server::start("memcached");
    open(&server.url).prepare(&layout(), Prepare::Fresh).unwrap();
    let port = proxy(server.port, |number| match number {
        1 => Fault::HalfClosed { after: 6_000 },
        _ => Fault::None,
    });
    let store = open(&format!("memcached://127.0.0.1:{port}"));
    store.prepare(&layout(), Prepare::Keep).unwrap();
    let mut driven = driven(&*store);
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
    let server = Server::start("memcached");
    let mut raw = Raw::open(server.port);
    for i in 0..200 {
        raw.ask(&format!("ms theirs:{i} 1\r\n{}\r\n", i % 10), "HD");
    }
    raw.ask("ms storebench:documents:1 2 T3600\r\n{}\r\n", "HD");
    let before = raw.everything();
    let store = open(&server.url);
    assert!(matches!(store.inspect().unwrap(), Namespace::Foreign(text) if text.contains("201 items")));
    for how in [Prepare::Fresh, Prepare::Keep] {
        assert!(matches!(store.prepare(&layout(), how), Err(StoreError::NotOurs(_))), "{how:?}");
    }
    store.remove().unwrap();
    store.prepare(&existing("theirs:"), Prepare::ReadOnly).unwrap();
    let keys = store.sample_keys(CollectionId(0), 50, 7).unwrap();
    assert_eq!((keys.len(), store.sample_keys(CollectionId(0), 50, 7).unwrap()), (50, keys.clone()));
    assert_ne!(store.sample_keys(CollectionId(0), 50, 8).unwrap(), keys);
    let mut session = driven(&*store);
    for key in &keys {
        let reply = session.call(Op::Read { key }).unwrap();
        assert_eq!(reply.as_reply().body, Some(&key.as_bytes()[key.len() - 1..]));
    }
    assert_eq!(session.call(Op::Delete { key: &keys[0] }).unwrap_err().kind, ErrorKind::Refused);
    assert!(raw.everything() == before);
    // Next to existing data.
    store.prepare(&layout(), Prepare::IntoExisting).unwrap();
    let mut session = driven(&*store);
    for i in 0..1_200 {
        session.submit(Op::Upsert { key: &format!("{i} with a space"), body: b"{}" });
    }
    assert!(session.finish(1_200).iter().all(|(_, answer)| answer.is_ok()));
    assert_eq!(raw.everything().len(), before.len() + 1_201);
    store.prepare(&layout(), Prepare::IntoExisting).unwrap();
    session.call(Op::Read { key: "7 with a space" }).unwrap();
    store.remove().unwrap();
    assert!(raw.everything() == before);
}

#[test]
fn what_others_put_under_the_markers_key_is_refused_and_left_as_it_is() {
    let server = Server::start("memcached");
    let mut raw = Raw::open(server.port);
    raw.ask("ms storebench:marker 8\r\nprecious\r\n", "HD");
    let before = raw.everything();
    let store = open(&server.url);
    assert!(matches!(store.inspect().unwrap(), Namespace::Foreign(text) if text.contains("1 items")));
    for (how, expected) in [
        (Prepare::Fresh, "--into-existing"),
        (Prepare::IntoExisting, "something else under `storebench:marker`"),
        (Prepare::Copy(CopyId(1)), "something else under `storebench:marker`"),
        (Prepare::Discard, "which Storebench did not make"),
    ] {
        let told = store.prepare(&layout(), how);
        assert!(matches!(&told, Err(StoreError::NotOurs(text)) if text.contains(expected)), "{how:?} {told:?}");
    }
    store.remove().unwrap();
    assert!(raw.everything() == before);
    assert_eq!(raw.ask("mg storebench:marker v\r\n", "precious"), ["VA 8", "precious"]);
    // Another prefix has its own marker.
    let beside = open(&format!("{}?prefix=beside", server.url));
    beside.prepare(&layout(), Prepare::IntoExisting).unwrap();
    beside.remove().unwrap();
    assert!(raw.everything() == before);
}

#[test]
fn a_server_that_lists_no_keys_is_emptied_by_a_new_generation() {
    let server = Server::start_with("memcached", &["--option=-X"]);
    let store = open(&server.url);
    assert_eq!(store.inspect().unwrap(), Namespace::Absent);
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    driven(&*store).call(Op::Upsert { key: "a", body: b"{}" }).unwrap();
    assert!(matches!(store.sample_keys(CollectionId(0), 1, 1), Err(StoreError::NotSupported(_))));
    store.remove().unwrap();
    assert_eq!(store.inspect().unwrap(), Namespace::Absent);
    store.prepare(&layout(), Prepare::Keep).unwrap();
    assert_eq!(store.inspect().unwrap(), Namespace::Ours);
    assert_eq!(driven(&*store).call(Op::Read { key: "a" }).unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn documents_over_the_limit_are_refused_and_leave_what_was_there() {
    let server = Server::start("memcached");
    let store = open(&server.url);
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let mut driven = driven(&*store);
    driven.call(Op::Upsert { key: "a", body: b"{}" }).unwrap();
    let huge = vec![b'x'; 1 << 20];
    let error = driven.call(Op::Upsert { key: "a", body: &huge }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("-I"), "{error}");
    driven.call(Op::Read { key: "a" }).unwrap();
    let mut items = BatchBuf::new();
    items.push("b", b"{}");
    items.push("a", &huge);
    items.push("c", b"{}");
    let reply = driven.call(Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() }).unwrap();
    let reply = reply.as_reply();
    assert_eq!((reply.documents, reply.rejects.len(), reply.rejects[0].item), (2, 1, 1));
}

#[test]
fn how_the_server_is_set_up_is_told() {
    let server = large();
    let told = open(&server.url).own_settings().unwrap();
    assert_eq!(told.memory_bytes, Some(128 << 20));
    for (name, value, changed) in [
        ("maxbytes", "134217728", true),
        ("item_size_max", "4194304", true),
        ("num_threads", "4", false),
        ("maxconns", "1024", false),
        ("evictions", "on", false),
        ("growth_factor", "1.25", false),
        ("ext_path", "not set", false),
    ] {
        let found = told.all.iter().find(|of| of.name == name).map(|of| (of.value.as_str(), of.changed));
        assert_eq!(found, Some((value, Some(changed))), "{name}");
    }
    assert!(told.all.iter().any(|of| of.name == "slab_automove"), "{told:?}");
}

fn batch<'a>(keys: impl IntoIterator<Item = &'a str>) -> BatchBuf {
    let mut batch = BatchBuf::new();
    keys.into_iter().for_each(|key| batch.push(key, b""));
    batch
}

/// The server leaves out what it does not have. Keys that need base64 are read one by one, and long ones by their hash.
#[test]
fn what_is_read_in_bulk_belongs_to_its_key() {
    let server = Server::start("memcached");
    let store = open(&server.url);
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let mut driven = driven(&*store);
    let long = "l".repeat(300);
    let there: Vec<String> =
        (0..2_000).map(|i| format!("key-{i}")).chain([long.clone(), "with a space".into()]).collect();
    for key in &there {
        driven.submit(Op::Upsert { key, body: key.as_bytes() });
    }
    assert!(driven.finish(there.len()).iter().all(|(_, answer)| answer.is_ok()));
    let many: Vec<String> = (0..3_000).rev().map(|i| format!("key-{i}")).collect();
    for asked in [
        vec!["key-3", "no-such", "key-1", "key-1", "nor-this", &long, "key-2", "last-no-such"],
        vec!["key-3", "with a space", "no such", "key-1"],
        vec!["no-such"],
        vec![],
        many.iter().map(String::as_str).collect(),
    ] {
        let reply = driven.call(Op::BulkRead { keys: batch(asked.iter().copied()).as_batch() }).unwrap();
        let reply = reply.as_reply();
        let found: Vec<&str> = asked.iter().copied().filter(|key| there.iter().any(|other| other == key)).collect();
        let rows: Vec<(&str, &[u8])> = reply.rows.unwrap_or_default().iter().collect();
        assert_eq!(rows, found.iter().map(|key| (*key, key.as_bytes())).collect::<Vec<_>>());
        let bytes: usize = found.iter().map(|key| key.len()).sum();
        assert_eq!((reply.documents, reply.bytes), (found.len() as u32, bytes as u64));
    }
}

/// A server that mixes up connections must not have its documents taken for those that were asked for.
#[test]
fn a_document_that_was_not_asked_for_is_not_taken() {
    let server = Server::start("memcached");
    let to = server.port;
    open(&server.url).prepare(&layout(), Prepare::Fresh).unwrap();
    let port = serve(move |mut client| {
        let server = TcpStream::connect(("127.0.0.1", to)).unwrap();
        let (mut requests, mut there) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut requests, &mut there));
        for line in BufReader::new(server).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8(line).unwrap().replace("key-2 0 2", "key-9 0 2");
            if client.write_all(format!("{line}\n").as_bytes()).is_err() {
                return;
            }
        }
    });
    let store = open(&format!("memcached://127.0.0.1:{port}"));
    store.prepare(&layout(), Prepare::Keep).unwrap();
    let mut driven = driven(&*store);
    for key in ["key-1", "key-2", "key-3"] {
        driven.call(Op::Upsert { key, body: b"{}" }).unwrap();
    }
    driven.call(Op::BulkRead { keys: batch(["key-1", "key-3"]).as_batch() }).unwrap();
    let error = driven.call(Op::BulkRead { keys: batch(["key-1", "key-2", "key-3"]).as_batch() }).unwrap_err();
    assert!(error.kind == ErrorKind::Temporary && error.message.contains("key-9"), "{error}");
    assert_eq!(driven.counters().disconnects, 1);
    driven.call_again(Op::Read { key: "key-1" }).unwrap();
}

#[test]
fn a_connection_that_leads_nowhere_is_replaced() {
    silent_connection_is_replaced("memcached");
}
