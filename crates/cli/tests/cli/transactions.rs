//! Transactions: several steps as one operation.

use crate::common::Cli;
use crate::queries::{check, is_refused_before_the_load, run};
use crate::server::Server;

/// A transfer between two documents, with a ledger; some transfers are rolled back.
const STUDY: &str = r#"
title = "Transfers"
[collections.docs]
count = 200
[collections.docs.fields]
city = { choice = ["Lima", "Oslo"] }
[collections.log]
count = 10

[[phases]]
name = "load"
load = ["docs", "log"]

[[phases]]
name = "mix"
collection = "docs"
operations = 600
workers = 4
streams = "disjoint"
ledger = true
check = 1.0
retry = { tries = 20, backoff = "1ms" }
[phases.mix]
read = 1

[phases.mix.transfer]
op = "transaction"
weight = 3
[phases.mix.transfer.steps]
from = { op = "read" }
to = { op = "read" }
debit = { op = "replace", same_as = "from" }
credit = { op = "upsert", same_as = "to" }

[phases.mix.note]
op = "transaction"
rollback = 0.5
[phases.mix.note.steps]
entry = { op = "upsert", collection = "log" }
gone = { op = "delete", collection = "log" }
"#;

/// Stores that have transactions do them all, and lose nothing.
#[test]
fn stores_with_transactions_lose_none_and_leave_nothing_of_those_that_are_rolled_back() {
    let server = Server::start("postgres");
    let cli = Cli::new();
    let postgres = format!("pg={}", server.url);
    let mariadb = Server::start("mariadb");
    let stores = ["sqlite:transfers.db", "redb:transfers.redb", &postgres, &mariadb.url];
    let done = run(&cli, STUDY, &stores);
    let lost = lost_none(&done.json(), "serializable");
    assert_eq!(lost["severity"], "pass", "{lost:#}");
}

/// As a replica set of MongoDB: those that meet are aborted and tried again.
#[test]
fn mongodb_aborts_those_that_meet_and_they_are_tried_again() {
    let set = storebench_fakes::mongodb::ReplicaSet::start().unwrap();
    let store = format!("mongodb://127.0.0.1:{}/transfers", set.port);
    let study = STUDY.replace("workers = 4", "workers = 4\nin_flight = 4").replace("count = 200", "count = 40");
    let done = run(&Cli::new(), &study, &[&store]);
    let result = done.json();
    let lost = lost_none(&result, "snapshot");
    assert_eq!(lost["severity"], "pass", "{lost:#}");
    // All workers write the same ten documents.
    let study = study.replace("streams = \"disjoint\"\nledger = true\n", "");
    let result = run(&Cli::new(), &study, &[&store]).json();
    let note = &result["trials"][0]["phases"][1]["ops"]["note"];
    assert!(note["conflicts"].as_u64().is_some_and(|conflicts| conflicts > 0) && note["errors"] == 0, "{note:#}");
    assert_eq!(set.open_transactions(), 0);
}

/// Checks that all transactions of the study succeeded. Returns the check of the ledger.
fn lost_none(result: &serde_json::Value, isolation: &str) -> serde_json::Value {
    for trial in result["trials"].as_array().unwrap() {
        let (store, phase) = (&trial["store"], &trial["phases"][1]);
        assert_eq!(phase["isolation"]["name"], isolation, "{store}");
        let ops = phase["ops"].as_object().unwrap();
        let count = |name: &str, of: &str| ops[name][of].as_u64().unwrap();
        for name in ["transfer", "note", "read"] {
            assert_eq!((count(name, "errors"), count(name, "wrong")), (0, 0), "{store}, {name}: {phase:#}");
        }
        assert_eq!((ops["transfer"]["kind"].as_str(), count("transfer", "misses")), (Some("transaction"), 0));
        let transfers = count("transfer", "succeeded");
        assert!(transfers > 200, "{store}: {transfers}");
        assert_eq!(count("transfer", "documents"), 4 * transfers, "{store}");
        assert_eq!(count("transfer", "checked"), 2 * transfers, "{store}: both reads are compared");
        // Deletes soon find nothing.
        assert!(count("note", "misses") > 0, "{store}");
        let ledger = &phase["ledger"];
        assert_eq!((&ledger["lost"], &ledger["resurrected"]), (&0.into(), &0.into()), "{store}: {ledger:#}");
    }
    check(result, "lost-writes").unwrap().clone()
}

/// One name for each isolation on every store, and the same work is told apart by it.
#[test]
fn isolations_are_refused_by_name_or_named_as_a_difference() {
    let server = Server::start("postgres");
    let cli = Cli::new();
    let asked = STUDY.replace("operations = 600", "operations = 600\nisolation = \"snapshot\"");
    let done = run(&cli, &asked, &["sqlite:transfers.db"]);
    let told = "phase `mix`: this store cannot guarantee isolation `snapshot`; supported: serializable";
    assert!(done.code == 2 && done.err.contains(told), "{}", done.err);
    let done = run(&cli, &asked, &[&server.url]);
    assert_eq!(done.json()["trials"][0]["phases"][1]["isolation"]["name"], "snapshot", "{}", done.err);
    // The same store with two isolations.
    let factor = "[factors]\n\"phases.mix.isolation\" = [\"read-committed\", \"serializable\"]\n[collections.docs]";
    let done = run(&cli, &STUDY.replacen("[collections.docs]", factor, 1), &[&server.url]);
    let result = done.json();
    let names: Vec<&str> = result["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trial| trial["phases"][1]["isolation"]["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"read-committed") && names.contains(&"serializable"), "{names:?} {}", done.err);
}

#[test]
fn what_is_wrong_with_a_transaction_is_said_before_the_run() {
    let cli = Cli::new();
    for (text, instead, told) in [
        (
            "same_as = \"from\"",
            "same_as = \"form\"",
            "phases.1.mix.transfer.steps.debit.same_as: unknown earlier step `form`; did you mean `from`?",
        ),
        ("from = { op = \"read\" }", "from = { op = \"read\", same_as = \"to\" }", "the first step has no earlier one"),
        (
            "from = { op = \"read\" }",
            "from = { op = \"counter\" }",
            "a step is one of read, insert, upsert, replace, delete, query",
        ),
        ("from = { op = \"read\" }", "from = { op = \"read\", weight = 2 }", "each step is done once"),
        ("from = { op = \"read\" }", "from = { op = \"read\", batch = 2 }", "each of one document"),
        ("rollback = 0.5", "rollback = 1.5", "invalid share 1.5; use 0 to 1"),
        (
            "op = \"upsert\", collection = \"log\"",
            "op = \"insert\", collection = \"log\"",
            "later operations would look for documents",
        ),
        ("gone = {", "gone = { same_as = \"entry\", ", "with a ledger, a transaction writes each document once"),
        (
            "credit = { op = \"upsert\", same_as = \"to\" }",
            "credit = { op = \"upsert\", collection = \"log\", same_as = \"to\" }",
            "`to` works on another collection",
        ),
        ("read = 1", "read = { rollback = 0.5 }", "`rollback` has no meaning for read; it needs op = \"transaction\""),
        ("read = 1", "read = { same_as = \"x\" }", "`same_as` is for steps of a transaction"),
        ("read = 1", "read = 1\ntransaction = 1", "a transaction has 1 to 100 steps"),
    ] {
        is_refused_before_the_load(&cli, STUDY, (text, instead), told);
    }
    let done = run(&cli, STUDY, &["fjall:transfers"]);
    let told = "it has no transactions (`transfer` of phase `mix`, `note` of phase `mix`)";
    assert!(done.code == 2 && done.err.contains(told), "{}", done.err);
    let alone = "isolation = \"snapshot\"\n[phases.mix]";
    let study = STUDY.split("[phases.mix.transfer]").next().unwrap().replace("[phases.mix]", alone);
    let done = run(&cli, &study, &["sqlite:transfers.db"]);
    assert!(done.code == 2 && done.err.contains("`isolation` is for transactions"), "{}", done.err);
}

/// Redis does not undo commands, so it refuses what depends on that.
#[test]
fn redis_refuses_what_it_could_not_undo() {
    let server = Server::start("redis");
    let cli = Cli::new();
    let done = run(&cli, STUDY, &[&server.url]);
    let told = "this store cannot undo steps that it has done; remove `rollback` of `note`";
    assert!(done.code == 2 && done.err.contains(told), "{}", done.err);
    let insert = "entry = { op = \"insert\", collection = \"log\" }";
    let study = STUDY.replace("rollback = 0.5\n", "");
    let inserting = study.replace("entry = { op = \"upsert\", collection = \"log\" }", insert);
    let done = run(&cli, &inserting, &[&server.url]);
    let told = "it does not support `insert` in a transaction (`note` of phase `mix`)";
    assert!(done.code == 2 && done.err.contains(told), "{}", done.err);
    let many = study.replace("workers = 4", "workers = 4\nin_flight = 8");
    assert_ne!(many, study);
    let done = run(&cli, &many, &[&server.url]);
    let result = done.json();
    let phase = &result["trials"][0]["phases"][1];
    assert_eq!((&phase["ops"]["transfer"]["errors"], &phase["ledger"]["lost"]), (&0.into(), &0.into()), "{phase:#}");
}

/// Steps in several collections, and with deletes, before and beside phases that judge what they find.
const AROUND: &str = r#"
title = "Around transactions"
[collections.a]
count = 200
size = 200
[collections.b]
count = 200
size = 200

[[phases]]
name = "load"
load = ["a", "b"]

[[phases]]
name = "followed"
mix = { upsert = 1 }
collection = "b"
ledger = true
streams = "disjoint"
operations = 400
workers = 1

[[phases]]
name = "transactions"
operations = 200
workers = 1
[phases.mix]
read = { collection = "b", weight = 2 }
[phases.mix.both]
op = "transaction"
[phases.mix.both.steps]
first = { op = "upsert", collection = "a" }
second = { op = "upsert", collection = "b" }
gone = { op = "delete", collection = "b" }

[[phases]]
name = "again"
mix = { upsert = 1, read = 1 }
collection = "b"
ledger = true
streams = "disjoint"
operations = 20
workers = 1

[[phases]]
name = "consistent"
mix = { upsert = 1, read = 3 }
collection = "b"
consistency_check = true
operations = 400
workers = 1
"#;

#[test]
fn what_transactions_wrote_and_deleted_accuses_no_store() {
    let done = run(&Cli::new(), AROUND, &["sqlite:around.db"]);
    let accusations = done.accusations();
    assert!(accusations.is_empty(), "{accusations:#?}");
    done.assert_measured();
}
