//! What the server's settings guarantee, and TLS.

use storebench_engine::store::{AnyStore, Durability, Op, Prepare, ReadConsistency, SessionOptions, StoreError};
use storebench_fakes::certificates::{CA, NAMED};

use super::sql;
use crate::driven::{Driven, layout, options};
use crate::server::Server;

fn refusal(store: &dyn AnyStore, options: &SessionOptions) -> String {
    match Driven::open_with(store, options) {
        Err(StoreError::NotSupported(text)) => text,
        other => panic!("not refused: {:?}", other.err()),
    }
}

#[test]
fn the_servers_settings_are_its_only_guarantee() {
    let server = Server::start_with("mariadb", &["--option=log-bin=changes"]);
    let store = storebench_stores::open(&server.url).unwrap();
    assert_eq!(store.capabilities().durability.len(), 3, "the server was not asked yet");
    for (set, given, named) in [
        ("sync_binlog = 0", Durability::OS, "sync_binlog = 0"),
        ("sync_binlog = 1", Durability::FSYNC, ""),
        ("innodb_flush_log_at_trx_commit = 2", Durability::OS, "innodb_flush_log_at_trx_commit = 2"),
        ("innodb_flush_log_at_trx_commit = 0", Durability::MEMORY, "innodb_flush_log_at_trx_commit = 0"),
    ] {
        sql(&server, &format!("SET GLOBAL {set}"));
        store.prepare(&layout(), Prepare::Fresh).unwrap();
        let levels: Vec<_> = store.capabilities().durability.iter().map(|(level, _)| *level).collect();
        assert_eq!(levels, [given], "{set}");
        Driven::open(&*store, given).unwrap().call(Op::Upsert { key: "a", body: b"{}" }).unwrap();
        if given != Durability::FSYNC {
            let text = refusal(&*store, &options(Durability::FSYNC));
            assert!(text.contains(named) && text.contains(&format!("ask for `{given}`")), "{text}");
        }
    }
    sql(&server, "SET GLOBAL tx_isolation = 'READ-UNCOMMITTED'");
    store.prepare(&layout(), Prepare::Keep).unwrap();
    let text = refusal(&*store, &options(Durability::MEMORY));
    assert!(text.contains("READ-UNCOMMITTED") && text.contains("stale-ok"), "{text}");
    sql(&server, "SET GLOBAL tx_isolation = 'READ-COMMITTED'; SET GLOBAL read_only = 1");
    store.prepare(&layout(), Prepare::ReadOnly).unwrap();
    let text = refusal(&*store, &options(Durability::MEMORY));
    assert!(text.contains("stale-ok"), "{text}");
    let stale = SessionOptions { consistency: ReadConsistency::StaleOk, ..options(Durability::MEMORY) };
    let mut driven = Driven::open_with(&*store, &stale).unwrap();
    assert_eq!(driven.call(Op::Read { key: "a" }).unwrap().as_reply().body, Some(&b"{}"[..]));
    let settings = store.own_settings().unwrap();
    assert!(settings.memory_bytes.is_some_and(|bytes| bytes > 0));
    assert!(settings.all.iter().any(|setting| setting.name == "sync_binlog" && setting.value == "1"));
    assert!(store.stats().unwrap().iter().any(|(name, value)| name == "log_bytes" && *value > 0.0));
}

#[test]
fn a_server_that_gives_less_when_it_comes_back_acknowledges_nothing() {
    let server = Server::start("mariadb");
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let one = SessionOptions { in_flight: 1, ..options(Durability::FSYNC) };
    let mut driven = Driven::open_with(&*store, &one).unwrap();
    driven.call(Op::Upsert { key: "a", body: b"1" }).unwrap();
    let connection = sql(&server, "SELECT MAX(id) FROM information_schema.PROCESSLIST WHERE command = 'Sleep'");
    sql(&server, &format!("SET GLOBAL innodb_flush_log_at_trx_commit = 0; KILL {connection}"));
    let first = driven.call(Op::Upsert { key: "a", body: b"2" }).unwrap_err();
    assert_eq!(first.kind, storebench_engine::store::ErrorKind::OutcomeUnknown, "{first}");
    let error = driven.call_again(Op::Upsert { key: "a", body: b"2" }).unwrap_err();
    assert_eq!(error.kind, storebench_engine::store::ErrorKind::Failed, "{error}");
    assert!(error.message.contains("innodb_flush_log_at_trx_commit"), "{error}");
    assert_eq!(sql(&server, "SELECT body FROM documents"), "1");
    sql(&server, "SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    let begun = std::time::Instant::now();
    while let Err(error) = driven.call_again(Op::Upsert { key: "a", body: b"3" }) {
        assert!(begun.elapsed() < crate::driven::PATIENCE, "{error}");
        driven.wait(std::time::Duration::from_millis(50), |_| false);
    }
    assert_eq!(sql(&server, "SELECT body FROM documents"), "3");
}

#[test]
fn tls_is_spoken_with_whom_the_certificate_names() {
    let folder = tempfile::tempdir().unwrap();
    let [ca, cert, key] = [("ca.pem", CA), ("cert.pem", NAMED.pem), ("key.pem", NAMED.key)].map(|(name, text)| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    });
    let server = Server::start_with("mariadb", &["--tls", &cert, &key]);
    let url = server.url.replace("mysql://", "mariadb+tls://");
    let open = |query: &str| storebench_stores::open(&format!("{url}?{query}")).unwrap();
    let store = open(&format!("tls_ca={ca}&tls_name=db.example"));
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
    driven.call(Op::Upsert { key: "a", body: b"1" }).unwrap();
    assert_ne!(sql(&server, "SHOW GLOBAL STATUS LIKE 'Ssl_finished_accepts'"), "Ssl_finished_accepts\t0");
    for (query, remedy) in [
        (format!("tls_ca={ca}&tls_name=other.example"), "tls_name="),
        (format!("tls_ca={ca}"), "tls_name="),
        ("tls_name=db.example".to_owned(), "tls_ca="),
    ] {
        let error = open(&query).inspect().unwrap_err();
        assert!(matches!(error, StoreError::Unreachable(_)) && error.to_string().contains(remedy), "{query}: {error}");
    }
    let open_server = Server::start("mariadb");
    let url = open_server.url.replace("mysql://", "mysql+tls://");
    let error = storebench_stores::open(&format!("{url}?tls_ca={ca}")).unwrap().inspect().unwrap_err();
    assert!(error.to_string().contains("does not support TLS"), "{error}");
}
