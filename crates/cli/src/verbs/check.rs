//! `check HISTORY`: judges what clients of a store saw.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use storebench_consistency::{BUDGET, Report};
use storebench_results::exit::{FINE, INVALID, SPOILED};
use storebench_results::human::{count, duration, plural};
use storebench_results::read_history;

use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::output::print_json_or;
use crate::processors;

/// Broken keys that are shown with their sequence.
const SHOWN: usize = 3;

pub(crate) fn check(args: &CheckArgs) -> Result<u8, Failure> {
    let bad = |path: &Path, why: &dyn std::fmt::Display| Failure::bad_input(format!("{}: {why}", path.display()));
    let history = read_history(&args.history).map_err(|error| bad(&args.history, &error))?;
    if history.operations() == 0 {
        return Err(bad(&args.history, &"it holds no operations; see docs/consistency.md for its form"));
    }
    if let Some(path) = &args.jepsen {
        let file = File::create_new(path).map_err(|error| bad(path, &error))?;
        let mut out = BufWriter::new(file);
        history.write_jepsen(&mut out).and_then(|()| out.flush()).map_err(|error| bad(path, &error))?;
    }
    let report = history.report(args.budget.unwrap_or(BUDGET), processors() as usize);
    print_json_or(args.json, &report, || text(&report))?;
    Ok(match (report.broken.is_empty(), report.undecided.is_empty()) {
        (false, _) => SPOILED,
        (true, false) => INVALID,
        (true, true) => FINE,
    })
}

fn text(report: &Report) -> String {
    let Report { keys, operations, unknown, linearizable, broken, undecided, staleness, .. } = report;
    let mut out = format!("{} on {}", plural(*operations, "operation"), plural(*keys, "key"));
    if *unknown > 0 {
        out += &format!("; {} of unknown outcome", count(*unknown));
    }
    out += &format!("\n  linearizable: {}\n", plural(*linearizable, "key"));
    if !broken.is_empty() {
        out += &format!("  not linearizable: {}\n", plural(broken.len() as u64, "key"));
    }
    if !undecided.is_empty() {
        let first: Vec<&str> = undecided.iter().take(SHOWN).map(String::as_str).collect();
        out += &format!(
            "  undecided: {} ({}); raise --budget, unless more than 128 operations were pending at once\n",
            plural(undecided.len() as u64, "key"),
            first.join(", ")
        );
    }
    out += &format!(
        "  reads of a version that had been overwritten: {} of {}",
        count(staleness.stale),
        count(staleness.reads)
    );
    if staleness.stale > 0 {
        out += &format!(
            ", at most {} and {} behind",
            plural(staleness.versions_behind_max, "version"),
            duration(staleness.time_behind_max_ns as f64)
        );
    }
    out += &format!(
        "\n  reads that missed the client's own write: {}; that went back to an older version: {}\n",
        count(staleness.own_write_missed),
        count(staleness.went_back)
    );
    if staleness.never_written > 0 {
        out += &format!("  reads of something that nobody wrote: {}\n", count(staleness.never_written));
    }
    for key in broken.iter().take(SHOWN) {
        out += &format!("\nno order explains {key}");
    }
    if broken.len() > SHOWN {
        out += &format!("\nand {} more; --json has all of them\n", plural((broken.len() - SHOWN) as u64, "key"));
    }
    out
}
