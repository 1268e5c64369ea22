//! `history`: runs that are added, what a check of them says, and what is refused.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

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
    let measured = run["configurations"][0]["figures"].clone();
    for nth in 0..40 {
        run["run"]["began"] = format!("2026-{:02}-{:02}T02:00:00Z", nth / 28 + 1, nth % 28 + 1).into();
        let wobble = 1.0 + 0.01 * [0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5][nth * 3 % 7];
        let times = wobble * if nth < slower_from { 1.0 } else { 0.9 };
        for (name, figure) in run["configurations"][0]["figures"].as_object_mut().unwrap() {
            let is_rate = name.ends_with("throughput") || name.ends_with("documents");
            let value = measured[name]["figure"]["value"].as_f64().unwrap();
            figure["figure"]["value"] = if is_rate { value * times } else { value / times }.into();
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
        worse.err.starts_with("error: became worse: memory load.documents, memory mixed.throughput"),
        "{}",
        worse.err
    );
    let junit = std::fs::read_to_string(cli.path("lines.xml")).unwrap();
    assert!(junit.contains("tests=\"2\" failures=\"2\" skipped=\"0\""), "{junit}");
    cli.run("history check --junit lines.xml").code(2);
    // The same on a page, which loads nothing.
    assert_eq!(cli.run("history check -o lines.html").code(1).out, worse.out);
    cli.run("history show -o lines.html").code(2);
    assert!(cli.run("history show -o -").code(2).err.contains("--output names the file"));
    let page = std::fs::read_to_string(cli.path("lines.html")).unwrap();
    assert!(page.contains("2 figures became worse") && page.contains("<h2>Lines</h2>"), "{page}");
    assert!(page.contains(r#""kind":"worse""#) && page.contains(", c33 – c34\""), "{page}");
    assert!(page.contains("default-src 'none'") && !page.contains("src=\"http"), "{page}");
    cli.run("history show -o lines.html --force").code(0);
    cli.run("history check --junit lines.xml --force").code(1);
    // `show` shows the same, and judges nothing.
    assert_eq!(cli.run("history show").code(0).out, worse.out);
    // What was found before the last two runs is old news.
    cli.run("history check --recent 1").code(0);
    let github =
        cli.command(&["history", "check", "--github"]).env("GITHUB_STEP_SUMMARY", cli.path("summary")).output();
    let github = String::from_utf8(github.unwrap().stdout).unwrap();
    assert!(
        github.starts_with("::error title=load.documents became worse::memory load.documents fell by "),
        "{github}"
    );
    let summary = std::fs::read_to_string(cli.path("summary")).unwrap();
    assert!(summary.starts_with("**2 figures became worse") && summary.contains("| memory |"), "{summary}");
    assert_eq!(cli.run("history check --markdown").code(1).out, summary);
}

/// It is worse, or nobody can tell, so no flag lets it pass.
#[test]
fn a_figure_that_has_no_value_any_more_fails_the_check() {
    let cli = Cli::new();
    nights(&cli, 40);
    for nth in 30..33 {
        let name = format!("night-{nth}.json");
        let mut run: Value = serde_json::from_str(&std::fs::read_to_string(cli.path(&name)).unwrap()).unwrap();
        run["configurations"][0]["figures"]["mixed.throughput"]["none_in"] = serde_json::json!([1]);
        cli.write(&name, &run.to_string());
    }
    add(&cli, 0..32);
    cli.run("history check").code(5);
    cli.run("history check --undecided pass").code(0);
    add(&cli, 32..33);
    let lost = cli.run("history check --undecided pass --junit lines.xml").code(1);
    let told = "memory mixed.throughput had no value in the last 3 runs";
    assert!(lost.words().starts_with(&format!("One figure has no value any more: {told}")), "{}", lost.out);
    assert!(lost.err.starts_with("error: without a value: memory mixed.throughput"), "{}", lost.err);
    let junit = std::fs::read_to_string(cli.path("lines.xml")).unwrap();
    assert!(junit.contains("failures=\"1\" skipped=\"0\"") && junit.contains(told), "{junit}");
    add(&cli, 33..34);
    cli.run("history check").code(0);
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
    let add = || {
        let mut command = cli.command(&["history", "add", "night-0.json"]);
        cli.run_command(command.env_remove("GITHUB_SHA").env_remove("GITHUB_REF_NAME")).code(0)
    };
    let note = add().err;
    assert!(
        note.starts_with("note: no commit is known, so a change will be named by the time of its run; no b"),
        "{note}"
    );
    assert!(note.contains(": give --commit and --branch ("), "{note}");
    let again = add();
    assert!(again.out.starts_with("is there already: ") && again.err.is_empty(), "{again:?}");
    // What is given later is not taken for granted.
    let named = cli.run("history add night-0.json --commit c0 --branch main").code(0).out;
    let kept = "is there already, without a commit and without a branch (remove the file to add it again): ";
    assert!(named.starts_with(kept), "{named}");
    let error = cli.run("history check --branch main").code(2).err;
    assert!(error.contains("no runs of branch `main`; it has: 1 run without a branch"), "{error}");
    let error = cli.run("history show --figure mixed.throughputs").code(2).err;
    assert!(error.contains("did you mean `mixed.throughput`?"), "{error}");
    let month = cli.path(".storebench/history/2026-01");
    std::fs::write(month.join("x.json"), "{}").unwrap();
    let error = cli.run("history show").code(2).err;
    assert!(error.contains("x.json: is no entry of a history") && error.contains("restore it"), "{error}");
}

#[test]
fn the_last_runs_are_a_baseline_and_say_how_many_runs_a_gate_needs() {
    let cli = Cli::new();
    nights(&cli, 40);
    add(&cli, 0..3);
    let gate = ["--fail-on", "mixed.throughput < -5%"];
    let compare = |run: &str, branch: &str| {
        let baseline = format!("history:{branch}");
        cli.run_args(&[&["compare", run, "--baseline", &baseline][..], &gate].concat())
    };
    let few = compare("night-39.json", "main").code(5);
    assert!(few.err.contains("the history has 3 runs of it"), "{}", few.err);
    add(&cli, 3..40);
    let passed = compare("night-39.json", "main").code(0).words();
    assert!(passed.contains("baseline history:main, 20 runs") && passed.contains("would detect −"), "{passed}");
    compare("night-39.json", "").code(0);
    let error = compare("night-39.json", "topic").code(2).err;
    assert!(error.contains("no runs of branch `topic`; it has: main"), "{error}");
    let needs = |pilot: &[&str]| {
        let done = cli.run_args(&[&["plan", "books.toml", "--gate", "5%", "--pilot"][..], pilot].concat()).code(0);
        let line = done.out.lines().find(|line| line.starts_with("A gate of 5 % on memory mixed.throughput needs "));
        line.unwrap_or_else(|| panic!("{}", done.out)).to_owned()
    };
    let by_history = needs(&["history:main"]);
    assert!(by_history.ends_with(", from 40 runs)"), "{by_history}");
    let by_runs = needs(&["night-0.json", "night-1.json", "night-2.json"]);
    assert!(by_runs.ends_with(", from 3 runs)"), "{by_runs}");
    cli.run("plan books.toml --pilot history:topic").code(2);
    let refused = |last: &str| {
        let words = format!("plan books.toml --pilot night-0.json night-1.json {last}");
        cli.run(&words).code(2).err
    };
    cli.write("copy.json", &std::fs::read_to_string(cli.path("night-1.json")).unwrap());
    let error = refused("copy.json");
    assert!(error.contains("night-1.json and copy.json are the same run"), "{error}");
    let night = std::fs::read_to_string(cli.path("night-2.json")).unwrap();
    let mut partial: Value = serde_json::from_str(&night).unwrap();
    partial["run"]["interrupted"] = true.into();
    cli.write("partial.json", &partial.to_string());
    let error = refused("partial.json");
    assert!(error.contains("partial.json: it was interrupted, so its figures are partial"), "{error}");
    // A phase that the study has now, but no run of the history.
    let study = std::fs::read_to_string(cli.path("books.toml")).unwrap();
    cli.write("renamed.toml", &study.replace("name = \"mixed\"", "name = \"other\""));
    let told = cli.run("plan renamed.toml --pilot history:main").code(0).out;
    assert!(told.contains("on memory other is not known") && !told.contains("mixed"), "{told}");
}

fn entries(cli: &Cli) -> usize {
    let files = |month: std::fs::DirEntry| std::fs::read_dir(month.path()).unwrap().flatten();
    let months = std::fs::read_dir(cli.path(".storebench/history")).into_iter().flatten().flatten();
    months.flat_map(files).filter(|file| file.path().extension().is_some_and(|end| end == "json")).count()
}

/// Killed at any moment, it leaves whole entries, and the next one completes the history.
#[test]
fn an_add_that_is_killed_leaves_whole_entries() {
    let cli = Cli::new();
    nights(&cli, 40);
    let names: Vec<String> = (0..40).map(|nth| format!("night-{nth}.json")).collect();
    let args: Vec<&str> = ["history", "add"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let runs = || cli.run("history show --json").code(0).json()["runs"].clone();
    let mut landed = 0;
    for kill in 0..8 {
        let before = entries(&cli);
        let mut adding = cli.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while entries(&cli) <= before + kill % 3 && adding.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(100));
        }
        std::thread::sleep(Duration::from_micros(300 * kill as u64));
        landed += usize::from(adding.try_wait().unwrap().is_none());
        let _ = adding.kill();
        adding.wait().unwrap();
        assert_eq!(runs(), entries(&cli));
    }
    assert!(landed > 0, "no kill came before the end");
    // What a kill between writing and naming a file leaves.
    let month = cli.path(".storebench/history/2026-01");
    std::fs::write(month.join(".tmpA1b2C3"), "{\"format\": \"storebench-history/1\", \"ru").unwrap();
    cli.run_args(&args).code(0);
    assert_eq!((runs(), entries(&cli)), (40.into(), 40));
}
