//! Totals of operations over trials.

use crate::{OpResult, PhaseResult};

/// A figure of each operation, such as its bytes: the sum over all, and the sum of the squares.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) sum: f64,
    squares: f64,
}

impl Figure {
    fn add(self, op: &OpResult, sum: u64, deviation: Option<f64>) -> Self {
        let (n, sum) = ((op.succeeded as f64).max(1.0), sum as f64);
        let squares = n * deviation.unwrap_or(0.0).powi(2) + sum * sum / n;
        Self { sum: self.sum + sum, squares: self.squares + squares }
    }

    /// The standard error of its sum, as a share of the sum.
    pub(crate) fn error(self, operations: f64) -> f64 {
        let excess = operations * self.squares / (self.sum * self.sum) - 1.0;
        if self.sum > 0.0 && operations > 0.0 { (excess.max(0.0) / operations).sqrt() } else { 0.0 }
    }
}

/// Totals of the operations of one name, over the trials of a configuration.
#[derive(Default)]
pub(crate) struct Sums {
    pub(crate) succeeded: f64,
    pub(crate) missed: f64,
    pub(crate) errors: f64,
    pub(crate) documents: Figure,
    pub(crate) written: Figure,
    pub(crate) read: Figure,
    pub(crate) batch: u32,
}

impl Sums {
    pub(crate) fn of(name: &str, phases: &[&PhaseResult]) -> Self {
        phases.iter().filter_map(|phase| phase.ops.get(name)).fold(Self::default(), |sums, op| Self {
            succeeded: sums.succeeded + op.succeeded as f64,
            missed: sums.missed + op.misses as f64,
            errors: sums.errors + op.errors as f64,
            documents: sums.documents.add(op, op.documents, op.documents_sd),
            written: sums.written.add(op, op.written_bytes, op.written_bytes_sd),
            read: sums.read.add(op, op.read_bytes, op.read_bytes_sd),
            batch: op.batch,
        })
    }

    /// Documents, or operations if there are none.
    pub(crate) fn each(&self) -> f64 {
        if self.documents.sum > 0.0 { self.documents.sum } else { self.succeeded }
    }

    pub(crate) fn unit(&self) -> &'static str {
        if self.documents.sum > 0.0 { "document" } else { "operation" }
    }
}
