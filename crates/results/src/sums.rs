//! Totals of operations over trials.

use crate::PhaseResult;

/// Totals of the operations of one name, over the trials of a configuration.
#[derive(Default)]
pub(crate) struct Sums {
    pub(crate) succeeded: f64,
    pub(crate) missed: f64,
    pub(crate) errors: f64,
    pub(crate) documents: f64,
    pub(crate) written: f64,
    pub(crate) read: f64,
    pub(crate) batch: u32,
}

impl Sums {
    pub(crate) fn of(name: &str, phases: &[&PhaseResult]) -> Self {
        phases.iter().filter_map(|phase| phase.ops.get(name)).fold(Self::default(), |sums, op| Self {
            succeeded: sums.succeeded + op.succeeded as f64,
            missed: sums.missed + op.misses as f64,
            errors: sums.errors + op.errors as f64,
            documents: sums.documents + op.documents as f64,
            written: sums.written + op.written_bytes as f64,
            read: sums.read + op.read_bytes as f64,
            batch: op.batch,
        })
    }

    /// Documents, or operations if there are none.
    pub(crate) fn each(&self) -> f64 {
        if self.documents > 0.0 { self.documents } else { self.succeeded }
    }

    pub(crate) fn unit(&self) -> &'static str {
        if self.documents > 0.0 { "document" } else { "operation" }
    }
}
