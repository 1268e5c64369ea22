//! Damaged input: each error names the place and the reason, and nothing else is lost.

use std::process::Stdio;

use crate::common::Cli;
use crate::common::copies::{by_key, count, documents, rejects, report};

/// Copies a file with bad records, and returns the place and the reason of each.
fn told(cli: &Cli, words: &str, written: u64) -> Vec<(String, String)> {
    let done = cli.run(&format!("{words} --json")).code(1);
    let report = report(&done);
    let told: Vec<(String, String)> = rejects(cli, &report)
        .iter()
        .map(|reject| (reject["from"].as_str().unwrap().to_owned(), reject["why"].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!((count(&report, "written"), count(&report, "rejected")), (written, told.len() as u64), "{report}");
    let all = format!("{words} --json --restart --max-errors {}", told.len());
    assert_eq!(cli.run(&all).code, 0, "so many errors are allowed");
    told
}

fn is(told: &[(String, String)], wanted: &[(&str, &str)]) {
    assert_eq!(told.len(), wanted.len(), "{told:#?}");
    for ((from, why), (place, part)) in told.iter().zip(wanted) {
        assert!(from == place && why.contains(part), "{from}: {why}, and not {place}: {part}");
    }
}

#[test]
fn lines_that_are_no_records() {
    let cli = Cli::new();
    let mut text = documents(3).into_bytes();
    text.extend(
        b"{\"_id\":\"cut\",\"n\":\n[1]\n{\"n\":1}\n{\"_id\":\"\"}\n{\"_id\":[7]}\n{\"_id\":\"x\",\"t\":\"\xff\"}\n\n",
    );
    text.extend(b"{\"_id\":\"last\"}");
    std::fs::write(cli.path("books.jsonl"), text).unwrap();
    let told = told(&cli, "copy books.jsonl sqlite:b.db", 4);
    is(
        &told,
        &[
            ("books.jsonl, line 4", "broken JSON"),
            ("books.jsonl, line 5", "it is a list, but a record must be a JSON object"),
            ("books.jsonl, line 6", "`_id` is missing"),
            ("books.jsonl, line 7", "empty"),
            ("books.jsonl, line 8", "`_id`"),
            ("books.jsonl, line 9", "not UTF-8 from byte 17"),
        ],
    );
}

#[test]
fn rows_that_do_not_fit_their_table() {
    let cli = Cli::new();
    std::fs::write(cli.path("p.csv"), b"_id,name,age\na,Ann,7\nb,Ben\nc,Cid,8,9\nd,\"D\ne\",nine\ne,\xff,1\nf,,\n")
        .unwrap();
    let told = told(&cli, "copy p.csv sqlite:b.db --types age=integer", 2);
    is(
        &told,
        &[
            ("p.csv, line 3", "2 fields"),
            ("p.csv, line 4", "4 fields"),
            ("p.csv, line 5", "age"),
            ("p.csv, line 7", "UTF-8"),
        ],
    );
}

#[test]
fn a_key_that_comes_twice_is_inserted_once() {
    let cli = Cli::new();
    cli.write(
        "b.jsonl",
        "{\"_id\":\"a\",\"n\":1}\n{\"_id\":\"b\",\"n\":2}\n{\"_id\":\"a\",\"n\":3}\n{\"n\":2.0,\"_id\":\"b\"}\n",
    );
    let done = cli.run("copy b.jsonl sqlite:b.db --op insert --to-collection x --verify --json").code(1);
    let report = report(&done);
    assert_eq!((count(&report, "written"), count(&report, "there_already"), count(&report, "rejected")), (3, 1, 1));
    let told = rejects(&cli, &report);
    assert_eq!((&told[0]["from"], &told[0]["error"]), (&"b.jsonl, line 3".into(), &"conflict".into()));
    assert_eq!(told[0]["record"], serde_json::json!({"_id": "a", "n": 3}));
    // The first one stays.
    let stored = cli.run("copy sqlite:b.db - --from-collection x --quiet").code(0);
    assert!(stored.out.contains("{\"_id\":\"a\",\"n\":1}"), "{stored:?}");
}

#[test]
fn files_that_are_cut_off_give_what_they_hold() {
    let cli = Cli::new();
    // Lists of mixed types do not fit in a column.
    cli.write("books.jsonl", &documents(4_000).replace("\"a\",null,", ""));
    for name in ["b.jsonl.gz", "b.jsonl.zst", "b.parquet", "b.json"] {
        cli.run(&format!("copy books.jsonl {name}")).code(0);
        let whole = std::fs::read(cli.path(name)).unwrap();
        std::fs::write(cli.path(name), &whole[..whole.len() * 2 / 3]).unwrap();
        let done = cli.run(&format!("copy {name} out.jsonl"));
        // A Parquet file is read from its end.
        assert_eq!(done.code, if name == "b.parquet" { 2 } else { 1 }, "{name}: {done:?}");
        if name == "b.parquet" {
            assert!(done.err.contains("is not a complete Parquet file") && done.out.is_empty(), "{done:?}");
            assert!(!cli.path("out.jsonl").exists());
            continue;
        }
        let there = by_key(&cli.path("out.jsonl")).len() as u64;
        assert!((1..4_000).contains(&there) || name == "b.jsonl.zst", "{name}: {there}");
        let told = done.out.lines().find(|line| line.starts_with("INCOMPLETE: ")).unwrap().replace(',', "");
        assert!(told.contains(name) && told.ends_with(&format!("; copied before it: {there} records")), "{told}");
        std::fs::remove_file(cli.path("out.jsonl")).unwrap();
        // The copy has ended, so the complete file starts another one.
        std::fs::write(cli.path(name), whole).unwrap();
        let done = cli.run(&format!("copy {name} out.jsonl --json")).code(0);
        assert_eq!(count(&report(&done), "written"), 4_000, "{name}");
        std::fs::remove_file(cli.path("out.jsonl")).unwrap();
    }
}

#[test]
fn one_of_two_that_go_on_with_one_log_is_turned_away() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(20_000));
    let copy = ["copy", "books.jsonl", "sqlite:b.db", "-p", "2", "--json"];
    let begin = |more: &[&str]| {
        let all = [&copy[..], more].concat();
        cli.command(&all).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut first = begin(&["--rate-docs", "8000"]);
    while crate::common::copies::log_lines(&cli) < 2 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    // Both at once.
    let both = [begin(&["--resume", "--rate-docs", "8000"]), begin(&["--resume", "--rate-docs", "8000"])];
    let ended = both.map(|copy| copy.wait_with_output().unwrap());
    let mut codes: Vec<i32> = ended.iter().map(|done| done.status.code().unwrap()).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 2], "{ended:?}");
    let turned_away = ended.iter().find(|done| !done.status.success()).unwrap();
    assert!(String::from_utf8_lossy(&turned_away.stderr).contains("already running"), "{ended:?}");
    let went_on = ended.iter().find(|done| done.status.success()).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&went_on.stdout).unwrap();
    assert_eq!((count(&report, "written"), count(&report, "rejected")), (20_000, 0));
}

#[test]
fn columns_can_be_printed_changed_and_given() {
    let cli = Cli::new();
    let late: String = (0..20_000)
        .map(|n| {
            let field = if n < 10_500 { String::new() } else { format!(",\"late\":{n}") };
            format!("{{\"_id\":{n},\"a\":{}{field}}}\n", if n == 7 { "\"x\"".into() } else { n.to_string() })
        })
        .collect();
    cli.write("in.jsonl", &late);
    let back = |name: &str| {
        cli.run(&format!("copy {name} {name}.jsonl")).code(0);
        by_key(&cli.path(&format!("{name}.jsonl")))
    };
    let done = cli.run("copy in.jsonl a.parquet").code(0);
    assert!(done.out.contains("written 20,000 · rejected 0"), "{done:?}");
    assert!(done.out.contains("keys of 20,000 records are not text"), "{done:?}");
    let all = back("a.parquet");
    assert_eq!((&all["7"]["a"], &all["19999"]["late"]), (&serde_json::json!("x"), &serde_json::json!(19_999)));
    let dry = cli.run("copy in.jsonl b.parquet --infer all --dry-run").code(0);
    assert!(dry.out.contains("\"late\": \"integer\"") && dry.out.contains("\"overflow\": \"_more\""), "{dry:?}");
    cli.write("schema.json", &dry.out.replace("_more", "rest"));
    cli.run("copy in.jsonl b.parquet --schema schema.json").code(0);
    assert_eq!(back("b.parquet"), all);
    let done = cli.run("copy in.jsonl c.parquet --schema schema.json --no-overflow").code(1);
    assert!(done.out.contains("rejected 1") && done.out.contains("\"x\" is not an integer"), "{done:?}");
    cli.write("wrong.json", "{\"columns\": {\"a\": \"int\"}}");
    let done = cli.run("copy in.jsonl d.parquet --schema wrong.json").code(2);
    assert!(done.err.contains("wrong.json: columns.a: unknown type `int`"), "{done:?}");
}

#[test]
fn keys_that_repeat_are_told_without_verify() {
    let cli = Cli::new();
    cli.write("in.jsonl", "{\"_id\":\"a\",\"n\":1}\n{\"_id\":\"b\"}\n{\"_id\":\"a\",\"n\":2}\n");
    let done = cli.run("copy in.jsonl sqlite:b.db --to-collection x").code(0);
    assert!(done.out.contains("1 record repeats an earlier key: the target holds 1 fewer documents"), "{done:?}");
}
