//! The suite's time: real, or a fake clock that every wait moves on.

use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use storebench_engine::{Clock, FakeClock, RealClock};

/// One clock for every check of the process. Decorators remember times from one check to the next, so a clock that
/// began at zero again would make them wait.
static REAL: LazyLock<RealClock> = LazyLock::new(RealClock::new);

#[derive(Debug, Clone)]
pub(super) enum Time {
    Real,
    Fake(FakeClock),
}

impl Time {
    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        match self {
            Self::Real => Arc::new(REAL.clone()),
            Self::Fake(clock) => Arc::new(clock.clone()),
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.clock().now_ns()
    }

    /// Lets this much time pass.
    pub(super) fn pass(&self, duration: Duration) {
        match self {
            Self::Real => thread::sleep(duration),
            Self::Fake(clock) => {
                clock.advance_to(clock.now_ns().saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)));
            }
        }
    }

    /// How long to wait for this time to come. A fake clock is moved there at once.
    pub(super) fn wait_for(&self, at_ns: u64) -> Duration {
        if let Self::Fake(clock) = self {
            clock.advance_to(at_ns);
        }
        Duration::from_nanos(at_ns.saturating_sub(self.now_ns()))
    }
}
