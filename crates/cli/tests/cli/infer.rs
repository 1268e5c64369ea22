//! `infer`: documents like a sample.

use std::fmt::Write as _;

use crate::common::Cli;
use crate::server::Server;

/// Orders with rare fields, skewed values and a date that rises.
fn sample(count: u64) -> String {
    let mut out = String::new();
    for index in 0..count {
        let hash = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        let (city, person) = (["Lima", "Oslo", "Rome", "Bonn"][(hash % 7 % 4) as usize], hash % 900);
        let note = if hash % 40 == 3 { ",\"gift\":true,\"note\":\"with love\"" } else { "" };
        let (month, day) = (1 + index * 12 / count, 1 + hash % 28);
        let text = (0..20 + hash % 30).map(|n| format!("w{:x} ", (hash + n * n) % 4_000)).collect::<String>();
        let _ = writeln!(
            out,
            "{{\"city\":\"{city}\",\"by\":\"person {person}\",\"at\":\"2020-{month:02}-{day:02}\",\"n\":{},\"text\":\"{text}\"{note}}}",
            hash % 5
        );
    }
    out
}

#[test]
fn a_study_of_a_sample_runs() {
    let cli = Cli::new();
    cli.write("orders.jsonl", &sample(3_000));
    let done = cli.run("infer orders.jsonl --collection orders -o orders.toml");
    assert_eq!((done.code, &*done.out), (0, "orders.toml\n"), "{}", done.err);
    let text = std::fs::read_to_string(cli.path("orders.toml")).unwrap();
    assert!(text.starts_with("# Written by `storebench infer` from 3,000 documents of orders.jsonl.\n"), "{text}");
    for told in ["Lima", "person", "love", "word"] {
        assert!(!text.contains(told), "{told}: {text}");
    }
    assert!(text.contains("with = \"group-1\"") && text.contains("rising = "), "{text}");
    // Nothing is overwritten.
    let again = cli.run("infer orders.jsonl -o orders.toml");
    assert_eq!(again.code, 2, "{}", again.err);
    let done = cli.run("run orders.toml --store sqlite:orders.db --set phases.mix.duration=1s --json -q");
    assert!(done.code == 0 || done.code == 4, "{}", done.err);
    let result = done.json();
    let read = &result["trials"][0]["phases"][1]["ops"]["read"];
    assert_eq!((&read["errors"], &read["misses"], &read["wrong"]), (&0.into(), &0.into(), &0.into()), "{read:#}");
    assert_eq!(cli.run("verify sqlite:orders.db orders.toml").code, 0);
}

#[test]
fn the_check_names_what_is_not_alike() {
    let cli = Cli::new();
    cli.write("orders.jsonl", &sample(12_000));
    let done = cli.run("infer orders.jsonl --check --json");
    assert_eq!(done.code, 0, "{}", done.err);
    let told = done.json();
    assert_eq!((&told["documents"], &told["from_every"]), (&12_000.into(), &10.into()));
    let figures = told["figures"].as_array().unwrap();
    let far: Vec<_> = figures.iter().filter(|row| row["is_near"] == false).collect();
    assert!(figures.len() > 15 && far.len() <= 3, "{far:#?}");
    let shown = cli.run("infer orders.jsonl --check");
    assert!(
        shown.out.starts_with(
            "12,000 documents of the sample, and as many generated ones, made from one of 10, drawn at random with "
        ),
        "{}",
        shown.out
    );
    assert!(shown.out.contains("different values"), "{}", shown.out);
}

#[test]
fn own_texts_are_used_only_if_asked_for() {
    let cli = Cli::new();
    cli.write("orders.jsonl", &sample(2_000));
    let done = cli.run("infer orders.jsonl --keep-values");
    assert!(done.out.contains("Lima") && !done.out.contains("person"), "{}", done.out);
    let done = cli.run("infer orders.jsonl");
    assert!(!done.out.contains("Lima"), "{}", done.out);
}

#[test]
fn a_bad_sample_is_named() {
    let cli = Cli::new();
    for (text, told) in [
        ("{\"a\":1}\n{\"a\":\n", "bad.jsonl:2: is not JSON"),
        ("{\"a\":1}\n7\n", "bad.jsonl:2: is not a JSON object"),
        ("{\"a\":1}\n", "has one document, which does not show what varies; give a file with a few thousand lines"),
        ("", "has no document"),
    ] {
        cli.write("bad.jsonl", text);
        let done = cli.run("infer bad.jsonl -o bad.toml");
        assert_eq!(done.code, 2, "{text}");
        assert!(done.err.contains(told), "{text}: {}", done.err);
        assert!(!cli.path("bad.toml").exists());
    }
    let done = cli.run("infer nowhere.jsonl");
    assert!(done.code == 2 && done.err.contains("nowhere.jsonl: cannot be opened"), "{}", done.err);
}

#[test]
fn a_check_on_a_store_compares_indexes_and_reads_and_leaves_nothing() {
    let server = Server::start("postgres");
    let cli = Cli::new();
    cli.write("orders.jsonl", &sample(3_000));
    let store = server.url.as_str();
    let done = cli.run_args(&["infer", "orders.jsonl", "--check", "--json", "--store", store]);
    let found = done.json();
    let figures = found["figures"].as_array().unwrap();
    let of = |what: &str| figures.iter().filter(|row| row["what"] == what).collect::<Vec<_>>();
    let indexes = of("index bytes");
    assert!(indexes.len() >= 3, "{store}: {indexes:?} {}", done.err);
    let near = indexes.iter().filter(|row| row["is_near"] == true).count();
    assert!(near * 2 > indexes.len(), "{indexes:?}");
    for what in ["read, p50", "read, p99"] {
        let read = of(what);
        assert!(read.len() == 1 && read[0]["sample"].as_f64() > Some(100.0), "{read:?}");
    }
    // What it loaded is gone, so other studies find an empty place.
    let left = cli.run_args(&["copy", store, "left.jsonl", "--from-collection", "sample"]);
    assert_ne!(left.code, 0, "{}", left.out);
    // What another study has loaded is not replaced.
    cli.run("infer orders.jsonl -o orders.toml").code(0);
    cli.run_args(&["run", "orders.toml", "--store", store, "-q", "--set", "phases.mix.duration=100ms"]);
    let refused = cli.run_args(&["infer", "orders.jsonl", "--check", "--store", store]);
    assert!(refused.code == 2 && refused.err.contains("which the check would replace"), "{}", refused.err);
    let several = cli.run("infer orders.jsonl orders.jsonl --check --store memory:");
    assert!(several.code == 2 && several.err.contains("--store takes one sample file"), "{}", several.err);
    let memory = cli.run("infer orders.jsonl --check --store memory:").code(0);
    assert!(
        memory.words().contains("their sizes are not compared") && memory.words().contains("read, p99"),
        "{}",
        memory.out
    );
}
