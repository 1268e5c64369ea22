//! Indexes of the study, as `CREATE INDEX` statements.

use std::time::Instant;

use mysql_async::Row;
use mysql_async::prelude::Queryable;
use storebench_engine::store::{BuiltIndex, StoreError};
use storebench_study::workload::{COLLECTION, Language, index_name};

use super::login::Server;
use super::sql::{Table, identifier};
use crate::refusals::refused_by_server;

/// Builds an index, unless the table has one with this name.
pub(super) async fn build(server: &mut Server, table: &Table, text: &str) -> Result<BuiltIndex, StoreError> {
    let name = index_name(Language::Mysql, text).map_err(StoreError::NotSupported)?;
    let mut took = None;
    if !exists(server, table, &name).await? {
        let begun = Instant::now();
        let text = text.replace(COLLECTION, &table.place);
        // Prepared, because that takes a single statement.
        let built = server.conn.exec_drop(text, ()).await;
        built.map_err(|error| refused_by_server(server.target.fault("build an index", &error)))?;
        took = Some(begun.elapsed());
    }
    Ok(BuiltIndex { took, bytes: None })
}

/// Removes an index.
pub(super) async fn drop(server: &mut Server, table: &Table, text: &str) -> Result<(), StoreError> {
    let name = index_name(Language::Mysql, text).map_err(StoreError::NotSupported)?;
    let sql = format!("DROP INDEX {} ON {}", identifier(&name), table.place);
    server.query::<Row>("remove an index", &sql).await.map(|_| ())
}

async fn exists(server: &mut Server, table: &Table, name: &str) -> Result<bool, StoreError> {
    let sql = format!("SHOW INDEX FROM {} WHERE Key_name = {}", table.place, super::sql::literal(name));
    Ok(!server.query::<Row>("read its indexes", &sql).await?.is_empty())
}
