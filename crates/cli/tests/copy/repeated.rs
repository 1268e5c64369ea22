//! `copy` of files in which a key comes more than once, on real servers: the last record stands, or what is not known is
//! told.

use std::collections::BTreeMap;

use storebench_fakes::couchbase::{Fake, FakeOptions};

use crate::common::Cli;
use crate::common::copies::{by_key, count, report};
use crate::server::Server;

/// Records over some keys, in runs that end in the middle of batches.
fn hot(records: usize, keys: usize) -> String {
    (0..records).map(|n| format!("{{\"_id\":\"k{:03}\",\"n\":{n}}}\n", n % keys)).collect()
}

/// Copies few keys and many keys, in small and in the usual batches, with several requests in flight.
fn last_stands(url: &str) {
    for (records, keys, collection, more) in [
        (3_000, 700, "many", &[][..]),
        (2_000, 50, "few", &["--batch", "40", "--in-flight", "8"]),
        (200, 3, "hot", &["--batch", "2"]),
    ] {
        let cli = Cli::new();
        cli.write("hot.jsonl", &hot(records, keys));
        let into = ["copy", "hot.jsonl", url, "--to-collection", collection, "--verify", "--json"];
        let done = cli.run_args(&[&into[..], more].concat());
        assert_eq!(done.code, 0, "{url}: {done:?}");
        let report = report(&done);
        assert_eq!(report["repeated_keys"]["records"], records - keys, "{url}");
        assert_eq!(report["repeated_keys"]["in_order"], true, "{url}");
        assert_eq!(report["verified"]["written_twice"], keys, "{url}");
        let out = ["copy", url, "back.jsonl", "--from-collection", collection, "--json"];
        let done = cli.run_args(&out);
        assert_eq!((done.code, count(&self::report(&done), "written")), (0, keys as u64), "{url}: {done:?}");
        let found: BTreeMap<String, u64> = by_key(&cli.path("back.jsonl"))
            .into_iter()
            .map(|(key, document)| (key, document["n"].as_u64().unwrap()))
            .collect();
        let last: BTreeMap<String, u64> = (0..records).map(|n| (format!("k{:03}", n % keys), n as u64)).collect();
        let differ = last.iter().filter(|(key, n)| found.get(*key) != Some(n)).count();
        assert_eq!(differ, 0, "{url}: of {keys} keys hold an earlier record");
    }
}

macro_rules! on {
    ($($name:ident: $server:expr, $path:expr;)*) => {
        $(#[test]
        fn $name() {
            let server = Server::start($server);
            last_stands(&format!("{}{}", server.url, $path));
        })*
    };
}

on! {
    the_last_record_stands_in_redis: "redis", "";
    the_last_record_stands_in_a_cluster_of_redis: "redis-cluster", "";
    the_last_record_stands_in_valkey: "valkey", "";
    the_last_record_stands_in_postgres: "postgres", "";
    the_last_record_stands_in_nx_27017: "nx-27017", "/shop";
    the_last_record_stands_in_ferretdb: "ferretdb", "/shop";
    the_last_record_stands_in_pouchdb_server: "pouchdb-server", "";
    the_last_record_stands_in_ravendb: "ravendb", "";
}

#[test]
fn the_last_record_stands_in_couchbase() {
    for nodes in [1, 3] {
        last_stands(&Fake::start(FakeOptions { nodes, ..FakeOptions::default() }).unwrap().url());
    }
}

#[test]
fn the_last_record_stands_in_stores_in_this_process() {
    for url in ["sqlite:a.db", "redb:a.redb", "fjall:a"] {
        let folder = tempfile::tempdir().unwrap();
        let (scheme, path) = url.split_once(':').unwrap();
        last_stands(&format!("{scheme}:{}", folder.path().join(path).display()));
    }
}

/// Follows the advice that the summary prints.
#[test]
fn parts_that_are_copied_at_once_say_so_and_one_worker_keeps_their_order() {
    let cli = Cli::new();
    std::fs::create_dir(cli.path("parts")).unwrap();
    for n in 0..6 {
        cli.write(
            &format!("parts/{n}.jsonl"),
            &(0..5_000).map(|k| format!("{{\"_id\":\"k{k}\",\"n\":{n}}}\n")).collect::<String>(),
        );
    }
    let copy = ["copy", "parts/", "sqlite:a.db", "--to-collection", "parts", "--verify"];
    let at_once = cli.run_args(&[&copy[..], &["--workers", "4"]].concat());
    assert_eq!(at_once.code, 0, "{at_once:?}");
    assert!(at_once.out.contains("of records in different parts, any may have come last"), "{at_once:?}");
    assert!(at_once.out.contains("copy everything again with --workers 1"), "{at_once:?}");
    let in_order = cli.run_args(&[&copy[..], &["--workers", "1"]].concat());
    assert_eq!(in_order.code, 0, "{in_order:?}");
    assert!(!in_order.out.contains("different parts"), "{in_order:?}");
    assert!(
        in_order.out.contains("of 5,000 keys written more than once, it holds the last document each"),
        "{in_order:?}"
    );
    cli.run("copy sqlite:a.db back.jsonl --from-collection parts").code(0);
    assert!(by_key(&cli.path("back.jsonl")).values().all(|document| document["n"] == 5));
}
