//! The configurations in one short table: one row each, the best first, with the factors as columns.

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;
use storebench_study::workload::{short_names, shown_value};

use super::{NOT_COMPARED, Shown, figure_of, figures_of, find, lacking, ops_of, over};
use crate::answer::phases_told;
use crate::configurations::varied;
use crate::figures::{DOCUMENTS, THROUGHPUT, in_documents};
use crate::human::{count, duration, rate, ratio};
use crate::stats::Estimate;
use crate::table::{Cell, ColumnKind, Table};
use crate::times;
use crate::validity::forbidden;
use crate::{ConfigurationResult, FigureOverTrials, PhaseResult, RunResult, TrialResult};

/// The most rows of the table.
const MOST_ROWS: usize = 8;
/// The most faults that are listed.
const MOST_FAULTS: usize = 40;
/// The most phases that get columns.
const MOST_PHASES: usize = 3;

/// The table, and how many configurations it leaves out.
#[derive(Debug, Clone, PartialEq)]
pub struct BriefTable {
    /// The table.
    pub table: Table,
    /// Configurations, or faults, that are not in it.
    pub left_out: usize,
}

/// Lists faults, compares several configurations, or lists the phases of a single one. `None` if nothing was measured.
pub fn brief_table(result: &RunResult) -> Option<BriefTable> {
    if let Some(faults) = faults(result) {
        return Some(faults);
    }
    let ran = ran(result);
    match ran.as_slice() {
        [] => None,
        [one] => Some(BriefTable { table: phases_of(result, one), left_out: 0 }),
        several => Some(beside(result, several)),
    }
}

/// Configurations that ran, including those without a completed trial: a table without them would call others the best.
fn ran(result: &RunResult) -> Vec<&ConfigurationResult> {
    result.configurations.iter().filter(|of| of.trials + of.failed > 0 && !of.control).collect()
}

/// The figure by which the configurations of a run are compared, and whether less of it is better: `mixed.throughput`.
pub(crate) fn headline(result: &RunResult) -> Option<(String, bool)> {
    let Sorted { figures, by, .. } = sorted(result, &ran(result));
    let figure = by.and_then(|nth| figures.get(nth)).or_else(|| figures.iter().find(|figure| figure.compared))?;
    Some((format!("{}.{}", figure.phase, figure.measure), figure.kind == ColumnKind::Less))
}

/// Configurations, the best first, and the figures to show.
struct Sorted<'a> {
    configurations: Vec<&'a ConfigurationResult>,
    figures: Vec<Shown>,
    /// The index of the figure by which they are sorted.
    by: Option<usize>,
}

fn sorted<'a>(result: &RunResult, configurations: &[&'a ConfigurationResult]) -> Sorted<'a> {
    let mut phases = phases_told(result);
    // Those with limits are what the study asks about.
    phases.sort_by_key(|phase| !result.phases().any(|of| of.name == *phase && !of.limits.is_empty()));
    phases.truncate(MOST_PHASES);
    let several = phases.len() > 1;
    let mut figures: Vec<Shown> = phases.iter().flat_map(|phase| figures_of(result, configurations, phase)).collect();
    if several {
        figures.retain(|figure| figure.compared);
        figures.iter_mut().for_each(|figure| figure.title = format!("{} {}", figure.phase, figure.title));
    } else {
        figures.retain(|figure| !figure.measure.ends_with(".p99.9"));
    }
    let mut by = figures.iter().position(|figure| figure.compared);
    let mut sorted = configurations.to_vec();
    let factors = varied(configurations.iter().map(|of| &of.values));
    if let Some(path) = factors.first().filter(|path| factors.len() == 1 && path.ends_with(".rate")) {
        // What is asked of a store is no result of it: none of these is the best.
        by = None;
        sorted.sort_by(|a, b| {
            let value =
                |of: &ConfigurationResult| of.values.get(*path).and_then(Value::as_f64).unwrap_or(f64::INFINITY);
            value(a).total_cmp(&value(b))
        });
    }
    if let Some(Shown { phase, measure, kind, .. }) = by.and_then(|nth| figures.get(nth)) {
        // One that lacks the figure in a trial, or is not compared, sorts after the others.
        let value = |of: &ConfigurationResult| match find(of, phase, measure).filter(|f| f.figure.trials > 0) {
            Some(found) if *kind == ColumnKind::Less => (of.apart || !is_whole(found), found.figure.value),
            Some(found) => (of.apart || !is_whole(found), -found.figure.value),
            None => (true, f64::INFINITY),
        };
        sorted.sort_by(|a, b| {
            let ((lacks_a, a), (lacks_b, b)) = (value(a), value(b));
            lacks_a.cmp(&lacks_b).then(a.total_cmp(&b))
        });
    }
    Sorted { configurations: sorted, figures, by }
}

/// The best of each store, then the second best of each, and so on, in the given order. Every store has a row.
fn some_of_each_store<'a>(sorted: &[&'a ConfigurationResult]) -> Vec<&'a ConfigurationResult> {
    let mut seen: IndexMap<&str, usize> = IndexMap::new();
    let place = |of: &&'a ConfigurationResult| {
        let nth = seen.entry(&of.store).or_default();
        *nth += 1;
        *nth
    };
    let mut ranked: Vec<(usize, usize)> = sorted.iter().map(place).enumerate().map(|(at, nth)| (nth, at)).collect();
    ranked.sort_unstable();
    ranked.truncate(MOST_ROWS.max(seen.len()));
    let mut kept: Vec<usize> = ranked.into_iter().map(|(_, at)| at).collect();
    kept.sort_unstable();
    kept.into_iter().map(|at| sorted[at]).collect()
}

/// Whether every trial has the figure.
fn is_whole(figure: &FigureOverTrials) -> bool {
    figure.figure.trials > 0 && figure.none_in.is_empty()
}

fn beside(result: &RunResult, configurations: &[&ConfigurationResult]) -> BriefTable {
    let Sorted { configurations: sorted, figures, by } = sorted(result, configurations);
    let factors = varied(configurations.iter().map(|of| &of.values));
    let names = short_names(factors.iter().copied().collect::<Vec<_>>());
    let stores: IndexSet<&str> = configurations.iter().map(|c| c.store.as_str()).collect();
    let with_store = stores.len() > 1 || factors.is_empty();
    let mut columns: Vec<(String, ColumnKind)> = Vec::new();
    columns.extend(with_store.then(|| ("store".to_owned(), ColumnKind::Configuration)));
    columns.extend(factors.iter().map(|path| (names.get(path).copied().unwrap_or(path).to_owned(), ColumnKind::Count)));
    for (nth, figure) in figures.iter().enumerate() {
        columns.push((figure.title.clone(), figure.kind));
        columns.extend((Some(nth) == by).then(|| ("vs best".to_owned(), ColumnKind::Ratio)));
    }
    let best = sorted.first().copied();
    let best_is_first = best.is_some_and(|best| configurations.first().is_some_and(|first| std::ptr::eq(*first, best)));
    let mut table = Table::new(columns);
    let shown = some_of_each_store(&sorted);
    for configuration in &shown {
        let mut row: Vec<Cell> = Vec::new();
        row.extend(with_store.then(|| Cell::from(configuration.store.as_str())));
        row.extend(
            factors
                .iter()
                .map(|path| Cell::from(configuration.values.get(*path).map_or_else(|| "n/a".to_owned(), shown_value))),
        );
        for (nth, figure) in figures.iter().enumerate() {
            let found = figure_of(result, configuration, figure);
            row.push(match configuration.trials {
                0 if Some(nth) == by => "failed".into(),
                _ => over(found, figure.show, lacking(result, configuration, figure)),
            });
            if Some(nth) == by {
                let to_best = best.and_then(|best| find(best, &figure.phase, &figure.measure)).zip(found);
                let alike = best.is_some_and(|best| {
                    let ops = |of: &ConfigurationResult| ops_of(result, &of.configuration, &figure.phase);
                    ops(best) == ops(configuration)
                });
                row.push(match to_best {
                    Some(_) if configuration.apart => NOT_COMPARED.into(),
                    Some(_) if !alike => "other operations".into(),
                    Some((best, own)) => to_the_best(best, own, best_is_first),
                    None => Cell::default(),
                });
            }
        }
        table.rows.push(row);
    }
    BriefTable { left_out: sorted.len() - shown.len(), table }
}

/// One figure of several configurations, the best first, for a picture of the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Phase and figure: `mixed read p99`.
    pub title: String,
    /// Whether less is better, as it is for times.
    pub less: bool,
    /// The configurations.
    pub rows: Vec<PanelRow>,
    /// Configurations that are not in `rows`.
    pub left_out: usize,
}

/// A configuration in a [`Panel`].
#[derive(Debug, Clone, PartialEq)]
pub struct PanelRow {
    /// Its store.
    pub store: String,
    /// Its name.
    pub name: String,
    /// The figure with its interval, as text.
    pub text: String,
    /// The figure, if there is one.
    pub figure: Option<Estimate>,
}

/// The most figures in a picture.
const MOST_PANELS: usize = 3;

/// The figures that the answer is about, to compare configurations. Empty unless several were measured.
pub fn panels(result: &RunResult) -> Vec<Panel> {
    if ran(result).len() < 2 { Vec::new() } else { figures_of_answer(result) }
}

/// The figures that the answer is about, also of a single configuration.
pub fn figures_of_answer(result: &RunResult) -> Vec<Panel> {
    let ran = ran(result);
    let Sorted { configurations, figures, by } = sorted(result, &ran);
    let left_out = configurations.len();
    let configurations = some_of_each_store(&configurations);
    let left_out = left_out - configurations.len();
    let several = phases_told(result).len() > 1;
    // Lower percentiles say less, and a given rate is not a finding.
    let shown = |(nth, figure): &(usize, &Shown)| Some(*nth) == by || figure.measure.ends_with(".p99");
    let panel = |(_, figure): (usize, &Shown)| {
        let row = |of: &&ConfigurationResult| {
            let found = figure_of(result, of, figure);
            let lacking = lacking(result, of, figure);
            PanelRow {
                store: of.store.clone(),
                name: of.configuration.clone(),
                text: if of.trials == 0 { "failed".to_owned() } else { over(found, figure.show, lacking).text },
                figure: found.filter(|f| f.figure.trials > 0).map(|f| f.figure),
            }
        };
        let Shown { phase, title, kind, .. } = figure;
        let title = if several { title.clone() } else { format!("{phase}: {title}") };
        let rows = configurations.iter().map(row).collect();
        Panel { title, less: *kind == ColumnKind::Less, rows, left_out }
    };
    let all = figures.iter().enumerate().filter(shown).map(panel);
    all.filter(|panel| panel.rows.iter().any(|row| row.figure.is_some())).take(MOST_PANELS).collect()
}

/// The ratio of two figures. If the best is the first configuration, it is paired by rounds and has an interval.
fn to_the_best(best: &FigureOverTrials, own: &FigureOverTrials, best_is_first: bool) -> Cell {
    if !is_whole(best) || own.figure.trials == 0 || best.at_least || own.at_least {
        return Cell::default();
    }
    let text = match own.to_first.filter(|_| best_is_first) {
        Some(of) => ratio(&of),
        None => {
            let alone = |value| Estimate { value, low: None, high: None, trials: own.figure.trials };
            ratio(&alone(own.figure.value / best.figure.value))
        }
    };
    text.into()
}

/// One operation of a phase: its rate, and its times.
struct OpRow<'a> {
    phase: &'a str,
    op: String,
    per_s: Option<String>,
    /// `response` or `service`.
    time: &'static str,
    /// p50, p99, p99.9.
    times: [Option<&'a FigureOverTrials>; 3],
    loads: bool,
}

/// The operations of the measured phases of one configuration. Those of a load are one row.
fn op_rows<'a>(result: &'a RunResult, configuration: &'a ConfigurationResult) -> Vec<OpRow<'a>> {
    let phases: IndexSet<&str> = result.measured_phases().map(|phase| phase.name.as_str()).collect();
    let mut rows = Vec::new();
    for phase in phases {
        let of_phase = || result.measured_phases().filter(move |p| p.name == phase);
        let (what, unit) = if in_documents(of_phase()) { (DOCUMENTS.name, "docs") } else { (THROUGHPUT.name, "ops") };
        let ops: IndexSet<&str> = of_phase().flat_map(|p| p.ops.keys()).map(String::as_str).collect();
        let loads = of_phase().all(|p| p.loads);
        let apart = ops.len() > 1 && of_phase().all(|p| !p.loads);
        for op in &ops {
            let measured = |measure: &str| match apart {
                true => configuration.figures.get(&format!("{phase}.{op}.{measure}")),
                false => find(configuration, phase, measure),
            };
            let time = if measured("response.p50").is_some() { "response" } else { "service" };
            let together = !apart && ops.len() > 1;
            rows.push(OpRow {
                phase,
                op: if together { format!("{} operations", ops.len()) } else { (*op).to_owned() },
                per_s: measured(what).map(|found| format!("{} {unit}", over(Some(found), rate, "no").text)),
                time,
                times: ["p50", "p99", "p99.9"].map(|p| measured(&format!("{time}.{p}"))),
                loads,
            });
            if !apart {
                break;
            }
        }
    }
    rows
}

/// The measured phases of one configuration, one row for each operation.
fn phases_of(result: &RunResult, configuration: &ConfigurationResult) -> Table {
    let rows = op_rows(result, configuration);
    let mut columns =
        vec![("phase", ColumnKind::Text), ("operation", ColumnKind::Text), ("per second", ColumnKind::Text)];
    columns.extend(["p50", "p99", "p99.9"].map(|title| (title, ColumnKind::Less)));
    columns.push(("time", ColumnKind::Text));
    let mut table = Table::new(columns);
    for row in &rows {
        let mut cells: Vec<Cell> = vec![row.phase.into(), row.op.as_str().into()];
        cells.push(row.per_s.as_deref().unwrap_or("n/a").into());
        cells.extend(row.times.map(|found| over(found, duration, times::INFINITE)));
        cells.push(row.time.into());
        table.rows.push(cells);
    }
    let mixed = rows.iter().any(|row| row.time != rows[0].time);
    if mixed { table } else { named_by_time(table) }
}

/// The times of one operation of a single configuration, for a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Phase and operation.
    pub name: String,
    /// `response` or `service`.
    pub time: &'static str,
    /// In ns; infinite if so many operations failed or were not answered. None if there were too few operations.
    pub p50: Option<f64>,
    /// Likewise.
    pub p99: Option<f64>,
    /// Likewise.
    pub p999: Option<f64>,
}

/// The operations of a run with a single configuration. Loads are included only if there is nothing else.
pub fn spans(result: &RunResult) -> Vec<Span> {
    let ran = ran(result);
    let [configuration] = ran.as_slice() else { return Vec::new() };
    let mut rows = op_rows(result, configuration);
    if rows.iter().any(|row| !row.loads) {
        rows.retain(|row| !row.loads);
    }
    let value = |found: Option<&FigureOverTrials>| {
        found.map(|f| if f.figure.trials > 0 { f.figure.value } else { f64::INFINITY })
    };
    let span = |row: &OpRow<'_>| {
        let [p50, p99, p999] = row.times.map(value);
        let name = if row.loads { row.phase.to_owned() } else { format!("{}.{}", row.phase, row.op) };
        Span { name, time: row.time, p50, p99, p999 }
    };
    rows.iter().map(span).collect()
}

/// What faults did: a row for each, with the outage and what was lost. `None` if no fault was injected.
fn faults(result: &RunResult) -> Option<BriefTable> {
    let mut table = Table::new([
        ("configuration", ColumnKind::Configuration),
        ("phase", ColumnKind::Text),
        ("fault", ColumnKind::Text),
        ("writes lost", ColumnKind::Text),
        ("could not be read", ColumnKind::Text),
        ("outcome unknown", ColumnKind::Count),
        ("no answer for", ColumnKind::Less),
        ("failed operations", ColumnKind::Count),
        ("fault lasted", ColumnKind::Count),
        ("back at 95 % of rate after", ColumnKind::Less),
    ]);
    let several = result.trials.len() > 1;
    for trial in &result.trials {
        let name = match result.trials.len() > result.configurations.len() {
            true => format!("{}, trial {}", trial.configuration.as_str(), trial.trial),
            false => trial.configuration.clone(),
        };
        for phase in &trial.phases {
            for (nth, fault) in phase.faults.iter().enumerate() {
                let time = |ns: u64| Cell::number(duration(ns as f64), Some(ns as f64));
                let lasted = fault.mended_ns.zip(fault.began_ns).map(|(mended, began)| mended.saturating_sub(began));
                let outage = match fault.unavailable_ns {
                    _ if fault.began_ns.is_none() => "not injected".into(),
                    0 => "never".into(),
                    // No answer ended it: the store may be down still.
                    ns if fault.first_answer_ns.is_none() => {
                        Cell::number(format!("≥ {}, not back", duration(ns as f64)), Some(ns as f64))
                    }
                    ns => time(ns),
                };
                let failed = phase.failed_operations();
                let [lost, unread] = kept(trial, phase);
                // Counted over the phase, so in the row of its first fault.
                let of_phase = |text: String| if nth == 0 { text } else { String::new() };
                table.rows.push(vec![
                    name.as_str().into(),
                    of_phase(phase.name.clone()).into(),
                    fault.what.name().into(),
                    of_phase(lost).into(),
                    of_phase(unread).into(),
                    of_phase(count(phase.unknown_outcomes)).into(),
                    outage,
                    of_phase(count(failed)).into(),
                    lasted.map_or_else(Cell::default, time),
                    match (fault.recovered_ns, fault.began_ns) {
                        (Some(ns), _) => time(ns),
                        (None, Some(_)) => "not in this phase".into(),
                        (None, None) => Cell::default(),
                    },
                ]);
            }
        }
    }
    if table.rows.is_empty() {
        return None;
    }
    // A trial that ended before its faults must not be missing.
    for (trial, failure) in result.trials.iter().filter_map(|trial| Some((trial, trial.failure.as_ref()?))) {
        let mut row: Vec<Cell> =
            vec![trial.configuration.as_str().into(), failure.during.as_str().into(), "failed".into()];
        row.resize(table.columns.len(), Cell::default());
        table.rows.push(row);
    }
    let left_out = table.rows.len().saturating_sub(MOST_FAULTS);
    table.rows.truncate(MOST_FAULTS);
    let table = if several { table } else { table.without(&["configuration"]) };
    Some(BriefTable { table, left_out })
}

/// The keys of a phase that were lost, and those that could not be read. Nothing is known about the latter, so they are
/// not lost.
fn kept(trial: &TrialResult, phase: &PhaseResult) -> [String; 2] {
    let Some(ledger) = &phase.ledger else { return ["not checked", "not checked"].map(str::to_owned) };
    let number = |n: u64| if n == 0 { "none".to_owned() } else { count(n) };
    let allowed = if ledger.lost > 0 && forbidden(trial, phase).0 == 0 { " (allowed)" } else { "" };
    let lost = number(ledger.lost) + allowed;
    let unread = number(ledger.unread());
    match (ledger.unread(), ledger.unverifiable) {
        (0, _) => [lost, unread],
        (_, 0) => [format!("{lost} of {} read", count(ledger.read_back())), format!("{unread} (stopped)")],
        _ => [format!("{lost} of {} read", count(ledger.read_back())), unread],
    }
}

/// Moves the kind of time into the first title, since it is the same in all rows.
fn named_by_time(table: Table) -> Table {
    let time = table.rows.first().and_then(|row| row.last()).map(|cell| cell.text.clone());
    let mut table = table.without(&["time"]);
    if let (Some(time), Some(column)) = (time, table.columns.iter_mut().find(|column| column.title == "p50")) {
        column.title = format!("{time} p50");
    }
    table
}

#[cfg(test)]
mod tests {
    use storebench_engine::measure::LedgerReport;

    use super::*;
    use crate::{FaultResult, fixture};

    const MAIN: &str = "mixed.throughput";

    fn column(result: &RunResult, title: &str) -> Vec<String> {
        let table = brief_table(result).unwrap().table;
        let at = table.columns.iter().position(|column| column.title == title).unwrap();
        table.rows.iter().map(|row| row[at].text.clone()).collect()
    }

    #[test]
    fn lost_unread_and_unknown_writes_are_three_columns() {
        let cells = |lost, unverifiable, unread| {
            let mut run = fixture::run_of(&[fixture::closed_loop()]);
            let phase = &mut run.trials[0].phases[0];
            phase.durability.name = "fsync".into();
            phase.unknown_outcomes = 14;
            phase.faults = vec![FaultResult { began_ns: Some(1), ..FaultResult::default() }];
            let confirmed = 9 - lost - unverifiable - unread;
            phase.ledger =
                Some(LedgerReport { keys: 9, confirmed, lost, gone: lost, unverifiable, ..LedgerReport::default() });
            ["writes lost", "could not be read", "outcome unknown"].map(|title| column(&run, title).remove(0))
        };
        assert_eq!(cells(0, 0, 0), ["none", "none", "14"]);
        assert_eq!(cells(2, 0, 0), ["2", "none", "14"]);
        // A server that did not come back lost nothing that anybody knows of.
        assert_eq!(cells(0, 9, 0), ["none of 0 read", "9", "14"]);
        assert_eq!(cells(2, 3, 0), ["2 of 6 read", "3", "14"]);
        assert_eq!(cells(0, 0, 4), ["none of 5 read", "4 (stopped)", "14"]);
    }

    #[test]
    fn what_failed_is_in_the_table_and_last() {
        let mut run = fixture::concluded(fixture::swept());
        assert_eq!(column(&run, "workers"), ["8", "4", "2", "1"]);
        let best = &mut run.configurations[3];
        (best.trials, best.failed) = (0, 3);
        best.figures.clear();
        assert_eq!(column(&run, "workers"), ["4", "2", "1", "8"]);
        assert_eq!(column(&run, "ops/s").last().unwrap(), "failed");
        let shown = panels(&run);
        assert_eq!(shown[0].rows.last().map(|row| (row.text.as_str(), row.figure)), Some(("failed", None)));
    }

    #[test]
    fn a_load_that_found_its_documents_there_is_not_called_without_operations() {
        let mut run = fixture::swept();
        for trial in run.trials.iter_mut().filter(|trial| trial.configuration != "sqlite workers=1") {
            trial.phases.remove(0);
            trial.database_kept = true;
        }
        let tables = super::super::configuration_tables(&fixture::concluded(run));
        let load = &tables[0];
        let cells: Vec<&str> = load.table.rows[1].iter().skip(2).map(|cell| &cell.text[..]).collect();
        assert!(cells.iter().filter(|cell| **cell == "kept").count() >= 4, "{cells:?}");
        assert!(!cells.iter().any(|cell| cell.contains("too few")), "{cells:?}");
        assert!(load.notes.iter().any(|note| note.starts_with("kept: ")), "{:?}", load.notes);
        assert!(!load.table.rows[0].iter().any(|cell| cell.text == "kept"));
    }

    #[test]
    fn one_that_lacks_the_figure_in_a_trial_is_not_the_best() {
        let mut run = fixture::concluded(fixture::swept());
        run.configurations[3].figures.get_mut(MAIN).unwrap().none_in = vec![2];
        assert_eq!(column(&run, "workers"), ["4", "2", "1", "8"]);
    }

    #[test]
    fn every_store_has_a_row() {
        let mut run = fixture::concluded(fixture::swept());
        let own = run.configurations.clone();
        for store in ["b", "c"] {
            for of in &own {
                let name = of.configuration.replace("sqlite", store);
                run.configurations.push(ConfigurationResult { store: store.into(), configuration: name, ..of.clone() });
            }
        }
        // The slowest store.
        for of in run.configurations.iter_mut().filter(|of| of.store == "c") {
            of.figures.get_mut(MAIN).unwrap().figure.value /= 100.0;
        }
        let rows = column(&run, "store");
        let of = |store: &str| rows.iter().filter(|row| *row == store).count();
        assert_eq!((rows.len(), of("sqlite"), of("b"), of("c")), (8, 3, 3, 2), "{rows:?}");
        assert_eq!(rows.last().map(String::as_str), Some("c"));
        assert_eq!((brief_table(&run).unwrap().left_out, panels(&run)[0].left_out), (4, 4));
        // More stores than rows.
        run.configurations = (0..12)
            .map(|nth| ConfigurationResult {
                store: format!("s{nth}"),
                configuration: format!("s{nth}"),
                ..own[0].clone()
            })
            .collect();
        assert_eq!(brief_table(&run).unwrap().table.rows.len(), 12);
    }

    #[test]
    fn totals_of_other_operations_have_no_ratio() {
        let mut run = fixture::swept();
        for trial in run.trials.iter_mut().filter(|trial| trial.configuration == "sqlite workers=1") {
            trial.phases[1].ops.shift_remove("update");
        }
        let run = fixture::concluded(run);
        assert_eq!(column(&run, "vs best").last().unwrap(), "other operations");
    }

    /// A ratio to the first configuration is not passed off as one to the best.
    #[test]
    fn ratios_are_to_the_best() {
        let mut run = fixture::concluded(fixture::swept());
        // The best could not be paired with the first, but the others could.
        run.configurations[3].figures.get_mut(MAIN).unwrap().to_first = None;
        let of = |n: usize, run: &RunResult| run.configurations[n].figures[MAIN].figure.value;
        let expected = ratio(&Estimate { value: of(2, &run) / of(3, &run), low: None, high: None, trials: 3 });
        assert_eq!(column(&run, "vs best")[1], expected);
        // If the first is the best, the interval comes from the pairs.
        run.configurations.reverse();
        let first = run.configurations[0].figures[MAIN].figure.value;
        for of in &mut run.configurations[1..] {
            let figure = of.figures.get_mut(MAIN).unwrap();
            let value = figure.figure.value / first;
            figure.to_first = Some(Estimate { value, low: Some(value * 0.9), high: Some(value * 1.1), trials: 3 });
        }
        assert!(column(&run, "vs best")[1].contains('['), "{:?}", column(&run, "vs best"));
    }
}
