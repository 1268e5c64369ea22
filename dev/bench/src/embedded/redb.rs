//! A load into redb as a user would write it: one write transaction per batch.

use std::fs::OpenOptions;
use std::io;
use std::ops::Bound;
use std::path::Path;

use redb::backends::FileBackend;
use redb::{BackendError, Builder, StorageBackend, TableDefinition};
use storebench_documents::Documents;

use super::{BATCH, Level, Watch};
use crate::Failure;

const DOCUMENTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("documents");

pub(super) fn load(path: &Path, level: Level, documents: &Documents, watch: &mut Watch) -> Result<(), Failure> {
    let file = FileBackend::new(OpenOptions::new().read(true).write(true).create_new(true).open(path)?)?;
    let database = match level {
        Level::Os => Builder::new().create_with_backend(NeverSynced(file))?,
        Level::Fsync => Builder::new().create_with_backend(file)?,
    };
    let transaction = database.begin_write()?;
    transaction.open_table(DOCUMENTS)?;
    transaction.commit()?;
    let count = documents.count();
    let (mut key, mut body) = (Vec::new(), Vec::new());
    watch.start();
    for first in (0..count).step_by(BATCH as usize) {
        let transaction = database.begin_write()?;
        {
            let mut table = transaction.open_table(DOCUMENTS)?;
            for index in first..count.min(first + BATCH) {
                key.clear();
                body.clear();
                documents.write_key(index, &mut key);
                documents.write_document(index, 0, &mut body);
                table.insert(std::str::from_utf8(&key)?, body.as_slice())?;
            }
        }
        transaction.commit()?;
    }
    watch.stop();
    Ok(())
}

/// The file without syncs: redb itself has no durability level between memory and disk.
#[derive(Debug)]
struct NeverSynced(FileBackend);

impl StorageBackend for NeverSynced {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }
    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_shared_range(start, end)
    }
    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_range(start, end)
    }
    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_shared_range(start, end)
    }
    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }
    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.query_lock_range(start, end)
    }
}

#[cfg(test)]
pub(super) fn read(path: &Path, key: &str) -> Result<Option<Vec<u8>>, Failure> {
    use redb::ReadableDatabase;
    let database = redb::Database::open(path)?;
    let table = database.begin_read()?.open_table(DOCUMENTS)?;
    Ok(table.get(key)?.map(|body| body.value().to_vec()))
}
