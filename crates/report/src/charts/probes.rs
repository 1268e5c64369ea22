//! Searches for the highest rate: what each probe found beside its limit.

use std::collections::HashMap;

use crate::data::{Axis, Chart, Kind, Line, Number, Numbers, Scale, Series, Shared, Unit};
use crate::subject::Subject;
use storebench_lab::results::ProbeResult;

/// One chart for each phase that was searched, with the limit to choose.
pub(super) fn charts(subject: &Subject) -> Vec<Chart> {
    let mut charts: indexmap::IndexMap<String, (Chart, Shared)> = indexmap::IndexMap::new();
    for (_, arm, trial) in subject.trials() {
        for search in &trial.searches {
            let (chart, shared) =
                charts.entry(search.phase.clone()).or_insert_with(|| (empty(&search.phase), Shared::default()));
            // A rate may be tried several times: each try is a line of its own, so that none hides another.
            let mut tries: Vec<Vec<&ProbeResult>> = Vec::new();
            for probe in &search.probes {
                let earlier = tries.iter().take_while(|of| of.iter().any(|other| other.rate == probe.rate)).count();
                match tries.get_mut(earlier) {
                    Some(of) => of.push(probe),
                    None => tries.push(vec![probe]),
                }
            }
            tries.iter_mut().for_each(|of| of.sort_by(|a, b| a.rate.total_cmp(&b.rate)));
            let Some(first) = search.probes.first() else { continue };
            for (nth, limit) in first.limits.iter().enumerate() {
                let time = limit.share_within.is_some() || !limit.path.ends_with("errors");
                let axis = chart.axis(match time {
                    true => Axis::new(&limit.path, Unit::Ns, Scale::Log),
                    false => Axis::new(&limit.path, Unit::Share, Scale::Linear),
                });
                let keys = [("limit".to_owned(), limit.path.clone())];
                for (again, probes) in tries.iter().enumerate() {
                    let x = shared.put(chart, probes.iter().map(|probe| Some(probe.rate)).collect());
                    let y = probes.iter().map(|probe| probe.limits.get(nth).and_then(|l| l.found)).collect();
                    let label = match again {
                        0 => format!("trial {}", trial.trial),
                        _ => format!("trial {}, try {}", trial.trial, again + 1),
                    };
                    let series = Series {
                        label,
                        arm,
                        keys: keys.clone().into(),
                        chosen: Vec::new(),
                        x,
                        axis,
                        y: Numbers(y),
                        low: None,
                        high: None,
                        figures: Vec::new(),
                    };
                    chart.series.push(series);
                }
                let line = Line {
                    at: Number(limit.limit),
                    label: "limit".to_owned(),
                    axis,
                    keys: keys.into(),
                    chosen: Vec::new(),
                };
                if !chart.lines.contains(&line) {
                    chart.lines.push(line);
                }
            }
        }
    }
    charts
        .into_values()
        .map(|(mut chart, _)| {
            chart.choose(&[("limit", "limit")], &HashMap::new());
            chart
        })
        .collect()
}

fn empty(phase: &str) -> Chart {
    let mut chart = Chart {
        kind: Kind::Points,
        ..Chart::lines(
            &format!("search-{}", phase.replace(['.', ' '], "-")),
            &format!("The search for the highest rate of {phase}"),
            Axis::new("operations due each second", Unit::PerSecond, Scale::Log),
        )
    };
    chart.about =
        "Every rate that was tried, as often as it was, and what was found beside the limit, over all attempts: what failed or was not \
                   answered took for ever and has no point."
            .to_owned();
    chart
}
