//! The built-in studies, each at a tiny scale, and what they report about published claims.

use serde_json::Value;

use crate::common::{Cli, Done};
use crate::server::Server;

/// The overrides that make a study tiny: they shorten every phase that has a duration.
pub(crate) fn tiny(name: &str) -> Vec<&'static str> {
    match name {
        "bulk-insert" => vec![
            "repeats=2",
            "collections.inserted.count=1000",
            "factors.'collections.stored.count'=[500, 2000]",
            "phases.read.operations=300",
            "phases.query.operations=100",
            "phases.insert.settle=1s",
        ],
        "first-look" => vec!["repeats=1", "phases.mixed.duration=200ms", "phases.load.settle=1s"],
        "million-writes" => vec![
            "phases.overwrite.operations=2000",
            "phases.steady.duration=200ms",
            "search.from=100",
            "search.to=400",
            "search.rest=100ms",
        ],
        "one-setting" => vec![
            "repeats=2",
            "phases.random-first.duration=150ms",
            "phases.random.duration=150ms",
            "phases.sequential.duration=150ms",
            "phases.overwrite.duration=150ms",
            "phases.mixed.duration=150ms",
        ],
        "reading-list" => vec![
            "factors.'phases.*.rate'=[250, 500]",
            "phases.first-reads.duration=150ms",
            "phases.by-key.duration=200ms",
            "phases.by-user.duration=200ms",
            "phases.in-book.duration=200ms",
        ],
        "parallel-transfer" => {
            vec!["factors.'phases.import.tasks'=[1, 4]", "factors.'phases.export.tasks'=[1, 4]", "repeats=2"]
        }
        other => panic!("{other} has no tiny form here"),
    }
}

/// The README and `docs/studies.md` name every built-in study, and state how many there are.
#[test]
fn the_readme_lists_the_studies_that_are_built_in() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let listed = Cli::new().run("studies --json").code(0).json();
    let names: Vec<&str> = listed["studies"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    let counted = ["None", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine"][names.len()];
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let told = readme.split("**Rerun a published benchmark.**").nth(1).unwrap().split("```").next().unwrap();
    assert!(told.trim_start().starts_with(&format!("{counted} studies are built in")), "{told}");
    let page = std::fs::read_to_string(root.join("docs/studies.md")).unwrap();
    assert!(page.contains(&format!("{counted} studies as files")), "docs/studies.md says another number");
    for name in &names {
        assert!(told.contains(&format!("`{name}`")), "the README does not name {name}");
        assert!(
            page.contains(&format!("## {name}")) || page.contains(&format!("`{name}`")),
            "{name} is not in docs/studies.md"
        );
        assert!(root.join(format!("studies/{name}.toml")).exists(), "{name}");
    }
}

/// The name of a configuration has the requested values, whatever the scale. The resulting number of documents is
/// listed separately.
#[test]
fn values_of_configurations_are_those_that_were_asked_for() {
    let cli = Cli::new();
    let text = format!("{}[factors]\n\"collections.books.count\" = [1000, 3000]\n", crate::common::STUDY);
    cli.write("scaled.toml", &text);
    let names = |words: &str| {
        let plan = cli.run(words).code(0).json();
        let configurations = plan["configurations"].as_array().unwrap().clone();
        let of = |configuration: &Value| {
            (configuration["configuration"].as_str().unwrap().to_owned(), configuration["documents"].as_u64().unwrap())
        };
        configurations.iter().map(of).collect::<Vec<_>>()
    };
    let at = |count: u64, documents: u64| (format!("sqlite books.count={count}"), documents);
    assert_eq!(names("plan scaled.toml --json"), [at(1_000, 1_200), at(3_000, 3_200)]);
    assert_eq!(names("plan scaled.toml --json --scale 0.1"), [at(1_000, 120), at(3_000, 320)]);
    let done = cli.run("run scaled.toml --full --scale 0.1 --out runs -q --set phases.mixed.operations=50");
    done.assert_measured();
    for told in ["sqlite books.count=1000", "books (sqlite books.count=1000): 100 documents", "sqlite books.count=3000"]
    {
        assert!(done.out.contains(told), "{told}: {}", done.out);
    }
}

fn run(cli: &Cli, name: &str, scale: &str, more: &[&str]) -> Done {
    let mut args = vec!["run", name, "--preset", "laptop", "--scale", scale, "--json", "--out", "runs", "--quiet"];
    for setting in tiny(name) {
        args.extend(["--set", setting]);
    }
    args.extend(more);
    cli.run_args(&args)
}

/// Asserts that every trial ran every phase, nothing failed or was wrong, and every published claim has an outcome.
fn ran_whole(done: &Done, name: &str) -> Value {
    done.assert_measured();
    let result: Value = serde_json::from_str(&done.out).unwrap();
    let trials = result["trials"].as_array().unwrap();
    assert_eq!(trials.len(), result["plan"]["trials"].as_array().unwrap().len(), "{name}");
    for trial in trials {
        assert!(trial["failure"].is_null(), "{name}: {}", trial["failure"]);
        for phase in trial["phases"].as_array().unwrap() {
            for (label, op) in phase["ops"].as_object().unwrap() {
                let figure = |key: &str| op[key].as_u64().unwrap();
                assert!(figure("succeeded") > 0, "{name} {} {label} did nothing", phase["name"]);
                assert_eq!((figure("wrong"), figure("errors"), figure("misses")), (0, 0, 0), "{name} {label}: {op}");
            }
        }
    }
    let claims = result["claims"].as_array().unwrap();
    assert!(!claims.is_empty());
    for claim in claims {
        let word = claim["verdict"].as_str().unwrap();
        assert!(["matches", "differs", "undecided", "not-testable"].contains(&word), "{claim}");
        assert!(!claim["why"].as_str().unwrap().is_empty(), "{name}: a word without a reason: {claim}");
        println!("{name}: {} → {word}: {}", claim["says"], claim["why"]);
    }
    result
}

#[test]
fn bulk_insert_runs_on_embedded_stores() {
    let result = ran_whole(&run(&Cli::new(), "bulk-insert", "1", &[]), "bulk-insert");
    let factors: Vec<&str> =
        result["sweeps"].as_array().unwrap().iter().map(|s| s["factor"].as_str().unwrap()).collect();
    for factor in ["phases.insert.batch", "phases.insert.workers", "collections.stored.count"] {
        assert!(factors.contains(&factor), "{factor}: {factors:?}");
    }
}

#[test]
fn million_writes_runs_on_an_embedded_store() {
    let result = ran_whole(&run(&Cli::new(), "million-writes", "0.00001", &[]), "million-writes");
    let search = &result["trials"][0]["searches"][0];
    assert!(search["probes"].as_array().unwrap().len() > 1, "{search}");
}

#[test]
fn one_setting_runs_on_embedded_stores() {
    let result = ran_whole(&run(&Cli::new(), "one-setting", "0.0002", &[]), "one-setting");
    let names: Vec<&str> =
        result["configurations"].as_array().unwrap().iter().map(|a| a["configuration"].as_str().unwrap()).collect();
    assert_eq!(names, ["small-cache", "large-cache"]);
    assert!(result["configurations"][1]["figures"]["overwrite.throughput"]["to_first"]["low"].is_number());
}

#[test]
fn reading_list_runs_on_an_embedded_store() {
    let result = ran_whole(&run(&Cli::new(), "reading-list", "0.00003", &[]), "reading-list");
    let kept = result["trials"].as_array().unwrap().iter().filter(|t| t["database_kept"] == true).count();
    assert_eq!(kept, 3, "one trial of four loads");
    let limits = result["trials"][0]["phases"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|p| !p["limits"].as_array().unwrap().is_empty());
    assert_eq!(limits.count(), 3);
}

#[test]
fn parallel_transfer_runs_on_embedded_stores() {
    let result = ran_whole(&run(&Cli::new(), "parallel-transfer", "0.0003", &[]), "parallel-transfer");
    for trial in result["trials"].as_array().unwrap() {
        for phase in trial["phases"].as_array().unwrap() {
            let name = phase["name"].as_str().unwrap();
            let asked = trial["values"][format!("phases.{name}.tasks")].as_u64().unwrap();
            assert_eq!(phase["tasks"]["asked"], asked, "{phase}");
            assert!(phase["tasks"]["at_once"].as_u64().unwrap() <= asked, "{phase}");
        }
    }
}

macro_rules! studies_run_on {
    ($($test:ident: $study:literal at $scale:literal on $server:literal with $more:expr;)*) => {$(
        #[test]
        fn $test() {
            let server = Server::start($server);
            let mut more: Vec<&str> = vec!["--store", &server.url];
            let set: &[&str] = &$more;
            more.extend(set);
            ran_whole(&run(&Cli::new(), $study, $scale, &more), $study);
        }
    )*};
}

/// One copy, synced to disk, which is what a single server can guarantee.
const ONE_COPY: [&str; 6] = [
    "--set",
    "phases.load.durability=fsync",
    "--set",
    "phases.overwrite.durability=fsync",
    "--set",
    "phases.steady.durability=fsync",
];
/// The same for Redis as it is started here, which keeps nothing on disk.
const IN_MEMORY: [&str; 6] = [
    "--set",
    "phases.load.durability=none",
    "--set",
    "phases.overwrite.durability=none",
    "--set",
    "phases.steady.durability=none",
];
/// Fewer connections than a server accepts by default.
const FEWER: [&str; 10] = [
    "--set",
    "phases.load.durability=fsync",
    "--set",
    "phases.first-reads.connections=8",
    "--set",
    "phases.by-key.connections=8",
    "--set",
    "phases.by-user.connections=8",
    "--set",
    "phases.in-book.connections=8",
];
/// For a server that is slow to index: only two batch sizes.
const TWO_BATCHES: [&str; 4] =
    ["--set", "factors={ 'phases.insert.batch' = [100, 1000] }", "--set", "collections.stored.count=500"];

studies_run_on! {
    bulk_insert_runs_on_postgres: "bulk-insert" at "1" on "postgres" with [];
    bulk_insert_runs_on_ravendb: "bulk-insert" at "1" on "ravendb" with TWO_BATCHES;
    reading_list_runs_on_postgres: "reading-list" at "0.00003" on "postgres" with FEWER;
    reading_list_runs_on_ravendb: "reading-list" at "0.00001" on "ravendb" with FEWER;
    million_writes_runs_on_postgres: "million-writes" at "0.00001" on "postgres" with ONE_COPY;
    million_writes_runs_on_redis: "million-writes" at "0.00001" on "redis" with IN_MEMORY;
}

#[test]
fn studies_are_listed_with_their_sizes() {
    let cli = Cli::new();
    let all = cli.run("studies");
    assert_eq!(all.code, 0, "{}", all.err);
    for name in ["bulk-insert", "parallel-transfer", "million-writes", "one-setting", "reading-list"] {
        assert!(all.out.contains(name), "{}", all.out);
        let one = cli.run(&format!("studies {name}"));
        assert!(one.out.contains("--preset laptop") && one.out.contains("flaws that readers found"), "{}", one.out);
        let file = cli.run(&format!("studies {name} --file"));
        assert!(file.out.contains("\ntitle ") && file.out.contains("[presets.laptop]"), "{}", file.out);
    }
    // A study without presets or flaws says nothing of them.
    assert!(all.out.contains("storebench run NAME [--preset PRESET]"), "{}", all.out);
    let first = cli.run("studies first-look");
    assert!(!first.out.contains("flaws") && !first.out.contains("--preset"), "{}", first.out);
    let refused = cli.run("studies bulk-insrt");
    assert!(refused.code == 2 && refused.err.contains("did you mean `bulk-insert`?"), "{}", refused.err);
    let refused = cli.run("run readinglist");
    assert!(
        refused.code == 2 && refused.err.contains("did you mean the built-in study `reading-list`?"),
        "{}",
        refused.err
    );
    let refused = cli.run("plan bulk-insert --preset lapto");
    assert!(refused.code == 2 && refused.err.contains("did you mean `laptop`?"), "{}", refused.err);
}

/// Planning all 1.36 billion documents touches nothing, and needs no memory for them.
#[test]
fn the_whole_reading_list_is_planned() {
    let plan = Cli::new().run("plan reading-list --preset published --json");
    assert_eq!(plan.code, 0, "{}", plan.err);
    let plan: Value = serde_json::from_str(&plan.out).unwrap();
    let counts: Vec<(String, u64)> = plan["collections"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["collection"].as_str().unwrap().to_owned(), c["count"].as_u64().unwrap()))
        .collect();
    let published = [
        ("users", 69_380_000),
        ("authors", 7_890_000),
        ("works", 20_300_000),
        ("editions", 28_780_000),
        ("books", 63_510),
        ("users-books", 734_220_000),
        ("highlights", 497_030_000),
    ];
    assert_eq!(counts, published.map(|(name, count)| (name.to_owned(), count)));
}

#[test]
fn prices_are_read_kept_and_refused_by_place() {
    let cli = Cli::with_study();
    let sheet = "currency = \"USD\"\nsource = \"a list\"\ndate = \"2026-01-31\"\n[nodes.box]\nper_hour = 1.5\n[stores.default]\nnode = \"box\"\n";
    cli.write("prices.toml", sheet);
    let plan = cli.run("plan books.toml --prices prices.toml");
    assert!(plan.code == 0 && plan.out.contains("\ncost   ") && plan.out.contains("USD"), "{}{}", plan.out, plan.err);
    let done = cli.run("run books.toml --prices prices.toml --json --quiet");
    done.assert_measured();
    let result: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(result["cost"]["sheet"]["source"], "a list");
    assert!(result["cost"]["configurations"][0]["per_year"]["without_clients"].as_f64().unwrap() > 13_000.0);
    cli.write("undated.toml", &sheet.replace("date = \"2026-01-31\"\n", ""));
    let refused = cli.run("run books.toml --prices undated.toml");
    assert!(
        refused.code == 2 && refused.err.contains("undated.toml") && refused.err.contains("date"),
        "{}",
        refused.err
    );
}

/// A factor that names nothing is refused before anything is touched.
#[test]
fn wrong_factors_are_refused_by_place() {
    let cli = Cli::with_study();
    let text = format!("{}\n[factors]\n\"phases.mixd.workers\" = [1, 2]\n", crate::common::STUDY);
    cli.write("wrong.toml", &text);
    let refused = cli.run("run wrong.toml");
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("wrong.toml:") && refused.err.contains("did you mean `mixed`?"), "{}", refused.err);
    assert!(!cli.path("books.db").exists());
}

/// Here a latency stands for a host. Each store runs on each host equally often, and no two stores share one at a time.
#[test]
fn stores_take_turns_on_hosts() {
    let cli = Cli::with_study();
    let study = |repeats: u32, hosts: &str, stores: &str| {
        let without = crate::common::STUDY.replace("stores = [\"sqlite:books.db\"]\n", "");
        format!("hosts = {hosts}\nrepeats = {repeats}\n{without}\n[stores]\n{stores}\n")
    };
    let stores = "old = \"slow+memory:?latency={host}\"\nnew = \"slow+memory:?latency={host}&stall_at=1h\"";
    cli.write("turns.toml", &study(4, "[\"1us\", \"2us\"]", stores));
    let short = ["--set", "phases.mixed.operations=50"];
    let args = ["run", "turns.toml", "--json", "--quiet", "--out", "runs"];
    let result: Value = serde_json::from_str(&cli.run_args(&[&args[..], &short].concat()).code(0).out).unwrap();
    let mut turns: Vec<String> = result["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| {
            let url = t["url"].as_str().unwrap();
            let host = t["host"].as_str().unwrap();
            assert!(url.contains(&format!("latency={host}")), "{t}");
            format!("{} {} {host}", t["round"], t["store"].as_str().unwrap())
        })
        .collect();
    turns.sort();
    let expected =
        ["1 new 2us", "1 old 1us", "2 new 1us", "2 old 2us", "3 new 2us", "3 old 1us", "4 new 1us", "4 old 2us"];
    assert_eq!(turns, expected);
    assert_eq!(result["configurations"].as_array().unwrap().len(), 2);
    assert!(result["documents"][0].get("configurations").is_none(), "{}", result["documents"]);

    for (repeats, hosts, stores, says) in [
        (3, "[\"1us\", \"2us\"]", stores, "use repeats = 4"),
        (4, "[\"1us\"]", stores, "stores cannot take turns on one host"),
        (4, "[\"1us\", \"1us\"]", stores, "`1us` is listed twice"),
        (4, "[\"1us\", \"2us\"]", "a = \"memory:\"", "no store uses these hosts"),
        (4, "[]", stores, "the study has no `hosts`"),
    ] {
        cli.write("turns.toml", &study(repeats, hosts, stores));
        let refused = cli.run("run turns.toml");
        assert!(refused.code == 2 && refused.err.contains(says), "{}", refused.err);
        assert!(refused.err.contains("turns.toml") && refused.err.contains("hosts"), "{}", refused.err);
    }
    let refused = cli.run("run books.toml --store slow+memory:?latency={host}");
    assert!(refused.code == 2 && refused.err.contains("the study has no `hosts`"), "{}", refused.err);
}

/// `init` writes a study that runs unchanged, and overwrites nothing.
#[test]
fn a_study_is_begun_with_init() {
    let cli = Cli::new();
    assert_eq!(cli.run("init").code(0).out, "study.toml\n");
    let text = std::fs::read_to_string(cli.path("study.toml")).unwrap();
    assert!(text.contains("sqlite:first-study.db") && text.contains("# rate "), "{text}");
    assert!(cli.run("init").code(2).err.contains("--force"));
    cli.run("init --force memory: fast=sqlite:b.db --count 500 --size 300 --rate 2k").code(0);
    let plan = cli.run("plan study.toml --json").code(0).json();
    let stores: Vec<&str> =
        plan["configurations"].as_array().unwrap().iter().map(|c| c["store"].as_str().unwrap()).collect();
    assert_eq!(stores, ["memory", "fast"]);
    assert_eq!(plan["collections"][0]["count"], 500);
    cli.write("mine.jsonl", "{\"a\": 1}\n{\"a\": 2}\n");
    cli.run("init --force memory: --from mine.jsonl").code(0);
    assert_eq!(cli.run("plan study.toml --json").code(0).json()["collections"][0]["count"], 2);
    assert!(cli.run("init nosuch:x -o other.toml").code(2).err.contains("nosuch"));
    assert!(!cli.path("other.toml").exists());
}
