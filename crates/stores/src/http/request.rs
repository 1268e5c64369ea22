//! A request, written into reused buffers.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::wire::{Failure, Outgoing};

/// The characters to encode in a path segment or a query value: all except the unreserved ones of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One request: write first its target, then its body.
///
/// ```text
/// out.begin(Method::PUT).raw("/db/").segment(key).raw("?batch=ok");
/// out.body().extend_from_slice(document);
/// ```
///
/// Its headers contain the password, so it does not implement `Debug`.
pub(crate) struct RequestBuf {
    method: Method,
    target: String,
    body: Vec<u8>,
    has_body: bool,
    changes: bool,
    /// Headers of every request on this session: host, authorization…
    common: Arc<HeaderMap>,
}

impl RequestBuf {
    /// An empty buffer. `common` holds the headers of every request.
    pub(crate) fn new(common: Arc<HeaderMap>) -> Self {
        Self { method: Method::GET, target: String::new(), body: Vec::new(), has_body: false, changes: false, common }
    }

    /// Starts a new request and clears the old one. GET and HEAD change nothing. Other methods may, unless
    /// [`RequestBuf::only_reads`] says otherwise.
    pub(crate) fn begin(&mut self, method: Method) -> &mut Self {
        self.changes = !method.is_safe();
        self.method = method;
        self.target.clear();
        self.body.clear();
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

    /// Appends a number to the target.
    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.raw(itoa::Buffer::new().format(number))
    }

    /// The buffer to append the body to, which is JSON.
    pub(crate) fn body(&mut self) -> &mut Vec<u8> {
        self.has_body = true;
        &mut self.body
    }

    /// Whether the outcome is unknown if this request is lost.
    pub(crate) fn changes(&self) -> bool {
        self.changes
    }

    /// The request to send. Can be called again to resend it.
    pub(super) fn outgoing(&self) -> Result<Outgoing, Failure> {
        let uri = Uri::try_from(self.target.as_str())
            .map_err(|error| Failure::Unsendable(format!("invalid path in the request: {error}")))?;
        let mut request = Request::new(Full::new(Bytes::copy_from_slice(&self.body)));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = HeaderMap::clone(&self.common);
        if self.has_body {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_was_written_last() {
        let mut out = RequestBuf::new(Arc::default());
        out.begin(Method::PUT).raw("/db/").segment("a b/ä?").raw("?n=").number(7);
        out.body().extend_from_slice(b"{}");
        assert!(out.changes());
        for _ in 0..2 {
            let request = out.outgoing().unwrap();
            assert_eq!(
                (request.method(), request.uri().to_string().as_str()),
                (&Method::PUT, "/db/a%20b%2F%C3%A4%3F?n=7")
            );
            assert_eq!(request.headers()[CONTENT_TYPE], "application/json");
        }
        out.begin(Method::GET).raw("/");
        assert!(!out.changes() && out.outgoing().unwrap().headers().is_empty());
        out.begin(Method::POST).raw("/x").only_reads();
        assert!(!out.changes());
        out.begin(Method::GET).raw("/").raw(&"x".repeat(1 << 17));
        assert!(matches!(out.outgoing(), Err(Failure::Unsendable(_))));
    }
}
