//! Arguments of `report`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// Create the report of a run again, or one report of several runs
///
/// A report is one self-contained HTML page. You can mail it, print it, open it from a disk, and read it without its
/// script. Every run writes its own report.html into its folder.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Exit codes:
  0    success
  1    could not write the report
  2    invalid input: no run, or a damaged one")]
pub(crate) struct ReportArgs {
    /// Run folders or their run.json, or a folder with many run folders, which makes an index of them
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,

    /// File to write, or `-` for stdout [default: report.html in the run's folder, index.html in a folder of runs; required
    /// for several runs]
    #[arg(long, short, value_name = "FILE", group = "file")]
    pub(crate) output: Option<PathBuf>,

    /// Overwrite FILE if it exists; the report.html of a run is always written again
    #[arg(long)]
    pub(crate) force: bool,

    /// Write the tables of each run as Parquet into its folder `parquet`
    #[arg(long, value_name = "FORMAT", value_enum, conflicts_with_all = ["output", "markdown"])]
    pub(crate) tables: Option<TableFormat>,

    /// Print everything to the terminal instead, as `run --full` does
    #[arg(long, conflicts_with_all = ["output", "markdown", "tables"])]
    pub(crate) full: bool,

    /// Write the first chart into this file, as SVG; `-` for stdout
    #[arg(long, value_name = "FILE", group = "file", conflicts_with_all = ["markdown", "tables", "full"])]
    pub(crate) picture: Option<PathBuf>,

    /// Print Markdown for a pull request comment instead: the answer, the checks and the configurations
    #[arg(long, conflicts_with = "output")]
    pub(crate) markdown: bool,
}

/// File formats for tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    Parquet,
}
