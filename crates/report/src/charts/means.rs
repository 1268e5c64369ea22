//! The mean of each phase of one trial, with a band for its uncertainty within the trial.

use indexmap::IndexMap;
use storebench_results::stats::{Estimate, band};

use super::timeline::{Timeline, rates};
use crate::recorded::IntervalRow;

/// Places on the time axis, and the estimates there.
type Line = (Vec<Option<f64>>, Vec<Option<Estimate>>);

/// The mean rate of each phase that is long enough, with its band, as a horizontal line over the phase.
pub(super) fn means(rows: &[&IntervalRow], axis: &Timeline, counted: &dyn Fn(&IntervalRow) -> u64) -> Option<Line> {
    let mut phases: IndexMap<&str, Vec<&IntervalRow>> = IndexMap::new();
    for row in rows {
        phases.entry(&row.phase).or_default().push(row);
    }
    let (mut x, mut means) = Line::default();
    for (phase, rows) in phases {
        let values: Vec<f64> = rates(&rows, axis, counted).1.into_iter().flatten().collect();
        let (Some(from), Some(to)) = (rows.iter().map(|r| r.from_ns).min(), rows.iter().map(|r| r.to_ns).max()) else {
            continue;
        };
        let Some(found) = band(&values) else { continue };
        let (from, to) = (axis.at(phase, from), axis.at(phase, to));
        if let Some(before) = x.last().copied().flatten() {
            // An empty place between two phases breaks the line.
            x.push(Some(before.midpoint(from)));
            means.push(None);
        }
        let mean = Estimate { value: found.mean, low: Some(found.low), high: Some(found.high), trials: 1 };
        x.extend([from, to].map(Some));
        means.extend([Some(mean); 2]);
    }
    (!x.is_empty()).then_some((x, means))
}
