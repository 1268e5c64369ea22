//! Axes of pictures.

use storebench_results::stats::Estimate;

/// An axis is logarithmic if its figures differ by this factor.
const WIDE: f64 = 30.0;
/// The same for values that were chosen.
const SPREAD: f64 = 8.0;

/// A value without an interval.
pub(crate) fn alone(value: f64) -> Estimate {
    Estimate { value, low: None, high: None, trials: 1 }
}

/// From figures to positions: linear from zero, or logarithmic if the figures are far apart. It contains the intervals,
/// except very wide ones, which are cut so that the figures remain distinguishable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) log: bool,
    begin: f64,
    end: f64,
}

impl Scale {
    /// Values that were chosen, such as rates: logarithmic already if they differ by a smaller factor.
    pub(crate) fn of_values(values: impl Iterator<Item = f64>, begin: f64, end: f64) -> Self {
        let values: Vec<f64> = values.filter(|value| value.is_finite() && *value > 0.0).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        if most / least >= SPREAD {
            return Self::between(least / 1.15, most * 1.15, begin, end);
        }
        Self::of(values.into_iter().map(alone), begin, end)
    }

    /// Linear from zero to this value.
    pub(crate) fn up_to(high: f64, begin: f64, end: f64) -> Self {
        Self { low: 0.0, high: high.max(f64::MIN_POSITIVE), log: false, begin, end }
    }

    /// Logarithmic between these values.
    pub(crate) fn between(low: f64, high: f64, begin: f64, end: f64) -> Self {
        Self { low, high, log: true, begin, end }
    }

    pub(crate) fn of(figures: impl Iterator<Item = Estimate>, begin: f64, end: f64) -> Self {
        let (mut least, mut most, mut lowest, mut highest) = (f64::INFINITY, 0.0_f64, f64::INFINITY, 0.0_f64);
        for figure in figures.filter(|figure| figure.value.is_finite() && figure.value > 0.0) {
            (least, most) = (least.min(figure.value), most.max(figure.value));
            lowest = lowest.min(figure.low.filter(|low| *low > 0.0).unwrap_or(figure.value));
            highest = highest.max(figure.high.filter(|high| high.is_finite()).unwrap_or(figure.value));
        }
        if most <= 0.0 {
            (least, most, lowest, highest) = (1.0, 1.0, 1.0, 1.0);
        }
        let (low, high) = (lowest.max(least / 3.0), highest.min(most * 3.0));
        let log = most / least >= WIDE;
        Self {
            low: if log { low / 1.15 } else { 0.0 },
            high: if log { high * 1.15 } else { high * 1.05 },
            log,
            begin,
            end,
        }
    }

    /// Whether the axis reaches this value. A linear one begins at zero, where every interval may end.
    pub(crate) fn holds(&self, value: f64) -> bool {
        value <= self.high && (!self.log || value >= self.low)
    }

    /// The position of a value. One beyond the axis is at its end.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = match self.log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.begin + share * (self.end - self.begin)
    }

    /// Round values along the axis: 1, 2 and 5 of each power of ten.
    pub(crate) fn round_steps(&self) -> Vec<f64> {
        let powers = self.high.log10() as i32 - 4..=self.high.log10() as i32;
        let steps = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|of| of * 10_f64.powi(power)));
        let steps: Vec<f64> = steps.filter(|value| (self.low..=self.high).contains(value)).collect();
        if self.log { steps } else { self.ticks() }
    }

    pub(crate) fn ticks(&self) -> Vec<f64> {
        if self.log {
            let powers = self.low.log10().ceil() as i32..=self.high.log10().floor() as i32;
            return powers.map(|power| 10_f64.powi(power)).collect();
        }
        // Three or four steps of 1, 2 or 5.
        let rough = self.high / 3.5;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|of| of * power).into_iter().find(|step| *step >= rough * 0.8);
        let step = step.unwrap_or(power * 10.0);
        (0..=8).map(|nth| f64::from(nth) * step).take_while(|tick| *tick <= self.high).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_hold_what_they_show() {
        let figures = [(10.0, 8.0, 12.0), (100.0, 90.0, 1e9)].map(|(value, low, high)| Estimate {
            value,
            low: Some(low),
            high: Some(high),
            trials: 3,
        });
        let scale = Scale::of(figures.into_iter(), 0.0, 100.0);
        assert!(!scale.log && scale.high < 400.0, "an interval without an end does not hide the figures");
        assert_eq!(scale.at(1e9), 100.0);
        assert_eq!(scale.at(0.0), 0.0);
        assert!(scale.ticks().len() >= 3, "{:?}", scale.ticks());
        let far = Scale::of([alone(1.0), alone(1_000.0)].into_iter(), 0.0, 100.0);
        assert!(far.log);
        assert_eq!(far.ticks(), [1.0, 10.0, 100.0, 1_000.0]);
        // Nothing was measured, or nothing was answered.
        let none = Scale::of(std::iter::empty(), 0.0, 100.0);
        assert!(none.at(f64::INFINITY).is_finite() && none.ticks().iter().all(|tick| tick.is_finite()));
    }
}
