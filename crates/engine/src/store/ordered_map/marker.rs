//! Storebench's own record of the tables that it created: rows of two texts, which each place stores in its own way.
//!
//! | row | detail |
//! |---|---|
//! | `collection NAME` | the kind of its documents, and its owner |
//! | `index TABLE` | nothing |

use crate::store::{CollectionLayout, Marked};

/// The record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marker {
    /// Whether Storebench made the database.
    pub made: bool,
    /// Collections made here.
    pub collections: Vec<Marked>,
    /// Tables of indexes made here.
    pub indexes: Vec<String>,
}

/// Whether a table holds an index of this collection.
pub(super) fn is_index_of(table: &str, collection: &str) -> bool {
    table.strip_prefix(collection).is_some_and(|rest| rest.starts_with('#'))
}

/// The tables of a collection's indexes.
pub(super) fn index_tables(collection: &CollectionLayout) -> impl Iterator<Item = String> + '_ {
    collection.indexes.iter().map(|fields| format!("{}#{}", collection.name, fields.join(".")))
}

impl Marker {
    /// Reads a row. Rows that are not from [`rows`](Self::rows) are left to the place.
    pub fn read(&mut self, row: &str, detail: &str) {
        match row.split_once(' ') {
            Some(("collection", name)) => self.collections.push(Marked::new(name, detail)),
            Some(("index", name)) => self.indexes.push(name.to_owned()),
            _ => {}
        }
    }

    /// The rows to store.
    pub fn rows(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let collections = self.collections.iter().map(|c| (format!("collection {}", c.name), c.mark.clone()));
        collections.chain(self.indexes.iter().map(|name| (format!("index {name}"), String::new())))
    }

    /// Whether the record names a table.
    pub fn names(&self, table: &str) -> bool {
        self.indexes.iter().any(|name| name == table) || self.collections.iter().any(|marked| marked.name == table)
    }
}
