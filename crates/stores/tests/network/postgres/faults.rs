//! Wrong addresses, other servers, broken connections.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use storebench_engine::store::{BatchBuf, BulkWrite, ErrorKind, Op, Prepare, SessionOptions, StoreError};

use super::talk::{Talk, layout, options, psql, sql};
use crate::server::{Server, free_port};

fn unreachable(url: &str) -> String {
    let store = storebench_stores::open(url).unwrap();
    let errors = [store.inspect().unwrap_err(), store.prepare(&layout("users"), Prepare::Fresh).unwrap_err()];
    for error in &errors {
        assert!(matches!(error, StoreError::Unreachable(_)), "{url}: {error:?}");
    }
    errors[0].to_string()
}

#[test]
fn wrong_port_password_user_or_database() {
    let server = Server::start_with("postgres", &["--password", "geheim-435"]);
    let port = server.port;
    let right = format!("storebench:geheim-435@127.0.0.1:{port}/storebench");
    assert!(server.url.contains("geheim-435"));
    for (url, told) in [
        (right.replace(&format!(":{port}/"), &format!(":{}/", free_port())), "the server runs"),
        (right.replace("geheim-435", "falsch-435"), "check the user and the password"),
        (right.replace("storebench:", "nobody:"), "check the user and the password"),
        (right.replace("/storebench", "/elsewhere"), "createdb"),
    ] {
        let text = unreachable(&format!("postgres://{url}"));
        assert!(text.contains(told), "{url}: {text}");
        assert!(!text.contains("geheim-435") && !text.contains("falsch-435"), "{text}");
    }
    let store = storebench_stores::open(&server.url).unwrap();
    assert_eq!(store.describe().url, format!("postgres://storebench@127.0.0.1:{port}/storebench"));
    store.inspect().unwrap();
    for url in ["postgres://a,b/c", "postgres://a/b/c", "postgres://a/b?schema=pg_x", "postgres://a/b?tls_name=x"] {
        assert!(matches!(storebench_stores::open(url), Err(StoreError::BadUrl(_))), "{url}");
    }
}

/// Accepts connections one after the other and answers each first request with these bytes.
fn somebody_else(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4_096]);
            let _ = stream.write_all(answer);
        }
    });
    port
}

#[test]
fn something_else_behind_the_port_is_named_as_such() {
    for (answer, told) in [
        (&b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"[..], "HTTP/1.1 400 Bad Request"),
        (b"-ERR unknown command\r\n", "-ERR unknown command"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "is not PostgreSQL"),
        (b"", "nothing"),
        (b"R\xff\xff\xff\xff", "is not PostgreSQL"),
    ] {
        let port = somebody_else(answer);
        let text = unreachable(&format!("postgres://u:geheim@127.0.0.1:{port}/d"));
        assert!(text.contains(told) && !text.contains("geheim"), "{text}");
        let text = unreachable(&format!("postgres+tls://u:geheim@127.0.0.1:{port}/d"));
        assert!(text.contains("PostgreSQL"), "{text}");
    }
    // Servers that speak part of the protocol.
    for answer in [&b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"[..], b"R\0\0\0\x08\0\0\0\x03", b"R\0\0\0\x05\0", b"K\0\0\0\x04"]
    {
        unreachable(&format!("postgres://u:geheim@127.0.0.1:{}/d", somebody_else(answer)));
    }
}

#[test]
fn a_killed_server_leaves_unknown_outcomes_and_the_session_goes_on() {
    let server = Server::start("postgres");
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut talk = Talk::open(&*store, &SessionOptions { in_flight: 4, ..options() }).unwrap();
    talk.upsert("kept", "1");
    // Lock the table, so that all operations are in flight when the server dies.
    let mut locked =
        psql(&server).args(["-c", "BEGIN; LOCK TABLE storebench.users; SELECT pg_sleep(600)"]).spawn().unwrap();
    while sql(&server, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "0" {}
    let mut items = BatchBuf::new();
    items.push("bulk", b"1");
    let write = talk.begin(Op::Upsert { key: "new", body: b"1" });
    let read = talk.begin(Op::Read { key: "kept" });
    let bulk = talk.begin(Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() });
    let page = talk.begin(Op::Page { field: "user", value: "1", limit: 1 });
    let unsent = talk.begin(Op::Upsert { key: "unsent", body: b"1" });
    talk.wait(1, Duration::from_millis(300));
    assert!(talk.answers.is_empty(), "{:?}", talk.answers);
    server.kill();
    let _ = locked.wait();
    talk.wait(5, Duration::from_secs(60));
    let kind = |token| {
        let (_, answer) = talk.answers.iter().find(|(given, _)| *given == token).expect("it completes");
        answer.as_ref().unwrap_err().kind
    };
    assert_eq!(kind(write), ErrorKind::OutcomeUnknown);
    assert_eq!(kind(bulk), ErrorKind::OutcomeUnknown);
    assert_eq!((kind(read), kind(page)), (ErrorKind::Temporary, ErrorKind::Temporary));
    assert_eq!(kind(unsent), ErrorKind::Temporary, "operations beyond the in-flight limit were not sent");
    assert_eq!(talk.answers.len(), 5);
    talk.answers.clear();
    let error = talk.run(Op::Upsert { key: "meanwhile", body: b"1" }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Temporary);
    server.restart();
    talk.run_in_the_end(Op::Upsert { key: "after", body: b"1" }).unwrap();
    assert_eq!(talk.read("kept").as_deref(), Some("1"));
    let page = talk.run(Op::Page { field: "user", value: "1", limit: 1 }).unwrap();
    assert_eq!(page.as_reply().documents, 0, "page queries must be prepared again");
    assert_eq!(talk.counters().disconnects, 1);
}

/// Forwards bytes between a client and the server, and gives the test access to the client's connection.
struct Proxy {
    port: u16,
    clients: mpsc::Receiver<TcpStream>,
}

impl Proxy {
    fn new(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, clients) = mpsc::channel();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
                // Register the client before forwarding, so that a test with an answer finds it.
                let _ = sender.send(client.try_clone().unwrap());
                let pairs = [(&client, &server), (&server, &client)];
                for (from, to) in pairs {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    std::thread::spawn(move || std::io::copy(&mut from, &mut to));
                }
            }
        });
        Self { port, clients }
    }

    /// The newest connection.
    fn newest(&self) -> TcpStream {
        let mut newest = self.clients.recv_timeout(Duration::from_secs(60)).unwrap();
        while let Ok(newer) = self.clients.try_recv() {
            newest = newer;
        }
        newest
    }
}

#[test]
fn half_closed_and_garbled_connections_are_replaced() {
    let server = Server::start("postgres");
    let proxy = Proxy::new(server.port);
    let store =
        storebench_stores::open(&server.url.replace(&format!(":{}/", server.port), &format!(":{}/", proxy.port)))
            .unwrap();
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut talk = Talk::open(&*store, &options()).unwrap();
    talk.upsert("a", "0");
    let mut connection = proxy.newest();
    // Nothing is in flight, so the next operation notices before it is sent.
    connection.shutdown(Shutdown::Write).unwrap();
    talk.rest(Duration::from_millis(200));
    let error = talk.run(Op::Upsert { key: "a", body: b"1" }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Temporary, "{error}");
    talk.run_in_the_end(Op::Upsert { key: "a", body: b"2" }).unwrap();
    for (round, garbage) in [&b"HTTP/1.1 500\r\n\r\n"[..], b"D\0\0\0\x06\0\x05", b"Z\0\0\0\x05I", b"C\xff\xff\xff\xff"]
        .into_iter()
        .enumerate()
    {
        connection = proxy.newest();
        connection.write_all(garbage).unwrap();
        talk.rest(Duration::from_millis(200));
        let error = talk.run(Op::Upsert { key: "a", body: b"3" }).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Temporary, "{error}");
        talk.run_in_the_end(Op::Upsert { key: "a", body: b"4" }).unwrap();
        assert_eq!(talk.counters().disconnects, 2 + round as u64);
    }
    assert_eq!(talk.read("a").as_deref(), Some("4"));
}

#[test]
fn a_connection_on_which_nothing_moves_is_replaced() {
    let server = Server::start("postgres");
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let timeout = Duration::from_millis(200);
    let mut talk = Talk::open(&*store, &SessionOptions { timeout, ..options() }).unwrap();
    talk.upsert("a", "1");
    let mut locked =
        psql(&server).args(["-c", "BEGIN; LOCK TABLE storebench.users; SELECT pg_sleep(600)"]).spawn().unwrap();
    while sql(&server, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "0" {}
    let given_up = talk.begin(Op::Upsert { key: "a", body: b"2" });
    let behind = talk.begin(Op::Read { key: "a" });
    // Identify the waiting statement by its process, because a new connection also waits for the lock to prepare its
    // statements.
    let mut waits = String::new();
    while waits.is_empty() {
        talk.rest(Duration::from_millis(10));
        waits = sql(&server, "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
    }
    talk.abandon(given_up);
    talk.rest(2 * timeout);
    talk.abandon(given_up);
    // Nothing more is sent on that connection.
    let late = talk.begin(Op::Upsert { key: "late", body: b"1" });
    talk.wait(2, Duration::from_secs(60));
    assert_eq!(talk.answers.len(), 2, "{:?}", talk.answers);
    for (token, answer) in &talk.answers {
        let kind = answer.as_ref().unwrap_err().kind;
        assert!([behind, late].contains(token) && kind == ErrorKind::Temporary, "{token:?}: {answer:?}");
    }
    assert_eq!(talk.counters().disconnects, 1);
    talk.answers.clear();
    // The driver asked the server to cancel the abandoned statement.
    let waiting = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {waits} AND wait_event_type = 'Lock'");
    while sql(&server, &waiting) != "0" {
        talk.rest(Duration::from_millis(20));
    }
    sql(&server, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
    let _ = locked.wait();
    talk.run_in_the_end(Op::Upsert { key: "a", body: b"4" }).unwrap();
    assert_eq!(talk.read("a").as_deref(), Some("4"));
}
