//! The part of BSON that commands and documents need: appending to a buffer, and walking untrusted bytes from a server.
//! The format: <https://bsonspec.org/spec.html>.

pub(super) const DOUBLE: u8 = 0x01;
pub(super) const STRING: u8 = 0x02;
pub(super) const DOCUMENT: u8 = 0x03;
pub(super) const ARRAY: u8 = 0x04;
pub(super) const BINARY: u8 = 0x05;
pub(super) const OBJECT_ID: u8 = 0x07;
pub(super) const BOOL: u8 = 0x08;
pub(super) const DATE: u8 = 0x09;
pub(super) const NULL: u8 = 0x0A;
pub(super) const INT32: u8 = 0x10;
pub(super) const INT64: u8 = 0x12;

/// MongoDB's name of a type, as its operator `$type` has it.
pub(super) fn type_name(kind: u8) -> &'static str {
    match kind {
        DOUBLE => "double",
        STRING => "string",
        DOCUMENT => "object",
        ARRAY => "array",
        BINARY => "binData",
        OBJECT_ID => "objectId",
        BOOL => "bool",
        DATE => "date",
        NULL => "null",
        0x0B => "regex",
        INT32 => "int",
        0x11 => "timestamp",
        INT64 => "long",
        0x13 => "decimal",
        0x7F => "maxKey",
        0xFF => "minKey",
        _ => "unknown",
    }
}

/// The bytes are not valid BSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Garbage;

/// Opens a document at the end of the buffer. Returns its offset, for [`end`].
pub(super) fn begin(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    at
}

/// Closes the document that was opened at `at`.
pub(super) fn end(out: &mut Vec<u8>, at: usize) {
    out.push(0);
    // A document too long for 32 bits exceeds every limit, and is refused before it is sent.
    let length = u32::try_from(out.len() - at).unwrap_or(u32::MAX);
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Appends the type and name of a member. Names are the driver's own, or already checked for NUL.
pub(super) fn head(out: &mut Vec<u8>, kind: u8, name: &str) {
    out.push(kind);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
}

/// A string: its length with the closing NUL, its bytes, NUL.
pub(super) fn text(out: &mut Vec<u8>, name: &str, value: &str) {
    head(out, STRING, name);
    let length = u32::try_from(value.len() + 1).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(value.as_bytes());
    out.push(0);
}

pub(super) fn int32(out: &mut Vec<u8>, name: &str, value: i32) {
    head(out, INT32, name);
    out.extend_from_slice(&value.to_le_bytes());
}

pub(super) fn int64(out: &mut Vec<u8>, name: &str, value: i64) {
    head(out, INT64, name);
    out.extend_from_slice(&value.to_le_bytes());
}

pub(super) fn boolean(out: &mut Vec<u8>, name: &str, value: bool) {
    head(out, BOOL, name);
    out.push(u8::from(value));
}

/// A time, in ms since 1970.
pub(super) fn date(out: &mut Vec<u8>, name: &str, ms: i64) {
    head(out, DATE, name);
    out.extend_from_slice(&ms.to_le_bytes());
}

pub(super) fn binary(out: &mut Vec<u8>, name: &str, parts: [&[u8]; 2]) {
    head(out, BINARY, name);
    let length = u32::try_from(parts[0].len() + parts[1].len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.push(0);
    out.extend_from_slice(parts[0]);
    out.extend_from_slice(parts[1]);
}

pub(super) fn uuid(out: &mut Vec<u8>, name: &str, value: [u8; 16]) {
    const SUBTYPE: u8 = 4;
    head(out, BINARY, name);
    out.extend_from_slice(&16_u32.to_le_bytes());
    out.push(SUBTYPE);
    out.extend_from_slice(&value);
}

/// A document or array as a member, filled by `fill`. Returns what `fill` returns.
pub(super) fn nested<R>(out: &mut Vec<u8>, kind: u8, name: &str, fill: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    head(out, kind, name);
    let at = begin(out);
    let filled = fill(out);
    end(out, at);
    filled
}

/// A value in a document. Only the length of its bytes has been checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'b> {
    pub(super) kind: u8,
    pub(super) bytes: &'b [u8],
}

impl<'b> Value<'b> {
    /// Text. Servers send UTF-8.
    pub(super) fn as_str(&self) -> Option<&'b str> {
        if self.kind != STRING {
            return None;
        }
        let text = self.bytes.get(4..self.bytes.len().checked_sub(1)?)?;
        std::str::from_utf8(text).ok()
    }

    /// A number of any type, if it is an integer.
    pub(super) fn as_i64(&self) -> Option<i64> {
        match self.kind {
            INT32 => Some(i64::from(i32::from_le_bytes(self.bytes.try_into().ok()?))),
            INT64 => Some(i64::from_le_bytes(self.bytes.try_into().ok()?)),
            DOUBLE => {
                let value = self.as_f64()?;
                (value.fract() == 0.0 && value.abs() < 9.3e18).then_some(value as i64)
            }
            _ => None,
        }
    }

    /// A number of any type.
    pub(super) fn as_f64(&self) -> Option<f64> {
        match self.kind {
            DOUBLE => Some(f64::from_le_bytes(self.bytes.try_into().ok()?)),
            _ => self.as_i64().map(|n| n as f64),
        }
    }

    /// A boolean, or a number used as one (`ok` is 1.0).
    pub(super) fn is_true(&self) -> bool {
        if self.kind == BOOL { self.bytes == [1] } else { self.as_f64().is_some_and(|n| n != 0.0) }
    }

    /// The members of a document or array.
    pub(super) fn members(&self) -> Option<Members<'b>> {
        if matches!(self.kind, DOCUMENT | ARRAY) { Members::of(self.bytes).ok() } else { None }
    }

    /// The bytes of a binary value.
    pub(super) fn as_binary(&self) -> Option<&'b [u8]> {
        if self.kind == BINARY { self.bytes.get(5..) } else { None }
    }
}

/// The members of a document, in order. Invalid bytes yield one error, which ends the iteration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Members<'b>(&'b [u8]);

impl<'b> Members<'b> {
    /// The members of a complete document.
    pub(super) fn of(document: &'b [u8]) -> Result<Self, Garbage> {
        let length = document.first_chunk().map(|b| u32::from_le_bytes(*b) as usize);
        if length != Some(document.len()) || length < Some(5) || document.last() != Some(&0) {
            return Err(Garbage);
        }
        Ok(Self(&document[4..document.len() - 1]))
    }

    /// The member with this name, if it precedes any invalid bytes.
    pub(super) fn get(mut self, name: &str) -> Option<Value<'b>> {
        self.find_map(|member| member.ok().filter(|(found, _)| *found == name)).map(|(_, value)| value)
    }

    /// The member at the end of a path.
    pub(super) fn at(self, path: &[&str]) -> Option<Value<'b>> {
        match path {
            [] => None,
            [last] => self.get(last),
            [first, rest @ ..] => self.get(first)?.members()?.at(rest),
        }
    }

    fn next_member(&mut self) -> Result<(&'b str, Value<'b>), Garbage> {
        let (kind, rest) = self.0.split_first().ok_or(Garbage)?;
        let name_end = memchr::memchr(0, rest).ok_or(Garbage)?;
        let name = std::str::from_utf8(&rest[..name_end]).map_err(|_| Garbage)?;
        let rest = &rest[name_end + 1..];
        let length = value_length(*kind, rest)?;
        let bytes = rest.get(..length).ok_or(Garbage)?;
        self.0 = &rest[length..];
        Ok((name, Value { kind: *kind, bytes }))
    }
}

impl<'b> Iterator for Members<'b> {
    type Item = Result<(&'b str, Value<'b>), Garbage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let next = self.next_member();
        if next.is_err() {
            self.0 = &[];
        }
        Some(next)
    }
}

fn value_length(kind: u8, rest: &[u8]) -> Result<usize, Garbage> {
    let prefix = || rest.first_chunk().map(|b| u32::from_le_bytes(*b) as usize).ok_or(Garbage);
    Ok(match kind {
        DOUBLE | DATE | INT64 | 0x11 => 8,
        STRING | 0x0D | 0x0E => {
            let length = prefix()?;
            if length == 0 || rest.get(4 + length - 1) != Some(&0) {
                return Err(Garbage);
            }
            4 + length
        }
        DOCUMENT | ARRAY => prefix()?.max(5),
        0x0F => prefix()?.max(14),
        BINARY => 5 + prefix()?,
        0x06 | NULL | 0xFF | 0x7F => 0,
        OBJECT_ID => 12,
        BOOL => 1,
        0x0B => {
            let pattern = memchr::memchr(0, rest).ok_or(Garbage)?;
            let options = memchr::memchr(0, &rest[pattern + 1..]).ok_or(Garbage)?;
            pattern + options + 2
        }
        0x0C => 4 + prefix()? + 12,
        INT32 => 4,
        0x13 => 16,
        _ => return Err(Garbage),
    })
}
