//! Studies with phases that copy.

use serde_json::Value;

use crate::common::Cli;

const STUDY: &str = r#"title = "Texts, in and out"
seed = 5

[collections.others]
count = 10

[collections.texts]
count = 800
size = "300B"
fields = { author = { words = 2 }, text = { text = "fill" } }
index = [["author"]]

[[phases]]
name = "other"
load = ["others"]

[[phases]]
name = "import"
copy = "in"
collection = "texts"
parts = 16
batch = 50

[[phases]]
name = "read"
mix = { read = 1 }
collection = "texts"
operations = 800
popularity = "sequential"
check = 1.0

[[phases]]
name = "page"
mix = { page = { where = "author", limit = 5 } }
collection = "texts"
operations = 50

[[phases]]
name = "export"
copy = "out"
collection = "texts"
tasks = 3
parts = 16

[factors]
"phases.import.tasks" = [1, 2, 4]
"#;

fn trials(result: &Value) -> &[Value] {
    result["trials"].as_array().unwrap()
}

fn phase<'a>(trial: &'a Value, name: &str) -> &'a Value {
    trial["phases"].as_array().unwrap().iter().find(|p| p["name"] == name).unwrap()
}

/// Copies in and out with each number of tasks, on one store.
fn in_and_out(store: &str) -> Value {
    let cli = Cli::new();
    cli.write("texts.toml", STUDY);
    cli.run(&format!("plan texts.toml --store {store}")).code(0);
    let temporary = cli.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = cli.command(&["run", "texts.toml", "--store", store, "--json", "-q"]);
    let done = cli.run_command(command.env("TMPDIR", &temporary)).measured();
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "files of copies were left behind");
    let result = done.json();
    assert_eq!(trials(&result).len(), 3);
    for (trial, tasks) in trials(&result).iter().zip([1, 2, 4]) {
        assert_eq!(trial["values"]["phases.import.tasks"], tasks);
        assert!(trial["failure"].is_null(), "{}", trial["failure"]);
        let (import, export) = (phase(trial, "import"), phase(trial, "export"));
        let all = |of: &Value| (of["documents"].clone(), of["errors"].clone(), of["collection"].clone());
        let moved = (800.into(), 0.into(), "texts".into());
        assert_eq!(all(&import["ops"]["copy-in"]), moved);
        assert_eq!(all(&export["ops"]["copy-out"]), moved);
        assert!(import["ops"]["copy-in"]["written_bytes"].as_u64().unwrap() > 800 * 300);
        assert!(export["ops"]["copy-out"]["read_bytes"].as_u64().unwrap() >= 800 * 300);
        assert_eq!((import["tasks"]["asked"].clone(), import["tasks"]["parts"].clone()), (tasks.into(), 16.into()));
        assert_eq!(import["tasks"]["at_once"], tasks, "{store}");
        assert_eq!(export["tasks"]["asked"], 3);
        assert!(export["tasks"]["at_once"].as_u64().unwrap() >= 1);
        let read = &phase(trial, "read")["ops"]["read"];
        assert_eq!((read["checked"].clone(), read["wrong"].clone()), (800.into(), 0.into()));
        assert_eq!(read["misses"], 0);
        // The indexes contain the copied documents, and the other collection is unchanged.
        assert_eq!(phase(trial, "page")["ops"]["page"]["misses"], 0);
        assert!(phase(trial, "page")["ops"]["page"]["documents"].as_u64().unwrap() >= 50);
        assert_eq!(phase(trial, "other")["ops"]["others"]["documents"], 10);
    }
    if !store.contains("memory") {
        cli.run(&format!("verify {store} texts.toml")).code(0);
        // An import counts as a load, so --keep measures its documents again.
        let kept = cli.run(&format!("run texts.toml --store {store} --keep --json -q --out kept")).measured().json();
        let names: Vec<&Value> =
            trials(&kept)[0]["phases"].as_array().unwrap().iter().map(|phase| &phase["name"]).collect();
        assert_eq!(names, ["read", "page", "export"]);
        assert_eq!(phase(&trials(&kept)[0], "read")["ops"]["read"]["wrong"], 0);
    }
    result
}

#[test]
fn copies_of_a_study_on_sqlite_hold_what_a_load_would() {
    in_and_out("sqlite:texts.db");
}

#[test]
fn copies_of_a_study_on_a_store_that_tells_no_keys() {
    let result = in_and_out("redb:texts.redb");
    assert_eq!(phase(&trials(&result)[0], "export")["tasks"]["parts"], 16);
}

#[test]
fn as_many_tasks_run_as_there_are_parts() {
    let result = in_and_out("slow+memory:?latency=5ms");
    for trial in trials(&result) {
        assert_eq!(phase(trial, "export")["tasks"], serde_json::json!({ "asked": 3, "at_once": 3, "parts": 16 }));
    }
    let cli = Cli::new();
    cli.write("texts.toml", STUDY);
    let words = "run texts.toml --store slow+memory:?latency=5ms --set phases.import.parts=2 --json -q";
    let result = cli.run(words).measured().json();
    let at_once: Vec<u64> =
        trials(&result).iter().map(|t| phase(t, "import")["tasks"]["at_once"].as_u64().unwrap()).collect();
    assert_eq!(at_once, [1, 2, 2]);
}

#[test]
fn a_copy_by_a_view_is_refused_where_there_is_none() {
    let cli = Cli::new();
    cli.write("texts.toml", STUDY);
    let done = cli.run("run texts.toml --store sqlite:texts.db --set phases.export.view=by/author").code(2);
    assert!(done.err.contains("it has no views, such as `by/author` (phase `export`)"), "{}", done.err);
    assert!(!cli.path("texts.db").exists());
}

#[test]
fn the_summary_and_the_plan_tell_of_tasks_and_files() {
    let cli = Cli::new();
    cli.write("texts.toml", STUDY);
    let plan = cli.run("plan texts.toml --store memory:").code(0).out;
    for part in ["copy files into texts in batches of 50, 800 documents, 1 task, 16 parts", "for copy files"] {
        assert!(plan.contains(part), "{part} in {plan}");
    }
    let done = cli.run("run texts.toml --full --store memory:").measured();
    assert!(done.out.contains("tasks at once"), "{}", done.out);
}
