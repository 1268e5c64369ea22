//! Simulated studies that test how often intervals cover the true value, and how often they show what is not there.
//!
//! The noise is that of `docs/statistics.md`: each trial differs by 3 %, and resembles the trial before it (AR(1) with a
//! correlation of 0.5). Where configurations are compared in rounds, the machine also drifts by 20 % over the study.

use storebench_documents::keys::Rng;

use super::{Observed, band, mean_of_trials, paired_ratio, ratio_of_runs, share_of};

/// Studies of each kind.
const STUDIES: u64 = 1_000;
/// How many of them an interval must cover.
const FITS: std::ops::RangeInclusive<usize> = 930..=970;
/// Studies where a share is stated that `STUDIES` would not tell from its neighbours.
const MANY: u64 = 20 * STUDIES;
const NOISE: f64 = 0.03;
/// What is measured.
const TRUE: f64 = 1_000.0;

/// Autocorrelated normal values of variance 1: AR(1) with `phi`.
pub(crate) fn noise(seed: u64, n: usize, phi: f64) -> Vec<f64> {
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

/// A study of like configurations in rounds, in shuffled order within each: for each configuration its trials.
fn study(seed: u64, rounds: usize, configurations: usize, drift: f64) -> Vec<Vec<Observed>> {
    let trials = rounds * configurations;
    let noise = noise(seed, trials, 0.5);
    let mut random = Rng::new(seed ^ 0x0073_7475_6479);
    let mut all = vec![Vec::new(); configurations];
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..configurations).collect();
        for last in (1..configurations).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        for (position, configuration) in order.into_iter().enumerate() {
            let at = round * configurations + position;
            let value = TRUE * (NOISE * noise[at] - drift * at as f64 / trials as f64).exp();
            all[configuration].push(Observed::exactly(at as u32 + 1, value));
        }
    }
    all
}

/// Pairs of two configurations of which the first is `effect` times the second.
fn pairs(seed: u64, rounds: usize, effect: f64) -> Vec<(Observed, Observed)> {
    let all = study(seed, rounds, 2, 0.2);
    let times = |of: &Observed| Observed::exactly(of.at, of.value * effect);
    all[0].iter().map(times).zip(all[1].iter().copied()).collect()
}

/// In how many studies the interval covers the true value.
fn covered(truth: f64, interval: impl FnMut(u64) -> (f64, f64)) -> usize {
    covered_of(STUDIES, truth, interval)
}

/// The same of so many studies.
fn covered_of(studies: u64, truth: f64, mut interval: impl FnMut(u64) -> (f64, f64)) -> usize {
    (0..studies)
        .filter(|seed| {
            let (low, high) = interval(*seed);
            low <= truth && truth <= high
        })
        .count()
}

fn fits(covered: usize, what: &str) {
    assert!(FITS.contains(&covered), "{what}: {covered} of {STUDIES}");
}

/// A study of as many rounds as a pilot of five says has an interval that is as narrow as asked for in about half of all
/// cases. Pilots differ, so the share is counted over pairs of a pilot and a study.
#[test]
fn a_pilot_says_how_many_rounds_are_needed() {
    const WITHIN: f64 = 0.02;
    let mut narrow = 0;
    let mut studies = 0;
    for seed in 0..STUDIES {
        // Without a drift, which is smaller in each round of a study of more rounds.
        let two = |seed: u64, rounds: usize| {
            let all = study(seed, rounds, 2, 0.0);
            paired_ratio(&all[0].iter().copied().zip(all[1].iter().copied()).collect::<Vec<_>>())
        };
        let Some(rounds) = two(seed, 5).and_then(|found| found.trials_for(WITHIN, 1)) else { continue };
        let found = two(seed + STUDIES, rounds as usize).map(|found| found.estimate(1));
        studies += 1;
        narrow += usize::from(found.and_then(|of| of.relative_half_width()).is_some_and(|half| half <= WITHIN));
    }
    assert!(studies > 990 && (400..=600).contains(&narrow), "{narrow} of {studies}");
    // A single configuration, whose trials resemble each other.
    let (mut narrow, mut studies) = (0, 0);
    for seed in 0..STUDIES {
        let one = |seed: u64, rounds: usize| mean_of_trials(&study(seed, rounds, 1, 0.0)[0]);
        let Some(rounds) = one(seed, 5).and_then(|found| found.trials_for(WITHIN, 1)) else { continue };
        let found = one(seed + STUDIES, rounds as usize).map(|found| found.estimate(1));
        studies += 1;
        narrow += usize::from(found.and_then(|of| of.relative_half_width()).is_some_and(|half| half <= WITHIN));
    }
    assert!(studies > 990 && (400..=600).contains(&narrow), "{narrow} of {studies}");
}

/// A run that ends when its interval is narrow enough stops more often when its rounds happen to be alike. The first look
/// is late enough that its interval still covers as it says.
#[test]
fn runs_that_end_when_their_interval_is_narrow_enough() {
    const AT_MOST: usize = 40;
    let first = storebench_study::workload::FIRST_LOOK as usize;
    for until in [0.01, 0.015, 0.02, 0.03, 0.1] {
        let mut rounds = 0;
        let found = covered(1.0, |seed| {
            let pairs = pairs_without_drift(seed, AT_MOST);
            let at = |rounds: usize| paired_ratio(&pairs[..rounds]).unwrap().estimate(1);
            let narrow = |rounds: &usize| at(*rounds).relative_half_width().unwrap() <= until;
            let ended = (first..AT_MOST).find(narrow).unwrap_or(AT_MOST);
            rounds += ended;
            let ratio = at(ended);
            (ratio.low.unwrap(), ratio.high.unwrap())
        });
        fits(found, &format!("ratios until ± {until}, after {} rounds", rounds / STUDIES as usize));
    }
    for until in [0.01, 0.02, 0.03, 0.1] {
        let mut rounds = 0;
        let found = covered(TRUE, |seed| {
            let trials = &study(seed, AT_MOST, 1, 0.0)[0];
            let at = |rounds: usize| mean_of_trials(&trials[..rounds]).unwrap().estimate(1);
            let narrow = |rounds: &usize| at(*rounds).relative_half_width().unwrap() <= until;
            let ended = (first..AT_MOST).find(narrow).unwrap_or(AT_MOST);
            rounds += ended;
            let mean = at(ended);
            (mean.low.unwrap(), mean.high.unwrap())
        });
        fits(found, &format!("one configuration until ± {until}, after {} rounds", rounds / STUDIES as usize));
    }
}

fn pairs_without_drift(seed: u64, rounds: usize) -> Vec<(Observed, Observed)> {
    let all = study(seed, rounds, 2, 0.0);
    all[0].iter().copied().zip(all[1].iter().copied()).collect()
}

#[test]
fn one_configuration() {
    for (rounds, configurations) in [(2, 1), (3, 1), (5, 1), (10, 1), (20, 1), (5, 2), (10, 2), (5, 4)] {
        let found = covered(TRUE, |seed| {
            let mean = mean_of_trials(&study(seed, rounds, configurations, 0.0)[0]).unwrap().estimate(1);
            (mean.low.unwrap(), mean.high.unwrap())
        });
        fits(found, &format!("{rounds} rounds of {configurations}"));
    }
}

#[test]
fn two_configurations_in_rounds() {
    for (rounds, effect) in [(5, 1.0), (10, 1.0), (10, 1.05)] {
        let found = covered(effect, |seed| {
            let ratio = paired_ratio(&pairs(seed, rounds, effect)).unwrap().estimate(1);
            (ratio.low.unwrap(), ratio.high.unwrap())
        });
        fits(found, &format!("{rounds} rounds, {effect}"));
    }
}

#[test]
fn all_ratios_to_one_of_many_configurations_together() {
    for (rounds, configurations) in [(5, 3), (5, 12), (10, 12)] {
        let found = (0..STUDIES)
            .filter(|seed| {
                let all = study(*seed, rounds, configurations, 0.2);
                all[1..].iter().all(|other| {
                    let pairs: Vec<_> = other.iter().copied().zip(all[0].iter().copied()).collect();
                    !paired_ratio(&pairs).unwrap().estimate(configurations - 1).beyond(1.0)
                })
            })
            .count();
        fits(found, &format!("{rounds} rounds of {configurations}"));
    }
}

/// The best of twelve like configurations against any one of them, which was chosen before the study.
#[test]
fn no_configuration_is_ahead_among_twelve_like_ones() {
    let ahead = (0..STUDIES)
        .filter(|seed| {
            let all = study(*seed, 5, 12, 0.2);
            let worth = |trials: &[Observed]| trials.iter().map(|trial| trial.value.ln()).sum::<f64>();
            let best = (1..12).max_by(|a, b| worth(&all[*a]).total_cmp(&worth(&all[*b]))).unwrap();
            let pairs: Vec<_> = all[best].iter().copied().zip(all[0].iter().copied()).collect();
            paired_ratio(&pairs).unwrap().estimate(11).beyond(1.0)
        })
        .count();
    assert!(ahead <= 50, "{ahead} of {STUDIES}");
}

/// Runs of a day differ by 4 % beside the noise of their trials.
fn run(random: &mut Rng, seed: u64) -> Observed {
    let trials = &study(seed, 5, 1, 0.0)[0];
    let mean = trials.iter().map(|trial| trial.value.ln()).sum::<f64>() / trials.len() as f64;
    Observed::exactly(0, (mean + 0.04 * normal(random)).exp())
}

#[test]
fn two_sets_of_runs() {
    for (runs_a, runs_b) in [(3, 3), (5, 3), (5, 5), (10, 2)] {
        let found = covered(1.0, |seed| {
            let mut random = Rng::new(seed ^ 0x0072_756e);
            let mut set = |runs: u64, from: u64| -> Vec<Observed> {
                (0..runs).map(|nth| run(&mut random, seed * 100 + from + nth)).collect()
            };
            let ratio = ratio_of_runs(&set(runs_a, 0), &set(runs_b, 50)).unwrap().estimate(1);
            (ratio.low.unwrap(), ratio.high.unwrap())
        });
        fits(found, &format!("{runs_a} and {runs_b} runs"));
    }
}

/// A search ends between two rates of its grid. A grid that is coarser than the noise covers more: all that is known is
/// the range between the two rates.
#[test]
fn searches() {
    // The last one covers 97.2 %: ten trials with a step that is coarser than their noise.
    let cases = [(1.02_f64, 3, 0.93..=0.97), (1.02, 5, 0.93..=0.97), (1.05, 5, 0.93..=0.97), (1.05, 10, 0.968..=0.976)];
    for (step, trials, fits) in cases {
        let found = covered_of(MANY, TRUE, |seed| {
            let offset = Rng::new(seed ^ 0x6772_6964).unit();
            let trials = study(seed, trials, 1, 0.0);
            let searched = trials[0].iter().map(|trial| {
                let rung = ((trial.value.ln() / step.ln()) - offset).floor();
                let from = ((rung + offset) * step.ln()).exp();
                Observed { at: trial.at, value: from, from, to: from * step }
            });
            let mean = mean_of_trials(&searched.collect::<Vec<_>>()).unwrap().estimate(1);
            (mean.low.unwrap(), mean.high.unwrap())
        });
        let share = found as f64 / MANY as f64;
        assert!(fits.contains(&share), "{trials} searches by {step}: {share}");
    }
}

/// Shares of attempts that succeeded, where the chance differs from trial to trial.
#[test]
fn shares() {
    for (attempts, chance) in [(1_000, 0.9), (10_000, 0.99)] {
        let found = covered(chance, |seed| {
            let mut random = Rng::new(seed ^ 0x0073_6861_7265);
            let noise = noise(seed, 5, 0.5);
            let shares: Vec<f64> = noise
                .iter()
                .map(|noise| {
                    let of_trial = chance + 0.3 * (1.0 - chance) * noise;
                    (0..attempts).filter(|_| random.unit() < of_trial).count() as f64 / f64::from(attempts)
                })
                .collect();
            let raised: Vec<_> = (1..).zip(&shares).map(|(at, share)| Observed::exactly(at, share.exp())).collect();
            let mean = mean_of_trials(&raised).unwrap().estimate(1).map(f64::ln);
            let (low, high) = share_of(mean.value * 5.0 * f64::from(attempts), 5.0 * f64::from(attempts));
            (mean.low.unwrap().min(low), mean.high.unwrap().max(high))
        });
        fits(found, &format!("{attempts} attempts, {chance}"));
    }
}

#[test]
fn bands_over_time() {
    for (seconds, phi) in [(30, 0.0), (30, 0.5), (60, 0.5), (120, 0.6), (300, 0.6), (600, 0.8)] {
        let found = covered(0.0, |seed| {
            let band = band(&noise(seed, seconds, phi)).unwrap();
            (band.low, band.high)
        });
        fits(found, &format!("{seconds} s, {phi}"));
    }
}

#[test]
fn rounded_figures_have_a_width_and_cover_what_they_were_rounded_from() {
    // All trials have the same figure, as coarse as a clock of 1 µs.
    let rounded = |at, value: f64| Observed { at, value, from: value / 1.01, to: value * 1.01 };
    let same: Vec<Observed> = (1..=5).map(|at| rounded(at, 100.0)).collect();
    let mean = mean_of_trials(&same).unwrap().estimate(1);
    assert!(mean.low.unwrap() <= 99.1 && mean.high.unwrap() >= 100.9, "{mean:?}");
    let pairs: Vec<_> = same.iter().map(|one| (*one, *one)).collect();
    let ratio = paired_ratio(&pairs).unwrap().estimate(1);
    assert!(ratio.low.unwrap() < 0.981 && ratio.high.unwrap() > 1.019, "{ratio:?}");
}

#[test]
fn a_difference_of_five_percent_is_seen_and_none_is_not() {
    let seen = |effect: f64| {
        let is = |seed: &u64| paired_ratio(&pairs(*seed, 10, effect)).unwrap().estimate(1).beyond(1.0);
        (0..200).filter(is).count()
    };
    assert!(seen(1.05) > 140, "{}", seen(1.05));
    assert!(seen(1.0) < 20, "{}", seen(1.0));
}

/// The change that a gate says it could have detected is one that it does detect in 8 of 10 studies.
#[test]
fn gates_detect_what_they_say() {
    for rounds in [5, 10] {
        let line = 1.02;
        let mut changes: Vec<f64> = (0..STUDIES)
            .map(|seed| paired_ratio(&pairs(seed, rounds, 1.0)).unwrap().detectable(line, true, 1).unwrap())
            .collect();
        changes.sort_by(f64::total_cmp);
        let typical = changes[changes.len() / 2];
        let failed = (0..STUDIES)
            .filter(|seed| paired_ratio(&pairs(*seed, rounds, typical)).unwrap().estimate(1).low.unwrap() > line)
            .count();
        assert!((740..=860).contains(&failed), "{rounds} rounds, {typical}: {failed} of {STUDIES}");
    }
}

/// The recipes of `docs/compare.md` for CI: ten rounds, four gates, on a machine whose trials differ by 10 %.
#[test]
fn the_recipes_for_ci_fail_slower_builds_and_no_others() {
    let noisier = |of: &Observed| Observed::exactly(of.at, TRUE * (of.value / TRUE).powf(0.1 / NOISE));
    let figure = |seed: u64, effect: f64| {
        let slower = |(a, b): &(Observed, Observed)| {
            let a = noisier(a);
            (Observed::exactly(a.at, a.value * effect), noisier(b))
        };
        paired_ratio(&pairs(seed, 10, 1.0).iter().map(slower).collect::<Vec<_>>()).unwrap()
    };
    let fails = |seed: u64, effect: f64| figure(seed, effect).estimate(4).low.unwrap() > 1.02;
    let slower = (0..MANY).filter(|seed| fails(*seed, 1.2)).count() as f64 / MANY as f64;
    assert!(slower >= 0.93, "{slower} of slower builds fail");
    let alike = (0..STUDIES).filter(|seed| (0..4).any(|figure| fails(seed * 4 + figure, 1.0))).count();
    assert!(alike <= 15, "{alike} of {STUDIES} like builds fail");
    let weak = |seed: u64| figure(seed, 1.0).detectable(1.02, true, 4).unwrap() > 1.3;
    let weak = (0..STUDIES).filter(|seed| (0..4).any(|figure| weak(seed * 4 + figure))).count();
    assert!(weak <= 10, "{weak} of {STUDIES} studies are too weak");
    // A limit of 2 % is inside the interval of most like builds; one of 30 % is not.
    let passed = |line: f64| {
        let passes = |seed: &u64| (0..4).all(|nth| figure(seed * 4 + nth, 1.0).estimate(4).high.unwrap() <= line);
        (0..STUDIES).filter(passes).count()
    };
    assert!(passed(1.02) <= 10, "{} of {STUDIES} like builds pass 2 %", passed(1.02));
    assert!(passed(1.3) >= 980, "{} of {STUDIES} like builds pass 30 %", passed(1.3));
}
