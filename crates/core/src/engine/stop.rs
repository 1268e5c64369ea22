//! How a run is asked to end early.

use std::sync::atomic::{AtomicBool, Ordering};

/// Set once to ask for an end, for whoever holds a reference.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Not asked yet.
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Asks for an end. Safe in a signal handler.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether an end was asked for.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
