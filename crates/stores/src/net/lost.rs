//! The errors of operations whose connection broke.

use storebench_engine::store::{ErrorKind, OpError, OpKind};

/// The error of an operation that was sent and will get no answer. A write may have been applied. A read changes
/// nothing and can be retried.
pub(crate) fn lost(kind: OpKind, why: &str) -> OpError {
    let error = if kind.writes() { ErrorKind::OutcomeUnknown } else { ErrorKind::Temporary };
    OpError::new(error, format!("the connection was lost before the answer: {why}"))
}

/// The error of an operation that was not sent because there is no connection.
pub(crate) const fn not_connected() -> OpError {
    OpError { kind: ErrorKind::Temporary, message: std::borrow::Cow::Borrowed("not connected; reconnecting") }
}
