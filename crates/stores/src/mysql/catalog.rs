//! The contents of a database: who owns what, and making and removing what is ours.
//!
//! The marker is the comment of a table: `storebench: NAME: FORM; OWNER`. It is written and removed together with the
//! table, by one statement. It has the name of the table, because `CREATE TABLE … LIKE` copies comments, and a renamed
//! table keeps its own: neither is ours.
//!
//! A statement that makes or removes a table commits by itself, so there are no transactions over several. Making and
//! removing take turns through a named lock of the server, and do nothing if the tables have changed since the last look.
//! A database is never removed, not even an empty one: the server has no statement that spares what others put into it
//! meanwhile.

use mysql_async::prelude::Queryable;
use storebench_engine::store::{
    Holdings, Layout, Marked, Removal, Site, SiteOutcome, StoreError, Wanted, WantedCollection, several,
};
use storebench_study::workload::Body;
use xxhash_rust::xxh3::xxh3_64;

use super::durability::Facts;
use super::login::Server;
use super::sql::{self, body_column, field_column, field_definition, identifier, index_definition, literal};
use crate::net::rest;

/// The start of a comment that marks a table as Storebench's own.
const MARK: &str = "storebench: ";

fn alike(facts: &Facts, one: &str, other: &str) -> bool {
    one == other || (facts.folds_names() && one.to_lowercase() == other.to_lowercase())
}

/// The mark in the comment of a table, if it is ours.
pub(super) fn mark(facts: &Facts, table: &str, comment: &str) -> Option<Marked> {
    let (name, mark) = comment.strip_prefix(MARK)?.split_once(": ")?;
    alike(facts, name, table).then(|| Marked::new(name, mark))
}

/// A database, and what the last look found in it.
pub(super) struct Database<'s> {
    server: &'s mut Server,
    exists: bool,
    /// Names and comments of its tables.
    tables: Vec<(String, String)>,
}

impl<'s> Database<'s> {
    pub(super) fn new(server: &'s mut Server) -> Self {
        Self { server, exists: false, tables: Vec::new() }
    }

    fn name(&self) -> &str {
        &self.server.target.database
    }

    fn place_of(&self, table: &str) -> String {
        format!("{}.{}", identifier(self.name()), identifier(table))
    }

    async fn read(&mut self) -> Result<(bool, Vec<(String, String)>), StoreError> {
        let name = literal(self.name());
        let doing = "list its tables";
        let schemas = format!("SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = {name}");
        let exists = !self.server.query::<u8>(doing, &schemas).await?.is_empty();
        let tables = format!(
            "SELECT TABLE_NAME, COALESCE(TABLE_COMMENT, '') FROM information_schema.TABLES WHERE TABLE_SCHEMA = {name} \
             ORDER BY TABLE_NAME"
        );
        Ok((exists, self.server.query(doing, &tables).await?))
    }

    fn marked(&self) -> Vec<Marked> {
        self.tables.iter().filter_map(|(name, comment)| mark(&self.server.facts, name, comment)).collect()
    }

    /// Runs statements while nobody else changes tables by this lock, if `still` is true of what is there then. The
    /// server gives the lock back with the connection, too.
    async fn if_still(
        &mut self,
        still: impl FnOnce(&Self) -> bool,
        statements: &[String],
    ) -> Result<SiteOutcome, StoreError> {
        let turn = literal(&format!("storebench {:016x}", xxh3_64(self.name().as_bytes())));
        let doing = format!("change the tables of the database `{}`", self.name());
        let taken: Vec<Option<u8>> = self.server.query(&doing, &format!("SELECT GET_LOCK({turn}, 60)")).await?;
        if taken != [Some(1)] {
            let why = "others change its tables for longer than a minute";
            return Err(StoreError::Failed(format!("{}: {why}", self.shown())));
        }
        let before = (self.exists, std::mem::take(&mut self.tables));
        let now = self.read().await?;
        let unchanged = before == now;
        (self.exists, self.tables) = now;
        let mut outcome = if unchanged || still(self) { SiteOutcome::Done } else { SiteOutcome::Changed };
        let statements = if outcome == SiteOutcome::Done { statements } else { &[] };
        for statement in statements {
            match self.server.conn.query_drop(statement.as_str()).await {
                Ok(()) => {}
                // Somebody without the lock made it, or removed it.
                Err(mysql_async::Error::Server(error)) if matches!(error.code, 1050 | 1051 | 1146) => {
                    outcome = SiteOutcome::Changed;
                    break;
                }
                Err(error) => return Err(self.server.target.fault(&doing, &error)),
            }
        }
        self.server.query::<Option<u8>>(&doing, &format!("SELECT RELEASE_LOCK({turn})")).await?;
        Ok(outcome)
    }

    /// The statements that create a collection, its indexes and its mark.
    async fn statements(&mut self, planned: &WantedCollection<'_>) -> Result<Vec<String>, StoreError> {
        let (name, body) = (planned.name(), planned.layout.body);
        let comment = literal(&format!("{MARK}{name}: {}", planned.mark));
        let place = self.place_of(name);
        let mut fields: Vec<&String> = planned.layout.indexes.iter().flatten().collect();
        fields.sort();
        fields.dedup();
        let columns = fields.iter().map(|field| (field_column(field), field_definition(field)));
        let indexes = planned.layout.indexes.iter().map(|fields| index_definition(fields));
        if planned.is_new() {
            // With another character set, the server would read the names of fields in its definition as that one.
            let key = format!("`key` VARBINARY({}) NOT NULL PRIMARY KEY", self.server.facts.longest_key_bytes());
            let mut parts = vec![key, format!("`body` {} NOT NULL", body_column(body))];
            parts.extend(columns.chain(indexes).map(|(_, definition)| definition));
            let parts = parts.join(", ");
            return Ok(vec![format!(
                "CREATE TABLE {place} ({parts}) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 \
                 COMMENT={comment}"
            )]);
        }
        let mut statements = Vec::new();
        if planned.marks() {
            statements.push(format!("ALTER TABLE {place} COMMENT={comment}"));
        }
        let (has_columns, has_indexes) = has(self.server, name).await?;
        let new = columns.filter(|(name, _)| !has_columns.contains(name));
        let new = new.chain(indexes.filter(|(name, _)| !has_indexes.contains(name)));
        statements.extend(new.map(|(_, definition)| format!("ALTER TABLE {place} ADD {definition}")));
        Ok(statements)
    }
}

/// The columns and the indexes of a table in the database.
pub(super) async fn has(server: &mut Server, table: &str) -> Result<(Vec<String>, Vec<String>), StoreError> {
    let at = format!("TABLE_SCHEMA = {} AND TABLE_NAME = {}", literal(&server.target.database), literal(table));
    let columns = format!("SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE {at}");
    let indexes = format!("SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS WHERE {at}");
    let doing = "read its columns and indexes";
    Ok((server.query(doing, &columns).await?, server.query(doing, &indexes).await?))
}

impl Site for Database<'_> {
    const ANOTHER: &'static str = "another database";

    fn shown(&self) -> String {
        self.server.target.place()
    }

    fn form(&self, body: Body) -> String {
        let what = if body == Body::Counter { "counters" } else { body.name() };
        format!("collection of {what}")
    }

    fn alike(&self, one: &str, other: &str) -> bool {
        alike(&self.server.facts, one, other)
    }

    fn check(&self, layout: &Layout) -> Result<(), StoreError> {
        layout.collections.iter().try_for_each(|collection| sql::check_name(&collection.name))
    }

    async fn look(&mut self) -> Result<Holdings, StoreError> {
        (self.exists, self.tables) = self.read().await?;
        let theirs = self.tables.iter().filter(|(name, comment)| mark(&self.server.facts, name, comment).is_none());
        let theirs: Vec<String> = theirs.map(|(name, _)| name.clone()).collect();
        let marked = self.marked();
        let foreign = several("table", &theirs).map(|what| format!("the database `{}` with {what}", self.name()));
        Ok(Holdings {
            absent: self.tables.is_empty(),
            made: (!marked.is_empty()).then_some(foreign.is_none()),
            foreign,
            marked,
            theirs,
            removing: false,
        })
    }

    async fn rest(&mut self) {
        rest().await;
    }

    async fn make(&mut self, wanted: &Wanted<'_>) -> Result<SiteOutcome, StoreError> {
        let mut statements = Vec::new();
        if !self.exists {
            statements.push(format!("CREATE DATABASE IF NOT EXISTS {} CHARACTER SET utf8mb4", identifier(self.name())));
        }
        for planned in &wanted.collections {
            statements.append(&mut self.statements(planned).await?);
        }
        self.if_still(|_| false, &statements).await
    }

    async fn unmake(&mut self, removal: &Removal) -> Result<SiteOutcome, StoreError> {
        let drops: Vec<String> =
            removal.going.iter().map(|going| format!("DROP TABLE {}", self.place_of(&going.name))).collect();
        self.if_still(|now| removal.still(&now.marked()), &drops).await
    }
}
