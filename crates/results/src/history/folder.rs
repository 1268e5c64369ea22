//! A history as files: one for each run, in a folder for each month.

use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::model::{HISTORY_FORMAT, HistoryEntry};
use crate::FolderError;
use crate::new_file::write_new;

/// Errors of a history. All of them are bad input.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// There is nothing to look at.
    #[error("{0}")]
    Nothing(String),
    /// A file cannot be read, or is no entry.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file cannot be written.
    #[error("{path}: cannot be written: {source}; free space, or give another folder with --history")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// An entry that was added, or was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// Its file.
    pub file: PathBuf,
    /// Whether the history had it before.
    pub was_there: bool,
}

/// Adds an entry to the history in a folder. An entry that is there already stays as it is.
///
/// The name of the file is the time at which the run began and a hash of the entry, so that the same run gets the same
/// name in every branch, and no two runs share one.
///
/// # Errors
/// [`HistoryError::Write`]. Nothing is half-written then.
pub fn add(folder: &Path, entry: &HistoryEntry) -> Result<Added, HistoryError> {
    let began: String = entry.began.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let month = folder.join(began.get(..7).unwrap_or("0000-00"));
    let same = serde_json::json!([entry.run, entry.began, entry.machine, entry.configurations]).to_string();
    let file = month.join(format!("{began}-{:08x}.json", xxh3_64(same.as_bytes()) as u32));
    if file.exists() {
        return Ok(Added { file, was_there: true });
    }
    let text = serde_json::to_string(entry).map_err(std::io::Error::other);
    let put = text.and_then(|text| write_new(&file, (text + "\n").as_bytes()));
    put.map_err(|source| HistoryError::Write { path: file.clone(), source })?;
    Ok(Added { file, was_there: false })
}

/// The entries of a history, oldest first. Files that do not end in `.json` are none.
///
/// # Errors
/// There is no such folder, it has no entry, or a file cannot be read or is no entry.
pub fn read(folder: &Path) -> Result<Vec<HistoryEntry>, HistoryError> {
    let mut entries = Vec::new();
    for month in listed(folder)?.into_iter().filter(|path| path.is_dir()) {
        for file in listed(&month)?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "json")) {
            let bytes = std::fs::read(&file).map_err(|error| unreadable(&file, &error))?;
            entries.push(parsed(&bytes, &file)?);
        }
    }
    if entries.is_empty() {
        let text = format!("{} has no runs: add one with `storebench history add RUN`", folder.display());
        return Err(HistoryError::Nothing(text));
    }
    entries.sort_by(|a, b| (&a.began, &a.run).cmp(&(&b.began, &b.run)));
    Ok(entries)
}

/// What is in a folder, in the order of names.
fn listed(folder: &Path) -> Result<Vec<PathBuf>, HistoryError> {
    let read = || std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>();
    let mut paths = read().map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => {
            let text =
                format!("there is no history in {}: add a run with `storebench history add RUN`", folder.display());
            HistoryError::Nothing(text)
        }
        _ => unreadable(folder, &source).into(),
    })?;
    paths.sort();
    Ok(paths)
}

fn unreadable(path: &Path, error: &std::io::Error) -> FolderError {
    FolderError::Corrupt { path: path.to_owned(), what: format!("cannot be read: {error}") }
}

fn parsed(bytes: &[u8], file: &Path) -> Result<HistoryEntry, FolderError> {
    let corrupt = |what: String| FolderError::Corrupt { path: file.to_owned(), what };
    let remedy = "restore it, or remove it if the run does not matter";
    let entry: HistoryEntry =
        serde_json::from_slice(bytes).map_err(|e| corrupt(format!("is no entry of a history: {e}; {remedy}")))?;
    if entry.format != HISTORY_FORMAT {
        let format = &entry.format;
        return Err(corrupt(format!(
            "has format `{format}`, not `{HISTORY_FORMAT}`: another version of Storebench wrote it"
        )));
    }
    Ok(entry)
}
