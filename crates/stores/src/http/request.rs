//! A request, written into buffers that are used again and again.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::wire::{Failure, Outgoing};

/// What may stand in a path segment or a query value as it is (RFC 3986, unreserved).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One request: first its target, then a body.
///
/// ```text
/// out.begin(Method::PUT).raw("/db/").segment(key).raw("?batch=ok");
/// out.body().extend_from_slice(document);
/// ```
///
/// Its headers hold the password, so it does not print.
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
    /// An empty buffer. `common` are the headers of every request.
    pub(crate) fn new(common: Arc<HeaderMap>) -> Self {
        Self { method: Method::GET, target: String::new(), body: Vec::new(), has_body: false, changes: false, common }
    }

    /// Begins a request; forgets what was there. GET and HEAD change nothing; the others may,
    /// unless [`RequestBuf::only_reads`] says otherwise.
    pub(crate) fn begin(&mut self, method: Method) -> &mut Self {
        self.changes = !method.is_safe();
        self.method = method;
        self.target.clear();
        self.body.clear();
        self.has_body = false;
        self
    }

    /// This request changes nothing though it is a POST: when it is lost, nothing was done.
    pub(crate) fn only_reads(&mut self) -> &mut Self {
        self.changes = false;
        self
    }

    /// A part of the target that needs no encoding.
    pub(crate) fn raw(&mut self, text: &str) -> &mut Self {
        self.target.push_str(text);
        self
    }

    /// A path segment or a query value, percent-encoded.
    pub(crate) fn segment(&mut self, text: &str) -> &mut Self {
        self.target.extend(utf8_percent_encode(text, ENCODED));
        self
    }

    /// A number in the target.
    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.raw(itoa::Buffer::new().format(number))
    }

    /// The buffer to which the body is appended, which is JSON.
    pub(crate) fn body(&mut self) -> &mut Vec<u8> {
        self.has_body = true;
        &mut self.body
    }

    /// Whether losing this request leaves open what was done.
    pub(crate) fn changes(&self) -> bool {
        self.changes
    }

    /// The request, as often as it has to be sent.
    pub(super) fn outgoing(&self) -> Result<Outgoing, Failure> {
        let uri = Uri::try_from(self.target.as_str())
            .map_err(|error| Failure::Unsendable(format!("the request's path cannot be sent: {error}")))?;
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
