//! Runs beside those of a history. Of the latter only the values of figures are known, one for each run.

use std::collections::BTreeSet;

use indexmap::IndexSet;

use super::error::CompareError;
use super::format::change;
use super::model::{ComparedConfiguration, ComparedPair, ComparedRun, UnmatchedConfiguration};
use super::pairs::{Against, Both, series, side, unlike_runs};
use super::sides::{SideConfiguration, Source};
use crate::history::HistoryBaseline;
use crate::human::percent;
use crate::series::Series;

/// Each configuration of the sides beside the history, and those that the history does not have.
pub(super) fn pairs_with_history(
    history: &HistoryBaseline,
    configurations: &[SideConfiguration<'_>],
    threshold: f64,
) -> Result<(Vec<ComparedPair>, Vec<UnmatchedConfiguration>), CompareError> {
    let (mut pairs, mut unmatched, mut none) = (Vec::new(), Vec::new(), None);
    for b in configurations {
        let together = configurations.iter().filter(|other| other.name == b.name).count();
        match pair(history, b, threshold, together) {
            Ok(pair) => pairs.push(pair),
            Err(CompareError::History(error)) => {
                unmatched.push(UnmatchedConfiguration {
                    run: b.source.label(),
                    configuration: b.name.to_owned(),
                    why: Some(error.to_string()),
                });
                none.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    match none {
        Some(error) if pairs.is_empty() => Err(error.into()),
        _ => Ok((pairs, unmatched)),
    }
}

/// The configurations of all sides.
pub(super) fn of_all_sides(sides: &[Source]) -> Result<Vec<SideConfiguration<'_>>, CompareError> {
    Ok(sides.iter().map(Source::configurations).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

fn pair(
    history: &HistoryBaseline,
    b: &SideConfiguration<'_>,
    threshold: f64,
    together: usize,
) -> Result<ComparedPair, CompareError> {
    let (side_b, trials_b) = side(b)?;
    let runs: Vec<_> = b.runs.iter().map(|of| &of.run.run).collect();
    let known = history.runs_of(&runs, b.name)?;
    let all = series(b, None);
    let mut figures = Vec::new();
    let mut changed = Vec::new();
    let mut counted: Vec<(&str, usize)> = Vec::new();
    let mut places = BTreeSet::new();
    for (name, of_b) in &all {
        let (Some(first), true) = (of_b.first(), known.have(name)) else { continue };
        let (values, has_changed) = known.values(name);
        changed.extend(has_changed.then_some(name.as_str()));
        places.extend(values.iter().map(|(place, _)| *place));
        let of_a: Vec<Series> = values.iter().map(|(_, value)| first.known(*value)).collect();
        let both = Both { a: of_a.iter().collect(), b: of_b.iter().collect(), against: Against::Known, of_some: false };
        let figure = both.compared(&trials_b, threshold, together);
        // That neither has it is told in its row.
        if !values.is_empty() || figure.b.trials > 0 {
            counted.push((name, values.len()));
        }
        figures.push(figure);
    }
    // The runs that a figure is of, the newest first: it has the version that is shown.
    let mut of_a = places.iter().rev().map(|place| known.runs[*place]).map(|(entry, of)| ComparedRun {
        run: entry.run.clone(),
        began: entry.began.clone(),
        storebench_version: entry.storebench.clone(),
        store_version: of.version.clone(),
        trials: Vec::new(),
        left_out: Vec::new(),
    });
    let mut notes: Vec<String> = Vec::new();
    let detects = figures.iter().filter(|figure| known.main.contains(&figure.figure)).filter_map(|figure| {
        let ratio = figure.uncertain?.detectable(1.0, figure.better == "less", together)?;
        let spread =
            figure.spread_of_a.map_or_else(String::new, |share| format!(" (runs differ by {})", percent(share)));
        Some(format!("{} in {}{spread}", change(ratio), figure.figure))
    });
    let detects: Vec<String> = detects.collect();
    if !detects.is_empty() {
        notes.push(format!("would detect, in 8 of 10 such comparisons: {}", detects.join(", ")));
    }
    if !changed.is_empty() {
        notes.push(format!("runs before a change of the figure are left out of A: {}", changed.join(", ")));
    }
    let of_a_figure = if places.is_empty() { known.runs.len() } else { places.len() };
    counted.retain(|(_, runs)| *runs < of_a_figure);
    if !counted.is_empty() {
        let counted: Vec<String> = counted.iter().map(|(name, runs)| format!("{name} {runs}")).collect();
        notes.push(format!("of the {of_a_figure} runs of A, fewer count for: {}", counted.join(", ")));
    }
    if !known.also_changed.is_empty() {
        notes.push(format!("since the newest run of A there also changed {}", known.also_changed.join("; ")));
    }
    notes.extend(unlike_runs(b));
    Ok(ComparedPair {
        a: ComparedConfiguration {
            first: of_a.next().unwrap_or_default(),
            more_runs: of_a.collect(),
            baseline: Some(history.name().to_owned()),
            configuration: b.name.to_owned(),
            title: side_b.title.clone(),
            checks: Vec::new(),
        },
        b: side_b,
        paired_by_round: false,
        from_history: true,
        differences: Vec::new(),
        notes: notes.into_iter().collect::<IndexSet<_>>().into_iter().collect(),
        figures,
    })
}
