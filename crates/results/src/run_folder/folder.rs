//! The run folder. It is created once and never overwritten. Each file is written whole, except for tables and events,
//! which grow.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use storebench_consistency::History;
use storebench_engine::measure::PhaseRecord;
use storebench_study::Part;

use super::history::write_history;
use super::hlog::histogram_log;
use super::model::RunResult;
use super::part_rows::{PART_FILE, part_row};
use super::pass::Pass;
use super::secrets::Secrets;
use super::tables::{FigureRow, RowKey, Table, append, members, of_trials};

/// The file of a run folder that holds its result.
pub const RESULT_FILE: &str = "run.json";
/// The end of the names of histogram logs.
const LOG: &str = ".hlog";
/// The end of the names of histories.
const HISTORY: &str = ".history.jsonl.gz";
const STUDY_FILE: &str = "study.toml";
const EVENTS_FILE: &str = "events.jsonl";
/// Events are appended here during a run. The file gets its final name when it is complete.
const EVENTS_GROWING: &str = "events.jsonl.part";

/// A run folder that cannot be created, written or read.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder or a file of it could not be written.
    #[error("{path}: cannot be written: {source}; free space or give another folder for runs")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// No run folder can be created in the folder of runs.
    #[error("{path}: cannot create a run folder here: {source}; give another folder with --out")]
    Runs {
        /// The folder of runs.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The folder or a file of it could not be read.
    #[error("{path}: cannot be read: {source}; give the path of a run folder, which holds a {RESULT_FILE}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file is not a result of Storebench, or is damaged.
    #[error("{path}: {what}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        what: String,
    },
    /// The file was written in a format this version does not know.
    #[error("{path}: unknown format `{format}`, expected `{}`; {remedy}", super::model::FORMAT)]
    Format {
        /// The file.
        path: PathBuf,
        /// The format it names.
        format: String,
        /// What to do.
        remedy: String,
    },
}

fn writing(path: &Path) -> impl FnOnce(std::io::Error) -> FolderError + use<> {
    let path = path.to_owned();
    |source| FolderError::Write { path, source }
}

/// Locks a run folder while it is written. The lock is released when the process ends, however it ends.
fn lock(file: &File, path: &Path) -> Result<(), FolderError> {
    rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(|_| FolderError::Corrupt {
        path: path.to_owned(),
        what: "another process is writing this run; wait until it ends".into(),
    })
}

/// A run folder while it is written.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    events: BufWriter<File>,
    secrets: Secrets,
    /// Names of histogram logs and histories: phases whose names differ only by case or punctuation would share one.
    logs: HashSet<String>,
    /// Whether the folder of runs did not exist before.
    first: bool,
}

/// Whether a file of this name in a run folder is one that runs write. The report, which is made from them, is not.
pub fn is_run_file(name: &str) -> bool {
    let fixed = [RESULT_FILE, STUDY_FILE, EVENTS_FILE, PART_FILE];
    let grown = [LOG, HISTORY].iter().any(|end| name.ends_with(end));
    fixed.contains(&name) || (grown && !name.starts_with('.')) || Table::ALL.iter().any(|table| table.file() == name)
}

/// `NAME-YYYYMMDD-HHMMSS` in local time: how folders of runs and copies are called.
pub fn dated(name: &str) -> String {
    format!("{name}-{}", jiff::Zoned::now().strftime("%Y%m%d-%H%M%S"))
}

impl RunFolder {
    /// Creates `RUNS/NAME-YYYYMMDD-HHMMSS` (local time), with a number appended if that exists. The `secrets` are
    /// removed from everything that is written into it.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn create(runs_dir: &Path, name: &str, secrets: Secrets) -> Result<Self, FolderError> {
        let refused = |source| FolderError::Runs { path: runs_dir.to_owned(), source };
        let first = !runs_dir.exists();
        std::fs::create_dir_all(runs_dir).map_err(refused)?;
        let stem = dated(&file_name(name));
        for n in 1.. {
            let path = runs_dir.join(if n == 1 { stem.clone() } else { format!("{stem}-{n}") });
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self { first, ..Self::at(path, secrets)? }),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(refused(source)),
            }
        }
        unreachable!("some number is free")
    }

    /// Creates `RUNS/part-2-of-8`, the folder of one part of a run.
    ///
    /// # Errors
    /// The folder exists, or cannot be created.
    pub fn create_part(runs_dir: &Path, part: Part, secrets: Secrets) -> Result<Self, FolderError> {
        let refused = |path: &Path, source| FolderError::Runs { path: path.to_owned(), source };
        std::fs::create_dir_all(runs_dir).map_err(|e| refused(runs_dir, e))?;
        let path = runs_dir.join(format!("part-{}-of-{}", part.number, part.of));
        match std::fs::create_dir(&path) {
            Ok(()) => Self::at(path, secrets),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Err(FolderError::Corrupt {
                path,
                what: "this part has run before; give all parts a new folder with --out".into(),
            }),
            Err(e) => Err(refused(&path, e)),
        }
    }

    /// Starts a run in an existing folder that holds no run.
    ///
    /// # Errors
    /// The folder holds a run, or cannot be written.
    pub fn at(path: PathBuf, secrets: Secrets) -> Result<Self, FolderError> {
        let events = path.join(EVENTS_GROWING);
        let file = File::create_new(&events).map_err(writing(&events))?;
        lock(&file, &events)?;
        Ok(Self { path, events: BufWriter::new(file), secrets, logs: HashSet::new(), first: false })
    }

    /// Continues a run folder: keeps the rows of these trials, and appends to the events.
    ///
    /// # Errors
    /// The folder cannot be read or written, or another process is writing it.
    pub fn reopen(path: &Path, trials: &[u32], secrets: Secrets) -> Result<Self, FolderError> {
        let (growing, whole) = (path.join(EVENTS_GROWING), path.join(EVENTS_FILE));
        if whole.exists() && !growing.exists() {
            std::fs::rename(&whole, &growing).map_err(writing(&growing))?;
        }
        let file = File::options().append(true).create(true).open(&growing).map_err(writing(&growing))?;
        lock(&file, &growing)?;
        let events = BufWriter::new(file);
        let reopened = Self { path: path.to_owned(), events, secrets, logs: HashSet::new(), first: false };
        for name in Table::ALL.map(Table::file) {
            let table = path.join(&name);
            let kept = of_trials(&table, trials).map_err(|error| FolderError::Corrupt {
                path: table,
                what: format!("this table is damaged: {error}; move it away to continue without its rows"),
            })?;
            if let Some(kept) = kept {
                reopened.put(&name, &kept)?;
            }
        }
        Ok(reopened)
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Saves the study as it was given, without secrets.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_study(&self, text: &str) -> Result<(), FolderError> {
        self.put(STUDY_FILE, self.secrets.hide(text).as_bytes())
    }

    /// Adds a phase, or one pass of it, to the tables and writes its histogram log. `used` are the rows of the table
    /// `server_resources`.
    ///
    /// # Errors
    /// A file cannot be written. Existing files stay intact.
    pub fn add_phase<'a>(
        &mut self,
        trial: u32,
        store: &str,
        pass: Pass,
        record: &PhaseRecord,
        used: impl IntoIterator<Item = FigureRow<'a>>,
    ) -> Result<(), FolderError> {
        let title = format!("trial {trial}, store {store}, phase {}, {pass}", record.name);
        let name = self.unused(&log_name(trial, store, &record.name, pass), LOG);
        let log = histogram_log(record, &title).map_err(writing(&self.path.join(&name)))?;
        self.put(&name, &log)?;
        let place = RowKey { trial, store, phase: &record.name, pass: &pass.to_string() };
        let members = members(place, record, used).map_err(writing(&self.path))?;
        for (table, member) in members.into_iter().filter(|(_, member)| !member.is_empty()) {
            let path = self.path.join(table.file());
            append(&path, &member).map_err(writing(&path))?;
        }
        if record.of_part.is_some() {
            let path = self.path.join(PART_FILE);
            let row = part_row(trial, pass, record, &self.secrets);
            row.and_then(|row| append(&path, &row)).map_err(writing(&path))?;
        }
        Ok(())
    }

    /// Writes what the workers of a pass of a phase saw of the documents that its consistency check follows. Returns the
    /// name of the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add_history(
        &mut self,
        trial: u32,
        store: &str,
        phase: &str,
        pass: Pass,
        history: &History,
    ) -> Result<String, FolderError> {
        let log = log_name(trial, store, phase, pass);
        let name = self.unused(&format!("{}{HISTORY}", log.trim_end_matches(LOG)), HISTORY);
        self.put_with(&name, |file| write_history(history, file))?;
        Ok(name)
    }

    /// A name that no file of this run has: the given one, or one with a number before the end.
    fn unused(&mut self, name: &str, end: &str) -> String {
        let stem = name.trim_end_matches(end);
        let mut unused = name.to_owned();
        for n in 2.. {
            if self.logs.insert(unused.clone()) {
                break;
            }
            unused = format!("{stem}-{n}{end}");
        }
        unused
    }

    /// Writes `run.json` and replaces the previous one.
    ///
    /// # Errors
    /// The file cannot be written. The previous one stays intact.
    pub fn write_result(&self, result: &RunResult) -> Result<(), FolderError> {
        let text = || {
            let mut value = serde_json::to_value(result)?;
            self.secrets.hide_value(&mut value);
            serde_json::to_vec_pretty(&value)
        };
        let mut text = text().map_err(|e| writing(&self.path.join(RESULT_FILE))(std::io::Error::other(e)))?;
        text.push(b'\n');
        self.put(RESULT_FILE, &text)
    }

    /// Adds an event, a JSON object on one line.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add_event(&mut self, event: &impl Serialize) -> Result<(), FolderError> {
        let path = self.path.join(EVENTS_FILE);
        serde_json::to_value(event)
            .and_then(|mut line| {
                self.secrets.hide_value(&mut line);
                serde_json::to_writer(&mut self.events, &line)
            })
            .map_err(std::io::Error::from)
            .and_then(|()| self.events.write_all(b"\n"))
            .and_then(|()| self.events.flush())
            .map_err(writing(&path))
    }

    /// Removes a folder that was just created, and the folder of runs if it was created for it. If that fails, a folder
    /// without a result remains.
    pub fn discard(self) {
        let _ = std::fs::remove_dir_all(&self.path);
        if let (true, Some(runs_dir)) = (self.first, self.path.parent()) {
            // Only while it is empty.
            let _ = std::fs::remove_dir(runs_dir);
        }
    }

    /// Completes the event log.
    ///
    /// # Errors
    /// The file cannot be written or renamed.
    pub fn finish(mut self) -> Result<PathBuf, FolderError> {
        let growing = self.path.join(EVENTS_GROWING);
        self.events.flush().map_err(writing(&growing))?;
        std::fs::rename(&growing, self.path.join(EVENTS_FILE)).map_err(writing(&growing))?;
        Ok(self.path)
    }

    /// Writes a temporary file and renames it, so that readers never see a partial file.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
        self.put_with(name, |mut file| file.write_all(bytes))
    }

    /// The same, with what `fill` writes.
    fn put_with(&self, name: &str, fill: impl FnOnce(&File) -> std::io::Result<()>) -> Result<(), FolderError> {
        let temporary = self.path.join(format!(".{name}.new"));
        let write = || {
            let file = File::create(&temporary)?;
            fill(&file)?;
            file.sync_data()?;
            std::fs::rename(&temporary, self.path.join(name))
        };
        write().map_err(|source| {
            // Only tidies up; the error that matters is the first one.
            let _ = std::fs::remove_file(&temporary);
            FolderError::Write { path: self.path.join(name), source }
        })
    }
}

/// The file name of the histogram log for a pass of a phase. If the names of several phases collide, the later ones get
/// `-2` and so on before the dot.
pub fn log_name(trial: u32, store: &str, phase: &str, pass: Pass) -> String {
    let probe = if let Pass::Probe(_) = pass { format!("-{pass}") } else { String::new() };
    format!("{trial:03}-{}-{}{probe}{LOG}", file_name(store), file_name(phase))
}

/// A name as part of a file name: letters, digits, `-`, `_`; at most 60 characters.
pub(crate) fn file_name(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars().take(60) {
        let c = if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '-' };
        if c != '-' || !(out.is_empty() || out.ends_with('-')) {
            out.push(c);
        }
    }
    let out = out.trim_end_matches('-');
    if out.is_empty() { "run".to_owned() } else { out.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, read_run};

    #[test]
    fn a_run_is_written_whole_and_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = RunFolder::create(dir.path(), "Books: read & updated", Secrets::default()).unwrap();
        let phases = [fixture::load(), fixture::open_loop()];
        let mut result = fixture::run_of(&phases);
        result.checks = crate::validity::judge(&result);
        folder.write_study("stores = [\"couch://me:secret@host/db\"]\n").unwrap();
        folder.add_event(&serde_json::json!({ "event": "trial-began" })).unwrap();
        for phase in &phases {
            folder.add_phase(1, "sqlite", Pass::Measured, phase, []).unwrap();
            folder.write_result(&result).unwrap();
        }
        let path = folder.finish().unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("books-read-updated-2"), "{name}");
        assert_eq!(read_run(&path).unwrap(), result);
        let mut files: Vec<String> =
            std::fs::read_dir(&path).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        assert_eq!(
            files,
            [
                "001-sqlite-load.hlog",
                "001-sqlite-steady.hlog",
                "events.jsonl",
                "intervals.jsonl.gz",
                "resources.jsonl.gz",
                "run.json",
                "store_stats.jsonl.gz",
                "study.toml"
            ]
        );
        assert!(!std::fs::read_to_string(path.join("study.toml")).unwrap().contains("secret"));
    }

    #[test]
    fn phases_named_alike_keep_a_log_each() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = RunFolder::create(dir.path(), "x", Secrets::default()).unwrap();
        for name in ["Load", "load", "load!", "load-2"] {
            let phase = PhaseRecord { name: name.into(), ..fixture::load() };
            folder.add_phase(1, "sqlite", Pass::Measured, &phase, []).unwrap();
        }
        let logs = std::fs::read_dir(folder.path()).unwrap().filter(|f| {
            let path = f.as_ref().unwrap().path();
            path.extension().is_some_and(|e| e == "hlog")
        });
        assert_eq!(logs.count(), 4);
    }

    #[test]
    fn a_second_run_of_one_second_gets_its_own_folder() {
        let dir = tempfile::tempdir().unwrap();
        let a = RunFolder::create(dir.path(), "x", Secrets::default()).unwrap();
        let b = RunFolder::create(dir.path(), "x", Secrets::default()).unwrap();
        assert_ne!(a.path(), b.path());
    }

    #[test]
    fn a_folder_that_cannot_be_made_says_which() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = RunFolder::create(&file.join("runs"), "x", Secrets::default()).unwrap_err().to_string();
        assert!(error.contains("file/runs: cannot create a run folder here") && error.contains("--out"), "{error}");
    }

    #[test]
    fn names_become_names_of_files() {
        assert_eq!(file_name("../../etc/passwd"), "etc-passwd");
        assert_eq!(file_name("Книги"), "run");
        assert_eq!(file_name("bulk-insert_2"), "bulk-insert_2");
    }
}
