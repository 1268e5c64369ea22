//! The figures of a phase by name: what arms are compared by, gates and claims speak of, and tables show.
//!
//! A name is `PHASE.MEASURE` for all operations of a phase, `PHASE.OP.MEASURE` for one: `by-user.page.response.p99`.

use crate::results::{OpResult, Percentiles, PhaseResult, TrialResult};

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Throughput.
    More,
    /// Times, bytes, money.
    Less,
}

/// What is measured, by its name in paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// As in paths: `response.p99`.
    pub name: &'static str,
    /// Which way it is better.
    pub better: Better,
    /// Its unit: `/s`, `ns`, `B`.
    pub unit: &'static str,
}

const fn measure(name: &'static str, better: Better, unit: &'static str) -> Measure {
    Measure { name, better, unit }
}

/// Successes each second.
pub const THROUGHPUT: Measure = measure("throughput", Better::More, "/s");
/// Documents written, read or found each second.
pub const DOCUMENTS: Measure = measure("documents", Better::More, "/s");
/// The highest rate at which the study's limits hold.
pub const RATE_WITHIN_LIMITS: Measure = measure("rate-within-limits", Better::More, "/s");
/// Money for a million operations, by the price sheet of the run. Made by [`crate::cost`].
pub const COST: Measure = measure("cost", Better::Less, " a million");
/// Bytes of the store's files after the phase.
pub const DISK: Measure = measure("disk", Better::Less, "B");

/// Percentiles of a time by their names in paths.
type Percentile = (&'static str, &'static str, fn(&Percentiles) -> Option<u64>);
const PERCENTILES: [Percentile; 7] = [
    ("response.p50", "service.p50", |p| p.p50),
    ("response.p90", "service.p90", |p| p.p90),
    ("response.p95", "service.p95", |p| p.p95),
    ("response.p99", "service.p99", |p| p.p99),
    ("response.p99.9", "service.p99.9", |p| p.p99_9),
    ("response.p99.99", "service.p99.99", |p| p.p99_99),
    ("response.max", "service.max", |p| p.max),
];

/// Every measure there is.
pub fn measures() -> Vec<Measure> {
    let mut all = vec![THROUGHPUT, DOCUMENTS];
    all.extend(PERCENTILES.map(|(name, ..)| measure(name, Better::Less, "ns")));
    all.extend(PERCENTILES.map(|(_, name, _)| measure(name, Better::Less, "ns")));
    all.extend([DISK, RATE_WITHIN_LIMITS, COST]);
    all
}

/// One figure of one phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The phase.
    pub phase: String,
    /// The operation; none for all together.
    pub op: Option<String>,
    /// What was measured.
    pub measure: Measure,
    /// In the measure's unit.
    pub value: f64,
}

impl Figure {
    /// `PHASE.MEASURE` or `PHASE.OP.MEASURE`.
    pub fn name(&self) -> String {
        match &self.op {
            Some(op) => format!("{}.{op}.{}", self.phase, self.measure.name),
            None => format!("{}.{}", self.phase, self.measure.name),
        }
    }
}

/// The figures of a trial's phases, warm-ups left out. A phase with one operation has them for all only.
pub fn of_trial(trial: &TrialResult) -> Vec<Figure> {
    let found = trial.searches.iter().filter_map(|search| {
        let (phase, value) = (search.phase.clone(), search.rate?);
        Some(Figure { phase, op: None, measure: RATE_WITHIN_LIMITS, value })
    });
    trial.phases.iter().filter(|phase| !phase.warm_up).flat_map(of_phase).chain(found).collect()
}

/// The figures of one phase. Times of an open loop are `response` and `service`, of a closed loop `service` only.
pub fn of_phase(phase: &PhaseResult) -> Vec<Figure> {
    let mut out = Vec::new();
    let mut add = |op: Option<&str>, measure: Measure, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite() && *value > 0.0) {
            out.push(Figure { phase: phase.name.clone(), op: op.map(str::to_owned), measure, value });
        }
    };
    let total = |pick: fn(&OpResult) -> f64| phase.ops.values().map(pick).sum::<f64>();
    let documents = |op: &OpResult| (op.documents != op.succeeded).then_some(op.documents_per_s);
    add(None, THROUGHPUT, Some(total(|op| op.throughput_per_s)));
    if phase.ops.values().any(|op| documents(op).is_some()) {
        add(None, DOCUMENTS, Some(total(|op| op.documents_per_s)));
    }
    for (response, service, pick) in PERCENTILES {
        let ns = |times: &Percentiles| pick(times).map(|ns| ns as f64);
        add(None, measure(response, Better::Less, "ns"), phase.all.response_ns.as_ref().and_then(ns));
        add(None, measure(service, Better::Less, "ns"), ns(&phase.all.service_ns));
    }
    add(None, DISK, phase.store_after.as_ref().and_then(|after| after.disk_bytes).map(|bytes| bytes as f64));
    if phase.ops.len() < 2 {
        return out;
    }
    for (name, op) in &phase.ops {
        let mut add = |measure: Measure, value: Option<f64>| {
            if let Some(value) = value.filter(|value| value.is_finite() && *value > 0.0) {
                out.push(Figure { phase: phase.name.clone(), op: Some(name.clone()), measure, value });
            }
        };
        add(THROUGHPUT, Some(op.throughput_per_s));
        add(DOCUMENTS, documents(op));
        for (response, service, pick) in PERCENTILES {
            let ns = |times: &Percentiles| pick(times).map(|ns| ns as f64);
            add(measure(response, Better::Less, "ns"), op.response_ns.as_ref().and_then(ns));
            add(measure(service, Better::Less, "ns"), ns(&op.service_ns));
        }
    }
    out
}
