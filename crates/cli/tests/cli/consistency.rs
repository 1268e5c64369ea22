//! Consistency checks of runs: healthy servers that are killed and paused while all workers share a few documents, and a
//! replica whose lag is known.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Cli, Done};
use crate::server::Server;

fn study(store: &str, phase: &str, server: &str) -> String {
    format!(
        r#"
title = "Who sees what"
stores = ["{store}"]
[collections.docs]
count = 50
size = "300B"
[[phases]]
name = "load"
load = ["docs"]
settle = "5s"
[[phases]]
name = "steady"
workers = 3
timeout = "2s"
consistency_check = true
{phase}
{server}"#
    )
}

fn history(done: &Done) -> Value {
    assert!(!done.out.is_empty(), "{}\n{}", done.code, done.err);
    done.json()["trials"][0]["phases"][1]["history"].clone()
}

fn check(result: &Value) -> &Value {
    result["checks"].as_array().unwrap().iter().find(|check| check["check"] == "broken-consistency").unwrap()
}

/// Runs the study for `seconds`, with kills and, where the server is one of its own, pauses. Asserts that some order
/// explains what the workers saw of each document.
#[track_caller]
fn explained(name: &str, url: &str, seconds: u64, seed: u64, pauses: bool, server: &str) {
    let cli = Cli::new();
    let at = |share: u64| seconds * share * 10 + seed * 137 % 300;
    let pause =
        if pauses { format!("{{ at = \"{}ms\", do = \"pause\", for = \"300ms\" }},", at(20)) } else { String::new() };
    let phase = format!(
        "mix = {{ read = 5, upsert = 3, cas = 2, delete = 1 }}\nrate = 1500\nin_flight = 4\nduration = \"{seconds}s\"\ndrain = \"20s\"\n\
         faults = [{pause} {{ at = \"{}ms\", do = \"kill\", for = \"100ms\" }}]",
        at(50)
    );
    cli.write("seen.toml", &study(url, &phase, server));
    let done = cli.run(&format!("run seen.toml --json -q --manage-servers --set seed={seed}"));
    let history = history(&done);
    println!(
        "soak: {name}, seed {seed}, {seconds} s: exit {}, {} operations, {} of unknown outcome, {} explained, {} broken, {} undecided",
        done.code,
        history["operations"],
        history["unknown"],
        history["linearizable"],
        history["broken"],
        history["undecided"]
    );
    assert_eq!((&history["broken"], &history["undecided"]), (&0.into(), &0.into()), "{name}, seed {seed}: {history:#}");
    assert_eq!(history["linearizable"], 50, "{name}, seed {seed}: {history}");
    assert!(history["operations"].as_u64() > Some(500), "{name}, seed {seed}: {history}");
    assert_eq!(check(&done.json())["severity"], "pass", "{name}, seed {seed}");
    assert!(cli.leases().is_empty());
}

fn on_server(name: &'static str, seconds: u64, seed: u64) {
    let server = match name {
        "redis" => Server::start_with("redis", &["--option", "appendonly yes", "--option", "appendfsync always"]),
        "cassandra" => Server::start_with("cassandra", &["--option", "commitlog_sync: batch"]),
        name => Server::start(name),
    };
    let table = format!("[servers.{}]\n{}", server.url.split(':').next().unwrap(), server.commands());
    // Plain upserts of Cassandra are not linearizable with its other writes.
    let url = server.url.clone() + if name == "cassandra" { "?writes=lwt" } else { "" };
    explained(name, &url, seconds, seed, true, &table);
}

#[test]
fn an_embedded_store_that_is_killed_is_explained() {
    explained("sqlite", "sqlite:seen.db", 3, 1, false, "");
}

#[test]
fn redis_under_a_kill_and_a_pause_is_explained() {
    on_server("redis", 4, 1);
}

#[test]
fn postgres_under_a_kill_and_a_pause_is_explained() {
    on_server("postgres", 4, 1);
}

#[test]
fn mariadb_under_a_kill_and_a_pause_is_explained() {
    on_server("mariadb", 4, 1);
}

/// A server that forgets everything when it is killed, as its durability allows.
#[test]
fn a_loss_that_the_durability_allows_is_excused() {
    let server = Server::start("redis");
    let cli = Cli::new();
    // By operations, so that enough of them follow the fault on a machine of any speed.
    let phase = "mix = { read = 5, upsert = 3, cas = 2 }\noperations = 6_000\nthink = \"2ms\"\n\
                 durability = \"none\"\nfaults = [{ after = 1_500, do = \"kill\", for = \"100ms\" }]";
    let table = format!("[servers.redis]\n{}", server.commands());
    let text = study(&server.url, phase, &table);
    // What happens after the loss must be explained, also in a phase of its own.
    let after = "[[phases]]\nname = \"after\"\nworkers = 3\nmix = { read = 5, upsert = 3 }\noperations = 600\n\
                 durability = \"none\"\nconsistency_check = true\n[servers.redis]";
    cli.write("lost.toml", &text.replace("[servers.redis]", after));
    let done = cli.run("run lost.toml --json -q --manage-servers");
    let found = history(&done);
    assert!(found["broken"].as_u64() > Some(10) && found["broken"] == found["excused"], "{found}");
    let result = done.json();
    assert_eq!(check(&result)["severity"], "caution");
    assert!(check(&result)["observed"].as_str().unwrap().contains("as durability `none` allows after `kill`"));
    let after = &result["trials"][0]["phases"][2]["history"];
    assert_eq!((&after["broken"], &after["linearizable"]), (&0.into(), &after["keys"]), "{after}");
    assert!(done.code == 0 || done.code == 4, "{}: {}", done.code, done.err);
}

#[test]
#[ignore = "soak: twenty seconds and five seeds of each server"]
fn soak_healthy_servers_are_explained() {
    for name in ["redis", "postgres", "ravendb", "mariadb", "opensearch", "cassandra"] {
        (1..=5).for_each(|seed| on_server(name, 20, seed));
    }
    for store in ["sqlite:seen.db", "redb:seen.redb", "fjall:seen"] {
        (1..=5).for_each(|seed| explained(store, store, 20, seed, false, ""));
    }
}

/// How far the replica is behind its primary.
const LAG: Duration = Duration::from_millis(250);

/// Forwards connections to this port, and holds back what the server sends for [`LAG`].
fn delayed(to: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(("127.0.0.1", to)).unwrap();
            let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
            hold_back(server, client);
        }
    });
    port
}

fn hold_back(mut from: TcpStream, mut to: TcpStream) {
    let (read, waiting) = mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(bytes @ 1..) = from.read(&mut buffer) {
            let _ = read.send((Instant::now() + LAG, buffer[..bytes].to_vec()));
        }
    });
    std::thread::spawn(move || {
        for (at, bytes) in waiting {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
    });
}

/// Sends a command to a Redis server, and returns the start of its answer.
fn redis(port: u16, command: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut buffer = vec![0; 1 << 14];
    let bytes = stream.read(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..bytes]).into_owned()
}

#[test]
fn the_lag_of_a_replica_is_told() {
    let (primary, replica) = (Server::start("redis"), Server::start("redis"));
    let (of_primary, of_replica) = (primary.port, replica.port);
    let followed = delayed(of_primary);
    assert!(redis(of_replica, &format!("REPLICAOF 127.0.0.1 {followed}")).starts_with("+OK"));
    let begun = Instant::now();
    while !redis(of_replica, "INFO replication").contains("master_link_status:up") {
        assert!(begun.elapsed() < Duration::from_secs(60), "the replica does not follow");
        std::thread::sleep(Duration::from_millis(100));
    }
    let cli = Cli::new();
    // Each document is written about every 50 ms.
    let phase = |consistency: &str| {
        format!(
            "mix = {{ read = 1, upsert = 1 }}\nrate = 2000\nduration = \"3s\"\ndrain = \"20s\"\nconsistency = \"{consistency}\""
        )
    };
    let url = format!("{}?replica=127.0.0.1:{of_replica}", primary.url);
    cli.write("lag.toml", &study(&url, &phase("stale-ok"), ""));
    let done = cli.run("run lag.toml --json -q");
    let found = history(&done);
    let staleness = &found["staleness"];
    let number = |name: &str| staleness[name].as_u64().unwrap();
    assert!(number("stale") > number("reads") / 2, "{staleness}");
    let behind = Duration::from_nanos(number("time_behind_max_ns"));
    // What a read returned was overwritten up to a lag ago, and a document is overwritten every 50 ms. A busy machine
    // adds to the lag.
    assert!(behind > LAG - Duration::from_millis(60) && behind < LAG * 8, "{behind:?}");
    assert!(number("versions_behind_max") >= 3, "{staleness}");
    let told = check(&done.json()).clone();
    assert_eq!(told["severity"], "note", "{told}");
    assert!(told["observed"].as_str().unwrap().contains("returned an overwritten version"), "{told}");
    assert!(done.code == 0 || done.code == 4, "{}: {}", done.code, done.err);
    // The same store, read at its primary.
    cli.write("fresh.toml", &study(&url, &phase("strong"), ""));
    let done = cli.run("run fresh.toml --json -q");
    let found = history(&done);
    assert_eq!((&found["broken"], &found["staleness"]["stale"]), (&0.into(), &0.into()), "{found}");
}

#[test]
fn what_it_cannot_follow_is_refused() {
    let cli = Cli::new();
    for (phase, told) in [
        (
            "mix = { read = 1, upsert = 1 }\noperations = 9\nstreams = \"disjoint\"",
            "each document belongs to one worker",
        ),
        ("mix = { read = 1, append = 1 }\noperations = 9", "it does not know what append leaves"),
        ("mix = { read = 1 }\noperations = 9", "add `read` and one of"),
    ] {
        cli.write("seen.toml", &study("sqlite:seen.db", phase, ""));
        let done = cli.run("run seen.toml");
        assert!(done.code == 2 && done.err.contains(told), "{phase}: {}", done.err);
    }
    cli.write("seen.toml", &study("sqlite:seen.db", "mix = { read = 1, upsert = 1 }\noperations = 9", ""));
    let done = cli.run("run seen.toml --part 1/2 --out runs");
    assert!(done.code == 2 && done.err.contains("each part has its own"), "{}", done.err);
}

/// The report shows what no order explains, with times.
#[test]
fn the_report_shows_what_no_order_explains() {
    let cli = Cli::new();
    let phase = "mix = { read = 1, upsert = 1 }\noperations = 900";
    cli.write("seen.toml", &study("sqlite:seen.db", phase, ""));
    let done = cli.run("run seen.toml --out runs --json -q");
    let mut result = done.json();
    let folder = result["run"]["folder"].as_str().unwrap().to_owned();
    let page = std::fs::read_to_string(cli.path(&format!("{folder}/report.html"))).unwrap();
    assert!(page.contains("What the workers saw") && !page.contains("No order explains"));
    let operations = history(&done)["operations"].as_u64().unwrap();
    assert!((890..=900).contains(&operations), "{operations}");
    // As from a store with a stale read.
    let file = history(&done)["file"].as_str().unwrap().to_owned();
    assert_eq!(cli.run(&format!("check {folder}/{file}")).code, 0);
    let history = &mut result["trials"][0]["phases"][1]["history"];
    let step = |client: u64, op: &str, value: u64, ms: u64| {
        serde_json::json!({ "key": "docs/7", "client": client, "op": op, "value": value, "sent_ns": ms * 1_000_000,
                            "answered_ns": ms * 1_000_000 + 500_000 })
    };
    history["broken"] = 1.into();
    history["examples"] = serde_json::json!([{
        "key": "docs/7",
        "initial": "as loaded",
        "sequence": [step(1, "write", 4, 10), step(2, "write", 5, 12), step(0, "read", 4, 15)],
    }]);
    cli.write(&format!("{folder}/run.json"), &result.to_string());
    let told = cli.run(&format!("report {folder} --full"));
    // Lines end anywhere.
    let words = told.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("no order explains those on 1 document."), "{}", told.out);
    cli.run(&format!("report {folder}")).code(0);
    let page = std::fs::read_to_string(cli.path(&format!("{folder}/report.html"))).unwrap();
    for shown in ["No order explains <code>docs/7</code>", "wrote 5", "read 4", "5.00 ms", "client 2"] {
        assert!(page.contains(shown), "{shown}");
    }
}
