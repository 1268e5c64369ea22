//! Simulated studies that test the coverage of intervals.

use storebench_documents::keys::Rng;

use super::{paired_ratio, unpaired_ratio};

/// Autocorrelated normal values of variance 1: AR(1) with `phi`.
pub(super) fn noise(seed: u64, n: usize, phi: f64) -> Vec<f64> {
    let mut random = Rng::new(seed ^ 0x006e_6f69_7365);
    let mut value = normal(&mut random);
    (0..n)
        .map(|_| {
            value = phi * value + (1.0 - phi * phi).sqrt() * normal(&mut random);
            value
        })
        .collect()
}

/// A normal value, by the Box-Muller method.
fn normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// One study of two configurations in rounds, in shuffled order within each. The machine drifts by 20 % over the study,
/// and the noise of each trial is correlated with that of the trial before.
fn study(seed: u64, rounds: usize, effect: f64) -> Vec<(f64, f64)> {
    let noise = noise(seed, 2 * rounds, 0.5);
    let mut random = Rng::new(seed ^ 0x0073_7475_6479);
    (0..rounds)
        .map(|round| {
            let trial = |position: usize| {
                let at = 2 * round + position;
                1_000.0 * (0.03 * noise[at] - 0.2 * at as f64 / (2 * rounds) as f64).exp()
            };
            let a_first = random.below(2) == 0;
            let (a, b) = if a_first { (trial(0), trial(1)) } else { (trial(1), trial(0)) };
            (a * effect, b)
        })
        .collect()
}

/// In how many of 1,000 studies the interval covers the true ratio.
fn covered(rounds: usize, effect: f64) -> usize {
    (0..1_000)
        .filter(|seed| {
            let ratio = paired_ratio(&study(*seed, rounds, effect)).unwrap();
            (ratio.low.unwrap()..=ratio.high.unwrap()).contains(&effect)
        })
        .count()
}

#[test]
fn a_a_studies_cover_one_in_95_of_100() {
    for rounds in [5, 10] {
        let covered = covered(rounds, 1.0);
        assert!((930..=970).contains(&covered), "{rounds} rounds: {covered} of 1,000");
    }
}

#[test]
fn a_b_studies_cover_their_difference_as_often() {
    let covered = covered(10, 1.05);
    assert!((930..=970).contains(&covered), "{covered} of 1,000");
}

#[test]
fn a_difference_of_five_percent_is_seen_and_none_is_not() {
    let seen =
        |effect: f64| (0..200).filter(|seed| paired_ratio(&study(*seed, 10, effect)).unwrap().beyond(1.0)).count();
    assert!(seen(1.05) > 140, "{}", seen(1.05));
    assert!(seen(1.0) < 20, "{}", seen(1.0));
}

#[test]
fn without_rounds_the_drift_hides_the_difference() {
    let (a, b): (Vec<f64>, Vec<f64>) = study(7, 10, 1.05).into_iter().unzip();
    let (paired, apart) = (paired_ratio(&study(7, 10, 1.05)).unwrap(), unpaired_ratio(&a, &b).unwrap());
    assert!(apart.relative_half_width() > paired.relative_half_width(), "{apart:?} {paired:?}");
}
