//! One worker's life: sessions opened, all begin together, the loop, the report.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::host;
use super::maker::Maker;
use super::plan::{Amount, WorkerJob};
use super::worker::Worker;
use crate::keys::Distinct;
use crate::ledger::Ledger;
use crate::measure::{LedgerReads, Partial, WorkerUse};
use crate::schedule::Arrivals;
use crate::store::{PhaseStart, Runtime, SessionOptions, Store, StoreError};

/// What a worker hands over when its part of a phase has ended.
pub struct WorkerReport {
    /// The worker.
    pub worker: u32,
    /// Its use of its processor.
    pub usage: WorkerUse,
    /// Distinct keys touched, by position of the collection.
    pub distinct: Vec<(usize, Distinct)>,
    /// What it wrote, if a ledger is kept.
    pub ledger: Option<Ledger>,
    /// With a ledger: what reads have found of it.
    pub reads: LedgerReads,
    /// Messages of failed operations, and how often each came.
    pub messages: Vec<(String, u64)>,
    /// Some checked documents that differed.
    pub wrong_examples: Vec<String>,
    /// Numbers of new documents that are taken, by position of the collection.
    pub taken: Vec<u64>,
    /// Why the phase could not go on.
    pub partial: Option<Partial>,
    /// Until when it sent, in ns of the clock.
    pub sent_until_ns: u64,
    /// When its last operation had ended or was given up, in ns of the clock.
    pub ended_ns: u64,
    /// Whether it was asked to end before its time.
    pub ended_early: bool,
    /// Why it could not begin.
    pub error: Option<StoreError>,
}

impl WorkerReport {
    fn failed(worker: u32, error: StoreError) -> Self {
        Self {
            worker,
            usage: WorkerUse::default(),
            distinct: Vec::new(),
            ledger: None,
            reads: LedgerReads::default(),
            messages: Vec::new(),
            wrong_examples: Vec::new(),
            taken: Vec::new(),
            partial: None,
            sent_until_ns: 0,
            ended_ns: 0,
            ended_early: true,
            error: Some(error),
        }
    }
}

/// Runs one worker of a phase on the calling thread until the phase ends.
pub fn drive<S: Store>(store: &S, job: WorkerJob) -> WorkerReport {
    if job.plan.rate.is_some() {
        host::sharpen_timers();
    }
    match store.runtime() {
        Runtime::Plain => {
            let opened = now_or_refuse(open(store, &job));
            begin(job, opened, |worker, pacing| {
                host::plain(worker, pacing);
                Ok(())
            })
        }
        Runtime::Reactor => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => {
                    // Sessions end where their sockets belong, whatever they still have under way.
                    let _entered = runtime.enter();
                    let opened = runtime.block_on(open(store, &job));
                    begin(job, opened, |worker, pacing| runtime.block_on(host::reactor(worker, pacing)))
                }
                Err(e) => {
                    let error = StoreError::Failed(format!("the system gives no event loop: {e}"));
                    begin::<S::Session>(job, Err(error), |_, _| Ok(()))
                }
            }
        }
    }
}

/// A plain store's future is ready when it is made; one that is not has declared the wrong runtime.
fn now_or_refuse<T>(future: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(StoreError::Failed("this store needs a reactor but declares that it is plain".into())),
    }
}

async fn open<S: Store>(store: &S, job: &WorkerJob) -> Result<Vec<S::Session>, StoreError> {
    let plan = &job.plan;
    let options = SessionOptions {
        durability: plan.durability,
        consistency: plan.consistency,
        timeout: std::time::Duration::from_nanos(plan.timeout_ns),
        in_flight: plan.in_flight,
        clock: Arc::new(job.team.clock.clone()),
        // Stalls and the like are for what is measured, not for what comes before it.
        phase_start: if plan.amount == Amount::Load || plan.warm_up {
            PhaseStart::new()
        } else {
            job.team.start.clone()
        },
    };
    let mut sessions = Vec::with_capacity(plan.connections as usize);
    for _ in 0..plan.connections {
        sessions.push(store.open(&options).await?);
    }
    Ok(sessions)
}

/// Meets the other workers, also when this one cannot take part: they would wait for it forever.
fn begin<S: crate::store::Session>(
    job: WorkerJob,
    opened: Result<Vec<S>, StoreError>,
    host: impl FnOnce(&mut Worker<S, super::RealClock>, crate::workload::Pacing) -> std::io::Result<()>,
) -> WorkerReport {
    let WorkerJob { plan, catalog, worker: number, seed, base, ledger, interval_ns, mut team } = job;
    let made = opened.and_then(|sessions| {
        let maker = Maker::new(Arc::clone(&plan), Arc::clone(&catalog), number, seed, base, ledger)
            .map_err(|e| StoreError::NotSupported(format!("phase `{}`: {e}", plan.name)))?;
        let arrivals = match &plan.rate {
            Some((rate, arrival)) => {
                let (worker, workers) = (u64::from(number), u64::from(plan.workers));
                let arrivals = Arrivals::new(rate, *arrival, worker, workers, crate::keys::mix64(seed, plan.number))
                    .map_err(|e| StoreError::NotSupported(format!("phase `{}`: {e}", plan.name)))?;
                Some(arrivals)
            }
            None => None,
        };
        Ok((sessions, maker, arrivals))
    });
    if made.is_err() {
        team.stop.ask();
    }
    team.pass.wait();
    let (sessions, maker, arrivals) = match made {
        Ok(made) => made,
        Err(error) => return WorkerReport::failed(number, error),
    };
    let start_ns = team.start.get().unwrap_or_default();
    let pacing = plan.pacing;
    let mut worker = Worker::new(
        plan,
        catalog,
        number,
        seed,
        sessions,
        maker,
        arrivals,
        team.clock,
        start_ns,
        interval_ns,
        team.stop,
        team.outbox,
    );
    let error = host(&mut worker, pacing).err();
    let mut report = worker.into_report();
    report.error = error.map(|e| StoreError::Failed(format!("the system gives no timer: {e}")));
    report
}
