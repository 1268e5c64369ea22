//! Arguments of `compare`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use storebench_results::compare::{DEFAULT_THRESHOLD, parse_change, parse_threshold};
use storebench_results::history::DEFAULT_LAST;

const EXIT_CODES: &str = "\
Exit codes:
  0    every gate passed: the entire interval of B/A is within its limit
  1    a gate failed: the entire interval of B/A is beyond its limit
  2    invalid input: partial or incomparable runs, or a gate without a figure
  4    a run is invalid by its own checks, or a gate could not have detected what it must
  5    a gate is undecided: its limit is inside the interval, or there is no interval

Examples:
  storebench compare runs/both
  storebench compare runs/both#v1 runs/both#v2 --fail-on 'read.response.p99 > +5%'
  storebench compare runs/old-1,runs/old-2,runs/old-3 runs/new-1,runs/new-2 -o compare.html
  storebench compare runs/new-1,runs/new-2 --baseline main --format markdown
  storebench compare runs/new-1 --baseline history:main --fail-on 'response.p99 > +10%'";

/// Compare the configurations of one run, or sets of runs, with 95 % intervals
///
/// For each figure that both have, prints A, B, the ratio B/A with its 95 % interval, and one word. Configurations
/// of one run are paired by round. In sets of runs, each run counts as one measurement; one run alone cannot show how
/// much runs differ by themselves. Nothing is measured again.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct CompareArgs {
    /// Run folders or their run.json; PATH#CONFIGURATION selects one configuration
    ///
    /// The first is A, and the others are compared with it. Several runs of one side are separated by commas: A1,A2,A3
    /// B1,B2,B3. With a single run, its configurations are compared with its first one.
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<String>,

    /// Compare with this baseline, which is A; history:BRANCH is the last runs of a history
    ///
    /// Of the history those runs count that did the same work on the same machine. `history:` takes those of all branches.
    #[arg(long, value_name = "NAME", help_heading = "Baselines")]
    pub(crate) baseline: Option<String>,

    /// Add the run to the baseline with this name, and compare nothing
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["baseline", "fail_on", "undecided", "must_detect", "threshold", "anyway", "all", "format", "json", "output"],
        help_heading = "Baselines"
    )]
    pub(crate) save_baseline: Option<String>,

    /// Overwrite the --output file, or with --save-baseline remove the baseline's other runs
    #[arg(long)]
    pub(crate) force: bool,

    /// With --save-baseline, remove all but so many runs of the baseline: the newest, with this one
    #[arg(
        long,
        value_name = "RUNS",
        requires = "save_baseline",
        conflicts_with = "force",
        value_parser = clap::value_parser!(u16).range(1..),
        help_heading = "Baselines"
    )]
    pub(crate) keep_newest: Option<u16>,

    /// Folder with the baselines
    #[arg(long, value_name = "DIR", default_value = ".storebench/baselines", help_heading = "Baselines")]
    pub(crate) baselines: PathBuf,

    /// Folder of the history, with --baseline history:BRANCH
    #[arg(long, value_name = "DIR", default_value = ".storebench/history", help_heading = "Baselines")]
    pub(crate) history: PathBuf,

    /// With --baseline history:BRANCH, compare with at most so many last runs
    #[arg(
        long,
        value_name = "RUNS",
        default_value_t = DEFAULT_LAST,
        requires = "baseline",
        value_parser = clap::value_parser!(u16).range(5..),
        help_heading = "Baselines"
    )]
    pub(crate) last: u16,

    /// Treat differences within this percentage as too small to matter
    #[arg(long, value_name = "PERCENT", default_value = DEFAULT_THRESHOLD, value_parser = parse_threshold)]
    pub(crate) threshold: f64,

    // A string, because rustdoc would take the brackets in a doc comment for links.
    #[arg(
        long,
        value_name = "GATE",
        help = "Exit with 1 if the entire interval of B/A is beyond a limit, and with 5 unless it is within it: \
                '[PHASE.][OP.]MEASURE > +5%', or < -5%, or > x1.05; repeatable"
    )]
    pub(crate) fail_on: Vec<String>,

    /// What an undecided gate does to the exit code
    ///
    /// A gate is undecided if its limit is inside the interval of B/A, or if there is no interval. The output says what
    /// would decide it, such as about how many rounds.
    #[arg(long, value_enum, default_value = "fail", requires = "fail_on")]
    pub(crate) undecided: Undecided,

    /// Exit with 4 if an undecided gate could not have detected a change of this percentage
    ///
    /// It must detect such a change in 8 of 10 comparisons that are as noisy as this one.
    #[arg(long, value_name = "PERCENT", value_parser = parse_change, requires = "fail_on")]
    pub(crate) must_detect: Option<f64>,

    /// Compare runs even if they are partial, incomparable or invalid
    ///
    /// The differences are shown above the figures.
    #[arg(long)]
    pub(crate) anyway: bool,

    /// Show all figures
    #[arg(long)]
    pub(crate) all: bool,

    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: CompareFormat,

    /// Also write the comparison as a page (HTML) into this file, with time lines of A and B
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Print one JSON document; same as --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}

/// What an undecided gate does to the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Undecided {
    /// Exit with 5
    Fail,
    /// Exit with 0
    Pass,
}

/// Output format of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    /// For a terminal
    Text,
    /// For a comment on a pull request
    Markdown,
    /// One document with all figures
    Json,
}
