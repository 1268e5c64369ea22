//! The times of operations as every table, sentence and page shows them: one policy, so that a phase has one p99.
//!
//! Percentiles are over all attempts: what failed, or was not answered when the phase ended, took for ever. Where there is
//! such, the table says so beside it.

use indexmap::IndexMap;

use crate::human::{count, duration};
use crate::{AllOps, OpResult, Percentiles, PhaseResult};

/// Percentiles that tables show: the name, the fewest values of which one lies at it or beyond, and where it is.
pub(crate) const SHOWN: [Shown; 5] = [
    ("p50", 1, |p| p.p50),
    ("p90", 10, |p| p.p90),
    ("p99", 100, |p| p.p99),
    ("p99.9", 1_000, |p| p.p99_9),
    ("max", 1, |p| p.max),
];

/// One of them.
pub(crate) type Shown = (&'static str, u64, fn(&Percentiles) -> Option<u64>);

/// Response times of an operation; none in a closed loop.
pub(crate) fn response(op: &OpResult) -> Option<Percentiles> {
    op.response_of_attempts_ns.or(op.response_ns)
}

/// Service times of an operation.
pub(crate) fn service(op: &OpResult) -> Percentiles {
    op.service_of_attempts_ns.unwrap_or(op.service_ns)
}

/// Response times of all operations of a phase together; none in a closed loop.
pub(crate) fn response_of_all(all: &AllOps) -> Option<Percentiles> {
    all.response_of_attempts_ns.or(all.response_ns)
}

/// Service times of all operations of a phase together.
pub(crate) fn service_of_all(all: &AllOps) -> Percentiles {
    all.service_of_attempts_ns.unwrap_or(all.service_ns)
}

/// The times that stand for an operation where there is room for one kind, and their name.
pub(crate) fn main(op: &OpResult) -> (&'static str, Percentiles) {
    response(op).map_or_else(|| ("service", service(op)), |times| ("response", times))
}

/// A percentile in a cell: `-` where there are too few values, `∞` where it is among what took for ever.
pub(crate) fn cell(times: &Percentiles, (_, fewest, pick): Shown) -> String {
    match pick(times) {
        _ if times.count < fewest => "-".to_owned(),
        Some(ns) => duration(ns as f64),
        None => INFINITE.to_owned(),
    }
}

/// What the p99 of answers alone is called beside something that was measured of answers alone; a phase in which all was
/// answered has only one.
pub(crate) fn of_answers(all: &AllOps) -> &'static str {
    if all.response_of_attempts_ns.is_some() { " (of what was answered)" } else { "" }
}

/// What took for ever.
pub(crate) const INFINITE: &str = "∞";

/// What tables say beside times that count operations as infinite; none where all were answered. Operations of a name are
/// added up, over however many phases.
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
