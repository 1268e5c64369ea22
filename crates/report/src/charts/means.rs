//! The mean of each phase of one trial, with a band of how far it is sure within the trial.

use indexmap::IndexMap;
use storebench_lab::stats::band;

use super::timeline::{Timeline, rates};
use crate::recorded::IntervalRow;

/// Intervals of a phase from which a band is drawn: of fewer a bootstrap is too sure.
const FEWEST_OF_A_BAND: usize = 10;

/// The mean of each phase, as a line over its length.
#[derive(Default)]
pub(super) struct Means {
    pub(super) x: Vec<Option<f64>>,
    pub(super) mean: Vec<Option<f64>>,
    pub(super) low: Vec<Option<f64>>,
    pub(super) high: Vec<Option<f64>>,
}

impl Means {
    fn put(&mut self, x: f64, [mean, low, high]: [Option<f64>; 3]) {
        self.x.push(Some(x));
        self.mean.push(mean);
        self.low.push(low);
        self.high.push(high);
    }
}

/// The mean of what was counted each second of every phase that is long enough, with its band.
pub(super) fn means(
    rows: &[&IntervalRow],
    axis: &Timeline,
    counted: &dyn Fn(&IntervalRow) -> u64,
    seed: u64,
) -> Option<Means> {
    let mut phases: IndexMap<&str, Vec<&IntervalRow>> = IndexMap::new();
    for row in rows {
        phases.entry(&row.phase).or_default().push(row);
    }
    let mut all = Means::default();
    for (phase, rows) in phases {
        let values: Vec<f64> = rates(&rows, axis, counted).1.into_iter().flatten().collect();
        let (Some(from), Some(to)) = (rows.iter().map(|r| r.from_ns).min(), rows.iter().map(|r| r.to_ns).max()) else {
            continue;
        };
        let Some(found) = band(&values, seed).filter(|_| values.len() >= FEWEST_OF_A_BAND) else { continue };
        let (from, to) = (axis.at(phase, from), axis.at(phase, to));
        if let Some(before) = all.x.last().copied().flatten() {
            // An empty place between two phases breaks the line.
            all.put(before.midpoint(from), [None; 3]);
        }
        for at in [from, to] {
            all.put(at, [found.mean, found.low, found.high].map(Some));
        }
    }
    (!all.x.is_empty()).then_some(all)
}
