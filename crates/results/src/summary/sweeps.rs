//! What more of a factor does: the curve of each measured phase, and where more stops helping.

use std::fmt::Write as _;

use storebench_study::workload::{short_names, shown_value};

use super::Layout;
use crate::answer::enough;
use crate::human::{digits, rate, ratio};
use crate::side_by_side::with_width;
use crate::sweep::{is_parallel, is_spent, value_in_words};
use crate::table::ColumnKind::{Count, Text};
use crate::table::Table;
use crate::{FactorSweep, RunResult};

/// Sweeps that are shown; all are in the result.
const MOST_SHOWN: usize = 8;

/// A table for each sweep of three values or more. Two values are in the table of configurations already.
pub(super) fn tables(result: &RunResult, layout: Layout) -> String {
    let paint = layout.paint;
    let mut out = String::new();
    let shown: Vec<&FactorSweep> = result.sweeps.iter().filter(|s| s.sweep.curve.len() > 2).collect();
    for swept in shown.iter().take(MOST_SHOWN) {
        let paths = swept.others.keys().map(String::as_str).chain([swept.factor.as_str()]);
        let short = short_names(paths.collect::<Vec<_>>());
        let name = |path: &str| short.get(path).copied().unwrap_or_default().to_owned();
        let mut place = swept.store.clone();
        for (path, value) in &swept.others {
            let _ = write!(place, " {}={}", name(path), shown_value(value));
        }
        let factor = name(&swept.factor);
        let _ = writeln!(out, "\n{}, {place}: {}", paint.bold(&factor), swept.figure);
        // What one more of a factor should bring is known only of what works side by side.
        let parallel = is_parallel(&swept.factor);
        let last = if parallel { "efficiency" } else { "" };
        let mut table =
            Table::new([(factor.as_str(), Count), ("per second", Count), ("vs lowest", Text), (last, Count)]);
        for (nth, value) in swept.sweep.curve.iter().enumerate() {
            let speed_up = value.speed_up.as_ref().filter(|_| nth > 0);
            table.row([
                value_in_words(value.value),
                value.figure.as_ref().map_or_else(|| "failed".into(), |f| with_width(rate, f)),
                speed_up.map_or_else(String::new, ratio),
                // Compared with itself, it has no width.
                value.efficiency.as_ref().filter(|_| parallel).map_or_else(String::new, |e| match nth {
                    0 => digits(e.value),
                    _ => with_width(digits, e),
                }),
            ]);
        }
        out.push_str(&layout.table(&table));
        if is_spent(&swept.factor) {
            let _ = writeln!(out, "  {}", enough(result, swept, &factor));
        }
    }
    if shown.len() > MOST_SHOWN {
        let _ = writeln!(out, "\n{} further sweeps are in run.json", shown.len() - MOST_SHOWN);
    }
    out
}
