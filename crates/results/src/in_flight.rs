//! The in-flight limit: workers × connections × operations in flight on each.

use crate::PhaseResult;

/// From this average share on, the in-flight limit counts as reached. Scheduled operations then wait, whether the
/// client or the store is slow.
pub(crate) const FULL: f64 = 0.90;

/// The most operations per second that a phase can carry within its in-flight limit at its mean service time (Little's
/// law). `None` if the limit was not reached.
pub(crate) fn carried_at_most(phase: &PhaseResult) -> Option<f64> {
    let service_ns = phase.all.service_ns.mean.filter(|ns| *ns > 0.0)?;
    (phase.in_flight_share >= FULL).then(|| phase.in_flight_limit as f64 * 1e9 / service_ns)
}
