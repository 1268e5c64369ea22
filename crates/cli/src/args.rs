//! The command-line arguments. Parsing has no side effects; the verbs build what they need from these structs.

mod compare;
mod copy;
mod copy_columns;
mod copy_records;
mod fit;
mod init;
mod parts;
mod report;

pub(crate) use compare::{CompareArgs, CompareFormat, Undecided};
pub(crate) use copy::CopyArgs;
pub(crate) use copy_columns::ColumnArgs;
pub(crate) use copy_records::RecordArgs;
pub(crate) use fit::FitArgs;
pub(crate) use init::{CompletionsArgs, InitArgs, Shell};
pub(crate) use parts::{MergeArgs, PartArgs};
pub(crate) use report::ReportArgs;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use storebench_engine::store::ReadConsistency;
use storebench_study::Part;
use storebench_study::units::{ByteSize, Count, Span};
use storebench_study::workload::{ArrivalSpec, OnDisconnect, Pacing, Popularity, Streams};

use crate::bench_study::{CompressText, MixText, RateText, WorkersText};

const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    data lost, wrong, or could not be read back
  2    invalid input; nothing was started
  3    store unreachable, or failed before anything was written
  4    measurement invalid (see its checks) or cut short
  5    a gate of compare could not be judged
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
    Report(ReportArgs),
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
#[derive(Debug, ClapArgs)]
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

/// Measure one store quickly, without a study file
///
/// By default, loads 100,000 documents of 1 KiB. Then 2 workers read (95 %) and update (5 %) them in a closed loop for
/// 30 s, after 5 s of warm-up. With --rate the loop is open: latency counts from the scheduled start of each operation.
/// --save-study writes the equivalent study file, to use with `run`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct BenchArgs {
    /// Store URL, such as sqlite:bench.db (see `storebench stores`)
    pub(crate) url: String,

    /// Number of documents [default: 100k; with --from, every line]
    #[arg(long, value_name = "COUNT", help_heading = "Documents")]
    pub(crate) docs: Option<Count>,

    /// Size of each document [default: 1KiB]
    #[arg(long, value_name = "SIZE", conflicts_with = "from", help_heading = "Documents")]
    pub(crate) size: Option<ByteSize>,

    /// Compressed size with zstd as a share of the original, or none [default: 0.4; below 200 B, none]
    ///
    /// With `none`, documents consist of plain words, which repeat.
    #[arg(long, value_name = "SHARE", conflicts_with = "from", help_heading = "Documents")]
    pub(crate) compress_to: Option<CompressText>,

    /// Measure documents already in the store, in this table, bucket, database or collection
    ///
    /// Storebench only reads them and writes nothing.
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["docs", "size", "compress_to", "from", "key", "batch", "no_load", "ledger", "check", "into_existing", "discard_existing", "remove_after"],
        help_heading = "Documents"
    )]
    pub(crate) existing: Option<String>,

    /// With --existing: field or column with the key, unless the store fixes it
    #[arg(long, value_name = "FIELD", requires = "existing", help_heading = "Documents")]
    pub(crate) existing_key: Option<String>,

    /// With --existing: field or column with the document, unless the store fixes it
    #[arg(long, value_name = "FIELD", requires = "existing", help_heading = "Documents")]
    pub(crate) existing_body: Option<String>,

    /// With --existing: number of keys to sample [default: 100k]
    #[arg(long, value_name = "COUNT", requires = "existing", help_heading = "Documents")]
    pub(crate) sample: Option<Count>,

    /// Use your own documents from a JSONL file (plain, .gz or .zst)
    #[arg(long, value_name = "FILE", help_heading = "Documents")]
    pub(crate) from: Option<PathBuf>,

    /// With --from: skip and count lines that are not JSON objects
    #[arg(long, requires = "from", help_heading = "Documents")]
    pub(crate) skip_bad_lines: bool,

    /// With --from: leave these top-level fields out of the documents, such as '_id'
    #[arg(long, value_name = "FIELD,…", value_delimiter = ',', requires = "from", help_heading = "Documents")]
    pub(crate) without: Vec<String>,

    /// Key template, such as '{country}-{id}' or 'doc/{index}'
    #[arg(long, value_name = "TEMPLATE", help_heading = "Documents")]
    pub(crate) key: Option<String>,

    /// Seed for everything random
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Documents")]
    pub(crate) seed: u64,

    /// Documents per bulk operation of the load
    #[arg(long, value_name = "N", default_value = "1000", help_heading = "Load")]
    pub(crate) batch: u32,

    /// Measure the documents that an earlier bench or run loaded
    #[arg(long, help_heading = "Load", conflicts_with = "discard_existing")]
    pub(crate) no_load: bool,

    /// Operations and their weights [default: read=95,update=5; with --existing, read]
    #[arg(long, value_name = "OP=WEIGHT,…", help_heading = "Work")]
    pub(crate) mix: Option<MixText>,

    /// Key popularity: uniform, zipf:0.99, hotspot:10%:90%, latest:0.99, sequential or
    /// working-set:20%:80%
    #[arg(long, value_name = "LAW", default_value = "uniform", help_heading = "Work")]
    pub(crate) popularity: Popularity,

    /// Duration of the measurement [default: 30s]
    #[arg(long, value_name = "TIME", conflicts_with = "operations", help_heading = "Work")]
    pub(crate) duration: Option<Span>,

    /// Number of operations to measure, instead of a duration
    #[arg(long, value_name = "COUNT", help_heading = "Work")]
    pub(crate) operations: Option<Count>,

    /// Warm-up before the measurement; 0s for none [default: a sixth of the duration, at most 5s]
    #[arg(long, value_name = "TIME", help_heading = "Work")]
    pub(crate) warm_up: Option<Span>,

    /// Operations scheduled per second over all workers (open loop)
    #[arg(long, value_name = "PER_SECOND", help_heading = "Schedule")]
    pub(crate) rate: Option<RateText>,

    /// Spacing of scheduled starts at a rate
    #[arg(long, value_enum, default_value = "constant", requires = "rate", help_heading = "Schedule")]
    pub(crate) arrival: ArrivalArg,

    /// How a worker waits for the next scheduled start
    #[arg(long, value_enum, default_value = "economical", help_heading = "Schedule")]
    pub(crate) pacing: PacingArg,

    /// Pause between operations, in a closed loop
    #[arg(long, value_name = "TIME", conflicts_with = "rate", help_heading = "Schedule")]
    pub(crate) think: Option<Span>,

    /// Time to wait after the end for scheduled operations
    #[arg(long, value_name = "TIME", default_value = "0s", help_heading = "Schedule")]
    pub(crate) drain: Span,

    /// Threads that send operations; auto: one for each core that the store does not need
    #[arg(long, value_name = "N|auto", default_value = "2", help_heading = "Client")]
    pub(crate) workers: WorkersText,

    /// Keep each worker on one processor of its own
    #[arg(long, help_heading = "Client")]
    pub(crate) pin_workers: bool,

    /// Connections per worker
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Client")]
    pub(crate) connections: u32,

    /// Operations in flight per connection
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Client")]
    pub(crate) in_flight: u32,

    /// Timeout of one operation
    #[arg(long, value_name = "TIME", default_value = "10s", help_heading = "Client")]
    pub(crate) timeout: Span,

    /// What to do when a connection is lost
    #[arg(long, value_enum, default_value = "go-on", help_heading = "Client")]
    pub(crate) on_disconnect: OnDisconnectArg,

    /// Keys that each worker uses [default: independent; with --ledger, disjoint]
    #[arg(long, value_enum, help_heading = "Client")]
    pub(crate) streams: Option<StreamsArg>,

    #[command(flatten)]
    pub(crate) fit: FitArgs,

    /// Consistency of reads [default: strong if the store guarantees it]
    #[arg(long, value_enum, help_heading = "Guarantees")]
    pub(crate) consistency: Option<ConsistencyArg>,

    /// Share of reads whose content is compared with the expected document
    #[arg(long, value_name = "SHARE", default_value = "0.01", help_heading = "Guarantees")]
    pub(crate) check: f64,

    /// Record every acknowledged version and read them all back at the end
    #[arg(long, help_heading = "Guarantees")]
    pub(crate) ledger: bool,

    /// Write the equivalent study to this file, then run it
    #[arg(long, value_name = "FILE")]
    pub(crate) save_study: Option<PathBuf>,

    /// Overwrite the --save-study file
    #[arg(long, requires = "save_study")]
    pub(crate) force: bool,

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

/// Describe a collection that generates documents like a sample
///
/// Reads documents of yours, and writes a study: fields, nesting, types, lengths, how many different values there are and
/// how often they repeat, how often fields are missing, and how far documents compress. The study contains numbers and
/// times from the sample, but no texts unless --keep-values is given.
#[derive(Debug, ClapArgs)]
pub(crate) struct InferArgs {
    /// Documents, one JSON object on each line: plain, gzip or zstd
    #[arg(required = true, value_name = "SAMPLE")]
    pub(crate) samples: Vec<PathBuf>,

    /// Name of the collection
    #[arg(long, value_name = "NAME", default_value = "docs")]
    pub(crate) collection: String,

    /// Write to this file instead of stdout
    #[arg(long, short, value_name = "FILE", alias = "out")]
    pub(crate) output: Option<PathBuf>,

    /// Overwrite the --output file
    #[arg(long, requires = "output")]
    pub(crate) force: bool,

    /// Use the sample's own texts where a field has at most 64 different ones; these texts are then in the study
    #[arg(long)]
    pub(crate) keep_values: bool,

    /// Compare generated documents with the sample instead of printing the study
    ///
    /// From 10,000 documents on, the generated ones are made from a random tenth of it, as many as the whole sample has:
    /// this shows whether the number of different values is right for ten times as many documents.
    #[arg(long)]
    pub(crate) check: bool,

    /// With --check: load the sample and the generated documents into this store, and compare index sizes and read times
    ///
    /// Indexes are made on up to 16 fields. At the end, Storebench removes what it loaded. Takes one sample file.
    #[arg(long, value_name = "URL", requires = "check")]
    pub(crate) store: Option<String>,

    /// With --check: seed of the random tenth of a large sample from which documents are made
    #[arg(long, value_name = "N", default_value = "1", requires = "check")]
    pub(crate) seed: u64,

    /// Print the comparison as one JSON document
    #[arg(long, requires = "check")]
    pub(crate) json: bool,
}

/// Make a trace from the logs of a store, to replay it
///
/// A trace has one line for each operation: time, op, key, client, and the size of the document if the log tells it. What
/// in the log is no operation on one document is counted, with the reason, on stderr. Clients become numbers.
#[derive(Debug, ClapArgs)]
pub(crate) struct TraceArgs {
    /// Log files, plain, gzip or zstd
    #[arg(required = true, value_name = "LOG")]
    pub(crate) logs: Vec<PathBuf>,

    /// Whose log it is
    #[arg(long, value_enum)]
    pub(crate) from: LogArg,

    /// The table, collection, database, key prefix or path that holds the documents [default: the only one in the log]
    #[arg(long, value_name = "NAME")]
    pub(crate) within: Option<String>,

    /// PostgreSQL: the column of the key [default: the one that statements compare, the first one that they insert]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) key: Option<String>,

    /// Write to this file instead of stdout: .jsonl or .csv
    #[arg(long, short, value_name = "FILE", alias = "out")]
    pub(crate) output: Option<PathBuf>,

    /// Overwrite the --output file
    #[arg(long, requires = "output")]
    pub(crate) force: bool,

    /// Replace each key by a hash, with a salt that is forgotten
    #[arg(long)]
    pub(crate) hash_keys: bool,

    /// Hash with the salt in this file, so that the same key has the same hash in other traces
    #[arg(long, value_name = "FILE", requires = "hash_keys")]
    pub(crate) salt_file: Option<PathBuf>,

    /// Keep the documents that were written, and not only their sizes
    #[arg(long, conflicts_with = "hash_keys")]
    pub(crate) bodies: bool,

    /// Take the operations of each key as those of one client
    ///
    /// For logs in which a proxy or a pool is the only client: each client sends one operation at a time.
    #[arg(long)]
    pub(crate) by_key: bool,
}

/// Whose log it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogArg {
    /// PostgreSQL's log with log_statement = 'all' or log_min_duration_statement = 0
    Postgres,
    /// Documents of MongoDB's profiler (system.profile) as JSON Lines
    Mongodb,
    /// What redis-cli MONITOR prints
    Redis,
    /// CouchDB's log, with a line for each request
    Couchdb,
    /// An access log of an HTTP server in the common or combined format
    Http,
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
    /// Two rounds or more; a short run is enough to begin with.
    #[arg(long, value_name = "RUN")]
    pub(crate) pilot: Option<PathBuf>,

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

/// Types of other crates as values on the command line, each with its help text.
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
    /// At random, as from many independent users
    Poisson,
});
words!(PacingArg for Pacing {
    /// Sleep; send operations scheduled within 100 µs together, up to 100 µs late
    Economical,
    /// Spin just before each scheduled start; takes one core per worker
    Precise,
});
words!(OnDisconnectArg for OnDisconnect {
    /// Reconnect and continue; count lost connections and failed operations
    GoOn,
    /// End the run, keep the results so far and exit with 3
    End,
});
words!(StreamsArg for Streams {
    /// Every worker draws from all keys
    Independent,
    /// Each worker draws from its own share of the keys
    Disjoint,
});
words!(ConsistencyArg for ReadConsistency {
    /// May miss recent writes
    StaleOk,
    /// Sees the writes of this session
    Session,
    /// Sees every acknowledged write
    Strong,
});

/// Parses `127.0.0.1:8080`, or a port alone.
fn live_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| {
        format!("invalid address `{text}`; expected an address of this machine with a port, such as 127.0.0.1:8080")
    })
}
