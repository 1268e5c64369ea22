//! Opening the file so that nothing changes on disk, or nothing but what is asked for.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use storebench_engine::store::StoreError;
use storebench_engine::store::location::io_error;

use super::errors::store_error;

/// The files SQLite keeps beside a database.
pub(super) fn beside(path: &Path) -> [PathBuf; 3] {
    ["-wal", "-shm", "-journal"].map(|suffix| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    })
}

pub(super) fn has_bytes(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.len() > 0)
}

/// Opens a database such that nothing on disk changes, not even by making `-wal` or `-shm`.
///
/// Without a log beside it the file is opened as immutable. With a log, SQLite reads the log along
/// through the `-shm` that lies there, opened for reading only. Where that cannot be (a log without
/// its `-shm`, or one whose `-shm` only its writer can set up, as after a kill), it reads the log along through an index
/// in memory. With a rollback journal of a crash, what is in the file itself is shown, and the second value is true.
pub(super) fn open_untouched(path: &Path) -> Result<(Connection, bool), StoreError> {
    let [wal, shm, journal] = beside(path);
    let log = has_bytes(&wal);
    if log && shm.exists() {
        let connection = open_uri(path, "mode=ro&readonly_shm=1")?;
        if connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).is_ok() {
            return Ok((connection, has_bytes(&journal)));
        }
    }
    if log && let Some(connection) = open_with_log(path) {
        return Ok((connection, has_bytes(&journal)));
    }
    Ok((open_uri(path, "mode=ro&immutable=1")?, log || has_bytes(&journal)))
}

/// Opens a database that nobody has open, with the log that a killed process left beside it. The index of the log is
/// kept in memory (`locking_mode=EXCLUSIVE`), no lock is taken, and nothing is merged: neither file is written.
fn open_with_log(path: &Path) -> Option<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags_and_vfs(path, flags, c"unix-none").ok()?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).ok()?;
    connection.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |_| Ok(())).ok()?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).ok()?;
    Some(connection)
}

/// A file that is read without SQLite's locks, as it was when it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Still {
    path: PathBuf,
    /// Which file it is, its length and when it was written.
    stamp: Option<(u64, u64, SystemTime)>,
}

impl Still {
    pub(super) fn of(path: &Path) -> Self {
        let stamp = std::fs::metadata(path).ok().and_then(|m| Some((m.ino(), m.len(), m.modified().ok()?)));
        Self { path: path.to_owned(), stamp }
    }

    /// What was read may be none of what was ever stored.
    pub(super) fn check(&self) -> Result<(), String> {
        if *self == Self::of(&self.path) {
            return Ok(());
        }
        Err(format!(
            "{} was written while it was read; read it again when it is not being written",
            self.path.display()
        ))
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
        return Err(StoreError::NotSupported(format!(
            "{}: beside it lies a log of writes that are not merged into it and cannot be read along; open it once \
             with sqlite3, which merges them",
            path.display()
        )));
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

/// Opens a database for writing. The journal mode is set only where the file is ours: it is a
/// property of the file.
pub(super) fn open_writable(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|e| store_error(path, "open it", &e))?;
    connection.busy_timeout(Duration::from_secs(10)).map_err(|e| store_error(path, "open it", &e))?;
    Ok(connection)
}
