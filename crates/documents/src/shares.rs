//! How many parents have how many children: the bins of a relation divided into groups of equally
//! many, at the number of parents that there are.

use super::random::mix;
use storebench_study::units::Count;
use storebench_study::workload::Bin;

/// A bin becomes at most so many groups of equal fan-out.
pub(super) const GROUPS_PER_BIN: u64 = 64;
/// Parts of a parent that rounding counts in.
const PARTS: u128 = 1 << 20;
/// Keeps the offset of rounding apart from other uses of the seed.
const OFFSET: u64 = 0x6f66_6673_6574_2d31;

/// Brings parents as written down or up to as many as there are, by systematic sampling (W. G. Madow
/// and L. H. Madow, "On the theory of systematic sampling, I", Annals of Mathematical Statistics 15,
/// 1944; with unequal sizes W. G. Madow, II, ibid. 20, 1949): numbers are cumulated, and each gets the
/// whole numbers its stretch holds, counted from an offset that the seed draws evenly. So every bin
/// gets its exact share in the mean over seeds and is less than one parent off, however rare it is.
/// Whole arithmetic, so that all parents as written become exactly all that there are.
#[derive(Debug, Clone, Copy)]
struct Rounding {
    count: u64,
    written: u64,
    offset: u128,
}

impl Rounding {
    /// The offset belongs to the parents: who has most of one kind has most of every kind, and a relation
    /// that more parents take part in as written is never the one with fewer.
    fn new(count: u64, written: u64, parent_seed: u64) -> Self {
        let whole = u128::from(written) * PARTS;
        // 32 bits, since the product with more would exceed 128.
        let draw = u128::from(mix(parent_seed, OFFSET) >> 32);
        Self { count, written, offset: (whole * draw) >> 32 }
    }

    /// How many of the parents there are stand for the first ones as written, which are given in parts.
    fn reached(&self, parts: u128) -> u64 {
        ((parts * u128::from(self.count) + self.offset) / (u128::from(self.written) * PARTS)) as u64
    }
}

/// Bins, and how their parents are rounded.
pub(super) struct Shares {
    /// As written, or with the most children first where numbers are rounded.
    written: Vec<Bin>,
    /// As many parents as there are.
    counted: Vec<Bin>,
    /// None where all parents are there.
    rounding: Option<Rounding>,
}

impl Shares {
    /// `written` is how many parents the study describes, `count` how many there are. The bins hold no
    /// more parents than are written.
    pub(super) fn new(bins: &[Bin], count: u64, written: u64, parent_seed: u64) -> Self {
        let mut bins = bins.to_vec();
        if count == written || written == 0 {
            return Self { counted: bins.clone(), written: bins, rounding: None };
        }
        // From the top, so that it is the number of parents with so many children or more that is exact.
        bins.sort_by_key(|bin| std::cmp::Reverse((bin.least, bin.below)));
        let rounding = Rounding::new(count, written, parent_seed);
        let (mut end, mut given) = (0u128, 0u64);
        let counted = bins
            .iter()
            .map(|bin| {
                end += u128::from(bin.parents) * PARTS;
                let before = std::mem::replace(&mut given, rounding.reached(end));
                Bin { parents: given - before, ..*bin }
            })
            .collect();
        Self { written: bins, counted, rounding: Some(rounding) }
    }

    /// Divides the parents of each bin over its fan-outs with a density ∝ fan-out^-exponent. Gives
    /// fan-outs with their parents.
    pub(super) fn spread(&self, exponent: f64) -> Vec<(u64, u64)> {
        let mut groups = Vec::new();
        let mut begin = 0u128;
        for bin in self.written.iter().filter(|b| b.parents > 0) {
            let steps = steps(bin);
            let weights = weights(bin, &steps, exponent);
            let Some(rounding) = &self.rounding else {
                groups.extend(steps.into_iter().zip(apportion(&weights, bin.parents)));
                continue;
            };
            // The stretch of the bin goes on in the same order, the greatest first.
            let parts = u128::from(bin.parents) * PARTS;
            let sum: f64 = weights.iter().sum();
            let (mut passed, mut given) = (0.0, rounding.reached(begin));
            for (i, (fan_out, weight)) in steps.into_iter().zip(weights).enumerate().rev() {
                passed += weight;
                let end = if i == 0 { parts } else { ((passed / sum * parts as f64) as u128).min(parts) };
                let before = std::mem::replace(&mut given, rounding.reached(begin + end));
                groups.push((fan_out, given.saturating_sub(before)));
            }
            begin += parts;
        }
        groups
    }

    /// Fan-outs with their parents whose children are exactly `total`, which is as written. With fewer or
    /// more parents than written it is their share of it, or the nearest that the rounded bins can have.
    pub(super) fn meet(&self, total: u64) -> Result<Vec<(u64, u64)>, String> {
        let (least, most) = reach(&self.written);
        if !(least..=most).contains(&u128::from(total)) {
            let shown = |n: u128| Count(n.min(u64::MAX.into()) as u64);
            return Err(format!(
                "the bins hold from {} to {} children, so the total cannot be {}; correct `total` or the bins",
                shown(least),
                shown(most),
                Count(total)
            ));
        }
        let bins = &self.counted;
        let (least, most) = reach(bins);
        let wanted = self.rounding.map_or(u128::from(total), |r| {
            let written = u128::from(r.written);
            // A rare bin that came out empty, or did not, may put the share out of reach.
            ((u128::from(total) * u128::from(r.count) + written / 2) / written).clamp(least, most)
        });
        // More exponent means fewer children: bisect, and keep the side that does not exceed the total.
        let (mut low, mut high) = (-400.0, 400.0);
        for _ in 0..80 {
            let middle = (low + high) / 2.0;
            if children(&self.spread(middle)) > wanted { low = middle } else { high = middle }
        }
        let mut groups = self.spread(high);
        let mut missing = wanted.saturating_sub(children(&groups));
        if children(&groups) > wanted {
            // Only where even the steepest density rounds too high: begin with the least of every bin.
            groups = bins.iter().map(|b| (b.least, b.parents)).collect();
            missing = wanted - least;
        }
        fill_up(&mut groups, bins, missing);
        Ok(groups)
    }
}

/// The least and the most children that bins can hold.
fn reach(bins: &[Bin]) -> (u128, u128) {
    let sum = |children: fn(&Bin) -> u64| bins.iter().map(|b| u128::from(children(b)) * u128::from(b.parents)).sum();
    (sum(|b| b.least), sum(|b| b.below.saturating_sub(1).max(b.least)))
}

fn children(groups: &[(u64, u64)]) -> u128 {
    groups.iter().map(|(fan_out, parents)| u128::from(*fan_out) * u128::from(*parents)).sum()
}

/// What rounding left over goes to the largest groups first, one more child a parent.
fn fill_up(groups: &mut Vec<(u64, u64)>, bins: &[Bin], mut missing: u128) {
    let limit_of = |fan_out: u64| {
        bins.iter().filter(|b| (b.least..b.below).contains(&fan_out)).map(|b| b.below - 1).max().unwrap_or(fan_out)
    };
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(groups[i].1));
    for i in order {
        let (fan_out, parents) = groups[i];
        let room = limit_of(fan_out) - fan_out;
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
    if most - least < GROUPS_PER_BIN {
        return (least..=most).collect();
    }
    let base = least.max(1) as f64;
    let ratio = most as f64 / base;
    let mut all: Vec<u64> = (0..GROUPS_PER_BIN)
        .map(|i| (base * ratio.powf(i as f64 / (GROUPS_PER_BIN - 1) as f64)).round() as u64)
        .map(|v| v.clamp(least, most))
        .collect();
    all[0] = least;
    all[GROUPS_PER_BIN as usize - 1] = most;
    all.dedup();
    all
}

/// How much of a bin's parents each of its steps gets, relative to the others.
fn weights(bin: &Bin, steps: &[u64], exponent: f64) -> Vec<f64> {
    // Each step stands for the fan-outs halfway to its neighbours.
    let edge = |i: usize| if i == 0 { steps[0] as f64 } else { (steps[i - 1] + steps[i]) as f64 / 2.0 };
    let last = steps.len();
    let end = steps[last - 1] as f64;
    let log_weight = |i: usize| {
        let width = if last == 1 || bin.below - bin.least <= GROUPS_PER_BIN {
            1.0
        } else {
            (if i + 1 == last { end } else { edge(i + 1) }) - edge(i)
        };
        width.max(1e-9).ln() - exponent * (steps[i].max(1) as f64).ln()
    };
    // In logarithms and relative to the greatest, since steep exponents overflow.
    let logs: Vec<f64> = (0..last).map(log_weight).collect();
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logs.iter().map(|l| (l - top).exp()).collect()
}
