//! Arguments of `trace`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use storebench_traffic::Source;

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

    /// PostgreSQL, MySQL: the column of the key [default: the one that statements compare, the first one that they insert]
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

words!(LogArg for Source {
    /// PostgreSQL's log with log_statement = 'all' or log_min_duration_statement = 0
    Postgres,
    /// The general log of MariaDB or MySQL
    Mysql,
    /// Documents of MongoDB's profiler (system.profile) as JSON Lines
    Mongodb,
    /// What redis-cli MONITOR prints
    Redis,
    /// CouchDB's log, with a line for each request
    Couchdb,
    /// An access log of an HTTP server in the common or combined format
    Http,
});
