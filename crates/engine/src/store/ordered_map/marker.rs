//! Storebench's own record of the tables that it made: rows of two texts, which each engine keeps in its own way.
//!
//! | row | detail |
//! |---|---|
//! | `collection NAME` | what its bodies are, and its owner |
//! | `index TABLE` | nothing |

use std::path::Path;

use crate::store::{CollectionLayout, Layout, Marked, Owner, Prepare, StoreError};
use storebench_study::workload::Body;

/// The record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marker {
    /// Collections made here.
    pub collections: Vec<Made>,
    /// Tables of indexes made here.
    pub indexes: Vec<String>,
}

/// A collection that was made here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Its name.
    pub name: String,
    /// What its bodies are.
    pub kind: String,
    /// Whose it is.
    pub owner: Owner,
}

/// The table of an index.
pub(super) fn index_table(collection: &str, fields: &[String]) -> String {
    format!("{collection}#{}", fields.join("."))
}

/// The tables of a collection's indexes.
pub(super) fn index_tables(collection: &CollectionLayout) -> impl Iterator<Item = String> + '_ {
    collection.indexes.iter().map(|fields| index_table(&collection.name, fields))
}

fn kind(body: Body) -> &'static str {
    match body {
        Body::Json => "json",
        Body::Bytes => "bytes",
        Body::Counter => "counter",
    }
}

impl Marker {
    /// Takes up a row; others than those of [`rows`](Self::rows) are left to the engine.
    pub fn read(&mut self, row: &str, detail: &str) {
        match row.split_once(' ') {
            Some(("collection", name)) => {
                let (kind, owner) = Owner::read(detail);
                self.collections.push(Made { name: name.to_owned(), kind: kind.to_owned(), owner });
            }
            Some(("index", name)) => self.indexes.push(name.to_owned()),
            _ => {}
        }
    }

    /// The rows to be kept.
    pub fn rows(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let collections = self.collections.iter().map(|c| (format!("collection {}", c.name), c.owner.mark(&c.kind)));
        collections.chain(self.indexes.iter().map(|name| (format!("index {name}"), String::new())))
    }

    /// Whose the collections are.
    pub fn owners(&self) -> Vec<Marked> {
        self.collections.iter().map(|made| Marked::new(made.name.as_str(), made.owner.mark(&made.kind))).collect()
    }

    /// Whether a collection holds the user's data.
    pub fn has_users(&self) -> bool {
        self.collections.iter().any(|made| made.owner.is_user())
    }

    /// Whether a table was made here.
    pub fn made(&self, table: &str) -> bool {
        self.indexes.iter().any(|name| name == table) || self.collections.iter().any(|made| made.name == table)
    }

    /// Enters a layout, or where it is only to be read checks that it is there. `exists` says whether there is a
    /// table, which the engine calls `noun`; `is_empty`, whether nothing is in one that exists.
    ///
    /// # Errors
    /// `NotOurs` where a table of somebody else has the name; `NotSupported` where a collection is missing, is kept
    /// otherwise, or holds documents that a new index would not find.
    pub fn enter(
        &mut self,
        (place, noun): (&Path, &str),
        layout: &Layout,
        how: Prepare,
        exists: impl Fn(&str) -> bool,
        is_empty: impl Fn(&str) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let place = place.display();
        let write = how != Prepare::ReadOnly;
        let theirs = |table: &str| {
            StoreError::NotOurs(format!(
                "{place} has a {noun} `{table}` that Storebench did not make; nothing was written. Rename the \
                 collection, or use another path"
            ))
        };
        for collection in &layout.collections {
            let (name, kind) = (&collection.name, kind(collection.body));
            match self.collections.iter_mut().find(|made| made.name == *name) {
                Some(made) if made.kind != kind => {
                    return Err(StoreError::NotSupported(format!(
                        "{place}: the collection `{name}` is kept as {} there and would be {kind} now; load it again",
                        made.kind
                    )));
                }
                Some(made) if write => made.owner = how.owner(Some(made.owner)),
                Some(_) => {}
                None if !write => {
                    let there: Vec<&str> = self.collections.iter().map(|made| made.name.as_str()).collect();
                    return Err(StoreError::NotSupported(format!(
                        "{place}: there is no collection `{name}` to read; it has: {}",
                        there.join(", ")
                    )));
                }
                None if exists(name) => return Err(theirs(name)),
                None => {
                    let kind = kind.to_owned();
                    self.collections.push(Made { name: name.clone(), kind, owner: how.owner(None) });
                }
            }
            for index in index_tables(collection).filter(|_| write) {
                if self.indexes.contains(&index) {
                    continue;
                }
                if exists(&index) {
                    return Err(theirs(&index));
                }
                if exists(name) && !is_empty(name)? {
                    return Err(StoreError::NotSupported(format!(
                        "{place}: the collection `{name}` holds documents that the new index `{index}` would not find; \
                         load it again"
                    )));
                }
                self.indexes.push(index);
            }
        }
        Ok(())
    }

    /// Strikes out what studies made; gives the tables, which are to be removed.
    pub fn strike_studies(&mut self) -> Vec<String> {
        let (users, studies) = std::mem::take(&mut self.collections).into_iter().partition(|made| made.owner.is_user());
        self.collections = users;
        let of_users = |index: &String| self.collections.iter().any(|c| index.split('#').next() == Some(&c.name));
        let (kept, removed) = std::mem::take(&mut self.indexes).into_iter().partition(of_users);
        self.indexes = kept;
        let studies: Vec<Made> = studies;
        let removed: Vec<String> = removed;
        studies.into_iter().map(|made| made.name).chain(removed).collect()
    }
}
