//! What the server's error numbers mean in the contract's terms
//! (<https://mariadb.com/kb/en/mariadb-error-code-reference/>, which MySQL shares but for those from 1900 and 3000 on).

use mysql_async::{DriverError, Error, IoError, ServerError};
use storebench_engine::store::{ErrorKind, OpError, OpKind, StoreError};

use crate::net::lost;
use crate::refusals::refused;

/// The number for a key, or a value of another unique index, that exists already.
pub(super) const DUPLICATE: u16 = 1062;

/// Why an operation failed.
pub(super) enum Fault {
    /// It is known.
    Op(OpError),
    /// The same, and the connection cannot be used any more.
    Broken(OpError),
    /// The server or the connection says so.
    Server(Error),
}

impl From<OpError> for Fault {
    fn from(error: OpError) -> Self {
        Self::Op(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Server(error)
    }
}

impl Fault {
    /// The number of the server's error.
    pub(super) fn code(&self) -> Option<u16> {
        match self {
            Self::Server(Error::Server(error)) => Some(error.code),
            _ => None,
        }
    }

    /// Whether its connection cannot be used any more.
    pub(super) fn breaks(&self) -> bool {
        match self {
            Self::Op(_) => false,
            Self::Server(Error::Server(error)) => ends_connection(error),
            Self::Server(Error::Driver(error)) => Self::breaks_by(error),
            Self::Broken(_) | Self::Server(_) => true,
        }
    }

    fn breaks_by(error: &DriverError) -> bool {
        // Such statements are not sent.
        !matches!(error, DriverError::StmtParamsMismatch { .. } | DriverError::MixedParams)
    }

    /// The error of an operation of this kind. In a transaction, the server has undone a statement, or all of them.
    pub(super) fn op_error(self, kind: OpKind, in_transaction: bool) -> OpError {
        match self {
            Self::Op(error) | Self::Broken(error) => error,
            Self::Server(Error::Driver(error)) if !Self::breaks_by(&error) => refused(error.to_string()),
            Self::Server(Error::Server(error)) if ends_connection(&error) && error.code != 1153 => {
                lost(kind, &shown(&error))
            }
            Self::Server(Error::Server(error)) => op_error(&error, kind, in_transaction),
            Self::Server(error) => lost(kind, &cause(&error)),
        }
    }
}

/// Whether the server closes the connection after this error.
fn ends_connection(error: &ServerError) -> bool {
    // Shutdown, too large a packet, errors of packets, killed (MariaDB), idle for too long (MySQL).
    matches!(error.code, 1053 | 1153..=1161 | 1927 | 4031)
}

/// Why the client failed. It says "Input/output error" twice before the system's own error.
fn cause(error: &Error) -> String {
    match error {
        Error::Io(IoError::Io(error)) => error.to_string(),
        other => other.to_string(),
    }
}

fn shown(error: &ServerError) -> String {
    format!("{} ({})", error.message, error.code)
}

/// A failed statement. InnoDB undoes it, so nothing was done.
fn op_error(error: &ServerError, kind: OpKind, in_transaction: bool) -> OpError {
    let (kind, remedy) = match error.code {
        DUPLICATE | 1586 => (ErrorKind::Conflict, ""),
        // A deadlock, a lock that was not given in time, a row that changed since the snapshot (MariaDB).
        1205 | 1213 | 1020 if in_transaction => (ErrorKind::Aborted, ""),
        1205 | 1213 | 1020 => (ErrorKind::Temporary, ""),
        // What may have failed while it was committed.
        1180 | 1181 if kind.writes() => (ErrorKind::OutcomeUnknown, ""),
        // Connections, users, memory; interrupted; the server's own time-outs; a table that is altered; Galera.
        1037 | 1038 | 1040 | 1041 | 1047 | 1203 | 1226 | 1317 | 1412 | 1969 | 3024 => (ErrorKind::Temporary, ""),
        1021 | 1114 => (ErrorKind::Temporary, "; the server's disk, or the table's room, is full"),
        1461 => (
            ErrorKind::Temporary,
            "; the server has no room for more prepared statements: raise max_prepared_stmt_count, or use fewer \
             connections",
        ),
        1290 | 1792 | 1836 => {
            (ErrorKind::Refused, "; this server accepts no writes; if it is a replica, use the primary")
        }
        1153 | 1301 | 1105 if error.message.contains("max_allowed_packet") => {
            (ErrorKind::Refused, "; raise max_allowed_packet on the server")
        }
        1366 => (ErrorKind::Refused, "; the text is not UTF-8, or the column cannot hold it"),
        1071 | 1406 => (ErrorKind::Refused, "; a key has at most 3,072 bytes, the limit of an index of InnoDB"),
        1118 | 1153 | 1264 | 1265 | 1364 | 1436 | 3140..=3160 | 3819 | 4025 | 4035..=4044 => (ErrorKind::Refused, ""),
        _ => match error.state.get(..2).unwrap_or_default() {
            // Not supported, bad data, constraint, state of the transaction, privileges, syntax and names.
            "0A" | "21" | "22" | "23" | "25" | "28" | "42" => (ErrorKind::Refused, ""),
            _ => (ErrorKind::Failed, ""),
        },
    };
    OpError::new(kind, format!("{}{remedy}", shown(error)))
}

/// A control call that failed. `place` is `host:port/database`.
pub(super) fn store_error(place: &str, doing: &str, error: &Error) -> StoreError {
    let Error::Server(server) = error else {
        let why = cause(error);
        let text = format!("{place}: cannot {doing}: the connection broke: {why}; check that the server is up");
        return StoreError::Unreachable(text);
    };
    let text = |remedy: &str| format!("{place}: cannot {doing}: {}{remedy}", shown(server));
    match server.code {
        1045 | 1698 => StoreError::Unreachable(text(
            "; check the user and the password (in the URL, password_file=, password_env= or STOREBENCH_PASSWORD)",
        )),
        1130 => StoreError::Unreachable(text("; the server lets nobody in from this host: create a user for it")),
        3159 => StoreError::Unreachable(text("; the server requires TLS; use mysql+tls://")),
        1040 | 1203 | 1226 => StoreError::Unreachable(text("; raise max_connections, or use fewer connections")),
        1049 => StoreError::Unreachable(text("; name another database after the host")),
        1044 | 1142 | 1143 | 1227 => StoreError::Failed(text("; grant the user that privilege, or name another user")),
        1290 | 1792 | 1836 => StoreError::NotSupported(text("; name the primary, since replicas accept no writes")),
        1205 | 1213 | 1317 | 1969 | 3024 => StoreError::Unreachable(text("; try again later")),
        _ if ends_connection(server) => StoreError::Unreachable(text("; check the state of the server")),
        _ => StoreError::Failed(text("")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: u16, state: &str) -> Fault {
        Fault::Server(Error::Server(ServerError { code, message: "m".into(), state: state.into() }))
    }

    #[test]
    fn numbers_and_classes_of_errors() {
        for (code, state, expected) in [
            (1062, "23000", ErrorKind::Conflict),
            (1205, "HY000", ErrorKind::Temporary),
            (1213, "40001", ErrorKind::Temporary),
            (1040, "08004", ErrorKind::Temporary),
            (1461, "42000", ErrorKind::Temporary),
            (1290, "HY000", ErrorKind::Refused),
            (1048, "23000", ErrorKind::Refused),
            (1064, "42000", ErrorKind::Refused),
            (1366, "22007", ErrorKind::Refused),
            (1406, "22001", ErrorKind::Refused),
            (1030, "HY000", ErrorKind::Failed),
        ] {
            assert!(!error(code, state).breaks(), "{code}");
            assert_eq!(error(code, state).op_error(OpKind::Upsert, false).kind, expected, "{code}");
        }
        for code in [1205, 1213, 1020] {
            assert_eq!(error(code, "").op_error(OpKind::Upsert, true).kind, ErrorKind::Aborted, "{code}");
        }
    }

    #[test]
    fn a_write_on_a_connection_that_ends_is_unknown() {
        for code in [1053, 1927, 1158] {
            assert!(error(code, "08S01").breaks());
            assert_eq!(error(code, "08S01").op_error(OpKind::Upsert, false).kind, ErrorKind::OutcomeUnknown);
            assert_eq!(error(code, "08S01").op_error(OpKind::Read, false).kind, ErrorKind::Temporary);
        }
        assert_eq!(error(1153, "08S01").op_error(OpKind::Upsert, false).kind, ErrorKind::Refused, "nothing was read");
        let io = Fault::Server(Error::Io(IoError::Io(std::io::ErrorKind::ConnectionReset.into())));
        assert!(io.breaks());
        let lost = io.op_error(OpKind::Delete, false);
        assert_eq!(lost.kind, ErrorKind::OutcomeUnknown);
        assert!(lost.message.ends_with("answer: connection reset"), "{}", lost.message);
    }
}
