//! The latency heat map: how many operations took how long, and when. It shows what percentiles hide.

use super::percentiles::OfPhase;
use crate::data::{Axis, Chart, Heat, Kind, Number, Scale, Unit, keys};
use crate::subject::Subject;

/// The fewest columns of a phase that is drawn.
const SHORTEST: u32 = 3;

/// One chart with a choice of configuration and phase.
pub(super) fn charts(subject: &Subject, merged: &[OfPhase]) -> Vec<Chart> {
    let axis = Axis::new("time since the phase began", Unit::Seconds, Scale::Linear);
    let mut chart = Chart { kind: Kind::Heat, ..Chart::lines("heat", "Latency heat map", axis) };
    chart.about = "Each cell counts the operations that were answered at that time with that latency, over all trials of the \
                   configuration and all operations of the phase. Darker is more, on a logarithmic scale. Two bands are two kinds of \
                   answers. A column that reaches up is a stall."
        .to_owned();
    let response = merged.iter().any(|of| of.response);
    chart.axis(Axis::new(if response { "response time" } else { "service time" }, Unit::Ns, Scale::Log));
    // Shorter phases show no change over time.
    for of in merged.iter().filter(|of| of.cells.keys().map(|(column, _)| column + 1).max() >= Some(SHORTEST)) {
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
    let shown = |of: &&Heat| of.keys.get("phase").is_some_and(|phase| subject.answers.contains(phase));
    let first = chart.heat.iter().find(shown).or(chart.heat.last()).and_then(|of| of.keys.get("phase")).cloned();
    chart.choose(&[("phase", "phase", first)]);
    if chart.heat.is_empty() { Vec::new() } else { vec![chart] }
}
