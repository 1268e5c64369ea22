//! Maps SQLite's result codes to error kinds.

use std::path::Path;

use rusqlite::ffi;
use rusqlite::{Error, ErrorCode};
use storebench_engine::store::{ErrorKind, OpError, StoreError};

/// A message with advice, for errors that the user can fix.
fn remedy(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::DiskFull => "the disk is full; free some space or use another path",
        ErrorCode::NotADatabase => "this is not an SQLite database, or its first page is damaged",
        ErrorCode::DatabaseCorrupt => "the database is damaged; restore it from a copy, or remove it and load again",
        ErrorCode::ReadOnly => "the database is read-only; change its permissions or use another path",
        ErrorCode::PermissionDenied => "permission denied; use a path that you may read and write",
        ErrorCode::CannotOpen => "cannot open the file; check that its folder exists and is writable",
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => "another process or session holds the database's lock",
        ErrorCode::SystemIoFailure => "the operating system reported an I/O error",
        _ => return None,
    })
}

fn text(error: &Error) -> String {
    match error {
        Error::SqliteFailure(failure, message) => {
            let message = message.as_deref().unwrap_or("no message");
            // SQLite does not pass on the system's reason if this process cannot open any file.
            if failure.code == ErrorCode::CannotOpen
                && let Err(why) = std::fs::File::open("/dev/null")
            {
                return format!("cannot open the file: {why}; raise the limit of open files (`ulimit -n`)");
            }
            match remedy(failure.code) {
                Some(remedy) => format!("{remedy} (SQLite: {message}, code {})", failure.extended_code),
                None => format!("SQLite: {message}, code {}", failure.extended_code),
            }
        }
        other => format!("SQLite: {other}"),
    }
}

/// Whether the statement itself is wrong, such as a missing table or column.
pub(super) fn is_of_sql(error: &Error) -> bool {
    matches!(error, Error::SqlInputError { .. }) || error.sqlite_error_code() == Some(ErrorCode::Unknown)
}

/// The error of a failed operation. SQLite rolls back a failed statement, so nothing was done. A failed sync is the
/// exception: the data that it should have made durable may still exist after a restart.
pub(super) fn op_error(error: &Error) -> OpError {
    let kind = match error {
        Error::SqliteFailure(failure, message) => match failure.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => ErrorKind::Temporary,
            ErrorCode::ConstraintViolation if failure.extended_code == ffi::SQLITE_CONSTRAINT_DATATYPE => {
                ErrorKind::Refused
            }
            ErrorCode::ConstraintViolation => ErrorKind::Conflict,
            ErrorCode::TooBig | ErrorCode::ReadOnly | ErrorCode::TypeMismatch => ErrorKind::Refused,
            ErrorCode::SystemIoFailure
                if matches!(failure.extended_code, ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC) =>
            {
                ErrorKind::OutcomeUnknown
            }
            _ if message.as_deref().is_some_and(|m| m.contains("malformed JSON")) => ErrorKind::Refused,
            _ => ErrorKind::Failed,
        },
        _ => ErrorKind::Failed,
    };
    OpError::new(kind, text(error))
}

/// The error of a failed control call.
pub(super) fn store_error(path: &Path, doing: &str, error: &Error) -> StoreError {
    let message = format!("{}: cannot {doing}: {}", path.display(), text(error));
    match error.sqlite_error_code() {
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked,
        ) => StoreError::Unreachable(message),
        _ => StoreError::Failed(message),
    }
}
