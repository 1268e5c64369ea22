//! Copies real documents through every format and several kinds of stores, and back. At the end, none differs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use crate::common::Cli;
use crate::common::copies::{by_key, count, rejects, report};
use crate::server::Server;
use serde_json::{Map, Value};

/// What a format keeps of documents.
#[derive(Clone, Copy, PartialEq)]
enum Keeps {
    /// Everything.
    All,
    /// Values of one type in each column; a null is like a missing field.
    Columns,
    /// The same, and types must be given again for reading.
    Texts,
}

/// Every format that is written and read, by file extension.
const FORMATS: [(&str, Keeps); 11] = [
    ("jsonl", Keeps::All),
    ("json", Keeps::All),
    ("jsonl.gz", Keeps::All),
    ("jsonl.zst", Keeps::All),
    ("json.zst", Keeps::All),
    ("parquet", Keeps::Columns),
    ("arrow", Keeps::Columns),
    ("csv", Keeps::Texts),
    ("tsv", Keeps::Texts),
    ("csv.gz", Keeps::Texts),
    ("tsv.zst", Keeps::Texts),
];

fn formats(keeps: &[Keeps]) -> Vec<&'static str> {
    FORMATS.iter().filter(|(_, format)| keeps.contains(format)).map(|(ending, _)| *ending).collect()
}

/// The folder of the real documents, installed by `servers/install`.
fn folder() -> PathBuf {
    let servers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../servers");
    let where_is_it = "import sys; sys.dont_write_bytecode = True; sys.path.insert(0, sys.argv[1])\n\
        from lib import vega_datasets\n\
        print(vega_datasets.install())";
    let found = Command::new("python3").args(["-c", where_is_it, servers]).output().unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    String::from_utf8(found.stdout).unwrap().trim().into()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

/// Documents as this test reads them, by key, with their keys in `_id`.
type Documents = BTreeMap<String, Value>;

fn keyed(documents: impl IntoIterator<Item = (String, Value)>) -> Documents {
    documents
        .into_iter()
        .map(|(key, mut document)| {
            document["_id"] = Value::from(key.clone());
            (key, document)
        })
        .collect()
}

/// 3,201 films, with many nulls, nine titles that are numbers, and ratings that are sometimes integers.
fn films() -> Documents {
    let all: Vec<Value> = serde_json::from_str(&read("movies.json")).unwrap();
    keyed(all.into_iter().enumerate().map(|(n, film)| (format!("film {n:04}"), film)))
}

/// 1,707 earthquakes as GeoJSON, with nested objects and lists, nulls, and times.
fn earthquakes() -> Documents {
    let all: Value = serde_json::from_str(&read("earthquakes.json")).unwrap();
    let quakes = all["features"].as_array().unwrap().clone();
    keyed(quakes.into_iter().map(|quake| (quake["id"].as_str().unwrap().to_owned(), quake)))
}

/// 3,376 airports from a CSV file, with some quoted names.
fn airports() -> Documents {
    let text = read("airports.csv");
    let mut rows = text.lines().map(fields);
    let head = rows.next().unwrap();
    keyed(rows.map(|row| {
        let named = head.iter().cloned().zip(&row).map(|(name, text)| {
            let number = matches!(&*name, "latitude" | "longitude");
            let value = if number { text.parse::<f64>().unwrap().into() } else { Value::from(text.clone()) };
            (name, value)
        });
        (row[0].clone(), Value::Object(named.collect()))
    }))
}

/// The fields of a CSV row.
fn fields(row: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut quoted = false;
    let mut rest = row.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.next_if_eq(&'"').is_some() => all.last_mut().unwrap().push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(String::new()),
            c => all.last_mut().unwrap().push(c),
        }
    }
    all
}

/// The value in one spelling: 7.0 becomes 7. Members that are null are dropped, unless `nulls`.
fn plain(value: &Value, nulls: bool) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < 9e15 => Value::from(float as i64),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(|item| plain(item, nulls)).collect(),
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| nulls || !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), plain(value, nulls))).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

fn all_plain(documents: &Documents, nulls: bool) -> Documents {
    documents.iter().map(|(key, document)| (key.clone(), plain(document, nulls))).collect()
}

/// Compares without printing thousands of documents.
#[track_caller]
fn same(found: &Documents, wanted: &Documents, nulls: bool) {
    let (found, wanted) = (all_plain(found, nulls), all_plain(wanted, nulls));
    for (key, document) in &wanted {
        assert_eq!(found.get(key), Some(document), "{key}");
    }
    assert_eq!(found.len(), wanted.len());
}

/// A chain of copies. Each copy is verified, and the output of the last is compared with the input of the first.
struct Chain<'a> {
    cli: &'a Cli,
    name: &'a str,
    /// The value of --types for reading a table.
    types: &'a str,
    documents: &'a Documents,
    at: String,
    key: Option<&'a str>,
}

impl Chain<'_> {
    fn to(&mut self, end: &str) {
        let is_store = |end: &str| end.contains(':');
        let table = |end: &str| end.contains(".csv") || end.contains(".tsv");
        let from = std::mem::replace(&mut self.at, end.to_owned());
        // Each part of a server uses its own connection, and pouchdb-server is slow to split into parts.
        let mut args = vec!["copy", &from, end, "--json", "-p", if from.contains("//") { "1" } else { "2" }];
        if is_store(&from) {
            args.extend(["--from-collection", self.name]);
        }
        if is_store(end) {
            args.extend(["--to-collection", self.name]);
        } else {
            // Several chains write the same last file.
            args.push("--force");
        }
        if let Some(key) = self.key.take() {
            args.extend(["--key", key]);
        }
        if table(&from) {
            args.extend(["--types", self.types]);
        }
        if !table(end) {
            args.push("--verify");
        }
        let report = report(&self.cli.run_args(&args).code(0));
        let wanted = self.documents.len() as u64;
        assert_eq!((count(&report, "written"), count(&report, "rejected")), (wanted, 0), "{from} → {end}");
        assert!(table(end) || report["verified"]["equal"] == true, "{from} → {end}: {report}");
    }

    /// The documents at the end of the chain, as lines that this test reads itself.
    fn documents(&mut self) -> Documents {
        let last = format!("{}.last.jsonl", self.name);
        self.to(&last);
        by_key(&self.cli.path(&last))
    }
}

#[test]
fn films_earthquakes_and_airports_come_back_as_they_went() {
    let (postgres, couchdb) = (Server::start("postgres"), Server::start("pouchdb-server"));
    let stores = ["sqlite:chain.db", &*postgres.url, &*couchdb.url];
    // pouchdb-server is slow: two sets of documents are enough for it.
    let two = &stores[..2];
    let cli = Cli::new();
    let all: [(&str, Documents, &[&str], &[Keeps]); 3] = [
        ("films", films(), &stores, &[Keeps::All]),
        ("earthquakes", earthquakes(), &stores, &[Keeps::All]),
        ("airports", airports(), two, &[Keeps::All, Keeps::Columns, Keeps::Texts]),
    ];
    for (name, documents, stores, keeps) in &all {
        // The airports in their original file; the others as a list of only the documents.
        let (first, key) = match *name {
            "airports" => (folder().join("airports.csv").display().to_string(), Some("iata")),
            _ => {
                let list = Value::from_iter(documents.values().cloned());
                cli.write(&format!("{name}.json"), &serde_json::to_string_pretty(&list).unwrap());
                (format!("{name}.json"), None)
            }
        };
        let types = "latitude=number,longitude=number";
        let mut chain = Chain { cli: &cli, name, types, documents, at: first, key };
        for (n, ending) in formats(keeps).into_iter().enumerate() {
            chain.to(stores[n % stores.len()]);
            chain.to(&format!("{name}.{n}.{ending}"));
        }
        same(&chain.documents(), documents, true);
    }
}

#[test]
fn earthquakes_fit_into_columns_but_for_their_nulls() {
    let cli = Cli::new();
    let documents = earthquakes();
    let lines: String = documents.values().map(|document| format!("{document}\n")).collect();
    cli.write("q.jsonl", &lines);
    for ending in formats(&[Keeps::Columns]) {
        let mut chain =
            Chain { cli: &cli, name: "quakes", types: "", documents: &documents, at: "q.jsonl".into(), key: None };
        chain.to(&format!("q.{ending}"));
        chain.to("sqlite:q.db");
        same(&chain.documents(), &documents, false);
    }
}

#[test]
fn films_whose_titles_are_numbers_come_back_from_columns_of_texts() {
    let cli = Cli::new();
    let documents = films();
    let numbered = |document: &Value| document["Title"].is_number();
    let (bad, good): (Documents, Documents) = documents.clone().into_iter().partition(|(_, film)| numbered(film));
    assert_eq!(bad.len(), 9);
    let lines: String = documents.values().map(|document| format!("{document}\n")).collect();
    cli.write("films.jsonl", &lines);
    for ending in formats(&[Keeps::Columns, Keeps::Texts]) {
        let target = format!("films.{ending}");
        let report = report(&cli.run_args(&["copy", "films.jsonl", &target, "--json"]).code(0));
        assert_eq!((count(&report, "written"), count(&report, "rejected")), (documents.len() as u64, 0), "{ending}");
        let back = format!("{ending}.back.jsonl");
        cli.run_args(&["copy", &target, &back]).code(0);
        let back = by_key(&cli.path(&back));
        if formats(&[Keeps::Columns]).contains(&ending) {
            assert!(back == documents, "{ending}");
        } else {
            assert!(bad.iter().all(|(key, film)| back[key]["Title"] == film["Title"]), "{ending}");
        }
    }
    // Without an overflow column they are rejected, each with its reason.
    let report = report(&cli.run_args(&["copy", "films.jsonl", "strict.parquet", "--no-overflow", "--json"]).code(1));
    assert_eq!(count(&report, "written"), good.len() as u64);
    let told = rejects(&cli, &report);
    let mut keys: Vec<&str> = told.iter().map(|reject| reject["key"].as_str().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, bad.keys().collect::<Vec<_>>());
    for reject in &told {
        assert!(reject["why"].as_str().unwrap().contains("`Title`"), "{reject}");
        // The original record, so that it can be copied elsewhere.
        assert_eq!(&reject["record"], &documents[reject["key"].as_str().unwrap()]);
    }
}
