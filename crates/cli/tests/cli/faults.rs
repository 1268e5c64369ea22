//! Servers that a study starts and breaks, and what the ledger says of what they had acknowledged.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::common::{Cli, Done};
use crate::server::Server;

/// A study that does this to its server, on this store; the server's table is added behind it.
fn study(store: &str, faults: &str, duration: &str, durability: &str) -> String {
    format!(
        r#"
title = "Killed while it works"
stores = ["{store}"]
[collections.docs]
count = 2_000
size = "300B"
[[phases]]
name = "load"
load = ["docs"]
durability = "{durability}"
[[phases]]
name = "steady"
mix = {{ read = 2, upsert = 4, insert = 1, delete = 1 }}
duration = "{duration}"
streams = "disjoint"
ledger = true
timeout = "2s"
durability = "{durability}"
faults = {faults}
"#
    )
}

fn steady(result: &Value) -> &Value {
    &result["trials"][0]["phases"][1]
}

fn verdict<'a>(result: &'a Value, check: &str) -> &'a Value {
    result["verdicts"].as_array().unwrap().iter().find(|v| v["check"] == check).unwrap()
}

/// Each seeded moment is another one; `make test` has one of each store.
fn moment(seed: u64) -> String {
    format!("{}ms", 700 + seed * 7_919 % 600)
}

fn killed(store: &str, durability: &str, server: &str, seed: u64) -> (Cli, Done) {
    let cli = Cli::new();
    let faults = format!("[{{ at = \"{}\", do = \"kill\", for = \"100ms\" }}]", moment(seed));
    cli.write("kill.toml", &format!("{}{server}", study(store, &faults, "3s", durability)));
    let done = cli.run(&format!("run kill.toml --json -q --manage-servers --set seed={}", seed + 1));
    (cli, done)
}

/// Nothing of ours runs or lies about.
fn nothing_left(cli: &Cli) {
    let left = cli.leases();
    assert!(left.is_empty(), "{left:?}");
}

/// Whatever was acknowledged is there, and the run says what clients saw.
#[track_caller]
fn nothing_lost(cli: &Cli, done: &Done) -> Value {
    done.assert_measured();
    let result = done.json();
    let ledger = &steady(&result)["ledger"];
    assert!(ledger["keys"].as_u64().unwrap() > 1_000, "{ledger}");
    assert_eq!((&ledger["lost"], &ledger["unverifiable"]), (&0.into(), &0.into()), "{ledger}");
    assert_eq!(ledger["reads"]["stale"], 0, "{ledger}");
    let fault = &steady(&result)["faults"][0];
    assert_eq!(fault["what"], "kill");
    let (began, mended) = (fault["began_ns"].as_u64().unwrap(), fault["mended_ns"].as_u64().unwrap());
    assert!(mended - began >= 100_000_000, "{fault}");
    assert!(fault["unavailable_ns"].as_u64().unwrap() >= 100_000_000, "{fault}");
    // On a busy machine a server may be back only when the phase is over.
    assert!(fault["first_answer_ns"].as_u64().is_none_or(|ns| ns >= 100_000_000), "{fault}");
    assert!(fault["ready_ns"].as_u64().is_some(), "{fault}");
    assert!(steady(&result)["connection_events"]["disconnects"].as_u64().unwrap() > 0);
    assert_eq!(verdict(&result, "lost-writes")["level"], "pass");
    nothing_left(cli);
    result
}

#[test]
fn embedded_stores_that_sync_keep_what_they_acknowledged() {
    for (seed, store) in ["sqlite:it.db", "redb:it.redb", "fjall:it"].into_iter().enumerate() {
        let (cli, done) = killed(store, "fsync", "", seed as u64);
        let result = nothing_lost(&cli, &done);
        let trial = &result["trials"][0];
        assert!(trial["url"].as_str().unwrap().starts_with("hosted+"), "{}", trial["url"]);
        assert!(trial["server_ready_ns"].as_u64().unwrap() > 0);
    }
}

#[test]
fn redis_without_persistence_loses_what_it_acknowledged_and_says_so() {
    let server = Server::start("redis");
    let (cli, done) = killed(&server.url, "none", &format!("[servers.redis]\n{}", server.commands()), 1);
    assert_eq!(done.code, 1, "{}", done.err);
    let result = done.json();
    let ledger = &steady(&result)["ledger"];
    assert!(ledger["gone"].as_u64().unwrap() > 500, "{ledger}");
    assert_eq!(ledger["examples"].as_array().unwrap().len(), 20);
    assert!(ledger["examples"][0].as_str().unwrap().contains("lost though acknowledged"), "{ledger}");
    assert_eq!(verdict(&result, "lost-writes")["level"], "invalid");
    nothing_left(&cli);
}

#[test]
fn redis_that_syncs_its_log_keeps_what_it_acknowledged() {
    let options = ["--option", "appendonly yes", "--option", "appendfsync always"];
    let server = Server::start_with("redis", &options);
    let (cli, done) = killed(&server.url, "fsync", &format!("[servers.redis]\n{}", server.commands()), 2);
    nothing_lost(&cli, &done);
}

#[test]
fn postgres_keeps_what_it_acknowledged() {
    let server = Server::start("postgres");
    let (cli, done) = killed(&server.url, "fsync", &format!("[servers.postgres]\n{}", server.commands()), 3);
    nothing_lost(&cli, &done);
}

#[test]
fn a_pause_is_seen_as_long_as_it_lasts() {
    let cli = Cli::new();
    let faults = r#"[{ at = "800ms", do = "pause", for = "600ms" }, { at = "1800ms", do = "restart" }]"#;
    cli.write("pause.toml", &study("sqlite:it.db", faults, "3s", "os"));
    let done = cli.run("run pause.toml --json -q");
    done.assert_measured();
    let result = done.json();
    let [pause, restart] = &steady(&result)["faults"].as_array().unwrap()[..] else { panic!("{result}") };
    assert_eq!((&pause["what"], &restart["what"]), (&"pause".into(), &"restart".into()));
    // Whoever was answered last before it and first after it was so within an interval of it.
    assert!(pause["unavailable_ns"].as_u64().unwrap() >= 590_000_000, "{pause}");
    assert_eq!(steady(&result)["ledger"]["lost"], 0);
    nothing_left(&cli);
    let text = cli.run("run pause.toml -q").out;
    assert!(text.contains("pause at ") && text.contains("nobody was answered for"), "{text}");
}

#[test]
fn what_a_killed_run_left_is_ended_by_the_next_one() {
    let cli = Cli::new();
    let faults = r#"[{ at = "9m", do = "kill" }]"#;
    cli.write("long.toml", &study("sqlite:it.db", faults, "10m", "os"));
    let socket = |text: &str| text.contains("host sqlite:it.db");
    let hosts = || -> Vec<PathBuf> {
        let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let here =
            |path: &Path| path.join("cwd").read_link().is_ok_and(|cwd| cwd == cli.path("").canonicalize().unwrap());
        let line = |path: &Path| std::fs::read_to_string(path.join("cmdline")).unwrap_or_default().replace('\0', " ");
        all.filter(|path| here(path) && socket(&line(path))).collect()
    };
    let mut run = cli.command(&["run", "long.toml", "-q"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !cli.path("it.db").exists() || hosts().is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    // It ends by itself, as its input does; one that could not would be ended by the next run.
    while !hosts().is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    cli.write("short.toml", &study("sqlite:other.db", "[]", "200ms", "os"));
    let next = cli.run("run short.toml");
    next.assert_measured();
    assert!(next.err.contains("an earlier run was killed and left server `sqlite` behind"), "{}", next.err);
    nothing_left(&cli);
}

#[test]
fn what_cannot_be_broken_is_refused_before_anything_is_touched() {
    let cli = Cli::new();
    let kill = r#"[{ at = "100ms", do = "kill" }]"#;
    let commands = "[servers.sqlite]\nrun = \"touch it-ran\"\n";
    for (text, args, said) in [
        (study("redis://127.0.0.1:1", kill, "1s", "none"), "", "does not say how; add [servers.redis]"),
        (study("memory:", kill, "1s", "none"), "", "does not say how; add [servers.memory]"),
        (study("sqlite:it.db", kill, "1s", "os") + commands, "", "add --manage-servers"),
        (study("sqlite:it.db", r#"[{ at = "5s", do = "kill" }]"#, "1s", "os"), "", "is over by then"),
        (study("sqlite:it.db", r#"[{ do = "kill" }]"#, "1s", "os"), "", "when?"),
        (study("sqlite:it.db", r#"[{ at = "1ms", do = "pause" }]"#, "1s", "os"), "", "for how long?"),
        (study("sqlite:it.db", r#"[{ at = "1ms", do = "explode" }]"#, "1s", "os"), "", "explode"),
        (study("sqlite:it.db", "[]", "1s", "os") + "[servers.sqlite]\n", "", "a server needs `run`"),
    ] {
        cli.write("bad.toml", &text);
        let done = cli.run(&format!("run bad.toml -q {args}"));
        assert_eq!(done.code, 2, "{}", done.err);
        assert!(done.err.contains(said), "{said}: {}", done.err);
    }
    assert!(!cli.path("it.db").exists() && !cli.path("it-ran").exists());
}

#[test]
fn a_server_that_does_not_start_shows_what_it_said() {
    let cli = Cli::new();
    let server = "[servers.redis]\nrun = \"sh -c 'echo the disk is full >&2; exit 9'\"\n";
    cli.write("dies.toml", &(study("redis://127.0.0.1:1", "[]", "1s", "none") + server));
    let done = cli.run("run dies.toml -q --manage-servers");
    assert_eq!(done.code, 3, "{}", done.err);
    assert!(done.err.contains("exit status: 9") && done.err.contains("the disk is full"), "{}", done.err);
}
