//! The database folder: whose it is, found without opening the engine, which would write into it.
//!
//! The marker is the file `storebench.marker`, plain lines of words:
//!
//! ```text
//! storebench 1
//! folder made
//! database made
//! collection users json; study
//! index users#country
//! ```

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::Path;

use storebench_engine::store::ordered_map::Marker as Tables;
use storebench_engine::store::{Holdings, Namespace, StoreError};

use crate::location::{check_parent, io_error, sync_parent};

const MARKER: &str = "storebench.marker";
/// Fjall's lock: whoever has the database open has it locked.
const LOCK: &str = "lock";
/// The marker while it is written.
const NEW_MARKER: &str = "storebench.marker.new";
const FIRST_LINE: &str = "storebench 1";

/// Storebench's own record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Marker {
    /// Whether Storebench made the folder.
    pub(super) made_folder: bool,
    /// Whether Storebench made the database in it.
    pub(super) made_database: bool,
    /// Whether the database is being removed: what is left of it holds nothing.
    pub(super) emptying: bool,
    /// The keyspaces made here.
    pub(super) tables: Tables,
}

/// What a look at the folder found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(super) exists: bool,
    /// Whether fjall's version file is there.
    pub(super) is_database: bool,
    pub(super) marker: Option<Marker>,
    /// Names of what is neither fjall's nor the marker.
    theirs: Vec<String>,
}

impl Found {
    pub(super) fn holdings(&self) -> Holdings {
        let what = if self.is_database { "a fjall database" } else { "files of others" };
        Holdings {
            absent: self.marker.is_none() && self.theirs.is_empty() && !self.is_database,
            foreign: match (&self.marker, self.theirs.as_slice()) {
                (None, []) if !self.is_database => None,
                (Some(marker), []) if marker.made_database => None,
                (_, []) => Some(what.to_owned()),
                (_, [one]) => Some(format!("{what} with `{one}`")),
                (_, [first, rest @ ..]) => Some(format!("{what} with `{first}` and {} more", rest.len())),
            },
            marked: self.marker.iter().flat_map(|marker| marker.tables.owners()).collect(),
            ..Holdings::default()
        }
    }

    pub(super) fn namespace(&self) -> Namespace {
        self.holdings().namespace()
    }

    /// Whether what is there was left by somebody who was killed while the database was made or removed: the engine would
    /// take old files for parts of a new database.
    pub(super) fn is_left_over(&self) -> bool {
        self.marker.as_ref().is_some_and(|marker| {
            marker.emptying || marker.made_database && !self.is_database && !marker.tables.has_users()
        })
    }

    /// Whether the user's data was there, and fjall's version file is gone.
    pub(super) fn is_damaged(&self) -> bool {
        !self.is_database
            && self.marker.as_ref().is_some_and(|marker| marker.made_database && marker.tables.has_users())
    }
}

/// Whether fjall makes files of this name.
fn is_engines(name: &str) -> bool {
    matches!(name, LOCK | "version" | "keyspaces")
        || name.strip_suffix(".jnl").is_some_and(|number| number.parse::<u64>().is_ok())
}

/// Looks at the folder, changing nothing.
pub(super) fn look(path: &Path) -> Result<Found, StoreError> {
    check_parent(path)?;
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::default()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            return Err(StoreError::Unreachable(format!(
                "{}: this is a file, and a fjall database is a folder; use another path",
                path.display()
            )));
        }
        Err(error) => return Err(io_error(path, "look into it", &error)),
    };
    let mut found = Found { exists: true, ..Found::default() };
    let mut engines = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| io_error(path, "look into it", &e))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "version" {
            found.is_database = true;
        }
        if is_engines(&name) {
            engines.push(name);
        } else if name != MARKER && name != NEW_MARKER {
            found.theirs.push(name);
        }
    }
    found.marker = read_marker(path)?;
    if found.marker.is_none() && !found.is_database {
        // Without fjall's version file these names are just names.
        found.theirs.append(&mut engines);
    }
    found.theirs.sort();
    Ok(found)
}

/// Reads the marker; none where there is none, or where it is not one of ours.
pub(super) fn read_marker(path: &Path) -> Result<Option<Marker>, StoreError> {
    let file = path.join(MARKER);
    let text = match std::fs::read(&file) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(&file, "read it", &error)),
    };
    let mut lines = text.lines();
    if lines.next() != Some(FIRST_LINE) {
        return Err(StoreError::Failed(format!(
            "{}: this marker is damaged, so whose folder this is cannot be told; nothing was touched. Remove the \
             folder if it is Storebench's, or use another path",
            file.display()
        )));
    }
    let mut marker = Marker::default();
    for line in lines {
        match line.split_once(' ') {
            Some(("folder", how)) => marker.made_folder = how == "made",
            Some(("database", how)) => {
                marker.emptying = how == "emptying";
                marker.made_database = marker.emptying || how == "made";
            }
            // The detail is behind the name of a collection; names of indexes may hold spaces.
            Some(("collection", rest)) => {
                let end = "collection ".len() + rest.find(' ').unwrap_or(rest.len());
                marker.tables.read(&line[..end], line[end..].trim_start());
            }
            _ => marker.tables.read(line, ""),
        }
    }
    Ok(Some(marker))
}

/// Writes the marker, such that a crash leaves the old one or the new one.
pub(super) fn write_marker(path: &Path, marker: &Marker) -> Result<(), StoreError> {
    let word = |made| if made { "made" } else { "found" };
    let database = if marker.emptying { "emptying" } else { word(marker.made_database) };
    let mut text = format!("{FIRST_LINE}\nfolder {}\ndatabase {database}\n", word(marker.made_folder));
    for (row, detail) in marker.tables.rows() {
        let space = if detail.is_empty() { "" } else { " " };
        text += &format!("{row}{space}{detail}\n");
    }
    let (file, new) = (path.join(MARKER), path.join(NEW_MARKER));
    let write = || {
        let mut made = File::create(&new)?;
        made.write_all(text.as_bytes())?;
        made.sync_all()?;
        std::fs::rename(&new, &file)?;
        sync(path)
    };
    write().map_err(|e| {
        let _ = std::fs::remove_file(&new);
        io_error(&file, "write it", &e)
    })
}

fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The error where somebody else has the database open.
pub(super) fn in_use(path: &Path) -> StoreError {
    StoreError::Unreachable(format!(
        "{}: another process, or a session that is still open, has this database open; wait until it ends",
        path.display()
    ))
}

/// Holds fjall's lock of the folder, as an open database does. An error where another process has it.
pub(super) fn hold(path: &Path) -> Result<File, StoreError> {
    let file = path.join(LOCK);
    let lock = File::options().create(true).truncate(false).write(true).open(&file);
    let lock = lock.map_err(|e| io_error(&file, "open it", &e))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(in_use(path)),
        Err(TryLockError::Error(error)) => Err(io_error(&file, "lock it", &error)),
    }
}

/// Makes the folder.
pub(super) fn make(path: &Path) -> Result<(), StoreError> {
    std::fs::create_dir(path).map_err(|e| io_error(path, "make this folder", &e))?;
    sync_parent(path)
}

/// Removes what fjall made in the folder but its lock, which the caller has to hold; gives the marker that stays. It says first
/// that this goes on, so that whoever comes after a kill ends it.
pub(super) fn empty(path: &Path, marker: &Marker, _held: &File) -> Result<Marker, StoreError> {
    let left = Marker { made_folder: marker.made_folder, made_database: true, ..Marker::default() };
    write_marker(path, &Marker { emptying: true, ..left.clone() })?;
    for entry in std::fs::read_dir(path).map_err(|e| io_error(path, "look into it", &e))? {
        let entry = entry.map_err(|e| io_error(path, "look into it", &e))?;
        let name = entry.file_name();
        if name == LOCK || !is_engines(&name.to_string_lossy()) {
            continue;
        }
        let file = entry.path();
        let removed = if file.is_dir() { std::fs::remove_dir_all(&file) } else { std::fs::remove_file(&file) };
        removed.map_err(|e| io_error(&file, "remove it", &e))?;
    }
    // Before the marker says that the database is gone: nothing of it comes back after a power failure.
    sync(path).map_err(|e| io_error(path, "sync it", &e))?;
    Ok(left)
}

/// Removes fjall's lock from an emptied folder.
pub(super) fn remove_lock(path: &Path) -> Result<(), StoreError> {
    let file = path.join(LOCK);
    std::fs::remove_file(&file).map_err(|e| io_error(&file, "remove it", &e))
}

/// Removes the marker, and the folder where it is ours and nothing else is in it.
pub(super) fn remove_marker(path: &Path, folder: bool) -> Result<(), StoreError> {
    let file = path.join(MARKER);
    std::fs::remove_file(&file).map_err(|e| io_error(&file, "remove it", &e))?;
    if folder {
        match std::fs::remove_dir(path) {
            Err(error) if error.kind() != ErrorKind::DirectoryNotEmpty => {
                return Err(io_error(path, "remove this folder", &error));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_the_lock_is_not_emptied_by_another() {
        let folder = tempfile::tempdir().unwrap();
        let held = hold(folder.path()).unwrap();
        assert!(matches!(hold(folder.path()), Err(StoreError::Unreachable(_))));
        std::fs::write(folder.path().join("0.jnl"), b"x").unwrap();
        empty(folder.path(), &Marker::default(), &held).unwrap();
        assert!(!folder.path().join("0.jnl").exists() && folder.path().join(LOCK).exists());
        assert!(matches!(hold(folder.path()), Err(StoreError::Unreachable(_))), "the lock stays in its place");
        drop(held);
        hold(folder.path()).unwrap();
    }
}
