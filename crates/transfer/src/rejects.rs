//! Records that did not arrive, each with the reason, in a file for people and programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::TransferError;

/// One line of the file: a record that did not arrive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reject {
    /// Where the record was in the source.
    pub from: String,
    /// Number of the split.
    pub split: u32,
    /// Its key, if it has one.
    pub key: Option<String>,
    /// The bytes of a key that is not UTF-8, as base64. `key` has U+FFFD in place of what is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_base64: Option<String>,
    /// The operation that failed.
    pub op: String,
    /// The kind of failure: `unreadable`, or one of a store's error kinds.
    pub error: String,
    /// The error message.
    pub why: String,
    /// Number of attempts; 0 if it was never sent.
    pub tries: u32,
    /// The record as it was read: JSON, or a string if it is not JSON.
    pub record: Value,
    /// The bytes of a record that is not UTF-8, as base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_base64: Option<String>,
}

/// Places in the source, each with a key.
pub(crate) type Places = BTreeSet<(String, String)>;

/// The file of rejects. It is created when the first record is rejected.
pub(crate) struct Rejects {
    path: PathBuf,
    file: Mutex<Option<BufWriter<File>>>,
    /// The first reject that this process added, as text.
    first: OnceLock<String>,
}

impl Rejects {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, file: Mutex::new(None), first: OnceLock::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The first reject that this process added: where the record was, and why it did not arrive.
    pub(crate) fn first(&self) -> Option<&str> {
        self.first.get().map(String::as_str)
    }

    /// Adds a record.
    pub(crate) fn add(&self, reject: &Reject) -> Result<(), TransferError> {
        self.first.get_or_init(|| format!("{}: {}", reject.from, reject.why));
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |e: &io::Error| TransferError::write(&self.path, e);
        let out = match &mut *file {
            Some(out) => out,
            None => {
                let opened = OpenOptions::new().create(true).append(true).open(&self.path).map_err(|e| failed(&e))?;
                file.insert(BufWriter::new(opened))
            }
        };
        let mut line = serde_json::to_vec(reject).map_err(|e| failed(&e.into()))?;
        line.push(b'\n');
        out.write_all(&line).map_err(|e| failed(&e))
    }

    /// Makes all added records survive a crash.
    pub(crate) fn sync(&self) -> Result<(), TransferError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(out) = &mut *file else { return Ok(()) };
        out.flush().and_then(|()| out.get_ref().sync_data()).map_err(|e| TransferError::write(&self.path, &e))
    }

    /// Refuses to overwrite an existing file: it may be the only trace of another copy's records.
    pub(crate) fn begin(&self, replace: bool) -> Result<(), TransferError> {
        match std::fs::metadata(&self.path) {
            Ok(found) if found.is_file() && replace => {
                std::fs::remove_file(&self.path).map_err(|e| TransferError::write(&self.path, &e))
            }
            Ok(found) if found.is_file() && found.len() > 0 => Err(TransferError::BadInput(format!(
                "{} exists; move it away, name another file with --rejects, or use --force to overwrite it",
                self.path.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Place in the source and key of the rejected records that have one, by split. A store has the same place for all
    /// of its records.
    pub(crate) fn places(&self) -> BTreeMap<u32, Places> {
        let mut places: BTreeMap<u32, Places> = BTreeMap::new();
        for Reject { from, split, key, .. } in self.all() {
            places.entry(split).or_default().extend(key.map(|key| (from, key)));
        }
        places
    }

    /// All rejects in the file.
    pub(crate) fn all(&self) -> impl Iterator<Item = Reject> + use<> {
        let lines = File::open(&self.path).into_iter().flat_map(|file| BufReader::new(file).split(b'\n'));
        lines.map_while(Result::ok).filter_map(|line| serde_json::from_slice(&line).ok())
    }

    /// Keeps only the rejects of these splits. Drops those of splits that will be read again, and a line that was cut
    /// off.
    pub(crate) fn keep_only(&self, splits: &BTreeSet<u32>) -> Result<(), TransferError> {
        let failed = |e: &io::Error| TransferError::write(&self.path, e);
        let old = match File::open(&self.path) {
            Ok(old) => BufReader::new(old),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(failed(&e)),
        };
        let mut part = self.path.clone().into_os_string();
        part.push(".part");
        let mut kept = BufWriter::new(File::create(&part).map_err(|e| failed(&e))?);
        for line in old.split(b'\n') {
            let line = line.map_err(|e| failed(&e))?;
            if serde_json::from_slice::<Reject>(&line).is_ok_and(|reject| splits.contains(&reject.split)) {
                kept.write_all(&line).and_then(|()| kept.write_all(b"\n")).map_err(|e| failed(&e))?;
            }
        }
        let kept = kept.into_inner().map_err(|e| failed(e.error()))?;
        kept.sync_all().and_then(|()| std::fs::rename(&part, &self.path)).map_err(|e| failed(&e))
    }
}

/// A record for the file: as JSON if it is valid JSON, else as a string.
pub(crate) fn record(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|_| String::from_utf8_lossy(text).into_owned().into())
}
