//! What operations become when a connection breaks.

use storebench_engine::store::{ErrorKind, OpError, OpKind};

/// The error of an operation that was sent and will not be answered: a write may have been done; a
/// read changes nothing and may be tried again.
pub(crate) fn lost(kind: OpKind, why: &str) -> OpError {
    let error = if kind.writes() { ErrorKind::OutcomeUnknown } else { ErrorKind::Temporary };
    OpError::new(error, format!("the connection was lost before the answer: {why}"))
}

/// The error of an operation that was never sent, since there is no connection now.
pub(crate) const fn not_connected() -> OpError {
    OpError {
        kind: ErrorKind::Temporary,
        message: std::borrow::Cow::Borrowed("not connected now; trying to connect again"),
    }
}
