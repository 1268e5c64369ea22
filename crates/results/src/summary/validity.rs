//! The checks as text: worst first, what passed in one line.

use std::fmt::Write;

use super::Layout;
use crate::lines::wrap;
use crate::validity::{CheckResult, Grouped, Severity, grouped};

/// Columns before the text of a check: severity and name of the check.
const INDENT: usize = 33;

/// Adds the checks. What one check found stands together, under its name.
pub(super) fn checks(out: &mut String, checks: &[CheckResult], layout: Layout) {
    if checks.is_empty() {
        return;
    }
    let paint = layout.paint;
    let _ = writeln!(out, "\n{}", paint.bold("Validity checks"));
    let (groups, passed) = grouped(checks);
    let mut before = "";
    for group in &groups {
        let colour = match group.severity {
            Severity::Invalid => "1;31",
            Severity::Caution => "33",
            Severity::Note | Severity::Pass => "36",
        };
        // A check is named once.
        let name = if group.check == before { "" } else { &group.check };
        before = &group.check;
        told(out, group, name, &paint.with(colour, &format!("{:<7}", group.severity)), layout.width);
    }
    if !passed.is_empty() {
        for (n, line) in wrap(&passed.join(", "), layout.width - 11).into_iter().enumerate() {
            let head = if n == 0 { paint.with("32", "pass   ") } else { " ".repeat(7) };
            let _ = writeln!(out, "  {head}  {line}");
        }
    }
}

fn told(out: &mut String, group: &Grouped, name: &str, severity: &str, width: usize) {
    let mut lines = Vec::new();
    for found in &group.findings {
        let text = if found.places.is_empty() {
            found.observed.clone()
        } else {
            format!("{}: {}", found.places, found.observed)
        };
        lines.extend(wrap(&text, width - INDENT));
    }
    if group.more > 0 {
        lines.push(format!("and {} more; run.json holds them all", group.more));
    }
    lines.extend(wrap(&format!("[{}]", group.threshold), width - INDENT));
    if !group.advice.is_empty() {
        for (n, line) in wrap(&group.advice, width - INDENT - 2).into_iter().enumerate() {
            lines.push(format!("{}{line}", if n == 0 { "→ " } else { "  " }));
        }
    }
    for (n, line) in lines.into_iter().enumerate() {
        let _ = if n == 0 {
            writeln!(out, "  {severity}  {name:<22}{line}")
        } else {
            writeln!(out, "{:INDENT$}{line}", "")
        };
    }
}
