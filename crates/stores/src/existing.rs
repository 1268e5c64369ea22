//! Stores whose data is in a form of Storebench's own: nobody else's documents can be in them.

use storebench_core::store::{Layout, StoreError};

/// Refuses collections that somebody else is to have made.
pub(crate) fn refuse_existing(store: &str, layout: &Layout) -> Result<(), StoreError> {
    match layout.collections.iter().find(|c| c.existing.is_some()) {
        None => Ok(()),
        Some(collection) => Err(StoreError::NotSupported(format!(
            "{store} knows keys and bytes only, laid out by each program in its own way, so `{}` cannot be read as \
             documents of others; nothing was touched. To measure what Storebench put there, leave `existing` out and \
             keep it with --keep",
            collection.name
        ))),
    }
}
