//! What copies move, and what they say.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::Done;

/// Documents of about 600 bytes with keys `k000000`…
pub(crate) fn documents(count: usize) -> String {
    let filler = "lorem ipsum dolor sit amet, ".repeat(18);
    (0..count)
        .map(|n| format!("{{\"_id\":\"k{n:06}\",\"n\":{n},\"tags\":[\"a\",null,{n}.5],\"text\":\"{n} é {filler}\"}}\n"))
        .collect()
}

/// Documents by key, whatever their order and the way they are written.
pub(crate) fn by_key(path: &Path) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let document: Value = serde_json::from_str(line).unwrap();
        let key = document["_id"].as_str().unwrap().to_owned();
        assert!(all.insert(key.clone(), document).is_none(), "{key} is there twice");
    }
    all
}

/// What a copy reports.
pub(crate) fn report(done: &Done) -> Value {
    serde_json::from_str(&done.out).unwrap_or_else(|e| panic!("{e}: {done:?}"))
}

pub(crate) fn count(report: &Value, name: &str) -> u64 {
    report["counts"][name].as_u64().unwrap()
}
