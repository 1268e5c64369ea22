//! Trials that are outliers in their configuration. They are shown and never left out.

/// The modified z-score above which a trial is an outlier: Iglewicz and Hoaglin, *How to Detect and Handle Outliers*,
/// 1993.
pub(crate) const OUTLYING: f64 = 3.5;
/// A smaller spread, as a share, is raised to this value: figures that are so close are equal.
const LEAST_SPREAD: f64 = 0.005;

/// The positions of outliers with their modified z-scores: the distances of their logarithms from the median, in median
/// absolute deviations. Logarithms, because rates and times differ by factors. Empty for fewer than five figures, and
/// if one of them is not positive and finite.
pub(crate) fn outlying(figures: &[f64]) -> Vec<(usize, f64)> {
    let logs: Vec<f64> = figures.iter().map(|figure| figure.ln()).collect();
    if logs.len() < 5 || logs.iter().any(|log| !log.is_finite()) {
        return Vec::new();
    }
    let middle = median(&logs);
    let deviations: Vec<f64> = logs.iter().map(|log| (log - middle).abs()).collect();
    let spread = median(&deviations).max(LEAST_SPREAD);
    let score = |log: &f64| 0.6745 * (log - middle) / spread;
    logs.iter().map(score).enumerate().filter(|(_, score)| score.abs() > OUTLYING).collect()
}

/// The median. Not a number if there are no values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_unlike_the_others_is_found_and_a_spread_is_not() {
        let found = outlying(&[100.0, 102.0, 99.0, 101.0, 40.0, 98.0]);
        assert_eq!(found.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [4]);
        assert!(found[0].1 < -OUTLYING);
        assert!(outlying(&[80.0, 90.0, 100.0, 110.0, 120.0]).is_empty());
    }

    #[test]
    fn few_trials_and_trials_that_agree_have_none() {
        assert!(outlying(&[1.0, 1.0, 1.0, 9.0]).is_empty());
        assert!(outlying(&[100.0, 100.0, 100.0, 100.0, 101.0]).is_empty());
        assert_eq!(outlying(&[100.0, 100.0, 100.0, 100.0, 200.0]).len(), 1);
        assert!(outlying(&[0.0; 6]).is_empty());
    }
}
