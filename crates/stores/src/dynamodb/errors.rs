//! What an error of DynamoDB says about the operation, and the capacity that an answer says was consumed.
//!
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html>

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use storebench_documents::json;
use storebench_engine::store::{ErrorKind, OpError};

use crate::http::{Answer, status_error};

pub(super) const CONDITION: &str = "ConditionalCheckFailedException";
pub(super) const MISSING: &str = "ResourceNotFoundException";
pub(super) const IN_USE: &str = "ResourceInUseException";
pub(super) const INVALID: &str = "ValidationException";

/// Parts of the names of errors. Not now: the request was one too many, or was in the way of another.
const BUSY: [&str; 4] = ["Throttling", "ThroughputExceeded", "RequestLimitExceeded", "ConflictException"];
/// The server does not accept the key, or not for this operation.
const NOT_ALLOWED: [&str; 6] =
    ["Signature", "AuthenticationToken", "ExpiredToken", "UnrecognizedClient", "InvalidClientToken", "AccessDenied"];

/// The name of an error, such as `ValidationException`; empty if the answer has none.
pub(super) fn name<'a>(answer: &Answer<'a>) -> Cow<'a, str> {
    let kind = json::member(answer.body, "__type").and_then(json::text).unwrap_or_default();
    match kind.rfind('#') {
        Some(at) => Cow::Owned(kind[at + 1..].to_owned()),
        None => kind,
    }
}

/// What the server said.
pub(super) fn message(answer: &Answer<'_>) -> String {
    let text = ["message", "Message"].iter().find_map(|name| json::text(json::member(answer.body, name)?));
    let name = name(answer);
    if name.is_empty() { answer.shown() } else { format!("{name}: {}", text.as_deref().unwrap_or("no reason")) }
}

/// Whether it says that the request was one too many. Then nothing was done.
pub(super) fn is_busy(answer: &Answer<'_>) -> bool {
    name(answer) == "LimitExceededException" || BUSY.iter().any(|part| name(answer).contains(part))
}

/// Whether it says that the key is not accepted.
pub(super) fn is_not_allowed(answer: &Answer<'_>) -> bool {
    NOT_ALLOWED.iter().any(|part| name(answer).contains(part))
}

/// The error of an answer. `changes` says whether the request may have changed something.
///
/// | error | a write | a read |
/// |---|---|---|
/// | transaction cancelled | see `cancelled` | the same |
/// | throttled, `LimitExceeded`, conflict with a transaction | temporary: rejected | the same |
/// | no such table | failed | the same |
/// | any other 4xx: invalid, too large, not allowed | refused | the same |
/// | 500, 503 | outcome unknown: "the operation may have succeeded or failed" | temporary |
pub(super) fn fault(answer: &Answer<'_>, changes: bool) -> OpError {
    let name = name(answer);
    if name == "TransactionCanceledException" {
        return cancelled(answer);
    }
    let kind = match answer.status {
        400..=499 if is_busy(answer) => ErrorKind::Temporary,
        400..=499 if name == MISSING => ErrorKind::Failed,
        400..=499 if name == CONDITION => ErrorKind::Conflict,
        400..=499 if !name.is_empty() => ErrorKind::Refused,
        500 | 503 if changes => ErrorKind::OutcomeUnknown,
        500 | 503 => ErrorKind::Temporary,
        _ => return status_error(answer, changes),
    };
    let text = message(answer);
    OpError::new(
        kind,
        match kind {
            ErrorKind::Failed => format!("{text}; the table may have been removed meanwhile"),
            ErrorKind::Refused if is_not_allowed(answer) => {
                format!("{text}; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the permissions of the user")
            }
            _ => text,
        },
    )
}

/// Why a transaction was cancelled: of several reasons, the one that helps most. Nothing of it was done.
///
/// | reason | |
/// |---|---|
/// | a condition failed, or another transaction is at the same document | aborted |
/// | throttled | temporary |
/// | any other: invalid, too large, not allowed | refused |
fn cancelled(answer: &Answer<'_>) -> OpError {
    let reasons = json::member(answer.body, "CancellationReasons").into_iter().flat_map(json::elements);
    let reasons = reasons.filter_map(|reason| {
        let told = |name| json::text(json::member(reason, name)?);
        let code = told("Code").filter(|code| code != "None")?;
        let kind = match &*code {
            "ConditionalCheckFailed" | "TransactionConflict" | "DuplicateItem" => ErrorKind::Aborted,
            code if BUSY.iter().any(|part| code.contains(part)) => ErrorKind::Temporary,
            _ => ErrorKind::Refused,
        };
        Some((kind, format!("transaction cancelled: {code}: {}", told("Message").unwrap_or_default())))
    });
    // The order of kinds has those first that another try does not mend.
    let (kind, why) = reasons.min_by_key(|(kind, _)| *kind).unwrap_or((ErrorKind::Aborted, message(answer)));
    OpError::new(kind, why)
}

/// The capacity units that all sessions of a store have consumed, in thousandths.
#[derive(Debug, Default)]
pub(super) struct Consumed {
    read: AtomicU64,
    written: AtomicU64,
}

impl Consumed {
    /// Adds what an answer says: `ConsumedCapacity`, an object or an array with one for each table.
    pub(super) fn add(&self, told: &[u8], writes: bool) {
        let units = |of: &[u8]| std::str::from_utf8(json::member(of, "CapacityUnits")?).ok()?.parse::<f64>().ok();
        let sum: f64 = match units(told) {
            Some(units) => units,
            None => json::elements(told).filter_map(units).sum(),
        };
        let total = if writes { &self.written } else { &self.read };
        total.fetch_add((sum.max(0.0) * 1_000.0) as u64, Ordering::Relaxed);
    }

    /// Units for reads and for writes.
    pub(super) fn units(&self) -> [f64; 2] {
        [&self.read, &self.written].map(|total| total.load(Ordering::Relaxed) as f64 / 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, name: &str, changes: bool) -> ErrorKind {
        let body = format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{name}","message":"why"}}"#);
        let error = fault(&Answer::of_parts(status, b"", body.as_bytes()), changes);
        assert!(error.message.starts_with(&format!("{name}: why")), "{error}");
        error.kind
    }

    #[test]
    fn each_error_tells_whether_something_was_done() {
        for changes in [true, false] {
            for busy in ["ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"] {
                assert_eq!(kind(400, busy, changes), ErrorKind::Temporary, "{busy}");
            }
            assert_eq!(kind(400, INVALID, changes), ErrorKind::Refused);
            assert_eq!(kind(400, "AccessDeniedException", changes), ErrorKind::Refused);
            assert_eq!(kind(400, MISSING, changes), ErrorKind::Failed);
            assert_eq!(kind(400, CONDITION, changes), ErrorKind::Conflict);
        }
        for status in [500, 503] {
            assert_eq!(kind(status, "InternalServerError", true), ErrorKind::OutcomeUnknown);
            assert_eq!(kind(status, "InternalServerError", false), ErrorKind::Temporary);
        }
        let bare = fault(&Answer::of_parts(502, b"", b"<html>"), true);
        assert_eq!(bare.kind, ErrorKind::OutcomeUnknown);
    }

    #[test]
    fn a_cancelled_transaction_tells_what_would_help() {
        let of = |reasons: &str| {
            let name = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException";
            let body = format!(r#"{{"__type":"{name}","Message":"m","CancellationReasons":[{reasons}]}}"#);
            fault(&Answer::of_parts(400, b"", body.as_bytes()), true)
        };
        let none = r#"{"Code":"None"}"#;
        for (code, kind) in [
            ("ConditionalCheckFailed", ErrorKind::Aborted),
            ("TransactionConflict", ErrorKind::Aborted),
            ("ThrottlingError", ErrorKind::Temporary),
            ("ProvisionedThroughputExceeded", ErrorKind::Temporary),
            ("ValidationError", ErrorKind::Refused),
            ("ItemCollectionSizeLimitExceeded", ErrorKind::Refused),
        ] {
            let error = of(&format!(r#"{none},{{"Code":"{code}","Message":"why"}},{none}"#));
            assert!(error.kind == kind && error.message.contains(&format!("{code}: why")), "{error}");
        }
        let of_two = |a, b| of(&format!(r#"{{"Code":"{a}"}},{{"Code":"{b}"}}"#)).kind;
        assert_eq!(of_two("TransactionConflict", "ThrottlingError"), ErrorKind::Temporary);
        assert_eq!(of_two("TransactionConflict", "ValidationError"), ErrorKind::Refused);
        assert_eq!(of("").kind, ErrorKind::Aborted);
    }

    #[test]
    fn capacity_is_summed() {
        let consumed = Consumed::default();
        consumed.add(br#"{"TableName":"t","CapacityUnits":0.5}"#, false);
        consumed.add(br#"[{"CapacityUnits":2.5,"TableName":"t"},{"CapacityUnits":1}]"#, false);
        consumed.add(br#"{"CapacityUnits":3}"#, true);
        assert_eq!(consumed.units(), [4.0, 3.0]);
    }
}
