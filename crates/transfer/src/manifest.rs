//! The progress of a copy: a log in the copy's folder. An entry is synced before anything counts as done.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::FlockOperation;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use storebench_engine::store::CopyId;

use crate::error::TransferError;
use crate::put::write_whole;
use crate::source::Split;

/// The name of the log's format.
const FORMAT: &str = "storebench-copy-log/2";
const LOG: &str = "log.jsonl";
/// The log of a copy that has finished.
const DONE: &str = "log.done.jsonl";

/// The first line: what is copied, and in which splits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) format: String,
    /// The copy's settings, by flag. A resume with other settings is refused.
    pub(crate) settings: BTreeMap<String, String>,
    /// The fingerprint of the source, to tell whether it is still the same.
    pub(crate) source: String,
    pub(crate) splits: Vec<Split>,
    /// The number in the marker of the target's collection; `None` if it has no marker.
    pub(crate) target: Option<CopyId>,
    /// Whether tasks in other processes copy, so that this log does not say which records they have sent.
    pub(crate) tasks: bool,
}

impl Header {
    pub(crate) fn new(settings: BTreeMap<String, String>, source: String, splits: Vec<Split>) -> Self {
        Self { format: FORMAT.to_owned(), settings, source, splits, target: None, tasks: false }
    }
}

/// Counts of one split, or of all splits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Counts {
    /// Records found in the source, including those that could not be read.
    pub read: u64,
    /// Records that the target acknowledged.
    pub written: u64,
    /// Records that did not arrive; each is in the file of rejects.
    pub rejected: u64,
    /// Records that needed no write: a filter or map dropped them, a delete did not find their keys, or a merge changed
    /// nothing. Written, rejected and skipped records add up to the records read.
    pub skipped: u64,
    /// Records that an insert found in the target already, with the same content.
    pub there_already: u64,
    /// Bytes of written keys and documents.
    pub bytes: u64,
    /// Attempts after the first, of batches or parts of them.
    pub retries: u64,
    /// Documents whose attachments were dropped, as allowed.
    pub dropped_attachments: u64,
    /// Documents whose expiry was dropped, as allowed.
    pub dropped_expiry: u64,
    /// Documents written without members that the target reserves for itself, as requested.
    pub without_own_members: u64,
    /// Records whose key is a number or boolean in the source file and a string in the target.
    pub keys_made_text: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        *self = self.with(other, |one, other| one + other);
    }
}

impl Counts {
    /// The counts added since an earlier reading.
    pub(crate) fn since(self, earlier: Self) -> Self {
        self.with(earlier, |now, earlier| now - earlier)
    }

    fn with(self, other: Self, each: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            read: each(self.read, other.read),
            written: each(self.written, other.written),
            rejected: each(self.rejected, other.rejected),
            skipped: each(self.skipped, other.skipped),
            there_already: each(self.there_already, other.there_already),
            bytes: each(self.bytes, other.bytes),
            retries: each(self.retries, other.retries),
            dropped_attachments: each(self.dropped_attachments, other.dropped_attachments),
            dropped_expiry: each(self.dropped_expiry, other.dropped_expiry),
            without_own_members: each(self.without_own_members, other.without_own_members),
            keys_made_text: each(self.keys_made_text, other.keys_made_text),
        }
    }
}

/// A part of the source that could not be read to its end, because its data is damaged or cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Damage {
    /// What is wrong, and where.
    pub what: String,
    /// Records before the damage that arrived.
    pub records: u64,
}

/// A line after the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Entry {
    /// All readable records of a split are written and acknowledged. `keys` are some of the keys that are therefore in
    /// the target.
    Done {
        split: u32,
        counts: Counts,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        damage: Option<Damage>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        keys: Vec<String>,
    },
    /// The target is in its final state.
    Finished,
    /// Reading back found differences in these splits, which were done. A resume copies them again.
    Differs { splits: BTreeSet<u32> },
    /// Connections to the target were lost.
    Disconnects { times: u64 },
    /// Some records of a split, which may not be written twice, are about to be sent. Those before them are settled.
    Sending {
        split: u32,
        partly: Partly,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        keys: Vec<String>,
    },
}

/// Progress of a split whose records may not be written twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Partly {
    /// Records that are settled, in the split's order.
    pub(crate) settled: u64,
    /// Records after those that may have been written.
    pub(crate) doubtful: u64,
    /// Where the last unreadable record began.
    pub(crate) last_bad: Option<u64>,
    /// Counts of the settled records.
    pub(crate) counts: Counts,
}

/// The log of one copy, locked by one process.
pub(crate) struct Manifest {
    path: PathBuf,
    file: Mutex<File>,
    pub(crate) header: Header,
    /// Splits that are done.
    pub(crate) done: BTreeMap<u32, Counts>,
    /// Those done splits that could not be read to their end.
    pub(crate) damaged: Mutex<BTreeMap<u32, Damage>>,
    pub(crate) partly: BTreeMap<u32, Partly>,
    /// Some of the written and acknowledged keys, by split.
    pub(crate) keys: BTreeMap<u32, Vec<String>>,
    /// Whether the target is in its final state.
    pub(crate) finished: bool,
    /// How often connections to the target were lost, in earlier processes, too: one that was restarted may have
    /// forgotten records of splits that were done before.
    pub(crate) disconnects: AtomicU64,
    _lock: File,
}

/// Whether this folder holds an unfinished copy.
pub fn is_unfinished(folder: &Path) -> bool {
    folder.join(LOG).exists()
}

/// Whether this folder holds a finished copy.
pub fn is_finished(folder: &Path) -> bool {
    folder.join(DONE).exists()
}

/// Marks the copy in this folder as finished, so that it can no longer be resumed.
///
/// # Errors
/// The folder cannot be changed.
pub fn finish(folder: &Path) -> io::Result<()> {
    std::fs::rename(folder.join(LOG), folder.join(DONE))
}

/// The settings, by flag, of the unfinished copy in this folder.
///
/// # Errors
/// There is no copy, or its log cannot be read.
pub fn settings_of(folder: &Path) -> Result<BTreeMap<String, String>, TransferError> {
    Ok(header_of(folder)?.settings)
}

/// The number in the marker of the target of the unfinished copy in this folder; `None` if it has no marker.
///
/// # Errors
/// There is no copy, or its log cannot be read.
pub fn target_of(folder: &Path) -> Result<Option<CopyId>, TransferError> {
    Ok(header_of(folder)?.target)
}

fn header_of(folder: &Path) -> Result<Header, TransferError> {
    let path = folder.join(LOG);
    let mut line = Vec::new();
    let mut read = || BufReader::new(File::open(&path)?).read_until(b'\n', &mut line);
    read().map_err(|e| unreadable(&path, &e))?;
    header(&path, &line)
}

/// The header in the first line of the log at this path.
fn header(path: &Path, line: &[u8]) -> Result<Header, TransferError> {
    /// The format alone, which every log has.
    #[derive(Deserialize)]
    struct Format {
        format: String,
    }
    let first = |e| broken(path, format_args!("the first line cannot be read: {e}"));
    let Format { format } = serde_json::from_slice(line).map_err(first)?;
    if format != FORMAT {
        return Err(broken(path, format_args!("its format is `{format}`, expected `{FORMAT}`")));
    }
    serde_json::from_slice(line).map_err(first)
}

fn unreadable(path: &Path, error: &io::Error) -> TransferError {
    TransferError::BadInput(format!("{}: cannot be read: {error}", path.display()))
}

fn broken(path: &Path, what: fmt::Arguments<'_>) -> TransferError {
    TransferError::BadInput(format!("{}: {what}; use --restart to start over", path.display()))
}

/// Abandons the unfinished copy in this folder, so that it can no longer be resumed.
///
/// # Errors
/// A process is running the copy, or the folder cannot be changed.
pub fn abandon(folder: &Path) -> Result<(), TransferError> {
    let _lock = lock(folder)?;
    let path = folder.join(LOG);
    std::fs::rename(&path, folder.join("log.abandoned.jsonl"))
        .map_err(|e| TransferError::BadInput(format!("{}: cannot be renamed: {e}", path.display())))
}

impl Manifest {
    /// Starts a log. `header` is called after the folder is locked, so that two copies cannot inspect it at once.
    pub(crate) fn begin(
        folder: &Path,
        header: impl FnOnce() -> Result<Header, TransferError>,
    ) -> Result<Self, TransferError> {
        let lock = lock(folder)?;
        let header = header()?;
        let path = folder.join(LOG);
        let failed = |e: io::Error| TransferError::write(&path, &e);
        write_whole(&path, &line(&header).map_err(failed)?)?;
        let file = OpenOptions::new().append(true).open(&path).map_err(failed)?;
        let (done, partly, keys) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (file, damaged) = (Mutex::new(file), Mutex::default());
        let (finished, disconnects) = (false, AtomicU64::new(0));
        Ok(Self { path, file, header, done, damaged, partly, keys, finished, disconnects, _lock: lock })
    }

    /// Reads the log of an unfinished copy.
    pub(crate) fn resume(folder: &Path) -> Result<Self, TransferError> {
        let lock = lock(folder)?;
        let path = folder.join(LOG);
        let failed = |e: io::Error| unreadable(&path, &e);
        let file = OpenOptions::new().read(true).append(true).open(&path).map_err(failed)?;
        let mut lines = BufReader::new(&file);
        let mut line = Vec::new();
        lines.read_until(b'\n', &mut line).map_err(failed)?;
        let header = header(&path, &line)?;
        let (mut done, mut partly, mut finished, mut disconnects) = (BTreeMap::new(), BTreeMap::new(), false, 0);
        let mut damaged = BTreeMap::new();
        let mut written: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        let mut whole = line.len() as u64;
        for number in 2.. {
            line.clear();
            // A crash cut this line off. Nothing relied on it yet.
            if lines.read_until(b'\n', &mut line).map_err(failed)? == 0 || line.last() != Some(&b'\n') {
                break;
            }
            let wrong = |e| broken(&path, format_args!("line {number} cannot be read: {e}"));
            match serde_json::from_slice(&line).map_err(wrong)? {
                Entry::Done { split, counts, damage, keys } => {
                    done.insert(split, counts);
                    damaged.extend(damage.map(|damage| (split, damage)));
                    written.extend(Some((split, keys)).filter(|(_, keys)| !keys.is_empty()));
                    partly.remove(&split);
                }
                Entry::Finished => finished = true,
                Entry::Disconnects { times } => disconnects += times,
                Entry::Differs { splits } => {
                    done.retain(|split, _| !splits.contains(split));
                    damaged.retain(|split, _| !splits.contains(split));
                    written.retain(|split, _| !splits.contains(split));
                    finished = false;
                }
                Entry::Sending { split, partly: at, keys } => {
                    partly.insert(split, at);
                    written.extend(Some((split, keys)).filter(|(_, keys)| !keys.is_empty()));
                }
            }
            whole += line.len() as u64;
        }
        drop(lines);
        file.set_len(whole).map_err(failed)?;
        let (file, damaged, disconnects) = (Mutex::new(file), Mutex::new(damaged), AtomicU64::new(disconnects));
        Ok(Self { path, file, header, done, damaged, partly, keys: written, finished, disconnects, _lock: lock })
    }

    /// Marks a split as done. After this returns, no resume reads the split again.
    pub(crate) fn done(
        &self,
        split: u32,
        counts: Counts,
        damage: Option<Damage>,
        keys: Vec<String>,
    ) -> Result<(), TransferError> {
        self.add(&Entry::Done { split, counts, damage: damage.clone(), keys })?;
        let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        damaged.extend(damage.map(|damage| (split, damage)));
        Ok(())
    }

    /// Notes that connections to the target were lost.
    pub(crate) fn disconnected(&self, times: u64) -> Result<(), TransferError> {
        self.disconnects.fetch_add(times, Ordering::Relaxed);
        self.add(&Entry::Disconnects { times })
    }

    /// Adds an entry, and syncs it.
    pub(crate) fn add(&self, entry: &Entry) -> Result<(), TransferError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        line(entry)
            .and_then(|line| file.write_all(&line))
            .and_then(|()| file.sync_data())
            .map_err(|e| TransferError::write(&self.path, &e))
    }
}

fn line(entry: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(entry)?;
    text.push(b'\n');
    Ok(text)
}

/// Locks the folder for this process. The system releases the lock however the process ends.
pub(crate) fn lock(folder: &Path) -> Result<File, TransferError> {
    let path = folder.join("lock");
    let failed = |e: io::Error| TransferError::BadInput(format!("{}: cannot be written: {e}", path.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut file =
        OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).map_err(failed)?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut holder = String::new();
        let _ = file.read_to_string(&mut holder);
        return Err(TransferError::BadInput(format!(
            "this copy is already running in process {}; wait for it to finish, or stop it ({})",
            if holder.is_empty() { "?" } else { holder.trim() },
            path.display()
        )));
    }
    // Only for the error message above.
    let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Part;

    fn header() -> Header {
        let split = |number| Split { number, part: Part::File { file: number }, bytes: Some(7) };
        let splits = (0..3).map(split).collect();
        let header = Header::new([("from".to_owned(), "a".to_owned())].into(), "a 7".into(), splits);
        Header { target: Some(CopyId(u64::MAX)), ..header }
    }

    #[test]
    fn what_was_done_is_known_again() {
        let folder = tempfile::tempdir().unwrap();
        let counts = Counts { read: 5, written: 4, rejected: 1, ..Counts::default() };
        let log = Manifest::begin(folder.path(), || Ok(header())).unwrap();
        let damage = Damage { what: "cut".into(), records: 4 };
        log.done(2, counts, Some(damage.clone()), vec!["first".into(), "last".into()]).unwrap();
        let partly = Partly { settled: 10, doubtful: 10, last_bad: Some(3), counts };
        log.add(&Entry::Sending { split: 0, partly, keys: vec!["ninth".into()] }).unwrap();
        log.add(&Entry::Sending { split: 1, partly: Partly::default(), keys: Vec::new() }).unwrap();
        log.done(1, counts, None, Vec::new()).unwrap();
        log.add(&Entry::Finished).unwrap();
        let Err(TransferError::BadInput(busy)) = Manifest::resume(folder.path()) else { panic!("not locked") };
        assert!(busy.contains(&format!("process {}", std::process::id())), "{busy}");
        drop(log);
        let log = Manifest::resume(folder.path()).unwrap();
        assert!(log.finished);
        assert_eq!(log.header, header());
        assert_eq!(log.done, [(1, counts), (2, counts)].into());
        assert_eq!(log.partly, [(0, partly)].into());
        assert_eq!(*log.damaged.lock().unwrap(), [(2, damage)].into());
        assert_eq!(log.keys.into_values().flatten().collect::<Vec<_>>(), ["ninth", "first", "last"]);
        assert_eq!(target_of(folder.path()).unwrap(), Some(CopyId(u64::MAX)));
    }

    #[test]
    fn a_log_of_an_older_version_is_gone_on_with() {
        let folder = tempfile::tempdir().unwrap();
        let mut text = serde_json::to_value(header()).unwrap();
        text.as_object_mut().unwrap().remove("target");
        let done = serde_json::json!({ "done": { "split": 1, "counts": Counts::default() } });
        std::fs::write(folder.path().join(LOG), format!("{text}\n{done}\n")).unwrap();
        let log = Manifest::resume(folder.path()).unwrap();
        assert_eq!((log.header.target, log.done.len()), (None, 1));
        assert_eq!(log.keys.into_values().flatten().count(), 0);
    }

    #[test]
    fn a_line_that_was_cut_off_does_not_count_and_the_next_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let log = Manifest::begin(folder.path(), || Ok(header())).unwrap();
        log.done(0, Counts::default(), None, Vec::new()).unwrap();
        drop(log);
        let path = folder.path().join(LOG);
        let whole = std::fs::read(&path).unwrap();
        let first = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
        for cut in first..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let log = Manifest::resume(folder.path()).unwrap();
            assert!(log.done.is_empty(), "{cut}");
            log.done(1, Counts::default(), None, Vec::new()).unwrap();
            drop(log);
            assert_eq!(Manifest::resume(folder.path()).unwrap().done.len(), 1, "{cut}");
        }
    }
}
