//! Layout features that some stores do not support: secondary indexes, and custom key and document fields.

use storebench_engine::store::{CollectionLayout, Layout, StoreError};

/// Refuses secondary indexes.
pub(crate) fn refuse_indexes(store: &str, layout: &Layout) -> Result<(), StoreError> {
    match layout.collections.iter().find(|collection| !collection.indexes.is_empty()) {
        None => Ok(()),
        Some(collection) => Err(StoreError::NotSupported(format!(
            "{store} has no secondary indexes, but the study asks for one on `{}`; remove it",
            collection.name
        ))),
    }
}

/// Refuses custom key and document fields, for stores where these places are fixed.
pub(crate) fn refuse_fields(store: &str, layout: &Layout) -> Result<(), StoreError> {
    let named = |c: &&CollectionLayout| c.existing.as_ref().is_some_and(|e| e.key.is_some() || e.body.is_some());
    match layout.collections.iter().find(named) {
        None => Ok(()),
        Some(collection) => Err(StoreError::NotSupported(format!(
            "{store} stores keys and documents in fixed places; remove the key and document fields of `{}`",
            collection.name
        ))),
    }
}
