//! Searches for the highest rate: what each probe found beside its limit.

use indexmap::IndexMap;
use storebench_results::ProbeResult;

use crate::data::{Axis, Chart, Kind, Line, Scale, Series, Unit, keys};
use crate::subject::Subject;

/// One chart for each phase that was searched, with the limit to choose.
pub(super) fn charts(subject: &Subject) -> Vec<Chart> {
    let mut charts: IndexMap<&str, Chart> = IndexMap::new();
    for (_, configuration, trial) in subject.trials() {
        for search in &trial.searches {
            let chart = charts.entry(&search.phase).or_insert_with(|| empty(&search.phase));
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
                let keys = keys([("limit", &limit.path)]);
                for (again, probes) in tries.iter().enumerate() {
                    let label = match again {
                        0 => format!("trial {}", trial.trial),
                        _ => format!("trial {}, try {}", trial.trial, again + 1),
                    };
                    let x = probes.iter().map(|probe| Some(probe.rate)).collect();
                    let y = probes.iter().map(|probe| probe.limits.get(nth).and_then(|l| l.found)).collect();
                    chart.add(Series { label, configuration, keys: keys.clone(), axis, ..Series::default() }, x, y);
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
            &format!("The search for the highest rate of {phase}"),
            Axis::new("operations scheduled each second", Unit::PerSecond, Scale::Log),
        )
    };
    chart.about =
        "Every rate that was tried, as often as it was, and what was found beside the limit, over all attempts: what failed or was not \
                   answered took for ever and has no point."
            .to_owned();
    chart
}
