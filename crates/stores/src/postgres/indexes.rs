//! Indexes of the study, as `CREATE INDEX` statements.

use std::time::Instant;

use storebench_engine::store::{BuiltIndex, ErrorKind, StoreError};
use storebench_study::workload::{COLLECTION, Language, index_name};

use super::channel::{Channel, Fault};
use super::errors::op_error;
use super::login::Target;
use super::sql::{Table, identifier, literal};

/// Builds an index, unless the table has one with this name.
pub(super) async fn build(
    target: &Target,
    channel: &mut Channel,
    table: &Table,
    text: &str,
) -> Result<BuiltIndex, StoreError> {
    let name = index_name(Language::Postgres, text).map_err(StoreError::NotSupported)?;
    if let Some(bytes) = size(target, channel, table, &name).await? {
        return Ok(BuiltIndex { took: None, bytes: Some(bytes) });
    }
    let begun = Instant::now();
    channel.query(&text.replace(COLLECTION, &table.place)).await.map_err(|fault| match fault {
        Fault::Server(error) if op_error(&error).kind == ErrorKind::Refused => {
            StoreError::NotSupported(error.to_string())
        }
        fault => target.fault("build an index", &fault),
    })?;
    let took = Some(begun.elapsed());
    // An index over expressions has no statistics before.
    let analyzed = channel.query(&format!("ANALYZE {}", table.place)).await;
    analyzed.map_err(|fault| target.fault("gather statistics for an index", &fault))?;
    match size(target, channel, table, &name).await? {
        Some(bytes) => Ok(BuiltIndex { took, bytes: Some(bytes) }),
        None => Err(StoreError::NotSupported(format!("the statement has built no index called `{name}`"))),
    }
}

/// Removes an index.
pub(super) async fn drop(target: &Target, channel: &mut Channel, schema: &str, text: &str) -> Result<(), StoreError> {
    let name = index_name(Language::Postgres, text).map_err(StoreError::NotSupported)?;
    let sql = format!("DROP INDEX {}.{}", identifier(schema), identifier(&name));
    channel.query(&sql).await.map_err(|fault| target.fault("remove an index", &fault))?;
    Ok(())
}

/// The size of an index of a table, in bytes; `None` if there is no such index.
async fn size(target: &Target, channel: &mut Channel, table: &Table, name: &str) -> Result<Option<u64>, StoreError> {
    let sql = format!(
        "SELECT pg_relation_size(c.oid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
         WHERE i.indrelid = {}::regclass AND c.relname = {}",
        literal(&table.place),
        literal(name)
    );
    let rows = channel.query(&sql).await.map_err(|fault| target.fault("read the size of an index", &fault))?;
    Ok(rows.into_iter().next().and_then(|mut row| row.pop().flatten()?.parse().ok()))
}
