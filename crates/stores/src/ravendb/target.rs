//! What sessions know about the database: its paths, collections and indexes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use storebench_engine::store::{CollectionLayout, OpError};
use storebench_study::workload::Body;

use super::json::Document;
use super::names::{self, Naming};
use crate::refusals::refused;

/// A prepared database. Sessions share it.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// `/databases/name`.
    pub(super) path: String,
    /// In the order of the layout.
    pub(super) collections: Vec<Collection>,
    /// Whether nothing may be written.
    pub(super) read_only: bool,
    /// The task that removes expired documents.
    pub(super) expiry: Arc<Expiry>,
    /// Whether that task may be on. Not every client may see this.
    pub(super) may_expire: bool,
    /// Whether Storebench made the whole database.
    pub(super) ours: bool,
    /// Nodes that hold the database.
    pub(super) nodes: usize,
}

impl Target {
    /// Whether a query may make RavenDB create an index, which it may do only in a database that Storebench made.
    pub(super) fn may_index(&self) -> bool {
        self.ours && !self.read_only
    }
}

/// The database's task that removes expired documents. Storebench enables it at the first touch, and only in a database
/// that it made. If the licence allows only longer intervals, the server refuses the setting altogether.
#[derive(Debug)]
pub(super) struct Expiry {
    on: AtomicBool,
    /// How often the task runs, or would run once it is on, in seconds.
    pub(super) every_s: u32,
    /// Whether it may be enabled.
    pub(super) may_be_set: bool,
}

impl Expiry {
    pub(super) fn new(on: bool, every_s: u32, may_be_set: bool) -> Arc<Self> {
        Arc::new(Self { on: AtomicBool::new(on), every_s, may_be_set })
    }

    /// Whether the task is on.
    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Records that the server has enabled it.
    pub(super) fn set(&self) {
        self.on.store(true, Ordering::Relaxed);
    }

    /// How long an expired document stays readable, if that is more than a minute.
    pub(super) fn late_by(&self) -> Option<Duration> {
        (self.every_s > 60).then(|| Duration::from_secs(self.every_s.into()))
    }
}

/// What sessions need to know about a collection.
#[derive(Debug, Clone)]
pub(super) struct Collection {
    pub(super) naming: Naming,
    /// RavenDB's name for it.
    pub(super) name: String,
    pub(super) body: Body,
    /// The field and the query, for each field with which an index begins.
    pub(super) queries: Vec<(String, String)>,
}

impl Collection {
    /// A collection that Storebench has made or will make.
    pub(super) fn ours(layout: &CollectionLayout) -> Self {
        let mut queries: Vec<(String, String)> = Vec::new();
        for fields in &layout.indexes {
            if let Some(field) = fields.first().filter(|field| !queries.iter().any(|(known, _)| known == *field)) {
                let query = format!(
                    "from index '{}' where exact('{}' = $v)",
                    index_name(layout, fields),
                    output_name(field, 0)
                );
                queries.push((field.clone(), query));
            }
        }
        Self { naming: Naming::ours(&layout.name), name: names::collection(&layout.name), body: layout.body, queries }
    }

    /// Whether a document is of this collection. Our ids show this by themselves.
    pub(super) fn holds(&self, document: &Document<'_>) -> bool {
        self.naming.ours || document.meta("@collection").is_some_and(|name| name.eq_ignore_ascii_case(&self.name))
    }

    /// The query of a page by this field; `$v` is the value.
    ///
    /// # Errors
    /// *Refused* without an index, if nothing may be written, since RavenDB would create one.
    pub(super) fn query(&self, field: &str, read_only: bool) -> Result<std::borrow::Cow<'_, str>, OpError> {
        if let Some((_, query)) = self.queries.iter().find(|(known, _)| known == field) {
            return Ok(query.into());
        }
        if read_only {
            return Err(refused(
                "no index begins with this field; RavenDB would create one, but nothing may be written here",
            ));
        }
        if field.contains(['\'', '\\', '"']) || field.chars().any(char::is_control) {
            return Err(refused("RavenDB cannot query a field with this name without an index"));
        }
        Ok(format!("from '{}' where exact('{field}' = $v)", self.name).into())
    }
}

/// The name of the index over these fields.
pub(super) fn index_name(layout: &CollectionLayout, fields: &[String]) -> String {
    let clean: Vec<String> =
        fields.iter().map(|f| f.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect()).collect();
    // The position distinguishes names that are equal after cleaning.
    let position = layout.indexes.iter().position(|other| other == fields).unwrap_or_default();
    format!("Storebench/{}/{position}-{}", layout.name, clean.join("-"))
}

/// The index's name for a field: the field's own name, if the index language allows it.
pub(super) fn output_name(field: &str, position: usize) -> String {
    let plain = field.starts_with(|c: char| c.is_ascii_alphabetic())
        && field.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    // RavenDB uses `Id` for the document's own id.
    if plain && !field.eq_ignore_ascii_case("id") { field.to_owned() } else { format!("field_{position}") }
}

/// The definition of the index over these fields, in RavenDB's format.
pub(super) fn index_definition(layout: &CollectionLayout, fields: &[String]) -> serde_json::Value {
    let mut outputs = Vec::new();
    let mut options = serde_json::Map::new();
    for (position, field) in fields.iter().enumerate() {
        let name = output_name(field, position);
        // A JSON string is also a string of C#.
        outputs.push(format!("@{name} = d[{}]", serde_json::Value::from(field.as_str())));
        // Not split into words, and case-sensitive.
        options.insert(name, serde_json::json!({ "Indexing": "Exact" }));
    }
    let map = format!("from d in docs.{} select new {{ {} }}", names::collection(&layout.name), outputs.join(", "));
    serde_json::json!({
        "Name": index_name(layout, fields),
        "Type": "Map",
        "Maps": [map],
        "Fields": options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_named_and_written_so_that_ravendb_compiles_it() {
        let indexes = vec![vec!["user".to_owned(), "a b".to_owned()], vec!["class".into()], vec!["id".into()]];
        let layout = CollectionLayout {
            name: "users-books".into(),
            body: Body::Json,
            indexes,
            existing: None,
            uses: storebench_engine::store::Uses::ALL,
        };
        let definition = index_definition(&layout, &layout.indexes[0]);
        assert_eq!(definition["Name"], "Storebench/users-books/0-user-a_b");
        assert_eq!(
            definition["Maps"][0],
            r#"from d in docs.Users_books select new { @user = d["user"], @field_1 = d["a b"] }"#
        );
        let collection = Collection::ours(&layout);
        assert_eq!(
            collection.query("user", true).unwrap(),
            "from index 'Storebench/users-books/0-user-a_b' where exact('user' = $v)"
        );
        assert!(collection.query("id", true).unwrap().contains("'field_0'"));
        assert_eq!(collection.query("n", false).unwrap(), "from 'Users_books' where exact('n' = $v)");
        assert!(collection.query("n", true).is_err());
    }
}
