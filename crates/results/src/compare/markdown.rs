//! The comparison as Markdown, such as for a comment on a pull request.

use std::fmt::Write;

use super::format::{
    about_gates, checks, detectable, facts, headline, how, interval, notes, outcome, ratio, reservations, shown,
    spread, unmatched, value,
};
use super::model::{CompareResult, ComparedFigure, ComparedPair, GateOutcome, Judgement};
use crate::human::percent;
use crate::stats::Estimate;
use crate::table::ColumnKind::{Count, Text};
use crate::table::{Table, escaped};
use crate::validity::Severity;

/// The comparison as Markdown; `all` shows every figure.
pub fn markdown(result: &CompareResult, all: bool) -> String {
    let mut out = String::new();
    let reservations = reservations(result);
    if !reservations.is_empty() {
        out.push_str("**Compared anyway**\n\n");
        reservations.iter().for_each(|text| out.push_str(&format!("- {}\n", escaped(text))));
        out.push('\n');
    }
    gates(&mut out, result);
    for pair in &result.pairs {
        pair_markdown(&mut out, pair, all);
    }
    for text in unmatched(result) {
        let _ = writeln!(out, "- {}", escaped(&text));
    }
    let _ = writeln!(
        out,
        "\n<sub>B is compared with A. Unchanged: the whole interval of B/A lies within {} of 1.</sub>",
        percent(result.threshold)
    );
    out
}

fn pair_markdown(out: &mut String, pair: &ComparedPair, all: bool) {
    let _ = writeln!(out, "### {}\n", escaped(&pair.a.title));
    for (side, configuration) in [("A", &pair.a), ("B", &pair.b)] {
        let _ = writeln!(out, "- **{side}**: {}", escaped(&facts(configuration).join(" · ")));
    }
    let _ = writeln!(out, "- {}", how(pair));
    let figures = shown(pair, all);
    let _ = writeln!(out, "\n**{}**\n", headline(&figures));
    if !figures.is_empty() {
        let numbers = ["A", "B", "B/A", "95 % interval"].map(|name| (name, Count));
        let mut table = Table::new([("figure", Text)].into_iter().chain(numbers).chain([("", Text)]));
        figures.iter().for_each(|figure| table.row(row(figure)));
        out.push_str(&table.markdown(str::to_owned));
        out.push('\n');
    }
    for (side, configuration) in [("A", &pair.a), ("B", &pair.b)] {
        for severity in [Severity::Invalid, Severity::Caution] {
            if let Some(checks) = checks(&configuration.checks, severity) {
                let _ = writeln!(out, "- {side} {severity}: {checks}");
            }
        }
    }
    for note in notes(pair) {
        let _ = writeln!(out, "- note: {}", escaped(&note));
    }
}

fn row(figure: &ComparedFigure) -> [String; 6] {
    let with_spread = |of: &Estimate| format!("{} {}", value(figure, of), spread(of)).trim_end().to_owned();
    let word = match figure.judgement {
        Judgement::Better | Judgement::Worse | Judgement::Missing => format!("**{}**", figure.word),
        _ => figure.word.clone(),
    };
    let (a, b) = (with_spread(&figure.a), with_spread(&figure.b));
    [code(&figure.figure), a, b, ratio(figure.ratio), interval(figure.ratio), word]
}

fn gates(out: &mut String, result: &CompareResult) {
    if result.gates.is_empty() {
        return;
    }
    let mut table =
        Table::new([("gate", Text), ("figure", Text), ("B/A", Count), ("95 % interval", Count), ("", Text)]);
    for gate in &result.gates {
        let word = outcome(gate.outcome);
        let mut word = if gate.outcome == GateOutcome::Passed { word.to_owned() } else { format!("**{word}**") };
        word.extend(gate.why.as_ref().map(|why| format!(": {}", escaped(why))));
        word.extend(detectable(gate).map(|text| format!("; {text}")));
        let mut figure = code(&gate.figure);
        figure.extend(result.pair_of(gate).map(|pair| format!(" of {}", escaped(&pair.b.label()))));
        table.row([code(&gate.gate), figure, ratio(gate.ratio), interval(gate.ratio), word]);
    }
    out.push_str(&table.markdown(str::to_owned));
    let about = about_gates(result);
    if !about.is_empty() {
        let _ = writeln!(out, "\n<sub>{about}</sub>");
    }
    out.push('\n');
}

/// A name as code in a table.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'").replace('|', "\\|").replace(['\n', '\r'], " "))
}
