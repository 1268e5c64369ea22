//! The effect of a factor: a point with its interval for each value.

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;
use storebench_results::stats::Estimate;
use storebench_results::{ConfigurationResult, FactorSweep};
use storebench_study::workload::{short_names, shown_value};

use crate::data::{Axis, Chart, Line, Scale, Series, Unit, keys};
use crate::subject::Subject;

/// The figures that are drawn, with their labels, units and scales.
const FIGURES: [(&str, &str, Unit, Scale); 7] = [
    ("documents", "docs/s", Unit::PerSecond, Scale::Linear),
    ("throughput", "ops/s", Unit::PerSecond, Scale::Linear),
    ("rate-within-limits", "ops/s within limits", Unit::PerSecond, Scale::Linear),
    ("response.p50", "response p50", Unit::Ns, Scale::Log),
    ("response.p99", "response p99", Unit::Ns, Scale::Log),
    ("service.p99", "service p99", Unit::Ns, Scale::Log),
    ("disk", "on disk", Unit::Bytes, Scale::Linear),
];

/// One chart for each factor with numeric values, with a choice of the figure.
pub(super) fn charts(subject: &Subject) -> Vec<Chart> {
    let values = configurations(subject)
        .flat_map(|(_, configuration)| &configuration.values)
        .filter(|(_, value)| value.as_f64().is_some());
    let factors: IndexSet<&str> = values.map(|(path, _)| path.as_str()).collect();
    let short = short_names(factors.iter().copied().collect::<Vec<_>>());
    factors.iter().map(|factor| chart(subject, factor, short.get(factor).copied().unwrap_or(factor))).collect()
}

/// The configurations of all runs, with their positions. A control has the values of another one.
fn configurations(subject: &Subject) -> impl Iterator<Item = (usize, &ConfigurationResult)> {
    subject.runs.iter().enumerate().flat_map(move |(run, of)| {
        of.result
            .configurations
            .iter()
            .filter(|configuration| !configuration.control)
            .map(move |configuration| (subject.position(run, &configuration.configuration), configuration))
    })
}

/// Configurations that differ only in this factor.
struct Group<'a> {
    label: String,
    /// The first of them, which determines the colour of the line.
    configuration: usize,
    values: Vec<(f64, &'a ConfigurationResult)>,
}

fn groups<'a>(subject: &'a Subject, factor: &str) -> Vec<Group<'a>> {
    let mut all: IndexMap<(usize, String, String), Group<'a>> = IndexMap::new();
    for (position, configuration) in configurations(subject) {
        let Some(value) = configuration.values.get(factor).and_then(Value::as_f64) else { continue };
        let others: Vec<(&String, &Value)> = configuration.values.iter().filter(|(path, _)| *path != factor).collect();
        let key = serde_json::to_string(&others).unwrap_or_default();
        let run = subject.configurations.get(position).map_or(0, |configuration| configuration.run);
        let group = all.entry((run, configuration.store.clone(), key)).or_insert_with(|| Group {
            label: place(&configuration.store, others.iter().copied()),
            configuration: position,
            values: Vec::new(),
        });
        group.values.push((value, configuration));
    }
    let mut groups: Vec<Group<'a>> = all.into_values().filter(|group| group.values.len() > 1).collect();
    for group in &mut groups {
        group.values.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    groups
}

fn chart(subject: &Subject, factor: &str, name: &str) -> Chart {
    let groups = groups(subject, factor);
    let all: Vec<f64> = groups.iter().flat_map(|g| g.values.iter().map(|(value, _)| *value)).collect();
    let (least, most) = (all.iter().copied().fold(f64::INFINITY, f64::min), all.iter().copied().fold(0.0, f64::max));
    let scale = if least > 0.0 && most / least >= 8.0 { Scale::Log } else { Scale::Linear };
    let mut chart = Chart::lines(
        &format!("factor-{}", factor.replace(['.', '*'], "-")),
        &format!("Effect of {name}"),
        Axis::new(name, Unit::Plain, scale),
    );
    chart.about = format!(
        "Each measured value of {name} with its 95 % interval over trials, everything else being equal. If intervals \
         overlap, the difference is not certain."
    );
    for group in &groups {
        let figures: IndexSet<&String> =
            group.values.iter().flat_map(|(_, configuration)| configuration.figures.keys()).collect();
        for figure in figures.into_iter().filter(|figure| concerns(factor, figure)) {
            let Some((label, unit, y_scale)) = shown(figure) else { continue };
            let of = |configuration: &ConfigurationResult| {
                configuration.figures.get(figure).filter(|f| f.figure.trials > 0).map(|f| f.figure)
            };
            let y: Vec<Option<Estimate>> = group.values.iter().map(|(_, configuration)| of(configuration)).collect();
            if y.iter().flatten().count() < 2 {
                continue;
            }
            let axis = chart.axis(Axis::new(label, unit, y_scale));
            let x = group.values.iter().map(|(value, _)| Some(*value)).collect();
            let keys = keys([("figure", figure)]);
            chart.add_estimates(Series::new(group.configuration, group.label.clone(), keys, axis), x, &y);
        }
    }
    speed_ups(subject, factor, &mut chart);
    limits(subject, &mut chart);
    // A figure with a limit comes first, because the study is about it.
    let limited = |figure: &str| chart.lines.iter().any(|line| line.keys["figure"] == figure);
    let figures = chart.series.iter().map(|s| &s.keys["figure"]);
    let first = figures.min_by_key(|figure| (!limited(figure), order(figure))).cloned();
    chart.choose(&[("figure", "figure", first)]);
    chart
}

/// How a figure `PHASE.MEASURE` is shown; none if it is not drawn.
fn shown(figure: &str) -> Option<(&'static str, Unit, Scale)> {
    let found =
        FIGURES.iter().find(|(measure, ..)| figure.strip_suffix(measure).is_some_and(|rest| rest.ends_with('.')));
    found.map(|(_, label, unit, scale)| (*label, *unit, *scale))
}

/// The order of figures; the chart first shows the lowest. Latency is before throughput.
fn order(figure: &str) -> usize {
    let measures = ["rate-within-limits", "response.p99", "documents", "throughput"];
    measures.iter().position(|measure| figure.ends_with(measure)).unwrap_or(measures.len())
}

/// Whether a factor can change a figure. A factor of one phase changes only that phase; other factors change all.
fn concerns(factor: &str, figure: &str) -> bool {
    match factor.strip_prefix("phases.").and_then(|rest| rest.split('.').next()) {
        None | Some("*") => true,
        Some(phase) if phase.parse::<u32>().is_ok() => true,
        Some(phase) => figure.strip_prefix(phase).is_some_and(|rest| rest.starts_with('.')),
    }
}

/// Adds the speed-up (relative to the lowest value) and the efficiency (speed-up over the growth of the factor).
fn speed_ups(subject: &Subject, factor: &str, chart: &mut Chart) {
    for (run, of) in subject.runs.iter().enumerate() {
        for swept in of.result.sweeps.iter().filter(|s| s.factor == factor && s.sweep.curve.len() > 1) {
            let configuration = of.result.configurations.iter().find(|configuration| is_of(configuration, swept));
            let position = configuration.map_or(0, |configuration| subject.position(run, &configuration.configuration));
            let curve = &swept.sweep.curve;
            let x: Vec<Option<f64>> = curve.iter().map(|value| Some(value.value)).collect();
            for (name, y) in [
                ("speed-up", curve.iter().map(|value| value.speed_up).collect::<Vec<_>>()),
                ("efficiency", curve.iter().map(|value| value.efficiency).collect()),
            ] {
                let axis = chart.axis(Axis::new(name, Unit::Ratio, Scale::Linear));
                let keys = keys([("figure", &format!("{name} of {}", swept.figure))]);
                let line = Series::new(position, place(&swept.store, &swept.others), keys, axis);
                chart.add_estimates(line, x.clone(), &y);
            }
        }
    }
}

fn is_of(configuration: &ConfigurationResult, swept: &FactorSweep) -> bool {
    configuration.store == swept.store
        && swept.others.iter().all(|(path, value)| configuration.values.get(path) == Some(value))
}

/// A store and the values of other factors.
fn place<'a>(store: &str, values: impl IntoIterator<Item = (&'a String, &'a Value)> + Clone) -> String {
    let short = short_names(values.clone().into_iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>());
    let named = |(path, value): (&'a String, &'a Value)| {
        format!(" {}={}", short.get(path.as_str()).copied().unwrap_or(path), shown_value(value))
    };
    values.into_iter().fold(store.to_owned(), |text, value| text + &named(value))
}

/// Adds the study's limits on the figures that are drawn.
fn limits(subject: &Subject, chart: &mut Chart) {
    let limits = subject.trials().flat_map(|(_, _, trial)| &trial.phases).flat_map(|phase| &phase.limits);
    for limit in limits {
        let drawn = chart.series.iter().find(|s| s.keys["figure"] == limit.path).map(|s| s.axis);
        let Some(axis) = drawn.filter(|_| chart.lines.iter().all(|line| line.keys["figure"] != limit.path)) else {
            continue;
        };
        chart.lines.push(Line::limit(limit.limit, axis, keys([("figure", &limit.path)])));
    }
}
