//! `check` judges a history.

use serde_json::{Value, json};

use crate::common::Cli;

fn line(client: u32, op: &str, value: &str, sent_ns: u64, answered_ns: u64) -> String {
    json!({ "client": client, "key": "k", "op": op, "value": value, "sent_ns": sent_ns, "answered_ns": answered_ns })
        .to_string()
        + "\n"
}

#[test]
fn a_stale_read_is_shown_with_what_it_missed() {
    let cli = Cli::new();
    let mut history: String = (0..20)
        .map(|n| {
            let at = n * 10_000_000;
            let value = format!("v{n}");
            line(1, "write", &value, at, at + 1_000_000) + &line(2, "read", &value, at + 2_000_000, at + 3_000_000)
        })
        .collect();
    cli.write("good.jsonl", &history);
    let good = cli.run("check good.jsonl").code(0);
    assert!(good.out.starts_with("40 operations on 1 key\n  linearizable: 1 key\n"), "{}", good.out);
    history += &line(3, "read", "v7", 300_000_000, 301_000_000);
    cli.write("bad.jsonl", &history);
    let bad = cli.run("check bad.jsonl").code(1);
    for part in ["not linearizable: 1 key", "no order explains `k`", "wrote \"v7\"", "client 3 read \"v7\""] {
        assert!(bad.out.contains(part), "{part}: {}", bad.out);
    }
    let report: Value = cli.run("check bad.jsonl --json --jepsen bad.edn").code(1).json();
    assert_eq!(report["format"], "storebench-check/1");
    assert_eq!(report["broken"][0]["sequence"].as_array().map(Vec::len), Some(3));
    assert_eq!((&report["staleness"]["stale"], &report["staleness"]["versions_behind_max"]), (&1.into(), &12.into()));
    assert_eq!(std::fs::read_to_string(cli.path("bad.edn")).unwrap().lines().count(), 82);
    // Nothing is overwritten.
    assert!(cli.run("check bad.jsonl --jepsen bad.edn").code(2).err.contains("bad.edn"));
}

#[test]
fn what_is_no_history_is_refused_with_its_line() {
    let cli = Cli::new();
    assert!(cli.run("check none.jsonl").code(2).err.contains("none.jsonl"));
    cli.write("half.jsonl", &(line(1, "write", "a", 1, 2) + "{\"key\":\"k\""));
    assert!(
        cli.run("check half.jsonl").code(2).err.contains("half.jsonl: line 2"),
        "{:?}",
        cli.run("check half.jsonl").err
    );
    cli.write("empty.jsonl", "");
    assert!(cli.run("check empty.jsonl").code(2).err.contains("no operations"));
}
