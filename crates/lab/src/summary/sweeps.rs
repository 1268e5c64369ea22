//! What more of a factor does: the curve of each measured phase, and where more stops helping.

use std::fmt::Write as _;

use storebench_core::workload::{short_names, shown_level};

use super::Layout;
use crate::beside::with_width;
use crate::human::{count, digits, rate, ratio};
use crate::lines::{Align, Table};
use crate::results::{FactorSweep, RunResult};
use crate::sweep::Beyond;

/// Sweeps that are shown; all are in the result.
const MOST_SHOWN: usize = 8;

/// Factors of which twice as many should do twice as much.
const PARALLEL: [&str; 4] = [".workers", ".tasks", ".connections", ".in_flight"];

/// What a user spends more or less of. Of a size or a rate none is enough: it is what is asked for.
fn is_spent(factor: &str) -> bool {
    PARALLEL.iter().chain(&[".batch", ".parallel"]).any(|key| factor.ends_with(key))
}

/// A level as the study says it.
fn shown(level: f64) -> String {
    if level.fract() == 0.0 && level < 1e15 { count(level as u64) } else { level.to_string() }
}

/// A table for each sweep of three levels or more. Two levels are in the table of arms already.
pub(super) fn tables(result: &RunResult, layout: Layout) -> String {
    let paint = layout.paint;
    let mut out = String::new();
    let worth: Vec<&FactorSweep> = result.sweeps.iter().filter(|s| s.sweep.curve.len() > 2).collect();
    for swept in worth.iter().take(MOST_SHOWN) {
        let paths = swept.others.keys().map(String::as_str).chain([swept.factor.as_str()]);
        let short = short_names(paths.collect::<Vec<_>>());
        let name = |path: &str| short.get(path).copied().unwrap_or_default().to_owned();
        let mut place = swept.store.clone();
        for (path, level) in &swept.others {
            let _ = write!(place, " {}={}", name(path), shown_level(level));
        }
        let factor = name(&swept.factor);
        let _ = writeln!(out, "\n{}, {place}: {}", paint.bold(&factor), swept.figure);
        // What one more of a factor should bring is known only of what works side by side.
        let parallel = PARALLEL.iter().any(|key| swept.factor.ends_with(key));
        let mut table = Table::new(&[
            (&factor, Align::Right),
            ("per second", Align::Right),
            ("to the lowest level", Align::Left),
            (if parallel { "efficiency" } else { "" }, Align::Right),
        ]);
        for (nth, level) in swept.sweep.curve.iter().enumerate() {
            let speed_up = level.speed_up.as_ref().filter(|_| nth > 0);
            table.row(vec![
                shown(level.level),
                level.figure.as_ref().map_or_else(|| "failed".into(), |f| with_width(rate, f)),
                speed_up.map_or_else(String::new, ratio),
                level.efficiency.as_ref().filter(|_| parallel).map_or_else(String::new, |e| digits(e.value)),
            ]);
        }
        out.push_str(&layout.table(&table));
        if is_spent(&swept.factor) {
            let _ = writeln!(out, "  {}", said(swept, &factor));
        }
    }
    if worth.len() > MOST_SHOWN {
        let _ = writeln!(out, "\n{} further sweeps are in run.json", worth.len() - MOST_SHOWN);
    }
    out
}

/// The sweet spot in words.
fn said(swept: &FactorSweep, factor: &str) -> String {
    let sweep = &swept.sweep;
    match (sweep.sweet_spot, sweep.beyond) {
        (Some(spot), Some(Beyond::Unseen)) => {
            format!("up to {factor} = {} more helps; what lies beyond was not measured", shown(spot))
        }
        (Some(spot), Some(Beyond::Failed)) => {
            let failed: Vec<String> = sweep.failed.iter().map(|level| shown(*level)).collect();
            format!("{factor} = {} is enough of what ran to its end; {} failed", shown(spot), failed.join(", "))
        }
        (Some(spot), Some(Beyond::Flat)) => format!("from {factor} = {} on more changes nothing", shown(spot)),
        (Some(spot), Some(Beyond::Worse)) => {
            let worse = sweep.worse_from.map_or_else(String::new, |from| format!(" from {} on", shown(from)));
            format!("{factor} = {} is enough; more is worse{worse}", shown(spot))
        }
        (Some(spot), _) => format!("{factor} = {} is enough; whether more is worse is not sure", shown(spot)),
        (None, _) => match sweep.likely {
            Some(likely) => {
                format!("{factor} = {} looks enough, but it is not sure: more repeats would tell", shown(likely))
            }
            None => "not sure: more repeats would tell".to_owned(),
        },
    }
}
