//! The report as Markdown, for a comment on a pull request: the answer, the checks, the configurations.

use std::fmt::Write as _;

use storebench_results::RunResult;
use storebench_results::answer::answer;
use storebench_results::side_by_side::{configuration_tables, operations};
use storebench_results::table::escaped;
use storebench_results::times;
use storebench_results::validity::grouped;

use crate::subject::{Subject, run_names};

/// The report of these runs in GitHub-flavoured Markdown.
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
    let _ = writeln!(out, "**{}** {changes}{}\n", escaped(&said.found), escaped(&said.trust));
    let (groups, passed) = grouped(of);
    for group in &groups {
        let _ = writeln!(out, "- {} **{}**: {}", group.severity, group.check, escaped(&group.in_words()));
    }
    if !passed.is_empty() {
        let _ = writeln!(out, "- pass: {}", passed.join(", "));
    }
    let tables = configuration_tables(of);
    for table in &tables {
        let _ = writeln!(out, "\n**{}**\n", escaped(&table.phase));
        out.push_str(&table.table.markdown(escaped));
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
    let phases = || of.measured_phases();
    let table = operations(phases()).without(&["misses", "unfinished", "p90", "p99.9", "max"]);
    out.push_str(&table.markdown(escaped));
    for phase in phases() {
        if let Some(note) = times::note([phase]) {
            let _ = writeln!(out, "\n{}: {}", escaped(&phase.name), escaped(&note));
        }
    }
}
