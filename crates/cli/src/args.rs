//! What may be typed. Nothing here has a side effect; what is built from it lives with the verbs.

mod compare;
mod copy;
mod copy_columns;
mod copy_records;
mod report;

pub(crate) use compare::{CompareArgs, CompareFormat};
pub(crate) use copy::CopyArgs;
pub(crate) use copy_columns::ColumnArgs;
pub(crate) use copy_records::RecordArgs;
pub(crate) use report::ReportArgs;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use storebench_engine::store::{Durability, ReadConsistency};
use storebench_study::units::{ByteSize, Count, Span};
use storebench_study::workload::{ArrivalSpec, OnDisconnect, Pacing, Popularity, Streams};

use crate::bench_study::{CompressText, MixText, RateText};

const EXIT_CODES: &str = "\
Exit codes:
  0    fine
  1    data lost, wrong or not verifiable
  2    bad input: nothing was started
  3    a store could not be reached
  4    the measurement is invalid by its own checks, or was cut short
  130  interrupted: what was measured is kept and marked partial";

const CONFORM_EXIT_CODES: &str = "\
Exit codes:
  0    nothing failed
  1    something failed
  2    bad input, or a place that holds what Storebench did not make: nothing was touched
  3    the store could not be reached";

/// Loads, moves and measures document stores, and says what each result is worth.
///
/// Results go to stdout, progress and messages to stderr.
#[derive(Debug, Parser)]
#[command(name = "storebench", version, after_help = EXIT_CODES, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(RunArgs),
    Bench(Box<BenchArgs>),
    Compare(CompareArgs),
    Report(ReportArgs),
    Copy(Box<CopyArgs>),
    Generate(GenerateArgs),
    Verify(VerifyArgs),
    Plan(PlanArgs),
    Stores(StoresArgs),
    Studies(StudiesArgs),
    Conform(ConformArgs),
    Doctor(DoctorArgs),
    Host(HostArgs),
}

/// A study and what is changed of it.
#[derive(Debug, ClapArgs)]
pub(crate) struct StudyArgs {
    /// The study file (TOML), or the name of a built-in study: `storebench studies`
    pub(crate) study: PathBuf,

    /// Take the study at one of its sizes, such as laptop; what is set here goes before it
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,

    /// Change one value of the study, such as phases.mixed.rate=500; may be given several times
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) overrides: Vec<String>,

    /// Multiply how many documents there are; their shape stays [default: the preset's, else 1]
    #[arg(long, value_name = "FACTOR", value_parser = scale)]
    pub(crate) scale: Option<f64>,
}

/// How results are given.
#[derive(Debug, ClapArgs)]
pub(crate) struct ResultArgs {
    /// Folder that gets a folder for each run
    #[arg(long, value_name = "DIR", default_value = "storebench-runs")]
    pub(crate) out: PathBuf,

    /// Add to a database that holds data of yours, also what `copy` wrote; none of it is changed
    #[arg(long)]
    pub(crate) into_existing: bool,

    /// Delete what `storebench copy` wrote there, and begin with an empty place
    #[arg(long, conflicts_with = "into_existing")]
    pub(crate) discard_existing: bool,

    /// Remove from the store, at the end, what studies made there; what `copy` wrote stays
    #[arg(long)]
    pub(crate) remove_after: bool,

    /// Begin even if the disk is too small or the time too long by the estimate of `plan`
    #[arg(long)]
    pub(crate) anyway: bool,

    /// Serve the report while the run goes on, at this address of the machine, such as 127.0.0.1:8080; a port alone is
    /// on the loopback interface
    #[arg(long, value_name = "[IP:]PORT", value_parser = live_address)]
    pub(crate) live: Option<SocketAddr>,

    /// Print the result as one JSON document instead of the summary
    #[arg(long)]
    pub(crate) json: bool,

    /// No progress on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Run a study on its stores, and judge what was measured
///
/// Every store of the study (or of --store) is measured in turn: what Storebench made there before
/// is removed, the documents are loaded, the phases run. The run folder keeps everything that was
/// measured; the summary goes to stdout.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) study: StudyArgs,

    /// Measure this store instead of those of the study; may be given several times
    #[arg(long = "store", value_name = "[NAME=]URL")]
    pub(crate) stores: Vec<String>,

    /// Keep the documents that Storebench made there before, and load no others over them
    #[arg(long, conflicts_with_all = ["into_existing", "discard_existing"])]
    pub(crate) keep: bool,

    /// Run the commands with which the study starts, stops and kills servers
    #[arg(long)]
    pub(crate) manage_servers: bool,

    /// Go on with the run in this folder: trials that completed are kept, the others run
    #[arg(long, value_name = "FOLDER")]
    pub(crate) resume: Option<PathBuf>,

    /// Price what is measured with this sheet (TOML), which the result keeps; see docs/cost.md
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) result: ResultArgs,
}

/// Measure one store quickly, the study given by flags
///
/// Without flags: 100,000 documents of 1 KiB are loaded, then read (95 %) and updated (5 %) in
/// closed loop by 2 workers for 30 s, after 5 s of warm-up. With --rate the loop is open: latency
/// counts from the scheduled start of each operation. --save-study writes the study that the flags stand for,
/// to go on with `run`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct BenchArgs {
    /// The store, such as sqlite:bench.db (`storebench stores` lists them)
    pub(crate) url: String,

    /// How many documents [default: 100k; with --from, every line]
    #[arg(long, value_name = "COUNT", help_heading = "Documents")]
    pub(crate) docs: Option<Count>,

    /// Size of a document [default: 1KiB]
    #[arg(long, value_name = "SIZE", conflicts_with = "from", help_heading = "Documents")]
    pub(crate) size: Option<ByteSize>,

    /// Share of their bytes that zstd leaves of the documents, or none for plain words, which repeat
    /// [default: 0.4; below 200 B none]
    #[arg(long, value_name = "SHARE", conflicts_with = "from", help_heading = "Documents")]
    pub(crate) compress_to: Option<CompressText>,

    /// Documents that are in the store already, by the name of their table, bucket, database or
    /// collection: they are read, and nothing is written
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["docs", "size", "compress_to", "from", "key", "batch", "no_load", "ledger", "check", "into_existing", "discard_existing", "remove_after"],
        help_heading = "Documents"
    )]
    pub(crate) existing: Option<String>,

    /// With --existing: the field or column that holds the key, where the store does not fix it
    #[arg(long, value_name = "FIELD", requires = "existing", help_heading = "Documents")]
    pub(crate) existing_key: Option<String>,

    /// With --existing: the field or column that holds the document, where the store does not fix it
    #[arg(long, value_name = "FIELD", requires = "existing", help_heading = "Documents")]
    pub(crate) existing_body: Option<String>,

    /// With --existing: how many keys to sample [default: 100k]
    #[arg(long, value_name = "COUNT", requires = "existing", help_heading = "Documents")]
    pub(crate) sample: Option<Count>,

    /// Your own documents: a JSONL file, plain, .gz or .zst
    #[arg(long, value_name = "FILE", help_heading = "Documents")]
    pub(crate) from: Option<PathBuf>,

    /// With --from: leave out lines that are no JSON object, and count them
    #[arg(long, requires = "from", help_heading = "Documents")]
    pub(crate) skip_bad_lines: bool,

    /// Template of the key, such as '{country}-{id}' or 'doc/{index}'
    #[arg(long, value_name = "TEMPLATE", help_heading = "Documents")]
    pub(crate) key: Option<String>,

    /// Everything random is drawn from it
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Documents")]
    pub(crate) seed: u64,

    /// Documents in one bulk operation of the load
    #[arg(long, value_name = "N", default_value = "1000", help_heading = "Load")]
    pub(crate) batch: u32,

    /// Measure the documents that an earlier bench or run loaded
    #[arg(long, help_heading = "Load", conflicts_with = "discard_existing")]
    pub(crate) no_load: bool,

    /// Operations and their weights [default: read=95,update=5; with --existing read]
    #[arg(long, value_name = "OP=WEIGHT,…", help_heading = "Work")]
    pub(crate) mix: Option<MixText>,

    /// Which keys are asked for more often: uniform, zipf:0.99, hotspot:10%:90%, latest:0.99,
    /// sequential, working-set:20%:80%
    #[arg(long, value_name = "LAW", default_value = "uniform", help_heading = "Work")]
    pub(crate) popularity: Popularity,

    /// How long to measure [default: 30s]
    #[arg(long, value_name = "TIME", conflicts_with = "operations", help_heading = "Work")]
    pub(crate) duration: Option<Span>,

    /// How many operations to measure, instead of a time
    #[arg(long, value_name = "COUNT", help_heading = "Work")]
    pub(crate) operations: Option<Count>,

    /// How long to warm up before; 0s for not at all [default: a sixth of the duration, 5s at most]
    #[arg(long, value_name = "TIME", help_heading = "Work")]
    pub(crate) warm_up: Option<Span>,

    /// Operations scheduled per second over all workers (open loop)
    #[arg(long, value_name = "PER_SECOND", help_heading = "Schedule")]
    pub(crate) rate: Option<RateText>,

    /// How operations are spaced at a rate
    #[arg(long, value_enum, default_value = "constant", requires = "rate", help_heading = "Schedule")]
    pub(crate) arrival: ArrivalArg,

    /// How a worker waits for the next operation: sleeping (up to 100 µs late), or spinning
    #[arg(long, value_enum, default_value = "economical", help_heading = "Schedule")]
    pub(crate) pacing: PacingArg,

    /// Closed loop: pause between operations
    #[arg(long, value_name = "TIME", conflicts_with = "rate", help_heading = "Schedule")]
    pub(crate) think: Option<Span>,

    /// How long to await, after the end, operations that were scheduled
    #[arg(long, value_name = "TIME", default_value = "0s", help_heading = "Schedule")]
    pub(crate) drain: Span,

    /// Threads that send operations
    #[arg(long, value_name = "N", default_value = "2", help_heading = "Client")]
    pub(crate) workers: u32,

    /// Connections of each worker
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Client")]
    pub(crate) connections: u32,

    /// Operations in flight on each connection
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Client")]
    pub(crate) in_flight: u32,

    /// How long one operation may take
    #[arg(long, value_name = "TIME", default_value = "10s", help_heading = "Client")]
    pub(crate) timeout: Span,

    /// What a lost connection does to the run
    #[arg(long, value_enum, default_value = "go-on", help_heading = "Client")]
    pub(crate) on_disconnect: OnDisconnectArg,

    /// Whether workers draw from all keys, or each from its own share [default: independent; with
    /// --ledger disjoint]
    #[arg(long, value_enum, help_heading = "Client")]
    pub(crate) streams: Option<StreamsArg>,

    /// What an acknowledged write survives: none, os, fsync, majority [default: the strongest of
    /// fsync, os and none that the store guarantees]
    #[arg(long, value_name = "LEVEL", help_heading = "Guarantees")]
    pub(crate) durability: Option<Durability>,

    /// How fresh reads are [default: strong where the store guarantees it]
    #[arg(long, value_enum, help_heading = "Guarantees")]
    pub(crate) consistency: Option<ConsistencyArg>,

    /// Share of the reads whose contents are compared with what they should be
    #[arg(long, value_name = "SHARE", default_value = "0.01", help_heading = "Guarantees")]
    pub(crate) check: f64,

    /// Keep every acknowledged version, and read all of them back at the end
    #[arg(long, help_heading = "Guarantees")]
    pub(crate) ledger: bool,

    /// Write the study that these flags stand for to a file, then run it
    #[arg(long, value_name = "FILE")]
    pub(crate) save_study: Option<PathBuf>,

    /// Overwrite the file of --save-study
    #[arg(long, requires = "save_study")]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) result: ResultArgs,
}

/// Write a study's documents as JSON lines
///
/// The same bytes in the same order whatever --jobs is, and whether a range is written at once or in
/// parts.
#[derive(Debug, ClapArgs)]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    pub(crate) study: StudyArgs,

    /// The collection; without it every collection, in the order of the study
    #[arg(value_name = "COLLECTION")]
    pub(crate) collections: Vec<String>,

    /// Index of the first document
    #[arg(long, value_name = "INDEX", default_value = "0")]
    pub(crate) from: Count,

    /// How many documents of each collection [default: all from there on]
    #[arg(long, value_name = "COUNT")]
    pub(crate) count: Option<Count>,

    /// Threads that make documents [default: one for each processor]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) jobs: Option<u32>,

    /// Write to this file instead of stdout; it appears when it is whole
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Overwrite the file of --output
    #[arg(long, requires = "output")]
    pub(crate) force: bool,

    /// Version of the documents; 0 is what a load writes
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) version: u64,

    /// Write {"key": …, "document": …} on each line
    #[arg(long)]
    pub(crate) keys: bool,
}

/// Read every document back and compare it with what it should be
///
/// Documents may be as loaded or at any later version that they carry. Exit code 1 when one is
/// missing, differs or cannot be read.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct VerifyArgs {
    /// The store that the study was run on
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) study: StudyArgs,

    /// Threads that read [default: one for each processor, 8 at most]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) jobs: Option<u32>,

    /// Print the report as one JSON document
    #[arg(long)]
    pub(crate) json: bool,

    /// No progress on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Say what a study would do: documents, trials, time and disk; nothing is touched
#[derive(Debug, ClapArgs)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) study: StudyArgs,

    /// Plan for this store instead of those of the study; may be given several times
    #[arg(long = "store", value_name = "[NAME=]URL")]
    pub(crate) stores: Vec<String>,

    /// Price the plan with this sheet (TOML); see docs/cost.md
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,

    /// Print the plan as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the built-in studies: what each shows, its sizes, and what the original got wrong
#[derive(Debug, ClapArgs)]
pub(crate) struct StudiesArgs {
    /// Only this one, in full
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Print the study file itself, to be changed and run
    #[arg(long, requires = "name")]
    pub(crate) file: bool,

    /// Print the list as one JSON document
    #[arg(long, conflicts_with = "file")]
    pub(crate) json: bool,
}

/// List the stores: URLs, options, operations, and what each guarantee is mapped to
#[derive(Debug, ClapArgs)]
pub(crate) struct StoresArgs {
    /// Only this store
    #[arg(value_name = "SCHEME")]
    pub(crate) scheme: Option<String>,

    /// Print the list as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Check that a store does what Storebench takes every store to do
///
/// Runs the conformance suite: whether operations, errors, durability and reads mean here what they
/// mean everywhere, for any store and any version of it. What studies made at this place before is
/// emptied, and removed at the end. A place that holds anything else is refused and left as it is.
#[derive(Debug, ClapArgs)]
#[command(after_help = CONFORM_EXIT_CODES)]
pub(crate) struct ConformArgs {
    /// The store, such as couchbase://USER@HOST/BUCKET (`storebench stores` lists them)
    pub(crate) url: String,

    /// Delete what `storebench copy` wrote there, too
    #[arg(long)]
    pub(crate) discard_existing: bool,

    /// Print the table as one JSON document
    #[arg(long)]
    pub(crate) json: bool,

    /// No progress on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Host an embedded store in this process, for others of this machine
///
/// The store is then `hosted+URL?socket=FILE` for `run`, `bench` and `conform`, and this process can be killed, paused and
/// limited like the server of any store. It ends at Ctrl-C, and closes the store.
#[derive(Debug, ClapArgs)]
pub(crate) struct HostArgs {
    /// The embedded store, such as sqlite:documents.db (`storebench stores` lists them)
    pub(crate) url: String,

    /// The socket that is made for those who ask: a file, of at most 100 bytes with its folders
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: PathBuf,

    /// End as soon as standard input does, as it does when whoever began this process ends
    #[arg(long)]
    pub(crate) until_input_ends: bool,
}

/// Look at this machine for what would spoil a measurement
#[derive(Debug, ClapArgs)]
pub(crate) struct DoctorArgs {
    /// Where embedded stores will keep their data
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,

    /// Print the findings as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if scale.is_finite() && scale > 0.0 => Ok(scale),
        _ => Err("a scale is a number above 0, such as 0.1".to_owned()),
    }
}

/// Types of `core` as words on the command line, which know their own help.
macro_rules! words {
    ($name:ident for $core:ty { $($(#[doc = $doc:literal])* $word:ident),+ $(,)? }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
        pub(crate) enum $name { $($(#[doc = $doc])* $word),+ }

        impl From<$name> for $core {
            fn from(word: $name) -> Self {
                match word { $($name::$word => Self::$word),+ }
            }
        }
    };
}

words!(ArrivalArg for ArrivalSpec {
    /// Evenly
    Constant,
    /// As from many independent users
    Poisson,
});
words!(PacingArg for Pacing {
    /// Sleep, and send what was scheduled within up to 100 µs together
    Economical,
    /// Spin for the last stretch: takes a core for each worker
    Precise,
});
words!(OnDisconnectArg for OnDisconnect {
    /// It is made again and counted, and what failed meanwhile is counted
    GoOn,
    /// The run ends there, keeps what was measured, and exits with 3
    End,
});
words!(StreamsArg for Streams {
    /// Every worker draws from all keys
    Independent,
    /// Each worker has keys of its own
    Disjoint,
});
words!(ConsistencyArg for ReadConsistency {
    /// May miss what was just written
    StaleOk,
    /// Sees what this session wrote
    Session,
    /// Sees every acknowledged write
    Strong,
});

/// `127.0.0.1:8080`, or a port alone.
fn live_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| {
        format!("invalid address `{text}`; expected an address of this machine with a port, such as 127.0.0.1:8080")
    })
}
