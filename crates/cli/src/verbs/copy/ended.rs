//! Why a copy ended.

use storebench_results::{redact, redact_url};
use storebench_transfer::TransferError;

use super::summary::advice;
use crate::args::CopyArgs;
use crate::failure::Failure;

/// Why a copy did not start, or failed.
pub(super) enum Ended {
    Failure(Failure),
    Transfer(TransferError),
}

impl Ended {
    /// The failure, with its exit code.
    pub(super) fn failure(self, args: &CopyArgs) -> Failure {
        let error = match self {
            Self::Failure(failure) => return failure,
            Self::Transfer(error) => error,
        };
        let mut failure = match error {
            TransferError::BadInput(text) => Failure::bad_input(redact(&text)),
            TransferError::Store { url, error } => {
                // The end of the copy that has this URL.
                let typed = [&args.from, &args.to].into_iter().find(|typed| redact_url(typed) == url);
                Failure::of_store(typed.map_or(url.as_str(), String::as_str), &error)
            }
            TransferError::Source(text) | TransferError::Damaged(text) | TransferError::Target(text) => {
                Failure::spoiled(redact(&text))
            }
        };
        failure.message = advice(args, &failure.message);
        failure
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<TransferError> for Ended {
    fn from(error: TransferError) -> Self {
        Self::Transfer(error)
    }
}
