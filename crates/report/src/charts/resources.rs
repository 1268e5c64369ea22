//! What the process used, and what the store told of itself, on the axis of the other charts over time.

use std::collections::HashMap;

use indexmap::IndexMap;

use crate::charts::timeline::{Points, Timeline, block_at_first, is_long_enough, line_of};
use crate::data::{Axis, Chart, Numbers, Scale, Series, Shared, Unit};
use crate::recorded::ResourceRow;
use crate::subject::Subject;

/// Samples are taken every few milliseconds: one point for as long.
const STEP_NS: u64 = 1_000_000_000;

const CPU: &str = "processors in use by the process";
const MEMORY: &str = "memory of the process";

/// Processors, memory, and the store's own figures.
pub(super) fn charts(subject: &Subject, axis: &Timeline) -> Vec<Chart> {
    if !is_long_enough(subject) {
        return Vec::new();
    }
    let mut chart = Chart::lines("resources", "Resources over time", axis.axis());
    chart.about =
        "What the client's process used (with an embedded store: both), and what the store told of itself while \
                   phases ran."
            .to_owned();
    chart.group = Some("time".to_owned());
    chart.marks = axis.marks();
    let mut shared = Shared::default();
    for (run, arm, trial) in subject.trials() {
        let (label, keys) = line_of(subject, run, trial);
        let of = &subject.runs[run];
        let rows: Vec<&ResourceRow> = of.resources.iter().filter(|row| row.trial == trial.trial).collect();
        let mut lines = process(&rows, axis);
        let mut told: IndexMap<&str, Points> = IndexMap::new();
        for row in of.store.iter().filter(|row| row.trial == trial.trial) {
            let (x, y) = told.entry(&row.figure).or_default();
            x.push(Some(axis.at(&row.phase, row.at_ns)));
            y.push(Some(row.value));
        }
        lines.extend(told.into_iter().map(|(figure, (x, y))| (format!("store: {figure}"), unit_of(figure), x, y)));
        for (figure, unit, x, y) in lines {
            let axis = chart.axis(Axis::new(&figure, unit, Scale::Linear));
            let x = shared.put(&mut chart, x);
            let mut keys = keys.clone();
            keys.insert("figure".to_owned(), figure);
            chart.series.push(Series {
                label: label.clone(),
                arm,
                keys,
                chosen: Vec::new(),
                x,
                axis,
                y: Numbers(y),
                low: None,
                high: None,
                figures: Vec::new(),
            });
        }
    }
    let block = block_at_first(subject, &mut chart);
    let mut chosen: HashMap<&str, String> = HashMap::new();
    chosen.extend(block.map(|block| ("block", block)));
    chart.choose(&[("figure", "figure"), ("block", "block")], &chosen);
    vec![chart]
}

type LineOf = (String, Unit, Vec<Option<f64>>, Vec<Option<f64>>);

/// Processors in use on average and memory at most, second by second.
fn process(rows: &[&ResourceRow], axis: &Timeline) -> Vec<LineOf> {
    let (mut x, mut cpu, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = 0;
    while at < rows.len() {
        let first = rows[at];
        let same = |row: &&&ResourceRow| row.phase == first.phase && row.at_ns / STEP_NS == first.at_ns / STEP_NS;
        let group = rows[at..].iter().take_while(same).count();
        let last = rows[at + group - 1];
        if at > 0 && rows[at - 1].phase != first.phase {
            x.push(Some(axis.at(&first.phase, 0)));
            cpu.push(None);
            memory.push(None);
        }
        let over = last.at_ns.saturating_sub(first.at_ns);
        let more = rows.get(at + group).is_some_and(|next| next.phase == first.phase);
        if !more && at > 0 && rows[at - 1].phase == first.phase && over < STEP_NS / 2 {
            // What is left of a second says nothing of a second.
            at += group;
            continue;
        }
        x.push(Some(axis.at(&first.phase, first.at_ns.midpoint(last.at_ns))));
        cpu.push((over > 0).then(|| last.cpu_ns.saturating_sub(first.cpu_ns) as f64 / over as f64));
        memory.push(rows[at..at + group].iter().map(|row| row.rss_bytes).max().map(|b| b as f64));
        at += group;
    }
    vec![(CPU.to_owned(), Unit::Plain, x.clone(), cpu), (MEMORY.to_owned(), Unit::Bytes, x, memory)]
}

/// A store's figure has its unit in its name.
fn unit_of(figure: &str) -> Unit {
    let ends = |all: &[&str]| all.iter().any(|end| figure.ends_with(end));
    match () {
        () if ends(&["_bytes", "bytes"]) => Unit::Bytes,
        () if ends(&["_ns"]) => Unit::Ns,
        () if ends(&["_per_s"]) => Unit::PerSecond,
        () if ends(&["_share"]) => Unit::Share,
        () => Unit::Plain,
    }
}
