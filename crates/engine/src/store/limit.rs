//! `limit+URL`: a store that does at most a given number of operations per second.
//!
//! A virtual schedule over all sessions of the store. In a busy period that begins at `start`, operation `k` (from 0)
//! completes no earlier than `start + k / rate`. An operation that comes when the schedule is in the past begins a new
//! busy period and is not held back. Idle time is not saved up. A bulk operation counts as one operation.

use std::sync::{Mutex, PoisonError};

use super::held::{DueTimes, Held};
use super::{Store, StoreError};

/// A store that lets a limited number of operations per second through. The others wait.
pub type Limit<S> = Held<S, Schedule>;

impl<S: Store> Limit<S> {
    /// Limits a store to this many operations per second.
    ///
    /// # Errors
    /// [`StoreError::BadUrl`] unless the rate is a finite number above zero.
    pub fn new(inner: S, rate_per_s: f64) -> Result<Self, StoreError> {
        if !rate_per_s.is_finite() || rate_per_s <= 0.0 {
            return Err(StoreError::BadUrl(format!(
                "limit+: invalid rate={rate_per_s}; expected operations per second above zero, as in \
                 limit+memory:?rate=1000"
            )));
        }
        Ok(Self::over(inner, Schedule { rate_per_s, busy: Mutex::new(Busy::default()) }))
    }
}

/// The virtual schedule of [`Limit`].
#[derive(Debug)]
pub struct Schedule {
    rate_per_s: f64,
    busy: Mutex<Busy>,
}

/// A busy period.
#[derive(Debug, Default)]
struct Busy {
    start_ns: u64,
    operations: u64,
}

impl DueTimes for Schedule {
    fn due_ns(&self, now_ns: u64, _phase_start_ns: Option<u64>) -> u64 {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        // Computed from the period's start each time, so that rounding errors do not add up.
        let after_ns = (busy.operations as f64 * 1e9 / self.rate_per_s) as u64;
        let due_ns = busy.start_ns.saturating_add(after_ns);
        if due_ns <= now_ns {
            *busy = Busy { start_ns: now_ns, operations: 1 };
            return now_ns;
        }
        busy.operations += 1;
        due_ns
    }

    fn prefix(&self) -> &'static str {
        "limit"
    }

    fn query(&self) -> String {
        format!("rate={}", self.rate_per_s)
    }

    fn note(&self) -> &'static str {
        "Limited on purpose by limit+: its rate is a setting, not the capacity of the store."
    }
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
