//! The founding studies, and the one for every store, on the servers of the tests: as they stand, or with the flags that
//! a refusal names.

use std::time::Instant;

use storebench_fakes::couchbase::{Fake, FakeOptions};

use crate::common::{Cli, Done};
use crate::server::Server;

const EVERY_STORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/examples/every-store.toml");

/// What makes a laptop preset small: seconds instead of minutes, also on stand-ins that take some ms for each document.
const SMALL: [(&str, &[&str]); 7] = [
    ("first-look", &["scale=0.005", "phases.load.batch=50", "phases.mixed.duration=200ms"]),
    (
        EVERY_STORE,
        &["scale=0.005", "phases.load.batch=50", "phases.mixed.duration=200ms", "phases.steady.duration=200ms"],
    ),
    (
        "bulk-insert",
        &[
            "scale=0.005",
            "collections.inserted.count=5_000",
            "phases.read.operations=100",
            "phases.query.operations=20",
            "phases.insert.settle=0s",
            "factors={ \"phases.insert.batch\" = [1_000, 10], \"phases.insert.workers\" = [2, 4] }",
        ],
    ),
    (
        "parallel-transfer",
        &["scale=0.0001", "factors={ \"phases.import.tasks\" = [1, 2], \"phases.export.tasks\" = [1, 2] }"],
    ),
    (
        "million-writes",
        &[
            "scale=0.000005",
            "phases.overwrite.duration=200ms",
            "phases.overwrite.settle=0s",
            "phases.steady.duration=200ms",
            "search.to=4_000",
            "search.rest=0s",
            "factors={ \"collections.items.compress_to\" = [0.5] }",
        ],
    ),
    (
        "one-setting",
        &[
            "scale=0.0002",
            "phases.load.batch=50",
            "phases.random-first.duration=200ms",
            "phases.random.duration=200ms",
            "phases.sequential.duration=200ms",
            "phases.overwrite.duration=200ms",
            "phases.mixed.duration=200ms",
            "phases.load.settle=0s",
            "phases.overwrite.settle=0s",
        ],
    ),
    (
        "reading-list",
        &[
            "scale=0.000005",
            "phases.load.batch=50",
            "phases.first-reads.connections=4",
            "phases.by-key.connections=4",
            "phases.by-user.connections=4",
            "phases.in-book.connections=4",
            "phases.first-reads.duration=200ms",
            "phases.by-key.duration=200ms",
            "phases.by-user.duration=200ms",
            "phases.in-book.duration=200ms",
            "phases.load.settle=0s",
            "factors={ \"phases.*.rate\" = [100] }",
        ],
    ),
];

/// In place of flags: the server of the tests, a stand-in, cannot do the study.
const NOT_HERE: &str = "not here";

/// Runs a study. If it is refused, runs it again with the flag that the refusal names, until it runs. Gives the flags.
fn with_advice(cli: &Cli, study: &str, url: &str, more: &[&str]) -> (Done, Vec<String>) {
    let mut flags: Vec<String> = Vec::new();
    for _ in 0..3 {
        let mut args = vec!["run", study, "--store", url, "--quiet"];
        args.extend(more);
        args.extend(flags.iter().map(String::as_str));
        let done = cli.run_args(&args);
        if done.code != 2 {
            return (done, flags);
        }
        let advice = advised(&done.err).unwrap_or_else(|| panic!("{study} on {url}: no flag is named: {}", done.err));
        assert!(!flags.contains(&advice[0]), "{study} on {url}: the advice did not help: {}", done.err);
        flags.extend(advice);
    }
    panic!("{study} on {url}: refused with {flags:?}")
}

/// The flag that a refusal names, with its value.
fn advised(refusal: &str) -> Option<Vec<String>> {
    if refusal.contains("--skip-unsupported") {
        return Some(vec!["--skip-unsupported".to_owned()]);
    }
    let (_, rest) = refusal.split_once("--durability '")?;
    Some(vec!["--durability".to_owned(), rest.split('\'').next()?.to_owned()])
}

/// Asserts that every phase of every trial ran, and that what was left out is named in the first sentences.
fn ran(cli: &Cli, done: &Done, study: &str, url: &str, flags: &[String]) {
    let at = format!("{study} on {url} with {flags:?}");
    assert!(matches!(done.code, 0 | 4), "{at}: exit {}\n{}", done.code, done.err);
    let text = std::fs::read_to_string(cli.run_folder().join("run.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    for trial in result["trials"].as_array().unwrap() {
        assert!(trial["failure"].is_null(), "{at}: {}", trial["failure"]);
        for phase in trial["phases"].as_array().unwrap() {
            assert!(phase["partial"].is_null(), "{at}: {}", phase["partial"]);
            let errors =
                phase["ops"].as_object().unwrap().values().map(|op| op["errors"].as_u64().unwrap()).sum::<u64>();
            assert_eq!(errors, 0, "{at}: {}", phase["messages"]);
        }
    }
    let left_out = flags.contains(&"--skip-unsupported".to_owned());
    assert_eq!(words(&done.out).contains("Left out on "), left_out, "{at}: {}", done.out);
}

/// Text without line breaks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs the small laptop presets. `flags` gives those that each refused study needs.
fn all_run(url: &str, flags: &[(&str, &str)]) {
    for (study, settings) in SMALL {
        let expected = flags.iter().find(|(of, _)| *of == study).map_or("", |(_, flags)| flags);
        if expected == NOT_HERE {
            println!("skipped: {study} on {url}, which the server of the tests cannot do");
            continue;
        }
        let cli = Cli::in_memory();
        let mut more = vec!["--set", "repeats=1"];
        if study != "first-look" && study != EVERY_STORE {
            more.extend(["--preset", "laptop"]);
        }
        for setting in settings {
            match setting.strip_prefix("scale=") {
                Some(scale) => more.extend(["--scale", scale]),
                None => more.extend(["--set", setting]),
            }
        }
        let (done, needed) = with_advice(&cli, study, url, &more);
        assert_eq!(needed.join(" "), expected, "{study} on {url}");
        ran(&cli, &done, study, url, &needed);
    }
}

#[test]
fn the_founding_studies_run_on_postgres() {
    all_run(&Server::start("postgres").url, &[]);
}

#[test]
fn the_founding_studies_run_on_ravendb() {
    all_run(&Server::start("ravendb").url, &[]);
}

#[test]
fn the_founding_studies_run_on_couchbase() {
    let fake = Fake::start(FakeOptions::default()).unwrap();
    all_run(&fake.url(), &[]);
}

#[test]
fn the_founding_studies_run_on_mongodb() {
    // The server of the tests has no collections with hyphens in their names, such as `users-books`.
    all_run(&Server::start("nx-27017").url, &[("reading-list", NOT_HERE)]);
}

#[test]
fn the_founding_studies_run_on_ferretdb() {
    // With as many operations at once as the others send, it stands still.
    let others = ["first-look", EVERY_STORE, "million-writes", "reading-list"].map(|study| (study, NOT_HERE));
    all_run(&Server::start("ferretdb").url, &others);
}

#[test]
fn the_founding_studies_run_on_couchdb() {
    // The server of the tests does not sync.
    all_run(&Server::start("pouchdb-server").url, &[("bulk-insert", "--durability os")]);
}

#[test]
fn the_founding_studies_run_on_redis() {
    let server = Server::start_with("redis", &["--option", "appendonly yes", "--option", "appendfsync always"]);
    let indexes = "--skip-unsupported";
    all_run(&server.url, &[("bulk-insert", indexes), ("reading-list", indexes)]);
}

#[test]
fn the_founding_studies_run_on_mariadb() {
    all_run(&Server::start("mariadb").url, &[]);
}

#[test]
fn the_founding_studies_run_on_opensearch() {
    all_run(&Server::start("opensearch").url, &[]);
}

/// The flags that a store needs that syncs no write before it acknowledges it, and that has no order of keys.
const NOT_SYNCED_NOR_ORDERED: [(&str, &str); 6] = [
    ("first-look", "--durability none"),
    ("bulk-insert", "--durability none"),
    ("parallel-transfer", "--durability none"),
    ("million-writes", "--durability none"),
    ("one-setting", "--durability none"),
    ("reading-list", "--skip-unsupported --durability none"),
];

#[test]
fn the_founding_studies_run_on_cassandra() {
    // As shipped, it acknowledges writes before it syncs its log.
    all_run(&Server::start("cassandra").url, &NOT_SYNCED_NOR_ORDERED);
}

#[test]
fn the_founding_studies_run_on_dynamodb() {
    // What the server of the tests promises is not known.
    all_run(&Server::start("dynalite").url, &NOT_SYNCED_NOR_ORDERED);
}

#[test]
fn the_founding_studies_run_on_a_store_without_disk_or_lists() {
    let both = "--skip-unsupported --durability none";
    let none = "--durability none";
    all_run(
        &Server::start("memcached").url,
        &[
            ("first-look", none),
            ("bulk-insert", both),
            ("parallel-transfer", both),
            ("million-writes", none),
            ("one-setting", none),
            ("reading-list", both),
        ],
    );
}

/// A plan asks no server, so it takes the settings of one at their strongest.
#[test]
fn a_plan_refuses_no_guarantee_that_a_server_may_give() {
    for url in ["postgres://h/d", "mysql://h/d", "redis://h", "opensearch://h", "cassandra://h", "couchdb://h"] {
        Cli::in_memory().run(&format!("plan bulk-insert --store {url} --skip-unsupported")).code(0);
    }
    for url in ["postgres://h/d", "redis://h", "cassandra://h"] {
        Cli::in_memory().run(&format!("plan million-writes --store {url}")).code(0);
    }
}

#[test]
fn a_run_with_parts_left_out_is_resumed_as_such_and_is_complete_without_them() {
    let server = Server::start("redis");
    let cli = Cli::in_memory();
    let study = format!("{}/../../studies/examples/own-documents.toml", env!("CARGO_MANIFEST_DIR"));
    let run = |more: &[&str]| {
        let set = "phases.use.duration=200ms";
        cli.run_args(&[&["run", &study, "--store", &server.url, "--quiet", "--set", set], more].concat())
    };
    let done = run(&["--skip-unsupported"]);
    ran(&cli, &done, "own-documents", &server.url, &["--skip-unsupported".to_owned()]);
    let folder = cli.run_folder();
    let folder = folder.to_str().unwrap();
    let again = run(&["--skip-unsupported", "--resume", folder]).code(2);
    assert!(again.err.contains("all trials are complete"), "{}", again.err);
    let other = run(&["--resume", folder]).code(2);
    assert!(other.err.contains("--skip-unsupported"), "{}", other.err);
}

/// Runs the whole laptop presets, but for those that the server of the tests cannot do.
fn all_run_whole(url: &str, not_here: &[&str]) {
    for study in ["parallel-transfer", "million-writes", "one-setting", "bulk-insert", "reading-list"] {
        if not_here.contains(&study) {
            println!("soak: {study} left out: the server of the tests cannot do it");
            continue;
        }
        let (cli, began) = (Cli::new(), Instant::now());
        let (done, flags) = with_advice(&cli, study, url, &["--preset", "laptop"]);
        // The title and the question, and then the answer.
        let answer = done.out.split("\n\n").nth(1).unwrap_or_default();
        let (code, seconds, flags_given) = (done.code, began.elapsed().as_secs(), flags.join(" "));
        println!("soak: {study} {flags_given}: exit {code} in {seconds} s: {}", words(answer));
        ran(&cli, &done, study, url, &flags);
    }
}

#[test]
#[ignore = "soak: the whole laptop presets"]
fn soak_on_postgres() {
    all_run_whole(&Server::start("postgres").url, &[]);
}

#[test]
#[ignore = "soak: the whole laptop presets"]
fn soak_on_ravendb() {
    all_run_whole(&Server::start("ravendb").url, &[]);
}

#[test]
#[ignore = "soak: the whole laptop presets"]
fn soak_on_redis() {
    let server = Server::start_with("redis", &["--option", "appendonly yes", "--option", "appendfsync always"]);
    all_run_whole(&server.url, &[]);
}

#[test]
#[ignore = "soak: the whole laptop presets"]
fn soak_on_couchbase() {
    all_run_whole(&Fake::start(FakeOptions::default()).unwrap().url(), &[]);
}

#[test]
#[ignore = "soak: the whole laptop presets"]
fn soak_on_mongodb() {
    all_run_whole(&Server::start("nx-27017").url, &["reading-list"]);
}

#[test]
#[ignore = "soak: the whole laptop presets"]
fn soak_on_couchdb() {
    // Readers at 250/s leave the server of the tests without an answer for more than a minute, into the next trial.
    all_run_whole(&Server::start("pouchdb-server").url, &["reading-list"]);
}

#[test]
#[ignore = "soak: the whole laptop presets"]
fn soak_on_mariadb() {
    all_run_whole(&Server::start("mariadb").url, &[]);
}

#[test]
#[ignore = "soak: the whole laptop presets"]
fn soak_on_opensearch() {
    all_run_whole(&Server::start("opensearch").url, &[]);
}

#[test]
#[ignore = "soak: the whole laptop presets"]
fn soak_on_cassandra() {
    // With half of this heap, the server ended during `parallel-transfer`.
    let server = Server::start_with("cassandra", &["--option", "commitlog_sync: batch", "--option=-Xmx1g"]);
    all_run_whole(&server.url, &[]);
}

#[test]
#[ignore = "soak: the whole laptop presets"]
fn soak_on_dynamodb() {
    all_run_whole(&Server::start("dynalite").url, &[]);
}
