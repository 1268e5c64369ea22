//! What more of a factor does: the curve of each measured phase, and where more stops helping.

use std::fmt::Write as _;

use storebench_core::workload::{short_names, shown_level};

use super::Paint;
use super::arms::{shown_ratio, with_width};
use super::table::{Align, Table};
use crate::human::{digits, rate};
use crate::results::{FactorSweep, RunResult};
use crate::sweep::Beyond;

/// Sweeps that are shown; all are in the result.
const MOST_SHOWN: usize = 8;

/// A table for each sweep of three levels or more. Two levels are in the table of arms already.
pub(super) fn tables(result: &RunResult, paint: Paint) -> String {
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
        let mut table = Table::new(&[
            (&factor, Align::Right),
            ("per second", Align::Right),
            ("to the lowest level", Align::Left),
            ("efficiency", Align::Right),
        ]);
        for level in &swept.sweep.curve {
            table.row(vec![
                digits(level.level),
                level.figure.as_ref().map_or_else(|| "-".into(), |f| with_width(rate(f.value), f)),
                level.speed_up.as_ref().map_or_else(String::new, shown_ratio),
                level.efficiency.as_ref().map_or_else(String::new, |e| digits(e.value)),
            ]);
        }
        out.push_str(&table.print(2));
        let _ = writeln!(out, "  {}", said(swept, &factor));
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
        (Some(spot), Some(Beyond::Unseen)) => format!("up to {factor} = {} more helps; what lies beyond was not measured", digits(spot)),
        (Some(spot), Some(Beyond::Flat)) => format!("from {factor} = {} on more changes nothing", digits(spot)),
        (Some(spot), Some(Beyond::Worse)) => {
            let worse = sweep.worse_from.map_or_else(String::new, |from| format!(" from {} on", digits(from)));
            format!("{factor} = {} is enough; more is worse{worse}", digits(spot))
        }
        (Some(spot), _) => format!("{factor} = {} is enough; whether more is worse is not sure", digits(spot)),
        (None, _) => match sweep.likely {
            Some(likely) => format!("{factor} = {} looks enough, but it is not sure: more repeats would tell", digits(likely)),
            None => "not sure: more repeats would tell".to_owned(),
        },
    }
}
