//! The comparison as text for a terminal.

use std::fmt::Write;

use super::format::{
    about_gates, about_intervals, checks, detectable, facts, headline, how, interval, notes, outcome, ratio,
    reservations, shown, spread, unmatched, value,
};
use super::model::{CompareResult, ComparedFigure, ComparedPair, GateOutcome, Judgement};
use crate::human::percent;
use crate::lines::{self, facts as in_lines, wrap};
use crate::summary::{Layout, Paint};
use crate::table::ColumnKind::{Count, Text};
use crate::table::Table;
use crate::validity::Severity;

/// The comparison as text; `all` shows every figure.
pub fn text(result: &CompareResult, all: bool, layout: Layout) -> String {
    let paint = layout.paint;
    let mut out = String::new();
    let reservations = reservations(result);
    if !reservations.is_empty() {
        let _ = writeln!(out, "{}", paint.with("1;31", "Compared anyway"));
        reservations.iter().for_each(|text| paragraph(&mut out, "  ", text, layout));
        out.push('\n');
    }
    for (n, pair) in result.pairs.iter().enumerate() {
        if n > 0 {
            out.push('\n');
        }
        pair_text(&mut out, pair, all, layout);
    }
    let left = unmatched(result);
    if !left.is_empty() {
        out.push('\n');
        left.iter().for_each(|text| paragraph(&mut out, "", text, layout));
    }
    gates(&mut out, result, layout);
    let _ = writeln!(out, "\nunchanged: the whole 95 % interval of B/A lies within {} of 1", percent(result.threshold));
    if let Some(about) = about_intervals(result) {
        let _ = writeln!(out, "{about}");
    }
    out
}

/// In the order of a run's summary: what is compared, the answer, how far to trust it, the figures.
fn pair_text(out: &mut String, pair: &ComparedPair, all: bool, layout: Layout) {
    let paint = layout.paint;
    let _ = writeln!(out, "{}", paint.bold(&pair.a.title));
    if pair.b.title != pair.a.title {
        let _ = writeln!(out, "B: {}", paint.bold(&pair.b.title));
    }
    out.push_str(&in_lines("A  ", &facts(&pair.a), layout.width));
    out.push_str(&in_lines("B  ", &facts(&pair.b), layout.width));
    out.push_str(&lines::paragraph("", "", how(pair), layout.width));
    let figures = shown(pair, all);
    let lines = wrap(&headline(&figures), layout.width);
    let _ = writeln!(out, "\n{}", lines.iter().map(|line| paint.bold(line)).collect::<Vec<_>>().join("\n"));
    for (side, configuration) in [("A", &pair.a), ("B", &pair.b)] {
        for (severity, code) in [(Severity::Invalid, "1;31"), (Severity::Caution, "33")] {
            if let Some(checks) = checks(&configuration.checks, severity) {
                let head = paint.with(code, &format!("{side} {severity}"));
                let lines = wrap(&checks, layout.width - 12).join("\n            ");
                let _ = writeln!(out, "{head}: {lines}");
            }
        }
    }
    notes(pair).iter().for_each(|note| paragraph(out, "note: ", note, layout));
    if !figures.is_empty() {
        let _ = write!(out, "\n{}", table(&figures, paint));
    }
}

/// The figures, those of each phase and operation under its name.
fn table(figures: &[&ComparedFigure], paint: Paint) -> String {
    let numbers = ["A", "", "B", "", "B/A", "95 % interval"].map(|name| (name, Count));
    let mut table = Table::new([("", Text)].into_iter().chain(numbers).chain([("", Text)]));
    for figure in figures {
        let code = match figure.judgement {
            Judgement::Better => "32",
            Judgement::Worse => "31",
            Judgement::Missing => "1;31",
            Judgement::Inconclusive | Judgement::OneTrial | Judgement::OneRun | Judgement::AtLeast => "33",
            Judgement::Unchanged => "0",
        };
        table.row([
            figure.measure.clone(),
            value(figure, &figure.a),
            spread(&figure.a),
            value(figure, &figure.b),
            spread(&figure.b),
            ratio(figure.ratio),
            interval(figure.ratio),
            paint.with(code, &figure.word),
        ]);
    }
    let printed = table.print(2);
    let mut lines = printed.lines();
    let mut out = String::new();
    out.extend(lines.next().map(|names| format!("{names}\n")));
    let mut group = None;
    for (figure, line) in figures.iter().zip(lines) {
        let of = (&figure.phase, &figure.op);
        if group != Some(of) {
            let _ = writeln!(out, "{}", paint.bold(&figure.place()));
            group = Some(of);
        }
        let _ = writeln!(out, "{line}");
    }
    out
}

fn gates(out: &mut String, result: &CompareResult, layout: Layout) {
    let paint = layout.paint;
    if result.gates.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", paint.bold("Gates"));
    for gate in &result.gates {
        let code = match gate.outcome {
            GateOutcome::Passed => "32",
            GateOutcome::Undecided => "33",
            GateOutcome::Failed | GateOutcome::TooWeak => "1;31",
        };
        let head = paint.with(code, &format!("{:<9}", outcome(gate.outcome)));
        let mut facts = vec![gate.gate.clone(), gate.figure.clone()];
        facts.extend(result.pair_of(gate).map(|pair| pair.b.label()));
        let interval = interval(gate.ratio);
        let ratio = ratio(gate.ratio);
        facts.extend(match (ratio.is_empty(), interval.is_empty()) {
            (true, _) => None,
            (_, true) => Some(format!("B/A {ratio}")),
            _ => Some(format!("B/A {ratio} ({interval})")),
        });
        facts.extend(gate.why.clone());
        facts.extend(detectable(gate));
        let lines = in_lines("", &facts, layout.width - 13);
        let _ = write!(out, "  {head}  {}", lines.replace("\n ", "\n             "));
    }
    let about = about_gates(result);
    if !about.is_empty() {
        paragraph(out, "", &about, layout);
    }
}

/// A text in lines of the width, the first behind `head`.
fn paragraph(out: &mut String, head: &str, text: &str, layout: Layout) {
    out.push_str(&lines::paragraph(head, &" ".repeat(head.len()), text, layout.width));
}
