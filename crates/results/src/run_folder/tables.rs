//! The tables of a run folder: files of JSON lines to which each phase adds its rows.
//!
//! The rows of a phase are one gzip member. It is appended in one write, and the system decides when to store it. So a
//! phase costs only what its own rows cost, however long the run. No sync between two phases disturbs the disk, which
//! may be under test. A gzip file may hold several members, so every reader of JSON lines can read it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;
use storebench_engine::measure::{Label, PhaseRecord, Tally};

use super::phase::Percentiles;

/// A table of a run folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// One row for each interval and operation.
    Intervals,
    /// This process, every 17 ms.
    Resources,
    /// What servers, the machine and the store's folder used, every second: a row for each figure.
    ServerResources,
    /// What the store reported about itself: a row for each figure.
    StoreStats,
}

impl Table {
    /// Every table.
    pub const ALL: [Self; 4] = [Self::Intervals, Self::Resources, Self::ServerResources, Self::StoreStats];

    /// The name of its file, without the extension.
    pub fn name(self) -> &'static str {
        match self {
            Self::Intervals => "intervals",
            Self::Resources => "resources",
            Self::ServerResources => "server_resources",
            Self::StoreStats => "store_stats",
        }
    }

    /// The file in a run folder.
    pub fn file(self) -> String {
        format!("{}.jsonl.gz", self.name())
    }
}

/// What a column of a table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Whole numbers.
    Integer,
    /// Numbers.
    Number,
    /// Text.
    Text,
}

type Count = (&'static str, fn(&Tally) -> u64);
const COUNTS: [Count; 11] = [
    ("succeeded", |of| of.succeeded),
    ("misses", |of| of.missed),
    ("errors", Tally::errors),
    ("timed_out", |of| of.timed_out),
    ("unfinished", |of| of.unfinished),
    ("retries", |of| of.retries),
    ("conflicts", |of| of.conflicts),
    ("documents", |of| of.documents),
    ("written_bytes", |of| of.bytes_written),
    ("read_bytes", |of| of.bytes_read),
    ("wrong", |of| of.wrong),
];

/// Names of the series of times. The last one covers the whole interval and is the same in each of its rows.
const SERIES: [&str; 5] = ["response", "service", "failed", "client_queueing", "send_delay"];

type Quantile = (&'static str, fn(&Percentiles) -> Option<u64>);
const QUANTILES: [Quantile; 5] =
    [("p50", |of| of.p50), ("p90", |of| of.p90), ("p99", |of| of.p99), ("p99_9", |of| of.p99_9), ("max", |of| of.max)];

const OF_INTERVALS: [&str; 5] = ["cpu_ns", "spin_ns", "run_queue_ns", "disconnects", "splits"];

impl Table {
    /// Its columns by name, in order.
    pub fn columns(self) -> Vec<(String, Column)> {
        let mut columns = vec![("trial".to_owned(), Column::Integer)];
        let mut add = |column, names: &[&str]| columns.extend(names.iter().map(|name| ((*name).to_owned(), column)));
        add(Column::Text, &["store", "phase", "pass"]);
        match self {
            Self::Intervals => {
                add(Column::Integer, &["interval", "from_ns", "to_ns"]);
                add(Column::Text, &["op"]);
                add(Column::Integer, &COUNTS.map(|(name, _)| name));
                for series in SERIES {
                    for (quantile, _) in QUANTILES {
                        add(Column::Integer, &[&format!("{series}_{quantile}_ns")]);
                    }
                    add(Column::Number, &[&format!("{series}_mean_ns")]);
                }
                add(Column::Integer, &OF_INTERVALS);
            }
            Self::Resources => add(Column::Integer, &["at_ns", "rss_bytes", "process_cpu_ns", "lateness_ns"]),
            Self::ServerResources | Self::StoreStats => {
                add(Column::Integer, &["at_ns"]);
                if self == Self::StoreStats {
                    add(Column::Integer, &["took_ns"]);
                }
                add(Column::Text, &["figure"]);
                add(Column::Number, &["value"]);
            }
        }
        columns
    }
}

/// What a row belongs to.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct RowKey<'a> {
    pub(super) trial: u32,
    pub(super) store: &'a str,
    pub(super) phase: &'a str,
    pub(super) pass: &'a str,
}

#[derive(Debug, Serialize)]
struct Row<'a, R> {
    #[serde(flatten)]
    place: RowKey<'a>,
    #[serde(flatten)]
    row: R,
}

/// One figure at one moment. Names of counters end in `_total`.
#[derive(Debug, Serialize)]
pub struct FigureRow<'a> {
    /// When, in ns from the phase's start.
    pub at_ns: u64,
    /// How long the answer took, for figures that a store reports about itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ns: Option<u64>,
    /// Its name.
    pub figure: &'a str,
    /// Its value.
    pub value: f64,
}

/// The rows of a phase in each table, as gzip members.
pub(super) fn members<'a>(
    place: RowKey<'_>,
    record: &PhaseRecord,
    used: impl IntoIterator<Item = FigureRow<'a>>,
) -> io::Result<[(Table, Vec<u8>); 4]> {
    let resources = record.resources.iter().map(|s| {
        serde_json::json!({
            "at_ns": s.at_ns,
            "rss_bytes": s.rss_bytes,
            "process_cpu_ns": s.cpu_ns,
            "lateness_ns": s.lateness_ns,
        })
    });
    let told = record.store_stats.samples.iter().flat_map(|sample| {
        let (at_ns, took_ns) = (sample.at_ns, Some(sample.took_ns));
        sample.figures.iter().map(move |(figure, value)| FigureRow { at_ns, took_ns, figure, value: *value })
    });
    Ok([
        (Table::Intervals, packed(intervals(record).map(|row| Row { place, row }))?),
        (Table::Resources, packed(resources.map(|row| Row { place, row }))?),
        (Table::ServerResources, packed(used.into_iter().map(|row| Row { place, row }))?),
        (Table::StoreStats, packed(told.map(|row| Row { place, row }))?),
    ])
}

/// Rows as a gzip member. Empty without rows.
pub(super) fn packed<R: Serialize>(rows: impl Iterator<Item = R>) -> io::Result<Vec<u8>> {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return Ok(Vec::new());
    }
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    for row in rows {
        serde_json::to_writer(&mut out, &row)?;
        out.write_all(b"\n")?;
    }
    out.finish()
}

fn intervals(record: &PhaseRecord) -> impl Iterator<Item = serde_json::Map<String, serde_json::Value>> {
    record.intervals.iter().flat_map(|interval| {
        let seen = interval.record();
        let of = |(label, tally): (&Label, &Tally)| {
            let mut row = serde_json::Map::new();
            row.insert("interval".into(), interval.number.into());
            row.insert("from_ns".into(), interval.from_ns.into());
            row.insert("to_ns".into(), interval.to_ns.into());
            row.insert("op".into(), label.name.clone().into());
            for (name, count) in COUNTS {
                row.insert(name.into(), count(tally).into());
            }
            let series =
                [&tally.response, &tally.service, &tally.failed_time, &tally.client_queueing, &seen.send_delay];
            for (series, histogram) in SERIES.into_iter().zip(series) {
                let found = Percentiles::of(histogram);
                for (quantile, value) in QUANTILES {
                    row.insert(format!("{series}_{quantile}_ns"), value(&found).into());
                }
                row.insert(format!("{series}_mean_ns"), found.mean.into());
            }
            let connections = seen.connections;
            let whole = [seen.cpu_ns, seen.spin_ns, seen.run_queue_ns, connections.disconnects, connections.splits];
            for (name, count) in OF_INTERVALS.into_iter().zip(whole) {
                row.insert(name.into(), count.into());
            }
            row
        };
        record.labels.iter().zip(&seen.ops).map(of).collect::<Vec<_>>()
    })
}

/// Appends a member to a table. If that fails, the table is unchanged.
pub(super) fn append(path: &Path, member: &[u8]) -> io::Result<()> {
    let mut file = File::options().create(true).append(true).open(path)?;
    let length = file.metadata()?.len();
    file.write_all(member).inspect_err(|_| {
        // A torn member would hide those that follow.
        let _ = file.set_len(length);
    })
}

/// Calls `each` with every row of a table as JSON, in order. A missing file has no rows. An end that was torn by a
/// crash is left out.
///
/// # Errors
/// The file cannot be read, or is damaged before its end.
pub fn lines_of(path: &Path, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut lines = BufReader::with_capacity(1 << 16, MultiGzDecoder::new(BufReader::with_capacity(1 << 16, file)));
    let mut line = Vec::new();
    loop {
        line.clear();
        match lines.read_until(b'\n', &mut line) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
            Ok(_) if line.last() != Some(&b'\n') => return Ok(()),
            Ok(_) => each(&line)?,
        }
    }
}

/// The rows of a table, deserialized; see [`lines_of`].
///
/// # Errors
/// As [`lines_of`], or a row does not fit the type.
pub fn rows_of<R: DeserializeOwned>(path: &Path) -> io::Result<Vec<R>> {
    let mut rows = Vec::new();
    lines_of(path, |line| {
        rows.push(serde_json::from_slice(line).map_err(|e| io::Error::other(format!("row {}: {e}", rows.len() + 1)))?);
        Ok(())
    })?;
    Ok(rows)
}

/// A table with the rows of these trials only, as one member. `None` if there is no such file.
pub(super) fn of_trials(path: &Path, trials: &[u32]) -> io::Result<Option<Vec<u8>>> {
    #[derive(serde::Deserialize)]
    struct Of {
        trial: u32,
    }
    if !path.exists() {
        return Ok(None);
    }
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    lines_of(path, |line| {
        let Of { trial } = serde_json::from_slice(line)?;
        if trials.contains(&trial) { out.write_all(line) } else { Ok(()) }
    })?;
    out.finish().map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::fixture;

    const PLACE: RowKey<'static> = RowKey { trial: 1, store: "sqlite", phase: "steady", pass: "measured" };

    fn read(record: &PhaseRecord, table: Table) -> Vec<Value> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(table.file());
        for (of, member) in members(PLACE, record, []).unwrap() {
            if of == table {
                append(&path, &member).unwrap();
            }
        }
        rows_of(&path).unwrap()
    }

    #[test]
    fn the_tables_read_back() {
        let record = fixture::open_loop();
        let rows = read(&record, Table::Intervals);
        assert_eq!(rows.len(), record.intervals.len() * record.labels.len());
        let succeeded: u64 = rows.iter().map(|row| row["succeeded"].as_u64().unwrap()).sum();
        assert_eq!(succeeded, record.operations());
        // Percentiles are the interval's own, from its merged histogram.
        let own = record.intervals[0].record().ops[0].response.value_at_quantile(0.99);
        assert_eq!(rows[0]["response_p99_ns"].as_u64(), Some(own));
        assert_eq!(read(&record, Table::Resources).len(), record.resources.len());
        let told = read(&record, Table::StoreStats);
        let figures: usize = record.store_stats.samples.iter().map(|s| s.figures.len()).sum();
        assert!(figures > 0 && told.len() == figures);
        let names: Vec<&String> = told[0].as_object().unwrap().keys().collect();
        assert_eq!(names, ["trial", "store", "phase", "pass", "at_ns", "took_ns", "figure", "value"]);
        assert_eq!(told[0]["value"].as_f64().unwrap(), record.store_stats.samples[0].figures[0].1);
    }

    #[test]
    fn columns_are_those_of_the_rows() {
        let used = FigureRow { at_ns: 1, took_ns: None, figure: "store.rss_bytes", value: 2.0 };
        for (table, member) in members(PLACE, &fixture::open_loop(), [used]).unwrap() {
            let dir = tempfile::tempdir().unwrap();
            append(&dir.path().join("t"), &member).unwrap();
            let rows: Vec<Value> = rows_of(&dir.path().join("t")).unwrap();
            let names: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
            let columns = table.columns();
            assert_eq!(names, columns.iter().map(|(name, _)| name).collect::<Vec<_>>(), "{table:?}");
            for (name, column) in &columns {
                let fits = |value: &Value| match column {
                    Column::Integer => value.is_u64(),
                    Column::Number => value.is_number(),
                    Column::Text => value.is_string(),
                };
                assert!(rows.iter().all(|row| row[name].is_null() || fits(&row[name])), "{table:?} {name}");
            }
        }
    }

    #[test]
    fn a_series_that_does_not_exist_is_null() {
        let rows = read(&fixture::closed_loop(), Table::Intervals);
        assert!(rows.iter().all(|row| row["response_p50_ns"].is_null()), "{rows:?}");
        assert!(rows.iter().any(|row| !row["service_p50_ns"].is_null()));
    }

    #[test]
    fn phases_follow_each_other_and_a_torn_end_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(Table::Resources.file());
        let member = |trial| {
            let place = RowKey { trial, ..PLACE };
            packed([1, 2].into_iter().map(|at| Row { place, row: serde_json::json!({"at": at}) })).unwrap()
        };
        append(&path, &member(1)).unwrap();
        append(&path, &member(2)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let trials =
            || rows_of::<Value>(&path).unwrap().iter().map(|row| row["trial"].as_u64().unwrap()).collect::<Vec<_>>();
        assert_eq!(trials(), [1, 1, 2, 2]);
        for cut in member(1).len()..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(trials()[..2], [1, 1], "cut at {cut}");
        }
        std::fs::write(&path, &whole[..whole.len() - 9]).unwrap();
        let kept = of_trials(&path, &[1]).unwrap().unwrap();
        std::fs::write(&path, kept).unwrap();
        append(&path, &member(3)).unwrap();
        assert_eq!(trials(), [1, 1, 3, 3]);
        assert_eq!(of_trials(&dir.path().join("none"), &[1]).unwrap(), None);
    }

    #[test]
    fn damage_before_the_end_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.jsonl.gz");
        std::fs::write(&path, "no gzip at all, but long enough to be some").unwrap();
        assert!(rows_of::<Value>(&path).is_err());
    }
}
