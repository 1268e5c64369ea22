//! What the client's and the server's errors mean.

use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, ExecutionError, MetadataError,
    NewSessionError, PrepareError, RequestAttemptError,
};
use storebench_engine::store::{ErrorKind, OpError, OpKind, StoreError};

use crate::net::{lost, not_connected, tls_remedy};

/// How a statement changes documents. This decides what an error without a clear meaning leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writes {
    No,
    /// With a timestamp, without a condition.
    Plain,
    /// A lightweight transaction.
    Lwt,
}

/// The error of an operation.
pub(super) fn op_error(writes: Writes, error: &ExecutionError) -> OpError {
    use RequestAttemptError::{CqlRequestSerialization, DbError, SerializationError, UnableToAllocStreamId};
    let kind = match error {
        ExecutionError::LastAttemptError(DbError(error, said)) => server_error(writes, error, said),
        ExecutionError::LastAttemptError(SerializationError(_) | CqlRequestSerialization(_))
        | ExecutionError::BadQuery(_) => ErrorKind::Refused,
        ExecutionError::LastAttemptError(UnableToAllocStreamId) | ExecutionError::EmptyPlan => ErrorKind::Temporary,
        ExecutionError::SchemaAgreementError(_) => ErrorKind::Failed,
        ExecutionError::ConnectionPoolError(_) => return not_connected(),
        error => return lost(if writes == Writes::No { OpKind::Read } else { OpKind::Upsert }, &error.to_string()),
    };
    OpError::new(kind, reason(error))
}

/// Whether the operation failed because its connection, or every connection, is gone.
pub(super) fn is_disconnected(error: &ExecutionError) -> bool {
    matches!(
        error,
        ExecutionError::ConnectionPoolError(_)
            | ExecutionError::LastAttemptError(RequestAttemptError::BrokenConnectionError(_))
    )
}

fn server_error(writes: Writes, error: &DbError, said: &str) -> ErrorKind {
    use ErrorKind::{Failed, OutcomeUnknown, Refused, Temporary};
    let unclear = |otherwise| if writes == Writes::No { otherwise } else { OutcomeUnknown };
    match error {
        DbError::SyntaxError | DbError::Invalid | DbError::AlreadyExists { .. } | DbError::ProtocolError => Refused,
        DbError::AuthenticationError | DbError::Unauthorized | DbError::ConfigError => Refused,
        DbError::FunctionFailure { .. } => Refused,
        // A lightweight transaction may have been decided before there were too few nodes to commit it.
        DbError::Unavailable { consistency, .. } if writes == Writes::Lwt && !consistency.is_serial() => OutcomeUnknown,
        // Too many hints: the write may have been sent to some replicas before.
        DbError::Overloaded if writes != Writes::No && said.contains("hints") => OutcomeUnknown,
        DbError::Unavailable { .. } | DbError::Overloaded | DbError::IsBootstrapping => Temporary,
        // Replicas that were below their own limit may have done the write.
        DbError::RateLimitReached { rejected_by_coordinator: false, .. } => unclear(Temporary),
        DbError::RateLimitReached { .. } => Temporary,
        DbError::ReadTimeout { .. } => unclear(Temporary),
        // Of too many tombstones, among others: it would fail again.
        DbError::ReadFailure { .. } => unclear(Failed),
        // Among these: the write timeout of a lightweight transaction, and a write that only some replicas took.
        _ => unclear(Failed),
    }
}

/// The error of a control call. It is tried again if the same error of a read is temporary.
pub(super) fn store_error(place: &str, doing: &str, error: &ExecutionError) -> StoreError {
    let told = format!("{place}: cannot {doing}: {}", reason(error));
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::Unauthorized, _)) => {
            StoreError::NotSupported(told)
        }
        error if op_error(Writes::No, error).kind == ErrorKind::Temporary => StoreError::Unreachable(told),
        _ => StoreError::Failed(told),
    }
}

fn reason(error: &ExecutionError) -> String {
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, said)) => format!("{error}: {said}"),
        error => error.to_string(),
    }
}

/// The error of preparing a statement, as one of executing it.
pub(super) fn of_preparing(error: PrepareError) -> ExecutionError {
    match error {
        PrepareError::AllAttemptsFailed { first_attempt } => ExecutionError::LastAttemptError(first_attempt),
        error => ExecutionError::PrepareError(error),
    }
}

/// Whether a table or keyspace that a statement names was dropped.
pub(super) fn is_gone(error: &StoreError) -> bool {
    let StoreError::Failed(text) = error else { return false };
    ["does not exist", "doesn't exist", "unconfigured table", "Unknown keyspace"].iter().any(|said| text.contains(said))
}

/// The error of connecting, with or without TLS.
pub(super) fn connect_error(place: &str, tls: bool, error: &NewSessionError) -> StoreError {
    let why = match error {
        NewSessionError::MetadataError(MetadataError::ConnectionPoolError(ConnectionPoolError::Broken {
            last_connection_error: ConnectionError::ConnectionSetupRequestError(setup),
        })) => match setup.get_error() {
            ConnectionSetupRequestErrorKind::MissingAuthentication => {
                "the server requires a login; put user and password into the URL, or the password into STOREBENCH_PASSWORD"
                    .to_owned()
            }
            ConnectionSetupRequestErrorKind::DbError(DbError::AuthenticationError, said) => {
                format!("the server refused the login: {said}")
            }
            other => format!("the handshake failed: {other}; if the port uses TLS, use cassandras://"),
        },
        error if tls => {
            let renamed = "the client checks the IP address of each node, so a node's certificate must name it";
            format!("cannot connect: {error}; {}", tls_remedy(&error.to_string(), renamed))
        }
        error => format!("cannot connect: {error}"),
    };
    StoreError::Unreachable(format!("{place}: {why}"))
}

#[cfg(test)]
mod tests {
    use scylla::errors::WriteType;

    use scylla::frame::types::Consistency;

    use super::*;

    #[test]
    fn what_may_have_been_done_is_unknown() {
        let (consistency, received, required) = (Consistency::One, 0, 1);
        let write_timeout = |write_type| DbError::WriteTimeout { consistency, received, required, write_type };
        let read_timeout = DbError::ReadTimeout { consistency, received, required, data_present: false };
        let unavailable = |consistency| DbError::Unavailable { consistency, required: 2, alive: 1 };
        let rate_limit = |rejected_by_coordinator| DbError::RateLimitReached {
            op_type: scylla::errors::OperationType::Write,
            rejected_by_coordinator,
        };
        use ErrorKind::{Failed, OutcomeUnknown, Refused, Temporary};
        for (error, expected) in [
            (write_timeout(WriteType::Simple), [Failed, OutcomeUnknown, OutcomeUnknown]),
            (write_timeout(WriteType::Cas), [Failed, OutcomeUnknown, OutcomeUnknown]),
            (read_timeout, [Temporary, OutcomeUnknown, OutcomeUnknown]),
            (unavailable(Consistency::Serial), [Temporary; 3]),
            (unavailable(Consistency::Quorum), [Temporary, Temporary, OutcomeUnknown]),
            (DbError::Overloaded, [Temporary; 3]),
            (rate_limit(true), [Temporary; 3]),
            (rate_limit(false), [Temporary, OutcomeUnknown, OutcomeUnknown]),
            (DbError::Invalid, [Refused; 3]),
            (DbError::Unauthorized, [Refused; 3]),
            (DbError::ServerError, [Failed, OutcomeUnknown, OutcomeUnknown]),
            (DbError::Other(0x1700), [Failed, OutcomeUnknown, OutcomeUnknown]),
        ] {
            let told = [Writes::No, Writes::Plain, Writes::Lwt].map(|writes| server_error(writes, &error, ""));
            assert_eq!(told, expected, "{error:?}");
        }
        assert_eq!(server_error(Writes::Plain, &DbError::Overloaded, "Too many in flight hints"), OutcomeUnknown);
        assert_eq!(op_error(Writes::Plain, &ExecutionError::EmptyPlan).kind, Temporary);
    }
}
