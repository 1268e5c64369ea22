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

/// Two runs of the same study, in `a` and `b`, and more runs of it: `a2` is like `a`, `b2` like `b`.
fn measured() -> Cli {
    let cli = Cli::new();
    cli.write("books.toml", STUDY);
    run(&cli, "a", "");
    run(&cli, "b", "");
    for (name, of, began) in [("a2", "a", "2026-01-01T00:00:00Z"), ("b2", "b", "2026-01-02T00:00:00Z")] {
        std::fs::create_dir(cli.path(name)).unwrap();
        std::fs::copy(cli.path(of).join("run.json"), cli.path(name).join("run.json")).unwrap();
        change(&cli, name, |result| {
            result["run"]["began"] = began.into();
            throughput(result, 1_001.0);
        });
    }
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
    let done = cli.run_args(&[&["compare", "a,a2", "b,b2"], &gates[..]].concat()).code(0);
    let parts =
        ["a and 1 more run · first", "b and 1 more run · second", "each run counts", "mixed.update", "service.p99 "];
    for part in parts.into_iter().chain(["Gates", "B/A", "would detect"]) {
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
    // One run on a side cannot say how much runs differ by themselves.
    let one = cli.run_args(&["compare", "a", "b,b2", "--fail-on", "mixed.throughput < -10%"]).code(5);
    assert!(one.words().contains("cannot tell run-to-run noise") && !one.out.contains("slower"), "{}", one.out);
    change(&cli, "b", |result| throughput(result, 800.0));
    change(&cli, "b2", |result| throughput(result, 801.0));
    let args = ["compare", "a#first,a2", "b#first,b2", "--fail-on", "mixed.throughput < -10%"];
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
    let args =
        ["compare", "a,a2", "b,b2", "--json", "--fail-on", "mixed.read.throughput < -10%", "--must-detect", "30%"];
    let result = cli.run_args(&args).code(0).json();
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/compare.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(schema).unwrap()).unwrap();
    assert_eq!(storebench_schema::faults(&schema, &result), Vec::<String>::new());
    assert_eq!(result["format"], "storebench-compare/2");
    assert_eq!(result["pairs"].as_array().unwrap().len(), 2);
    assert_eq!((&result["gates"][0]["outcome"], &result["must_detect"]), (&"passed".into(), &0.3.into()));
    assert_eq!(result["pairs"][0]["a"]["more_runs"][0]["run"], "a2");
    let figures = result["pairs"][0]["figures"].as_array().unwrap();
    let read = figures.iter().find(|figure| figure["figure"] == "mixed.read.service.p99").unwrap();
    assert_eq!((&read["a"]["trials"], &read["op"]), (&2.into(), &"read".into()));
    assert!(read["ratio"]["low"].is_number() && read["unit"] == "ns", "{read}");
    assert_eq!(cli.run("compare a,a2 b,b2 --format json").code(0).json()["pairs"], result["pairs"]);
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
    assert!(anyway.words().contains("trial 2 is excluded"), "{}", anyway.out);
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
    assert!(done.out.contains("undecided") && done.err.contains("use repeats"), "{}", done.err);
    let args = ["compare", "a", "--fail-on", "mixed.throughput < x0.01", "--undecided", "pass"];
    let done = cli.run_args(&args).code(0);
    assert!(done.out.contains("undecided") && !done.out.contains("passed"), "{}", done.out);
}

#[test]
fn a_baseline_is_kept_and_used() {
    let cli = measured();
    let missing = cli.run("compare b --baseline main").code(2);
    assert!(missing.err.contains("compare RUN --save-baseline main"), "{}", missing.err);
    let kept = cli.run("compare a --save-baseline main").code(0);
    assert!(
        kept.out.starts_with("saved in .storebench/baselines/main/2") && kept.out.ends_with("main has 1 run\n"),
        "{}",
        kept.out
    );
    let runs = |name: &str| -> Vec<Vec<u8>> {
        let files = std::fs::read_dir(cli.path(".storebench/baselines").join(name)).unwrap();
        files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
    };
    let file = |name: &str| std::fs::read(cli.path(name).join("run.json")).unwrap();
    assert_eq!(runs("main"), [file("a")]);
    assert!(cli.run("compare a --save-baseline main").code(2).err.contains("has this run already"));
    assert!(cli.run("compare a2 --save-baseline main").code(0).out.ends_with("main has 2 runs\n"));
    let done = cli.run_args(&["compare", "b,b2", "--baseline", "main", "--fail-on", "throughput < -10%"]).code(0);
    assert!(done.out.contains("A  baseline main, 2 runs · first"), "{}", done.out);
    let newest = cli.run("compare b2 --save-baseline main --keep-newest 2").code(0);
    assert!(newest.out.contains("has 2 runs; removed 1 other run: 2"), "{}", newest.out);
    let one = cli.run("compare b --save-baseline main --force").code(0);
    assert!(one.out.contains("has 1 run; removed 2 other runs: 2") && one.out.contains(", 2"), "{}", one.out);
    assert_eq!(runs("main"), [file("b")]);
    cli.run("compare a --save-baseline main --baselines elsewhere").code(0);
    assert!(cli.run("compare b#second --baseline main --baselines elsewhere").code(0).out.contains("· second ·"));
}
