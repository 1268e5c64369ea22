//! What is kept of many values in bounded memory: a sample of numbers, and counts of different values.

use crate::by_hash::ByHash;
use crate::random::{Rng, seed_of};

/// How many numbers a [`Reservoir`] keeps.
const KEPT: usize = 8_192;
/// How many different values are counted exactly. Beyond that, those with the lowest hashes are.
const COUNTED: usize = 16_384;
/// How many of the most frequent values stay counted whatever their hashes are.
const FREQUENT: usize = 64;

/// A uniform sample of numbers: algorithm L (Li 1994), which draws only for the numbers that it keeps.
#[derive(Debug, Clone)]
pub(super) struct Reservoir {
    kept: Vec<f64>,
    seen: u64,
    /// The next number to keep, counted from 1.
    next: u64,
    /// The greatest of as many uniform random numbers as are kept, if each number seen had one and the least are kept.
    greatest: f64,
    rng: Rng,
    /// The least and the greatest number of all.
    ends: (f64, f64),
}

impl Default for Reservoir {
    fn default() -> Self {
        let (rng, ends) = (Rng::of(seed_of("reservoir", 0), 0, 0), (f64::INFINITY, f64::NEG_INFINITY));
        Self { kept: Vec::new(), seen: 0, next: 0, greatest: 1.0, rng, ends }
    }
}

impl Reservoir {
    #[inline]
    pub(super) fn add(&mut self, number: f64) {
        self.seen += 1;
        self.ends = (self.ends.0.min(number), self.ends.1.max(number));
        if self.kept.len() < KEPT {
            self.kept.push(number);
            if self.kept.len() == KEPT {
                self.skip();
            }
        } else if self.seen == self.next {
            let place = self.rng.below(KEPT as u64) as usize;
            self.kept[place] = number;
            self.skip();
        }
    }

    /// Draws which number is kept next.
    #[cold]
    fn skip(&mut self) {
        self.greatest *= (self.rng.unit().max(f64::MIN_POSITIVE).ln() / KEPT as f64).exp();
        let skipped = self.rng.unit().max(f64::MIN_POSITIVE).ln() / (-self.greatest).ln_1p();
        self.next = self.seen.saturating_add(1).saturating_add(skipped as u64);
    }

    /// How many numbers were added.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    /// The least and the greatest of all numbers that were added.
    pub(super) fn ends(&self) -> (f64, f64) {
        self.ends
    }

    /// The sample, from the least to the greatest.
    pub(super) fn sorted(&self) -> Vec<f64> {
        let mut all = self.kept.clone();
        all.sort_by(f64::total_cmp);
        all
    }
}

/// A value that was counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Counted {
    pub(super) count: u64,
    /// Its number, or the length of its text.
    pub(super) number: f64,
}

/// Counts of different values, by their hashes. Up to [`COUNTED`] values all of them, from then on the values whose
/// hashes are lowest: a uniform sample of the values, each counted from the beginning (bottom-k sketch, Cohen 1997).
#[derive(Debug, Clone)]
pub(super) struct Values {
    counts: ByHash<Counted>,
    /// Values with greater hashes are not counted.
    bound: u64,
    /// The most frequent values at the time when not all could be counted any more.
    frequent: ByHash<Counted>,
    total: u64,
    /// The last value, and how often it came in a row: many documents repeat the value of the one before.
    last: Option<(u64, Counted)>,
}

impl Default for Values {
    fn default() -> Self {
        Self { counts: ByHash::default(), bound: u64::MAX, frequent: ByHash::default(), total: 0, last: None }
    }
}

impl Values {
    #[inline]
    pub(super) fn add(&mut self, hash: u64, number: f64) {
        self.total += 1;
        match &mut self.last {
            Some((last, of)) if *last == hash => of.count += 1,
            last => {
                if let Some((hash, of)) = last.replace((hash, Counted { count: 1, number })) {
                    self.count(hash, of);
                }
            }
        }
    }

    /// Counts what came last.
    pub(super) fn finish(&mut self) {
        if let Some((hash, of)) = self.last.take() {
            self.count(hash, of);
        }
    }

    fn count(&mut self, hash: u64, Counted { count, number }: Counted) {
        if !self.frequent.is_empty()
            && let Some(known) = self.frequent.get_mut(&hash)
        {
            known.count += count;
            return;
        }
        if hash > self.bound {
            return;
        }
        self.counts.entry(hash).or_insert(Counted { count: 0, number }).count += count;
        if self.counts.len() > COUNTED {
            if self.frequent.is_empty() {
                let mut all: Vec<(u64, Counted)> = self.counts.iter().map(|(hash, of)| (*hash, *of)).collect();
                // Of equally frequent ones those that are counted no more.
                all.sort_by_key(|(hash, of)| std::cmp::Reverse((of.count, *hash)));
                self.frequent = all.into_iter().take(FREQUENT).collect();
                self.counts.retain(|hash, _| !self.frequent.contains_key(hash));
            }
            self.bound /= 2;
            let bound = self.bound;
            self.counts.retain(|hash, _| *hash <= bound);
        }
    }

    /// How many values were added.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Whether every value was counted.
    pub(super) fn is_exact(&self) -> bool {
        self.bound == u64::MAX
    }

    /// The share of the values that are counted, beside the frequent ones.
    fn share(&self) -> f64 {
        if self.is_exact() { 1.0 } else { self.bound as f64 / u64::MAX as f64 }
    }

    /// The number of different values; an estimate unless it is exact.
    pub(super) fn distinct(&self) -> f64 {
        self.counts.len() as f64 / self.share() + self.frequent.len() as f64
    }

    /// What repeats, without values that are left out.
    pub(super) fn repeats(&self, left_out: &[Counted]) -> Repeats {
        let pairs = |count: u64| count as f64 * (count as f64 - 1.0);
        let all = |of: &ByHash<Counted>| of.values().map(|of| pairs(of.count)).sum::<f64>();
        let left: u64 = left_out.iter().map(|of| of.count).sum();
        let total = self.total.saturating_sub(left) as f64;
        let equal = all(&self.counts) / self.share() + all(&self.frequent)
            - left_out.iter().map(|of| pairs(of.count)).sum::<f64>();
        Repeats {
            total,
            distinct: (self.distinct() - left_out.len() as f64).max(1.0),
            collisions: if total < 2.0 { 0.0 } else { (equal / (total * (total - 1.0))).max(0.0) },
            top: self.by_count().get(left_out.len()).map_or(0.0, |of| of.count as f64 / total.max(1.0)),
        }
    }

    /// The counted values with their hashes, the most frequent first.
    pub(super) fn ranked(&self) -> Vec<(u64, Counted)> {
        let mut all: Vec<(u64, Counted)> =
            self.counts.iter().chain(&self.frequent).map(|(hash, of)| (*hash, *of)).collect();
        all.sort_by_key(|(hash, of)| (std::cmp::Reverse(of.count), *hash));
        all
    }

    /// The counted values, the most frequent first.
    pub(super) fn by_count(&self) -> Vec<Counted> {
        self.ranked().into_iter().map(|(_, of)| of).collect()
    }
}

/// How values repeat.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Repeats {
    pub(super) total: f64,
    /// Different values.
    pub(super) distinct: f64,
    /// The chance that two of them are equal.
    pub(super) collisions: f64,
    /// The share of the most frequent one.
    pub(super) top: f64,
}

/// The correlation of a number with the position of its document.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Trend {
    n: f64,
    means: (f64, f64),
    squares: (f64, f64),
    products: f64,
}

impl Trend {
    pub(super) fn add(&mut self, position: f64, number: f64) {
        self.n += 1.0;
        let (dx, dy) = (position - self.means.0, number - self.means.1);
        self.means.0 += dx / self.n;
        self.means.1 += dy / self.n;
        self.squares.0 += dx * (position - self.means.0);
        self.squares.1 += dy * (number - self.means.1);
        self.products += dx * (number - self.means.1);
    }

    /// From -1 to 1; 0 if either never changes.
    pub(super) fn correlation(&self) -> f64 {
        let under = (self.squares.0 * self.squares.1).sqrt();
        if under > 0.0 { self.products / under } else { 0.0 }
    }
}

/// A Zipf distribution with as many different values among `total` draws as were seen, and the same chance that two draws
/// are equal: the number of its values, and its exponent. Its most frequent value is not much more frequent than the one
/// that was seen, because values that follow no Zipf law would get one that stands out.
pub(super) fn fit_zipf(Repeats { total: n, distinct, collisions, top }: Repeats) -> (u64, f64) {
    let (mut low, mut high) = (0.0f64, 2.0f64);
    for _ in 0..30 {
        let s = (low + high) / 2.0;
        let zipf = Zipf::seen(n, distinct, s);
        if zipf.collisions() < collisions && 1.0 / zipf.norm <= TOP * top { low = s } else { high = s }
    }
    let s = (low + high) / 2.0;
    let s = if s < 0.02 { 0.0 } else { (s * 1_000.0).round() / 1_000.0 };
    (Zipf::seen(n, distinct, s).values.round() as u64, s)
}

/// How much more frequent the most frequent value may be than the one that was seen.
const TOP: f64 = 1.1;
/// Ranks beyond this are summed in bins.
const SINGLE: f64 = 128.0;
const BIN: f64 = 1.08;
const MOST_VALUES: f64 = 1e10;

struct Zipf {
    values: f64,
    s: f64,
    norm: f64,
}

impl Zipf {
    fn of(values: f64, s: f64) -> Self {
        let mut zipf = Self { values, s, norm: 1.0 };
        zipf.norm = zipf.sum(|p| p);
        zipf
    }

    /// The sum over all ranks of a function of their probability.
    fn sum(&self, of: impl Fn(f64) -> f64) -> f64 {
        let (mut sum, mut rank) = (0.0, 1.0f64);
        while rank <= self.values {
            let next = if rank < SINGLE { rank + 1.0 } else { (rank * BIN).min(self.values + 1.0) };
            let middle = if rank < SINGLE { rank } else { (rank * next).sqrt() };
            sum += (next - rank) * of(middle.powf(-self.s) / self.norm);
            rank = next;
        }
        sum
    }

    fn collisions(&self) -> f64 {
        self.sum(|p| p * p)
    }

    /// The one with this exponent whose `n` draws have this many different values.
    fn seen(n: f64, distinct: f64, s: f64) -> Self {
        let (mut low, mut high) = (distinct.max(1.0).ln(), MOST_VALUES.ln());
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            let zipf = Self::of(middle.exp(), s);
            // Of n draws, 1 - (1 - p)^n is the chance that a value is among them.
            let seen = zipf.sum(|p| -(n * (-p.min(1.0 - 1e-12)).ln_1p()).exp_m1());
            if seen < distinct { low = middle } else { high = middle }
        }
        Self::of(low.exp().max(1.0), s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picker::Picker;
    use storebench_study::workload::Popularity;

    #[test]
    fn values_are_counted_exactly_and_then_estimated() {
        for (different, draws) in [(100u64, 10_000u64), (16_000, 100_000), (300_000, 900_000)] {
            let mut values = Values::default();
            for i in 0..draws {
                let value = i % different;
                values.add(seed_of("value", value), value as f64);
            }
            values.finish();
            let off = values.distinct() / different as f64;
            assert_eq!(values.is_exact(), different < 16_384);
            assert!((off - 1.0).abs() < if values.is_exact() { 1e-9 } else { 0.04 }, "{different}: {off}");
            assert_eq!(values.total(), draws);
            let expected = 1.0 / different as f64;
            let found = values.repeats(&[]).collisions;
            assert!((found / expected - 1.0).abs() < 0.5, "{different}: {found}");
        }
    }

    #[test]
    fn the_most_frequent_values_stay_counted() {
        let mut values = Values::default();
        for i in 0..200_000u64 {
            let value = if i % 10 == 0 { 0 } else { i };
            values.add(seed_of("value", value), value as f64);
        }
        values.finish();
        assert_eq!(values.by_count()[0], Counted { count: 20_000, number: 0.0 });
        let found = values.repeats(&[]).collisions;
        assert!((found / 0.01 - 1.0).abs() < 0.01, "{found}");
        let rest = values.repeats(&values.by_count()[..1]);
        assert_eq!(rest.total, 180_000.0);
        assert!(rest.collisions < 1e-6, "{rest:?}");
    }

    #[test]
    fn a_zipf_distribution_is_found_again() {
        for (values, s, draws) in
            [(5_000u64, 0.0, 50_000u64), (5_000, 0.8, 50_000), (20_000, 1.1, 40_000), (400, 0.5, 9_000)]
        {
            let picker = Picker::new(if s == 0.0 { Popularity::Uniform } else { Popularity::Zipf(s) }, values, 7);
            let mut seen = Values::default();
            for i in 0..draws {
                let value = picker.pick(i, &mut Rng::of(3, i, 0));
                seen.add(seed_of("value", value), 0.0);
            }
            seen.finish();
            let (pool, found) = fit_zipf(seen.repeats(&[]));
            assert!((found - s).abs() < 0.1, "{values} by {s}: found {found}");
            let ratio = pool as f64 / values as f64;
            assert!((0.7..1.4).contains(&ratio), "{values} by {s}: found {pool} by {found}");
        }
    }

    #[test]
    fn a_trend_is_a_correlation() {
        let (mut rising, mut noisy, mut level) = (Trend::default(), Trend::default(), Trend::default());
        let mut rng = Rng::of(1, 2, 3);
        for i in 0..1_000u32 {
            rising.add(i.into(), f64::from(i) * 3.0 + 5.0);
            noisy.add(i.into(), rng.unit());
            level.add(i.into(), 4.0);
        }
        assert!((rising.correlation() - 1.0).abs() < 1e-9);
        assert!(noisy.correlation().abs() < 0.15);
        assert_eq!(level.correlation(), 0.0);
    }

    #[test]
    fn a_reservoir_is_a_sample_of_all() {
        let mut reservoir = Reservoir::default();
        (0..100_000).for_each(|i| reservoir.add(f64::from(i)));
        let all = reservoir.sorted();
        assert_eq!(all.len(), KEPT);
        assert!((all[KEPT / 2] - 50_000.0).abs() < 3_000.0, "{}", all[KEPT / 2]);
    }
}
