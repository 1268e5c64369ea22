//! The command-line arguments. Parsing has no side effects; the verbs build what they need from these structs.

/// Types of other crates as values on the command line, each with its help text.
macro_rules! words {
    ($name:ident for $core:ty { $($(#[doc = $doc:literal])* $word:ident),+ $(,)? }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
        pub(crate) enum $name { $($(#[doc = $doc])* $word),+ }

        impl From<$name> for $core {
            fn from(word: $name) -> Self {
                match word { $($name::$word => Self::$word),+ }
            }
        }
    };
}

mod bench;
mod bundle;
mod compare;
mod copy;
mod copy_columns;
mod copy_records;
mod fit;
mod history;
mod infer;
mod init;
mod parts;
mod report;
mod trace;

pub(crate) use bench::BenchArgs;
pub(crate) use bundle::{GalleryArgs, PackArgs, RerunArgs, TrustArgs};
pub(crate) use compare::{CompareArgs, CompareFormat, Undecided};
pub(crate) use copy::CopyArgs;
pub(crate) use copy_columns::ColumnArgs;
pub(crate) use copy_records::RecordArgs;
pub(crate) use fit::FitArgs;
pub(crate) use history::{HistoryAction, HistoryAddArgs, HistoryArgs, HistoryCheckArgs, HistoryViewArgs};
pub(crate) use infer::InferArgs;
pub(crate) use init::{CompletionsArgs, InitArgs, Shell};
pub(crate) use parts::{MergeArgs, PartArgs};
pub(crate) use report::ReportArgs;
pub(crate) use trace::TraceArgs;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Args as ClapArgs, Parser, Subcommand};
use storebench_report::metrics::{Destination, RECEIVER};
use storebench_results::compare::parse_change;
use storebench_study::Part;
use storebench_study::units::Count;

const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    data lost, wrong, or could not be read back
  2    invalid input; nothing was started
  3    store unreachable, or failed before anything was written
  4    measurement invalid (see its checks) or cut short
  5    undecided: a gate of compare, or history check
  130  interrupted; results so far are saved and marked partial";

/// Where run folders are created.
pub(crate) const DEFAULT_OUT: &str = "storebench-runs";

/// Colours of the help and of errors in arguments, as those of cargo.
const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const CHECK_EXIT_CODES: &str = "\
Exit codes:
  0    some order explains every key
  1    no order explains some key
  2    invalid input
  4    undecided for some key, and no key is broken";

const CONFORM_EXIT_CODES: &str = "\
Exit codes:
  0    no check failed
  1    a check failed
  2    invalid input, or the place contains other data; nothing was changed
  3    store unreachable";

/// Benchmark, load, copy and crash-test document stores, and say how far to trust each result
///
/// Results go to stdout. Progress and messages go to stderr.
#[derive(Debug, Parser)]
#[command(name = "storebench", version, after_help = EXIT_CODES, max_term_width = 100)]
#[command(styles = STYLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Init(InitArgs),
    Run(RunArgs),
    Bench(Box<BenchArgs>),
    Merge(MergeArgs),
    Compare(CompareArgs),
    History(HistoryArgs),
    Report(ReportArgs),
    Pack(PackArgs),
    Rerun(Box<RerunArgs>),
    Gallery(GalleryArgs),
    Copy(Box<CopyArgs>),
    Generate(GenerateArgs),
    Infer(InferArgs),
    Trace(TraceArgs),
    Verify(VerifyArgs),
    Check(CheckArgs),
    Plan(PlanArgs),
    Stores(StoresArgs),
    Studies(StudiesArgs),
    Conform(ConformArgs),
    Doctor(DoctorArgs),
    Host(HostArgs),
    Completions(CompletionsArgs),
}

/// A study and its overrides.
#[derive(Debug, ClapArgs)]
pub(crate) struct StudyArgs {
    /// Study file (TOML), or the name of a built-in study (see `storebench studies`)
    pub(crate) study: PathBuf,

    /// Use one of the study's presets, such as laptop
    ///
    /// --set and --scale take precedence over the preset.
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,

    /// Change one value of the study, such as phases.mixed.rate=500; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) overrides: Vec<String>,

    /// Multiply the number of documents by this factor [default: the preset's, or 1]
    ///
    /// The shape of the documents stays the same.
    #[arg(long, value_name = "FACTOR", value_parser = scale)]
    pub(crate) scale: Option<f64>,
}

/// Where results go and what the run may do to a store.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ResultArgs {
    /// Folder in which to create a folder for each run
    #[arg(long, value_name = "DIR", default_value = DEFAULT_OUT)]
    pub(crate) out: PathBuf,

    /// Add to a database that contains your own data
    ///
    /// Data that `storebench copy` wrote is also yours. None of your data is changed.
    #[arg(long)]
    pub(crate) into_existing: bool,

    /// Delete data that `storebench copy` wrote, and start empty
    #[arg(long, conflicts_with = "into_existing")]
    pub(crate) discard_existing: bool,

    /// At the end, remove from the store what studies created
    ///
    /// Data that `storebench copy` wrote is kept.
    #[arg(long)]
    pub(crate) remove_after: bool,

    /// Start even if `plan` estimates too little disk space or too much time
    #[arg(long)]
    pub(crate) anyway: bool,

    /// Serve the report during the run, at an address such as 127.0.0.1:8080
    ///
    /// The address must belong to this machine. A port alone uses the loopback interface.
    #[arg(long, value_name = "[IP:]PORT", value_parser = live_address)]
    pub(crate) live: Option<SocketAddr>,

    /// Serve metrics for Prometheus during the run at this address, or push them to otlp+http://HOST:PORT
    ///
    /// A port alone uses the loopback interface, such as 9464 for http://127.0.0.1:9464/metrics. See docs/metrics.md.
    #[arg(long, value_name = "[IP:]PORT|URL", value_parser = metrics_destination)]
    pub(crate) metrics: Option<Destination>,

    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// How a run is shown.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ShowArgs {
    /// Print everything: each check with its advice, each phase, sweeps, costs and published claims
    #[arg(long, conflicts_with = "json")]
    pub(crate) full: bool,

    /// Print the result as one JSON document instead of the summary
    #[arg(long)]
    pub(crate) json: bool,

    /// Do not show progress on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Run a study on its stores and check the results
///
/// Measures each store of the study, or of --store, in turn. On each store, Storebench removes what it created there
/// before, loads the documents and runs the phases. The run folder keeps all measurements. The summary goes to stdout.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) study: StudyArgs,

    /// Measure this store instead of the study's stores; repeatable
    #[arg(long = "store", value_name = "[NAME=]URL")]
    pub(crate) stores: Vec<String>,

    #[command(flatten)]
    pub(crate) fit: FitArgs,

    /// Keep the documents that Storebench loaded before
    ///
    /// Phases that load documents are skipped.
    #[arg(long, conflicts_with_all = ["into_existing", "discard_existing"])]
    pub(crate) keep: bool,

    /// Compare what the stores answer to each operation of a replayed trace
    ///
    /// Sets compare_answers of every phase with a trace. Answers that differ are named, and the exit code is 4.
    #[arg(long)]
    pub(crate) compare_answers: bool,

    /// Run the study's commands that start, stop and kill servers
    #[arg(long)]
    pub(crate) manage_servers: bool,

    /// Resume the run in this folder: keep completed trials and run the rest
    #[arg(long, value_name = "FOLDER")]
    pub(crate) resume: Option<PathBuf>,

    /// Compute costs with this price sheet (TOML); see docs/cost.md
    ///
    /// The result keeps the sheet.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) parts: PartArgs,

    #[command(flatten)]
    pub(crate) result: ResultArgs,
}

/// Write a study's documents as JSON lines
///
/// The output is byte for byte the same for any --jobs, and for a range written at once or in parts.
#[derive(Debug, ClapArgs)]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    pub(crate) study: StudyArgs,

    /// Collections to write [default: all, in the order of the study]
    #[arg(value_name = "COLLECTION")]
    pub(crate) collections: Vec<String>,

    /// Index of the first document
    #[arg(long, value_name = "INDEX", default_value = "0")]
    pub(crate) from: Count,

    /// Number of documents from each collection [default: all from --from on]
    #[arg(long, value_name = "COUNT")]
    pub(crate) count: Option<Count>,

    /// Threads that generate documents [default: one per processor]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) jobs: Option<u32>,

    /// Write to this file instead of stdout
    ///
    /// The file appears when it is complete.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Overwrite the --output file
    #[arg(long, requires = "output")]
    pub(crate) force: bool,

    /// Version of the documents; a load writes version 0
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) version: u64,

    /// Write {"key": …, "document": …} on each line
    #[arg(long)]
    pub(crate) keys: bool,
}

/// Read every document back and compare it with the expected content
///
/// Documents may be as loaded, or at the later version that they carry. The exit code is 1 if a document is missing,
/// differs or cannot be read.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct VerifyArgs {
    /// URL of the store that the study ran on
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) study: StudyArgs,

    /// Threads that read [default: one per processor, at most 8]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) jobs: Option<u32>,

    /// Print the report as one JSON document
    #[arg(long)]
    pub(crate) json: bool,

    /// Do not show progress on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Judge a history of reads and writes: whether some order explains what each client saw
///
/// A history is a file of JSON lines, one for each operation on a key: who sent it, when, and what came back. For each key,
/// the check decides whether its operations are linearizable, shows a short sequence that no order explains, and says
/// how far reads were behind.
#[derive(Debug, ClapArgs)]
#[command(after_help = CHECK_EXIT_CODES)]
pub(crate) struct CheckArgs {
    /// File of the history, plain or gzip (see docs/consistency.md)
    pub(crate) history: PathBuf,

    /// Also write the history to a new file, in the form that Jepsen's tools read (EDN)
    #[arg(long, value_name = "FILE")]
    pub(crate) jepsen: Option<PathBuf>,

    /// Orders to try for each operation of a key before it counts as undecided [default: 1000]
    #[arg(long, value_name = "N", value_parser = budget)]
    pub(crate) budget: Option<usize>,

    /// Print the report as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Half the width of an interval: `3%` or 0.03.
fn width(text: &str) -> Result<f64, String> {
    let (number, divisor) = text.trim().strip_suffix('%').map_or((text.trim(), 1.0), |number| (number.trim(), 100.0));
    let share = number.parse::<f64>().ok().map(|share| share / divisor);
    share.filter(|share| (0.001..=1.0).contains(share)).ok_or_else(|| "use 0.1% to 100%, such as 3%".to_owned())
}

fn budget(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "use a number from 1 on, such as 10000".to_owned())
}

/// Show the documents, trials, time and disk space of a study, without touching anything
#[derive(Debug, ClapArgs)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) study: StudyArgs,

    #[command(flatten)]
    pub(crate) fit: FitArgs,

    /// Plan for this store instead of the study's stores; repeatable
    #[arg(long = "store", value_name = "[NAME=]URL")]
    pub(crate) stores: Vec<String>,

    /// Also show the share of each part, if the study is run in this many parts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(Part::MOST)))]
    pub(crate) parts: Option<u32>,

    /// Say how many rounds the study needs, from how much the rounds of this run of it differ
    ///
    /// Two rounds or more; a short run is enough to begin with. From several runs, or from history:BRANCH, it says how many
    /// runs on each side a gate of `compare` needs.
    #[arg(long, value_name = "RUN", num_args = 1..)]
    pub(crate) pilot: Vec<String>,

    /// The change that the gate allows, with --pilot of several runs or of a history
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_change, requires = "pilot")]
    pub(crate) gate: f64,

    /// Folder of the history, with --pilot history:BRANCH
    #[arg(long, value_name = "DIR", default_value = ".storebench/history", requires = "pilot")]
    pub(crate) history: PathBuf,

    /// How narrow intervals should be, with --pilot
    #[arg(long, value_name = "SHARE", default_value = "3%", value_parser = width, requires = "pilot")]
    pub(crate) within: f64,

    /// Estimate costs with this price sheet (TOML); see docs/cost.md
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,

    /// Print the plan as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the built-in studies: what each shows, its presets, and flaws of the original
#[derive(Debug, ClapArgs)]
pub(crate) struct StudiesArgs {
    /// Show only this study, in full
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Print the study file, to edit and run
    #[arg(long, requires = "name")]
    pub(crate) file: bool,

    /// Print the list as one JSON document
    #[arg(long, conflicts_with = "file")]
    pub(crate) json: bool,
}

/// List the stores: URLs, options, operations, and the settings behind each guarantee
#[derive(Debug, ClapArgs)]
pub(crate) struct StoresArgs {
    /// Show only this store
    #[arg(value_name = "SCHEME")]
    pub(crate) scheme: Option<String>,

    /// Print the list as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Check that a store behaves as Storebench expects of every store
///
/// Runs the conformance suite, on any store in any version. It checks that operations, errors, durability and reads
/// mean the same as on every other store. Data of earlier studies at this place is deleted first, and everything is
/// removed at the end. A place that contains other data is refused and left unchanged.
#[derive(Debug, ClapArgs)]
#[command(after_help = CONFORM_EXIT_CODES)]
pub(crate) struct ConformArgs {
    /// Store URL, such as couchbase://USER@HOST/BUCKET (see `storebench stores`)
    pub(crate) url: String,

    /// Also delete data that `storebench copy` wrote
    #[arg(long)]
    pub(crate) discard_existing: bool,

    /// Print the table as one JSON document
    #[arg(long)]
    pub(crate) json: bool,

    /// Do not show progress on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Host an embedded store in this process, for other processes on this machine
///
/// Use the store as `hosted+URL?socket=FILE` with `run`, `bench` and `conform`. You can kill, pause and limit this
/// process like the server of any store. Ctrl-C closes the store and ends the process.
#[derive(Debug, ClapArgs)]
pub(crate) struct HostArgs {
    /// URL of the embedded store, such as sqlite:documents.db (see `storebench stores`)
    pub(crate) url: String,

    /// Socket file to create for clients; its path has at most 100 bytes
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: PathBuf,

    /// End when standard input ends, as it does when the parent process ends
    #[arg(long)]
    pub(crate) until_input_ends: bool,
}

/// Check this machine for what would spoil a measurement
#[derive(Debug, ClapArgs)]
pub(crate) struct DoctorArgs {
    /// Folder in which embedded stores will keep their data
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,

    /// Print the findings as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if scale.is_finite() && scale > 0.0 => Ok(scale),
        _ => Err("expected a number above 0, such as 0.1".to_owned()),
    }
}

/// Where metrics go. The flag is also one of `copy`.
fn metrics_destination(text: &str) -> Result<Destination, String> {
    Destination::of_url(text).unwrap_or_else(|| {
        let serve = live_address(text).map(Destination::Serve);
        serve.map_err(|error| format!("{error}, or the URL of a receiver, {RECEIVER}"))
    })
}

/// Parses `127.0.0.1:8080`, or a port alone.
fn live_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| {
        format!("invalid address `{text}`; expected an address of this machine with a port, such as 127.0.0.1:8080")
    })
}
