//! When and how often to retry after a temporary failure.

use std::time::Duration;

use storebench_documents::keys::Rng;
use storebench_engine::store::ErrorKind;

/// Capped exponential back-off with jitter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// Attempts of one operation, including the first; at least 1.
    pub tries: u32,
    /// The first delay, before jitter.
    pub first: Duration,
    /// The longest delay.
    pub cap: Duration,
    /// No attempt starts later than this after the first one started.
    pub total: Duration,
}

impl Default for RetryPolicy {
    /// 60 s in total, with delays of 20 ms to 1 s. The limit of 100 attempts is more than fits in that time.
    fn default() -> Self {
        Self {
            tries: 100,
            first: Duration::from_millis(20),
            cap: Duration::from_secs(1),
            total: Duration::from_secs(60),
        }
    }
}

/// How to access a store or a remote file.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    /// How to retry requests that fail temporarily.
    pub retry: RetryPolicy,
    /// Time limit of one attempt. For remote files: how long the response may be silent.
    pub timeout: Duration,
}

impl Default for Access {
    /// The default retries, with a timeout of 10 s.
    fn default() -> Self {
        Self { retry: RetryPolicy::default(), timeout: Duration::from_secs(10) }
    }
}

/// Whether a retry may help.
pub(crate) fn is_for_now(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Temporary | ErrorKind::OutcomeUnknown)
}

/// The attempts of one operation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tries {
    /// Number of failed attempts.
    pub(crate) failed: u32,
    /// When the first attempt started, if it has.
    pub(crate) first_ns: Option<u64>,
    /// When the latest failed attempt ended, if any.
    pub(crate) last_ns: Option<u64>,
}

impl Tries {
    /// Marks the start of an attempt.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.first_ns.get_or_insert(now_ns);
    }

    /// Restarts the time limit for the rest of an operation, of whose attempts at most `failed` count as used.
    pub(crate) fn begin_again(&mut self, failed: u32, now_ns: u64) {
        *self = Self { failed: failed.min(self.failed), first_ns: None, last_ns: Some(now_ns) };
    }

    /// Marks a failed attempt. Returns when the next may start, or `None` if that was the last. The delay is drawn
    /// uniformly from the upper half of `min(cap, first × 2ⁿ)`.
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
        // Each attempt takes 300 ms, plus the delay after it.
        let waits = waits(&policy, 300 * MS);
        assert!((2..=3).contains(&waits.len()), "{waits:?}");
        assert_eq!(self::waits(&RetryPolicy { tries: 1, ..policy }, 0).len(), 0);
    }
}
