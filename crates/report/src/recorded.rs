//! Reads a run folder for charts: its result, its tables and its histogram logs.

mod logs;
mod tables;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use storebench_results::{FolderError, RunResult, Table, log_name, read_run};

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
        let shown = Shown::of(&result);
        Ok(Self {
            intervals: shown.rows(&folder, Table::Intervals)?,
            resources: shown.rows(&folder, Table::Resources)?,
            used: shown.rows(&folder, Table::ServerResources)?,
            store: shown.rows(&folder, Table::StoreStats)?,
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

/// Trial, phase and pass of the rows that are part of a result.
struct Shown(HashSet<(u32, String, String)>);

impl Shown {
    fn of(result: &RunResult) -> Self {
        let phases = result.trials.iter().flat_map(|trial| trial.phases.iter().map(|phase| (trial.trial, phase)));
        Self(phases.map(|(trial, phase)| (trial, phase.name.clone(), phase.pass().to_string())).collect())
    }
    /// The rows of a table that are part of the result.
    fn rows<R: Row>(&self, folder: &Path, table: Table) -> Result<Vec<R>, ReportError> {
        let mut rows: Vec<R> = tables::rows(&folder.join(table.file()))?;
        rows.retain(|row| self.0.contains(&row.of()));
        Ok(rows)
    }
}
