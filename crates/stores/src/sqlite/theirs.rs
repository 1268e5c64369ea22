//! Checks whether tables that Storebench did not create can be read in order and written by key.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use storebench_engine::store::{Holdings, Layout, NAME_COLUMNS, SameKeys, Site as _, StoreError};

use super::errors::{is_of_sql, store_error};
use super::file::DatabaseFile;
use super::open::{open_reading, open_untouched};
use super::sql::{self, Format, Table};

/// How long a check waits for a lock on the file.
const PATIENCE: Duration = Duration::from_secs(2);

/// Checks that the tables and columns of the layout exist. If `lists`, also checks that their keys can be listed.
pub(super) fn check_there(
    file: &DatabaseFile<'_>,
    found: &Holdings,
    layout: &Layout,
    lists: bool,
) -> Result<(), StoreError> {
    let path = file.path;
    let connection = if lists { open_reading(path)?.0 } else { open_untouched(path)?.0 };
    connection.busy_timeout(PATIENCE).map_err(|e| store_error(path, "read its tables", &e))?;
    for collection in &layout.collections {
        let existing = collection.existing.as_ref();
        let name = existing.map_or(&collection.name, |existing| &existing.name);
        let made = found.check_form(file, name, collection.body)?;
        let probe = connection.prepare(&Table::of(collection).probe()).map(drop);
        if let Err(error) = &probe
            && !is_of_sql(error)
        {
            return Err(store_error(path, "read its tables", error));
        }
        if existing.is_none() && !made || probe.is_err() {
            let columns = sql::columns(&connection, name).unwrap_or_default();
            let there = found.names();
            let column = |named: Option<&String>, usual: &str| named.map_or(usual.to_owned(), String::clone);
            let key = column(existing.and_then(|e| e.key.as_ref()), "key");
            let body = column(existing.and_then(|e| e.body.as_ref()), "body");
            let theirs = existing.is_none() && !made && probe.is_ok();
            let has = if columns.is_empty() {
                format!("the file has: {}", there.join(", "))
            } else {
                format!("`{name}` has the columns {}; {NAME_COLUMNS}", columns.join(", "))
            };
            let what = if theirs {
                format!("Storebench did not create the table `{name}`")
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

/// The columns for key and document, if the table has only these: a primary key of one column, and a column that is declared
/// as JSON.
pub(super) fn plain_columns(file: &DatabaseFile<'_>, table: &str) -> Result<Option<(String, String)>, StoreError> {
    let (connection, _) = open_untouched(file.path)?;
    let said = |e: rusqlite::Error| store_error(file.path, "read its tables", &e);
    let sql = "SELECT name, pk > 0, upper(type) IN ('JSON', 'JSONB') FROM pragma_table_info(?1) ORDER BY pk DESC";
    let mut statement = connection.prepare(sql).map_err(said)?;
    let rows = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let columns: Vec<(String, bool, bool)> = rows.and_then(Iterator::collect).map_err(said)?;
    match &columns[..] {
        [(key, true, _), (body, false, true)] => Ok(Some((key.clone(), body.clone()))),
        _ => Ok(None),
    }
}

/// Checks that all keys have the same order. SQLite sorts numbers before texts, and texts before bytes. A comparison
/// with a text never matches the other types.
fn check_keys(path: &Path, connection: &Connection, name: &str, table: &Table) -> Result<(), StoreError> {
    let said = |e: rusqlite::Error| store_error(path, "check the keys of a table", &e);
    // For row numbers, the type is known. Otherwise, all rows are checked.
    if connection.prepare(&table.is_row_number()).and_then(|mut sql| sql.exists([])).map_err(said)? {
        return Ok(());
    }
    let mut statement = connection.prepare(&table.key_kinds()).map_err(said)?;
    let is_view = connection.prepare(&table.is_view()).and_then(|mut sql| sql.exists([])).map_err(said)?;
    let kinds: Vec<String> = statement.query_map([], |row| row.get(0)).and_then(Iterator::collect).map_err(said)?;
    // Computed columns of a view have no type affinity, which would convert a text to a number.
    let compares = |kind: &str| match kind {
        "text" => Ok(true),
        "integer" if !is_view => connection.query_row(&table.finds_by_text(), [], |row| row.get(0)).map_err(said),
        _ => Ok(false),
    };
    match kinds.as_slice() {
        [] => Ok(()),
        [kind] if compares(kind)? => Ok(()),
        _ => Err(StoreError::NotSupported(format!(
            "{}: the keys of `{name}` have the type {}, but only texts, or integers in a table's integer column, can \
             be listed in order; copy them with --query",
            path.display(),
            kinds.join(" and ")
        ))),
    }
}

/// Which keys the table's unique index takes for one. A table of unknown form is taken to tell all keys apart.
pub(super) fn same_keys(connection: &Connection, table: &Table) -> SameKeys {
    let first = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0)).ok();
    // What SQLite makes of texts in a column of this type: https://sqlite.org/datatype3.html, section 3.1.
    // What is no column is the row's number.
    let declared = first(&table.declared_type()).map_or("INT".to_owned(), |declared| declared.to_ascii_uppercase());
    let is = |parts: &[&str]| parts.iter().any(|part| declared.contains(part));
    if is(&["INT"]) {
        return SameKeys::Integer;
    }
    let text = declared.is_empty() || is(&["CHAR", "CLOB", "TEXT", "BLOB"]);
    // Of type UUID, too, all that look like numbers are numbers.
    match first(&table.collation()).as_deref() {
        _ if !text => SameKeys::Number,
        Some("NOCASE") => SameKeys::AnyAsciiCase,
        Some("RTRIM") => SameKeys::Padded,
        _ => SameKeys::Exact,
    }
}

/// Checks that the existing tables can be written by key. It only prepares statements, without running them.
pub(super) fn check_writable(file: &DatabaseFile<'_>, found: &Holdings, layout: &Layout) -> Result<(), StoreError> {
    let path = file.path;
    let (connection, _) = open_untouched(path)?;
    for collection in &layout.collections {
        let name = collection.existing.as_ref().map_or(&collection.name, |existing| &existing.name);
        if !found.theirs.iter().any(|theirs| file.alike(theirs, name)) {
            return Err(found.not_theirs(&file.shown(), name));
        }
        let upsert =
            sql::statement(&Table::of(collection), Format::of(collection.body, file.settings.jsonb), sql::Kind::Upsert);
        if let Err(error) = connection.prepare(&upsert) {
            return Err(StoreError::NotSupported(format!(
                "{}: cannot write `{name}` by key ({error}); name the column of its primary key, or one with a unique \
                 index, and the column for the document",
                path.display()
            )));
        }
    }
    Ok(())
}
