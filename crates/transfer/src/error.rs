//! Why a copy did not go on.

use storebench_engine::store::StoreError;

/// A copy that could not begin or had to end. Records that a target did not take are no error but *rejects*.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TransferError {
    /// What was asked for cannot be done; nothing was written.
    #[error("{0}")]
    BadInput(String),
    /// A store could not be opened or gave up. What was copied stays, and the copy can be resumed.
    #[error("{url}: {error}")]
    Store {
        /// Its URL, without secrets.
        url: String,
        /// What it said.
        error: StoreError,
    },
    /// What is read is not whole or cannot be read further. What was copied stays.
    #[error("{0}")]
    Source(String),
    /// What is read is damaged, or ends too early. What stands before arrived, and other parts of the source are read.
    #[error("{0}")]
    Damaged(String),
    /// What is written cannot be written further. What was copied stays.
    #[error("{0}")]
    Target(String),
}

impl TransferError {
    /// For errors of the system on the way to a file.
    pub(crate) fn write(place: &std::path::Path, error: &std::io::Error) -> Self {
        Self::Target(format!("{}: cannot be written: {error}; free space or use another path", place.display()))
    }

    /// For errors of the system on the way from a file.
    pub(crate) fn read(place: &str, error: &std::io::Error) -> Self {
        Self::within(error).unwrap_or_else(|| Self::Source(format!("{place}: cannot be read further: {error}")))
    }

    /// What a reader of a file elsewhere put into an error of the system, to pass through what unpacks it.
    pub(crate) fn within(error: &std::io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref::<Self>().cloned()
    }
}

impl From<TransferError> for std::io::Error {
    fn from(error: TransferError) -> Self {
        Self::other(error)
    }
}
