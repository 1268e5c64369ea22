//! Databases in separate folders. Their owner is found without opening the engine, which would write.
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
//!
//! A process that changes something, or has the database open, holds a lock on the folder.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{Change, Database, DatabasePlace, Engine, FoundDatabase, Marker, Taken};
use crate::store::StoreError;
use crate::store::location::{IN_USE, check_parent, io_error, sync_parent};

const MARKER: &str = "storebench.marker";
/// The marker while it is being written.
const NEW_MARKER: &str = "storebench.marker.new";
/// How often to look at a folder whose marker changes meanwhile.
const LOOKS: usize = 10;
const FIRST_LINE: &str = "storebench 1";

/// An engine whose database is everything in a folder.
#[allow(clippy::missing_errors_doc)]
pub trait InFolder: Engine {
    /// The file without which there is no database.
    const SIGN: &'static str;
    /// The file that is locked while the database is open; `None` if the engine locks in another way.
    const LOCK: Option<&'static str> = None;

    /// Whether the engine creates files or folders with this name.
    fn makes(name: &str) -> bool;

    /// Opens the database in the folder, which exists. Creates the database if there is none.
    fn open(&self) -> Result<Self::Database, StoreError>;
}

/// The contents of the marker file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Record {
    /// Whether Storebench made the folder.
    made_folder: bool,
    /// Whether the database is being removed: what is left of it holds no data.
    emptying: bool,
    tables: Marker,
}

impl<E: InFolder> DatabasePlace for E {
    fn look(&self, _: Option<&Self::Database>) -> Result<FoundDatabase, StoreError> {
        look::<E>(self.path()).map(|(found, _)| found)
    }

    fn take(&self, found: &FoundDatabase) -> Result<Option<Taken<Self::Database>>, StoreError> {
        let path = self.path();
        if !found.exists {
            match std::fs::create_dir(path) {
                Ok(()) => sync_parent(path)?,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
                Err(error) => return Err(io_error(path, "create this folder", &error)),
            }
        }
        let Some((lock, now, record)) = hold::<E>(path, found)? else { return Ok(None) };
        // The engine would take what is left of an old database for parts of a new one.
        let left_over = record.as_ref().filter(|record| record.tables.made && !now.database);
        let held = left_over.map(|record| empty::<E>(path, Some(record))).transpose()?;
        let made = Marker { made: !now.database, ..Marker::default() };
        let record = record.unwrap_or(Record { made_folder: !found.exists, emptying: false, tables: made });
        if record.tables.made {
            // Before the engine's files, so that what a crash leaves is known to be Storebench's.
            write(path, &Record { emptying: false, ..record })?;
        }
        // The engine takes this lock itself.
        drop(held);
        Ok(Some(Taken { database: self.open()?, lock: Some(lock) }))
    }

    fn read(&self, found: &FoundDatabase) -> Result<Option<Taken<Self::Database>>, StoreError> {
        let (path, name) = (self.path(), Self::Database::NAME);
        match &found.foreign {
            Some(foreign) if !found.marker.as_ref().is_some_and(|marker| marker.made) => {
                Err(StoreError::NotSupported(format!(
                    "{} holds {foreign}; {name} cannot open a folder without writing into it, so it was left alone. Copy it \
                     and pass the copy with --into-existing",
                    path.display()
                )))
            }
            _ => match hold::<E>(path, found)? {
                Some((lock, ..)) => Ok(Some(Taken { database: self.open()?, lock: Some(lock) })),
                None => Ok(None),
            },
        }
    }

    fn commit(&self, database: &Self::Database, change: &Change) -> Result<(), StoreError> {
        let path = self.path();
        let made_folder = read(path)?.is_some_and(|record| record.made_folder);
        let record = |tables: &Marker| Record { made_folder, emptying: false, tables: tables.clone() };
        // A crash between the two steps leaves a mark without its table, but no table without its mark.
        match &change.marker {
            Some(marker) if change.removed.is_empty() => {
                write(path, &record(marker))?;
                self.change(database, change)
            }
            Some(marker) => {
                self.change(database, change)?;
                write(path, &record(marker))
            }
            None => {
                self.change(database, change)?;
                remove_file(&path.join(MARKER))
            }
        }
    }

    fn destroy(&self, found: &FoundDatabase, again: bool) -> Result<bool, StoreError> {
        let path = self.path();
        let Some((_lock, _, record)) = hold::<E>(path, found)? else { return Ok(false) };
        // Held until the marker is gone, so that nobody creates a database in between.
        let _held = empty::<E>(path, record.as_ref())?;
        if again {
            let made_folder = record.is_some_and(|record| record.made_folder);
            let tables = Marker { made: true, ..Marker::default() };
            write(path, &Record { made_folder, emptying: false, tables })?;
            return Ok(true);
        }
        if let Some(lock) = E::LOCK {
            remove_file(&path.join(lock))?;
        }
        remove_file(&path.join(MARKER))?;
        if record.is_some_and(|record| record.made_folder) {
            match std::fs::remove_dir(path) {
                Err(error) if error.kind() != ErrorKind::DirectoryNotEmpty => {
                    return Err(io_error(path, "remove this folder", &error));
                }
                _ => {}
            }
        }
        Ok(true)
    }
}

/// Looks at the folder without changing anything. Looks again if others change the marker while the files are listed.
fn look<E: InFolder>(path: &Path) -> Result<(FoundDatabase, Option<Record>), StoreError> {
    check_parent(path)?;
    for _ in 0..LOOKS {
        if list::<E>(path)?.is_none() {
            return Ok((FoundDatabase::default(), None));
        }
        let before = read(path)?;
        let Some(names) = list::<E>(path)? else { continue };
        let record = read(path)?;
        if record == before {
            return Ok(judge::<E>(names, record));
        }
    }
    Err(StoreError::Unreachable(format!("{}: {IN_USE}", path.display())))
}

/// The names in a folder: those of the engine, and others.
#[derive(Default)]
struct Names {
    own: Vec<String>,
    theirs: Vec<String>,
}

/// `None` if there is no folder.
fn list<E: InFolder>(path: &Path) -> Result<Option<Names>, StoreError> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            return Err(StoreError::Unreachable(format!(
                "{}: this is a file, but a {} database is a folder; use another path",
                path.display(),
                E::Database::NAME
            )));
        }
        Err(error) => return Err(io_error(path, "list its files", &error)),
    };
    let mut names = Names::default();
    for entry in entries {
        let entry = entry.map_err(|e| io_error(path, "list its files", &e))?;
        match entry.file_name().to_string_lossy().into_owned() {
            name if name == MARKER || name == NEW_MARKER => {}
            name if E::makes(&name) => names.own.push(name),
            name => names.theirs.push(name),
        }
    }
    Ok(Some(names))
}

/// What the names and the marker say together.
fn judge<E: InFolder>(names: Names, mut record: Option<Record>) -> (FoundDatabase, Option<Record>) {
    let name = E::Database::NAME;
    let Names { mut own, mut theirs } = names;
    let sign = own.iter().any(|name| name == E::SIGN);
    if record.is_none() && !sign {
        // Without the engine's main file, these names have no meaning.
        theirs.append(&mut own);
    }
    theirs.sort();
    let what = if sign { format!("a {name} database") } else { "somebody else's files".to_owned() };
    let made = record.as_ref().is_some_and(|record| record.tables.made);
    let foreign = match theirs.as_slice() {
        [] if made || record.is_none() && !sign => None,
        [] => Some(what),
        [one] => Some(format!("{what} with `{one}`")),
        [first, rest @ ..] => Some(format!("{what} with `{first}` and {} more", rest.len())),
    };
    let has_users = |record: &Record| record.tables.collections.iter().any(|marked| marked.owner().is_user());
    let users = record.as_ref().is_some_and(has_users);
    let database = sign && !record.as_ref().is_some_and(|record| record.emptying);
    if let Some(record) = record.as_mut().filter(|_| made && !database && !users) {
        // The process was killed while it created or removed the database: what is left holds no data.
        record.tables = Marker { made, ..Marker::default() };
    }
    let damage = (!sign && made && users).then(|| {
        format!(
            "its file `{}` is missing, so {name} would begin a new database over what is left of your data; nothing was \
             touched. Restore the folder, or delete what is left with --discard-existing",
            E::SIGN
        )
    });
    let found = FoundDatabase {
        exists: true,
        database,
        other: !sign && foreign.is_some(),
        foreign,
        theirs: Vec::new(),
        marker: record.as_ref().map(|record| record.tables.clone()),
        damage,
    };
    (found, record)
}

/// Locks the folder and looks again. `None` if it has changed since `found`.
fn hold<E: InFolder>(
    path: &Path,
    found: &FoundDatabase,
) -> Result<Option<(File, FoundDatabase, Option<Record>)>, StoreError> {
    let lock = match File::open(path) {
        Ok(folder) => folder,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(path, "open this folder", &error)),
    };
    // Some network file systems cannot lock folders. There the engine's own lock has to do.
    if let Err(TryLockError::WouldBlock) = lock.try_lock() {
        return Err(StoreError::Unreachable(format!("{}: {IN_USE}", path.display())));
    }
    let (now, record) = look::<E>(path)?;
    // The path may lead to another folder by now.
    let here = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let same = lock.metadata().map(here).ok() == std::fs::metadata(path).map(here).ok();
    Ok((same && found.is_still(&now)).then_some((lock, now, record)))
}

/// Removes everything that the engine created in the folder except its lock, and returns that lock, which is held. The
/// marker first records that a removal is under way, so that the next caller finishes it after a kill.
fn empty<E: InFolder>(path: &Path, record: Option<&Record>) -> Result<Option<File>, StoreError> {
    let held = E::LOCK.map(|name| File::options().create(true).truncate(false).write(true).open(path.join(name)));
    let held = held.transpose().map_err(|e| io_error(path, "open its lock", &e))?;
    if let Some(held) = &held {
        held.try_lock().map_err(|e| match e {
            TryLockError::WouldBlock => StoreError::Unreachable(format!("{}: {IN_USE}", path.display())),
            TryLockError::Error(e) => io_error(path, "lock it", &e),
        })?;
    }
    let made_folder = record.is_some_and(|record| record.made_folder);
    let left = Marker { made: true, ..Marker::default() };
    write(path, &Record { made_folder, emptying: true, tables: left })?;
    for entry in std::fs::read_dir(path).map_err(|e| io_error(path, "list its files", &e))? {
        let entry = entry.map_err(|e| io_error(path, "list its files", &e))?;
        let (name, file) = (entry.file_name(), entry.path());
        if E::LOCK.is_some_and(|lock| name == lock) || !E::makes(&name.to_string_lossy()) {
            continue;
        }
        let removed = if file.is_dir() { std::fs::remove_dir_all(&file) } else { std::fs::remove_file(&file) };
        removed.map_err(|e| io_error(&file, "remove it", &e))?;
    }
    // Sync before the marker says that the database is gone, so that nothing of it comes back after a power failure.
    sync(path).map_err(|e| io_error(path, "sync it", &e))?;
    Ok(held)
}

/// Reads the marker; `None` if there is none.
fn read(path: &Path) -> Result<Option<Record>, StoreError> {
    let file = path.join(MARKER);
    let text = match std::fs::read(&file) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(&file, "read it", &error)),
    };
    let mut lines = text.lines();
    if lines.next() != Some(FIRST_LINE) {
        return Err(StoreError::Failed(format!(
            "{}: this marker is damaged, so the owner of this folder is unknown; nothing was touched. Remove the \
             folder if it is Storebench's, or use another path",
            file.display()
        )));
    }
    let mut record = Record::default();
    for line in lines {
        match line.split_once(' ') {
            Some(("folder", how)) => record.made_folder = how == "made",
            Some(("database", how)) => {
                record.emptying = how == "emptying";
                record.tables.made = record.emptying || how == "made";
            }
            // The detail follows the name of a collection. Names of indexes may contain spaces.
            Some(("collection", rest)) => {
                let end = "collection ".len() + rest.find(' ').unwrap_or(rest.len());
                record.tables.read(&line[..end], line[end..].trim_start());
            }
            _ => record.tables.read(line, ""),
        }
    }
    Ok(Some(record))
}

/// Writes the marker in such a way that a crash leaves the old one or the new one.
fn write(path: &Path, record: &Record) -> Result<(), StoreError> {
    let word = |made| if made { "made" } else { "found" };
    let database = if record.emptying { "emptying" } else { word(record.tables.made) };
    let mut text = format!("{FIRST_LINE}\nfolder {}\ndatabase {database}\n", word(record.made_folder));
    for (row, detail) in record.tables.rows() {
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

fn remove_file(file: &Path) -> Result<(), StoreError> {
    std::fs::remove_file(file).map_err(|e| io_error(file, "remove it", &e))
}
