//! Tests that take too long for every run: many kills, ten minutes of random faults, and disk writes compared with the
//! counters of a dedicated disk.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use storebench_machine::Device;

use crate::common::Cli;
use crate::server::{Server, free_port};

/// A study that draws these faults at random in its phase `steady`. Its durability survives a power failure.
fn study(store: &str, duration: u32, every: &str, of: &str, server: &str) -> String {
    format!(
        r#"
title = "Broken again and again"
stores = ["{store}"]
[collections.docs]
count = 5_000
size = "300B"
[[phases]]
name = "load"
load = ["docs"]
durability = "fsync"
[[phases]]
name = "steady"
mix = {{ read = 3, upsert = 4, insert = 1, delete = 1 }}
rate = 2000
workers = 2
connections = 4
duration = "{duration}s"
streams = "disjoint"
ledger = true
timeout = "2s"
durability = "fsync"
random_faults = {{ every = "{every}", of = {of} }}
{server}"#
    )
}

fn steady(result: &Value) -> &Value {
    &result["trials"][0]["phases"][1]
}

/// Runs the study, prints what was kept, and asserts that nothing is lost and nothing is left behind.
#[track_caller]
fn nothing_lost(store: &str, text: &str, least: usize, seed: u64) {
    let cli = Cli::new();
    cli.write("soak.toml", text);
    let done = cli.run(&format!("run soak.toml --json -q --manage-servers --set seed={seed}"));
    let result = done.json();
    let phase = steady(&result);
    let (ledger, faults) = (&phase["ledger"], phase["faults"].as_array().unwrap());
    let silent: u64 = faults.iter().filter_map(|fault| fault["unavailable_ns"].as_u64()).max().unwrap_or(0);
    println!(
        "soak: {store}: {} faults, {} keys, {} lost, {} stale reads, {} of unknown outcome, {} ms the longest silence",
        faults.len(),
        ledger["keys"],
        ledger["lost"],
        ledger["reads"]["stale"],
        phase["unknown_outcomes"],
        silent / 1_000_000
    );
    assert!(faults.len() >= least, "{faults:?}");
    assert!(faults.iter().all(|fault| fault["problem"].is_null()), "{faults:?}");
    assert_eq!((&ledger["lost"], &ledger["unverifiable"]), (&0.into(), &0.into()), "{ledger}");
    assert_eq!(ledger["reads"]["stale"], 0, "{ledger}");
    assert!(done.code == 0 || done.code == 4, "{}\n{}", done.code, done.err);
    let left = cli.leases();
    assert!(left.is_empty(), "{left:?}");
}

fn ten_kills(store: &str, every_s: u32, server: &str, seed: u64) {
    let of = r#"[{ do = "kill" }, { do = "kill", for = "150ms" }]"#;
    nothing_lost(store, &study(store, every_s * 12, &format!("{every_s}s"), of, server), 10, seed);
}

#[test]
#[ignore = "soak: ten kills of each embedded store"]
fn soak_ten_kills_of_embedded_stores() {
    for (seed, store) in ["sqlite:it.db", "redb:it.redb", "fjall:it"].into_iter().enumerate() {
        ten_kills(store, 2, "", seed as u64 + 11);
    }
}

#[test]
#[ignore = "soak: ten kills of Redis"]
fn soak_ten_kills_of_redis() {
    let server = Server::start_with("redis", &["--option", "appendonly yes", "--option", "appendfsync always"]);
    ten_kills(&server.url, 3, &format!("[servers.redis]\n{}", server.commands()), 21);
}

#[test]
#[ignore = "soak: ten kills of PostgreSQL"]
fn soak_ten_kills_of_postgres() {
    let server = Server::start("postgres");
    ten_kills(&server.url, 4, &format!("[servers.postgres]\n{}", server.commands()), 31);
}

#[test]
#[ignore = "soak: ten kills of RavenDB"]
fn soak_ten_kills_of_ravendb() {
    let server = Server::start("ravendb");
    ten_kills(&server.url, 8, &format!("[servers.ravendb]\n{}", server.commands()), 41);
}

#[test]
#[ignore = "soak: ten kills of MariaDB"]
fn soak_ten_kills_of_mariadb() {
    let server = Server::start("mariadb");
    ten_kills(&server.url, 4, &format!("[servers.mysql]\n{}", server.commands()), 71);
}

#[test]
#[ignore = "soak: ten kills of OpenSearch"]
fn soak_ten_kills_of_opensearch() {
    let server = Server::start("opensearch");
    ten_kills(&server.url, 30, &format!("[servers.opensearch]\n{}", server.commands()), 81);
}

#[test]
#[ignore = "soak: ten kills of Cassandra"]
fn soak_ten_kills_of_cassandra() {
    let server = Server::start_with("cassandra", &["--option", "commitlog_sync: batch"]);
    ten_kills(&server.url, 30, &format!("[servers.cassandra]\n{}", server.commands()), 91);
}

const ANYTHING: &str = r#"[
    { do = "kill" }, { do = "kill", for = "1s" }, { do = "restart" }, { do = "pause", for = "3s" }, { do = "reset" },
    { do = "link", stall = true, for = "2s" }, { do = "link", latency = "30ms", jitter = "5ms", for = "3s" },
    { do = "link", half_open = "to-client", for = "2s" }, { do = "link", half_open = "to-server", for = "2s" },
    { do = "link", refuse = true, for = "2s" },
]"#;

#[test]
#[ignore = "soak: ten minutes of random faults of PostgreSQL"]
fn soak_ten_minutes_of_random_faults_of_postgres() {
    let server = Server::start("postgres");
    let table = format!("[servers.postgres]\n{}", server.commands());
    let of = ANYTHING.replace('\n', " ");
    nothing_lost(&server.url, &study(&server.url, 600, "12s", &of, &table), 40, 51);
}

#[test]
#[ignore = "soak: ten minutes of random faults of RavenDB"]
fn soak_ten_minutes_of_random_faults_of_ravendb() {
    let server = Server::start("ravendb");
    let table = format!("[servers.ravendb]\n{}", server.commands());
    let of = ANYTHING.replace('\n', " ");
    nothing_lost(&server.url, &study(&server.url, 600, "15s", &of, &table), 35, 61);
}

/// Compares the disk writes that a run reports for a phase with the counters of a dedicated disk, synced at both ends.
/// Also prints the kernel's counters of the processes. These omit the file system's own writes and parts of large
/// pages.
#[track_caller]
fn disk_agrees(cli: &Cli, name: &str, url: &str, server: &str, disk: &OwnDisk) {
    let stat = format!("/sys/dev/block/{}/stat", Device::of(&disk.0).unwrap());
    let run = |command: String| format!(r#"[{{ at = "0s", do = "run", command = "{command}" }}]"#);
    let sync = format!("sync -f {}", disk.0.display());
    let look = |file: &str| format!("cat {stat} > {}", cli.path(file).display());
    // A sync before the phase writes what the load left, and a sync at its end writes what the phase left.
    let (synced, after) = (run(sync.clone()), run(format!("{sync} && {}", look("after"))));
    let end = format!(r#", {{ at = "19500ms", do = "run", command = "{sync}" }}]"#);
    let before = run(look("before")).replace(']', &end);
    let text = format!(
        r#"
title = "What goes to disk"
stores = ["{url}"]
[collections.docs]
count = 60_000
size = "1KiB"
compress_to = 0.6
[[phases]]
name = "load"
load = ["docs"]
durability = "fsync"
[[phases]]
name = "between"
mix = {{ read = 1 }}
duration = "2s"
faults = {synced}
[[phases]]
name = "steady"
mix = {{ upsert = 1 }}
workers = 4
duration = "20s"
durability = "fsync"
faults = {before}
[[phases]]
name = "behind"
mix = {{ read = 1 }}
duration = "2s"
faults = {after}
{server}"#
    );
    cli.write("disk.toml", &text);
    let done = cli.run("run disk.toml --json -q --manage-servers");
    done.assert_measured();
    let written = |file: &str| -> u64 {
        let text = std::fs::read_to_string(cli.path(file)).unwrap();
        // Sectors written: the kernel's seventh figure. A sector is 512 bytes here, regardless of the disk.
        text.split_whitespace().nth(6).unwrap().parse::<u64>().unwrap() * 512
    };
    let counted = (written("after") - written("before")) as f64;
    let result = done.json();
    let resources = &result["trials"][0]["phases"][2]["resources"];
    let told = |of: &str| resources[of]["write_bytes"].as_f64().unwrap();
    let by = resources["disk"]["write_amplification"].as_f64().unwrap();
    println!(
        "soak: {name}: {:.0} bytes, ×{by:.2}; the disk counted {counted:.0}: {:.3} of it, processes {:.3}",
        told("disk"),
        told("disk") / counted,
        told("store") / counted
    );
    assert!((told("disk") / counted - 1.0).abs() < 0.05, "{}", resources["disk"]);
}

/// An ext4 file system in a file, on a loop device that counts writes. It is unmounted on drop.
struct OwnDisk(PathBuf);

impl OwnDisk {
    fn mount(at: PathBuf, file: &Path, journal: bool) -> Self {
        let run = |program: &str, arguments: &[&str], paths: &[&Path]| {
            let status = Command::new(program).args(arguments).args(paths).status().unwrap();
            assert!(status.success(), "{program} {arguments:?} {paths:?}: {status}");
        };
        std::fs::create_dir(&at).unwrap();
        // Allocates the space now.
        run("fallocate", &["-l", "3GiB"], &[file]);
        let journal = if journal { "has_journal" } else { "^has_journal" };
        // Reserves nothing for root, and leaves no initialisation that would add writes later.
        let lazy = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        run("mkfs.ext4", &["-q", "-F", "-m", "0", "-O", journal, "-E", lazy], &[file]);
        run("mount", &["-t", "ext4", "-o", "loop,nodev,nosuid"], &[file, &at]);
        let disk = Self(at);
        // Some servers want an empty folder.
        std::fs::remove_dir(disk.0.join("lost+found")).unwrap();
        disk
    }
}

impl Drop for OwnDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn own_disk(cli: &Cli, journal: bool) -> OwnDisk {
    use std::os::unix::fs::PermissionsExt as _;
    // PostgreSQL runs as another user.
    let open = |path: &Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o711)).unwrap();
    };
    open(&cli.path(""));
    let disk = OwnDisk::mount(cli.path("disk"), &cli.path("file"), journal);
    open(&disk.0);
    disk
}

fn what_goes_to_disk(scheme: &str, journal: bool) {
    let cli = Cli::new();
    let disk = own_disk(&cli, journal);
    let at = disk.0.display();
    let name = format!("{scheme}{}", if journal { " with a journal" } else { "" });
    if scheme != "postgres" {
        return disk_agrees(&cli, &name, &format!("{scheme}:{at}/it"), "", &disk);
    }
    let port = free_port();
    let script =
        |script: &str| format!("{}/../../servers/{script} postgres --data {at}/pg", env!("CARGO_MANIFEST_DIR"));
    let (start, stop) = (script("start"), script("stop"));
    let server = format!(
        "[servers.postgres]\nstart = \"{start} --port {port}\"\nstop = \"{stop}\"\nport = {port}\ndata = \"{at}/pg\"\n"
    );
    let url = format!("postgres://storebench:storebench@127.0.0.1:{port}/storebench");
    disk_agrees(&cli, &name, &url, &server, &disk);
}

#[test]
#[ignore = "soak: disk writes, compared with a dedicated disk"]
fn soak_what_goes_to_disk_agrees_with_the_disk() {
    for scheme in ["sqlite", "fjall", "postgres"] {
        for journal in [false, true] {
            what_goes_to_disk(scheme, journal);
        }
    }
}
