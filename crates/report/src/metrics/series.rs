//! What has happened in a run so far, added up from its events.

use indexmap::IndexMap;
use storebench_engine::measure::{Label, Recorder, Tally, process_cpu_ns, rss_bytes};
use storebench_engine::store::{ErrorKind, OpKind};
use storebench_engine::{Gauges, StoreUse};

use super::model::{
    BEHIND, CLIENT_CPU, CLIENT_MEMORY, COPIED, COPIED_BYTES, DISCONNECTS, DOCUMENTS, IN_FLIGHT, Labels, Metric,
    OPERATIONS, PHASE, Point, READ, REFUSED, REJECTED, RESPONSE, RETRIES, SERVICE, STORE_CPU, STORE_MEMORY, Snapshot,
    TIMES, Value, WRITTEN, times,
};

/// One count of operations, with the labels that it has beside those of the operation.
struct Counted {
    metric: &'static Metric,
    outcome: &'static str,
    error: &'static str,
    of: fn(&Tally, OpKind) -> u64,
}

const fn counted(metric: &'static Metric, of: fn(&Tally, OpKind) -> u64) -> Counted {
    Counted { metric, outcome: "", error: "", of }
}

const fn outcome(outcome: &'static str, of: fn(&Tally, OpKind) -> u64) -> Counted {
    Counted { metric: OPERATIONS, outcome, error: "", of }
}

const fn failed(error: &'static str, of: fn(&Tally, OpKind) -> u64) -> Counted {
    Counted { metric: OPERATIONS, outcome: "failed", error, of }
}

/// Every count. Each operation has exactly one outcome.
const COUNTED: &[Counted] = &[
    outcome("succeeded", |tally, _| tally.succeeded),
    outcome("not-found", |tally, _| tally.missed),
    failed("refused", |tally, _| tally.failed_as(ErrorKind::Refused)),
    failed("conflict", |tally, _| tally.failed_as(ErrorKind::Conflict)),
    failed("temporary", |tally, _| tally.failed_as(ErrorKind::Temporary)),
    failed("failed", |tally, _| tally.failed_as(ErrorKind::Failed)),
    failed("aborted", |tally, _| tally.failed_as(ErrorKind::Aborted)),
    // A read changes nothing, so one without an answer has failed.
    failed("outcome-unknown", |tally, kind| if kind.writes() { 0 } else { tally.failed_as(ErrorKind::OutcomeUnknown) }),
    outcome("unknown", Tally::unknown_outcomes),
    outcome("unfinished", |tally, kind| {
        tally.unfinished.saturating_sub(if kind.writes() { tally.unfinished_sent } else { 0 })
    }),
    counted(RETRIES, |tally, _| tally.retries),
    counted(DOCUMENTS, |tally, _| tally.documents),
    counted(REFUSED, |tally, _| tally.rejected),
    counted(WRITTEN, |tally, _| tally.bytes_written),
    counted(READ, |tally, _| tally.bytes_read),
];

/// Figures that only grow. The current phase is apart, because at its end the engine says again what all of it was.
#[derive(Debug, Default)]
struct Growing {
    earlier: Vec<u128>,
    current: Vec<u128>,
}

/// Combines figures one by one.
fn combine(all: &mut Vec<u128>, more: &[u128], with: fn(u128, u128) -> u128) {
    all.resize(all.len().max(more.len()), 0);
    all.iter_mut().zip(more).for_each(|(one, other)| *one = with(*one, *other));
}

impl Growing {
    /// Another phase begins.
    fn begin(&mut self) {
        combine(&mut self.earlier, &std::mem::take(&mut self.current), |a, b| a + b);
    }

    /// Adds figures of the current phase.
    fn add(&mut self, more: &[u128]) {
        combine(&mut self.current, more, |a, b| a + b);
    }

    /// The figures of the current phase are these, unless they were higher: a counter never falls.
    fn reach(&mut self, all: &[u128]) {
        combine(&mut self.current, all, u128::max);
    }

    fn all(&self) -> Vec<u128> {
        let mut all = self.earlier.clone();
        combine(&mut all, &self.current, |a, b| a + b);
        all
    }

    fn first(&self) -> u128 {
        self.all().first().copied().unwrap_or(0)
    }
}

/// A kind of operation in a phase on a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Operation {
    store: String,
    phase: String,
    name: String,
    kind: OpKind,
}

/// The trial and the phase that run now.
#[derive(Debug, Default)]
struct Place {
    store: String,
    configuration: String,
    round: u32,
    /// The phase, and its operations in the order of a recorder.
    phase: Option<(String, Vec<Operation>)>,
    now: Gauges,
}

/// Documents, their bytes and rejected records of a copy.
pub(super) type Copied = [u64; 3];

/// Everything so far.
#[derive(Debug, Default)]
pub(super) struct Series {
    study: String,
    pub(super) run: String,
    began_unix_ns: u64,
    place: Place,
    operations: IndexMap<Operation, Growing>,
    /// Connections that were lost, by store and phase.
    disconnects: IndexMap<(String, String), Growing>,
    /// Processor time of stores, in ns, and their memory.
    stores: IndexMap<String, (Growing, u64)>,
    pub(super) copied: Option<Copied>,
}

impl Series {
    pub(super) fn new(study: &str, began_unix_ns: u64) -> Self {
        Self { study: study.to_owned(), began_unix_ns, ..Self::default() }
    }

    pub(super) fn trial(&mut self, round: u32, store: &str, configuration: &str) {
        let (store, configuration) = (store.to_owned(), configuration.to_owned());
        self.place = Place { store, configuration, round, ..Place::default() };
    }

    pub(super) fn begin(&mut self, phase: &str, labels: &[Label]) {
        let (store, phase) = (self.place.store.clone(), phase.to_owned());
        let operation = |label: &Label| Operation {
            store: store.clone(),
            phase: phase.clone(),
            name: label.name.clone(),
            kind: label.kind,
        };
        let operations: Vec<Operation> = labels.iter().map(operation).collect();
        for operation in &operations {
            let growing = self.operations.entry(operation.clone()).or_default();
            growing.begin();
            growing.reach(&figures(&Tally::default(), operation.kind));
        }
        self.disconnects.entry((store.clone(), phase.clone())).or_default().begin();
        if let Some((cpu, _)) = self.stores.get_mut(&store) {
            cpu.begin();
        }
        (self.place.phase, self.place.now) = (Some((phase, operations)), Gauges::default());
    }

    pub(super) fn interval(&mut self, record: &Recorder, now: Gauges) {
        self.place.now = now;
        self.take(record, Growing::add);
        self.store_uses(now.store);
    }

    fn store_uses(&mut self, now: Option<StoreUse>) {
        if let Some(used) = now {
            let (cpu, memory) = self.stores.entry(self.place.store.clone()).or_default();
            cpu.reach(&[u128::from(used.cpu_ns)]);
            *memory = used.rss_bytes;
        }
    }

    /// A phase has ended, in which all this was recorded and the store used this.
    pub(super) fn end(&mut self, total: &Recorder, store: Option<StoreUse>) {
        self.take(total, Growing::reach);
        self.store_uses(store);
        (self.place.phase, self.place.now) = (None, Gauges::default());
    }

    fn take(&mut self, record: &Recorder, with: fn(&mut Growing, &[u128])) {
        let Some((phase, operations)) = &self.place.phase else { return };
        for (operation, tally) in operations.iter().zip(&record.ops) {
            with(self.operations.entry(operation.clone()).or_default(), &figures(tally, operation.kind));
        }
        let lost = self.disconnects.entry((self.place.store.clone(), phase.clone())).or_default();
        with(lost, &[u128::from(record.connections.disconnects)]);
    }

    /// All metrics now.
    pub(super) fn snapshot(&self, at_unix_ns: u64) -> Snapshot {
        let mut found: IndexMap<&'static str, (&'static Metric, Vec<Point>)> = IndexMap::new();
        let mut add = |metric: &'static Metric, labels: Labels, value: Value| {
            found.entry(metric.name).or_insert((metric, Vec::new())).1.push(Point { labels, value });
        };
        let number = |count: u128| Value::Number(count as f64);
        let at = |store: &str, phase: &str| vec![("store", store.to_owned()), ("phase", phase.to_owned())];
        for (Operation { store, phase, name, kind }, growing) in &self.operations {
            let labels = || {
                let own = [("operation", name.clone()), ("kind", kind.name().to_owned())];
                at(store, phase).into_iter().chain(own).collect::<Labels>()
            };
            let all = growing.all();
            let (counts, histograms) = all.split_at(COUNTED.len());
            for (counted, count) in COUNTED.iter().zip(counts) {
                let more = [("outcome", counted.outcome.to_owned()), ("error", counted.error.to_owned())];
                add(counted.metric, labels().into_iter().chain(more).collect(), number(*count));
            }
            for (metric, times) in [RESPONSE, SERVICE].into_iter().zip(histograms.chunks(TIMES)) {
                // A closed loop has no response times.
                if times.iter().any(|count| *count > 0) {
                    add(metric, labels(), Value::Times(times.to_vec()));
                }
            }
        }
        for ((store, phase), lost) in &self.disconnects {
            add(DISCONNECTS, at(store, phase), number(lost.first()));
        }
        let Place { store, configuration, round, phase, now } = &self.place;
        if let Some((phase, _)) = phase {
            let more = [("run", self.run.clone()), ("configuration", configuration.clone())];
            let info = at(store, phase).into_iter().chain(more).chain([("round", round.to_string())]);
            add(PHASE, info.collect(), Value::Number(1.0));
            if let Some(in_flight) = now.in_flight {
                add(IN_FLIGHT, at(store, phase), Value::Number(in_flight as f64));
            }
            if let Some(behind_ns) = now.behind_ns {
                add(BEHIND, at(store, phase), Value::Number(behind_ns as f64 / 1e9));
            }
        }
        let copied = self.copied.into_iter().flatten();
        for (metric, count) in [COPIED, COPIED_BYTES, REJECTED].into_iter().zip(copied) {
            add(metric, Labels::new(), Value::Number(count as f64));
        }
        add(CLIENT_CPU, Labels::new(), Value::Number(process_cpu_ns() as f64 / 1e9));
        add(CLIENT_MEMORY, Labels::new(), Value::Number(rss_bytes() as f64));
        for (store, (cpu, memory)) in &self.stores {
            let labels = || vec![("store", store.clone())];
            add(STORE_CPU, labels(), Value::Number(cpu.first() as f64 / 1e9));
            add(STORE_MEMORY, labels(), Value::Number(*memory as f64));
        }
        let (study, run, began_unix_ns) = (self.study.clone(), self.run.clone(), self.began_unix_ns);
        Snapshot { study, run, began_unix_ns, at_unix_ns, metrics: found.into_values().collect() }
    }
}

/// All figures of a tally: its counts, then both histograms.
fn figures(tally: &Tally, kind: OpKind) -> Vec<u128> {
    let counts = COUNTED.iter().map(|counted| u128::from((counted.of)(tally, kind)));
    counts.chain(times(&tally.response)).chain(times(&tally.service)).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use storebench_engine::measure::record;

    /// A trial with a phase of reads and updates, after one interval.
    pub(in crate::metrics) fn running() -> Series {
        let mut series = Series { study: "books".into(), run: "books-1".into(), ..Series::default() };
        series.trial(2, "a \"quoted\" store", "a, 16 workers");
        let label = |name: &str, kind| Label { name: name.into(), kind, collection: 0, batch: 1 };
        series.begin("mixed", &[label("read", OpKind::Read), label("update", OpKind::Upsert)]);
        let store = Some(StoreUse { cpu_ns: 1_500_000_000, rss_bytes: 4_096 });
        series.interval(&interval(), Gauges { in_flight: Some(7), behind_ns: Some(250_000_000), store });
        series
    }

    fn interval() -> Recorder {
        let mut recorder = Recorder::new(2);
        for (at, tally) in recorder.ops.iter_mut().enumerate() {
            (tally.succeeded, tally.missed, tally.documents) = (10, 2, 10);
            tally.failed[ErrorKind::OutcomeUnknown as usize] = 3;
            tally.failed[ErrorKind::Temporary as usize] = at as u64;
            record(&mut tally.service, 4_000_000);
        }
        recorder.connections.disconnects = 1;
        recorder
    }

    /// The sum of the series of a metric that have these labels.
    pub(in crate::metrics) fn sum(snapshot: &Snapshot, metric: &Metric, labels: &[(&str, &str)]) -> Option<f64> {
        let (_, points) = snapshot.metrics.iter().find(|(found, _)| *found == metric)?;
        let has = |point: &&Point| labels.iter().all(|(name, value)| point.labels.contains(&(*name, (*value).into())));
        let values = points.iter().filter(has).map(|point| match &point.value {
            Value::Number(number) => *number,
            Value::Times(times) => times[..TIMES - 1].iter().sum::<u128>() as f64,
        });
        values.reduce(|a, b| a + b)
    }

    #[test]
    fn every_operation_has_one_outcome() {
        for kind in [OpKind::Read, OpKind::Upsert] {
            let mut tally = Tally { succeeded: 1, missed: 2, unfinished: 9, unfinished_sent: 4, ..Tally::default() };
            for failing in ErrorKind::ALL.into_iter().filter(|kind| *kind != ErrorKind::NotFound) {
                tally.failed[failing as usize] = 10 + failing as u64;
            }
            let of = |counted: &&Counted| counted.metric == OPERATIONS;
            let all: u64 = COUNTED.iter().filter(of).map(|counted| (counted.of)(&tally, kind)).sum();
            assert_eq!(all, tally.attempts(), "{}", kind.name());
        }
        for Counted { error, .. } in COUNTED.iter().filter(|counted| counted.outcome == "failed") {
            assert!(ErrorKind::ALL.iter().any(|kind| kind.name() == *error), "{error}");
        }
    }

    #[test]
    fn counters_grow_over_intervals_and_phases_and_reach_the_total() {
        let mut series = running();
        let succeeded = |series: &Series| {
            let snapshot = series.snapshot(0);
            sum(&snapshot, OPERATIONS, &[("operation", "read"), ("outcome", "succeeded")]).unwrap()
        };
        assert_eq!(succeeded(&series), 10.0);
        let now = series.snapshot(0);
        assert_eq!(sum(&now, OPERATIONS, &[("outcome", "unknown")]), Some(3.0), "of updates");
        assert_eq!(sum(&now, OPERATIONS, &[("error", "outcome-unknown")]), Some(3.0), "of reads");
        assert_eq!((sum(&now, SERVICE, &[]), sum(&now, RESPONSE, &[])), (Some(2.0), None));
        assert_eq!((sum(&now, IN_FLIGHT, &[]), sum(&now, BEHIND, &[])), (Some(7.0), Some(0.25)));
        assert_eq!((sum(&now, STORE_CPU, &[]), sum(&now, DISCONNECTS, &[])), (Some(1.5), Some(1.0)));
        let info = [("phase", "mixed"), ("round", "2"), ("run", "books-1"), ("configuration", "a, 16 workers")];
        assert_eq!(sum(&now, PHASE, &info), Some(1.0));
        series.interval(&interval(), Gauges::default());
        assert_eq!(succeeded(&series), 20.0);
        assert_eq!(sum(&series.snapshot(0), IN_FLIGHT, &[]), None, "unknown is not zero");
        // The last interval is in the total only.
        let mut total = Recorder::new(2);
        (0..3).for_each(|_| total.add(&interval()));
        let store = |cpu_ns| Some(StoreUse { cpu_ns, rss_bytes: 8_192 });
        series.end(&total, store(2_000_000_000));
        assert_eq!(sum(&series.snapshot(0), STORE_MEMORY, &[]), Some(8_192.0));
        assert_eq!(succeeded(&series), 30.0);
        assert_eq!(sum(&series.snapshot(0), PHASE, &[]), None);
        // The same phase again, such as in the next round; it fails before its end.
        let labels = running().place.phase.unwrap().1;
        let label = |of: &Operation| Label { name: of.name.clone(), kind: of.kind, collection: 0, batch: 1 };
        let labels: Vec<Label> = labels.iter().map(label).collect();
        series.begin("mixed", &labels);
        assert_eq!(succeeded(&series), 30.0);
        series.interval(&interval(), Gauges::default());
        series.begin("mixed", &labels);
        assert_eq!(succeeded(&series), 40.0);
        assert_eq!(sum(&series.snapshot(0), STORE_CPU, &[]), Some(2.0), "as last sampled");
        series.end(&Recorder::new(2), store(250_000_000));
        assert_eq!(sum(&series.snapshot(0), STORE_CPU, &[]), Some(2.25), "of both phases");
    }

    #[test]
    fn a_copy_has_its_own_counters() {
        let series = Series { copied: Some([5, 600, 1]), ..Series::default() };
        let now = series.snapshot(0);
        assert_eq!(
            (sum(&now, COPIED, &[]), sum(&now, COPIED_BYTES, &[]), sum(&now, REJECTED, &[])),
            (Some(5.0), Some(600.0), Some(1.0))
        );
        assert_eq!(sum(&Series::default().snapshot(0), COPIED, &[]), None);
    }
}
