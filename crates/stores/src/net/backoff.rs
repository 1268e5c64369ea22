//! How long to wait before connecting again.

use std::time::Duration;

/// Capped exponential back-off with jitter: the n-th wait is drawn evenly from the upper half of
/// `min(cap, first × 2ⁿ)`, so that many sessions do not come back at the same moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backoff {
    tries: u32,
}

const FIRST_NS: u64 = 10_000_000;
const CAP_NS: u64 = 1_000_000_000;

impl Backoff {
    /// Records a failed try. Returns how long to wait before the next.
    pub(crate) fn next_wait(&mut self) -> Duration {
        let bound = FIRST_NS.saturating_mul(1 << self.tries.min(20)).min(CAP_NS);
        self.tries = self.tries.saturating_add(1);
        Duration::from_nanos(fastrand::u64(bound / 2..bound))
    }

    /// Whether nothing has failed since the last success.
    pub(crate) fn is_reset(&self) -> bool {
        self.tries == 0
    }

    /// Records a successful try.
    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_the_cap_and_begin_anew() {
        let mut backoff = Backoff::default();
        let waits: Vec<u64> = (0..30).map(|_| backoff.next_wait().as_nanos() as u64).collect();
        for (n, wait) in waits.iter().enumerate() {
            let bound = (FIRST_NS << n.min(20)).min(CAP_NS);
            assert!((bound / 2..bound).contains(wait), "wait {n} is {wait} ns of {bound}");
        }
        assert!(!backoff.is_reset());
        backoff.reset();
        assert!(backoff.is_reset());
        assert!(backoff.next_wait().as_nanos() < u128::from(FIRST_NS));
    }
}
