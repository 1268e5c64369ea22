//! What workers are told from outside: that they are to end, and that something was broken under them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Set once to ask for an end, for whoever holds a reference.
#[derive(Debug, Default)]
pub struct Stop {
    asked: AtomicBool,
    faults: AtomicU32,
}

impl Stop {
    /// Not asked yet.
    pub const fn new() -> Self {
        Self { asked: AtomicBool::new(false), faults: AtomicU32::new(0) }
    }

    /// Asks for an end. Safe in a signal handler.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Whether an end was asked for.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// One more fault has happened to the store.
    pub(super) fn fault(&self) {
        self.faults.fetch_add(1, Ordering::Relaxed);
    }

    /// So many faults of this trial had happened before.
    pub(super) fn after_faults(&self, count: u32) {
        self.faults.store(count, Ordering::Relaxed);
    }

    /// Faults that have happened to the store in this trial.
    pub(super) fn faults(&self) -> u32 {
        self.faults.load(Ordering::Relaxed)
    }
}
