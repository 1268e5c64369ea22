//! Ctrl-C keeps what was measured; a second one exits immediately.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use crate::common::Cli;
use rustix::process::{Pid, Signal, kill_process};

/// Starts a command and waits until its phase `bench` runs.
fn begun(cli: &Cli, args: &[&str]) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut child = cli.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("bench,") {
        line.clear();
        assert!(err.read_line(&mut line).unwrap() > 0, "it ended before the phase began");
    }
    (child, err)
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

#[test]
fn the_first_keeps_what_was_measured() {
    let cli = Cli::new();
    let args = "bench memory: --docs 1k --rate 200 --duration 10m --warm-up 0s --json";
    let (child, _err) = begun(&cli, &args.split(' ').collect::<Vec<_>>());
    std::thread::sleep(std::time::Duration::from_millis(500));
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let kept: serde_json::Value =
        serde_json::from_slice(&std::fs::read(cli.run_folder().join("run.json")).unwrap()).unwrap();
    for result in [printed, kept] {
        assert_eq!(result["run"]["interrupted"], true);
        let bench = &result["trials"][0]["phases"][1];
        assert_eq!(bench["partial"], "interrupted");
        assert!(bench["ops"]["read"]["count"].as_u64().unwrap() > 0);
        assert!(result["checks"].as_array().unwrap().iter().any(|v| v["check"] == "partial-run"));
    }
}

#[test]
fn the_second_leaves_at_once() {
    let cli = Cli::new();
    // After the first Ctrl-C, the run waits for operations that take minutes.
    let args = [
        "bench",
        "slow+memory:?latency=5m",
        "--docs",
        "1",
        "--no-load",
        "--mix",
        "update=1",
        "--duration",
        "10m",
        "--warm-up",
        "0s",
        "--timeout",
        "1h",
        "--drain",
        "1h",
    ];
    let (mut child, _err) = begun(&cli, &args);
    interrupt(&child);
    std::thread::sleep(std::time::Duration::from_millis(300));
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn verify_can_be_interrupted_too() {
    let cli = Cli::with_study();
    cli.run("run books.toml -q").measured();
    let mut child = cli
        .command(&["verify", "slow+sqlite:books.db?latency=300ms", "books.toml", "--jobs", "1", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(700));
    interrupt(&child);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["interrupted"], true);
}
