//! Arguments of `bench`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use indexmap::IndexMap;
use storebench_engine::store::ReadConsistency;
use storebench_study::units::{ByteSize, Count, Span};
use storebench_study::workload::{ArrivalSpec, MixEntry, OnDisconnect, Pacing, Popularity, Streams};

use super::{EXIT_CODES, FitArgs, ResultArgs};
use crate::bench_study::{CompressText, WorkersText, parse_compress_to, parse_mix, parse_rate, parse_workers};

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
    #[arg(
        long,
        value_name = "SHARE",
        value_parser = parse_compress_to,
        conflicts_with = "from",
        help_heading = "Documents"
    )]
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
    #[arg(long, value_name = "OP=WEIGHT,…", value_parser = parse_mix, help_heading = "Work")]
    pub(crate) mix: Option<IndexMap<String, MixEntry>>,

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
    #[arg(long, value_name = "PER_SECOND", value_parser = parse_rate, help_heading = "Schedule")]
    pub(crate) rate: Option<f64>,

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
    #[arg(long, value_name = "N|auto", default_value = "2", value_parser = parse_workers, help_heading = "Client")]
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
