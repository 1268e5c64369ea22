//! The tables of a run folder as rows.

use std::fs::File;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::ReportError;

/// One interval of one operation.
#[derive(Debug, Clone)]
pub(crate) struct IntervalRow {
    pub(crate) trial: u32,
    pub(crate) phase: String,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    pub(crate) op: String,
    pub(crate) succeeded: u64,
    pub(crate) documents: u64,
    pub(crate) errors: u64,
    /// p50, p99, p99.9 and greatest; of the response where there is one, else of the service. Null where nothing was
    /// answered.
    pub(crate) times: [Option<u64>; 4],
}

/// The process at one moment.
#[derive(Debug, Clone)]
pub(crate) struct ResourceRow {
    pub(crate) trial: u32,
    pub(crate) phase: String,
    pub(crate) at_ns: u64,
    pub(crate) rss_bytes: u64,
    pub(crate) cpu_ns: u64,
}

/// One figure at one moment: that the store told, or that was seen of its processes, its folder and the machine.
#[derive(Debug, Clone)]
pub(crate) struct StoreRow {
    pub(crate) trial: u32,
    pub(crate) phase: String,
    pub(crate) at_ns: u64,
    pub(crate) figure: String,
    pub(crate) value: f64,
}

/// Columns of percentiles, behind `response_` or `service_`.
const TIMES: [&str; 4] = ["p50", "p99", "p99_9", "max"];

/// `intervals.parquet`.
pub(super) fn intervals(path: &Path) -> Result<Vec<IntervalRow>, ReportError> {
    rows(path, |batch| {
        let (trial, phase) = (u32s(batch, "trial")?, texts(batch, "phase")?);
        let (from, to, op) = (u64s(batch, "from_ns")?, u64s(batch, "to_ns")?, texts(batch, "op")?);
        let counts = [u64s(batch, "succeeded")?, u64s(batch, "documents")?, u64s(batch, "errors")?];
        let of =
            |kind: &str| TIMES.iter().map(|p| u64s(batch, &format!("{kind}_{p}_ns"))).collect::<Result<Vec<_>, _>>();
        let (response, service) = (of("response")?, of("service")?);
        let times = |columns: &[Vec<Option<u64>>], row: usize| std::array::from_fn(|nth| columns[nth][row]);
        Ok((0..batch.num_rows())
            .map(|row| {
                let by_response: [Option<u64>; 4] = times(&response, row);
                let has = by_response.iter().any(Option::is_some);
                IntervalRow {
                    trial: trial[row],
                    phase: phase[row].clone(),
                    from_ns: from[row].unwrap_or_default(),
                    to_ns: to[row].unwrap_or_default(),
                    op: op[row].clone(),
                    succeeded: counts[0][row].unwrap_or_default(),
                    documents: counts[1][row].unwrap_or_default(),
                    errors: counts[2][row].unwrap_or_default(),
                    times: if has { by_response } else { times(&service, row) },
                }
            })
            .collect())
    })
}

/// `resources.parquet`.
pub(super) fn resources(path: &Path) -> Result<Vec<ResourceRow>, ReportError> {
    rows(path, |batch| {
        let (trial, phase) = (u32s(batch, "trial")?, texts(batch, "phase")?);
        let [at, rss, cpu] = [u64s(batch, "at_ns")?, u64s(batch, "rss_bytes")?, u64s(batch, "process_cpu_ns")?];
        Ok((0..batch.num_rows())
            .map(|row| ResourceRow {
                trial: trial[row],
                phase: phase[row].clone(),
                at_ns: at[row].unwrap_or_default(),
                rss_bytes: rss[row].unwrap_or_default(),
                cpu_ns: cpu[row].unwrap_or_default(),
            })
            .collect())
    })
}

/// `store_stats.parquet` and `server_resources.parquet`.
pub(super) fn store(path: &Path) -> Result<Vec<StoreRow>, ReportError> {
    rows(path, |batch| {
        let (trial, phase, figure) = (u32s(batch, "trial")?, texts(batch, "phase")?, texts(batch, "figure")?);
        let (at, value) = (u64s(batch, "at_ns")?, f64s(batch, "value")?);
        Ok((0..batch.num_rows())
            .filter(|row| value[*row].is_finite())
            .map(|row| StoreRow {
                trial: trial[row],
                phase: phase[row].clone(),
                at_ns: at[row].unwrap_or_default(),
                figure: figure[row].clone(),
                value: value[row],
            })
            .collect())
    })
}

type Fault = String;

fn rows<R>(path: &Path, read: impl Fn(&RecordBatch) -> Result<Vec<R>, Fault>) -> Result<Vec<R>, ReportError> {
    let damaged = |what: String| ReportError::Damaged { path: path.to_owned(), what };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(damaged(format!("cannot be read: {error}"))),
    };
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .and_then(|reader| reader.build())
        .map_err(|e| damaged(format!("is no whole Parquet file: {e}")))?;
    let mut all = Vec::new();
    for batch in reader {
        let batch = batch.map_err(|e| damaged(format!("is damaged: {e}")))?;
        all.extend(read(&batch).map_err(damaged)?);
    }
    Ok(all)
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a dyn Array, Fault> {
    batch.column_by_name(name).map(|c| &**c).ok_or_else(|| format!("has no column `{name}`"))
}

fn wrong(name: &str) -> impl FnOnce() -> Fault + use<'_> {
    move || format!("its column `{name}` is of another type")
}

fn u32s(batch: &RecordBatch, name: &str) -> Result<Vec<u32>, Fault> {
    let column = column(batch, name)?.as_primitive_opt::<UInt32Type>().ok_or_else(wrong(name))?;
    Ok(column.values().to_vec())
}

fn u64s(batch: &RecordBatch, name: &str) -> Result<Vec<Option<u64>>, Fault> {
    Ok(column(batch, name)?.as_primitive_opt::<UInt64Type>().ok_or_else(wrong(name))?.iter().collect())
}

fn f64s(batch: &RecordBatch, name: &str) -> Result<Vec<f64>, Fault> {
    let column = column(batch, name)?.as_primitive_opt::<Float64Type>().ok_or_else(wrong(name))?;
    Ok(column.iter().map(|v| v.unwrap_or(f64::NAN)).collect())
}

fn texts(batch: &RecordBatch, name: &str) -> Result<Vec<String>, Fault> {
    let column = column(batch, name)?.as_string_opt::<i32>().ok_or_else(wrong(name))?;
    Ok(column.iter().map(|v| v.unwrap_or_default().to_owned()).collect())
}
