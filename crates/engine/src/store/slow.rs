//! `slow+URL`: a store that is slowed down by a deterministic queueing model.
//!
//! The store as a whole, over all its sessions, serves a limited number of operations at once. An operation takes the
//! place that is free first, is served there for `latency ± jitter`, and completes. During a stall, no service
//! progresses: a service that overlaps the stall ends later by the length of the overlap. A bulk operation counts as
//! one operation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Store;
use super::held::{DueTimes, Held};

/// A store that is slowed down by a deterministic queueing model: a limited number of operations at once over all
/// sessions, a service of `latency ± jitter` for each, and at most one stall, in which no service progresses.
pub type Slow<S> = Held<S, Servers>;

/// How slow. The default adds no delay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowOptions {
    /// How long an operation is served, on average.
    pub latency: Duration,
    /// Service times are uniform between `latency - jitter` (not below 0) and `latency + jitter`.
    pub jitter: Duration,
    /// Operations that are served at once, over all sessions; `None` for no limit.
    pub concurrency: Option<NonZeroU32>,
    /// When the stall begins, counted from the start of the measured phase; `None` for no stall.
    pub stall_at: Option<Duration>,
    /// How long the stall lasts.
    pub stall_for: Duration,
    /// The seed of the jitter.
    pub seed: u64,
}

impl Default for SlowOptions {
    fn default() -> Self {
        Self {
            latency: Duration::ZERO,
            jitter: Duration::ZERO,
            concurrency: None,
            stall_at: None,
            stall_for: Duration::from_secs(1),
            seed: 1,
        }
    }
}

impl<S: Store> Slow<S> {
    /// Slows a store down.
    pub fn new(inner: S, options: SlowOptions) -> Self {
        Self::over(inner, Servers::new(options))
    }
}

/// The queueing model of [`Slow`].
#[derive(Debug)]
pub struct Servers {
    options: SlowOptions,
    latency_ns: u64,
    jitter_ns: u64,
    state: Mutex<SlowState>,
}

#[derive(Debug)]
struct SlowState {
    /// When each place is free, earliest on top; empty if there is no limit.
    free_at_ns: BinaryHeap<Reverse<u64>>,
    random: fastrand::Rng,
}

impl Servers {
    fn new(options: SlowOptions) -> Self {
        let concurrency = options.concurrency.map_or(0, NonZeroU32::get);
        let random = fastrand::Rng::with_seed(options.seed);
        let state = SlowState { free_at_ns: (0..concurrency).map(|_| Reverse(0)).collect(), random };
        Self {
            latency_ns: whole_ns(options.latency),
            jitter_ns: whole_ns(options.jitter),
            options,
            state: Mutex::new(state),
        }
    }

    /// How long one service takes.
    fn service_ns(&self, random: &mut fastrand::Rng) -> u64 {
        let offset = random.u64(..=self.jitter_ns.saturating_mul(2));
        self.latency_ns.saturating_add(offset).saturating_sub(self.jitter_ns)
    }

    /// When a service that begins at `start_ns` ends.
    fn end_ns(&self, start_ns: u64, service_ns: u64, phase_start_ns: Option<u64>) -> u64 {
        let end_ns = start_ns.saturating_add(service_ns);
        let (Some(phase_start_ns), Some(stall_at)) = (phase_start_ns, self.options.stall_at) else { return end_ns };
        let stall_ns = phase_start_ns.saturating_add(whole_ns(stall_at));
        let over_ns = stall_ns.saturating_add(whole_ns(self.options.stall_for));
        if start_ns >= over_ns || end_ns <= stall_ns && start_ns < stall_ns {
            return end_ns;
        }
        end_ns.saturating_add(over_ns - start_ns.max(stall_ns))
    }
}

impl DueTimes for Servers {
    fn due_ns(&self, now_ns: u64, phase_start_ns: Option<u64>) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let service_ns = self.service_ns(&mut state.random);
        match state.free_at_ns.peek_mut() {
            None => self.end_ns(now_ns, service_ns, phase_start_ns),
            Some(mut earliest) => {
                let end_ns = self.end_ns(now_ns.max(earliest.0), service_ns, phase_start_ns);
                *earliest = Reverse(end_ns);
                end_ns
            }
        }
    }

    fn prefix(&self) -> &'static str {
        "slow"
    }

    fn query(&self) -> String {
        let o = &self.options;
        let time = |name: &str, of: Duration| (!of.is_zero()).then(|| format!("{name}={}", short(of)));
        let parts = [
            time("latency", o.latency),
            time("jitter", o.jitter),
            o.concurrency.map(|concurrency| format!("concurrency={concurrency}")),
            o.stall_at.map(|at| format!("stall_at={}&stall_for={}", short(at), short(o.stall_for))),
            (o.seed != SlowOptions::default().seed).then(|| format!("seed={}", o.seed)),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("&")
    }

    fn note(&self) -> &'static str {
        "Slowed down on purpose by slow+: its latency comes from a model, not from a store."
    }
}

fn whole_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A duration as in URLs: a whole number of the largest unit that divides it.
fn short(duration: Duration) -> String {
    let ns = duration.as_nanos();
    [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")]
        .into_iter()
        .find(|(unit, _)| ns.is_multiple_of(*unit))
        .map_or_else(|| format!("{ns}ns"), |(unit, name)| format!("{}{name}", ns / unit))
}

#[cfg(test)]
#[path = "slow_tests.rs"]
mod tests;
