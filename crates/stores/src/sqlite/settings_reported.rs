//! How SQLite is set up in the sessions of this store.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _};
use storebench_engine::store::{Durability, StoreSettings};

use super::session::synchronous;

/// Pragmas that speed and memory depend on, each with the value that SQLite is shipped with.
const PRAGMAS: &[(&str, &str)] = &[
    ("auto_vacuum", "0"),
    (CACHE, "-2000"),
    (JOURNAL, "delete"),
    ("locking_mode", "normal"),
    ("mmap_size", "0"),
    (PAGE, "4096"),
    ("temp_store", "0"),
    ("wal_autocheckpoint", "1000"),
];

const CACHE: &str = "cache_size";
const JOURNAL: &str = "journal_mode";
const PAGE: &str = "page_size";

/// A pragma and its value.
type Told = (&'static str, String);

/// The pragmas of a connection. A file that was opened as `immutable` is in WAL mode, which SQLite then does not use.
pub(super) fn ask(connection: &Connection, immutable: bool) -> rusqlite::Result<Vec<Told>> {
    let mut told = Vec::new();
    for &(name, _) in PRAGMAS {
        if name == JOURNAL && immutable {
            told.push((name, "wal".to_owned()));
            continue;
        }
        let value = |row: &rusqlite::Row<'_>| row.get_ref(0).map(text);
        told.extend(connection.query_row(&format!("PRAGMA {name}"), [], value).optional()?.map(|value| (name, value)));
    }
    Ok(told)
}

fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        _ => String::new(),
    }
}

/// The settings of sessions. `ours` says whether the file holds no data of the user; `None` if sessions only read.
/// Those that write set `synchronous` to what the study's durability needs.
pub(super) fn read(told: &[Told], ours: Option<bool>) -> StoreSettings {
    // Each session has a cache of its own, and the system keeps the file in memory as well, so no memory is told.
    let mut settings = StoreSettings::default();
    for (name, value) in told {
        let shipped = PRAGMAS.iter().find(|(other, _)| other == name);
        // The driver itself chooses WAL for a file of its own.
        let shipped = shipped.filter(|_| *name != JOURNAL || value != "wal");
        settings.add(*name, shown(name, value), shipped.map(|(_, shipped)| value != shipped));
    }
    if let Some(ours) = ours {
        let wal = find(told, JOURNAL) == Some("wal");
        let [fsync, os] = [Durability::FSYNC, Durability::OS].map(|level| synchronous(level, wal, ours));
        settings.add("synchronous", format!("{fsync} for fsync, {os} for os"), None);
    }
    settings
}

fn find<'t>(told: &'t [Told], name: &str) -> Option<&'t str> {
    told.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_str())
}

/// A value in words, where SQLite has a number for it.
fn shown(name: &str, value: &str) -> String {
    let word = match (name, value) {
        ("auto_vacuum", "0") => "none",
        ("auto_vacuum", "1") => "full",
        ("auto_vacuum", "2") => "incremental",
        ("temp_store", "0") => "default",
        ("temp_store", "1") => "file",
        ("temp_store", "2") => "memory",
        (CACHE, size) => {
            return match size.strip_prefix('-') {
                Some(kib) => format!("{kib} KiB for each session"),
                None => format!("{size} pages for each session"),
            };
        }
        ("mmap_size" | PAGE, bytes) => return format!("{bytes} bytes"),
        ("wal_autocheckpoint", pages) => return format!("{pages} pages"),
        (_, value) => value,
    };
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(settings: &StoreSettings) -> Vec<String> {
        settings.all.iter().map(|of| format!("{}: {}, {:?}", of.name, of.value, of.changed)).collect()
    }

    #[test]
    fn what_sqlite_is_shipped_with_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("it.db")).unwrap();
        let told = ask(&connection, false).unwrap();
        let settings = read(&told, None);
        assert_eq!(told.len(), PRAGMAS.len());
        assert!(settings.all.iter().all(|of| of.changed == Some(false)), "{settings:?}");
    }

    #[test]
    fn what_differs_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("it.db")).unwrap();
        let pragmas = "PRAGMA page_size = 8192; PRAGMA auto_vacuum = 2; PRAGMA journal_mode = WAL; \
                       PRAGMA cache_size = 100; PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 7";
        connection.execute_batch(pragmas).unwrap();
        let settings = read(&ask(&connection, false).unwrap(), Some(true));
        assert_eq!(
            shown(&settings),
            [
                "auto_vacuum: incremental, Some(true)",
                "cache_size: 100 pages for each session, Some(true)",
                "journal_mode: wal, None",
                "locking_mode: normal, Some(false)",
                "mmap_size: 0 bytes, Some(false)",
                "page_size: 8192 bytes, Some(true)",
                "synchronous: FULL for fsync, NORMAL for os, None",
                "temp_store: memory, Some(true)",
                "wal_autocheckpoint: 7 pages, Some(true)",
            ]
        );
    }

    #[test]
    fn durability_decides_how_sessions_sync() {
        let told = |journal: &str| vec![(JOURNAL, journal.to_owned())];
        let synchronous = |journal: &str, ours| {
            let settings = read(&told(journal), ours);
            settings.all.into_iter().find(|of| of.name == "synchronous").map(|of| of.value)
        };
        assert_eq!(synchronous("delete", Some(true)).as_deref(), Some("FULL for fsync, OFF for os"));
        assert_eq!(synchronous("delete", Some(false)).as_deref(), Some("FULL for fsync, NORMAL for os"));
        assert_eq!(synchronous("wal", None), None);
    }
}
