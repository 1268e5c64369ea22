//! Tests that documents of any shape survive a round trip through files with columns.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::value::RawValue;
use storebench_transfer::{ColumnTypes, Infer, Kind, infer_columns};

use super::formats::sink_by;
use super::*;

/// A JSON value in any notation.
fn value() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        "[a-zé漢\u{1f600} ,]{0,6}".prop_map(|text| serde_json::to_string(&text).unwrap()),
        Just(r#""\u00e9\/\n\u0000\"\\ \ud83d\ude00""#.to_owned()),
    ];
    let number = prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        (-20_i64..20).prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_filter("JSON has them", |n| n.is_finite()).prop_map(|n| format!("{n:?}")),
        prop::sample::select(vec!["18.0", "-0.0", "-0", "1e400", "1E5", "0.10", "9007199254740993", "1e-999", "2.5"])
            .prop_map(str::to_owned),
        "-?[1-9][0-9]{20,40}(\\.[0-9]{1,30})?",
    ];
    let leaf = prop_oneof![
        2 => text,
        3 => number,
        1 => prop::sample::select(vec!["true", "false", "null", "{}", "[]", "[ ]", "{ }"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            members(inner).prop_map(|members| format!("{{{members}}}")),
        ]
    })
}

fn members(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    // Few names, so that a field gets values of many types. One name is that of the overflow.
    let name = prop::sample::select(vec!["a", "b", "c", "é\\u0041", "d e", "_more", "a.b", ""]);
    prop::collection::vec((name, value), 0..5)
        .prop_map(|all| all.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect::<Vec<_>>().join(","))
}

/// A canonical text of a value: members sorted by name, numbers verbatim.
fn canonical(json: &str) -> String {
    match json.as_bytes()[0] {
        b'{' => {
            let all: BTreeMap<String, &RawValue> = serde_json::from_str(json).unwrap();
            let one = |(name, value): (&String, &&RawValue)| format!("{name:?}:{}", canonical(value.get()));
            format!("{{{}}}", all.iter().map(one).collect::<Vec<_>>().join(","))
        }
        b'[' => {
            let all: Vec<&RawValue> = serde_json::from_str(json).unwrap();
            format!("[{}]", all.iter().map(|value| canonical(value.get())).collect::<Vec<_>>().join(","))
        }
        b'"' => format!("{:?}", serde_json::from_str::<String>(json).unwrap()),
        _ => json.to_owned(),
    }
}

fn documents(text: &str) -> Vec<String> {
    let mut all: Vec<String> = text.lines().map(canonical).collect();
    all.sort_unstable();
    all
}

/// Copies lines into a file and back to JSON lines.
fn back(name: &str, text: &str, records: u64) -> Result<String, TestCaseError> {
    let lab = Lab { parallel: 1, ..Lab::new() };
    let source = files(&[&lab.write("in.jsonl", text)]);
    let format = Format::of_name(name);
    let infer = Infer { records, ..Infer::new(format, Some(KEY_FIELD)) };
    let report = lab.copy(&source, &sink_by(&lab, &source, name, &infer)).unwrap();
    prop_assert_eq!(report.counts.rejected, 0, "{:?}", lab.rejects());
    let mut types = Vec::new();
    if format == Format::Csv {
        let found = infer_columns(&source, &source.splits(1).unwrap(), &shape(), &infer).unwrap();
        types = found.list.into_iter().filter(|(name, _)| name != KEY_FIELD).collect();
        types.extend(found.overflow.map(|name| (name, Kind::Overflow)));
    }
    let options = FileSourceOptions { types: ColumnTypes(types), ..FileSourceOptions::default() };
    let source = FileSource::open(&[lab.path(name)], options).unwrap();
    let report = lab.copy(&source, &file_sink(&lab, "out.jsonl")).unwrap();
    prop_assert_eq!(report.counts.rejected, 0, "{:?}", lab.rejects());
    Ok(std::fs::read_to_string(lab.path("out.jsonl")).unwrap())
}

/// The document without top-level members that a text cell cannot distinguish from missing ones.
fn without_nothing(document: &str) -> String {
    let all: BTreeMap<String, &RawValue> = serde_json::from_str(document).unwrap();
    let kept = all.iter().filter(|(_, value)| !matches!(value.get(), "null" | "\"\""));
    kept.map(|(name, value)| format!("{name:?}:{}", canonical(value.get()))).collect::<Vec<_>>().join(",")
}

fn round_trips(cases: u32) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let all = prop::collection::vec(members(value()), 1..8);
    TestRunner::new(config)
        .run(&(all, 1_u64..10), |(all, records)| {
            let text: String = all
                .iter()
                .enumerate()
                .map(|(n, members)| {
                    let comma = if members.is_empty() { "" } else { "," };
                    format!("{{\"_id\":\"{n}\"{comma}{members}}}\n")
                })
                .collect();
            for name in ["a.parquet", "a.arrow"] {
                for records in [records, 10_000] {
                    prop_assert_eq!(documents(&back(name, &text, records)?), documents(&text), "{}", name);
                }
            }
            let (csv, all) = (back("a.csv", &text, records)?, text);
            let kept = |text: &str| text.lines().map(without_nothing).collect::<Vec<_>>();
            prop_assert_eq!(kept(&csv), kept(&all));
            Ok(())
        })
        .unwrap();
}

#[test]
fn documents_of_any_shape_come_back_from_files_with_columns() {
    round_trips(20);
}

#[test]
#[ignore = "soak: as many documents as STOREBENCH_FUZZ_INPUTS says"]
fn soak_documents_of_any_shape_come_back_from_files_with_columns() {
    round_trips(storebench_fakes::fuzz::inputs(2_000).try_into().unwrap());
}
