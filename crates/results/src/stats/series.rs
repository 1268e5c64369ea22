//! How many independent values the seconds of one run represent, and a band around their mean.

use storebench_documents::keys::Rng;

/// The number of resamples of a bootstrap.
const RESAMPLES: usize = 1_000;

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
    /// The effective sample size: how many independent values the series represents.
    pub effective_size: f64,
}

/// Computes a band with the stationary bootstrap of Politis and Romano (1994), which keeps neighbours together. Blocks
/// have random lengths: on average as long as one independent value lasts, and at least the cube root of the series'
/// length. The same `seed` gives the same band.
pub fn band(series: &[f64], seed: u64) -> Option<Band> {
    let n = series.len();
    if n < 2 || series.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let effective_size = effective_size(series);
    let mean_block = (n as f64 / effective_size).max((n as f64).cbrt()).min(n as f64);
    let mut random = Rng::new(seed);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let (mut at, mut sum) = (random.below(n as u64) as usize, 0.0);
            for _ in 0..n {
                sum += series[at];
                at = if random.unit() * mean_block < 1.0 { random.below(n as u64) as usize } else { (at + 1) % n };
            }
            sum / n as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let edge = |share: f64| means[((RESAMPLES as f64 * share) as usize).min(RESAMPLES - 1)];
    Some(Band { mean: series.iter().sum::<f64>() / n as f64, low: edge(0.025), high: edge(0.975), effective_size })
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
    fn the_band_covers_the_mean_of_a_series_that_remembers() {
        let covered = (0..200)
            .filter(|seed| {
                let band = band(&noise(*seed, 300, 0.6), 9).unwrap();
                band.low <= 0.0 && 0.0 <= band.high
            })
            .count();
        // Slightly less than 95 %, as always with a bootstrap of few independent values.
        assert!(covered >= 172, "{covered} of 200");
        assert_eq!(band(&[1.0], 1), None);
        assert_eq!(band(&noise(3, 100, 0.5), 4), band(&noise(3, 100, 0.5), 4));
    }
}
