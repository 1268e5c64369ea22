//! Encodes JSON text as BSON in one pass, without an intermediate value.
//!
//! Integers become int32 or int64. Numbers with a fraction or an exponent become double. Types that JSON lacks are
//! recognized in the form that [`super::decode`] writes, see [`extended`].

use storebench_engine::store::OpError;

use super::bson::{self, ARRAY, BOOL, DOCUMENT, DOUBLE, INT32, INT64, NULL, STRING};
use super::extended::extended;
use crate::refusals::refused;

/// Deeper than the 100 levels that MongoDB accepts. Protects this program's stack.
const DEEPEST: u32 = 200;

/// The key. MongoDB or this driver reserves this member and the following ones at the top level of a document.
pub(super) const KEY: &str = "_id";
/// The revision: a number drawn at random for each write.
pub(super) const REVISION: &str = "_sb_rev";
/// When the document expires. This member has a TTL index.
pub(super) const EXPIRY: &str = "_sb_exp";
/// All reserved members.
pub(super) const RESERVED: &[&str] = &[KEY, REVISION, EXPIRY];

/// Appends the members of a JSON object to an open document.
///
/// # Errors
/// *Refused*, if the text is not a JSON object or BSON cannot represent it. The buffer then holds a partial document.
pub(super) fn members(json: &[u8], out: &mut Vec<u8>) -> Result<(), OpError> {
    let mut parser = Parser::of(json)?;
    parser.space();
    if parser.peek() != Some(b'{') {
        return Err(match parser.peek() {
            None => parser.wrong("it is empty"),
            Some(_) => refused("MongoDB stores objects only; this body is another JSON value"),
        });
    }
    parser.object(out, 0)?;
    parser.finish()
}

/// Appends one JSON value as a member.
///
/// # Errors
/// As [`members`].
pub(super) fn member(name: &str, json: &[u8], out: &mut Vec<u8>) -> Result<u8, OpError> {
    let mut parser = Parser::of(json)?;
    parser.space();
    let at = out.len();
    bson::head(out, NULL, name);
    let kind = parser.value(out, 1)?;
    out[at] = kind;
    parser.finish()?;
    Ok(kind)
}

struct Parser<'j> {
    text: &'j str,
    at: usize,
}

impl<'j> Parser<'j> {
    fn of(json: &'j [u8]) -> Result<Self, OpError> {
        let text = std::str::from_utf8(json).map_err(|e| refused(format!("the body is not UTF-8: {e}")))?;
        Ok(Self { text, at: 0 })
    }

    fn wrong(&self, what: &str) -> OpError {
        refused(format!("the body is not JSON at byte {}: {what}", self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn finish(&mut self) -> Result<(), OpError> {
        self.space();
        if self.at == self.text.len() { Ok(()) } else { Err(self.wrong("something follows the value")) }
    }

    /// Appends the members of an object, starting at its opening brace.
    fn object(&mut self, out: &mut Vec<u8>, depth: u32) -> Result<(), OpError> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.space();
            let at = out.len();
            out.push(NULL);
            if self.peek() != Some(b'"') {
                return Err(self.wrong("a member's name in quotes is missing"));
            }
            self.string(out)?;
            let name = &out[at + 1..];
            if memchr::memchr(0, name).is_some() {
                return Err(refused("a member's name contains U+0000, which BSON does not allow"));
            }
            let is_reserved = || RESERVED.iter().any(|reserved| reserved.as_bytes() == name);
            if depth == 0 && name.first() == Some(&b'_') && is_reserved() {
                return Err(refused(format!(
                    "MongoDB or this driver reserves the member name `{}`; rename the member",
                    String::from_utf8_lossy(name)
                )));
            }
            out.push(0);
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.wrong("a `:` is missing"));
            }
            self.at += 1;
            self.space();
            let kind = self.value(out, depth + 1)?;
            out[at] = kind;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.wrong("a `,` or `}` is missing")),
            }
        }
    }

    fn array(&mut self, out: &mut Vec<u8>, depth: u32) -> Result<(), OpError> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        let mut digits = itoa::Buffer::new();
        for number in 0_u32.. {
            let at = out.len();
            bson::head(out, NULL, digits.format(number));
            self.space();
            let kind = self.value(out, depth + 1)?;
            out[at] = kind;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.wrong("a `,` or `]` is missing")),
            }
        }
        Err(self.wrong("the array is too long"))
    }

    /// Appends the value that begins here. Returns its type.
    fn value(&mut self, out: &mut Vec<u8>, depth: u32) -> Result<u8, OpError> {
        if depth > DEEPEST {
            return Err(refused("the body is nested deeper than the 100 levels that MongoDB accepts"));
        }
        match self.peek() {
            Some(b'"') => {
                let at = bson::begin(out);
                self.string(out)?;
                out.push(0);
                let length = u32::try_from(out.len() - at - 4).unwrap_or(u32::MAX);
                out[at..at + 4].copy_from_slice(&length.to_le_bytes());
                Ok(STRING)
            }
            Some(b'{') => {
                if let Some((kind, length)) = extended(&self.text[self.at..], out) {
                    self.at += length;
                    return Ok(kind);
                }
                let at = bson::begin(out);
                self.object(out, depth)?;
                bson::end(out, at);
                Ok(DOCUMENT)
            }
            Some(b'[') => {
                let at = bson::begin(out);
                self.array(out, depth)?;
                bson::end(out, at);
                Ok(ARRAY)
            }
            Some(b't') => self.word("true", out, &[1], BOOL),
            Some(b'f') => self.word("false", out, &[0], BOOL),
            Some(b'n') => self.word("null", out, &[], NULL),
            Some(b'-' | b'0'..=b'9') => self.number(out),
            _ => Err(self.wrong("a value is missing")),
        }
    }

    fn word(&mut self, word: &str, out: &mut Vec<u8>, value: &[u8], kind: u8) -> Result<u8, OpError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.wrong("a value is missing"));
        }
        self.at += word.len();
        out.extend_from_slice(value);
        Ok(kind)
    }

    fn digits(&mut self) -> Result<(), OpError> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.wrong("a digit is missing")) } else { Ok(()) }
    }

    fn number(&mut self, out: &mut Vec<u8>) -> Result<u8, OpError> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        if self.peek() == Some(b'0') {
            self.at += 1
        } else {
            self.digits()?
        }
        let mut whole = true;
        if self.peek() == Some(b'.') {
            whole = false;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        let text = &self.text[start..self.at];
        if whole && text != "-0" {
            let value: i64 = text.parse().map_err(|_| {
                refused(format!("the integer {text} is beyond 64 bits, the most that BSON holds; write it as text"))
            })?;
            return Ok(match i32::try_from(value) {
                Ok(value) => {
                    out.extend_from_slice(&value.to_le_bytes());
                    INT32
                }
                Err(_) => {
                    out.extend_from_slice(&value.to_le_bytes());
                    INT64
                }
            });
        }
        match text.parse::<f64>() {
            Ok(value)
                if value == 0.0
                    && text.bytes().take_while(|b| !matches!(b, b'e' | b'E')).any(|b| (b'1'..=b'9').contains(&b)) =>
            {
                Err(refused(format!("the number {text} is too small for a double; BSON would store 0")))
            }
            Ok(value) if value.is_finite() => {
                out.extend_from_slice(&value.to_le_bytes());
                Ok(DOUBLE)
            }
            _ => Err(refused(format!("the number {text} is too large for a double; BSON cannot store it"))),
        }
    }

    /// Appends the contents of the string that begins here, unescaped.
    fn string(&mut self, out: &mut Vec<u8>) -> Result<(), OpError> {
        let bytes = self.text.as_bytes();
        self.at += 1;
        loop {
            let Some(length) = memchr::memchr2(b'"', b'\\', &bytes[self.at..]) else {
                return Err(self.wrong("a string does not end"));
            };
            out.extend_from_slice(&bytes[self.at..self.at + length]);
            self.at += length;
            if bytes[self.at] == b'"' {
                self.at += 1;
                return Ok(());
            }
            self.escape(out)?;
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), OpError> {
        self.at += 1;
        let plain = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                self.at += 1;
                let first = self.hex()?;
                let code = if (0xD800..0xDC00).contains(&first) {
                    if !self.text[self.at..].starts_with("\\u") {
                        return Err(self.wrong("a surrogate has no partner"));
                    }
                    self.at += 2;
                    let second = self.hex()?;
                    if !(0xDC00..0xE000).contains(&second) {
                        return Err(self.wrong("a surrogate has no partner"));
                    }
                    0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
                } else {
                    first
                };
                let code = char::from_u32(code).ok_or_else(|| self.wrong("a surrogate has no partner"))?;
                out.extend_from_slice(code.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(self.wrong("unknown escape")),
        };
        self.at += 1;
        out.push(plain);
        Ok(())
    }

    fn hex(&mut self) -> Result<u32, OpError> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let digits = digits.filter(|d| d.iter().all(u8::is_ascii_hexdigit)).and_then(|d| std::str::from_utf8(d).ok());
        let code = digits.and_then(|d| u32::from_str_radix(d, 16).ok());
        let code = code.ok_or_else(|| self.wrong("`\\u` needs four hexadecimal digits"))?;
        self.at += 4;
        Ok(code)
    }
}
