//! Arguments of `copy`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use storebench_engine::store::DurabilityRequest;
use storebench_report::metrics::Destination;
use storebench_study::units::{ByteSize, Count, PerSecond, Span};
use storebench_transfer::{ColumnTypes, Escapes, Format, RecordOp, ViewKeys};

use super::{ColumnArgs, RecordArgs};

const EXIT_CODES: &str = "\
Exit codes:
  0    every record arrived, or at most --max-errors were rejected
  1    more records were rejected, a source is damaged, --verify or a store's own count found a difference, or the copy
       failed
  2    invalid input; nothing was written
  3    store unreachable; use --resume to continue
  130  interrupted; use --resume to continue";

/// Copy documents between files and stores, in parallel and without losing any
///
/// FROM and TO are each the URL of a store, a file, or `-` for standard input or output. Files are `.jsonl`, `.json`,
/// `.csv`, `.tsv`, `.parquet` or `.arrow`; text can be compressed as `.gz` or `.zst`. To name several files, write a
/// pattern in quotes, or a folder that ends with `/`. Files can also be at `s3://`, `gs://`, `az://` or `hdfs://`, and
/// can be read from `https://`.
///
/// In files, the key of a record is its field `_id`, which is not part of the document. Change this with --key and
/// --key-field. Records that do not arrive are in the rejects file, with the reason. To continue a copy that was
/// killed, use --resume.
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct CopyArgs {
    /// Source: the URL of a store, files, or `-` for standard input
    pub(crate) from: String,

    /// Target: the URL of a store, a file or folder, or `-` for standard output
    pub(crate) to: String,

    /// Collection to read [default: the only one]
    ///
    /// Name a collection that Storebench created, or your own table, database, bucket, collection or key prefix as the
    /// store calls it.
    #[arg(long, value_name = "NAME", help_heading = "Source")]
    pub(crate) from_collection: Option<String>,

    /// Field or column with the key in your own collection, unless the store fixes it
    #[arg(long, value_name = "FIELD", help_heading = "Source")]
    pub(crate) from_key: Option<String>,

    /// Field or column with the document in your own collection, unless the store fixes it
    #[arg(long, value_name = "FIELD", help_heading = "Source")]
    pub(crate) from_body: Option<String>,

    /// Read the rows of an SQL query instead of a collection
    ///
    /// Each column is a field. --key names the key, unless a column is named `_id`.
    #[arg(
        long,
        value_name = "SQL",
        conflicts_with_all = ["from_collection", "from_key", "from_body", "view", "keys"],
        help_heading = "Source"
    )]
    pub(crate) query: Option<String>,

    /// Read the documents of a view's rows instead of a collection
    #[arg(long, value_name = "DESIGN/VIEW", help_heading = "Source")]
    pub(crate) view: Option<String>,

    /// Keys of the view's rows, as JSON, separated by `;`
    ///
    /// A range such as ((00-19)) means each of its numbers, as wide as written. Examples: '["20140401",((00-19))]' and
    /// '"page-((1-400))"'.
    #[arg(long, value_name = "KEYS", requires = "view", help_heading = "Source")]
    pub(crate) keys: Option<ViewKeys>,

    /// Format of the source files: jsonl, json, csv, tsv, parquet or arrow [default: by their names]
    #[arg(long, value_name = "FORMAT", help_heading = "Source")]
    pub(crate) from_format: Option<Format>,

    /// Types of CSV and TSV columns that are not text, such as `price=number,year=integer`
    ///
    /// Other types are boolean, json, and overflow for a column that `copy` created.
    #[arg(long, value_name = "TYPES", help_heading = "Source")]
    pub(crate) types: Option<ColumnTypes>,

    /// Field separator of CSV files: one character, or `tab` [default: a comma; for TSV a tab]
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter, help_heading = "Source")]
    pub(crate) delimiter: Option<u8>,

    /// How fields of TSV and CSV files are escaped: backslash or none
    ///
    /// `backslash` reads files as PostgreSQL's COPY and MySQL write them. Without this option, quotes are read, a
    /// backslash is a plain character, and a row with a field `\N` is rejected, because it may be null.
    #[arg(long, value_name = "HOW", value_parser = one_of(Escapes::ALL), help_heading = "Source")]
    pub(crate) escapes: Option<Escapes>,

    /// Do not add fields that the folders of the source files name, such as `year=2024/month=01/`
    #[arg(long, help_heading = "Source")]
    pub(crate) no_partitions: bool,

    /// Drop the expiry of documents, if the source reports it (such as Redis)
    ///
    /// Without this option, documents also expire in the target, or are rejected if the target does not support expiry.
    #[arg(long, help_heading = "Source")]
    pub(crate) drop_expiry: bool,

    /// Drop attachments
    ///
    /// Without this option, documents that have attachments are rejected.
    #[arg(long, help_heading = "Source")]
    pub(crate) drop_attachments: bool,

    /// Collection to write [default: the name of the source's collection or file]
    #[arg(long, value_name = "NAME", help_heading = "Target")]
    pub(crate) to_collection: Option<String>,

    /// Write into your own collection, given by --to-collection
    ///
    /// Name the table, database, bucket, collection or key prefix as the store calls it. Storebench does not create,
    /// empty or mark anything there.
    #[arg(long, requires = "to_collection", help_heading = "Target")]
    pub(crate) into_existing: bool,

    /// Field or column that receives the key in your own collection, unless the store fixes it
    #[arg(long, value_name = "FIELD", requires = "into_existing", help_heading = "Target")]
    pub(crate) to_key: Option<String>,

    /// Field or column that receives the document in your own collection, unless the store fixes it
    #[arg(long, value_name = "FIELD", requires = "into_existing", help_heading = "Target")]
    pub(crate) to_body: Option<String>,

    /// Operation for each record
    #[arg(long, value_name = "OPERATION", default_value = "upsert", value_parser = verb(), help_heading = "Target")]
    pub(crate) op: RecordOp,

    /// Durability of acknowledged writes, at least: none, os, fsync or majority [default: fsync, or the strongest
    /// below it that the store guarantees]
    ///
    /// The store gives the weakest durability that it has at or above this one. `default` is the store as it is
    /// shipped. A table is written as in a study file: '{ acknowledged_by = 2 }', '{ exactly = "os" }'.
    #[arg(long, value_name = "LEVEL", help_heading = "Target")]
    pub(crate) durability: Option<DurabilityRequest>,

    /// Format of the target file: jsonl, json, csv, tsv, parquet or arrow [default: by its name]
    #[arg(long, value_name = "FORMAT", help_heading = "Target")]
    pub(crate) to_format: Option<Format>,

    /// Field that receives the key in files [default: _id]
    #[arg(long, value_name = "FIELD", conflicts_with = "no_key_field", help_heading = "Target")]
    pub(crate) key_field: Option<String>,

    /// Omit keys from files
    #[arg(long, help_heading = "Target")]
    pub(crate) no_key_field: bool,

    #[command(flatten)]
    pub(crate) records: RecordArgs,

    #[command(flatten)]
    pub(crate) columns: ColumnArgs,

    /// Number of workers, each with its own connections [default: one per processor]
    #[arg(
        long = "workers",
        visible_alias = "parallel",
        short,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1024),
        help_heading = "Speed"
    )]
    pub(crate) parallel: Option<u32>,

    /// Maximum records per bulk request [default: 1000; 4000 for upserts into an empty collection of
    /// PostgreSQL or MongoDB]
    #[arg(long, value_name = "COUNT", help_heading = "Speed")]
    pub(crate) batch: Option<Count>,

    /// Maximum bytes per bulk request, unless one record is larger [default: 1MiB; 4MiB where --batch
    /// defaults to 4000]
    #[arg(long, value_name = "SIZE", help_heading = "Speed")]
    pub(crate) batch_bytes: Option<ByteSize>,

    /// Requests in flight per worker connection
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = "Speed")]
    pub(crate) in_flight: u32,

    /// Maximum documents per second over all workers, such as 1000, 20k or 0.4
    #[arg(long, value_name = "RATE", value_parser = docs_per_s, help_heading = "Speed")]
    pub(crate) rate_docs: Option<PerSecond>,

    /// Maximum bytes of documents per second over all workers
    #[arg(long, value_name = "SIZE", value_parser = bytes_per_s, help_heading = "Speed")]
    pub(crate) rate_bytes: Option<ByteSize>,

    /// Timeout of one attempt of a request
    #[arg(long, value_name = "TIME", default_value = "30s", help_heading = "Failures")]
    pub(crate) timeout: Span,

    /// Maximum attempts for a request with a temporary failure, including the first
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Failures")]
    pub(crate) tries: u32,

    /// Longest wait between two attempts
    #[arg(long, value_name = "TIME", default_value = "1s", help_heading = "Failures")]
    pub(crate) retry_cap: Span,

    /// Time after which no further attempt starts
    #[arg(long, value_name = "TIME", default_value = "60s", help_heading = "Failures")]
    pub(crate) retry_total: Span,

    /// File for records that did not arrive, one JSON object per line [default: rejects.jsonl in the copy's
    /// folder]
    #[arg(long, value_name = "FILE", help_heading = "Failures")]
    pub(crate) rejects: Option<PathBuf>,

    /// Number of rejected records that still gives exit code 0
    ///
    /// The copy continues to its end either way.
    #[arg(long, value_name = "COUNT", default_value = "0", help_heading = "Failures")]
    pub(crate) max_errors: Count,

    /// Read back what was written and compare it with what was read
    #[arg(long, help_heading = "Failures")]
    pub(crate) verify: bool,

    /// Continue an unfinished copy, or start one if there is none
    #[arg(long, conflicts_with = "restart", help_heading = "Failures")]
    pub(crate) resume: bool,

    /// Start over instead of continuing an unfinished copy
    #[arg(long, help_heading = "Failures")]
    pub(crate) restart: bool,

    /// Folder in which to create a folder for each copy
    #[arg(long, value_name = "DIR", default_value = "storebench-runs")]
    pub(crate) out: PathBuf,

    /// Overwrite the target file, the parts in the target folder, and the --rejects file
    #[arg(long)]
    pub(crate) force: bool,

    /// Start even if the estimated disk space is too small
    #[arg(long)]
    pub(crate) anyway: bool,

    /// Show what would be read, in how many parts, and where it would go; copy nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print the result as one JSON document instead of one line
    #[arg(long)]
    pub(crate) json: bool,

    /// Serve metrics for Prometheus during the copy at this address, or push them to otlp+http://HOST:PORT
    ///
    /// A port alone uses the loopback interface, such as 9464 for http://127.0.0.1:9464/metrics. See docs/metrics.md.
    #[arg(long, value_name = "[IP:]PORT|URL", value_parser = super::metrics_destination)]
    pub(crate) metrics: Option<Destination>,

    /// Do not show progress on stderr; still print the result
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// A parser that accepts one of several names. Each has a value and a line of help.
pub(super) fn one_of<T: Copy + Send + Sync + 'static>(
    all: impl IntoIterator<Item = (T, &'static str, &'static str)>,
) -> impl TypedValueParser<Value = T> {
    let all: Vec<_> = all.into_iter().collect();
    let names = all.iter().map(|(_, name, help)| PossibleValue::new(*name).help(*help));
    let names = PossibleValuesParser::new(names.collect::<Vec<_>>());
    names.try_map(move |typed: String| {
        let found = all.iter().find(|(_, name, _)| *name == typed);
        found.map(|(value, ..)| *value).ok_or_else(|| format!("unknown name `{typed}`"))
    })
}

/// A rate above 0.
fn docs_per_s(text: &str) -> Result<PerSecond, String> {
    match text.parse::<PerSecond>() {
        Ok(rate) if rate.0 > 0.0 => Ok(rate),
        Ok(_) => Err(format!("`{text}` lets nothing pass; give a rate above 0")),
        Err(wrong) => Err(wrong.to_string()),
    }
}

fn bytes_per_s(text: &str) -> Result<ByteSize, String> {
    match text.parse::<ByteSize>().map_err(|e| e.to_string())? {
        size if size.bytes() > 0 => Ok(size),
        _ => Err(format!("`{text}` lets nothing pass; give a rate above 0")),
    }
}

fn verb() -> impl TypedValueParser<Value = RecordOp> {
    one_of(RecordOp::all().map(|(verb, help)| (verb, verb.name(), help)))
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [one] if one.is_ascii() && !matches!(one, b'"' | b'\n' | b'\r') => Ok(*one),
        _ => Err("expected `tab`, or one ASCII character other than the quote, such as ';'".to_owned()),
    }
}
