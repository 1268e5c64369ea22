//! The configurations in one small table: a line for each, the best first, with the factors as columns.

use indexmap::{IndexMap, IndexSet};
use storebench_study::workload::{short_names, shown_value};

use super::{Compared, Shown, columns_of_times, compared_by, find, over, unlike_operations};
use crate::answer::phases_told;
use crate::figures::{DOCUMENTS, THROUGHPUT, in_documents};
use crate::human::{duration, rate, ratio};
use crate::table::{Cell, ColumnKind, Table};
use crate::times;
use crate::{ConfigurationResult, RunResult};

/// Lines of the table, at most.
const MOST_ROWS: usize = 8;
/// Phases that have columns, at most.
const MOST_PHASES: usize = 3;

/// The table, and how many configurations it leaves out.
pub(crate) struct BriefTable {
    pub(crate) table: Table,
    pub(crate) left_out: usize,
}

/// Configurations beside each other; the phases of one that was measured alone. None where nothing was measured.
pub(crate) fn brief_table(result: &RunResult) -> Option<BriefTable> {
    let measured: Vec<&ConfigurationResult> = result.configurations.iter().filter(|c| !c.figures.is_empty()).collect();
    match measured.as_slice() {
        [] => None,
        [one] => Some(BriefTable { table: phases_of(result, one), left_out: 0 }),
        several => Some(beside(result, several)),
    }
}

fn beside(result: &RunResult, configurations: &[&ConfigurationResult]) -> BriefTable {
    let phases: Vec<String> = phases_told(result).into_iter().take(MOST_PHASES).collect();
    let several = phases.len() > 1;
    let mut figures: Vec<(&str, Shown)> = Vec::new();
    let mut first: Option<Compared> = None;
    for phase in &phases {
        let of = compared_by(result, configurations, phase);
        let titled = |title: String| if several { format!("{phase} {title}") } else { title };
        let ops = unlike_operations(result, phase);
        let times = columns_of_times(of.time, &ops).into_iter().filter(|(measure, _)| !measure.ends_with(".p99.9"));
        let times = times.filter(|(measure, _)| !several || of.given && measure.ends_with(".p99"));
        if !(several && of.given) {
            figures.push((phase, (of.what.to_owned(), titled(of.unit.to_owned()), ColumnKind::More, rate)));
        }
        figures.extend(times.map(|(measure, title)| {
            (phase.as_str(), (measure, titled(title), ColumnKind::Less, duration as fn(f64) -> String))
        }));
        first.get_or_insert(of);
    }
    // Sorted by what the answer compares.
    let key = first.map(|of| (of.given, if of.given { format!("{}.p99", of.time) } else { of.what.to_owned() }));
    let mut sorted = configurations.to_vec();
    if let Some((less, measure)) = &key {
        let phase = phases.first().map_or("", String::as_str);
        let by_op = figures.iter().map(|(_, shown)| shown.0.as_str()).find(|shown| shown.ends_with(measure.as_str()));
        let value = |c: &ConfigurationResult| {
            let found = find(c, phase, measure).or_else(|| find(c, phase, by_op?));
            found
                .filter(|f| f.figure.trials > 0)
                .map_or(f64::INFINITY, |f| if *less { f.figure.value } else { -f.figure.value })
        };
        sorted.sort_by(|a, b| value(a).total_cmp(&value(b)));
    }
    let factors = varied(configurations);
    let names = short_names(factors.keys().copied().collect::<Vec<_>>());
    let stores: IndexSet<&str> = configurations.iter().map(|c| c.store.as_str()).collect();
    let with_store = stores.len() > 1 || factors.is_empty();
    let mut columns: Vec<(String, ColumnKind)> = Vec::new();
    columns.extend(with_store.then(|| ("store".to_owned(), ColumnKind::Configuration)));
    columns.extend(factors.keys().map(|path| (names.get(path).copied().unwrap_or(path).to_owned(), ColumnKind::Count)));
    let ratio_at =
        figures.iter().position(|(_, shown)| key.as_ref().is_some_and(|(_, m)| shown.0.ends_with(m.as_str())));
    for (nth, (_, (_, title, kind, _))) in figures.iter().enumerate() {
        columns.push((title.clone(), *kind));
        if Some(nth) == ratio_at {
            columns.push(("vs best".to_owned(), ColumnKind::Ratio));
        }
    }
    let best = sorted.first().copied();
    let mut table = Table::new(columns);
    for configuration in sorted.iter().take(MOST_ROWS) {
        let mut row: Vec<Cell> = Vec::new();
        row.extend(with_store.then(|| Cell::from(configuration.store.as_str())));
        row.extend(
            factors
                .keys()
                .map(|path| Cell::from(configuration.values.get(*path).map_or_else(|| "-".to_owned(), shown_value))),
        );
        for (nth, (phase, (measure, _, _, show))) in figures.iter().enumerate() {
            let found = find(configuration, phase, measure);
            let is_time = measure.contains("response.") || measure.contains("service.");
            row.push(over(found, *show, if is_time { times::INFINITE } else { "none" }));
            if Some(nth) == ratio_at {
                let to_best = best.and_then(|best| find(best, phase, measure)).zip(found);
                row.push(to_best.map_or_else(Cell::default, |(best, own)| to_the_best(best, own)));
            }
        }
        table.rows.push(row);
    }
    BriefTable { table, left_out: sorted.len().saturating_sub(MOST_ROWS) }
}

/// The ratio of two figures. Its interval is that of pairs within rounds where the first configuration is one of the two.
fn to_the_best(best: &crate::FigureOverTrials, own: &crate::FigureOverTrials) -> Cell {
    if best.figure.trials == 0 || own.figure.trials == 0 || best.at_least || own.at_least {
        return Cell::default();
    }
    let text = match (own.to_first, best.to_first) {
        (Some(of), None) => ratio(&of),
        _ => {
            let alone = |value| crate::stats::Estimate { value, low: None, high: None, trials: own.figure.trials };
            ratio(&alone(own.figure.value / best.figure.value))
        }
    };
    text.into()
}

/// Factors by path that configurations differ in.
fn varied<'a>(configurations: &[&'a ConfigurationResult]) -> IndexMap<&'a str, ()> {
    let mut seen: IndexMap<&str, IndexSet<String>> = IndexMap::new();
    for (path, value) in configurations.iter().flat_map(|c| &c.values) {
        seen.entry(path).or_default().insert(value.to_string());
    }
    seen.into_iter().filter(|(_, values)| values.len() > 1).map(|(path, _)| (path, ())).collect()
}

/// The measured phases of one configuration, a line for each operation.
fn phases_of(result: &RunResult, configuration: &ConfigurationResult) -> Table {
    let phases: IndexSet<&str> = result.measured_phases().map(|phase| phase.name.as_str()).collect();
    let any = |time: &str| configuration.figures.keys().any(|name| name.contains(&format!(".{time}.")));
    let mixed = any("response") && phases.iter().any(|phase| find(configuration, phase, "response.p50").is_none());
    let mut columns =
        vec![("phase", ColumnKind::Text), ("operation", ColumnKind::Text), ("per second", ColumnKind::Text)];
    columns.extend(["p50", "p99", "p99.9"].map(|title| (title, ColumnKind::Less)));
    columns.push(("time", ColumnKind::Text));
    let mut table = Table::new(columns);
    for phase in phases {
        let of_phase = || result.measured_phases().filter(|p| p.name == phase);
        let (what, unit) = if in_documents(of_phase()) { (DOCUMENTS.name, "docs") } else { (THROUGHPUT.name, "ops") };
        let ops: IndexSet<&str> = of_phase().flat_map(|p| p.ops.keys()).map(String::as_str).collect();
        let apart = ops.len() > 1 && of_phase().all(|p| !p.loads);
        for op in &ops {
            let measured = |measure: &str| match apart {
                true => configuration.figures.get(&format!("{phase}.{op}.{measure}")),
                false => find(configuration, phase, measure),
            };
            let time = if measured("response.p50").is_some() { "response" } else { "service" };
            let per_s = over(measured(what), rate, "none").text;
            let mut row: Vec<Cell> = vec![phase.into(), (*op).into(), format!("{per_s} {unit}").into()];
            if !apart && ops.len() > 1 {
                row[1] = format!("{} operations", ops.len()).into();
            }
            row.extend(
                ["p50", "p99", "p99.9"].map(|p| over(measured(&format!("{time}.{p}")), duration, times::INFINITE)),
            );
            row.push(time.into());
            table.rows.push(row);
            if !apart {
                break;
            }
        }
    }
    if mixed { table } else { named_by_time(table) }
}

/// Where all times are of one kind, the first title says which.
fn named_by_time(table: Table) -> Table {
    let time = table.rows.first().and_then(|row| row.last()).map(|cell| cell.text.clone());
    let mut table = table.without(&["time"]);
    if let (Some(time), Some(column)) = (time, table.columns.iter_mut().find(|column| column.title == "p50")) {
        column.title = format!("{time} p50");
    }
    table
}
