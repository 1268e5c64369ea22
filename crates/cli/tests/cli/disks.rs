//! Disks that lose unsynced writes, and full disks: what stores guarantee, and what they keep.

use serde_json::Value;

use crate::common::{Cli, Done, installed};
use crate::server::free_port;

fn study(store: &str, durability: &str, faults: &str) -> String {
    format!(
        r#"
title = "On a disk that forgets"
stores = ["{store}"]
[collections.docs]
count = 1_000
size = "300B"
[[phases]]
name = "load"
load = ["docs"]
durability = "{durability}"
[[phases]]
name = "steady"
mix = {{ read = 2, upsert = 4, insert = 1, delete = 1 }}
duration = "2500ms"
streams = "disjoint"
ledger = true
timeout = "2s"
durability = "{durability}"
faults = {faults}
"#
    )
}

/// Whether the machine can create such disks. If not, the test counts as skipped.
fn can() -> bool {
    storebench_machine::PowerCut::available().inspect_err(|why| println!("skipped: {why}")).is_ok()
}

fn run(store: &str, durability: &str, faults: &str, server: &str) -> (Cli, Done) {
    let cli = Cli::new();
    cli.write("it.toml", &format!("{}{server}", study(store, durability, faults)));
    let done = cli.run("run it.toml --json -q --manage-servers");
    (cli, done)
}

fn ledger(result: &Value) -> &Value {
    &result["trials"][0]["phases"][1]["ledger"]
}

#[track_caller]
fn nothing_left(cli: &Cli) {
    let leases = cli.leases();
    assert!(leases.is_empty(), "{leases:?}");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&cli.path("").display().to_string()), "{mounts}");
}

#[track_caller]
fn kept(store: &str, faults: &str, server: &str) -> Value {
    let (cli, done) = run(store, "fsync", faults, server);
    done.assert_measured();
    let result = done.json();
    let found = ledger(&result);
    assert!(found["keys"].as_u64().unwrap() > 500, "{store}: {found}");
    assert_eq!((&found["lost"], &found["unverifiable"]), (&0.into(), &0.into()), "{store}: {found}");
    nothing_left(&cli);
    result
}

#[track_caller]
fn lost(store: &str, durability: &str, server: &str) {
    let (cli, done) = run(store, durability, r#"[{ at = "1500ms", do = "power-cut" }]"#, server);
    // A power cut may lose what only the operating system had received. It is reported, but the store does not fail.
    done.assert_measured();
    let result = done.json();
    let found = ledger(&result);
    assert!(found["gone"].as_u64().unwrap() + found["stale"].as_u64().unwrap() > 0, "{store}: {found}");
    let checks = result["checks"].as_array().unwrap();
    let told = checks.iter().find(|v| v["check"] == "lost-writes").unwrap();
    assert_eq!(told["severity"], "caution", "{store}: {told}");
    let allows = format!("as durability `{durability}` allows after `power-cut`");
    assert!(told["observed"].as_str().unwrap().contains(&allows), "{store}: {told}");
    let fault = &result["trials"][0]["phases"][1]["faults"][0];
    assert!(fault["forgotten"]["bytes"].as_u64().unwrap() > 0, "{store}: {fault}");
    nothing_left(&cli);
}

#[test]
fn what_was_synced_outlasts_the_power() {
    if !can() {
        return;
    }
    for (seed, store) in ["sqlite:it.db", "redb:it.redb", "fjall:it"].into_iter().enumerate() {
        kept(store, &format!("[{{ at = \"1{seed}00ms\", do = \"power-cut\", for = \"100ms\" }}]"), "");
        kept(store, &format!("[{{ at = \"1{seed}50ms\", do = \"power-cut\", keep = {seed} }}]"), "");
    }
}

#[test]
fn what_was_not_synced_is_lost_with_the_power_and_the_run_says_so() {
    if !can() {
        return;
    }
    // For SQLite, `os` is synchronous=OFF.
    for store in ["redb:it.redb", "fjall:it", "sqlite:it.db?journal=delete"] {
        lost(store, "os", "");
    }
}

/// Configurations that differ in an option of the store use one disk, one after the other.
#[test]
fn configurations_of_one_store_share_its_disk() {
    if !can() {
        return;
    }
    let cli = Cli::new();
    let cut = r#"[{ at = "1s", do = "power-cut" }]"#;
    let factors = "[factors]\n\"stores.sqlite.cache\" = [\"1MiB\", \"4MiB\"]\n";
    cli.write("it.toml", &format!("{}{factors}", study("sqlite:it.db", "fsync", cut)));
    let done = cli.run("run it.toml --json -q");
    done.assert_measured();
    let result = done.json();
    let lost: Vec<&Value> =
        result["trials"].as_array().unwrap().iter().map(|t| &t["phases"][1]["ledger"]["lost"]).collect();
    assert_eq!(lost, [0, 0]);
    nothing_left(&cli);
}

/// The environment of `redis-server`: the folders of its programs and libraries.
fn redis() -> String {
    let (root, libraries) = installed("redis");
    format!("env LD_LIBRARY_PATH={libraries} PATH={root}/usr/bin")
}

#[test]
fn redis_keeps_what_its_log_has_synced_and_nothing_else() {
    if !can() {
        return;
    }
    let place = redis();
    for (fsync, durability) in [("always", "fsync"), ("no", "os")] {
        let port = free_port();
        let table = format!(
            "[servers.redis]\nrun = \"{place} redis-server --port \
             {{port}} --dir {{data}} --appendonly yes --appendfsync {fsync} --save ''\"\nport = {port}\ndata = \"data\"\n"
        );
        let url = format!("redis://127.0.0.1:{port}");
        match fsync {
            "always" => drop(kept(&url, r#"[{ at = "1200ms", do = "power-cut" }]"#, &table)),
            _ => lost(&url, durability, &table),
        }
    }
}

/// Limits a server for a while, and then removes the limit. The store writes nothing to disk. If other tests keep the
/// disk busy, a store that syncs waits for it, and needs less of the processor than the limit allows.
#[test]
fn a_server_that_gets_less_for_a_while_is_slower_then_and_loses_nothing() {
    let limits = storebench_machine::Limits { cpus: Some(0.02), ..Default::default() };
    if let Err(why) = storebench_machine::available(&limits, None) {
        println!("skipped: {why}");
        return;
    }
    // On a machine that is busy with other things, the server may get less than the limit, so it is tried again.
    let throttled = (0..3).map(|_| limited_for_a_while()).find(|seconds| *seconds > 0.0);
    assert!(throttled.is_some(), "the limit did not slow the server");
}

/// Runs it. Gives the seconds in which the server had to wait because of its limit: zero without one.
fn limited_for_a_while() -> f64 {
    let cli = Cli::new();
    let (place, port) = (redis(), free_port());
    let table = format!(
        "[servers.redis]\nrun = \"{place} redis-server --port {{port}} --dir {{data}} --save ''\"\nport = {port}\n\
         data = \"data\"\n"
    );
    let faults = r#"[{ at = "1s", do = "limit", cpus = 0.02, memory = "512MiB", for = "1s" }]"#;
    cli.write("it.toml", &format!("{}{table}", study(&format!("redis://127.0.0.1:{port}"), "none", faults)));
    let done = cli.run("run it.toml --json -q --manage-servers");
    done.assert_measured();
    let result = done.json();
    let phase = &result["trials"][0]["phases"][1];
    assert_eq!(phase["faults"][0]["detail"], "0.02 processors, 512MiB of memory", "{}", phase["faults"]);
    assert!(phase["faults"][0]["problem"].is_null(), "{}", phase["faults"]);
    assert_eq!(phase["ledger"]["lost"], 0);
    nothing_left(&cli);
    phase["resources"]["limited"]["throttled_s"].as_f64().unwrap()
}

/// Not about disks, but it uses the same commands.
#[test]
fn limits_of_a_server_are_values_and_are_felt() {
    let limits = storebench_machine::Limits { cpus: Some(0.02), ..Default::default() };
    if storebench_machine::available(&limits, None).inspect_err(|why| println!("skipped: {why}")).is_err() {
        return;
    }
    // As above, it is tried again.
    let felt = (0..3).map(|_| limited_by_values()).any(|[less, more]| less > more);
    assert!(felt, "the server waited no longer with the lower limit");
}

/// Runs it. Gives the seconds in which the server had to wait with each of the two limits.
fn limited_by_values() -> [f64; 2] {
    let port = free_port();
    let table = format!(
        "[servers.redis]\nrun = \"{} redis-server --port {{port}} --save '' --dir .\"\nport = {port}\n[factors]\n\
         \"servers.redis.cpus\" = [0.02, 1]\n",
        redis()
    );
    let (cli, done) = run(&format!("redis://127.0.0.1:{port}"), "none", "[]", &table);
    done.assert_measured();
    let result = done.json();
    let trials = result["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2, "{}", result["trials"]);
    nothing_left(&cli);
    [0.02, 1.0].map(|cpus| {
        let trial = trials.iter().find(|trial| trial["values"]["servers.redis.cpus"] == cpus).unwrap();
        trial["phases"][1]["resources"]["limited"]["throttled_s"].as_f64().unwrap()
    })
}

#[test]
fn the_built_in_study_that_kills_a_store_in_every_way_ends_with_nothing_lost() {
    if !can() {
        return;
    }
    let cli = Cli::new();
    let done = cli.run("run what-if-it-dies --preset laptop --store redb:it.redb --json -q");
    done.assert_measured();
    let result = done.json();
    let phases = result["trials"][0]["phases"].as_array().unwrap();
    let faults: Vec<&str> = phases
        .iter()
        .flat_map(|p| p["faults"].as_array().into_iter().flatten())
        .map(|f| f["what"].as_str().unwrap())
        .collect();
    assert_eq!(faults, ["kill", "restart", "pause", "power-cut", "power-cut", "disk-full", "restart"]);
    for phase in &phases[1..] {
        let found = &phase["ledger"];
        assert!(found["keys"].as_u64().unwrap() > 100, "{}: {found}", phase["name"]);
        assert_eq!((&found["lost"], &found["unverifiable"]), (&0.into(), &0.into()), "{}: {found}", phase["name"]);
    }
    nothing_left(&cli);
}

/// Redis with `appendfsync always` ends by itself when its disk is full. It keeps everything, so it is not accused, and what
/// it did is told.
#[test]
fn a_server_that_ends_on_a_full_disk_and_keeps_everything_is_not_accused() {
    if !can() {
        return;
    }
    let (place, port) = (redis(), free_port());
    let table = format!(
        "[servers.redis]\nrun = \"{place} redis-server --port {{port}} --dir {{data}} --appendonly yes --appendfsync \
         always --save ''\"\nport = {port}\ndata = \"data\"\n"
    );
    let faults = r#"[{ at = "500ms", do = "disk-full", for = "500ms" }, { at = "1500ms", do = "restart" }]"#;
    let (cli, done) = run(&format!("redis://127.0.0.1:{port}"), "fsync", faults, &table);
    let result = done.json();
    let phase = &result["trials"][0]["phases"][1];
    let (ledger, faults) = (&phase["ledger"], phase["faults"].as_array().unwrap());
    assert!(ledger["keys"].as_u64().unwrap() > 500, "{ledger}");
    assert_eq!((&ledger["confirmed"], &ledger["unverifiable"]), (&ledger["keys"], &0.into()), "{ledger}");
    assert!(faults[0]["server_ended"].as_str().unwrap().contains("exit status: 1"), "{faults:?}");
    assert!(faults.iter().all(|fault| fault["problem"].is_null()), "{faults:?}");
    assert!(result["trials"][0]["failure"].is_null(), "{}", result["trials"][0]["failure"]);
    done.assert_measured();
    let told = cli
        .run_args(&["report", &cli.run_folder().display().to_string(), "--full"])
        .out
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(told.contains("its server ended by itself during a full disk, and was started again"), "{told}");
    assert!(!told.contains("Data was lost") && !told.contains("lost: "), "{told}");
    nothing_left(&cli);
}

#[test]
fn a_full_disk_is_told_in_words_and_takes_nothing_that_was_acknowledged() {
    if !can() {
        return;
    }
    let full = r#"[{ at = "800ms", do = "disk-full", for = "600ms" }]"#;
    // SQLite overwrites a log that has already grown, so whether it needs space depends on when the disk fills.
    kept("sqlite:it.db", full, "");
    // A rollback journal is a new file for each transaction.
    let result = kept("sqlite:it.db?journal=delete", full, "");
    let messages = result["trials"][0]["phases"][1]["messages"].to_string();
    assert!(messages.contains("the disk is full; free some space"), "{messages}");
}

#[test]
fn disks_that_cannot_be_broken_are_refused_before_anything_is_touched() {
    let cut = r#"[{ at = "100ms", do = "power-cut" }]"#;
    let given = "[servers.redis]\nstart = \"touch it-ran\"\nstop = \"true\"\n";
    let without = "[servers.redis]\nrun = \"touch it-ran\"\n";
    for (store, faults, server, said) in [
        ("redis://127.0.0.1:1", cut, given, "start the server with `run`"),
        ("redis://127.0.0.1:1", cut, without, "add `data`"),
        ("memory:", cut, "", "does not say how"),
        ("sqlite:it.db", r#"[{ at = "1ms", do = "kill", keep = 1 }]"#, "", "`keep` is only for do = \"power-cut\""),
        ("sqlite:it.db", r#"[{ at = "1ms", do = "disk-full" }]"#, "", "the duration is missing"),
    ] {
        let (cli, done) = run(store, "os", faults, server);
        assert_eq!(done.code, 2, "{}", done.err);
        assert!(done.err.contains(said), "{said}: {}", done.err);
        assert!(!cli.path("it-ran").exists() && !cli.path("it.db").exists());
    }
    if can() {
        let cli = Cli::new();
        cli.write("it.toml", &study("sqlite:it.db", "os", cut));
        std::fs::create_dir(cli.path("it.db.disk")).unwrap();
        cli.write("it.db.disk/mine", "is somebody's");
        let done = cli.run("run it.toml -q");
        assert_eq!(done.code, 2, "{}", done.err);
        assert!(done.err.contains("holds files that do not belong to a power cut"), "{}", done.err);
        assert_eq!(std::fs::read_to_string(cli.path("it.db.disk/mine")).unwrap(), "is somebody's");
    }
}
