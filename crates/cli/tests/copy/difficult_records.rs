//! Records that break careless stores and drivers, copied into every store that can run here. Each record arrives or is
//! rejected with its reason, and does not affect others. `--verify` names what a store changes.

use std::collections::BTreeMap;

use crate::common::Cli;
use crate::common::copies::{count, rejects, report};
use crate::server::Server;
use serde_json::Value;
use storebench_fakes::couchbase::{Fake, FakeOptions};

/// The rows: the key as JSON, and the other members.
fn rows() -> Vec<(String, String)> {
    let mut state = 7_u64;
    let mut long = |name: &str, bytes: usize| {
        let random = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b"abcdefghijklmnopqrstuvwxyz012345"[(state >> 59) as usize])
        });
        format!("{name} {}", random.take(bytes - name.len() - 1).collect::<String>())
    };
    let n = "\"n\":1".to_owned();
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut row = |key: &str, members: &str| rows.push((Value::from(key).to_string(), members.to_owned()));
    row("fraction", "\"n\":1.0");
    row("exponent", "\"n\":1e2");
    row("negative zero", "\"n\":-0.0");
    row("huge", "\"n\":1e400");
    row("tiny", "\"n\":1e-400");
    row("beyond i64", "\"n\":18446744073709551615");
    row("beyond u64", "\"n\":12345678901234567890123");
    row("beyond double", "\"n\":9007199254740993");
    row("repeated", "\"n\":1,\"n\":2");
    row("nul text", "\"n\":\"a\\u0000b\"");
    row("nul name", "\"a\\u0000b\":1");
    row("control", "\"n\":\"\\u0001\\u001f\\u007f\"");
    row("half", "\"n\":\"\\ud800\"");
    row("pair", "\"n\":\"\\ud83d\\ude00\"");
    row("empty name", "\"\":1");
    row("dollar", "\"$a\":1,\"b.c\":2");
    row("deep 120", &format!("\"n\":{}{}", "[".repeat(119), "]".repeat(119)));
    row("deep 600", &format!("\"n\":{}{}", "[".repeat(599), "]".repeat(599)));
    row("deep objects", &format!("\"n\":{}1{}", "{\"a\":".repeat(599), "}".repeat(599)));
    row("deep 5000", &format!("\"n\":{}{}", "[".repeat(4_999), "]".repeat(4_999)));
    row("large", &format!("\"n\":\"{}\"", "x".repeat(1_000_000)));
    for bytes in [240, 500, 3_000, 70_000] {
        row(&long(&format!("key of {bytes}"), bytes), &n);
    }
    for key in
        ["a/b//c/", "..", "a b?c=d&e#f%20", "ключ 日本 😀", "nul\0key", "\u{1}\n\t\u{7f}", "_under", "$key", "'\"\\"]
    {
        row(key, &n);
    }
    row("own of CouchDB", "\"_rev\":\"1-x\",\"_b\":1");
    row("own of RavenDB", "\"@metadata\":{\"@id\":\"x\"},\"@b\":1");
    rows.push(("\"\"".into(), n.clone()));
    rows.push(("\"\\ud800\"".into(), n.clone()));
    rows.push(("\"half name\"".into(), "\"\\udc00\":1".into()));
    rows
}

/// What a store does with the rows. Rows that are not listed arrive unchanged.
#[derive(Default)]
struct Expected {
    /// A prefix of the key, and a part of the reason.
    rejected: &'static [(&'static str, &'static str)],
    /// Stored as another value: a prefix of the key, and a part of the message.
    differs: &'static [(&'static str, &'static str)],
    /// Values that are equal but written differently: how many, and a part of the message.
    changed: &'static [(u64, &'static str)],
}

const JAVASCRIPT: Expected = Expected {
    rejected: &[
        ("repeated", "two members `n`"),
        ("_under", "begin with `_`"),
        ("own of CouchDB", "`_rev`"),
        ("deep 5000", "Maximum call stack"),
    ],
    differs: &[
        ("huge", "as 1e400"),
        ("tiny", "as 1e400"),
        ("beyond i64", "more digits than a double"),
        ("beyond u64", "more digits than a double"),
        ("beyond double", "more digits than a double"),
    ],
    changed: &[(2, "1.0 to 1"), (1, "-0.0 to 0")],
};

const POSTGRES: Expected = Expected {
    rejected: &[
        ("repeated", "two members `n`"),
        ("nul text", "\\u0000"),
        ("nul name", "\\u0000"),
        ("half", "surrogate"),
        ("nul\0key", "byte 0"),
        ("key of 3000", "2,704 bytes"),
        ("key of 70000", "2,704 bytes"),
    ],
    differs: &[],
    changed: &[(1, "1.0 to 1"), (1, "-0.0 to 0")],
};

const MONGODB: Expected = Expected {
    rejected: &[
        ("repeated", "two members `n`"),
        ("huge", "too large for a double"),
        ("tiny", "too small for a double"),
        ("beyond i64", "beyond 64 bits"),
        ("beyond u64", "beyond 64 bits"),
        ("nul name", "U+0000"),
        ("half", "surrogate"),
        ("deep 600", "100 levels"),
        ("deep objects", "100 levels"),
        ("deep 5000", "100 levels"),
    ],
    differs: &[],
    changed: &[],
};

const RAVENDB: Expected = Expected {
    rejected: &[
        ("repeated", "two members `n`"),
        ("huge", "Could not parse double"),
        ("own of RavenDB", "`@metadata`"),
        ("key of 500", "at most 512 bytes"),
        ("key of 3000", "at most 512 bytes"),
        ("key of 70000", "at most 512 bytes"),
        ("deep 600", "128 levels"),
        ("deep objects", "128 levels"),
        ("deep 5000", "128 levels"),
    ],
    differs: &[("half", "surrogate")],
    changed: &[],
};

const MARIADB: Expected = Expected { rejected: &[("key of 70000", "3,072 bytes")], differs: &[], changed: &[] };

const CASSANDRA: Expected =
    Expected { rejected: &[("key of 70000", "longer than maximum of 65535")], differs: &[], changed: &[] };

const OPENSEARCH: Expected = Expected {
    rejected: &[
        ("repeated", "two members `n`"),
        ("empty name", "field name cannot be an empty string"),
        ("deep 120", "exceeded the allowed limit of [20]"),
        ("deep 600", "exceeded the allowed limit of [20]"),
        ("deep 5000", "exceeded the allowed limit of [20]"),
        ("key of 3000", "1 to 512 bytes"),
        ("key of 70000", "1 to 512 bytes"),
    ],
    differs: &[],
    changed: &[],
};

const DYNAMODB: Expected = Expected {
    rejected: &[
        ("large", "maximum allowed size"),
        ("key of 3000", "1 to 2048 bytes"),
        ("key of 70000", "1 to 2048 bytes"),
    ],
    differs: &[],
    changed: &[],
};

const COUCHBASE: Expected =
    Expected { rejected: &[("key of 500", ""), ("key of 3000", ""), ("key of 70000", "")], differs: &[], changed: &[] };

const FJALL: Expected = Expected { rejected: &[("key of 70000", "1 to 65535 bytes")], differs: &[], changed: &[] };
const EXACT: Expected = Expected { rejected: &[], differs: &[], changed: &[] };

/// Records that never reach a store: they have no key in the source, or are not JSON in Unicode.
const UNREADABLE: [&str; 3] = ["the key is empty", "UTF-8", "surrogate"];

fn copy_all(url: &str, expected: &Expected) {
    let cli = Cli::new();
    let rows = rows();
    let mut lines = String::new();
    for (number, (key, members)) in rows.iter().enumerate() {
        lines += &format!("{{\"_id\":\"good {number:02}\",\"n\":{number}}}\n{{\"_id\":{key},{members}}}\n");
    }
    cli.write("records.jsonl", &lines);
    for op in ["upsert", "insert"] {
        let place = if url.ends_with(':') { format!("{url}{op}") } else { url.to_owned() };
        let place = if url == "memory:" { url.to_owned() } else { place };
        let into = format!("records_{op}");
        let args = ["copy", "records.jsonl", &place, "--to-collection", &into, "--op", op, "--verify", "--json"];
        let done = cli.run_args(&args);
        assert_eq!(done.code, 1, "{place} {op}: {done:?}");
        let report = report(&done);
        let mut told: BTreeMap<String, String> = BTreeMap::new();
        let mut unreadable = Vec::new();
        for reject in rejects(&cli, &report) {
            let why = reject["why"].as_str().unwrap().to_owned();
            match reject["key"].as_str() {
                Some(key) => drop(told.insert(key.to_owned(), why)),
                None => unreadable.push(why),
            }
        }
        let said = format!("{place} {op}: {told:?} {}", report["verified"]);
        assert_eq!(unreadable.len(), UNREADABLE.len(), "{said}");
        assert!(UNREADABLE.iter().all(|part| unreadable.iter().any(|why| why.contains(part))), "{unreadable:?}");
        compare(&told, expected.rejected, &said);
        let differing = report["verified"]["differing"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        compare(&differing.iter().map(|d| (text(&d["key"]), text(&d["what"]))).collect(), expected.differs, &said);
        let changed = report["verified"]["changed"].as_array().unwrap();
        assert_eq!(changed.len(), expected.changed.len(), "{said}");
        for (changed, (values, part)) in changed.iter().zip(expected.changed) {
            assert_eq!(changed["values"], *values, "{said}");
            assert!(changed["what"].as_str().unwrap().contains(part), "{said}");
        }
        // All others arrived, including those next to bad ones.
        let arrived = (2 * rows.len() - unreadable.len() - expected.rejected.len()) as u64;
        assert_eq!((count(&report, "written"), &report["verified"]["found"]), (arrived, &arrived.into()), "{said}");
        assert_eq!(report["verified"]["equal"], expected.differs.is_empty(), "{said}");
    }
}

#[track_caller]
fn compare(told: &BTreeMap<String, String>, expected: &[(&str, &str)], said: &str) {
    assert_eq!(told.len(), expected.len(), "{said}");
    for (beginning, part) in expected {
        let found = told.iter().find(|(key, _)| key.starts_with(beginning));
        let Some((_, why)) = found else { panic!("{beginning} is not reported: {said}") };
        assert!(why.contains(part) && why.len() > 10, "{beginning}: {why}");
    }
}

#[test]
fn into_stores_in_this_process() {
    for (url, expected) in [("sqlite:", EXACT), ("fjall:", FJALL), ("redb:", EXACT), ("memory:", EXACT)] {
        copy_all(url, &expected);
    }
}

#[test]
fn into_redis_and_memcached() {
    for name in ["redis", "memcached"] {
        copy_all(&Server::start(name).url, &EXACT);
    }
}

#[test]
fn into_postgres() {
    copy_all(&Server::start("postgres").url, &POSTGRES);
}

#[test]
fn into_pouchdb() {
    copy_all(&Server::start("pouchdb-server").url, &JAVASCRIPT);
}

#[test]
fn into_mongodb_s_protocol() {
    copy_all(&Server::start("nx-27017").url, &MONGODB);
}

#[test]
fn into_ravendb() {
    copy_all(&Server::start("ravendb").url, &RAVENDB);
}

#[test]
fn into_couchbase_s_fake() {
    let fake = Fake::start(FakeOptions::default()).unwrap();
    copy_all(&fake.url(), &COUCHBASE);
}

/// All rows, and then the smaller ones again under other keys, as lines by key. The rows that nothing can read are left
/// out.
fn many(count: usize) -> BTreeMap<String, String> {
    let mut rows = rows();
    rows.truncate(rows.len() - UNREADABLE.len());
    let small: Vec<_> = rows.iter().filter(|(key, members)| key.len() + members.len() < 6_000).cloned().collect();
    let again = small.iter().cycle().enumerate().map(|(n, (key, members))| {
        let key = key.strip_suffix('"').unwrap();
        (format!("{key} {n:04}\""), members.clone())
    });
    let more = count - rows.len();
    let all = rows.clone().into_iter().chain(again.take(more));
    all.map(|(key, members)| (serde_json::from_str(&key).unwrap(), format!("{{\"_id\":{key},{members}}}"))).collect()
}

/// From each store to the next, and all the way back. What a store refuses does not go on, and all else stays the same.
#[test]
#[ignore = "soak: five servers, two of them on Java"]
fn soak_through_five_stores_and_back() {
    let servers = ["mariadb", "cassandra", "opensearch", "dynalite", "postgres"].map(Server::start);
    let expected = [MARIADB, CASSANDRA, OPENSEARCH, DYNAMODB, POSTGRES];
    for (server, expected) in servers.iter().zip(&expected).take(4) {
        copy_all(&server.url, expected);
    }
    let cli = Cli::new();
    let mut left = many(2_000);
    cli.write("there.jsonl", &left.values().map(|line| format!("{line}\n")).collect::<String>());
    let copy = |from: &str, to: &str, collection: &str| {
        let of: &[&str] = if from.ends_with(".jsonl") { &[] } else { &["--from-collection", collection] };
        let to_collection: &[&str] =
            if to.ends_with(".jsonl") { &["--force"] } else { &["--to-collection", collection] };
        let args = [&["copy", from, to, "--verify", "--json"], of, to_collection].concat();
        cli.run_args(&args)
    };
    let lines = |from: &str, collection: &str| {
        copy(from, "out.jsonl", collection).code(0);
        let mut lines: Vec<_> =
            std::fs::read_to_string(cli.path("out.jsonl")).unwrap().lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let mut from = "there.jsonl";
    for (server, Expected { rejected, changed, .. }) in servers.iter().zip(&expected) {
        let refusal = |key: &str| rejected.iter().find(|(beginning, _)| key.starts_with(beginning));
        let before = left.len();
        left.retain(|key, _| refusal(key).is_none());
        let done = copy(from, &server.url, "there");
        let report = report(&done);
        let told = rejects(&cli, &report);
        let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
        for reject in &told {
            let (key, why) = (reject["key"].as_str().unwrap(), reject["why"].as_str().unwrap());
            let (beginning, part) = refusal(key).unwrap_or_else(|| panic!("{}: {key}: {why}", server.url));
            assert!(why.contains(part), "{key}: {why}");
            *counted.entry(beginning).or_default() += 1;
        }
        println!("{from} → {}: {} written, refused: {counted:?}", server.url, left.len());
        assert_eq!((told.len(), count(&report, "written")), (before - left.len(), left.len() as u64), "{report}");
        assert_eq!((done.code, &report["verified"]["equal"]), (i32::from(!told.is_empty()), &true.into()), "{report}");
        assert_eq!(report["verified"]["changed"].as_array().unwrap().len(), changed.len(), "{report}");
        if changed.is_empty() {
            let mut sent: Vec<_> = left.values().cloned().collect();
            sent.sort_unstable();
            assert!(lines(&server.url, "there") == sent, "{} changed a document", server.url);
        }
        from = &server.url;
    }
    let sent = lines(from, "there");
    let mut collection = "there";
    for server in servers.iter().rev().skip(1) {
        let args = ["copy", from, &server.url, "--from-collection", collection, "--to-collection", "back", "--verify"];
        let done = cli.run_args(&[&args[..], &["--json"]].concat()).code(0);
        let verified = &report(&done)["verified"];
        assert_eq!((&verified["equal"], &verified["changed"]), (&true.into(), &Value::Array(Vec::new())), "{verified}");
        assert!(lines(&server.url, "back") == sent, "{} changed a document", server.url);
        (from, collection) = (&server.url, "back");
    }
}

#[test]
fn exports_with_members_of_a_store_go_by_the_rule_that_is_given() {
    for (name, member) in [("pouchdb-server", "_rev"), ("nx-27017", "_sb_rev"), ("ravendb", "@metadata")] {
        let (server, cli) = (Server::start(name), Cli::new());
        let export: String = (0..50)
            .map(|n| {
                format!(
                    "{{\"_id\":\"k{n:02}\",\"n\":{n}{}}}\n",
                    if n % 5 == 0 { format!(",\"{member}\":{{}}") } else { String::new() }
                )
            })
            .collect();
        cli.write("export.jsonl", &export);
        let run = |rule: &[&str], collection: &str| {
            let args = ["copy", "export.jsonl", &server.url, "--to-collection", collection, "--verify"];
            cli.run_args(&[&args[..], rule].concat())
        };
        let done = run(&["--json"], "rejected").code(1);
        assert_eq!((count(&report(&done), "written"), count(&report(&done), "rejected")), (40, 10), "{name}");
        let rejected = rejects(&cli, &report(&done));
        assert!(rejected.iter().all(|r| r["why"].as_str().unwrap().contains("--own-members drop")), "{rejected:?}");
        let done = run(&["--own-members", "drop"], "dropped").code(0);
        assert!(done.out.contains("members reserved by the target were left out of 10 documents"), "{}", done.out);
        // The driver refuses members that would change the document.
        let done = run(&["--own-members", "keep", "--json"], "kept").code(1);
        assert_eq!((count(&report(&done), "written"), count(&report(&done), "rejected")), (40, 10), "{name}: {done:?}");
    }
}
