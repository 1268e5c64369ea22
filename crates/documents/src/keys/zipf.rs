//! Ranks by Zipf's law.

use super::{KeyError, MAX_KEYS, Rng};

/// Zipf's law over `n` ranks: rank `r` (from 0) is drawn with a probability proportional to
/// `(r + 1)^-exponent`. Exponent 0 is uniform.
///
/// Uses rejection-inversion: constant memory, and a constant expected cost for any `n` up to 2^53 and any exponent from
/// 0 to 2, including 1. Floating point has 53 bits, so with more than about 2^45 ranks an unpopular rank may be drawn a
/// few places off; the distribution as a whole is correct. The logarithm and the power come from the platform. So the
/// same seed draws the same ranks on one platform, but a rare draw may differ on another.
///
/// Source: Hörmann and Derflinger, *Rejection-inversion to generate variates from monotone discrete
/// distributions*, ACM TOMACS 6(3), 1996.
#[derive(Debug, Clone, PartialEq)]
pub struct Zipf {
    n: u64,
    exponent: f64,
    /// 1 − exponent, and 1 over that (infinite for exponent 1, where it is not used).
    one_minus: f64,
    inverse_one_minus: f64,
    /// The ends of the range that is inverted: H(1.5) − 1 and H(n + 0.5).
    low: f64,
    high: f64,
    /// A rank at most this far above the inverted point is accepted without a further test.
    sure: f64,
}

impl Zipf {
    /// The law over `n` ranks (1 to 2^53) with this exponent (0 to 2).
    ///
    /// # Errors
    /// [`KeyError::Count`] or [`KeyError::Exponent`] if one is outside of its range.
    pub fn new(n: u64, exponent: f64) -> Result<Self, KeyError> {
        if n == 0 || n > MAX_KEYS {
            return Err(KeyError::Count { count: n });
        }
        if !(0.0..=2.0).contains(&exponent) {
            return Err(KeyError::Exponent { exponent });
        }
        Ok(Self::within(n, exponent))
    }

    /// As [`Self::new`], with numbers outside of their ranges clamped.
    pub(crate) fn within(n: u64, exponent: f64) -> Self {
        let (n, exponent) = (n.clamp(1, MAX_KEYS), exponent.clamp(0.0, 2.0));
        let one_minus = 1.0 - exponent;
        let mut zipf =
            Self { n, exponent, one_minus, inverse_one_minus: 1.0 / one_minus, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.sure = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf.high = zipf.integral(n as f64 + 0.5);
        zipf
    }

    /// How many ranks there are.
    pub(super) fn len(&self) -> u64 {
        self.n
    }

    /// Changes the number of ranks, at the cost of about one draw. A number outside of 1 to 2^53 is clamped.
    pub fn resize(&mut self, n: u64) {
        self.n = n.clamp(1, MAX_KEYS);
        self.high = self.integral(self.n as f64 + 0.5);
    }

    /// Draws a rank: 0, the most popular, to `n − 1`.
    #[inline]
    pub fn sample(&self, rng: &mut Rng) -> u64 {
        if self.exponent == 0.0 {
            return rng.below(self.n);
        }
        loop {
            // From `high` (included) down to `low` (not included), as in the paper.
            let u = self.high + rng.unit() * (self.low - self.high);
            let x = self.integral_inverse(u);
            // A cast saturates, so a rounding error beyond either end stays within 1..=n.
            let rank = ((x + 0.5) as u64).clamp(1, self.n);
            let k = rank as f64;
            if k - x <= self.sure || u >= self.integral(k + 0.5) - self.density(k) {
                return rank - 1;
            }
        }
    }

    /// h(x) = x^−s.
    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// H(x), an integral of h: (x^(1−s) − 1) / (1−s), and ln x for s = 1.
    fn integral(&self, x: f64) -> f64 {
        let ln = x.ln();
        if self.one_minus == 0.0 { ln } else { (self.one_minus * ln).exp_m1() / self.one_minus }
    }

    /// The x with H(x) = u.
    #[inline]
    fn integral_inverse(&self, u: f64) -> f64 {
        if self.one_minus == 0.0 {
            return u.exp();
        }
        let t = u * self.one_minus;
        // `ln_1p` costs twice as much as `ln`, and differs from it only if the exponent is close to 1.
        let ln = if self.one_minus.abs() < 1e-3 { t.ln_1p() } else { (1.0 + t).ln() };
        (ln * self.inverse_one_minus).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::fit::chi_square_z;

    /// The exact probabilities of the ranks.
    fn exact(n: u64, exponent: f64) -> Vec<f64> {
        let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-exponent)).collect();
        let sum: f64 = weights.iter().rev().sum();
        weights.iter().map(|w| w / sum).collect()
    }

    /// Σ k^-s for k = 1..=n, by summing the first terms and using the Euler-Maclaurin formula for the rest. Accurate to
    /// about 1e-12.
    fn harmonic(n: u64, s: f64) -> f64 {
        let direct = n.min(1_000);
        let head: f64 = (1..=direct).rev().map(|k| (k as f64).powf(-s)).sum();
        if direct == n {
            return head;
        }
        let (a, b) = (direct as f64, n as f64);
        let integral = if s == 1.0 { (b / a).ln() } else { (b.powf(1.0 - s) - a.powf(1.0 - s)) / (1.0 - s) };
        let slope = |x: f64| -s * x.powf(-s - 1.0);
        head + integral + (b.powf(-s) - a.powf(-s)) / 2.0 + (slope(b) - slope(a)) / 12.0
    }

    #[test]
    fn small_laws_fit_exactly() {
        for exponent in [0.0, 0.5, 0.99, 0.9999, 1.0, 1.0001, 1.5, 2.0] {
            for n in [1, 2, 3, 10, 1_000] {
                let zipf = Zipf::new(n, exponent).unwrap();
                let mut rng = Rng::stream(11, n);
                let mut counts = vec![0; n as usize];
                for _ in 0..400_000 {
                    counts[zipf.sample(&mut rng) as usize] += 1;
                }
                if n > 1 {
                    let z = chi_square_z(&counts, &exact(n, exponent));
                    assert!(z < 3.7, "exponent {exponent}, n {n}: {z}");
                }
            }
        }
    }

    #[test]
    fn tails_of_a_billion_fit() {
        let n = 1_000_000_000;
        let ends = [1, 2, 5, 20, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 500_000_000, n];
        for exponent in [0.0, 0.5, 0.99, 0.9999, 1.0, 1.5, 2.0] {
            let sums: Vec<f64> = ends.iter().map(|&end| harmonic(end, exponent) / harmonic(n, exponent)).collect();
            let cells: Vec<f64> = std::iter::once(0.0).chain(sums.iter().copied()).collect();
            let probabilities: Vec<f64> = cells.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let zipf = Zipf::new(n, exponent).unwrap();
            let mut rng = Rng::new(12);
            let mut counts = vec![0; ends.len()];
            for _ in 0..1_000_000 {
                let rank = zipf.sample(&mut rng);
                counts[ends.partition_point(|&end| end <= rank)] += 1;
            }
            // From the tail, so that cells with few draws are merged towards the head.
            let (counts, probabilities): (Vec<u64>, Vec<f64>) = counts.into_iter().zip(probabilities).rev().unzip();
            let z = chi_square_z(&counts, &probabilities);
            assert!(z < 3.7, "exponent {exponent}: {z}");
        }
    }

    #[test]
    fn the_largest_law_stays_within_its_ranks() {
        for exponent in [0.0, 1e-9, 0.5, 1.0 - 1e-15, 1.0, 1.0 + 1e-15, 2.0] {
            let zipf = Zipf::new(MAX_KEYS, exponent).unwrap();
            let mut rng = Rng::new(13);
            assert!((0..100_000).all(|_| zipf.sample(&mut rng) < MAX_KEYS), "{exponent}");
        }
    }

    #[test]
    fn resized_is_as_new() {
        let mut zipf = Zipf::new(10, 0.99).unwrap();
        zipf.resize(5_000);
        assert_eq!(zipf, Zipf::new(5_000, 0.99).unwrap());
        zipf.resize(0);
        assert_eq!(zipf.len(), 1);
        assert_eq!(zipf.sample(&mut Rng::new(1)), 0);
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert_eq!(Zipf::new(0, 1.0), Err(KeyError::Count { count: 0 }));
        assert_eq!(Zipf::new(MAX_KEYS + 1, 1.0), Err(KeyError::Count { count: MAX_KEYS + 1 }));
        for exponent in [-0.1, 2.1, f64::INFINITY, f64::NAN] {
            assert!(matches!(Zipf::new(10, exponent), Err(KeyError::Exponent { .. })), "{exponent}");
        }
    }
}
