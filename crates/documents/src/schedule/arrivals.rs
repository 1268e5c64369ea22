//! The scheduled starts of one worker.

use super::curve::Curve;
use super::rate::{NS_PER_S, Rate, ScheduleError};
use storebench_study::mix64;
use storebench_study::workload::ArrivalSpec;

use crate::keys::Rng;

/// Separates the random numbers of arrivals from those of keys under the same seed.
const ARRIVALS: u64 = 0x6172_7269_7661_6c73;

/// The scheduled starts of one worker, in nanoseconds from the start of the phase, in order.
///
/// *Constant*: operation number n over all workers (from 0) is scheduled when Λ, the integral of the rate, exceeds n.
/// So the first operation starts at 0, or at the end of an initial pause. Worker w of W gets n = w, w + W, w + 2W …, so
/// together the workers make exactly the one process. At a constant rate the time is n / rate rounded down, in
/// 64.64-bit fixed point: at most 1 ns off after 10^12 operations, without drift. With ramps and steps it is computed
/// from n in `f64` and rounded to the nearest: accurate to 1 ns within the first 2^51 ns (26 days) of a step or ramp,
/// as long as the operations before it fit in an `f64` as well (2^53 divided by the rate per ns).
///
/// *Poisson*: each worker has its own seeded process at the rate Λ / W, so together they are one process with the rate
/// Λ. Unit exponentials are mapped through Λ⁻¹ (Çinlar, *Introduction to Stochastic Processes*, 1975, §4.7), so ramps,
/// steps and pauses apply to it too.
#[derive(Debug, Clone)]
pub struct Arrivals {
    process: Process,
    scheduled_ns: u64,
    worker: u64,
    workers: u64,
}

#[derive(Debug, Clone)]
enum Process {
    /// Constant arrivals at a constant rate: all in ns with 64 fractional bits.
    Even { scheduled: u128, gap: u128, stride: u128 },
    /// Constant arrivals at a changing rate: `operation` is the number over all workers.
    Curve { curve: Curve, segment: usize, operation: u64 },
    /// Poisson arrivals.
    Poisson(Poisson),
}

/// The random walk behind Poisson arrivals.
#[derive(Debug, Clone)]
struct Poisson {
    walk: Walk,
    rng: Rng,
    /// The initial state of the generator, to restart the walk.
    first_rng: Rng,
    /// Operations passed, and when the last of them was scheduled.
    passed: u64,
    passed_ns: u64,
}

#[derive(Debug, Clone)]
enum Walk {
    /// At a constant rate: the time in ns with 64 fractional bits, so that it does not lose precision over time, and
    /// the worker's mean gap.
    Time { scheduled: u128, mean_gap_ns: f64 },
    /// At a changing rate: the expected number of operations of all workers until this worker's next one.
    Operations { curve: Curve, segment: usize, operations: f64 },
}

impl Arrivals {
    /// The scheduled starts of `worker` (from 0) of `workers`, at this rate over all workers. Only Poisson uses the
    /// seed; workers with one seed have independent streams.
    ///
    /// # Errors
    /// [`ScheduleError`] for a rate that is not finite, negative, too high or always 0, and for a
    /// worker that does not exist.
    pub fn new(rate: &Rate, arrival: ArrivalSpec, worker: u64, workers: u64, seed: u64) -> Result<Self, ScheduleError> {
        rate.check()?;
        if worker >= workers {
            return Err(ScheduleError::Worker { worker, workers });
        }
        let (process, scheduled_ns) = match (arrival, rate) {
            (ArrivalSpec::Constant, Rate::Constant(per_s)) => {
                let gap = gap_fixed(*per_s);
                let times = |n: u64| gap.saturating_mul(u128::from(n));
                let scheduled = times(worker);
                (Process::Even { scheduled, gap, stride: times(workers) }, whole_ns(scheduled))
            }
            (ArrivalSpec::Constant, _) => {
                let (curve, mut segment) = (Curve::new(rate), 0);
                let scheduled_ns = curve.at(worker as f64, &mut segment);
                (Process::Curve { curve, segment, operation: worker }, scheduled_ns)
            }
            (ArrivalSpec::Poisson, _) => {
                let walk = match rate {
                    Rate::Constant(per_s) => {
                        Walk::Time { scheduled: 0, mean_gap_ns: NS_PER_S / per_s * workers as f64 }
                    }
                    _ => Walk::Operations { curve: Curve::new(rate), segment: 0, operations: 0.0 },
                };
                let rng = Rng::stream(mix64(seed, ARRIVALS), worker);
                let mut poisson = Poisson { walk, first_rng: rng.clone(), rng, passed: 0, passed_ns: 0 };
                let scheduled_ns = poisson.step(workers);
                (Process::Poisson(poisson), scheduled_ns)
            }
        };
        Ok(Self { process, scheduled_ns, worker, workers })
    }

    /// When the next operation is scheduled, in ns from the start of the phase; `u64::MAX` if there are no more.
    #[inline]
    pub fn peek_ns(&self) -> u64 {
        self.scheduled_ns
    }

    /// Advances to the operation after that.
    #[inline]
    pub fn advance(&mut self) {
        self.scheduled_ns = match &mut self.process {
            Process::Even { scheduled, stride, .. } => {
                *scheduled = scheduled.saturating_add(*stride);
                whole_ns(*scheduled)
            }
            Process::Curve { curve, segment, operation } => {
                *operation = operation.saturating_add(self.workers);
                curve.at(*operation as f64, segment)
            }
            Process::Poisson(poisson) => {
                if self.scheduled_ns == u64::MAX {
                    return;
                }
                poisson.passed += 1;
                poisson.passed_ns = self.scheduled_ns;
                poisson.step(self.workers)
            }
        };
    }

    /// How many of this worker's operations are scheduled from the start of the phase to `t_ns` (included), whether
    /// passed or not. It agrees exactly with the scheduled starts. `u64::MAX` means never, and is treated as the
    /// nanosecond before.
    ///
    /// Constant arrivals use a formula. Poisson arrivals walk: from the current position if `t_ns` lies ahead, from the
    /// start if it lies before the last operation passed.
    pub fn scheduled_by(&self, t_ns: u64) -> u64 {
        let t_ns = t_ns.min(u64::MAX - 1);
        match &self.process {
            Process::Even { gap, .. } => {
                // The last n with n · gap below t + 1 ns.
                let last = ((u128::from(t_ns + 1) << 64) - 1) / gap;
                let last = u64::try_from(last).unwrap_or(u64::MAX);
                last.checked_sub(self.worker).map_or(0, |own| (own / self.workers).saturating_add(1))
            }
            Process::Curve { curve, .. } => {
                let limit = (u64::MAX - self.worker) / self.workers;
                let is_scheduled = |own: u64| curve.at((self.worker + own * self.workers) as f64, &mut 0) <= t_ns;
                let estimate = (curve.rate.expected(t_ns) - self.worker as f64) / self.workers as f64 + 1.0;
                // The estimate may be off by the rounding of times to ns.
                let mut count = (estimate as u64).min(limit);
                while count > 0 && !is_scheduled(count - 1) {
                    count -= 1;
                }
                while count < limit && is_scheduled(count) {
                    count += 1;
                }
                count
            }
            Process::Poisson(poisson) => {
                let ahead = self.scheduled_ns <= t_ns;
                if !ahead && poisson.passed_ns <= t_ns {
                    return poisson.passed;
                }
                let mut walk = if ahead { poisson.clone() } else { poisson.restarted() };
                let mut count = if ahead { poisson.passed } else { 0 };
                let mut scheduled_ns = if ahead { self.scheduled_ns } else { walk.step(self.workers) };
                while scheduled_ns <= t_ns {
                    count += 1;
                    scheduled_ns = walk.step(self.workers);
                }
                count
            }
        }
    }
}

impl Poisson {
    /// The next scheduled start.
    #[inline]
    fn step(&mut self, workers: u64) -> u64 {
        // 1 − u lies in (0, 1], so the logarithm is finite.
        let exponential = -(1.0 - self.rng.unit()).ln();
        match &mut self.walk {
            Walk::Time { scheduled, mean_gap_ns } => {
                let gap_ns = exponential * *mean_gap_ns;
                let whole = gap_ns as u64;
                let fraction = ((gap_ns - whole as f64) * 4_294_967_296.0) as u32;
                *scheduled = scheduled.saturating_add(u128::from(whole) << 64 | u128::from(fraction) << 32);
                whole_ns(*scheduled)
            }
            Walk::Operations { curve, segment, operations } => {
                *operations += exponential * workers as f64;
                curve.at(*operations, segment)
            }
        }
    }

    fn restarted(&self) -> Self {
        let mut fresh = self.clone();
        fresh.rng = fresh.first_rng.clone();
        match &mut fresh.walk {
            Walk::Time { scheduled, .. } => *scheduled = 0,
            Walk::Operations { segment, operations, .. } => (*segment, *operations) = (0, 0.0),
        }
        fresh
    }
}

/// The whole nanoseconds of a time with 64 fractional bits; `u64::MAX` once saturated.
#[inline]
fn whole_ns(fixed: u128) -> u64 {
    (fixed >> 64) as u64
}

/// The time between two operations at a rate (above 0, at most [`MAX_RATE_PER_S`](super::MAX_RATE_PER_S)), in ns with
/// 64 fractional bits. It is rounded up, so that n times the gap, rounded down, is not below n / rate if that is a
/// whole nanosecond.
fn gap_fixed(per_s: f64) -> u128 {
    // per_s = mantissa · 2^exponent, exactly, with an odd mantissa.
    let bits = per_s.to_bits();
    let (raw, biased) = (bits & ((1 << 52) - 1), (bits >> 52) as i32 & 0x7ff);
    let (mantissa, exponent) = if biased == 0 { (raw, -1074) } else { (raw | 1 << 52, biased - 1075) };
    let zeros = mantissa.trailing_zeros();
    let (mantissa, exponent) = (u128::from(mantissa >> zeros), exponent + zeros as i32);
    // 10^9 · 2^97 is the largest that fits. It has 33 more fractional bits than the 64 to keep.
    let quotient = (1_000_000_000u128 << 97).div_ceil(mantissa);
    match u32::try_from(33 + exponent) {
        Ok(right) if right < 128 => quotient.div_ceil(1 << right),
        Ok(_) => 1,
        Err(_) => {
            let left = (33 + exponent).unsigned_abs();
            if left > quotient.leading_zeros() { u128::MAX } else { quotient << left }
        }
    }
}

#[cfg(test)]
mod tests;
