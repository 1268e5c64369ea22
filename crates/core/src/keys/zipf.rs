//! Ranks by Zipf's law.

use super::{KeyError, MAX_KEYS, Rng};

/// Zipf's law over `n` ranks: rank `r` (from 0) is drawn with a probability proportional to
/// `(r + 1)^-exponent`. Exponent 0 is uniform.
///
/// Drawn by rejection-inversion: constant memory, a constant expected cost for any `n` up to 2^53
/// and any exponent from 0 to 2, 1 included. Floating point has 53 bits, so with more than about
/// 2^45 ranks a single rank far down may be drawn a few places off; the law as a whole holds.
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
    /// The ends of the range inverted over: H(1.5) − 1 and H(n + 0.5).
    low: f64,
    high: f64,
    /// A rank at most this far above the point inverted to is taken without a further look.
    sure: f64,
}

impl Zipf {
    /// The law over `n` ranks (1 to 2^53) with this exponent (0 to 2).
    ///
    /// # Errors
    /// [`KeyError::Count`] or [`KeyError::Exponent`] when one is outside of its range.
    pub fn new(n: u64, exponent: f64) -> Result<Self, KeyError> {
        if n == 0 || n > MAX_KEYS {
            return Err(KeyError::Count { count: n });
        }
        if !(0.0..=2.0).contains(&exponent) {
            return Err(KeyError::Exponent { exponent });
        }
        let one_minus = 1.0 - exponent;
        let mut zipf =
            Self { n, exponent, one_minus, inverse_one_minus: 1.0 / one_minus, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.sure = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf.high = zipf.integral(n as f64 + 0.5);
        Ok(zipf)
    }

    /// How many ranks there are.
    pub fn len(&self) -> u64 {
        self.n
    }

    /// Never: there is at least one rank.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The exponent.
    pub fn exponent(&self) -> f64 {
        self.exponent
    }

    /// The same law over another number of ranks, at the cost of about one draw. A number outside
    /// of 1 to 2^53 is taken as the nearer end.
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
        // `ln_1p` costs twice a `ln`, and differs from it only when the exponent is close to 1.
        let ln = if self.one_minus.abs() < 1e-3 { t.ln_1p() } else { (1.0 + t).ln() };
        (ln * self.inverse_one_minus).exp()
    }
}
