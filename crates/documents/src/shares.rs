//! How many parents have how many children. Divides the bins of a relation into groups of parents with equal fan-out,
//! for the actual number of parents.

use storebench_study::mix64;
use storebench_study::units::Count;
use storebench_study::workload::Bin;

/// A bin becomes at most this many groups of equal fan-out.
pub(super) const GROUPS_PER_BIN: u64 = 64;
/// Rounding divides a parent into this many parts.
const PARTS: u128 = 1 << 20;
/// Separates the rounding offset from other uses of the seed.
const OFFSET: u64 = 0x6f66_6673_6574_2d31;

/// Scales the number of parents in the study to the actual number of parents by systematic sampling (W. G. Madow and L.
/// H. Madow, "On the theory of systematic sampling, I", Annals of Mathematical Statistics 15, 1944; for unequal sizes
/// W. G. Madow, II, ibid. 20, 1949). Parents are cumulated over the bins, and each bin gets the whole numbers in its
/// stretch, counted from an offset that the seed draws uniformly. So each bin has its exact share in the mean over
/// seeds, and is less than one parent off, however rare it is. Integer arithmetic turns all parents of the study into
/// exactly all actual parents.
#[derive(Debug, Clone, Copy)]
struct Rounding {
    count: u64,
    written: u64,
    offset: u128,
}

impl Rounding {
    /// The offset depends only on the parents. So the parents with the most children of one kind have the most of every
    /// kind. A relation in which more parents take part in the study never has fewer after scaling.
    fn new(count: u64, written: u64, parent_seed: u64) -> Self {
        let whole = u128::from(written) * PARTS;
        // 32 bits, because with more the product could exceed 128 bits.
        let draw = u128::from(mix64(parent_seed, OFFSET) >> 32);
        Self { count, written, offset: (whole * draw) >> 32 }
    }

    /// How many actual parents stand for the first parents of the study, which are given in parts.
    fn reached(&self, parts: u128) -> u64 {
        ((parts * u128::from(self.count) + self.offset) / (u128::from(self.written) * PARTS)) as u64
    }
}

/// Bins, and how their parents are rounded.
pub(super) struct Shares {
    /// As in the study. If numbers are rounded, sorted by most children first.
    written: Vec<Bin>,
    /// The same bins with the actual number of parents.
    counted: Vec<Bin>,
    /// `None` if nothing is scaled.
    rounding: Option<Rounding>,
}

impl Shares {
    /// `written` is the number of parents in the study, `count` the actual number. The bins hold at most `written`
    /// parents.
    pub(super) fn new(bins: &[Bin], count: u64, written: u64, parent_seed: u64) -> Self {
        let mut bins = bins.to_vec();
        if count == written || written == 0 {
            return Self { counted: bins.clone(), written: bins, rounding: None };
        }
        // Most children first. So for every n, the number of parents with n or more children is less than one off.
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

    /// Distributes the parents of each bin over its fan-outs with a density ∝ fan-out^-exponent. Returns pairs of
    /// fan-out and parents.
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
            // Within the bin the order is the same: the largest fan-out first.
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

    /// Returns pairs of fan-out and parents with exactly `total` children in all. `total` is as in the study; if the
    /// number of parents is scaled, so is the total, as nearly as the rounded bins allow.
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
            // Rounding may have emptied a rare bin or kept it, which can put the scaled total out of reach.
            ((u128::from(total) * u128::from(r.count) + written / 2) / written).clamp(least, most)
        });
        // A larger exponent means fewer children. Bisect, and keep the side that does not exceed the total.
        let (mut low, mut high) = (-400.0, 400.0);
        for _ in 0..80 {
            let middle = (low + high) / 2.0;
            if children(&self.spread(middle)) > wanted { low = middle } else { high = middle }
        }
        let mut groups = self.spread(high);
        let mut missing = wanted.saturating_sub(children(&groups));
        if children(&groups) > wanted {
            // Even the steepest density rounds too high: start with the minimum of every bin.
            groups = bins.iter().map(|b| (b.least, b.parents)).collect();
            missing = wanted - least;
        }
        fill_up(&mut groups, bins, missing);
        Ok(groups)
    }
}

/// The minimum and maximum number of children that the bins can hold.
fn reach(bins: &[Bin]) -> (u128, u128) {
    let sum = |children: fn(&Bin) -> u64| bins.iter().map(|b| u128::from(children(b)) * u128::from(b.parents)).sum();
    (sum(|b| b.least), sum(|b| b.below.saturating_sub(1).max(b.least)))
}

fn children(groups: &[(u64, u64)]) -> u128 {
    groups.iter().map(|(fan_out, parents)| u128::from(*fan_out) * u128::from(*parents)).sum()
}

/// Distributes the children that rounding left over, to the largest groups first.
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

/// Splits `n` by weight into whole numbers (largest-remainder method).
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

/// The fan-outs that a bin is divided into: all of them if there are few, otherwise evenly spaced on a logarithmic
/// scale, including the first and the last.
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

/// The relative share of a bin's parents that each step gets.
fn weights(bin: &Bin, steps: &[u64], exponent: f64) -> Vec<f64> {
    // Each step stands for the fan-outs up to halfway to its neighbours.
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
    // In logarithms relative to the largest, because steep exponents overflow.
    let logs: Vec<f64> = (0..last).map(log_weight).collect();
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logs.iter().map(|l| (l - top).exp()).collect()
}
