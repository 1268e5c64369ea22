//! What a run folder holds: its result, its tables and its histogram logs, read for charts.

mod logs;
mod passes;
mod tables;

use std::path::{Path, PathBuf};

use storebench_lab::results::{FolderError, RunResult, log_name, read_run};

pub(crate) use logs::{HistogramOf, Histograms};
pub(crate) use tables::{IntervalRow, ResourceRow, StoreRow};

/// A run that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The folder or its document.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A table or a log of it.
    #[error("{path}: {what}; copy the run folder again, or take the file away to do without its charts")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// A run as it was kept.
#[derive(Debug)]
pub struct Recorded {
    /// The document.
    pub result: RunResult,
    /// The study as it was given, in TOML, without secrets; none where the folder has it no more.
    pub study: Option<String>,
    pub(crate) folder: PathBuf,
    pub(crate) intervals: Vec<IntervalRow>,
    pub(crate) resources: Vec<ResourceRow>,
    pub(crate) used: Vec<StoreRow>,
    pub(crate) store: Vec<StoreRow>,
    passes: passes::Passes,
}

impl Recorded {
    /// Reads a run folder, or the folder that a `run.json` is in. Tables that are not there leave their charts out.
    ///
    /// # Errors
    /// [`ReportError`]: there is no run, or a file of it is damaged.
    pub fn open(path: &Path) -> Result<Self, ReportError> {
        let result = read_run(path)?;
        let folder = if path.is_dir() { path.to_owned() } else { path.parent().unwrap_or(Path::new(".")).to_owned() };
        let mut intervals = tables::intervals(&folder.join("intervals.parquet"))?;
        let mut resources = tables::resources(&folder.join("resources.parquet"))?;
        let mut used = tables::store(&folder.join("server_resources.parquet"))?;
        let mut store = tables::store(&folder.join("store_stats.parquet"))?;
        let passes = passes::Passes::of(&result, &intervals);
        passes.keep(&mut intervals, |row| (row.trial, &mut row.phase, row.from_ns));
        passes.keep(&mut resources, |row| (row.trial, &mut row.phase, row.at_ns));
        passes.keep(&mut used, |row| (row.trial, &mut row.phase, row.at_ns));
        passes.keep(&mut store, |row| (row.trial, &mut row.phase, row.at_ns));
        Ok(Self {
            intervals,
            resources,
            used,
            store,
            passes,
            study: std::fs::read_to_string(folder.join("study.toml")).ok(),
            result,
            folder,
        })
    }

    /// The histograms of a phase of a trial; empty where there is no log of it.
    ///
    /// # Errors
    /// [`ReportError::Damaged`]: a log is.
    pub(crate) fn histograms(&self, trial: u32, store: &str, phase: &str) -> Result<Histograms, ReportError> {
        let (recorded, nth) = self.passes.recorded(trial, phase).unwrap_or((phase, 0));
        let mut name = log_name(trial, store, recorded);
        if nth > 0 {
            name = format!("{}-{}.hlog", name.trim_end_matches(".hlog"), nth + 1);
        }
        logs::read(&self.folder.join(name))
    }
}
