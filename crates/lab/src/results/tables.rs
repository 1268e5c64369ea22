//! The tables of a run: `intervals.parquet`, `resources.parquet`, `server_resources.parquet` and `store_stats.parquet`.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use storebench_core::measure::PhaseRecord;

use super::earlier::Earlier;
use super::gather::rfc3339;
use super::model::Percentiles;
use super::resources::{UseRows, UseSamples};
use super::store_figures::StoreFigures;

/// Which trial and phase rows belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    trial: u32,
    store: String,
    phase: String,
    warm_up: bool,
}

#[derive(Debug, Clone)]
struct IntervalRow {
    place: Arc<Place>,
    interval: u64,
    from_ns: u64,
    to_ns: u64,
    op: String,
    counts: [u64; 10],
    response: Percentiles,
    service: Percentiles,
    failed: Percentiles,
    slot_wait: Percentiles,
    /// Of the interval as a whole, the same in each row of it.
    slip: Percentiles,
    cpu_ns: u64,
    spin_ns: u64,
    run_queue_ns: u64,
    disconnects: u64,
    splits: u64,
}

const COUNTS: [&str; 10] = [
    "succeeded",
    "misses",
    "errors",
    "timed_out",
    "censored",
    "retries",
    "documents",
    "written_bytes",
    "read_bytes",
    "wrong",
];

#[derive(Debug, Clone)]
struct ResourceRow {
    place: Arc<Place>,
    at_ns: u64,
    rss_bytes: u64,
    cpu_ns: u64,
    lateness_ns: u64,
}

/// The rows of a run so far. Small: intervals by operations, samples every 17 ms.
#[derive(Debug, Default)]
pub struct Tables {
    /// Rows of trials that ran before this process went on with the run.
    earlier: Earlier,
    intervals: Vec<IntervalRow>,
    resources: Vec<ResourceRow>,
    used: UseRows,
    store_figures: StoreFigures,
    began: Option<String>,
}

impl Tables {
    /// Tables that begin with rows of trials that were kept.
    pub(super) fn after(earlier: Earlier) -> Self {
        Self { earlier, ..Self::default() }
    }

    /// Adds the rows of a phase.
    pub fn add(&mut self, trial: u32, store: &str, record: &PhaseRecord, used: &UseSamples) {
        let place = Arc::new(Place { trial, store: store.into(), phase: record.name.clone(), warm_up: record.warm_up });
        self.began.get_or_insert_with(|| rfc3339(record.began_unix_ns));
        for interval in &record.intervals {
            let seen = interval.record();
            for (label, tally) in record.labels.iter().zip(&seen.ops) {
                self.intervals.push(IntervalRow {
                    place: Arc::clone(&place),
                    interval: interval.number,
                    from_ns: interval.from_ns,
                    to_ns: interval.to_ns,
                    op: label.name.clone(),
                    counts: [
                        tally.succeeded,
                        tally.missed,
                        tally.errors(),
                        tally.timed_out,
                        tally.censored,
                        tally.retries,
                        tally.documents,
                        tally.bytes_written,
                        tally.bytes_read,
                        tally.wrong,
                    ],
                    response: Percentiles::of(&tally.response),
                    service: Percentiles::of(&tally.service),
                    failed: Percentiles::of(&tally.failed_time),
                    slot_wait: Percentiles::of(&tally.slot_wait),
                    slip: Percentiles::of(&seen.slip),
                    cpu_ns: seen.cpu_ns,
                    spin_ns: seen.spin_ns,
                    run_queue_ns: seen.run_queue_ns,
                    disconnects: seen.connections.disconnects,
                    splits: seen.connections.splits,
                });
            }
        }
        self.used.add(&place, used);
        self.store_figures.add(&place, &record.store_stats);
        self.resources.extend(record.resources.iter().map(|s| ResourceRow {
            place: Arc::clone(&place),
            at_ns: s.at_ns,
            rss_bytes: s.rss_bytes,
            cpu_ns: s.cpu_ns,
            lateness_ns: s.lateness_ns,
        }));
    }

    /// `intervals.parquet` as bytes.
    ///
    /// # Errors
    /// What the Parquet writer says.
    pub fn intervals_parquet(&self) -> Result<Vec<u8>, ParquetError> {
        let rows = &self.intervals;
        let mut columns = places(rows.iter().map(|r| &*r.place));
        let mut add = |name: String, column: ArrayRef| columns.push((name, column));
        add("interval".into(), u64s(rows, |r| r.interval));
        add("from_ns".into(), u64s(rows, |r| r.from_ns));
        add("to_ns".into(), u64s(rows, |r| r.to_ns));
        add("op".into(), Arc::new(StringArray::from_iter_values(rows.iter().map(|r| &r.op))));
        for (i, name) in COUNTS.iter().enumerate() {
            add((*name).into(), Arc::new(UInt64Array::from_iter_values(rows.iter().map(|r| r.counts[i]))));
        }
        type Pick = fn(&IntervalRow) -> &Percentiles;
        let series: [(&str, Pick); 5] = [
            ("response", |r| &r.response),
            ("service", |r| &r.service),
            ("failed", |r| &r.failed),
            ("slot_wait", |r| &r.slot_wait),
            ("slip", |r| &r.slip),
        ];
        for (name, pick) in series {
            type Quantile = fn(&Percentiles) -> Option<u64>;
            let quantiles: [(&str, Quantile); 5] = [
                ("p50", |p| p.p50),
                ("p90", |p| p.p90),
                ("p99", |p| p.p99),
                ("p99_9", |p| p.p99_9),
                ("max", |p| p.max),
            ];
            for (quantile, value) in quantiles {
                let column: UInt64Array = rows.iter().map(|r| value(pick(r))).collect();
                add(format!("{name}_{quantile}_ns"), Arc::new(column));
            }
            let mean: Float64Array = rows.iter().map(|r| pick(r).mean).collect();
            add(format!("{name}_mean_ns"), Arc::new(mean));
        }
        add("cpu_ns".into(), u64s(rows, |r| r.cpu_ns));
        add("spin_ns".into(), u64s(rows, |r| r.spin_ns));
        add("run_queue_ns".into(), u64s(rows, |r| r.run_queue_ns));
        add("disconnects".into(), u64s(rows, |r| r.disconnects));
        add("splits".into(), u64s(rows, |r| r.splits));
        parquet(&self.earlier.intervals, columns)
    }

    /// `resources.parquet` as bytes.
    ///
    /// # Errors
    /// What the Parquet writer says.
    pub fn resources_parquet(&self) -> Result<Vec<u8>, ParquetError> {
        let rows = &self.resources;
        let mut columns = places(rows.iter().map(|r| &*r.place));
        columns.push(("at_ns".into(), u64s(rows, |r| r.at_ns)));
        columns.push(("rss_bytes".into(), u64s(rows, |r| r.rss_bytes)));
        columns.push(("process_cpu_ns".into(), u64s(rows, |r| r.cpu_ns)));
        columns.push(("lateness_ns".into(), u64s(rows, |r| r.lateness_ns)));
        parquet(&self.earlier.resources, columns)
    }

    /// `server_resources.parquet` as bytes.
    ///
    /// # Errors
    /// What the Parquet writer says.
    pub fn server_resources_parquet(&self) -> Result<Vec<u8>, ParquetError> {
        self.used.parquet(&self.earlier.server_resources)
    }

    /// `store_stats.parquet` as bytes.
    ///
    /// # Errors
    /// What the Parquet writer says.
    pub fn store_stats_parquet(&self) -> Result<Vec<u8>, ParquetError> {
        self.store_figures.parquet(&self.earlier.store_stats)
    }
}

type Column = (String, ArrayRef);

pub(super) fn u64s<R>(rows: &[R], pick: fn(&R) -> u64) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(rows.iter().map(pick)))
}

pub(super) fn places<'a>(rows: impl Iterator<Item = &'a Place> + Clone) -> Vec<Column> {
    vec![
        ("trial".into(), Arc::new(UInt32Array::from_iter_values(rows.clone().map(|p| p.trial)))),
        ("store".into(), Arc::new(StringArray::from_iter_values(rows.clone().map(|p| &p.store)))),
        ("phase".into(), Arc::new(StringArray::from_iter_values(rows.clone().map(|p| &p.phase)))),
        ("warm_up".into(), Arc::new(rows.map(|p| Some(p.warm_up)).collect::<BooleanArray>())),
    ]
}

pub(super) fn parquet(earlier: &[RecordBatch], columns: Vec<Column>) -> Result<Vec<u8>, ParquetError> {
    // Nulls are allowed everywhere but come only where a histogram is empty.
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| {
        let nullable = array.is_nullable() || name.ends_with("_ns");
        (name, array, nullable)
    }))?;
    let properties = WriterProperties::builder()
        .set_created_by(format!("storebench {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties))?;
    for batch in earlier.iter().chain([&batch]) {
        writer.write(batch)?;
    }
    writer.into_inner()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use arrow_array::cast::AsArray;
    use arrow_array::types::UInt64Type;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;
    use crate::results::fixture;

    fn read(bytes: &[u8]) -> RecordBatch {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let mut reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        reader.next().unwrap().unwrap()
    }

    #[test]
    fn the_tables_read_back() {
        let mut tables = Tables::default();
        let record = fixture::open_loop();
        tables.add(1, "sqlite", &record, &UseSamples::default());
        let batch = read(&tables.intervals_parquet().unwrap());
        assert_eq!(batch.num_rows(), record.intervals.len() * record.labels.len());
        let column = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<UInt64Type>().clone();
        let succeeded: u64 = column("succeeded").values().iter().sum();
        assert_eq!(succeeded, record.operations());
        // Percentiles are the interval's own, from its merged histogram.
        let own = record.intervals[0].record().ops[0].response.value_at_quantile(0.99);
        assert_eq!(column("response_p99_ns").value(0), own);
        let resources = read(&tables.resources_parquet().unwrap());
        assert_eq!(resources.num_rows(), record.resources.len());
        let told = read(&tables.store_stats_parquet().unwrap());
        let figures: usize = record.store_stats.samples.iter().map(|s| s.figures.len()).sum();
        assert!(figures > 0 && told.num_rows() == figures);
        let names: Vec<String> = told.schema().fields().iter().map(|f| f.name().clone()).collect();
        assert_eq!(names, ["trial", "store", "phase", "warm_up", "at_ns", "took_ns", "figure", "value"]);
        let values = told.column_by_name("value").unwrap().as_primitive::<arrow_array::types::Float64Type>().clone();
        assert_eq!(values.value(0), record.store_stats.samples[0].figures[0].1);
    }

    #[test]
    fn a_series_that_does_not_exist_is_null() {
        let mut tables = Tables::default();
        tables.add(1, "sqlite", &fixture::closed_loop(), &UseSamples::default());
        let batch = read(&tables.intervals_parquet().unwrap());
        let column = batch.column_by_name("response_p50_ns").unwrap();
        assert_eq!(column.null_count(), batch.num_rows());
        read(&{
            let mut one = Tables::default();
            one.add(1, "x", &fixture::load(), &UseSamples::default());
            one.resources_parquet().unwrap()
        });
    }
}
