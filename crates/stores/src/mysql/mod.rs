//! `mysql://`, `mariadb://`: MariaDB and MySQL, one table per collection.
//!
//! A collection is a table ``(`key` VARBINARY(3072) PRIMARY KEY, `body` LONGTEXT)`` of InnoDB, with `LONGBLOB` for bytes
//! and `BIGINT` for counters, in the database that the URL names (default `storebench`). Each field with an index has a
//! generated column. The comment of a table begins with `storebench: `: the marker. A table without it belongs to others.
//!
//! | guarantee | the server's settings |
//! |---|---|
//! | `none` | `innodb_flush_log_at_trx_commit = 0`; or without the redo log |
//! | `os` | `2`; or a binary log without `sync_binlog = 1`; or without `innodb_doublewrite` |
//! | `fsync` | `1`, `innodb_doublewrite`, and with a binary log `sync_binlog = 1` |
//!
//! These settings are global and an administrator's, so a session changes none of them: the server gives one guarantee,
//! and a session is refused if it asks for another. Semi-synchronous replication is no guarantee, because the server goes
//! on without its replicas after `rpl_semi_sync_master_timeout`.
//!
//! The client is `mysql_async`, over [`FutureSession`](storebench_engine::store::FutureSession). The protocol answers one
//! request at a time on each connection, so a session opens as many connections as it has operations in flight.

mod bulk;
mod catalog;
mod durability;
mod errors;
mod existing;
mod figures;
mod indexes;
mod job;
mod keys;
mod login;
mod range;
mod sample;
mod session;
mod sql;
mod study_queries;

use std::sync::Arc;
use std::time::Duration;

use storebench_engine::store::{
    BuiltIndex, Capabilities, CollectionId, CollectionLayout, Description, Durability, Explanation, Holdings, Layout,
    LocalFuture, Op, OpKind, Prepare, Request, RowStream, Rows, RowsKind, Runtime, SAMPLES_A_RANGE, SameKeys,
    SessionOptions, Site as _, Stats, Store, StoreError, StoreSettings, Support, Transactions, evenly, prepare, remove,
};
use storebench_study::workload::Language;

use crate::net::{self, Address, Control, Memo, with_net_options};
use crate::refusals::not_supported;
use crate::registry::{Options, Scheme};
use catalog::Database;
use durability::Facts;
use login::{Server, Target};
use session::{MysqlSession, Setup};
use sql::Table;

pub(crate) const SCHEME: Scheme = Scheme {
    name: "mysql",
    what: "MariaDB 10.3 or later, MySQL 8.0 or later: one table per collection, with a key and the document as text",
    example: "mysql://user@127.0.0.1:3306/database",
    options: with_net_options![],
    decorator: false,
    aliases: &["mariadb", "mysql+tls", "mariadb+tls"],
};

/// The result of `prepare`.
#[derive(Debug, Clone)]
struct Ready {
    tables: Arc<Vec<Table>>,
    read_only: bool,
}

pub(crate) struct MysqlStore {
    target: Target,
    control: Control,
    facts: Memo<Facts>,
    ready: Memo<Ready>,
}

impl MysqlStore {
    /// Parses the URL, without connecting.
    pub(crate) fn new(url: &str, typed: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        let (address, database) = Address::of_database(url, SCHEME.example, 3306, typed.ends_with("+tls"), options)?;
        let user = address.user.clone().unwrap_or_else(|| "root".into());
        let database = database.unwrap_or_else(|| "storebench".into());
        if matches!(&*database.to_lowercase(), "mysql" | "sys" | "information_schema" | "performance_schema") {
            return Err(StoreError::BadUrl(format!("`{database}` is the server's own database; name another")));
        }
        sql::check_name(&database)?;
        Ok(Self {
            target: Target { address, user, database },
            control: Control::default(),
            facts: Memo::default(),
            ready: Memo::default(),
        })
    }

    /// Logs in and remembers what the server reports about itself.
    async fn enter(&self) -> Result<Server, StoreError> {
        let server = self.target.enter().await?;
        self.facts.set(server.facts.clone());
        Ok(server)
    }

    /// Makes a control call on a new connection.
    fn call<T>(&self, call: impl AsyncFnOnce(&mut Server) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.control.block_on(async {
            let mut server = self.enter().await?;
            let result = call(&mut server).await;
            let _ = tokio::time::timeout(Duration::from_secs(1), server.conn.disconnect()).await;
            result
        })
    }

    /// The prepared tables; only ours that were prepared for writing, if `written`.
    fn places(&self, written: bool) -> Vec<String> {
        let Some(ready) = self.ready.get() else { return Vec::new() };
        let fits = |table: &&Table| !written || (table.theirs.is_none() && !ready.read_only);
        ready.tables.iter().filter(fits).map(|table| table.place.clone()).collect()
    }

    fn table(&self, collection: CollectionId) -> Result<Table, StoreError> {
        net::collection(&self.ready.prepared(&self.target.place())?.tables, collection).cloned()
    }

    async fn prepare_now(&self, server: &mut Server, layout: &Layout, how: Prepare) -> Result<Vec<Table>, StoreError> {
        let mut site = Database::new(server);
        if how.makes_nothing() {
            site.look().await?.check_made(&site, layout)?;
        } else {
            prepare(&mut site, layout, how).await?;
        }
        let mut tables = Vec::new();
        for collection in &layout.collections {
            let (name, body) = (&collection.name, collection.body);
            let table = match &collection.existing {
                Some(existing) => existing::resolve(server, existing, body, how == Prepare::WriteExisting).await?,
                None => {
                    let (has, made) = catalog::has(server, name).await?;
                    let mut indexed = collection.indexes.concat();
                    indexed.retain(|field| has.contains(&sql::field_column(field)));
                    let lead = |fields: &Vec<String>| {
                        let (name, _) = sql::index_definition(fields);
                        made.contains(&name).then(|| fields.first().map(|first| (first.clone(), name)))?
                    };
                    let leads = collection.indexes.iter().filter_map(lead).collect();
                    let read_only = how == Prepare::ReadOnly;
                    Table { leads, ..Table::ours(&self.target.database, name, body, read_only, indexed) }
                }
            };
            tables.push(table);
        }
        Ok(tables)
    }
}

impl Store for MysqlStore {
    type Session = MysqlSession;

    fn describe(&self) -> Description {
        let version = self.facts.get().map(|facts| facts.version());
        Description {
            scheme: SCHEME.name,
            url: self.target.address.shown.clone(),
            version: version.unwrap_or_else(|| "MariaDB or MySQL, not asked yet".into()),
        }
    }

    fn capabilities(&self) -> Capabilities {
        let facts = self.facts.get();
        let support = |kind| {
            Some(match kind {
                OpKind::Touch | OpKind::View => return None,
                OpKind::CompareAndSwap => Support::Approximated(
                    "compares the document itself, so a change that was reverted is not noticed; if it does not match, a \
                     second request asks whether the document exists",
                ),
                OpKind::BulkInsert => Support::Approximated(
                    "one INSERT of many rows; if a key exists already, the existing ones are read and the rest is inserted \
                     again",
                ),
                OpKind::Page => Support::Approximated(
                    "compares strings, and the JSON text of other values as it was written: 7 and 7.0 are different",
                ),
                _ => Support::Native,
            })
        };
        let snapshots = facts.as_ref().is_none_or(Facts::has_snapshots);
        let semi_sync =
            "Commits wait for a semi-synchronous replica, but without one after a time-out: this is no guarantee.";
        let mut notes = vec![
            "Documents are kept as text, as they were written. MySQL's JSON type would order members and rewrite numbers.",
            "The server does not expire documents, so touch is refused.",
            "A key has at most 3,072 bytes, the limit of an index of InnoDB.",
            "MariaDB reads no more than 32 levels of a document: merges and collections with an index refuse deeper ones.",
            "A session has as many connections as operations in flight, because each answers one request at a time.",
            "Sessions that write set sql_mode to strict, and leave the server's isolation level for single statements. Those \
             that only read set REPEATABLE READ, so that a statement sees one moment, and accept invalid dates.",
            "Into a table of another program, keys are written that its column takes for no other ones: whole numbers, and \
             printable ASCII without a space at the end if its collation is not binary.",
            "The guarantee is the server's setting, which a session cannot change.",
            "settle runs ANALYZE TABLE on the collections, and waits for the purge of old versions.",
            "A sample of keys, which a copy in ranges takes too, is drawn from many places of the table, by estimates of \
             InnoDB. Of small tables, and of keys such as dates, it reads all.",
            "The database stays when its last collection is removed, even if Storebench made it.",
        ];
        notes.extend(facts.as_ref().filter(|facts| facts.is_semi_sync()).map(|_| semi_sync));
        Capabilities {
            operations: OpKind::ALL.into_iter().filter_map(|kind| Some((kind, support(kind)?))).collect(),
            durability: durability::levels(facts.as_ref()),
            why_no_more: facts.as_ref().map(|_| "the server's settings give each commit one guarantee"),
            shipped_durability: Durability::FSYNC,
            consistency: durability::consistency(facts.as_ref()),
            transactions: Transactions {
                isolation: job::isolations(snapshots),
                steps: Transactions::STEPS_AND_QUERIES,
                rolls_back: true,
                ..Transactions::default()
            },
            indexes: true,
            gives_up_at_timeout: true,
            rows: &[RowsKind::Query, RowsKind::Range],
            language: Some(Language::Mysql),
            notes,
            ..Capabilities::default()
        }
    }

    fn runtime(&self) -> Runtime {
        Runtime::Reactor
    }

    fn answers(&self) -> Result<(), StoreError> {
        self.call(async |_| Ok(()))
    }

    fn holdings(&self) -> Result<Holdings, StoreError> {
        self.call(async |server| Database::new(server).look().await)
    }

    fn full_name(&self, collection: &CollectionLayout) -> String {
        let name = collection.existing.as_ref().map_or(&collection.name, |existing| &existing.name);
        let (database, name) = existing::split(&self.target.database, name);
        format!("{database}.{name}")
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        let tables = self.call(async |server| self.prepare_now(server, layout, how).await)?;
        self.ready.set(Ready { tables: Arc::new(tables), read_only: how == Prepare::ReadOnly });
        Ok(())
    }

    async fn open(&self, options: &SessionOptions) -> Result<MysqlSession, StoreError> {
        let ready = self.ready.prepared(&self.target.place())?;
        let server = self.target.enter().await?;
        let setup = Setup {
            target: self.target.clone(),
            durability: (!ready.read_only).then_some(options.durability),
            consistency: options.consistency,
            timeout: options.timeout,
            limits: true,
        };
        session::open(setup, &server.facts, ready.tables, options.in_flight).await
    }

    fn settle(&self, at_most: Duration) -> Result<bool, StoreError> {
        let places = self.places(true);
        self.call(async |server| figures::settle(server, &places, at_most).await)
    }

    fn compact(&self) -> Result<(), StoreError> {
        let places = self.places(true);
        self.call(async |server| figures::compact(server, &places).await)
    }

    fn stats(&self) -> Result<Stats, StoreError> {
        let places = self.places(false);
        self.call(async |server| figures::statistics(server, &places).await)
    }

    fn own_settings(&self) -> Result<StoreSettings, StoreError> {
        self.call(async |server| figures::settings(server).await)
    }

    fn sample_keys(&self, collection: CollectionId, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError> {
        let table = self.table(collection)?;
        self.call(async |server| sample::sample(server, &table, at_most, seed).await)
    }

    fn cuts(&self, collection: CollectionId, ranges: usize) -> Result<Vec<String>, StoreError> {
        Ok(evenly(&self.sample_keys(collection, ranges * SAMPLES_A_RANGE, 1)?, ranges))
    }

    fn range_order(&self, collection: CollectionId) -> Option<String> {
        self.table(collection).ok()?.order
    }

    fn plain_columns(&self, table: &str) -> Result<Option<(String, String)>, StoreError> {
        self.call(async |server| existing::plain_columns(server, table).await)
    }

    fn same_keys(&self, collection: CollectionId) -> SameKeys {
        self.table(collection).map_or(SameKeys::Exact, |table| table.same)
    }

    fn rows<'a>(&'a self, rows: Rows<'a>) -> LocalFuture<'a, Result<Box<dyn RowStream>, StoreError>> {
        Box::pin(async move {
            Ok(match rows {
                Rows::Query(text) => Box::new(range::Query::open(&self.target, text).await?) as Box<dyn RowStream>,
                Rows::Range { collection, start, end } => {
                    Box::new(range::Range::new(self.target.clone(), self.table(collection)?, start, end)?)
                }
                Rows::Walk { .. } => {
                    return Err(StoreError::NotSupported("MySQL is read by ranges, not by a walk".into()));
                }
            })
        })
    }

    fn try_query(&self, request: &Request<'_>) -> Result<(), StoreError> {
        let Op::Query { text, values, .. } = request.op else { return Ok(()) };
        let table = self.table(request.collection)?;
        self.call(async |server| study_queries::try_it(server, &table, text, values).await)
    }

    fn explain(&self, request: &Request<'_>) -> Result<Option<Explanation>, StoreError> {
        let table = self.table(request.collection)?;
        if let Op::Query { text, values, .. } = request.op {
            return self.call(async |server| study_queries::explain(server, &table, text, values).await.map(Some));
        }
        let Some((text, values)) = job::ranged(&request.op, &table) else { return Ok(None) };
        let sql = table.text(&text).map_err(not_supported)?;
        self.call(async |server| figures::explanation(server, &sql, values).await.map(Some))
    }

    fn build_index(&self, collection: CollectionId, _name: &str, text: &str) -> Result<BuiltIndex, StoreError> {
        let table = self.table(collection)?;
        self.call(async |server| indexes::build(server, &table, text).await)
    }

    fn drop_index(&self, collection: CollectionId, _name: &str, text: &str) -> Result<(), StoreError> {
        let table = self.table(collection)?;
        self.call(async |server| indexes::drop(server, &table, text).await)
    }

    fn close(&self) -> Result<(), StoreError> {
        self.ready.take();
        Ok(())
    }

    fn remove(&self) -> Result<(), StoreError> {
        self.ready.take();
        self.call(async |server| remove(&mut Database::new(server)).await)
    }
}
