//! Searches for the highest rate: the result of each probe and its limit.

use indexmap::IndexMap;
use storebench_results::ProbeResult;

use crate::data::{Axis, Chart, Kind, Line, Mark, MarkKind, Scale, Series, Unit, keys};
use crate::subject::Subject;

/// One chart for each searched phase, with a choice of the limit.
pub(super) fn charts(subject: &Subject) -> Vec<Chart> {
    let mut charts: IndexMap<&str, Chart> = IndexMap::new();
    for (_, configuration, trial) in subject.trials() {
        for search in &trial.searches {
            let chart = charts.entry(&search.phase).or_insert_with(|| empty(&search.phase));
            // A rate may be tried several times. Each try is a separate series, so that none hides another.
            let mut tries: Vec<Vec<&ProbeResult>> = Vec::new();
            for probe in &search.probes {
                let earlier = tries.iter().take_while(|of| of.iter().any(|other| other.rate == probe.rate)).count();
                match tries.get_mut(earlier) {
                    Some(of) => of.push(probe),
                    None => tries.push(vec![probe]),
                }
            }
            chart.marks.extend(search.rate.map(|rate| {
                Mark::new(MarkKind::Change, rate, None, format!("answer, trial {}", trial.trial), configuration)
            }));
            tries.iter_mut().for_each(|of| of.sort_by(|a, b| a.rate.total_cmp(&b.rate)));
            let Some(first) = search.probes.first() else { continue };
            for (nth, limit) in first.limits.iter().enumerate() {
                let time = limit.share_within.is_some() || !limit.path.ends_with("errors");
                let axis = chart.axis(match time {
                    true => Axis::new(&limit.path, Unit::Ns, Scale::Log),
                    false => Axis::new(&limit.path, Unit::Share, Scale::Linear),
                });
                let keys = keys([("limit", &limit.path)]);
                for (again, probes) in tries.iter().enumerate() {
                    let label = match again {
                        0 => format!("trial {}", trial.trial),
                        _ => format!("trial {}, try {}", trial.trial, again + 1),
                    };
                    let x = probes.iter().map(|probe| Some(probe.rate)).collect();
                    let y = probes.iter().map(|probe| probe.limits.get(nth).and_then(|l| l.found)).collect();
                    chart.add(Series::new(configuration, label, keys.clone(), axis), x, y);
                }
                let line = Line::limit(limit.limit, axis, keys);
                if !chart.lines.contains(&line) {
                    chart.lines.push(line);
                }
            }
        }
    }
    let mut charts: Vec<Chart> = charts.into_values().collect();
    charts.iter_mut().for_each(|chart| chart.choose(&[("limit", "limit", None)]));
    charts
}

fn empty(phase: &str) -> Chart {
    let mut chart = Chart {
        kind: Kind::Points,
        ..Chart::lines(
            &format!("search-{}", phase.replace(['.', ' '], "-")),
            &format!("Search for the highest rate of {phase}"),
            Axis::new("scheduled operations per second", Unit::PerSecond, Scale::Log),
        )
    };
    chart.about =
        "Each point is one probe of a rate. The dashed line across is the limit, and one from top to bottom is the answer of a \
         trial. Operations that failed or were not answered \
         count as infinite. A probe whose figure is infinite has no point."
            .to_owned();
    chart
}
