//! Indexes of the study, as `CREATE INDEX` statements.

use std::time::Instant;

use rusqlite::{Connection, OptionalExtension as _};
use storebench_engine::store::{BuiltIndex, ErrorKind, OpError, StoreError};
use storebench_study::workload::{COLLECTION, Language, index_name};

use super::sql::{Table, identifier};
use super::study_queries;

fn not_built(error: OpError) -> StoreError {
    match error.kind {
        ErrorKind::Refused => StoreError::NotSupported(error.message.into_owned()),
        ErrorKind::Temporary => StoreError::Unreachable(format!("cannot build an index: {error}")),
        _ => StoreError::Failed(format!("cannot build an index: {error}")),
    }
}

/// Builds an index, unless the table has one with this name.
pub(super) fn build(connection: &Connection, table: &Table, text: &str) -> Result<BuiltIndex, StoreError> {
    let name = index_name(Language::Sqlite, text).map_err(StoreError::NotSupported)?;
    let failed = |error: rusqlite::Error| not_built(study_queries::error(&error));
    let mut took = None;
    if !exists(connection, table, &name).map_err(failed)? {
        let sql = text.replace(COLLECTION, &table.name);
        study_queries::check_single(connection, &sql).map_err(not_built)?;
        let begun = Instant::now();
        connection.execute_batch(&sql).map_err(failed)?;
        took = Some(begun.elapsed());
    }
    let bytes = connection.query_row("SELECT SUM(pgsize) FROM dbstat WHERE name = ?1 COLLATE NOCASE", [&name], |row| {
        row.get::<_, Option<i64>>(0)
    });
    Ok(BuiltIndex { took, bytes: bytes.ok().flatten().and_then(|bytes| u64::try_from(bytes).ok()) })
}

fn exists(connection: &Connection, table: &Table, name: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?1 COLLATE NOCASE \
               AND '\"' || replace(tbl_name, '\"', '\"\"') || '\"' = ?2 COLLATE NOCASE";
    Ok(connection.query_row(sql, [name, table.name.as_str()], |_| Ok(())).optional()?.is_some())
}

/// Removes an index of a table.
pub(super) fn drop(connection: &Connection, table: &Table, text: &str) -> Result<(), StoreError> {
    let name = index_name(Language::Sqlite, text).map_err(StoreError::NotSupported)?;
    if !exists(connection, table, &name).map_err(|error| not_built(study_queries::error(&error)))? {
        return Err(StoreError::Failed(format!("cannot remove the index `{name}`: this table has none")));
    }
    let dropped = connection.execute_batch(&format!("DROP INDEX {}", identifier(&name)));
    dropped.map_err(|error| StoreError::Failed(format!("cannot remove an index: {}", study_queries::error(&error))))
}
