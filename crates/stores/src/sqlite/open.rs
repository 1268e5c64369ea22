//! Opens the file without unintended changes on disk.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use storebench_engine::store::StoreError;
use storebench_engine::store::location::io_error;

use super::errors::store_error;

/// The files that SQLite keeps next to a database.
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

/// Opens a database without changing anything on disk, not even by creating `-wal` or `-shm`.
///
/// Without a log, the file is opened as immutable. With a log, SQLite reads the log through the existing `-shm`, opened
/// read-only. That fails if there is no `-shm`, or if only its writer can set it up, as after a kill. Then SQLite reads
/// the log through an index in memory. The second value is true if some writes are not shown: there is a rollback
/// journal of a crash, or a log that cannot be read.
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

/// Opens a database that nobody has open, with the log that a killed process left. The index of the log is in memory
/// (`locking_mode=EXCLUSIVE`). It takes no lock and merges nothing, so neither file is written.
fn open_with_log(path: &Path) -> Option<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags_and_vfs(path, flags, c"unix-none").ok()?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).ok()?;
    connection.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |_| Ok(())).ok()?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).ok()?;
    Some(connection)
}

/// The state of a file when it was opened, for reading without SQLite's locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Still {
    path: PathBuf,
    /// Inode, length and modification time.
    stamp: Option<(u64, u64, SystemTime)>,
}

impl Still {
    pub(super) fn of(path: &Path) -> Self {
        let stamp = std::fs::metadata(path).ok().and_then(|m| Some((m.ino(), m.len(), m.modified().ok()?)));
        Self { path: path.to_owned(), stamp }
    }

    /// Checks that the file has not changed. If it has, the data read may be inconsistent.
    pub(super) fn check(&self) -> Result<(), String> {
        if *self == Self::of(&self.path) {
            return Ok(());
        }
        Err(format!("{} changed during the read; retry when nobody is writing to it", self.path.display()))
    }
}

/// Opens a database to read its committed data, without changing anything on disk. If locks would require creating a
/// `-shm`, it is opened without locks, and the caller must check for changes with the returned [`Still`].
///
/// # Errors
/// If there is a log that cannot be read.
pub(super) fn open_reading(path: &Path) -> Result<(Connection, Option<Still>), StoreError> {
    let [wal, shm, journal] = beside(path);
    if wal.exists() && shm.exists() {
        // Somebody has it open, perhaps with an empty log.
        let connection = open_uri(path, "mode=ro&readonly_shm=1")?;
        if connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).is_ok() {
            return Ok((connection, None));
        }
    }
    if has_bytes(&wal) {
        return Err(StoreError::NotSupported(format!(
            "{}: its log contains writes that are not merged yet and cannot be read; open the file once with sqlite3 \
             to merge them",
            path.display()
        )));
    }
    // Without locks, SQLite refuses to open a database in WAL mode, whether or not there is a log now.
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

/// Opens a database for reading. Closing it does not merge the log.
pub(super) fn open_uri(path: &Path, how: &str) -> Result<Connection, StoreError> {
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
        .map_err(|e| match path.try_exists() {
            // Those who open it have seen it.
            Ok(false) => StoreError::Failed(format!(
                "{}: others change it at the same time, and have removed it; try again when they have finished",
                path.display()
            )),
            _ => store_error(path, "open it", &e),
        })
}

/// Opens a database for writing. Does not change the journal mode, which is a property of the file.
pub(super) fn open_writable(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|e| store_error(path, "open it", &e))?;
    connection.busy_timeout(Duration::from_secs(10)).map_err(|e| store_error(path, "open it", &e))?;
    Ok(connection)
}
