//! Confidence intervals of means and ratios, computed on logarithms. A ratio and its inverse are then treated alike,
//! and a factor on a whole round (a warmer machine, a busier disk) cancels.

use serde::{Deserialize, Serialize};
use special::Beta as _;

/// The confidence of every interval that is shown.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// A figure over trials, with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The geometric mean over trials; for a ratio, over rounds.
    pub value: f64,
    /// Lower end of the 95 % interval. Null with one trial, with two searches, or if a trial lacks the figure.
    pub low: Option<f64>,
    /// Upper end, likewise.
    pub high: Option<f64>,
    /// The number of trials behind it, or of pairs of trials, or of runs.
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

/// A figure or a ratio whose uncertainty is known, before it gets an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Uncertain {
    value: f64,
    /// The middle of its interval, as a logarithm.
    middle: f64,
    /// The least half width of an interval, as a logarithm: how far figures are rounded.
    within: f64,
    /// The variance of the middle, with its degrees of freedom. `None` with a single trial.
    variance: Option<(f64, f64)>,
    trials: usize,
    /// If trials depend on each other: how far neighbours are apart.
    apart: Option<f64>,
    /// What the other side of a ratio, whose runs do not become more, adds to the variance of one trial.
    other: f64,
}

/// No study is asked for more trials than this.
pub(crate) const MOST_TRIALS: u32 = 1_000;

/// The chance with which a gate must have failed at the smallest change that it could have detected.
pub(crate) const POWER: f64 = 0.8;

impl Uncertain {
    /// The figure with its interval. `together` is the number of intervals that are looked at together: all of them
    /// cover the true values with the confidence of one (Šidák 1967).
    pub(crate) fn estimate(&self, together: usize) -> Estimate {
        let half = self.half(together).filter(|half| half.is_finite());
        Estimate {
            value: self.value,
            low: half.map(|half| (self.middle - half).exp().min(self.value)),
            high: half.map(|half| (self.middle + half).exp().max(self.value)),
            trials: self.trials as u32,
        }
    }

    /// The same without an interval.
    pub(crate) fn without_interval(self) -> Self {
        Self { variance: None, ..self }
    }

    /// The standard deviation of one trial, as a logarithm. `None` with a single trial.
    pub(crate) fn of_one(&self) -> Option<f64> {
        self.variance.map(|(variance, _)| (variance / self.of_mean(self.trials as f64)).sqrt())
    }

    /// The true ratio closest to `line` at which the whole interval would lie beyond it in [`POWER`] of all studies that
    /// are as noisy as this one. `None` without an interval.
    pub(crate) fn detectable(&self, line: f64, above: bool, together: usize) -> Option<f64> {
        let (variance, degrees) = self.variance?;
        // The rest of the chance is on both sides of this quantile.
        let reach = self.half(together)? + quantile(2.0 * POWER - 1.0, degrees) * variance.sqrt();
        let reach = reach / found_by_half(degrees);
        let log = if above { line.ln() + reach } else { line.ln() - reach };
        Some(log.exp()).filter(|ratio| ratio.is_finite())
    }

    /// How many trials it takes until half of all studies have an interval of at most ± `within`. `None` without an
    /// interval, if figures are rounded more coarsely, or if [`MOST_TRIALS`] are not enough.
    pub(crate) fn trials_for(&self, within: f64, together: usize) -> Option<u32> {
        self.trials_until(within.ln_1p(), together)
    }

    /// How many trials it takes until half of all studies have an interval that excludes `line`, if this figure is the
    /// true one. More than there are. `None` as for [`Self::trials_for`].
    pub(crate) fn trials_to_exclude(&self, line: f64, together: usize) -> Option<u32> {
        let needed = self.trials_until((self.middle - line.ln()).abs(), together)?;
        Some(needed.max(self.trials as u32 + 1))
    }

    /// How many trials on each side it takes until the interval of their ratio excludes what differs by this share from the
    /// true one, in a share of `power` of all cases: (t + t') · s · √(2/n) ≤ ln(1 + change), with the quantiles of
    /// confidence and power at 2n − 2 degrees of freedom (Chow, Shao, Wang and Lokhnygina, *Sample Size Calculations in
    /// Clinical Research*, 2018, 3.2). `None` with a single trial, or if [`MOST_TRIALS`] are not enough.
    pub(crate) fn trials_of_each_side(&self, change: f64, power: f64) -> Option<u32> {
        let (_, degrees) = self.variance?;
        let noise = self.of_one()? / found_by_half(degrees);
        (2..=MOST_TRIALS).find(|n| {
            let (n, degrees) = (f64::from(*n), 2.0 * f64::from(*n) - 2.0);
            let reach = quantile(CONFIDENCE, degrees) + quantile(2.0 * power - 1.0, degrees);
            reach * noise * (2.0 / n).sqrt() <= change.ln_1p()
        })
    }

    /// How many trials it takes until half of all studies have an interval of at most so many logarithms either way.
    fn trials_until(&self, half: f64, together: usize) -> Option<u32> {
        let (_, degrees) = self.variance?;
        let confidence = CONFIDENCE.powf(1.0 / together.max(1) as f64);
        // The noise of one trial.
        let noise = self.of_one()? / found_by_half(degrees);
        // Degrees of freedom as many fewer than trials as here.
        let lost = self.trials as f64 - degrees;
        (2..=MOST_TRIALS).filter(|n| f64::from(*n) > lost && self.within <= half).find(|n| {
            let n = f64::from(*n);
            quantile(confidence, n - lost) * noise * found_by_half(n - lost) * self.of_mean(n).sqrt() <= half
        })
    }

    /// The variance of the mean of so many trials, relative to that of one.
    fn of_mean(&self, trials: f64) -> f64 {
        let Some(apart) = self.apart else { return 1.0 / trials + self.other };
        let alike = DEPENDENCE.powf(apart);
        let others: f64 = (1..trials as u32).map(|k| (1.0 - f64::from(k) / trials) * alike.powi(k as i32)).sum();
        (1.0 + 2.0 * others) / trials
    }

    /// Figures that are rounded, and differ by more than that, scatter around the true value like any others. If they
    /// differ by less, only the range to which they were rounded is known.
    fn half(&self, together: usize) -> Option<f64> {
        let (variance, degrees) = self.variance?;
        let confidence = CONFIDENCE.powf(1.0 / together.max(1) as f64);
        Some((quantile(confidence, degrees) * variance.sqrt()).max(self.within))
    }
}

/// Half of all studies find less than this share of their noise (Wilson and Hilferty 1931).
fn found_by_half(degrees: f64) -> f64 {
    (1.0 - 2.0 / (9.0 * degrees)).powf(1.5)
}

/// The correlation of two trials that follow each other, as the intervals of one configuration assume it.
pub(super) const DEPENDENCE: f64 = 0.5;

/// The figure of one trial, or the ratio of one round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Observed {
    /// When it was measured: the number of the trial among all trials of the run.
    pub at: u32,
    /// The figure; positive.
    pub value: f64,
    /// The true value lies from here …
    pub from: f64,
    /// … to here. Counters and histograms round, and a search ends between two rates.
    pub to: f64,
}

impl Observed {
    /// A figure without rounding.
    pub(crate) fn exactly(at: u32, value: f64) -> Self {
        Self { at, value, from: value, to: value }
    }

    fn over(self, base: Self) -> Self {
        let [value, from, to] = [self.value / base.value, self.from / base.to, self.to / base.from];
        Self { at: self.at, value, from, to }
    }
}

/// The geometric mean of a configuration's figures, with an interval on their logarithms. `None` if a figure is not
/// positive and finite, or if there are none.
///
/// Trials that follow each other resemble each other. An interval for independent trials would miss the true value in
/// up to 25 % of all studies instead of 5 %. So this one is for values whose correlation is [`DEPENDENCE`] to the power
/// of their distance: Student's t with the sum of squares of generalised least squares (Aitken 1936). If the trials are
/// in fact independent, it is wider than necessary.
pub(crate) fn mean_of_trials(figures: &[Observed]) -> Option<Uncertain> {
    let mut figures = figures.to_vec();
    figures.sort_by_key(|figure| figure.at);
    let distances: Vec<f64> = figures.windows(2).map(|two| f64::from((two[1].at - two[0].at).max(1))).collect();
    let apart = distances.iter().sum::<f64>() / distances.len().max(1) as f64;
    mean_of(&figures, |logs| dependent_spread(logs, &distances)).map(|mean| Uncertain { apart: Some(apart), ..mean })
}

/// The geometric mean of the figures of several runs, with Student's interval. Runs are independent.
pub(crate) fn mean_of_runs(figures: &[Observed]) -> Option<Uncertain> {
    mean_of(figures, spread)
}

/// The ratio `a / b` of two configurations that were measured in the same rounds, from one pair of figures for each
/// round: Student's interval on the logarithms of the rounds' ratios. `None` if a figure is not positive and finite.
///
/// Configurations run in shuffled order within each round. So a drift over rounds cancels, and a drift within a round
/// makes the interval wider, not wrong.
pub(crate) fn paired_ratio(pairs: &[(Observed, Observed)]) -> Option<Uncertain> {
    let ratios: Vec<Observed> = pairs.iter().map(|(a, b)| a.over(*b)).collect();
    pairs.iter().all(|(a, b)| a.value > 0.0 && b.value > 0.0).then(|| mean_of(&ratios, spread))?
}

/// The ratio `a / b` of two configurations that share no rounds, from one figure for each run of either: Student's
/// interval for two sets of values on logarithms (1908). How much runs differ by themselves is a property of the machine
/// and the study, and the same for both sides. Without several runs on both sides there is no interval: nothing shows
/// how much they differ.
pub(crate) fn ratio_of_runs(a: &[Observed], b: &[Observed]) -> Option<Uncertain> {
    let least = a.len().min(b.len());
    let ratio = Uncertain { trials: least, other: 0.0, ..ratio_to_known(a, b)? };
    Some(if least > 1 { ratio } else { ratio.without_interval() })
}

/// The same if the runs of `b` are many, and known to differ as much as those of `a` do. Of a single run `a` this is the
/// interval that predicts one more value: t · s · √(1 + 1/n) (Hahn and Meeker, *Statistical Intervals*, 1991, 4.2).
pub(crate) fn ratio_to_known(a: &[Observed], b: &[Observed]) -> Option<Uncertain> {
    let (a, b) = (Logs::of(a)?, Logs::of(b)?);
    let (na, nb) = (a.middles.len() as f64, b.middles.len() as f64);
    let degrees = na + nb - 2.0;
    // `spread` is that of a mean.
    let squares = |values: &[f64], n: f64| spread(values).map_or(0.0, |of_mean| of_mean * n * (n - 1.0));
    let of_one = (squares(&a.middles, na) + squares(&b.middles, nb)) / degrees;
    Some(Uncertain {
        value: (mean(&a.values) - mean(&b.values)).exp(),
        middle: mean(&a.middles) - mean(&b.middles),
        within: a.within + b.within,
        variance: (degrees > 0.0).then(|| (of_one * (1.0 / na + 1.0 / nb), degrees)),
        trials: a.values.len(),
        apart: None,
        other: 1.0 / nb,
    })
}

/// The geometric mean of figures. `spread` is the variance of the mean of their logarithms.
fn mean_of(figures: &[Observed], spread: impl Fn(&[f64]) -> Option<f64>) -> Option<Uncertain> {
    let logs = Logs::of(figures)?;
    // A single figure is returned unchanged. Its logarithm would change the last digits, sometimes even those that are
    // shown.
    let value = match *figures {
        [Observed { value, .. }] => value,
        _ => mean(&logs.values).exp(),
    };
    Some(Uncertain {
        value,
        middle: mean(&logs.middles),
        within: logs.within,
        variance: spread(&logs.middles).map(|variance| (variance, figures.len() as f64 - 1.0)),
        trials: figures.len(),
        apart: None,
        other: 0.0,
    })
}

/// Figures as logarithms.
struct Logs {
    values: Vec<f64>,
    /// The middles of the ranges in which the true values lie.
    middles: Vec<f64>,
    /// How far the true values may lie from the middles, on average.
    within: f64,
}

impl Logs {
    /// `None` if there are none, or if one is not positive and finite.
    fn of(figures: &[Observed]) -> Option<Self> {
        let values: Vec<f64> = figures.iter().map(|figure| figure.value.ln()).collect();
        let middles: Vec<f64> = figures.iter().map(|figure| f64::midpoint(figure.from.ln(), figure.to.ln())).collect();
        let within: Vec<f64> = figures.iter().map(|figure| (figure.to.ln() - figure.from.ln()) / 2.0).collect();
        let sound = !values.is_empty() && values.iter().all(|log| log.is_finite());
        sound.then(|| Self { within: mean(&within), values, middles })
    }
}

/// The arithmetic mean.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The variance of the mean. `None` for a single value.
pub(super) fn spread(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let mean = mean(values);
    (values.len() > 1).then(|| values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0) / n)
}

/// The variance of the mean of values whose correlation is [`DEPENDENCE`] to the power of their distance. `distances`
/// are those between neighbours. `None` for a single value.
fn dependent_spread(values: &[f64], distances: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let alike: Vec<f64> = distances.iter().map(|distance| DEPENDENCE.powf(*distance)).collect();
    // What a value adds to its predecessor is independent of all values before. So no matrix has to be inverted.
    let independent = |values: &[f64]| -> Vec<f64> {
        let added = |(two, alike): (&[f64], &f64)| (two[1] - alike * two[0]) / (1.0 - alike * alike).sqrt();
        values.first().copied().into_iter().chain(values.windows(2).zip(&alike).map(added)).collect()
    };
    let (ones, values) = (independent(&vec![1.0; values.len()]), independent(values));
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let middle = product(&ones, &values) / product(&ones, &ones);
    let squares: f64 = values.iter().zip(&ones).map(|(value, one)| (value - middle * one).powi(2)).sum();
    // The sum of all correlations: the variance of the sum of such values of variance 1.
    let mut correlations = n;
    for first in 0..alike.len() {
        let mut correlation = 1.0;
        for next in &alike[first..] {
            correlation *= next;
            correlations += 2.0 * correlation;
        }
    }
    (values.len() > 1).then(|| squares / (n - 1.0) * correlations / (n * n))
}

/// The two-sided quantile of Student's t, by the inverse of the incomplete beta function (Abramowitz and Stegun,
/// *Handbook of Mathematical Functions*, 26.5.27).
pub(super) fn quantile(confidence: f64, degrees: f64) -> f64 {
    // From here on it equals that of the normal distribution to five digits.
    const MANY: f64 = 1e5;
    let (a, b) = (degrees.min(MANY) / 2.0, 0.5_f64);
    let x = (1.0 - confidence).inv_inc_beta(a, b, a.ln_beta(b));
    (degrees.min(MANY) * (1.0 - x) / x).sqrt()
}

/// The interval of Clopper and Pearson (1934) for a share: so many successes of so many attempts that are independent.
pub(crate) fn share_of(succeeded: f64, attempts: f64) -> (f64, f64) {
    // More attempts change nothing that is shown.
    const MANY: f64 = 1e7;
    let (n, k) = (attempts.min(MANY), succeeded * attempts.min(MANY) / attempts.max(1.0));
    let edge = |share: f64, a: f64, b: f64| share.inv_inc_beta(a, b, a.ln_beta(b));
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let low = if k < 1.0 { 0.0 } else { edge(tail, k, n - k + 1.0) };
    let high = if n - k < 1.0 { 1.0 } else { edge(1.0 - tail, k + 1.0, n - k) };
    (low, high)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One trial after another.
    fn trials(figures: &[f64]) -> Vec<Observed> {
        figures.iter().zip(1..).map(|(value, at)| Observed::exactly(at, *value)).collect()
    }

    /// Pairs of rounds.
    fn rounds(pairs: impl IntoIterator<Item = (f64, f64)>) -> Vec<(Observed, Observed)> {
        let exactly = |(a, b)| (Observed::exactly(1, a), Observed::exactly(1, b));
        pairs.into_iter().map(exactly).collect()
    }

    #[test]
    fn one_figure_is_its_own_mean_to_the_last_digit() {
        for value in (1..2_000_u32).map(|n| f64::from(n) * 33_721.7) {
            let one = mean_of_trials(&trials(&[value])).unwrap().estimate(1);
            assert_eq!(one, Estimate { value, low: None, high: None, trials: 1 });
        }
        assert_eq!(
            (
                mean_of_trials(&trials(&[0.0])),
                mean_of_trials(&trials(&[-1.0])),
                mean_of_trials(&trials(&[f64::INFINITY]))
            ),
            (None, None, None)
        );
    }

    #[test]
    fn student_s_quantiles_are_those_of_the_tables() {
        // Fisher and Yates, Statistical Tables, table III.
        for (degrees, expected) in [(1.0, 12.706), (2.0, 4.303), (9.0, 2.262), (30.0, 2.042), (120.0, 1.980)] {
            assert!(
                (quantile(CONFIDENCE, degrees) - expected).abs() < 1e-3,
                "{degrees}: {}",
                quantile(CONFIDENCE, degrees)
            );
        }
        assert!((quantile(CONFIDENCE, 1e9) - 1.959_964).abs() < 1e-4, "{}", quantile(CONFIDENCE, 1e9));
    }

    #[test]
    fn student_s_quantiles_of_few_degrees_are_exact() {
        use std::f64::consts::PI;
        // In closed form.
        assert!(
            (quantile(CONFIDENCE, 1.0) / (PI * CONFIDENCE / 2.0).tan() - 1.0).abs() < 1e-9,
            "{}",
            quantile(CONFIDENCE, 1.0)
        );
        let two = 2.0 * (CONFIDENCE / 2.0) * (2.0 / (1.0 - CONFIDENCE.powi(2))).sqrt();
        assert!((quantile(CONFIDENCE, 2.0) / two - 1.0).abs() < 1e-9, "{}", quantile(CONFIDENCE, 2.0));
        let falls = (10..2_000).map(|tenth| quantile(CONFIDENCE, f64::from(tenth) / 10.0)).collect::<Vec<_>>();
        assert!(falls.is_sorted_by(|less, more| less > more));
    }

    #[test]
    fn shares_have_the_ends_of_the_published_tables() {
        // Clopper and Pearson 1934; of 0 and all in closed form.
        let near = |(low, high): (f64, f64), expected: (f64, f64)| {
            assert!((low - expected.0).abs() < 5e-4 && (high - expected.1).abs() < 5e-4, "{low} {high} {expected:?}");
        };
        near(share_of(5.0, 10.0), (0.187, 0.813));
        near(share_of(1.0, 20.0), (0.001, 0.249));
        near(share_of(0.0, 100.0), (0.0, 1.0 - 0.025_f64.powf(0.01)));
        near(share_of(100.0, 100.0), (0.025_f64.powf(0.01), 1.0));
        let (low, high) = share_of(0.999 * 1e9, 1e9);
        assert!(low < 0.999 && 0.999 < high && high - low < 1e-4, "{low} {high}");
    }

    #[test]
    fn a_ratio_of_rounds_that_drift_alike_has_no_width() {
        let pairs = rounds((1..=5).map(|round| (1.1 * f64::from(round), f64::from(round))));
        let ratio = paired_ratio(&pairs).unwrap().estimate(1);
        assert!((ratio.value - 1.1).abs() < 1e-12 && ratio.relative_half_width().unwrap() < 1e-9, "{ratio:?}");
        assert!(ratio.beyond(1.05) && ratio.beyond(1.2) && !ratio.beyond(ratio.value));
        // Without shared rounds, the drift cannot be recognised.
        let (a, b): (Vec<Observed>, Vec<Observed>) = pairs.into_iter().unzip();
        assert!(!ratio_of_runs(&a, &b).unwrap().estimate(1).beyond(1.0));
    }

    /// 4 known runs of mean 1, and standard deviation 0.1 as logarithms: t(3) = 3.182.
    #[test]
    fn one_more_run_is_predicted_from_known_ones() {
        let step = 0.1 * 0.75_f64.sqrt();
        let known = trials(&[step, -step, step, -step].map(f64::exp));
        let ratio = ratio_to_known(&trials(&[1.2]), &known).unwrap();
        let half = ratio.estimate(1).high.unwrap().ln() - 1.2_f64.ln();
        assert!((half - 3.182 * 0.1 * 1.25_f64.sqrt()).abs() < 1e-3, "{half}");
        // More runs of the new side decide, as far as the known ones allow.
        let runs = ratio.trials_to_exclude(1.0, 1).unwrap();
        let new = |n: usize| trials(&[1.2_f64.ln() + step, 1.2_f64.ln() - step].map(f64::exp).repeat(n.div_ceil(2)));
        assert!((2..=6).contains(&runs) && ratio_to_known(&new(8), &known).unwrap().estimate(1).beyond(1.0), "{runs}");
        assert_eq!(ratio.trials_to_exclude(1.19, 1), None);
        // Without the knowledge that both sides differ alike, a single run has no interval.
        assert_eq!(ratio_of_runs(&trials(&[1.2]), &known).unwrap().estimate(1).low, None);
        assert_eq!(ratio_to_known(&trials(&[1.2]), &known[..1]).unwrap().estimate(1).low, None);
    }

    #[test]
    fn one_trial_has_no_interval_and_what_is_not_positive_no_ratio() {
        let one = mean_of_trials(&trials(&[5.0])).unwrap().estimate(1);
        assert_eq!((one.value.round(), one.low, one.trials), (5.0, None, 1));
        assert!(!one.beyond(1.0));
        assert_eq!(mean_of_trials(&trials(&[])), None);
        assert_eq!(mean_of_trials(&trials(&[1.0, 0.0])), None);
        assert_eq!(paired_ratio(&rounds([(1.0, 0.0)])), None);
        assert_eq!(paired_ratio(&rounds([(-1.0, -1.0)])), None);
        assert_eq!(ratio_of_runs(&trials(&[1.0]), &trials(&[f64::NAN])), None);
    }

    proptest! {
        #[test]
        fn the_other_way_round_is_the_inverse(pairs in prop::collection::vec((0.1f64..1e6, 0.1f64..1e6), 2..12)) {
            let there = paired_ratio(&rounds(pairs.iter().copied())).unwrap().estimate(1);
            let back = paired_ratio(&rounds(pairs.iter().map(|(a, b)| (*b, *a)))).unwrap().estimate(1).inverse();
            prop_assert!((there.value / back.value - 1.0).abs() < 1e-9);
            prop_assert!((there.low.unwrap() / back.low.unwrap() - 1.0).abs() < 1e-6);
            prop_assert!(there.low <= Some(there.value) && Some(there.value) <= there.high);
        }
    }
}
