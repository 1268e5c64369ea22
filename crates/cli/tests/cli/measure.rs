//! `run` and `bench`: what they print and save, and their exit codes.

use crate::common::Cli;
use serde_json::Value;

fn check<'a>(result: &'a Value, check: &str) -> &'a str {
    let all = result["checks"].as_array().unwrap();
    all.iter().filter(|v| v["check"] == check).map(|v| v["severity"].as_str().unwrap()).next_back().unwrap_or("absent")
}

fn phase<'a>(result: &'a Value, name: &str) -> &'a Value {
    result["trials"][0]["phases"].as_array().unwrap().iter().find(|p| p["name"] == name).unwrap()
}

/// Asserts that the field exists and, with `number`, that it is a number.
fn has(value: &Value, path: &str, number: bool) {
    let found = value.pointer(path).unwrap_or_else(|| panic!("no {path} in {value}"));
    assert!(!number || found.is_number(), "{path} is {found}");
}

#[test]
fn json_carries_what_readers_count_on() {
    let cli = Cli::new();
    let done = cli.run("bench sqlite:a.db --docs 2k --rate 500 --duration 2s --durability os --json").measured();
    let result = done.json();
    assert_eq!(result["format"], "storebench-run/3");
    has(&result, "/run/seed", true);
    has(&result, "/trials/0/values", false);
    assert_eq!(result["trials"][0]["store"], "sqlite");
    let bench = phase(&result, "bench");
    for op in ["read", "update"] {
        for field in ["count", "errors", "unfinished", "throughput_per_s"] {
            has(bench, &format!("/ops/{op}/{field}"), true);
        }
        for times in ["response_ns", "service_ns"] {
            for p in ["p50", "p90", "p95", "p99", "p99_9", "p99_99", "max"] {
                has(bench, &format!("/ops/{op}/{times}/{p}"), true);
            }
        }
    }
    for field in ["cpu_us_per_op", "rss_max_bytes", "send_delay_ns/p50", "send_delay_ns/p99", "send_delay_ns/max"] {
        has(bench, &format!("/client/{field}"), true);
    }
    for field in ["count", "bytes", "distinct_keys", "compress_page", "compress_doc"] {
        has(bench, &format!("/documents/{field}"), true);
    }
    for check in result["checks"].as_array().unwrap() {
        for field in ["check", "severity", "observed", "threshold", "advice"] {
            assert!(check[field].is_string(), "{field} of {check}");
        }
    }
    let scheduled = bench["rate"]["scheduled"].as_u64().unwrap();
    assert_eq!(scheduled, 1_000);
    assert!(phase(&result, "load")["ops"]["docs"]["response_ns"].is_null(), "null in closed loop");
    assert!(done.err.contains("bench, 2.00 s"), "progress goes to stderr: {}", done.err);
}

#[test]
fn the_summary_is_data_and_progress_is_not() {
    let cli = Cli::with_study();
    let done = cli.run("run books.toml").measured();
    for part in ["Books", "  load ", "  mixed ", "p99.9", "report   storebench-runs", "--full"] {
        assert!(done.out.contains(part), "{part} in {}", done.out);
    }
    assert!(done.out.lines().count() <= 20, "{}", done.out);
    let full = cli.run_args(&["report", cli.run_folder().to_str().unwrap(), "--full"]).code(0).out;
    for part in ["Books", "load:", "mixed:", "p99.9", "Validity checks", "client-shares-host"] {
        assert!(full.contains(part), "{part} in {full}");
    }
    assert!(done.err.contains("mixed: 2,000 operations"), "{}", done.err);
    assert!(!done.out.contains('\u{1b}'), "no colours into a pipe");
    let quiet = cli.run("run books.toml --quiet --out others").measured();
    assert!(!quiet.err.contains("mixed"), "{}", quiet.err);
    let kept: Value = serde_json::from_slice(&std::fs::read(cli.run_folder().join("run.json")).unwrap()).unwrap();
    assert_eq!(phase(&kept, "mixed")["ops"]["read"]["collection"], "books");
}

#[test]
fn a_rate_that_a_store_cannot_hold_is_a_finding() {
    let cli = Cli::new();
    let words = |seconds: u32| {
        let flags = format!("--docs 100 --rate 2000 --duration {seconds}s --warm-up 0s --mix read=1 --json -q");
        let mut args = vec!["bench", "slow+memory:?latency=5ms&concurrency=1"];
        args.extend(flags.split_whitespace());
        cli.run_args(&args).measured().json()
    };
    // The store answers 200 of 2,000 operations per second, so scheduled operations wait longer and longer.
    let (short, long) = (words(1), words(3));
    let read = |result: &Value| phase(result, "bench")["ops"]["read"].clone();
    for result in [&short, &long] {
        assert_eq!(check(result, "rate-not-sustained"), "caution");
        assert!(read(result)["unfinished"].as_u64().unwrap() > 0);
    }
    let p99 = |result: &Value| read(result)["response_ns"]["p99"].as_u64().unwrap();
    assert!(p99(&long) > 2 * p99(&short), "{} after {}", p99(&long), p99(&short));
}

#[test]
fn a_thousand_million_documents_need_no_memory_on_null() {
    let cli = Cli::new();
    let done = cli
        .run("bench null: --docs 1B --operations 200k --mix read=1,update=1 --popularity zipf:0.99 --json")
        .measured();
    assert!(done.err.contains("nothing is loaded"), "{}", done.err);
    let result = done.json();
    assert_eq!(result["documents"][0]["count"], 1_000_000_000);
    assert_eq!(result["trials"][0]["phases"].as_array().unwrap().len(), 1);
    let rss = phase(&result, "bench")["client"]["rss_max_bytes"].as_u64().unwrap();
    assert!(rss < 100 << 20, "{rss} bytes");
}

#[test]
fn a_saved_study_runs_as_the_bench_did() {
    let cli = Cli::new();
    let flags = "--docs 500 --size 200B --operations 1000 --durability os --check 1";
    cli.run(&format!("bench redb:a.redb {flags} --save-study quick.toml -q --out one")).measured();
    insta::assert_snapshot!(std::fs::read_to_string(cli.path("quick.toml")).unwrap());
    let refused = cli.run(&format!("bench redb:a.redb {flags} --save-study quick.toml -q --out two")).code(2);
    assert!(refused.err.contains("quick.toml exists") && refused.err.contains("--force"), "{}", refused.err);
    assert!(!cli.path("two").exists(), "refused before anything is measured");
    let result = cli.run("run quick.toml --json -q").measured().json();
    assert_eq!(phase(&result, "bench")["ops"]["read"]["checked"], phase(&result, "bench")["ops"]["read"]["succeeded"]);
    cli.run("verify redb:a.redb quick.toml").code(0);

    let again = cli.run(&format!("bench redb:a.redb {flags} --no-load --json -q --out two")).measured().json();
    assert_eq!(again["trials"][0]["phases"].as_array().unwrap().len(), 1);
    assert_eq!(check(&again, "misses"), "pass");
    let kept = cli.run("run quick.toml --keep --json --out three").measured();
    assert!(kept.err.contains("--keep"), "{}", kept.err);
    assert_eq!(check(&kept.json(), "misses"), "pass");
}

/// Documents that were there before the run are not among those that it knows, so there is no ratio to them.
#[test]
fn a_database_that_is_kept_and_grows_has_no_space_amplification() {
    let cli = Cli::with_study();
    let space = |result: &Value| phase(result, "mixed")["resources"]["folder"]["space_amplification"].clone();
    let words = |more: &str| {
        let set = [
            "--set",
            "phases.mixed.mix={ insert = { collection = \"books\" } }",
            "--set",
            "phases.mixed.operations=100",
        ];
        let args = [&["run", "books.toml", "--json", "-q", "--out", "runs"], &set[..]].concat();
        cli.run_args(&[args, more.split_whitespace().collect()].concat()).measured().json()
    };
    let loaded = space(&words(""));
    assert!(loaded.as_f64().is_some_and(|space| space < 5.0), "{loaded}");
    assert_eq!(space(&words("--keep")), Value::Null);
}

#[test]
fn overrides_scale_and_names_of_stores_reach_the_run() {
    let cli = Cli::with_study();
    let words =
        "run books.toml --store a=memory: --store b=null: --set phases.mixed.operations=300 --scale 0.1 --json -q";
    let result = cli.run(words).measured().json();
    let stores: Vec<&str> = result["trials"].as_array().unwrap().iter().map(|t| t["store"].as_str().unwrap()).collect();
    assert_eq!(stores, ["a", "b"]);
    assert_eq!(result["documents"][0]["count"], 300);
    assert_eq!(result["run"]["overrides"][0], "phases.mixed.operations=300");
    let mixed = phase(&result, "mixed");
    let count = |op: &str| mixed["ops"][op]["count"].as_u64().unwrap();
    assert_eq!(count("read") + count("update"), 300);
}

#[test]
fn storebench_chooses_the_number_of_workers() {
    let cli = Cli::with_study();
    let set = "--set phases.mixed.workers=auto --set phases.mixed.operations=300 --scale 0.1 --json";
    let done = cli.run(&format!("run books.toml --store a=memory: {set}")).measured();
    let result = done.json();
    let workers = &phase(&result, "mixed")["workers"];
    assert!(done.err.contains(&format!("note: workers = \"auto\" is {workers}: ")), "{}", done.err);
    assert_eq!(result["run"]["overrides"][2], format!("phases.mixed.workers={workers}"));
    let planned = cli.run(&format!("plan books.toml --store a=memory: {set}")).code(0);
    assert_eq!(
        planned.json()["phases"].as_array().unwrap().iter().find(|p| p["name"] == "mixed").unwrap()["workers"],
        *workers
    );
    let wrong = cli.run("run books.toml --set phases.mixed.workers=many -q").code(2);
    assert!(wrong.err.contains("workers"), "{}", wrong.err);
}

#[test]
fn workers_can_be_pinned() {
    let cli = Cli::new();
    let bench = "bench sqlite:a.db --docs 1k --operations 2k --workers 1 --durability os --json";
    let worker = |result: &Value| phase(result, "bench")["client"]["worker_use"][0]["processor"].clone();
    let pinned = cli.run(&format!("{bench} --pin-workers")).measured().json();
    assert!(worker(&pinned).is_u64(), "{}", worker(&pinned));
    assert_eq!(phase(&pinned, "bench")["settings"]["pin_workers"], true);
    let free = cli.run(&format!("{bench} --no-load")).measured().json();
    assert!(worker(&free).is_null() && phase(&free, "bench")["settings"].get("pin_workers").is_none());
    // A search makes its own plans, and its probes are pinned like its other phases.
    let study = "title = \"t\"\n[stores]\na = \"sqlite:b.db\"\n[collections.c]\ncount = 500\nsize = 100\n\
         [[phases]]\nname = \"load\"\nload = [\"c\"]\nworkers = 1\n\
         [[phases]]\nname = \"p\"\nmix = { read = 1 }\nduration = \"200ms\"\nworkers = 1\npin_workers = true\n\
         [limits]\n\"p.response.p99\" = \"2s\"\n[search]\nphase = \"p\"\nfrom = 100\nto = 200\n";
    cli.write("search.toml", study);
    let searched = cli.run("run search.toml --json").measured().json();
    assert!(
        phase(&searched, "p")["client"]["worker_use"][0]["processor"].is_u64(),
        "{}",
        phase(&searched, "p")["client"]
    );
    let refused = cli.run("bench null: --workers 1024 --pin-workers -q").code(2);
    assert!(refused.err.contains("1024 workers cannot each have one of the"), "{}", refused.err);
}

/// Writes of a warm-up do not count as lost.
#[test]
fn a_ledger_knows_what_phases_before_it_wrote() {
    let cli = Cli::new();
    let words =
        "bench sqlite:a.db --docs 300 --duration 500ms --warm-up 300ms --mix update=1,delete=1 --ledger --json -q";
    let ledger = phase(&cli.run(words).measured().json(), "bench")["ledger"].clone();
    assert!(ledger["keys"].as_u64().unwrap() > 100 && ledger["keys"] == ledger["confirmed"], "{ledger}");
    let text = r#"
title = "Written without a ledger"
stores = ["sqlite:b.db"]
collections = { docs = { count = 300 } }
[[phases]]
name = "load"
load = ["docs"]
[[phases]]
name = "before"
mix = { update = 1, delete = 1 }
operations = 900
[[phases]]
name = "steady"
mix = { read = 1, update = 1 }
operations = 300
streams = "disjoint"
ledger = true
"#;
    cli.write("it.toml", text);
    let done = cli.run("run it.toml --json -q");
    assert_eq!(done.json()["trials"][0]["phases"][2]["ledger"]["lost"], 0, "{}", done.out);
}

#[test]
fn a_ledger_confirms_what_was_acknowledged() {
    let cli = Cli::new();
    let result =
        cli.run("bench sqlite:a.db --docs 300 --operations 900 --mix update=1 --ledger --json -q").measured().json();
    let ledger = &phase(&result, "bench")["ledger"];
    assert!(ledger["keys"].as_u64().unwrap() > 100);
    assert_eq!(ledger["keys"], ledger["confirmed"]);
}

#[test]
fn wrong_contents_and_failed_stores_are_told_on_stderr() {
    let cli = Cli::with_study();
    cli.run("run books.toml -q --out first").measured();
    let connection = rusqlite::Connection::open(cli.path("books.db")).unwrap();
    connection.execute("UPDATE books SET body = json_set(body, '$.author', 'somebody else')", []).unwrap();
    connection.close().unwrap();
    let words = "run books.toml --keep --set phases.mixed.check=1.0 --json";
    let done = cli.run(words).code(1);
    assert!(done.err.contains("error: wrong data was returned: wrong-content"), "{}", done.err);
    assert_eq!(check(&done.json(), "wrong-content"), "invalid");
}

#[test]
fn a_plan_touches_nothing() {
    let cli = Cli::with_study();
    let text = cli.run("plan books.toml --store sqlite:x.db --store redb:x.redb").code(0);
    insta::assert_snapshot!(text.out);
    let other = cli.run("plan books.toml --set phases.mixed.durability=os").code(0).out;
    assert!(
        other.contains("sqlite, load: durability fsync") && other.contains("sqlite, mixed: durability os"),
        "{other}"
    );
    let plan = cli.run("plan books.toml --json --set collections.books.compress_to=0.5").code(0).json();
    assert_eq!(plan["format"], "storebench-plan/2");
    assert_eq!(plan["collections"][0]["count"], 3_000);
    assert!(plan["collections"][0]["reachable"][1].as_f64().unwrap() > 0.5);
    assert_eq!(plan["guarantees"][1]["durability"], "fsync");
    let mut there: Vec<_> =
        std::fs::read_dir(cli.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    there.sort();
    assert_eq!(there, ["books.toml"]);
}

#[test]
fn doctor_says_what_it_would_spoil() {
    let cli = Cli::new();
    let report = cli.run("doctor --json").code(0).json();
    assert_eq!(report["format"], "storebench-doctor/2");
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.len() >= 10 && checks.iter().all(|c| matches!(c["state"].as_str(), Some("ok" | "caution"))));
    let text = cli.run("doctor .").code(0).out;
    assert!(checks.iter().all(|c| text.contains(c["check"].as_str().unwrap())), "{text}");
    assert!(cli.run("doctor nowhere").code(2).err.contains("nowhere"));
}
