//! What may be typed after `copy`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use storebench_engine::store::Durability;
use storebench_study::units::{ByteSize, Count, Span};
use storebench_transfer::{ColumnTypes, Format, Verb, ViewKeys};

use super::{ColumnArgs, RecordArgs};

const EXIT_CODES: &str = "\
Exit codes:
  0    every record arrived, or no more than --max-errors did not
  1    more records did not arrive, a source is damaged, --verify found a difference, or the copy had to end
  2    bad input: nothing was written
  3    a store could not be reached; go on with --resume
  130  interrupted; go on with --resume";

/// Move documents between files and stores, in parallel, losing nothing
///
/// FROM and TO are each the URL of a store, a file (`.jsonl`, `.json`, `.csv`, `.tsv`, `.parquet`, `.arrow`; text also
/// packed as `.gz` or `.zst`; several by a pattern in quotes; a folder ends with `/`), or `-` for standard input
/// or output. Files may also be at `s3://`, `gs://`, `az://` or `hdfs://`, and be read from `https://`.
///
/// In files a record's key is its field `_id`, which is not part of the document; --key and --key-field say
/// otherwise. A record that does not arrive is in the file of rejects, with the reason. A copy that was
/// killed goes on with --resume.
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct CopyArgs {
    /// Where documents come from
    pub(crate) from: String,

    /// Where they go
    pub(crate) to: String,

    /// The collection to read: one that Storebench made, or what the store calls one of yours (a table,
    /// database, bucket, collection or key prefix) [default: the only one that there is]
    #[arg(long, value_name = "NAME", help_heading = "Source")]
    pub(crate) from_collection: Option<String>,

    /// The field or column that holds keys in your own collection, in stores where that is not fixed
    #[arg(long, value_name = "FIELD", help_heading = "Source")]
    pub(crate) from_key: Option<String>,

    /// The field or column that holds documents in your own collection, in stores where that is not fixed
    #[arg(long, value_name = "FIELD", help_heading = "Source")]
    pub(crate) from_body: Option<String>,

    /// Read the rows of an SQL query instead of a collection: each column is a field, and --key names what is
    /// the key unless a column is named `_id`
    #[arg(
        long,
        value_name = "SQL",
        conflicts_with_all = ["from_collection", "from_key", "from_body", "view", "keys"],
        help_heading = "Source"
    )]
    pub(crate) query: Option<String>,

    /// Read the documents of a view's rows instead of a whole collection
    #[arg(long, value_name = "DESIGN/VIEW", help_heading = "Source")]
    pub(crate) view: Option<String>,

    /// Keys of the view's rows, as JSON, several separated by `;`; a range such as ((00-19)) stands for each of
    /// its numbers, as wide as they are written, as in '["20140401",((00-19))]' or '"page-((1-400))"'
    #[arg(long, value_name = "KEYS", requires = "view", help_heading = "Source")]
    pub(crate) keys: Option<ViewKeys>,

    /// How records stand in the files that are read: jsonl, json, csv, tsv, parquet or arrow [default: by their names]
    #[arg(long, value_name = "FORMAT", help_heading = "Source")]
    pub(crate) from_format: Option<Format>,

    /// Types of CSV and TSV columns that are not text: `price=number,year=integer` (also boolean, json, and overflow for a
    /// column that `copy` made)
    #[arg(long, value_name = "TYPES", help_heading = "Source")]
    pub(crate) types: Option<ColumnTypes>,

    /// What separates the fields of CSV files: one character, or `tab` [default: a comma; of TSV a tab]
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter, help_heading = "Source")]
    pub(crate) delimiter: Option<u8>,

    /// Leave behind that documents expire, where the source tells of it (Redis); without it they expire in the
    /// target, too, or do not arrive where that knows no expiry
    #[arg(long, help_heading = "Source")]
    pub(crate) drop_expiry: bool,

    /// Leave attachments behind; without it a document that has some does not arrive
    #[arg(long, help_heading = "Source")]
    pub(crate) drop_attachments: bool,

    /// The collection to write [default: the name of the source's collection or file]
    #[arg(long, value_name = "NAME", help_heading = "Target")]
    pub(crate) to_collection: Option<String>,

    /// Write into a collection of yours, which --to-collection names as the store does (a table, database,
    /// bucket, collection or key prefix): nothing is made, emptied or marked there
    #[arg(long, requires = "to_collection", help_heading = "Target")]
    pub(crate) into_existing: bool,

    /// The field or column that gets keys in your own collection, in stores where that is not fixed
    #[arg(long, value_name = "FIELD", requires = "into_existing", help_heading = "Target")]
    pub(crate) to_key: Option<String>,

    /// The field or column that gets documents in your own collection, in stores where that is not fixed
    #[arg(long, value_name = "FIELD", requires = "into_existing", help_heading = "Target")]
    pub(crate) to_body: Option<String>,

    /// What is done with each record
    #[arg(long, value_name = "OPERATION", default_value = "upsert", value_parser = verb(), help_heading = "Target")]
    pub(crate) op: Verb,

    /// What an acknowledged write survives, such as none, os, fsync, majority [default: fsync, or the most that
    /// the store can guarantee of it]
    #[arg(long, value_name = "LEVEL", help_heading = "Target")]
    pub(crate) durability: Option<Durability>,

    /// How records stand in the file that is written: jsonl, json, csv, tsv, parquet or arrow [default: by its name]
    #[arg(long, value_name = "FORMAT", help_heading = "Target")]
    pub(crate) to_format: Option<Format>,

    /// The field that gets the key in files [default: _id]
    #[arg(long, value_name = "FIELD", conflicts_with = "no_key_field", help_heading = "Target")]
    pub(crate) key_field: Option<String>,

    /// Leave keys out of files
    #[arg(long, help_heading = "Target")]
    pub(crate) no_key_field: bool,

    #[command(flatten)]
    pub(crate) records: RecordArgs,

    #[command(flatten)]
    pub(crate) columns: ColumnArgs,

    /// Workers, each with connections of its own [default: one for each processor]
    #[arg(
        long = "workers",
        visible_alias = "parallel",
        short,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1024),
        help_heading = "Speed"
    )]
    pub(crate) parallel: Option<u32>,

    /// Records in one bulk request, at most; 1000, and 4000 where an empty collection of PostgreSQL or MongoDB is filled
    /// by upserts
    #[arg(long, value_name = "COUNT", help_heading = "Speed")]
    pub(crate) batch: Option<Count>,

    /// Bytes in one bulk request, at most, unless one record holds more; 1MiB, and 4MiB there
    #[arg(long, value_name = "SIZE", help_heading = "Speed")]
    pub(crate) batch_bytes: Option<ByteSize>,

    /// Requests in flight on each worker's connection
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = "Speed")]
    pub(crate) in_flight: u32,

    /// Documents per second, at most, over all workers
    #[arg(long, value_name = "RATE", help_heading = "Speed")]
    pub(crate) rate_docs: Option<Count>,

    /// Bytes of documents per second, at most, over all workers
    #[arg(long, value_name = "SIZE", help_heading = "Speed")]
    pub(crate) rate_bytes: Option<ByteSize>,

    /// How long one try of a request may take
    #[arg(long, value_name = "TIME", default_value = "30s", help_heading = "Failures")]
    pub(crate) timeout: Span,

    /// Tries of one request that fails for now, the first included
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Failures")]
    pub(crate) tries: u32,

    /// The longest wait between two tries
    #[arg(long, value_name = "TIME", default_value = "1s", help_heading = "Failures")]
    pub(crate) retry_cap: Span,

    /// No further try begins after so long
    #[arg(long, value_name = "TIME", default_value = "60s", help_heading = "Failures")]
    pub(crate) retry_total: Span,

    /// The file of records that did not arrive, one JSON object a line [default: rejects.jsonl in the copy's
    /// folder]
    #[arg(long, value_name = "FILE", help_heading = "Failures")]
    pub(crate) rejects: Option<PathBuf>,

    /// So many records may be rejected and the exit code still be 0; the copy goes on to its end either way
    #[arg(long, value_name = "COUNT", default_value = "0", help_heading = "Failures")]
    pub(crate) max_errors: Count,

    /// Read back what was written, and compare it with what was read
    #[arg(long, help_heading = "Failures")]
    pub(crate) verify: bool,

    /// Continue an unfinished copy; without one, start it
    #[arg(long, conflicts_with = "restart", help_heading = "Failures")]
    pub(crate) resume: bool,

    /// Begin anew where a copy did not end
    #[arg(long, help_heading = "Failures")]
    pub(crate) restart: bool,

    /// Folder that gets a folder for each copy
    #[arg(long, value_name = "DIR", default_value = "storebench-runs")]
    pub(crate) out: PathBuf,

    /// Overwrite the target file, the parts in the target folder, and the file of --rejects
    #[arg(long)]
    pub(crate) force: bool,

    /// Begin even if the disk is too small by an estimate
    #[arg(long)]
    pub(crate) anyway: bool,

    /// Only look: what would be read, in how many parts, and where it would go
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print the result as one JSON document instead of one line
    #[arg(long)]
    pub(crate) json: bool,

    /// No progress on stderr; the result is printed still
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// One of some names, each with what it stands for and a line of help.
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

fn verb() -> impl TypedValueParser<Value = Verb> {
    one_of(Verb::all().map(|(verb, help)| (verb, verb.name(), help)))
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [one] if one.is_ascii() && !matches!(one, b'"' | b'\n' | b'\r') => Ok(*one),
        _ => Err("a delimiter is one ASCII character but the quote, such as ';', or tab".to_owned()),
    }
}
