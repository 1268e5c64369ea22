//! Slots: workers × connections × operations in flight, each of which carries one operation at a time.

use crate::PhaseResult;

/// Slots that are busy for this share of the time are all taken: what falls due then waits for them, whoever is slow.
pub(crate) const FULL: f64 = 0.90;

/// How many operations a second the slots of a phase can carry at most, at its mean service time (Little's law), where
/// they were all taken; None where they were not.
pub(crate) fn carried_at_most(phase: &PhaseResult) -> Option<f64> {
    let service_ns = phase.all.service_ns.mean.filter(|ns| *ns > 0.0)?;
    (phase.slots_busy_share >= FULL).then(|| phase.slots as f64 * 1e9 / service_ns)
}
