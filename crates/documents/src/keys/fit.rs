//! Goodness-of-fit statistics, for the tests of random numbers.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

/// The same probability for each of `cells` cells.
pub(crate) fn even(cells: usize) -> Vec<f64> {
    vec![1.0 / cells as f64; cells]
}

/// How many standard deviations Pearson's χ² of the counts lies above its expected value, by the normal approximation
/// of Wilson and Hilferty (1931). Cells expected to hold fewer than 10 are merged with the next ones. Under the correct
/// distribution, the result exceeds 3.7 once in 10,000 times.
pub(crate) fn chi_square_z(counts: &[u64], probabilities: &[f64]) -> f64 {
    assert_eq!(counts.len(), probabilities.len());
    let total = counts.iter().sum::<u64>() as f64;
    let sum: f64 = probabilities.iter().sum();
    assert!((sum - 1.0).abs() < 1e-9, "probabilities add up to {sum}");
    let mut cells: Vec<(f64, f64)> = vec![(0.0, 0.0)];
    for (&count, &probability) in counts.iter().zip(probabilities) {
        let last = cells.last_mut().unwrap();
        last.0 += count as f64;
        last.1 += probability * total;
        if last.1 >= 10.0 {
            cells.push((0.0, 0.0));
        }
    }
    let (count, expected) = cells.pop().unwrap();
    let last = cells.last_mut().expect("enough draws for a cell");
    (last.0, last.1) = (last.0 + count, last.1 + expected);
    let degrees = cells.len() as f64 - 1.0;
    let chi_square: f64 = cells.iter().map(|(count, expected)| (count - expected).powi(2) / expected).sum();
    let spread = 2.0 / (9.0 * degrees);
    ((chi_square / degrees).cbrt() - (1.0 - spread)) / spread.sqrt()
}

/// The Kolmogorov-Smirnov statistic times the square root of the number of samples. Under the correct distribution, it
/// exceeds 1.95 once in 1,000 times.
pub(crate) fn kolmogorov_smirnov(samples: &mut [f64], cdf: impl Fn(f64) -> f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let n = samples.len() as f64;
    let gap = samples.iter().enumerate().map(|(i, &x)| {
        let p = cdf(x);
        (p - i as f64 / n).max((i + 1) as f64 / n - p)
    });
    gap.fold(0.0, f64::max) * n.sqrt()
}
