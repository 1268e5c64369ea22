//! What SQLite's result codes mean in the contract's terms.

use std::path::Path;

use rusqlite::ffi;
use rusqlite::{Error, ErrorCode};
use storebench_engine::store::{ErrorKind, OpError, StoreError};

/// Text for what a user should do something about.
fn remedy(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::DiskFull => "the disk is full; free some space or use another path",
        ErrorCode::NotADatabase => "this is not an SQLite database, or its first page is damaged",
        ErrorCode::DatabaseCorrupt => "the database is damaged; restore it from a copy, or remove it and load again",
        ErrorCode::ReadOnly => "the database cannot be written to; change its rights or use another path",
        ErrorCode::PermissionDenied => "permission denied; use a path you may read and write",
        ErrorCode::CannotOpen => "the file cannot be opened; is its folder there, and may you write to it?",
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => "another process or session holds the database's lock",
        ErrorCode::SystemIoFailure => "the operating system reported an I/O error",
        _ => return None,
    })
}

fn text(error: &Error) -> String {
    match error {
        Error::SqliteFailure(failure, message) => {
            let message = message.as_deref().unwrap_or("no message");
            match remedy(failure.code) {
                Some(remedy) => format!("{remedy} (SQLite: {message}, code {})", failure.extended_code),
                None => format!("SQLite: {message}, code {}", failure.extended_code),
            }
        }
        other => format!("SQLite: {other}"),
    }
}

/// Whether it is the statement that is wrong: it names what is not there.
pub(super) fn is_of_sql(error: &Error) -> bool {
    matches!(error, Error::SqlInputError { .. }) || error.sqlite_error_code() == Some(ErrorCode::Unknown)
}

/// A failed operation. SQLite rolls back a statement that fails, so nothing was done, but for a sync
/// that failed: what it should have made durable may still be found after a restart.
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

/// A control call that failed.
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
