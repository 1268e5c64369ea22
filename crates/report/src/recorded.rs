//! Reads a run folder for charts: its result, its tables and its histogram logs.

mod logs;
mod tables;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use storebench_results::{FolderError, RunResult, Table, log_name, read_run, rows_of};

use tables::Row;

pub(crate) use logs::{HistogramOf, Histograms};
pub(crate) use tables::{IntervalRow, ResourceRow, StoreRow};

/// Why a run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The folder or its `run.json` cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A table or a log is damaged.
    #[error("{path}: {what}; copy the run folder again, or remove the file to leave its charts out")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// A run that was read from its folder.
#[derive(Debug)]
pub struct Recorded {
    /// The content of `run.json`.
    pub result: RunResult,
    /// The study file, without secrets; none if the folder no longer contains it.
    pub study: Option<String>,
    pub(crate) folder: PathBuf,
    pub(crate) intervals: Vec<IntervalRow>,
    pub(crate) resources: Vec<ResourceRow>,
    pub(crate) used: Vec<StoreRow>,
    pub(crate) store: Vec<StoreRow>,
}

impl Recorded {
    /// Reads a run folder, or the folder of a `run.json`. Charts whose tables are missing are left out.
    ///
    /// # Errors
    /// [`ReportError`]: there is no run, or one of its files is damaged.
    pub fn open(path: &Path) -> Result<Self, ReportError> {
        let result = read_run(path)?;
        let folder = if path.is_dir() { path.to_owned() } else { path.parent().unwrap_or(Path::new(".")).to_owned() };
        let phases = result.trials.iter().flat_map(|trial| trial.phases.iter().map(|phase| (trial.trial, phase)));
        let shown = phases.map(|(trial, phase)| (trial, phase.name.clone(), phase.pass().to_string())).collect();
        Ok(Self {
            intervals: rows(&folder, Table::Intervals, &shown)?,
            resources: rows(&folder, Table::Resources, &shown)?,
            used: rows(&folder, Table::ServerResources, &shown)?,
            store: rows(&folder, Table::StoreStats, &shown)?,
            study: std::fs::read_to_string(folder.join("study.toml")).ok(),
            result,
            folder,
        })
    }

    /// The histograms of a phase of a trial; empty if there is no log.
    ///
    /// # Errors
    /// [`ReportError::Damaged`]: the log is damaged.
    pub(crate) fn histograms(&self, trial: u32, store: &str, phase: &str) -> Result<Histograms, ReportError> {
        let mut of_trial = self.result.trials.iter().filter(|of| of.trial == trial).flat_map(|of| &of.phases);
        let Some(found) = of_trial.find(|of| of.name == phase) else { return Ok(Vec::new()) };
        logs::read(&self.folder.join(log_name(trial, store, phase, found.pass())))
    }
}

/// The rows of a table that are part of the result: those of these trials, phases and passes. None if there is no table.
fn rows<R: Row>(folder: &Path, table: Table, shown: &HashSet<(u32, String, String)>) -> Result<Vec<R>, ReportError> {
    let path = folder.join(table.file());
    let mut rows: Vec<R> = rows_of(&path)
        .map_err(|e| ReportError::Damaged { path: path.clone(), what: format!("cannot be read: {e}") })?;
    rows.retain(|row| shown.contains(&row.of()));
    Ok(rows)
}
