//! How many operations took how long, and when: what percentiles hide.

use super::percentiles::Merged;
use crate::data::{Axis, Chart, Heat, Kind, Number, Scale, Unit, keys};
use crate::subject::Subject;

/// Columns that a phase needs to be drawn.
const SHORTEST: u32 = 3;

/// One chart, with configuration and phase to choose.
pub(super) fn charts(subject: &Subject, merged: &Merged) -> Vec<Chart> {
    let axis = Axis::new("time since the phase began", Unit::Seconds, Scale::Linear);
    let mut chart = Chart { kind: Kind::Heat, ..Chart::lines("heat", "Every operation, by when and how long", axis) };
    chart.about = "Each cell counts the operations that were answered in this span of time after so long, over all trials of \
                   the configuration and all operations of the phase; darker is more, by powers of ten. Two bands are two kinds of \
                   answers; a column that reaches up is a stall."
        .to_owned();
    let response = merged.all.iter().any(|of| of.response);
    chart.axis(Axis::new(if response { "response time" } else { "service time" }, Unit::Ns, Scale::Log));
    // What lasted shorter has no course to be seen.
    for of in merged.all.iter().filter(|of| of.cells.keys().map(|(column, _)| column + 1).max() >= Some(SHORTEST)) {
        let mut cells: Vec<(&(u32, u32), &u64)> = of.cells.iter().collect();
        cells.sort_unstable();
        let columns = cells.iter().map(|((column, _), _)| column + 1).max().unwrap_or(0) as usize;
        chart.heat.push(Heat {
            keys: keys([("phase", &of.phase)]),
            chosen: Vec::new(),
            configuration: of.configuration,
            from: Number(0.0),
            step: Number(of.step_s),
            columns,
            cells: cells
                .into_iter()
                .flat_map(|((column, row), n)| [*column, *row, u32::try_from(*n).unwrap_or(u32::MAX)])
                .collect(),
        });
    }
    let shown = |of: &&Heat| of.keys.get("phase").is_some_and(|phase| subject.answers().contains(phase));
    let first = chart.heat.iter().find(shown).or(chart.heat.last()).and_then(|of| of.keys.get("phase")).cloned();
    chart.choose(&[("phase", "phase", first)]);
    if chart.heat.is_empty() { Vec::new() } else { vec![chart] }
}
