//! The comparison as Markdown, such as for a comment on a pull request.

use std::fmt::Write;

use super::format::{
    APART, PAIRED, checks, counts, facts, interval, notes, outcome, ratio, reservations, shown, spread, unmatched,
    value,
};
use super::model::{CompareResult, ComparedFigure, ComparedPair, GateOutcome, Judgement};
use crate::human::percent;
use crate::verdicts::Level;

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
        "\n<sub>A is what B is compared with. Alike: the whole interval lies within {}.</sub>",
        percent(result.threshold)
    );
    out
}

fn pair_markdown(out: &mut String, pair: &ComparedPair, all: bool) {
    let _ = writeln!(out, "### {}\n", escaped(&pair.a.title));
    for (side, arm) in [("A", &pair.a), ("B", &pair.b)] {
        let _ = writeln!(out, "- **{side}**: {}", escaped(&facts(arm).join(" · ")));
    }
    let _ = writeln!(out, "- {}", if pair.paired_by_block { PAIRED } else { APART });
    let figures = shown(pair, all);
    let _ = writeln!(out, "\n**{}**\n", counts(&figures));
    if !figures.is_empty() {
        out.push_str("| figure | A | B | B/A | 95 % interval | |\n|---|--:|--:|--:|--:|---|\n");
        figures.iter().for_each(|figure| row(out, figure));
        out.push('\n');
    }
    for (side, arm) in [("A", &pair.a), ("B", &pair.b)] {
        for level in [Level::Invalid, Level::Caution] {
            if let Some(checks) = checks(&arm.verdicts, level) {
                let _ = writeln!(out, "- {side} {level}: {checks}");
            }
        }
    }
    for note in notes(pair) {
        let _ = writeln!(out, "- note: {}", escaped(&note));
    }
}

fn row(out: &mut String, figure: &ComparedFigure) {
    let with_spread = |text: String, spread: String| if spread.is_empty() { text } else { format!("{text} {spread}") };
    let word = match figure.judgement {
        Judgement::Better | Judgement::Worse | Judgement::Lacking => format!("**{}**", figure.word),
        _ => figure.word.clone(),
    };
    let _ = writeln!(
        out,
        "| {} | {} | {} | {} | {} | {word} |",
        code(&figure.figure),
        with_spread(value(figure, &figure.a), spread(&figure.a)),
        with_spread(value(figure, &figure.b), spread(&figure.b)),
        ratio(figure.ratio),
        interval(figure.ratio)
    );
}

fn gates(out: &mut String, result: &CompareResult) {
    if result.gates.is_empty() {
        return;
    }
    out.push_str("| gate | figure | B/A | 95 % interval | |\n|---|---|--:|--:|---|\n");
    for gate in &result.gates {
        let word = outcome(gate.outcome);
        let word = if gate.outcome == GateOutcome::Held { word.to_owned() } else { format!("**{word}**") };
        let figure = match result.pairs.get(gate.pair as usize - 1) {
            Some(pair) if result.pairs.len() > 1 => format!("{} of {}", code(&gate.figure), escaped(&pair.b.label())),
            _ => code(&gate.figure),
        };
        let (ratio, interval) = (ratio(gate.ratio), interval(gate.ratio));
        let word = gate.why.as_ref().map_or_else(|| word.clone(), |why| format!("{word}: {}", escaped(why)));
        let _ = writeln!(out, "| {} | {figure} | {ratio} | {interval} | {word} |", code(&gate.gate));
    }
    out.push('\n');
}

/// Text in which nothing is Markdown: names come from studies.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\n' | '\r' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '\\' | '`' | '*' | '_' | '|' | '[' | ']' | '#' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

/// A name as code in a table.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'").replace('|', "\\|").replace(['\n', '\r'], " "))
}
