//! The times of operations, as every table, sentence and page shows them. There is one policy, so that a phase has one
//! p99.
//!
//! Percentiles are over all attempts. Operations that failed, or were unanswered when the phase ended, count as
//! infinitely slow. If there are any, the table says so.

use indexmap::IndexMap;

use crate::human::{count, duration};
use crate::table::Cell;
use crate::{AllOps, OpResult, Percentiles, PhaseResult};

/// A percentile: its name, the fewest values needed for one to lie at or beyond it, and where it is.
pub(crate) type Percentile = (&'static str, u64, fn(&Percentiles) -> Option<u64>);
pub(crate) const P50: Percentile = ("p50", 1, |p| p.p50);
pub(crate) const P90: Percentile = ("p90", 10, |p| p.p90);
pub(crate) const P95: Percentile = ("p95", 20, |p| p.p95);
pub(crate) const P99: Percentile = ("p99", 100, |p| p.p99);
pub(crate) const P99_9: Percentile = ("p99.9", 1_000, |p| p.p99_9);
pub(crate) const P99_99: Percentile = ("p99.99", 10_000, |p| p.p99_99);
pub(crate) const MAX: Percentile = ("max", 1, |p| p.max);

/// Percentiles that tables show.
pub(crate) const SHOWN: [Percentile; 5] = [P50, P90, P99, P99_9, MAX];

/// Whether there are too few values for a percentile: the highest of a few is not a p99.9.
pub(crate) fn too_few(times: &Percentiles, (_, fewest, _): Percentile) -> bool {
    times.count < fewest
}

/// A percentile in ns. `None` if there are too few values, or if it falls among the infinite times.
pub(crate) fn value(times: &Percentiles, percentile: Percentile) -> Option<f64> {
    let (.., pick) = percentile;
    pick(times).filter(|_| !too_few(times, percentile)).map(|ns| ns as f64)
}

/// Response times of an operation. `None` in a closed loop.
pub fn response(op: &OpResult) -> Option<Percentiles> {
    op.response_of_attempts_ns.or(op.response_ns)
}

/// Service times of an operation.
pub fn service(op: &OpResult) -> Percentiles {
    op.service_of_attempts_ns.unwrap_or(op.service_ns)
}

/// Response times of all operations of a phase together. `None` in a closed loop.
pub fn response_of_all(all: &AllOps) -> Option<Percentiles> {
    all.response_of_attempts_ns.or(all.response_ns)
}

/// Service times of all operations of a phase together.
pub fn service_of_all(all: &AllOps) -> Percentiles {
    all.service_of_attempts_ns.unwrap_or(all.service_ns)
}

/// The times that represent an operation if there is room for only one kind, and their name.
pub(crate) fn main(op: &OpResult) -> (&'static str, Percentiles) {
    response(op).map_or_else(|| ("service", service(op)), |times| ("response", times))
}

/// A percentile in a cell: `none` without operations, such as on a store that leaves them out; `too few ops` if there are
/// too few values; `∞` if it falls among the infinite times.
pub(crate) fn cell(times: &Percentiles, percentile: Percentile) -> Cell {
    let value = value(times, percentile);
    let text = match value {
        _ if times.count == 0 => "none".to_owned(),
        _ if too_few(times, percentile) => TOO_FEW.to_owned(),
        Some(ns) => duration(ns),
        None => INFINITE.to_owned(),
    };
    Cell::number(text, value)
}

/// The words that mark the p99 of answers alone, next to other figures of answers alone. Empty if everything was
/// answered: there is then only one p99.
pub(crate) fn of_answers(all: &AllOps) -> &'static str {
    if all.response_of_attempts_ns.is_some() { " (of answered operations)" } else { "" }
}

/// Shown for a percentile of fewer operations than it needs.
pub(crate) const TOO_FEW: &str = "too few ops";

/// How an infinite time is shown.
pub(crate) const INFINITE: &str = "∞";

/// The note for times that count operations as infinite. `None` if all were answered. Operations with the same name are
/// added up over all phases.
pub fn note<'a>(phases: impl IntoIterator<Item = &'a PhaseResult>) -> Option<String> {
    let mut all: IndexMap<&str, (u64, u64)> = IndexMap::new();
    for (name, op) in phases.into_iter().flat_map(|phase| &phase.ops) {
        let answered = op.service_ns.count;
        let attempts = service(op).count;
        let (endless, of) = all.entry(name).or_default();
        *endless = endless.saturating_add(attempts.saturating_sub(answered));
        *of = of.saturating_add(attempts);
    }
    let told: Vec<String> = all
        .into_iter()
        .filter(|(_, (endless, _))| *endless > 0)
        .map(|(name, (endless, of))| format!("{} of {} of {name}", count(endless), count(of)))
        .collect();
    let many = "times count operations that failed or were not answered as infinite";
    (!told.is_empty()).then(|| format!("{many} ({INFINITE}): {}", told.join(", ")))
}
