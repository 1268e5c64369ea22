//! Latency by percentile, from histograms merged over the trials of a configuration. A curve ends where fewer than ten
//! values lie beyond.

use std::collections::HashMap;

use hdrhistogram::Histogram;
use indexmap::IndexMap;
use storebench_results::configurations::is_whole;

use crate::data::{Axis, Chart, Scale, Series, Unit, keys};
use crate::recorded::{HistogramOf, ReportError};
use crate::subject::Subject;

/// Points per decade of 1 / (1 - q).
const POINTS: u32 = 12;
/// The most columns of a heat map.
const COLUMNS: usize = 120;
/// Rows of a heat map per doubling of the latency.
const ROWS: f64 = 4.0;

/// The histograms of a configuration in a phase, merged.
#[derive(Debug)]
pub(super) struct OfPhase {
    pub(super) configuration: usize,
    pub(super) phase: String,
    /// By operation.
    pub(super) ops: IndexMap<String, Histogram<u64>>,
    /// Whether they are response times.
    pub(super) response: bool,
    /// Counts by column and row, over all operations and trials.
    pub(super) cells: HashMap<(u32, u32), u64>,
    /// Width of a column, in seconds.
    pub(super) step_s: f64,
}

/// The merged histograms of all phases, read once.
pub(super) fn merged(subject: &Subject) -> Result<Vec<OfPhase>, ReportError> {
    let mut all: IndexMap<(usize, String), OfPhase> = IndexMap::new();
    let mut longest: HashMap<&str, f64> = HashMap::new();
    for phase in subject.trials().flat_map(|(_, _, trial)| &trial.phases) {
        let length = longest.entry(&phase.name).or_default();
        *length = length.max(phase.elapsed_ns as f64 / 1e9);
    }
    for (run, configuration, trial) in subject.trials().filter(|(_, _, trial)| is_whole(trial)) {
        for phase in trial.phases.iter().filter(|p| !p.warm_up) {
            let length = longest.get(phase.name.as_str()).copied().unwrap_or(1.0);
            let read = subject.runs[run].histograms(trial.trial, &trial.store, &phase.name)?;
            let response = read.iter().any(|h| h.series == "response");
            let wanted = if response { "response" } else { "service" };
            let merged = all.entry((configuration, phase.name.clone())).or_insert_with(|| OfPhase {
                configuration,
                phase: phase.name.clone(),
                ops: IndexMap::new(),
                response,
                cells: HashMap::new(),
                // Whole seconds, like intervals.
                step_s: (length / COLUMNS as f64).ceil().max(1.0),
            });
            read.into_iter().filter(|h| h.series == wanted).for_each(|h| merged.add(h));
        }
    }
    Ok(all.into_values().collect())
}

impl OfPhase {
    fn add(&mut self, of: HistogramOf) {
        let column = (of.from_s / self.step_s) as u32;
        for value in of.histogram.iter_recorded() {
            let row = ((value.value_iterated_to().max(1) as f64).log2() * ROWS) as u32;
            *self.cells.entry((column, row)).or_default() += value.count_at_value();
        }
        match self.ops.get_mut(&of.op) {
            // Both histograms resize automatically.
            Some(known) => drop(known.add(&of.histogram)),
            None => {
                let mut first = of.histogram;
                first.auto(true);
                self.ops.insert(of.op, first);
            }
        }
    }
}

/// One chart with a choice of phase and operation.
pub(super) fn charts(subject: &Subject, merged: &[OfPhase]) -> Vec<Chart> {
    let mut chart = Chart::lines(
        "percentiles",
        "Latency by percentile",
        Axis::new("share of operations answered faster", Unit::Quantile, Scale::Log),
    );
    chart.about = "How slow the slowest operations are. The horizontal axis is the share of operations that were answered within \
                   the time on the vertical axis; each step leaves a tenth of the rest. A line ends where fewer than ten operations lie \
                   beyond. Histograms are merged over all trials of a configuration. They do not contain failed operations, so a p99 \
                   here can be lower than in the tables, which count failures as infinite."
        .to_owned();
    let loads = subject.trials().flat_map(|(_, _, trial)| &trial.phases).filter(|phase| phase.loads);
    let loads: Vec<&str> = loads.map(|phase| phase.name.as_str()).collect();
    let mut phases: Vec<&String> = Vec::new();
    for of in merged {
        let time = if of.response { "response time" } else { "service time" };
        let axis = chart.axis(Axis::new(time, Unit::Ns, Scale::Log));
        for (op, histogram) in &of.ops {
            // Phase and operation are one choice, because each phase has its own operations.
            let shown = if *op == of.phase { op.clone() } else { format!("{}: {op}", of.phase) };
            let line = Series::new(of.configuration, String::new(), keys([("phase", &shown)]), axis);
            let line = Series { figures: figures(histogram), ..line };
            let (x, y) = curve(histogram);
            chart.add(line, x, y);
            phases.push(&of.phase);
        }
    }
    let first = phases.iter().position(|phase| subject.answers.contains(phase));
    let first = first.or_else(|| phases.iter().position(|phase| !loads.contains(&phase.as_str())));
    let first = first.map(|at| chart.series[at].keys["phase"].clone());
    chart.choose(&[("phase", "phase", first)]);
    vec![chart]
}

/// The figures of a line for the table.
fn figures(histogram: &Histogram<u64>) -> Vec<(&'static str, f64)> {
    let n = histogram.len();
    let mut all = vec![("operations", n as f64)];
    for (name, quantile) in [
        ("p50 (answered)", 0.5),
        ("p90 (answered)", 0.9),
        ("p95 (answered)", 0.95),
        ("p99 (answered)", 0.99),
        ("p99.9 (answered)", 0.999),
    ] {
        // As for the line, at least ten values have to lie beyond.
        let beyond = n as f64 * (1.0 - quantile);
        all.push((name, if beyond >= 10.0 { histogram.value_at_quantile(quantile) as f64 } else { f64::NAN }));
    }
    all.push(("max (answered)", histogram.max() as f64));
    all
}

/// Points of the curve: 1 / (1 - q), and the value at q.
fn curve(histogram: &Histogram<u64>) -> (Vec<Option<f64>>, Vec<Option<f64>>) {
    let n = histogram.len() as f64;
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for step in 0..=POINTS * 6 {
        let inverse = 10f64.powf(f64::from(step) / f64::from(POINTS));
        if step > 0 && n / inverse < 10.0 {
            break;
        }
        x.push(Some(inverse));
        y.push(Some(histogram.value_at_quantile(1.0 - 1.0 / inverse) as f64));
    }
    (x, y)
}
