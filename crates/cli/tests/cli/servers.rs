//! Runs one study unchanged on every store. Passwords appear nowhere, and somebody else's data stays untouched.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::common::{Cli, Done, holding};
use crate::server::Server;
use storebench_fakes::couchbase::{Fake, FakeOptions};

fn study() -> String {
    format!("{}/../../studies/examples/every-store.toml", env!("CARGO_MANIFEST_DIR"))
}

/// Runs the study at a small scale on one store.
fn run(cli: &Cli, url: &str, more: &[&str]) -> Done {
    let study = study();
    let mut args = vec!["run", &study, "--store", url, "--scale", "0.005", "--json", "--out", "runs"];
    args.extend(["--set", "phases.mixed.duration=500ms", "--set", "phases.steady.duration=500ms"]);
    args.extend(more);
    cli.run_args(&args)
}

/// Asserts that the study ran completely: every phase did its work, and no operation failed.
fn ran_whole(done: &Done, store: &str) {
    done.assert_measured();
    let result: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    let phases = result["trials"][0]["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 3, "{store}: {}", done.err);
    for operation in phases.iter().flat_map(|phase| phase["ops"].as_object().unwrap()) {
        let figure = |name: &str| operation.1[name].as_u64().unwrap();
        assert!(figure("succeeded") > 0, "{store}: did nothing: {operation:?}");
        assert_eq!((figure("errors"), figure("misses"), figure("wrong")), (0, 0, 0), "{store}: {operation:?}");
    }
    println!("{store}: exit {}", done.code);
}

macro_rules! the_study_runs {
    ($($test:ident: $server:literal;)*) => {$(
        #[test]
        fn $test() {
            let server = Server::start($server);
            let cli = Cli::new();
            ran_whole(&run(&cli, &server.url, &[]), $server);
        }
    )*};
}

the_study_runs! {
    the_study_runs_on_postgres: "postgres";
    the_study_runs_on_redis: "redis";
    the_study_runs_on_a_redis_cluster: "redis-cluster";
    the_study_runs_on_memcached: "memcached";
    the_study_runs_on_mongodb: "nx-27017";
    the_study_runs_on_couchdb: "pouchdb-server";
    the_study_runs_on_ravendb: "ravendb";
}

#[test]
fn the_study_runs_on_embedded_stores() {
    for url in ["sqlite:every.db", "fjall:every.fjall", "redb:every.redb", "memory:"] {
        ran_whole(&run(&Cli::new(), url, &[]), url);
    }
}

#[test]
fn the_study_runs_on_couchbase() {
    let fake = Fake::start(FakeOptions::default()).unwrap();
    ran_whole(&run(&Cli::new(), &fake.url(), &[]), "couchbase");
}

const PASSWORD: &str = "hush-Pa55word";

/// Asserts that the password is in no output and no file.
fn keeps_quiet(cli: &Cli, done: &Done) {
    let found = holding(cli.folder.path(), PASSWORD);
    assert!(found.is_empty(), "{found:?} hold the password");
    assert!(!done.out.contains(PASSWORD) && !done.err.contains(PASSWORD), "{}\n{}", done.out, done.err);
}

#[test]
fn a_password_is_in_no_result_no_log_and_no_error() {
    let server = Server::start_with("redis", &["--password", PASSWORD]);
    let url = format!("redis://:{PASSWORD}@127.0.0.1:{}", server.port);
    let cli = Cli::new();
    let done = run(&cli, &url, &[]);
    ran_whole(&done, "redis with a password");
    keeps_quiet(&cli, &done);

    // From the environment, and a wrong one.
    let plain = format!("redis://127.0.0.1:{}", server.port);
    let study = study();
    let bench = ["bench", plain.as_str(), "--docs", "100", "--duration", "200ms"];
    let done = cli.run_command(cli.command(&bench).env("STOREBENCH_PASSWORD", PASSWORD));
    done.assert_measured();
    keeps_quiet(&cli, &done);
    let wrong = format!("redis://:{PASSWORD}-not@127.0.0.1:{}", server.port);
    let done = cli.run_args(&["run", &study, "--store", &wrong]);
    assert_eq!(done.code, 3, "{}", done.err);
    keeps_quiet(&cli, &done);
}

#[test]
fn a_postgres_password_is_in_no_result_no_log_and_no_error() {
    let server = Server::start_with("postgres", &["--password", PASSWORD]);
    let url = format!("postgres://storebench:{PASSWORD}@127.0.0.1:{}/storebench", server.port);
    let cli = Cli::new();
    let done = run(&cli, &url, &[]);
    ran_whole(&done, "postgres with a password");
    keeps_quiet(&cli, &done);
    let wrong = format!("postgres://storebench:{PASSWORD}@127.0.0.1:{}/nowhere", server.port);
    let done = cli.run_args(&["bench", &wrong]);
    assert_eq!(done.code, 3, "{}", done.err);
    keeps_quiet(&cli, &done);
}

#[test]
fn a_couchbase_password_is_in_no_result_no_log_and_no_error() {
    let fake = Fake::start(FakeOptions { password: PASSWORD.to_owned(), ..FakeOptions::default() }).unwrap();
    assert!(fake.url().contains(PASSWORD), "{}", fake.url());
    let cli = Cli::new();
    let done = run(&cli, &fake.url(), &[]);
    ran_whole(&done, "couchbase with a password");
    keeps_quiet(&cli, &done);
    let done = cli.run_args(&["bench", &fake.url().replace(PASSWORD, "hush-Pa55word-not")]);
    assert_eq!(done.code, 3, "{}", done.err);
    keeps_quiet(&cli, &done);
}

/// Sends bytes and returns the answer, read until nothing more arrives.
fn tell(port: u16, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    // A server that has just started may be slow to send its first answer.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    while let Ok(n @ 1..) = stream.read(&mut part) {
        answer.extend_from_slice(&part[..n]);
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// Asserts that `bench` and `run` refuse to write, and that `look` gets the same answer afterwards.
fn is_refused(server: &Server, url: &str, look: &[u8], expected: &str) {
    // Without the HTTP headers, which contain the time.
    let body = |answer: String| answer.split_once("\r\n\r\n").map_or(answer.clone(), |(_, body)| body.to_owned());
    refuses(url, || body(tell(server.port, look)), expected);
}

fn refuses(url: &str, look: impl Fn() -> String, expected: &str) {
    let before = look();
    assert!(before.contains(expected), "{before}");
    let cli = Cli::new();
    let done = cli.run_args(&["bench", url]);
    assert_eq!(done.code, 2, "{}\n{}", done.out, done.err);
    assert!(done.err.contains("--into-existing"), "{}", done.err);
    let done = run(&cli, url, &[]);
    assert_eq!(done.code, 2, "{}", done.err);
    assert_eq!(look(), before, "somebody else's data changed");
}

#[test]
fn somebody_elses_redis_is_refused() {
    let server = Server::start("redis");
    assert_eq!(tell(server.port, b"SET theirs precious\r\n"), "+OK\r\n");
    is_refused(&server, &server.url, b"GET theirs\r\n", "precious");
}

#[test]
fn somebody_elses_memcached_is_refused() {
    let server = Server::start("memcached");
    assert_eq!(tell(server.port, b"set theirs 0 0 8\r\nprecious\r\n"), "STORED\r\n");
    is_refused(&server, &server.url, b"get theirs\r\n", "precious");
}

fn http(method: &str, path: &str, body: &str) -> Vec<u8> {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[test]
fn somebody_elses_couchdb_is_refused() {
    let server = Server::start("pouchdb-server");
    for path in ["/storebench-docs", "/storebench"] {
        tell(server.port, &http("PUT", path, ""));
        let put = tell(server.port, &http("PUT", &format!("{path}/theirs"), r#"{"theirs":"precious"}"#));
        assert!(put.contains("201"), "{put}");
    }
    is_refused(&server, &server.url, &http("GET", "/storebench-docs/theirs", ""), "precious");
}

#[test]
fn somebody_elses_ravendb_is_refused() {
    let server = Server::start("ravendb");
    let database = r#"{"DatabaseName":"storebench","Settings":{},"Disabled":false}"#;
    let made = tell(server.port, &http("PUT", "/admin/databases?name=storebench&replicationFactor=1", database));
    assert!(made.contains("201"), "{made}");
    let put = http("PUT", "/databases/storebench/docs?id=theirs/1", r#"{"theirs":"precious"}"#);
    assert!(tell(server.port, &put).contains("201"));
    is_refused(&server, &server.url, &http("GET", "/databases/storebench/docs?id=theirs/1", ""), "precious");
}

#[test]
fn somebody_elses_postgres_is_refused() {
    let server = Server::start("postgres");
    let sql = |text: &str| {
        let done = server.psql().args(["-c", text]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    for table in ["theirs", "storebench.documents"] {
        sql("CREATE SCHEMA IF NOT EXISTS storebench");
        sql(&format!("CREATE TABLE {table} AS SELECT 'precious' AS treasure"));
    }
    refuses(
        &server.url,
        || sql("SELECT * FROM theirs, storebench.documents; SELECT count(*) FROM pg_class WHERE relname !~ '^pg'"),
        "precious",
    );
}

#[test]
fn somebody_elses_mongodb_is_refused() {
    use bson::doc;
    let server = Server::start("nx-27017");
    let client = storebench_fakes::mongodb::Client::connect(&server.url).unwrap();
    client.insert("storebench", "theirs", vec![doc! { "treasure": "precious" }]).unwrap();
    let look = || {
        let names = client.collections("storebench").unwrap();
        format!("{names:?} {:?}", client.find("storebench", "theirs", doc! {}).unwrap())
    };
    refuses(&format!("{}/storebench", server.url.trim_end_matches("/storebench")), look, "precious");
}

#[test]
fn somebody_elses_couchbase_is_refused() {
    let fake = Fake::start(FakeOptions::default()).unwrap();
    for collection in ["theirs", "documents"] {
        fake.put_foreign("storebench", collection, "their-key", b"{\"treasure\":\"precious\"}");
    }
    let look = || {
        let documents = ["theirs", "documents"].map(|collection| fake.documents("storebench", collection));
        let mut collections = fake.collections();
        collections.sort();
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let shown: Vec<String> = documents.iter().flatten().map(|(key, value)| key.clone() + &text(value)).collect();
        format!("{collections:?} {shown:?}")
    };
    refuses(&fake.url(), look, "precious");
}
