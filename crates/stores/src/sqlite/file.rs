//! The database file: what is in it, whose it is, making and removing it.
//!
//! The marker is the table `storebench_marker`. It says whether Storebench made the file, and names
//! the collections Storebench made in it, each with its format and its owner.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, params};
use storebench_core::store::{Holdings, Layout, Namespace, Owner, Prepare, StoreError};

use super::Settings;
use super::errors::store_error;
use super::open::{beside, has_bytes, open_untouched, open_writable};
use super::sql::{self, Format};
use super::theirs::{check_there, check_writable};
use crate::location::{check_parent, io_error, kind_of};

const MARKER: &str = "storebench_marker";

/// What a look at the path found.
#[derive(Debug)]
pub(super) enum Found {
    /// No file.
    Nothing,
    /// A file of no bytes, which is an empty database to SQLite.
    Empty,
    /// A file that is not an SQLite database: what it is, in words.
    Other(String),
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
    /// Collections made here, each with the name of its format and its owner.
    pub(super) collections: Vec<(String, String, Owner)>,
}

impl Contents {
    /// Whether Storebench made the whole file, be it for studies or for the user's data.
    pub(super) fn ours(&self) -> bool {
        // A log that cannot be read may hold whose the collections are.
        self.theirs.is_empty() && !self.unmerged && self.marker.as_ref().is_some_and(|m| m.made_file)
    }

    /// Names of all tables and views but Storebench's marker.
    pub(super) fn names(&self) -> Vec<String> {
        let made = self.marker.iter().flat_map(|marker| marker.collections.iter().map(|(name, ..)| name));
        self.theirs.iter().chain(made).cloned().collect()
    }

    /// Whether nothing is in it, as after a kill between making the file and marking it: nobody loses anything when
    /// it counts as Storebench's.
    fn blank(&self) -> bool {
        self.marker.is_none() && self.theirs.is_empty() && !self.unmerged
    }

    fn holdings(&self) -> Holdings {
        let collections = self.marker.iter().flat_map(|marker| &marker.collections);
        Holdings {
            absent: self.blank(),
            foreign: (!self.ours() && !self.blank()).then(|| self.describe()),
            marked: collections.map(|(name, _, owner)| (name.clone(), *owner)).collect(),
        }
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
    pub(super) fn holdings(&self) -> Holdings {
        match self {
            Self::Nothing | Self::Empty => Holdings { absent: true, ..Holdings::default() },
            Self::Other(what) => {
                Holdings { foreign: Some(format!("{what}, not an SQLite database")), ..Holdings::default() }
            }
            Self::Database(contents) => contents.holdings(),
        }
    }

    /// Whether the whole file is Storebench's, or nothing is in it.
    pub(super) fn is_ours(&self) -> bool {
        match self {
            Self::Other(_) => false,
            Self::Nothing | Self::Empty => true,
            Self::Database(contents) => contents.ours() || contents.blank(),
        }
    }

    /// Whether studies made all that is in the file.
    pub(super) fn is_of_studies(&self) -> bool {
        self.is_ours() && self.holdings().marked.iter().all(|(_, owner)| !owner.is_user())
    }

    pub(super) fn namespace(&self) -> Namespace {
        self.holdings().namespace()
    }
}

/// A file that SQLite did not make, and what to do about it.
pub(super) fn not_a_database(path: &Path, what: &str) -> StoreError {
    StoreError::NotOurs(format!(
        "{} is {what}, not an SQLite database; nothing was touched. To read or write it as a file, leave out `sqlite:`; for \
         a database, use another path",
        path.display()
    ))
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
        Ok(metadata) if !metadata.is_file() => return Ok(Found::Other("a pipe or a device".to_owned())),
        Ok(metadata) if metadata.len() == 0 && !has_bytes(&beside(path)[0]) => return Ok(Found::Empty),
        Ok(_) => {}
    }
    // The header is SQLite's to read: a file that this process opens and closes past SQLite would
    // take SQLite's locks on it away (https://www.sqlite.org/howtocorrupt.html, 2.2).
    let (connection, unmerged) = open_untouched(path)?;
    match contents(&connection, unmerged) {
        Ok(contents) => Ok(Found::Database(contents)),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => Ok(Found::Other(kind_of(path))),
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
                "collection" => {
                    let (format, owner) = Owner::read(&detail);
                    marker.collections.push((name, format.to_owned(), owner));
                }
                _ => {}
            }
        }
        found.marker = Some(marker);
    }
    let made = |name: &String| {
        name == MARKER || found.marker.as_ref().is_some_and(|m| m.collections.iter().any(|(c, ..)| c == name))
    };
    found.theirs = names.iter().filter(|name| !made(name)).cloned().collect();
    Ok(found)
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
    match (how, found) {
        (Prepare::ReadOnly, Found::Database(contents)) => return check_there(path, settings, layout, contents, true),
        (Prepare::WriteExisting, Found::Database(contents)) => {
            check_there(path, settings, layout, contents, false)?;
            return check_writable(path, settings, layout, contents);
        }
        (_, Found::Other(what)) => return Err(not_a_database(path, what)),
        (Prepare::ReadOnly | Prepare::WriteExisting, _) => {
            return Err(StoreError::Unreachable(format!("{}: there is no SQLite database", path.display())));
        }
        (how, found) => {
            found.holdings().allow(&path.display().to_string(), "another path", layout, how)?;
            match found {
                // Somebody may have opened it, to write into it next: so it stays the same file.
                Found::Database(contents) if how.empties() && !contents.blank() => remove_files(path)?,
                _ => {}
            }
        }
    }
    let made = !path.exists();
    if made {
        // The exclusive creation makes sure that it is ours.
        std::fs::File::create_new(path).map_err(|e| io_error(path, "make it", &e))?;
    }
    let result = create(path, settings, layout, how, made, found.is_ours());
    if made && result.is_err() && is_still_empty(path) {
        let _ = remove_files(path);
    }
    result
}

/// Whether a file that was made here holds nothing yet, also of another process that has opened it meanwhile.
fn is_still_empty(path: &Path) -> bool {
    match look(path) {
        Ok(Found::Empty) => true,
        Ok(Found::Database(contents)) => contents.blank(),
        _ => false,
    }
}

fn create(
    path: &Path,
    settings: &Settings,
    layout: &Layout,
    how: Prepare,
    made: bool,
    ours: bool,
) -> Result<(), StoreError> {
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
            .execute(
                &format!("INSERT INTO {MARKER} VALUES ('file', '', ?1)"),
                [if made || ours { "made" } else { "found" }],
            )
            .map_err(failed)?;
    }
    let collections = contents.marker.map(|m| m.collections).unwrap_or_default();
    for collection in &layout.collections {
        let name = &collection.name;
        let format = Format::of(collection.body, settings.jsonb);
        let found = collections.iter().find(|(made, ..)| made == name);
        let before = found.map(|(.., owner)| *owner);
        let owner = how.owner(before);
        match found {
            Some((_, kept, _)) if kept == format.name() => {}
            Some((_, kept, _)) => {
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
            }
        }
        if before != Some(owner) {
            transaction
                .execute(
                    &format!("INSERT OR REPLACE INTO {MARKER} VALUES ('collection', ?1, ?2)"),
                    params![name, owner.mark(format.name())],
                )
                .map_err(failed)?;
        }
        for fields in &collection.indexes {
            transaction.execute_batch(&sql::create_index(name, fields)?).map_err(failed)?;
        }
    }
    transaction.commit().map_err(failed)
}

pub(super) fn kept_otherwise(path: &Path, name: &str, kept: &str, format: Format) -> StoreError {
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

fn remove_files(path: &Path) -> Result<(), StoreError> {
    // A database is whole only with its log, so it is made empty before the log goes: what a kill leaves between is no
    // database that somebody could write into.
    match std::fs::OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(0)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io_error(path, "empty it", &error)),
        _ => {}
    }
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

/// Removes what studies made: the file, or their tables in a file that holds more.
pub(super) fn remove(path: &Path, found: &Found) -> Result<(), StoreError> {
    let Found::Database(contents) = found else { return Ok(()) };
    let holdings = contents.holdings();
    if contents.marker.is_none() {
        return Ok(());
    }
    if holdings.all_removable(false) {
        return remove_files(path);
    }
    let failed = |e: rusqlite::Error| store_error(path, "remove Storebench's tables from it", &e);
    let mut connection = open_writable(path)?;
    let transaction = connection.transaction().map_err(failed)?;
    for name in holdings.removable(false) {
        transaction.execute_batch(&format!("DROP TABLE IF EXISTS {}", sql::identifier(name))).map_err(failed)?;
        transaction
            .execute(&format!("DELETE FROM {MARKER} WHERE kind = 'collection' AND name = ?1"), [name])
            .map_err(failed)?;
    }
    if !holdings.marked.iter().any(|(_, owner)| owner.is_user()) {
        transaction.execute_batch(&format!("DROP TABLE {MARKER}")).map_err(failed)?;
    }
    transaction.commit().map_err(failed)
}
