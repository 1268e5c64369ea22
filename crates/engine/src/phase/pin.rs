//! Workers that stay on one processor each.

use rustix::thread::{CpuSet, sched_setaffinity};

use super::plan::{PhasePlan, WorkerJob, refused};
use crate::store::StoreError;

impl PhasePlan {
    /// The same plan. If the study pins workers, each worker of this process gets one of these processors, in this order.
    ///
    /// # Errors
    /// [`StoreError::NotSupported`] if there are fewer processors than workers.
    pub fn pinned_to(self, processors: impl FnOnce() -> Vec<u32>) -> Result<Self, StoreError> {
        let workers = self.part.workers(self.workers).count();
        if !self.pin_workers || workers == 0 {
            return Ok(self);
        }
        let mut processors = processors();
        if processors.len() < workers {
            let usable = processors.len();
            let why = format!(
                "{workers} workers cannot each have one of the {usable} processors that this process may use; use at most \
                 {usable} workers, or remove `pin_workers`"
            );
            return Err(refused(&self, why));
        }
        processors.truncate(workers);
        Ok(Self { processors, ..self })
    }

    /// The processor that a worker of this process is pinned to, if it is.
    pub(super) fn processor_of(&self, worker: u32) -> Option<u32> {
        self.processors.get(self.part.position(worker)).copied()
    }
}

/// Pins the calling thread, which runs this job, if the plan says so.
///
/// # Errors
/// [`StoreError::Failed`] if the system refuses.
pub(super) fn pin(job: &WorkerJob) -> Result<(), StoreError> {
    let Some(processor) = job.plan.processor_of(job.worker) else { return Ok(()) };
    let mut only = CpuSet::new();
    only.set(processor as usize);
    // Threads that this one starts inherit it.
    sched_setaffinity(None, &only).map_err(|e| {
        let worker = job.worker;
        StoreError::Failed(format!("could not pin worker {worker} to processor {processor}: {e}; remove `pin_workers`"))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use rustix::thread::sched_getaffinity;

    use super::super::clock::{Clock as _, RealClock};
    use super::super::drive::drive;
    use super::super::simulated::{STUDY, study};
    use super::super::team::{Member, Outbox, StartGate};
    use super::*;
    use crate::store::{NullStore, PhaseStart, Store};
    use storebench_documents::Catalog;
    use storebench_study::Part;

    fn plan(pin: bool, part: Part) -> (PhasePlan, Arc<Catalog>) {
        let text = STUDY.replace("workers  = 1", &format!("workers = 4\npin_workers = {pin}"));
        let (study, catalog) = study(&text.replace("duration = \"10s\"", "operations = 4"), &[]);
        let can = Store::capabilities(&NullStore::new());
        let plan = PhasePlan::resolve(&study, &study.phases[0], &catalog, &can).unwrap();
        (plan.of_part(part).unwrap(), catalog)
    }

    #[test]
    fn each_worker_of_a_process_gets_a_processor_of_its_own() {
        let pinned = |pin, part, processors: &[u32]| {
            let plan = plan(pin, part).0.pinned_to(|| processors.to_vec())?;
            Ok((0..4).filter(|worker| part.owns(*worker)).map(|worker| plan.processor_of(worker as u32)).collect())
        };
        let of = |pin, part, processors| -> Vec<Option<u32>> {
            pinned(pin, part, processors).unwrap_or_else(|e: StoreError| panic!("{e}"))
        };
        assert_eq!(of(true, Part::WHOLE, &[0, 2, 1, 3, 5]), [0, 2, 1, 3].map(Some));
        assert_eq!(of(true, Part { number: 2, of: 2 }, &[7, 4]), [7, 4].map(Some));
        assert_eq!(of(false, Part::WHOLE, &[0]), [None; 4]);
        let refused = pinned(true, Part::WHOLE, &[0, 1, 2]).unwrap_err().to_string();
        assert!(refused.contains("4 workers") && refused.contains("use at most 3 workers"), "{refused}");
    }

    #[test]
    fn a_pinned_thread_may_use_no_other_processor() {
        let allowed = || {
            let set = sched_getaffinity(None).unwrap();
            (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect::<Vec<_>>()
        };
        let last = allowed().pop().unwrap();
        // The thread that drives a worker may use these processors afterwards.
        let driven = |processor: u32| {
            let work = move || {
                let (plan, catalog) = plan(true, Part::WHOLE);
                let (clock, gate, start) = (RealClock::new(), Arc::new(StartGate::default()), PhaseStart::new());
                gate.open();
                start.begin(clock.now_ns());
                let (snapshots, _received) = mpsc::channel();
                let (_give, spare) = mpsc::channel();
                let job = WorkerJob {
                    plan: Arc::new(plan.pinned_to(|| vec![processor; 4]).unwrap()),
                    catalog,
                    worker: 0,
                    seed: 1,
                    base: vec![0],
                    ledger: None,
                    interval_ns: 1_000_000_000,
                    team: Member {
                        clock,
                        stop: Arc::default(),
                        pass: gate.pass(),
                        start,
                        outbox: Outbox { snapshots, spare },
                    },
                };
                (drive(&NullStore::new(), job), allowed())
            };
            std::thread::spawn(work).join().unwrap()
        };
        let (report, seen) = driven(last as u32);
        assert!(report.error.is_none(), "{:?}", report.error);
        assert_eq!((report.usage.processor, seen), (Some(last as u32), vec![last]));
        let none = CpuSet::MAX_CPU as u32 - 1;
        if none as usize != last {
            let refused = driven(none).0.error.unwrap().to_string();
            assert!(refused.contains(&format!("could not pin worker 0 to processor {none}")), "{refused}");
        }
    }
}
