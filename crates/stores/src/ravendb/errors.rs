//! What RavenDB's errors mean.

use std::borrow::Cow;

use storebench_engine::store::{ErrorKind, OpError, StoreError};

use super::json;
use crate::http::{Answer, status_error};
use crate::refusals::refused;

/// An answer that RavenDB does not give, to a request that changes nothing.
pub(super) const GARBLED: OpError = OpError {
    kind: ErrorKind::Failed,
    message: Cow::Borrowed(
        "the server's answer is not RavenDB's protocol; check for a proxy or another server in between",
    ),
};

/// The same for a request that may have changed something.
pub(super) const GARBLED_WRITE: OpError = OpError { kind: ErrorKind::OutcomeUnknown, message: GARBLED.message };

/// What the counter script throws if the sum is outside the range of exact JSON integers.
pub(super) const OVERFLOW: &str = "storebench: overflow";

/// What the script that removes a document throws if the document is of another collection.
pub(super) const ELSEWHERE: &str = "storebench: elsewhere";

/// The error of an unsuccessful answer. RavenDB names the exception (`Type`). Some exceptions are thrown before a
/// transaction, or end it without a commit. After all others, a write may have been done.
pub(super) fn op_error(answer: &Answer<'_>, changes: bool) -> OpError {
    let (kind, message) = exception(answer.body);
    let short = kind.rsplit('.').next().unwrap_or_default();
    let means = match short {
        "ConcurrencyException" => ErrorKind::Conflict,
        "DatabaseDoesNotExistException" => ErrorKind::Failed,
        // The database was not opened for the request, so nothing was done.
        "DatabaseDisabledException" | "DatabaseLoadTimeoutException" | "DatabaseConcurrentLoadTimeoutException" => {
            ErrorKind::Temporary
        }
        // A server that has just started does not know its databases yet, and ends such requests before their handler.
        "NodeIsPassiveException" => ErrorKind::Temporary,
        "NullReferenceException" if fails_before_handler(answer.body) => ErrorKind::Temporary,
        "LicenseLimitException" => ErrorKind::Refused,
        "InvalidDataException" | "EndOfStreamException" | "ArgumentException" | "ParseException" => ErrorKind::Refused,
        "JavaScriptException" if message.contains(OVERFLOW) => {
            return refused("the counter would exceed ±(2^53 - 1), the range of exact integers in RavenDB's JSON");
        }
        "JavaScriptException" if message.contains(ELSEWHERE) => {
            return refused("the document with this id belongs to another collection, and was not removed");
        }
        "InvalidOperationException" if message.contains("via update is not supported") => ErrorKind::Refused,
        // Replicas did not answer in time. The write is done on this node, and remains.
        "TimeoutException" if changes => ErrorKind::OutcomeUnknown,
        "TimeoutException" => ErrorKind::Temporary,
        _ => return status_error(answer, changes),
    };
    OpError::new(means, format!("RavenDB: {} ({short}, HTTP {})", shortened(&message), answer.status))
}

/// The error of a control call.
pub(super) fn store_error(place: &str, doing: &str, answer: &Answer<'_>) -> StoreError {
    let (kind, message) = exception(answer.body);
    let said = if message.is_empty() {
        answer.shown()
    } else {
        let short = kind.rsplit('.').next().unwrap_or_default().to_owned();
        format!("{} ({short}, HTTP {})", shortened(&message), answer.status)
    };
    match answer.status {
        401 | 403 => StoreError::Unreachable(format!(
            "{place}: RavenDB does not allow this client to {doing}: {said}; set tls_cert=FILE and \
             tls_key=FILE to a certificate with that right"
        )),
        402 => StoreError::NotSupported(format!(
            "{place}: the licence of this RavenDB does not allow it to {doing}: {said}; use a server whose licence does"
        )),
        429 | 503 => StoreError::Unreachable(format!("{place}: RavenDB cannot {doing} now: {said}; try again later")),
        _ => StoreError::Failed(format!("{place}: RavenDB could not {doing}: {said}")),
    }
}

/// `Type` and `Message` of an error of RavenDB. Empty if the body is not such an error.
fn exception(body: &[u8]) -> (Cow<'_, str>, Cow<'_, str>) {
    let part = |name| json::member(body, name).and_then(json::text).unwrap_or_default();
    (part("Type"), part("Message"))
}

/// Whether an exception was thrown while RavenDB looked for the database of a request, before any of it was done. The
/// stack trace begins there.
fn fails_before_handler(body: &[u8]) -> bool {
    let error = json::member(body, "Error").and_then(json::text).unwrap_or_default();
    let first = error.lines().map(str::trim).find_map(|line| line.strip_prefix("at "));
    first.is_some_and(|at| at.starts_with("Raven.Server.Routing.RouteInformation.CreateDatabase("))
}

/// The beginning and the end of a message, on one line. In between, RavenDB quotes the code of an index.
fn shortened(message: &str) -> String {
    const BEGINNING: usize = 200;
    const END: usize = 300;
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let length = line.chars().count();
    if length <= BEGINNING + END {
        return line;
    }
    let beginning: String = line.chars().take(BEGINNING).collect();
    let end: String = line.chars().skip(length - END).collect();
    format!("{beginning} … {end}")
}

/// Whether RavenDB says that the document of a compare-and-swap does not exist. Our ids contain no space, so this text
/// cannot be part of one.
pub(super) fn is_missing(answer: &Answer<'_>) -> bool {
    memchr::memmem::find(answer.body, b" does not exist, but ").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, kind: &str, message: &str, changes: bool) -> ErrorKind {
        let body = format!(r#"{{"Url":"/x","Type":"Raven.{kind}","Message":"{message}","Error":"…"}}"#);
        op_error(&Answer::of_parts(status, b"", body.as_bytes()), changes).kind
    }

    /// The answers of RavenDB 4.1 in the first two seconds after its start.
    #[test]
    fn a_server_that_is_starting_has_done_nothing() {
        let thrown = |at: &str| {
            let body = format!(
                r#"{{"Type":"System.NullReferenceException","Message":"Object reference not set.","Error":"System.NullReferenceException: Object reference not set.\n   at {at}(RequestHandlerContext context)\n   at Raven.Server.Routing.RouteInformation.CreateDatabase(RequestHandlerContext context)"}}"#
            );
            op_error(&Answer::of_parts(500, b"", body.as_bytes()), true).kind
        };
        assert_eq!(thrown("Raven.Server.Routing.RouteInformation.CreateDatabase"), ErrorKind::Temporary);
        assert_eq!(thrown("Raven.Server.Documents.Handlers.BatchHandler.BulkDocs"), ErrorKind::OutcomeUnknown);
        assert_eq!(kind(503, "NodeIsPassiveException", "", true), ErrorKind::Temporary);
    }

    #[test]
    fn each_exception_tells_whether_something_was_done() {
        assert_eq!(kind(409, "ConcurrencyException", "", true), ErrorKind::Conflict);
        assert_eq!(kind(500, "IO.InvalidDataException", "", true), ErrorKind::Refused);
        assert_eq!(kind(408, "TimeoutException", "", true), ErrorKind::OutcomeUnknown);
        assert_eq!(kind(503, "DatabaseDisabledException", "", true), ErrorKind::Temporary);
        assert_eq!(kind(503, "HttpRequestException", "", true), ErrorKind::OutcomeUnknown);
        assert_eq!(kind(500, "JavaScriptException", "At 3:1 storebench: overflow", true), ErrorKind::Refused);
        assert_eq!(kind(500, "NullReferenceException", "", true), ErrorKind::OutcomeUnknown);
        assert_eq!(kind(500, "NullReferenceException", "", false), ErrorKind::Failed);
        assert_eq!(kind(500, "DatabaseDoesNotExistException", "", true), ErrorKind::Failed);
        assert_eq!(op_error(&Answer::of_parts(500, b"", b"\xff{"), true).kind, ErrorKind::OutcomeUnknown);
    }
}
