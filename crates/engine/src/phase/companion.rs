//! Code that acts on the store while a phase runs: fault injection, as a rule.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::clock::{Clock, RealClock};
use super::stop::Stop;

/// Runs on a separate thread beside a phase.
pub trait Companion: Send {
    /// Called when the phase begins. It may outlast the phase. The caller waits for it, so that faults are repaired
    /// before anything is read back.
    fn accompany(&mut self, watch: &Watch);

    /// Whether it may keep the store from answering. Then silence does not end the phase.
    fn breaks(&self) -> bool {
        true
    }
}

/// What a store's processes use, as a companion sampled it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreUse {
    /// Processor time since the phase began, in ns.
    pub cpu_ns: u64,
    /// Resident memory, in bytes.
    pub rss_bytes: u64,
}

/// A phase as its companion sees it.
#[derive(Debug)]
pub struct Watch {
    clock: RealClock,
    start_ns: u64,
    operations: AtomicU64,
    store_use: Mutex<Option<StoreUse>>,
    over: Mutex<bool>,
    changed: Condvar,
    stop: Arc<Stop>,
}

impl Watch {
    pub(super) fn new(clock: RealClock, start_ns: u64, stop: Arc<Stop>) -> Self {
        let (over, changed) = (Mutex::new(false), Condvar::new());
        Self { clock, start_ns, operations: AtomicU64::new(0), store_use: Mutex::new(None), over, changed, stop }
    }

    /// Time since the phase began, in ns.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns().saturating_sub(self.start_ns)
    }

    /// Operations that have ended, as of the last interval.
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// Waits until `at_ns` after the start of the phase; returns false if the phase ends first.
    pub fn wait_until(&self, at_ns: u64) -> bool {
        self.wait(|| self.now_ns() >= at_ns, || Duration::from_nanos(at_ns.saturating_sub(self.now_ns())))
    }

    /// Waits until `count` operations have ended; returns false if the phase ends first.
    pub fn wait_for_operations(&self, count: u64) -> bool {
        self.wait(|| self.operations() >= count, || Duration::from_millis(100))
    }

    /// Records that a fault just happened, so that writers leave evidence alone.
    pub fn fault_happened(&self) {
        self.stop.fault();
    }

    /// Reports what the store uses, for those who observe the phase.
    pub fn store_uses(&self, now: StoreUse) {
        *self.store_use.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    /// What was reported last.
    pub(super) fn store_use(&self) -> Option<StoreUse> {
        *self.store_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, reached: impl Fn() -> bool, at_most: impl Fn() -> Duration) -> bool {
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if reached() {
                return true;
            }
            if *over {
                return false;
            }
            let woken = self.changed.wait_timeout(over, at_most());
            over = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn ended(&self, operations: u64) {
        self.operations.fetch_add(operations, Ordering::Relaxed);
        self.changed.notify_all();
    }

    pub(super) fn over(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> Arc<Watch> {
        let clock = RealClock::new();
        let start_ns = clock.now_ns();
        Arc::new(Watch::new(clock, start_ns, Arc::new(Stop::new())))
    }

    #[test]
    fn a_companion_waits_for_times_and_counts_and_for_the_end() {
        let watch = watch();
        assert!(watch.wait_until(1_000_000));
        assert!(watch.now_ns() >= 1_000_000);
        let other = Arc::clone(&watch);
        let counting = std::thread::spawn(move || other.wait_for_operations(10));
        watch.ended(4);
        watch.ended(6);
        assert!(counting.join().unwrap());
        let other = Arc::clone(&watch);
        let waiting = std::thread::spawn(move || (other.wait_until(u64::MAX / 2), other.wait_for_operations(11)));
        watch.over();
        assert_eq!(waiting.join().unwrap(), (false, false));
        watch.fault_happened();
        assert_eq!(watch.stop.faults(), 1);
    }
}
