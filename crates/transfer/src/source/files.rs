//! Reads files, local and remote, and standard input.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec};
use storebench_documents::foreign::foreign;
use storebench_documents::unpack::{cut_off, unpacked};
use storebench_engine::Stop;
use storebench_engine::store::{Account, LocalFuture};

use super::array::ArrayRecords;
use super::csv::{CsvRecords, Escapes};
use super::damage::{Damage, UpToDamage};
use super::lines::{LONGEST_LINE_BYTES, Line, Lines};
use super::partitions::Partitions;
use super::reader::{FileReading, FileRecords, FoundRecord};
use super::{Opened, Packing, Part, Snapshot, Source, Split, Unreadable, flaws, tables};
use crate::columns::ColumnTypes;
use crate::error::TransferError;
use crate::format::Format;
use crate::place::{FileLocation, InspectedFile};
use crate::records::Origin;
use crate::shape::Shape;

/// Target size of a part of a file: small enough that a resume repeats little, large enough that the cost of ending a
/// part does not matter.
const SPLIT_BYTES: u64 = 64 << 20;
/// Minimum size of a part, however many workers there are.
const LEAST_SPLIT_BYTES: u64 = 1 << 20;

/// Bytes at the beginning of a file that are looked at before anything is written.
const HEAD_BYTES: u64 = 64 << 10;

/// Typical compression ratio of text, a low estimate.
const UNPACKED: u64 = 3;

struct InputFile {
    found: InspectedFile,
    packing: Packing,
    format: Format,
}

impl InputFile {
    /// Refuses a file whose compression does not match its name. HTTP servers may decompress on the way.
    fn check_packing(&self) -> Result<(), TransferError> {
        let (name, first) = (self.found.place.to_string(), &self.found.first);
        let named = Packing::of_name(&name);
        if named == Packing::Plain
            || self.packing == named
            || Packing::is_cut_off(&name, first)
            || name.starts_with("http")
        {
            return Ok(());
        }
        let content = match self.packing {
            Packing::Plain => format!("neither gzip nor zstd; it begins with `{}`", first.escape_ascii()),
            packing => packing.told_by().0.to_owned(),
        };
        let (named, _) = named.told_by();
        Err(TransferError::BadInput(format!(
            "{name}: its name says {named}, but its content is {content}. Fetch the file again, or correct its name"
        )))
    }
}

/// How to read files.
#[derive(Debug, Clone, Default)]
pub struct FileSourceOptions {
    /// The file format; `None` to derive it from the file names.
    pub format: Option<Format>,
    /// Column types of CSV and TSV. Other columns are text.
    pub types: ColumnTypes,
    /// The field delimiter of CSV and TSV, if it is not a comma or a tab.
    pub delimiter: Option<u8>,
    /// How fields of CSV and TSV are escaped; `None` rejects rows where that decides whether a field is null.
    pub escapes: Option<Escapes>,
    /// Whether the folders of files name fields, as `year=2024` does.
    pub partitions: bool,
    /// Files of the folder that are not read, because their names begin with `_`.
    pub left_out: u64,
}

/// Files, or standard input.
pub struct FileSource {
    files: Vec<InputFile>,
    /// `Some` for standard input and other streams.
    stream: Option<Stream>,
    options: FileSourceOptions,
    partitions: Partitions,
    /// Number of lines before an offset of a file, where it was counted.
    counted: Mutex<BTreeMap<(u32, u64), u64>>,
}

/// An input that can be read once, from its beginning.
struct Stream {
    name: String,
    input: Shared,
    /// The bytes that a preview has consumed.
    seen: Arc<Mutex<Vec<u8>>>,
}

/// An input that several readers read, one after the other.
#[derive(Clone)]
struct Shared(Arc<Mutex<Box<dyn Read + Send>>>);

impl Read for Shared {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).read(into)
    }
}

impl FileSource {
    /// Inspects the files.
    ///
    /// # Errors
    /// A file that does not exist or is not a regular file.
    pub fn open<P: Clone + Into<FileLocation>>(
        places: &[P],
        options: FileSourceOptions,
    ) -> Result<Self, TransferError> {
        let places: Vec<FileLocation> = places.iter().cloned().map(Into::into).collect();
        let input = |found: InspectedFile| InputFile {
            packing: Packing::of_magic(&found.first),
            format: options.format.unwrap_or_else(|| Format::of_name(&found.place.to_string())),
            found,
        };
        let files: Vec<InputFile> = FileLocation::look(&places)?.into_iter().map(input).collect();
        files.iter().try_for_each(InputFile::check_packing)?;
        files.iter().try_for_each(|file| file.format.check(&file.found.place.to_string()))?;
        let paths: Vec<String> = files.iter().map(|file| file.found.place.to_string()).collect();
        let partitions = if options.partitions { Partitions::of(&paths) } else { Partitions::default() };
        let source = Self { files, stream: None, options, partitions, counted: Mutex::default() };
        source.check_contents()?;
        source.check_headers()?;
        Ok(source)
    }

    /// Refuses files of formats that are not read, and files that are not JSON lines as a whole. Of remote files only the
    /// first bytes are known.
    fn check_contents(&self) -> Result<(), TransferError> {
        for (number, file) in self.files.iter().enumerate() {
            if file.format.is_typed() {
                continue;
            }
            let name = self.name(number as u32);
            let refused = |what: &str| Err(TransferError::BadInput(format!("{name}: {what}")));
            if let Some(what) = foreign(&file.found.first) {
                return refused(what);
            }
            let mut head = Vec::new();
            if file.found.place.path().is_some() {
                let opened = self.input(number as u32, 0, u64::MAX, &Arc::default());
                // Errors are reported by the copy, which reads as much as it can.
                let _ = opened.map(|input| input.take(HEAD_BYTES).read_to_end(&mut head));
            }
            if let Some(what) = foreign(&head) {
                return refused(what);
            }
            if file.format == Format::Jsonl {
                // A line that continues beyond the beginning is not looked at.
                let end = if head.len() as u64 == HEAD_BYTES {
                    memchr::memrchr(b'\n', &head).unwrap_or(0)
                } else {
                    head.len()
                };
                if let Some(what) = std::str::from_utf8(&head[..end]).ok().and_then(flaws::of_lines) {
                    return refused(what);
                }
            }
        }
        Ok(())
    }

    /// Refuses files with an invalid header, before anything is written. Remote files are checked later, during the
    /// copy.
    fn check_headers(&self) -> Result<(), TransferError> {
        let shape = Shape::new(None, "");
        for (number, file) in self.files.iter().enumerate() {
            if !file.format.is_delimited() || file.found.place.path().is_none() {
                continue;
            }
            let (number, read) = (number as u32, Arc::default());
            let opened = self.input(number, 0, u64::MAX, &read);
            let header = opened.and_then(|input| self.reader(input, number, (0, u64::MAX), read, &shape).map(drop));
            // Other errors are reported by the copy, which reads as much as it can.
            if let Err(wrong @ TransferError::BadInput(_)) = header {
                return Err(wrong);
            }
        }
        Ok(())
    }

    /// Reads standard input.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub fn stdin(options: FileSourceOptions, stop: Arc<Stop>) -> Result<Self, TransferError> {
        Self::stream("standard input", Box::new(StoppableStdin(stop)), options)
    }

    /// Reads an input that can be read once. Messages give it this name.
    ///
    /// # Errors
    /// The format is Parquet, which cannot be streamed, or is not supported by this binary.
    pub fn stream(name: &str, input: Box<dyn Read + Send>, options: FileSourceOptions) -> Result<Self, TransferError> {
        if options.format == Some(Format::Parquet) {
            return Err(TransferError::BadInput(format!(
                "Parquet cannot be streamed from {name}, because it is read from its end; pass a file"
            )));
        }
        options.format.map_or(Ok(()), |format| format.check(name))?;
        let input = Shared(Arc::new(Mutex::new(input)));
        let stream = Some(Stream { name: name.to_owned(), input, seen: Arc::default() });
        let partitions = Partitions::default();
        Ok(Self { files: Vec::new(), stream, options, partitions, counted: Mutex::default() })
    }

    /// The fields that the folders of all files name.
    pub fn partitions(&self) -> &[String] {
        &self.partitions.names
    }

    fn reading<'a>(&'a self, file: u32, shape: &'a Shape) -> FileReading<'a> {
        FileReading { maker: shape.maker(), file, partition: self.partitions.file(file), read: Arc::default() }
    }

    /// Estimated size of the records as text; `None` if a file's size is unknown.
    pub fn text_bytes(&self) -> Option<u64> {
        // Standard input has no files.
        let files = (!self.files.is_empty()).then_some(&self.files)?;
        let text = |file: &InputFile| {
            let dense = file.packing != Packing::Plain || file.format.is_typed();
            Some(file.found.bytes?.saturating_mul(if dense { UNPACKED } else { 1 }))
        };
        files.iter().map(text).try_fold(0_u64, |sum, bytes| Some(sum.saturating_add(bytes?)))
    }

    fn format(&self, file: u32) -> Format {
        self.files.get(file as usize).map_or(self.options.format.unwrap_or(Format::Jsonl), |input| input.format)
    }

    fn name(&self, file: u32) -> String {
        match &self.stream {
            Some(stream) => stream.name.clone(),
            None => self.files[file as usize].found.place.to_string(),
        }
    }

    /// The number of the line that starts at an offset, from 1; `None` if counting would require another decompression.
    fn line(&self, file: u32, offset: u64) -> Option<u64> {
        let input = self.files.get(file as usize).filter(|input| input.packing == Packing::Plain)?;
        let mut counted = self.counted.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let near = counted.range((file, 0)..=(file, offset)).next_back().map(|((_, at), lines)| (*at, *lines));
        let (from, mut lines) = near.unwrap_or((0, 0));
        let mut text = File::open(input.found.place.path()?).ok()?;
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

    /// Divides the source into about `parts` splits. Each file that can be read from any offset is cut into the same
    /// number of pieces, at least one.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn cut(&self, parts: u32) -> Result<Vec<Split>, TransferError> {
        let files = self.files.len().max(1) as u64;
        // The first files get the remainder of the division.
        self.split_by(&|number, _| ((u64::from(parts) + files - 1 - u64::from(number)) / files).max(1))
    }

    /// Divides the source into splits. `pieces_of` gives the number of pieces for the number and size of a file that
    /// can be read from any offset.
    fn split_by(&self, pieces_of: &dyn Fn(u32, u64) -> u64) -> Result<Vec<Split>, TransferError> {
        let mut parts = Vec::new();
        if self.stream.is_some() {
            parts.push((Part::File { file: 0 }, None));
        }
        for (number, file) in self.files.iter().enumerate() {
            let number = number as u32;
            if let Some(groups) = tables::groups(file.format, file.packing, &file.found)? {
                let groups = groups.into_iter().enumerate();
                parts.extend(groups.map(|(n, bytes)| (Part::RowGroup { file: number, group: n as u32 }, Some(bytes))));
                continue;
            }
            let Some(bytes) = anywhere(file) else {
                parts.push((Part::File { file: number }, file.found.bytes));
                continue;
            };
            let pieces = pieces_of(number, bytes);
            for piece in 0..pieces {
                let (start, end) = (bytes * piece / pieces, bytes * (piece + 1) / pieces);
                parts.push((Part::Bytes { file: number, start, end }, Some(end - start)));
            }
        }
        Ok(parts
            .into_iter()
            .enumerate()
            .map(|(number, (part, bytes))| Split { number: number as u32, part, bytes })
            .collect())
    }
}

/// The size of a file, if it can be read from any offset.
fn anywhere(file: &InputFile) -> Option<u64> {
    let plain = file.packing == Packing::Plain && file.format == Format::Jsonl && file.found.ranges;
    file.found.bytes.filter(|bytes| plain && *bytes > 0)
}

impl Source for FileSource {
    fn describe(&self) -> String {
        match &self.files[..] {
            [] => "standard input".to_owned(),
            [file] => file.found.place.to_string(),
            [first, _] => format!("{} and 1 other file", first.found.place),
            [first, others @ ..] => format!("{} and {} other files", first.found.place, others.len()),
        }
    }

    fn fingerprint(&self) -> String {
        let all: Vec<String> = self
            .files
            .iter()
            .map(|InputFile { found, .. }| {
                let bytes = found.bytes.map_or("?".to_owned(), |bytes| bytes.to_string());
                format!("{} {bytes} {}", found.place, found.mark)
            })
            .collect();
        all.join("\n")
    }

    fn account(&self) -> Option<Account> {
        let what = "files whose names, or those of their folders, begin with `_`";
        let left_out = self.options.left_out;
        Some(Account { beside: vec![(left_out, what.into())], ..Account::default() }).filter(|_| left_out > 0)
    }

    fn reopens(&self) -> bool {
        self.stream.is_none()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Yes("the copy stops if a file has changed when one of its parts is opened")
    }

    fn splits(&self, parallel: u32) -> Result<Vec<Split>, TransferError> {
        let total: u64 = self.files.iter().filter_map(anywhere).sum();
        let each = (total / u64::from(parallel.max(1) * 4)).clamp(LEAST_SPLIT_BYTES, SPLIT_BYTES);
        self.split_by(&|_, bytes| bytes.div_ceil(each))
    }

    fn open<'a>(&'a self, split: &'a Split, shape: &'a Shape) -> LocalFuture<'a, Opened<'a>> {
        Box::pin(async move {
            if let Part::Bytes { file, .. } | Part::File { file } | Part::RowGroup { file, .. } = split.part
                && self.stream.is_none()
                && file as usize >= self.files.len()
            {
                return Err(TransferError::BadInput(format!("the source has no file number {file}")));
            }
            let (file, start, end) = match split.part {
                Part::Bytes { file, start, end } => (file, start, end),
                Part::File { file } => (file, 0, u64::MAX),
                Part::RowGroup { file, group } => {
                    let found = &self.files[file as usize].found;
                    return tables::read(self.format(file), found, group, self.reading(file, shape));
                }
                Part::Keys { .. } | Part::View { .. } | Part::ViewRows { .. } | Part::Walk { .. } | Part::Query => {
                    return Err(TransferError::BadInput("files have no key ranges".into()));
                }
            };
            let read = Arc::new(AtomicU64::new(0));
            let input = self.input(file, start, end, &read)?;
            self.reader(input, file, (start, end), read, shape)
        })
    }

    fn preview<'a>(&'a self, split: &'a Split, shape: &'a Shape) -> LocalFuture<'a, Opened<'a>> {
        let Some(stream) = &self.stream else { return self.open(split, shape) };
        Box::pin(async move {
            let read = Arc::new(AtomicU64::new(0));
            let input = Counted {
                input: Ahead { seen: Arc::clone(&stream.seen), input: stream.input.clone() },
                read: Arc::clone(&read),
            };
            let input = self.unpacked_by_magic(input).map_err(|e| TransferError::read(&self.name(0), &e))?;
            self.reader(input, 0, (0, u64::MAX), read, shape)
        })
    }

    fn place(&self, split: &Split, origin: Origin) -> String {
        let name = self.name(origin.unit);
        let format = self.format(origin.unit);
        if format.is_typed() {
            return tables::place(format, &name, origin.at);
        }
        match self.line(origin.unit, origin.at) {
            Some(line) => format!("{name}, line {line}"),
            None if matches!(split.part, Part::File { .. }) => format!("{name}, byte {} unpacked", origin.at),
            None => format!("{name}, byte {}", origin.at),
        }
    }
}

impl FileSource {
    /// Reads the records of an opened file that start between two offsets.
    fn reader<'a>(
        &'a self,
        input: Box<dyn Read + Send>,
        file: u32,
        (start, end): (u64, u64),
        read: Arc<AtomicU64>,
        shape: &'a Shape,
    ) -> Opened<'a> {
        let (name, reading) = (self.name(file), FileReading { read, ..self.reading(file, shape) });
        if self.format(file) == Format::Arrow {
            return tables::read_stream(input, name, reading);
        }
        let (input, damage) = UpToDamage::new(input);
        Ok(match self.format(file) {
            Format::Json => reading.of(ArrayRecords::new(input, damage, name)),
            format @ (Format::Csv | Format::Tsv) => {
                let (types, given) = (&self.options.types, self.options.delimiter);
                let delimiter = given.unwrap_or(format.delimiter());
                let dialect = (delimiter, self.options.escapes);
                let rows = CsvRecords::new((input, damage), dialect, types, name)?;
                if given.is_none() {
                    rows.check_delimiter()?;
                }
                reading.of(rows)
            }
            Format::Jsonl | Format::Parquet | Format::Arrow => {
                reading.of(LineRecords { lines: Lines::new(input, start, end), damage, name })
            }
        })
    }

    fn input(
        &self,
        file: u32,
        start: u64,
        end: u64,
        read: &Arc<AtomicU64>,
    ) -> Result<Box<dyn Read + Send>, TransferError> {
        let name = self.name(file);
        let failed = |e: io::Error| TransferError::read(&name, &e);
        if let Some(Stream { seen, input, .. }) = &self.stream {
            let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
            let input = Counted { input: io::Cursor::new(seen).chain(input.clone()), read: Arc::clone(read) };
            return self.unpacked_by_magic(input).map_err(failed);
        }
        let input = &self.files[file as usize];
        if Packing::is_cut_off(&name, &input.found.first) {
            return Err(TransferError::Damaged(cut_off(&name, Packing::of_name(&name)).to_string()));
        }
        let opened = input.found.read(start.saturating_sub(1), end).map_err(failed)?;
        unpacked(Counted { input: opened, read: Arc::clone(read) }, input.packing, &name).map_err(failed)
    }

    /// Decompresses a stream as its first bytes indicate.
    fn unpacked_by_magic(&self, mut input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        let mut first = Vec::new();
        input.by_ref().take(4).read_to_end(&mut first)?;
        if let Some(what) = foreign(&first) {
            return Err(TransferError::BadInput(format!("{}: {what}", self.name(0))).into());
        }
        let packing = Packing::of_magic(&first);
        unpacked(io::Cursor::new(first).chain(input), packing, &self.name(0))
    }
}

/// Standard input. Waiting for more of it ends with an error once the copy is to stop.
struct StoppableStdin(Arc<Stop>);

impl Read for StoppableStdin {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        let stdin = io::stdin();
        loop {
            // What was read ahead does not show in the descriptor, so standard input is read without a buffer.
            let mut waits = [PollFd::new(&stdin, PollFlags::IN)];
            match rustix::event::poll(&mut waits, Some(&LOOK)) {
                Ok(0) | Err(rustix::io::Errno::INTR) if self.0.asked() => {
                    return Err(io::Error::other("interrupted while waiting for input"));
                }
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(rustix::io::read(&stdin, into)?),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Previews a stream: keeps the consumed bytes for later.
struct Ahead {
    seen: Arc<Mutex<Vec<u8>>>,
    input: Shared,
}

impl Read for Ahead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(into)?;
        self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend_from_slice(&into[..read]);
        Ok(read)
    }
}

/// Counts the bytes read from a file, before decompression.
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

struct LineRecords {
    lines: Lines<UpToDamage<Box<dyn Read + Send>>>,
    damage: Damage,
    name: String,
}

impl FileRecords for LineRecords {
    fn next(&mut self) -> Result<Option<FoundRecord<'_>>, TransferError> {
        let bad = |why, bytes| Unreadable { exact: false, ..Unreadable::of(why, bytes) };
        Ok(match self.lines.next().map_err(|error| TransferError::read(&self.name, &error))? {
            None => return self.damage.found().map_or(Ok(None), Err),
            Some((at, Line::Text(text))) => Some((at, Ok(text))),
            Some((at, Line::NotText(bytes, from))) => {
                Some((at, Err(bad(format!("not UTF-8 from byte {} of the line on", from + 1), bytes))))
            }
            Some((at, Line::TooLong(begin))) => {
                let why = format!("longer than {LONGEST_LINE_BYTES} bytes; only its beginning is shown");
                Some((at, Err(bad(why, begin))))
            }
        })
    }

    fn told(&mut self, bad: Unreadable) -> Unreadable {
        // The last line has no line break, so an incomplete record there was cut off.
        if self.lines.open && (self.damage.found().is_some() || bad.why.contains("EOF while parsing")) {
            return Unreadable { why: "the file ends in the middle of this record (truncated?)".to_owned(), ..bad };
        }
        bad
    }
}
