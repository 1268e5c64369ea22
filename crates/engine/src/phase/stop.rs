//! Signals to the workers: that they should stop, and that a fault has happened.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A request to stop, shared by reference. Once set, it stays set.
#[derive(Debug, Default)]
pub struct Stop {
    asked: AtomicBool,
    faults: AtomicU32,
}

impl Stop {
    /// No stop is requested yet.
    pub const fn new() -> Self {
        Self { asked: AtomicBool::new(false), faults: AtomicU32::new(0) }
    }

    /// Requests a stop. Safe in a signal handler.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was requested.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Counts one more fault of the store.
    pub(super) fn fault(&self) {
        self.faults.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets how many faults happened in this trial before the phase.
    pub(super) fn after_faults(&self, count: u32) {
        self.faults.store(count, Ordering::Relaxed);
    }

    /// Faults that have happened to the store in this trial.
    pub(super) fn faults(&self) -> u32 {
        self.faults.load(Ordering::Relaxed)
    }
}
