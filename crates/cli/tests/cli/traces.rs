//! Recorded traffic: made from logs, and replayed.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use crate::common::Cli;
use crate::queries::check;
use crate::server::Server;

/// Traffic to record.
const RECORDED: &str = r#"
title = "Recorded"
[collections.docs]
count = 60
size = "300B"
[[phases]]
name = "load"
load = ["docs"]
[[phases]]
name = "mix"
operations = 300
workers = 3
streams = "disjoint"
check = 0
mix = { read = 6, upsert = 3, insert = 1, delete = 1, replace = 1, exists = 1 }
"#;

/// Its replay.
const REPLAY: &str = r#"
title = "Replayed"
[collections.docs]
trace = "ops.jsonl"
[[phases]]
name = "load"
load = ["docs"]
[[phases]]
name = "replay"
trace = "ops.jsonl"
workers = 2
in_flight = 2
check = 1.0
"#;

/// How often each operation was done on each key.
fn counts(trace: &str) -> BTreeMap<(String, String), u64> {
    let mut counts = BTreeMap::new();
    for line in trace.lines() {
        let op: Value = serde_json::from_str(line).unwrap();
        let of = |name: &str| op[name].as_str().unwrap().to_owned();
        *counts.entry((of("op"), of("key"))).or_insert(0) += 1;
    }
    counts
}

fn ops(result: &Value) -> BTreeMap<String, (u64, u64)> {
    let ops = result["trials"][0]["phases"][1]["ops"].as_object().unwrap();
    let of = |op: &Value| (op["count"].as_u64().unwrap(), op["errors"].as_u64().unwrap());
    ops.iter().map(|(name, op)| (name.clone(), of(op))).collect()
}

#[test]
fn a_postgresql_log_is_replayed_operation_by_operation_and_key_by_key() {
    let log_all = ["--option", "log_statement=all", "--option", "log_line_prefix=%m [%p] "];
    let server = Server::start_with("postgres", &log_all);
    let cli = Cli::new();
    let log = server.folder.path().join("server.log");
    cli.write("recorded.toml", RECORDED);
    cli.run_args(&["run", "recorded.toml", "--store", &server.url, "-q"]).measured();
    let first = std::fs::read_to_string(&log).unwrap();
    cli.write("first.log", &first);
    let made = cli.run("trace first.log --from postgres --within storebench.docs --out ops.jsonl").code(0);
    assert!(made.err.contains("300 operations of storebench.docs by 3 clients: read "), "{}", made.err);
    assert!(made.err.contains("not in the trace: "), "{}", made.err);
    let trace = std::fs::read_to_string(cli.path("ops.jsonl")).unwrap();
    let recorded = counts(&trace);
    assert_eq!(recorded.values().sum::<u64>(), 300);

    cli.write("replay.toml", REPLAY);
    let done = cli.run_args(&["run", "replay.toml", "--store", &server.url, "--json", "-q"]);
    let result = done.json();
    let all = std::fs::read_to_string(&log).unwrap();
    cli.write("second.log", &all[first.len()..]);
    cli.run("trace second.log --from postgres --within storebench.docs --out again.jsonl").code(0);
    let again = std::fs::read_to_string(cli.path("again.jsonl")).unwrap();
    assert_eq!(counts(&again), recorded, "{}", done.err);

    let mut by_op = BTreeMap::new();
    recorded.iter().for_each(|((op, _), n)| *by_op.entry(op.clone()).or_insert(0) += n);
    let told: BTreeMap<String, u64> = ops(&result).into_iter().map(|(op, (count, _))| (op, count)).collect();
    assert_eq!(told, by_op);
    let phase = &result["trials"][0]["phases"][1];
    assert_eq!(phase["rate"]["planned"], "as recorded");
    assert_eq!(phase["rate"]["scheduled"], 300);
    let read = &phase["ops"]["read"];
    assert!(read["checked"].as_u64() > Some(0) && read["wrong"] == 0, "{read:#}");
    assert!(read["response_ns"]["p50"].as_u64() > Some(0), "an open loop");
    // Sizes are those of the log: the load wrote none, so they come from the writes.
    let bytes = result["documents"][0]["mean_bytes"].as_f64().unwrap();
    assert!((250.0..350.0).contains(&bytes), "{bytes}");
}

#[test]
fn what_redis_monitor_prints_is_a_trace() {
    let server = Server::start("redis");
    let cli = Cli::new();
    let mut monitor = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    monitor.write_all(b"MONITOR\r\n").unwrap();
    let mut lines = BufReader::new(monitor).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "+OK");
    cli.write("recorded.toml", RECORDED);
    cli.run_args(&["run", "recorded.toml", "--store", &server.url, "-q"]).measured();
    let mut end = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    end.write_all(b"ECHO the-end\r\n").unwrap();
    let mut text = String::from("OK\n");
    for line in lines.map(Result::unwrap).take_while(|line| !line.contains("the-end")) {
        text += line.trim_start_matches('+');
        text.push('\n');
    }
    cli.write("monitor.txt", &text);
    let made = cli.run("trace monitor.txt --from redis --within storebench:docs: --out ops.csv --bodies").code(0);
    assert!(made.err.contains("360 operations of storebench:docs: by 4 clients"), "{}", made.err);
    let trace = std::fs::read_to_string(cli.path("ops.csv")).unwrap();
    assert!(trace.starts_with("time,op,key,client,size,body\n"), "{trace}");
    // The load is in the trace too: 60 inserts. So its documents are inserted by the replay.
    let replay = REPLAY.replace("ops.jsonl", "ops.csv").replace("load = [\"docs\"]", "settle = \"1s\"");
    cli.write("replay.toml", &replay);
    let done = cli.run_args(&["run", "replay.toml", "--store", "sqlite:replay.db", "--json", "-q"]);
    let result = done.json();
    let told = ops(&result);
    assert_eq!(told.values().map(|(count, _)| count).sum::<u64>(), 360, "{told:?} {}", done.err);
    assert!(told["insert"].0 >= 60 && told.values().all(|(_, errors)| *errors == 0), "{told:?}");
    // The documents are those of the log, byte by byte.
    let copied = cli.run("copy sqlite:replay.db out.jsonl --from-collection docs --force");
    assert_eq!(copied.code, 0, "{}", copied.err);
    let out = std::fs::read_to_string(cli.path("out.jsonl")).unwrap();
    assert!(out.lines().count() > 30 && out.contains("\"sb\":["), "{out}");
}

/// A short trace: what each operation does is known.
const LINES: &str = r#"{"time":0,"op":"read","key":"a","client":1,"size":400}
{"time":0.01,"op":"insert","key":"new","client":2}
{"time":0.02,"op":"read","key":"new","client":2}
{"time":0.02,"op":"upsert","key":"b","client":1}
{"time":0.03,"op":"exists","key":"b","client":3}
{"time":0.04,"op":"delete","key":"a","client":1}
{"time":0.05,"op":"read","key":"a","client":1}
"#;

#[test]
fn a_trace_says_which_documents_exist_before_it_and_in_which_order_a_client_asks() {
    let cli = Cli::new();
    cli.write("ops.jsonl", LINES);
    cli.write("replay.toml", REPLAY);
    let plan = cli.run("plan replay.toml --store sqlite:replay.db").code(0);
    assert!(plan.out.contains("replay: replay ops.jsonl, at its own times"), "{}", plan.out);
    for (speed, store) in [("1", "sqlite:replay.db"), ("max", "redb:replay.redb"), ("0.5", "memory:")] {
        let study = REPLAY.replace("workers = 2", &format!("workers = 2\nspeed = \"{speed}\""));
        cli.write("replay.toml", &study);
        let done = cli.run_args(&["run", "replay.toml", "--store", store, "--json", "-q"]);
        let result = done.json();
        assert_eq!(result["documents"][0]["count"], 2, "a and b exist, new does not: {}", done.err);
        let ops = &result["trials"][0]["phases"][1]["ops"];
        // Client 1 reads a, deletes it, and finds nothing.
        let read = &ops["read"];
        assert_eq!(
            (&read["count"], &read["misses"], &read["wrong"]),
            (&3.into(), &1.into(), &0.into()),
            "{speed}: {read:#}"
        );
        assert_eq!(ops["insert"]["succeeded"], 1, "{speed}");
        assert_eq!(read["response_ns"].is_null(), speed == "max");
        let elapsed = result["trials"][0]["phases"][1]["elapsed_ns"].as_f64().unwrap() / 1e6;
        let least = match speed {
            "1" => 50.0,
            "max" => 0.0,
            _ => 100.0,
        };
        assert!(elapsed >= least, "{speed}: {elapsed} ms");
        assert!(check(&result, "wrong-content").is_none_or(|check| check["severity"] == "pass"), "{speed}");
    }
}

/// The same trace as a table.
#[test]
fn a_trace_may_be_parquet() {
    let cli = Cli::new();
    let seconds = LINES.replace("\"time\":0,", "\"time\":0.0,");
    cli.write("ops.jsonl", &seconds);
    cli.run("copy ops.jsonl ops.parquet --key {key}").code(0);
    cli.write("replay.toml", &REPLAY.replace("ops.jsonl", "ops.parquet"));
    let done = cli.run("run replay.toml --store sqlite:replay.db --json -q");
    let told = ops(&done.json());
    assert_eq!(told["read"], (3, 0), "{told:?} {}", done.err);
    assert_eq!(told.values().map(|(count, _)| count).sum::<u64>(), 7);
}

/// Another client may ask for a document before the one that inserts it has done so. The store has lost nothing.
#[test]
fn a_read_that_overtakes_the_insert_of_another_client_accuses_nobody() {
    let cli = Cli::new();
    let lines: String = (0..200)
        .map(|i| {
            let at = f64::from(i) / 1e3;
            format!(
                "{{\"time\":{at},\"op\":\"read\",\"key\":\"n{i}\",\"client\":1}}\n\
                 {{\"time\":{at},\"op\":\"read\",\"key\":\"old\",\"client\":1}}\n\
                 {{\"time\":{at},\"op\":\"insert\",\"key\":\"m{i}\",\"client\":2}}\n\
                 {{\"time\":{at},\"op\":\"read\",\"key\":\"m{i}\",\"client\":3}}\n"
            )
        })
        .collect();
    // Of the keys n0, n1, …, all are there; those of m0, m1, … are not.
    cli.write("ops.jsonl", &lines);
    let more_in_flight = REPLAY.replace("in_flight = 2", "in_flight = 8");
    cli.write("replay.toml", &more_in_flight.replace("workers = 2", "workers = 2\nspeed = \"max\""));
    let done = cli.run("run replay.toml --store sqlite:replay.db --json -q");
    let result = done.json();
    let read = &result["trials"][0]["phases"][1]["ops"]["read"];
    assert_eq!(read["misses"].as_u64(), Some(read["misses_of_new"].as_u64().unwrap_or(0)), "{read:#}");
    assert_ne!(done.code, 1, "{}", done.err);
    // Replaying it again would insert everything again.
    let twice = format!("{REPLAY}\n[[phases]]\nname = \"again\"\ntrace = \"ops.jsonl\"\n");
    cli.write("replay.toml", &twice);
    let done = cli.run("run replay.toml --store sqlite:replay.db --json -q");
    assert!(done.code == 2 && done.err.contains("`replay` has replayed it already"), "{}", done.err);
}

/// A log has inserts that failed, too, and another client may write a document before the one that inserts it has done
/// so. The store has not failed.
#[test]
fn an_insert_of_a_document_that_is_there_accuses_nobody() {
    let cli = Cli::new();
    let lines: String = (0..200)
        .map(|i| {
            let at = f64::from(i) / 1e3;
            let line = |op| format!("{{\"time\":{at},\"op\":\"{op}\",\"key\":\"m{i}\",\"client\":1}}\n");
            ["insert", "insert", "read"].map(line).concat()
        })
        .collect();
    cli.write("ops.jsonl", &lines);
    for store in ["sqlite:replay.db", "redb:replay.redb", "fjall:replay", "memory:"] {
        cli.write("replay.toml", REPLAY);
        let done = cli.run_args(&["run", "replay.toml", "--store", store, "--json", "-q"]);
        let result = done.json();
        let insert = &result["trials"][0]["phases"][1]["ops"]["insert"];
        let counts = ["succeeded", "misses", "misses_of_new", "errors"].map(|name| insert[name].as_u64().unwrap_or(0));
        assert_eq!(counts, [200, 200, 200, 0], "{store}: {insert:#}");
        let misses = check(&result, "misses").unwrap();
        assert_eq!(misses["severity"], "note", "{misses:#}");
        assert!(check(&result, "errors").is_none_or(|check| check["severity"] == "pass"), "{store}");
    }
    // Each is inserted once, so nothing in the trace explains that they are there: an earlier run has left them.
    let once: String = lines.lines().step_by(3).map(|line| format!("{line}\n")).collect();
    cli.write("ops.jsonl", &once);
    cli.run("run replay.toml --store sqlite:left.db -q");
    let done = cli.run("run replay.toml --store sqlite:left.db --keep --json -q");
    assert_eq!(check(&done.json(), "misses").unwrap()["severity"], "caution", "{}", done.err);
}

/// Every operation, on stores of several kinds, with a document whose contents the log has.
const ALL_KINDS: &str = r#"{"time":0,"op":"read","key":"a","client":1,"size":300}
{"time":0.001,"op":"upsert","key":"b","client":2}
{"time":0.002,"op":"insert","key":"new","client":2}
{"time":0.003,"op":"read","key":"new","client":1}
{"time":0.004,"op":"insert","key":"new","client":3}
{"time":0.005,"op":"exists","key":"none","client":3}
{"time":0.006,"op":"delete","key":"a","client":1}
{"time":0.007,"op":"read","key":"a","client":1}
{"time":0.008,"op":"replace","key":"a","client":1}
{"time":0.009,"op":"read","key":"b","client":1}
{"time":0.010,"op":"upsert","key":"mine","client":1,"body":{"n":1.50,"of":["x",{"y":null}]}}
{"time":0.011,"op":"read","key":"mine","client":4}
{"time":0.012,"op":"delete","key":"none","client":4}
{"time":0.013,"op":"delete","key":"none","client":4}
{"time":0.014,"op":"exists","key":"none","client":4}
"#;

fn different(result: &Value) -> (String, String) {
    let check = check(result, "different-answers").unwrap();
    (check["severity"].as_str().unwrap().to_owned(), check["observed"].as_str().unwrap().to_owned())
}

#[test]
fn stores_that_answer_a_replay_alike_are_said_to() {
    let servers = ["postgres", "redis", "nx-27017", "pouchdb-server", "ravendb", "memcached"].map(Server::start);
    let cli = Cli::new();
    cli.write("ops.jsonl", ALL_KINDS);
    let one = REPLAY.replace("workers = 2\nin_flight = 2", "workers = 1");
    cli.write("replay.toml", &one);
    let mut args = vec!["run", "replay.toml", "--compare-answers", "--json", "-q"];
    let embedded = ["sqlite:a.db", "redb:a.redb", "fjall:a", "memory:"];
    let stores = embedded.into_iter().chain(servers.iter().map(|server| server.url.as_str()));
    stores.for_each(|store| args.extend(["--store", store]));
    let done = cli.run_args(&args);
    let (severity, observed) = different(&done.json());
    assert_eq!(severity, "pass", "{observed}");
    assert_eq!(observed, "15 operations of `replay` have the same answers on 10 configurations");
    assert_eq!(done.json()["trials"][0]["phases"][1]["answers"]["compared"], 15);

    // With several at once, documents of several clients are left out: `b`, `new`, `none`, `mine`. `a` has one client.
    cli.write("replay.toml", REPLAY);
    let done = cli.run("run replay.toml --compare-answers --json -q --store sqlite:b.db --store memory:");
    let (severity, observed) = different(&done.json());
    assert_eq!(severity, "pass", "{observed}");
    assert_eq!(
        observed,
        "4 operations of `replay` have the same answers on 2 configurations; 11 on documents that several clients use \
         and one writes could not be compared"
    );
}

#[test]
fn a_store_that_answers_a_replay_otherwise_is_named_with_the_operation() {
    let cli = Cli::new();
    cli.write("ops.jsonl", LINES);
    let load = REPLAY.split("[[phases]]\nname = \"replay\"").next().unwrap();
    cli.write("load.toml", load);
    cli.run("run load.toml --store sqlite:a.db --store sqlite:b.db -q");
    let connection = rusqlite::Connection::open(cli.path("b.db")).unwrap();
    for sql in ["UPDATE docs SET body = '{\"other\":1}' WHERE key = 'a'", "DELETE FROM docs WHERE key = 'b'"] {
        assert_eq!(connection.execute(sql, []).unwrap(), 1, "{sql}");
    }
    connection.close().unwrap();
    let one = REPLAY.replace("workers = 2\nin_flight = 2", "workers = 1").replace("check = 1.0", "check = 0");
    cli.write("replay.toml", &one.replace("\"upsert\"", "\"replace\""));
    cli.write("ops.jsonl", &LINES.replace("upsert", "replace"));
    let done = cli.run("run replay.toml --keep --compare-answers --store sqlite:a.db --store sqlite:b.db --json -q");
    let result = done.json();
    let (severity, observed) = different(&result);
    assert_eq!(severity, "invalid", "{observed}");
    assert!(done.code == 4 || done.code == 1, "{} {}", done.code, done.err);
    for told in [
        "3 of 7 operations of `replay` have other answers on sqlite-2 than on sqlite: operation 1, read of a: sqlite found \
         the document as it was loaded or inserted, sqlite-2 found a document with hash ",
        "operation 4, replace of b: sqlite did it, sqlite-2 found no document",
        "operation 5, exists of b: sqlite found it, sqlite-2 found no document",
    ] {
        assert!(observed.contains(told), "{told}\n{observed}");
    }
}

#[test]
fn what_cannot_be_compared_is_refused_or_said() {
    let cli = Cli::new();
    cli.write("ops.jsonl", LINES);
    cli.write("replay.toml", REPLAY);
    let done = cli.run("run replay.toml --compare-answers --store sqlite:a.db");
    assert!(done.code == 2 && done.err.contains("needs two stores"), "{}", done.err);
    cli.write("mix.toml", RECORDED);
    let done = cli.run("run mix.toml --compare-answers --store sqlite:a.db --store memory:");
    assert!(done.code == 2 && done.err.contains("replays none"), "{}", done.err);
    let [first, replay] = REPLAY.split_once("[[phases]]\nname = \"replay\"").map(|(a, b)| [a, b]).unwrap();
    let writes = "[[phases]]\nname = \"writes\"\noperations = 5\nmix = { upsert = 1 }\n";
    cli.write("after.toml", &format!("{first}{writes}[[phases]]\nname = \"replay\"{replay}"));
    let done = cli.run("run after.toml --compare-answers --store sqlite:a.db --store memory:");
    assert!(done.code == 2 && done.err.contains("after `writes`; set compare_answers"), "{}", done.err);
    let twice = format!("{REPLAY}\n[[phases]]\nname = \"again\"\ntrace = \"ops.jsonl\"\n");
    cli.write("twice.toml", &twice);
    let done = cli.run("run twice.toml --compare-answers --store sqlite:a.db --store memory:");
    assert!(done.code == 2 && done.err.contains("after `replay`; set compare_answers"), "{}", done.err);
    cli.write("factor.toml", &format!("{REPLAY}\n[factors]\n\"phases.replay.workers\" = [1, 2]\n"));
    let done = cli.run("run factor.toml --compare-answers --store sqlite:a.db");
    assert!(done.code == 2 && done.err.contains("the same values of factors"), "{}", done.err);
    cli.write("replay.toml", &format!("{REPLAY}compare_answers = true\n"));
    let done = cli.run("run replay.toml --store sqlite:a.db --json -q");
    let (severity, observed) = different(&done.json());
    assert!(severity == "caution" && observed.contains("on one configuration only"), "{observed}");
}

#[test]
fn keys_are_hashed_on_request_and_the_same_salt_gives_the_same_keys() {
    let cli = Cli::new();
    let log = "127.0.0.1 - - [10/Oct/2000:13:55:36 +0000] \"GET /docs/secret HTTP/1.1\" 200 2326\n\
               10.0.0.9 - - [10/Oct/2000:13:55:37 +0000] \"PUT /docs/secret HTTP/1.1\" 201 -\n";
    cli.write("access.log", log);
    let plain = cli.run("trace access.log --from http").code(0).out;
    assert_eq!(
        plain,
        "{\"time\":0.000000,\"op\":\"read\",\"key\":\"secret\",\"client\":1,\"size\":2326}\n\
         {\"time\":1.000000,\"op\":\"upsert\",\"key\":\"secret\",\"client\":2}\n"
    );
    let [one, other] = [(), ()].map(|()| cli.run("trace access.log --from http --hash-keys").code(0).out);
    assert!(!one.contains("secret") && !one.contains("10.0.0.9") && one != other, "{one}");
    cli.write("salt", "0123456789abcdef\n");
    let [one, other] =
        [(), ()].map(|()| cli.run("trace access.log --from http --hash-keys --salt-file salt").code(0).out);
    assert!(one == other && !one.contains("secret"), "{one}");
    cli.write("short", "abc");
    assert_eq!(cli.run("trace access.log --from http --hash-keys --salt-file short").code, 2);
}

#[test]
fn what_is_wrong_with_a_trace_or_a_log_is_said_before_anything_is_written() {
    let cli = Cli::new();
    for (from, to, told) in [
        ("\"client\":3}", "\"client\":3", "ops.jsonl:5: it is not a complete JSON object: the line is torn"),
        (
            "\"time\":0.04",
            "\"time\":0.01",
            "ops.jsonl:6: its time is before that of the line above; sort the trace by time",
        ),
        ("\"upsert\"", "\"upsrt\"", "ops.jsonl:4: unknown operation `upsrt`; did you mean `upsert`?"),
    ] {
        cli.write("ops.jsonl", &LINES.replace(from, to));
        cli.write("replay.toml", REPLAY);
        let done = cli.run("run replay.toml --store sqlite:refused.db");
        assert!(done.code == 2 && done.err.contains(told), "{}", done.err);
        assert!(!cli.path("refused.db").exists());
    }
    cli.write("ops.jsonl", LINES);
    for (from, to, told) in [
        (
            "[collections.docs]\ntrace = \"ops.jsonl\"",
            "[collections.docs]\ncount = 5",
            "`docs` needs the keys of the trace: write trace = \"ops.jsonl\" in collections.docs",
        ),
        ("[collections.docs]\ntrace", "[collections.docs]\ncount = 5\ntrace", "cannot be combined with `trace`"),
        ("workers = 2", "rate = 5", "`rate` has no meaning for a trace"),
        ("workers = 2", "mix = { read = 1 }", "a phase either replays a trace or runs a mix"),
        ("workers = 2", "speed = 0", "a speed of 0"),
        (
            "[collections.docs]\ntrace = \"ops.jsonl\"",
            "[collections.docs]\ntrace = \"none.jsonl\"",
            "use the same trace for both",
        ),
    ] {
        assert!(REPLAY.contains(from), "{from}");
        cli.write("replay.toml", &REPLAY.replacen(from, to, 1));
        let done = cli.run("run replay.toml --store sqlite:refused.db");
        assert!(done.code == 2 && done.err.contains(told), "{told}: {}", done.err);
        assert!(!cli.path("refused.db").exists());
    }
    let torn = cli.run("trace ops.jsonl --from redis");
    assert!(torn.code == 2 && torn.err.contains("ops.jsonl:1: it is no line of redis-cli MONITOR"), "{}", torn.err);
    let form = cli.run("trace ops.jsonl --from redis --out ops.parquet");
    assert!(form.code == 2 && form.err.contains("a trace is .jsonl or .csv"), "{}", form.err);
    cli.write("exists.csv", "mine");
    assert_eq!(cli.run("trace ops.jsonl --from http --out exists.csv").code, 2);
    assert_eq!(std::fs::read_to_string(cli.path("exists.csv")).unwrap(), "mine");
}
