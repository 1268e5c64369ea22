//! Reads answers: the head with `httparse`, and the body by its length, in chunks, or until the connection ends (RFC
//! 9112, section 6.3). This module does no I/O.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Status};

use super::Answer;
use super::wire::Failure;
use crate::ascii;
use crate::connection::Pipe;

/// The maximum size of a body that is kept. No request of a driver expects more.
const BODY_BYTES: u64 = 1 << 30;
/// How much is read of a head, of the size of a chunk, or of a line behind the last one, before its end must have come.
const HEAD_BYTES: usize = 64 << 10;
/// The maximum number of headers.
const HEADERS: usize = 100;
const TOO_LARGE: &str = "the answer is larger than 1 GiB";

/// What comes next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Head,
    /// So many bytes, then the answer is complete.
    Rest(u64),
    /// The size of a chunk.
    Size,
    /// So many bytes of a chunk, then the end of its line.
    Chunk(u64),
    /// The lines after the last chunk.
    Trailer,
    /// Bytes until the connection ends.
    UntilClosed,
    Complete,
}

/// The answer to one request, while it is read.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// 200 to 599, once the head is read.
    pub(crate) status: u16,
    /// The head, without the heads of interim answers.
    pub(super) head: Vec<u8>,
    /// What was read of the body, without its transfer encoding.
    pub(super) body: Vec<u8>,
    /// Whether the server keeps the connection open after it.
    pub(super) keeps_open: bool,
    /// The maximum size of the body.
    pub(super) most: u64,
    to_head: bool,
    next: Part,
}

impl Incoming {
    pub(super) fn new() -> Self {
        Self { keeps_open: true, most: BODY_BYTES, ..Self::default() }
    }

    /// Starts the answer to another request. An answer to HEAD has no body, whatever its head says.
    pub(super) fn begin(&mut self, to_head: bool) {
        (self.to_head, self.next, self.status, self.keeps_open, self.most) = (to_head, Part::Head, 0, true, BODY_BYTES);
        self.head.clear();
        self.body.clear();
    }

    /// The answer, once it is complete.
    pub(crate) fn answer(&self) -> Answer<'_> {
        Answer::of_parts(self.status, &self.head, &self.body)
    }

    /// Whether the head is read.
    pub(super) fn has_head(&self) -> bool {
        self.next != Part::Head
    }

    /// Whether the end of the connection completes this answer.
    pub(super) fn ends_when_closed(&self) -> bool {
        matches!(self.next, Part::UntilClosed | Part::Complete)
    }

    /// Takes what was read. Returns whether the answer is complete.
    ///
    /// # Errors
    /// `Garbled` if it is not an answer.
    pub(super) fn take<T>(&mut self, pipe: &mut Pipe<T>) -> Result<bool, Failure> {
        loop {
            let input = pipe.input();
            let (taken, next) = match self.next {
                Part::Complete => return Ok(true),
                _ if input.is_empty() => return Ok(false),
                Part::Head => match self.take_head(input)? {
                    Some(taken) => taken,
                    None => return bounded(input).map(|()| false),
                },
                Part::Rest(left) => match self.take_body(input, left)? {
                    (taken, 0) => (taken, Part::Complete),
                    (taken, left) => (taken, Part::Rest(left)),
                },
                Part::UntilClosed => (self.take_body(input, u64::MAX)?.0, Part::UntilClosed),
                Part::Size => match httparse::parse_chunk_size(input) {
                    // It takes a line without a digit for the last chunk.
                    Ok(Status::Complete((taken, size))) if input[0].is_ascii_hexdigit() => {
                        (taken, if size == 0 { Part::Trailer } else { Part::Chunk(size) })
                    }
                    Ok(Status::Partial) => return bounded(input).map(|()| false),
                    _ => return Err(garbled("invalid chunk size")),
                },
                Part::Chunk(0) => match input {
                    [b'\r', b'\n', ..] => (2, Part::Size),
                    [b'\r'] => return Ok(false),
                    _ => return Err(garbled("a chunk is longer than its size")),
                },
                Part::Chunk(left) => {
                    let (taken, left) = self.take_body(input, left)?;
                    (taken, Part::Chunk(left))
                }
                Part::Trailer => match memchr::memchr(b'\n', input) {
                    Some(end) if matches!(&input[..end], b"" | b"\r") => (end + 1, Part::Complete),
                    Some(end) => (end + 1, Part::Trailer),
                    None => return bounded(input).map(|()| false),
                },
            };
            pipe.consume(taken);
            self.next = next;
        }
    }

    /// Appends up to `left` bytes to the body. Returns how many, and how many are then still to come.
    fn take_body(&mut self, input: &[u8], left: u64) -> Result<(usize, u64), Failure> {
        let taken = input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if (self.body.len() + taken) as u64 > self.most {
            return Err(Failure::Garbled(TOO_LARGE.into()));
        }
        self.body.extend_from_slice(&input[..taken]);
        Ok((taken, left - taken as u64))
    }

    /// Reads the head. `None` if it is not complete yet.
    fn take_head(&mut self, input: &[u8]) -> Result<Option<(usize, Part)>, Failure> {
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS];
        let mut response = httparse::Response::new(&mut []);
        let parsed = ParserConfig::default().parse_response_with_uninit_headers(&mut response, input, &mut headers);
        let bytes = match parsed {
            Ok(Status::Complete(bytes)) => bytes,
            Ok(Status::Partial) => return Ok(None),
            Err(error) => return Err(garbled(&error.to_string())),
        };
        let status = response.code.unwrap_or(0);
        let framing = match status {
            // An interim answer: another head follows.
            100 | 102..=199 => return Ok(Some((bytes, Part::Head))),
            200..=599 => Framing::of(response.version == Some(1), response.headers)?,
            other => return Err(Failure::Garbled(format!("the answer has the unexpected status {other}"))),
        };
        let next = match framing.body {
            _ if self.to_head || matches!(status, 204 | 304) => Part::Complete,
            Part::Rest(0) => Part::Complete,
            Part::Rest(length) if length > self.most => return Err(Failure::Garbled(TOO_LARGE.into())),
            // If its server dies, what came until then would be taken for a document.
            Part::UntilClosed if status < 300 => {
                return Err(Failure::Garbled("the answer has neither a length nor chunks".into()));
            }
            body => body,
        };
        self.status = status;
        self.head.extend_from_slice(&input[..bytes]);
        self.keeps_open = framing.keeps_open && next != Part::UntilClosed;
        Ok(Some((bytes, next)))
    }
}

/// The first header of this name in a head, without surrounding space.
pub(super) fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a [u8]> {
    // `httparse` has read this head, so each header is a line.
    let mut rest = head;
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let (line, after) = (&rest[..end], &rest[end + 1..]);
        if let Some((found, value)) = line.split_at_checked(name.len())
            && let Some(value) = value.strip_prefix(b":")
            && found.eq_ignore_ascii_case(name.as_bytes())
        {
            return Some(value.trim_ascii());
        }
        rest = after;
    }
    None
}

/// What the headers say about the body and the connection.
struct Framing {
    body: Part,
    keeps_open: bool,
}

impl Framing {
    /// In version 1.1, a connection stays open unless a header says otherwise. Version 1.0 has no chunks.
    fn of(is_1_1: bool, headers: &[Header<'_>]) -> Result<Self, Failure> {
        let (mut length, mut chunked) = (None, false);
        let (mut says_close, mut says_keep) = (false, is_1_1);
        for Header { name, value } in headers {
            let mut words = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            // Compare lengths first: most headers have other ones.
            match name.len() {
                14 if name.eq_ignore_ascii_case("content-length") => {
                    for word in words {
                        let number = ascii::number(word).ok_or_else(|| garbled("invalid Content-Length"))?;
                        if length.is_some_and(|length| length != number) {
                            return Err(garbled("two values of Content-Length"));
                        }
                        length = Some(number);
                    }
                }
                17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                    // No other one is asked for.
                    if chunked || !is_1_1 || words.any(|word| !word.eq_ignore_ascii_case(b"chunked")) {
                        return Err(garbled("unexpected Transfer-Encoding"));
                    }
                    chunked = true;
                }
                10 if name.eq_ignore_ascii_case("connection") => {
                    for word in words {
                        says_close |= word.eq_ignore_ascii_case(b"close");
                        says_keep |= word.eq_ignore_ascii_case(b"keep-alive");
                    }
                }
                _ => {}
            }
        }
        let body = match (chunked, length) {
            (true, _) => Part::Size,
            (false, None) => Part::UntilClosed,
            (false, Some(length)) => Part::Rest(length),
        };
        // Both headers together may hide a second answer in the first.
        let ambiguous = chunked && length.is_some();
        Ok(Self { body, keeps_open: says_keep && !says_close && !ambiguous })
    }
}

/// Refuses a head, a size or a trailer that does not end.
fn bounded(input: &[u8]) -> Result<(), Failure> {
    if input.len() > HEAD_BYTES { Err(garbled("a line or a head of more than 64 KiB")) } else { Ok(()) }
}

fn garbled(why: &str) -> Failure {
    Failure::Garbled(format!("the answer is not HTTP: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an answer in pieces of every size. They must agree.
    fn read(answer: &[u8], to_head: bool) -> Result<(u16, String, bool, bool), Failure> {
        let mut seen = Vec::new();
        for size in 1..=answer.len() {
            let mut pipe = Pipe::<()>::new(1);
            let mut incoming = Incoming::new();
            incoming.begin(to_head);
            let mut complete = false;
            for piece in answer.chunks(size) {
                pipe.room()[..piece.len()].copy_from_slice(piece);
                pipe.filled(piece.len());
                complete = incoming.take(&mut pipe)?;
            }
            let Incoming { status, body, keeps_open, .. } = incoming;
            seen.push((status, String::from_utf8(body).unwrap(), complete, keeps_open && pipe.input().is_empty()));
        }
        assert!(seen.iter().all(|other| *other == seen[0]), "{seen:?}");
        Ok(seen.swap_remove(0))
    }

    fn ok(answer: &str, status: u16, body: &str, complete: bool, open: bool) {
        assert_eq!(read(answer.as_bytes(), false).unwrap(), (status, body.into(), complete, open), "{answer}");
    }

    #[test]
    fn bodies_end_where_their_heads_say() {
        ok("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, "{}", true, true);
        ok("HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\nConnection: x, Close\r\n\r\n{}", 200, "{}", true, false);
        ok("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", true, false);
        ok("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", 200, "", true, true);
        ok("HTTP/1.1 204 None\r\nContent-Length: 5\r\n\r\n", 204, "", true, true);
        ok("HTTP/1.1 304 Same\r\nTransfer-Encoding: chunked\r\n\r\n", 304, "", true, true);
        ok("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", 200, "{}", false, true);
        ok("HTTP/1.1 500 No\r\n\r\nto the end", 500, "to the end", false, false);
        ok("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\nx", 404, "x", true, true);
        let head = read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true).unwrap();
        assert_eq!(head, (200, String::new(), true, true));
    }

    #[test]
    fn chunks_are_joined() {
        let chunked = |body: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n{body}");
        let long = "3\r\nabc\r\nA ;x=y\r\n0123456789\r\n0\r\nX: y\r\n\r\n";
        ok(&chunked(long), 200, "abc0123456789", true, true);
        ok(&chunked("0\r\n\r\n"), 200, "", true, true);
        ok(&chunked("0\r\n\r\nHTTP"), 200, "", true, false);
        ok(&chunked("3\r\nabc\r\n"), 200, "abc", false, true);
        for wrong in ["\r\n", "x\r\n", ";\r\n", "1\r\nxx\r\n", "10000000000000000\r\n", "+1\r\nx\r\n"] {
            assert!(matches!(read(chunked(wrong).as_bytes(), false), Err(Failure::Garbled(_))), "{wrong:?}");
        }
        // Two answers may hide in one that has a length, too.
        let both = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
        ok(both, 200, "x", true, false);
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for wrong in [
            "SSH-2.0-OpenSSH_9.2\r\n",
            "HTTP/1.1 101 Switch\r\n\r\n",
            "HTTP/1.1 700 What\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2000000000\r\n\r\n",
            // If its server dies, the start of a document is no document.
            "HTTP/1.1 200 OK\r\n\r\n{",
        ] {
            assert!(matches!(read(wrong.as_bytes(), false), Err(Failure::Garbled(_))), "{wrong}");
        }
        let mut pipe = Pipe::<()>::new(1);
        let mut incoming = Incoming::new();
        let endless = [b"HTTP/1.1 200 OK\r\nX: ".as_slice(), &vec![b'x'; 1 << 20]].concat();
        let refused = endless.chunks(1_000).any(|piece| {
            pipe.room()[..piece.len()].copy_from_slice(piece);
            pipe.filled(piece.len());
            incoming.take(&mut pipe).is_err()
        });
        assert!(refused, "a head without an end");
    }

    #[test]
    fn headers_are_found_whatever_their_case() {
        let head = b"HTTP/1.1 200 x: 3\r\nNo-ETag: 4\r\nETag:  \"1-a\" \r\nX: 1\r\nx: 2\r\n\r\n";
        assert_eq!(header(head, "etag"), Some(&b"\"1-a\""[..]));
        assert_eq!((header(head, "X"), header(head, "y"), header(b"", "x")), (Some(&b"1"[..]), None, None));
    }
}
