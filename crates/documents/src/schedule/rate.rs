//! The target rate of operations over time.

use storebench_study::workload::{Phase, RateSpec};
use thiserror::Error;

/// Nanoseconds in a second.
pub(super) const NS_PER_S: f64 = 1e9;

/// The highest accepted rate: 10^12 per second, a thousand operations per nanosecond, the unit of scheduled starts.
pub const MAX_RATE_PER_S: f64 = 1e12;

/// The target rate over all workers in operations per second, by the time since the phase began.
#[derive(Debug, Clone, PartialEq)]
pub enum Rate {
    /// Always this many per second.
    Constant(f64),
    /// Linearly from one rate to another, then constantly at the second.
    Ramp {
        /// Operations per second at the start.
        from: f64,
        /// Operations per second at the end, and after it.
        to: f64,
        /// How long it takes, in nanoseconds; 0 starts with `to`.
        over_ns: u64,
    },
    /// One rate after another: pairs of a duration in nanoseconds and operations per second. The last one continues
    /// forever, whatever its duration. A rate of 0 is a pause.
    Steps(Vec<(u64, f64)>),
}

impl Rate {
    /// The rate of a phase; `None` for a closed loop.
    pub fn of(phase: &Phase) -> Option<Self> {
        phase.rate.as_ref().map(|rate| match rate {
            RateSpec::Constant(per_s) => Self::Constant(*per_s),
            RateSpec::Ramp(from, to) => {
                Self::Ramp { from: *from, to: *to, over_ns: phase.duration.unwrap_or_default().ns() }
            }
            RateSpec::Steps { steps, each } => Self::Steps(steps.iter().map(|r| (each.ns(), *r)).collect()),
        })
    }
}

/// Why scheduled starts cannot be computed.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ScheduleError {
    /// A rate that is not a number, negative, infinite or above [`MAX_RATE_PER_S`].
    #[error("{place} of {per_s} operations per second is not possible; use a number from 0 to 1e12")]
    Rate {
        /// Which of the rates.
        place: String,
        /// What it was, per second.
        per_s: f64,
    },
    /// No rate is above 0, so nothing would ever be scheduled.
    #[error(
        "no operation would ever be scheduled: {what}; give a rate above 0 per second, or no rate for a closed loop"
    )]
    NeverScheduled {
        /// What was given.
        what: String,
    },
    /// Steps that together are longer than 2^64 nanoseconds, 584 years.
    #[error("steps 1 to {step} together are longer than 584 years; shorten them")]
    TooLong {
        /// The step that exceeds the limit, from 1.
        step: usize,
    },
    /// A worker number that is not below the number of workers.
    #[error("worker {worker} of {workers} does not exist; workers are numbered from 0")]
    Worker {
        /// The worker, from 0.
        worker: u64,
        /// How many there are.
        workers: u64,
    },
}

impl Rate {
    /// Checks that this rate schedules operations.
    ///
    /// # Errors
    /// [`ScheduleError`] for a rate that is not finite, negative or above [`MAX_RATE_PER_S`], for
    /// steps longer than time can be counted, and when no operation would ever be scheduled.
    pub fn check(&self) -> Result<(), ScheduleError> {
        let check = |place: &dyn Fn() -> String, per_s: f64| {
            if (0.0..=MAX_RATE_PER_S).contains(&per_s) {
                Ok(())
            } else {
                Err(ScheduleError::Rate { place: place(), per_s })
            }
        };
        match self {
            Self::Constant(per_s) => check(&|| "a rate".into(), *per_s)?,
            Self::Ramp { from, to, .. } => {
                check(&|| "a ramp's start".into(), *from)?;
                check(&|| "a ramp's end".into(), *to)?;
            }
            Self::Steps(steps) => {
                let mut end_ns = 0u64;
                for (step, &(for_ns, per_s)) in (1..).zip(steps) {
                    check(&|| format!("step {step}"), per_s)?;
                    // The length of the last one is ignored.
                    if step < steps.len() {
                        end_ns = end_ns.checked_add(for_ns).ok_or(ScheduleError::TooLong { step })?;
                    }
                }
            }
        }
        if self.peak_per_s() > 0.0 {
            return Ok(());
        }
        Err(ScheduleError::NeverScheduled {
            what: match self {
                Self::Constant(_) => "the rate is 0".into(),
                Self::Ramp { .. } => "the ramp stays at 0".into(),
                Self::Steps(steps) if steps.is_empty() => "there are no steps".into(),
                Self::Steps(_) => "every step is at 0 or lasts 0 ns".into(),
            },
        })
    }

    /// Λ(t): how many operations are expected from the start to `t_ns`, over all workers. Exact except for the rounding
    /// of `f64` (a relative error of about 2^-52).
    pub fn expected(&self, t_ns: u64) -> f64 {
        let t = t_ns as f64;
        match self {
            Self::Constant(per_s) => t * per_s / NS_PER_S,
            Self::Ramp { from, to, over_ns } => {
                let over = *over_ns as f64;
                if t_ns >= *over_ns {
                    // During the ramp, the mean rate is that of both ends.
                    (over * (from + to) / 2.0 + (t_ns - over_ns) as f64 * to) / NS_PER_S
                } else {
                    t * (from + (to - from) * (t / over) / 2.0) / NS_PER_S
                }
            }
            Self::Steps(steps) => {
                let mut left_ns = t_ns;
                let mut operations = 0.0;
                for (step, &(for_ns, per_s)) in (1..).zip(steps) {
                    let here_ns = if step == steps.len() { left_ns } else { left_ns.min(for_ns) };
                    operations += here_ns as f64 * per_s / NS_PER_S;
                    left_ns -= here_ns;
                }
                operations
            }
        }
    }

    /// When this many operations have been scheduled, in ns from the start: the inverse of [`Self::expected`].
    pub fn scheduled_start_ns(&self, operations: u64) -> u64 {
        let (mut low, mut high) = (1, u64::MAX / 2);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.expected(middle) >= operations as f64 { high = middle } else { low = middle + 1 }
        }
        low
    }

    /// The highest rate that is ever reached, in operations per second over all workers.
    pub fn peak_per_s(&self) -> f64 {
        match self {
            Self::Constant(per_s) => *per_s,
            Self::Ramp { to, over_ns: 0, .. } => *to,
            Self::Ramp { from, to, .. } => from.max(*to),
            Self::Steps(steps) => (1..)
                .zip(steps)
                .filter(|&(step, &(for_ns, _))| for_ns > 0 || step == steps.len())
                .fold(0.0, |peak, (_, &(_, per_s))| per_s.max(peak)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn expected_is_the_integral() {
        assert_eq!(Rate::Constant(250.0).expected(180 * S), 45_000.0);
        let ramp = Rate::Ramp { from: 100.0, to: 300.0, over_ns: 10 * S };
        assert_eq!([0, 5 * S, 10 * S, 12 * S].map(|t| ramp.expected(t)), [0.0, 750.0, 2_000.0, 2_600.0]);
        let down = Rate::Ramp { from: 100.0, to: 0.0, over_ns: 2 * S };
        assert_eq!([S, 2 * S, 9 * S].map(|t| down.expected(t)), [75.0, 100.0, 100.0]);
        assert_eq!(Rate::Ramp { from: 7.0, to: 3.0, over_ns: 0 }.expected(S), 3.0);
        let steps = Rate::Steps(vec![(S, 10.0), (2 * S, 0.0), (S, 5.0)]);
        assert_eq!(
            [0, S / 2, S, 2 * S, 3 * S, 4 * S, 10 * S].map(|t| steps.expected(t)),
            [0.0, 5.0, 10.0, 10.0, 10.0, 15.0, 45.0]
        );
    }

    #[test]
    fn peak_is_what_is_reached() {
        assert_eq!(Rate::Constant(5.0).peak_per_s(), 5.0);
        assert_eq!(Rate::Ramp { from: 9.0, to: 3.0, over_ns: 1 }.peak_per_s(), 9.0);
        assert_eq!(Rate::Ramp { from: 9.0, to: 3.0, over_ns: 0 }.peak_per_s(), 3.0);
        assert_eq!(Rate::Steps(vec![(1, 2.0), (0, 100.0), (0, 4.0)]).peak_per_s(), 4.0);
    }

    #[test]
    fn impossible_rates_are_refused() {
        for per_s in [-1.0, f64::NAN, f64::INFINITY, 1e13] {
            assert!(matches!(Rate::Constant(per_s).check(), Err(ScheduleError::Rate { .. })), "{per_s}");
            let ramp = Rate::Ramp { from: 1.0, to: per_s, over_ns: 5 };
            assert!(ramp.check().unwrap_err().to_string().starts_with("a ramp's end of "));
            let steps = Rate::Steps(vec![(1, 1.0), (1, per_s)]);
            assert!(steps.check().unwrap_err().to_string().starts_with("step 2 of "));
        }
        let never = [
            Rate::Constant(0.0),
            Rate::Constant(-0.0),
            Rate::Ramp { from: 0.0, to: 0.0, over_ns: 5 },
            Rate::Ramp { from: 1.0, to: 0.0, over_ns: 0 },
            Rate::Steps(vec![]),
            Rate::Steps(vec![(5, 0.0), (0, 1.0), (5, 0.0)]),
        ];
        for rate in never {
            assert!(matches!(rate.check(), Err(ScheduleError::NeverScheduled { .. })), "{rate:?}");
        }
        let long = Rate::Steps(vec![(u64::MAX, 1.0), (1, 1.0), (1, 1.0)]);
        assert_eq!(long.check(), Err(ScheduleError::TooLong { step: 2 }));
        assert_eq!(Rate::Steps(vec![(u64::MAX, 1.0), (1, 1.0)]).check(), Ok(()));
    }
}
