//! What more of a factor does: each of its levels a point, with its interval.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde_json::Value;
use storebench_core::workload::{short_names, shown_level};
use storebench_lab::results::{ArmResult, FactorSweep};

use crate::data::{Axis, Chart, Line, Number, Numbers, Scale, Series, Shared, Unit};
use crate::subject::Subject;

/// Figures that are drawn, with how they are shown.
const FIGURES: [(&str, &str, Unit, Scale); 7] = [
    ("documents", "docs/s", Unit::PerSecond, Scale::Linear),
    ("throughput", "ops/s", Unit::PerSecond, Scale::Linear),
    ("rate-within-limits", "ops/s within limits", Unit::PerSecond, Scale::Linear),
    ("response.p50", "response p50", Unit::Ns, Scale::Log),
    ("response.p99", "response p99", Unit::Ns, Scale::Log),
    ("service.p99", "service p99", Unit::Ns, Scale::Log),
    ("disk", "on disk", Unit::Bytes, Scale::Linear),
];

/// One chart for each factor with numbers as levels, with the figure to choose.
pub(super) fn charts(subject: &Subject) -> Vec<Chart> {
    let mut factors: Vec<&str> = Vec::new();
    for arm in arms(subject) {
        for (path, level) in &arm.1.levels {
            if level.as_f64().is_some() && !factors.contains(&path.as_str()) {
                factors.push(path);
            }
        }
    }
    let short = short_names(factors.clone());
    factors.iter().map(|factor| chart(subject, factor, short.get(factor).copied().unwrap_or(factor))).collect()
}

/// The arms of all runs, with their positions.
fn arms(subject: &Subject) -> impl Iterator<Item = (usize, &ArmResult)> {
    subject
        .runs
        .iter()
        .enumerate()
        .flat_map(move |(run, of)| of.result.arms.iter().map(move |arm| (subject.position(run, &arm.arm), arm)))
}

/// Arms that differ in this factor alone.
struct Group<'a> {
    label: String,
    /// The first of them, whose colour the line has.
    arm: usize,
    levels: Vec<(f64, &'a ArmResult)>,
}

fn groups<'a>(subject: &'a Subject, factor: &str) -> Vec<Group<'a>> {
    let mut all: IndexMap<(usize, String, String), Group<'a>> = IndexMap::new();
    for (position, arm) in arms(subject) {
        let Some(level) = arm.levels.get(factor).and_then(Value::as_f64) else { continue };
        let others: Vec<(&String, &Value)> = arm.levels.iter().filter(|(path, _)| *path != factor).collect();
        let key = serde_json::to_string(&others).unwrap_or_default();
        let run = subject.arms.get(position).map_or(0, |arm| arm.run);
        let group = all.entry((run, arm.store.clone(), key)).or_insert_with(|| {
            let short = short_names(others.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>());
            let mut label = arm.store.clone();
            for (path, level) in &others {
                let name = short.get(path.as_str()).copied().unwrap_or(path);
                label += &format!(" {name}={}", shown_level(level));
            }
            Group { label, arm: position, levels: Vec::new() }
        });
        group.levels.push((level, arm));
    }
    let mut groups: Vec<Group<'a>> = all.into_values().filter(|group| group.levels.len() > 1).collect();
    for group in &mut groups {
        group.levels.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    groups
}

fn chart(subject: &Subject, factor: &str, name: &str) -> Chart {
    let groups = groups(subject, factor);
    let all: Vec<f64> = groups.iter().flat_map(|g| g.levels.iter().map(|(level, _)| *level)).collect();
    let (least, most) = (all.iter().copied().fold(f64::INFINITY, f64::min), all.iter().copied().fold(0.0, f64::max));
    let scale = if least > 0.0 && most / least >= 8.0 { Scale::Log } else { Scale::Linear };
    let mut chart = Chart::lines(
        &format!("factor-{}", factor.replace(['.', '*'], "-")),
        &format!("What {name} changes"),
        Axis::new(name, Unit::Plain, scale),
    );
    chart.about = format!(
        "Each level of {name} that was measured, everything else alike, with the 95 % interval over its trials. Where \
         intervals overlap a difference is not sure."
    );
    let mut shared = Shared::default();
    for group in &groups {
        let mut figures: Vec<&str> = Vec::new();
        for name in group.levels.iter().flat_map(|(_, arm)| arm.figures.keys()) {
            if !figures.contains(&name.as_str()) && shown(name).is_some() && concerns(factor, name) {
                figures.push(name);
            }
        }
        for figure in figures {
            let Some((label, unit, y_scale)) = shown(figure) else { continue };
            let found = |pick: fn(&storebench_lab::stats::Estimate) -> Option<f64>| -> Vec<Option<f64>> {
                let of = |arm: &ArmResult| arm.figures.get(figure).filter(|f| f.figure.trials > 0).map(|f| f.figure);
                group.levels.iter().map(|(_, arm)| of(arm).and_then(|estimate| pick(&estimate))).collect()
            };
            let y = found(|e| Some(e.value));
            if y.iter().flatten().count() < 2 {
                continue;
            }
            let axis = chart.axis(Axis::new(label, unit, y_scale));
            let x = shared.put(&mut chart, group.levels.iter().map(|(level, _)| Some(*level)).collect());
            chart.series.push(Series {
                label: group.label.clone(),
                arm: group.arm,
                keys: [("figure".to_owned(), figure.to_owned())].into(),
                chosen: Vec::new(),
                x,
                axis,
                y: Numbers(y),
                low: Some(Numbers(found(|e| e.low))),
                high: Some(Numbers(found(|e| e.high))),
                figures: Vec::new(),
            });
        }
    }
    speed_ups(subject, factor, &mut chart, &mut shared);
    limits(subject, &mut chart);
    // What the study has a limit on is what it is about.
    let limited = |figure: &str| chart.lines.iter().any(|line| line.keys["figure"] == figure);
    let figures = chart.series.iter().map(|s| &s.keys["figure"]);
    let first = figures.min_by_key(|figure| (!limited(figure), order(figure))).cloned();
    chart.choose(
        &[("figure", "figure")],
        &first.map(|figure| ("figure", figure)).into_iter().collect::<HashMap<_, _>>(),
    );
    chart
}

/// How a figure `PHASE.MEASURE` of a whole phase is shown; none of those that are not.
fn shown(figure: &str) -> Option<(&'static str, Unit, Scale)> {
    let found =
        FIGURES.iter().find(|(measure, ..)| figure.strip_suffix(measure).is_some_and(|rest| rest.ends_with('.')));
    found.map(|(_, label, unit, scale)| (*label, *unit, *scale))
}

/// The figure that a chart begins with: latency where the rate is given, else how much was done.
fn order(figure: &str) -> usize {
    let measures = ["rate-within-limits", "response.p99", "documents", "throughput"];
    measures.iter().position(|measure| figure.ends_with(measure)).unwrap_or(measures.len())
}

/// Whether a factor may move a figure: one of a phase moves that phase, others all.
fn concerns(factor: &str, figure: &str) -> bool {
    match factor.strip_prefix("phases.").and_then(|rest| rest.split('.').next()) {
        None | Some("*") => true,
        Some(phase) if phase.parse::<u32>().is_ok() => true,
        Some(phase) => figure.strip_prefix(phase).is_some_and(|rest| rest.starts_with('.')),
    }
}

/// How many times as much as at the lowest level, and that over what the factor grew by.
fn speed_ups(subject: &Subject, factor: &str, chart: &mut Chart, shared: &mut Shared) {
    for (run, of) in subject.runs.iter().enumerate() {
        for swept in of.result.sweeps.iter().filter(|s| s.factor == factor && s.sweep.curve.len() > 1) {
            let arm = of.result.arms.iter().find(|arm| is_of(arm, swept));
            let position = arm.map_or(0, |arm| subject.position(run, &arm.arm));
            let curve = &swept.sweep.curve;
            for (name, pick) in [
                ("speed-up", (|l| l.speed_up) as fn(&storebench_lab::sweep::LevelResult) -> Option<_>),
                ("efficiency", |l| l.efficiency),
            ] {
                let ends = |end: fn(&storebench_lab::stats::Estimate) -> Option<f64>| -> Numbers {
                    curve.iter().map(|level| pick(level).as_ref().and_then(end)).collect()
                };
                let axis = chart.axis(Axis::new(name, Unit::Ratio, Scale::Linear));
                let x = shared.put(chart, curve.iter().map(|level| Some(level.level)).collect());
                chart.series.push(Series {
                    label: place(swept),
                    arm: position,
                    keys: [("figure".to_owned(), format!("{name} of {}", swept.figure))].into(),
                    chosen: Vec::new(),
                    x,
                    axis,
                    y: ends(|e| Some(e.value)),
                    low: Some(ends(|e| e.low)),
                    high: Some(ends(|e| e.high)),
                    figures: Vec::new(),
                });
            }
        }
    }
}

fn is_of(arm: &ArmResult, swept: &FactorSweep) -> bool {
    arm.store == swept.store && swept.others.iter().all(|(path, level)| arm.levels.get(path) == Some(level))
}

fn place(swept: &FactorSweep) -> String {
    let short = short_names(swept.others.keys().map(String::as_str).collect::<Vec<_>>());
    let mut text = swept.store.clone();
    for (path, level) in &swept.others {
        text += &format!(" {}={}", short.get(path.as_str()).copied().unwrap_or(path), shown_level(level));
    }
    text
}

/// The study's limits on the figures that are drawn.
fn limits(subject: &Subject, chart: &mut Chart) {
    let mut known: Vec<String> = Vec::new();
    for limit in subject.trials().flat_map(|(_, _, trial)| &trial.phases).flat_map(|phase| &phase.limits) {
        let drawn = chart.series.iter().find(|s| s.keys["figure"] == limit.path).map(|s| s.axis);
        if let (Some(axis), false) = (drawn, known.contains(&limit.path)) {
            known.push(limit.path.clone());
            chart.lines.push(Line {
                at: Number(limit.limit),
                label: "limit".to_owned(),
                axis,
                keys: [("figure".to_owned(), limit.path.clone())].into(),
                chosen: Vec::new(),
            });
        }
    }
}
