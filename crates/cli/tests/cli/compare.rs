//! `compare`: two runs, one run's configurations, a baseline; what it refuses, gates and prints.

use std::path::Path;

use serde_json::Value;

use crate::common::Cli;

/// Little work, three times, on two stores.
const STUDY: &str = r#"title = "Books"
seed = 7
repeats = 3
stores = { first = "memory:", second = "memory:" }

[collections.books]
count = 400
size = "200B"

[[phases]]
name = "load"
load = ["books"]
batch = 100

[[phases]]
name = "mixed"
mix = { read = 3, update = 1 }
operations = 400
"#;

/// Two runs of the same study, in `a` and `b`.
fn measured() -> Cli {
    let cli = Cli::new();
    cli.write("books.toml", STUDY);
    run(&cli, "a", "");
    run(&cli, "b", "");
    cli
}

/// Measures into a folder with this name. These tests must not depend on the speed of the machine. So every check
/// becomes a note, and the gated figures are replaced by ones that differ a little between trials.
fn run(cli: &Cli, name: &str, flags: &str) {
    cli.run(&format!("run books.toml -q --out runs-{name} {flags}")).measured();
    let made = std::fs::read_dir(cli.path(&format!("runs-{name}"))).unwrap().next().unwrap().unwrap().path();
    std::fs::rename(made, cli.path(name)).unwrap();
    change(cli, name, |result| {
        for check in result["checks"].as_array_mut().unwrap() {
            check["severity"] = "note".into();
        }
        throughput(result, 1_000.0);
    });
}

/// Sets the throughput, a little higher in each trial.
fn throughput(result: &mut Value, per_s: f64) {
    for (n, trial) in result["trials"].as_array_mut().unwrap().iter_mut().enumerate() {
        let per_s = per_s * (1.0 + 0.01 * n as f64);
        for phase in trial["phases"].as_array_mut().unwrap() {
            phase["all"]["service_ns"]["p50"] = ((1e9 / per_s) as u64).into();
            for op in phase["ops"].as_object_mut().unwrap().values_mut() {
                op["throughput_per_s"] = per_s.into();
                op["service_ns"]["p50"] = ((1e9 / per_s) as u64).into();
            }
        }
    }
}

fn change(cli: &Cli, name: &str, change: impl FnOnce(&mut Value)) {
    let file = cli.path(name).join("run.json");
    let mut result: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    change(&mut result);
    std::fs::write(file, result.to_string()).unwrap();
}

#[test]
fn a_run_and_its_like() {
    let cli = measured();
    let gates = ["--fail-on", "mixed.throughput < -10%", "--fail-on", "service.p50 > +10%"];
    let done = cli.run_args(&[&["compare", "a", "b"], &gates[..]].concat()).code(0);
    for part in ["a · first", "b · second", "not paired", "mixed.update", "service.p99 ", "Gates", "B/A"] {
        assert!(done.out.contains(part), "{part} in {}", done.out);
    }
    assert!(done.out.lines().all(|line| line.chars().count() <= 120) && !done.out.contains('\u{1b}'), "{}", done.out);
    // Configurations of one run share their rounds.
    let configurations = cli.run("compare a").code(0);
    assert!(
        configurations.out.contains("paired by round") && configurations.out.contains("a · second"),
        "{}",
        configurations.out
    );
    let configurations = cli.run("compare a#sec a#fir --format markdown --all").code(0);
    assert!(configurations.out.contains("| `mixed.read.service.p99` |"), "{}", configurations.out);
    change(&cli, "b", |result| throughput(result, 800.0));
    let args = ["compare", "a#first", "b#first", "--fail-on", "mixed.throughput < -10%"];
    let done = cli.run_args(&args).code(1);
    assert!(
        done.out.contains("FAILED") && done.err.starts_with("error: gate failed: mixed.throughput"),
        "{}",
        done.err
    );
}

#[test]
fn json_is_as_its_schema_says() {
    let cli = measured();
    let args = ["compare", "a", "b", "--json", "--fail-on", "mixed.read.throughput < -10%"];
    let result = cli.run_args(&args).code(0).json();
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/compare.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(schema).unwrap()).unwrap();
    assert_eq!(storebench_schema::faults(&schema, &result), Vec::<String>::new());
    assert_eq!(result["format"], "storebench-compare/2");
    assert_eq!(result["pairs"].as_array().unwrap().len(), 2);
    assert_eq!(result["gates"][0]["outcome"], "passed");
    let figures = result["pairs"][0]["figures"].as_array().unwrap();
    let read = figures.iter().find(|figure| figure["figure"] == "mixed.read.service.p99").unwrap();
    assert_eq!((&read["a"]["trials"], &read["op"]), (&3.into(), &"read".into()));
    assert!(read["ratio"]["low"].is_number() && read["unit"] == "ns", "{read}");
    assert_eq!(cli.run("compare a b --format json").code(0).json()["pairs"], result["pairs"]);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let cli = measured();
    run(&cli, "unlike", "--set phases.load.batch=50 --set phases.mixed.operations=800");
    let refused = cli.run("compare a unlike").code(2);
    assert!(refused.out.is_empty(), "{}", refused.out);
    assert!(refused.err.contains("not comparable") && refused.err.contains("--anyway"), "{}", refused.err);
    let anyway = cli.run("compare a unlike --anyway").code(0);
    assert!(anyway.out.starts_with("Compared anyway\n"), "{}", anyway.out);

    change(&cli, "b", |result| result["trials"][1]["phases"][1]["partial"] = "interrupted".into());
    let refused = cli.run("compare a b").code(2);
    assert!(refused.err.contains("trial 2: phase mixed ended early: interrupted"), "{}", refused.err);
    let anyway = cli.run("compare a b --anyway").code(0);
    assert!(anyway.out.contains("trial 2 is excluded"), "{}", anyway.out);
    assert!(cli.run("compare a b --save-baseline x").code(2).err.contains("name one"));
    assert!(cli.run("compare b --save-baseline x").code(2).err.contains("cannot be a baseline"));
    assert!(!cli.path(".storebench").exists());

    change(&cli, "a", |result| result["checks"][0]["severity"] = "invalid".into());
    let invalid = cli.run("compare a").code(4);
    assert!(
        invalid.out.contains("A invalid: ") && invalid.err.contains("invalid by its own checks"),
        "{}",
        invalid.err
    );
    cli.run("compare a --anyway").code(0);
}

#[test]
fn bad_input_is_told() {
    let cli = measured();
    let refusal = |args: &[&str]| {
        let done = cli.run_args(&[&["compare"], args].concat()).code(2);
        assert!(done.out.is_empty(), "{}", done.out);
        done.err
    };
    insta::assert_snapshot!("compare-gate", refusal(&["a", "b", "--fail-on", "read.service.p99 = +5%"]));
    insta::assert_snapshot!("compare-figure", refusal(&["a", "b", "--fail-on", "raed.service.p99 > +5%"]));
    insta::assert_snapshot!("compare-cost", refusal(&["a#first", "b#first", "--fail-on", "cost > +5%"]));
    insta::assert_snapshot!("compare-response", refusal(&["a#first", "b#first", "--fail-on", "response.p99 > +5%"]));
    insta::assert_snapshot!("compare-threshold", refusal(&["a", "b", "--threshold", "2"]));
    insta::assert_snapshot!("compare-configuration", refusal(&["a#third", "b"]));
    insta::assert_snapshot!("compare-itself", refusal(&["a#first", "a#first"]));
    insta::assert_snapshot!("compare-nowhere", refusal(&["a", "nowhere"]));
    insta::assert_snapshot!("compare-both", refusal(&["a", "--baseline", "x", "--save-baseline", "y"]));
}

#[test]
fn one_trial_passes_no_gate() {
    let cli = Cli::new();
    cli.write("books.toml", STUDY);
    run(&cli, "a", "--set repeats=1");
    assert!(cli.run("compare a").code(0).out.contains("a single trial has no interval"));
    let done = cli.run_args(&["compare", "a", "--fail-on", "mixed.throughput < x0.01"]).code(5);
    assert!(done.out.contains("not judged") && done.err.contains("use repeats"), "{}", done.err);
}

#[test]
fn a_baseline_is_kept_and_used() {
    let cli = measured();
    let missing = cli.run("compare b --baseline main").code(2);
    assert!(missing.err.contains("compare RUN --save-baseline main"), "{}", missing.err);
    let kept = cli.run("compare a --save-baseline main").code(0);
    assert_eq!(kept.out, "saved as baseline main in .storebench/baselines/main.json\n");
    let file = |name: &str| std::fs::read(cli.path(name)).unwrap();
    assert_eq!(file(".storebench/baselines/main.json"), file("a/run.json"));
    let done = cli.run_args(&["compare", "b", "--baseline", "main", "--fail-on", "throughput < -10%"]).code(0);
    assert!(done.out.contains("A  baseline main · first"), "{}", done.out);
    assert!(cli.run("compare b --save-baseline main").code(2).err.contains("--force"));
    assert!(cli.run("compare b --save-baseline main --force").code(0).out.contains("replacing the previous one"));
    assert_eq!(file(".storebench/baselines/main.json"), file("b/run.json"));
    cli.run("compare a --save-baseline main --baselines elsewhere").code(0);
    assert!(cli.run("compare b#second --baseline main --baselines elsewhere").code(0).out.contains("· second ·"));
}
