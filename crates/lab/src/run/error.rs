//! Reasons why a run did not start.

use storebench_documents::DocumentError;
use storebench_engine::store::StoreError;
use storebench_results::exit;
use storebench_results::validity::exit_code;
use storebench_results::{FolderError, RunResult};

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
    /// No trial got as far as its first phase.
    #[error("{message}")]
    NeverBegan {
        /// The exit code of what stopped them.
        code: u8,
        /// Why, store by store.
        message: String,
    },
    /// Invalid request.
    #[error("{0}")]
    BadInput(String),
}

impl LabError {
    /// The error of a run without any phase.
    pub(super) fn never_began(result: &RunResult) -> Self {
        let mut told: Vec<String> = Vec::new();
        for trial in &result.trials {
            let text = trial.failure.as_ref().map(|failure| format!("store `{}`: {}", trial.store, failure.message));
            told.extend(text.filter(|text| !told.contains(text)));
        }
        if told.is_empty() {
            told.push("interrupted before anything was measured; no results were kept".to_owned());
        }
        Self::NeverBegan { code: exit_code(result), message: told.join("\n") }
    }

    /// The exit code: 2 for bad input or an unsupported request, 3 for a store that cannot be reached or used, 1 if the run
    /// folder fails.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Store { source, .. } => match source {
                StoreError::BadUrl(_) | StoreError::NotOurs(_) | StoreError::NotSupported(_) => exit::BAD_INPUT,
                // Nothing was started, so nothing can have been lost.
                StoreError::Unreachable(_) | StoreError::Failed(_) => exit::UNREACHABLE,
            },
            Self::NeverBegan { code, .. } => *code,
            Self::Documents(_) | Self::BadInput(_) => exit::BAD_INPUT,
            Self::Folder(_) => exit::SPOILED,
        }
    }
}
