//! Queries in the stores' own languages.

use serde_json::Value;

use crate::common::{Cli, Done};
use crate::server::Server;

/// A query with two conditions and an aggregation, on every store that understands one.
const STUDY: &str = r#"
title = "Who is best"
[collections.docs]
count = 300
index = [["city"]]
[collections.docs.fields]
city = { choice = ["Lima", "Oslo", "it's \"x\""] }
stars = { integer = [1, 5] }
name = { words = 3 }

[[phases]]
name = "load"
load = ["docs"]

[[phases]]
name = "mix"
operations = 400
[phases.mix]
read = 1

[phases.mix.top]
op = "query"
weight = 2
params = { city = "{docs.city}", least = { integer = [2, 5] } }
rows = [1, 300]
same_on = "all"
[phases.mix.top.text]
sqlite = "select body from {collection} where body->>'$.city' = $city and body->>'$.stars' >= $least"
postgres = "select doc from {collection} where doc->>'city' = $city and (doc->>'stars')::int >= $least"
ravendb = "from {collection} where exact(city = $city) and stars >= $least"
mongodb = { find = { filter = { city = "$city", stars = { "$gte" = "$least" } } } }
couchdb = { find = { selector = { city = "$city", stars = { "$gte" = "$least" } } } }

[phases.mix.by-city]
op = "query"
rows = 3
same_on = "all"
[phases.mix.by-city.text]
sqlite = """select body->>'$.city' as city, count(*) as n, sum(body->>'$.stars') as stars
            from {collection} group by 1"""
postgres = """select doc->>'city' as city, count(*) as n, sum((doc->>'stars')::int) as stars
              from {collection} group by 1"""
ravendb = "from {collection} group by city select key() as city, count() as n, sum(stars) as stars"
mongodb = { aggregate = [
    { "$group" = { _id = "$city", n = { "$sum" = 1 }, stars = { "$sum" = "$stars" } } },
    { "$project" = { _id = 0, city = "$_id", n = 1, stars = 1 } },
] }
couchdb = false

[phases.mix.move]
op = "transaction"
not_on = ["ravendb", "mongodb", "couchdb"]
steps = { from = { op = "read" }, to = { op = "read" }, again = { op = "upsert", same_as = "from" } }
"#;

#[test]
fn the_plan_says_where_an_operation_is_left_out() {
    let cli = Cli::new();
    cli.write("best.toml", STUDY);
    let plan = cli.run("plan best.toml --store sqlite:best.db").code(0);
    assert!(plan.out.contains("(not on couchdb), move "), "{}", plan.out);
    assert!(plan.out.contains("(not on ravendb, couchdb, mongodb)"), "{}", plan.out);
}

pub(crate) fn check<'a>(result: &'a Value, name: &str) -> Option<&'a Value> {
    result["checks"].as_array().unwrap().iter().find(|check| check["check"] == name)
}

pub(crate) fn run(cli: &Cli, study: &str, stores: &[&str]) -> Done {
    cli.write("best.toml", study);
    let mut args = vec!["run", "best.toml", "--json", "-q"];
    for store in stores {
        args.extend(["--store", store]);
    }
    cli.run_args(&args)
}

#[test]
fn five_stores_have_the_same_answers() {
    let servers = ["postgres", "ravendb", "nx-27017", "pouchdb-server"].map(Server::start);
    let mut stores = vec!["sqlite:best.db"];
    stores.extend(servers.iter().map(|server| server.url.as_str()));
    let cli = Cli::new();
    let done = run(&cli, STUDY, &stores);
    let result = done.json();
    let same = check(&result, "different-answers").unwrap();
    assert_eq!(same["severity"], "pass", "{same:#}");
    let observed = same["observed"].as_str().unwrap();
    assert!(observed.contains("`top` has the same answers on 5 configurations"), "{observed}");
    assert!(observed.contains("`by-city` has the same answers on 4 configurations"), "{observed}");
    for trial in result["trials"].as_array().unwrap() {
        let ops = &trial["phases"][1]["ops"];
        let store = trial["scheme"].as_str().unwrap();
        assert_eq!(ops.get("by-city").is_none(), store == "couchdb", "{store}: {ops:#}");
        let moves = ["sqlite", "postgres"].contains(&store);
        assert_eq!(ops.get("move").is_some(), moves, "{store}: {ops:#}");
        for (name, op) in ops.as_object().unwrap() {
            // Serializable transactions on the same documents may conflict.
            let conflicts = op["conflicts"].as_u64().unwrap_or(0);
            let told = (&op["errors"], &op["wrong"], &op["misses"]);
            assert_eq!(told, (&conflicts.into(), &0.into(), &0.into()), "{store}: {name}");
            assert!(op["count"].as_u64() > Some(20), "{store}: {name}");
        }
        assert_eq!(ops["top"]["kind"], "query");
        assert!(ops["top"]["documents"].as_u64() > ops["top"]["count"].as_u64(), "{store}");
        assert!(ops["top"]["read_bytes"].as_u64() > ops["top"]["documents"].as_u64(), "{store}");
        assert!(ops["top"]["query_plan"]["plan"].as_str().is_some_and(|plan| !plan.is_empty()), "{store}");
    }
    // No aggregation on CouchDB: its work differs, which the result says.
    assert_eq!(check(&result, "work-differs").unwrap()["severity"], "caution", "{:#}", result["checks"]);
}

/// One store has a query that finds less.
#[test]
fn a_store_with_another_answer_is_named() {
    let server = Server::start("postgres");
    let cli = Cli::new();
    let wrong = STUDY.replace("(doc->>'stars')::int >= $least", "(doc->>'stars')::int > $least");
    let wrong = wrong.replace("rows = [1, 300]", "rows = [0, 300]");
    let done = run(&cli, &wrong, &["sqlite:best.db", &format!("pg={}", server.url)]);
    let result = done.json();
    let different = check(&result, "different-answers").unwrap();
    assert_eq!((done.code, &different["severity"]), (4, &"invalid".into()), "{different:#}");
    let observed = different["observed"].as_str().unwrap();
    assert!(observed.starts_with("`top` has other answers on pg than on sqlite ("), "{observed}");
    assert!(observed.contains("; only on sqlite: {") && !observed.contains("only on pg"), "{observed}");
    assert!(!observed.contains("by-city"), "{observed}");
}

#[test]
fn an_answer_with_other_rows_than_expected_is_wrong() {
    let cli = Cli::new();
    let done = run(&cli, &STUDY.replace("rows = 3", "rows = [4, 9]"), &["sqlite:best.db"]);
    let result = done.json();
    let op = &result["trials"][0]["phases"][1]["ops"]["by-city"];
    assert_eq!((done.code, &op["wrong"]), (1, &op["count"]), "{op:#}");
    let wrong = check(&result, "wrong-content").unwrap();
    let observed = wrong["observed"].as_str().unwrap();
    assert!(
        observed.contains(
            "answers to queries have a number of rows that the study does not expect; the first: by-city, with values of "
        ) && observed.ends_with("rows, but the study expects 4 to 9"),
        "{observed}"
    );
    let examples = result["trials"][0]["phases"][1]["wrong_examples"].to_string();
    assert!(
        examples.contains("by-city, with values of docs/") && examples.contains("3 rows, but the study expects 4 to 9")
    );
}

/// With one text of a study replaced by another, the run is refused with this message, and no document is written.
#[track_caller]
pub(crate) fn is_refused_before_the_load(cli: &Cli, study: &str, (text, instead): (&str, &str), told: &str) {
    assert!(study.contains(text), "{text}");
    let done = run(cli, &study.replacen(text, instead, 1), &["sqlite:refused.db"]);
    assert_eq!(done.code, 2, "{instead}: {}{}", done.err, done.out);
    assert!(done.err.contains(told), "{instead}: {}", done.err);
    if !cli.path("refused.db").exists() {
        return;
    }
    // The first try needs the table, which is empty.
    let stored = cli.run("copy sqlite:refused.db stored.jsonl --from-collection docs --force");
    assert_eq!(stored.code, 0, "{instead}: {}", stored.err);
    let stored = std::fs::read_to_string(cli.path("stored.jsonl")).unwrap();
    assert!(stored.is_empty(), "{instead}: {stored}");
}

/// What is wrong with a query is said before a document is written.
#[test]
fn what_is_wrong_with_a_query_is_said_before_the_run() {
    let cli = Cli::new();
    for (text, instead, told) in [
        (
            "sqlite = \"select body",
            "sqlight = \"select body",
            "phases.1.mix.top.text.sqlight: `sqlight` is not known here; known: `postgres`, `sqlite`",
        ),
        ("least = { integer", "lest = { integer", "unknown parameter `$least`; did you mean `lest`?"),
        (
            "= $city and body",
            "= 'x' and body",
            "the parameter `city` is not used; write $city in the text, or remove it",
        ),
        ("{docs.city}", "{docs.town}", "unknown field `town`"),
        ("{docs.city}", "{books.city}", "draws its value from a document of `docs`; write {docs.key} or {docs.FIELD}"),
        ("{docs.city}", "{docs.name}", "its value changes between versions"),
        ("rows = [1, 300]", "rows = [300, 1]", "write the smaller number first: [1, 300]"),
        ("mongodb = { find", "mongodb = 7 #", "a query of mongodb is a table, such as { aggregate = [ … ] }"),
        (
            "couchdb = false",
            "couchdb = \"x\"",
            "a query of couchdb is a table, such as { find = { selector = { … } } }",
        ),
        ("= $city and body", "= $1 and body", "`$1` is a parameter by position; give it a name"),
        ("weight = 2", "limit = 2", "`limit` has no meaning for query"),
        ("read = 1", "read = { rows = 1 }", "`rows` has no meaning for read; it needs op = \"query\""),
        ("group by 1\"\"\"\npost", "group by\"\"\"\npost", "phase `mix`: `by-city`: "),
        ("select body from {collection}", "delete from {collection}", "it may only read; use a SELECT"),
        ("sqlite = \"", "#", "`top` has no text for this store; add text.sqlite to its text for postgres, ravendb"),
    ] {
        is_refused_before_the_load(&cli, STUDY, (text, instead), told);
    }
}

/// A store without a language of its own.
#[test]
fn a_store_without_queries_is_refused() {
    let done = run(&Cli::new(), STUDY, &["fjall:best"]);
    assert_eq!(done.code, 2, "{}", done.err);
    assert!(done.err.contains("query"), "{}", done.err);
}
