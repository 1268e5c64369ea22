//! From the logs that stores already write to traces: which operation touched which key, when, and for which client.
//!
//! A trace is what `storebench run` replays. What in a log is no operation on one key, such as a query over many, is
//! counted with its reason, never left out silently.
//!
//! - [`Source`]: whose log it is; each has a module, which knows the form of its lines and what its commands mean
//! - [`read`]: reads logs, and sorts what it found by time
//! - [`write`](Trace::write): JSON Lines or CSV; keys can be hashed

mod couchdb;
mod http;
mod lines;
mod mongodb;
mod mysql;
mod postgres;
mod redis;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use write::{Form, Hashing};

/// Whose log it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// PostgreSQL's log, with `log_statement = 'all'` or `log_min_duration_statement = 0`: text, JSON or CSV.
    Postgres,
    /// The general log of MariaDB or MySQL.
    Mysql,
    /// Documents of MongoDB's profiler (`system.profile`), as JSON Lines.
    Mongodb,
    /// What `redis-cli MONITOR` prints.
    Redis,
    /// CouchDB's log, with a line for each request.
    Couchdb,
    /// An access log of an HTTP server, in the common or the combined format.
    Http,
}

/// What to read from a log.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The table, collection, database, key prefix or path that holds the documents. Without it, the log must have only
    /// one.
    pub within: Option<String>,
    /// PostgreSQL, MariaDB, MySQL: the column of the key; default: the one that statements compare.
    pub key: Option<String>,
    /// Whether documents that were written are kept, and not only their sizes.
    pub bodies: bool,
    /// Whether the operations of each key count as one client: for logs where a proxy is the only one.
    pub by_key: bool,
    /// Whether errors must not name places that may contain keys.
    pub private: bool,
}

/// An operation on one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// When it began, in ns since any moment.
    pub at_ns: i64,
    /// `read`, `exists`, `insert`, `upsert`, `replace` or `delete`.
    pub op: &'static str,
    /// The key.
    pub key: String,
    /// The number of the client that asked for it.
    pub client: u32,
    /// The size of the document, if the log says it.
    pub size: Option<u64>,
    /// The document that was written, if it is kept.
    pub body: Option<String>,
}

/// Operations from logs.
#[derive(Debug, Default)]
pub struct Trace {
    /// In the order of their times.
    pub operations: Vec<Operation>,
    /// How many clients there were.
    pub clients: u32,
    /// What is not part of the trace: why, how often, and where first.
    pub left_out: BTreeMap<String, LeftOut>,
    /// What holds the documents.
    pub within: Option<String>,
    /// Whether the log has whole seconds only, so that the operations of a second were spread over it.
    pub spread: bool,
}

/// What is not part of a trace for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// How often.
    pub count: u64,
    /// The file and the line of the first one.
    pub first: String,
}

/// Why a log cannot be read.
#[derive(Debug)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// An operation as a log has it: the client by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Found {
    at_ns: i64,
    op: &'static str,
    /// What holds the document.
    within: String,
    /// PostgreSQL, MariaDB, MySQL: the column of the key; empty if it has no name.
    column: String,
    key: String,
    client: String,
    size: Option<u64>,
    body: Option<String>,
}

/// What is found in logs.
#[derive(Debug, Default)]
struct Finds {
    found: Vec<Found>,
    left_out: BTreeMap<String, LeftOut>,
    /// The file and the line that are being read.
    file: PathBuf,
    line: u64,
}

impl Finds {
    fn place(&self) -> String {
        format!("{}:{}", self.file.display(), self.line)
    }

    fn leave_out(&mut self, why: impl Into<String>) {
        let first = self.place();
        let left_out = self.left_out.entry(why.into()).or_insert(LeftOut { count: 0, first });
        left_out.count += 1;
    }

    /// Adds what a line has, or counts why it has nothing.
    fn add(&mut self, found: Result<Found, String>) {
        match found {
            Ok(found) => self.found.push(found),
            Err(why) => self.leave_out(why),
        }
    }

    fn wrong(&self, why: &str) -> Error {
        Error(format!("{}: {why}", self.place()))
    }
}

/// Reads logs, oldest first or not.
///
/// # Errors
/// A file that cannot be read, a line that is not of such a log, and a log without operations, or with documents in
/// several places of which none was chosen.
pub fn read(source: Source, files: &[PathBuf], options: &Options) -> Result<Trace, Error> {
    let mut finds = Finds::default();
    for file in files {
        finds.file.clone_from(file);
        finds.line = 0;
        match source {
            Source::Postgres => postgres::read(file, options, &mut finds)?,
            Source::Mysql => mysql::read(file, options, &mut finds)?,
            Source::Mongodb => each_line(file, &mut finds, |text, finds| mongodb::line(text, options, finds))?,
            Source::Redis => each_line(file, &mut finds, |text, finds| redis::line(text, options, finds))?,
            Source::Couchdb => each_line(file, &mut finds, couchdb::line)?,
            Source::Http => each_line(file, &mut finds, |text, finds| http::line(text, options, finds))?,
        }
    }
    chosen(source, finds, options)
}

fn each_line(
    file: &Path,
    finds: &mut Finds,
    mut each: impl FnMut(&str, &mut Finds) -> Result<(), Error>,
) -> Result<(), Error> {
    lines::each(file, finds, |text, finds| match std::str::from_utf8(text) {
        Ok("") => Ok(()),
        Ok(text) => each(text, finds),
        Err(_) => {
            finds.leave_out("the line is not UTF-8");
            Ok(())
        }
    })
}

/// The operations on documents in one place, in order.
fn chosen(source: Source, finds: Finds, options: &Options) -> Result<Trace, Error> {
    let Finds { found, mut left_out, .. } = finds;
    let mut places: BTreeMap<String, u64> = BTreeMap::new();
    found.iter().for_each(|one| *places.entry(one.within.clone()).or_default() += 1);
    let what = match source {
        Source::Postgres | Source::Mysql => "table",
        Source::Mongodb => "collection",
        Source::Redis => "key prefix",
        Source::Couchdb => "database",
        Source::Http => "path",
    };
    let within = match (&options.within, places.len()) {
        (Some(wanted), _) => {
            let short = |place: &str| place == wanted || place.rsplit('.').next() == Some(wanted);
            let fitting: Vec<String> = places.keys().filter(|place| short(place)).cloned().collect();
            if let [one] = fitting.as_slice() { Some(one.clone()) } else { Some(wanted.clone()) }
        }
        (None, 0 | 1) => places.keys().next().cloned(),
        (None, _) => {
            let mut most: Vec<(&String, &u64)> = places.iter().collect();
            most.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let shown: Vec<String> = most.iter().take(8).map(|(place, count)| format!("{place} ({count})")).collect();
            if options.private {
                return Err(Error(format!(
                    "the log has documents in {} places; name one with --within {what} (they are not shown, since keys are to \
                     be hashed)",
                    places.len()
                )));
            }
            return Err(Error(format!(
                "the log has documents in several places; name one with --within {what}: {}; the numbers are \
                 operations",
                shown.join(", ")
            )));
        }
    };
    let mut kept = Vec::with_capacity(found.len());
    for one in found {
        if Some(&one.within) == within.as_ref() {
            kept.push(one);
        } else {
            let why =
                if options.private { format!("another {what}") } else { format!("another {what}: {}", one.within) };
            left_out.entry(why).or_insert(LeftOut { count: 0, first: String::new() }).count += 1;
        }
    }
    if kept.is_empty() {
        let why = match left_out.iter().max_by_key(|(_, left)| left.count) {
            Some((why, left)) => format!("; most often ({}), {why}", left.count),
            None => String::new(),
        };
        return Err(Error(format!("the log has no operation on a single document{why}")));
    }
    one_column(&kept, options)?;
    let spread = kept.len() > 1 && kept.iter().all(|one| one.at_ns % SECOND_NS == 0);
    // Of operations at the same time, the order of the log counts.
    kept.sort_by_key(|one| one.at_ns);
    if spread {
        spread_seconds(&mut kept);
    }
    let mut numbers = BTreeMap::new();
    let operations = kept
        .into_iter()
        .map(|one| {
            let next = numbers.len() as u32 + 1;
            Operation {
                at_ns: one.at_ns,
                op: one.op,
                client: *numbers.entry(if options.by_key { one.key.clone() } else { one.client }).or_insert(next),
                key: one.key,
                size: one.size.or(one.body.as_ref().map(|body| body.len() as u64)),
                body: one.body.filter(|_| options.bodies),
            }
        })
        .collect();
    Ok(Trace { operations, clients: numbers.len() as u32, left_out, within, spread })
}

const SECOND_NS: i64 = 1_000_000_000;

/// Spreads the operations of each second evenly over it, in the order of the log.
fn spread_seconds(sorted: &mut [Found]) {
    for second in sorted.chunk_by_mut(|a, b| a.at_ns == b.at_ns) {
        let count = second.len() as i64;
        for (nth, one) in second.iter_mut().enumerate() {
            one.at_ns += SECOND_NS / count * nth as i64;
        }
    }
}

/// Refuses operations whose keys are in different columns: they would be taken for keys of one kind.
fn one_column(kept: &[Found], options: &Options) -> Result<(), Error> {
    let mut columns: BTreeMap<&str, u64> = BTreeMap::new();
    kept.iter().filter(|one| !one.column.is_empty()).for_each(|one| *columns.entry(&one.column).or_default() += 1);
    if columns.len() < 2 || options.key.is_some() {
        return Ok(());
    }
    let shown: Vec<String> = columns.iter().map(|(column, count)| format!("{column} ({count})")).collect();
    Err(Error(format!(
        "statements name documents by different columns; say which is the key with --key: {}; the numbers are operations",
        shown.join(", ")
    )))
}

/// A number of seconds with up to nine decimals, in ns.
fn seconds_ns(text: &str) -> Option<i64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || !decimals.bytes().chain(whole.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanos: String = decimals.chars().chain("000000000".chars()).take(9).collect();
    whole.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos.parse().ok()?)
}

/// A time in RFC 3339, in ns since 1970.
fn rfc3339_ns(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().and_then(|at| i64::try_from(at.as_nanosecond()).ok())
}
