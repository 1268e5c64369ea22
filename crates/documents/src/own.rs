//! The user's own documents. A JSONL file is read once to find the offset of each line, then read by offset. Memory
//! does not depend on the size of the file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

use super::error::{DocumentError, cut};
use super::numbers::{write_u64, write_uuid};
use super::plan::{MARKER, Part};
use super::reader::LineReader;
use super::unpack::DamagedData;
use super::{escape, json};
use storebench_study::workload::BadLines;

/// What to read from the file.
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    pub(crate) seed: u64,
    pub(crate) file: PathBuf,
    /// Place in the study, for errors.
    pub(crate) path: &'a str,
    pub(crate) key: &'a [Part],
    /// Take only the first documents, up to this number. `None` takes all.
    pub(crate) count: Option<u64>,
    pub(crate) bad_lines: BadLines,
    /// Top-level members to leave out.
    pub(crate) without: &'a [String],
    pub(crate) scratch: &'a Path,
}

/// The position of one line and of its key. 24 bytes in the index file.
struct Entry {
    offset: u64,
    key_offset: u64,
    len: u32,
    key_len: u32,
}

const ENTRY_BYTES: usize = 24;

impl Entry {
    fn to_bytes(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.key_offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.len.to_le_bytes());
        bytes[20..].copy_from_slice(&self.key_len.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let short = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Self { offset: long(0), key_offset: long(8), len: short(16), key_len: short(20) }
    }
}

/// A file of documents, open for reading by offset.
#[derive(Debug)]
pub(crate) struct OwnFile {
    lines: File,
    index: File,
    keys: Option<File>,
    pub(crate) count: u64,
    pub(crate) skipped: u64,
    pub(crate) bytes: u64,
    /// xxh3 of all valid lines, each followed by a line feed.
    pub(crate) hash: u64,
    pub(crate) longest_key: u64,
}

impl OwnFile {
    /// Reads the whole file once.
    pub(crate) fn scan(source: &Source<'_>) -> Result<Self, DocumentError> {
        let wrong =
            |line: Option<u64>, message: &str| DocumentError::in_file(source.path, source.file.clone(), line, message);
        let scratch_failed = |e: io::Error| {
            DocumentError::in_file(
                source.path,
                source.scratch.to_owned(),
                None,
                &format!("cannot be written: {e}; the index of `from` needs free space and write permission here"),
            )
        };
        let mut reader = LineReader::open(&source.file)
            .map_err(|e| wrong(None, &format!("cannot be opened: {e}; check the path")))?;
        let scratch = |suffix: &str| {
            let name: String =
                source.name.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
            File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(source.scratch.join(format!("{name}-{:016x}.{suffix}", source.seed)))
                .map_err(scratch_failed)
        };
        let changed = reader.compressed() || !source.without.is_empty();
        let mut spool = changed.then(|| scratch("lines")).transpose()?.map(BufWriter::new);
        let mut index = BufWriter::new(scratch("index")?);
        let stored_keys = source.key.iter().any(|part| matches!(part, Part::Own(_)));
        let mut keys = stored_keys.then(|| scratch("keys")).transpose()?.map(BufWriter::new);

        let (mut count, mut skipped, mut bytes, mut longest_key, mut key_offset) = (0u64, 0u64, 0u64, 0u64, 0u64);
        let (mut line, mut key) = (Vec::new(), Vec::new());
        let mut hash = Xxh3::new();
        while source.count.is_none_or(|wanted| count < wanted) {
            match reader.next(&mut line) {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) => {
                    let again = DamagedData::within(&e).map_or("", |_| "; download or compress it again");
                    return Err(wrong(Some(reader.line()), &format!("cannot be read: {e}{again}")));
                }
            }
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            key.clear();
            if let Err(message) = take_key(&line, source, count, &mut key) {
                match source.bad_lines {
                    BadLines::Skip => {
                        skipped += 1;
                        continue;
                    }
                    BadLines::Stop => {
                        return Err(wrong(
                            Some(reader.line()),
                            &format!("{message}; fix the line, or write `bad_lines = \"skip\"` to skip such lines"),
                        ));
                    }
                }
            }
            if !source.without.is_empty() {
                line = leave_out(&line, source.without);
            }
            let offset = match &mut spool {
                Some(spool) => {
                    spool.write_all(&line).map_err(scratch_failed)?;
                    bytes
                }
                None => reader.begin(),
            };
            if let Some(keys) = &mut keys {
                keys.write_all(&key).map_err(scratch_failed)?;
            }
            let entry = Entry { offset, key_offset, len: line.len() as u32, key_len: key.len() as u32 };
            index.write_all(&entry.to_bytes()).map_err(scratch_failed)?;
            key_offset += key.len() as u64;
            longest_key = longest_key.max(key.len() as u64);
            bytes += line.len() as u64;
            hash.update(&line);
            hash.update(b"\n");
            count += 1;
        }
        if count == 0 {
            return Err(wrong(
                None,
                &match skipped {
                    0 => "holds no document; expected one JSON object on each line".to_owned(),
                    n => format!("holds no document: all {n} lines were skipped as invalid; expected a JSONL file"),
                },
            ));
        }
        let close = |file: BufWriter<File>| file.into_inner().map_err(|e| scratch_failed(e.into_error()));
        let lines = match spool {
            Some(spool) => close(spool)?,
            None => File::open(&source.file).map_err(|e| wrong(None, &format!("cannot be opened again: {e}")))?,
        };
        let keys = keys.map(close).transpose()?;
        Ok(Self { lines, index: close(index)?, keys, count, skipped, bytes, hash: hash.digest(), longest_key })
    }

    pub(crate) fn holds_keys(&self) -> bool {
        self.keys.is_some()
    }

    fn entry(&self, index: u64) -> io::Result<Entry> {
        if index >= self.count {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut bytes = [0; ENTRY_BYTES];
        self.index.read_exact_at(&mut bytes, index * ENTRY_BYTES as u64)?;
        Ok(Entry::from_bytes(&bytes))
    }

    fn append(file: &File, offset: u64, len: u32, out: &mut Vec<u8>) -> io::Result<()> {
        let begin = out.len();
        out.resize(begin + len as usize, 0);
        file.read_exact_at(&mut out[begin..], offset).inspect_err(|_| out.truncate(begin))
    }

    /// Appends the key. Appends nothing if `index` is not below the count or the file has shrunk.
    pub(crate) fn write_key(&self, index: u64, out: &mut Vec<u8>) {
        if let (Some(keys), Ok(entry)) = (&self.keys, self.entry(index)) {
            // A failed read leaves `out` unchanged, as documented.
            let _ = Self::append(keys, entry.key_offset, entry.key_len, out);
        }
    }

    /// Appends the document, or nothing if it can no longer be read.
    pub(crate) fn write_document(&self, index: u64, version: u64, out: &mut Vec<u8>) {
        let begin = out.len();
        let Ok(entry) = self.entry(index) else { return };
        if version == 0 {
            // A failed read leaves `out` unchanged, as documented.
            let _ = Self::append(&self.lines, entry.offset, entry.len, out);
            return;
        }
        out.extend_from_slice(b"{\"");
        out.extend_from_slice(MARKER.as_bytes());
        out.extend_from_slice(b"\":[");
        write_u64(index, 0, out);
        out.push(b',');
        write_u64(version, 0, out);
        out.push(b']');
        let body = out.len();
        if Self::append(&self.lines, entry.offset, entry.len, out).is_err() {
            return out.truncate(begin);
        }
        // Remove the object's opening brace and any white space before it.
        let blank = |b: &&u8| b.is_ascii_whitespace();
        let brace = out[body..].iter().take_while(blank).count();
        let inside = out[body..].iter().skip(brace + 1).find(|b| !b.is_ascii_whitespace());
        if inside == Some(&b'}') {
            out.drain(body..=body + brace);
        } else if brace > 0 {
            out[body] = b',';
            out.drain(body + 1..=body + brace);
        } else if let Some(first) = out.get_mut(body) {
            *first = b',';
        }
    }

    /// A value of a document by the path of its field.
    pub(crate) fn value(&self, index: u64, path: &str) -> Option<Value> {
        let mut line = Vec::new();
        self.write_document(index, 0, &mut line);
        let document: Value = serde_json::from_slice(&line).ok()?;
        lookup(&document, path).cloned()
    }

    /// Appends the value of a field as it appears in keys, escaped for JSON.
    pub(crate) fn write_field(&self, index: u64, path: &str, out: &mut Vec<u8>) {
        let begin = out.len();
        if let Some(value) = self.value(index, path) {
            write_plain(&value, out);
            escape::escape_tail(begin, out);
        }
    }
}

/// Finds `a.b` in `{"a": {"b": …}}`. A field whose name contains the dot takes precedence.
fn lookup<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    if let Some(found) = value.get(path) {
        return Some(found);
    }
    let (first, rest) = path.split_once('.')?;
    lookup(value.get(first)?, rest)
}

/// Appends a scalar as it appears in a key. Returns false if the value is not a scalar.
pub(crate) fn write_plain(value: &Value, out: &mut Vec<u8>) -> bool {
    match value {
        Value::String(text) => out.extend_from_slice(text.as_bytes()),
        Value::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::Bool(yes) => out.extend_from_slice(if *yes { b"true" } else { b"false" }),
        _ => return false,
    }
    true
}

/// The object without its members of these names.
fn leave_out(object: &[u8], names: &[String]) -> Vec<u8> {
    let is_kept =
        |member: &json::Member<'_>| json::name(member.name).is_none_or(|name| !names.iter().any(|of| *of == name));
    let kept: Vec<&[u8]> = json::members(object).filter(is_kept).map(|member| member.whole).collect();
    [&b"{"[..], &kept.join(&b','), b"}"].concat()
}

/// Checks that a line is a document and appends its key.
fn take_key(line: &[u8], source: &Source<'_>, index: u64, key: &mut Vec<u8>) -> Result<(), String> {
    let text =
        std::str::from_utf8(line).map_err(|e| format!("is not UTF-8 (byte {} of the line)", e.valid_up_to() + 1))?;
    let fields: Vec<&str> = source
        .key
        .iter()
        .filter_map(|part| if let Part::Own(path) = part { Some(path.as_str()) } else { None })
        .collect();
    let mut reader = serde_json::Deserializer::from_str(text);
    let found = Wanted { fields: &fields }
        .deserialize(&mut reader)
        .and_then(|found| reader.end().map(|()| found))
        .map_err(|e| {
            if text.trim_start().starts_with('{') {
                format!("is not JSON ({e}): {}", cut(text))
            } else {
                format!("not a JSON object: {}", cut(text))
            }
        })?;
    if found.marked {
        return Err(format!("has a field `{MARKER}`, which Storebench uses to mark versions; rename the field"));
    }
    let mut values = found.values.into_iter();
    for part in source.key {
        match part {
            Part::Literal(text) => {
                let begin = key.len();
                key.extend_from_slice(text);
                escape::unescape_tail(begin, key);
            }
            Part::Index(width) => write_u64(index, *width, key),
            Part::Uuid => write_uuid(source.seed, index, key),
            Part::Own(path) => match values.next().flatten() {
                Some(value) if write_plain(&value, key) => {}
                Some(_) => return Err(format!("has no text, number or bool in `{path}`, which the key uses")),
                None => return Err(format!("has no field `{path}`, which the key uses")),
            },
            Part::Seq(_) | Part::Parent(_) | Part::ParentKey | Part::Slot { .. } => {}
        }
    }
    Ok(())
}

/// What is kept of a line: the values that the key uses, in order.
struct KeyValues {
    values: Vec<Option<Value>>,
    marked: bool,
}

/// Reads one object and keeps only the wanted fields; everything else is validated and dropped.
struct Wanted<'a> {
    fields: &'a [&'a str],
}

impl<'de> DeserializeSeed<'de> for Wanted<'_> {
    type Value = KeyValues;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<KeyValues, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Wanted<'_> {
    type Value = KeyValues;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<KeyValues, A::Error> {
        let mut found = KeyValues { values: vec![None; self.fields.len()], marked: false };
        while let Some(name) = map.next_key::<Name<'_>>()? {
            let name = name.0;
            found.marked |= name == MARKER;
            let wanted = |path: &str| path == name || path.strip_prefix(&*name).is_some_and(|r| r.starts_with('.'));
            if !self.fields.iter().any(|path| wanted(path)) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value::<Value>()?;
            for (slot, path) in found.values.iter_mut().zip(self.fields) {
                if *path == name {
                    *slot = Some(value.clone());
                } else if let Some(rest) = path.strip_prefix(&*name).and_then(|r| r.strip_prefix('.'))
                    && let Some(inner) = lookup(&value, rest)
                {
                    *slot = Some(inner.clone());
                }
            }
        }
        Ok(found)
    }
}

/// A field's name, borrowed if it contains no escape.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] std::borrow::Cow<'a, str>);
