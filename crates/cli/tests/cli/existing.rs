//! Documents that somebody else put into a store. Storebench only reads them.

use crate::common::Cli;
use sha2::{Digest, Sha256};

/// A database such as a shop might have: a table with its own column names, and another table.
fn shop(cli: &Cli) {
    let mut database = rusqlite::Connection::open(cli.path("shop.db")).unwrap();
    database
        .execute_batch(
            "CREATE TABLE orders (id TEXT PRIMARY KEY, doc TEXT, paid INTEGER);
             CREATE TABLE customers (name TEXT)",
        )
        .unwrap();
    let transaction = database.transaction().unwrap();
    for n in 0..3_000 {
        let doc = format!(r#"{{"city":"{}","total":{n}}}"#, ["Lima", "Oslo", "Bonn"][n % 3]);
        transaction
            .execute("INSERT INTO orders VALUES (?1, ?2, 1)", (format!("order/{}/{n:05}", n % 40), doc))
            .unwrap();
    }
    transaction.commit().unwrap();
}

const STUDY: &str = r#"
title = "Orders"
stores = ["sqlite:shop.db"]
[collections.orders]
existing = { name = "orders", key = "id", body = "doc" }
sample = 500
[[phases]]
name = "warm"
mix = { read = 1 }
operations = 200
warm_up = true
[[phases]]
name = "reads"
popularity = "zipf"
operations = 2000
[phases.mix]
read = 4
exists = 1
many = { op = "read", batch = 10 }
of-city = { op = "page", where = "city", limit = 5 }
prefix = { limit = 5 }
scan = { limit = 5 }
"#;

/// Every file in the folder, without those of runs, and a digest of its contents.
fn files(cli: &Cli) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = std::fs::read_dir(cli.folder.path())
        .unwrap()
        .map(|file| file.unwrap())
        .filter(|file| file.file_type().unwrap().is_file())
        .map(|file| {
            let digest = Sha256::digest(std::fs::read(file.path()).unwrap());
            (file.file_name().into_string().unwrap(), format!("{digest:x}"))
        })
        .collect();
    found.sort();
    found
}

#[test]
fn a_run_on_a_table_of_others_leaves_every_byte_as_it_was() {
    let cli = Cli::new();
    shop(&cli);
    cli.write("orders.toml", STUDY);
    let before = files(&cli);
    let done = cli.run("run orders.toml --json --quiet").measured();
    assert_eq!(files(&cli), before);
    let result = done.json();
    let trial = &result["trials"][0];
    assert_eq!(trial["sampled"]["orders"]["keys"], 500);
    assert_eq!(result["documents"][0]["existing"], "orders");
    let ops = &trial["phases"][1]["ops"];
    for op in ["read", "exists", "many", "of-city", "prefix", "scan"] {
        let seen = &ops[op];
        assert!(seen["count"].as_u64().unwrap() > 0, "{op}: {seen}");
        assert_eq!((&seen["misses"], &seen["errors"], &seen["checked"]), (&0.into(), &0.into(), &0.into()), "{op}");
    }
    // Five documents of a city, and five orders of a customer (`order/7/`).
    for op in ["of-city", "prefix"] {
        assert_eq!(ops[op]["documents"].as_u64().unwrap(), 5 * ops[op]["count"].as_u64().unwrap(), "{op}");
    }
    assert_eq!(ops["of-city"]["query_plan"]["full_scan"], true);
    assert_eq!(ops["read"]["query_plan"]["full_scan"], false);
    let scan = result["checks"].as_array().unwrap().iter().find(|v| v["check"] == "full-scan").unwrap().clone();
    assert_eq!(scan["severity"], "caution");
    assert!(scan["advice"].as_str().unwrap().contains("create an index on `city` in the store"), "{scan}");
    let distinct = trial["phases"][1]["documents"]["distinct_keys"].as_u64().unwrap();
    assert!(distinct <= 510, "{distinct} keys, where 500 were sampled");
}

#[test]
fn bench_reads_a_table_of_others_by_its_name() {
    let cli = Cli::new();
    shop(&cli);
    let before = files(&cli);
    let bench = "bench sqlite:shop.db --existing orders --existing-key id --existing-body doc --operations 500 --full";
    let done = cli.run(bench).measured();
    assert!(done.out.contains("3,000 keys of `orders` sampled"), "{}", done.out);
    assert_eq!(files(&cli), before);
}

#[test]
fn what_would_write_is_refused_before_the_store_is_looked_at() {
    let cli = Cli::new();
    let with = |from: &str, to: &str| STUDY.replace(from, to);
    for (study, says) in [
        (with("read = 4", "update = 4"), vec!["phase `reads`", "`update`", "nothing is written"]),
        (with("exists = 1", "gone = { op = \"delete\", batch = 2 }"), vec!["`gone`", "does bulk-delete"]),
        (with("name = \"warm\"", "name = \"warm\"\nledger = true\nstreams = \"disjoint\""), vec!["`warm`", "ledger"]),
        (with("mix = { read = 1 }\noperations = 200", "load = [\"orders\"]"), vec!["phase `warm` loads"]),
        (with("sample = 500", "count = 500"), vec!["`count`", "with `existing` they exist"]),
        (with("sample = 500", "index = [[\"city\"]]"), vec!["create it in the store"]),
        (with("sample = 500", "sample = 0"), vec!["sample 1 to"]),
        (
            with("[[phases]]\nname = \"warm\"", "[collections.more]\ncount = 5\n[[phases]]\nname = \"warm\""),
            vec!["more", "writes nothing"],
        ),
    ] {
        cli.write("orders.toml", &study);
        let err = cli.run("run orders.toml").code(2).err;
        for part in says {
            assert!(err.contains(part), "`{part}` is missing: {err}");
        }
    }
    assert!(!cli.path("shop.db").exists(), "nothing was created");
}

#[test]
fn a_wrong_name_is_told_with_what_there_is() {
    let cli = Cli::new();
    cli.write("orders.toml", STUDY);
    let err = cli.run("run orders.toml").code(2).err;
    assert!(err.contains("there is nothing at sqlite:shop.db"), "{err}");
    shop(&cli);
    let before = files(&cli);
    let bench = |rest: &str| cli.run(&format!("bench sqlite:shop.db --operations 100 --quiet {rest}")).code(2).err;
    for (flags, says) in [
        ("--existing nothing", "the file has: customers, orders"),
        ("--existing orders", "has the columns id, doc, paid"),
        ("--existing orders --existing-key id --existing-body document", "`document`"),
    ] {
        let err = bench(flags);
        assert!(err.contains(says), "{err}");
    }
    cli.write("orders.toml", &STUDY.replace("where = \"city\"", "where = \"country\""));
    let err = cli.run("run orders.toml --quiet").code(2).err;
    assert!(err.contains("none of the 500 sampled documents") && err.contains("`country`"), "{err}");
    let database = |files: Vec<(String, String)>| files.into_iter().find(|(name, _)| name == "shop.db").unwrap();
    assert_eq!(database(files(&cli)), database(before));
    for (command, says) in [
        ("verify sqlite:shop.db orders.toml", "did not make the documents of `orders`"),
        ("run orders.toml --remove-after", "--remove-after"),
        ("generate orders.toml", "nothing to generate"),
        ("bench fjall:shop --existing orders", "there is nothing at"),
    ] {
        let err = cli.run(command).code(2).err;
        assert!(err.contains(says), "{command}: {err}");
    }
}
