//! How many independent values the seconds of one run represent, and a band around their mean.

use super::interval::{CONFIDENCE, mean, quantile, spread};

/// The effective sample size of a series: n / (1 + 2 Σ ρ(k)), where the sum ends before the first pair ρ(2m) + ρ(2m+1)
/// that is not positive (Geyer, *Practical Markov Chain Monte Carlo*, 1992). Between 1 and n; n for a constant series.
pub(crate) fn effective_size(series: &[f64]) -> f64 {
    let n = series.len();
    if n < 4 {
        return n as f64;
    }
    let mean = series.iter().sum::<f64>() / n as f64;
    let covariance = |lag: usize| -> f64 {
        series.iter().zip(&series[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / n as f64
    };
    let variance = covariance(0);
    if variance <= f64::EPSILON * mean * mean {
        return n as f64;
    }
    // Pairs (0, 1), (2, 3), …: for a reversible chain the sum of each is positive.
    let mut sum = 0.0;
    let mut lag = 0;
    while lag + 1 < n {
        let pair = (covariance(lag) + covariance(lag + 1)) / variance;
        if pair <= 0.0 {
            break;
        }
        sum += pair;
        lag += 2;
    }
    (n as f64 / (2.0 * sum - 1.0).max(1.0)).clamp(1.0, n as f64)
}

/// A 95 % band around the mean of a series. It is for charts only and says nothing about another run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// The mean.
    pub mean: f64,
    /// Its lower edge.
    pub low: f64,
    /// Its upper edge.
    pub high: f64,
}

/// The fewest values of a band. Fewer cannot show how long they resemble each other.
const FEWEST_OF_A_BAND: usize = 30;

/// Computes a band from the means of a few parts of equal length (Schmeiser, *Batch Size Effects in the Analysis of
/// Simulation Output*, 1982): each part lasts much longer than values resemble each other, so the means are nearly
/// independent, and the band is Student's interval of them. `None` for fewer than 30 values.
pub fn band(series: &[f64]) -> Option<Band> {
    let n = series.len();
    if n < FEWEST_OF_A_BAND || series.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let parts = (n / 50).clamp(4, 8);
    // The first values are in no part if they do not fit.
    let means: Vec<f64> = series.rchunks_exact(n / parts).take(parts).map(mean).collect();
    let (mean, degrees) = (mean(series), parts as f64 - 1.0);
    let half = quantile(CONFIDENCE, degrees) * spread(&means)?.sqrt();
    Some(Band { mean, low: mean - half, high: mean + half })
}

#[cfg(test)]
mod tests {
    use super::super::simulated::noise;
    use super::*;

    #[test]
    fn a_series_that_remembers_is_worth_fewer_values() {
        let white = effective_size(&noise(1, 2_000, 0.0));
        assert!((1_600.0..=2_000.0).contains(&white), "{white}");
        // An AR(1) with φ is worth n (1 - φ) / (1 + φ).
        let red = effective_size(&noise(2, 4_000, 0.8));
        assert!((300.0..650.0).contains(&red), "{red}, expected about 444");
        assert!((effective_size(&[7.0; 50]) - 50.0).abs() < 1e-9);
        assert!((effective_size(&[1.0, 2.0]) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_short_series_has_no_band() {
        assert_eq!((band(&[1.0]), band(&[1.0; 29])), (None, None));
        let even = band(&[7.0; 30]).unwrap();
        assert_eq!((even.mean, even.low, even.high), (7.0, 7.0, 7.0));
    }
}
