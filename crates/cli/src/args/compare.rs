//! What may be typed after `compare`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use storebench_results::compare::{DEFAULT_THRESHOLD, parse_threshold};

const EXIT_CODES: &str = "\
Exit codes:
  0    compared, and no gate failed
  1    a gate failed: the whole interval of B/A lies beyond its line
  2    bad input: runs that are partial or unlike, a gate that names no figure
  4    a run is invalid by its own checks, or a gate cannot be judged

Examples:
  storebench compare runs/before runs/after
  storebench compare runs/both
  storebench compare runs/both#v1 runs/both#v2 --fail-on 'read.response.p99 > +5%'
  storebench compare runs/after --baseline main --format markdown";

/// Say what differs between two runs, or between the configurations of one, and what of it is sure
///
/// Of each figure that both have: A, B, their ratio B/A with its 95 % interval, and one word. Configurations of one run are
/// paired by round; of two runs they are not, and then a drift of the machine is in every ratio. Nothing is measured
/// again.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct CompareArgs {
    /// Run folders or their run.json; PATH#CONFIGURATION names one configuration of a run. The first is A, what the others are compared
    /// with; one alone has its configurations compared with its first
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<String>,

    /// Compare with this baseline: it is A
    #[arg(long, value_name = "NAME", help_heading = "Baselines")]
    pub(crate) baseline: Option<String>,

    /// Keep the run as a baseline of this name, and compare nothing
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["baseline", "fail_on", "threshold", "anyway", "all", "format", "json"],
        help_heading = "Baselines"
    )]
    pub(crate) save_baseline: Option<String>,

    /// With --save-baseline: replace the baseline of this name
    #[arg(long, requires = "save_baseline", help_heading = "Baselines")]
    pub(crate) force: bool,

    /// Folder of the baselines
    #[arg(long, value_name = "DIR", default_value = ".storebench/baselines", help_heading = "Baselines")]
    pub(crate) baselines: PathBuf,

    /// Differences within this share are too small to matter
    #[arg(long, value_name = "PERCENT", default_value = DEFAULT_THRESHOLD, value_parser = parse_threshold)]
    pub(crate) threshold: f64,

    // As text: in documentation its brackets would be links.
    #[arg(
        long,
        value_name = "GATE",
        help = "Exit with 1 when the whole interval of B/A lies beyond a line: '[PHASE.][OP.]MEASURE > +5%', or < -5%, or \
                > x1.05; may be given several times"
    )]
    pub(crate) fail_on: Vec<String>,

    /// Compare what is partial, unlike or invalid all the same; differences stand above the figures
    #[arg(long)]
    pub(crate) anyway: bool,

    /// Show every figure
    #[arg(long)]
    pub(crate) all: bool,

    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: CompareFormat,

    /// Print one JSON document; the same as --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}

/// How a comparison is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    /// For a terminal
    Text,
    /// Such as for a comment on a pull request
    Markdown,
    /// One document, with every figure
    Json,
}
