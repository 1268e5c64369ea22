//! The files that a study reads.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The keys of a collection that name a file.
const OF_COLLECTIONS: [&str; 4] = ["text_file", "from", "trace", "size.like"];

/// A file that a study reads.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Input {
    /// Its path in the study.
    pub path: String,
    /// The keys of the study that name it.
    pub keys: Vec<String>,
    /// SHA-256 of its content, in hexadecimal. Null if not all files were there when the bundle was packed.
    pub sha256: Option<String>,
    /// Its size. Null likewise.
    pub size_bytes: Option<u64>,
    /// Its path in the bundle. Null if the bundle does not contain it.
    pub file: Option<String>,
}

/// The files that a study reads, each once, without hashes. `study` is the study of a result.
///
/// # Errors
/// A factor varies which file is read. Gives its path.
pub fn inputs_of(study: &Value) -> Result<Vec<Input>, String> {
    let mut inputs: IndexMap<&str, Vec<String>> = IndexMap::new();
    for (name, collection) in study["collections"].as_object().into_iter().flatten() {
        for key in OF_COLLECTIONS {
            let found = key.split('.').try_fold(collection, |table, part| table.get(part)).and_then(Value::as_str);
            if let Some(path) = found {
                inputs.entry(path).or_default().push(format!("collections.{}.{key}", quoted(name)));
            }
        }
    }
    for phase in study["phases"].as_array().into_iter().flatten() {
        if let (Some(name), Some(path)) = (phase["name"].as_str(), phase["trace"].as_str()) {
            inputs.entry(path).or_default().push(format!("phases.{}.trace", quoted(name)));
        }
    }
    let varied = |(path, values): &(&String, &Value)| {
        let keys = match path.split('.').next() {
            Some("collections") => &OF_COLLECTIONS[..],
            Some("phases") => &["trace"],
            _ => &[],
        };
        keys.iter().any(|key| path.ends_with(&format!(".{key}")) || has_key(values, key.rsplit('.').next()))
    };
    if let Some((factor, _)) = study["factors"].as_object().into_iter().flatten().find(varied) {
        return Err(factor.clone());
    }
    let input = |(path, keys): (&str, Vec<String>)| Input { path: path.to_owned(), keys, ..Input::default() };
    Ok(inputs.into_iter().map(input).collect())
}

/// Whether a table in a value has this key: a factor may vary a table as a whole.
fn has_key(value: &Value, key: Option<&str>) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(name, of)| Some(name.as_str()) == key || has_key(of, key)),
        Value::Array(items) => items.iter().any(|item| has_key(item, key)),
        _ => false,
    }
}

/// A key of a path, in quotes if it contains a dot.
fn quoted(key: &str) -> String {
    if key.contains('.') { format!("\"{key}\"") } else { key.to_owned() }
}

/// The first collection whose files had other content when a run generated its documents than when another one did, from
/// what both froze. `None` if the files are the same, as far as documents depend on them.
pub fn changed_input<'a>(frozen: &'a Value, other: &Value) -> Option<&'a str> {
    let facts = |of: &Value| ["text", "from", "trace", "sizes"].map(|key| of.get(key).cloned());
    let mut collections = frozen["collections"].as_object().into_iter().flatten();
    let changed = collections.find(|(name, of)| facts(of) != facts(&other["collections"][name.as_str()]));
    changed.map(|(name, _)| name.as_str())
}
