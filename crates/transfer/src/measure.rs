//! Timings of a copy's requests, recorded like a study's phase: histograms by kind of request and interval.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use storebench_engine::measure::{
    Interval, Label, Partial, PartialCause, PhaseRecord, Recorder, Sampler, StoreStats, Tally, WorkerUse, record,
    thread_cpu_ns, thread_run_queue_ns,
};
use storebench_engine::store::{Durability, ErrorKind, OpKind, ReadConsistency};
use storebench_engine::{Clock, Event, Gauges, Observer, RealClock, unix_now_ns};

/// One finished attempt of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The kind of the request.
    pub kind: OpKind,
    /// Whether it succeeded, or how it failed.
    pub outcome: Result<(), ErrorKind>,
    /// From send to answer, in ns.
    pub service_ns: u64,
    /// Records that it wrote or read.
    pub records: u64,
    /// Their bytes, including keys if they were written.
    pub bytes: u64,
}

/// Who is told what is measured, if anybody is.
pub(crate) type Observing<'a> = Option<&'a Mutex<dyn Observer + Send>>;

/// The name of a copy's only phase.
const PHASE: &str = "copy";

/// How measurements describe the requests of a sink or source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKinds {
    /// All possible kinds.
    pub kinds: Vec<OpKind>,
    /// Most records of one request.
    pub batch: u32,
}

/// How a copy writes to a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writes {
    /// The requests it uses.
    pub requests: RequestKinds,
    /// Requests in flight on one session.
    pub in_flight: u32,
    /// What acknowledged writes survive.
    pub durability: Durability,
}

/// What one worker measured since the last interval ended. Only that worker takes the lock, except once per interval.
struct Cell {
    recorder: Recorder,
    usage: WorkerUse,
    /// Of the threads that read for the worker, one after the other.
    reading: Option<WorkerUse>,
}

/// The recorders of all workers of a copy.
pub(crate) struct Meter<'a> {
    clock: RealClock,
    start_ns: u64,
    began_unix_ns: u64,
    labels: Arc<[Label]>,
    cells: Arc<[Mutex<Cell>]>,
    sampler: Option<Sampler>,
    total: Recorder,
    intervals: Vec<Interval>,
    /// The length of an interval, in ns.
    interval_ns: u64,
    target: Writes,
    observer: Observing<'a>,
}

/// One worker's part of the measurement.
pub(crate) struct Probe {
    cells: Arc<[Mutex<Cell>]>,
    worker: usize,
    labels: Arc<[Label]>,
    cpu_ns: u64,
    run_queue_ns: u64,
    clock: RealClock,
    start_ns: u64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(
        source: Option<RequestKinds>,
        target: Writes,
        workers: u32,
        interval: Duration,
        observer: Observing<'a>,
    ) -> Self {
        let clock = RealClock::new();
        let mut labels = Vec::new();
        for RequestKinds { kinds, batch } in source.iter().chain([&target.requests]) {
            for kind in kinds {
                let many = matches!(
                    kind,
                    OpKind::BulkInsert | OpKind::BulkUpsert | OpKind::BulkDelete | OpKind::Scan | OpKind::View
                );
                let batch = if many { *batch } else { 1 };
                labels.push(Label { name: kind.name().to_owned(), kind: *kind, collection: 0, batch });
            }
        }
        let cell = || Cell { recorder: Recorder::new(labels.len()), usage: WorkerUse::default(), reading: None };
        let start_ns = clock.now_ns();
        let meter = Self {
            start_ns,
            began_unix_ns: unix_now_ns(),
            cells: (0..workers).map(|_| Mutex::new(cell())).collect(),
            // Without a sampler, only the resource usage is missing.
            sampler: Sampler::start(clock.clone(), start_ns).ok(),
            total: Recorder::new(labels.len()),
            intervals: Vec::new(),
            interval_ns: (interval.as_nanos() as u64).max(1_000_000),
            labels: labels.into(),
            clock,
            target,
            observer,
        };
        meter.tell(&Event::PhaseBegan {
            phase: PHASE,
            labels: &meter.labels,
            loads: true,
            operations: None,
            duration_ns: None,
        });
        meter
    }

    fn tell(&self, event: &Event<'_>) {
        if let Some(observer) = self.observer {
            observer.lock().unwrap_or_else(PoisonError::into_inner).event(event);
        }
    }

    /// The probe of one worker, which [begins](Probe::begin) it on its own thread.
    pub(crate) fn probe(&self, worker: u32) -> Probe {
        Probe {
            cells: Arc::clone(&self.cells),
            worker: worker as usize,
            labels: Arc::clone(&self.labels),
            cpu_ns: 0,
            run_queue_ns: 0,
            clock: self.clock.clone(),
            start_ns: 0,
        }
    }

    /// Ends the interval if it is due.
    pub(crate) fn tick(&mut self) {
        let now_ns = self.clock.now_ns() - self.start_ns;
        if now_ns >= self.intervals.last().map_or(0, |last| last.to_ns) + self.interval_ns {
            self.close(now_ns);
        }
    }

    fn close(&mut self, to_ns: u64) {
        let mut all = Recorder::new(self.labels.len());
        for cell in &*self.cells {
            let mut cell = lock(cell);
            all.add(&cell.recorder);
            cell.recorder.clear();
        }
        let number = self.intervals.len() as u64;
        let from_ns = self.intervals.last().map_or(0, |last| last.to_ns);
        self.total.add(&all);
        let now = Gauges::default();
        self.tell(&Event::Interval { phase: PHASE, number, to_ns, record: &all, now });
        self.intervals.push(Interval::new(number, from_ns, to_ns.max(from_ns + 1), &all));
    }

    /// Ends the measurement and returns all of it.
    pub(crate) fn end(mut self, interrupted: bool) -> PhaseRecord {
        let elapsed_ns = (self.clock.now_ns() - self.start_ns).max(1);
        self.close(elapsed_ns);
        let operations = self.total.ops.iter().map(Tally::ended).sum();
        self.tell(&Event::PhaseEnded { phase: PHASE, operations, elapsed_ns, total: &self.total, store: None });
        PhaseRecord {
            name: PHASE.to_owned(),
            warm_up: false,
            loads: false,
            labels: self.labels.to_vec(),
            began_unix_ns: self.began_unix_ns,
            sending_ns: elapsed_ns,
            elapsed_ns,
            scheduled: None,
            scheduled_over_ns: None,
            workers: self.cells.len() as u32,
            connections: 1,
            in_flight: self.target.in_flight,
            durability: self.target.durability,
            consistency: ReadConsistency::Strong,
            isolation: None,
            total: self.total,
            intervals: self.intervals,
            worker_use: self
                .cells
                .iter()
                .flat_map(|cell| {
                    let cell = lock(cell);
                    [Some(cell.usage), cell.reading].into_iter().flatten()
                })
                .collect(),
            resources: self.sampler.map(Sampler::finish).unwrap_or_default(),
            store_stats: StoreStats::default(),
            distinct_keys: Vec::new(),
            messages: Vec::new(),
            wrong_examples: Vec::new(),
            ledger: None,
            history: None,
            answers: Vec::new(),
            of_part: None,
            partial: interrupted.then(|| Partial { cause: PartialCause::Interrupted, why: "interrupted".to_owned() }),
        }
    }
}

impl Probe {
    /// Starts measuring; called on the worker's thread.
    pub(crate) fn begin(&mut self) {
        self.cpu_ns = thread_cpu_ns();
        self.run_queue_ns = thread_run_queue_ns();
        self.start_ns = self.clock.now_ns();
    }

    /// Ends measuring; called on the worker's thread.
    pub(crate) fn end(self) {
        let cpu_ns = thread_cpu_ns() - self.cpu_ns;
        let run_queue_ns = thread_run_queue_ns().saturating_sub(self.run_queue_ns);
        let wall_ns = self.clock.now_ns() - self.start_ns;
        lock(&self.cells[self.worker]).usage = WorkerUse { cpu_ns, run_queue_ns, wall_ns, ..WorkerUse::default() };
    }

    /// Adds all that the calling thread has used, which read for the worker since `start_ns` of the probe's clock.
    pub(crate) fn has_read(&self, start_ns: u64) {
        let mut cell = lock(&self.cells[self.worker]);
        let all = cell.reading.get_or_insert_default();
        all.cpu_ns += thread_cpu_ns();
        all.run_queue_ns += thread_run_queue_ns();
        all.wall_ns += self.clock.now_ns() - start_ns;
    }

    /// The time by the probe's clock.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Records requests and empties the list.
    pub(crate) fn take(&self, requests: &mut Vec<Request>) {
        if requests.is_empty() {
            return;
        }
        let mut cell = lock(&self.cells[self.worker]);
        for request in requests.drain(..) {
            let Some(label) = self.labels.iter().position(|label| label.kind == request.kind) else { continue };
            let tally = &mut cell.recorder.ops[label];
            match request.outcome {
                Ok(()) => {
                    tally.succeeded += 1;
                    record(&mut tally.service, request.service_ns);
                }
                Err(ErrorKind::NotFound) => {
                    tally.missed += 1;
                    record(&mut tally.service, request.service_ns);
                }
                Err(kind) => {
                    tally.failed[kind as usize] += 1;
                    record(&mut tally.failed_time, request.service_ns);
                }
            }
            let writes = request.kind.writes();
            tally.add_answer(request.records, if writes { 0 } else { request.bytes });
            tally.add_sent(if writes { request.bytes } else { 0 });
        }
    }
}

fn lock(cell: &Mutex<Cell>) -> MutexGuard<'_, Cell> {
    cell.lock().unwrap_or_else(PoisonError::into_inner)
}
