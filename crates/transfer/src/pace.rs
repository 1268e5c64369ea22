//! Rate limit of a copy, shared by all workers.

use std::sync::{Mutex, PoisonError};

use crate::source::Room;

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

    /// The largest batch that keeps the limits within any second to a twentieth.
    pub(crate) fn room(&self, room: Room) -> Room {
        let most =
            |rate: Option<f64>, usual: usize| rate.map_or(usual, |rate| usual.min((rate / 20.0).max(1.0) as usize));
        Room { records: most(self.docs_per_s, room.records), bytes: most(self.bytes_per_s, room.bytes) }
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
    fn batches_are_small_enough_for_the_limits() {
        let usual = Room { records: 10_000, bytes: 1 << 20 };
        let room = |docs, bytes| {
            let room = Pace::new(docs, bytes).room(usual);
            (room.records, room.bytes)
        };
        assert_eq!(room(None, None), (10_000, 1 << 20));
        assert_eq!(room(Some(1_000.0), None), (50, 1 << 20));
        assert_eq!(room(Some(0.4), Some(100_000.0)), (1, 5_000));
        assert_eq!(room(Some(1e9), None).0, 10_000);
        // What is sent by any time is at most a batch more than the limit.
        let pace = Pace::new(Some(1_000.0), None);
        let starts: Vec<u64> = (0..120).map(|_| pace.take(50, 1, 0)).collect();
        assert!(starts.iter().enumerate().all(|(n, start_ns)| *start_ns == n as u64 * 50_000_000), "{starts:?}");
    }

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
