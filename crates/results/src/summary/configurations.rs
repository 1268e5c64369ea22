//! Configurations beside each other as text.

use super::Layout;
use crate::RunResult;
use crate::answer::answer;
use crate::lines::paragraph;
use crate::side_by_side::{ConfigurationsTable, configuration_tables, resource_tables};

/// Columns of a name that is longer are cut, between two values.
const LONGEST_NAME: usize = 64;

/// The tables of all measured phases, each with its name.
pub(super) fn tables(result: &RunResult, layout: Layout) -> Vec<(String, String)> {
    configuration_tables(result).into_iter().map(|table| (table.phase.clone(), text(&table, layout))).collect()
}

/// The resources that configurations used in the phase of the answer. Empty if they are few enough to be described one
/// by one.
pub(super) fn resources(result: &RunResult, layout: Layout) -> String {
    let told = answer(result).phase;
    let tables = if configuration_tables(result).is_empty() { Vec::new() } else { resource_tables(result) };
    let of_phase = tables.iter().find(|table| Some(&table.phase) == told.as_ref());
    of_phase.map_or_else(String::new, |table| {
        format!("\n{}\n{}", layout.paint.bold(&format!("{}: resources", table.phase)), text(table, layout))
    })
}

fn text(of: &ConfigurationsTable, layout: Layout) -> String {
    let mut table = of.table.clone();
    table
        .rows
        .iter_mut()
        .filter_map(|row| row.first_mut())
        .for_each(|configuration| configuration.text = cut(&configuration.text));
    let mut out = layout.table(&table);
    of.notes.iter().for_each(|note| out.push_str(&paragraph("  ", "    ", note, layout.width)));
    out
}

/// A long name without its first values, so that those which are varied last, and a whole value each, are seen.
fn cut(name: &str) -> String {
    let length = name.chars().count();
    if length <= LONGEST_NAME {
        return name.to_owned();
    }
    let (store, values) = name.split_once(' ').unwrap_or((name, ""));
    let mut kept: &str = values;
    while store.chars().count() + kept.chars().count() + 3 > LONGEST_NAME {
        let Some((_, rest)) = kept.split_once(' ') else { break };
        kept = rest;
    }
    format!("{store} … {kept}")
}
