//! Document sizes.

use std::path::Path;
use std::sync::Arc;

use super::error::DocumentError;
use super::random::{Rng, seed_of};
use super::reader::LineReader;
use super::trace::Trace;
use storebench_study::workload::Size;

/// Separates the random stream of sizes from those of the fields.
pub(crate) const SALT: u64 = 0x51_2e_0f_5a_17_3e_91_d3;
/// How many quantiles of a sample are kept.
const QUANTILES: usize = 1_024;
/// How many lines of a sample are used, drawn uniformly from all lines.
const RESERVOIR: usize = 1 << 16;

/// A distribution of sizes in bytes.
#[derive(Debug, Clone)]
pub(crate) enum Sizes {
    Uniform(u64, u64),
    Lognormal {
        median: f64,
        sigma: f64,
        min: u64,
        max: u64,
    },
    Quantiles(Vec<u64>),
    /// The size of each document by its index; 0 for the size of the others.
    Recorded {
        all: Arc<Trace>,
        mean: u64,
    },
}

impl Sizes {
    pub(crate) fn new(size: &Size, base: &Path, path: &str) -> Result<Self, DocumentError> {
        Ok(match size {
            Size::Uniform(range) => Self::Uniform(range.min.bytes(), range.max.bytes()),
            Size::Lognormal { median, sigma, min, max } => {
                Self::Lognormal { median: median.bytes() as f64, sigma: *sigma, min: min.bytes(), max: max.bytes() }
            }
            Size::Like(file) => Self::Quantiles(quantiles(&base.join(file), path)?),
        })
    }

    /// The largest possible size.
    pub(crate) fn most(&self) -> u64 {
        match self {
            Self::Uniform(_, max) | Self::Lognormal { max, .. } => *max,
            Self::Quantiles(all) => all.last().copied().unwrap_or(0),
            Self::Recorded { all, .. } => {
                all.sizes().and_then(|all| all.iter().max()).map_or(0, |most| u64::from(*most))
            }
        }
    }

    /// Sizes as a trace first has them for each key; keys without one get the mean of the others. `None` if it has none.
    pub(crate) fn recorded(trace: &Arc<Trace>) -> Option<Self> {
        let known = trace.sizes()?.iter().filter(|size| **size > 0);
        let (sum, count) = known.fold((0u64, 0u64), |(sum, count), size| (sum + u64::from(*size), count + 1));
        Some(Self::Recorded { all: Arc::clone(trace), mean: sum.checked_div(count)? })
    }

    /// The size of a document, drawn from that document's stream.
    #[inline]
    pub(crate) fn of(&self, index: u64, rng: &mut Rng) -> u64 {
        match self {
            Self::Uniform(min, max) => rng.within(*min, *max),
            Self::Lognormal { median, sigma, min, max } => {
                // Half a step above 0, whose quantile is infinite.
                let p = rng.unit() + 0.5 / (1u64 << 53) as f64;
                ((median * (sigma * normal_quantile(p)).exp()).round() as u64).clamp(*min, *max)
            }
            Self::Quantiles(all) => all[rng.below(all.len() as u64) as usize],
            Self::Recorded { all, mean } => {
                let size = all.sizes().and_then(|all| all.get(usize::try_from(index).ok()?)).copied();
                size.filter(|size| *size > 0).map_or(*mean, u64::from)
            }
        }
    }
}

/// Line lengths of a file, as at most [`QUANTILES`] values of equal weight.
fn quantiles(file: &Path, path: &str) -> Result<Vec<u64>, DocumentError> {
    let wrong = |line: Option<u64>, message: &str| DocumentError::in_file(path, file.to_owned(), line, message);
    let mut reader =
        LineReader::open(file).map_err(|e| wrong(None, &format!("cannot be opened: {e}; check the path")))?;
    let (mut line, mut kept, mut seen) = (Vec::new(), Vec::new(), 0u64);
    let mut rng = Rng::of(seed_of("like", 0), 0, 0);
    while reader.next(&mut line).map_err(|e| wrong(Some(reader.line()), &format!("cannot be read: {e}")))? {
        if line.is_empty() {
            continue;
        }
        seen += 1;
        // A uniform sample in bounded memory: algorithm R (Vitter 1985).
        if kept.len() < RESERVOIR {
            kept.push(line.len() as u64);
        } else if let Some(place) = kept.get_mut(rng.below(seen) as usize) {
            *place = line.len() as u64;
        }
    }
    if kept.is_empty() {
        return Err(wrong(None, "has no lines to take sizes from"));
    }
    kept.sort_unstable();
    if kept.len() <= QUANTILES {
        return Ok(kept);
    }
    Ok((0..QUANTILES).map(|k| kept[(2 * k + 1) * kept.len() / (2 * QUANTILES)]).collect())
}

/// The quantile of the standard normal distribution: M. J. Wichura, algorithm AS 241 (PPND16),
/// Applied Statistics 37 (1988); accurate to about 1 part in 10^16.
// The digits are as published.
#[allow(clippy::excessive_precision)]
fn normal_quantile(p: f64) -> f64 {
    fn ratio(x: f64, over: [f64; 8], under: [f64; 7]) -> f64 {
        let top = over.iter().rev().fold(0.0, |sum, c| sum * x + c);
        let bottom = under.iter().rev().fold(0.0, |sum, c| sum * x + c) * x + 1.0;
        top / bottom
    }
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * ratio(
            r,
            [
                3.387_132_872_796_366_5,
                1.331_416_678_917_843_8e2,
                1.971_590_950_306_551_3e3,
                1.373_169_376_550_946_0e4,
                4.592_195_393_154_987_1e4,
                6.726_577_092_700_870_1e4,
                3.343_057_558_358_812_8e4,
                2.509_080_928_730_122_7e3,
            ],
            [
                4.231_333_070_160_091_1e1,
                6.871_870_074_920_579_1e2,
                5.394_196_021_424_751_1e3,
                2.121_379_430_158_659_7e4,
                3.930_789_580_009_271_1e4,
                2.872_908_573_572_194_3e4,
                5.226_495_278_852_854_6e3,
            ],
        );
    }
    let r = (-(if q < 0.0 { p } else { 1.0 - p }).ln()).sqrt();
    let value = if r <= 5.0 {
        ratio(
            r - 1.6,
            [
                1.423_437_110_749_683_6,
                4.630_337_846_156_545_3,
                5.769_497_221_460_691_4,
                3.647_848_324_763_204_5,
                1.270_458_252_452_368_4,
                2.417_807_251_774_506_1e-1,
                2.272_384_498_926_918_5e-2,
                7.745_450_142_783_414_1e-4,
            ],
            [
                2.053_191_626_637_758_8,
                1.676_384_830_183_803_8,
                6.897_673_349_851_000_5e-1,
                1.481_039_764_274_800_7e-1,
                1.519_866_656_361_645_7e-2,
                5.475_938_084_995_344_9e-4,
                1.050_750_071_644_416_8e-9,
            ],
        )
    } else {
        ratio(
            r - 5.0,
            [
                6.657_904_643_501_103_8,
                5.463_784_911_164_114_4,
                1.784_826_539_917_291_3,
                2.965_605_718_285_048_9e-1,
                2.653_218_952_657_612_3e-2,
                1.242_660_947_388_078_4e-3,
                2.711_555_568_743_487_6e-5,
                2.010_334_399_292_288_1e-7,
            ],
            [
                5.998_322_065_558_879_4e-1,
                1.369_298_809_227_358_1e-1,
                1.487_536_129_085_061_5e-2,
                7.868_691_311_456_132_6e-4,
                1.846_318_317_510_054_7e-5,
                1.421_511_758_316_446_0e-7,
                2.044_263_103_389_939_8e-15,
            ],
        )
    };
    if q < 0.0 { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(sizes: &Sizes, n: u64) -> Vec<u64> {
        (0..n).map(|i| sizes.of(i, &mut Rng::of(77, i, 0))).collect()
    }

    #[test]
    fn the_normal_quantile_is_right() {
        // Published check values of AS 241.
        for (p, z) in
            [(0.25, -0.674_489_750_196_081_7), (0.001, -3.090_232_306_167_813), (1e-20, -9.262_340_089_798_408)]
        {
            assert!((normal_quantile(p) - z).abs() < 1e-12, "{p}: {}", normal_quantile(p));
        }
    }

    #[test]
    fn ranges_are_even() {
        // 64 cells, 63 degrees of freedom: chi-square is below 104 in all but 0.1 % of seeds.
        let mut cells = [0u64; 64];
        for size in draw(&Sizes::Uniform(1_000, 1_063), 64_000) {
            cells[(size - 1_000) as usize] += 1;
        }
        let chi: f64 = cells.iter().map(|&c| (c as f64 - 1_000.0).powi(2) / 1_000.0).sum();
        assert!(chi < 104.0, "{chi}");
    }

    #[test]
    fn lognormal_sizes_fit() {
        // Kolmogorov-Smirnov against the quantiles: below 1.95/√n in all but 0.1 % of seeds.
        let n = 20_000;
        let mut sizes = draw(&Sizes::Lognormal { median: 100_000.0, sigma: 0.8, min: 1, max: 1 << 40 }, n);
        sizes.sort_unstable();
        let distance = (1..n)
            .map(|k| {
                let p = k as f64 / n as f64;
                let z = (sizes[k as usize] as f64 / 100_000.0).ln() / 0.8;
                // The normal distribution by numeric inversion of its quantile.
                let (mut low, mut high) = (1e-12, 1.0 - 1e-12);
                for _ in 0..50 {
                    let middle = (low + high) / 2.0;
                    if normal_quantile(middle) < z { low = middle } else { high = middle }
                }
                (low - p).abs()
            })
            .fold(0.0, f64::max);
        assert!(distance < 1.95 / (n as f64).sqrt(), "{distance}");
    }

    #[test]
    fn lognormal_sizes_stay_within_their_bounds() {
        let sizes = draw(&Sizes::Lognormal { median: 100.0, sigma: 3.0, min: 64, max: 4_096 }, 10_000);
        assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&64), Some(&4_096)));
    }

    #[test]
    fn sizes_follow_a_sample() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sample.jsonl");
        let lines: String =
            (0..5_000).map(|i| "x".repeat(if i % 5 == 0 { 2_000 } else { 100 + i % 7 }) + "\n").collect();
        std::fs::write(&file, lines).unwrap();
        let size = Size::Like("sample.jsonl".into());
        let sizes = Sizes::new(&size, dir.path(), "p").unwrap();
        let Sizes::Quantiles(all) = &sizes else { panic!("quantiles") };
        assert_eq!(all.len(), 1_024);
        let drawn = draw(&sizes, 20_000);
        let large = drawn.iter().filter(|&&s| s == 2_000).count() as f64 / 20_000.0;
        assert!((large - 0.2).abs() < 0.01, "{large}");
        assert!(drawn.iter().all(|&s| s == 2_000 || (100..107).contains(&s)));
    }
}
