//! Confidence intervals of means and ratios, computed on logarithms. A ratio and its inverse are then treated alike,
//! and a factor on a whole round (a warmer machine, a busier disk) cancels.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use special::Beta as _;

/// The confidence of every interval that is shown.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// A figure over trials, with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Estimate {
    /// The geometric mean over trials; for a ratio, over rounds.
    pub value: f64,
    /// Lower end of the 95 % interval. Null with fewer than two trials.
    pub low: Option<f64>,
    /// Upper end of the 95 % interval. Null with fewer than two trials.
    pub high: Option<f64>,
    /// The number of trials, or of pairs of trials, behind it.
    pub trials: u32,
}

impl Estimate {
    /// Whether the whole interval lies beyond `line`, on the side of `value`. Never true without an interval.
    pub fn beyond(&self, line: f64) -> bool {
        match (self.low, self.high) {
            (Some(low), Some(high)) => low > line && self.value > line || high < line && self.value < line,
            _ => false,
        }
    }

    /// Half of the interval's width, relative to the value: ±.
    pub fn relative_half_width(&self) -> Option<f64> {
        Some((self.high? / self.low?).sqrt() - 1.0)
    }

    /// Converts the estimate with an increasing function.
    pub(crate) fn map(self, to: impl Fn(f64) -> f64) -> Self {
        Self { value: to(self.value), low: self.low.map(&to), high: self.high.map(&to), ..self }
    }

    /// The inverse of a ratio.
    pub fn inverse(self) -> Self {
        Self { value: 1.0 / self.value, low: self.high.map(|h| 1.0 / h), high: self.low.map(|l| 1.0 / l), ..self }
    }
}

/// The geometric mean of positive figures, one for each trial, with Student's interval on their logarithms. `None` if a
/// figure is not positive and finite, or if there are none.
pub(crate) fn geometric_mean(figures: &[f64]) -> Option<Estimate> {
    let logs = logs(figures)?;
    // A single figure is returned unchanged. Its logarithm would change the last digits, sometimes even those that are
    // shown.
    if let [value] = *figures {
        return Some(Estimate { value, low: None, high: None, trials: 1 });
    }
    Some(back(mean(&logs), spread(&logs).map(|variance| (variance, logs.len() as f64 - 1.0)), figures.len()))
}

/// The ratio `a / b` of two configurations that were measured in the same rounds, from one pair of figures for each
/// round: Student's interval on the logarithms of the rounds' ratios. `None` if a figure is not positive and finite.
///
/// Configurations run in shuffled order within each round. So a drift over rounds cancels, and a drift within a round
/// makes the interval wider, not wrong.
pub(crate) fn paired_ratio(pairs: &[(f64, f64)]) -> Option<Estimate> {
    let ratios: Vec<f64> = pairs.iter().map(|(a, b)| a / b).collect();
    pairs.iter().all(|(a, b)| *a > 0.0 && *b > 0.0).then(|| geometric_mean(&ratios))?
}

/// The ratio `a / b` of two configurations that share no rounds, such as two runs: Welch's interval on logarithms
/// (Welch 1947, with the degrees of freedom of Satterthwaite 1946). It includes a drift between the two, which cannot
/// be distinguished from a difference.
pub(crate) fn unpaired_ratio(a: &[f64], b: &[f64]) -> Option<Estimate> {
    let (a, b) = (logs(a)?, logs(b)?);
    let variance = spread(&a).zip(spread(&b)).map(|(va, vb)| {
        let degrees = (va + vb).powi(2)
            / (va.powi(2) / (a.len() as f64 - 1.0) + vb.powi(2) / (b.len() as f64 - 1.0)).max(f64::MIN_POSITIVE);
        (va + vb, degrees.max(1.0))
    });
    Some(back(mean(&a) - mean(&b), variance, a.len().min(b.len())))
}

fn logs(figures: &[f64]) -> Option<Vec<f64>> {
    let logs: Vec<f64> = figures.iter().map(|figure| figure.ln()).collect();
    (!logs.is_empty() && logs.iter().all(|log| log.is_finite())).then_some(logs)
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The variance of the mean. `None` for a single value.
fn spread(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let mean = mean(values);
    (values.len() > 1).then(|| values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0) / n)
}

/// Converts logarithms back to figures. `variance` is that of the mean, with its degrees of freedom.
fn back(mean: f64, variance: Option<(f64, f64)>, trials: usize) -> Estimate {
    let half = variance.map(|(variance, degrees)| quantile(degrees) * variance.sqrt());
    Estimate {
        value: mean.exp(),
        low: half.map(|half| (mean - half).exp()),
        high: half.map(|half| (mean + half).exp()),
        trials: trials as u32,
    }
}

/// The two-sided quantile of Student's t, by the inverse of the incomplete beta function (Abramowitz and Stegun,
/// *Handbook of Mathematical Functions*, 26.5.27).
fn quantile(degrees: f64) -> f64 {
    // From here on it equals that of the normal distribution to five digits.
    const MANY: f64 = 1e5;
    let (a, b) = (degrees.min(MANY) / 2.0, 0.5_f64);
    let x = (1.0 - CONFIDENCE).inv_inc_beta(a, b, a.ln_beta(b));
    (degrees.min(MANY) * (1.0 - x) / x).sqrt()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_figure_is_its_own_mean_to_the_last_digit() {
        for value in (1..2_000_u32).map(|n| f64::from(n) * 33_721.7) {
            assert_eq!(geometric_mean(&[value]), Some(Estimate { value, low: None, high: None, trials: 1 }));
        }
        assert_eq!(
            (geometric_mean(&[0.0]), geometric_mean(&[-1.0]), geometric_mean(&[f64::INFINITY])),
            (None, None, None)
        );
    }

    #[test]
    fn student_s_quantiles_are_those_of_the_tables() {
        // Fisher and Yates, Statistical Tables, table III.
        for (degrees, expected) in [(1.0, 12.706), (2.0, 4.303), (9.0, 2.262), (30.0, 2.042), (120.0, 1.980)] {
            assert!((quantile(degrees) - expected).abs() < 1e-3, "{degrees}: {}", quantile(degrees));
        }
        assert!((quantile(1e9) - 1.959_964).abs() < 1e-4, "{}", quantile(1e9));
    }

    #[test]
    fn student_s_quantiles_of_few_degrees_are_exact() {
        use std::f64::consts::PI;
        // In closed form.
        assert!((quantile(1.0) / (PI * CONFIDENCE / 2.0).tan() - 1.0).abs() < 1e-9, "{}", quantile(1.0));
        let two = 2.0 * (CONFIDENCE / 2.0) * (2.0 / (1.0 - CONFIDENCE.powi(2))).sqrt();
        assert!((quantile(2.0) / two - 1.0).abs() < 1e-9, "{}", quantile(2.0));
        let falls = (10..2_000).map(|tenth| quantile(f64::from(tenth) / 10.0)).collect::<Vec<_>>();
        assert!(falls.is_sorted_by(|less, more| less > more));
    }

    #[test]
    fn a_ratio_of_rounds_that_drift_alike_has_no_width() {
        let pairs: Vec<(f64, f64)> = (1..=5).map(|round| (1.1 * f64::from(round), f64::from(round))).collect();
        let ratio = paired_ratio(&pairs).unwrap();
        assert!((ratio.value - 1.1).abs() < 1e-12 && ratio.relative_half_width().unwrap() < 1e-9, "{ratio:?}");
        assert!(ratio.beyond(1.05) && ratio.beyond(1.2) && !ratio.beyond(ratio.value));
        // Without shared rounds, the drift cannot be recognised.
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        assert!(!unpaired_ratio(&a, &b).unwrap().beyond(1.0));
    }

    #[test]
    fn one_trial_has_no_interval_and_what_is_not_positive_no_ratio() {
        let one = geometric_mean(&[5.0]).unwrap();
        assert_eq!((one.value.round(), one.low, one.trials), (5.0, None, 1));
        assert!(!one.beyond(1.0));
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
        assert_eq!(paired_ratio(&[(1.0, 0.0)]), None);
        assert_eq!(paired_ratio(&[(-1.0, -1.0)]), None);
        assert_eq!(unpaired_ratio(&[1.0], &[f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn the_other_way_round_is_the_inverse(pairs in prop::collection::vec((0.1f64..1e6, 0.1f64..1e6), 2..12)) {
            let there = paired_ratio(&pairs).unwrap();
            let back: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
            let back = paired_ratio(&back).unwrap().inverse();
            prop_assert!((there.value / back.value - 1.0).abs() < 1e-9);
            prop_assert!((there.low.unwrap() / back.low.unwrap() - 1.0).abs() < 1e-6);
            prop_assert!(there.low <= Some(there.value) && Some(there.value) <= there.high);
        }
    }
}
