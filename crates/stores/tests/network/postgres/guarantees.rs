//! Durability guarantees, and TLS.

use std::time::Duration;
use storebench_fakes::certificates::{CA, NAMED};

use storebench_engine::store::{
    Acknowledged, Durability, Op, Persisted, Prepare, ReadConsistency, SessionOptions, StoreError,
};

use super::talk::{Talk, layout, options, sql};
use crate::server::Server;

const BY_TWO: Durability = Durability { acknowledged_by: Acknowledged::Nodes(2), persisted: Persisted::Disk, on: 2 };

fn refusal(store: &dyn storebench_engine::store::AnyStore, options: &SessionOptions) -> String {
    match Talk::open(store, options) {
        Err(StoreError::NotSupported(text)) => text,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("a session with `{}` opened", options.durability),
    }
}

#[test]
fn without_its_standby_nothing_is_acknowledged_by_two() {
    let server = Server::start("postgres-standby");
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let by_two = SessionOptions { durability: BY_TWO, ..options() };
    let mut two = Talk::open(&*store, &by_two).unwrap();
    let mut one = Talk::open(&*store, &options()).unwrap();
    two.upsert("a", "1");
    one.upsert("b", "1");
    server.kill_only("replica");
    let waiting = two.begin(Op::Upsert { key: "a", body: b"2" });
    one.upsert("b", "2");
    two.wait(1, Duration::from_secs(2));
    assert!(two.answers.is_empty(), "acknowledged by two nodes without a second node: {:?}", two.answers);
    one.upsert("b", "3");
    let text = refusal(&*store, &by_two);
    assert!(text.contains("0 take part now"), "{text}");
    server.restart();
    two.wait(1, Duration::from_secs(60));
    assert!(matches!(&two.answers[..], [(token, Ok(_))] if *token == waiting), "{:?}", two.answers);
}

#[test]
fn a_wait_for_the_standby_that_was_canceled_is_no_acknowledgement() {
    let server = Server::start("postgres-standby");
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut two = Talk::open(&*store, &SessionOptions { durability: BY_TWO, ..options() }).unwrap();
    server.kill_only("replica");
    two.begin(Op::Upsert { key: "a", body: b"2" });
    two.wait(1, Duration::from_millis(500));
    while sql(&server, "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "0"
    {
    }
    two.wait(1, Duration::from_secs(60));
    let [(_, Err(error))] = &two.answers[..] else { panic!("{:?}", two.answers) };
    assert_eq!(error.kind, storebench_engine::store::ErrorKind::OutcomeUnknown, "{error}");
}

#[test]
fn what_a_server_cannot_guarantee_is_refused_with_the_remedy() {
    let server = Server::start_with("postgres", &["--option", "fsync=off"]);
    let store = storebench_stores::open(&server.url).unwrap();
    assert!(store.capabilities().guarantees(Durability::FSYNC).is_some(), "the server was not queried yet");
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    assert!(store.capabilities().guarantees(Durability::FSYNC).is_none());
    let text = refusal(&*store, &options());
    assert!(text.contains("fsync=off"), "{text}");
    let text = refusal(&*store, &SessionOptions { durability: BY_TWO, ..options() });
    assert!(text.contains("fsync=off") || text.contains("synchronous_standby_names"), "{text}");
    Talk::open(&*store, &SessionOptions { durability: Durability::MEMORY, ..options() }).unwrap().upsert("a", "1");
}

#[test]
fn a_server_that_came_back_without_fsync_acknowledges_nothing() {
    let server = Server::start("postgres");
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut talk = Talk::open(&*store, &options()).unwrap();
    talk.upsert("a", "1");
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE application_name = 'storebench' AND pid <> pg_backend_pid()";
    let change = |what: &str| {
        sql(&server, what);
        sql(&server, "SELECT pg_reload_conf()");
        let expected = if what.contains("RESET") { "on" } else { "off" };
        while sql(&server, "SHOW fsync") != expected {}
    };
    change("ALTER SYSTEM SET fsync = off");
    sql(&server, end);
    talk.rest(Duration::from_millis(100));
    let error = talk.run_in_the_end(Op::Upsert { key: "a", body: b"2" }).unwrap_err();
    assert_eq!(error.kind, storebench_engine::store::ErrorKind::Failed, "{error}");
    assert!(error.message.contains("fsync=off"), "{error}");
    change("ALTER SYSTEM RESET fsync");
    let begun = std::time::Instant::now();
    while let Err(error) = talk.run_in_the_end(Op::Upsert { key: "a", body: b"3" }) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{error}");
        talk.rest(Duration::from_millis(50));
    }
    assert_eq!(talk.read("a").as_deref(), Some("3"));
}

#[test]
fn a_standby_is_read_but_not_written() {
    let server = Server::start("postgres-standby");
    let primary = storebench_stores::open(&format!("{}?apply=yes", server.url)).unwrap();
    primary.prepare(&layout("users"), Prepare::Fresh).unwrap();
    // With remote_apply, the standby shows acknowledged writes.
    Talk::open(&*primary, &SessionOptions { durability: BY_TWO, ..options() }).unwrap().upsert("a", "1");
    let url = server.url.replace(&format!(":{}/", server.port), &format!(":{}/", server.port_of("replica")));
    let standby = storebench_stores::open(&url).unwrap();
    standby.inspect().unwrap();
    let error = standby.prepare(&layout("users"), Prepare::Keep).unwrap_err();
    assert!(matches!(error, StoreError::NotSupported(_)) && error.to_string().contains("primary"), "{error}");
    standby.prepare(&layout("users"), Prepare::ReadOnly).unwrap();
    assert_eq!(Talk::open(&*standby, &options()).unwrap().read("a").as_deref(), Some("1"));
    let text = refusal(&*standby, &SessionOptions { consistency: ReadConsistency::Strong, ..options() });
    assert!(text.contains("stale-ok"), "{text}");
    assert!(!standby.stats().unwrap().is_empty());
    assert!(standby.own_settings().unwrap().memory_bytes.is_some_and(|bytes| bytes > 0));
}

#[test]
fn tls_is_spoken_with_whom_the_certificate_names() {
    let folder = tempfile::tempdir().unwrap();
    let [ca, cert, key] = [("ca.pem", CA), ("cert.pem", NAMED.pem), ("key.pem", NAMED.key)].map(|(name, text)| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    });
    let server = Server::start_with("postgres", &["--tls", &cert, &key]);
    let url = server.url.replace("postgres://", "postgres+tls://");
    let open = |query: &str| storebench_stores::open(&format!("{url}?{query}")).unwrap();
    let store = open(&format!("tls_ca={ca}&tls_name=db.example"));
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut talk = Talk::open(&*store, &options()).unwrap();
    talk.upsert("a", "1");
    assert_eq!(talk.read("a").as_deref(), Some("1"));
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
        WHERE ssl AND application_name = 'storebench'";
    assert_ne!(sql(&server, encrypted), "0");
    for (query, remedy) in [
        (format!("tls_ca={ca}&tls_name=other.example"), "tls_name="),
        (format!("tls_ca={ca}"), "tls_name="),
        ("tls_name=db.example".to_owned(), "tls_ca="),
    ] {
        let error = open(&query).inspect().unwrap_err();
        assert!(matches!(error, StoreError::Unreachable(_)) && error.to_string().contains(remedy), "{query}: {error}");
    }
    let open_server = Server::start("postgres");
    let url = open_server.url.replace("postgres://", "postgres+tls://");
    let error = storebench_stores::open(&url).unwrap().inspect().unwrap_err();
    assert!(error.to_string().contains("does not support TLS"), "{error}");
}
