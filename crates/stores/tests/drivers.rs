//! Tests beyond the conformance suite: reopening, plans, URLs.

use crate::common::{Ask, Scheme, layout, snapshot};
use storebench_engine::store::{
    BatchBuf, BulkWrite, CollectionId, CollectionLayout, Layout, Op, Prepare, Request, StoreError,
};
use storebench_study::workload::Body;

#[test]
fn documents_and_indexes_are_there_after_close_and_reopen() {
    for scheme in Scheme::ALL {
        let folder = tempfile::tempdir().unwrap();
        let url = scheme.url(&folder.path().join("store"));
        let store = storebench_stores::open(&url).unwrap();
        store.prepare(&layout("users"), Prepare::Fresh).unwrap();
        let mut ask = Ask::new(&*store);
        for i in 0..50 {
            ask.upsert(&format!("k{i:02}"), format!(r#"{{"user":"u{}","i":{i}}}"#, i % 5).as_bytes());
        }
        drop(ask);
        store.close().unwrap();
        let left = snapshot(folder.path());
        assert!(!left.iter().any(|(name, ..)| name.ends_with("-wal") || name.ends_with("-shm")), "{left:?}");
        for how in [Prepare::Keep, Prepare::ReadOnly] {
            let store = storebench_stores::open(&url).unwrap();
            store.prepare(&layout("users"), how).unwrap();
            let mut ask = Ask::new(&*store);
            assert_eq!(ask.read("k07").as_deref(), Some(&br#"{"user":"u2","i":7}"#[..]), "{scheme:?}");
            let page = Op::Page { field: "user", value: r#""u3""#, limit: 4 };
            let keys =
                ask.run(page, |reply| reply.rows.unwrap().iter().map(|(key, _)| key.to_owned()).collect::<Vec<_>>());
            assert_eq!(keys.unwrap(), ["k03", "k08", "k13", "k18"], "{scheme:?}");
            drop(ask);
            store.close().unwrap();
        }
    }
}

#[test]
fn a_database_that_was_not_closed_is_still_known_and_read() {
    // The copy is in the state that a killed process leaves, because nothing was closed.
    for scheme in Scheme::ALL {
        let folder = tempfile::tempdir().unwrap();
        let live = folder.path().join("live");
        let store = storebench_stores::open(&scheme.url(&live)).unwrap();
        store.prepare(&layout("users"), Prepare::Fresh).unwrap();
        let mut ask = Ask::new(&*store);
        ask.upsert("k", br#"{"user":"a"}"#);
        let crashed = folder.path().join("crashed");
        std::fs::create_dir(&crashed).unwrap();
        let all = format!("cp -r {}* {}", live.display(), crashed.display());
        assert!(std::process::Command::new("sh").args(["-c", &all]).status().unwrap().success());
        let before = snapshot(&crashed);
        let store = storebench_stores::open(&scheme.url(&crashed.join("live"))).unwrap();
        assert_eq!(store.inspect().unwrap(), storebench_engine::store::Namespace::Ours, "{scheme:?}");
        assert_eq!(snapshot(&crashed), before, "{scheme:?}");
        store.prepare(&layout("users"), Prepare::ReadOnly).unwrap();
        assert_eq!(Ask::new(&*store).read("k").as_deref(), Some(&br#"{"user":"a"}"#[..]), "{scheme:?}");
        if scheme != Scheme::Fjall {
            assert_eq!(snapshot(&crashed), before, "{scheme:?}");
        }
        store.prepare(&layout("users"), Prepare::Keep).unwrap();
        assert_eq!(Ask::new(&*store).read("k").as_deref(), Some(&br#"{"user":"a"}"#[..]), "{scheme:?}");
    }
}

#[test]
fn the_plan_tells_an_index_from_a_full_scan() {
    for scheme in Scheme::ALL {
        let folder = tempfile::tempdir().unwrap();
        let store = storebench_stores::open(&scheme.url(&folder.path().join("store"))).unwrap();
        store.prepare(&layout("users"), Prepare::Fresh).unwrap();
        let explain = |field| {
            let op = Op::Page { field, value: r#""a""#, limit: 10 };
            store.explain(&Request { collection: CollectionId(0), op, contents: true }).unwrap().unwrap()
        };
        let (indexed, scan) = (explain("user"), explain("other"));
        assert!(!indexed.full_scan && indexed.plan.contains("user") || indexed.plan.contains("INDEX"), "{indexed:?}");
        assert!(scan.full_scan, "{scan:?}");
    }
}

#[test]
fn equal_keys_within_a_bulk_are_taken_in_order() {
    for scheme in Scheme::ALL {
        for indexes in [vec![], vec![vec!["user".to_owned()]]] {
            let folder = tempfile::tempdir().unwrap();
            let store = storebench_stores::open(&scheme.url(&folder.path().join("store"))).unwrap();
            let users = CollectionLayout {
                name: "users".into(),
                body: Body::Json,
                indexes,
                existing: None,
                uses: storebench_engine::store::Uses::ALL,
            };
            store.prepare(&Layout { collections: vec![users] }, Prepare::Fresh).unwrap();
            let mut ask = Ask::new(&*store);
            let mut items = BatchBuf::new();
            for (key, n) in [("b", 1), ("a", 2), ("b", 3), ("a", 4)] {
                items.push(key, format!(r#"{{"user":"{n}"}}"#).as_bytes());
            }
            let bulk = |kind| Op::BulkWrite { kind, items: items.as_batch() };
            let rejects = ask
                .run(bulk(BulkWrite::Insert), |reply| reply.rejects.iter().map(|r| r.item).collect::<Vec<_>>())
                .unwrap();
            assert_eq!(rejects, [2, 3], "{scheme:?}");
            assert_eq!(ask.read("b").unwrap(), br#"{"user":"1"}"#, "{scheme:?}");
            assert_eq!(ask.run(bulk(BulkWrite::Upsert), |reply| reply.documents), Ok(4));
            assert_eq!(ask.read("b").unwrap(), br#"{"user":"3"}"#, "{scheme:?}");
            for (n, count) in [(1, 0), (2, 0), (3, 1), (4, 1)] {
                let value = format!("\"{n}\"");
                let page = Op::Page { field: "user", value: &value, limit: 10 };
                assert_eq!(ask.run(page, |reply| reply.documents), Ok(count), "{scheme:?} {n}");
            }
        }
    }
}

#[test]
fn threads_that_write_at_once_all_get_their_turn() {
    for scheme in Scheme::ALL {
        let folder = tempfile::tempdir().unwrap();
        let store = storebench_stores::open(&scheme.url(&folder.path().join("store"))).unwrap();
        let counters = CollectionLayout {
            name: "counters".into(),
            body: Body::Counter,
            indexes: vec![],
            existing: None,
            uses: storebench_engine::store::Uses::ALL,
        };
        store.prepare(&Layout { collections: vec![counters] }, Prepare::Fresh).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut ask = Ask::new(&*store);
                    for _ in 0..100 {
                        ask.run(Op::Counter { key: "n", delta: 1, initial: 1 }, |_| ()).unwrap();
                    }
                });
            }
        });
        assert_eq!(Ask::new(&*store).read("n").unwrap(), b"400", "{scheme:?}");
    }
}

#[test]
fn wrong_urls_are_refused_with_what_would_be_right() {
    let refused = |url: &str| match storebench_stores::open(url) {
        Err(StoreError::BadUrl(text)) => text,
        Err(other) => panic!("{url}: {other:?}"),
        Ok(_) => panic!("{url} was accepted"),
    };
    for (url, expected) in [
        ("sqilte:x.db", "did you mean `sqlite`?"),
        ("mangodb:x", "did you mean `mongodb`?); expected one of: sqlite, fjall, redb, "),
        ("documents.db", "did you mean `sqlite:documents.db`?"),
        ("some/documents.redb", "did you mean `redb:some/documents.redb`?"),
        ("documents", "has no scheme; write it like sqlite:documents.db"),
        ("http://me@db.example:5984/shop", "as in `couchdb://me@db.example:5984`"),
        ("https://db.example:8080", "as in `ravendbs://db.example:8080/storebench`"),
        ("http://db.example", "`couchdb://db.example` or `ravendb://db.example/storebench`"),
        ("sqlite:", "sqlite:documents.db"),
        ("fjall:?cache=1MiB", "has no path"),
        ("sqlite://host/x.db", "sqlite:/host/x.db"),
        ("sqlite:x?chache=1MiB", "did you mean `cache`?); options are: format, journal, cache"),
        ("sqlite:x?cache", "has no value"),
        ("sqlite:x?cache=lots", "cache=lots"),
        ("sqlite:x?cache=1MiB&cache=2MiB", "given twice"),
        ("sqlite:x?format=jsnob", "did you mean `jsonb`?"),
        ("sqlite+redb:x", "is a store and must come last"),
        ("slwo+sqlite:x", "did you mean `slow`?"),
        ("slow:x", "must be followed by a store"),
        ("limit+memory:", "requires a rate"),
        ("limit+memory:?rate=0", "rate"),
        ("slow+memory:?latency=5", "no unit"),
        ("slow+memory:?rate=5", "unknown option `rate`"),
        ("memory:x", "write memory:"),
    ] {
        let text = refused(url);
        assert!(text.contains(expected), "{url}: {text}");
    }
}

#[test]
fn how_the_store_is_set_up_is_told() {
    for (scheme, default_bytes) in
        [(Scheme::Sqlite, None), (Scheme::Fjall, Some(32 << 20)), (Scheme::Redb, Some(1 << 30))]
    {
        for (query, bytes, changed) in
            [("", default_bytes, false), ("?cache=8MiB", default_bytes.and(Some(8 << 20)), true)]
        {
            let folder = tempfile::tempdir().unwrap();
            let url = format!("{}{query}", scheme.url(&folder.path().join("store")));
            let store = storebench_stores::open(&url).unwrap();
            store.prepare(&layout("users"), Prepare::Fresh).unwrap();
            let before = snapshot(folder.path());
            let told = store.own_settings().unwrap();
            assert_eq!(told.memory_bytes, bytes, "{url}");
            let cache = told.all.iter().find(|of| of.name == "cache_size").unwrap();
            assert_eq!(cache.changed, Some(changed), "{url}: {told:?}");
            if scheme == Scheme::Sqlite {
                assert_eq!(snapshot(folder.path()), before, "{url}");
                let _live = Ask::new(&*store);
                assert_eq!(store.own_settings().unwrap(), told, "{url}: while a session is open");
            }
        }
    }
}

#[test]
fn what_the_url_of_sqlite_sets_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("{}?journal=delete", Scheme::Sqlite.url(&folder.path().join("store")));
    let store = storebench_stores::open(&url).unwrap();
    assert!(store.own_settings().unwrap().all.is_empty(), "there is nothing yet");
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let told = store.own_settings().unwrap();
    let of = |name: &str| told.all.iter().find(|of| of.name == name).map(|of| (of.value.as_str(), of.changed));
    assert_eq!(of("journal_mode"), Some(("delete", Some(false))));
    assert_eq!(of("synchronous"), Some(("FULL for fsync, OFF for os", None)));
}

#[test]
fn decorators_stand_before_a_store_and_share_its_query() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let url = format!("limit+slow+sqlite:{}?cache=1MiB&latency=0s&rate=1k&concurrency=4&format=jsonb", path.display());
    let store = storebench_stores::open(&url).unwrap();
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    assert!(path.exists());
    let told = store.describe().url;
    assert!(told.starts_with("limit+slow+sqlite:") && told.contains("?cache=1MiB&format=jsonb&"), "{told}");
    store.remove().unwrap();
    assert!(!path.exists());
}

#[test]
fn every_listed_scheme_opens_by_its_example_without_touching_anything() {
    let here = snapshot(std::env::current_dir().unwrap().as_path()).len();
    for scheme in storebench_stores::schemes() {
        let store = storebench_stores::open(scheme.example).unwrap();
        let capabilities = store.capabilities();
        assert!(!capabilities.operations.is_empty() && !capabilities.durability.is_empty(), "{}", scheme.name);
        assert!(!store.describe().version.is_empty());
        assert!(scheme.options.iter().all(|option| !option.meaning.is_empty()));
    }
    assert_eq!(snapshot(std::env::current_dir().unwrap().as_path()).len(), here);
}
