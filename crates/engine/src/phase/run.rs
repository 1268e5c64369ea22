//! Runs one phase on one store: starts the workers together, gathers their recorders, and makes the record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::clock::{Clock, RealClock, unix_now_ns};
use super::companion::{Companion, StoreUse, Watch};
use super::drive::{self, WorkerReport};
use super::events::{Event, Gauges, Observer};
use super::followed::Followed;
use super::plan::{Amount, PhasePlan, WorkerJob};
use super::read_back;
use super::silence::Silence;
use super::stop::Stop;
use super::team::{Member, Outbox, Snapshot, StartGate};
use crate::ledger::TrialLedger;
use crate::measure::{
    Asking, HistoryRecord, Interval, LedgerReads, LedgerReport, OfPart, Partial, PartialCause, PhaseRecord, Recorder,
    ResourceSample, Sampler, StatsSampler, StoreStats, Tally, WorkerUse,
};
use crate::store::{AnyStore, OpKind, PhaseStart, StoreError};
use storebench_documents::Catalog;
use storebench_documents::keys::Distinct;
use storebench_study::workload::ArrivalSpec;

/// Agrees with the other parts of the run when a phase begins, and returns that in ns since 1970.
pub type Begin<'a> = Box<dyn FnMut(&mut dyn Observer) -> Result<u64, StoreError> + 'a>;

/// What a phase needs besides its plan and its store.
pub struct PhaseContext<'a> {
    /// The documents.
    pub catalog: Arc<Catalog>,
    /// The run's clock.
    pub clock: RealClock,
    /// The user's request to stop.
    pub stop: Arc<Stop>,
    /// The study's seed.
    pub seed: u64,
    /// Length of an interval.
    pub interval: Duration,
    /// With parts: called when the connections are open.
    pub begin: Option<Begin<'a>>,
    /// What earlier phases of the trial have written.
    pub written: &'a mut Written,
    /// Code that observes the store meanwhile, or acts on it, each on a separate thread.
    pub companions: Vec<&'a mut dyn Companion>,
    /// Whether the store is gone for good, so that there is no point in waiting for it.
    pub gone: &'a dyn Fn() -> bool,
    /// Receives the events.
    pub observer: &'a mut dyn Observer,
}

/// What a trial has written so far. It starts empty, and each phase adds to it.
#[derive(Debug, Default)]
pub struct Written {
    /// New documents, by position of the collection: their numbers are taken.
    pub inserted: Vec<u64>,
    /// What was acknowledged.
    pub trial_ledger: TrialLedger,
    /// By position of the collection: whether all of its documents are there, because they were loaded and nothing was
    /// deleted since.
    pub complete: Vec<bool>,
    /// Writes of unknown outcome: they may still take effect.
    pub unsettled: u64,
    /// How many of them remove documents.
    pub late_deletes: u64,
    /// No version above this one was written.
    pub highest: u64,
}

impl Written {
    /// Notes that a fault may have taken acknowledged writes: any earlier version may be there, or nothing. If there are
    /// `several` nodes, they may agree on that later.
    pub fn may_be_lost(&mut self, several: bool) {
        self.complete.fill(false);
        self.unsettled = self.unsettled.saturating_add(several.into());
        self.late_deletes = self.late_deletes.saturating_add(several.into());
    }
}

/// How often to look for the user's request to stop. Every look costs a wake-up, which shows in the CPU of an operation if
/// there are few of them.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// At a rate, how far ahead the start is set, so that the workers have time to wake up and prepare.
const HEAD_START_NS: u64 = 2_000_000;

/// Runs a phase.
///
/// A phase that ends early, because the user stopped it or because a load failed, returns what was measured.
/// [`PhaseRecord::partial`] says why it ended.
///
/// # Errors
/// When a session cannot be opened. Nothing was sent then.
pub fn run_phase(
    store: &Arc<dyn AnyStore>,
    plan: &PhasePlan,
    context: PhaseContext<'_>,
) -> Result<PhaseRecord, StoreError> {
    let PhaseContext { catalog, clock, stop, seed, interval, begin, written, companions, gone, observer } = context;
    let Written { inserted, trial_ledger, complete, unsettled, late_deletes, highest } = written;
    inserted.resize(catalog.iter().count(), 0);
    complete.resize(catalog.iter().count(), false);
    let followed = Followed::of(plan, &catalog, seed).map(Arc::new);
    // Probes of a search write later versions than the plans of later phases foresee.
    let versions_above = plan.versions_above.max(*highest);
    let plan = Arc::new(PhasePlan { followed, versions_above, ..plan.clone() });
    let interval_ns = (interval.as_nanos() as u64).max(1_000_000);
    let gate = Arc::new(StartGate::default());
    let start = PhaseStart::new();
    let phase_stop = Arc::new(Stop::new());
    phase_stop.after_faults(trial_ledger.faults_so_far());
    if !plan.ledger {
        // This includes collections that the phase is about to load again.
        let written = plan.acts().filter(|recipe| recipe.label.kind.writes());
        written.for_each(|recipe| trial_ledger.forget(recipe.label.collection));
    }
    let (snapshots, received) = mpsc::channel();
    let mut parts = if plan.ledger {
        let counts: Vec<u64> = catalog.iter().zip(inserted.iter()).map(|(of, more)| of.count() + more).collect();
        trial_ledger.split(u64::from(plan.workers), &counts).into_iter().map(Some).collect()
    } else {
        Vec::new()
    };

    std::thread::scope(|scope| {
        let mut spares = Vec::new();
        let mut threads = Vec::new();
        for worker in plan.part.workers(plan.workers) {
            let (give, spare) = mpsc::channel();
            spares.push(give);
            let job = WorkerJob {
                plan: Arc::clone(&plan),
                catalog: Arc::clone(&catalog),
                worker,
                seed,
                base: inserted.clone(),
                ledger: parts.get_mut(worker as usize).and_then(Option::take),
                interval_ns,
                team: Member {
                    clock: clock.clone(),
                    stop: Arc::clone(&phase_stop),
                    pass: gate.pass(),
                    start: start.clone(),
                    outbox: Outbox { snapshots: snapshots.clone(), spare },
                },
            };
            let store = Arc::clone(store);
            let thread = std::thread::Builder::new()
                .name(format!("worker-{worker}"))
                .spawn_scoped(scope, move || store.drive(job));
            match thread {
                Ok(thread) => threads.push(thread),
                Err(e) => {
                    phase_stop.ask();
                    start.begin(clock.now_ns());
                    gate.open();
                    return Err(StoreError::Failed(format!(
                        "could not start a thread for worker {worker}: {e}; use fewer workers"
                    )));
                }
            }
        }
        // Of several parts, others may own what earlier phases inserted.
        trial_ledger.take_back(parts.drain(..).flatten());
        drop(snapshots);
        gate.wait_for(plan.part.workers(plan.workers).count());
        let agreed = match begin.filter(|_| !phase_stop.asked()).map(|mut agree| agree(observer)).transpose() {
            Ok(agreed_unix_ns) => agreed_unix_ns.map(|unix_ns| Agreed { unix_ns, at_ns: at(&clock, unix_ns) }),
            Err(error) => {
                phase_stop.ask();
                start.begin(clock.now_ns());
                gate.open();
                return Err(error);
            }
        };
        if !phase_stop.asked() {
            observer.event(&Event::PhaseBegan {
                phase: &plan.name,
                labels: &plan.labels(),
                loads: plan.amount == Amount::Load,
                operations: plan.operations(&catalog).map(|all| all / u64::from(plan.part.of)),
                duration_ns: plan.duration_ns(),
            });
        }
        let stats = StatsSampler::new(Arc::clone(store), Arc::new(clock.clone()), interval);
        // Everything else is ready by now: work after the start would make the first arrivals late.
        let head_start_ns = if plan.is_open_loop() { HEAD_START_NS } else { 0 };
        if let Some(agreed) = &agreed {
            sleep_until(&clock, agreed.at_ns.saturating_sub(HEAD_START_NS), &stop);
        }
        let earliest_ns = clock.now_ns() + head_start_ns;
        let start_ns = agreed.as_ref().map_or(earliest_ns, |agreed| agreed.at_ns.max(earliest_ns));
        start.begin(start_ns);
        let began_unix_ns = unix_now_ns().saturating_add_signed(start_ns as i64 - clock.now_ns() as i64);
        let sampler = Sampler::start(clock.clone(), start_ns).ok();
        let watch = Arc::new(Watch::new(clock.clone(), start_ns, Arc::clone(&phase_stop)));
        let may_break = phase_stop.faults() > 0 || companions.iter().any(|companion| companion.breaks());
        let accompanied: Vec<_> = companions
            .into_iter()
            .filter(|_| !phase_stop.asked())
            .map(|companion| {
                let watch = Arc::clone(&watch);
                scope.spawn(move || companion.accompany(&watch))
            })
            .collect();
        if agreed.is_some() && !plan.is_open_loop() {
            // Without a schedule, workers send as soon as they may.
            sleep_until(&clock, start_ns, &stop);
        }
        gate.open();
        // If workers could not begin, there is nothing to ask about.
        let stats = if phase_stop.asked() { None } else { stats.start(start_ns).ok() };

        let mut gathered = Gathered::new(&plan, interval_ns);
        let all_in_flight = [plan.workers, plan.connections, plan.in_flight].map(u64::from).iter().product();
        let (mut silence, mut silent) = (Silence::default(), None);
        loop {
            let now_ns = clock.now_ns().saturating_sub(start_ns);
            match received.recv_timeout(LOOK_EVERY) {
                Ok(snapshot) => {
                    let worker = plan.part.position(snapshot.worker);
                    silence.take(&snapshot.recorder, now_ns);
                    watch.ended(snapshot.recorder.ops.iter().map(Tally::ended).sum());
                    gathered.store = watch.store_use();
                    let mut emptied = gathered.take(snapshot, &plan, observer);
                    emptied.clear();
                    // A worker that has ended accepts no more.
                    let _ = spares[worker].send(emptied);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let ends = || silence.ends(now_ns, plan.timeout_ns, all_in_flight).filter(|_| !may_break);
            silent = silent.or_else(ends);
            if stop.asked() || silent.is_some() {
                phase_stop.ask();
            }
        }
        watch.over();
        let resources = sampler.map(Sampler::finish).unwrap_or_default();
        let store_stats = stats.map(Asking::finish).unwrap_or_default();
        let mut reports: Vec<WorkerReport> = Vec::new();
        for thread in threads {
            match thread.join() {
                Ok(report) => reports.push(report),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        // Faults are repaired before anything is read back.
        for companion in accompanied {
            if let Err(panic) = companion.join() {
                std::panic::resume_unwind(panic);
            }
        }
        trial_ledger.faults(phase_stop.faults());
        if let Some(error) = reports.iter_mut().find_map(|r| r.error.take()) {
            return Err(error);
        }
        for (taken, own) in reports.iter().flat_map(|r| r.taken.iter().copied().enumerate()) {
            inserted[taken] = inserted[taken].max(own);
        }
        let mut record = gathered.into_record(
            &plan,
            start_ns,
            (began_unix_ns, agreed.map(|agreed| agreed.unix_ns)),
            (resources, store_stats),
            &mut reports,
            stop.asked(),
            seed,
        );
        record.partial = silent.filter(|_| !stop.asked()).or(record.partial);
        observer.event(&Event::PhaseEnded {
            phase: &plan.name,
            operations: record.operations(),
            elapsed_ns: record.elapsed_ns,
            total: &record.total,
            store: watch.store_use(),
        });
        Ok((record, reports))
    })
    .map(|(mut record, reports)| {
        if let Some((trace, _)) = plan.trace.as_ref().filter(|_| plan.answers.is_some()) {
            record.answers = vec![None; trace.ops().len()];
        }
        let mut reads = LedgerReads::default();
        let mut history = HistoryRecord {
            versions_above: plan.versions_above,
            complete: complete.clone(),
            unsettled: *unsettled,
            late_deletes: *late_deletes,
            ..HistoryRecord::default()
        };
        for mut report in reports {
            *highest = report.highest_version.max(*highest);
            trial_ledger.take_back(report.ledger);
            reads.add(report.reads);
            history.operations.append(&mut report.seen.operations);
            history.overflowed |= report.seen.overflowed;
            for (number, answer) in report.answers {
                record.answers[number as usize - 1] = Some(answer);
            }
        }
        record.history = plan.followed.is_some().then_some(history);
        for (label, tally) in record.labels.iter().zip(&record.total.ops).filter(|(label, _)| label.kind.writes()) {
            // A bulk operation counts under its first failure, whatever became of its other documents.
            let open = tally.unknown_outcomes(label.kind).saturating_add(tally.rejected);
            *unsettled = unsettled.saturating_add(open);
            let may_delete = match label.kind {
                OpKind::Transaction => plan.steps.iter().any(|step| removes(step.label.kind)),
                kind => removes(kind),
            };
            *late_deletes = late_deletes.saturating_add(if may_delete { open } else { 0 });
        }
        if plan.amount == Amount::Load && record.partial.is_none() {
            for recipe in &plan.recipes {
                let collection = recipe.label.collection;
                complete[collection] = *late_deletes == 0;
                trial_ledger.loaded(collection, catalog.get(collection).count());
            }
        }
        for recipe in plan.acts().filter(|recipe| removes(recipe.label.kind)) {
            complete[recipe.label.collection] = false;
        }
        if plan.ledger {
            observer.event(&Event::Note { text: format!("reading back what `{}` wrote", plan.name) });
            let report = read_back::read_back(store, &plan, &catalog, &clock, (&stop, gone), trial_ledger);
            record.ledger = Some(LedgerReport { reads, ..report });
        }
        record
    })
}

fn removes(kind: OpKind) -> bool {
    matches!(kind, OpKind::Delete | OpKind::BulkDelete)
}

/// When the parts of a run agreed to begin: in ns since 1970, and of the clock.
struct Agreed {
    unix_ns: u64,
    at_ns: u64,
}

/// A moment in ns since 1970, by the run's clock; 0 if it has long passed.
fn at(clock: &RealClock, unix_ns: u64) -> u64 {
    clock.now_ns().saturating_add_signed((unix_ns as i64).saturating_sub(unix_now_ns() as i64))
}

/// For so long before a moment, `sleep_until` waits actively: a sleep ends up to 0.1 ms late.
const SPIN_NS: u64 = 200_000;

/// Waits until a moment of the clock, or until the user wants to stop.
fn sleep_until(clock: &RealClock, until_ns: u64, stop: &Stop) {
    loop {
        let left_ns = until_ns.saturating_sub(clock.now_ns());
        if left_ns == 0 || stop.asked() {
            return;
        }
        if left_ns > SPIN_NS {
            std::thread::sleep(Duration::from_nanos(left_ns - SPIN_NS).min(LOOK_EVERY));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// The most arrivals to draw again at the end of a phase, to learn when the last of them was scheduled.
const WALKED: u64 = 10_000_000;

/// When the last of this many operations of a Poisson process, shared by all workers of all parts, was scheduled for a
/// worker of this part, in ns.
fn last_scheduled_ns(plan: &PhasePlan, seed: u64, operations: u64) -> u64 {
    let workers = u64::from(plan.workers);
    let last = |w: u64| {
        let own = operations / workers + u64::from(w < operations % workers);
        let mut arrivals = drive::arrivals(plan, seed, w).filter(|_| own > 0)?.ok()?;
        (1..own).for_each(|_| arrivals.advance());
        Some(arrivals.peek_ns())
    };
    plan.part.workers(plan.workers).filter_map(|w| last(w.into())).max().unwrap_or(1).max(1)
}

/// How many intervals are kept open for a worker that is behind the others.
const MOST_OPEN: u64 = 60;

/// What the workers have handed over so far.
struct Gathered {
    interval_ns: u64,
    /// Intervals that not every worker has passed.
    open: BTreeMap<u64, Recorder>,
    /// The current interval of each worker; `u64::MAX` for workers that have ended.
    reached: Vec<u64>,
    /// The latest state of each worker; none of workers that have ended.
    now: Vec<Gauges>,
    /// What the store used, as last sampled.
    store: Option<StoreUse>,
    done: Vec<Interval>,
    total: Recorder,
}

impl Gathered {
    fn new(plan: &PhasePlan, interval_ns: u64) -> Self {
        Self {
            interval_ns,
            open: BTreeMap::new(),
            reached: vec![0; plan.part.workers(plan.workers).count()],
            now: vec![Gauges::default(); plan.part.workers(plan.workers).count()],
            store: None,
            done: Vec::new(),
            total: Recorder::new(plan.recipes.len()),
        }
    }

    /// Takes in a snapshot and returns its recorder.
    fn take(&mut self, snapshot: Snapshot, plan: &PhasePlan, observer: &mut dyn Observer) -> Box<Recorder> {
        let Snapshot { interval, worker, recorder, now, last } = snapshot;
        self.total.add(&recorder);
        // A snapshot that arrives after its interval was closed, because its worker was held up, goes into the earliest
        // interval that is still open.
        let interval = interval.max(self.done.last().map_or(0, |last| last.number + 1));
        self.open.entry(interval).or_insert_with(|| Recorder::new(plan.recipes.len())).add(&recorder);
        self.now[plan.part.position(worker)] = if last { Gauges::default() } else { now };
        self.reached[plan.part.position(worker)] = if last { u64::MAX } else { interval + 1 };
        // A worker that is blocked in an embedded store delays the others only for this many intervals.
        let newest = self.open.last_key_value().map_or(0, |(newest, _)| *newest);
        let passed = self.reached.iter().copied().min().unwrap_or(0).max(newest.saturating_sub(MOST_OPEN));
        if passed == u64::MAX {
            // All workers have ended: the remaining intervals are cut where the phase ends.
            return recorder;
        }
        while let Some(entry) = self.open.first_entry() {
            if *entry.key() >= passed {
                break;
            }
            let (number, record) = entry.remove_entry();
            let to_ns = self.close(number, &record);
            let now = Gauges { store: self.store, ..Gauges::of(&self.now) };
            observer.event(&Event::Interval { phase: &plan.name, number, to_ns, record: &record, now });
        }
        recorder
    }

    /// Closes an interval, and returns its end.
    fn close(&mut self, number: u64, record: &Recorder) -> u64 {
        let to_ns = (number + 1) * self.interval_ns;
        self.done.push(Interval::new(number, number * self.interval_ns, to_ns, record));
        to_ns
    }

    #[allow(clippy::too_many_arguments)]
    fn into_record(
        mut self,
        plan: &PhasePlan,
        start_ns: u64,
        (began_unix_ns, agreed_unix_ns): (u64, Option<u64>),
        (resources, store_stats): (Vec<ResourceSample>, StoreStats),
        reports: &mut [WorkerReport],
        interrupted: bool,
        seed: u64,
    ) -> PhaseRecord {
        let latest =
            |of: fn(&WorkerReport) -> u64| reports.iter().map(of).max().unwrap_or(start_ns).saturating_sub(start_ns);
        let (sending_ns, elapsed_ns) = (latest(|r| r.sent_until_ns).max(1), latest(|r| r.ended_ns).max(1));
        for (number, record) in std::mem::take(&mut self.open) {
            self.close(number, &record);
        }
        if let Some(last) = self.done.last_mut() {
            last.to_ns = elapsed_ns.max(last.from_ns + 1);
        }
        let mut distinct: BTreeMap<usize, Distinct> = BTreeMap::new();
        let mut messages: BTreeMap<String, u64> = BTreeMap::new();
        let mut wrong_examples = Vec::new();
        for report in reports.iter_mut() {
            for (collection, touched) in std::mem::take(&mut report.distinct) {
                distinct.entry(collection).or_default().merge(&touched);
            }
            for (message, count) in std::mem::take(&mut report.messages) {
                *messages.entry(message).or_insert(0) += count;
            }
            wrong_examples.append(&mut report.wrong_examples);
        }
        let mut messages: Vec<_> = messages.into_iter().collect();
        messages.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        // A lost connection explains the other failures, so it comes first.
        let partials = reports.iter_mut().filter_map(|r| r.partial.take());
        let partial = partials.min_by_key(|p| p.cause != PartialCause::Disconnected);
        let interrupted = interrupted && reports.iter().any(|r| r.ended_early);
        let partial = partial.or_else(|| {
            interrupted.then(|| Partial { cause: PartialCause::Interrupted, why: "interrupted".to_owned() })
        });
        let attempts: u64 = self.total.ops.iter().map(Tally::attempts).sum();
        let scheduled = plan.rate.as_ref().map(|(rate, arrival)| match plan.amount {
            Amount::Duration(_) => {
                let workers = plan.part.workers(plan.workers);
                let arrivals = workers.filter_map(|worker| drive::arrivals(plan, seed, worker.into())?.ok());
                (arrivals.map(|arrivals| arrivals.scheduled_by(sending_ns.saturating_sub(1))).sum(), sending_ns)
            }
            _ => {
                // All parts have the same number of workers, so their schedules have the same length.
                let of_all_parts = attempts * u64::from(plan.part.of);
                let over_ns = match arrival {
                    ArrivalSpec::Poisson if attempts <= WALKED => last_scheduled_ns(plan, seed, of_all_parts),
                    _ => rate.scheduled_start_ns(of_all_parts),
                };
                (attempts, over_ns)
            }
        });
        let scheduled = scheduled.or_else(|| Some((attempts, plan.replay_ns()?.min(sending_ns).max(1))));
        PhaseRecord {
            name: plan.name.clone(),
            warm_up: plan.warm_up,
            loads: plan.amount == Amount::Load,
            labels: plan.labels(),
            began_unix_ns,
            sending_ns,
            elapsed_ns,
            scheduled: scheduled.map(|(scheduled, _)| scheduled),
            scheduled_over_ns: scheduled.map(|(_, over_ns)| over_ns),
            workers: plan.part.workers(plan.workers).count() as u32,
            connections: plan.connections,
            in_flight: plan.in_flight,
            durability: plan.guarantees.durability,
            consistency: plan.guarantees.consistency,
            isolation: plan.guarantees.isolation.map(|(isolation, _)| isolation),
            total: self.total,
            intervals: self.done,
            worker_use: reports.iter().map(|r| r.usage).collect::<Vec<WorkerUse>>(),
            resources,
            store_stats,
            distinct_keys: distinct.iter().map(|(c, d)| (*c, d.estimate())).collect(),
            messages,
            wrong_examples,
            ledger: None,
            history: None,
            answers: Vec::new(),
            partial,
            of_part: (agreed_unix_ns.is_some() || !plan.part.is_whole()).then(|| OfPart {
                part: plan.part,
                agreed_unix_ns,
                touched: distinct.into_iter().collect(),
            }),
        }
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
