//! What a phase does to its store's server, at its time.

use std::sync::Arc;

use storebench_core::engine::{Companion, Watch};
use storebench_core::store::{AnyStore, StoreError};
use storebench_core::workload::{Fault, FaultKind};
use storebench_machine::Forgotten;

use super::servers::Managed;

/// A fault as it happened. Times are in ns from the phase's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Happened {
    pub what: FaultKind,
    /// When it was done; none where the phase was over before.
    pub began_ns: Option<u64>,
    /// When the server was told to run again.
    pub mended_ns: Option<u64>,
    /// When the store answered again.
    pub ready_ns: Option<u64>,
    /// What a power cut had the disk forget.
    pub forgotten: Option<Forgotten>,
    /// Why it could not be done, or mended.
    pub problem: Option<String>,
}

/// Breaks a server, and mends it.
pub(super) struct Breaker<'a> {
    server: Managed,
    store: Arc<dyn AnyStore>,
    faults: &'a [Fault],
    pub happened: Vec<Happened>,
}

impl<'a> Breaker<'a> {
    pub(super) fn new(server: Managed, store: Arc<dyn AnyStore>, faults: &'a [Fault]) -> Self {
        Self { server, store, faults, happened: Vec::new() }
    }

    fn fault(&self, fault: &Fault, watch: &Watch, happened: &mut Happened) -> Result<(), StoreError> {
        happened.began_ns = Some(watch.now_ns());
        match fault.what {
            FaultKind::Kill => self.server.kill()?,
            FaultKind::Restart => self.server.stop()?,
            FaultKind::Pause => self.server.pause()?,
            FaultKind::PowerCut => happened.forgotten = Some(self.server.cut_power(fault.keep)?),
            FaultKind::DiskFull => self.server.fill_disk(true)?,
        }
        watch.fault_happened();
        // It is mended at its time, whether or not the phase is over by then.
        std::thread::sleep(fault.lasts.0);
        happened.mended_ns = Some(watch.now_ns());
        match fault.what {
            FaultKind::Kill | FaultKind::Restart | FaultKind::PowerCut => drop(self.server.start(&*self.store)?),
            FaultKind::Pause => self.server.resume()?,
            FaultKind::DiskFull => self.server.fill_disk(false)?,
        }
        happened.ready_ns = Some(watch.now_ns());
        Ok(())
    }
}

impl Companion for Breaker<'_> {
    fn accompany(&mut self, watch: &Watch) {
        for fault in self.faults {
            let mut happened = Happened {
                what: fault.what,
                began_ns: None,
                mended_ns: None,
                ready_ns: None,
                forgotten: None,
                problem: None,
            };
            let reached = match (fault.at, fault.after) {
                (Some(at), _) => watch.wait_until(at.ns()),
                (None, Some(after)) => watch.wait_for_operations(after.0),
                (None, None) => true,
            };
            if reached {
                happened.problem = self.fault(fault, watch, &mut happened).err().map(|error| error.to_string());
            } else {
                happened.problem = Some("the phase was over before its time came".to_owned());
            }
            let broken = happened.problem.is_some();
            self.happened.push(happened);
            if broken {
                return;
            }
        }
    }
}
