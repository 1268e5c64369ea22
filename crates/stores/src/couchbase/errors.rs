//! What the SDK's errors and the protocol's statuses mean.

use std::borrow::Cow;

use couchbase::error::{Error, ErrorKind as Kind};
use storebench_engine::store::{ErrorKind, OpError, OpKind, StoreError};

use crate::document::CHANGED;
use crate::net::lost;

const fn error(kind: ErrorKind, message: &'static str) -> OpError {
    OpError { kind, message: Cow::Borrowed(message) }
}

const BUSY: OpError = error(ErrorKind::Temporary, "the server is out of memory or busy (temporary failure)");
const RATE_LIMITED: OpError = error(ErrorKind::Temporary, "the server limits the rate of this user (rate limited)");
pub(super) const TOO_LARGE: OpError =
    error(ErrorKind::Refused, "the document is larger than the server's limit (20 MiB)");
const QUOTA: OpError = error(ErrorKind::Refused, "the scope's quota is used up");
const NOT_ALLOWED: OpError =
    error(ErrorKind::Refused, "this user has no permission for this operation in this collection");
const NO_COLLECTION: OpError =
    error(ErrorKind::Failed, "the bucket no longer has the collection; it may have been dropped");

/// The meaning of a status of the protocol for an operation of this kind. The statuses:
/// <https://github.com/couchbase/kv_engine/blob/master/include/mcbp/protocol/status.h>.
pub(super) fn of_status(kind: OpKind, status: u16) -> OpError {
    use ErrorKind::{Failed, OutcomeUnknown, Refused, Temporary};
    match status {
        0x01 => OpError::not_found(),
        0x02 => CHANGED,
        0x03 => TOO_LARGE,
        0x08 | 0x0d | 0x25 | 0x50 => error(Temporary, "the node does not serve the bucket now; nothing was done"),
        0x09 => error(Temporary, "another client has locked the document"),
        0x1f => error(Temporary, "the login is no longer valid"),
        0x20 | 0x24 => NOT_ALLOWED,
        // Throttled; network, requests, connections.
        0x0c | 0x30..=0x33 => RATE_LIMITED,
        0x34 => QUOTA,
        0x35..=0x38 => error(
            Refused,
            "the bucket has reached a limit of the cluster (size, share of documents in memory, or disk space) and takes no \
             more; nothing was done",
        ),
        0x82 | 0x85 | 0x86 => BUSY,
        // A node learns of new collections a little later than others.
        0x88 | 0x8c => {
            error(Temporary, "the node does not know the collection (yet), or it was dropped; nothing was done")
        }
        0xa0 => error(Refused, "this bucket does not offer this durability"),
        0xa1 => error(Temporary, "too few copies are in the cluster's map for this durability; nothing was written"),
        0xa2 | 0xa4 => error(Temporary, "a durable write of this document is in progress"),
        0xa3 => error(OutcomeUnknown, "the copies did not all acknowledge in time (durability ambiguous)"),
        // Invalid arguments, ranges, attributes and frames, unknown commands, what is not supported.
        0x04 | 0x22 | 0x23 | 0x80 | 0x81 | 0x83 | 0x87 | 0x89..=0x8b => {
            OpError::new(Refused, format!("the server refuses the request (status 0x{status:02x})"))
        }
        _ if kind.writes() => OpError::new(OutcomeUnknown, format!("the server failed (status 0x{status:02x})")),
        _ => OpError::new(Failed, format!("the server failed (status 0x{status:02x})")),
    }
}

/// The meaning of an error for a query, which only reads. Texts contain no statements, so that equal errors are counted
/// together.
pub(super) fn query_error(error_of: &Error) -> OpError {
    use ErrorKind::{Failed, Refused, Temporary};
    match error_of.kind() {
        Kind::TemporaryFailure => BUSY,
        Kind::RateLimitedFailure => RATE_LIMITED,
        Kind::QuotaLimitedFailure => QUOTA,
        Kind::AuthenticationFailure => NOT_ALLOWED,
        Kind::InvalidArgument(wrong) => OpError::new(Refused, format!("invalid argument: {}", wrong.msg())),
        Kind::CollectionNotFound | Kind::ScopeNotFound => NO_COLLECTION,
        Kind::IndexNotFound | Kind::PlanningFailure => {
            error(Refused, "no index of the collection fits the query; with keys=none there is none for key ranges")
        }
        Kind::ParsingFailure | Kind::UnsupportedOperation | Kind::FeatureNotAvailable(_) => {
            OpError::new(Refused, error_of.kind().to_string())
        }
        Kind::ServiceNotAvailable(_) => {
            OpError::new(Refused, format!("{}: the cluster does not run it", error_of.kind()))
        }
        Kind::ServerTimeout => error(Temporary, "the query service gave up at its timeout"),
        // Without the ports of the connection, which differ each time.
        Kind::OtherFailure(text) => lost(OpKind::Query, text.split(", dispatched").next().unwrap_or(text)),
        other => OpError::new(Failed, other.to_string()),
    }
}

/// The meaning of an error for a control call.
pub(super) fn store_error(what: &str, error: &Error) -> StoreError {
    let text = error.kind();
    match text {
        Kind::AuthenticationFailure => StoreError::Unreachable(format!(
            "cannot {what}: this user has no permission; grant the roles Bucket Admin and Query Manage Index for the \
             bucket"
        )),
        Kind::ServiceNotAvailable(service) => StoreError::NotSupported(format!(
            "cannot {what}: the cluster runs no {service} service; add it to a node, or use keys=none and no indexes"
        )),
        _ => StoreError::Failed(format!("cannot {what}: {text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the server refuses before it does anything is never taken for a write that may have been done.
    #[test]
    fn refused_writes_are_not_of_unknown_outcome() {
        for (status, expected) in [
            (0x25, ErrorKind::Temporary),
            (0x30, ErrorKind::Temporary),
            (0x34, ErrorKind::Refused),
            (0x35, ErrorKind::Refused),
            (0x36, ErrorKind::Refused),
            (0x37, ErrorKind::Refused),
            (0x38, ErrorKind::Refused),
            (0x50, ErrorKind::Temporary),
            (0xa1, ErrorKind::Temporary),
            (0xa3, ErrorKind::OutcomeUnknown),
            (0x84, ErrorKind::OutcomeUnknown),
        ] {
            assert_eq!(of_status(OpKind::Upsert, status).kind, expected, "0x{status:02x}");
        }
        assert_eq!(of_status(OpKind::Read, 0x84).kind, ErrorKind::Failed);
    }
}
