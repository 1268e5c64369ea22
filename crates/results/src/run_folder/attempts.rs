//! Percentiles over all attempts. Operations that failed, or were unanswered when the phase ended, count as infinitely
//! slow.

use std::borrow::Borrow;

use hdrhistogram::Histogram;
use storebench_engine::measure::{PhaseRecord, Tally, histogram};

use super::phase::Percentiles;

/// The rank of a quantile among the sorted times of `attempts` attempts, from 1.
pub(super) fn rank(quantile: f64, attempts: u64) -> u64 {
    (quantile * attempts as f64).ceil().max(1.0) as u64
}

/// The time at this rank, in ns. `None` if the attempt at this rank is infinitely slow.
pub(super) fn at_rank(answered: &Histogram<u64>, rank: u64) -> Option<u64> {
    (rank <= answered.len()).then(|| answered.value_at_quantile(rank as f64 / answered.len() as f64))
}

/// The percentiles of one operation. `None` if everything was answered, because they are then those of the answers.
pub(super) fn of_op(tally: &Tally, answered: &Histogram<u64>) -> Option<Percentiles> {
    over(answered, tally.attempts())
}

/// The merged times of several operations.
pub(super) fn merged<'a, H: Borrow<Histogram<u64>>>(
    tallies: impl IntoIterator<Item = &'a Tally>,
    pick: impl Fn(&'a Tally) -> H,
) -> Histogram<u64> {
    let mut all = histogram();
    for tally in tallies {
        all.add(pick(tally).borrow()).expect("a histogram that grows takes every value");
    }
    all
}

/// The percentiles of all operations of a phase together.
pub(super) fn of_all<'a, H: Borrow<Histogram<u64>>>(
    record: &'a PhaseRecord,
    pick: impl Fn(&'a Tally) -> H,
) -> Option<Percentiles> {
    over(&merged(&record.total.ops, pick), record.total.ops.iter().map(Tally::attempts).sum())
}

fn over(answered: &Histogram<u64>, attempts: u64) -> Option<Percentiles> {
    let at = |quantile: f64| at_rank(answered, rank(quantile, attempts));
    (answered.len() < attempts).then(|| Percentiles::at(attempts, at))
}
