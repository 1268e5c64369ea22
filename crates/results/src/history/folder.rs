//! A history as files: one for each run, in a folder for each month.

use std::path::{Path, PathBuf};

use serde::Deserialize;
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
#[derive(Debug, Clone, PartialEq)]
pub struct Added {
    /// Its file.
    pub file: PathBuf,
    /// The entry of this run that the history had before, and keeps.
    pub there: Option<HistoryEntry>,
}

/// Adds an entry to the history in a folder. An entry that is there already stays as it is.
///
/// The name of the file is the time at which the run began and a hash of the entry, so that the same run gets the same
/// name in every branch, and no two runs share one.
///
/// # Errors
/// [`HistoryError::Write`], and nothing is half-written then; or the entry that is there cannot be read.
pub fn add(folder: &Path, entry: &HistoryEntry) -> Result<Added, HistoryError> {
    let began: String = entry.began.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let month = folder.join(began.get(..7).unwrap_or("0000-00"));
    let same = serde_json::json!([entry.run, entry.began, entry.machine, entry.configurations]).to_string();
    let file = month.join(format!("{began}-{:08x}.json", xxh3_64(same.as_bytes()) as u32));
    if file.exists() {
        let there = Some(entry_of(&file)?);
        return Ok(Added { file, there });
    }
    let text = serde_json::to_string(entry).map_err(std::io::Error::other);
    let put = text.and_then(|text| write_new(&file, (text + "\n").as_bytes()));
    put.map_err(|source| HistoryError::Write { path: file.clone(), source })?;
    Ok(Added { file, there: None })
}

/// The entries of a history, oldest first. Files that do not end in `.json` are none.
///
/// # Errors
/// There is no such folder, it has no entry, or a file cannot be read or is no entry.
pub fn read(folder: &Path) -> Result<Vec<HistoryEntry>, HistoryError> {
    let mut entries = Vec::new();
    for month in listed(folder)?.into_iter().filter(|path| path.is_dir()) {
        for file in listed(&month)?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "json")) {
            entries.push(entry_of(&file)?);
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

fn entry_of(file: &Path) -> Result<HistoryEntry, FolderError> {
    parsed(&std::fs::read(file).map_err(|error| unreadable(file, &error))?, file)
}

fn parsed(bytes: &[u8], file: &Path) -> Result<HistoryEntry, FolderError> {
    /// What entries of all versions have.
    #[derive(Deserialize)]
    struct AnyEntry {
        format: String,
    }
    let corrupt = |what: String| FolderError::Corrupt { path: file.to_owned(), what };
    let damaged = |error: serde_json::Error| {
        let remedy = "restore it, or remove it if the run does not matter";
        corrupt(format!("is no entry of a history: {error}; {remedy}"))
    };
    // The rest of an entry of another version need not be as here.
    let AnyEntry { format } = serde_json::from_slice(bytes).map_err(damaged)?;
    if format != HISTORY_FORMAT {
        return Err(corrupt(format!(
            "has format `{format}`, not `{HISTORY_FORMAT}`: another version of Storebench wrote it"
        )));
    }
    serde_json::from_slice(bytes).map_err(damaged)
}
