//! Messages of the PostgreSQL frontend/backend protocol 3.0 that a session writes and reads on its hot path:
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>.
//!
//! Messages are appended to one buffer and read in place, without allocations.

use std::fmt;

use crate::ascii::number;

/// Types of parameters, by their object identifiers (`pg_type.dat`).
pub(super) mod oid {
    pub(crate) const BYTEA: u32 = 17;
    pub(crate) const INT8: u32 = 20;
    pub(crate) const TEXT: u32 = 25;
    pub(crate) const XID: u32 = 28;
    pub(crate) const BYTEA_ARRAY: u32 = 1001;
    pub(crate) const TEXT_ARRAY: u32 = 1009;
    pub(crate) const INT8_ARRAY: u32 = 1016;
    pub(crate) const JSONB: u32 = 3802;
    pub(crate) const JSONB_ARRAY: u32 = 3807;
}

/// The server accepts no message of 1 GiB or more (`MaxAllocSize`), and closes a connection that sends one.
pub(super) const LARGEST_BYTES: usize = 1_000_000_000;

/// Execute of the unnamed portal without a limit of rows, then Sync.
const EXECUTE_AND_SYNC: [u8; 15] = [b'E', 0, 0, 0, 9, 0, 0, 0, 0, 0, b'S', 0, 0, 0, 4];
const EXECUTE: usize = 10;

/// Begins a message. Returns the offset of its length.
fn begin(out: &mut Vec<u8>, tag: u8) -> usize {
    out.push(tag);
    out.extend_from_slice(&[0; 4]);
    out.len() - 4
}

/// Writes the length of a message or value that ends here. The length of a message includes itself.
fn patch(out: &mut [u8], at: usize, counts_itself: bool) {
    let bytes = out.len() - at - if counts_itself { 0 } else { 4 };
    out[at..at + 4].copy_from_slice(&(bytes as u32).to_be_bytes());
}

/// Appends a Sync: the end of a request, which is a separate transaction.
pub(super) fn sync(out: &mut Vec<u8>) {
    out.extend_from_slice(&EXECUTE_AND_SYNC[EXECUTE..]);
}

/// Appends a simple query.
pub(super) fn query(out: &mut Vec<u8>, sql: &str) {
    let at = begin(out, b'Q');
    out.extend_from_slice(sql.as_bytes());
    out.push(0);
    patch(out, at, true);
}

fn name(out: &mut Vec<u8>, statement: usize) {
    let mut digits = itoa::Buffer::new();
    out.push(b's');
    out.extend_from_slice(digits.format(statement).as_bytes());
    out.push(0);
}

/// Appends a Parse of the statement with this number.
pub(super) fn parse(out: &mut Vec<u8>, statement: usize, sql: &str, types: &[u32]) {
    let at = begin(out, b'P');
    name(out, statement);
    out.extend_from_slice(sql.as_bytes());
    out.push(0);
    out.extend_from_slice(&(types.len() as u16).to_be_bytes());
    for oid in types {
        out.extend_from_slice(&oid.to_be_bytes());
    }
    patch(out, at, true);
}

/// Appends a Describe of the statement with this number.
pub(super) fn describe(out: &mut Vec<u8>, statement: usize) {
    let at = begin(out, b'D');
    out.push(b'S');
    name(out, statement);
    patch(out, at, true);
}

/// A Bind that is being written. All parameters and results are in binary form, or all are text.
pub(super) struct Bind<'o> {
    out: &'o mut Vec<u8>,
    at: usize,
    formats: &'static [u8],
}

impl<'o> Bind<'o> {
    /// Begins the Bind of a prepared statement with this many parameters.
    pub(super) fn new(out: &'o mut Vec<u8>, statement: usize, parameters: u16) -> Self {
        Self::begin(out, statement, parameters, &[0, 1, 0, 1])
    }

    /// The same for a statement whose parameters and results are text.
    pub(super) fn text(out: &'o mut Vec<u8>, statement: usize, parameters: u16) -> Self {
        Self::begin(out, statement, parameters, &[0, 0])
    }

    fn begin(out: &'o mut Vec<u8>, statement: usize, parameters: u16, formats: &'static [u8]) -> Self {
        let at = begin(out, b'B');
        out.push(0);
        name(out, statement);
        out.extend_from_slice(formats);
        out.extend_from_slice(&parameters.to_be_bytes());
        Self { out, at, formats }
    }

    /// A parameter that is NULL.
    pub(super) fn null(self) -> Self {
        self.out.extend_from_slice(&(-1i32).to_be_bytes());
        self
    }

    /// A parameter whose binary form is these bytes.
    pub(super) fn bytes(self, value: &[u8]) -> Self {
        put(self.out, value);
        self
    }

    /// A `jsonb` parameter: its version and its text.
    pub(super) fn json(self, text: &[u8]) -> Self {
        put_json(self.out, text);
        self
    }

    /// A one-dimensional array of `count` elements of this type.
    pub(super) fn array(self, element: u32, count: usize, elements: impl FnOnce(&mut Vec<u8>)) -> Self {
        let at = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        self.out.extend_from_slice(&u32::from(count > 0).to_be_bytes());
        self.out.extend_from_slice(&0u32.to_be_bytes());
        self.out.extend_from_slice(&element.to_be_bytes());
        if count > 0 {
            self.out.extend_from_slice(&(count as u32).to_be_bytes());
            self.out.extend_from_slice(&1u32.to_be_bytes());
            elements(self.out);
        }
        patch(self.out, at, false);
        self
    }

    fn end(self) -> &'o mut Vec<u8> {
        self.out.extend_from_slice(self.formats);
        patch(self.out, self.at, true);
        self.out
    }

    /// Ends the Bind, executes and syncs.
    pub(super) fn run(self) {
        self.end().extend_from_slice(&EXECUTE_AND_SYNC);
    }

    /// Ends the Bind and executes. [`copy_data`], [`copy_done`] and [`sync`] must follow.
    pub(super) fn start(self) {
        self.end().extend_from_slice(&EXECUTE_AND_SYNC[..EXECUTE]);
    }
}

/// Appends a value, preceded by its length.
pub(super) fn put(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(value);
}

/// Appends a `jsonb` value, preceded by its length.
pub(super) fn put_json(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&(text.len() as u32 + 1).to_be_bytes());
    out.push(1);
    out.extend_from_slice(text);
}

/// Appends one CopyData message with what `fill` writes.
pub(super) fn copy_data(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let at = begin(out, b'd');
    fill(out);
    patch(out, at, true);
}

/// Appends a CopyDone.
pub(super) fn copy_done(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'c', 0, 0, 0, 4]);
}

/// The bytes are not a message of this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Garbled;

/// Looks for a message at the beginning of these bytes: its tag, and its length including the five bytes of its header.
/// `None` while it is incomplete.
pub(super) fn look(bytes: &[u8]) -> Result<Option<(u8, usize)>, Garbled> {
    let Some(&tag) = bytes.first() else { return Ok(None) };
    let large = match tag {
        b'D' | b'd' => true,
        b'R' | b'S' | b'K' | b'Z' | b'E' | b'N' | b'A' | b'1' | b'2' | b'3' | b'C' | b'T' | b't' | b'n' | b'G'
        | b'H' | b'W' | b'c' | b'I' | b's' | b'v' => false,
        _ => return Err(Garbled),
    };
    let Some(length) = bytes.get(1..5) else { return Ok(None) };
    let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
    // Libpq's own limit for messages that hold no data.
    let most = if large { 0x7FFF_FFFF } else { 1 << 20 };
    if !(4..=most).contains(&length) {
        return Err(Garbled);
    }
    Ok((bytes.len() > length).then_some((tag, length + 1)))
}

/// The columns of a DataRow.
pub(super) struct Columns<'a>(&'a [u8]);

impl<'a> Columns<'a> {
    pub(super) fn of(body: &'a [u8]) -> Result<Self, Garbled> {
        Ok(Self(body.get(2..).ok_or(Garbled)?))
    }

    /// The next column. `None` for NULL.
    pub(super) fn next(&mut self) -> Result<Option<&'a [u8]>, Garbled> {
        let (length, rest) = self.0.split_first_chunk::<4>().ok_or(Garbled)?;
        let length = i32::from_be_bytes(*length);
        if length < 0 {
            self.0 = rest;
            return Ok(None);
        }
        let (value, rest) = rest.split_at_checked(length as usize).ok_or(Garbled)?;
        self.0 = rest;
        Ok(Some(value))
    }

    /// The next column, which may not be NULL.
    pub(super) fn value(&mut self) -> Result<&'a [u8], Garbled> {
        self.next()?.ok_or(Garbled)
    }

    /// Whether no columns are left.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The text of a `jsonb` value, without its version.
pub(super) fn json_text(value: &[u8]) -> Result<&[u8], Garbled> {
    match value.split_first() {
        Some((1, text)) => Ok(text),
        _ => Err(Garbled),
    }
}

/// How many rows a CommandComplete reports: `INSERT 0 3`, `SELECT 1`.
pub(super) fn affected(body: &[u8]) -> u64 {
    let tag = body.strip_suffix(&[0]).unwrap_or(body);
    tag.rsplit(|byte| *byte == b' ').next().and_then(number).unwrap_or(0)
}

/// The content of an ErrorResponse or NoticeResponse.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ServerError {
    /// `ERROR`, `FATAL`, `PANIC` or `WARNING`, independent of the server's language.
    pub(super) severity: String,
    /// The SQLSTATE.
    pub(super) code: String,
    /// The message, with the detail if there is one.
    pub(super) message: String,
}

impl ServerError {
    /// Reads the fields that matter.
    pub(super) fn read(body: &[u8]) -> Self {
        let mut error = Self::default();
        let mut detail = None;
        for field in body.split(|byte| *byte == 0) {
            let Some((kind, text)) = field.split_first() else { continue };
            let text = String::from_utf8_lossy(text);
            match kind {
                b'S' if error.severity.is_empty() => error.severity = text.into_owned(),
                b'V' => error.severity = text.into_owned(),
                b'C' => error.code = text.into_owned(),
                b'M' => error.message = text.into_owned(),
                b'D' => detail = Some(text.into_owned()),
                _ => {}
            }
        }
        if let Some(detail) = detail {
            error.message = format!("{} ({})", error.message, detail.trim_end_matches('.'));
        }
        error
    }

    /// Whether the connection ends with this error.
    pub(super) fn ends_connection(&self) -> bool {
        matches!(self.severity.as_str(), "FATAL" | "PANIC")
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgreSQL: {}, SQLSTATE {}", self.message, self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_the_protocol_documents() {
        let mut out = Vec::new();
        Bind::new(&mut out, 12, 2).bytes(b"key").json(b"{}").run();
        let bind = b"\0s12\0\0\x01\0\x01\0\x02\0\0\0\x03key\0\0\0\x03\x01{}\0\x01\0\x01";
        assert_eq!(out[..5], [b'B', 0, 0, 0, 4 + bind.len() as u8]);
        assert_eq!(&out[5..5 + bind.len()], bind);
        assert_eq!(&out[5 + bind.len()..], b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04");
    }

    #[test]
    fn arrays_have_a_dimension_only_with_elements() {
        let mut out = Vec::new();
        Bind::new(&mut out, 0, 1).array(oid::TEXT, 0, |_| ()).run();
        assert!(out.windows(16).any(|w| w == [0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25]));
        out.clear();
        Bind::new(&mut out, 0, 1).array(oid::TEXT, 1, |out| put(out, b"a")).run();
        let array = [0, 0, 0, 25, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 25, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, b'a'];
        assert!(out.windows(array.len()).any(|w| w == array));
    }

    #[test]
    fn messages_are_found_whole_in_part_or_not_at_all() {
        assert_eq!(look(b""), Ok(None));
        assert_eq!(look(b"Z\0\0\0\x05"), Ok(None));
        assert_eq!(look(b"Z\0\0\0\x05I2"), Ok(Some((b'Z', 6))));
        for garbage in [&b"HTTP/1.1 400 Bad Request"[..], b"-ERR unknown", b"Z\0\0\0\x03", b"\x15\x03\x01"] {
            assert_eq!(look(garbage), Err(Garbled));
        }
    }

    #[test]
    fn rows_and_tags() {
        let row = b"\0\x03\0\0\0\x01a\xff\xff\xff\xff\0\0\0\0";
        let mut columns = Columns::of(row).unwrap();
        assert_eq!(columns.next(), Ok(Some(&b"a"[..])));
        assert_eq!(columns.next(), Ok(None));
        assert_eq!(columns.next(), Ok(Some(&b""[..])));
        assert!(columns.is_empty());
        assert_eq!(columns.next(), Err(Garbled));
        assert_eq!(Columns::of(b"\0\x01\0\0\0\x09a").unwrap().next(), Err(Garbled));
        assert_eq!((affected(b"INSERT 0 31\0"), affected(b"DELETE 2\0"), affected(b"SET\0")), (31, 2, 0));
    }

    #[test]
    fn errors_are_read_in_any_language() {
        let error =
            ServerError::read(b"SFEHLER\0VERROR\0C22P05\0Munsupported Unicode\0D\\u0000 cannot be converted.\0\0");
        assert_eq!((error.severity.as_str(), error.code.as_str()), ("ERROR", "22P05"));
        assert_eq!(error.message, "unsupported Unicode (\\u0000 cannot be converted)");
        assert!(!error.ends_connection());
        ServerError::read(b"\xff\xfe");
    }
}
