//! Errors of what a driver or a server refuses.

use std::borrow::Cow;

#[cfg(any(feature = "couchdb", feature = "dynamodb"))]
use storebench_engine::store::{Capabilities, Durability};
use storebench_engine::store::{ErrorKind, OpError, OpKind, StoreError};
use storebench_study::workload::Body;

use crate::document::wrong_collection;

/// The error of an operation that the store cannot do or does not accept.
pub(crate) fn refused(why: impl Into<Cow<'static, str>>) -> OpError {
    OpError::new(ErrorKind::Refused, why)
}

/// Checks that a collection of these bodies can have this operation.
///
/// # Errors
/// *Refused* for an operation on bytes, counters or JSON in a collection of something else.
#[inline]
pub(crate) fn check_fits(kind: OpKind, body: Body) -> Result<(), OpError> {
    match kind {
        OpKind::Append | OpKind::Prepend if body != Body::Bytes => {
            Err(wrong_collection("append and prepend work on collections of bytes only"))
        }
        OpKind::Counter if body != Body::Counter => {
            Err(wrong_collection("counter works on collections of counters only"))
        }
        OpKind::MergePatch if body != Body::Json => Err(wrong_collection("merge works on collections of JSON only")),
        _ => Ok(()),
    }
}

/// The error of a query or an index that a driver does not send.
pub(crate) fn not_supported(error: OpError) -> StoreError {
    StoreError::NotSupported(error.message.into_owned())
}

/// The error of a query or an index that a server refuses.
pub(crate) fn refused_by_server(error: StoreError) -> StoreError {
    match error {
        StoreError::Failed(why) => StoreError::NotSupported(why),
        other => other,
    }
}

/// Refuses a durability that a store does not guarantee.
#[cfg(any(feature = "couchdb", feature = "dynamodb"))]
pub(crate) fn check_guarantee(store: &str, of: &Capabilities, durability: Durability) -> Result<(), StoreError> {
    if of.guarantees(durability).is_some() {
        return Ok(());
    }
    let given: Vec<String> = of.durability.iter().map(|(level, _)| format!("`{level}`")).collect();
    let given = given.join(", ");
    Err(StoreError::NotSupported(format!("{store} cannot guarantee `{durability}`; it guarantees {given}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_a_body_needs_its_kind_of_collection() {
        for (kind, only) in [
            (OpKind::Append, Body::Bytes),
            (OpKind::Prepend, Body::Bytes),
            (OpKind::Counter, Body::Counter),
            (OpKind::MergePatch, Body::Json),
        ] {
            for body in [Body::Json, Body::Bytes, Body::Counter] {
                assert_eq!(check_fits(kind, body).is_ok(), body == only, "{kind:?} {body:?}");
                assert!(check_fits(OpKind::Upsert, body).is_ok());
            }
        }
    }
}
