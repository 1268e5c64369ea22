//! What a store told about itself over a phase: the table `store_stats.parquet`, and its sum in `run.json`.

use std::sync::Arc;

use arrow_array::{Float64Array, RecordBatch, StringArray};
use indexmap::IndexMap;
use parquet::errors::ParquetError;
use storebench_core::measure::StoreStats;

use super::model::{FigureResult, StoreStatsResult};
use super::tables::{Place, parquet, places, u64s};

/// One figure of one answer.
#[derive(Debug, Clone)]
struct FigureRow {
    place: Arc<Place>,
    at_ns: u64,
    took_ns: u64,
    figure: String,
    value: f64,
}

/// The rows of a run so far.
#[derive(Debug, Default)]
pub(super) struct StoreFigures(Vec<FigureRow>);

impl StoreFigures {
    pub(super) fn add(&mut self, place: &Arc<Place>, told: &StoreStats) {
        self.0.extend(told.samples.iter().flat_map(|sample| {
            sample.figures.iter().map(|(figure, value)| FigureRow {
                place: Arc::clone(place),
                at_ns: sample.at_ns,
                took_ns: sample.took_ns,
                figure: figure.clone(),
                value: *value,
            })
        }));
    }

    /// `store_stats.parquet` as bytes.
    pub(super) fn parquet(&self, earlier: &[RecordBatch]) -> Result<Vec<u8>, ParquetError> {
        let rows = &self.0;
        let mut columns = places(rows.iter().map(|r| &*r.place));
        columns.push(("at_ns".into(), u64s(rows, |r| r.at_ns)));
        columns.push(("took_ns".into(), u64s(rows, |r| r.took_ns)));
        columns.push(("figure".into(), Arc::new(StringArray::from_iter_values(rows.iter().map(|r| &r.figure)))));
        columns.push(("value".into(), Arc::new(Float64Array::from_iter_values(rows.iter().map(|r| r.value)))));
        parquet(earlier, columns)
    }
}

/// First, last and greatest of each figure.
pub(super) fn gather(told: &StoreStats) -> StoreStatsResult {
    let mut figures: IndexMap<String, FigureResult> = IndexMap::new();
    for (name, value) in told.samples.iter().flat_map(|sample| &sample.figures) {
        let figure = figures.entry(name.clone()).or_insert(FigureResult { first: *value, last: *value, max: *value });
        figure.last = *value;
        figure.max = figure.max.max(*value);
    }
    StoreStatsResult {
        answers: told.samples.len() as u64,
        failed: told.failed,
        message: told.message.clone(),
        too_slow: told.too_slow,
        figures,
    }
}

#[cfg(test)]
mod tests {
    use storebench_core::measure::StatsSample;

    use super::*;

    #[test]
    fn each_figure_has_its_first_last_and_greatest() {
        let sample = |at_ns, figures: &[(&str, f64)]| StatsSample {
            at_ns,
            took_ns: 7,
            figures: figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        };
        let told = StoreStats {
            samples: vec![
                sample(0, &[("queue_documents", 5.0)]),
                sample(1, &[("queue_documents", 90.0), ("late_bytes", 1.0)]),
                sample(2, &[("queue_documents", 40.0)]),
            ],
            failed: 1,
            message: Some("busy".into()),
            too_slow: false,
        };
        let found = gather(&told);
        assert_eq!((found.answers, found.failed), (3, 1));
        assert_eq!(found.figures["queue_documents"], FigureResult { first: 5.0, last: 40.0, max: 90.0 });
        assert_eq!(found.figures["late_bytes"], FigureResult { first: 1.0, last: 1.0, max: 1.0 });
    }
}
