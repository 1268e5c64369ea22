//! What the server's errors mean.

use std::borrow::Cow;

use storebench_documents::json::{member, text};
use storebench_engine::store::{ErrorKind, OpError};

use crate::http::{Answer, status_error, status_error_told};

/// The type of the error of a missing index.
const INDEX_IS_GONE: &str = "index_not_found_exception";
/// The type of the error of a blocked index.
const BLOCK: &str = "cluster_block_exception";
/// The most that is quoted of a reason.
const QUOTED: usize = 300;

/// The type and the reasons of the error in an answer, or in an item of a bulk.
pub(super) fn said(body: &[u8]) -> Option<String> {
    let error = member(body, "error")?;
    let mut told = told_by(error)?;
    let mut inner = error;
    // The last cause says most: `failed to parse` is caused by what could not be parsed.
    while let Some(cause) = member(inner, "caused_by").filter(|cause| cause.len() < inner.len()) {
        inner = cause;
    }
    if inner.len() < error.len()
        && let Some(cause) = told_by(inner)
    {
        told = format!("{told}; {cause}");
    }
    let mut told: String = told.chars().take(QUOTED).collect();
    if is_blocked(body) {
        told += "; to write again, free space on the server's disk, or remove the setting index.blocks.…";
    }
    Some(told)
}

/// Whether writes to an index are blocked: 403; or 429, if the disk has reached the flood stage. It is checked before
/// anything is written. 503 has the same type, of a cluster that is not ready.
pub(super) fn is_blocked(body: &[u8]) -> bool {
    let said = member(body, "error").and_then(told_by).unwrap_or_default();
    said.starts_with(BLOCK) && !said.contains("SERVICE_UNAVAILABLE")
}

fn told_by(error: &[u8]) -> Option<String> {
    let part = |name| member(error, name).and_then(text).unwrap_or_default();
    let (kind, reason) = (part("type"), part("reason"));
    if kind.is_empty() {
        // Some errors are only a text.
        return text(error).map(Cow::into_owned);
    }
    Some(format!("{kind}: {}", reason.split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// The type of the error in an answer.
pub(super) fn type_of(body: &[u8]) -> Option<Cow<'_, str>> {
    member(member(body, "error")?, "type").and_then(text)
}

/// Whether an answer says that the index does not exist. A 404 without this is a missing document.
pub(super) fn index_is_gone(body: &[u8]) -> bool {
    type_of(body).as_deref() == Some(INDEX_IS_GONE)
}

/// The error of an answer that is not a success. `changes` says whether the request may have changed something.
///
/// As [`status_error`], except for what is known of this store: a missing index, and an index whose writes are blocked.
pub(super) fn fault(answer: &Answer<'_>, changes: bool) -> OpError {
    let Some(said) = said(answer.body) else { return status_error(answer, changes) };
    let told = format!("HTTP {}: {said}", answer.status);
    match type_of(answer.body).as_deref() {
        Some(INDEX_IS_GONE) => {
            OpError::new(ErrorKind::Failed, format!("{told}; the index may have been removed meanwhile"))
        }
        Some(BLOCK) if answer.status == 503 => OpError::new(ErrorKind::Temporary, told),
        Some(BLOCK) => OpError::new(status_error(answer, changes).kind, told),
        _ => status_error_told(answer, changes, told),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_reason_and_says_whether_something_was_done() {
        let of = |status, body: &'static str| fault(&Answer::of_parts(status, b"", body.as_bytes()), true);
        let parse = r#"{"error":{"root_cause":[{"type":"x"}],"type":"mapper_parsing_exception",
            "reason":"failed to parse",
            "caused_by":{"type":"illegal_argument_exception","reason":"field name\n cannot be empty"}},"status":400}"#;
        let error = of(400, parse);
        assert_eq!(error.kind, ErrorKind::Refused);
        assert_eq!(
            error.message,
            "HTTP 400: mapper_parsing_exception: failed to parse; illegal_argument_exception: field name cannot be \
             empty"
        );
        let blocked = r#"{"error":{"type":"cluster_block_exception","reason":"index [a] blocked by:
            [TOO_MANY_REQUESTS/12/
            disk usage exceeded flood-stage watermark, index has read-only-allow-delete block];"}}"#;
        for (status, kind) in [(403, ErrorKind::Refused), (429, ErrorKind::Temporary), (503, ErrorKind::Temporary)] {
            let error = of(status, blocked);
            assert_eq!(error.kind, kind, "{status}");
            assert!(error.message.contains("flood-stage"), "{}", error.message);
        }
        assert!(of(403, blocked).message.ends_with("index.blocks.…"));
        let gone = r#"{"error":{"type":"index_not_found_exception","reason":"no such index [a]"},"status":404}"#;
        assert_eq!(of(404, gone).kind, ErrorKind::Failed);
        let missing = r#"{"_index":"a","_id":"k","found":false}"#;
        assert_eq!(of(404, missing).kind, ErrorKind::NotFound);
        let busy = r#"{"error":{"type":"rejected_execution_exception","reason":"rejected"},"status":429}"#;
        assert_eq!(of(429, busy).kind, ErrorKind::Temporary);
        let answer = Answer::of_parts(429, b"HTTP/1.1 429 x\r\nRetry-After: 7\r\n\r\n", busy.as_bytes());
        assert_eq!(
            fault(&answer, true).message,
            "HTTP 429: rejected_execution_exception: rejected; the server asks to wait 7 (Retry-After)"
        );
        assert_eq!(of(503, r#"{"error":{"type":"unavailable_shards_exception"}}"#).kind, ErrorKind::OutcomeUnknown);
        assert!(said(b"{}").is_none() && said(br#"{"error":"no handler"}"#).as_deref() == Some("no handler"));
    }
}
