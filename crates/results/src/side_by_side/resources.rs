//! Compares the resources that configurations used in a phase, and their bottlenecks.

use indexmap::{IndexMap, IndexSet};

use super::{ConfigurationsTable, find, over};
use crate::bottleneck::Limit;
use crate::figures::{Measure, SPACE_AMPLIFICATION, STORE_CPU, STORE_MEMORY, WRITE_AMPLIFICATION};
use crate::human::{bytes, digits, duration, plural};
use crate::table::{Cell, ColumnKind, Table};
use crate::{ConfigurationResult, RunResult, TrialResult, WatchedProcess};

/// A measure, the title of its column, and how it is shown.
type Shown = (Measure, &'static str, fn(f64) -> String);

fn times(factor: f64) -> String {
    format!("×{}", digits(factor))
}

/// A table for each measured phase that has resource figures.
pub fn resource_tables(result: &RunResult) -> Vec<ConfigurationsTable> {
    let phases = result.measured_phases().filter(|p| p.resources.is_some());
    let names: IndexSet<&str> = phases.map(|phase| phase.name.as_str()).collect();
    names.into_iter().filter_map(|phase| table(result, phase)).collect()
}

fn table(result: &RunResult, phase: &str) -> Option<ConfigurationsTable> {
    let configurations: Vec<&ConfigurationResult> =
        result.configurations.iter().filter(|configuration| configuration.trials + configuration.failed > 0).collect();
    let mut shown: Vec<Shown> = vec![
        (STORE_CPU, "CPU/op", duration as fn(f64) -> String),
        (STORE_MEMORY, "memory", bytes),
        (WRITE_AMPLIFICATION, "write amplification", times),
        (SPACE_AMPLIFICATION, "space amplification", times),
    ];
    shown.retain(|(measure, ..)| configurations.iter().any(|of| find(of, phase, measure.name).is_some()));
    let limits: Vec<String> = configurations.iter().map(|configuration| limit(result, configuration, phase)).collect();
    if shown.is_empty() && limits.iter().all(String::is_empty) {
        return None;
    }
    let mut columns = vec![("configuration", ColumnKind::Configuration)];
    columns.extend(shown.iter().map(|(_, title, _)| (*title, ColumnKind::Less)));
    columns.push(("bottleneck", ColumnKind::Text));
    let mut table = Table::new(columns);
    for (configuration, limit) in configurations.iter().zip(limits) {
        let mut row: Vec<Cell> = vec![configuration.configuration.as_str().into()];
        let cell = |(measure, _, show): &Shown| over(find(configuration, phase, measure.name), *show, "none");
        row.extend(shown.iter().map(cell));
        row.push(if limit.is_empty() { "unknown".into() } else { limit.into() });
        table.rows.push(row);
    }
    Some(ConfigurationsTable { phase: phase.to_owned(), table, notes: notes(result, phase, &shown) })
}

/// The most frequent bottleneck of a configuration's trials, with the evidence from the first of them.
fn limit(result: &RunResult, configuration: &ConfigurationResult, phase: &str) -> String {
    let trials = result.trials.iter().filter(|trial| trial.configuration.as_str() == configuration.configuration);
    let found: Vec<_> =
        trials.flat_map(|t| &t.phases).filter(|p| p.name == phase).filter_map(|p| p.bottleneck.as_ref()).collect();
    let mut often: IndexMap<Limit, usize> = IndexMap::new();
    found.iter().for_each(|of| *often.entry(of.limit).or_default() += 1);
    let Some((limit, times)) = often.into_iter().max_by_key(|(_, times)| *times) else { return String::new() };
    let evidence = found.iter().find(|of| of.limit == limit).map_or("", |of| of.evidence.as_str());
    match (times, found.len()) {
        (times, of) if times == of => format!("{}: {evidence}", limit.in_words()),
        (times, of) => format!("{} in {times} of {of} trials: {evidence}", limit.in_words()),
    }
}

/// Which processes the figures cover, and why figures are unknown.
fn notes(result: &RunResult, phase: &str, shown: &[Shown]) -> Vec<String> {
    let of_phase = result.phases().filter(|p| p.name == phase);
    let whose: Vec<WatchedProcess> =
        of_phase.filter_map(|p| Some(p.resources.as_ref()?.store.as_ref()?.whose)).collect();
    let has = |measure: Measure| shown.iter().any(|(of, ..)| *of == measure);
    let mut notes = Vec::new();
    if has(STORE_CPU) || has(STORE_MEMORY) {
        let whose = match (whose.contains(&WatchedProcess::Server), whose.contains(&WatchedProcess::ClientAndStore)) {
            (true, true) => Some("the server; for embedded stores, store and client together"),
            (true, false) => Some("the server alone"),
            (false, true) => Some("store and client together (one process)"),
            (false, false) => None,
        };
        notes.extend(whose.map(|whose| format!("CPU and memory: {whose}")));
    }
    if has(WRITE_AMPLIFICATION) {
        notes.push(
            "write amplification: bytes written to the disk (by its own counters, minus the write rate before the phase) for \
             each byte of documents written"
                .to_owned(),
        );
    }
    let unknown = |trial: &TrialResult| {
        let mut phases = trial.phases.iter().filter(|p| p.name == phase);
        let why = phases.find_map(|p| p.resources.as_ref()?.disk.as_ref()?.amplification_unknown.clone())?;
        Some(format!("write amplification of {}, trial {}: {why}", trial.configuration.as_str(), trial.trial))
    };
    let mut unknown = result.trials.iter().filter_map(unknown);
    notes.extend(unknown.next());
    match unknown.count() {
        0 => {}
        more => notes.push(format!("write amplification: unknown for {} more", plural(more as u64, "trial"))),
    }
    if has(SPACE_AMPLIFICATION) {
        notes.push("space amplification: bytes on disk for each byte of documents that the store holds".to_owned());
    }
    notes
}
