//! Workers that stay on one processor each.

use rustix::thread::{CpuSet, sched_setaffinity};

use super::plan::{PhasePlan, WorkerJob};
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
            let (name, usable) = (&self.name, processors.len());
            return Err(StoreError::NotSupported(format!(
                "phase `{name}`: {workers} workers cannot each have one of the {usable} processors that this process may \
                 use; use at most {usable} workers, or remove `pin_workers`"
            )));
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
    stay_on(processor).map_err(|e| {
        let worker = job.worker;
        StoreError::Failed(format!("could not pin worker {worker} to processor {processor}: {e}; remove `pin_workers`"))
    })
}

/// Lets the calling thread, and threads that it will start, run on this processor only.
fn stay_on(processor: u32) -> rustix::io::Result<()> {
    let mut only = CpuSet::new();
    only.set(processor as usize);
    sched_setaffinity(None, &only)
}

#[cfg(test)]
mod tests {
    use rustix::thread::sched_getaffinity;

    use super::super::simulated::{STUDY, study};
    use super::*;
    use crate::store::{NullStore, Store as _};
    use storebench_study::Part;

    fn plan(pin: bool, part: Part) -> PhasePlan {
        let text = STUDY.replace("workers  = 1", &format!("workers = 4\npin_workers = {pin}"));
        let (study, catalog) = study(&text, &[]);
        let plan = PhasePlan::resolve(&study, &study.phases[0], &catalog, &NullStore::new().capabilities()).unwrap();
        plan.of_part(part).unwrap()
    }

    #[test]
    fn each_worker_of_a_process_gets_a_processor_of_its_own() {
        let pinned = |pin, part, processors: &[u32]| {
            let plan = plan(pin, part).pinned_to(|| processors.to_vec())?;
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
        let seen = std::thread::spawn(move || stay_on(last as u32).map(|()| allowed())).join().unwrap();
        assert_eq!(seen, Ok(vec![last]));
        assert!(stay_on(CpuSet::MAX_CPU as u32 - 1).is_err() || last == CpuSet::MAX_CPU - 1);
    }
}
