//! Picks the document of another collection that a reference points to, by popularity, in constant memory.

use super::random::{Permutation, Random};
use storebench_study::workload::Popularity;

/// A popularity over the documents of one collection.
#[derive(Debug, Clone)]
pub(crate) struct Picker {
    popularity: Popularity,
    n: u64,
    scatter: Permutation,
    seed: u64,
    zipf: Zipf,
}

impl Picker {
    /// `seed` scatters the popular documents. It is the same for all references to one collection.
    pub(crate) fn new(popularity: Popularity, n: u64, seed: u64) -> Self {
        Self { popularity, n, scatter: Permutation::new(n, seed), seed, zipf: Zipf::new(exponent(popularity), n) }
    }

    /// An index below the collection's count. `index` is the referring document.
    #[inline]
    pub(crate) fn pick(&self, index: u64, rng: &mut Random) -> u64 {
        rank(self.popularity, self.n, &self.scatter, &self.zipf, index, rng)
    }

    /// An index below `n`, for the siblings of one parent. 0 when `n` is 0.
    pub(crate) fn pick_of(&self, n: u64, index: u64, rng: &mut Random) -> u64 {
        if n < 2 {
            return 0;
        }
        let zipf = Zipf::new(exponent(self.popularity), n);
        rank(self.popularity, n, &Permutation::new(n, self.seed), &zipf, index, rng)
    }
}

fn exponent(popularity: Popularity) -> f64 {
    match popularity {
        Popularity::Zipf(s) | Popularity::Latest(s) => s,
        _ => 0.0,
    }
}

fn rank(popularity: Popularity, n: u64, scatter: &Permutation, zipf: &Zipf, index: u64, rng: &mut Random) -> u64 {
    let hot = |keys: f64, operations: f64, rng: &mut Random| {
        let hot = ((n as f64 * keys) as u64).clamp(1, n);
        if hot == n || rng.unit() < operations { rng.below(hot) } else { hot + rng.below(n - hot) }
    };
    match popularity {
        Popularity::Uniform => rng.below(n),
        Popularity::Sequential => index % n.max(1),
        Popularity::Zipf(_) => scatter.forward(zipf.draw(rng)),
        Popularity::Latest(_) => n.saturating_sub(1) - zipf.draw(rng),
        Popularity::Hotspot { keys, operations } => hot(keys, operations, rng),
        Popularity::WorkingSet { keys, operations } => scatter.forward(hot(keys, operations, rng)),
    }
}

/// Zipf's law over 0..n by rejection-inversion (W. Hörmann and G. Derflinger, "Rejection-inversion
/// to generate variates from monotone discrete distributions", 1996).
#[derive(Debug, Clone, Copy)]
struct Zipf {
    s: f64,
    n: u64,
    begin: f64,
    end: f64,
    squeeze: f64,
}

impl Zipf {
    fn new(s: f64, n: u64) -> Self {
        let mut zipf = Self { s, n, begin: 0.0, end: 0.0, squeeze: 0.0 };
        zipf.begin = zipf.integral(1.5) - 1.0;
        zipf.end = zipf.integral(n as f64 + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - 2f64.powf(-s));
        zipf
    }

    /// The integral of x^-s, with the logarithm as its limit at s = 1.
    fn integral(&self, x: f64) -> f64 {
        let t = (1.0 - self.s) * x.ln();
        if t.abs() < 1e-8 { x.ln() * (1.0 + t / 2.0) } else { t.exp_m1() / (1.0 - self.s) }
    }

    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.s)).max(-1.0);
        if t.abs() < 1e-8 { (y * (1.0 - t / 2.0)).exp() } else { (t.ln_1p() / (1.0 - self.s)).exp() }
    }

    fn draw(&self, rng: &mut Random) -> u64 {
        if self.n < 2 {
            return 0;
        }
        if self.s == 0.0 {
            return rng.below(self.n);
        }
        loop {
            let u = self.end + rng.unit() * (self.begin - self.end);
            let x = self.inverse(u);
            let k = (x + 0.5).clamp(1.0, self.n as f64).floor();
            if k - x <= self.squeeze || u >= self.integral(k + 0.5) - k.powf(-self.s) {
                return (k as u64 - 1).min(self.n - 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_fits_its_law() {
        for s in [0.0, 0.5, 0.99, 1.0, 1.5, 2.0] {
            let zipf = Zipf::new(s, 50);
            let total: f64 = (1..=50).map(|k| f64::from(k).powf(-s)).sum();
            let mut cells = [0f64; 50];
            let draws = 200_000u64;
            for i in 0..draws {
                cells[zipf.draw(&mut Random::new(5, i, 0)) as usize] += 1.0;
            }
            // 49 degrees of freedom: below 86 in all but 0.1 % of seeds.
            let chi: f64 = (0..50)
                .map(|k| {
                    let expected = draws as f64 * ((k + 1) as f64).powf(-s) / total;
                    (cells[k] - expected).powi(2) / expected
                })
                .sum();
            assert!(chi < 86.0, "s = {s}: {chi}");
        }
    }

    #[test]
    fn every_popularity_stays_within() {
        for text in ["uniform", "zipf:1", "latest:0.99", "sequential", "hotspot:10%:90%", "working-set:20%:80%"] {
            for n in [1u64, 2, 7, 1_000] {
                let picker = Picker::new(text.parse().unwrap(), n, 3);
                let mut rng = Random::new(1, 2, 3);
                for i in 0..200 {
                    assert!(picker.pick(i, &mut rng) < n);
                    assert!(picker.pick_of(n, i, &mut rng) < n);
                }
            }
        }
    }
}
