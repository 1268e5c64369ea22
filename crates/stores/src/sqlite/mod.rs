//! `sqlite:FILE`: SQLite, built in. Each collection is a table.
//!
//! | guarantee | WAL (the default) | `?journal=delete` |
//! |---|---|---|
//! | `fsync` | `synchronous=FULL`: the log is synced at each commit | `FULL`: journal and file are synced |
//! | `os` | `NORMAL`: each commit is written to the log, synced only at checkpoints | `OFF`: nothing is synced |
//!
//! `existing` reads tables that Storebench did not create: a key and a body column of any name, with the body as JSON
//! text (or binary JSON with `?format=jsonb`). Their keys are sampled by row number, see `sample`.
//!
//! `none` is refused: SQLite passes every commit to the operating system.

mod errors;
mod file;
mod indexes;
mod open;
mod query;
mod sample;
mod session;
mod settings_reported;
mod sql;
mod statements;
mod study_queries;
mod theirs;
mod transactions;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use storebench_engine::store::location::path_of;
use storebench_engine::store::ordered_map::{operations, strong_reads};
use storebench_engine::store::{
    BuiltIndex, Capabilities, CollectionId, CollectionLayout, Description, Durability, ErrorKind, Explanation,
    Holdings, Isolation, Layout, LocalFuture, Namespace, OpKind, Prepare, Request, RowStream, Rows, RowsKind,
    SAMPLES_A_RANGE, SameKeys, SessionOptions, Stats, Store, StoreError, StoreSettings, Support, Transactions, at_once,
    evenly, prepare, remove,
};
use storebench_study::units::ByteSize;
use storebench_study::workload::Language;

use crate::fair::FairLock;
use crate::registry::{OptionHelp, Options, Scheme};
use errors::store_error;
use file::DatabaseFile;
use open::Still;
pub(crate) use session::SqliteSession;
use sql::{Format, Table};

/// How long a control call waits for a lock on the file.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) const SCHEME: Scheme = Scheme {
    name: "sqlite",
    what: "Embedded SQLite: a B-tree in one file, with one writer at a time",
    example: "sqlite:documents.db",
    options: &[
        OptionHelp { name: "format", meaning: "how JSON is stored: `text` (default) or `jsonb`" },
        OptionHelp {
            name: "journal",
            meaning: "journal mode of a file that Storebench creates: `wal` (default) or `delete`",
        },
        OptionHelp { name: "cache", meaning: "page cache of each session, such as 64MiB (default 2000KiB)" },
    ],
    decorator: false,
    aliases: &[],
};

/// The settings of a URL.
#[derive(Debug, Clone)]
struct Settings {
    jsonb: bool,
    journal: &'static str,
    cache: Option<ByteSize>,
}

/// What `prepare` found out.
#[derive(Debug, Clone)]
struct Ready {
    collections: Vec<(Table, Format)>,
    read_only: bool,
    /// Whether the file contains no data of the user. Only then may a durability level put the whole file at risk.
    ours: bool,
}

/// The SQLite store.
pub(crate) struct SqliteStore {
    url: String,
    path: PathBuf,
    settings: Settings,
    writer: Arc<FairLock>,
    ready: Mutex<Option<Ready>>,
}

impl SqliteStore {
    /// Reads the URL. Does not access the file.
    pub(crate) fn new(url: &str, path: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        let settings = Settings {
            jsonb: options.choice("format", &["text", "jsonb"])? == Some(1),
            journal: ["wal", "delete"][options.choice("journal", &["wal", "delete"])?.unwrap_or(0)],
            cache: options.parse("cache")?,
        };
        let path = path_of(SCHEME.name, path, SCHEME.example)?;
        Ok(Self { url: url.to_owned(), path, settings, writer: Arc::default(), ready: Mutex::new(None) })
    }

    fn file(&self) -> Result<DatabaseFile<'_>, StoreError> {
        DatabaseFile::look(&self.path, &self.settings)
    }

    fn ready(&self) -> Option<Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn table(&self, collection: CollectionId) -> Result<Table, StoreError> {
        let found = self.ready().and_then(|ready| ready.collections.into_iter().nth(collection.position()));
        found.map(|(table, ..)| table).ok_or_else(|| {
            StoreError::Failed(format!("{}: the store must be prepared before it is used", self.path.display()))
        })
    }

    fn session(&self, options: Option<&SessionOptions>) -> Result<SqliteSession, StoreError> {
        let ready = self.ready().ok_or_else(|| {
            StoreError::Failed(format!("{}: the store must be prepared before a session opens", self.path.display()))
        })?;
        let failed = |e: rusqlite::Error| store_error(&self.path, "open a session", &e);
        let (connection, still) =
            if ready.read_only { open::open_reading(&self.path)? } else { (open::open_writable(&self.path)?, None) };
        let timeout = options.map_or(PATIENCE, |o| o.timeout);
        connection.busy_timeout(timeout).map_err(failed)?;
        self.set_cache(&connection).map_err(failed)?;
        if let Some(options) = options.filter(|_| !ready.read_only) {
            if self.capabilities().guarantees(options.durability).is_none() {
                return Err(StoreError::NotSupported(format!("SQLite cannot guarantee `{}`", options.durability)));
            }
            session::set_durability(&connection, options.durability, ready.ours).map_err(failed)?;
        }
        Ok(SqliteSession::new(connection, &ready.collections, Arc::clone(&self.writer), timeout, still))
    }

    /// Gives a connection the page cache of a session.
    fn set_cache(&self, connection: &Connection) -> rusqlite::Result<()> {
        let Some(cache) = self.settings.cache else { return Ok(()) };
        // A negative value is in KiB.
        connection.pragma_update(None, "cache_size", -((cache.bytes() / 1_024) as i64))
    }

    /// Merges the log into the file and truncates it. Returns false if a session prevented that.
    fn checkpoint(&self) -> Result<bool, StoreError> {
        let connection = open::open_writable(&self.path)?;
        connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
            .map(|busy| busy == 0)
            .map_err(|e| store_error(&self.path, "merge its log", &e))
    }

    /// A connection for a control call that writes.
    fn writer_now(&self) -> Result<Connection, StoreError> {
        let connection = open::open_writable(&self.path)?;
        connection.busy_timeout(PATIENCE).map_err(|e| store_error(&self.path, "write to it", &e))?;
        Ok(connection)
    }

    /// A connection for reading, whether or not Storebench's sessions are writing. If they are, the file is not opened
    /// as immutable. Otherwise (there is no log), opening it creates no log.
    fn reader(&self) -> Result<(Connection, Option<Still>), StoreError> {
        let live = self.writes() && (self.settings.journal != "wal" || open::beside(&self.path)[0].exists());
        if live { Ok((open::open_uri(&self.path, "mode=ro")?, None)) } else { open::open_reading(&self.path) }
    }

    fn writes(&self) -> bool {
        self.ready().is_some_and(|ready| !ready.read_only)
    }
}

impl Store for SqliteStore {
    type Session = SqliteSession;

    fn describe(&self) -> Description {
        Description { scheme: SCHEME.name, url: self.url.clone(), version: format!("SQLite {}", rusqlite::version()) }
    }

    fn capabilities(&self) -> Capabilities {
        let os = if self.settings.journal == "wal" {
            "synchronous=NORMAL: each commit is written to the log, which is synced only at checkpoints (with \
             journal=delete: synchronous=OFF; a power failure may damage the file)"
        } else {
            "synchronous=OFF: each commit is written to the file, but nothing is synced; a power failure may damage \
             the file"
        };
        let mut operations = operations(&[
            (
                &[OpKind::BulkInsert, OpKind::BulkUpsert, OpKind::BulkDelete],
                "one prepared statement per document, in one transaction",
            ),
            (&[OpKind::BulkRead], "one prepared query per document, in one transaction"),
            (
                &[OpKind::CompareAndSwap],
                "compares the complete stored document; a change that was reverted goes undetected (ABA)",
            ),
        ]);
        operations.push((OpKind::Query, Support::Native));
        operations.push((OpKind::Transaction, Support::Native));
        Capabilities {
            operations,
            durability: vec![
                (Durability::OS, os),
                (Durability::FSYNC, "synchronous=FULL: synced to disk at each commit"),
            ],
            shipped_durability: Durability::FSYNC,
            consistency: strong_reads("each read sees the latest commit"),
            transactions: Transactions {
                isolation: vec![(
                    Isolation::Serializable,
                    "BEGIN IMMEDIATE, so that only one transaction that writes runs at a time; BEGIN if it only reads",
                )],
                steps: Transactions::STEPS_AND_QUERIES,
                rolls_back: true,
                waits_for_nodes: true,
                ..Transactions::default()
            },
            indexes: true,
            embedded: true,
            rows: &[RowsKind::Query],
            language: Some(Language::Sqlite),
            notes: vec![
                "One session writes at a time. The others wait in order, at most until their timeout.",
                "Each session has its own page cache; see ?cache=.",
                "Storebench does not change the journal mode of a file that it did not create. In such a file, and in \
                 one that contains data from `copy`, `os` never means synchronous=OFF.",
            ],
            ..Capabilities::default()
        }
    }

    fn holdings(&self) -> Result<Holdings, StoreError> {
        Ok(self.file()?.found.holdings())
    }

    fn full_name(&self, collection: &CollectionLayout) -> String {
        // SQLite ignores case in table names.
        let name =
            collection.existing.as_ref().map_or(&collection.name, |existing| &existing.name).to_ascii_lowercase();
        name.strip_prefix("main.").map_or(name.clone(), str::to_owned)
    }

    fn collections(&self) -> Result<Vec<String>, StoreError> {
        let file = self.file()?;
        file.refuse_other()?;
        Ok(file.found.holdings().names())
    }

    fn plain_columns(&self, table: &str) -> Result<Option<(String, String)>, StoreError> {
        theirs::plain_columns(&self.file()?, table)
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        let mut file = self.file()?;
        if how.makes_nothing() {
            let found = file.database()?;
            theirs::check_there(&file, &found, layout, how == Prepare::ReadOnly)?;
            if how == Prepare::WriteExisting {
                theirs::check_writable(&file, &found, layout)?;
            }
        } else {
            file.refuse_other()?;
            at_once(prepare(&mut file, layout, how))?;
        }
        let format = |body| Format::of(body, self.settings.jsonb);
        let collections = layout.collections.iter().map(|c| (Table::of(c), format(c.body))).collect();
        let ours = matches!(self.inspect()?, Namespace::Absent | Namespace::Ours);
        let ready = Ready { collections, read_only: how == Prepare::ReadOnly, ours };
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = Some(ready);
        Ok(())
    }

    async fn open(&self, options: &SessionOptions) -> Result<SqliteSession, StoreError> {
        self.session(Some(options))
    }

    fn settle(&self, at_most: Duration) -> Result<bool, StoreError> {
        if !self.writes() {
            return Ok(true);
        }
        let start = std::time::Instant::now();
        loop {
            if self.checkpoint()? {
                return Ok(true);
            }
            if start.elapsed() >= at_most {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn compact(&self) -> Result<(), StoreError> {
        if !self.ready().is_some_and(|ready| ready.ours && !ready.read_only) {
            return Err(StoreError::NotSupported(
                "VACUUM rewrites the whole file, which contains more than documents of studies".into(),
            ));
        }
        let connection = open::open_writable(&self.path)?;
        connection.execute_batch("VACUUM").map_err(|e| store_error(&self.path, "compact it", &e))?;
        drop(connection);
        self.checkpoint().map(drop)
    }

    fn stats(&self) -> Result<Stats, StoreError> {
        let size = |path: &PathBuf| std::fs::metadata(path).map_or(0.0, |m| m.len() as f64);
        let mut stats = vec![
            ("file_bytes".to_owned(), size(&self.path)),
            ("wal_bytes".to_owned(), size(&open::beside(&self.path)[0])),
        ];
        if self.ready().is_some() {
            let (connection, _) = self.reader()?;
            let pragma = |name: &str| {
                connection
                    .query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
                    .map(|n| n as f64)
                    .map_err(|e| store_error(&self.path, "read its statistics", &e))
            };
            let page = pragma("page_size")?;
            stats.push(("database_bytes".to_owned(), pragma("page_count")? * page));
            stats.push(("free_bytes".to_owned(), pragma("freelist_count")? * page));
        }
        Ok(stats)
    }

    fn own_settings(&self) -> Result<StoreSettings, StoreError> {
        let Some(ready) = self.ready() else { return Ok(StoreSettings::default()) };
        let failed = |e: rusqlite::Error| store_error(&self.path, "read its settings", &e);
        // Its pragmas are those of a session, but it changes nothing.
        let (connection, still) = self.reader()?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        self.set_cache(&connection).map_err(failed)?;
        let told = settings_reported::ask(&connection, still.is_some()).map_err(failed)?;
        Ok(settings_reported::read(&told, (!ready.read_only).then_some(ready.ours)))
    }

    fn sample_keys(&self, collection: CollectionId, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError> {
        let table = self.table(collection)?;
        let (connection, _) = self.reader()?;
        let failed = |e: rusqlite::Error| store_error(&self.path, "sample the keys of a table", &e);
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        sample::keys(&connection, &table, at_most, seed).map_err(failed)
    }

    fn same_keys(&self, collection: CollectionId) -> SameKeys {
        let Some(table) = self.table(collection).ok().filter(|table| table.theirs) else { return SameKeys::Exact };
        self.reader().map_or(SameKeys::Exact, |(connection, _)| theirs::same_keys(&connection, &table))
    }

    fn cuts(&self, collection: CollectionId, ranges: usize) -> Result<Vec<String>, StoreError> {
        let mut keys = self.sample_keys(collection, ranges * SAMPLES_A_RANGE, 1)?;
        if self.table(collection)?.theirs {
            let (connection, _) = self.reader()?;
            let encoding = connection
                .query_row("PRAGMA encoding", [], |row| row.get::<_, String>(0))
                .map_err(|e| store_error(&self.path, "read its text encoding", &e))?;
            // Numbers sort by value, and texts by their encoding.
            if encoding != "UTF-8" || keys.iter().any(|key| key.parse::<i64>().is_ok()) {
                return Ok(Vec::new());
            }
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(evenly(&keys, ranges))
    }

    fn rows<'a>(&'a self, rows: Rows<'a>) -> LocalFuture<'a, Result<Box<dyn RowStream>, StoreError>> {
        Box::pin(async move {
            let Rows::Query(text) = rows else {
                return Err(StoreError::NotSupported("SQLite is read only in key order".into()));
            };
            let (connection, still) = self.reader()?;
            connection.busy_timeout(PATIENCE).map_err(|e| store_error(&self.path, "read it", &e))?;
            Ok(Box::new(query::Query::open(self.url.clone(), connection, still, text)?) as Box<dyn RowStream>)
        })
    }

    fn try_query(&self, request: &Request<'_>) -> Result<(), StoreError> {
        self.session(None)?.try_query(request).map_err(|error| match error.kind {
            ErrorKind::Refused => StoreError::NotSupported(error.message.into_owned()),
            _ => StoreError::Failed(error.to_string()),
        })
    }

    fn explain(&self, request: &Request<'_>) -> Result<Option<Explanation>, StoreError> {
        let plan = self.session(None)?.explain(request).map_err(|e| StoreError::Failed(e.to_string()))?;
        // Not what unfolds a document (json_each), a subquery or a constant.
        let reads_table = |line: &str| {
            line.strip_prefix("SCAN ").is_some_and(|rest| {
                !rest.starts_with('(') && !rest.starts_with("CONSTANT ROW") && !rest.contains("VIRTUAL TABLE")
            })
        };
        Ok(plan
            .map(|lines| Explanation { full_scan: lines.iter().any(|line| reads_table(line)), plan: lines.join("\n") }))
    }

    fn build_index(&self, collection: CollectionId, _name: &str, text: &str) -> Result<BuiltIndex, StoreError> {
        let table = self.table(collection)?;
        indexes::build(&self.writer_now()?, &table, text)
    }

    fn drop_index(&self, collection: CollectionId, _name: &str, text: &str) -> Result<(), StoreError> {
        let table = self.table(collection)?;
        indexes::drop(&self.writer_now()?, &table, text)
    }

    fn paths(&self) -> Vec<PathBuf> {
        let mut paths = vec![self.path.clone()];
        paths.extend(open::beside(&self.path));
        paths
    }

    fn close(&self) -> Result<(), StoreError> {
        let merged = if self.writes() && self.path.exists() { self.checkpoint().map(drop) } else { Ok(()) };
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = None;
        merged
    }

    fn remove(&self) -> Result<(), StoreError> {
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = None;
        at_once(remove(&mut self.file()?))
    }
}

#[cfg(test)]
mod tests {
    use storebench_engine::store::CopyId;
    use storebench_study::workload::Body;

    use super::*;

    /// With `synchronous=OFF`, a power failure may damage the whole file, including tables that nobody writes to.
    #[test]
    fn a_file_that_holds_data_of_the_users_is_never_written_without_a_sync() {
        let folder = tempfile::tempdir().unwrap();
        let level = |collection: &str, how: Prepare| {
            let store = SqliteStore {
                url: "sqlite:it.db".into(),
                path: folder.path().join("it.db"),
                settings: Settings { jsonb: false, journal: "delete", cache: None },
                writer: Arc::default(),
                ready: Mutex::new(None),
            };
            let layout = CollectionLayout {
                name: collection.into(),
                body: Body::Json,
                indexes: Vec::new(),
                existing: None,
                uses: storebench_engine::store::Uses::ALL,
            };
            store.prepare(&Layout { collections: vec![layout] }, how).unwrap();
            let connection = open::open_writable(&store.path).unwrap();
            session::set_durability(&connection, Durability::OS, store.ready().unwrap().ours).unwrap();
            connection.query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0)).unwrap()
        };
        let (off, normal) = (0, 1);
        assert_eq!(level("studied", Prepare::Fresh), off);
        assert_eq!(level("copied", Prepare::Copy(CopyId::draw())), normal);
        assert_eq!(level("studied", Prepare::IntoExisting), normal);
        assert_eq!(level("studied", Prepare::Discard), off);
    }
}
