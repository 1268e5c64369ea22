//! Arguments of `history`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use storebench_results::history::{DEFAULT_FALSE_ALARM_EVERY, DEFAULT_RECENT};

use super::Undecided;

const EXIT_CODES: &str = "\
Exit codes:
  0    nothing became worse
  1    check: a figure became worse
  2    invalid input: no history, a damaged entry, or a partial run
  5    check: not enough runs to tell, or the newest run has no value that counts

Examples:
  storebench history add runs/nightly
  storebench history show -o history.html
  storebench history check --github
  storebench history check --figure mixed.response.p99 --undecided pass";

/// Keep the figures of runs over months, and find the run with which one became worse
///
/// A history is a folder of plain files, one for each run, that a repository can hold. Runs on different machines, of
/// different studies and of different branches are not compared.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES, arg_required_else_help = true)]
pub(crate) struct HistoryArgs {
    #[command(subcommand)]
    pub(crate) action: HistoryAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HistoryAction {
    Add(HistoryAddArgs),
    Show(HistoryViewArgs),
    Check(HistoryCheckArgs),
}

/// Where the history is.
#[derive(Debug, ClapArgs)]
pub(crate) struct HistoryFolder {
    /// Folder of the history
    #[arg(long = "history", value_name = "DIR", default_value = ".storebench/history")]
    pub(crate) folder: PathBuf,
}

/// Add runs to the history
///
/// Keeps their figures, machine and commit, but not their documents and what happened within them. A run that is there already is not
/// added again. What a check found invalid is kept and marked, and is in no line.
#[derive(Debug, ClapArgs)]
pub(crate) struct HistoryAddArgs {
    /// Run folders or their run.json
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<PathBuf>,

    /// The commit that was measured [default: for one run of today, that of the CI job or of the working directory]
    #[arg(long, value_name = "COMMIT")]
    pub(crate) commit: Option<String>,

    /// The branch of the commit [default: likewise]
    #[arg(long, value_name = "NAME")]
    pub(crate) branch: Option<String>,

    #[command(flatten)]
    pub(crate) folder: HistoryFolder,
}

/// Show the lines of the history, and where they changed
#[derive(Debug, ClapArgs)]
pub(crate) struct HistoryViewArgs {
    #[command(flatten)]
    pub(crate) folder: HistoryFolder,

    /// Branch to look at [default: that of the CI job or of the working directory, or else that of the newest run]
    #[arg(long, value_name = "NAME")]
    pub(crate) branch: Option<String>,

    /// Figure to look at, [PHASE.][OP.]MEASURE; repeatable [default: the main one of each phase]
    #[arg(long = "figure", value_name = "FIGURE")]
    pub(crate) figures: Vec<String>,

    /// Allow one false alarm in so many runs without a change, over all lines together
    ///
    /// With more runs, a change must be larger or last longer before it is found. The output says how large.
    #[arg(long, value_name = "RUNS", default_value_t = DEFAULT_FALSE_ALARM_EVERY,
        value_parser = clap::value_parser!(u32).range(20..=100_000))]
    pub(crate) false_alarm_every: u32,

    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write a page (HTML) into this file, with a chart of each line
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Overwrite the files of --output and --junit
    #[arg(long)]
    pub(crate) force: bool,
}

/// Exit with 1 if a figure became worse
///
/// Looks for changes over the whole history, not at the last two runs. A change that several runs show is found, a single
/// odd run is not. What was found and did not last is taken back.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct HistoryCheckArgs {
    #[command(flatten)]
    pub(crate) view: HistoryViewArgs,

    /// Fail if one of so many last runs found a change for the worse
    #[arg(long, value_name = "RUNS", default_value_t = DEFAULT_RECENT,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) recent: u32,

    /// What a history with too few runs does to the exit code
    #[arg(long, value_enum, default_value = "fail")]
    pub(crate) undecided: Undecided,

    /// Also write the lines as test cases (JUnit XML) into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,

    /// Print annotations for GitHub's workflows, and add the result to the job's summary
    ///
    /// The summary is the file that GITHUB_STEP_SUMMARY names.
    #[arg(long, conflicts_with = "json")]
    pub(crate) github: bool,

    /// Print Markdown, such as for a comment on a pull request
    #[arg(long, conflicts_with_all = ["json", "github"])]
    pub(crate) markdown: bool,
}
