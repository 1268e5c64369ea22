//! The life of one worker: it opens its sessions, begins together with the others, runs the loop, and reports.

use std::sync::Arc;

use super::clock::RealClock;
use super::followed::Seen;
use super::host::{self, Host};
use super::maker::Maker;
use super::pin::pin;
use super::plan::{Amount, PhasePlan, WorkerJob, refused};
use super::slots::Operations;
use super::worker::{Worker, WorkerCore};
use crate::ledger::Ledger;
use crate::measure::{Answer, LedgerReads, Partial, WorkerUse};
use crate::store::{SessionOptions, Store, StoreError};
use storebench_documents::keys::Distinct;
use storebench_documents::schedule::{Arrivals, ScheduleError};

/// What a worker hands over when its part of a phase has ended.
#[derive(Default)]
pub struct WorkerReport {
    /// The worker.
    pub worker: u32,
    /// Its CPU use.
    pub usage: WorkerUse,
    /// Distinct keys touched, by position of the collection.
    pub distinct: Vec<(usize, Distinct)>,
    /// What it wrote, if a ledger is kept.
    pub ledger: Option<Ledger>,
    /// With a ledger: what its reads found.
    pub reads: LedgerReads,
    /// With a consistency check: what its operations did.
    pub(super) seen: Seen,
    /// What operations of a trace were answered, by number, if answers are compared.
    pub(super) answers: Vec<(u32, Answer)>,
    /// It wrote no version above this one.
    pub highest_version: u64,
    /// Messages of failed operations, each with its count.
    pub messages: Vec<(String, u64)>,
    /// Examples of checked documents that differed.
    pub wrong_examples: Vec<String>,
    /// Numbers that new documents have taken, by position of the collection.
    pub taken: Vec<u64>,
    /// Why the phase could not continue.
    pub partial: Option<Partial>,
    /// When it stopped sending, in ns of the clock.
    pub sent_until_ns: u64,
    /// When its last operation ended or was given up, in ns of the clock.
    pub ended_ns: u64,
    /// Whether it was asked to end early.
    pub ended_early: bool,
    /// Why it could not begin.
    pub error: Option<StoreError>,
}

/// Runs one worker of a phase on the calling thread until the phase ends. It is compiled once per store type. Code that
/// does not depend on the store is elsewhere.
pub fn drive<S: Store>(store: &S, job: WorkerJob) -> WorkerReport {
    // Before anything is made, so that its memory is on the worker's NUMA node.
    let pinned = pin(&job);
    if job.plan.is_open_loop() {
        host::sharpen_timers();
    }
    let host = match Host::new(store.runtime()) {
        Ok(host) => host,
        Err(error) => return begin(job, Err(error)).map_or_else(|failed| *failed, WorkerCore::into_report),
    };
    // Sessions must be dropped within the runtime that owns their sockets, whatever they have in flight.
    let _entered = host.enter();
    let (clock, pacing) = (job.team.clock.clone(), job.plan.pacing);
    let options = options(&job);
    let mut sessions = Vec::with_capacity(job.plan.connections as usize);
    let opened = pinned.and_then(|()| {
        host.wait(std::pin::pin!(async {
            for _ in 0..job.plan.connections {
                sessions.push(store.open(&options).await?);
            }
            Ok(())
        }))
    });
    match begin(job, opened) {
        Ok(core) => {
            let mut worker = Worker::new(sessions, core);
            let ran = host.run(&mut worker, &clock, pacing);
            let error = ran.err().map(|e| StoreError::Failed(format!("could not create a timer: {e}")));
            WorkerReport { error, ..worker.into_report() }
        }
        Err(failed) => *failed,
    }
}

fn options(job: &WorkerJob) -> SessionOptions {
    let plan = &job.plan;
    let mut options = plan.session_options(&job.team.clock);
    // Stalls and similar effects are for the measured phases, not for those before them.
    if plan.amount != Amount::Load && !plan.warm_up {
        options.phase_start = job.team.start.clone();
    }
    options
}

/// The scheduled starts of a worker's operations, in an open loop.
pub(super) fn arrivals(plan: &PhasePlan, seed: u64, worker: u64) -> Option<Result<Arrivals, ScheduleError>> {
    let (rate, arrival) = plan.rate.as_ref()?;
    Some(Arrivals::new(rate, *arrival, worker, u64::from(plan.workers), storebench_study::mix64(seed, plan.number)))
}

/// Meets the other workers, even if this one cannot take part. Otherwise they would wait for it forever.
fn begin(job: WorkerJob, opened: Result<(), StoreError>) -> Result<WorkerCore<RealClock>, Box<WorkerReport>> {
    let WorkerJob { plan, catalog, worker: number, seed, base, ledger, interval_ns, mut team } = job;
    let made = opened.and_then(|()| {
        let maker = Maker::new(Arc::clone(&plan), Arc::clone(&catalog), number, seed, base, ledger)
            .map_err(|e| refused(&plan, e))?;
        let arrivals = arrivals(&plan, seed, u64::from(number)).transpose().map_err(|e| refused(&plan, e))?;
        Ok((maker, arrivals))
    });
    if made.is_err() {
        team.stop.ask();
    }
    team.pass.wait();
    let failed = |error| WorkerReport { worker: number, ended_early: true, error: Some(error), ..Default::default() };
    let (maker, arrivals) = made.map_err(|error| Box::new(failed(error)))?;
    let start_ns = team.start.get().unwrap_or_default();
    let operations = Operations::new(Arc::clone(&plan), catalog, team.clock, number, seed);
    Ok(WorkerCore::new(plan, number, maker, operations, arrivals, start_ns, interval_ns, team.stop, team.outbox))
}
