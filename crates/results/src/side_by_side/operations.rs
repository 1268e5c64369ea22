//! The operations of phases that were measured once, one row each.

use crate::human::{count, rate};
use crate::table::{Cell, ColumnKind, Table};
use crate::times;
use crate::{OpResult, Percentiles, PhaseResult};

/// A table of these phases' operations.
pub fn operations<'a>(phases: impl IntoIterator<Item = &'a PhaseResult>) -> Table {
    let mut table = Table::new([("phase", ColumnKind::Text)].into_iter().chain(op_columns()));
    for phase in phases {
        let together = phase.loads && phase.ops.len() > 1;
        for (name, op) in &phase.ops {
            let (kind, times) = times::main(op);
            let mut row: Vec<Cell> = vec![phase.name.as_str().into()];
            row.extend(op_cells(name, op, together));
            row.extend(time_cells(kind, &times));
            table.rows.push(row);
        }
    }
    table
}

/// The columns of an operation: those of [`op_cells`], then those of [`time_cells`].
pub(crate) fn op_columns() -> impl Iterator<Item = (&'static str, ColumnKind)> {
    let counts = ["count", "ops/s", "docs/s", "errors", "misses", "unfinished"].map(|name| (name, ColumnKind::Count));
    let times = times::SHOWN.map(|(name, ..)| (name, ColumnKind::Count));
    [("operation", ColumnKind::Text)].into_iter().chain(counts).chain([("time", ColumnKind::Text)]).chain(times)
}

/// What an operation did. Without rates if collections were loaded `together`: they are loaded one after another, and the
/// time of each is not known.
pub(crate) fn op_cells(name: &str, op: &OpResult, together: bool) -> Vec<Cell> {
    let counted = |n: u64| Cell::number(count(n), Some(n as f64));
    let per_s = |per_s: f64| if together { "".into() } else { Cell::number(rate(per_s), Some(per_s)) };
    let mut cells: Vec<Cell> = vec![name.into(), counted(op.count)];
    cells.extend([op.throughput_per_s, op.documents_per_s].map(per_s));
    cells.extend([op.errors, op.misses, op.unfinished].map(counted));
    cells
}

/// The kind of times, and their percentiles.
pub(crate) fn time_cells(kind: &str, times: &Percentiles) -> impl Iterator<Item = Cell> {
    [Cell::from(kind)].into_iter().chain(times::SHOWN.map(|percentile| times::cell(times, percentile)))
}
