//! Indexes of the study, as `CREATE INDEX` statements.

use std::time::Instant;

use storebench_engine::store::{BuiltIndex, ErrorKind, StoreError};
use storebench_study::workload::{COLLECTION, Language, index_name};

use super::channel::Fault;
use super::errors::op_error;
use super::login::Connected;
use super::sql::{Table, identifier, literal};

/// Builds an index, unless the table has one with this name.
pub(super) async fn build(server: &mut Connected, table: &Table, text: &str) -> Result<BuiltIndex, StoreError> {
    let name = index_name(Language::Postgres, text).map_err(StoreError::NotSupported)?;
    if let Some(bytes) = size(server, table, &name).await? {
        return Ok(BuiltIndex { took: None, bytes: Some(bytes) });
    }
    let begun = Instant::now();
    server.channel.query(&text.replace(COLLECTION, &table.place)).await.map_err(|fault| match fault {
        Fault::Server(error) if op_error(&error).kind == ErrorKind::Refused => {
            StoreError::NotSupported(error.to_string())
        }
        fault => server.target.fault("build an index", &fault),
    })?;
    let took = Some(begun.elapsed());
    // An index over expressions has no statistics before.
    server.query("gather statistics for an index", &format!("ANALYZE {}", table.place)).await?;
    match size(server, table, &name).await? {
        Some(bytes) => Ok(BuiltIndex { took, bytes: Some(bytes) }),
        None => Err(StoreError::NotSupported(format!("the statement has built no index called `{name}`"))),
    }
}

/// Removes an index.
pub(super) async fn drop(server: &mut Connected, schema: &str, text: &str) -> Result<(), StoreError> {
    let name = index_name(Language::Postgres, text).map_err(StoreError::NotSupported)?;
    let sql = format!("DROP INDEX {}.{}", identifier(schema), identifier(&name));
    server.query("remove an index", &sql).await.map(|_| ())
}

/// The size of an index of a table, in bytes; `None` if there is no such index.
async fn size(server: &mut Connected, table: &Table, name: &str) -> Result<Option<u64>, StoreError> {
    let sql = format!(
        "SELECT pg_relation_size(c.oid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
         WHERE i.indrelid = {}::regclass AND c.relname = {}",
        literal(&table.place),
        literal(name)
    );
    let rows = server.query("read the size of an index", &sql).await?;
    Ok(rows.into_iter().next().and_then(|mut row| row.pop().flatten()?.parse().ok()))
}
