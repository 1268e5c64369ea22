//! Claims as text for a terminal.

use super::model::{ClaimResult, ClaimVerdict};
use crate::human::number;
use crate::lines::wrap;
use crate::stats::Estimate;

/// Widths of the columns, 120 in all with two spaces between: claim, published, found, verdict.
const WIDTHS: [usize; 4] = [42, 24, 24, 24];
const INDENT: usize = 4;
const WIDTH: usize = 120;
/// What the intervals of claims are, since they differ from those of the other tables.
const INTERVALS: &str = "[low, high] is a 95 % interval over rounds. A claim about several configurations takes them together, \
                         round by round, so its interval may be narrower than that of each.";

/// Claims as a table of at most 120 columns. Below each claim stand its test, the finding for each group of
/// configurations, and the reason for the verdict.
pub(crate) fn claim_table(claims: &[ClaimResult]) -> String {
    let mut out = String::new();
    row(&mut out, ["claim", "published", "found here", "verdict"].map(str::to_owned));
    for claim in claims {
        let found = claim.found.as_ref().map_or("not measured".to_owned(), estimate);
        row(&mut out, [claim.says.clone(), claim.figures.clone(), found, claim.verdict.to_string()]);
        if !claim.expected.is_empty() {
            note(&mut out, &format!("expected: {}", claim.expected));
        }
        for part in &claim.each {
            note(&mut out, &format!("{}: {}, {}", part.configurations, estimate(&part.found), part.verdict));
        }
        if !claim.why.is_empty() {
            let why = if claim.verdict == ClaimVerdict::NotTestable { "because" } else { "why" };
            note(&mut out, &format!("{why}: {}", claim.why));
        }
        if let Some(source) = &claim.source {
            note(&mut out, &format!("source: {source}"));
        }
    }
    if claims.iter().any(|claim| claim.found.as_ref().is_some_and(|found| found.low.is_some())) {
        out.extend(narrow(INTERVALS, WIDTH).into_iter().map(|line| line + "\n"));
    }
    out
}

/// `5.12 [4.80, 5.46], n = 5`.
pub(crate) fn estimate(found: &Estimate) -> String {
    match (found.low, found.high) {
        (Some(low), Some(high)) => {
            format!("{} [{}, {}], n = {}", number(found.value), number(low), number(high), found.trials)
        }
        _ => format!("{}, n = {}", number(found.value), found.trials),
    }
}

fn row(out: &mut String, cells: [String; 4]) {
    let columns: Vec<_> = cells.iter().zip(WIDTHS).map(|(cell, width)| narrow(cell, width)).collect();
    let height = columns.iter().map(Vec::len).max().unwrap_or(0);
    for line in 0..height {
        let mut text = String::new();
        for (column, width) in columns.iter().zip(WIDTHS) {
            let part = column.get(line).map_or("", String::as_str);
            // Pads by characters, not bytes.
            text += &format!("{part:<width$}  ");
        }
        out.extend([text.trim_end(), "\n"]);
    }
}

/// Lines of at most `width` characters, even if one word is longer.
fn narrow(text: &str, width: usize) -> Vec<String> {
    let pieces = |line: &String| line.chars().collect::<Vec<_>>().chunks(width).map(String::from_iter).collect();
    wrap(text, width).iter().flat_map(|line| if line.is_empty() { vec![String::new()] } else { pieces(line) }).collect()
}

fn note(out: &mut String, text: &str) {
    out.extend(narrow(text, WIDTH - INDENT).iter().map(|line| format!("{:INDENT$}{line}\n", "")));
}
