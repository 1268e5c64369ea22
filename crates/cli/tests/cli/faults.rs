//! Servers that a study starts and breaks, and what the ledger reports about their acknowledged writes.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::common::{Cli, Done, installed};
use crate::server::Server;

/// A study with these faults on this store. Tests append the table of its server.
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

fn check<'a>(result: &'a Value, check: &str) -> &'a Value {
    result["checks"].as_array().unwrap().iter().find(|v| v["check"] == check).unwrap()
}

/// Each seed gives another moment. `make test` uses one seed for each store.
fn moment(seed: u64) -> String {
    format!("{}ms", 700 + seed * 7_919 % 600)
}

fn killed(store: &str, durability: &str, server: &str, seed: u64) -> (Cli, Done) {
    let cli = Cli::new();
    let faults = format!("[{{ at = \"{}\", do = \"kill\", for = \"100ms\" }}]", moment(seed));
    cli.write("kill.toml", &format!("{}{server}", study(store, &faults, "5s", durability)));
    let done = cli.run(&format!("run kill.toml --json -q --manage-servers --set seed={}", seed + 1));
    (cli, done)
}

/// Asserts that the run left nothing behind.
fn nothing_left(cli: &Cli) {
    let left = cli.leases();
    assert!(left.is_empty(), "{left:?}");
}

/// Asserts that no acknowledged write is lost, and that the run reports what clients saw.
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
    // On a busy machine, a server may come back only after the phase.
    assert!(fault["first_answer_ns"].as_u64().is_none_or(|ns| ns >= 100_000_000), "{fault}");
    assert!(fault["ready_ns"].as_u64().is_some(), "{fault}");
    assert!(steady(&result)["connection_events"]["disconnects"].as_u64().unwrap() > 0);
    assert_eq!(check(&result, "lost-writes")["severity"], "pass");
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
    // With durability `none`, data is only in the memory of the process. Its loss is reported, but is not a failure.
    done.assert_measured();
    let result = done.json();
    let ledger = &steady(&result)["ledger"];
    assert!(ledger["gone"].as_u64().unwrap() > 500, "{ledger}");
    assert_eq!(ledger["examples"].as_array().unwrap().len(), 20);
    assert!(ledger["examples"][0].as_str().unwrap().contains("acknowledged, then lost"), "{ledger}");
    assert_eq!(check(&result, "lost-writes")["severity"], "caution");
    let told = check(&result, "lost-writes")["observed"].as_str().unwrap();
    assert!(told.contains("as durability `none` allows after `kill`"), "{told}");
    nothing_left(&cli);
}

/// A command empties a server whose guarantee is to keep every acknowledged write.
#[test]
fn a_loss_that_the_guarantee_forbids_fails_the_run() {
    let options = ["--option", "appendonly yes", "--option", "appendfsync always"];
    let server = Server::start_with("redis", &options);
    let cli = Cli::new();
    let flush = r#"python3 -c "import socket; s = socket.create_connection(('127.0.0.1', {port})); s.sendall(b'FLUSHALL\r\n'); s.recv(9)""#;
    let faults = format!("[{{ at = \"900ms\", do = \"run\", command = '''{flush}''' }}]");
    let text = study(&server.url, &faults, "2s", "fsync");
    cli.write("run.toml", &format!("{text}[servers.redis]\n{}", server.commands()));
    let done = cli.run("run run.toml --json -q --manage-servers");
    assert_eq!(done.code, 1, "{}", done.err);
    let result = done.json();
    assert_eq!(check(&result, "lost-writes")["severity"], "invalid");
    assert!(steady(&result)["ledger"]["gone"].as_u64().unwrap() > 500, "{}", steady(&result)["ledger"]);
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
fn mariadb_keeps_what_it_acknowledged() {
    let server = Server::start("mariadb");
    let (cli, done) = killed(&server.url, "fsync", &format!("[servers.mysql]\n{}", server.commands()), 5);
    nothing_lost(&cli, &done);
}

#[test]
fn ravendb_keeps_what_it_acknowledged() {
    let server = Server::start("ravendb");
    let table = format!("[servers.ravendb]\n{}", server.commands());
    let cli = Cli::new();
    let faults = format!("[{{ at = \"{}\", do = \"kill\", for = \"100ms\" }}]", moment(4));
    // It needs seconds to come back.
    cli.write("kill.toml", &format!("{}{table}", study(&server.url, &faults, "9s", "fsync")));
    nothing_lost(&cli, &cli.run("run kill.toml --json -q --manage-servers"));
}

#[test]
fn memcached_loses_everything_with_a_restart_and_the_run_says_so() {
    let server = Server::start("memcached");
    let cli = Cli::new();
    let faults = r#"[{ at = "900ms", do = "restart" }]"#;
    let table = format!("[servers.memcached]\n{}", server.commands());
    cli.write("restart.toml", &format!("{}{table}", study(&server.url, faults, "2500ms", "none")));
    let done = cli.run("run restart.toml --json -q --manage-servers");
    done.assert_measured();
    assert_eq!(check(&done.json(), "lost-writes")["severity"], "caution");
    let ledger = steady(&done.json())["ledger"].clone();
    assert!(ledger["gone"].as_u64().unwrap() > 500, "{ledger}");
    nothing_left(&cli);
}

/// The commits of a primary wait for a standby. Without the standby, nothing is acknowledged, and nothing is lost.
#[test]
fn commits_that_wait_for_a_standby_stop_with_it_and_go_on_with_it() {
    let server = Server::start("postgres-standby");
    let cli = Cli::new();
    let durability = r#"{ acknowledged_by = 2, persisted = "disk", on = 2 }"#;
    let faults = r#"[
    { at = "1s", do = "kill", server = "replica", for = "1s" },
    { at = "7s", do = "pause", server = "replica", for = "1s" },
]"#;
    let text = study(&server.url, faults, "12s", "-").replace("\"-\"", durability);
    let (own, replica) = (server.commands(), server.commands_of_node("replica"));
    let table = format!("[servers.postgres]\n{own}[servers.replica]\nnode_of = \"postgres\"\n{replica}");
    cli.write("standby.toml", &(text + &table));
    let done = cli.run("run standby.toml --json -q --manage-servers");
    done.assert_measured();
    let result = done.json();
    let [kill, pause] = &steady(&result)["faults"].as_array().unwrap()[..] else { panic!("{result}") };
    for fault in [kill, pause] {
        let unavailable = fault["unavailable_by_op_ns"]["upsert"].as_u64().unwrap_or(0);
        // At least as long as the fault, with the precision of an interval. The standby must also connect again.
        assert!(unavailable >= 900_000_000, "{fault}");
        assert_eq!(fault["detail"], "of replica");
    }
    let paused = pause["ready_ns"].as_u64().unwrap() - pause["began_ns"].as_u64().unwrap();
    assert!(paused >= 1_000_000_000, "{pause}");
    assert_eq!(steady(&result)["ledger"]["lost"], 0, "{}", steady(&result)["ledger"]);
    nothing_left(&cli);
}

/// Restarts every node once under load, the store's own last. The phase is long, because each restart takes seconds on
/// a busy machine.
#[test]
fn nodes_are_restarted_one_after_the_other() {
    let server = Server::start("postgres-standby");
    let cli = Cli::new();
    let faults = r#"[{ after = 200, do = "rolling-restart" }]"#;
    let (own, replica) = (server.commands(), server.commands_of_node("replica"));
    let table = format!("[servers.postgres]\n{own}[servers.replica]\nnode_of = \"postgres\"\n{replica}");
    cli.write("roll.toml", &(study(&server.url, faults, "20s", "fsync") + &table));
    let done = cli.run("run roll.toml --json -q --manage-servers");
    done.assert_measured();
    let result = done.json();
    let fault = &steady(&result)["faults"][0];
    assert_eq!(fault["what"], "rolling-restart");
    assert!(fault["problem"].is_null() && fault["ready_ns"].as_u64() > fault["began_ns"].as_u64(), "{fault}");
    // The primary was away for a while, and came back.
    assert!(steady(&result)["connection_events"]["disconnects"].as_u64().unwrap() > 0, "{fault}");
    assert_eq!(steady(&result)["ledger"]["lost"], 0, "{}", steady(&result)["ledger"]);
    nothing_left(&cli);
}

/// The programs of PostgreSQL.
fn postgres() -> String {
    let (root, libraries) = installed("postgres");
    format!("env LD_LIBRARY_PATH={libraries} {root}/usr/lib/postgresql/15/bin")
}

/// Two nodes cannot reach each other. Commits that wait for both are not acknowledged until the nodes can.
#[test]
fn commits_that_wait_for_a_standby_stop_while_the_network_is_partitioned() {
    use std::os::unix::fs::PermissionsExt as _;
    if let Err(why) = storebench_machine::Network::available() {
        println!("skipped: {why}");
        return;
    }
    let cli = Cli::new();
    std::fs::set_permissions(cli.path(""), std::fs::Permissions::from_mode(0o711)).unwrap();
    let programs = postgres();
    let run = format!(
        "{programs}/postgres -D {{data}} -c listen_addresses={{address}} -c unix_socket_directories= -c \
         synchronous_standby_names=* -c max_wal_senders=5"
    );
    let table = format!(
        r#"
[servers.postgres]
namespace = true
run       = "{run}"
user      = "nobody"
stop_signal = "SIGINT"
prepare   = "{programs}/initdb -U storebench --auth=trust --no-sync -D {{data}} && echo 'host all,replication all samenet trust' >> {{data}}/pg_hba.conf"
data      = "primary"
port      = 5432
[servers.standby]
node_of   = "postgres"
namespace = true
run       = "{run}"
user      = "nobody"
stop_signal = "SIGINT"
prepare   = "{programs}/pg_basebackup -h {{address.postgres}} -U storebench -D {{data}} -R --checkpoint=fast --no-sync"
data      = "standby"
port      = 5432
"#
    );
    let durability = r#"{ acknowledged_by = 2, persisted = "disk", on = 2 }"#;
    let faults = r#"[{ at = "1500ms", do = "partition", groups = [["postgres"], ["standby"]], for = "1s" }]"#;
    let url = "postgres://storebench@{address.postgres}:5432/postgres";
    let text = study(url, faults, "6s", "-").replace("\"-\"", durability);
    // The paths of data are in the test's folder, wherever the servers start.
    let there = |name: &str| format!("data      = \"{}\"", cli.path(name).display());
    let table = table
        .replace(r#"data      = "primary""#, &there("primary"))
        .replace(r#"data      = "standby""#, &there("standby"));
    cli.write("cut.toml", &(text + &table));
    let done = cli.run("run cut.toml --json -q --manage-servers");
    done.assert_measured();
    let result = done.json();
    let fault = &steady(&result)["faults"][0];
    assert_eq!((&fault["what"], &fault["detail"]), (&"partition".into(), &"postgres apart from standby".into()));
    let began = fault["began_ns"].as_u64().unwrap();
    assert!(fault["mended_ns"].as_u64().unwrap() - began >= 1_000_000_000, "{fault}");
    // Reads continue. Writes wait as long as the partition lasts, with the precision of an interval.
    assert!(fault["unavailable_by_op_ns"]["upsert"].as_u64().unwrap() >= 900_000_000, "{fault}");
    assert_eq!(steady(&result)["ledger"]["lost"], 0, "{}", steady(&result)["ledger"]);
    nothing_left(&cli);
}

/// Faults of a link, on a condition, or by a command need no controlled server. Limits and restarts need one.
#[test]
fn links_limits_and_commands_are_felt_and_mended() {
    let options = ["--option", "appendonly yes", "--option", "appendfsync always"];
    let server = Server::start_with("redis", &options);
    let cli = Cli::new();
    let faults = r#"[
    { at = "800ms", do = "link", latency = "40ms", jitter = "5ms", for = "400ms" },
    { at = "2000ms", do = "link", stall = true, for = "600ms" },
    { at = "3600ms", do = "reset" },
    { at = "4200ms", do = "run", command = "sleep 0.2; echo {port} > ran" },
    { when = "used_memory_bytes > 1KiB", do = "restart", cold = true },
]"#;
    let mut text = study(&server.url, faults, "6500ms", "fsync");
    text += &format!("[servers.redis]\n{}", server.commands());
    cli.write("link.toml", &text);
    let done = cli.run("run link.toml --json -q --manage-servers");
    done.assert_measured();
    let result = done.json();
    let phase = steady(&result);
    let all = phase["faults"].as_array().unwrap();
    let named: Vec<&str> = all.iter().map(|fault| fault["what"].as_str().unwrap()).collect();
    assert_eq!(named, ["link", "link", "reset", "run", "restart"]);
    assert!(all.iter().all(|fault| fault["began_ns"].as_u64().is_some() && fault["problem"].is_null()), "{all:?}");
    // The stalled link delayed an answer for as long as the fault lasted.
    assert!(phase["all"]["service_ns"]["max"].as_u64().unwrap() >= 600_000_000, "{}", phase["all"]);
    assert!(all[1]["unavailable_ns"].as_u64().unwrap() >= 500_000_000, "{}", all[1]);
    assert!(phase["connection_events"]["disconnects"].as_u64().unwrap() >= 2, "{}", phase["connection_events"]);
    assert_eq!(std::fs::read_to_string(cli.path("ran")).unwrap().trim(), server.port.to_string());
    let restart = &all[4];
    assert!(!restart["dropped"].as_str().unwrap().is_empty(), "{restart}");
    let at = |key: &str| restart[key].as_u64().unwrap();
    assert!(at("mended_ns") <= at("listening_ns") && at("listening_ns") <= at("ready_ns"), "{restart}");
    assert_eq!(phase["ledger"]["lost"], 0);
    // The result names the server, and not the link to it.
    assert_eq!(result["trials"][0]["url"], server.url.as_str());
    nothing_left(&cli);
}

/// If a server ends by itself, the results until then are kept, with those of the ledger.
#[test]
fn a_server_that_ends_by_itself_takes_nothing_that_was_found_with_it() {
    let cli = Cli::new();
    let store = format!("sqlite:ends-{}.db", std::process::id());
    // `hos[t]` does not match the shell that runs the command. A process that waits for its disk takes a while to end.
    let it = format!("hos[t] {store}");
    let faults = format!(
        r#"[{{ at = "500ms", do = "run", command = "pkill -9 -f '{it}'; while pgrep -f '{it}'; do sleep 0.02; done" }}]"#
    );
    let text = study(&store, &faults, "1s", "fsync") + "[[phases]]\nname = \"later\"\nrestart = \"warm\"\n";
    cli.write("ends.toml", &text);
    let run = |cli: &Cli| cli.run("run ends.toml --json -q --manage-servers");
    let done = run(&cli);
    assert_eq!(done.code, 1, "{}", done.err);
    let result = done.json();
    let phase = steady(&result);
    assert!(phase["ledger"]["keys"].as_u64().unwrap() > 1_000, "{phase}");
    assert!(phase["partial"].as_str().unwrap().contains("ended unexpectedly"), "{}", phase["partial"]);
    nothing_left(&cli);
    // Even if a fault starts it again, the run reports that it has ended by itself.
    let faults = faults.replace("}]", "}, { at = \"900ms\", do = \"restart\" }]");
    cli.write("ends.toml", &study(&store, &faults, "2s", "fsync"));
    let done = run(&cli);
    let result = done.json();
    let all = &steady(&result)["faults"];
    let restart = &all[1];
    let problem = restart["problem"].as_str().unwrap_or_default();
    assert!(problem.contains("ended unexpectedly"), "{all}\n{}", done.err);
    assert!(restart["ready_ns"].as_u64().is_some(), "{restart}");
    assert_eq!(steady(&result)["ledger"]["lost"], 0, "{}", steady(&result)["ledger"]);
    nothing_left(&cli);
}

/// The link to a server can be broken even if the run does not control the server.
#[test]
fn a_link_is_broken_without_a_word_on_the_server() {
    let server = Server::start("postgres");
    let cli = Cli::new();
    let faults = r#"[{ at = "500ms", do = "link", half_open = "to-client", for = "300ms" }]"#;
    cli.write(
        "link.toml",
        &study(&server.url, faults, "3s", "fsync").replace("timeout = \"2s\"", "timeout = \"500ms\""),
    );
    let done = cli.run("run link.toml --json -q");
    done.assert_measured();
    let result = done.json();
    // Clients that waited for an answer never got it, so the outcome of their writes is unknown.
    assert!(steady(&result)["unknown_outcomes"].as_u64().unwrap() > 0, "{}", steady(&result)["unknown_outcomes"]);
    assert_eq!(steady(&result)["ledger"]["lost"], 0);
}

#[test]
fn a_store_that_is_started_cold_rests_and_compacts_tells_how_long_that_took() {
    let cli = Cli::new();
    let text = study("sqlite:it.db", "[]", "300ms", "os")
        + "[[phases]]\nname = \"cold\"\nrestart = \"cold\"\nmix = { read = 1 }\nduration = \"300ms\"\n\
           [[phases]]\nname = \"rest\"\nsettle = \"5s\"\ncompact = true\n";
    cli.write("rest.toml", &text);
    let done = cli.run("run rest.toml --json -q");
    done.assert_measured();
    let result = done.json();
    let phases = &result["trials"][0]["phases"];
    let restarted = &phases[2]["restarted"];
    assert!(restarted["ready_ns"].as_u64().unwrap() > 0 && !restarted["dropped"].is_null(), "{restarted}");
    assert!(phases[2]["ops"]["read"]["count"].as_u64().unwrap() > 0);
    let rest = &phases[3];
    let after = &rest["store_after"];
    assert!(rest["ops"].as_object().unwrap().is_empty() && rest["warm_up"] == true, "{rest}");
    assert!(after["compact_ns"].as_u64().unwrap() > 0 && after["settled"] == true, "{after}");
    assert!(after["disk_peak_bytes"].as_u64().unwrap() >= after["disk_bytes"].as_u64().unwrap(), "{after}");
    let text = cli.run("run rest.toml -q --full").words();
    assert!(text.contains("rest: no operations are sent · compacted in"), "{text}");
    nothing_left(&cli);
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
    // The last answer before the pause and the first one after it are within an interval of it.
    assert!(pause["unavailable_ns"].as_u64().unwrap() >= 590_000_000, "{pause}");
    assert_eq!(steady(&result)["ledger"]["lost"], 0);
    nothing_left(&cli);
    let text = cli.run("run pause.toml -q --full").words();
    assert!(text.contains("pause at ") && text.contains("no operation was answered for"), "{text}");
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
    // The host ends because its input ends. If it did not, the next run would end it.
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
        (study("sqlite:it.db", r#"[{ do = "kill" }]"#, "1s", "os"), "", "the time of the fault is missing"),
        (study("sqlite:it.db", r#"[{ at = "1ms", do = "pause" }]"#, "1s", "os"), "", "the duration is missing"),
        (study("sqlite:it.db", r#"[{ at = "1ms", do = "explode" }]"#, "1s", "os"), "", "explode"),
        (study("sqlite:it.db", "[]", "1s", "os") + "[servers.sqlite]\n", "", "a server needs `run`"),
        (
            study("sqlite:it.db", r#"[{ at = "1ms", do = "link", stall = true, for = "1ms" }]"#, "1s", "os"),
            "",
            "only the link to a server",
        ),
        (
            study("redis://127.0.0.1:1", r#"[{ at = "1ms", do = "link", for = "1ms" }]"#, "1s", "none"),
            "",
            "a link fault needs an effect",
        ),
        (
            study("sqlite:it.db", r#"[{ at = "1ms", do = "kill", latency = "1ms" }]"#, "1s", "os"),
            "",
            "`latency` is only for do = \"link\"",
        ),
        (
            study("sqlite:it.db", r#"[{ at = "1ms", do = "limit", for = "1ms" }]"#, "1s", "os"),
            "",
            "a limit needs a value",
        ),
        (
            study("sqlite:it.db", r#"[{ at = "1ms", do = "run", command = "touch it-ran" }]"#, "1s", "os"),
            "",
            "add --manage-servers",
        ),
        (
            study("sqlite:it.db", r#"[{ at = "1ms", do = "kill", server = "other" }]"#, "1s", "os"),
            "",
            "unknown server `other`",
        ),
        (
            study("sqlite:it.db", r#"[{ at = "1ms", do = "reset", link = "other" }]"#, "1s", "os"),
            "",
            "unknown link `other`",
        ),
        (
            study("sqlite:it.db", r#"[{ at = "9ms", do = "kill" }, { at = "1ms", do = "kill" }]"#, "1s", "os"),
            "",
            "faults cannot overlap",
        ),
        (study("sqlite:it.db", r#"[{ when = "wal > x", do = "kill" }]"#, "1s", "os"), "", "invalid condition"),
        (
            study("sqlite:it.db", "[]\nrandom_faults = { every = \"9s\", of = [{ do = \"kill\" }] }", "1s", "os"),
            "",
            "no fault would happen",
        ),
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
