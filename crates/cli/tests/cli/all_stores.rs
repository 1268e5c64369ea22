//! `scripts/all-stores.py`: one page of two studies on every store.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::Cli;

/// The script with a small study on these stores. Its output and errors are one pipe.
fn start(cli: &Cli, stores: &str) -> Child {
    start_with(cli, stores, cli.command(&[]).get_program())
}

fn start_with(cli: &Cli, stores: &str, storebench: &OsStr) -> Child {
    let program = cli.command(&[]);
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" --quick --out page --only \"$1\" 2>&1"]);
    command.args([concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/all-stores.py"), stores]);
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("STOREBENCH", storebench).current_dir(cli.folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

/// The folder of servers and data that the script names.
fn data(line: &str) -> Option<String> {
    Some(line.strip_prefix("servers and data are in ")?.to_owned())
}

/// Asserts that nothing is left of the servers: neither their data nor a process that names them.
fn nothing_is_left(data: &str) {
    assert!(data.starts_with("/var/tmp/storebench-all-stores-") && !Path::new(data).exists(), "{data}");
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        assert!(!line.contains(data), "still runs: {line}");
    }
}

#[test]
fn one_command_leaves_a_page_and_no_server() {
    let cli = Cli::new();
    let done = start(&cli, "sqlite,redis,memcached").wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    // A busy machine may make a measurement invalid, which is a result as well.
    assert!(matches!(done.status.code(), Some(0 | 4)), "{said}");
    nothing_is_left(&said.lines().find_map(data).unwrap());
    let page = std::fs::read_to_string(cli.path("page/index.html")).unwrap();
    let (cautions, runs) = page.split_once("<h2>").unwrap();
    for caution in ["--quick", "One machine", "guarantees differ", "One node", "dynalite", "memcached keeps nothing"] {
        assert!(cautions.contains(caution), "{caution}: {cautions}");
    }
    assert_eq!(runs.matches("/report.html\"").count(), 4, "{runs}");
    for found in ["<svg", "fsync: ", "none: ", "Redis 7.", "phase by-user: does not support page", "memcached alone"] {
        assert!(runs.contains(found), "{found}: {runs}");
    }
    // Stores that keep what they acknowledge are in one report, the other has its own.
    let reports: Vec<_> = page.split("<a href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    for report in reports {
        let text = std::fs::read_to_string(cli.path("page").join(report)).unwrap();
        assert_eq!(text.contains("redis"), !report.contains("memcached"), "{report}");
    }

    let again = start(&cli, "sqlite").wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.code() == Some(2) && said.contains("give another --out"), "{said}");
    assert_eq!(std::fs::read_to_string(cli.path("page/index.html")).unwrap(), page, "the page was changed");
}

#[test]
fn an_interrupted_run_leaves_a_page_and_no_server() {
    let cli = Cli::new();
    let mut child = start(&cli, "sqlite,redis");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let data = lines.by_ref().find_map(|line| data(&line)).unwrap();
    lines.by_ref().find(|line| line.starts_with("trial 1 of ")).unwrap();
    let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(told.success());
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:#?}");
    nothing_is_left(&data);
    let page = std::fs::read_to_string(cli.path("page/index.html")).unwrap();
    assert!(page.contains("Interrupted: not everything was measured."), "{page}");
}

/// A program in place of Storebench: a study is nothing, and a run starts another process and waits for it.
const WAITS: &str = r#"#!/usr/bin/env python3
import signal, subprocess, sys
if sys.argv[1] == "run":
    subprocess.Popen(["sh", "-c", "sleep 60; echo slept to the end", *sys.argv])
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    print("runs", flush=True)
    signal.pause()
"#;

#[test]
fn an_interrupt_reaches_what_the_program_started() {
    let cli = Cli::new();
    cli.write("waits", WAITS);
    std::fs::set_permissions(cli.path("waits"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut child = start_with(&cli, "sqlite", cli.path("waits").as_os_str());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let data = lines.by_ref().find_map(|line| data(&line)).unwrap();
    lines.by_ref().find(|line| line == "runs").unwrap();
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:#?}");
    assert!(!rest.iter().any(|line| line == "slept to the end"), "{rest:#?}");
    nothing_is_left(&data);
}

#[test]
fn an_error_leaves_a_page_that_names_it() {
    let cli = Cli::new();
    let done = start_with(&cli, "sqlite", OsStr::new("false")).wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{}", String::from_utf8_lossy(&done.stdout));
    let page = std::fs::read_to_string(cli.path("page/index.html")).unwrap();
    assert!(page.contains("Not everything was measured: ") && page.contains("exit status 1"), "{page}");
}
