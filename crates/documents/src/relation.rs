//! Maps children to parents and back, by arithmetic alone.
//!
//! Parents are ranked by their number of children, most first, in runs of parents with equally many. A run is four
//! numbers. So child → (parent, seq) and parent → children take a binary search over at most some hundreds of runs, and
//! one division. A seeded permutation that belongs to the parent collection scatters the ranks over the parents. So a
//! parent with the most children of one kind has the most of every kind, and a parent with children of the rarer kind
//! also has children of the other.

use super::error::DocumentError;
use super::keys::Permutation;
use super::shares::Shares;
use storebench_study::mix64;
use storebench_study::units::Count;
use storebench_study::workload::{Bin, FanOut};

/// Integers up to this are exact in every JSON parser.
const EXACT: u64 = 1 << 53;
/// Separates the order in which parents are drawn from the order by number of children.
const DRAWN: u64 = 0x6472_6177_6e2d_7061;

/// `parents` parents with `fan_out` children each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first_rank: u64,
    first_child: u64,
    fan_out: u64,
    parents: u64,
}

/// The collection of a relation's parents.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parents {
    /// Its position.
    pub(crate) collection: usize,
    /// How many documents it has.
    pub(crate) count: u64,
    /// How many the study describes. With a scale, this differs from `count`.
    pub(crate) written: u64,
    /// Its seed.
    pub(crate) seed: u64,
}

/// A relation between a collection and its parents.
#[derive(Debug, Clone)]
pub(crate) struct Relation {
    /// Position of the parent collection.
    pub(crate) parent_collection: usize,
    /// Total number of children.
    pub(crate) children: u64,
    /// Parents that have at least one child.
    pub(crate) parents: u64,
    /// The most children of one parent.
    pub(crate) most: u64,
    runs: Vec<Run>,
    scatter: Permutation,
    drawn: Permutation,
}

impl Relation {
    /// Bins and their total are as in the study. They are scaled to the actual number of parents.
    pub(crate) fn new(fan_out: &FanOut, parents: Parents, path: &str) -> Result<Self, DocumentError> {
        let wrong = |message: String| DocumentError::new(path, message);
        let shares = |bins: &[Bin]| Shares::new(bins, parents.count, parents.written, parents.seed);
        let mut groups = match fan_out {
            FanOut::Uniform(range) => {
                let below = range.max.saturating_add(1);
                shares(&[Bin { least: range.min, below, parents: parents.written }]).spread(0.0)
            }
            FanOut::Bins { bins, total } => {
                if bins.iter().any(|b| b.least >= b.below || b.below > EXACT || b.parents > EXACT) {
                    return Err(wrong(
                        "the numbers of a bin must be below 2^53, and the least below the greatest".into(),
                    ));
                }
                let held: u128 = bins.iter().map(|b| u128::from(b.parents)).sum();
                if held > u128::from(parents.written) {
                    return Err(wrong(format!(
                        "the bins hold {} parents but the parent collection has {}; raise its `count` or lower the bins",
                        Count(held.min(u64::MAX.into()) as u64),
                        Count(parents.written)
                    )));
                }
                match total {
                    None => shares(bins).spread(0.0),
                    Some(total) => shares(bins).meet(*total).map_err(wrong)?,
                }
            }
        };
        groups.retain(|(fan_out, parents)| *fan_out > 0 && *parents > 0);
        groups.sort_unstable_by(|a, b| b.cmp(a));
        let (mut runs, mut rank, mut child) = (Vec::with_capacity(groups.len()), 0u64, 0u64);
        for (fan_out, alike) in groups {
            runs.push(Run { first_rank: rank, first_child: child, fan_out, parents: alike });
            rank += alike;
            child = fan_out
                .checked_mul(alike)
                .and_then(|more| child.checked_add(more))
                .filter(|sum| *sum < EXACT)
                .ok_or_else(|| wrong("the relation makes more than 2^53 documents; lower the fan-out".into()))?;
        }
        Ok(Self {
            parent_collection: parents.collection,
            children: child,
            parents: rank,
            most: runs.first().map_or(0, |r| r.fan_out),
            runs,
            scatter: Permutation::new(parents.count, parents.seed),
            drawn: Permutation::new(rank, mix64(parents.seed, DRAWN)),
        })
    }

    /// The parent of a child and the child's position among its siblings, from 0.
    #[inline]
    pub(crate) fn parent_of(&self, child: u64) -> (u64, u64) {
        let at = self.runs.partition_point(|r| r.first_child <= child);
        let Some(run) = at.checked_sub(1).and_then(|at| self.runs.get(at)) else { return (0, 0) };
        let within = child - run.first_child;
        (self.scatter.forward(run.first_rank + within / run.fan_out), within % run.fan_out)
    }

    /// The children of a parent, in order of their seq.
    #[inline]
    pub(crate) fn children_of(&self, parent: u64) -> std::ops::Range<u64> {
        let rank = self.scatter.inverse(parent);
        let at = self.runs.partition_point(|r| r.first_rank <= rank);
        match at.checked_sub(1).and_then(|at| self.runs.get(at)) {
            Some(run) if rank - run.first_rank < run.parents => {
                let first = run.first_child + (rank - run.first_rank) * run.fan_out;
                first..first + run.fan_out
            }
            _ => 0..0,
        }
    }

    /// The first child of a parent that has any. Each number below [`parents`](Self::parents) stands for a different
    /// parent. Their order is seeded separately, so that low or adjacent numbers are not the parents with the most
    /// children.
    #[inline]
    pub(crate) fn first_child(&self, number: u64) -> u64 {
        let rank = self.drawn.forward(number);
        let at = self.runs.partition_point(|r| r.first_rank <= rank);
        let Some(run) = at.checked_sub(1).and_then(|at| self.runs.get(at)) else { return 0 };
        run.first_child + (rank - run.first_rank) * run.fan_out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::shares::GROUPS_PER_BIN;
    use super::*;
    use storebench_study::units::Range;

    fn bin(least: u64, below: u64, parents: u64) -> Bin {
        Bin { least, below, parents }
    }

    /// Highlights per user as published for the bookseller's service.
    fn highlights() -> Vec<Bin> {
        vec![
            bin(203_550, 203_551, 1),
            bin(100_000, 200_000, 428),
            bin(10_000, 100_000, 10_622),
            bin(1_000, 10_000, 20_340),
            bin(100, 1_000, 67_249),
            bin(10, 100, 59_827),
            bin(2, 10, 10_158_123),
            bin(1, 2, 43_425_405),
        ]
    }

    /// `count` of the `written` parents exist.
    fn of(count: u64, written: u64, seed: u64) -> Parents {
        Parents { collection: 0, count, written, seed }
    }

    fn made(bins: &[Bin], total: Option<u64>, parents: Parents) -> Relation {
        let fan_out = FanOut::Bins { bins: bins.to_vec(), total };
        Relation::new(&fan_out, parents, "p").unwrap()
    }

    /// Number of parents whose number of children is within a bin.
    fn parents_in(relation: &Relation, bin: &Bin) -> u64 {
        relation.runs.iter().filter(|r| (bin.least..bin.below).contains(&r.fan_out)).map(|r| r.parents).sum()
    }

    #[test]
    fn the_published_histogram_is_met_exactly() {
        let users = 69_380_000;
        let relation = made(&highlights(), Some(497_030_000), of(users, users, 11));
        assert_eq!(relation.children, 497_030_000);
        for bin in highlights() {
            assert_eq!(parents_in(&relation, &bin), bin.parents, "{bin:?}");
        }
        assert_eq!(relation.parents, highlights().iter().map(|b| b.parents).sum::<u64>());
        assert_eq!(relation.most, 203_550);
        assert!(relation.runs.len() <= 8 * GROUPS_PER_BIN as usize + 1, "{} runs", relation.runs.len());
        // Both directions agree, from the first child to the last.
        for i in 0..100_000u64 {
            let child = i * 4_970 + i % 4_970;
            let (parent, seq) = relation.parent_of(child);
            assert!(parent < users);
            let children = relation.children_of(parent);
            assert_eq!(children.start + seq, child);
            assert!(children.contains(&child));
        }
        // About 15.7 million users have no highlights.
        let without = (0..200_000).filter(|i| relation.children_of(i * 346).is_empty()).count() as f64 / 200_000.0;
        assert!((without - 15_638_005.0 / 69_380_000.0).abs() < 0.01, "{without}");
    }

    #[test]
    fn a_smaller_scale_keeps_the_shape() {
        for (scale, seed) in [0.3, 0.1, 0.01, 0.001].into_iter().flat_map(|s| [1, 2, 3, 4].map(|seed| (s, seed))) {
            let users = (69_380_000.0 * scale) as u64;
            let relation = made(&highlights(), Some(497_030_000), of(users, 69_380_000, seed));
            assert_eq!(relation.children, (497_030_000.0 * scale) as u64);
            for bin in highlights() {
                let expected = bin.parents as f64 * scale;
                let got = parents_in(&relation, &bin);
                assert!((got as f64 - expected).abs() <= 1.0, "{scale}: {bin:?} has {got}");
            }
            let all: f64 = highlights().iter().map(|b| b.parents as f64 * scale).sum();
            assert!((relation.parents as f64 - all).abs() <= 1.0, "{scale}: {}", relation.parents);
        }
    }

    #[test]
    fn rounding_favours_no_bin() {
        // At a scale of 3 %, a bin of one user exists for 3 % of the seeds, so on average nothing is lost or gained.
        let bins = highlights();
        let seeds = 4_000u64;
        let mut sums = vec![0u64; bins.len()];
        for seed in 0..seeds {
            let relation = made(&bins, None, of(69_380_000 * 3 / 100, 69_380_000, seed.wrapping_mul(0x9e37_79b9)));
            for (sum, bin) in sums.iter_mut().zip(&bins) {
                *sum += parents_in(&relation, bin);
            }
        }
        for (sum, bin) in sums.iter().zip(&bins) {
            let mean = *sum as f64 / seeds as f64;
            let expected = bin.parents as f64 * 0.03;
            // One draw is 0 or 1 above its integer part, so the deviation of the mean is at most 0.5/√seeds.
            assert!((mean - expected).abs() < 4.0 * 0.5 / (seeds as f64).sqrt(), "{bin:?}: {mean}, not {expected}");
        }
    }

    #[test]
    fn few_parents_of_a_wide_bin_are_spread_over_it() {
        // Without a total the density is even, so the mean over seeds is that of all the parents.
        let bins = [bin(10_000, 100_000, 10_000)];
        let all = made(&bins, None, of(10_000, 10_000, 1));
        let mean = all.children as f64 / 10_000.0;
        let few: f64 = (0..200u64)
            .map(|seed| made(&bins, None, of(10, 10_000, seed)))
            .map(|r| r.children as f64 / r.parents as f64 / 200.0)
            .sum();
        assert!((few / mean - 1.0).abs() < 0.01, "{few}, not {mean}");
    }

    #[test]
    fn the_rarer_kind_stays_within_the_other_at_every_scale() {
        let other = [bin(4, 40, 1_000), bin(300, 301, 1), bin(1, 4, 500)];
        let rarer = [bin(1, 2, 1_200), bin(2, 9, 301)];
        for (count, seed) in (1..200u64).flat_map(|count| [5, 6, 7].map(|seed| (count, seed))) {
            let parents = of(count, 1_501, seed);
            let (other, rarer) = (made(&other, None, parents), made(&rarer, None, parents));
            assert_eq!((other.parents, rarer.parents), (count, count), "all parents, so all that there are");
        }
        let rarer = [bin(1, 2, 700), bin(2, 9, 301)];
        for (count, seed) in (1..3_000u64).flat_map(|count| [5, 6, 7].map(|seed| (count, seed))) {
            let parents = of(count, 2_000, seed);
            assert!(made(&rarer, None, parents).parents <= made(&other, None, parents).parents, "{count}");
        }
    }

    #[test]
    fn a_total_out_of_reach_is_refused_as_written_and_neared_where_bins_came_out_empty() {
        // Half of the seeds keep the one parent with most of the children.
        let bins = [bin(1_000, 1_001, 1), bin(1, 3, 100)];
        let mut totals = std::collections::BTreeSet::new();
        for seed in 0..20 {
            totals.insert(made(&bins, Some(1_150), of(100, 200, seed)).children);
        }
        assert_eq!(totals.into_iter().collect::<Vec<_>>(), [100, 1_050]);
        for count in [200, 100] {
            let fan_out = FanOut::Bins { bins: bins.to_vec(), total: Some(1_201) };
            let message = Relation::new(&fan_out, of(count, 200, 1), "p").unwrap_err().message;
            assert!(message.contains("from 1,100 to 1,200 children"), "{message}");
        }
    }

    #[test]
    fn each_number_draws_another_parent() {
        let users = 69_380;
        let relation = made(&highlights(), Some(497_030_000), of(users, 69_380_000, 9));
        let mut asked = vec![false; users as usize];
        let mut first = 0;
        for number in 0..relation.parents {
            let child = relation.first_child(number);
            let (parent, seq) = relation.parent_of(child);
            assert_eq!(seq, 0);
            assert!(!std::mem::replace(&mut asked[parent as usize], true), "{parent} twice");
            // The first tenth of the numbers has about a tenth of the users with a hundred or more children.
            first += usize::from(number < relation.parents / 10 && relation.children_of(parent).count() >= 100);
        }
        let all: u64 = relation.runs.iter().filter(|r| r.fan_out >= 100).map(|r| r.parents).sum();
        assert!(all.abs_diff(98) < 4, "{all}");
        assert!((2..=20).contains(&first), "{first} of {all}");
    }

    #[test]
    fn the_density_falls_within_a_bin() {
        // The extreme totals: every parent at the minimum, every parent at the maximum.
        for (total, fan_out) in [(1_000 * 10, 10), (1_000 * 99, 99)] {
            let relation = made(&[bin(10, 100, 1_000)], Some(total), of(1_000, 1_000, 11));
            assert_eq!(relation.children, total);
            assert!(relation.runs.iter().all(|r| r.fan_out == fan_out));
        }
        let relation = made(&[bin(10, 100, 100_000)], Some(3_000_000), of(100_000, 100_000, 11));
        let few = parents_in(&relation, &bin(10, 20, 0));
        let many = parents_in(&relation, &bin(90, 100, 0));
        assert!(few > 4 * many && many > 0, "{few} {many}");
    }

    #[test]
    fn an_even_range_is_even() {
        let even = |min, max, count, written| {
            Relation::new(&FanOut::Uniform(Range { min, max }), of(count, written, 1), "p").unwrap()
        };
        let relation = even(0, 4, 5_000, 5_000);
        assert_eq!(relation.children, 1_000 * (1 + 2 + 3 + 4));
        assert_eq!(relation.parents, 4_000);
        let wide = even(1, 10_000, 100_000, 100_000);
        let mean = wide.children as f64 / 100_000.0;
        assert!((mean - 5_000.0).abs() < 100.0, "{mean}");
        let few = even(1, 10_000, 50, 100_000);
        assert!((few.children as f64 / 50.0 - mean).abs() < 200.0, "{}", few.children);
        assert_eq!(even(5, 16, 694, 69_380).parents, 694);
    }

    proptest! {
        #[test]
        fn every_child_has_one_parent(
            bins in proptest::collection::vec((0u64..40, 1u64..300, 0u64..30), 1..5),
            pick in 0.0f64..=1.0,
            spare in 0u64..50,
            seed: u64,
        ) {
            let bins: Vec<Bin> = bins.into_iter().map(|(least, width, parents)| bin(least, least + width, parents)).collect();
            let parents: u64 = bins.iter().map(|b| b.parents).sum::<u64>() + spare;
            prop_assume!(parents > 0);
            let least: u64 = bins.iter().map(|b| b.least * b.parents).sum();
            let most: u64 = bins.iter().map(|b| (b.below - 1) * b.parents).sum();
            let total = least + ((most - least) as f64 * pick) as u64;
            let fan_out = FanOut::Bins { bins, total: Some(total) };
            let relation = Relation::new(&fan_out, of(parents, parents, seed), "p").unwrap();
            prop_assert_eq!(relation.children, total);
            let mut next = vec![0u64; parents as usize];
            for child in 0..total {
                let (parent, seq) = relation.parent_of(child);
                prop_assert_eq!(next[parent as usize], seq);
                next[parent as usize] += 1;
            }
            for (parent, had) in next.iter().enumerate() {
                let children = relation.children_of(parent as u64);
                prop_assert_eq!(children.end - children.start, *had);
                for (seq, child) in children.enumerate() {
                    prop_assert_eq!(relation.parent_of(child), (parent as u64, seq as u64));
                }
            }
        }
    }
}
