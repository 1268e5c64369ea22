//! What may be typed of `report`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// Make the page of a run again, or one page of several runs
///
/// The page is one file that needs nothing else: it can be mailed, printed, opened from a disk, and read without its
/// script. Every run writes its own, report.html, into its folder.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Exit codes:
  0    the page was written
  1    it could not be written
  2    bad input: no run, or a damaged one")]
pub(crate) struct ReportArgs {
    /// Folders of runs, or paths of their run.json
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,

    /// Write the page here, `-` is stdout [default: report.html in the run's folder; needed for several runs]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Overwrite the file of --output
    #[arg(long, requires = "output")]
    pub(crate) force: bool,

    /// Write the tables of each run as Parquet, into the folder `parquet` of the run
    #[arg(long, value_name = "FORMAT", value_enum, conflicts_with_all = ["output", "markdown"])]
    pub(crate) tables: Option<TableFormat>,

    /// Print Markdown for a comment on a change instead: the answer, what it is worth, the configurations
    #[arg(long, conflicts_with = "output")]
    pub(crate) markdown: bool,
}

/// What tables can be written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    Parquet,
}
