//! Background work that the store reported, as spans on the axis of the charts over time.

use indexmap::IndexMap;

use super::timeline::Timeline;
use crate::data::{Mark, MarkKind};
use crate::subject::Subject;

/// Figures with these endings count work in progress: `compactions_active`, `rdb_saves_running`, `compaction_tasks`.
const GOING_ON: [&str; 3] = ["_active", "_running", "_tasks"];

/// Spans closer together than this share of the axis are joined, because a reader could not distinguish them.
const APART: f64 = 1.0 / 300.0;

/// For every trial, one span for each time that a figure was above zero.
pub(super) fn marks(subject: &Subject, axis: &Timeline) -> Vec<Mark> {
    let mut all = Vec::new();
    for (run, configuration, trial) in subject.trials() {
        let rows = subject.runs[run].store.iter().filter(|row| row.trial == trial.trial);
        let mut figures: IndexMap<&str, Vec<(f64, f64)>> = IndexMap::new();
        for row in rows.filter(|row| GOING_ON.iter().any(|end| row.figure.ends_with(end))) {
            figures.entry(&row.figure).or_default().push((axis.at(&row.phase, row.at_ns), row.value));
        }
        for (figure, samples) in figures {
            let label = format!("{}, trial {}", figure.replace('_', " "), trial.trial);
            let mark = |(from, to)| Mark::new(MarkKind::Work, from, Some(to), label.clone(), configuration);
            all.extend(spans(&samples, axis.length() * APART).into_iter().map(mark));
        }
    }
    all
}

/// A span lasts from the first sample above zero to the next sample at zero, or to the last sample.
fn spans(samples: &[(f64, f64)], apart: f64) -> Vec<(f64, f64)> {
    let mut spans: Vec<(f64, f64)> = Vec::new();
    for pair in samples.windows(2).filter(|pair| pair[0].1 > 0.0) {
        let (from, to) = (pair[0].0, pair[1].0);
        match spans.last_mut() {
            Some(last) if from - last.1 <= apart => last.1 = to,
            _ => spans.push((from, to)),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_ends_when_no_work_is_in_progress() {
        let samples = |values: &[f64]| values.iter().enumerate().map(|(n, v)| (n as f64, *v)).collect::<Vec<_>>();
        assert_eq!(spans(&samples(&[0.0, 1.0, 2.0, 0.0, 0.0, 1.0, 0.0]), 0.1), [(1.0, 3.0), (5.0, 6.0)]);
        assert_eq!(spans(&samples(&[0.0, 1.0, 0.0, 1.0, 0.0]), 1.0), [(1.0, 4.0)], "too close to distinguish");
        assert_eq!(spans(&samples(&[0.0, 0.0]), 0.1), []);
        assert_eq!(spans(&samples(&[1.0]), 0.1), [], "one sample has no length");
    }
}
