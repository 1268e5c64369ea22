//! Whether a result reproduces, as text for a terminal.

use std::fmt::Write as _;

use super::reproduced::{RepeatedClaim, Reproduction};
use crate::claims::{ClaimVerdict, estimate};
use crate::human::cut;
use crate::lines::paragraph;
use crate::stats::Estimate;
use crate::summary::Layout;
use crate::table::ColumnKind::{Configuration, Text};
use crate::table::Table;

/// The width of the column that says it.
const VERDICT: usize = 18;
/// The most characters of what differs that a row shows.
const MOST: usize = 50;

/// The answer, each claim, what differs, and the figures beside each other.
pub fn rerun_text(of: &Reproduction, layout: Layout) -> String {
    let mut out = String::new();
    for line in paragraph("", "", &of.answer, layout.width).lines() {
        let _ = writeln!(out, "{}", layout.paint.bold(line));
    }
    out.push('\n');
    for claim in &of.claims {
        let first = format!("{:VERDICT$}", claim.verdict);
        let further = " ".repeat(VERDICT);
        out.push_str(&paragraph(&first, &further, &claim.says, layout.width));
        out.push_str(&paragraph(&further, &further, &details(claim), layout.width));
    }
    if of.claims.is_empty() {
        out.push_str("no claims\n");
    }
    if of.differences.is_empty() {
        out.push_str("\nNo difference between the machines, versions and settings is known.\n");
    } else {
        let mut table = Table::new([("what differs", Text), ("bundle", Text), ("here", Text)]);
        for one in &of.differences {
            table.row([cut(&one.what, MOST), cut(&one.bundle, MOST), cut(&one.here, MOST)]);
        }
        let _ = write!(out, "\n{}", layout.table(&table));
    }
    if !of.figures.is_empty() {
        let mut table =
            Table::new([("figure", Text), ("configuration", Configuration), ("bundle", Text), ("here", Text)]);
        for one in &of.figures {
            let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "not measured".to_owned());
            table.row([one.figure.clone(), one.configuration.clone(), shown(&one.bundle), shown(&one.here)]);
        }
        let _ = write!(out, "\n{}\n", layout.table(&table));
        let note = "Figures of different machines are shown, and judge nothing. Claims are about shapes: orders, ratios, curves.";
        out.push_str(&paragraph("", "", note, layout.width));
    }
    out
}

fn details(claim: &RepeatedClaim) -> String {
    let found = |of: &Option<Estimate>| of.as_ref().map_or_else(|| "nothing found".to_owned(), estimate);
    let mut text = format!("bundle: {}; here: {}", found(&claim.bundle), found(&claim.here));
    if claim.published {
        let differs = if claim.in_bundle == ClaimVerdict::Differs { ", which differed in the bundle" } else { "" };
        text = format!("published{differs}; {text}");
    }
    if !claim.expected.is_empty() {
        let _ = write!(text, "; expected: {}", claim.expected);
    }
    if !claim.why.is_empty() {
        let _ = write!(text, "; {}", claim.why);
    }
    text
}
