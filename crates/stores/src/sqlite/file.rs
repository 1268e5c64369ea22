//! The database file: what is in it, whose it is, making and removing it.
//!
//! The marker is the table `storebench_marker`. It says whether Storebench made the file, and names
//! the collections Storebench made in it.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, params};
use storebench_core::store::{Layout, Namespace, Prepare, StoreError};

use super::Settings;
use super::errors::{is_of_sql, store_error};
use super::sql::{self, Format, Table};
use crate::location::{check_parent, io_error, not_ours};

const MARKER: &str = "storebench_marker";

/// What a look at the path found.
#[derive(Debug)]
pub(super) enum Found {
    /// No file.
    Nothing,
    /// A file of no bytes, which is an empty database to SQLite.
    Empty,
    /// A file that is no SQLite database.
    Other,
    /// A database.
    Database(Contents),
}

/// What is in a database.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Storebench's marker, if there is one.
    pub(super) marker: Option<Marker>,
    /// Tables and views that Storebench did not make.
    pub(super) theirs: Vec<String>,
    /// A log or journal beside the file could not be read along without changing something.
    unmerged: bool,
}

/// Storebench's own record.
#[derive(Debug, Default)]
pub(super) struct Marker {
    /// Whether Storebench made the file.
    pub(super) made_file: bool,
    /// Collections made here, each with the name of its format.
    pub(super) collections: Vec<(String, String)>,
}

impl Contents {
    /// Whether the whole file is Storebench's.
    pub(super) fn ours(&self) -> bool {
        self.theirs.is_empty() && self.marker.as_ref().is_some_and(|m| m.made_file)
    }

    fn describe(&self) -> String {
        let mut text = match self.theirs.as_slice() {
            [] => "an SQLite database without tables of others".to_owned(),
            [one] => format!("an SQLite database with the table `{one}`"),
            [first, .., last] => {
                format!("an SQLite database with {} tables (`{first}` to `{last}`)", self.theirs.len())
            }
        };
        if let Some(marker) = &self.marker {
            text += &format!(" beside {} of Storebench's", marker.collections.len());
        }
        if self.unmerged {
            text += ", and a log of writes that are not merged into it yet (open it once with sqlite3)";
        }
        text
    }
}

impl Found {
    pub(super) fn namespace(&self) -> Namespace {
        match self {
            Self::Nothing | Self::Empty => Namespace::Absent,
            Self::Other => Namespace::Foreign("a file that is no SQLite database".to_owned()),
            Self::Database(contents) if contents.ours() => Namespace::Ours,
            Self::Database(contents) => Namespace::Foreign(contents.describe()),
        }
    }
}

/// How long a look waits for who has locked the file.
const PATIENCE: Duration = Duration::from_secs(2);

/// The files SQLite keeps beside a database.
pub(super) fn beside(path: &Path) -> [PathBuf; 3] {
    ["-wal", "-shm", "-journal"].map(|suffix| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    })
}

fn has_bytes(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.len() > 0)
}

/// Opens a database such that nothing on disk changes, not even by making `-wal` or `-shm`.
///
/// Without a log beside it the file is opened as immutable. With a log, SQLite reads the log along
/// through the `-shm` that lies there, opened for reading only. Where that cannot be (a log without
/// its `-shm`, or one whose `-shm` only its writer can set up; a rollback journal of a crash), what
/// is in the file itself is shown, and the second value is true.
pub(super) fn open_untouched(path: &Path) -> Result<(Connection, bool), StoreError> {
    let [wal, shm, journal] = beside(path);
    let log = has_bytes(&wal);
    if log && shm.exists() {
        let connection = open_uri(path, "mode=ro&readonly_shm=1")?;
        if connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).is_ok() {
            return Ok((connection, has_bytes(&journal)));
        }
    }
    Ok((open_uri(path, "mode=ro&immutable=1")?, log || has_bytes(&journal)))
}

/// A file that is read without SQLite's locks, as it was when it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Still {
    path: PathBuf,
    stamp: Option<(u64, SystemTime)>,
}

impl Still {
    fn of(path: &Path) -> Self {
        let stamp = std::fs::metadata(path).ok().and_then(|m| Some((m.len(), m.modified().ok()?)));
        Self { path: path.to_owned(), stamp }
    }

    /// What was read may be none of what was ever stored.
    pub(super) fn check(&self) -> Result<(), String> {
        if *self == Self::of(&self.path) {
            return Ok(());
        }
        Err(format!("{} was written while it was read; read it again when nobody writes to it", self.path.display()))
    }
}

/// Opens a database to read what is committed in it, and changes nothing on disk. Where only making a `-shm`
/// would give locks, it is opened without any, and whether it changes meanwhile has to be looked at.
///
/// # Errors
/// A log lies beside it that cannot be read along.
pub(super) fn open_reading(path: &Path) -> Result<(Connection, Option<Still>), StoreError> {
    let [wal, shm, journal] = beside(path);
    if wal.exists() && shm.exists() {
        // Somebody has it open, perhaps with nothing in the log yet.
        let connection = open_uri(path, "mode=ro&readonly_shm=1")?;
        if connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).is_ok() {
            return Ok((connection, None));
        }
    }
    if has_bytes(&wal) {
        return match open_untouched(path)? {
            (connection, false) => Ok((connection, None)),
            (_, true) => Err(StoreError::NotSupported(format!(
                "{}: beside it lies a log of writes that are not merged into it and cannot be read along; open it once \
                 with sqlite3, which merges them",
                path.display()
            ))),
        };
    }
    // Without locks SQLite opens no database whose writes go through a log, whether there is one now or not.
    let logs = || {
        let unlocked = open_uri(path, "mode=ro&nolock=1")?;
        Ok(unlocked.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).is_err())
    };
    if has_bytes(&journal) || !logs()? {
        return Ok((open_uri(path, "mode=ro")?, None));
    }
    let still = Still::of(path);
    Ok((open_uri(path, "mode=ro&immutable=1")?, Some(still)))
}

/// Opens a database for reading while sessions of ours write to it. Its end merges no log into the file.
pub(super) fn open_beside(path: &Path) -> Result<Connection, StoreError> {
    open_uri(path, "mode=ro")
}

fn open_uri(path: &Path, how: &str) -> Result<Connection, StoreError> {
    let absolute = std::path::absolute(path).map_err(|e| io_error(path, "find its full path", &e))?;
    let mut uri = String::from("file://");
    for byte in absolute.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            uri += &format!("%{byte:02X}");
        }
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(format!("{uri}?{how}"), flags)
        .and_then(|connection| {
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            Ok(connection)
        })
        .map_err(|e| store_error(path, "open it", &e))
}

/// Looks at what is there, changing nothing.
pub(super) fn look(path: &Path) -> Result<Found, StoreError> {
    check_parent(path)?;
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(io_error(path, "look at it", &error)),
        Ok(metadata) if metadata.is_dir() => {
            return Err(StoreError::Unreachable(format!(
                "{}: this is a folder; name the database file itself, such as sqlite:{}/documents.db",
                path.display(),
                path.display()
            )));
        }
        Ok(metadata) if !metadata.is_file() => return Ok(Found::Other),
        Ok(metadata) if metadata.len() == 0 && !has_bytes(&beside(path)[0]) => return Ok(Found::Empty),
        Ok(_) => {}
    }
    // The header is SQLite's to read: a file that this process opens and closes past SQLite would
    // take SQLite's locks on it away (https://www.sqlite.org/howtocorrupt.html, 2.2).
    let (connection, unmerged) = open_untouched(path)?;
    match contents(&connection, unmerged) {
        Ok(contents) => Ok(Found::Database(contents)),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => Ok(Found::Other),
        Err(error) => Err(store_error(path, "read its tables", &error)),
    }
}

fn contents(connection: &Connection, unmerged: bool) -> rusqlite::Result<Contents> {
    let mut found = Contents { unmerged, ..Contents::default() };
    let mut names = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name")?;
    let names: Vec<String> = names.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    if names.iter().any(|name| name == MARKER) {
        let mut marker = Marker::default();
        let mut rows = connection.prepare(&format!("SELECT kind, name, detail FROM {MARKER}"))?;
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            let (kind, name, detail): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            match kind.as_str() {
                "file" => marker.made_file = detail == "made",
                "collection" => marker.collections.push((name, detail)),
                _ => {}
            }
        }
        found.marker = Some(marker);
    }
    let made = |name: &String| {
        name == MARKER || found.marker.as_ref().is_some_and(|m| m.collections.iter().any(|(c, _)| c == name))
    };
    found.theirs = names.iter().filter(|name| !made(name)).cloned().collect();
    Ok(found)
}

/// Opens a database for writing. The journal mode is set only where the file is ours: it is a
/// property of the file.
pub(super) fn open_writable(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|e| store_error(path, "open it", &e))?;
    connection.busy_timeout(std::time::Duration::from_secs(10)).map_err(|e| store_error(path, "open it", &e))?;
    Ok(connection)
}

/// Makes the layout. What may be done with what is there has been decided by `how` and `found`.
pub(super) fn prepare(
    path: &Path,
    settings: &Settings,
    layout: &Layout,
    how: Prepare,
    found: &Found,
) -> Result<(), StoreError> {
    check_layout(layout)?;
    if !how.makes_nothing()
        && let Some(theirs) = layout.collections.iter().find(|c| c.existing.is_some())
    {
        return Err(StoreError::NotSupported(format!(
            "{}: the table of `{}` is somebody else's and only read; nothing was touched",
            path.display(),
            theirs.name
        )));
    }
    let foreign = |found: &Found| match found.namespace() {
        Namespace::Foreign(text) => Err(not_ours(path, &text)),
        _ => Ok(()),
    };
    match (how, found) {
        (Prepare::ReadOnly, Found::Database(contents)) => return check_there(path, settings, layout, contents, true),
        (Prepare::WriteExisting, Found::Database(contents)) => {
            check_there(path, settings, layout, contents, false)?;
            return check_writable(path, settings, layout, contents);
        }
        (Prepare::ReadOnly | Prepare::WriteExisting, _) => {
            return Err(StoreError::Unreachable(format!("{}: there is no SQLite database", path.display())));
        }
        (_, Found::Other) => {
            return Err(StoreError::NotOurs(format!(
                "{} is a file that is no SQLite database; nothing was touched. Use another path",
                path.display()
            )));
        }
        (Prepare::Fresh, _) => {
            foreign(found)?;
            if let Found::Database(_) = found {
                remove_files(path)?;
            }
        }
        (Prepare::Keep, _) => foreign(found)?,
        (Prepare::IntoExisting, _) => {}
    }
    let made = !path.exists();
    if made {
        // The exclusive creation makes sure that it is ours.
        std::fs::File::create_new(path).map_err(|e| io_error(path, "make it", &e))?;
    }
    let result = create(path, settings, layout, made, matches!(found, Found::Database(c) if c.ours()));
    if made && result.is_err() {
        let _ = remove_files(path);
    }
    result
}

fn create(path: &Path, settings: &Settings, layout: &Layout, made: bool, ours: bool) -> Result<(), StoreError> {
    let mut connection = open_writable(path)?;
    let failed = |e: rusqlite::Error| store_error(path, "make the collections in it", &e);
    if made || ours {
        let mode: String = connection
            .query_row(&format!("PRAGMA journal_mode = {}", settings.journal), [], |row| row.get(0))
            .map_err(failed)?;
        if !mode.eq_ignore_ascii_case(settings.journal) {
            return Err(StoreError::Failed(format!(
                "{}: SQLite kept the journal mode `{mode}` where `{}` was asked for; add ?journal={mode}",
                path.display(),
                settings.journal
            )));
        }
    }
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(failed)?;
    let contents = contents(&transaction, false).map_err(failed)?;
    if contents.marker.is_none() {
        transaction
            .execute_batch(&format!(
                "CREATE TABLE {MARKER} (kind TEXT NOT NULL, name TEXT NOT NULL, detail TEXT NOT NULL, \
                 PRIMARY KEY (kind, name)) STRICT, WITHOUT ROWID"
            ))
            .map_err(failed)?;
        transaction
            .execute(&format!("INSERT INTO {MARKER} VALUES ('file', '', ?1)"), [if made { "made" } else { "found" }])
            .map_err(failed)?;
    }
    let collections = contents.marker.map(|m| m.collections).unwrap_or_default();
    for collection in &layout.collections {
        let name = &collection.name;
        let format = Format::of(collection.body, settings.jsonb);
        match collections.iter().find(|(made, _)| made == name) {
            Some((_, kept)) if kept == format.name() => {}
            Some((_, kept)) => {
                return Err(kept_otherwise(path, name, kept, format));
            }
            None => {
                // SQLite compares names of tables without regard to case.
                if let Some(theirs) = contents.theirs.iter().find(|t| t.eq_ignore_ascii_case(name)) {
                    return Err(StoreError::NotOurs(format!(
                        "{} has a table `{theirs}` that Storebench did not make; nothing was touched. Rename the \
                         collection, or use another path",
                        path.display()
                    )));
                }
                transaction.execute_batch(&sql::create_table(name, format)).map_err(failed)?;
                transaction
                    .execute(
                        &format!("INSERT INTO {MARKER} VALUES ('collection', ?1, ?2)"),
                        params![name, format.name()],
                    )
                    .map_err(failed)?;
            }
        }
        for fields in &collection.indexes {
            transaction.execute_batch(&sql::create_index(name, fields)?).map_err(failed)?;
        }
    }
    transaction.commit().map_err(failed)
}

fn kept_otherwise(path: &Path, name: &str, kept: &str, format: Format) -> StoreError {
    StoreError::NotSupported(format!(
        "{}: the collection `{name}` is kept as {kept} there and would be {} now; load it anew, or change ?format=",
        path.display(),
        format.name()
    ))
}

fn check_layout(layout: &Layout) -> Result<(), StoreError> {
    for (position, collection) in layout.collections.iter().enumerate() {
        let name = &collection.name;
        let lower = name.to_ascii_lowercase();
        if lower.starts_with("sqlite_") || lower == MARKER {
            return Err(StoreError::NotSupported(format!(
                "SQLite or Storebench keeps the table name `{name}` for itself; rename the collection"
            )));
        }
        let twin = layout.collections[..position].iter().find(|other| other.name.eq_ignore_ascii_case(name));
        if let Some(twin) = twin {
            return Err(StoreError::NotSupported(format!(
                "SQLite does not tell the table names `{}` and `{name}` apart; rename one of these collections",
                twin.name
            )));
        }
    }
    Ok(())
}

/// Checks that what the layout names is there; that its keys can be listed only where they are to be.
fn check_there(
    path: &Path,
    settings: &Settings,
    layout: &Layout,
    contents: &Contents,
    lists: bool,
) -> Result<(), StoreError> {
    let connection = if lists { open_reading(path)?.0 } else { open_untouched(path)?.0 };
    connection.busy_timeout(PATIENCE).map_err(|e| store_error(path, "look at its tables", &e))?;
    for collection in &layout.collections {
        let existing = collection.existing.as_ref();
        let name = existing.map_or(&collection.name, |existing| &existing.name);
        let format = Format::of(collection.body, settings.jsonb);
        let made = contents.marker.iter().flat_map(|m| &m.collections).find(|(made, _)| made == name);
        if let Some((_, kept)) = made.filter(|(_, kept)| kept != format.name()) {
            return Err(kept_otherwise(path, name, kept, format));
        }
        let probe = connection.prepare(&Table::of(collection).probe()).map(drop);
        if let Err(error) = &probe
            && !is_of_sql(error)
        {
            return Err(store_error(path, "look at its tables", error));
        }
        if existing.is_none() && made.is_none() || probe.is_err() {
            let columns = sql::columns(&connection, name).unwrap_or_default();
            let mut there = contents.theirs.clone();
            there.extend(contents.marker.iter().flat_map(|m| m.collections.iter().map(|(name, _)| name.clone())));
            let column = |named: Option<&String>, usual: &str| named.map_or(usual.to_owned(), String::clone);
            let key = column(existing.and_then(|e| e.key.as_ref()), "key");
            let body = column(existing.and_then(|e| e.body.as_ref()), "body");
            let theirs = existing.is_none() && made.is_none() && probe.is_ok();
            let has = if columns.is_empty() {
                format!("the file has: {}", there.join(", "))
            } else {
                format!(
                    "`{name}` has the columns {}; say which hold keys and documents: in a study existing = \
                     {{ name = \"{name}\", key = \"…\", body = \"…\" }}, of a copy --from-key and --from-body (plain columns: --query)",
                    columns.join(", ")
                )
            };
            let what = if theirs {
                format!("the table `{name}` is none of Storebench's making")
            } else {
                format!("there is no table `{name}` with the columns `{key}` and `{body}`")
            };
            return Err(StoreError::NotSupported(format!("{}: {what}; {has}", path.display())));
        }
        if lists && existing.is_some() {
            check_keys(path, &connection, name, &Table::of(collection))?;
        }
    }
    Ok(())
}

/// Checks that one order holds all keys: SQLite orders numbers, texts and bytes one behind the other, and what is
/// compared with a text is none of the others.
fn check_keys(path: &Path, connection: &Connection, name: &str, table: &Table) -> Result<(), StoreError> {
    let said = |e: rusqlite::Error| store_error(path, "look at the keys of a table in it", &e);
    let mut statement = connection.prepare(&table.key_kinds()).map_err(said)?;
    let is_view = connection.prepare(&table.is_view()).and_then(|mut sql| sql.exists([])).map_err(said)?;
    let kinds: Vec<String> = statement.query_map([], |row| row.get(0)).and_then(Iterator::collect).map_err(said)?;
    // What a view computes has no type by which a text would be taken for a number.
    let compares = |kind: &str| match table.finds_by_text(kind) {
        None => Ok(true),
        Some(_) if is_view => Ok(false),
        Some(sql) => connection.query_row(&sql, [], |row| row.get(0)).map_err(said),
    };
    match kinds.as_slice() {
        [] => Ok(()),
        [kind] if matches!(kind.as_str(), "text" | "integer") && compares(kind)? => Ok(()),
        _ => Err(StoreError::NotSupported(format!(
            "{}: the keys of `{name}` are of the kind {}, and only texts, or integers in a table's column of that type, can \
             be listed in order; copy them by --query",
            path.display(),
            kinds.join(" and ")
        ))),
    }
}

/// Checks that the tables of others can be written by their keys. Nothing is run.
fn check_writable(path: &Path, settings: &Settings, layout: &Layout, contents: &Contents) -> Result<(), StoreError> {
    let (connection, _) = open_untouched(path)?;
    for collection in &layout.collections {
        let name = collection.existing.as_ref().map_or(&collection.name, |existing| &existing.name);
        if !contents.theirs.iter().any(|theirs| theirs.eq_ignore_ascii_case(name)) {
            return Err(StoreError::NotSupported(format!(
                "{}: Storebench made the table `{name}`; leave --into-existing out",
                path.display()
            )));
        }
        let upsert =
            sql::statement(&Table::of(collection), Format::of(collection.body, settings.jsonb), sql::Kind::Upsert);
        if let Err(error) = connection.prepare(&upsert) {
            return Err(StoreError::NotSupported(format!(
                "{}: `{name}` cannot be written by its keys ({error}); name the column of its primary key, or one with \
                 a unique index, and the column that gets the document",
                path.display()
            )));
        }
    }
    Ok(())
}

fn remove_files(path: &Path) -> Result<(), StoreError> {
    for file in beside(path).iter().map(PathBuf::as_path).chain([path]) {
        match std::fs::remove_file(file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(io_error(file, "remove it", &error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes what Storebench made: the file, or its tables in a file of others.
pub(super) fn remove(path: &Path, found: &Found) -> Result<(), StoreError> {
    let Found::Database(contents) = found else { return Ok(()) };
    if contents.ours() {
        return remove_files(path);
    }
    let Some(marker) = &contents.marker else { return Ok(()) };
    let failed = |e: rusqlite::Error| store_error(path, "remove Storebench's tables from it", &e);
    let mut connection = open_writable(path)?;
    let transaction = connection.transaction().map_err(failed)?;
    for (name, _) in &marker.collections {
        transaction.execute_batch(&format!("DROP TABLE IF EXISTS {}", sql::identifier(name))).map_err(failed)?;
    }
    transaction.execute_batch(&format!("DROP TABLE {MARKER}")).map_err(failed)?;
    transaction.commit().map_err(failed)
}
