//! When, and how often, what failed for now is tried again.

use std::time::Duration;

use storebench_documents::keys::Rng;
use storebench_engine::store::ErrorKind;

/// Capped exponential back-off with jitter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// Tries of one operation, the first included; at least 1.
    pub tries: u32,
    /// The first wait, before jitter.
    pub first: Duration,
    /// No wait is longer.
    pub cap: Duration,
    /// From the first try on, no further try begins after so long.
    pub total: Duration,
}

impl Default for RetryPolicy {
    /// 60 s in all, with 20 ms to 1 s between tries; 100 tries, more than that time allows for.
    fn default() -> Self {
        Self {
            tries: 100,
            first: Duration::from_millis(20),
            cap: Duration::from_secs(1),
            total: Duration::from_secs(60),
        }
    }
}

/// How a store, or a place that is not on this machine, is spoken to.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    /// How often a request that fails for now is tried.
    pub retry: RetryPolicy,
    /// How long one try may take; of a file elsewhere: how long its answer may be silent.
    pub timeout: Duration,
}

impl Default for Access {
    /// The usual tries, of 10 s each.
    fn default() -> Self {
        Self { retry: RetryPolicy::default(), timeout: Duration::from_secs(10) }
    }
}

/// Whether trying again may help.
pub(crate) fn is_for_now(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Temporary | ErrorKind::OutcomeUnknown)
}

/// The tries of one operation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tries {
    /// How many have failed.
    pub(crate) failed: u32,
    first_ns: Option<u64>,
    last_ns: Option<u64>,
}

impl Tries {
    /// A try begins.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.first_ns.get_or_insert(now_ns);
    }

    /// When the first try began, if it has.
    pub(crate) fn first_ns(&self) -> Option<u64> {
        self.first_ns
    }

    /// What is left of an operation begins its own tries, of which so many count as done.
    pub(crate) fn begin_again(&mut self, failed: u32, now_ns: u64) {
        *self = Self { failed: failed.min(self.failed), first_ns: None, last_ns: Some(now_ns) };
    }

    /// When the last try failed that has.
    pub(crate) fn last_ns(&self) -> Option<u64> {
        self.last_ns
    }

    /// A try has failed: when the next may begin; none when it was the last. The wait is drawn evenly from
    /// the upper half of `min(cap, first × 2ⁿ)`.
    pub(crate) fn next_ns(&mut self, policy: &RetryPolicy, now_ns: u64, draw: &mut Rng) -> Option<u64> {
        let bound = policy.first.saturating_mul(1 << self.failed.min(20)).min(policy.cap).as_nanos() as u64;
        self.failed = self.failed.saturating_add(1);
        self.last_ns = Some(now_ns);
        let due_ns = now_ns + bound / 2 + draw.below(bound / 2 + 1);
        let within = due_ns.saturating_sub(self.first_ns.unwrap_or(now_ns)) <= policy.total.as_nanos() as u64;
        (self.failed < policy.tries && within).then_some(due_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn waits(policy: &RetryPolicy, took_ns: u64) -> Vec<u64> {
        let (mut tries, mut draw, mut now_ns) = (Tries::default(), Rng::new(3), 1_000);
        let mut waits = Vec::new();
        loop {
            tries.begin(now_ns);
            now_ns += took_ns;
            let Some(due_ns) = tries.next_ns(policy, now_ns, &mut draw) else { return waits };
            waits.push(due_ns - now_ns);
            now_ns = due_ns;
        }
    }

    #[test]
    fn waits_grow_up_to_the_cap() {
        let policy = RetryPolicy { tries: 12, total: Duration::MAX, ..RetryPolicy::default() };
        let waits = waits(&policy, 0);
        assert_eq!(waits.len(), 11, "12 tries have 11 waits between them");
        for (n, wait) in waits.iter().enumerate() {
            let bound = ((20 * MS) << n).min(1_000 * MS);
            assert!((bound / 2..=bound).contains(wait), "{n}: {wait}");
        }
        assert!(waits.iter().any(|w| *w != waits[10]), "there is jitter");
    }

    #[test]
    fn the_total_ends_tries_before_their_number_does() {
        let policy = RetryPolicy { total: Duration::from_millis(1_000), ..RetryPolicy::default() };
        // Each try takes 300 ms by itself.
        let waits = waits(&policy, 300 * MS);
        assert!((2..=3).contains(&waits.len()), "{waits:?}");
        assert_eq!(self::waits(&RetryPolicy { tries: 1, ..policy }, 0).len(), 0);
    }
}
