//! Writes records to files: one part for each split. When all parts are complete, they are joined into one file or
//! moved into one folder.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};

use storebench_engine::store::{CopyId, Durability, LocalFuture, OpKind};
use storebench_engine::{Clock, RealClock};

use super::encode::Encoder;
use super::{Again, Ended, Sink, TargetState, Writer, join};
use crate::columns::Columns;
use crate::error::TransferError;
use crate::format::Format;
use crate::manifest;
use crate::measure::{Request, RequestKinds, Writes};
use crate::place::FileLocation;
use crate::put::{put_file, sync_folder, write_whole};
use crate::records::Records;
use crate::shape::Shape;
use crate::source::{Packing, Room, Split};
use crate::verify::{FileTarget, Target};

/// Target size of one write.
const WRITE_BYTES: usize = 1 << 20;
/// Most records of one write.
const BATCH: u32 = 10_000;
/// The operation kind under which measurements list a write.
const WRITE: OpKind = OpKind::BulkInsert;

/// File beside the parts: the columns, which a resumed copy needs to write the other parts alike.
const COLUMNS: &str = "columns.json";
/// File beside the parts: identifies the joined file, or the parts, before any is moved into place.
const MADE: &str = "made";

/// Options of a file target.
#[derive(Debug, Clone)]
pub struct FileSinkOptions {
    /// The file, or the folder if `folder` is set; `None` for standard output.
    pub place: Option<FileLocation>,
    /// Whether each split becomes a separate file in a folder.
    pub folder: bool,
    /// Folder for parts until all are complete. For a local target, it must be on the same file system.
    pub parts: PathBuf,
    /// The file format.
    pub format: Format,
    /// The columns, for formats that have columns.
    pub columns: Columns,
    /// The compression.
    pub packing: Packing,
    /// The field that receives the key; `None` to leave the key out.
    pub key_field: Option<String>,
    /// Whether to delete parts that another copy left.
    pub fresh: bool,
    /// Whether existing files may be overwritten.
    pub replace: bool,
}

/// A file target, or standard output.
pub struct FileSink {
    options: FileSinkOptions,
    /// Held as long as parts are written.
    _lock: Option<File>,
    /// Distinguishes the unfinished parts of tasks that write the same split at the same time; empty outside tasks.
    task: String,
}

impl FileSinkOptions {
    /// Refuses to overwrite existing files, before anything is read or written. A resumed copy may find the file that
    /// it made itself.
    ///
    /// # Errors
    /// A file exists, or the target cannot be inspected.
    pub fn check_target(&self) -> Result<(), TransferError> {
        self.format.check(&self.place.as_ref().map_or("standard output".to_owned(), FileLocation::to_string))?;
        let Some(place) = self.place.as_ref().filter(|_| !self.replace) else { return Ok(()) };
        let goes_on = !self.fresh;
        if self.folder {
            let taken = || {
                TransferError::BadInput(format!(
                    "{place} holds parts of an earlier copy; write into a new folder, or use --force to replace them"
                ))
            };
            return if !goes_on && !old_parts(place)?.is_empty() { Err(taken()) } else { Ok(()) };
        }
        let made = match place.path() {
            Some(path) if goes_on => self.is_made(path) || !self.has_parts(),
            Some(_) => false,
            None => goes_on && (self.parts.join(MADE).exists() || !self.has_parts()),
        };
        if !made && place.is_there()? { Err(exists(place)) } else { Ok(()) }
    }

    /// Whether there are parts that are not joined yet.
    fn has_parts(&self) -> bool {
        let parts = std::fs::read_dir(&self.parts).into_iter().flatten().flatten();
        parts.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("part-"))
    }

    /// Whether the existing file was made by an earlier process of this copy.
    fn is_made(&self, path: &Path) -> bool {
        let noted = std::fs::read_to_string(self.parts.join(MADE)).ok();
        noted.zip(identity(path)).is_some_and(|(noted, found)| noted == found)
    }
}

fn exists(place: &FileLocation) -> TransferError {
    TransferError::BadInput(format!("{place} exists; write to another file, or use --force to overwrite it"))
}

/// What stays the same when a file is renamed: device and inode.
fn identity(path: &Path) -> Option<String> {
    path.metadata().ok().map(|found| format!("{} {}", found.dev(), found.ino()))
}

/// Parts that an earlier copy left in a folder.
fn old_parts(folder: &FileLocation) -> Result<Vec<FileLocation>, TransferError> {
    let is_part = |name: &str| {
        let number = name.strip_prefix("part-").and_then(|rest| rest.split('.').next());
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    folder.names_within(&is_part)
}

/// Empties a folder of parts, except for its lock.
fn clear(parts: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(parts)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name != "lock") {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

impl FileSink {
    /// Creates the folder for parts. Checks that a remote target can be written, without changing it.
    ///
    /// # Errors
    /// Errors of the system or the target.
    pub fn open(options: FileSinkOptions) -> Result<Self, TransferError> {
        // The parts of a local target are hidden beside it, so its own name is the one that is known.
        let named = options.place.as_ref().and_then(FileLocation::path).unwrap_or(&options.parts);
        let failed = |e: io::Error| {
            TransferError::BadInput(format!("{}: cannot be written: {e}; use another path", named.display()))
        };
        let mut lock = None;
        if options.place.is_none() {
            let wrong = |e: io::Error| TransferError::BadInput(format!("standard output cannot be written: {e}"));
            Encoder::stdout(&options).and_then(|mut out| out.head()).map_err(wrong)?;
        }
        if let Some(place) = &options.place {
            options.check_target()?;
            if options.folder {
                place.join("part-00000").check_writable()?
            } else {
                place.check_writable()?
            }
            std::fs::create_dir_all(&options.parts).map_err(failed)?;
            // Two copies with the same arguments would write the same parts.
            lock = Some(manifest::lock(&options.parts)?);
            if options.fresh {
                clear(&options.parts).map_err(failed)?;
            }
            if let (Some(path), true) = (place.path(), options.folder) {
                std::fs::create_dir_all(path).map_err(failed)?;
            }
            if options.format.has_columns() {
                let text = serde_json::to_vec(&options.columns).unwrap_or_default();
                std::fs::write(options.parts.join(COLUMNS), text).map_err(failed)?;
            }
        }
        Ok(Self { options, _lock: lock, task: String::new() })
    }

    /// Opens the target of a copy for a task of it in another process.
    ///
    /// # Errors
    /// This machine does not share the storage of the target.
    pub fn of_task(mut options: FileSinkOptions, state: &TargetState) -> Result<Self, TransferError> {
        options.columns = state.columns.clone();
        match &state.parts {
            Some(parts) if !parts.join("lock").exists() => {
                return Err(TransferError::BadInput(format!(
                    "{}: not found on this worker; use storage that all workers mount under the same path",
                    parts.display()
                )));
            }
            Some(parts) => options.parts.clone_from(parts),
            None => std::fs::create_dir_all(&options.parts).map_err(|e| TransferError::write(&options.parts, &e))?,
        }
        Ok(Self { options, _lock: None, task: format!("{}-{}.", std::process::id(), CopyId::draw()) })
    }

    /// The columns that an unfinished copy has used.
    ///
    /// # Errors
    /// The file with the columns exists and cannot be read.
    pub fn columns(options: &FileSinkOptions) -> Result<Option<Columns>, TransferError> {
        let path = options.parts.join(COLUMNS);
        let broken =
            |what: String| TransferError::BadInput(format!("{}: {what}; use --restart to start over", path.display()));
        match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|e| broken(e.to_string())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(broken(e.to_string())),
        }
    }

    fn part(&self, number: u32) -> PathBuf {
        self.options.parts.join(format!("part-{number:05}"))
    }

    /// Joins all parts into one file.
    fn join(&self, place: &FileLocation, splits: &[Split]) -> Result<(), TransferError> {
        let options = &self.options;
        let (whole, made) = (options.parts.join("whole"), options.parts.join(MADE));
        let named = place.path().unwrap_or(&whole);
        let failed = |e: io::Error| TransferError::write(named, &e);
        if place.path().is_some_and(|path| options.is_made(path)) {
            // Moved by an earlier process, before a crash.
            return sync_folder(named);
        }
        let uploaded = made.exists();
        let parts: Vec<PathBuf> = splits.iter().map(|split| self.part(split.number)).collect();
        join::join(options, &parts, &whole).map_err(failed)?;
        let Some(path) = place.path() else {
            if !options.replace && !uploaded && place.is_there()? {
                return Err(appeared(&place.to_string()));
            }
            std::fs::write(&made, b"").map_err(failed)?;
            return place.put(&whole);
        };
        write_whole(&made, identity(&whole).unwrap_or_default().as_bytes())?;
        put_file(&whole, path, options.replace).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => appeared(&place.to_string()),
            _ => failed(e),
        })?;
        sync_folder(path)
    }

    fn move_parts(&self, folder: &Path, splits: &[Split]) -> Result<(), TransferError> {
        let noted = self.note_parts(splits)?;
        for split in splits {
            let part = self.part(split.number);
            let target = folder.join(part_name(split.number, self.options.format));
            match put_file(&part, &target, self.options.replace) {
                // Moved by an earlier process, before a crash.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    if !identity(&target).is_some_and(|found| noted.lines().any(|line| line == found)) {
                        let part = part.display();
                        return Err(TransferError::Target(format!(
                            "{part}, which this copy wrote, is missing; use --restart to start over"
                        )));
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(appeared(&target.display().to_string()));
                }
                Err(e) => return Err(TransferError::write(&target, &e)),
                Ok(()) => {}
            }
        }
        sync_folder(&folder.join("."))
    }

    /// Records which files are the parts, before the first is moved, so that a resumed copy recognises parts already
    /// moved.
    fn note_parts(&self, splits: &[Split]) -> Result<String, TransferError> {
        let made = self.options.parts.join(MADE);
        let mut noted = std::fs::read_to_string(&made).unwrap_or_default();
        for found in splits.iter().filter_map(|split| identity(&self.part(split.number))) {
            if !noted.lines().any(|line| line == found) {
                noted += &(found + "\n");
            }
        }
        write_whole(&made, noted.as_bytes())?;
        Ok(noted)
    }

    /// Deletes parts of an earlier copy that this copy does not replace. Otherwise they would be mistaken for parts of
    /// this copy.
    fn remove_old_parts(&self, folder: &FileLocation, splits: &[Split]) -> Result<(), TransferError> {
        let name = |split: &Split| folder.join(&part_name(split.number, self.options.format)).to_string();
        let ours: std::collections::BTreeSet<String> = splits.iter().map(name).collect();
        old_parts(folder)?.iter().filter(|part| !ours.contains(&part.to_string())).try_for_each(FileLocation::remove)
    }
}

/// The error for a file that another program created after the copy started.
fn appeared(place: &str) -> TransferError {
    TransferError::Target(format!(
        "{place} appeared during the copy and was left as it is; move it away and use --resume, or use --resume --force to \
         overwrite it"
    ))
}

/// The file name of a split's part in a folder.
pub(crate) fn part_name(split: u32, format: Format) -> String {
    format!("part-{split:05}.{format}")
}

impl Sink for FileSink {
    fn describe(&self) -> String {
        self.options.place.as_ref().map_or("standard output".to_owned(), FileLocation::to_string)
    }

    fn writes(&self) -> Result<Writes, TransferError> {
        // Data is on disk before its split counts as done.
        let requests = RequestKinds { kinds: vec![WRITE], batch: BATCH };
        Ok(Writes { requests, in_flight: 1, durability: Durability::FSYNC })
    }

    fn room(&self) -> Room {
        Room { records: BATCH as usize, bytes: WRITE_BYTES }
    }

    fn open(&self, _: bool) -> LocalFuture<'_, Result<Box<dyn Writer + '_>, TransferError>> {
        Box::pin(async move {
            Ok(Box::new(PartWriter {
                sink: self,
                part: None,
                number: 0,
                ended: Vec::new(),
                requests: Vec::new(),
                clock: RealClock::new(),
            }) as Box<dyn Writer + '_>)
        })
    }

    fn finish(&self, splits: &[Split]) -> Result<(), TransferError> {
        match &self.options.place {
            None => Ok(()),
            Some(place) if self.options.folder => {
                // In an object store, each part was uploaded when its split ended.
                place.path().map_or(Ok(()), |folder| self.move_parts(folder, splits))?;
                if self.options.replace { self.remove_old_parts(place, splits) } else { Ok(()) }
            }
            Some(place) => self.join(place, splits),
        }
    }

    fn target(&self) -> Result<Box<dyn Target + '_>, TransferError> {
        let refused = |what: &str| Err(TransferError::BadInput(format!("{what}, so it cannot be verified")));
        let Some(place) = &self.options.place else { return refused("standard output cannot be read back") };
        if self.options.format.is_delimited() {
            return refused("CSV and TSV do not preserve numbers and nulls");
        }
        let Some(field) = &self.options.key_field else {
            return refused("without keys, missing records cannot be found");
        };
        let shape = Shape::carried_by(field);
        let FileSinkOptions { folder, format, .. } = self.options;
        Ok(Box::new(FileTarget { place: place.clone(), folder, format, shape }))
    }

    fn close(&self) -> Result<(), TransferError> {
        if self.options.place.is_some() {
            // Only cleanup: the result is complete, and the log says so.
            let _ = std::fs::remove_dir_all(&self.options.parts);
        }
        Ok(())
    }

    fn keeps_parts(&self) -> bool {
        self.options.folder || self.options.place.is_none()
    }

    fn own_members(&self) -> Vec<String> {
        // A document that has this field already has its key there, or is refused.
        self.options.key_field.clone().into_iter().collect()
    }

    fn keeps_nulls(&self) -> bool {
        self.options.format.keeps_nulls()
    }

    fn state(&self) -> Result<TargetState, TransferError> {
        let FileSinkOptions { place, folder, parts, columns, .. } = &self.options;
        let local = place.as_ref().is_some_and(|place| place.path().is_some());
        if !local && !folder {
            return Err(TransferError::BadInput(format!(
                "{}: several processes cannot write one remote file; write to a folder (end the URL with `/`)",
                self.describe()
            )));
        }
        let parts = local.then(|| std::path::absolute(parts).unwrap_or_else(|_| parts.clone()));
        Ok(TargetState { columns: columns.clone(), parts, ..TargetState::default() })
    }

    fn again(&self) -> Again {
        if self.options.place.is_some() { Again::Free } else { Again::Never }
    }
}

struct PartWriter<'a> {
    sink: &'a FileSink,
    part: Option<Encoder<'a>>,
    number: u32,
    ended: Vec<Ended>,
    requests: Vec<Request>,
    clock: RealClock,
}

impl PartWriter<'_> {
    fn unfinished(&self) -> PathBuf {
        self.sink.part(self.number).with_extension(format!("{}unfinished", self.sink.task))
    }

    fn failed(&self, error: &io::Error) -> TransferError {
        match &self.sink.options.place {
            Some(place) => TransferError::write(place.path().unwrap_or(&self.unfinished()), error),
            None => TransferError::Target(format!("standard output cannot be written: {error}")),
        }
    }
}

impl Writer for PartWriter<'_> {
    fn begin(&mut self, split: &Split) -> Result<(), TransferError> {
        self.number = split.number;
        let options = &self.sink.options;
        let made = match &options.place {
            None => Encoder::stdout(options),
            Some(_) => File::create(self.unfinished()).and_then(|file| Encoder::part(options, file)),
        };
        self.part = Some(made.map_err(|e| self.failed(&e))?);
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.ended.is_empty()
    }

    fn put(&mut self, records: Records) -> Result<(), TransferError> {
        let Some(part) = &mut self.part else { return Ok(()) };
        let begun_ns = self.clock.now_ns();
        let refused = part.write(&records);
        let refused = refused.map_err(|e| self.failed(&e))?;
        let bytes = records.bytes() - refused.iter().map(|refusal| records.bytes_of(refusal.position)).sum::<usize>();
        self.requests.push(Request {
            kind: WRITE,
            outcome: Ok(()),
            service_ns: self.clock.now_ns() - begun_ns,
            records: (records.len() - refused.len()) as u64,
            bytes: bytes as u64,
        });
        self.ended.push(Ended { records, refused, ..Ended::default() });
        Ok(())
    }

    fn requests(&mut self, into: &mut Vec<Request>) {
        into.append(&mut self.requests);
    }

    fn poll(&mut self, _: &mut Context<'_>, ended: &mut Vec<Ended>) -> Poll<Result<(), TransferError>> {
        ended.append(&mut self.ended);
        Poll::Ready(Ok(()))
    }

    fn end(&mut self) -> Result<(), TransferError> {
        let Some(part) = self.part.take() else { return Ok(()) };
        part.finish().map_err(|e| self.failed(&e))?;
        let Some(place) = &self.sink.options.place else { return Ok(()) };
        if self.sink.options.folder && place.path().is_none() {
            place.join(&part_name(self.number, self.sink.options.format)).put(&self.unfinished())?;
            return std::fs::remove_file(self.unfinished()).map_err(|e| self.failed(&e));
        }
        let whole = self.sink.part(self.number);
        std::fs::rename(self.unfinished(), &whole).map_err(|e| self.failed(&e))?;
        sync_folder(&whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Origin;
    use crate::source::Part;

    fn options(folder: &Path) -> FileSinkOptions {
        FileSinkOptions {
            place: Some(folder.join("out.jsonl").into()),
            folder: false,
            parts: folder.join(".out.jsonl.storebench-1"),
            format: Format::Jsonl,
            columns: Columns::default(),
            packing: Packing::Plain,
            key_field: Some("_id".to_owned()),
            fresh: true,
            replace: false,
        }
    }

    #[test]
    fn an_error_names_the_target_and_not_its_hidden_parts() {
        let folder = tempfile::tempdir().unwrap();
        // A file where the folder of the parts should be.
        std::fs::write(folder.path().join(".out.jsonl.storebench-1"), "").unwrap();
        let error = FileSink::open(options(folder.path())).err().unwrap().to_string();
        assert!(
            error.starts_with(&folder.path().join("out.jsonl: cannot be written").display().to_string()),
            "{error}"
        );
    }

    #[test]
    fn what_is_refused_is_not_measured_as_written() {
        let folder = tempfile::tempdir().unwrap();
        let sink = FileSink::open(options(folder.path())).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut writer = runtime.block_on(Sink::open(&sink, false)).unwrap();
        writer.begin(&Split { number: 0, part: Part::File { file: 0 }, bytes: None }).unwrap();
        let mut records = Records::new();
        for (key, body) in [("k0", &b"{}"[..]), ("broken", b"{\"a\":"), ("k1", b"{}"), ("a list", b"[1,2,3]")] {
            records.push(key, body, Origin::default());
        }
        writer.put(records).unwrap();
        let mut requests = Vec::new();
        writer.requests(&mut requests);
        let measured: Vec<_> = requests.iter().map(|request| (request.records, request.bytes)).collect();
        assert_eq!(measured, [(2, 2 * "k0{}".len() as u64)]);
        let mut ended = Vec::new();
        assert!(matches!(
            writer.poll(&mut Context::from_waker(std::task::Waker::noop()), &mut ended),
            Poll::Ready(Ok(()))
        ));
        let refused: Vec<usize> = ended[0].refused.iter().map(|refusal| refusal.position).collect();
        assert_eq!(refused, [1, 3]);
    }
}
