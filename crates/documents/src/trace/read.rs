//! Reads traces.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

use storebench_study::op_kind::OpKind;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{OPERATIONS, TABLE_ROWS, Texts, Trace, TraceOp, time};
use crate::by_hash::ByHash;
use crate::catalog::FileFacts;
use crate::error::DocumentError;
use crate::json;
use crate::reader::LineReader;

/// The columns of a trace.
const COLUMNS: &str = "time, op, key, and optionally client, and size or body";

/// Numbers of texts, by their hash. Two texts of one hash are told apart by comparing them.
#[derive(Default)]
struct Numbers {
    texts: Texts,
    known: ByHash<u32>,
    /// Texts whose hash belongs to another one.
    others: HashMap<Vec<u8>, u32>,
}

impl Numbers {
    /// The number of a text, and whether it is new. `None` if there are too many.
    fn of(&mut self, text: &[u8]) -> Option<(u32, bool)> {
        let next = u32::try_from(self.texts.ends.len()).ok().filter(|next| *next < u32::MAX)?;
        match self.known.entry(xxh3_64(text)) {
            Entry::Vacant(place) => {
                place.insert(next);
            }
            Entry::Occupied(found) if self.texts.get(*found.get() as usize) == Some(text) => {
                return Some((*found.get(), false));
            }
            Entry::Occupied(_) => match self.others.get(text) {
                Some(known) => return Some((*known, false)),
                None => {
                    self.others.insert(text.to_vec(), next);
                }
            },
        }
        self.texts.push(text);
        Some((next, true))
    }
}

/// One line: the columns as they are written.
#[derive(Default)]
struct Line<'a> {
    time: Option<i64>,
    op: Option<std::borrow::Cow<'a, str>>,
    key: Option<std::borrow::Cow<'a, str>>,
    client: Option<std::borrow::Cow<'a, [u8]>>,
    size: Option<u64>,
    body: Option<std::borrow::Cow<'a, [u8]>>,
}

/// What has been read.
#[derive(Default)]
struct Reading {
    ops: Vec<TraceOp>,
    keys: Numbers,
    /// For each key, whether its first operation inserts it, and its size.
    born: Vec<bool>,
    sizes: Vec<u32>,
    clients: Numbers,
    bodies: Texts,
    first_ns: i64,
    last_ns: i64,
    hash: Xxh3,
    bytes: u64,
}

impl Reading {
    fn add(&mut self, line: Line<'_>) -> Result<(), String> {
        let time = line.time.ok_or("its `time` is missing, or neither seconds (12.345) nor RFC 3339")?;
        let op = line.op.ok_or("its `op` is missing")?;
        let names = || OPERATIONS.iter().map(|(name, _)| *name);
        let kind = OPERATIONS.iter().position(|(name, _)| *name == op);
        let kind = kind.ok_or_else(|| format!("unknown operation `{op}`{}", crate::error::suggest(&op, names())))?;
        let key = line.key.ok_or("its `key` is missing")?;
        if self.ops.is_empty() {
            self.first_ns = time;
        } else if time < self.last_ns {
            return Err("its time is before that of the line above; sort the trace by time".into());
        }
        self.last_ns = time;
        let (key, new) = self.keys.of(key.as_bytes()).ok_or("more than 4 billion keys; split the trace")?;
        if new {
            self.born.push(OPERATIONS[kind].1 == OpKind::Insert);
            self.sizes.push(0);
        }
        let (client, _) = self.clients.of(line.client.as_deref().unwrap_or_default()).ok_or("too many clients")?;
        let size = line.size.or(line.body.as_ref().map(|body| body.len() as u64)).unwrap_or(0);
        if self.sizes[key as usize] == 0 {
            self.sizes[key as usize] =
                u32::try_from(size).map_err(|_| format!("a size of {size} bytes is too large"))?;
        }
        let writes = OPERATIONS[kind].1.writes() && OPERATIONS[kind].1 != OpKind::Delete;
        let mut body = 0;
        if let Some(text) = line.body.filter(|_| writes) {
            self.bodies.push(&text);
            body = u32::try_from(self.bodies.ends.len()).map_err(|_| "too many documents; leave out `body`")?;
        }
        let at_ns = time.abs_diff(self.first_ns);
        self.ops.push(TraceOp { at_ns, key, client, body, kind: kind as u8 });
        Ok(())
    }

    /// The trace, with the keys that exist before it first.
    fn finish(self) -> Trace {
        let Self { mut ops, keys, born, sizes, clients, bodies, hash, bytes, .. } = self;
        let mut renamed = vec![0u32; born.len()];
        let mut ordered = Texts::default();
        let mut ordered_sizes = Vec::with_capacity(sizes.len());
        for later in [false, true] {
            for (old, _) in born.iter().enumerate().filter(|(_, born)| **born == later) {
                renamed[old] = ordered.ends.len() as u32;
                ordered.push(keys.texts.get(old).unwrap_or_default());
                ordered_sizes.push(sizes[old]);
            }
        }
        ops.iter_mut().for_each(|op| op.key = renamed[op.key as usize]);
        if ordered_sizes.iter().all(|size| *size == 0) {
            ordered_sizes = Vec::new();
        }
        Trace {
            created_again: Vec::new(),
            before: born.iter().filter(|born| !**born).count() as u32,
            ops,
            keys: ordered,
            sizes: ordered_sizes,
            bodies,
            clients: clients.texts.ends.len() as u32,
            facts: FileFacts::new(bytes, 0, hash.digest()),
        }
    }
}

pub(super) fn read(file: &Path, place: &str) -> Result<Trace, DocumentError> {
    let wrong = |line: Option<u64>, why: &str| DocumentError::in_file(place, file.to_owned(), line, why);
    if file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet")) {
        return read_table(file, place);
    }
    let mut lines =
        LineReader::open(file).map_err(|e| wrong(None, &format!("cannot be opened: {e}; check the path")))?;
    let csv = is_csv(file);
    let (mut text, mut reading, mut header) = (Vec::new(), Reading::default(), None);
    while lines.next(&mut text).map_err(|e| wrong(Some(lines.line()), &format!("cannot be read: {e}")))? {
        if text.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        reading.hash.update(&text);
        reading.hash.update(b"\n");
        reading.bytes += text.len() as u64;
        let added = match (csv, &header) {
            (false, _) => json_line(&text).and_then(|line| reading.add(line)),
            (true, None) => Header::read(&text).map(|read| header = Some(read)),
            (true, Some(columns)) => cells(&text).and_then(|cells| reading.add(columns.line(&cells)?)),
        };
        added.map_err(|why| wrong(Some(lines.line()), &why))?;
    }
    if reading.ops.is_empty() {
        return Err(wrong(None, "has no operations; a trace has one in each line"));
    }
    Ok(reading.finish())
}

/// Reads a trace in Parquet.
fn read_table(file: &Path, place: &str) -> Result<Trace, DocumentError> {
    let wrong = |row: Option<u64>, why: &str| DocumentError::in_file(place, file.to_owned(), row, why);
    let Some(rows) = TABLE_ROWS.get() else {
        return Err(wrong(
            None,
            "this build cannot read Parquet; use JSON Lines or CSV, or a build with the feature `tables`",
        ));
    };
    let (mut reading, mut row, mut failed) = (Reading::default(), 0, None);
    let read = rows(file, &mut |text| {
        row += 1;
        reading.hash.update(text);
        reading.hash.update(b"\n");
        reading.bytes += text.len() as u64;
        json_line(text).and_then(|line| reading.add(line)).map_err(|why| {
            failed = Some(why);
            std::io::ErrorKind::InvalidData.into()
        })
    });
    match (failed, read) {
        (Some(why), _) => Err(wrong(Some(row), &why)),
        (None, Err(e)) => Err(wrong(None, &format!("cannot be read: {e}"))),
        (None, Ok(())) if reading.ops.is_empty() => Err(wrong(None, "has no operations; a trace has one in each row")),
        (None, Ok(())) => Ok(reading.finish()),
    }
}

/// Whether a file is CSV, by its name without the ending of a compression.
fn is_csv(file: &Path) -> bool {
    let mut name = PathBuf::from(file);
    if name.extension().is_some_and(|ending| ending == "gz" || ending == "zst") {
        name.set_extension("");
    }
    name.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"))
}

fn json_line(text: &[u8]) -> Result<Line<'_>, String> {
    let mut line = Line::default();
    let torn = || "it is not a complete JSON object: the line is torn, or it is no trace".to_owned();
    // Members end early at invalid JSON.
    if serde_json::from_slice::<serde::de::IgnoredAny>(text).is_err() {
        return Err(torn());
    }
    for json::Member { name, value, .. } in json::members(text) {
        match name {
            b"time" => {
                let inner = json::text(value);
                line.time = time::of_text(inner.as_deref().map_or(value, str::as_bytes));
            }
            b"op" | b"operation" => line.op = json::text(value),
            b"key" => line.key = json::text(value),
            b"client" if value != b"null" => {
                line.client = Some(match json::text(value) {
                    Some(text) => text.into_owned().into_bytes().into(),
                    None => value.into(),
                });
            }
            b"size" if value != b"null" => {
                let size = std::str::from_utf8(value).ok().and_then(|size| size.parse().ok());
                line.size = Some(size.ok_or("its `size` is not a whole number of bytes")?);
            }
            // A text is the document, written as text.
            b"body" if value != b"null" => {
                line.body = Some(json::text(value).map_or(value.into(), |text| text.into_owned().into_bytes().into()));
            }
            _ => {}
        }
    }
    if line.time.is_none() && line.op.is_none() && line.key.is_none() {
        return Err(format!("it has none of the members of a trace: {COLUMNS}"));
    }
    Ok(line)
}

/// The position of each column.
#[derive(Default)]
struct Header {
    time: usize,
    op: usize,
    key: usize,
    client: Option<usize>,
    size: Option<usize>,
    body: Option<usize>,
    columns: usize,
}

impl Header {
    fn read(text: &[u8]) -> Result<Self, String> {
        let names: Vec<String> =
            cells(text)?.iter().map(|cell| String::from_utf8_lossy(cell).trim().to_owned()).collect();
        let find = |name: &str| names.iter().position(|known| known == name);
        let must =
            |name: &str| find(name).ok_or_else(|| format!("the column `{name}` is missing; a trace has {COLUMNS}"));
        Ok(Self {
            time: must("time")?,
            op: must("op").or_else(|why| find("operation").ok_or(why))?,
            key: must("key")?,
            client: find("client"),
            size: find("size"),
            body: find("body"),
            columns: names.len(),
        })
    }

    fn line<'a>(&self, cells: &'a [Vec<u8>]) -> Result<Line<'a>, String> {
        if cells.len() != self.columns {
            return Err(format!(
                "it has {} columns, but the header has {}: the line is torn",
                cells.len(),
                self.columns
            ));
        }
        let text = |at: usize| std::str::from_utf8(&cells[at]).map_err(|_| "it is not UTF-8".to_owned());
        let given = |at: Option<usize>| at.map(|at| cells[at].as_slice()).filter(|cell| !cell.is_empty());
        let size = given(self.size).map(|size| std::str::from_utf8(size).ok().and_then(|size| size.parse().ok()));
        Ok(Line {
            time: time::of_text(&cells[self.time]),
            op: Some(text(self.op)?.into()),
            key: Some(text(self.key)?.into()),
            client: given(self.client).map(Into::into),
            size: size.map(|size| size.ok_or("its `size` is not a whole number of bytes")).transpose()?,
            body: given(self.body).map(Into::into),
        })
    }
}

/// The cells of a line of CSV (RFC 4180). A cell cannot hold a line break: each operation is one line.
fn cells(text: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let (mut cells, mut at) = (Vec::new(), 0);
    loop {
        let mut cell = Vec::new();
        if text.get(at) == Some(&b'"') {
            at += 1;
            loop {
                let end = memchr::memchr(b'"', &text[at..]).ok_or("a quote does not end: the line is torn")?;
                cell.extend_from_slice(&text[at..at + end]);
                at += end + 1;
                if text.get(at) != Some(&b'"') {
                    break;
                }
                cell.push(b'"');
                at += 1;
            }
        } else {
            let end = memchr::memchr(b',', &text[at..]).map_or(text.len(), |end| at + end);
            cell.extend_from_slice(&text[at..end]);
            at = end;
        }
        cells.push(cell);
        match text.get(at) {
            None => return Ok(cells),
            Some(b',') => at += 1,
            Some(_) => return Err("text follows a quote that has ended; double quotes within a cell".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(name: &str, text: &str) -> Result<Trace, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        read(&file, "phases.0.trace").map_err(|error| {
            assert_eq!(error.path, "phases.0.trace");
            error.message.replace(&format!("{}", file.display()), "F")
        })
    }

    fn shown(trace: &Trace) -> Vec<String> {
        let show = |op: &TraceOp| {
            let key = String::from_utf8_lossy(trace.key(op.key));
            let body = trace.body(op).map(|body| format!(" {}", String::from_utf8_lossy(body))).unwrap_or_default();
            format!("{} {} {key} c{}{body}", op.at_ns, op.kind(), op.client)
        };
        trace.ops().iter().map(show).collect()
    }

    const LINES: &str = r#"{"time":100.5,"op":"read","key":"a","client":"x","size":20}
{"time":100.5,"op":"insert","key":"n\u00fc","client":"y","body":{"v":1}}

{"client":7,"key":"b","operation":"delete","time":"1970-01-01T00:01:41Z","more":[1]}
{"time":101.25,"op":"update","key":"a","client":null,"size":99,"body":null}
"#;

    #[test]
    fn json_lines_and_csv_say_the_same() {
        let csv = "key,time,operation,client,size,body\n\
                   a,100.5,read,x,20,\nnü,100.5,insert,y,,\"{\"\"v\"\":1}\"\n\
                   b,1970-01-01T00:01:41Z,delete,7,,\na,101.25,update,,99,\n";
        for (name, text) in [("t.jsonl", LINES), ("t.csv", csv)] {
            let trace = trace(name, text).unwrap();
            assert_eq!(
                shown(&trace),
                ["0 read a c0", "0 insert nü c1 {\"v\":1}", "500000000 delete b c2", "750000000 upsert a c3"],
                "{name}"
            );
            assert_eq!((trace.keys(), trace.keys_before(), trace.clients()), (3, 2, 4));
            assert_eq!(trace.sizes(), Some(&[20, 0, 7][..]), "as first recorded; inserted keys come last");
            assert_eq!(trace.kinds(), [OpKind::Read, OpKind::Insert, OpKind::Upsert, OpKind::Delete]);
            assert_eq!((trace.span_ns(), trace.longest_key_bytes()), (750_000_000, 3));
        }
        let as_text = LINES.replace("{\"v\":1}", "\"{\\\"v\\\":1}\"");
        assert_eq!(shown(&trace("t.jsonl", &as_text).unwrap())[1], "0 insert nü c1 {\"v\":1}");
        assert!(trace("t.parquet", "").unwrap_err().contains("this build cannot read Parquet"));
    }

    #[test]
    fn what_is_wrong_names_the_line() {
        let first = r#"{"time":1,"op":"read","key":"a"}"#;
        for (line, told) in [
            (r#"{"time":1,"op":"read","key":"#, "F:2: it is not a complete JSON object: the line is torn"),
            (
                r#"{"time":1,"op":"read","key":"a{"time":1,"op":"read","key":"b"}"#,
                "F:2: it is not a complete JSON object",
            ),
            (
                r#"{"time":1,"op":"read","key":"a"}{"time":1,"op":"read","key":"b"}"#,
                "F:2: it is not a complete JSON object",
            ),
            (r#"{"time":0.5,"op":"read","key":"a"}"#, "F:2: its time is before that of the line above; sort the trace"),
            (r#"{"time":1,"op":"raed","key":"a"}"#, "F:2: unknown operation `raed`; did you mean `read`?"),
            (r#"{"time":1,"op":"read"}"#, "F:2: its `key` is missing"),
            (r#"{"time":"now","op":"read","key":"a"}"#, "F:2: its `time` is missing, or neither seconds"),
            (r#"{"time":1,"op":"read","key":"a","size":"x"}"#, "F:2: its `size` is not a whole number of bytes"),
            (r#"{"a":1}"#, "F:2: it has none of the members of a trace: time, op, key"),
        ] {
            let why = trace("t.jsonl", &format!("{first}\n{line}\n")).unwrap_err();
            assert!(why.starts_with(told), "{line}: {why}");
        }
        for (text, told) in [
            ("time,op\n1,read\n", "F:1: the column `key` is missing; a trace has time, op, key"),
            ("time,op,key\n1,read\n", "F:2: it has 2 columns, but the header has 3: the line is torn"),
            ("time,op,key\n1,read,\"a\n", "F:2: a quote does not end: the line is torn"),
            ("time,op,key\n", "F: has no operations"),
        ] {
            let why = trace("t.csv", text).unwrap_err();
            assert!(why.starts_with(told), "{text}: {why}");
        }
        assert!(trace("t.jsonl", "").unwrap_err().contains("has no operations"));
    }

    #[test]
    fn texts_with_one_hash_are_told_apart() {
        let mut numbers = Numbers::default();
        numbers.known.insert(xxh3_64(b"b"), 0);
        assert_eq!(
            [numbers.of(b"a"), numbers.of(b"b"), numbers.of(b"b")],
            [Some((0, true)), Some((1, true)), Some((1, false))]
        );
    }
}
