//! The marker of a place as JSON: whether Storebench made the place, and which collections Storebench made in it. For
//! servers that keep it as one document.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use storebench_engine::store::{Holdings, Marked};

/// The marker of a place, which the store calls a `kind`, such as a keyspace.
pub(crate) fn marker(kind: &str, made: bool, marked: &[Marked], removing: bool) -> Value {
    let marks: BTreeMap<&str, &str> = marked.iter().map(|marked| (&*marked.name, &*marked.mark)).collect();
    json!({ "made_by": "storebench", kind: made, "collections": marks, "removing": removing })
}

/// Reads it; `None` if it is something else.
pub(crate) fn read_marker(kind: &str, text: &[u8]) -> Option<Holdings> {
    let value: Value = serde_json::from_slice(text).ok()?;
    if value["made_by"] != "storebench" {
        return None;
    }
    let marks = value["collections"].as_object().into_iter().flatten();
    Some(Holdings {
        made: Some(value[kind] == true),
        marked: marks.map(|(name, mark)| Marked::new(name, mark.as_str().unwrap_or_default())).collect(),
        removing: value["removing"] == true,
        ..Holdings::default()
    })
}
