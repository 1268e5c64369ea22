//! What some stores refuse of collections that somebody else made.

use storebench_engine::store::{CollectionLayout, Layout, StoreError};

/// Refuses secondary indexes.
pub(crate) fn refuse_indexes(store: &str, layout: &Layout) -> Result<(), StoreError> {
    match layout.collections.iter().find(|collection| !collection.indexes.is_empty()) {
        None => Ok(()),
        Some(collection) => Err(StoreError::NotSupported(format!(
            "{store} has no secondary indexes, and the study wants one on `{}`; leave it out",
            collection.name
        ))),
    }
}

/// Refuses fields that are to hold keys and documents, in stores where their places are fixed.
pub(crate) fn refuse_fields(store: &str, layout: &Layout) -> Result<(), StoreError> {
    let named = |c: &&CollectionLayout| c.existing.as_ref().is_some_and(|e| e.key.is_some() || e.body.is_some());
    match layout.collections.iter().find(named) {
        None => Ok(()),
        Some(collection) => Err(StoreError::NotSupported(format!(
            "in {store} the places of keys and documents are fixed; leave the fields that hold those of `{}` out",
            collection.name
        ))),
    }
}
