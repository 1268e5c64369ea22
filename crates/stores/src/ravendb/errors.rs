//! What RavenDB's errors mean.

use std::borrow::Cow;

use storebench_engine::store::{ErrorKind, OpError, StoreError};

use super::json;
use crate::http::{Answer, status_error};

/// An answer that is none of RavenDB's, to a request that changes nothing.
pub(super) const GARBLED: OpError = OpError {
    kind: ErrorKind::Failed,
    message: Cow::Borrowed("the server answered what RavenDB would not; is there a proxy, or another server, between?"),
};

/// The same to a request that may have changed something.
pub(super) const GARBLED_WRITE: OpError = OpError { kind: ErrorKind::OutcomeUnknown, message: GARBLED.message };

/// The operation does not fit what the collection holds, or how it was prepared.
pub(super) const fn refused(message: &'static str) -> OpError {
    OpError { kind: ErrorKind::Refused, message: Cow::Borrowed(message) }
}

/// What the counter script throws where the sum leaves what JSON numbers hold exactly.
pub(super) const OVERFLOW: &str = "storebench: overflow";

/// What the script that removes a document throws where that is of another collection.
pub(super) const ELSEWHERE: &str = "storebench: elsewhere";

/// The error of an answer that is not what was hoped for. RavenDB names the exception (`Type`);
/// those that it throws before a transaction, or that end one without a commit, are told apart from
/// the others, after which a write may or may not have been done.
pub(super) fn op_error(answer: &Answer<'_>, changes: bool) -> OpError {
    let (kind, message) = exception(answer.body);
    let short = kind.rsplit('.').next().unwrap_or_default();
    let means = match short {
        "ConcurrencyException" => ErrorKind::Conflict,
        "DatabaseDoesNotExistException" => ErrorKind::Failed,
        // The database was not opened for the request, so that nothing of it was done.
        "DatabaseDisabledException" | "DatabaseLoadTimeoutException" | "DatabaseConcurrentLoadTimeoutException" => {
            ErrorKind::Temporary
        }
        // A server that was just started does not know its databases yet, and ends such requests before their handler.
        "NodeIsPassiveException" => ErrorKind::Temporary,
        "NullReferenceException" if fails_before_handler(answer.body) => ErrorKind::Temporary,
        "LicenseLimitException" => ErrorKind::Refused,
        "InvalidDataException" | "EndOfStreamException" | "ArgumentException" | "ParseException" => ErrorKind::Refused,
        "JavaScriptException" if message.contains(OVERFLOW) => {
            return refused("the counter would leave the range that RavenDB's JSON holds exactly, ±(2^53 - 1)");
        }
        "JavaScriptException" if message.contains(ELSEWHERE) => {
            return refused("the document with this id is of another collection, and was left there");
        }
        "InvalidOperationException" if message.contains("via update is not supported") => ErrorKind::Refused,
        // Replicas that did not answer in time: the write is on this node and stays there.
        "TimeoutException" if changes => ErrorKind::OutcomeUnknown,
        "TimeoutException" => ErrorKind::Temporary,
        _ => return status_error(answer, changes),
    };
    OpError::new(means, format!("RavenDB: {} ({short}, HTTP {})", shortened(&message), answer.status))
}

/// The same for a control call.
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
            "{place}: RavenDB does not let this client {doing}: {said}; give a certificate that may, with \
             tls_cert=FILE and tls_key=FILE"
        )),
        402 => StoreError::NotSupported(format!(
            "{place}: the licence of this RavenDB does not let it {doing}: {said}; use a server whose licence does"
        )),
        429 | 503 => StoreError::Unreachable(format!(
            "{place}: RavenDB cannot {doing} now: {said}; try again when the server is well"
        )),
        _ => StoreError::Failed(format!("{place}: RavenDB could not {doing}: {said}")),
    }
}

/// `Type` and `Message` of an error that RavenDB answered; empty where it is no such error.
fn exception(body: &[u8]) -> (Cow<'_, str>, Cow<'_, str>) {
    let part = |name| json::member(body, name).and_then(json::text).unwrap_or_default();
    (part("Type"), part("Message"))
}

/// Whether an exception was thrown where RavenDB looks for the database of a request, before anything of it is done: its stack
/// begins there.
fn fails_before_handler(body: &[u8]) -> bool {
    let error = json::member(body, "Error").and_then(json::text).unwrap_or_default();
    let first = error.lines().map(str::trim).find_map(|line| line.strip_prefix("at "));
    first.is_some_and(|at| at.starts_with("Raven.Server.Routing.RouteInformation.CreateDatabase("))
}

/// The beginning of a message, on one line.
fn shortened(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect()
}

/// Whether RavenDB says that the document of a compare-and-swap does not exist. Ids of ours hold no
/// space, so this stands in none of them.
pub(super) fn is_missing(answer: &Answer<'_>) -> bool {
    memchr::memmem::find(answer.body, b" does not exist, but ").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, kind: &str, message: &str, changes: bool) -> ErrorKind {
        let body = format!(r#"{{"Url":"/x","Type":"Raven.{kind}","Message":"{message}","Error":"…"}}"#);
        op_error(&Answer::of_parts(status, None, body.as_bytes()), changes).kind
    }

    /// As RavenDB 4.1 answers for two seconds after it was started.
    #[test]
    fn a_server_that_is_starting_has_done_nothing() {
        let thrown = |at: &str| {
            let body = format!(
                r#"{{"Type":"System.NullReferenceException","Message":"Object reference not set.","Error":"System.NullReferenceException: Object reference not set.\n   at {at}(RequestHandlerContext context)\n   at Raven.Server.Routing.RouteInformation.CreateDatabase(RequestHandlerContext context)"}}"#
            );
            op_error(&Answer::of_parts(500, None, body.as_bytes()), true).kind
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
        assert_eq!(op_error(&Answer::of_parts(500, None, b"\xff{"), true).kind, ErrorKind::OutcomeUnknown);
    }
}
