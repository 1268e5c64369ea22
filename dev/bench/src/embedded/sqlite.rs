//! A load into SQLite as a user would write it: a write-ahead log, one prepared statement, one transaction per batch.

use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, TransactionBehavior, params};
use storebench_documents::Documents;

use super::{BATCH, Level, Watch};
use crate::Failure;

pub(super) fn load(path: &Path, level: Level, documents: &Documents, watch: &mut Watch) -> Result<(), Failure> {
    let mut connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    let synchronous = match level {
        Level::Os => "normal",
        Level::Fsync => "full",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.execute_batch("CREATE TABLE documents (key TEXT PRIMARY KEY NOT NULL, body TEXT NOT NULL) STRICT")?;
    let count = documents.count();
    let (mut key, mut body) = (Vec::new(), Vec::new());
    watch.start();
    for first in (0..count).step_by(BATCH as usize) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut insert = transaction.prepare_cached("INSERT INTO documents (key, body) VALUES (?1, ?2)")?;
            for index in first..count.min(first + BATCH) {
                key.clear();
                body.clear();
                documents.write_key(index, &mut key);
                documents.write_document(index, 0, &mut body);
                // Known to be UTF-8, so they are bound without a check.
                let text = |bytes| ToSqlOutput::Borrowed(ValueRef::Text(bytes));
                insert.execute(params![text(&key), text(&body)])?;
            }
        }
        transaction.commit()?;
    }
    watch.stop();
    Ok(())
}

#[cfg(test)]
pub(super) fn read(path: &Path, key: &str) -> Result<Option<Vec<u8>>, Failure> {
    use rusqlite::OptionalExtension;
    let connection = Connection::open(path)?;
    let body = connection.query_row("SELECT body FROM documents WHERE key = ?1", [key], |row| row.get::<_, String>(0));
    Ok(body.optional()?.map(String::into_bytes))
}
