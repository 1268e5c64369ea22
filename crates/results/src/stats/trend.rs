//! Whether figures rise or fall over the rounds of a study.

use super::interval::{DEPENDENCE, quantile};

/// The confidence with which a trend must be there.
const SURE: f64 = 0.99;
/// The fewest rounds that can show a trend.
pub(crate) const LEAST_ROUNDS: usize = 5;

/// The ratio of the last round to the first on the line through all logarithms (least squares), if the line certainly
/// rises or falls. Rounds resemble the round before, which widens the error of the slope by √((1 + φ) / (1 − φ)) with the
/// correlation φ that intervals assume. `None` if there is no such trend, or with fewer than five rounds.
pub(crate) fn trend(logarithms: &[f64]) -> Option<f64> {
    let rounds = logarithms.len();
    if rounds < LEAST_ROUNDS {
        return None;
    }
    let n = rounds as f64;
    let (middle, mean) = ((n - 1.0) / 2.0, logarithms.iter().sum::<f64>() / n);
    let at = |round: usize| round as f64 - middle;
    let spread: f64 = (0..rounds).map(|round| at(round).powi(2)).sum();
    let slope = logarithms.iter().enumerate().map(|(round, y)| at(round) * (y - mean)).sum::<f64>() / spread;
    let rest: f64 =
        logarithms.iter().enumerate().map(|(round, y)| (y - mean - slope * at(round)).powi(2)).sum::<f64>() / (n - 2.0);
    let error = (rest / spread * (1.0 + DEPENDENCE) / (1.0 - DEPENDENCE)).sqrt();
    (slope.abs() > quantile(SURE, n - 2.0) * error).then(|| (slope * (n - 1.0)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::simulated::noise;

    /// How many of 1,000 studies of so many rounds show a trend, if the machine slows down by this share.
    fn found(rounds: usize, drift: f64) -> usize {
        let study = |seed: u64| {
            let noise = noise(seed, rounds, 0.5);
            let values: Vec<f64> =
                (0..rounds).map(|n| 0.03 * noise[n] - drift * n as f64 / (rounds - 1) as f64).collect();
            trend(&values).is_some()
        };
        (0..1_000).filter(|seed| study(*seed)).count()
    }

    #[test]
    fn a_trend_is_found_and_noise_is_none() {
        for rounds in [5, 10, 20] {
            let none = found(rounds, 0.0);
            assert!(none <= 50, "{none} of 1,000 studies of {rounds} rounds without a trend");
        }
        assert!(found(10, 0.3) > 800, "{}", found(10, 0.3));
        assert!(found(20, 0.2) > 800, "{}", found(20, 0.2));
        let line: Vec<f64> = (0..6).map(|n| -0.02 * f64::from(n)).collect();
        assert!((trend(&line).unwrap() - (-0.1f64).exp()).abs() < 1e-9);
        assert_eq!((trend(&line[..4]), trend(&[7.0; 6])), (None, None));
    }
}
