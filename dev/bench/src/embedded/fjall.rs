//! A load into fjall as a user would write it: one write batch per batch of documents.

use std::path::Path;

use fjall::{Database, KeyspaceCreateOptions, PersistMode};
use storebench_documents::Documents;

use super::{BATCH, Level, Watch};
use crate::Failure;

pub(super) fn load(path: &Path, level: Level, documents: &Documents, watch: &mut Watch) -> Result<(), Failure> {
    let database = Database::builder(path).open()?;
    let keyspace = database.keyspace("documents", KeyspaceCreateOptions::default)?;
    let persist = match level {
        Level::Os => PersistMode::Buffer,
        Level::Fsync => PersistMode::SyncAll,
    };
    let count = documents.count();
    let (mut key, mut body) = (Vec::new(), Vec::new());
    watch.start();
    for first in (0..count).step_by(BATCH as usize) {
        let mut batch = database.batch().durability(Some(persist));
        for index in first..count.min(first + BATCH) {
            key.clear();
            body.clear();
            documents.write_key(index, &mut key);
            documents.write_document(index, 0, &mut body);
            batch.insert(&keyspace, key.as_slice(), body.as_slice());
        }
        batch.commit()?;
    }
    watch.stop();
    Ok(())
}

#[cfg(test)]
pub(super) fn read(path: &Path, key: &str) -> Result<Option<Vec<u8>>, Failure> {
    let database = Database::builder(path).open()?;
    let keyspace = database.keyspace("documents", KeyspaceCreateOptions::default)?;
    Ok(keyspace.get(key)?.map(|body| body.to_vec()))
}
