//! Records into files of JSON lines: a part for each split, made one file (or moved into one folder) when
//! all are whole.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};

use storebench_core::store::{ErrorKind, LocalFuture};

use super::{Again, Ended, Refusal, Sink, Writer};
use crate::error::TransferError;
use crate::records::Records;
use crate::shape::{Shape, members};
use crate::source::{Packing, Room, Split};
use crate::verify::{FileTarget, Target};

/// About so much is handed to the system at once.
const WRITE_BYTES: usize = 1 << 20;

/// Where records are written to.
#[derive(Debug, Clone)]
pub struct FileSinkOptions {
    /// The file, or the folder where `folder`; none for standard output.
    pub path: Option<PathBuf>,
    /// Whether each split becomes a file of its own in a folder.
    pub folder: bool,
    /// Folder for parts until all are whole; on the same file system as the target.
    pub parts: PathBuf,
    /// How files are packed.
    pub packing: Packing,
    /// The field that gets the key; none to leave it out.
    pub key_field: Option<String>,
}

/// Files of JSON lines, or standard output.
pub struct FileSink {
    options: FileSinkOptions,
}

impl FileSink {
    /// Makes the folder for parts.
    ///
    /// # Errors
    /// The system's.
    pub fn open(options: FileSinkOptions) -> Result<Self, TransferError> {
        let failed = |path: &Path, e: io::Error| {
            TransferError::BadInput(format!("{}: cannot be written: {e}; use another path", path.display()))
        };
        if let Some(path) = &options.path {
            std::fs::create_dir_all(&options.parts).map_err(|e| failed(&options.parts, e))?;
            if options.folder {
                std::fs::create_dir_all(path).map_err(|e| failed(path, e))?;
            }
        }
        Ok(Self { options })
    }

    fn part(&self, number: u32) -> PathBuf {
        self.options.parts.join(format!("part-{number:05}"))
    }

    /// All parts one behind the other; both packings allow it.
    fn join(&self, path: &Path, splits: &[Split]) -> Result<(), TransferError> {
        let whole = self.options.parts.join("whole");
        let failed = |e: &io::Error| TransferError::write(path, e);
        let mut out = File::create(&whole).map_err(|e| failed(&e))?;
        for split in splits {
            let mut part = File::open(self.part(split.number)).map_err(|e| failed(&e))?;
            // The kernel copies, or shares the blocks where the file system can.
            io::copy(&mut part, &mut out).map_err(|e| failed(&e))?;
        }
        out.sync_all().map_err(|e| failed(&e))?;
        std::fs::rename(&whole, path).map_err(|e| failed(&e))?;
        sync_folder(path)
    }

    fn move_parts(&self, folder: &Path, splits: &[Split]) -> Result<(), TransferError> {
        for split in splits {
            let part = self.part(split.number);
            let target = part_in(folder, split.number);
            match std::fs::rename(&part, &target) {
                // Moved before a crash.
                Err(e) if e.kind() == io::ErrorKind::NotFound && target.exists() => {}
                Err(e) => return Err(TransferError::write(&target, &e)),
                Ok(()) => {}
            }
        }
        sync_folder(&folder.join("."))
    }
}

/// The file of a split in a folder.
pub(crate) fn part_in(folder: &Path, split: u32) -> PathBuf {
    folder.join(format!("part-{split:05}.jsonl"))
}

/// Makes renames within a file's folder survive a power failure.
fn sync_folder(path: &Path) -> Result<(), TransferError> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| TransferError::write(folder, &e))
}

impl Sink for FileSink {
    fn describe(&self) -> String {
        self.options.path.as_ref().map_or("standard output".to_owned(), |path| path.display().to_string())
    }

    fn room(&self) -> Room {
        Room { records: 10_000, bytes: WRITE_BYTES }
    }

    fn open(&self) -> LocalFuture<'_, Result<Box<dyn Writer + '_>, TransferError>> {
        Box::pin(async move {
            Ok(Box::new(PartWriter { sink: self, part: None, number: 0, lines: Vec::new(), ended: Vec::new() })
                as Box<dyn Writer + '_>)
        })
    }

    fn finish(&self, splits: &[Split]) -> Result<(), TransferError> {
        match &self.options.path {
            None => return Ok(()),
            Some(folder) if self.options.folder => self.move_parts(folder, splits)?,
            Some(path) => self.join(path, splits)?,
        }
        // Only tidies up: what was asked for is whole.
        let _ = std::fs::remove_dir_all(&self.options.parts);
        Ok(())
    }

    fn target(&self) -> Result<Box<dyn Target + '_>, TransferError> {
        let refused = |what: &str| Err(TransferError::BadInput(format!("{what}, so it cannot be verified")));
        let Some(path) = &self.options.path else { return refused("what went to standard output is out of reach") };
        let Some(field) = &self.options.key_field else {
            return refused("without keys nobody can tell what is missing");
        };
        let shape = Shape::carried_by(field);
        Ok(Box::new(FileTarget { path: path.clone(), folder: self.options.folder, shape }))
    }

    fn again(&self) -> Again {
        if self.options.path.is_some() { Again::Free } else { Again::Never }
    }
}

enum Packer {
    Plain(File),
    Gzip(flate2::write::GzEncoder<File>),
    Zstd(zstd::stream::write::Encoder<'static, File>),
    Stdout,
}

impl Packer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.write_all(bytes),
            Self::Gzip(out) => out.write_all(bytes),
            Self::Zstd(out) => out.write_all(bytes),
            Self::Stdout => io::stdout().lock().write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.sync_all(),
            Self::Gzip(out) => out.finish()?.sync_all(),
            Self::Zstd(out) => out.finish()?.sync_all(),
            Self::Stdout => io::stdout().lock().flush(),
        }
    }
}

struct PartWriter<'a> {
    sink: &'a FileSink,
    part: Option<Packer>,
    number: u32,
    lines: Vec<u8>,
    ended: Vec<Ended>,
}

impl PartWriter<'_> {
    fn unfinished(&self) -> PathBuf {
        self.sink.part(self.number).with_extension("unfinished")
    }

    fn failed(&self, error: &io::Error) -> TransferError {
        match &self.sink.options.path {
            Some(path) => TransferError::write(path, error),
            None => TransferError::Target(format!("standard output cannot be written: {error}")),
        }
    }
}

impl Writer for PartWriter<'_> {
    fn begin(&mut self, split: &Split) -> Result<(), TransferError> {
        self.number = split.number;
        let options = &self.sink.options;
        if options.path.is_none() {
            self.part = Some(Packer::Stdout);
            return Ok(());
        }
        let made = File::create(self.unfinished()).and_then(|file| {
            Ok(match options.packing {
                Packing::Plain => Packer::Plain(file),
                Packing::Gzip => Packer::Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::fast())),
                Packing::Zstd => Packer::Zstd(zstd::stream::write::Encoder::new(file, 3)?),
            })
        });
        self.part = Some(made.map_err(|e| self.failed(&e))?);
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.ended.is_empty()
    }

    fn put(&mut self, records: Records) -> Result<(), TransferError> {
        self.lines.clear();
        let mut refused = Vec::new();
        for (position, (key, body, _)) in records.iter().enumerate() {
            if let Err(why) = line(key, body, self.sink.options.key_field.as_deref(), &mut self.lines) {
                refused.push(Refusal { position, kind: ErrorKind::Refused, why, tries: 1 });
            }
        }
        let written = self.part.as_mut().map_or(Ok(()), |part| part.write(&self.lines));
        written.map_err(|e| self.failed(&e))?;
        self.ended.push(Ended { records, refused, ..Ended::default() });
        Ok(())
    }

    fn poll(&mut self, _: &mut Context<'_>, ended: &mut Vec<Ended>) -> Poll<Result<(), TransferError>> {
        ended.append(&mut self.ended);
        Poll::Ready(Ok(()))
    }

    fn end(&mut self) -> Result<(), TransferError> {
        let Some(part) = self.part.take() else { return Ok(()) };
        part.finish().map_err(|e| self.failed(&e))?;
        if self.sink.options.path.is_some() {
            let whole = self.sink.part(self.number);
            std::fs::rename(self.unfinished(), &whole).map_err(|e| self.failed(&e))?;
            sync_folder(&whole)?;
        }
        Ok(())
    }
}

/// Appends a document as one line. Blanks of a document that would end the line are left out.
///
/// # Errors
/// Why the key cannot stand in it.
fn line(key: &str, body: &[u8], key_field: Option<&str>, out: &mut Vec<u8>) -> Result<(), String> {
    let begin = out.len();
    let trimmed = body.trim_ascii();
    match key_field {
        None => out.extend_from_slice(trimmed),
        Some(name) if trimmed.first() != Some(&b'{') => {
            return Err(format!("it is no JSON object, so its key has no place in it as `{name}`"));
        }
        Some(name) if memchr::memmem::find(trimmed, name.as_bytes()).is_some() => {
            renamed(key, trimmed, name, out)?;
        }
        Some(name) => members::with_first(trimmed, name, key, out),
    }
    // JSON holds line ends between its tokens only: within texts they are escaped.
    if memchr::memchr2(b'\n', b'\r', &out[begin..]).is_some() {
        let mut kept = begin;
        for at in begin..out.len() {
            if !matches!(out[at], b'\n' | b'\r') {
                out[kept] = out[at];
                kept += 1;
            }
        }
        out.truncate(kept);
    }
    out.push(b'\n');
    Ok(())
}

/// As [`line`], where the document may have a field of the key's name: the same key may stand there.
fn renamed(key: &str, body: &[u8], name: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let text = std::str::from_utf8(body).map_err(|e| format!("it is not UTF-8: {e}"))?;
    let mut found = Vec::new();
    members::find(text, &[name.to_owned()], &mut found).map_err(|e| format!("it is no JSON: {e}"))?;
    match found.first().copied().flatten() {
        None => members::with_first(body, name, key, out),
        Some(value) if serde_json::from_str::<String>(value.get()).is_ok_and(|value| value == key) => {
            out.extend_from_slice(body);
        }
        Some(_) => return Err(format!("it has a field `{name}` that is not its key; give another --key-field")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_one_line() {
        let mut out = Vec::new();
        line("k\n", b"{\r\n \"a\": \"x\\ny\"\n}", Some("_id"), &mut out).unwrap();
        assert_eq!(out, b"{\"_id\":\"k\\n\",\"a\": \"x\\ny\"}\n");
        out.clear();
        line("k", b"[1]\n", None, &mut out).unwrap();
        line("k", b"{ }", Some("_id"), &mut out).unwrap();
        line("k", b"{\"_id\":\"k\"}", Some("_id"), &mut out).unwrap();
        line("k", b"{\"a\":\"_id\"}", Some("_id"), &mut out).unwrap();
        let expected = b"[1]\n{\"_id\":\"k\"}\n{\"_id\":\"k\"}\n{\"_id\":\"k\",\"a\":\"_id\"}\n";
        assert_eq!(out, expected);
        let length = out.len();
        assert!(line("k", b"[1]", Some("_id"), &mut out).unwrap_err().contains("no JSON object"));
        assert!(line("k", b"{\"_id\":\"j\"}", Some("_id"), &mut out).unwrap_err().contains("--key-field"));
        assert_eq!(out.len(), length);
    }
}
