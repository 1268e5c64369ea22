//! The in-flight limit: workers × connections × operations in flight on each.

use crate::PhaseResult;

/// From this share of the limit in use, on average, the limit counts as reached: what is scheduled then waits, whoever is slow.
pub(crate) const FULL: f64 = 0.90;

/// How many operations a second a phase can carry at most within its in-flight limit, at its mean service time (Little's
/// law), where the limit was reached; None where it was not.
pub(crate) fn carried_at_most(phase: &PhaseResult) -> Option<f64> {
    let service_ns = phase.all.service_ns.mean.filter(|ns| *ns > 0.0)?;
    (phase.in_flight_share >= FULL).then(|| phase.in_flight_limit as f64 * 1e9 / service_ns)
}
