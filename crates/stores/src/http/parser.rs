//! Reads one answer of HTTP/1.1 (RFC 9112) out of received bytes, as they come.

use super::input::Input;

/// A head larger than this is garbage.
const HEAD_BYTES: usize = 64 * 1024;
/// More headers than this are garbage.
const HEADERS: usize = 100;
/// A body larger than this is given up: no request of ours asks for as much.
const BODY_BYTES: u64 = 1 << 30;

/// What is wrong with bytes that should be an answer of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Garbled(pub(super) &'static str);

/// Where the parser is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Head,
    /// So many bytes of the body are still to come.
    Length(u64),
    /// The body ends with the connection.
    UntilClosed,
    ChunkSize,
    /// So many bytes of this chunk are still to come.
    Chunk(u64),
    ChunkEnd,
    Trailers,
    Done,
}

/// The state of reading one answer. Chunks are joined in place, so that a body is always one piece.
#[derive(Debug)]
pub(super) struct Parser {
    phase: Phase,
    to_head: bool,
    status: u16,
    keeps: bool,
    head_end: usize,
    body_end: usize,
    /// The first byte not yet looked at.
    at: usize,
}

impl Default for Parser {
    fn default() -> Self {
        Self { phase: Phase::Head, to_head: false, status: 0, keeps: true, head_end: 0, body_end: 0, at: 0 }
    }
}

impl Parser {
    /// Begins with the answer to the next request; `to_head` where that is a HEAD, whose answer has
    /// no body whatever its length says.
    pub(super) fn begin(&mut self, to_head: bool) {
        *self = Self { to_head, ..Self::default() };
    }

    /// Whether nothing of an answer has been seen yet.
    pub(super) fn untouched(&self, input: &Input) -> bool {
        self.phase == Phase::Head && input.len() == 0
    }

    /// The status, once there is a head.
    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// Whether the connection may be used again after this answer.
    pub(super) fn keeps(&self) -> bool {
        self.keeps
    }

    /// The head as it came.
    pub(super) fn head<'a>(&self, input: &'a Input) -> &'a [u8] {
        &input.bytes()[..self.head_end]
    }

    /// The body, its chunks joined.
    pub(super) fn body<'a>(&self, input: &'a Input) -> &'a [u8] {
        &input.bytes()[self.head_end..self.body_end]
    }

    /// Whether more bytes came than the answer has.
    pub(super) fn surplus(&self, input: &Input) -> bool {
        input.len() > self.at
    }

    /// Takes what has come; says whether the answer is whole. `closed`: nothing more will come.
    pub(super) fn advance(&mut self, input: &mut Input, closed: bool) -> Result<bool, Garbled> {
        loop {
            match self.phase {
                Phase::Head => {
                    if !self.head_of(input)? {
                        return unless(closed, "the connection was closed within the head of the answer");
                    }
                }
                Phase::Length(left) => {
                    let taken = left.min((input.len() - self.at) as u64);
                    self.at += taken as usize;
                    self.body_end = self.at;
                    if taken < left {
                        self.phase = Phase::Length(left - taken);
                        return unless(closed, "the connection was closed within the body of the answer");
                    }
                    self.phase = Phase::Done;
                }
                Phase::UntilClosed => {
                    self.at = input.len();
                    self.body_end = self.at;
                    if (self.body_end - self.head_end) as u64 > BODY_BYTES {
                        return Err(Garbled("the answer is larger than 1 GiB"));
                    }
                    if !closed {
                        return Ok(false);
                    }
                    self.phase = Phase::Done;
                }
                Phase::ChunkSize => {
                    let Some(line) = self.line(input)? else {
                        return unless(closed, "the connection was closed within the body of the answer");
                    };
                    let size = chunk_size(&input.bytes()[line.0..line.1])?;
                    if size + (self.body_end - self.head_end) as u64 > BODY_BYTES {
                        return Err(Garbled("the answer is larger than 1 GiB"));
                    }
                    self.phase = if size == 0 { Phase::Trailers } else { Phase::Chunk(size) };
                }
                Phase::Chunk(left) => {
                    let taken = left.min((input.len() - self.at) as u64) as usize;
                    input.move_down(self.at, taken, self.body_end);
                    self.at += taken;
                    self.body_end += taken;
                    if (taken as u64) < left {
                        self.phase = Phase::Chunk(left - taken as u64);
                        self.close_gap(input);
                        return unless(closed, "the connection was closed within the body of the answer");
                    }
                    self.phase = Phase::ChunkEnd;
                }
                Phase::ChunkEnd => {
                    let Some((start, end)) = self.line(input)? else {
                        return unless(closed, "the connection was closed within the body of the answer");
                    };
                    if start != end {
                        return Err(Garbled("a chunk of the answer is longer than it says"));
                    }
                    self.phase = Phase::ChunkSize;
                }
                Phase::Trailers => {
                    let Some((start, end)) = self.line(input)? else {
                        return unless(closed, "the connection was closed within the trailers of the answer");
                    };
                    if start == end {
                        self.phase = Phase::Done;
                    }
                }
                Phase::Done => return Ok(true),
            }
        }
    }

    /// Reads the head, if it is whole. Interim answers (1xx) are dropped.
    fn head_of(&mut self, input: &mut Input) -> Result<bool, Garbled> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS];
            let mut response = httparse::Response::new(&mut headers);
            let length = match response.parse(input.bytes()) {
                Ok(httparse::Status::Complete(length)) => length,
                Ok(httparse::Status::Partial) if input.len() > HEAD_BYTES => {
                    return Err(Garbled("the head of the answer is larger than 64 KiB"));
                }
                Ok(httparse::Status::Partial) => return Ok(false),
                Err(_) => return Err(Garbled("the answer is not HTTP")),
            };
            let status = response.code.unwrap_or_default();
            match status {
                101 => return Err(Garbled("the server switched to a protocol that nobody asked for")),
                100..=199 => {
                    input.remove(0, length);
                    continue;
                }
                200..=599 => {}
                _ => return Err(Garbled("the status of the answer is not one of HTTP")),
            }
            self.status = status;
            self.keeps = response.version == Some(1);
            let framing = Framing::of(response.headers, &mut self.keeps)?;
            self.head_end = length;
            self.body_end = length;
            self.at = length;
            self.phase = if self.to_head || matches!(status, 204 | 304) {
                Phase::Done
            } else {
                match framing {
                    Framing::Chunked => Phase::ChunkSize,
                    Framing::Length(bytes) if bytes > BODY_BYTES => {
                        return Err(Garbled("the answer is larger than 1 GiB"));
                    }
                    Framing::Length(bytes) => Phase::Length(bytes),
                    Framing::UntilClosed => {
                        self.keeps = false;
                        Phase::UntilClosed
                    }
                }
            };
            return Ok(true);
        }
    }

    /// Takes a line with its end; gives where it is without. None where it is not whole yet.
    fn line(&mut self, input: &mut Input) -> Result<Option<(usize, usize)>, Garbled> {
        let rest = &input.bytes()[self.at..];
        let Some(length) = memchr::memchr(b'\n', rest) else {
            if rest.len() > HEAD_BYTES {
                return Err(Garbled("a line of the answer is longer than 64 KiB"));
            }
            self.close_gap(input);
            return Ok(None);
        };
        let start = self.at;
        self.at += length + 1;
        let end = start + length - usize::from(length > 0 && rest[length - 1] == b'\r');
        Ok(Some((start, end)))
    }

    /// Moves what has not been looked at next to the joined body, so that chunk sizes take no room.
    fn close_gap(&mut self, input: &mut Input) {
        input.remove(self.body_end, self.at);
        self.at = self.body_end;
    }
}

fn unless(closed: bool, what: &'static str) -> Result<bool, Garbled> {
    if closed { Err(Garbled(what)) } else { Ok(false) }
}

/// How the end of a body is found (RFC 9112, 6.3).
enum Framing {
    Length(u64),
    Chunked,
    UntilClosed,
}

impl Framing {
    fn of(headers: &[httparse::Header<'_>], keeps: &mut bool) -> Result<Self, Garbled> {
        let mut length = None;
        let mut encoded = None;
        for header in headers {
            if header.name.eq_ignore_ascii_case("content-length") {
                let digits = header.value.trim_ascii();
                let all_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
                let value = std::str::from_utf8(digits).ok().filter(|_| all_digits).and_then(|text| text.parse().ok());
                let value: u64 = value.ok_or(Garbled("the length of the answer is not a number"))?;
                if length.is_some_and(|other| other != value) {
                    return Err(Garbled("the answer has two lengths"));
                }
                length = Some(value);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                encoded = Some(has_token(header.value, b"chunked"));
            } else if header.name.eq_ignore_ascii_case("connection") {
                if has_token(header.value, b"close") {
                    *keeps = false;
                } else if has_token(header.value, b"keep-alive") {
                    *keeps = true;
                }
            }
        }
        Ok(match (encoded, length) {
            (Some(true), _) => Self::Chunked,
            (Some(false), _) | (None, None) => Self::UntilClosed,
            (None, Some(bytes)) => Self::Length(bytes),
        })
    }
}

fn has_token(value: &[u8], token: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(token))
}

fn chunk_size(line: &[u8]) -> Result<u64, Garbled> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
    text.filter(|text| (1..=15).contains(&text.len()))
        .and_then(|text| u64::from_str_radix(text, 16).ok())
        .ok_or(Garbled("the size of a chunk is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds an answer in pieces of this size, then closes; gives status, body, whether it keeps.
    fn read(text: &[u8], piece: usize, to_head: bool) -> Result<(u16, Vec<u8>, bool), Garbled> {
        let (mut parser, mut input) = (Parser::default(), Input::default());
        parser.begin(to_head);
        let mut done = false;
        for piece in text.chunks(piece) {
            assert!(!done, "done before its end");
            input.push(piece);
            done = parser.advance(&mut input, false)?;
        }
        if !done {
            parser.advance(&mut input, true)?;
        }
        Ok((parser.status(), parser.body(&input).to_vec(), parser.keeps()))
    }

    fn all_pieces(text: &[u8], to_head: bool) -> Result<(u16, Vec<u8>, bool), Garbled> {
        let whole = read(text, text.len(), to_head);
        for piece in 1..text.len() {
            assert_eq!(read(text, piece, to_head), whole, "in pieces of {piece}");
        }
        whole
    }

    #[test]
    fn lengths_chunks_and_ends_of_connections_are_read_in_any_pieces() {
        let ok = |body: &[u8], keeps| Ok((200, body.to_vec(), keeps));
        assert_eq!(all_pieces(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false), ok(b"hello", true));
        assert_eq!(
            all_pieces(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: 1\r\n\r\n", false),
            ok(b"abc0123456789", true)
        );
        assert_eq!(all_pieces(b"HTTP/1.1 200 OK\r\n\r\nto the end", false), ok(b"to the end", false));
        assert_eq!(all_pieces(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", false), ok(b"x", false));
        assert_eq!(
            all_pieces(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", false),
            ok(b"", false)
        );
        assert_eq!(all_pieces(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true), ok(b"", true));
        assert_eq!(all_pieces(b"HTTP/1.1 304 \r\n\r\n", false), Ok((304, Vec::new(), true)));
        let interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok";
        assert_eq!(all_pieces(interim, false), Ok((201, b"ok".to_vec(), true)));
    }

    #[test]
    fn what_is_not_http_is_garbled() {
        for text in [
            &b"SSH-2.0-OpenSSH_9.2\r\n"[..],
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFF\r\n",
            b"HTTP/1.1 101 Switching\r\n\r\n",
            b"HTTP/1.1 999 What\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
            b"HTTP/1.1 200 OK\r\nContent-Le",
            b"\x00\x01\x02\x03",
        ] {
            assert!(all_pieces(text, false).is_err(), "{}", String::from_utf8_lossy(text));
        }
    }
}
