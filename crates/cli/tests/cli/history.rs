//! `history`: runs that are added, what a check of them says, and what is refused.

use std::path::Path;

use serde_json::Value;

use crate::common::Cli;

/// Runs of forty nights in `night-N`: the same measurement, with throughputs that differ a little and fall by a tenth in
/// the night `slower_from`.
fn nights(cli: &Cli, slower_from: usize) {
    let study = "title = \"Books\"\nstores = [\"memory:\"]\n[collections.books]\ncount = 100\n[[phases]]\nname = \"load\"\n\
                 load = [\"books\"]\n[[phases]]\nname = \"mixed\"\nmix = { read = 1 }\noperations = 200\n";
    cli.write("books.toml", study);
    cli.run("run books.toml -q --out runs").measured();
    let made = std::fs::read_dir(cli.path("runs")).unwrap().next().unwrap().unwrap().path().join("run.json");
    let mut run: Value = serde_json::from_slice(&std::fs::read(made).unwrap()).unwrap();
    for check in run["checks"].as_array_mut().unwrap() {
        check["severity"] = "note".into();
    }
    for nth in 0..40 {
        run["run"]["began"] = format!("2026-{:02}-{:02}T02:00:00Z", nth / 28 + 1, nth % 28 + 1).into();
        let wobble = 1.0 + 0.01 * [0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5][nth * 3 % 7];
        let per_s = 1_000.0 * wobble * if nth < slower_from { 1.0 } else { 0.9 };
        for (name, figure) in run["configurations"][0]["figures"].as_object_mut().unwrap() {
            let faster = if name.ends_with("throughput") || name.ends_with("documents") { per_s } else { 1e9 / per_s };
            figure["figure"]["value"] = faster.into();
        }
        cli.write(&format!("night-{nth}.json"), &run.to_string());
    }
}

/// Adds them, each with a commit of its own.
fn add(cli: &Cli, nights: std::ops::Range<usize>) {
    for nth in nights {
        let words = format!("history add night-{nth}.json --branch main --commit c{nth}");
        let done = cli.run(&words).code(0);
        assert!(done.out.starts_with("added: ") && done.err.is_empty(), "{done:?}");
    }
}

#[test]
fn a_slowdown_fails_the_check_with_its_commit() {
    let cli = Cli::new();
    nights(&cli, 34);
    add(&cli, 0..5);
    let early = cli.run("history check").code(5);
    assert!(early.out.starts_with("No change can be found yet: that takes 8 runs more."), "{}", early.out);
    assert!(early.err.contains("--undecided pass"), "{}", early.err);
    cli.run("history check --undecided pass").code(0);
    add(&cli, 5..34);
    let fine = cli.run("history check").code(0);
    assert!(fine.out.starts_with("No change for the worse was found by the last 10 of 34 runs."), "{}", fine.out);
    add(&cli, 34..40);
    let worse = cli.run("history check --junit lines.xml").code(1);
    let words = worse.words();
    assert!(
        words.starts_with("2 figures became worse") && words.contains("between c33 (2026-02-06 02:00) and c34"),
        "{words}"
    );
    assert!(
        worse.err.starts_with("error: became worse: memory load.throughput, memory mixed.throughput"),
        "{}",
        worse.err
    );
    let junit = std::fs::read_to_string(cli.path("lines.xml")).unwrap();
    assert!(junit.contains("tests=\"2\" failures=\"2\" skipped=\"0\""), "{junit}");
    cli.run("history check --junit lines.xml").code(2);
    cli.run("history check --junit lines.xml --force").code(1);
    // `show` shows the same, and judges nothing.
    assert_eq!(cli.run("history show").code(0).out, worse.out);
    // What was found before the last two runs is old news.
    cli.run("history check --recent 1").code(0);
    let github =
        cli.command(&["history", "check", "--github"]).env("GITHUB_STEP_SUMMARY", cli.path("summary")).output();
    let github = String::from_utf8(github.unwrap().stdout).unwrap();
    assert!(
        github.starts_with("::error title=load.throughput became worse::memory load.throughput fell by "),
        "{github}"
    );
    let summary = std::fs::read_to_string(cli.path("summary")).unwrap();
    assert!(summary.starts_with("**2 figures became worse") && summary.contains("| memory |"), "{summary}");
    assert_eq!(cli.run("history check --markdown").code(1).out, summary);
}

#[test]
fn json_is_as_its_schema_says() {
    let cli = Cli::new();
    nights(&cli, 30);
    add(&cli, 0..40);
    let result = cli.run("history show --json --figure mixed.throughput").code(0).json();
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/history.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(schema).unwrap()).unwrap();
    assert_eq!(storebench_schema::faults(&schema, &result), Vec::<String>::new());
    assert_eq!((&result["format"], &result["runs"]), (&"storebench-history-report/1".into(), &40.into()));
    let change = &result["lines"][0]["changes"][0];
    assert_eq!((&change["first_after"]["commit"], &change["worse"]), (&"c30".into(), &true.into()), "{change}");
}

#[test]
fn bad_input_is_told_and_nothing_is_added() {
    let cli = Cli::new();
    let error = cli.run("history check").code(2).err;
    assert!(
        error.contains("there is no history in .storebench/history") && error.contains("history add RUN"),
        "{error}"
    );
    nights(&cli, 40);
    let night = std::fs::read_to_string(cli.path("night-1.json")).unwrap();
    let mut run: Value = serde_json::from_str(&night).unwrap();
    run["run"]["ended"] = Value::Null;
    cli.write("partial.json", &run.to_string());
    let error = cli.run("history add night-0.json partial.json").code(2).err;
    assert!(error.contains("partial.json: the run did not end"), "{error}");
    assert!(!cli.path(".storebench").exists());
    // A folder that is no repository names no commit.
    let done = cli.command(&["history", "add", "night-0.json"]).env_remove("GITHUB_SHA").output().unwrap();
    let note = String::from_utf8(done.stderr).unwrap();
    assert!(note.starts_with("note: no commit is known"), "{note}");
    assert!(cli.run("history add night-0.json").code(0).out.starts_with("is there already: "));
    let error = cli.run("history show --figure mixed.throughputs").code(2).err;
    assert!(error.contains("did you mean `mixed.throughput`?"), "{error}");
    let month = cli.path(".storebench/history/2026-01");
    std::fs::write(month.join("x.json"), "{}").unwrap();
    let error = cli.run("history show").code(2).err;
    assert!(error.contains("x.json: is no entry of a history") && error.contains("restore it"), "{error}");
}
