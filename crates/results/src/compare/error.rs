//! Errors of `compare`.

use std::path::PathBuf;

use crate::FolderError;
use crate::history::HistoryError;

/// Errors of `compare`. All of them are bad input.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A run cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The history has nothing to compare with.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// No configuration, or more than one, matches the name.
    #[error("{run} has {} called `{wanted}`; its configurations are: {}", if *.several { "several configurations" } else { "no configuration" }, list(.there))]
    Configuration {
        /// The run as it was named.
        run: String,
        /// The configuration that was asked for.
        wanted: String,
        /// Whether more than one configuration matches.
        several: bool,
        /// The configurations of the run.
        there: Vec<String>,
    },
    /// No two configurations to compare.
    #[error("{0}")]
    Nothing(String),
    /// A run is partial.
    #[error(
        "cannot compare partial runs:\n  {}\nrun again, or use --anyway to compare the complete trials",
        .0.join("\n  ")
    )]
    Partial(Vec<String>),
    /// The runs did different work.
    #[error(
        "these runs are not comparable:\n  {}\n\
         use --anyway to compare them; the output then lists the differences above the figures",
        .0.join("\n  ")
    )]
    Unlike(Vec<String>),
    /// A gate names no figure.
    #[error("--fail-on '{gate}': {what}")]
    NoFigure {
        /// The gate as it was typed.
        gate: String,
        /// The available figures.
        what: String,
    },
    /// A baseline's name is invalid, or the baseline does not exist.
    #[error("{0}")]
    Baseline(String),
    /// A baseline cannot be written.
    #[error("{path}: cannot be written: {source}; free space or give another folder with --baselines")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// `` `a`, `b` ``.
pub(super) fn list<T: AsRef<str>>(names: &[T]) -> String {
    names.iter().map(|name| format!("`{}`", name.as_ref())).collect::<Vec<_>>().join(", ")
}
