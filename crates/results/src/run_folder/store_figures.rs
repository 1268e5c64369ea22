//! Summarises what a store reported about itself over a phase, for `run.json`.

use indexmap::IndexMap;
use storebench_engine::measure::StoreStats;

use super::phase::{FigureResult, StoreStatsResult};

/// The first, last and greatest value of each figure.
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
    use storebench_engine::measure::StatsSample;

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
