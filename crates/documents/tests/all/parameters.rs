//! Values of a query's parameters.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde_json::Value;
use storebench_documents::{DocumentError, Documents, Parameters};
use storebench_study::workload::Field;

use super::{catalog, key, value};

const DOCS: &str = r#"
[collections.docs]
count = 50
key = "d\"{index}"
[collections.docs.fields]
city = { choice = ["Lima", "a\"b"] }
stars = { integer = [1, 5] }
tags = { list = { words = 1 } }
name = { words = 3 }
address = { object = { zip = { integer = [1, 9] } } }
"#;

fn parameters(of: &Documents, text: &str) -> Result<Parameters, DocumentError> {
    let params: IndexMap<String, Field> = toml_edit::de::from_str(text).unwrap();
    Parameters::compile(&params, of, 7, "top.params")
}

fn written(parameters: &Parameters, position: usize, of: &Documents, index: u64, number: u64) -> Value {
    let mut out = Vec::new();
    parameters.write(position, of, index, number, &mut out);
    serde_json::from_slice(&out).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out)))
}

#[test]
fn drawn_values_are_those_of_the_document() {
    let catalog = catalog(DOCS);
    let docs = catalog.get(0);
    let text = r#"
city = "{docs.city}"
stars = "{docs.stars}"
key = "{docs.key}"
like = "{docs.city}-{docs.stars}%{docs.key}"
zip = "{docs.address.zip}"
"#;
    let parameters = parameters(docs, text).unwrap();
    assert_eq!(parameters.names().collect::<Vec<_>>(), ["city", "stars", "key", "like", "zip"]);
    for index in 0..50 {
        let document = value(docs, index, 3);
        let of = |position| written(&parameters, position, docs, index, 9);
        assert_eq!(
            (of(0), of(1), of(2)),
            (document["city"].clone(), document["stars"].clone(), key(docs, index).into())
        );
        let city = document["city"].as_str().unwrap();
        assert_eq!(of(3), format!("{city}-{}%{}", document["stars"], key(docs, index)));
        assert_eq!(of(4), document["address"]["zip"]);
    }
}

#[test]
fn generated_values_depend_on_the_number_alone() {
    let catalog = catalog(DOCS);
    let docs = catalog.get(0);
    let parameters =
        parameters(docs, "since = { time = [\"2024-01-01\", \"2025-01-01\"] }\nwords = { words = 2 }").unwrap();
    for position in [0, 1] {
        let of = |index, number| written(&parameters, position, docs, index, number).to_string();
        let all: BTreeSet<String> = (0..100).map(|number| of(0, number)).collect();
        assert!(all.len() > 50, "{all:?}");
        assert_eq!(of(0, 17), of(31, 17));
    }
}

#[test]
fn what_is_no_single_value_is_refused() {
    let catalog = catalog(DOCS);
    for (text, told) in [
        ("a = \"{docs.tags}\"", "`tags` is a list or an object; a parameter is one value"),
        ("a = \"{docs.name}\"", "its value changes between versions"),
        ("a = \"{docs.none}\"", "have no field `none`"),
        ("a = \"{books.city}\"", "write {docs.key} or {docs.FIELD}"),
        ("a = \"{docs.key:08}\"", "cannot be padded"),
        ("a = { object = { b = { words = 1 } } }", "a parameter cannot be an object"),
    ] {
        let error = parameters(catalog.get(0), text).unwrap_err();
        assert_eq!(error.path, "top.params.a", "{text}");
        assert!(error.message.contains(told), "{text}: {}", error.message);
    }
}
