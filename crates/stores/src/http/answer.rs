//! An answer, and the default meaning of its status.

use storebench_engine::store::{ErrorKind, OpError};

use super::incoming;

/// A complete answer. It borrows from the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer<'a> {
    /// 200 to 599.
    pub(crate) status: u16,
    /// The body, without its transfer encoding.
    pub(crate) body: &'a [u8],
    head: &'a [u8],
}

impl<'a> Answer<'a> {
    /// An answer of these parts: the head as it came, and the body without its transfer encoding.
    pub(crate) fn of_parts(status: u16, head: &'a [u8], body: &'a [u8]) -> Self {
        Self { status, body, head }
    }

    /// The first header of this name, without surrounding space.
    pub(crate) fn header(&self, name: &str) -> Option<&'a [u8]> {
        incoming::header(self.head, name)
    }

    /// Whether the status is 2xx.
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The status and the start of the body, on one line, for errors.
    pub(crate) fn shown(&self) -> String {
        let text = String::from_utf8_lossy(&self.body[..self.body.len().min(1_000)]);
        let mut shown: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
        if shown.is_empty() {
            shown.push_str("no text");
        }
        format!("HTTP {}: {shown}", self.status)
    }
}

/// The error of an answer that the driver did not expect. `changes` says whether the request may have changed
/// something (see [`RequestBuf::changes`](super::RequestBuf::changes)).
///
/// | status | a write | a read |
/// |---|---|---|
/// | 425, 429 | temporary: rejected, with the server's Retry-After | the same |
/// | 408, 502, 503, 504 | outcome unknown: the store, or a proxy before it, may have started | temporary |
/// | 404 / 409, 412 | not found / conflict | the same |
/// | 400 and other 4xx | refused | the same |
/// | 500 and other 5xx | outcome unknown: it may have stopped half-way | failed |
/// | unexpected 2xx, 3xx | outcome unknown | failed |
///
/// If a store documents that nothing was done for one of these statuses, its driver handles the status first.
pub(crate) fn status_error(answer: &Answer<'_>, changes: bool) -> OpError {
    status_error_told(answer, changes, answer.shown())
}

/// The same, with what the driver understood of the answer as `text`.
pub(crate) fn status_error_told(answer: &Answer<'_>, changes: bool, text: String) -> OpError {
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
    let message = match (answer.status, wait) {
        (429 | 503, Some(wait)) => format!("{text}; the server asks to wait {wait} (Retry-After)"),
        (401 | 403, _) => format!("{text}; use a user with this permission, as in http://user:password@host"),
        (413, _) => format!("{text}; the document is larger than the server accepts"),
        _ => text,
    };
    OpError::new(kind, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_tells_whether_something_was_done() {
        let head = b"HTTP/1.1 429 Slow\r\nRetry-After: 7 \r\n\r\n";
        let kind = |status, changes| status_error(&Answer::of_parts(status, head, b"{\n}"), changes).kind;
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
        let error = status_error(&Answer::of_parts(429, head, b"slow\n down"), true);
        assert_eq!(error.message, "HTTP 429: slow down; the server asks to wait 7 (Retry-After)");
    }
}
