//! Records that a real server refuses: only these are rejected, each with its reason.

use serde_json::{Value, json};

use crate::common::Cli;
use crate::common::copies::{count, rejects, report};
use crate::server::Server;

/// Good documents, mixed with some that a store refuses.
struct Mixed {
    lines: String,
    good: u64,
    bad: Vec<String>,
}

impl Mixed {
    /// 500 plain documents, with the bad ones spread among them.
    fn new(bad: impl IntoIterator<Item = (String, Value)>) -> Self {
        let bad: Vec<(String, String)> = bad
            .into_iter()
            .map(|(key, mut document)| {
                document["_id"] = Value::from(key.clone());
                (key, document.to_string())
            })
            .collect();
        Self::written(&bad)
    }

    /// The same, with the bad documents as complete lines.
    fn written(bad: &[(String, String)]) -> Self {
        let mut lines = String::new();
        let good = 500;
        for n in 0..good {
            lines += &format!("{{\"_id\":\"k{n:04}\",\"n\":{n}}}\n");
            if let Some((_, line)) = bad.get((n as usize).wrapping_sub(40) / 7).filter(|_| n >= 40 && (n - 40) % 7 == 0)
            {
                lines += line;
                lines.push('\n');
            }
        }
        assert!(40 + bad.len() * 7 < 500);
        Self { lines, good, bad: bad.iter().map(|(key, _)| key.clone()).collect() }
    }

    /// Copies them, and checks which were rejected and why.
    fn copied_into(&self, url: &str, why: &[&str]) {
        let cli = Cli::new();
        cli.write("mixed.jsonl", &self.lines);
        let done = cli.run_args(&["copy", "mixed.jsonl", url, "--verify", "-p", "1", "--json"]).code(1);
        let report = report(&done);
        let told = rejects(&cli, &report);
        let mut keys: Vec<&str> = told.iter().filter_map(|reject| reject["key"].as_str()).collect();
        keys.sort_unstable();
        let mut bad: Vec<&str> = self.bad.iter().map(String::as_str).collect();
        bad.sort_unstable();
        assert_eq!(keys, bad, "{told:#?}");
        assert_eq!((count(&report, "written"), count(&report, "rejected")), (self.good, bad.len() as u64));
        assert_eq!(report["verified"]["equal"], true, "{report}");
        for reject in &told {
            let text = reject["why"].as_str().unwrap();
            println!("{}: {}: {text}", url.split(':').next().unwrap(), reject["error"].as_str().unwrap());
            assert_eq!(reject["error"], "refused", "{text}");
            assert!(why.iter().any(|part| text.contains(part)), "{text}");
        }
    }
}

fn large(bytes: usize) -> Value {
    json!({"text": "x".repeat(bytes)})
}

#[test]
fn memcached_takes_no_item_above_its_limit() {
    let server = Server::start("memcached");
    let bad = [("large".to_owned(), large(1_200_000)), ("larger".to_owned(), large(3_000_000))];
    Mixed::new(bad).copied_into(&server.url, &["larger than this server accepts"]);
}

#[test]
fn mongodb_takes_no_document_above_its_limit() {
    let server = Server::start("nx-27017");
    let bad = [("large".to_owned(), large(16 << 20)), ("larger".to_owned(), large(17 << 20))];
    Mixed::new(bad).copied_into(&server.url, &["16777216"]);
}

#[test]
fn postgres_takes_no_document_that_jsonb_cannot_hold() {
    let server = Server::start("postgres");
    let deep = format!("{{\"_id\":\"deep\",\"a\":{}{}}}", "[".repeat(40_000), "]".repeat(40_000));
    let bad = [
        ("zero".to_owned(), "{\"_id\":\"zero\",\"t\":\"a\\u0000b\"}".to_owned()),
        ("zero in a name".to_owned(), "{\"_id\":\"zero in a name\",\"a\\u0000b\":1}".to_owned()),
        ("half".to_owned(), "{\"_id\":\"half\",\"t\":\"\\ud800\"}".to_owned()),
        ("number".to_owned(), format!("{{\"_id\":\"number\",\"n\":1{}}}", "0".repeat(140_000))),
        ("deep".to_owned(), deep),
    ];
    Mixed::written(&bad).copied_into(&server.url, &["\\u0000", "surrogate", "overflows numeric", "stack depth"]);
}

#[test]
fn couchdb_takes_no_member_of_its_own() {
    let server = Server::start("pouchdb-server");
    let bad = [("member".to_owned(), json!({"_mine": 1})), ("_reserved".to_owned(), json!({"n": 1}))];
    Mixed::new(bad).copied_into(&server.url, &["is reserved by the target", "invalid key"]);
}

/// The advice for records that are deletions works, and no deleted document comes back to life.
#[test]
fn couchdb_is_given_no_deletion_as_a_document() {
    let server = Server::start("pouchdb-server");
    let cli = Cli::new();
    cli.write("a.jsonl", "{\"_id\":\"gone\",\"_deleted\":true}\n{\"_id\":\"kept\",\"n\":1}\n");
    let copy = |file: &str, more: &[&str]| {
        cli.run_args(&[&["copy", file, &server.url, "--to-collection", "books"], more].concat())
    };
    let keys = || {
        let read = cli.run(&format!("copy {} - --from-collection books --quiet", server.url)).code(0).out;
        read.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["_id"].clone()).collect::<Vec<_>>()
    };
    for more in [&[][..], &["--own-members", "drop", "--restart"]] {
        let done = copy("a.jsonl", more).code(1);
        assert!(done.out.contains("it is a deletion") && done.out.contains("--filter '._deleted != true'"), "{done:?}");
        assert_eq!(keys(), ["kept"]);
    }
    copy("a.jsonl", &["--filter", "._deleted != true"]).code(0);
    assert_eq!(keys(), ["kept"]);
    cli.write("b.jsonl", "{\"_id\":\"kept\",\"_deleted\":true}\n{\"_id\":\"other\",\"n\":1}\n");
    copy("b.jsonl", &["--filter", "._deleted == true", "--op", "delete"]).code(0);
    assert_eq!(keys(), [] as [&str; 0]);
}

#[test]
fn ravendb_takes_no_key_that_it_would_not_read_again() {
    let server = Server::start("ravendb");
    let bad = [("k".repeat(508), json!({"n": 1})), ("é".repeat(200), json!({"n": 2}))];
    Mixed::new(bad).copied_into(&server.url, &["RavenDB allows ids of at most 512 bytes"]);
}
