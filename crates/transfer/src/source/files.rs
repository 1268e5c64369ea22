//! Files on this machine, and standard input.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use storebench_core::store::LocalFuture;

use super::array::ArrayReader;
use super::csv::CsvReader;
use super::lines::{LONGEST_LINE_BYTES, Line, Lines};
use super::parquet::{self, ParquetReader};
use super::{Part, Reader, Room, Snapshot, Source, Split, Unreadable};
use crate::columns::ColumnTypes;
use crate::error::TransferError;
use crate::format::Format;
use crate::records::{Origin, Records};
use crate::shape::{Maker, Shape};

/// A part of a file is about so large: small enough that a resume repeats little, large enough that ending
/// one costs nothing.
const SPLIT_BYTES: u64 = 64 << 20;
/// And no smaller than this, for the sake of many workers.
const LEAST_SPLIT_BYTES: u64 = 1 << 20;

/// How a file is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// It is not.
    Plain,
    /// gzip, also of several members.
    Gzip,
    /// zstd, also of several frames.
    Zstd,
}

impl Packing {
    /// What the first bytes of a file tell.
    pub(crate) fn of_magic(first: &[u8]) -> Self {
        match first {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::Plain,
        }
    }

    /// What a file's name tells.
    pub fn of_name(name: &str) -> Self {
        match name.rsplit('.').next() {
            Some("gz") => Self::Gzip,
            Some("zst" | "zstd") => Self::Zstd,
            _ => Self::Plain,
        }
    }
}

struct InputFile {
    path: PathBuf,
    bytes: u64,
    modified: String,
    packing: Packing,
    format: Format,
}

/// How files are read.
#[derive(Debug, Clone, Default)]
pub struct FileSourceOptions {
    /// How records stand in them; none for what their names tell.
    pub format: Option<Format>,
    /// Types of the columns of CSV and TSV; the others are text.
    pub types: ColumnTypes,
}

/// Files, or standard input.
pub struct FileSource {
    files: Vec<InputFile>,
    stdin: bool,
    options: FileSourceOptions,
    /// Lines before an offset of a file, where they were counted.
    counted: Mutex<BTreeMap<(u32, u64), u64>>,
}

impl FileSource {
    /// Looks at the files.
    ///
    /// # Errors
    /// Which one is not there or no file.
    pub fn open(paths: &[PathBuf], options: FileSourceOptions) -> Result<Self, TransferError> {
        let files = paths.iter().map(|path| look(path, options.format)).collect::<Result<_, _>>()?;
        Ok(Self { files, stdin: false, options, counted: Mutex::default() })
    }

    /// Standard input.
    ///
    /// # Errors
    /// Parquet cannot be read as it comes.
    pub fn stdin(options: FileSourceOptions) -> Result<Self, TransferError> {
        if options.format == Some(Format::Parquet) {
            return Err(TransferError::BadInput(
                "Parquet is read from its end: give a file, not standard input".into(),
            ));
        }
        Ok(Self { files: Vec::new(), stdin: true, options, counted: Mutex::default() })
    }

    fn format(&self, file: u32) -> Format {
        self.files.get(file as usize).map_or(self.options.format.unwrap_or(Format::Jsonl), |input| input.format)
    }

    fn name(&self, file: u32) -> String {
        if self.stdin { "standard input".to_owned() } else { self.files[file as usize].path.display().to_string() }
    }

    /// The number of the line that begins at an offset, from 1; none where counting would mean unpacking
    /// again.
    fn line(&self, file: u32, offset: u64) -> Option<u64> {
        let input = self.files.get(file as usize).filter(|input| input.packing == Packing::Plain)?;
        let mut counted = self.counted.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let near = counted.range((file, 0)..=(file, offset)).next_back().map(|((_, at), lines)| (*at, *lines));
        let (from, mut lines) = near.unwrap_or((0, 0));
        let mut text = File::open(&input.path).ok()?;
        text.seek(SeekFrom::Start(from)).ok()?;
        let mut text = BufReader::with_capacity(1 << 20, text.take(offset - from));
        loop {
            let piece = io::BufRead::fill_buf(&mut text).ok()?;
            if piece.is_empty() {
                break;
            }
            lines += memchr::memchr_iter(b'\n', piece).count() as u64;
            let length = piece.len();
            io::BufRead::consume(&mut text, length);
        }
        counted.insert((file, offset), lines);
        Some(lines + 1)
    }
}

fn look(path: &Path, format: Option<Format>) -> Result<InputFile, TransferError> {
    let refused = |what: &str| TransferError::BadInput(format!("{}: {what}", path.display()));
    let found = path.metadata().map_err(|e| refused(&format!("cannot be read: {e}; is the path right?")))?;
    if found.is_dir() {
        return Err(refused("is a folder; name its files, as in `folder/*.jsonl`"));
    }
    let mut first = Vec::new();
    File::open(path)
        .and_then(|file| if found.is_file() { file.take(4).read_to_end(&mut first) } else { Ok(0) })
        .map_err(|e| refused(&format!("cannot be read: {e}")))?;
    let modified = found.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    Ok(InputFile {
        path: path.to_owned(),
        bytes: found.len(),
        modified: modified.map(|t| t.as_nanos().to_string()).unwrap_or_default(),
        packing: Packing::of_magic(&first),
        format: format.unwrap_or_else(|| Format::of_name(&path.display().to_string())),
    })
}

impl Source for FileSource {
    fn describe(&self) -> String {
        match &self.files[..] {
            [] => "standard input".to_owned(),
            [file] => file.path.display().to_string(),
            [first, others @ ..] => format!("{} and {} other files", first.path.display(), others.len()),
        }
    }

    fn fingerprint(&self) -> String {
        let all: Vec<String> =
            self.files.iter().map(|f| format!("{} {} {}", f.path.display(), f.bytes, f.modified)).collect();
        all.join("\n")
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Yes("files do not change meanwhile")
    }

    fn splits(&self, parallel: u32) -> Result<Vec<Split>, TransferError> {
        let plain = |f: &&InputFile| f.packing == Packing::Plain && f.format == Format::Jsonl && f.bytes > 0;
        let total: u64 = self.files.iter().filter(plain).map(|f| f.bytes).sum();
        let each = (total / u64::from(parallel.max(1) * 4)).clamp(LEAST_SPLIT_BYTES, SPLIT_BYTES);
        let mut parts = Vec::new();
        if self.stdin {
            parts.push((Part::File { file: 0 }, None));
        }
        for (number, file) in self.files.iter().enumerate() {
            let number = number as u32;
            if file.format == Format::Parquet {
                let groups = parquet::row_groups(&file.path)?.into_iter().enumerate();
                parts.extend(groups.map(|(n, bytes)| (Part::RowGroup { file: number, group: n as u32 }, Some(bytes))));
                continue;
            }
            if !plain(&file) {
                parts.push((Part::File { file: number }, Some(file.bytes)));
                continue;
            }
            let pieces = file.bytes.div_ceil(each);
            for piece in 0..pieces {
                let (start, end) = (file.bytes * piece / pieces, file.bytes * (piece + 1) / pieces);
                parts.push((Part::Bytes { file: number, start, end }, Some(end - start)));
            }
        }
        Ok(parts
            .into_iter()
            .enumerate()
            .map(|(number, (part, bytes))| Split { number: number as u32, part, bytes })
            .collect())
    }

    fn open<'a>(
        &'a self,
        split: &'a Split,
        shape: &'a Shape,
    ) -> LocalFuture<'a, Result<Box<dyn Reader + 'a>, TransferError>> {
        Box::pin(async move {
            let (file, start, end) = match split.part {
                Part::Bytes { file, start, end } => (file, start, end),
                Part::File { file } => (file, 0, u64::MAX),
                Part::RowGroup { file, group } => {
                    let path = &self.files[file as usize].path;
                    let reader = ParquetReader::new(path, group, shape.maker(), file)?;
                    return Ok(Box::new(reader) as Box<dyn Reader + 'a>);
                }
                Part::Keys { .. } | Part::View { .. } | Part::Walk { .. } | Part::Query => {
                    return Err(TransferError::BadInput("files have no key ranges".into()));
                }
            };
            let read = Arc::new(AtomicU64::new(0));
            let input = self.input(file, start, &read)?;
            let (name, maker) = (self.name(file), shape.maker());
            Ok(match self.format(file) {
                Format::Json => Box::new(ArrayReader::new(input, maker, file, name, read)) as Box<dyn Reader + 'a>,
                format @ (Format::Csv | Format::Tsv) => {
                    let types = &self.options.types;
                    Box::new(CsvReader::new(input, format.delimiter(), types, maker, file, name, read)?)
                }
                Format::Jsonl | Format::Parquet => {
                    Box::new(LineReader { lines: Lines::new(input, start, end), maker, file, name, read })
                }
            })
        })
    }

    fn place(&self, split: &Split, origin: Origin) -> String {
        let name = self.name(origin.unit);
        if self.format(origin.unit) == Format::Parquet {
            return format!("{name}, row {}", origin.at + 1);
        }
        match self.line(origin.unit, origin.at) {
            Some(line) => format!("{name}, line {line}"),
            None if matches!(split.part, Part::File { .. }) => format!("{name}, byte {} unpacked", origin.at),
            None => format!("{name}, byte {}", origin.at),
        }
    }
}

impl FileSource {
    fn input(&self, file: u32, start: u64, read: &Arc<AtomicU64>) -> Result<Box<dyn Read + Send>, TransferError> {
        let name = self.name(file);
        let failed = |e: io::Error| TransferError::read(&name, &e);
        if self.stdin {
            let mut first = [0; 4];
            let mut stdin = io::stdin();
            let mut filled = 0;
            while filled < 4 {
                match stdin.read(&mut first[filled..]).map_err(failed)? {
                    0 => break,
                    more => filled += more,
                }
            }
            let begun = io::Cursor::new(first[..filled].to_vec());
            let counted = Counted { input: begun.chain(stdin), read: Arc::clone(read) };
            return unpacked(counted, Packing::of_magic(&first[..filled])).map_err(failed);
        }
        let input = &self.files[file as usize];
        let mut opened = File::open(&input.path).map_err(failed)?;
        if start > 0 {
            opened.seek(SeekFrom::Start(start - 1)).map_err(failed)?;
        }
        unpacked(Counted { input: opened, read: Arc::clone(read) }, input.packing).map_err(failed)
    }
}

fn unpacked(input: impl Read + Send + 'static, packing: Packing) -> io::Result<Box<dyn Read + Send>> {
    Ok(match packing {
        Packing::Plain => Box::new(input),
        Packing::Gzip => Box::new(flate2::read::MultiGzDecoder::new(input)),
        Packing::Zstd => Box::new(zstd::stream::read::Decoder::new(input)?),
    })
}

/// Counts what is read of a file, before it is unpacked.
struct Counted<R> {
    input: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(into)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

struct LineReader<'a> {
    lines: Lines<Box<dyn Read + Send>>,
    maker: Maker<'a>,
    file: u32,
    name: String,
    read: Arc<AtomicU64>,
}

impl Reader for LineReader<'_> {
    fn poll_read(
        &mut self,
        _: &mut Context<'_>,
        room: Room,
        into: &mut Records,
        bad: &mut Vec<Unreadable>,
    ) -> Poll<Result<bool, TransferError>> {
        while into.len() < room.records && into.bytes() < room.bytes {
            let (at, line) = match self.lines.next() {
                Ok(Some(found)) => found,
                Ok(None) => return Poll::Ready(Ok(false)),
                Err(error) => return Poll::Ready(Err(broken(&self.name, &error))),
            };
            let origin = Origin { unit: self.file, at };
            let lossy = |bytes| String::from_utf8_lossy(bytes).into_owned();
            let (why, text, exact) = match line {
                Line::Text(text) => match self.maker.text(text, origin, into) {
                    Ok(()) => continue,
                    Err(why) => (why, text.to_owned(), true),
                },
                Line::NotText(bytes, from) => {
                    (format!("not UTF-8 from byte {} of the line on", from + 1), lossy(bytes), false)
                }
                Line::TooLong(begin) => (
                    format!("longer than {LONGEST_LINE_BYTES} bytes; given here is its beginning"),
                    lossy(begin),
                    false,
                ),
            };
            bad.push(Unreadable { origin, key: None, why, text, exact });
        }
        Poll::Ready(Ok(true))
    }

    fn bytes(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

/// An error on the way out of a file: of the system, or of what the file is packed with.
pub(super) fn broken(name: &str, error: &io::Error) -> TransferError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => TransferError::Source(format!(
            "{name} is cut off: it ends in the middle of what it is packed with; what stands before the end was copied, \
             the rest is not there. Get the whole file and copy again"
        )),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other => {
            TransferError::Source(format!(
                "{name} cannot be unpacked further: {error}; what stands before was copied. Get the whole file and copy again"
            ))
        }
        _ => TransferError::read(name, error),
    }
}
