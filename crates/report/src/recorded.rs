//! Reads a run folder for charts: its result, its tables and its histogram logs.

mod logs;
mod older;
mod tables;

use std::collections::HashSet;
use std::io;
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

/// Reads a table of an older version: passes each row of a Parquet file on as a line of JSON.
pub type ReadOldTable = fn(&Path, &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>;

/// A run that was read from its folder.
#[derive(Debug)]
pub struct Recorded {
    /// The content of `run.json`.
    pub result: RunResult,
    /// The study file, without secrets; none if the folder no longer contains it.
    pub study: Option<String>,
    /// Whether an older version saved its tables, which this build cannot read. Their charts are left out.
    pub old_tables_left_out: bool,
    pub(crate) folder: PathBuf,
    pub(crate) intervals: Vec<IntervalRow>,
    pub(crate) resources: Vec<ResourceRow>,
    pub(crate) used: Vec<StoreRow>,
    pub(crate) store: Vec<StoreRow>,
    older: older::Passes,
}

impl Recorded {
    /// Reads a run folder, or the folder of a `run.json`. Charts whose tables are missing are left out. `old` reads
    /// tables of older versions.
    ///
    /// # Errors
    /// [`ReportError`]: there is no run, or one of its files is damaged.
    pub fn open(path: &Path, old: Option<ReadOldTable>) -> Result<Self, ReportError> {
        let result = read_run(path)?;
        let folder = if path.is_dir() { path.to_owned() } else { path.parent().unwrap_or(Path::new(".")).to_owned() };
        let mut tables = Tables { folder: &folder, old, newer: HashSet::new(), older: older::Passes::default() };
        let intervals: Vec<IntervalRow> = tables.rows(Table::Intervals)?;
        tables.newer = intervals.iter().map(|row| row.trial).collect();
        let old_intervals = tables.old_rows(Table::Intervals)?;
        tables.older = older::Passes::of(&result, &old_intervals);
        let shown = Shown::of(&result);
        Ok(Self {
            intervals: tables.shown(&shown, intervals, old_intervals),
            resources: tables.all(&shown, Table::Resources)?,
            used: tables.all(&shown, Table::ServerResources)?,
            store: tables.all(&shown, Table::StoreStats)?,
            old_tables_left_out: old.is_none() && folder.join(Table::Intervals.parquet_file()).exists(),
            older: tables.older,
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
        let of_trial = self.result.trials.iter().filter(|of| of.trial == trial).flat_map(|of| &of.phases);
        let name = match (self.older.log(trial, store, phase), of_trial.into_iter().find(|of| of.name == phase)) {
            (Some(name), _) => name,
            (None, Some(found)) => log_name(trial, store, phase, found.pass()),
            (None, None) => return Ok(Vec::new()),
        };
        logs::read(&self.folder.join(name))
    }
}

/// Trial, phase and pass of the rows that are part of a result.
struct Shown(HashSet<(u32, String, String)>);

impl Shown {
    fn of(result: &RunResult) -> Self {
        let phases = result.trials.iter().flat_map(|trial| trial.phases.iter().map(|phase| (trial.trial, phase)));
        Self(phases.map(|(trial, phase)| (trial, phase.name.clone(), phase.pass().to_string())).collect())
    }
}

/// The tables of a folder while they are read.
struct Tables<'a> {
    folder: &'a Path,
    old: Option<ReadOldTable>,
    /// Trials with rows in the current format. If an older version began the run, these are the later trials.
    newer: HashSet<u32>,
    older: older::Passes,
}

impl Tables<'_> {
    fn rows<R: Row>(&self, table: Table) -> Result<Vec<R>, ReportError> {
        tables::rows(&self.folder.join(table.file()))
    }

    fn old_rows<R: Row>(&self, table: Table) -> Result<Vec<R>, ReportError> {
        let Some(read) = self.old else { return Ok(Vec::new()) };
        let mut rows: Vec<R> = tables::old_rows(&self.folder.join(table.parquet_file()), read)?;
        rows.retain(|row| !self.newer.contains(&row.trial()));
        Ok(rows)
    }

    fn all<R: Row>(&self, shown: &Shown, table: Table) -> Result<Vec<R>, ReportError> {
        Ok(self.shown(shown, self.rows(table)?, self.old_rows(table)?))
    }

    /// The rows that are part of a result.
    fn shown<R: Row>(&self, shown: &Shown, mut rows: Vec<R>, mut old: Vec<R>) -> Vec<R> {
        rows.retain_mut(|row| {
            let pass = (row.trial(), row.place().0.clone(), row.pass().to_owned());
            shown.0.contains(&pass)
        });
        self.older.keep(&mut old);
        old.append(&mut rows);
        old
    }
}
