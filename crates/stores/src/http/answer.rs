//! An answer, and what its status means where a driver does not know better.

use storebench_core::store::{ErrorKind, OpError};

use super::input::Input;
use super::parser::Parser;

/// A whole answer. Borrowed from the connection's buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer<'a> {
    /// 200 to 599.
    pub(crate) status: u16,
    /// The body, without its transfer encoding.
    pub(crate) body: &'a [u8],
    head: &'a [u8],
}

impl<'a> Answer<'a> {
    pub(super) fn of(parser: &Parser, input: &'a Input) -> Self {
        Self { status: parser.status(), body: parser.body(input), head: parser.head(input) }
    }

    /// An answer of these parts; `head` is the status line and headers, each with its line end.
    pub(crate) fn of_parts(status: u16, head: &'a [u8], body: &'a [u8]) -> Self {
        Self { status, body, head }
    }

    /// The first header of this name, in any case, without the space around it.
    pub(crate) fn header(&self, name: &str) -> Option<&'a [u8]> {
        let mut lines = self.head.split(|byte| *byte == b'\n');
        lines.next();
        lines.find_map(|line| {
            let (found, rest) = line.split_at_checked(name.len())?;
            let value = rest.strip_prefix(b":")?;
            found.eq_ignore_ascii_case(name.as_bytes()).then(|| value.trim_ascii())
        })
    }

    /// Whether the status is 2xx.
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The status and the beginning of the body, on one line, for errors.
    pub(crate) fn shown(&self) -> String {
        let text = String::from_utf8_lossy(&self.body[..self.body.len().min(1_000)]);
        let mut shown: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
        if shown.is_empty() {
            shown.push_str("no text");
        }
        format!("HTTP {}: {shown}", self.status)
    }
}

/// What an answer means that the driver did not expect. `changes`: the request may have changed
/// something (see [`RequestBuf::changes`](super::RequestBuf::changes)).
///
/// | status | a write | a read |
/// |---|---|---|
/// | 425, 429 | temporary: turned away, with the server's Retry-After | the same |
/// | 408, 502, 503, 504 | outcome unknown: the store, or a proxy before it, may have begun | temporary |
/// | 404 / 409, 412 | not found / conflict | the same |
/// | 400 and other 4xx | refused | the same |
/// | 500 and other 5xx | outcome unknown: it may have stopped half-way | failed |
/// | 2xx, 3xx that make no sense | outcome unknown | failed |
///
/// Where a store documents of one of these answers that nothing was done, its driver says so before.
pub(crate) fn status_error(answer: &Answer<'_>, changes: bool) -> OpError {
    let wait = answer.header("retry-after").map(|value| String::from_utf8_lossy(value).into_owned());
    let kind = match answer.status {
        404 => return OpError::not_found(),
        409 | 412 => ErrorKind::Conflict,
        425 | 429 => ErrorKind::Temporary,
        408 | 502 | 503 | 504 if changes => ErrorKind::OutcomeUnknown,
        408 | 502 | 503 | 504 => ErrorKind::Temporary,
        400..=499 => ErrorKind::Refused,
        _ if changes => ErrorKind::OutcomeUnknown,
        _ => ErrorKind::Failed,
    };
    let text = answer.shown();
    let message = match (answer.status, wait) {
        (429 | 503, Some(wait)) => format!("{text}; the server asks to wait {wait} (Retry-After)"),
        (401 | 403, _) => format!("{text}; give a user with the rights for it, as in http://user:password@host"),
        (413, _) => format!("{text}; the document is larger than the server takes"),
        _ => text,
    };
    OpError::new(kind, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"HTTP/1.1 429 Too Many\r\nRETRY-After:  7 \r\nEtag:\"1-a\"\r\n\r\n";

    #[test]
    fn headers_are_found_in_any_case() {
        let answer = Answer::of_parts(429, HEAD, b"");
        assert_eq!(answer.header("retry-after"), Some(&b"7"[..]));
        assert_eq!(answer.header("etag"), Some(&b"\"1-a\""[..]));
        assert_eq!(answer.header("eta"), None);
    }

    #[test]
    fn each_status_tells_whether_something_was_done() {
        let kind = |status, changes| status_error(&Answer::of_parts(status, HEAD, b"{\n}"), changes).kind;
        assert_eq!(kind(429, true), ErrorKind::Temporary);
        assert_eq!(kind(425, true), ErrorKind::Temporary);
        for status in [408, 502, 503, 504] {
            assert_eq!(kind(status, true), ErrorKind::OutcomeUnknown, "{status}");
            assert_eq!(kind(status, false), ErrorKind::Temporary, "{status}");
        }
        assert_eq!(kind(413, true), ErrorKind::Refused);
        assert_eq!(kind(404, true), ErrorKind::NotFound);
        assert_eq!(kind(412, true), ErrorKind::Conflict);
        assert_eq!((kind(500, true), kind(500, false)), (ErrorKind::OutcomeUnknown, ErrorKind::Failed));
        let error = status_error(&Answer::of_parts(429, HEAD, b"slow\n down"), true);
        assert_eq!(error.message, "HTTP 429: slow down; the server asks to wait 7 (Retry-After)");
    }
}
