//! Maps redb's errors to error kinds.

use std::io;
use std::path::Path;

use redb::{CommitError, Error, StorageError};
use storebench_engine::store::location::{IN_USE, io_text};
use storebench_engine::store::{ErrorKind, OpError, StoreError};

fn text(error: &Error) -> String {
    match error {
        Error::Io(error) => io_text(error),
        Error::DatabaseAlreadyOpen | Error::LockProtocolMismatch => IN_USE.to_owned(),
        Error::Corrupted(what) => {
            format!("the database is damaged ({what}); restore it from a copy, or remove it and load again")
        }
        Error::PreviousIo => {
            "an earlier write or sync failed (check for a full disk); redb refuses all operations until it is reopened"
                .to_owned()
        }
        other => format!("redb: {other}"),
    }
}

/// The error of an operation that failed before its commit. Nothing was done.
pub(super) fn failed(error: impl Into<Error>) -> OpError {
    let error = error.into();
    let kind = match &error {
        Error::ValueTooLarge(_) | Error::TableTypeMismatch { .. } => ErrorKind::Refused,
        _ => ErrorKind::Failed,
    };
    OpError::new(kind, text(&error))
}

/// The error of a failed commit. redb writes pages before the header that makes them valid, and the header needs no new
/// space. So a full disk means that nothing was done. For other I/O errors, the outcome is unknown.
pub(super) fn commit_failed(error: CommitError) -> OpError {
    let kind = match &error {
        CommitError::Storage(StorageError::Io(e)) if e.kind() != io::ErrorKind::StorageFull => {
            ErrorKind::OutcomeUnknown
        }
        _ => ErrorKind::Failed,
    };
    OpError::new(kind, text(&error.into()))
}

/// The error of a failed control call.
pub(super) fn store_error(path: &Path, doing: &str, error: impl Into<Error>) -> StoreError {
    let error = error.into();
    let message = format!("{}: cannot {doing}: {}", path.display(), text(&error));
    match &error {
        Error::DatabaseAlreadyOpen | Error::LockProtocolMismatch => StoreError::Unreachable(message),
        Error::Io(e) if e.kind() == io::ErrorKind::PermissionDenied => StoreError::Unreachable(message),
        _ => StoreError::Failed(message),
    }
}
