//! Compares configurations: one table for each phase, with each figure over its trials. Only data, for every renderer.

mod brief;
mod operations;
mod resources;

use indexmap::IndexSet;

use crate::figures::{DISK, DOCUMENTS, RATE_WITHIN_LIMITS, THROUGHPUT, in_documents};
use crate::human::{BEYOND, bytes, duration, is_beyond, percent, rate, ratio};
use crate::stats::Estimate;
use crate::table::{Cell, ColumnKind, Table};
use crate::times;
use crate::{ConfigurationResult, FigureOverTrials, RunResult};

pub(crate) use brief::headline;
pub use brief::{BriefTable, brief_table};
pub use brief::{Panel, PanelRow, Span, figures_of_answer, panels, spans};
pub use operations::operations;
pub(crate) use operations::{op_cells, op_columns, time_cells};
pub use resources::resource_tables;

/// The configurations in one phase.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigurationsTable {
    /// The phase.
    pub phase: String,
    /// The first column is the configuration; one line for each, in the order of the study.
    pub table: Table,
    /// Notes on the figures and on single trials.
    pub notes: Vec<String>,
}

/// The tables of all measured phases. Empty if there is one configuration that was measured once.
pub fn configuration_tables(result: &RunResult) -> Vec<ConfigurationsTable> {
    let configurations: Vec<&ConfigurationResult> =
        result.configurations.iter().filter(|configuration| configuration.trials + configuration.failed > 0).collect();
    if configurations.len() < 2 && result.plan.repeats < 2 {
        return Vec::new();
    }
    let phases = result.measured_phases().map(|p| p.name.as_str());
    phases.collect::<IndexSet<_>>().into_iter().map(|phase| table(result, &configurations, phase)).collect()
}

/// The ratio of a configuration that shares too few rounds with the others.
const NOT_COMPARED: &str = "not enough rounds";

/// The figure of a load that a configuration did not need, because an earlier trial had loaded the same.
const KEPT: &str = "kept";

/// The most operations of a phase that get columns of their own for their times.
const MOST_APART: usize = 5;

/// A figure of a phase, as a column.
#[derive(Debug, Clone)]
struct Shown {
    phase: String,
    measure: String,
    title: String,
    /// `Less` for times, `More` for how much was done.
    kind: ColumnKind,
    show: fn(f64) -> String,
    /// Whether configurations are compared by it.
    compared: bool,
}

/// How much was done in a phase, and the times.
fn figures_of(result: &RunResult, configurations: &[&ConfigurationResult], phase: &str) -> Vec<Shown> {
    let any = |measure: &str| configurations.iter().any(|configuration| find(configuration, phase, measure).is_some());
    let (what, unit) = if any(RATE_WITHIN_LIMITS.name) {
        (RATE_WITHIN_LIMITS.name, "ops/s in limits")
    } else if in_documents(result.measured_phases().filter(|p| p.name == phase)) {
        (DOCUMENTS.name, "docs/s")
    } else {
        (THROUGHPUT.name, "ops/s")
    };
    let time = if any("response.p99") { "response" } else { "service" };
    // The schedule sets the throughput of an open loop. Configurations then differ only in their times.
    let given = time == "response" && what != RATE_WITHIN_LIMITS.name;
    let shown = |measure: String, title: String, kind: ColumnKind, show: fn(f64) -> String| {
        let compared = if given { measure.ends_with(".p99") } else { measure == what };
        Shown { phase: phase.to_owned(), measure, title, kind, show, compared }
    };
    let times = columns_of_times(time, &unlike_operations(result, phase)).into_iter();
    let times = times.map(|(measure, title)| shown(measure, title, ColumnKind::Less, duration));
    [shown(what.to_owned(), unit.to_owned(), ColumnKind::More, rate)].into_iter().chain(times).collect()
}

fn table(result: &RunResult, configurations: &[&ConfigurationResult], phase: &str) -> ConfigurationsTable {
    let of_phase = || result.measured_phases().filter(|p| p.name == phase);
    let figures = figures_of(result, configurations, phase);
    let limited = result.phases().any(|p| p.name == phase && !p.limits.is_empty());
    let several = configurations.len() > 1;
    let disk = configurations.iter().any(|configuration| find(configuration, phase, DISK.name).is_some());
    let mut columns = vec![("configuration", ColumnKind::Configuration), ("trials", ColumnKind::Count)];
    for figure in &figures {
        columns.push((figure.title.as_str(), figure.kind));
        if several && figure.compared {
            columns.push(("vs first", ColumnKind::Ratio));
        }
    }
    columns.extend(disk.then_some(("on disk", ColumnKind::Less)));
    columns.extend(limited.then_some(("limits", ColumnKind::Text)));
    let (mut table, mut notes) = (Table::new(columns), Vec::new());
    for configuration in configurations {
        let trials = match configuration.failed {
            0 => configuration.trials.to_string(),
            failed => format!("{} of {}", configuration.trials, configuration.trials + failed),
        };
        let mut row: Vec<Cell> = vec![configuration.configuration.as_str().into(), trials.into()];
        for figure in &figures {
            let found = figure_of(result, configuration, figure);
            row.push(over(found, figure.show, lacking(result, configuration, figure)));
            if several && figure.compared {
                let to_first = found.and_then(|f| f.to_first);
                let without = if configuration.apart { NOT_COMPARED } else { "" };
                row.push(Cell { text: to_first.map_or_else(|| without.to_owned(), |f| ratio(&f)), figure: to_first });
            }
        }
        if disk {
            let cell = |f: &FigureOverTrials| Cell { text: bytes(f.figure.value), figure: Some(f.figure) };
            row.push(find(configuration, phase, DISK.name).map_or_else(|| "not measured".into(), cell));
        }
        row.extend(limited.then(|| limits(result, configuration, phase).into()));
        table.rows.push(row);
        for Shown { measure, .. } in figures.iter().skip(1).chain(figures.first()) {
            let Some(figure) = find(configuration, phase, measure).filter(|f| !f.outlying_trials.is_empty()) else {
                continue;
            };
            let trials: Vec<String> = figure.outlying_trials.iter().map(u32::to_string).collect();
            let trials = trials.join(", ");
            notes.push(format!(
                "trial {trials} of {} is an outlier in {measure}; the figure includes it",
                configuration.configuration
            ));
        }
    }
    let cells = || table.rows.iter().flatten().filter(|cell: &&Cell| cell.figure.is_some_and(|f| f.low.is_some()));
    if cells().next().is_some() {
        let first = configurations
            .first()
            .filter(|_| several)
            .map_or_else(String::new, |configuration| format!("; the first is {}", configuration.configuration));
        notes.insert(0, format!("± and [ ]: 95 % intervals over rounds{first}"));
    }
    if table.rows.iter().flatten().any(|cell| cell.text == KEPT) {
        notes.push(format!("{KEPT}: its trials found the documents of an earlier trial, and loaded nothing"));
    }
    notes.extend(times::note(of_phase()));
    ConfigurationsTable { phase: phase.to_owned(), table, notes }
}

/// The operations of a phase that mixes several. Their times are shown separately, because a percentile over different
/// kinds of work describes none of them. Empty for a load, and for more operations than a table can hold.
fn unlike_operations<'a>(result: &'a RunResult, phase: &str) -> Vec<&'a str> {
    let of_phase = result.phases().filter(|p| p.name == phase && !p.loads);
    let ops: IndexSet<&str> = of_phase.flat_map(|of| of.ops.keys()).map(String::as_str).collect();
    if (2..=MOST_APART).contains(&ops.len()) { ops.into_iter().collect() } else { Vec::new() }
}

/// The measures of the times that a table shows, with the titles of their columns.
fn columns_of_times(time: &str, ops: &[&str]) -> Vec<(String, String)> {
    let of_op = |(nth, op): (usize, &&str)| {
        let title = if nth == 0 { format!("{op} {time} p99") } else { format!("{op} p99") };
        (format!("{op}.{time}.p99"), title)
    };
    if !ops.is_empty() {
        return ops.iter().enumerate().map(of_op).collect();
    }
    let of = |percentile: &str, title: String| (format!("{time}.{percentile}"), title);
    vec![of("p50", format!("{time} p50")), of("p99", "p99".into()), of("p99.9", "p99.9".into())]
}

fn find<'a>(configuration: &'a ConfigurationResult, phase: &str, measure: &str) -> Option<&'a FigureOverTrials> {
    configuration.figures.get(&format!("{phase}.{measure}"))
}

/// The operations that a configuration did in a phase.
fn ops_of<'a>(result: &'a RunResult, configuration: &str, phase: &str) -> IndexSet<&'a str> {
    let trials = result.trials.iter().filter(|trial| trial.configuration == configuration);
    let phases = trials.flat_map(|trial| &trial.phases).filter(|of| of.name == phase);
    phases.flat_map(|of| of.ops.keys()).map(String::as_str).collect()
}

/// A figure of a phase, or of one of its operations. That of a phase's only operation has the phase's name.
fn figure_of<'a>(
    result: &RunResult,
    configuration: &'a ConfigurationResult,
    Shown { phase, measure, .. }: &Shown,
) -> Option<&'a FigureOverTrials> {
    find(configuration, phase, measure).or_else(|| {
        let (op, rest) = measure.split_once('.')?;
        let only = ops_of(result, &configuration.configuration, phase).into_iter().eq([op]);
        if only { find(configuration, phase, rest) } else { None }
    })
}

/// What a cell says without a figure. A configuration has no times of an operation that it left out.
fn lacking(result: &RunResult, configuration: &ConfigurationResult, figure: &Shown) -> &'static str {
    let Shown { phase, measure, kind, .. } = figure;
    let ops = ops_of(result, &configuration.configuration, phase);
    let mut trials = result.trials.iter().filter(|trial| trial.configuration == configuration.configuration);
    if ops.is_empty() && trials.any(|trial| trial.database_kept) {
        return KEPT;
    }
    let known = |op: &str| result.phases().any(|of| of.name == *phase && of.ops.contains_key(op));
    let left_out = measure.split_once('.').is_some_and(|(op, _)| known(op) && !ops.contains(op));
    if *kind == ColumnKind::Less && !left_out { times::INFINITE } else { "none" }
}

/// A figure over its trials: `264 k ±5 %`, `≥ 800`, `264 k, none in 1`. `lacking` if it has no value in any trial. A time
/// without a figure had too few operations.
fn over(figure: Option<&FigureOverTrials>, show: fn(f64) -> String, lacking: &str) -> Cell {
    let Some(figure) = figure else {
        return if lacking == times::INFINITE { times::TOO_FEW } else { lacking }.into();
    };
    let none = figure.none_in.len();
    let text = match (figure.figure.trials, figure.at_least) {
        (0, _) => return lacking.into(),
        _ if none > 0 => format!("{}, {lacking} in {none}", show(figure.figure.value)),
        (_, true) => format!("≥ {}", show(figure.figure.value)),
        _ => with_width(show, &figure.figure),
    };
    Cell { text, figure: Some(figure.figure) }
}

/// How often the limits of a phase were met over the configuration's trials, and the lowest share within a time limit.
fn limits(result: &RunResult, configuration: &ConfigurationResult, phase: &str) -> String {
    let of_configuration = result.trials.iter().filter(|t| t.configuration.as_str() == configuration.configuration);
    let judged: Vec<_> = of_configuration
        .flat_map(|t| &t.phases)
        .filter(|p| p.name == phase && !p.limits.is_empty())
        .map(|p| &p.limits)
        .collect();
    if judged.is_empty() {
        return "none".to_owned();
    }
    let met = judged.iter().filter(|limits| limits.iter().all(|l| l.met)).count();
    let least = judged.iter().flat_map(|limits| limits.iter()).filter_map(|l| l.share_within).reduce(f64::min);
    let within = least.map_or_else(String::new, |share| format!(", {} within", percent(share)));
    match (met, judged.len()) {
        (1, 1) => format!("met{within}"),
        (0, 1) => format!("not met{within}"),
        (met, of) => format!("met {met} of {of}{within}"),
    }
}

/// Up to this relative half width an interval is roughly symmetric.
const EVEN: f64 = 0.2;

/// Whether the figure lies near the middle of its interval. The rate that a search found is the lower end of a range.
pub(crate) fn is_central(estimate: &Estimate) -> bool {
    let Some((low, high)) = estimate.low.zip(estimate.high) else { return false };
    let (below, above) = ((estimate.value / low).ln(), (high / estimate.value).ln());
    (above - below).abs() <= 0.2 * (above + below)
}

/// A figure with its interval, if there is one: ± for a narrow one, both ends for a wide one.
pub(crate) fn with_width(show: impl Fn(f64) -> String, estimate: &Estimate) -> String {
    let text = show(estimate.value);
    match (estimate.relative_half_width(), estimate.low, estimate.high) {
        // All values are equal: the figure is coarser than its variation, so the width is unknown.
        (Some(0.0), ..) => text,
        (Some(half), ..) if half <= EVEN && is_central(estimate) => format!("{text} ±{}", percent(half)),
        _ if is_beyond(estimate) => format!("{text} {BEYOND}"),
        (_, Some(low), Some(high)) => format!("{text} [{}, {}]", show(low), show(high)),
        _ => text,
    }
}
