//! What the SDK's errors mean.

use std::borrow::Cow;

use couchbase::error::{Error, ErrorKind as Kind};
use storebench_engine::store::{ErrorKind, OpError, OpKind, StoreError};

use crate::document::{CHANGED, EXISTS};
use crate::net::lost;

fn error(kind: ErrorKind, message: &'static str) -> OpError {
    OpError { kind, message: Cow::Borrowed(message) }
}

/// Whether an operation was sent and its connection ended before the answer.
pub(super) fn closed_in_flight(error: &Error) -> bool {
    matches!(error.kind(), Kind::OtherFailure(text) if text.contains("Closed in flight"))
}

/// An error text of the SDK without the ports of the connection, which differ each time.
fn without_ports(text: &str) -> &str {
    text.split(", dispatched").next().unwrap_or(text)
}

/// The meaning of an error for an operation of this kind. Texts contain no keys and no statements, so that equal errors
/// are counted together.
pub(super) fn op_error(kind: OpKind, error_of: &Error) -> OpError {
    use ErrorKind::{Failed, OutcomeUnknown, Refused, Temporary};
    match error_of.kind() {
        Kind::DocumentNotFound => OpError::not_found(),
        Kind::DocumentExists => EXISTS,
        Kind::CasMismatch => CHANGED,
        Kind::TemporaryFailure => error(Temporary, "the server is out of memory or busy (temporary failure)"),
        Kind::RateLimitedFailure => error(Temporary, "the server limits the rate of this user (rate limited)"),
        Kind::DocumentLocked => error(Temporary, "another client has locked the document"),
        Kind::DurabilityWriteInProgress | Kind::DurableWriteRecommitInProgress => {
            error(Temporary, "a durable write of this document is in progress")
        }
        Kind::DurabilityImpossible => {
            error(Temporary, "too few copies are in the cluster's map for this durability; nothing was written")
        }
        Kind::DurabilityAmbiguous => {
            error(OutcomeUnknown, "the copies did not all acknowledge in time (durability ambiguous)")
        }
        Kind::DurabilityLevelNotAvailable => error(Refused, "this bucket does not offer this durability"),
        Kind::ValueTooLarge => error(Refused, "the document is larger than the server's limit (20 MiB)"),
        Kind::QuotaLimitedFailure => error(Refused, "the scope's quota is used up"),
        Kind::AuthenticationFailure => {
            error(Refused, "this user has no permission for this operation in this collection")
        }
        Kind::InvalidArgument(wrong) => OpError::new(Refused, format!("invalid argument: {}", wrong.msg())),
        Kind::CollectionNotFound | Kind::ScopeNotFound => {
            error(Failed, "the bucket no longer has the collection; it may have been dropped")
        }
        Kind::IndexNotFound | Kind::PlanningFailure => {
            error(Refused, "no index of the collection fits the query; with keys=none there is none for key ranges")
        }
        Kind::ParsingFailure | Kind::UnsupportedOperation | Kind::FeatureNotAvailable(_) => {
            OpError::new(Refused, error_of.kind().to_string())
        }
        Kind::ServiceNotAvailable(_) => {
            OpError::new(Refused, format!("{}: the cluster does not run it", error_of.kind()))
        }
        Kind::DeltaInvalid | Kind::NumberTooBig => error(Failed, "the stored value is not a counter"),
        Kind::ServerTimeout if !kind.writes() => error(Temporary, "the query service gave up at its timeout"),
        Kind::OtherFailure(text) if text.starts_with("no server assigned") => {
            error(Temporary, "the cluster's map names no node for this document now; nothing was sent")
        }
        Kind::OtherFailure(text) => lost(kind, without_ports(text)),
        other if kind.writes() => OpError::new(OutcomeUnknown, other.to_string()),
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
