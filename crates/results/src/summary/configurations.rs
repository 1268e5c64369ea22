//! Configurations beside each other as text.

use super::Layout;
use crate::RunResult;
use crate::answer::answer;
use crate::lines::paragraph;
use crate::side_by_side::{ConfigurationsTable, configuration_tables, resource_tables};

/// Columns of a name that is longer are cut, between two values.
const LONGEST_NAME: usize = 64;

/// The tables of all measured phases, then the resources that configurations used in the phase of the answer. Empty if
/// they are few enough to be described one by one.
pub(super) fn tables(result: &RunResult, layout: Layout) -> String {
    let tables = configuration_tables(result);
    let mut out: String = tables.iter().map(|table| text(table, "", layout)).collect();
    if !tables.is_empty() {
        let told = answer(result).phase;
        let used = resource_tables(result).into_iter().find(|table| Some(&table.phase) == told.as_ref());
        out.extend(used.map(|table| text(&table, ": resources", layout)));
    }
    out
}

fn text(of: &ConfigurationsTable, what: &str, layout: Layout) -> String {
    let mut table = of.table.clone();
    table
        .rows
        .iter_mut()
        .filter_map(|row| row.first_mut())
        .for_each(|configuration| configuration.text = cut(&configuration.text));
    let title = layout.paint.bold(&format!("{}{what}", of.phase));
    let mut out = format!("\n{title}\n{}", layout.table(&table));
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
