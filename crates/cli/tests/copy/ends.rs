//! `copy` between files and real servers: killed, interrupted and resumed.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::Cli;
use crate::common::copies::{begin, by_key, count, documents, log_lines, report};
use crate::server::Server;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use storebench_fakes::couchbase::{Fake, FakeOptions};

/// Kills a copy with SIGKILL, once `parts` parts are done and the time `then` has passed.
fn kill_after(cli: &Cli, mut copy: Child, parts: usize, then: Duration) {
    let begun = Instant::now();
    while log_lines(cli) < parts + 1 && copy.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(120), "the copy does not get on");
        std::thread::sleep(Duration::from_micros(500));
    }
    std::thread::sleep(then);
    let _ = copy.kill();
    copy.wait().unwrap();
}

/// Random moments, from a seed.
struct Moments(u64);

impl Moments {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// Kills a copy at random moments up to so many microseconds after some of its parts are done, and resumes it. If it ends
/// before it is killed, begins another.
fn killed_often(cli: &Cli, common: &[&str], seed: u64, below_us: u64, kills: usize) {
    let (mut moments, mut landed, mut begun) = (Moments(seed), 0, 0);
    while landed < kills {
        begun += 1;
        assert!(begun <= 4 * kills, "only {landed} kills came before the end");
        let mut args = common.to_vec();
        if log_lines(cli) > 0 {
            args.push("--resume");
        } else if cli.path("out.jsonl").exists() {
            std::fs::remove_file(cli.path("out.jsonl")).unwrap();
        }
        let copy = begin(cli, &args);
        let parts = log_lines(cli).saturating_sub(1) + moments.next(2) as usize;
        kill_after(cli, copy, parts, Duration::from_micros(moments.next(below_us)));
        landed += usize::from(log_lines(cli) > 0);
    }
    println!("{common:?}: {landed} of {begun} copies were killed, seed {seed}");
}

/// Kills a copy into a store at random moments, resumes it each time, and checks the store.
fn killed_into(url: &str, documents: usize, seed: u64, kills: usize) {
    let cli = Cli::new();
    cli.write("books.jsonl", &self::documents(documents));
    killed_often(&cli, &["copy", "books.jsonl", url, "--verify", "-p", "2"], seed, 60_000, kills);
    let done = cli.run_args(&["copy", "books.jsonl", url, "--verify", "--resume", "-p", "2", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    let report = report(&done);
    assert_eq!((count(&report, "written"), count(&report, "rejected")), (documents as u64, 0));
    assert_eq!(report["verified"]["equal"], true);
    // Read in another way than --verify does.
    let done = cli.run_args(&["copy", url, "all.jsonl", "--from-collection", "books", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(by_key(&cli.path("all.jsonl")), by_key(&cli.path("books.jsonl")));
}

/// Kills a copy out of a store at random moments, resumes it each time, and checks the file.
fn killed_out_of(url: &str, documents: usize, seed: u64, kills: usize) {
    let cli = Cli::new();
    cli.write("books.jsonl", &self::documents(documents));
    let done = cli.run_args(&["copy", "books.jsonl", url, "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    let common = ["copy", url, "out.jsonl", "--from-collection", "books", "--verify", "-p", "2"];
    killed_often(&cli, &common, seed, 40_000, kills);
    let done = cli.run_args(&[&common[..], &["--resume", "--json"]].concat());
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(report(&done)["verified"]["equal"], true);
    assert_eq!(by_key(&cli.path("out.jsonl")), by_key(&cli.path("books.jsonl")));
    let left: Vec<_> = std::fs::read_dir(cli.folder.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "books.jsonl, out.jsonl and storebench-runs: {left:?}");
}

#[test]
fn a_copy_into_postgres_that_is_killed_goes_on() {
    let server = Server::start("postgres");
    killed_into(&server.url, 20_000, 41, 1);
}

#[test]
fn a_copy_out_of_postgres_that_is_killed_goes_on() {
    let server = Server::start("postgres");
    killed_out_of(&server.url, 20_000, 42, 1);
}

#[test]
fn a_copy_into_ravendb_that_is_killed_goes_on() {
    let server = Server::start("ravendb");
    killed_into(&server.url, 8_000, 43, 1);
}

#[test]
fn a_copy_into_couchdb_that_is_killed_goes_on() {
    let server = Server::start("pouchdb-server");
    killed_into(&server.url, 6_000, 44, 1);
}

/// Kills copies into a store, and then copies out of it.
fn killed_both_ways(name: &'static str, documents: usize, seed: u64, kills: usize) -> Server {
    let server = Server::start(name);
    killed_into(&server.url, documents, seed, kills);
    killed_out_of(&server.url, documents, seed + 1, kills);
    server
}

#[test]
fn copies_into_and_out_of_mariadb_that_are_killed_go_on() {
    drop(killed_both_ways("mariadb", 20_000, 45, 2));
}

#[test]
fn copies_into_and_out_of_opensearch_that_are_killed_go_on() {
    let server = killed_both_ways("opensearch", 8_000, 47, 2);
    keys_that_two_indexes_of_an_alias_hold_are_counted(&server);
}

fn keys_that_two_indexes_of_an_alias_hold_are_counted(server: &Server) {
    for index in ["one", "two"] {
        for (method, path, body) in [
            ("PUT", format!("{index}/_doc/k?refresh=true"), format!(r#"{{"in":"{index}"}}"#)),
            ("PUT", format!("{index}/_alias/both"), String::new()),
        ] {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
            let length = body.len();
            let head = "Host: x\r\nConnection: close\r\nContent-Type: application/json\r\n";
            write!(stream, "{method} /{path} HTTP/1.1\r\n{head}Content-Length: {length}\r\n\r\n{body}").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
        }
    }
    let cli = Cli::new();
    let to = format!("sqlite:{}", cli.path("both.db").display());
    let done = cli.run_args(&["copy", &server.url, &to, "--from-collection", "both"]).code(0);
    assert!(done.out.contains("1 record repeats an earlier key"), "{done:?}");
}

#[test]
fn copies_into_and_out_of_cassandra_that_are_killed_go_on() {
    drop(killed_both_ways("cassandra", 8_000, 49, 2));
}

#[test]
fn copies_into_and_out_of_dynamodb_that_are_killed_go_on() {
    drop(killed_both_ways("dynalite", 4_000, 55, 2));
}

#[test]
#[ignore = "soak: ten kills each way of 200,000 documents"]
fn soak_ten_kills_into_and_out_of_mariadb() {
    drop(killed_both_ways("mariadb", 200_000, 61, 10));
}

#[test]
#[ignore = "soak: ten kills each way of 100,000 documents"]
fn soak_ten_kills_into_and_out_of_opensearch() {
    drop(killed_both_ways("opensearch", 100_000, 63, 10));
}

#[test]
#[ignore = "soak: ten kills each way of 60,000 documents"]
fn soak_ten_kills_into_and_out_of_cassandra() {
    drop(killed_both_ways("cassandra", 60_000, 65, 10));
}

#[test]
#[ignore = "soak: ten kills each way of 20,000 documents"]
fn soak_ten_kills_into_and_out_of_dynamodb() {
    drop(killed_both_ways("dynalite", 20_000, 67, 10));
}

#[test]
#[ignore = "soak: ten kills of 200,000 documents"]
fn soak_ten_kills_into_postgres() {
    let server = Server::start("postgres");
    killed_into(&server.url, 200_000, 51, 10);
}

#[test]
#[ignore = "soak: ten kills of 200,000 documents"]
fn soak_ten_kills_out_of_postgres() {
    let server = Server::start("postgres");
    killed_out_of(&server.url, 200_000, 52, 10);
}

#[test]
#[ignore = "soak: ten kills of 50,000 documents"]
fn soak_ten_kills_into_ravendb() {
    let server = Server::start("ravendb");
    killed_into(&server.url, 50_000, 53, 10);
}

#[test]
#[ignore = "soak: ten kills of 30,000 documents"]
fn soak_ten_kills_into_couchdb() {
    let server = Server::start("pouchdb-server");
    killed_into(&server.url, 30_000, 54, 10);
}

#[test]
fn three_kinds_of_store_copy_into_each_other() {
    let (postgres, couchdb) = (Server::start("postgres"), Server::start("pouchdb-server"));
    let stores = ["sqlite:books.db", &postgres.url, &couchdb.url];
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(1_500));
    for (n, from) in stores.iter().enumerate() {
        let done = cli.run_args(&["copy", "books.jsonl", from, "--to-collection", "first", "--verify"]);
        assert_eq!(done.code, 0, "{done:?}");
        for (m, to) in stores.iter().enumerate().filter(|(m, _)| *m != n) {
            let name = format!("from-{n}-to-{m}");
            // pouchdb-server is slow to split into key ranges.
            let ends = ["copy", from, to, "--from-collection", "first", "--to-collection", &name, "-p", "1"];
            let args = [&ends[..], &["--verify", "--json"]].concat();
            let done = cli.run_args(&args);
            assert_eq!(done.code, 0, "{done:?}");
            let report = report(&done);
            assert_eq!((count(&report, "written"), &report["verified"]["equal"]), (1_500, &Value::Bool(true)));
            let done = cli.run_args(&["copy", to, "back.jsonl", "--force", "--from-collection", &name, "-p", "1"]);
            assert_eq!(done.code, 0, "{done:?}");
            assert_eq!(by_key(&cli.path("back.jsonl")), by_key(&cli.path("books.jsonl")), "{from} → {to}");
        }
    }
}

#[test]
fn every_store_gives_back_what_it_was_given() {
    let (mongodb, couchbase) = (Server::start("nx-27017"), Fake::start(FakeOptions::default()).unwrap());
    let (mongodb, couchbase) = (format!("{}/shop", mongodb.url), couchbase.url());
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(1_200));
    for url in [mongodb.as_str(), "fjall:f", "redb:books.redb", &couchbase] {
        let done = cli.run_args(&["copy", "books.jsonl", url, "--verify", "-p", "2", "--json"]);
        assert_eq!(done.code, 0, "{url}: {done:?}");
        assert_eq!(report(&done)["verified"]["equal"], true, "{url}");
        let out = ["copy", url, "back.jsonl", "--force", "--from-collection", "books", "--verify", "-p", "2", "--json"];
        let done = cli.run_args(&out);
        assert_eq!((done.code, count(&report(&done), "written")), (0, 1_200), "{url}: {done:?}");
        assert_eq!(by_key(&cli.path("back.jsonl")), by_key(&cli.path("books.jsonl")), "{url}");
        let again = cli.run_args(&["copy", "books.jsonl", url, "--op", "insert", "--verify", "--json"]);
        assert_eq!((again.code, count(&report(&again), "there_already")), (0, 1_200), "{url}: {again:?}");
    }
}

#[test]
fn memcached_is_written_and_says_that_it_lists_no_keys() {
    let server = Server::start("memcached");
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(1_200));
    let done = cli.run_args(&["copy", "books.jsonl", &server.url, "--verify", "-p", "2", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(report(&done)["verified"]["equal"], true);
    let out = cli.run_args(&["copy", &server.url, "back.jsonl", "--from-collection", "books"]);
    assert!(out.code == 2 && out.err.contains("cannot do `scan`"), "{out:?}");
}

#[test]
fn rejects_are_written_down_and_decide_the_exit_code() {
    let cli = Cli::new();
    cli.write("books.jsonl", &format!("{}{{\"_id\":\n{}", documents(10), documents(12)));
    let done = cli.run("copy books.jsonl sqlite:b.db --quiet");
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.out.contains("read 23 · written 22 · rejected 1"), "{done:?}");
    let path = done.out.lines().find_map(|line| line.strip_prefix("all rejected records, with reasons: ")).unwrap();
    let reject: Value = serde_json::from_str(std::fs::read_to_string(cli.path(path)).unwrap().trim()).unwrap();
    assert_eq!(reject["from"], "books.jsonl, line 11");
    assert_eq!(cli.run("copy books.jsonl sqlite:b.db --quiet --max-errors 1").code, 0);
}

#[test]
fn an_interrupted_copy_says_how_to_go_on() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(20_000));
    let copy = cli
        .command(&["copy", "books.jsonl", "sqlite:b.db", "--rate-docs", "8000", "-p", "2", "--rejects", "bad.jsonl"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while log_lines(&cli) < 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The running copy holds the lock.
    let busy = cli.run("copy books.jsonl sqlite:b.db -p 2 --rejects bad.jsonl --resume");
    assert_eq!(busy.code, 2, "{busy:?}");
    assert!(busy.err.contains("already running"), "{busy:?}");
    kill_process(Pid::from_child(&copy), Signal::INT).unwrap();
    let output = copy.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{out}");
    assert!(out.contains("interrupted") && out.contains("--resume"), "{out}");
    let fresh = cli.run("copy books.jsonl sqlite:b.db -p 2 --rejects bad.jsonl");
    assert_eq!(fresh.code, 2, "{fresh:?}");
    assert!(fresh.err.contains("--resume") && fresh.err.contains("--restart"), "{fresh:?}");
    // What is refused gives nothing up: the copy below still resumes.
    let written = log_lines(&cli);
    cli.write("bad.jsonl", "{}\n");
    let refused = cli.run("copy books.jsonl sqlite:b.db -p 2 --rejects bad.jsonl --restart");
    assert!(refused.code == 2 && refused.err.contains("bad.jsonl exists"), "{refused:?}");
    assert_eq!(log_lines(&cli), written);
    // `copy-YYYYMMDD-HHMMSS-ID`; earlier versions wrote `copy-ID-SECONDS`, and resume all the same.
    let found = std::fs::read_dir(cli.path("storebench-runs")).unwrap().next().unwrap().unwrap().path();
    let name = found.file_name().unwrap().to_str().unwrap();
    let parts: Vec<&str> = name.split('-').collect();
    assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [4, 8, 6, 16], "{name}");
    let folder = found.with_file_name(format!("copy-{}-1795000000", parts[3]));
    std::fs::rename(&found, &folder).unwrap();
    let done = cli.run("copy books.jsonl sqlite:b.db -p 2 --rejects bad.jsonl --resume --json");
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(count(&report(&done), "written"), 20_000);
    // Each process measured its own part.
    let documents = |run: &str| {
        let run: Value = serde_json::from_slice(&std::fs::read(folder.join(run)).unwrap()).unwrap();
        let ops = run["trials"][0]["phases"][0]["ops"].clone();
        ops["bulk-upsert"]["documents"].as_u64().unwrap()
    };
    let (first, second) = (documents("run.json"), documents("resumed-1/run.json"));
    // Unfinished parts are written again.
    assert!(first > 0 && second > 0 && first + second >= 20_000, "{first} {second}");
}

#[test]
fn standard_streams_are_ends_too() {
    let cli = Cli::new();
    let text = documents(3_000);
    let mut copy = cli
        .command(&["copy", "-", "sqlite:b.db", "--to-collection", "books", "--quiet"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    copy.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(copy.wait().unwrap().success());
    let done = cli.run("copy sqlite:b.db - --from-collection books --quiet");
    assert_eq!(done.code, 0, "{done:?}");
    let mut lines: Vec<&str> = done.out.lines().collect();
    lines.sort_unstable();
    assert!(lines == text.lines().collect::<Vec<_>>(), "{} lines", lines.len());
}

#[test]
fn standard_input_becomes_a_table_with_every_row() {
    let cli = Cli::new();
    let text: String = (0..25_000).map(|n| format!("{{\"_id\":\"k{n:06}\",\"n\":{n}}}\n")).collect();
    for name in ["all.csv", "all.parquet", "all.arrow"] {
        let mut copy =
            cli.command(&["copy", "-", name, "--quiet"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        copy.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(copy.wait().unwrap().success(), "{name}");
        let back = cli.run(&format!("copy {name} null: --to-collection x --json"));
        assert_eq!(count(&report(&back), "written"), 25_000, "{name}");
    }
}

#[test]
fn what_cannot_be_copied_is_told_before_anything_is_written() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(3));
    for (words, part) in [
        ("copy nothing.jsonl sqlite:b.db", "nothing.jsonl"),
        ("copy none-*.jsonl sqlite:b.db", "no file matches"),
        ("copy ftp://h/x sqlite:b.db", "ftp://"),
        ("copy - sqlite:b.db", "--to-collection"),
        ("copy books.jsonl sqlite:b.db --key {a", "`{` without `}`"),
        ("copy books.jsonl out.jsonl --op insert", "needs a store"),
        ("copy books.jsonl sqlite:b.db --durability majority", "cannot guarantee durability"),
        ("copy books.jsonl sqlite:b.db --op append --verify", "cannot be verified"),
        ("copy books.jsonl sqlite:b.db --from-key id", "--from-key needs a store"),
    ] {
        let done = cli.run(words);
        assert_eq!(done.code, 2, "{words}: {done:?}");
        assert!(done.err.contains(part) && done.out.is_empty(), "{words}: {done:?}");
    }
    assert_eq!(cli.run("copy books.jsonl redis://127.0.0.1:1 --op upsert").code, 3);
}

#[test]
fn a_dry_run_writes_nothing() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(3));
    let done = cli.run("copy books.jsonl sqlite:b.db --dry-run");
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("nothing was written") && !cli.path("b.db").exists(), "{done:?}");
}

/// Sends an HTTP request to CouchDB, and returns the answer.
fn couch(port: u16, method: &str, path: &str, body: &str) -> String {
    use std::io::Read as _;

    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let length = body.len();
    let head = "Host: h\r\nContent-Type: application/json\r\nConnection: close";
    write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
    answer
}

#[test]
fn a_view_is_read_by_keys_and_ranges_of_somebody_s_database() {
    let server = Server::start("pouchdb-server");
    couch(server.port, "PUT", "/visits", "");
    let map = "function (doc) { emit([doc.day, doc.hour], null); }";
    let design = serde_json::json!({"views": {"hour": {"map": map}}}).to_string();
    couch(server.port, "PUT", "/visits/_design/by", &design);
    let documents: Vec<Value> = (0..2_400)
        .map(|n| {
            serde_json::json!({
                "_id": format!("v{n:04}"), "day": format!("2014040{}", 1 + n % 2), "hour": format!("{:02}", n / 2 % 24), "n": n,
            })
        })
        .collect();
    couch(server.port, "POST", "/visits/_bulk_docs", &serde_json::json!({"docs": documents}).to_string());
    let cli = Cli::new();
    // 40 keys: the hours 0 to 19 of two days, 50 documents each.
    let keys = r#"["20140401",((00-19))];["20140402",((00-19))]"#;
    let view = ["copy", &server.url, "v.jsonl", "--from-collection", "visits", "--view", "by/hour", "--keys", keys];
    let done = cli.run_args(&[&view[..], &["-p", "4", "--verify", "--json"]].concat());
    assert_eq!(done.code, 0, "{done:?}");
    let report = report(&done);
    assert_eq!((count(&report, "written"), report["splits"].as_u64()), (2_000, Some(40)));
    let wanted: BTreeMap<String, Value> = documents
        .into_iter()
        .filter(|document| document["hour"].as_str().unwrap() < "20")
        .map(|document| (document["_id"].as_str().unwrap().to_owned(), document))
        .collect();
    assert_eq!(by_key(&cli.path("v.jsonl")), wanted);
    let wrong = cli.run("copy memory: v.jsonl --from-collection a --view by/hour");
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.err.contains("cannot do `view`"), "{wrong:?}");
}

/// Into an empty collection, documents are inserted, which is faster. Repeated keys overwrite the earlier documents.
#[test]
fn keys_that_come_twice_are_written_over_in_a_fresh_collection() {
    let cli = Cli::new();
    let twice: String =
        (0..3_000).map(|n| format!("{{\"_id\":\"k{:04}\",\"n\":{}}}\n", n % 2_500, n / 2_500)).collect();
    cli.write("books.jsonl", &twice);
    for name in ["postgres", "pouchdb-server", "nx-27017"] {
        let server = Server::start(name);
        let url = if name == "nx-27017" { format!("{}/shop", server.url) } else { server.url.clone() };
        for _ in 0..2 {
            let args = ["copy", "books.jsonl", &url, "-p", "1", "--in-flight", "1", "--verify", "--json"];
            let report = report(&cli.run_args(&args).code(0));
            assert_eq!((count(&report, "written"), count(&report, "rejected")), (3_000, 0), "{name}: {report}");
            assert_eq!(report["verified"]["equal"], true, "{name}: {report}");
        }
        let _ = std::fs::remove_file(cli.path("out.jsonl"));
        cli.run_args(&["copy", &url, "out.jsonl", "--from-collection", "books"]).code(0);
        let all = by_key(&cli.path("out.jsonl"));
        // The later of two documents is kept.
        let right = |key: &str, document: &Value| document["n"] == u64::from(key < "k0500");
        assert!(all.len() == 2_500 && all.iter().all(|(key, document)| right(key, document)), "{name}");
    }
}
