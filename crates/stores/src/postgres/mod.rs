//! `postgres://`: PostgreSQL, one table per collection.
//!
//! A collection is a table `(key text COLLATE "C" PRIMARY KEY, doc jsonb NOT NULL)`, with `bytea` for bytes and
//! `bigint` for counters, in a separate schema (`?schema=`, default `storebench`). The schema, each table and the one
//! function carry a comment that begins with `storebench: `: the marker. A database with tables of other programs
//! counts as theirs until the schema exists.
//!
//! A table of another program is read or written through its own columns. The function that merges into it is in the
//! session's temporary schema, and disappears with the session.
//!
//! | guarantee | `synchronous_commit` |
//! |---|---|
//! | `none` | `off`: the log is written up to 3 × `wal_writer_delay` later |
//! | `fsync` | `local`: the log is synced at each commit; refused with `fsync=off` |
//! | acknowledged by n, persisted disk on 1 (or os on n) | `remote_write` |
//! | acknowledged by n, persisted disk on n | `on`, or `remote_apply` with `?apply=yes` |
//!
//! n - 1 is the number of standbys for which `synchronous_standby_names` makes a commit wait. `os` is refused:
//! PostgreSQL has no level between `off` and `local`. Each `open` reads what the server guarantees.
//!
//! # Why not `tokio-postgres`
//! The driver implements the protocol itself, with `postgres-protocol` (of the same project) for authentication. The
//! table shows the client's CPU time for each `INSERT … ON CONFLICT DO UPDATE` of a 920-byte document: prepared
//! statement, loopback, `synchronous_commit=off`, 2 virtual cores that other processes used too:
//!
//! | connections × in flight | `pgbench -M prepared` | `tokio-postgres` 0.7.18 | this session |
//! |---|---|---|---|
//! | 1 × 1 | 9.5 µs | 17.4 µs | 8.2 µs |
//! | 8 × 1 | 11–14 µs | 14.4 µs | 7.0–7.5 µs |
//! | 1 × 16 | | 14.4 µs | 7.8 µs |
//! | 8 × 16 | | 6.4 µs | 4.3 µs |
//!
//! `tokio-postgres` runs a task for each connection and a channel for each request. This session writes requests into
//! one buffer and reads answers in place from another. A single operation in flight takes the same three system calls
//! as in pgbench: send, wait, receive.

mod bulk;
mod catalog;
mod channel;
mod durability;
mod encode;
mod errors;
mod existing;
mod figures;
mod flow;
#[cfg(test)]
mod fuzz;
mod indexes;
mod login;
mod query;
mod range;
mod session;
mod settings_reported;
mod setup;
mod sql;
mod study_queries;
mod transaction;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use storebench_engine::store::{
    BuiltIndex, Capabilities, CollectionId, CollectionLayout, Description, Durability, Explanation, Holdings, Layout,
    LocalFuture, Op, OpKind, Prepare, Request, RowStream, Rows, RowsKind, Runtime, SAMPLES_A_RANGE, SameKeys,
    SessionOptions, Site as _, Stats, Store, StoreError, StoreSettings, Support, Transactions, evenly, prepare, remove,
};
use storebench_study::workload::Language;

use crate::net::{self, Address, Control, Memo, with_net_options};
use crate::registry::{OptionHelp, Options, Scheme};
use catalog::Schema;
use channel::Fault;
use durability::{Facts, Guarantee};
use login::{Connected, Target, WITHIN};
pub(crate) use session::PostgresSession;
use setup::Setup;
use sql::Table;

pub(crate) const SCHEME: Scheme = Scheme {
    name: "postgres",
    what: "PostgreSQL 12 or later: one table per collection, with a key and a jsonb column",
    example: "postgres://user@127.0.0.1:5432/database",
    options: with_net_options![
        OptionHelp { name: "schema", meaning: "schema of the tables that Storebench creates (default storebench)" },
        OptionHelp {
            name: "apply",
            meaning: "`yes`: standbys acknowledge a write only when reads on them see it (default no)",
        },
        OptionHelp {
            name: "identity",
            meaning: "`given`: inserts give a value also to a key that is GENERATED ALWAYS AS IDENTITY, with OVERRIDING SYSTEM VALUE (default generated)",
        },
    ],
    decorator: false,
    aliases: &["postgresql", "postgres+tls", "postgresql+tls"],
};

/// The result of `prepare`.
#[derive(Debug, Clone)]
struct Ready {
    tables: Arc<Vec<Table>>,
    read_only: bool,
}

pub(crate) struct PostgresStore {
    target: Target,
    schema: String,
    apply: bool,
    /// Whether inserts override the identity of a key.
    overrides: bool,
    control: Control,
    facts: Memo<Facts>,
    ready: Memo<Ready>,
    /// Kept between repeated calls for statistics, since a login costs milliseconds.
    watching: Memo<Connected>,
}

impl PostgresStore {
    /// Parses the URL, without connecting.
    pub(crate) fn new(url: &str, typed: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        let schema = options.take("schema").unwrap_or("storebench").to_owned();
        if schema.is_empty() || schema.len() > sql::LONGEST_NAME_BYTES || schema.starts_with("pg_") {
            return Err(StoreError::BadUrl(format!(
                "invalid `schema={schema}`: a schema's name has 1 to {} bytes and does not begin with `pg_`",
                sql::LONGEST_NAME_BYTES
            )));
        }
        let apply = options.choice("apply", &["no", "yes"])? == Some(1);
        let overrides = options.choice("identity", &["generated", "given"])? == Some(1);
        let (address, database) = Address::of_database(url, SCHEME.example, 5432, typed.ends_with("+tls"), options)?;
        let user = address.user.clone().unwrap_or_else(|| "postgres".into());
        let database = database.unwrap_or_else(|| user.clone());
        Ok(Self {
            target: Target { address, user, database },
            schema,
            apply,
            overrides,
            control: Control::default(),
            facts: Memo::default(),
            ready: Memo::default(),
            watching: Memo::default(),
        })
    }

    /// Logs in and remembers what the server reports about itself.
    async fn enter(&self) -> Result<(Connected, Facts), StoreError> {
        let (connected, facts) = catalog::enter(&self.target).await?;
        self.facts.set(facts.clone());
        Ok((connected, facts))
    }

    /// Makes a control call on a new connection.
    fn call<T>(&self, call: impl AsyncFnOnce(&mut Connected) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.control.block_on(async { call(&mut self.enter().await?.0).await })
    }

    /// Our tables that were prepared for writing.
    fn written(&self) -> Vec<String> {
        match self.ready.get() {
            Some(ready) if !ready.read_only => {
                let ours = ready.tables.iter().filter(|table| table.theirs.is_none());
                ours.map(|table| table.place.clone()).collect()
            }
            _ => Vec::new(),
        }
    }

    fn table(&self, collection: CollectionId) -> Result<Table, StoreError> {
        net::collection(&self.ready.prepared(&self.target.place())?.tables, collection).cloned()
    }

    async fn prepare_now(&self, layout: &Layout, how: Prepare) -> Result<Vec<Table>, StoreError> {
        let (mut server, facts) = self.enter().await?;
        let read_only = how == Prepare::ReadOnly;
        let writes_theirs = how == Prepare::WriteExisting;
        if facts.in_recovery && !read_only {
            return Err(StoreError::NotSupported(format!(
                "{} is a standby, which accepts no writes; name the primary",
                self.target.place()
            )));
        }
        let mut site = Schema::new(&mut server, &self.schema);
        if how.makes_nothing() {
            site.look().await?.check_made(&site, layout)?;
        } else {
            prepare(&mut site, layout, how).await?;
        }
        let mut tables = Vec::new();
        for collection in &layout.collections {
            tables.push(match &collection.existing {
                Some(existing) => {
                    let write = writes_theirs.then_some(self.overrides);
                    existing::resolve(&mut server, existing, collection.body, write).await?
                }
                None => Table::ours(&self.schema, &collection.name, collection.body, read_only),
            });
        }
        Ok(tables)
    }

    /// Reads the server's statistics over the kept connection, or over a new one if that one is gone.
    async fn watch(&self, sql: impl Fn(u32) -> String) -> Result<Vec<channel::Row>, StoreError> {
        let version = |facts: Option<&Facts>| facts.map_or(0, |facts| facts.version_number);
        let doing = "read its statistics";
        let kept = self.watching.take();
        let known = version(self.facts.get().as_ref());
        if let Some(mut connected) = kept {
            match tokio::time::timeout(WITHIN, connected.channel.query(&sql(known))).await {
                Ok(Ok(rows)) => {
                    self.watching.set(connected);
                    return Ok(rows);
                }
                Ok(Err(Fault::Server(error))) if !error.ends_connection() => {
                    return Err(self.target.fault(doing, &Fault::Server(error)));
                }
                // Broken or silent: try another connection.
                Ok(Err(_)) | Err(_) => {}
            }
        }
        let (mut connected, facts) = self.enter().await?;
        let rows = self.target.ask(doing, connected.channel.query(&sql(version(Some(&facts))))).await?;
        self.watching.set(connected);
        Ok(rows)
    }
}

impl Store for PostgresStore {
    type Session = PostgresSession;

    fn describe(&self) -> Description {
        let version = self.facts.get().map(|facts| facts.version);
        Description {
            scheme: SCHEME.name,
            url: self.target.address.shown.clone(),
            version: version.unwrap_or_else(|| "PostgreSQL, not asked yet".into()),
        }
    }

    fn capabilities(&self) -> Capabilities {
        let facts = self.facts.get();
        let theirs = self.ready.get().is_some_and(|ready| ready.tables.iter().any(|table| table.theirs.is_some()));
        let support = |kind| {
            Some(match kind {
                OpKind::Touch | OpKind::View => return None,
                OpKind::CompareAndSwap if theirs => return None,
                OpKind::CompareAndSwap => Support::Approximated(
                    "compares xmin, the ID of the transaction that wrote the row; IDs wrap around after 2^32 \
                     transactions",
                ),
                OpKind::MergePatch => Support::Approximated(
                    "an UPDATE with a PL/pgSQL function that the driver creates in its schema; PostgreSQL does not \
                     implement RFC 7396",
                ),
                OpKind::BulkInsert if !theirs => Support::Approximated(
                    "a binary COPY; if a key already exists, it is repeated as an INSERT of unnest with ON CONFLICT DO \
                     NOTHING",
                ),
                _ => Support::Native,
            })
        };
        let durability = durability::levels(facts.as_ref(), self.apply);
        Capabilities {
            operations: OpKind::ALL.into_iter().filter_map(|kind| Some((kind, support(kind)?))).collect(),
            durability: durability.into_iter().map(|(level, _, text)| (level, text)).collect(),
            shipped_durability: Durability::FSYNC,
            consistency: durability::consistency(facts.as_ref()),
            transactions: Transactions {
                isolation: transaction::ISOLATION.to_vec(),
                steps: Transactions::STEPS_AND_QUERIES,
                rolls_back: true,
                waits_for_nodes: true,
                takes_connection: true,
                ..Transactions::default()
            },
            indexes: true,
            gives_up_at_timeout: true,
            inserts_faster: true,
            rows: &[RowsKind::Query, RowsKind::Range],
            language: Some(Language::Postgres),
            unique_names: true,
            notes: vec![
                "PostgreSQL does not expire documents, so touch is refused.",
                "jsonb does not preserve the order of members or white space, keeps one of several members with the \
                 same name (a copy rejects such documents), and cannot store \\u0000.",
                "A key or an indexed field has at most 2,704 bytes, the limit of a B-tree entry.",
                "The server plans statements as its plan_cache_mode says. LIMIT values are part of the statement text.",
                "A transaction sends BEGIN with its first step, each further step after the answer to the one before, and \
                 then COMMIT or ROLLBACK.",
                "settle runs VACUUM (ANALYZE) on the collections, and a CHECKPOINT if the user has the privilege.",
                "For acknowledgements by several nodes, a session reads synchronous_standby_names when it opens and \
                 when it reconnects. It does not notice changes in between.",
            ],
            ..Capabilities::default()
        }
    }

    fn runtime(&self) -> Runtime {
        Runtime::Reactor
    }

    fn answers(&self) -> Result<(), StoreError> {
        self.control.block_on(async { self.enter().await.map(drop) })
    }

    fn holdings(&self) -> Result<Holdings, StoreError> {
        self.call(async |server| Schema::new(server, &self.schema).look().await)
    }

    fn full_name(&self, collection: &CollectionLayout) -> String {
        match &collection.existing {
            Some(existing) if existing.name.contains('.') => existing.name.clone(),
            Some(existing) => format!("public.{}", existing.name),
            None => format!("{}.{}", self.schema, collection.name),
        }
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        let tables = self.control.block_on(self.prepare_now(layout, how))?;
        self.ready.set(Ready { tables: Arc::new(tables), read_only: how == Prepare::ReadOnly });
        Ok(())
    }

    async fn open(&self, options: &SessionOptions) -> Result<PostgresSession, StoreError> {
        let ready = self.ready.prepared(&self.target.place())?;
        let connected = self.target.login().await?;
        let guarantee = Guarantee {
            durability: (!ready.read_only).then_some(options.durability),
            consistency: options.consistency,
            apply: self.apply,
        };
        let mut theirs = ready.tables.iter().filter(|table| table.theirs.is_some());
        let first = if ready.read_only {
            theirs.next().map(|_| existing::ALL_ROWS.to_owned())
        } else {
            theirs.find_map(|table| Some(sql::create_merge("CREATE OR REPLACE", table.merge.as_deref()?)))
        };
        let setup = Setup { target: self.target.clone(), guarantee, first: first.unwrap_or_default() };
        PostgresSession::open(connected, setup, &ready.tables, options).await
    }

    fn settle(&self, at_most: Duration) -> Result<bool, StoreError> {
        let places = self.written();
        if places.is_empty() {
            return Ok(true);
        }
        self.call(async |server| figures::settle(server, &places, at_most).await)
    }

    fn compact(&self) -> Result<(), StoreError> {
        let places = self.written();
        if places.is_empty() {
            return Err(StoreError::NotSupported("VACUUM needs a writable collection that Storebench made".into()));
        }
        self.call(async |server| figures::compact(server, &places).await)
    }

    fn stats(&self) -> Result<Stats, StoreError> {
        let places: Vec<String> = self
            .ready
            .get()
            .map(|ready| ready.tables.iter().map(|table| table.place.clone()).collect())
            .unwrap_or_default();
        self.control.block_on(async {
            let rows = self.watch(|version| figures::statistics(version, &places)).await?;
            Ok(figures::read(&rows))
        })
    }

    fn own_settings(&self) -> Result<StoreSettings, StoreError> {
        self.call(async |server| settings_reported::ask(server).await)
    }

    fn sample_keys(&self, collection: CollectionId, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError> {
        let table = self.table(collection)?;
        self.call(async |server| existing::sample(server, &table, at_most, seed).await)
    }

    fn cuts(&self, collection: CollectionId, ranges: usize) -> Result<Vec<String>, StoreError> {
        // Without an index, every range would read and sort the whole table.
        if !self.table(collection)?.unique {
            return Ok(Vec::new());
        }
        match self.sample_keys(collection, ranges * SAMPLES_A_RANGE, 1) {
            Err(StoreError::NotSupported(_)) => Ok(Vec::new()),
            keys => Ok(evenly(&keys?, ranges)),
        }
    }

    fn range_order(&self, collection: CollectionId) -> Option<String> {
        let table = self.table(collection).ok()?;
        Some(if table.unique { table.order_name } else { "texts".to_owned() })
    }

    fn plain_columns(&self, table: &str) -> Result<Option<(String, String)>, StoreError> {
        self.call(async |server| existing::plain_columns(server, table).await)
    }

    fn same_keys(&self, collection: CollectionId) -> SameKeys {
        let table = self.table(collection).ok();
        match table.as_ref().and_then(|table| table.key_type.as_deref()) {
            Some("smallint" | "integer" | "bigint") => SameKeys::Integer,
            Some("numeric" | "double precision" | "real") => SameKeys::Number,
            Some("timestamp with time zone") => SameKeys::Moment,
            Some("uuid") => SameKeys::Uuid,
            Some("bpchar") => SameKeys::Padded,
            Some(name) if existing::is_citext(name) => SameKeys::AnyCase,
            _ => SameKeys::Exact,
        }
    }

    fn rows<'a>(&'a self, rows: Rows<'a>) -> LocalFuture<'a, Result<Box<dyn RowStream>, StoreError>> {
        Box::pin(async move {
            Ok(match rows {
                Rows::Query(text) => Box::new(query::Query::open(&self.target, text).await?) as Box<dyn RowStream>,
                Rows::Range { collection, start, end } => {
                    Box::new(range::Range::new(self.target.clone(), self.table(collection)?, start, end))
                }
                Rows::Walk { .. } => {
                    return Err(StoreError::NotSupported("PostgreSQL is read by ranges, not by a walk".into()));
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
        self.call(async |server| figures::explain(server, &table, &request.op).await)
    }

    fn build_index(&self, collection: CollectionId, _name: &str, text: &str) -> Result<BuiltIndex, StoreError> {
        let table = self.table(collection)?;
        self.call(async |server| indexes::build(server, &table, text).await)
    }

    fn drop_index(&self, _collection: CollectionId, _name: &str, text: &str) -> Result<(), StoreError> {
        self.call(async |server| indexes::drop(server, &self.schema, text).await)
    }

    fn close(&self) -> Result<(), StoreError> {
        self.ready.take();
        // Dropped inside the runtime to which its socket belongs.
        self.control.block_on(async {
            drop(self.watching.take());
            Ok(())
        })
    }

    fn remove(&self) -> Result<(), StoreError> {
        self.ready.take();
        self.call(async |server| remove(&mut Schema::new(server, &self.schema)).await)
    }
}
