//! The collections of stores of keys and values.

use storebench_engine::store::CollectionLayout;
use storebench_study::workload::Body;

/// A collection as sessions use it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Collection {
    pub(crate) body: Body,
    /// What the keys of its documents begin with.
    pub(crate) prefix: Vec<u8>,
    /// Whether others made it. Then its keys and documents are stored exactly as they are given.
    pub(crate) theirs: bool,
    /// The sorted set of its keys, if it has one.
    pub(crate) order: Option<Vec<u8>>,
}

impl Collection {
    /// A collection of a layout. One that others made stays under its own prefix; `prefix` makes that of any other name.
    pub(crate) fn of(layout: &CollectionLayout, prefix: impl FnOnce(&str) -> String) -> Self {
        let (theirs, prefix) = match &layout.existing {
            Some(existing) => (true, existing.name.clone()),
            None => (false, prefix(&layout.name)),
        };
        Self { body: layout.body, prefix: prefix.into_bytes(), theirs, order: None }
    }
}

/// What preparing a store found out.
#[derive(Debug, Clone)]
pub(crate) struct Ready<C = Collection> {
    pub(crate) collections: Vec<C>,
    pub(crate) read_only: bool,
}
