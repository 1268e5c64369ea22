//! Rate limit of a copy, shared by all workers.

use std::sync::{Mutex, PoisonError};

/// The limits, in documents and bytes per second.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    docs_per_s: Option<f64>,
    bytes_per_s: Option<f64>,
    /// When the next batch may start, in ns.
    next_ns: Mutex<u64>,
}

impl Pace {
    pub(crate) fn new(docs_per_s: Option<f64>, bytes_per_s: Option<f64>) -> Self {
        Self { docs_per_s, bytes_per_s, next_ns: Mutex::new(0) }
    }

    /// When a batch of this size may start, in ns. Later batches start after it. Unused capacity is not saved up.
    pub(crate) fn take(&self, docs: usize, bytes: usize, now_ns: u64) -> u64 {
        let seconds = |amount: usize, rate: Option<f64>| rate.map_or(0.0, |rate| amount as f64 / rate);
        let lasts = seconds(docs, self.docs_per_s).max(seconds(bytes, self.bytes_per_s));
        if lasts == 0.0 {
            return now_ns;
        }
        let mut next_ns = self.next_ns.lock().unwrap_or_else(PoisonError::into_inner);
        let due_ns = now_ns.max(*next_ns);
        *next_ns = due_ns + (lasts * 1e9) as u64;
        due_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_limit_holds_over_all_that_ask() {
        let pace = Pace::new(Some(1_000.0), Some(1_000_000.0));
        assert_eq!(pace.take(100, 10, 5), 5);
        assert_eq!(pace.take(1, 500_000, 7), 100_000_005);
        assert_eq!(pace.take(1, 1, 7), 600_000_005);
        // Time lost in a pause is not made up.
        assert_eq!(pace.take(1, 1, 10_000_000_000), 10_000_000_000);
        assert_eq!(pace.take(1, 1, 10_000_000_000), 10_001_000_000);
        assert_eq!(Pace::default().take(1, 1, 3), 3);
    }
}
