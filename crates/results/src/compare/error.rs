//! Why runs are not compared.

use std::path::PathBuf;

use crate::FolderError;

/// Why runs are not compared. All of it is bad input.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A run cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A run has no such configuration, or several.
    #[error("{run} has {} called `{wanted}`; its configurations are: {}", if *.several { "several configurations" } else { "no configuration" }, list(.there))]
    Configuration {
        /// The run as it was named.
        run: String,
        /// The configuration that was asked for.
        wanted: String,
        /// Whether more than one configuration is meant by it.
        several: bool,
        /// The configurations that there are.
        there: Vec<String>,
    },
    /// There are no two configurations that belong to each other.
    #[error("{0}")]
    Nothing(String),
    /// What is partial is not compared.
    #[error(
        "what is partial is not compared:\n  {}\nrun it again, or compare the trials that are whole with --anyway",
        .0.join("\n  ")
    )]
    Partial(Vec<String>),
    /// What did unlike work is not compared.
    #[error(
        "these are not alike, so that their figures say nothing of each other:\n  {}\n\
         compare them all the same with --anyway; the differences then stand above the figures",
        .0.join("\n  ")
    )]
    Unlike(Vec<String>),
    /// A gate names no figure.
    #[error("--fail-on '{gate}': {what}")]
    NoFigure {
        /// The gate as it was typed.
        gate: String,
        /// What there is instead.
        what: String,
    },
    /// A baseline's name, or a baseline that is not there.
    #[error("{0}")]
    Baseline(String),
    /// A baseline cannot be written.
    #[error("{path}: cannot be written: {source}; free space or give another folder with --baselines")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

/// `` `a`, `b` ``.
pub(super) fn list<T: AsRef<str>>(names: &[T]) -> String {
    names.iter().map(|name| format!("`{}`", name.as_ref())).collect::<Vec<_>>().join(", ")
}
