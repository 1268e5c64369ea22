//! A request, written into reused buffers.

use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, utf8_percent_encode};
use storebench_documents::json::push_text;

use super::Method;
use crate::ascii;

/// The characters to encode in a path segment or a query value: all except the unreserved ones of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The longest target that is sent. Servers refuse shorter ones.
const TARGET_BYTES: usize = 64 << 10;

/// One request: write first its target, then its body.
///
/// ```text
/// out.begin(Method::PUT).raw("/db/").segment(key).raw("?batch=ok");
/// out.body().extend_from_slice(document);
/// ```
///
/// Its headers contain the password, so it does not implement `Debug`.
#[derive(Default)]
pub(crate) struct RequestBuf {
    method: Method,
    target: String,
    /// Reused by [`RequestBuf::json_segment`].
    quoted: Vec<u8>,
    body: Vec<u8>,
    has_body: bool,
    headers: Vec<u8>,
    changes: bool,
    /// How often a bulk request in this buffer was cut in two.
    pub(crate) splits: u64,
    /// The headers of every request on this session, as they are sent: host, authorization…
    common: Arc<[u8]>,
}

impl RequestBuf {
    /// An empty buffer. `common` holds the headers of every request.
    pub(crate) fn new(common: Arc<[u8]>) -> Self {
        Self { common, ..Self::default() }
    }

    /// Starts a new request and clears the old one. GET and HEAD change nothing. Other methods may, unless
    /// [`RequestBuf::only_reads`] says otherwise.
    pub(crate) fn begin(&mut self, method: Method) -> &mut Self {
        self.changes = !method.is_safe();
        self.method = method;
        self.target.clear();
        self.body.clear();
        self.headers.clear();
        self.has_body = false;
        self
    }

    /// Declares that this request changes nothing although it is a POST. If it is lost, nothing was done.
    pub(crate) fn only_reads(&mut self) -> &mut Self {
        self.changes = false;
        self
    }

    /// Appends to the target without encoding.
    pub(crate) fn raw(&mut self, text: &str) -> &mut Self {
        self.target.push_str(text);
        self
    }

    /// Appends a path segment or a query value, percent-encoded.
    pub(crate) fn segment(&mut self, text: &str) -> &mut Self {
        self.target.extend(utf8_percent_encode(text, ENCODED));
        self
    }

    /// Appends a query value that is JSON: this text as a string.
    pub(crate) fn json_segment(&mut self, text: &str) -> &mut Self {
        self.quoted.clear();
        push_text(text, &mut self.quoted);
        self.target.extend(percent_encode(&self.quoted, ENCODED));
        self
    }

    /// Appends a number to the target.
    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.raw(itoa::Buffer::new().format(number))
    }

    /// The buffer to append the body to, which is JSON.
    pub(crate) fn body(&mut self) -> &mut Vec<u8> {
        self.has_body = true;
        &mut self.body
    }

    /// The body, and the buffer for headers of this request alone, as they are sent. If it has any, `Content-Type` must
    /// be among them.
    pub(crate) fn signed_parts(&mut self) -> (&[u8], &mut Vec<u8>) {
        (&self.body, &mut self.headers)
    }

    /// The length of the body so far.
    pub(crate) fn body_bytes(&self) -> usize {
        self.body.len()
    }

    /// Whether the outcome is unknown if this request is lost.
    pub(crate) fn changes(&self) -> bool {
        self.changes
    }

    /// Whether it can be sent. A longer target is refused by every server, and other characters would break its line.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.target.len() > TARGET_BYTES {
            return Err(format!("the path of the request is longer than {TARGET_BYTES} bytes"));
        }
        if ascii::all(self.target.as_bytes(), |byte| byte.is_ascii_graphic()) {
            return Ok(());
        }
        match self.target.bytes().find(|byte| !byte.is_ascii_graphic()) {
            Some(byte) => Err(format!(
                "the path of the request contains the character {:?}, which must be percent-encoded",
                char::from(byte)
            )),
            None => Ok(()),
        }
    }

    /// Whether its answer has no body.
    pub(super) fn is_head(&self) -> bool {
        self.method == Method::HEAD
    }

    /// Appends the request as it is sent. Can be called again to resend it.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.method.as_str().as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.target.as_bytes());
        out.extend_from_slice(b" HTTP/1.1\r\n");
        out.extend_from_slice(&self.common);
        out.extend_from_slice(&self.headers);
        if self.has_body && self.headers.is_empty() {
            out.extend_from_slice(b"Content-Type: application/json\r\n");
        }
        if self.has_body || !self.method.is_safe() {
            out.extend_from_slice(b"Content-Length: ");
            out.extend_from_slice(itoa::Buffer::new().format(self.body.len()).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_was_written_last() {
        let mut out = RequestBuf::new(b"Host: h\r\n".as_slice().into());
        let written = |out: &RequestBuf| {
            out.check().unwrap();
            let mut bytes = Vec::new();
            out.write(&mut bytes);
            String::from_utf8(bytes).unwrap()
        };
        out.begin(Method::PUT).raw("/db/").segment("a b/ä?").raw("?n=").number(7).raw("&k=").json_segment("ä\"");
        out.body().extend_from_slice(b"{}");
        assert!(out.changes());
        for _ in 0..2 {
            assert_eq!(
                written(&out),
                "PUT /db/a%20b%2F%C3%A4%3F?n=7&k=%22%C3%A4%5C%22%22 HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n\
                 Content-Length: 2\r\n\r\n{}"
            );
        }
        out.begin(Method::GET).raw("/");
        assert!(!out.changes());
        assert_eq!(written(&out), "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        out.begin(Method::DELETE).raw("/x");
        assert_eq!(written(&out), "DELETE /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
        out.begin(Method::POST).raw("/x").only_reads();
        assert!(!out.changes());
    }

    #[test]
    fn a_target_that_would_break_the_request_is_refused() {
        let mut out = RequestBuf::new([].as_slice().into());
        for target in ["/a b", "/a\r\nX: y", "/ä", &"x".repeat(1 << 17)] {
            out.begin(Method::GET).raw(target);
            assert!(out.check().is_err(), "{target}");
        }
    }
}
