//! Which documents belong to which: children to parents and back, by arithmetic alone.
//!
//! Parents are ranked by how many children they have, the most first, in runs of parents that have
//! equally many. A run is four numbers, so child → (parent, seq) and parent → children are a binary
//! search over some hundreds of runs at most and one division. Ranks are scattered over the
//! parents by a seeded permutation that belongs to the parent collection: whoever has most of one
//! kind of child has most of every kind, and whoever has any of the rarer kind has some of the other.

use super::error::DocumentError;
use super::random::Permutation;
use crate::units::Count;
use crate::workload::{Bin, FanOut};

/// A bin becomes at most so many runs of equal fan-out.
const RUNS_PER_BIN: u64 = 64;
/// Whole numbers up to here are exact in every JSON reader.
const EXACT: u64 = 1 << 53;

/// `parents` parents with `fan_out` children each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first_rank: u64,
    first_child: u64,
    fan_out: u64,
    parents: u64,
}

/// A relation between a collection and its parents.
#[derive(Debug, Clone)]
pub(crate) struct Relation {
    /// Position of the parent collection.
    pub(crate) parent_collection: usize,
    /// Children in all.
    pub(crate) children: u64,
    /// Parents that have at least one child.
    pub(crate) parents: u64,
    /// The most children of one parent.
    pub(crate) most: u64,
    runs: Vec<Run>,
    scatter: Permutation,
}

impl Relation {
    /// `parent_count` is after scaling; bins and their total are scaled here.
    pub(crate) fn new(
        fan_out: &FanOut,
        parent_collection: usize,
        parent_count: u64,
        parent_seed: u64,
        scale: f64,
        path: &str,
    ) -> Result<Self, DocumentError> {
        let wrong = |message: String| DocumentError::new(path, message);
        let mut groups = match fan_out {
            FanOut::Uniform(range) => {
                let bin = Bin { least: range.min, below: range.max.saturating_add(1), parents: parent_count };
                spread(&[bin], 0.0)
            }
            FanOut::Bins { bins, total } => {
                if bins.iter().any(|b| b.least >= b.below || b.below > EXACT || b.parents > EXACT) {
                    return Err(wrong("the numbers of a bin lie below 2^53, the least under the greatest".into()));
                }
                let wanted: u128 = bins.iter().map(|b| u128::from(b.parents)).sum();
                let bins = scaled(bins, scale);
                let given: u128 = bins.iter().map(|b| u128::from(b.parents)).sum();
                if given > u128::from(parent_count) {
                    return Err(wrong(format!(
                        "the bins hold {} parents but the parent collection has {}; raise its `count` or lower the bins",
                        Count(wanted.min(u64::MAX.into()) as u64),
                        Count(if scale == 1.0 { parent_count } else { (parent_count as f64 / scale).round() as u64 })
                    )));
                }
                match total {
                    None => spread(&bins, 0.0),
                    Some(total) => meet(&bins, *total, scale).map_err(wrong)?,
                }
            }
        };
        groups.retain(|(fan_out, parents)| *fan_out > 0 && *parents > 0);
        groups.sort_unstable_by(|a, b| b.cmp(a));
        let (mut runs, mut rank, mut child) = (Vec::with_capacity(groups.len()), 0u64, 0u64);
        for (fan_out, parents) in groups {
            runs.push(Run { first_rank: rank, first_child: child, fan_out, parents });
            rank += parents;
            child = fan_out
                .checked_mul(parents)
                .and_then(|more| child.checked_add(more))
                .filter(|sum| *sum < EXACT)
                .ok_or_else(|| wrong("the relation makes more than 2^53 documents; lower the fan-out".into()))?;
        }
        Ok(Self {
            parent_collection,
            children: child,
            parents: rank,
            most: runs.first().map_or(0, |r| r.fan_out),
            runs,
            scatter: Permutation::new(parent_count, parent_seed),
        })
    }

    /// The parent of a child and the child's place among its siblings, from 0.
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
        let rank = self.scatter.backward(parent);
        let at = self.runs.partition_point(|r| r.first_rank <= rank);
        match at.checked_sub(1).and_then(|at| self.runs.get(at)) {
            Some(run) if rank - run.first_rank < run.parents => {
                let first = run.first_child + (rank - run.first_rank) * run.fan_out;
                first..first + run.fan_out
            }
            _ => 0..0,
        }
    }
}

/// Bins with their parents scaled, the sum rounded as a whole (largest remainder).
fn scaled(bins: &[Bin], scale: f64) -> Vec<Bin> {
    if scale == 1.0 {
        return bins.to_vec();
    }
    let weights: Vec<f64> = bins.iter().map(|b| b.parents as f64).collect();
    let sum: f64 = weights.iter().sum();
    // Rounded down, so that bins holding every parent still fit the scaled parents.
    let parents = apportion(&weights, (sum * scale + 1e-9).floor() as u64);
    bins.iter().zip(parents).map(|(bin, parents)| Bin { parents, ..*bin }).collect()
}

/// `n` shared out by weight in whole numbers: the largest remainders are rounded up.
fn apportion(weights: &[f64], n: u64) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    if sum <= 0.0 {
        return vec![0; weights.len()];
    }
    let exact: Vec<f64> = weights.iter().map(|w| w / sum * n as f64).collect();
    let mut parts: Vec<u64> = exact.iter().map(|x| x.floor() as u64).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by(|&a, &b| (exact[b] - exact[b].floor()).total_cmp(&(exact[a] - exact[a].floor())).then(a.cmp(&b)));
    let mut given: u64 = parts.iter().sum();
    for &i in order.iter().cycle().take(4 * parts.len()) {
        if given < n {
            parts[i] += 1;
            given += 1;
        } else if given > n && parts[i] > 0 {
            parts[i] -= 1;
            given -= 1;
        }
    }
    parts
}

/// The fan-outs a bin is divided into: every one when there are few, else evenly spaced on a
/// logarithmic scale, first and last included.
fn steps(bin: &Bin) -> Vec<u64> {
    let (least, most) = (bin.least, bin.below.saturating_sub(1).max(bin.least));
    if most - least < RUNS_PER_BIN {
        return (least..=most).collect();
    }
    let base = least.max(1) as f64;
    let ratio = most as f64 / base;
    let mut all: Vec<u64> = (0..RUNS_PER_BIN)
        .map(|i| (base * ratio.powf(i as f64 / (RUNS_PER_BIN - 1) as f64)).round() as u64)
        .map(|v| v.clamp(least, most))
        .collect();
    all[0] = least;
    all[RUNS_PER_BIN as usize - 1] = most;
    all.dedup();
    all
}

/// Divides the parents of each bin over its fan-outs with a density ∝ fan-out^-exponent.
fn spread(bins: &[Bin], exponent: f64) -> Vec<(u64, u64)> {
    let mut groups = Vec::new();
    for bin in bins.iter().filter(|b| b.parents > 0) {
        let steps = steps(bin);
        // Each step stands for the fan-outs halfway to its neighbours.
        let edge = |i: usize| if i == 0 { steps[0] as f64 } else { (steps[i - 1] + steps[i]) as f64 / 2.0 };
        let last = steps.len();
        let end = steps[last - 1] as f64;
        let log_weight = |i: usize| {
            let width = if last == 1 || bin.below - bin.least <= RUNS_PER_BIN {
                1.0
            } else {
                (if i + 1 == last { end } else { edge(i + 1) }) - edge(i)
            };
            width.max(1e-9).ln() - exponent * (steps[i].max(1) as f64).ln()
        };
        // In logarithms and relative to the greatest, since steep exponents overflow.
        let logs: Vec<f64> = (0..last).map(log_weight).collect();
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logs.iter().map(|l| (l - top).exp()).collect();
        groups.extend(steps.iter().copied().zip(apportion(&weights, bin.parents)));
    }
    groups
}

fn children(groups: &[(u64, u64)]) -> u128 {
    groups.iter().map(|(fan_out, parents)| u128::from(*fan_out) * u128::from(*parents)).sum()
}

/// Groups whose children are exactly `total` (scaled).
fn meet(bins: &[Bin], total: u64, scale: f64) -> Result<Vec<(u64, u64)>, String> {
    let least: u128 = bins.iter().map(|b| u128::from(b.least) * u128::from(b.parents)).sum();
    let most: u128 =
        bins.iter().map(|b| u128::from(b.below.saturating_sub(1).max(b.least)) * u128::from(b.parents)).sum();
    let mut wanted = if scale == 1.0 { u128::from(total) } else { (total as f64 * scale).round() as u128 };
    if wanted < least || wanted > most {
        if scale == 1.0 {
            let shown = |n: u128| Count(n.min(u64::MAX.into()) as u64);
            return Err(format!(
                "the bins hold from {} to {} children, so the total cannot be {}; correct `total` or the bins",
                shown(least),
                shown(most),
                Count(total)
            ));
        }
        // Rounding few parents may leave the total just out of reach.
        wanted = wanted.clamp(least, most);
    }
    // More exponent means fewer children: bisect, and keep the side that does not exceed the total.
    let (mut low, mut high) = (-400.0, 400.0);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if children(&spread(bins, middle)) > wanted { low = middle } else { high = middle }
    }
    let mut groups = spread(bins, high);
    let mut missing = wanted.saturating_sub(children(&groups));
    if children(&groups) > wanted {
        // Only where even the steepest density rounds too high: begin with the least of every bin.
        groups = bins.iter().map(|b| (b.least, b.parents)).collect();
        missing = wanted - least;
    }
    // What rounding left over goes to the largest groups first, one more child a parent.
    let limit_of = |fan_out: u64, bins: &[Bin]| {
        bins.iter().filter(|b| (b.least..b.below).contains(&fan_out)).map(|b| b.below - 1).max().unwrap_or(fan_out)
    };
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(groups[i].1));
    for i in order {
        let (fan_out, parents) = groups[i];
        let room = limit_of(fan_out, bins) - fan_out;
        if missing == 0 || parents == 0 || room == 0 {
            continue;
        }
        let each = (missing / u128::from(parents)) as u64;
        let left = (missing % u128::from(parents)) as u64;
        if each < room {
            groups[i] = (fan_out + each, parents - left);
            groups.push((fan_out + each + 1, left));
            missing = 0;
        } else {
            groups[i] = (fan_out + room, parents);
            missing -= u128::from(room) * u128::from(parents);
        }
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::units::Range;

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

    fn made(bins: &[Bin], total: Option<u64>, parents: u64, scale: f64) -> Relation {
        let fan_out = FanOut::Bins { bins: bins.to_vec(), total };
        Relation::new(&fan_out, 0, parents, 11, scale, "p").unwrap()
    }

    /// Parents whose children are within a bin.
    fn parents_in(relation: &Relation, bin: &Bin) -> u64 {
        relation.runs.iter().filter(|r| (bin.least..bin.below).contains(&r.fan_out)).map(|r| r.parents).sum()
    }

    #[test]
    fn the_published_histogram_is_met_exactly() {
        let users = 69_380_000;
        let relation = made(&highlights(), Some(497_030_000), users, 1.0);
        assert_eq!(relation.children, 497_030_000);
        for bin in highlights() {
            assert_eq!(parents_in(&relation, &bin), bin.parents, "{bin:?}");
        }
        assert_eq!(relation.parents, highlights().iter().map(|b| b.parents).sum::<u64>());
        assert_eq!(relation.most, 203_550);
        assert!(relation.runs.len() <= 8 * RUNS_PER_BIN as usize + 1, "{} runs", relation.runs.len());
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
    fn a_tenth_keeps_the_shape() {
        for scale in [0.1, 0.01, 0.001] {
            let users = (69_380_000.0 * scale) as u64;
            let relation = made(&highlights(), Some(497_030_000), users, scale);
            assert_eq!(relation.children, (497_030_000.0 * scale) as u64);
            let most: f64 = parents_in(&relation, &bin(2, 10, 0)) as f64;
            assert!((most / (10_158_123.0 * scale) - 1.0).abs() < 0.001);
        }
    }

    #[test]
    fn the_density_falls_within_a_bin() {
        // The total of the ends: everybody at the least, everybody at the greatest.
        for (total, fan_out) in [(1_000 * 10, 10), (1_000 * 99, 99)] {
            let relation = made(&[bin(10, 100, 1_000)], Some(total), 1_000, 1.0);
            assert_eq!(relation.children, total);
            assert!(relation.runs.iter().all(|r| r.fan_out == fan_out));
        }
        let relation = made(&[bin(10, 100, 100_000)], Some(3_000_000), 100_000, 1.0);
        let few = parents_in(&relation, &bin(10, 20, 0));
        let many = parents_in(&relation, &bin(90, 100, 0));
        assert!(few > 4 * many && many > 0, "{few} {many}");
    }

    #[test]
    fn an_even_range_is_even() {
        let relation = Relation::new(&FanOut::Uniform(Range { min: 0, max: 4 }), 0, 5_000, 1, 1.0, "p").unwrap();
        assert_eq!(relation.children, 1_000 * (1 + 2 + 3 + 4));
        assert_eq!(relation.parents, 4_000);
        let wide = Relation::new(&FanOut::Uniform(Range { min: 1, max: 10_000 }), 0, 100_000, 1, 1.0, "p").unwrap();
        let mean = wide.children as f64 / 100_000.0;
        assert!((mean - 5_000.0).abs() < 100.0, "{mean}");
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
            let relation = Relation::new(&fan_out, 0, parents, seed, 1.0, "p").unwrap();
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
