//! Why a run did not begin.

use storebench_documents::DocumentError;
use storebench_engine::store::StoreError;
use storebench_results::FolderError;

/// A run that was refused or could not begin. What was measured before a later failure is no error
/// but part of the result.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A store refused, or could not be reached. Nothing was touched.
    #[error("store `{store}`: {source}")]
    Store {
        /// Its name in the study.
        store: String,
        /// What it said.
        source: StoreError,
    },
    /// The documents cannot be made.
    #[error(transparent)]
    Documents(#[from] DocumentError),
    /// The run folder cannot be made.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The request makes no sense.
    #[error("{0}")]
    BadInput(String),
}

impl LabError {
    /// The exit code: 2 for bad input and what a store will not do, 3 for a store that cannot be
    /// reached, otherwise 1.
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
