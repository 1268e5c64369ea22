//! The operations of phases that were measured once, one row each.

use crate::PhaseResult;
use crate::human::{count, rate};
use crate::table::{Cell, ColumnKind, Table};
use crate::times;

/// A table of these phases' operations.
pub fn operations<'a>(phases: impl IntoIterator<Item = &'a PhaseResult>) -> Table {
    let mut columns = vec![("phase", ColumnKind::Text), ("operation", ColumnKind::Text)];
    columns
        .extend(["count", "ops/s", "docs/s", "errors", "misses", "unfinished"].map(|name| (name, ColumnKind::Count)));
    columns.push(("time", ColumnKind::Text));
    columns.extend(times::SHOWN.map(|(name, ..)| (name, ColumnKind::Count)));
    let mut table = Table::new(columns);
    for phase in phases {
        // Collections are loaded one after another; the time of each is not known.
        let together = phase.loads && phase.ops.len() > 1;
        let counted = |n: u64| Cell::number(count(n), Some(n as f64));
        let per_s = |per_s: f64| if together { "".into() } else { Cell::number(rate(per_s), Some(per_s)) };
        for (name, op) in &phase.ops {
            let (kind, times) = times::main(op);
            let mut row: Vec<Cell> = vec![phase.name.as_str().into(), name.as_str().into(), counted(op.count)];
            row.extend([op.throughput_per_s, op.documents_per_s].map(per_s));
            row.extend([op.errors, op.misses, op.unfinished].map(counted));
            row.push(kind.into());
            row.extend(times::SHOWN.map(|shown| {
                let value = shown.2(&times).filter(|_| times.count >= shown.1);
                Cell::number(times::cell(&times, shown), value.map(|ns| ns as f64))
            }));
            table.rows.push(row);
        }
    }
    table
}
