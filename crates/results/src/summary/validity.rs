//! The checks as text: worst first, what passed in one line.

use std::fmt::Write;

use super::Layout;
use crate::RunResult;
use crate::lines::wrap;
use crate::validity::{Grouped, Severity, grouped};

/// Columns before the text of a check: severity and name of the check.
const INDENT: usize = 33;

/// Adds the checks. Each is said once; run.json and the page have all that it found, and the thresholds.
pub(super) fn checks(out: &mut String, result: &RunResult, layout: Layout) {
    if result.checks.is_empty() {
        return;
    }
    let paint = layout.paint;
    let _ = writeln!(out, "\n{}", paint.bold("Validity checks"));
    let (groups, passed) = grouped(result);
    for group in &groups {
        let colour = match group.severity {
            Severity::Invalid => "1;31",
            Severity::Caution => "33",
            Severity::Note | Severity::Pass => "36",
        };
        told(out, group, &paint.with(colour, &format!("{:<7}", group.severity)), layout.width);
    }
    if !passed.is_empty() {
        for (n, line) in wrap(&passed.join(", "), layout.width - 11).into_iter().enumerate() {
            let head = if n == 0 { paint.with("32", "pass   ") } else { " ".repeat(7) };
            let _ = writeln!(out, "  {head}  {line}");
        }
    }
}

/// What is wrong and in how many trials, the worst, and what to do.
fn told(out: &mut String, group: &Grouped, severity: &str, width: usize) {
    let mut lines = wrap(&group.in_words(), width - INDENT);
    for (n, line) in
        wrap(&group.advice, width - INDENT - 2).into_iter().enumerate().filter(|(_, line)| !line.is_empty())
    {
        lines.push(format!("{}{line}", if n == 0 { "→ " } else { "  " }));
    }
    for (n, line) in lines.into_iter().enumerate() {
        let _ = if n == 0 {
            writeln!(out, "  {severity}  {:<22}{line}", format!("{} ", group.check))
        } else {
            writeln!(out, "{:INDENT$}{line}", "")
        };
    }
}
