//! Reasons why a run did not start.

use storebench_documents::DocumentError;
use storebench_engine::store::StoreError;
use storebench_results::FolderError;

/// A run that was refused or could not start. Failures after the first measurement are not errors but part of the
/// result.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A store refused, or could not be reached. Nothing was touched.
    #[error("store `{store}`: {source}")]
    Store {
        /// Its name in the study.
        store: String,
        /// The store's error.
        source: StoreError,
    },
    /// The documents cannot be generated.
    #[error(transparent)]
    Documents(#[from] DocumentError),
    /// The run folder cannot be created.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Invalid request.
    #[error("{0}")]
    BadInput(String),
}

impl LabError {
    /// The exit code: 2 for bad input or an unsupported request, 3 for an unreachable store, otherwise 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Store { source, .. } => match source {
                StoreError::BadUrl(_) | StoreError::NotOurs(_) | StoreError::NotSupported(_) => 2,
                StoreError::Unreachable(_) => 3,
                StoreError::Failed(_) => 1,
            },
            Self::Documents(_) | Self::BadInput(_) => 2,
            Self::Folder(_) => 1,
        }
    }
}
