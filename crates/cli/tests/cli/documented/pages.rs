//! What the commands of each page need: files, documents in servers, and what is run in place of a command that would
//! take too long or needs another machine.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;

use super::stand_ins::Stage;
use super::{root, text_of};
use crate::common::{STUDY, installed};
use crate::server::free_port;

/// A file of the documentation with commands.
pub(crate) struct Page {
    pub(crate) file: &'static str,
    /// Makes what the page says the reader has.
    pub(crate) set_up: fn(&Stage),
    /// The commands that do not run just as they are. The first one that fits a command counts.
    pub(crate) cases: fn() -> Vec<Case>,
}

/// How commands are run that begin so.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) begins: &'static str,
    /// What the reader has done before.
    pub(crate) before: &'static str,
    /// What is run in place of parts of the command.
    pub(crate) edits: &'static [(&'static str, &'static str)],
    pub(crate) how: How,
}

#[derive(Clone, Copy)]
pub(crate) enum How {
    Runs,
    /// `plan` in place of `run`: the study is too large, or needs a server that no test has.
    Planned,
    /// With this exit code, and this in its message.
    Refused(i32, &'static str),
    /// Until it is interrupted, once this socket exists.
    Serves(&'static str),
    /// By the test `file::name`, word for word.
    TestedBy(&'static str),
    /// The same command is run as one of this page.
    SameAs(&'static str),
    /// Its arguments are parsed, but it is not run, for this reason.
    LeftOut(&'static str),
}

impl Case {
    pub(crate) const fn of(begins: &'static str) -> Self {
        Self { begins, before: "", edits: &[], how: How::Runs }
    }

    pub(crate) const fn how(self, how: How) -> Self {
        Self { how, ..self }
    }

    const fn before(self, before: &'static str) -> Self {
        Self { before, ..self }
    }

    const fn edits(self, edits: &'static [(&'static str, &'static str)]) -> Self {
        Self { edits, ..self }
    }
}

/// The number of commands that are left out.
pub(crate) const LEFT_OUT: usize = 0;

pub(crate) const PAGES: &[Page] = &[
    Page { file: "README.md", set_up: readme, cases: readme_cases },
    Page {
        file: "docs/choosing-a-store.md",
        set_up: nothing,
        cases: || vec![Case::of("").how(How::TestedBy("choosing::every_command_of_the_page_runs_as_it_is"))],
    },
    Page { file: "docs/bundles.md", set_up: bundles, cases: bundles_cases },
    Page { file: "docs/cli.md", set_up: command_line, cases: command_line_cases },
    Page { file: "docs/clusters.md", set_up: clusters, cases: clusters_cases },
    Page { file: "docs/compare.md", set_up: compare, cases: compare_cases },
    Page { file: "docs/consistency.md", set_up: history, cases: Vec::new },
    Page { file: "docs/efficiency.md", set_up: efficiency, cases: Vec::new },
    Page { file: "docs/history.md", set_up: nightly, cases: nightly_cases },
    Page { file: "docs/infer.md", set_up: orders, cases: Vec::new },
    Page {
        file: "docs/metrics.md",
        set_up: nothing,
        // Another test may use the port.
        cases: || vec![Case::of("storebench bench sqlite:bench.db --rate 10k --metrics 9464").edits(&[("9464", "0")])],
    },
    Page { file: "docs/moving-data.md", set_up: moving_data, cases: moving_data_cases },
    Page { file: "docs/report.md", set_up: report, cases: Vec::new },
    Page {
        file: "docs/servers.md",
        set_up: nothing,
        cases: || vec![Case::of("").how(How::TestedBy("dies::postgres_that_dies_as_the_page_shows_keeps_everything"))],
    },
    Page { file: "docs/stores.md", set_up: nothing, cases: Vec::new },
    Page { file: "docs/studies.md", set_up: nothing, cases: studies_cases },
    Page { file: "docs/study-file.md", set_up: study_file, cases: Vec::new },
    Page { file: "docs/traces.md", set_up: traces, cases: Vec::new },
    Page { file: "studies/bulk-insert.toml", set_up: nothing, cases: bulk_insert_cases },
    Page { file: "studies/examples/every-store.toml", set_up: examples, cases: Vec::new },
    Page { file: "studies/examples/insert-batches.toml", set_up: examples, cases: Vec::new },
    Page { file: "studies/examples/key-value.toml", set_up: examples, cases: Vec::new },
    Page { file: "studies/examples/open-loop.toml", set_up: examples, cases: Vec::new },
    Page { file: "studies/examples/own-documents.toml", set_up: examples, cases: Vec::new },
    Page { file: "studies/first-look.toml", set_up: nothing, cases: Vec::new },
    Page { file: "studies/million-writes.toml", set_up: nothing, cases: million_writes_cases },
    Page { file: "studies/one-setting.toml", set_up: nothing, cases: one_setting_cases },
    Page { file: "studies/parallel-transfer.toml", set_up: nothing, cases: parallel_transfer_cases },
    Page { file: "studies/reading-list.toml", set_up: nothing, cases: reading_list_cases },
    Page { file: "studies/what-if-it-dies.toml", set_up: what_if_it_dies, cases: what_if_it_dies_cases },
];

fn nothing(_: &Stage) {}

fn examples(stage: &Stage) {
    symlink(root().join("studies").canonicalize().unwrap(), stage.cli.path("studies")).unwrap();
}

/// Runs shell commands that prepare a page.
#[track_caller]
fn prepare(stage: &Stage, text: &str) {
    stage.shell(&stage.in_place(text)).code(0);
}

/// Lines of JSON, one for each number.
fn lines(stage: &Stage, file: &str, count: usize, line: impl Fn(usize) -> serde_json::Value) {
    let text: String = (0..count).map(|n| format!("{}\n", line(n))).collect();
    stage.cli.write(file, &text);
}

/// A study of an open loop on two stores, with results in less than a second.
const MEASURED: &str = r#"title = "Measured"
seed = 1
repeats = 2
stores = { base = "sqlite:base.db", candidate = "sqlite:candidate.db?cache=1MiB" }
[collections.docs]
count = 200
size = "200B"
[[phases]]
name = "load"
load = ["docs"]
durability = "os"
[[phases]]
name = "mixed"
mix = { read = 80, update = 20 }
rate = 1_000
durability = "os"
duration = "300ms"
"#;

/// Creates run folders with these names, each of a run of its own. The study stays in `mine.toml`.
fn runs(stage: &Stage, folders: &[&str], more: &str) {
    stage.cli.write("mine.toml", MEASURED);
    for folder in folders {
        let run = format!("mkdir -p {folder}; rmdir {folder}; storebench run mine.toml -q --out made {more}");
        let code = stage.shell(&run).code;
        assert!([0, 4].contains(&code), "exit {code}");
        prepare(stage, &format!("mv made/mine-* {folder}"));
    }
}

fn readme(stage: &Stage) {
    examples(stage);
    lines(
        stage,
        "places.jsonl",
        2_000,
        |n| serde_json::json!({ "country": (["pe", "no"][n % 2]), "id": n, "name": format!("place number {n}") }),
    );
    prepare(stage, "gzip places.jsonl");
    postgres_log(stage, "shop.docs");
}

fn readme_cases() -> Vec<Case> {
    vec![Case::of("storebench run bulk-insert").how(How::SameAs("studies/bulk-insert.toml"))]
}

/// What PostgreSQL writes about a few statements.
fn postgres_log(stage: &Stage, table: &str) {
    let statement = |n: usize, text: &str| {
        format!("2026-11-27 04:16:16.{n:03} UTC [{}] LOG:  statement: {}\n", 70 + n % 2, text.replace("TABLE", table))
    };
    let statements = [
        "insert into TABLE (key, doc) values ('a', '{\"n\": 1}')",
        "select doc from TABLE where key = 'a'",
        "update TABLE set doc = '{\"n\": 2}' where key = 'a'",
        "select now()",
    ];
    let text: String = (0..400).map(|n| statement(n, statements[n / 2 % 4])).collect();
    stage.cli.write("postgresql.log", &text);
}

fn command_line(stage: &Stage) {
    runs(
        stage,
        &["storebench-runs/both", "storebench-runs/mine-20261123-101500", "storebench-runs/mine-20261126-101500"],
        "",
    );
    let single = [
        "runs/before",
        "runs/after",
        "runs/before-1",
        "runs/before-2",
        "runs/before-3",
        "runs/after-1",
        "runs/after-2",
        "runs/after-3",
    ];
    runs(stage, &single, "--store sqlite:it.db --set repeats=1");
    prepare(stage, "mv mine.toml measured.toml; mkdir -p mnt/a mnt/b mnt/data");
    stage.cli.write("books.toml", STUDY);
    lines(stage, "seed.jsonl", 500, |n| serde_json::json!({ "_id": format!("b{n}"), "n": n }));
    lines(stage, "cities.jsonl", 500, |n| serde_json::json!({ "country": "pe", "name": format!("city {n}"), "n": n }));
    let shop = rusqlite::Connection::open(stage.cli.path("shop.db")).unwrap();
    shop.execute_batch(
        "CREATE TABLE orders (id TEXT PRIMARY KEY, doc TEXT); WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 \
         FROM n WHERE i < 500) INSERT INTO orders SELECT 'order/' || i, '{\"total\": ' || i || '}' FROM n",
    )
    .unwrap();
    price_sheet(stage);
    history(stage);
}

fn price_sheet(stage: &Stage) {
    let sheet = "currency = \"USD\"\nsource = \"a list\"\ndate = \"2026-01-31\"\n[nodes.box]\nper_hour = 1.5\n[stores.default]\nnode = \"box\"\n";
    stage.cli.write("sheet.toml", sheet);
}

fn command_line_cases() -> Vec<Case> {
    vec![
        Case::of("storebench run study.toml").edits(&[(
            "study.toml",
            "study.toml --scale 0.01 --set phases.warm-up.duration=100ms --set phases.mixed.duration=300ms",
        )]),
        Case::of("storebench run bulk-insert").how(How::SameAs("studies/bulk-insert.toml")),
        Case::of("storebench conform mongodb:").how(How::SameAs("docs/stores.md")),
        Case::of("storebench run reading-list --preset server --store postgres://me@db.example/bench \\")
            .edits(&[("\\\n    --resume storebench-runs/reading-list-20261122-204520", "")])
            .how(How::Planned),
        Case::of("storebench run reading-list").how(How::Planned),
        // Another study than the one that `bench` has written.
        Case::of("storebench run mine.toml --store fast=")
            .before("cp books.toml mine.toml")
            .edits(&[("/mnt/", "mnt/")]),
        Case::of("storebench plan mine.toml --pilot").before("cp measured.toml mine.toml"),
        // The same files again.
        Case::of("storebench copy books.jsonl").before("rm -f books.db; cp seed.jsonl books.jsonl"),
        Case::of("storebench copy couchdb://")
            .before("storebench copy seed.jsonl couchdb://HOST:5984 --to-collection books"),
        Case::of("storebench verify sqlite:books.db")
            .before("rm -f books.db; cp books.toml mine.toml; storebench run mine.toml -q"),
        Case::of("storebench doctor").edits(&[("/mnt/", "mnt/")]),
        Case::of("storebench host").edits(&[("/tmp/", "")]).how(How::Serves("documents.sock")),
    ]
}

fn history(stage: &Stage) {
    let history = r#"{"key":"users/7","initial":"v0"}
{"client":1,"key":"users/7","op":"write","value":"v1","sent_ns":0,"answered_ns":1000000}
{"client":2,"key":"users/7","op":"write","value":"v2","sent_ns":2000000,"answered_ns":3000000}
{"client":3,"key":"users/7","op":"read","value":"v2","sent_ns":3500000,"answered_ns":4000000}
{"client":3,"key":"users/7","op":"read","value":"v1","sent_ns":5000000,"answered_ns":6000000}
{"client":1,"key":"users/8","op":"write","value":"w1","sent_ns":7000000}
{"client":2,"key":"users/8","op":"read","value":"w1","sent_ns":8000000,"answered_ns":9000000}
"#;
    stage.cli.write("history.jsonl", history);
}

fn clusters(stage: &Stage) {
    // One trial; each phase has a worker for each of 8 parts.
    let (before, after) = MEASURED
        .replace("repeats = 2", "repeats = 1")
        .replace("durability = \"os\"", "workers = 8")
        .split_once("stores = ")
        .map(|(before, after)| (before.to_owned(), after.to_owned()))
        .unwrap();
    let after = after.split_once('\n').unwrap().1;
    stage.cli.write("study.toml", &stage.in_place(&format!("{before}stores = ['redis://bench']\n{after}")));
    for name in ["writes.toml", "load.toml"] {
        stage.cli.write(name, &text_of(&format!("docs/clusters/{name}")));
    }
}

fn clusters_cases() -> Vec<Case> {
    // The second part finds the store that the first one has prepared.
    vec![Case::of("storebench run study.toml --part 2/8").before(
        "now=$(date +%s); storebench run study.toml --part 1/8 --out parts --start-at @$((now + 10)) --start-at mixed=@$((now + 12))",
    )]
}

fn compare(stage: &Stage) {
    runs(stage, &["runs/both"], "");
    let single = ["A", "B", "runs/main-20261122-204520", "runs/main-20261123-204511", "runs/topic-1", "runs/topic-2"];
    runs(stage, &single, "--store sqlite:it.db --set repeats=1");
    let page = text_of("docs/compare.md");
    let study = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let short = study.replace("\"30s\"", "\"300ms\"").replace("\"5s\"", "\"100ms\"").replace("100_000", "500");
    assert!(short.contains("repeats  = 10\n"), "{short}");
    stage.cli.write("ci.toml", &short.replace("repeats  = 10", "repeats  = 3"));
}

fn compare_cases() -> Vec<Case> {
    const URL: (&str, &str) = ("$URL", "redis://127.0.0.1:7001/0");
    vec![
        Case::of("#!/bin/sh").edits(&[("$1", "redis://127.0.0.1:7001/0"), ("$2", "redis://127.0.0.1:7002/0")]),
        Case::of("storebench run ci.toml").before("rm -rf bench-runs").edits(&[URL]),
        Case::of("storebench compare bench-runs").edits(&[("/var/lib/bench", "bench")]),
        Case::of("for n in").before("rm -rf bench-runs").edits(&[URL]),
        Case::of("storebench compare \"$(printf").edits(&[("/var/lib/bench", "bench")]),
    ]
}

fn efficiency(stage: &Stage) {
    for url in [
        "redis://127.0.0.1:19200",
        "redis://127.0.0.1:6379",
        "memcached://127.0.0.1:19201",
        "couchdb://127.0.0.1:40429",
        "couchdb://127.0.0.1:41175",
    ] {
        let load = format!("storebench bench {url} --docs 1000 --operations 1 --warm-up 0s -q");
        assert!([0, 4].contains(&stage.shell(&stage.in_place(&load)).code));
    }
    stage.cli.write("bulk-93750.toml", MEASURED);
}

fn nightly(stage: &Stage) {
    runs(stage, &["runs/nightly-20261130-020000", "runs/topic"], "");
    prepare(stage, "mv mine.toml nightly.toml");
}

fn nightly_cases() -> Vec<Case> {
    // The folder is in no repository.
    vec![Case::of("storebench history add runs/nightly-20261130-020000").edits(&[("-020000", "-020000 --branch main")])]
}

fn bundles(stage: &Stage) {
    runs(stage, &["storebench-runs/mine-20261123-101500"], "");
    prepare(stage, "openssl genpkey -algorithm ed25519 -out key.pem && openssl pkey -in key.pem -pubout -out key.pub");
}

fn bundles_cases() -> Vec<Case> {
    vec![Case::of("storebench gallery bundles").before("mkdir bundles && mv mine.sbz signed.sbz bundles")]
}

fn orders(stage: &Stage) {
    lines(
        stage,
        "orders.jsonl",
        1_000,
        |n| serde_json::json!({ "order": n, "city": (["Lima", "Oslo", "Rome"][n * n % 7 % 3]), "price": n * 37 % 1_000 }),
    );
}

fn report(stage: &Stage) {
    runs(stage, &["storebench-runs/mine-20261123-101500", "runs/both", "runs/before", "runs/after"], "");
}

fn studies_cases() -> Vec<Case> {
    vec![
        Case::of("storebench run reading-list --preset server").how(How::Planned),
        Case::of("storebench run one-setting --preset server").how(How::Planned),
    ]
}

fn study_file(stage: &Stage) {
    stage.cli.write("study.toml", MEASURED);
}

fn traces(stage: &Stage) {
    postgres_log(stage, "storebench.docs");
    let replay = "title = \"Replayed\"\n[collections.docs]\ntrace = \"ops.jsonl\"\n[[phases]]\nname = \"load\"\nload = [\"docs\"]\n\
                  [[phases]]\nname = \"replay\"\ntrace = \"ops.jsonl\"\nworkers = 2\n";
    stage.cli.write("replay.toml", replay);
}

fn bulk_insert_cases() -> Vec<Case> {
    // The server of the tests does not sync as CouchDB does.
    vec![Case::of("storebench run bulk-insert --preset published").how(How::Planned)]
}

fn million_writes_cases() -> Vec<Case> {
    vec![
        Case::of("storebench run million-writes --preset server")
            .edits(&[("postgres://…", "postgres://pair/bench")])
            .how(How::Planned),
    ]
}

fn one_setting_cases() -> Vec<Case> {
    vec![Case::of("storebench run one-setting --store a=").how(How::Planned)]
}

fn parallel_transfer_cases() -> Vec<Case> {
    vec![Case::of("storebench run parallel-transfer --preset published").how(How::Planned)]
}

fn reading_list_cases() -> Vec<Case> {
    vec![Case::of("storebench run reading-list --preset published").how(How::Planned)]
}

/// A server that a study starts.
fn what_if_it_dies(stage: &Stage) {
    let (root, libraries) = installed("redis");
    let table = format!(
        "\n[servers.redis]\nrun = \"env LD_LIBRARY_PATH={libraries} PATH={root}/usr/bin redis-server --port {{port}} --dir {{data}} \
         --appendonly yes --appendfsync always --save ''\"\nport = {}\ndata = \"data\"\n",
        free_port()
    );
    stage.cli.write("server.toml", &table);
}

fn what_if_it_dies_cases() -> Vec<Case> {
    // Not a server of the tests, but the one that the study starts.
    vec![Case::of("sudo storebench run mine.toml").before("cat server.toml >> mine.toml").edits(&[
        ("--store redis://127.0.0.1:6400", "--store redis:/''/127.0.0.1:$(sed -n 's/^port = //p' server.toml)"),
        ("--manage-servers", "--manage-servers WITH_FAULTS"),
    ])]
}

fn moving_data(stage: &Stage) {
    stage.serve_objects(&["lake"]);
    let book = |n: usize| {
        serde_json::json!({
            "_id": format!("b{n}"), "title": format!("title {n}"), "year": 2_000 + n % 25, "tags": (["new", "old"][n % 2..]),
            "by": { "name": "ann" }, "isbn": format!("b{n}"),
        })
    };
    lines(stage, "seed.jsonl", 300, book);
    prepare(stage, "gzip -c seed.jsonl > books.jsonl.gz; mkdir -p dump backup var; cp books.jsonl.gz dump/a.jsonl.gz");
    for url in [
        "postgres://me@HOST/shop",
        "couchdb://HOST:5984",
        "mongodb://HOST/shop",
        "ravendb://HOST:8080/shop",
        "couchbase://me@HOST/shop",
    ] {
        prepare(stage, &format!("storebench copy seed.jsonl {url} --to-collection books -q"));
    }
    prepare(stage, "for day in 01 02; do storebench copy books.jsonl.gz s3://lake/logs/2014-$day.jsonl.gz -q; done");
    lines(stage, "people.jsonl", 50, |n| serde_json::json!({ "mail": format!("P{n}@X.org"), "password": "secret" }));
    stage.cli.write("people.csv", "email,age,active\na@x.org,30,true\nb@x.org,40,false\n");
    lines(
        stage,
        "scores.jsonl",
        50,
        |n| serde_json::json!({ "_id": format!("b{n}"), "isbn": format!("b{n}"), "score": n }),
    );
    lines(stage, "dump.jsonl", 50, |n| serde_json::json!({ "_id": format!("d{n}"), "n": n }));
    lines(
        stage,
        "clicks.jsonl",
        50,
        |n| serde_json::json!({ "_id": format!("p{}", n % 9), "clicks": 1, "at": format!("2026-11-{:02}", 1 + n % 28) }),
    );
    stage.cli.write("clicks.csv", "page,clicks\na,3\nb,4\na,1\n");
    lines(
        stage,
        "changes.jsonl",
        30,
        |n| serde_json::json!({ "_id": format!("b{n}"), "op": (["upsert", "delete", "merge"][n % 3]), "n": n }),
    );
    lines(stage, "gone.jsonl", 20, |n| serde_json::json!({ "_id": format!("b{n}") }));
    stage.cli.write("active.csv", "_id\ns1\ns2\n");
    stage.with_server("postgres://me@HOST/shop", |server| {
        let sql = "CREATE TABLE public.books (isbn text PRIMARY KEY, title text, details jsonb); \
                   INSERT INTO public.books SELECT 'b' || i, 'title ' || i, '{\"a\": 1}' FROM generate_series(0, 99) i; \
                   CREATE TABLE sales (id bigint PRIMARY KEY, at timestamptz, isbn text); \
                   INSERT INTO sales SELECT i, now(), 'b' || i % 50 FROM generate_series(1, 200) i";
        let done = server.psql().args(["-c", sql]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    });
    stage.with_server("couchdb://HOST:5984", |server| visits(server.port));
    stage.in_place("redis://HOST/0");
    stage.with_server("redis://HOST/0", |server| {
        let mut redis = std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        for n in 0..20 {
            let set = format!("SET session:{n} '{{\"user\":{n}}}' EX 9000\r\n");
            redis.write_all(set.as_bytes()).unwrap();
            let mut answer = [0; 5];
            redis.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"+OK\r\n");
        }
    });
}

/// A database of CouchDB with a view that Storebench did not create.
fn visits(port: u16) {
    let ask = |method: &str, path: &str, body: serde_json::Value| {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = "Host: h\r\nContent-Type: application/json\r\nConnection: close";
        write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
    };
    ask("PUT", "/visits", serde_json::Value::Null);
    let map = "function (doc) { emit([doc.day, doc.hour], null); }";
    ask("PUT", "/visits/_design/by", serde_json::json!({ "views": { "hour": { "map": map } } }));
    let visit = |n: usize| {
        let hour = format!("{:02}", n % 24);
        serde_json::json!({
            "_id": format!("v{n}"), "page": "a", "at": format!("2014-04-01T{hour}:00"), "ms": n, "day": "20140401", "hour": hour,
        })
    };
    ask("POST", "/visits/_bulk_docs", serde_json::json!({ "docs": (0..240).map(visit).collect::<Vec<_>>() }));
}

fn moving_data_cases() -> Vec<Case> {
    vec![
        Case::of("storebench copy postgres://me@HOST/shop /backup/")
            .edits(&[("/backup/", "backup/"), ("/var/lib/storebench", "var")]),
        Case::of("storebench copy sessions.jsonl")
            .before("printf '{\"_id\":\"s1\",\"ttl\":60}\\n{\"_id\":\"s2\",\"ttl\":null}\\n' > sessions.jsonl"),
        // The table's owner is called like the schema of Storebench here, so PostgreSQL would look there first.
        Case::of("storebench copy postgres://me@HOST/shop sales.parquet").edits(&[("books b", "public.books b")]),
        Case::of("storebench copy storebench-runs/copy-…/rejects.jsonl")
            .before(
                "rm -f storebench-runs/copy-*/rejects.jsonl; echo '{\"_id\": \"b1\", \"n\": 1}' > other.jsonl; \
                 storebench copy other.jsonl postgres://me@HOST/shop --to-collection books --op insert || true",
            )
            .edits(&[("copy-…", "copy-*")]),
        Case::of("storebench copy 's3://lake/books.jsonl").before("storebench copy seed.jsonl s3://lake/books.jsonl"),
        Case::of("storebench copy postgres://me@HOST/shop books.jsonl --from-collection public.books")
            .before("rm books.jsonl"),
    ]
}
