//! A request, written into a buffer that is used again and again.

use std::fmt::Write as _;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What may stand in a path segment or a query value as it is (RFC 3986, unreserved).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Digits that are kept free for the length of a body, which is known when it has been written.
const LENGTH_DIGITS: usize = 12;

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// Reads.
    Get,
    /// Reads the head of what GET gives.
    Head,
    /// Whatever the path says.
    Post,
    /// Stores.
    Put,
    /// Changes a part.
    Patch,
    /// Removes.
    Delete,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::Get => "GET ",
            Self::Head => "HEAD ",
            Self::Post => "POST ",
            Self::Put => "PUT ",
            Self::Patch => "PATCH ",
            Self::Delete => "DELETE ",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Target,
    Headers,
    Body { length_at: usize, start: usize },
    Whole,
}

/// One request: first its target, then headers, then a body. Head and body lie in one buffer, so
/// that they go out with one write.
///
/// ```text
/// out.begin(Method::Put).raw("/db/").segment(key).raw("?batch=ok");
/// out.body().extend_from_slice(document);
/// ```
///
/// It holds the password, so it does not print.
pub(crate) struct RequestBuf {
    bytes: Vec<u8>,
    part: Part,
    method: Method,
    changes: bool,
    /// Headers of every request on this session, each with its line end: host, authorization…
    common: Arc<[u8]>,
}

impl RequestBuf {
    /// An empty buffer. `common` are the headers of every request, each with its line end.
    pub(crate) fn new(common: Arc<[u8]>) -> Self {
        Self { bytes: Vec::new(), part: Part::Whole, method: Method::Get, changes: false, common }
    }

    /// Begins a request; forgets what was there. GET and HEAD change nothing; the others may,
    /// unless [`RequestBuf::only_reads`] says otherwise.
    pub(crate) fn begin(&mut self, method: Method) -> &mut Self {
        self.bytes.clear();
        self.bytes.extend_from_slice(method.name().as_bytes());
        self.method = method;
        self.changes = !matches!(method, Method::Get | Method::Head);
        self.part = Part::Target;
        self
    }

    /// This request changes nothing though it is a POST: when it is lost, nothing was done.
    pub(crate) fn only_reads(&mut self) -> &mut Self {
        self.changes = false;
        self
    }

    /// A part of the target that needs no encoding.
    pub(crate) fn raw(&mut self, text: &str) -> &mut Self {
        debug_assert!(self.part == Part::Target, "the target comes first");
        self.bytes.extend_from_slice(text.as_bytes());
        self
    }

    /// A path segment or a query value, percent-encoded.
    pub(crate) fn segment(&mut self, text: &str) -> &mut Self {
        for piece in utf8_percent_encode(text, ENCODED) {
            self.bytes.extend_from_slice(piece.as_bytes());
        }
        self
    }

    /// A number in the target.
    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self
    }

    /// A header of this request. Bytes that could end the line become spaces.
    pub(crate) fn header(&mut self, name: &str, value: &[u8]) -> &mut Self {
        self.end_target();
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(b": ");
        self.bytes.extend(value.iter().map(|byte| if matches!(byte, b'\r' | b'\n' | 0) { b' ' } else { *byte }));
        self.bytes.extend_from_slice(b"\r\n");
        self
    }

    /// Ends the head and gives the buffer to which the body is appended (what is in front of it must
    /// stay). Its length is written into the head when the request is sent. Content type: JSON.
    pub(crate) fn body(&mut self) -> &mut Vec<u8> {
        self.body_of("application/json")
    }

    /// The same with another content type.
    pub(crate) fn body_of(&mut self, content_type: &str) -> &mut Vec<u8> {
        if !matches!(self.part, Part::Body { .. }) {
            self.header("Content-Type", content_type.as_bytes());
            self.bytes.extend_from_slice(b"Content-Length: ");
            let length_at = self.bytes.len();
            // White space before a header's value means nothing (RFC 9110, 5.5).
            self.bytes.extend_from_slice(&[b' '; LENGTH_DIGITS]);
            self.bytes.extend_from_slice(b"\r\n\r\n");
            self.part = Part::Body { length_at, start: self.bytes.len() };
        }
        &mut self.bytes
    }

    /// Whether losing this request leaves open what was done.
    pub(crate) fn changes(&self) -> bool {
        self.changes
    }

    /// Completes the request; gives its bytes.
    pub(super) fn finish(&mut self) -> &[u8] {
        match self.part {
            Part::Target | Part::Headers => {
                self.end_target();
                if matches!(self.method, Method::Post | Method::Put | Method::Patch) {
                    self.bytes.extend_from_slice(b"Content-Length: 0\r\n");
                }
                self.bytes.extend_from_slice(b"\r\n");
            }
            Part::Body { length_at, start } => {
                let mut digits = itoa::Buffer::new();
                let digits = digits.format(self.bytes.len() - start).as_bytes();
                let end = length_at + LENGTH_DIGITS;
                self.bytes[end - digits.len()..end].copy_from_slice(digits);
            }
            Part::Whole => {}
        }
        self.part = Part::Whole;
        &self.bytes
    }

    /// The completed bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether its answer has no body.
    pub(super) fn is_head(&self) -> bool {
        self.method == Method::Head
    }

    fn end_target(&mut self) {
        if self.part == Part::Target {
            self.bytes.extend_from_slice(b" HTTP/1.1\r\n");
            self.bytes.extend_from_slice(&self.common);
            self.part = Part::Headers;
        }
    }
}

/// The headers of every request to this host: its name, what we take, who asks. The password is in
/// them, so they are never shown.
pub(crate) fn common_headers(address: &crate::net::Address) -> Arc<[u8]> {
    use base64::Engine as _;

    let mut headers = format!("Host: {}\r\nAccept: application/json\r\n", address.host());
    if let Some(user) = &address.user {
        let password = address.password.as_ref().map_or("", crate::net::Secret::expose);
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        let _ = write!(headers, "Authorization: Basic {pair}\r\n");
    }
    headers.into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_written_in_one_piece() {
        let mut out = RequestBuf::new(Arc::from(&b"Host: h\r\n"[..]));
        out.begin(Method::Put).raw("/db/").segment("a b/ä?").raw("?n=").number(7);
        out.header("If-Match", b"\"1\r\n\"").body().extend_from_slice(b"{}");
        assert!(out.changes());
        let text = String::from_utf8(out.finish().to_vec()).unwrap();
        assert_eq!(
            text,
            "PUT /db/a%20b%2F%C3%A4%3F?n=7 HTTP/1.1\r\nHost: h\r\nIf-Match: \"1  \"\r\n\
             Content-Type: application/json\r\nContent-Length:            2\r\n\r\n{}"
        );
        out.begin(Method::Get).raw("/");
        assert!(!out.changes());
        assert_eq!(out.finish(), b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        out.begin(Method::Post).raw("/x").only_reads();
        assert!(!out.changes());
        assert_eq!(out.finish(), b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    }
}
