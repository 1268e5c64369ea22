use proptest::prelude::*;

use super::*;
// Named, because proptest exports another one.
use super::Rng;
use crate::keys::fit::{chi_square_z, even, kolmogorov_smirnov};

const S: u64 = 1_000_000_000;

fn constant(rate: &Rate, worker: u64, workers: u64) -> Arrivals {
    Arrivals::new(rate, ArrivalSpec::Constant, worker, workers, 1).unwrap()
}

/// The scheduled starts up to and including `until_ns`.
fn scheduled_starts(mut arrivals: Arrivals, until_ns: u64) -> Vec<u64> {
    let mut times = Vec::new();
    while arrivals.peek_ns() <= until_ns {
        times.push(arrivals.peek_ns());
        arrivals.advance();
    }
    times
}

/// The scheduled starts of all workers together, in order.
fn union(rate: &Rate, arrival: ArrivalSpec, workers: u64, until_ns: u64) -> Vec<u64> {
    let of = |worker| scheduled_starts(Arrivals::new(rate, arrival, worker, workers, 7).unwrap(), until_ns);
    let mut all: Vec<u64> = (0..workers).flat_map(of).collect();
    all.sort_unstable();
    all
}

fn rates() -> [Rate; 4] {
    [
        Rate::Constant(1_234.5),
        Rate::Ramp { from: 0.0, to: 3_000.0, over_ns: 2 * S },
        Rate::Ramp { from: 3_000.0, to: 100.0, over_ns: 2 * S },
        Rate::Steps(vec![(S / 2, 0.0), (S, 2_000.0), (S, 0.0), (S / 3, 777.7), (S, 1_500.0)]),
    ]
}

#[test]
fn even_times_are_exact() {
    let times = scheduled_starts(constant(&Rate::Constant(3.0), 0, 1), 2 * S);
    assert_eq!(times, [0, 333_333_333, 666_666_666, S, 1_333_333_333, 1_666_666_666, 2 * S]);
    assert_eq!(scheduled_starts(constant(&Rate::Constant(3.0), 1, 3), 2 * S), [333_333_333, 1_333_333_333]);
    assert_eq!(scheduled_starts(constant(&Rate::Constant(0.1), 0, 1), 25 * S), [0, 10 * S - 1, 20 * S - 1]);
}

#[test]
fn even_times_do_not_drift() {
    for per_s in [1u64, 3, 7, 1_000, 49_999, 50_000, 1_000_003, 999_999_937] {
        // Operation 10^12, or the last one before time ends. With this many workers, it is the first operation of its
        // worker.
        let n = 1_000_000_000_000u64.min(per_s * 18_000_000_000);
        let exact_ns = u128::from(n) * u128::from(S) / u128::from(per_s);
        let rate = Rate::Constant(per_s as f64);
        let scheduled_ns = constant(&rate, n, n + 1).peek_ns();
        assert!(u128::from(scheduled_ns).abs_diff(exact_ns) <= 1, "{per_s}/s: {scheduled_ns} for {exact_ns}");

        // Walking gives the same times as starting there, however far it goes.
        let step = n / 1_000;
        let mut walker = constant(&rate, 0, step);
        (0..1_000).for_each(|_| walker.advance());
        assert_eq!(walker.peek_ns(), constant(&rate, step * 1_000, step * 1_000 + 1).peek_ns());
    }
}

proptest! {
    #[test]
    fn gaps_are_the_inverse_of_any_rate(per_s in prop_oneof![1e-6..1e3f64, 1e3..1e9f64, Just(1e12), Just(0.5)]) {
        // gap · rate = 10^9 · 2^64, to the precision of an f64.
        let product = gap_fixed(per_s) as f64 * per_s / (1e9 * 18_446_744_073_709_551_616.0);
        prop_assert!((product - 1.0).abs() < 1e-14, "{product}");
    }

    #[test]
    fn scheduled_by_agrees_with_the_times(
        which in 0..4usize, poisson: bool, workers in 1u64..5, worker in 0u64..5, passed in 0usize..3_000, t in 0..4 * S,
    ) {
        let arrival = if poisson { ArrivalSpec::Poisson } else { ArrivalSpec::Constant };
        let fresh = Arrivals::new(&rates()[which], arrival, worker % workers, workers, 3).unwrap();
        let times = scheduled_starts(fresh.clone(), 4 * S);
        let mut arrivals = fresh;
        (0..passed).for_each(|_| arrivals.advance());
        for t_ns in [0, t, times.get(passed).copied().unwrap_or(0), times.last().map_or(0, |last| last.saturating_sub(1))] {
            let expected = times.iter().filter(|&&scheduled_ns| scheduled_ns <= t_ns).count() as u64;
            prop_assert_eq!(arrivals.scheduled_by(t_ns), expected, "at {}", t_ns);
        }
    }

    #[test]
    fn scheduled_by_of_any_even_rate(per_s in 0.001..1e9f64, n in 0u64..1_000_000_000_000, workers in 1u64..100) {
        let arrivals = constant(&Rate::Constant(per_s), n % workers, workers);
        let scheduled_ns = constant(&Rate::Constant(per_s), n, n + 1).peek_ns();
        if scheduled_ns > 0 && scheduled_ns < u64::MAX {
            prop_assert!(arrivals.scheduled_by(scheduled_ns) > n / workers);
            prop_assert!(arrivals.scheduled_by(scheduled_ns - 1) <= n / workers);
        }
    }
}

#[test]
fn workers_together_are_the_one_process() {
    for rate in rates() {
        let one = union(&rate, ArrivalSpec::Constant, 1, 4 * S);
        for workers in [2, 3, 8] {
            assert_eq!(union(&rate, ArrivalSpec::Constant, workers, 4 * S), one, "{rate:?}");
        }
        let expected = rate.expected(4 * S);
        assert!((one.len() as f64 - expected).abs() <= 1.0, "{rate:?}: {} for {expected}", one.len());
    }
}

#[test]
fn pauses_hold_no_operation() {
    let rate = Rate::Steps(vec![(S, 0.0), (S, 4.0), (S, 0.0), (S, 2.0), (S, 0.0)]);
    let times = scheduled_starts(constant(&rate, 0, 1), u64::MAX - 1);
    let quarters: Vec<f64> = times.iter().map(|&ns| ns as f64 / S as f64).collect();
    assert_eq!(quarters, [1.0, 1.25, 1.5, 1.75, 3.0, 3.5]);
    let mut random = union(&rate, ArrivalSpec::Poisson, 50, u64::MAX - 1);
    random.retain(|ns| !matches!(ns / S, 1 | 3));
    assert!(random.is_empty(), "{random:?}");
    let ended = constant(&rate, 6, 7);
    assert_eq!((ended.peek_ns(), ended.scheduled_by(u64::MAX)), (u64::MAX, 0));
}

#[test]
fn slow_rates_come_to_an_end_without_overflow() {
    for (per_s, arrival) in
        [(1e-12, ArrivalSpec::Constant), (1e-300, ArrivalSpec::Constant), (1e-300, ArrivalSpec::Poisson)]
    {
        let mut arrivals = Arrivals::new(&Rate::Constant(per_s), arrival, 0, 3, 1).unwrap();
        (0..10).for_each(|_| arrivals.advance());
        assert_eq!(arrivals.peek_ns(), u64::MAX);
        assert_eq!(arrivals.scheduled_by(u64::MAX), u64::from(arrival == ArrivalSpec::Constant));
    }
    let tiny = Rate::Constant(f64::from_bits(1));
    assert_eq!(constant(&tiny, 1, 2).peek_ns(), u64::MAX);
}

#[test]
fn poisson_gaps_are_exponential() {
    for workers in [1, 4] {
        let rate = 10_000.0;
        let times = union(&Rate::Constant(rate), ArrivalSpec::Poisson, workers, 10 * S);
        let mut gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let ks = kolmogorov_smirnov(&mut gaps, |ns| 1.0 - (-ns * rate / 1e9).exp());
        assert!(ks < 1.95, "{workers} workers: {ks}");
        // A Poisson count of 100,000 has a standard deviation of 316.
        assert!(times.len().abs_diff(100_000) < 1_100, "{}", times.len());
    }
}

#[test]
fn poisson_follows_a_changing_rate() {
    for rate in rates() {
        // 400 runs of different seeds, 1 of 3 workers each; cells of a tenth of a second.
        let mut counts = vec![0; 40];
        for seed in 0..400 {
            for ns in
                scheduled_starts(Arrivals::new(&rate, ArrivalSpec::Poisson, seed % 3, 3, seed).unwrap(), 4 * S - 1)
            {
                counts[(ns * 40 / (4 * S)) as usize] += 1;
            }
        }
        let total = rate.expected(4 * S);
        let (drawn, expected) = (counts.iter().sum::<u64>() as f64, total * 400.0 / 3.0);
        assert!((drawn - expected).abs() < 4.0 * expected.sqrt(), "{rate:?}: {drawn} for {expected}");
        let cell = |i: u64| (rate.expected((i + 1) * S / 10) - rate.expected(i * S / 10)) / total;
        let z = chi_square_z(&counts, &(0..40).map(cell).collect::<Vec<_>>());
        assert!(z < 3.7, "{rate:?}: {z}");
    }
}

#[test]
fn poisson_streams_are_independent_of_each_other_and_of_keys() {
    let rate = Rate::Constant(1_000.0);
    let first = |worker, seed| Arrivals::new(&rate, ArrivalSpec::Poisson, worker, 4, seed).unwrap().peek_ns();
    assert_eq!(first(2, 9), first(2, 9));
    assert_ne!(first(2, 9), first(3, 9));
    assert_ne!(first(2, 9), first(2, 10));
    let key = Rng::stream(9, 2).unit();
    assert_ne!(first(2, 9), (-(1.0 - key).ln() * 4e6) as u64);

    // Half of the gaps of each worker are above the median, independently of the other worker.
    let mut pairs = [0u64; 4];
    let (mut left, mut right) = (
        Arrivals::new(&rate, ArrivalSpec::Poisson, 0, 2, 5).unwrap(),
        Arrivals::new(&rate, ArrivalSpec::Poisson, 1, 2, 5).unwrap(),
    );
    let median_ns = 2e6 * std::f64::consts::LN_2;
    let long = |arrivals: &mut Arrivals| {
        let before = arrivals.peek_ns();
        arrivals.advance();
        usize::from((arrivals.peek_ns() - before) as f64 > median_ns)
    };
    for _ in 0..40_000 {
        pairs[2 * long(&mut left) + long(&mut right)] += 1;
    }
    assert!(chi_square_z(&pairs, &even(4)) < 3.7, "{pairs:?}");
}

#[test]
fn impossible_schedules_are_refused() {
    let new = |per_s, worker, workers| {
        Arrivals::new(&Rate::Constant(per_s), ArrivalSpec::Constant, worker, workers, 1).map(|_| ())
    };
    assert_eq!(new(1.0, 2, 2), Err(ScheduleError::Worker { worker: 2, workers: 2 }));
    assert_eq!(new(1.0, 0, 0), Err(ScheduleError::Worker { worker: 0, workers: 0 }));
    assert!(matches!(new(f64::NAN, 0, 1), Err(ScheduleError::Rate { .. })));
    assert!(matches!(new(0.0, 0, 1), Err(ScheduleError::NeverScheduled { .. })));
}
