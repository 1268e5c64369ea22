//! Why a copy failed.

use storebench_documents::unpack::DamagedData;
use storebench_engine::store::StoreError;

/// A copy that could not start or had to stop. A record that the target refused is not an error but a *reject*.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TransferError {
    /// The request cannot be carried out; nothing was written.
    #[error("{0}")]
    BadInput(String),
    /// A store could not be opened, or gave up. Copied records stay, and the copy can be resumed.
    #[error("{url}: {error}")]
    Store {
        /// Its URL, without secrets.
        url: String,
        /// What the store reported.
        error: StoreError,
    },
    /// The source is incomplete or cannot be read further. Copied records stay.
    #[error("{0}")]
    Source(String),
    /// The source is damaged or ends too early. The records before the damage arrived, and the other parts of the
    /// source are read.
    #[error("{0}")]
    Damaged(String),
    /// The target cannot be written further. Copied records stay.
    #[error("{0}")]
    Target(String),
}

impl TransferError {
    /// From a system error while writing a file.
    pub(crate) fn write(place: &std::path::Path, error: &std::io::Error) -> Self {
        Self::Target(format!("{}: cannot be written: {error}; free space or use another path", place.display()))
    }

    /// From a system error while reading a file.
    pub(crate) fn read(place: &str, error: &std::io::Error) -> Self {
        Self::within(error).unwrap_or_else(|| Self::Source(format!("{place}: cannot be read further: {error}")))
    }

    /// The error that the reader of a remote file wrapped in a system error, to pass it through the decompressor.
    pub(crate) fn within(error: &std::io::Error) -> Option<Self> {
        let damaged = || DamagedData::within(error).map(|damaged| Self::Damaged(damaged.to_string()));
        error.get_ref()?.downcast_ref::<Self>().cloned().or_else(damaged)
    }
}

impl From<TransferError> for std::io::Error {
    fn from(error: TransferError) -> Self {
        Self::other(error)
    }
}
