//! The report as Markdown, for a comment on a change: the answer, what it is worth, the arms.

use std::fmt::Write as _;

use storebench_lab::answer::answer;
use storebench_lab::beside::{ColumnKind, arms_beside};
use storebench_lab::human::{count, rate};
use storebench_lab::results::RunResult;
use storebench_lab::times;
use storebench_lab::verdicts::grouped;

use crate::subject::{Subject, run_names};

/// The report of these runs in the Markdown of GitHub.
pub fn markdown(subject: &Subject) -> String {
    let mut out = String::new();
    for (run, name) in subject.runs.iter().zip(run_names(&subject.runs)) {
        if !out.is_empty() {
            out.push('\n');
        }
        of_run(&mut out, &run.result, &name);
    }
    out
}

fn of_run(out: &mut String, of: &RunResult, name: &str) {
    let said = answer(of);
    let _ = writeln!(out, "## {}\n", escaped(&of.run.title));
    if let Some(question) = &of.run.question {
        let _ = writeln!(out, "_{}_\n", escaped(question));
    }
    let changes = said.changes.iter().map(|change| escaped(change) + " ").collect::<String>();
    let _ = writeln!(out, "**{}** {changes}{}\n", escaped(&said.found), escaped(&said.worth));
    let (groups, passed) = grouped(&of.verdicts);
    for group in &groups {
        let saw = group.findings.first().map_or("", |found| found.saw.as_str());
        let _ = writeln!(out, "- {} **{}**: {}", group.level, group.check, escaped(saw));
    }
    if !passed.is_empty() {
        let _ = writeln!(out, "- pass: {}", passed.join(", "));
    }
    let tables = arms_beside(of);
    for table in &tables {
        let _ = writeln!(out, "\n**{}**\n", escaped(&table.phase));
        let titles: Vec<String> = table.columns.iter().map(|column| escaped(&column.title)).collect();
        let rules = table.columns.iter().map(|column| match column.kind {
            ColumnKind::Count | ColumnKind::More | ColumnKind::Less => "---:",
            ColumnKind::Arm | ColumnKind::Ratio | ColumnKind::Text => "---",
        });
        line(out, &titles);
        line(out, &rules.map(str::to_owned).collect::<Vec<_>>());
        for row in &table.rows {
            line(out, &row.iter().map(|cell| escaped(&cell.text)).collect::<Vec<_>>());
        }
        for note in &table.notes {
            let _ = writeln!(out, "\n{}", escaped(note));
        }
    }
    if tables.is_empty() {
        single(out, of);
    }
    let _ = writeln!(
        out,
        "\n<sub>{} · seed {} · {} trials · storebench {}</sub>",
        escaped(name),
        of.run.seed,
        of.trials.len(),
        of.run.storebench_version
    );
}

fn single(out: &mut String, of: &RunResult) {
    out.push('\n');
    let phases = || of.trials.iter().flat_map(|t| &t.phases).filter(|p| !p.warm_up);
    let shown = times::SHOWN.into_iter().filter(|(name, ..)| ["p50", "p99"].contains(name));
    let mut titles = vec!["phase", "operation", "count", "ops/s", "docs/s", "errors", "time"];
    titles.extend(shown.clone().map(|(name, ..)| name));
    line(out, &titles.iter().map(|title| (*title).to_owned()).collect::<Vec<_>>());
    let rule = |title: &&str| if ["phase", "operation", "time"].contains(title) { "---" } else { "---:" }.to_owned();
    line(out, &titles.iter().map(rule).collect::<Vec<_>>());
    for phase in phases() {
        // Collections are loaded one after another, and nobody knows how long each of them took.
        let together = phase.loads && phase.ops.len() > 1;
        let per_s = |per_s: f64| if together { "-".to_owned() } else { rate(per_s) };
        for (name, op) in &phase.ops {
            let (kind, times) = times::main(op);
            let mut cells = vec![
                escaped(&phase.name),
                escaped(name),
                count(op.count),
                per_s(op.throughput_per_s),
                per_s(op.documents_per_s),
                count(op.errors),
                kind.to_owned(),
            ];
            cells.extend(shown.clone().map(|shown| times::cell(&times, shown)));
            line(out, &cells);
        }
    }
    for phase in phases() {
        if let Some(note) = times::note([phase]) {
            let _ = writeln!(out, "\n{}: {}", escaped(&phase.name), escaped(&note));
        }
    }
}

fn line(out: &mut String, cells: &[String]) {
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

/// Signs that Markdown or HTML would take for theirs.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '@' => out.extend(['\\', c]),
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
