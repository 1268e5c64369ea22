//! Helpers for the tests of `copy`: documents, results, and copies in the background.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Cli, Done};

/// Documents of about 600 bytes with keys `k000000`…
pub(crate) fn documents(count: usize) -> String {
    let filler = "lorem ipsum dolor sit amet, ".repeat(18);
    (0..count)
        .map(|n| format!("{{\"_id\":\"k{n:06}\",\"n\":{n},\"tags\":[\"a\",null,{n}.5],\"text\":\"{n} é {filler}\"}}\n"))
        .collect()
}

/// The documents of a file by key, regardless of their order and formatting.
pub(crate) fn by_key(path: &Path) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let document: Value = serde_json::from_str(line).unwrap();
        let key = document["_id"].as_str().unwrap().to_owned();
        assert!(all.insert(key.clone(), document).is_none(), "{key} occurs twice");
    }
    all
}

/// The JSON report of a copy.
pub(crate) fn report(done: &Done) -> Value {
    serde_json::from_str(&done.out).unwrap_or_else(|e| panic!("{e}: {done:?}"))
}

pub(crate) fn count(report: &Value, name: &str) -> u64 {
    report["counts"][name].as_u64().unwrap()
}

/// Starts a copy in the background.
pub(crate) fn begin(cli: &Cli, args: &[&str]) -> Child {
    cli.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The number of lines in the log of the unfinished copy.
pub(crate) fn log_lines(cli: &Cli) -> usize {
    let Ok(folders) = std::fs::read_dir(cli.path("storebench-runs")) else { return 0 };
    let logs = folders.map(|folder| folder.unwrap().path().join("log.jsonl"));
    logs.filter_map(|log| std::fs::read_to_string(log).ok()).map(|log| log.lines().count()).max().unwrap_or(0)
}

/// The rejected records that a report names.
pub(crate) fn rejects(cli: &Cli, report: &Value) -> Vec<Value> {
    let Some(path) = report["rejects"].as_str() else { return Vec::new() };
    let text = std::fs::read_to_string(cli.path(path)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The lines of a file, sorted.
pub(crate) fn sorted(path: &Path) -> Vec<String> {
    let mut lines: Vec<String> = std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Starts a copy, and kills it once `parts` of its parts are done.
pub(crate) fn killed(cli: &Cli, mut command: Command, parts: usize) {
    let mut copy = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while log_lines(cli) < parts + 1 && copy.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(120), "the copy makes no progress");
        std::thread::sleep(Duration::from_millis(1));
    }
    copy.kill().unwrap();
    copy.wait().unwrap();
    assert!(log_lines(cli) > 0, "the copy ended before it was killed");
}
