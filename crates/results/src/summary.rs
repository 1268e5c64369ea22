//! Formats a result as text for a terminal, as a pure function.

mod brief;
mod configurations;
mod settings;
mod sweeps;
mod validity;

use std::fmt::Write;

pub use brief::brief;

use crate::answer::{Answer, answer};
use crate::claims::claim_table;
use crate::figures::{in_documents, is_bulk};
use crate::generators::generators;
use crate::human::{bytes, count, digits, duration, percent, plural, rate, workers};
use crate::lines::{facts as in_lines, paragraph, sparkline};
use crate::side_by_side::{op_cells, op_columns, time_cells};
use crate::table::ColumnKind::Count;
use crate::table::{Cell, Table};
use crate::times;
use crate::validity::Severity;
use crate::{OpResult, PhaseResult, RunResult, SearchResult, TasksResult, TrialResult, WatchedProcess};

/// The width of a text in columns if nothing else is known.
pub const WIDTH: usize = 116;
/// The smallest width in columns: some parts have to fit on one line.
const NARROWEST: usize = 60;

/// The layout of a text.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The width of its lines.
    pub(crate) width: usize,
    /// The width of its tables. Without a window they are as wide as they need to be.
    table_width: usize,
    pub(crate) paint: Paint,
}

impl Layout {
    /// A layout of `width` columns, at least 60, with or without the colours of a terminal.
    pub fn new(width: usize, colour: bool) -> Self {
        let width = width.max(NARROWEST);
        Self { width, table_width: width, paint: Paint(colour) }
    }

    /// A layout for a file or a pipe.
    pub fn plain() -> Self {
        Self { table_width: usize::MAX, ..Self::new(WIDTH, false) }
    }

    /// A table, indented by two spaces.
    pub fn table(&self, table: &Table) -> String {
        table.print_within(2, self.table_width)
    }
}

/// A run with more trials is only shown by its configurations.
const DETAILED_TRIALS: usize = 4;

/// Writes with or without colour.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// The number of invisible characters in bold text.
    fn signs(self) -> usize {
        if self.0 { 8 } else { 0 }
    }

    pub(crate) fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// The summary of a run, in the order of the report: the question and the answer, how stores are set up, the checks,
/// configurations compared phase by phase, the effect of factors, cost, and published claims. With few trials, a table
/// for each phase follows; with many, a reference to the folder.
pub fn summary(result: &RunResult, layout: Layout) -> String {
    let paint = layout.paint;
    let mut out = String::new();
    header(&mut out, result, layout);
    out.push_str(&settings::lines(result, layout));
    validity::checks(&mut out, result, layout);
    out.push_str(&configurations::tables(result, layout));
    out.push_str(&sweeps::tables(result, layout));
    if let Some(cost) = &result.cost {
        let _ = write!(out, "\n{cost}");
    }
    if !result.claims.is_empty() {
        let _ = write!(out, "\n{}\n{}", paint.bold("Published claims"), claim_table(&result.claims));
    }
    let of = result.trials.len();
    let shown = result.trials.iter().filter(|trial| of <= DETAILED_TRIALS || trial.failure.is_some());
    for trial in shown {
        out.push('\n');
        trial_header(&mut out, trial, of.max(result.plan.trials.len()), paint);
        for phase in &trial.phases {
            out.push('\n');
            phase_text(&mut out, phase, layout);
            let found = trial.searches.iter().find(|search| search.phase == phase.name);
            out.extend(found.map(|search| format!("  {}\n", searched(search))));
        }
        if let Some(failure) = &trial.failure {
            let text = format!("ended early, in {}: {}", failure.during, failure.message);
            let _ = writeln!(out, "\n{}", paint.with("31", &text));
        }
    }
    if of > DETAILED_TRIALS {
        let trials = count(of as u64);
        let _ = writeln!(out, "\nfor each of the {trials} trials, see run.json in the run folder, or --json");
    }
    out
}

/// The title, the question and the answer.
fn opening(out: &mut String, result: &RunResult, found: &Answer, layout: Layout) {
    let (run, paint) = (&result.run, layout.paint);
    let _ = writeln!(out, "{}", paint.bold(&run.title));
    if let Some(question) = &run.question {
        out.push_str(&paragraph("", "", question, layout.width));
    }
    if let Some(part) = run.part {
        let text = format!(
            "Part {} of {}: these figures are of this part alone. Merge the parts with `storebench merge`.",
            part.number, part.of
        );
        out.push_str(&paragraph("", "", &text, layout.width));
    }
    let said = paragraph("", "", &found.found, layout.width);
    let _ = write!(out, "\n{}", said.lines().map(|line| paint.bold(line) + "\n").collect::<String>());
}

/// What the checks say about the answer, in the colour of their severity.
fn trust(found: &Answer, layout: Layout) -> String {
    let colour = match found.severity {
        Severity::Invalid => "1;31",
        Severity::Caution => "33",
        Severity::Note | Severity::Pass => "32",
    };
    let said = paragraph("", "", &found.trust, layout.width);
    said.lines().map(|line| layout.paint.with(colour, line) + "\n").collect()
}

fn header(out: &mut String, result: &RunResult, layout: Layout) {
    let run = &result.run;
    let found = answer(result);
    opening(out, result, &found, layout);
    for change in &found.changes {
        out.push_str(&paragraph("", "  ", change, layout.width));
    }
    let _ = writeln!(out, "{}", trust(&found, layout));
    let mut facts = vec![format!("seed {}", run.seed)];
    if run.scale != 1.0 {
        facts.push(format!("scale {}", run.scale));
    }
    facts.extend(run.overrides.iter().map(|o| match o.strip_prefix("preset=") {
        Some(name) => format!("--preset {name}"),
        None => format!("--set {o}"),
    }));
    facts.push(format!("storebench {}", run.storebench_version));
    if run.interrupted {
        facts.push("interrupted: the figures cover the time before".to_owned());
    }
    let _ = writeln!(out, "{}", facts.join(" · "));
    for c in &result.documents {
        if let Some(existing) = &c.existing {
            let text = format!("{}: existing documents in `{existing}`, read only", c.named());
            out.push_str(&paragraph("", "  ", &text, layout.width));
            continue;
        }
        let mut text = format!("{}: {} documents of {}", c.named(), count(c.count), bytes(c.mean_bytes as f64));
        if let Some(found) = &c.compression {
            let (page, doc) = (percent(found.page_zstd3), percent(found.doc_snappy));
            let _ = write!(text, ", compressed to {page} (zstd, pages) or {doc} (snappy, documents)");
        }
        if c.skipped_lines > 0 {
            let _ = write!(text, ", {} of the file skipped", plural(c.skipped_lines, "line"));
        }
        out.push_str(&paragraph("", "  ", &text, layout.width));
    }
}

fn trial_header(out: &mut String, trial: &TrialResult, of: usize, paint: Paint) {
    let mut text = format!("{} · {} · {}", paint.bold(&trial.store), trial.url, trial.version);
    if of > 1 {
        let _ = write!(text, " · trial {} of {of}, round {}", trial.trial, trial.round);
    }
    let _ = writeln!(out, "{text}");
    for sampled in trial.sampled.values() {
        let (keys, bytes) = (count(sampled.keys), bytes(sampled.mean_bytes as f64));
        let _ = writeln!(out, "{keys} keys of `{}` sampled, documents of {bytes}", sampled.existing);
    }
    for index in &trial.indexes {
        let _ = writeln!(out, "index {} of {}: {}", index.name, index.collection, index.in_words());
    }
}

fn phase_text(out: &mut String, phase: &PhaseResult, layout: Layout) {
    let paint = layout.paint;
    let (head, width) = (format!("{}: ", paint.bold(&phase.name)), layout.width + paint.signs());
    if phase.ops.is_empty() {
        out.push_str(&in_lines(&head, &rested(phase), width));
        return;
    }
    if phase.warm_up {
        let operations = count(phase.ops.values().fold(0, |sum: u64, op| sum.saturating_add(op.count)));
        let took = duration(phase.elapsed_ns as f64);
        let _ = writeln!(out, "{head}warm-up, {operations} operations in {took}, not part of the result");
        return;
    }
    let mut facts = vec![duration(phase.elapsed_ns as f64)];
    facts.extend(match (&phase.tasks, &phase.rate) {
        (Some(tasks), _) => copied(phase, tasks),
        (None, Some(found)) => {
            vec![workers_of(phase), format!("open loop, {}/s scheduled", rate(found.scheduled_per_s))]
        }
        (None, None) => vec![workers_of(phase), "closed loop".to_owned()],
    });
    facts.push(format!("durability {}", phase.durability.in_words()));
    out.push_str(&in_lines(&head, &facts, width));
    out.push_str(&layout.table(&phase_table(phase)));
    out.extend(times::note([phase]).map(|note| paragraph("  ", "    ", &note, layout.width)));
    out.extend(generators(phase).map(|table| layout.table(&table)));
    let mut facts = Vec::new();
    let client = &phase.client;
    facts.extend(client.process_cpu_us_per_op.map(|us| format!("whole process {} CPU/op", duration(us * 1e3))));
    if client.spin_cpu_s > 0.0 {
        facts.push(format!("active waiting {} CPU", duration(client.spin_cpu_s * 1e9)));
    }
    facts.push(format!("peak memory {}", bytes(client.rss_max_bytes as f64)));
    facts.extend(client.send_delay_ns.p99.map(|p99| format!("send delay p99 {}", duration(p99 as f64))));
    if phase.tasks.is_none() {
        facts.push(format!("{} distinct keys", count(phase.documents.distinct_keys)));
    }
    let disk = phase.store_after.as_ref().and_then(|after| after.disk_bytes);
    facts.extend(disk.map(|disk| format!("on disk {}", bytes(disk as f64))));
    out.push_str(&in_lines("  ", &facts, layout.width));
    if !phase.course_per_s.is_empty() {
        let most = phase.course_per_s.iter().copied().fold(0.0, f64::max);
        let _ = writeln!(out, "  over time {} up to {}/s", sparkline(&phase.course_per_s), rate(most));
    }
    out.push_str(&in_lines("  ", &used(phase), layout.width));
    if let Some(found) = &phase.bottleneck {
        let text = format!("bottleneck: {} ({})", found.limit.in_words(), found.evidence);
        out.push_str(&paragraph("  ", "    ", &text, layout.width));
    }
    if let Some(facts) = troubles(phase) {
        let _ = writeln!(out, "  {}", paint.with("33", &facts));
    }
    if let Some(why) = &phase.partial {
        let _ = writeln!(out, "  {}", paint.with("33", &format!("ended early: {why}")));
    }
}

/// Facts about a phase that sends nothing.
fn rested(phase: &PhaseResult) -> Vec<String> {
    let took = |ns: u64| duration(ns as f64);
    let mut facts = vec!["no operations are sent".to_owned()];
    if let Some(of) = &phase.restarted {
        facts.push(format!("stopped in {}", took(of.stop_ns)));
        facts.extend(of.dropped.clone());
        facts.extend(of.listening_ns.map(|ns| format!("listening {} after the start", took(ns))));
        facts.push(format!("ready after {}", took(of.ready_ns)));
    }
    if let Some(after) = &phase.store_after {
        facts.extend(after.compact_ns.map(|ns| format!("compacted in {}", took(ns))));
        let rested = if after.settled == Some(true) { "settled after" } else { "not settled after" };
        facts.extend(after.settle_ns.map(|ns| format!("{rested} {}", took(ns))));
        facts.extend(after.disk_bytes.map(|disk| format!("on disk {}", bytes(disk as f64))));
        facts.extend(after.disk_peak_bytes.map(|peak| format!("peak on disk {}", bytes(peak as f64))));
    }
    facts
}

/// What the store's processes used. An embedded store shares the client's process, whose use is already shown.
fn used(phase: &PhaseResult) -> Vec<String> {
    let Some(store) = phase.resources.as_ref().and_then(|used| used.store.as_ref()) else { return Vec::new() };
    let mut facts = Vec::new();
    if store.whose == WatchedProcess::Server {
        // Use below the kernel's ticks is not known.
        facts.extend(
            store.cpu_us_per_op.filter(|us| *us > 0.0).map(|us| format!("server {} CPU/op", duration(us * 1e3))),
        );
        facts.push(format!("peak memory {}", bytes(store.rss_max_bytes as f64)));
    }
    let disk = phase.resources.as_ref().and_then(|used| used.disk.as_ref());
    let written = disk.and_then(|disk| disk.write_amplification);
    facts.extend(written.map(|by| format!("write amplification ×{}", digits(by))));
    let unknown = disk.and_then(|disk| disk.amplification_unknown.as_ref());
    facts.extend(unknown.map(|why| format!("write amplification unknown: {why}")));
    facts
}

/// Retries, lost connections and the like. `None` if there were none.
fn troubles(phase: &PhaseResult) -> Option<String> {
    let sum = |of: fn(&OpResult) -> u64| phase.ops.values().fold(0, |sum: u64, op| sum.saturating_add(of(op)));
    let (retries, conflicts) = (sum(|op| op.retries), sum(|op| op.conflicts));
    let seen = &phase.connection_events;
    let facts: Vec<String> = [
        (conflicts, "transaction undone because of another one", "transactions undone because of others"),
        (retries.saturating_sub(conflicts), "retry after a temporary failure", "retries after temporary failures"),
        (seen.disconnects, "connection lost", "connections lost"),
        (seen.splits, "bulk request split in two", "bulk requests split in two"),
        (phase.unknown_outcomes, "unknown write outcome", "unknown write outcomes"),
    ]
    .into_iter()
    .filter(|(n, ..)| *n > 0)
    .map(|(n, one, many)| format!("{} {}", count(n), if n == 1 { one } else { many }))
    .collect();
    (!facts.is_empty()).then(|| facts.join(" · "))
}

/// What a copy moved, and with how many tasks.
fn copied(phase: &PhaseResult, tasks: &TasksResult) -> Vec<String> {
    let seconds = (phase.elapsed_ns as f64 / 1e9).max(1e-9);
    vec![
        format!("{} of {} tasks at once", count(tasks.at_once.into()), count(tasks.asked.into())),
        plural(tasks.parts, "part"),
        format!("{} documents", count(phase.documents.count)),
        format!("{}/s", bytes(phase.documents.bytes as f64 / seconds)),
    ]
}

fn workers_of(phase: &PhaseResult) -> String {
    workers(phase.workers, phase.connections, phase.in_flight)
}

/// What a search found: `rate within limits: 336/s (400/s fails; 7 probes)`.
fn searched(search: &SearchResult) -> String {
    let probes = plural(search.probes.len() as u64, "probe");
    let found = match (search.rate, search.fails_at) {
        (Some(found), Some(fails)) => format!("{}/s ({}/s fails; {probes})", rate(found), rate(fails)),
        (Some(found), None) => format!("at least {}/s ({probes})", rate(found)),
        (None, Some(fails)) => match search.not_held() {
            Some((highest, times)) => {
                format!("none ({}/s met the limits, but not for {times} times as long; {probes})", rate(highest))
            }
            None => format!("none ({}/s fails; {probes})", rate(fails)),
        },
        (None, None) => format!("unknown ({probes})"),
    };
    let ended = if search.complete { "" } else { "; the search did not finish" };
    format!("rate within limits: {found}{ended}")
}

/// One row for each operation and kind of time. With several operations, the last rows are for all of them.
fn phase_table(phase: &PhaseResult) -> Table {
    let any = |of: fn(&OpResult) -> bool| phase.ops.values().any(of);
    let mut hidden: Vec<&str> = Vec::new();
    hidden.extend((!in_documents([phase]) && !any(is_bulk)).then_some("docs/s"));
    hidden.extend((!any(|op| op.misses > 0)).then_some("misses"));
    hidden.extend((!any(|op| op.unfinished > 0)).then_some("unfinished"));
    let mut table = Table::new(op_columns().chain([("client CPU/op", Count)]));
    let cpu = phase.client.cpu_us_per_op.map_or_else(|| "not measured".to_owned(), |us| duration(us * 1e3));
    let lone = phase.ops.len() == 1;
    let mut add = |name: &str, op: &OpResult, cpu: &str| {
        let did = op_cells(name, op, phase.loads && !lone && name != "all");
        let response = times::response(op).map(|times| ("response", times));
        // The second row is for the same operation.
        for (nth, (kind, times)) in response.into_iter().chain([("service", times::service(op))]).enumerate() {
            let mut row = if nth == 0 { did.clone() } else { vec![Cell::default(); did.len()] };
            row.extend(time_cells(kind, &times));
            row.push(if nth == 0 { cpu.into() } else { Cell::default() });
            table.rows.push(row);
        }
    };
    for (name, op) in &phase.ops {
        add(name, op, if lone { &cpu } else { "" });
    }
    if !lone {
        add("all", &all_of(phase), &cpu);
    }
    table.without(&hidden)
}

/// All operations of a phase as one: counts are added, times come from the merged histograms.
fn all_of(phase: &PhaseResult) -> OpResult {
    let mut all = OpResult {
        response_ns: phase.all.response_ns,
        response_of_attempts_ns: phase.all.response_of_attempts_ns,
        service_ns: phase.all.service_ns,
        service_of_attempts_ns: phase.all.service_of_attempts_ns,
        client_queueing_ns: phase.all.client_queueing_ns,
        ..OpResult::default()
    };
    for op in phase.ops.values() {
        all.count = all.count.saturating_add(op.count);
        all.errors = all.errors.saturating_add(op.errors);
        all.misses = all.misses.saturating_add(op.misses);
        all.unfinished = all.unfinished.saturating_add(op.unfinished);
        all.throughput_per_s += op.throughput_per_s;
        all.documents_per_s += op.documents_per_s;
    }
    all
}

#[cfg(test)]
mod tests {
    use storebench_engine::measure::{Partial, PartialCause};
    use storebench_engine::store::SessionCounters;

    use super::*;
    use crate::fixture;

    #[test]
    fn in_brief() {
        let one = fixture::run_of(&[fixture::load(), fixture::open_loop(), fixture::closed_loop()]);
        let swept = fixture::concluded(fixture::swept());
        let texts: Vec<String> =
            [one, swept].map(|run| brief(&fixture::concluded(run), Layout::new(100, false))).into();
        assert!(texts.iter().all(|text| text.lines().all(|l| l.chars().count() <= 100)), "{texts:#?}");
        assert!(texts.iter().all(|text| text.lines().count() <= 24), "{texts:#?}");
        insta::assert_snapshot!(texts.join("\n----\n"));
    }

    #[test]
    fn lines_that_were_skipped_are_told_on_the_first_screen() {
        let mut run = fixture::run_of(&[fixture::open_loop()]);
        run.documents.first_mut().unwrap().skipped_lines = 7;
        let text = brief(&fixture::concluded(run), Layout::new(100, false));
        assert!(text.contains("7 lines of the file skipped"), "{text}");
    }

    /// Such as a query that has no text for a store.
    #[test]
    fn an_operation_that_a_configuration_leaves_out_has_no_figure() {
        let mut run = fixture::swept();
        let last = run.trials.last().unwrap().configuration.clone();
        for trial in run.trials.iter_mut().filter(|trial| trial.configuration == last) {
            trial.phases.iter_mut().for_each(|phase| drop(phase.ops.shift_remove("update")));
        }
        let text = brief(&fixture::concluded(run), Layout::new(100, false));
        let rows: Vec<&str> = text.lines().filter(|line| line.trim_end().ends_with(" none")).collect();
        assert!(rows.len() == 1 && !text.contains("too few"), "{text}");
    }

    #[test]
    fn a_load_an_open_and_a_closed_loop() {
        let mut result = fixture::run_of(&[fixture::load(), fixture::open_loop(), fixture::closed_loop()]);
        result.checks = crate::validity::judge(&result);
        let text = summary(&result, Layout::plain());
        assert!(text.lines().all(|l| l.chars().count() <= 120), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn configurations_beside_each_other_and_what_more_of_a_factor_does() {
        let text = summary(&fixture::concluded(fixture::swept()), Layout::plain());
        assert!(text.lines().all(|l| l.chars().count() <= 120), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn each_store_has_a_line_for_its_settings() {
        let mut run = fixture::run_of(&[fixture::closed_loop()]);
        let settings = fixture::settings(Some(2_000 << 10), &[("journal_mode", "wal", Some(true))]);
        run.trials[0].settings = Some(settings);
        let text = summary(&run, Layout::plain());
        let line = "\nSettings\n  sqlite: memory 1.95 MiB, 1 setting changed (journal_mode wal)\n";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn colour_adds_signs_only() {
        let mut result = fixture::run_of(&[fixture::closed_loop()]);
        result.checks = crate::validity::judge(&result);
        let coloured = summary(&result, Layout::new(WIDTH, true));
        let mut plain = String::new();
        let mut parts = coloured.split('\u{1b}');
        plain.push_str(parts.next().unwrap());
        for part in parts {
            plain.push_str(part.split_once('m').unwrap().1);
        }
        assert_ne!(coloured, plain);
        assert_eq!(plain, summary(&result, Layout::plain()));
    }

    #[test]
    fn a_failed_and_interrupted_run_says_so() {
        let mut phase = fixture::open_loop();
        phase.partial = Some(Partial { cause: PartialCause::Interrupted, why: "interrupted".into() });
        phase.total.connections = SessionCounters { disconnects: 2, splits: 1 };
        phase.total.ops[0].retries = 1_200;
        phase.total.ops[1].unfinished_sent = 3;
        phase.total.ops[0].unfinished = 40;
        phase.total.ops[1].missed = 3;
        let mut result = fixture::run_of(&[phase]);
        result.run.interrupted = true;
        result.trials[0].failure = Some(crate::Failure {
            kind: crate::FailureKind::Failed,
            during: "steady".into(),
            message: "the disk is full".into(),
        });
        result.checks = crate::validity::judge(&result);
        insta::assert_snapshot!(summary(&result, Layout::plain()));
    }
}
