//! The figures of a phase by name. Comparisons, gates, claims and tables use them.
//!
//! A name is `PHASE.MEASURE` for all operations of a phase, `PHASE.OP.MEASURE` for one: `by-user.page.response.p99`.

use crate::stats::Observed;
use crate::times::{self, response, response_of_all, service, service_of_all};
use crate::{OpResult, Percentiles, PhaseResult, TrialResult, WatchedProcess};
use storebench_study::op_kind::OpKind;

/// Whether more or less of a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    /// Throughput.
    More,
    /// Times, bytes, money.
    Less,
}

/// What is measured, by its name in paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measure {
    /// Its name in paths: `response.p99`.
    pub name: &'static str,
    /// Whether more or less is better.
    pub better: Better,
    /// Its unit: `/s`, `ns`, `B`.
    pub unit: &'static str,
}

const fn measure(name: &'static str, better: Better, unit: &'static str) -> Measure {
    Measure { name, better, unit }
}

/// Successes each second.
pub(crate) const THROUGHPUT: Measure = measure("throughput", Better::More, "/s");
/// Documents written, read or found each second. It equals the throughput if each operation has one document.
/// [`in_documents`] decides which of the two describes a phase.
pub(crate) const DOCUMENTS: Measure = measure("documents", Better::More, "/s");
/// The highest rate at which the study's limits are met.
pub(crate) const RATE_WITHIN_LIMITS: Measure = measure("rate-within-limits", Better::More, "/s");
/// Money for a million operations, by the price sheet of the run. Computed by [`crate::cost`].
pub(crate) const COST: Measure = measure("cost", Better::Less, "a million");
/// Bytes of the store's files after the phase.
pub(crate) const DISK: Measure = measure("disk", Better::Less, "B");
/// CPU time of the store's processes per operation. For an embedded store it includes the client.
pub(crate) const STORE_CPU: Measure = measure("store-cpu", Better::Less, "ns");
/// Peak resident memory of the store's processes.
pub(crate) const STORE_MEMORY: Measure = measure("store-memory", Better::Less, "B");
/// Bytes that reached the disk of the store's folder, without those of other processes, for each byte of documents
/// written. Absent if other processes may have written as much.
pub(crate) const WRITE_AMPLIFICATION: Measure = measure("write-amplification", Better::Less, "");
/// Bytes on disk for each byte of documents that the store holds.
pub(crate) const SPACE_AMPLIFICATION: Measure = measure("space-amplification", Better::Less, "");

/// The share to which histograms round times, at most: they keep 3 significant digits, in steps of powers of two.
const TIMES_ROUNDED: f64 = 1.0 / 1024.0;
/// The unit of files and memory.
const PAGE_BYTES: f64 = 4096.0;
/// The unit of the CPU time of another process: the kernel shows hundredths of a second.
const TICK_NS: f64 = 1e7;

/// Percentiles by their names in paths.
const PERCENTILES: [(&str, &str, times::Percentile); 7] = [
    ("response.p50", "service.p50", times::P50),
    ("response.p90", "service.p90", times::P90),
    ("response.p95", "service.p95", times::P95),
    ("response.p99", "service.p99", times::P99),
    ("response.p99.9", "service.p99.9", times::P99_9),
    ("response.p99.99", "service.p99.99", times::P99_99),
    ("response.max", "service.max", times::MAX),
];

/// The measure at the end of a figure's name. `None` if there is none of this name.
pub(crate) fn measure_of(figure: &str) -> Option<Measure> {
    const NAMED: [Measure; 8] = [
        THROUGHPUT,
        DOCUMENTS,
        RATE_WITHIN_LIMITS,
        DISK,
        STORE_CPU,
        STORE_MEMORY,
        WRITE_AMPLIFICATION,
        SPACE_AMPLIFICATION,
    ];
    let times = PERCENTILES.iter().flat_map(|(response, service, _)| [*response, *service]);
    let times = times.map(|name| measure(name, Better::Less, "ns"));
    let is = |of: &Measure| figure.strip_suffix(of.name).is_some_and(|place| place.ends_with('.'));
    NAMED.into_iter().chain(times).find(is)
}

/// One figure of one phase.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    /// The phase.
    pub phase: String,
    /// The operation. `None` for all operations together.
    pub op: Option<String>,
    /// What was measured.
    pub measure: Measure,
    /// In the measure's unit; positive and finite. `None` if nothing succeeded, too few attempts were answered for the
    /// percentile, or no rate met the limits.
    pub value: Option<f64>,
    /// By what factor the true value may exceed `value`. It is 1, except for a rate that was searched: that lies below
    /// the lowest rate that misses the limits. Infinite if every rate meets them.
    pub up_to: f64,
    /// To what share of it the value is rounded: by a histogram, by whole operations, or by pages.
    pub rounded: f64,
    /// Whether there is no value because too few attempts were answered for the percentile.
    pub too_few: bool,
}

impl Figure {
    fn new(phase: &str, op: Option<&str>, measure: Measure, value: Option<f64>) -> Self {
        let value = value.filter(|value| value.is_finite() && *value > 0.0);
        Self {
            phase: phase.to_owned(),
            op: op.map(str::to_owned),
            measure,
            value,
            up_to: 1.0,
            rounded: 0.0,
            too_few: false,
        }
    }

    /// The figure of this trial. `None` without a value.
    pub(crate) fn observed(&self, trial: u32) -> Option<Observed> {
        let (value, rounded) = (self.value?, 1.0 + self.rounded);
        Some(Observed { at: trial, value, from: value / rounded, to: value * rounded * self.up_to })
    }

    /// The figure, rounded to multiples of `unit` in its own unit.
    fn rounded_to(self, unit: f64) -> Self {
        let rounded = self.value.map_or(0.0, |value| unit / value).max(self.rounded);
        Self { rounded, ..self }
    }

    /// `PHASE.MEASURE` or `PHASE.OP.MEASURE`.
    pub(crate) fn name(&self) -> String {
        match &self.op {
            Some(op) => format!("{}.{op}.{}", self.phase, self.measure.name),
            None => format!("{}.{}", self.phase, self.measure.name),
        }
    }
}

/// The figures of a trial's phases, without warm-ups. A phase with one operation only has figures for all operations.
pub(crate) fn of_trial(trial: &TrialResult) -> Vec<Figure> {
    let found = trial.searches.iter().map(|search| {
        let figure = Figure::new(&search.phase, None, RATE_WITHIN_LIMITS, search.rate);
        let up_to = search.rate.map_or(1.0, |rate| search.fails_at.map_or(f64::INFINITY, |fails| fails / rate));
        Figure { up_to: up_to.max(1.0), ..figure }
    });
    trial.phases.iter().filter(|phase| !phase.warm_up).flat_map(of_phase).chain(found).collect()
}

/// The figures of one phase. An open loop has `response` and `service` times, a closed loop only `service` times. Times
/// are over all attempts; those that failed or were not answered count as infinite.
pub(crate) fn of_phase(phase: &PhaseResult) -> Vec<Figure> {
    let total = |pick: fn(&OpResult) -> f64| phase.ops.values().map(pick).sum::<f64>();
    // Where the work is given, its time is measured, and where the rate is given, it is not counted either.
    let counted = phase.rate.is_none() && !phase.loads && phase.tasks.is_none();
    let counted = |succeeded: f64| if counted { succeeded } else { f64::INFINITY };
    let succeeded = counted(total(|op| op.succeeded as f64));
    let all = &phase.all;
    let mut out = Vec::new();
    let rates = Some([total(|op| op.throughput_per_s), total(|op| op.documents_per_s)]);
    add(&mut out, phase, None, (rates, succeeded), response_of_all(all), service_of_all(all));
    let disk = phase.store_after.as_ref().and_then(|after| after.disk_bytes).filter(|bytes| *bytes > 0);
    out.extend(disk.map(|bytes| Figure::new(&phase.name, None, DISK, Some(bytes as f64)).rounded_to(PAGE_BYTES)));
    out.extend(of_resources(phase));
    if phase.ops.len() < 2 {
        return out;
    }
    for (name, op) in &phase.ops {
        // Collections are loaded one after another; the time of each is not known.
        let rates = if phase.loads { None } else { Some([op.throughput_per_s, op.documents_per_s]) };
        add(&mut out, phase, Some(name), (rates, counted(op.succeeded as f64)), response(op), service(op));
    }
    out
}

/// The resources that the store's processes and its folder used.
fn of_resources(phase: &PhaseResult) -> Vec<Figure> {
    let Some(used) = &phase.resources else { return Vec::new() };
    // An embedded store shares the client's process, which the client measures; of all parts of a run together.
    let own = used.store.as_ref().is_some_and(|store| store.whose == WatchedProcess::ClientAndStore);
    let store = used.store.as_ref().map(|store| match own {
        true => (phase.client.process_cpu_us_per_op, phase.client.rss_max_bytes),
        false => (store.cpu_us_per_op, store.rss_max_bytes),
    });
    let operations = phase.ops.values().map(|op| op.count as f64).sum::<f64>();
    let tick_ns = if own { 0.0 } else { TICK_NS / operations.max(1.0) };
    [
        (STORE_CPU, store.and_then(|(cpu_us, _)| cpu_us).map(|us| us * 1e3), tick_ns),
        (STORE_MEMORY, store.map(|(_, bytes)| bytes as f64), PAGE_BYTES),
        (WRITE_AMPLIFICATION, used.disk.as_ref().and_then(|disk| disk.write_amplification), 0.0),
        (SPACE_AMPLIFICATION, used.folder.as_ref().and_then(|folder| folder.space_amplification), 0.0),
    ]
    .into_iter()
    .filter(|(_, value, _)| value.is_some_and(|value| value > 0.0))
    .map(|(measure, value, unit)| Figure::new(&phase.name, None, measure, value).rounded_to(unit))
    .collect()
}

/// Whether documents per second describe these phases, rather than operations per second. That holds for loads and
/// copies, and for operations on several documents, unless they come at a given rate, which counts operations. Tables
/// and sentences use this function; costs count documents in either case.
pub fn in_documents<'a>(phases: impl IntoIterator<Item = &'a PhaseResult>) -> bool {
    let bulk = |phase: &PhaseResult| phase.rate.is_none() && phase.ops.values().any(is_bulk);
    phases.into_iter().any(|phase| phase.loads || phase.tasks.is_some() || bulk(phase))
}

/// Whether operations have several documents, so that documents per second say more. Rows of queries are no documents, and
/// a transaction counts as one, whatever its steps.
pub(crate) fn is_bulk(op: &OpResult) -> bool {
    let as_one = [OpKind::Query, OpKind::Transaction].iter().any(|kind| op.kind == kind.name());
    op.documents > 0 && op.documents != op.succeeded && !as_one
}

fn add(
    out: &mut Vec<Figure>,
    phase: &PhaseResult,
    op: Option<&str>,
    (rates, succeeded): (Option<[f64; 2]>, f64),
    response: Option<Percentiles>,
    service: Percentiles,
) {
    let figure = |measure, value| Figure::new(&phase.name, op, measure, value);
    if let Some([throughput, documents]) = rates {
        // One operation more or less.
        out.push(figure(THROUGHPUT, Some(throughput)).rounded_to(throughput / succeeded.max(1.0)));
        // Operations that only count have no documents. Those that all failed may have had some.
        if documents > 0.0 || throughput == 0.0 {
            out.push(figure(DOCUMENTS, Some(documents)).rounded_to(documents / succeeded.max(1.0)));
        }
    }
    for (response_name, service_name, percentile) in PERCENTILES {
        for (name, times) in [(response_name, response), (service_name, Some(service))] {
            let Some(times) = times else { continue };
            let (too_few, found) = (times::too_few(&times, percentile), times::value(&times, percentile));
            let unit = found.map_or(0.0, |ns| (ns * TIMES_ROUNDED).max(1.0));
            out.push(Figure { too_few, ..figure(measure(name, Better::Less, "ns"), found).rounded_to(unit) });
        }
    }
}
