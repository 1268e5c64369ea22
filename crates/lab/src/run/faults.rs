//! Executes the faults of a phase on its store's servers and links.

use std::sync::Arc;
use std::time::{Duration, Instant};

use storebench_engine::measure::StoreStats;
use storebench_engine::store::StoreError;
use storebench_engine::{Companion, Stop, Watch};
use storebench_machine::run_command;
use storebench_results::{FaultResult, ForgottenResult};
use storebench_study::workload::{Condition, Fault, FaultKind};

use super::request::ConfigurationRequest;
use super::servers::{Managed, Started};

/// How often the store's statistics are read for a fault that waits for a condition.
const ASK_EVERY_NS: u64 = 100_000_000;
/// How often to check whether the user has interrupted the run.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Timeout of a command if the study sets none.
const COMMAND_WITHIN: Duration = Duration::from_secs(3600);

/// The error message if the store's statistics could not be read. `None` if a fault of the study silenced the store and
/// it answered otherwise: the failures were then expected.
pub(super) fn untold<'a>(stats: &'a StoreStats, happened: &[FaultResult]) -> Option<&'a String> {
    let planned = happened.iter().any(|fault| fault.began_ns.is_some() && fault.what.silences());
    stats.message.as_ref().filter(|_| !planned || stats.samples.is_empty())
}

/// Breaks a store's servers and links, and restores them.
pub(super) struct Breaker<'a> {
    pub request: &'a ConfigurationRequest,
    /// Set if the user interrupts the run: faults are then ended at once.
    pub stop: Arc<Stop>,
    pub faults: Vec<Fault>,
    /// The executed faults, without what clients saw of them.
    pub happened: Vec<FaultResult>,
}

impl Breaker<'_> {
    fn server(&self, fault: &Fault) -> Result<&Managed, StoreError> {
        let none = || StoreError::NotSupported("the run does not control a server of this store".to_owned());
        self.request.server.as_ref().ok_or_else(none)?.node(fault.server.as_deref())
    }

    /// A server that had no disk space or too few resources in this phase may have ended by itself. That is how it takes
    /// such a fault, and no reason to give up: `fault` starts it again. Without such a fault before, a crash is an error.
    fn notice_death(&mut self, fault: &Fault) {
        let mut earlier = self.happened.iter_mut().rev();
        if let Some(starved) = earlier.find(|of| of.what.starves() && of.began_ns.is_some())
            && starved.server_ended.is_none()
            && let Some(node) =
                self.request.server.as_ref().and_then(|server| server.node(fault.server.as_deref()).ok())
        {
            starved.server_ended = node.ended();
        }
    }

    fn fault(&self, fault: &Fault, watch: &Watch, happened: &mut FaultResult) -> Result<(), StoreError> {
        happened.began_ns = Some(watch.now_ns());
        let broken = self.begin(fault, watch, happened);
        // Restore it whatever went wrong: a server that stays down says nothing about the store.
        let mended = self.mend(fault, watch, happened);
        broken.and(mended)
    }

    fn begin(&self, fault: &Fault, watch: &Watch, happened: &mut FaultResult) -> Result<(), StoreError> {
        // During a lasting fault, data may be lost at any time. The loss may be noticed before the fault has ended.
        if fault.what.hits_all_nodes() {
            watch.fault_happened();
        }
        let begun = match fault.what {
            FaultKind::Kill => self.server(fault).and_then(Managed::kill),
            FaultKind::Restart => self.server(fault).and_then(Managed::stop_one),
            FaultKind::RollingRestart => self.server(fault)?.roll(&*self.request.store),
            FaultKind::Pause => self.server(fault).and_then(Managed::pause),
            FaultKind::PowerCut => self.server(fault)?.cut_power(fault.keep).map(|of| {
                happened.forgotten = Some(ForgottenResult { files: of.files, bytes: of.bytes, names: of.names });
            }),
            FaultKind::DiskFull => self.server(fault)?.fill_disk(true),
            FaultKind::Limit => self.server(fault)?.limit_during_fault(&self.request.study, Some(fault)),
            FaultKind::Link => self.request.links.worsen(&self.request.study, fault),
            FaultKind::Reset => self.request.links.reset(fault).map(drop),
            FaultKind::Partition => self.request.links.partition(Some(fault)),
            FaultKind::Run => self.run(fault),
        };
        watch.fault_happened();
        begun?;
        if !matches!(fault.what, FaultKind::Run | FaultKind::RollingRestart) {
            // It ends at its time, even if the phase is over by then.
            self.pause(fault.lasts.0);
        }
        if fault.cold {
            happened.dropped = Some(self.server(fault)?.go_cold(&*self.request.store)?.to_string());
        }
        Ok(())
    }

    fn pause(&self, length: Duration) {
        let began = Instant::now();
        while let Some(left) = length.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            if self.stop.asked() {
                return;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }

    fn mend(&self, fault: &Fault, watch: &Watch, happened: &mut FaultResult) -> Result<(), StoreError> {
        let mended_ns = watch.now_ns();
        happened.mended_ns = Some(mended_ns);
        match fault.what {
            FaultKind::Kill | FaultKind::Restart | FaultKind::PowerCut => {
                let server = self.server(fault)?;
                let is_own = self.request.server.as_ref().is_some_and(|own| own.is(server));
                let Started { listening, ready } = server.start_one(is_own.then_some(&*self.request.store))?;
                happened.listening_ns = listening.map(|after| mended_ns + after.as_nanos() as u64);
                happened.ready_ns = Some(mended_ns + ready.as_nanos() as u64);
                return Ok(());
            }
            FaultKind::RollingRestart => drop(self.server(fault)?.start(&*self.request.store)?),
            FaultKind::Pause => self.server(fault)?.resume()?,
            FaultKind::DiskFull => self.server(fault)?.fill_disk(false)?,
            FaultKind::Limit => self.server(fault)?.limit_during_fault(&self.request.study, None)?,
            FaultKind::Link => self.request.links.mend(fault)?,
            FaultKind::Partition => self.request.links.partition(None)?,
            FaultKind::Reset | FaultKind::Run => {}
        }
        happened.ready_ns = Some(watch.now_ns());
        Ok(())
    }

    /// Runs the user's command to completion.
    fn run(&self, fault: &Fault) -> Result<(), StoreError> {
        let command = fault.command.as_deref().unwrap_or_default();
        let command = match &self.request.server {
            Some(server) => server.node(fault.server.as_deref())?.fill(command),
            None => command.to_owned(),
        };
        let within = if fault.lasts.0.is_zero() { COMMAND_WITHIN } else { fault.lasts.0 };
        run_command(&command, within, &|| self.stop.asked()).map_err(StoreError::Failed)
    }

    /// Waits until a statistic of the store meets a condition. Returns false if the phase ends before.
    fn wait_for(&self, condition: &Condition, watch: &Watch) -> Result<bool, String> {
        loop {
            // A store that does not answer now may answer next time.
            if let Ok(stats) = self.request.store.stats() {
                match stats.iter().find(|(name, _)| *name == condition.figure) {
                    Some((_, value)) if condition.holds(*value) => return Ok(true),
                    Some(_) => {}
                    None => {
                        let known: Vec<String> = stats.iter().map(|(name, _)| format!("`{name}`")).collect();
                        return Err(format!(
                            "the store reports no figure `{}`; expected one of: {}",
                            condition.figure,
                            known.join(", ")
                        ));
                    }
                }
            }
            if !watch.wait_until(watch.now_ns() + ASK_EVERY_NS) {
                return Ok(false);
            }
        }
    }

    fn reached(&self, fault: &Fault, watch: &Watch) -> Result<bool, String> {
        match (fault.at, fault.after, &fault.when) {
            (Some(at), ..) => Ok(watch.wait_until(at.ns())),
            (_, Some(after), _) => Ok(watch.wait_for_operations(after.0)),
            (.., Some(condition)) => self.wait_for(condition, watch),
            (None, None, None) => Ok(true),
        }
    }
}

impl Companion for Breaker<'_> {
    fn accompany(&mut self, watch: &Watch) {
        let of = self.request.server.as_ref().map_or(1, Managed::count);
        for fault in &self.faults.clone() {
            let mut happened = FaultResult {
                what: fault.what,
                nodes: if fault.what.hits_all_nodes() { of } else { 1 },
                of_nodes: of,
                detail: fault.detail(),
                ..FaultResult::default()
            };
            let reached = self.reached(fault, watch);
            if reached == Ok(true) && fault.what.starts_again() {
                self.notice_death(fault);
            }
            happened.problem = match reached {
                Ok(true) => self.fault(fault, watch, &mut happened).err().map(|error| error.to_string()),
                Ok(false) => Some("the phase ended before the fault was due".to_owned()),
                Err(why) => Some(why),
            };
            let broken = happened.problem.is_some();
            self.happened.push(happened);
            if broken {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use storebench_engine::measure::StatsSample;

    use super::*;

    fn happened(what: FaultKind, began_ns: Option<u64>) -> FaultResult {
        FaultResult { what, began_ns, ..FaultResult::default() }
    }

    #[test]
    fn a_store_that_was_killed_by_plan_is_not_told_as_one_that_cannot_be_asked() {
        let sample = StatsSample { at_ns: 1, took_ns: 1, figures: Vec::new() };
        let stats = StoreStats {
            samples: vec![sample],
            failed: 3,
            message: Some("connection refused".into()),
            ..StoreStats::default()
        };
        for what in [FaultKind::Kill, FaultKind::Pause, FaultKind::PowerCut, FaultKind::Link] {
            assert_eq!(untold(&stats, &[happened(what, Some(5))]), None, "{what:?}");
        }
        for faults in [vec![], vec![happened(FaultKind::Kill, None)], vec![happened(FaultKind::Limit, Some(5))]] {
            assert!(untold(&stats, &faults).is_some(), "{faults:?}");
        }
        // Killed as planned, but it never answered at all, which was not planned.
        let never = StoreStats { samples: Vec::new(), ..stats };
        assert!(untold(&never, &[happened(FaultKind::Kill, Some(5))]).is_some());
    }
}
