//! The database file: its contents and owners, and its creation and removal.
//!
//! The marker is the table `storebench_marker`. It says whether Storebench created the file, and names the collections
//! that Storebench created in it, each with its format and its owner.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, TransactionBehavior, params};
use storebench_engine::store::location::{check_parent, guarded, io_error, kind_of};
use storebench_engine::store::{Holdings, Layout, Marked, Removal, Site, SiteOutcome, StoreError, Wanted, several};
use storebench_study::workload::Body;

use super::Settings;
use super::errors::store_error;
use super::open::{Still, beside, has_bytes, open_untouched, open_writable};
use super::sql::{self, Format};

const MARKER: &str = "storebench_marker";
/// The number of attempts to read a file that changes meanwhile.
const LOOKS: usize = 10;
/// How often a file that cannot be read, and does not change, is looked at.
const DOUBTS: usize = 5;
/// The timeout for a lock held by others who open a new file at the same moment.
const PATIENCE: Duration = Duration::from_secs(2);
/// The marker's values for a file that Storebench created, and for one that is about to be removed.
const MADE: &str = "made";
const REMOVING: &str = "removing";

/// The file, and the contents found by the last look at it.
pub(super) struct DatabaseFile<'s> {
    pub(super) path: &'s Path,
    pub(super) settings: &'s Settings,
    pub(super) found: FileContents,
}

/// The result of a look at the path.
#[derive(Debug, Default)]
pub(super) enum FileContents {
    /// No file, or one of 0 bytes, which is an empty database for SQLite.
    #[default]
    Nothing,
    /// A file that is not an SQLite database. Holds a description of what it is.
    Other(String),
    /// A database.
    Database(Tables),
}

/// The contents of a database.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tables {
    /// Whether Storebench created the file; `None` without a marker.
    made: Option<bool>,
    /// The collections that Storebench created.
    marked: Vec<Marked>,
    /// Tables and views that Storebench did not create.
    theirs: Vec<String>,
    /// Whether there is a log or journal that cannot be read without changing something.
    unmerged: bool,
    /// Whether another process is removing the file, or was killed while it did.
    removing: bool,
}

impl Tables {
    /// Whether the database is empty, as after a kill between creating and marking the file. It then counts as
    /// Storebench's, because nobody can lose data.
    fn blank(&self) -> bool {
        self.made.is_none() && self.theirs.is_empty() && !self.unmerged
    }

    /// A description of the contents that belong to others. `None` if Storebench created everything in the file, for
    /// studies or for the user's data.
    fn foreign(&self) -> Option<String> {
        // An unreadable log may hold the owners of the collections. A removal checks the contents before it starts.
        let unread = self.unmerged && !self.removing;
        if self.blank() || self.theirs.is_empty() && !unread && self.made == Some(true) {
            return None;
        }
        let what = several("table", &self.theirs).unwrap_or_else(|| "no other tables".to_owned());
        let mut text = format!("an SQLite database with {what}");
        if self.made.is_some() {
            text += &format!(" besides {} of Storebench's", self.marked.len());
        }
        if self.unmerged {
            text += ", and a log of writes that are not merged yet (open the file once with sqlite3)";
        }
        Some(text)
    }
}

impl FileContents {
    pub(super) fn holdings(&self) -> Holdings {
        match self {
            Self::Nothing => Holdings { absent: true, ..Holdings::default() },
            Self::Other(what) => {
                Holdings { foreign: Some(format!("{what}, not an SQLite database")), ..Holdings::default() }
            }
            Self::Database(tables) => Holdings {
                absent: tables.blank(),
                foreign: tables.foreign(),
                made: tables.made,
                marked: tables.marked.clone(),
                theirs: tables.theirs.clone(),
                removing: tables.removing,
            },
        }
    }
}

impl<'s> DatabaseFile<'s> {
    /// Looks at the path without changing anything.
    pub(super) fn look(path: &'s Path, settings: &'s Settings) -> Result<Self, StoreError> {
        let found = guarded(path, || look(path))?;
        Ok(Self { path, settings, found })
    }

    /// The contents of an existing database, for reading.
    ///
    /// # Errors
    /// If there is no database.
    pub(super) fn database(&self) -> Result<Holdings, StoreError> {
        self.refuse_other()?;
        match &self.found {
            FileContents::Database(_) => Ok(self.found.holdings()),
            _ => Err(StoreError::Unreachable(format!("{}: there is no SQLite database", self.path.display()))),
        }
    }

    /// Refuses a file that is not an SQLite database. The error says what to do.
    pub(super) fn refuse_other(&self) -> Result<(), StoreError> {
        let FileContents::Other(what) = &self.found else { return Ok(()) };
        Err(StoreError::NotOurs(format!(
            "{} is {what}, not an SQLite database; nothing was touched. To read or write it as a file, remove \
             `sqlite:`; for a database, use another path",
            self.path.display()
        )))
    }
}

impl Site for DatabaseFile<'_> {
    const ANOTHER: &'static str = "another path";
    const OTHER_FORM: &'static str = "change ?format=";
    const RESERVED: &'static str = MARKER;

    fn shown(&self) -> String {
        self.path.display().to_string()
    }

    fn form(&self, body: Body) -> String {
        Format::of(body, self.settings.jsonb).name().to_owned()
    }

    /// SQLite ignores case in table names.
    fn alike(&self, one: &str, other: &str) -> bool {
        one.eq_ignore_ascii_case(other)
    }

    fn check(&self, layout: &Layout) -> Result<(), StoreError> {
        let mut names = layout.collections.iter().map(|collection| &collection.name);
        match names.find(|name| name.to_ascii_lowercase().starts_with("sqlite_")) {
            None => Ok(()),
            Some(name) => {
                Err(StoreError::NotSupported(format!("SQLite reserves the table name `{name}`; rename the collection")))
            }
        }
    }

    async fn look(&mut self) -> Result<Holdings, StoreError> {
        self.found = guarded(self.path, || look(self.path))?;
        Ok(self.found.holdings())
    }

    async fn rest(&mut self) {
        std::thread::sleep(Duration::from_millis(100));
    }

    async fn make(&mut self, wanted: &Wanted<'_>) -> Result<SiteOutcome, StoreError> {
        let path = self.path;
        // Exclusive creation shows whether this call created the file.
        let made = match std::fs::File::create_new(path) {
            Ok(_) => true,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(io_error(path, "create it", &error)),
        };
        let Some(file) = identity(path) else { return Ok(SiteOutcome::Changed) };
        let result = self.create(wanted, file);
        if result.is_err() && identity(path) != Some(file) {
            return Ok(SiteOutcome::Changed);
        }
        if made && result.is_err() {
            let _ = open_writable(path).and_then(|connection| unlink(path, file, connection, |_| !has_bytes(path)));
        }
        result
    }

    async fn unmake(&mut self, removal: &Removal) -> Result<SiteOutcome, StoreError> {
        let path = self.path;
        if removal.whole {
            return self.remove_whole();
        }
        let failed = |e: rusqlite::Error| store_error(path, "remove Storebench's tables", &e);
        let mut connection = open_writable(path)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        if self.has_changed(&transaction).map_err(failed)? {
            return Ok(SiteOutcome::Changed);
        }
        for Marked { name, .. } in &removal.going {
            transaction.execute_batch(&format!("DROP TABLE IF EXISTS {}", sql::identifier(name))).map_err(failed)?;
            let forget = format!("DELETE FROM {MARKER} WHERE kind = 'collection' AND name = ?1");
            transaction.execute(&forget, [name]).map_err(failed)?;
        }
        if removal.left.is_empty() {
            transaction.execute_batch(&format!("DROP TABLE {MARKER}")).map_err(failed)?;
        }
        transaction.commit().map_err(failed)?;
        Ok(SiteOutcome::Done)
    }
}

impl DatabaseFile<'_> {
    /// Whether others changed the contents since the look.
    fn has_changed(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let now = tables(connection, false)?;
        Ok(match &self.found {
            FileContents::Database(found) => now != *found,
            _ => now != Tables::default(),
        })
    }

    /// Removes the file. It first marks the file as being removed. So a copy that starts meanwhile is refused, and the
    /// next study removes what a kill leaves.
    fn remove_whole(&self) -> Result<SiteOutcome, StoreError> {
        let path = self.path;
        let Some(file) = identity(path) else { return Ok(SiteOutcome::Changed) };
        let mut connection = open_writable(path)?;
        let failed = |e: rusqlite::Error| store_error(path, "remove it", &e);
        let file_is = |before: &str, now: &str| {
            format!("UPDATE {MARKER} SET detail = '{now}' WHERE kind = 'file' AND detail = '{before}'")
        };
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        if identity(path) != Some(file) || self.has_changed(&transaction).map_err(failed)? {
            return Ok(SiteOutcome::Changed);
        }
        transaction.execute(&file_is(MADE, REMOVING), []).and_then(|_| transaction.commit()).map_err(failed)?;
        let as_found = |now: &Tables| match &self.found {
            FileContents::Database(found) => now.theirs == found.theirs && now.marked == found.marked,
            _ => false,
        };
        // Merges and removes the log, if nobody else has the file open.
        let merged = set_journal_mode(&connection, "DELETE").map_err(failed);
        let gone = merged.and_then(|_| unlink(path, file, connection, as_found));
        if !matches!(gone, Ok(true)) && identity(path) == Some(file) {
            open_writable(path)?.execute(&file_is(REMOVING, MADE), []).map_err(failed)?;
        }
        gone.map(|gone| if gone { SiteOutcome::Done } else { SiteOutcome::Changed })
    }

    fn create(&self, wanted: &Wanted<'_>, file: (u64, u64)) -> Result<SiteOutcome, StoreError> {
        let path = self.path;
        let mut connection = open_writable(path)?;
        let failed = |e: rusqlite::Error| store_error(path, "create the collections", &e);
        if self.has_changed(&connection).map_err(failed)? {
            return Ok(SiteOutcome::Changed);
        }
        if self.found.holdings().foreign.is_none() {
            let wanted = self.settings.journal;
            let mode = set_journal_mode(&connection, wanted).map_err(failed)?;
            if !mode.eq_ignore_ascii_case(wanted) {
                return Err(StoreError::Failed(format!(
                    "{}: SQLite kept the journal mode `{mode}` instead of `{wanted}`; add ?journal={mode}",
                    path.display()
                )));
            }
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        // Others may have removed the file meanwhile.
        if identity(path) != Some(file) || self.has_changed(&transaction).map_err(failed)? {
            return Ok(SiteOutcome::Changed);
        }
        if wanted.first {
            transaction
                .execute_batch(&format!(
                    "CREATE TABLE {MARKER} (kind TEXT NOT NULL, name TEXT NOT NULL, detail TEXT NOT NULL, \
                     PRIMARY KEY (kind, name)) STRICT, WITHOUT ROWID"
                ))
                .map_err(failed)?;
            let made = if wanted.made { MADE } else { "found" };
            transaction.execute(&format!("INSERT INTO {MARKER} VALUES ('file', '', ?1)"), [made]).map_err(failed)?;
        }
        for planned in &wanted.collections {
            let name = planned.name();
            if planned.is_new() {
                let format = Format::of(planned.layout.body, self.settings.jsonb);
                transaction.execute_batch(&sql::create_table(name, format)).map_err(failed)?;
            }
            if planned.marks() {
                let mark = format!("INSERT OR REPLACE INTO {MARKER} VALUES ('collection', ?1, ?2)");
                transaction.execute(&mark, params![name, planned.mark]).map_err(failed)?;
            }
            for fields in &planned.layout.indexes {
                transaction.execute_batch(&sql::create_index(name, fields)?).map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)?;
        Ok(SiteOutcome::Done)
    }
}

/// Sets the journal mode. Returns the mode that the file then has. SQLite does not wait for the lock that this needs,
/// and others who open a new file need it too. So this function retries.
fn set_journal_mode(connection: &Connection, wanted: &str) -> rusqlite::Result<String> {
    let began = Instant::now();
    loop {
        match connection.query_row(&format!("PRAGMA journal_mode = {wanted}"), [], |row| row.get(0)) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && began.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(2));
            }
            mode => return mode,
        }
    }
}

/// Looks at the path without changing anything.
fn look(path: &Path) -> Result<FileContents, StoreError> {
    check_parent(path)?;
    look_again(path, LOOKS, &std::thread::sleep)
}

/// Looks up to so many times, and lets `wait` pass the time in between.
fn look_again(path: &Path, tries: usize, wait: &dyn Fn(Duration)) -> Result<FileContents, StoreError> {
    let still = Still::of(path);
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(FileContents::Nothing),
        Err(error) => return Err(io_error(path, "read it", &error)),
        Ok(metadata) if metadata.is_dir() => {
            return Err(StoreError::Unreachable(format!(
                "{}: this is a folder; name the database file itself, such as sqlite:{}/documents.db",
                path.display(),
                path.display()
            )));
        }
        Ok(metadata) if !metadata.is_file() => return Ok(FileContents::Other("a pipe or a device".to_owned())),
        Ok(metadata) if metadata.len() == 0 && !has_bytes(&beside(path)[0]) => return Ok(FileContents::Nothing),
        Ok(_) => {}
    }
    match contents(path) {
        // The file was read without locks, and somebody wrote or removed it meanwhile.
        Err(_) if tries > 1 && still.check().is_err() => look_again(path, tries - 1, wait),
        // A write that had begun before the file was opened may have ended after that, without another change of its
        // times. What is damaged stays so.
        Err(_) if tries > 1 => {
            wait(Duration::from_millis(10));
            look_again(path, tries.min(DOUBTS) - 1, wait)
        }
        // A journal exists during a commit, and after a kill.
        Ok(FileContents::Database(found)) if tries > 1 && found.unmerged => {
            wait(Duration::from_millis(2));
            look_again(path, tries - 1, wait)
        }
        contents => contents,
    }
}

/// The contents of an existing file.
fn contents(path: &Path) -> Result<FileContents, StoreError> {
    // Let SQLite read the header. If this process opened and closed the file itself, that would drop SQLite's locks
    // on it (https://www.sqlite.org/howtocorrupt.html, 2.2).
    let (connection, unmerged) = open_untouched(path)?;
    match tables(&connection, unmerged) {
        Ok(tables) => Ok(FileContents::Database(tables)),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            Ok(FileContents::Other(kind_of(path)))
        }
        Err(error) => Err(store_error(path, "read its tables", &error)),
    }
}

fn tables(connection: &Connection, unmerged: bool) -> rusqlite::Result<Tables> {
    let mut found = Tables { unmerged, ..Tables::default() };
    let mut names = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name")?;
    let names: Vec<String> = names.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    if names.iter().any(|name| name == MARKER) {
        found.made = Some(false);
        let mut rows = connection.prepare(&format!("SELECT kind, name, detail FROM {MARKER}"))?;
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            let (kind, name, detail): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            match kind.as_str() {
                "file" => {
                    found.removing = detail == REMOVING;
                    found.made = Some(detail == MADE || found.removing);
                }
                "collection" => found.marked.push(Marked::new(name, detail)),
                _ => {}
            }
        }
    }
    let ours = |name: &String| name == MARKER || found.marked.iter().any(|marked| marked.name == *name);
    found.theirs = names.into_iter().filter(|name| !ours(name)).collect();
    Ok(found)
}

/// The device and inode of the file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Removes the file if its tables are as expected, while nobody else can read or write it. There is no log or journal
/// then, so a database that somebody creates under this name next is not affected.
fn unlink(
    path: &Path,
    file: (u64, u64),
    mut connection: Connection,
    expected: impl Fn(&Tables) -> bool,
) -> Result<bool, StoreError> {
    let failed = |e: rusqlite::Error| store_error(path, "remove it", &e);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive).map_err(failed)?;
    // SQLite also locks a file whose path now belongs to another file.
    let same = identity(path) == Some(file) && expected(&tables(&transaction, false).map_err(failed)?);
    if same {
        std::fs::remove_file(path).map_err(|e| io_error(path, "remove it", &e))?;
    }
    Ok(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As when the system has set the file's time for a write, and stores its bytes a moment later.
    #[test]
    fn a_file_that_is_half_written_for_a_moment_is_not_called_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it");
        std::fs::write(&path, "").unwrap();
        let connection = open_writable(&path).unwrap();
        connection.execute_batch("CREATE TABLE a (b); CREATE TABLE c (d)").unwrap();
        connection.close().unwrap();
        let whole = std::fs::read(&path).unwrap();
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        let write = |bytes: &[u8]| {
            use std::os::unix::fs::FileExt as _;
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.write_all_at(bytes, 0).unwrap();
            file.set_modified(time).unwrap();
        };
        let mut torn = whole.clone();
        torn[100..200].fill(0xff);
        write(&torn);
        assert!(contents(&path).is_err(), "it cannot be read now");
        let found = look_again(&path, LOOKS, &|_| write(&whole));
        assert!(matches!(found, Ok(FileContents::Database(found)) if found.theirs == ["a", "c"]));
        write(&torn);
        assert!(look(&path).err().unwrap().to_string().contains("damaged"));
    }

    /// Between the look and the opening.
    #[test]
    fn a_file_that_has_just_been_removed_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let told = open_untouched(&folder.path().join("it")).err().unwrap().to_string();
        assert!(told.contains("others change it at the same time"), "{told}");
    }

    #[test]
    fn a_file_that_came_in_its_place_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let [path, new] = ["it", "new"].map(|name| folder.path().join(name));
        std::fs::write(&path, "").unwrap();
        let (file, connection) = (identity(&path).unwrap(), open_writable(&path).unwrap());
        connection.execute("CREATE TABLE a (b)", []).unwrap();
        std::fs::write(&new, "somebody's").unwrap();
        std::fs::rename(&new, &path).unwrap();
        assert!(!unlink(&path, file, connection, |_| true).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"somebody's");
    }
}
