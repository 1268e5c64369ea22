use proptest::prelude::*;

use super::*;
// Named, because proptest exports another one.
use super::Rng;
use crate::keys::fit::{chi_square_z, even};

const ALL: [Popularity; 6] = [
    Popularity::Uniform,
    Popularity::Zipf(0.99),
    Popularity::Hotspot { keys: 0.1, operations: 0.9 },
    Popularity::Latest(0.99),
    Popularity::Sequential,
    Popularity::WorkingSet { keys: 0.2, operations: 0.8 },
];

impl Ownership {
    /// Whether this worker may draw `index`.
    fn owns(self, index: u64) -> bool {
        match self {
            Self::Independent => true,
            Self::Disjoint { worker, workers } => index % workers.max(1) == worker,
        }
    }
}

fn disjoint(worker: u64, workers: u64) -> Ownership {
    Ownership::Disjoint { worker, workers }
}

/// How often each of `count` keys is drawn by one worker.
fn counts(popularity: Popularity, count: u64, ownership: Ownership, worker: u64, draws: u64) -> Vec<u64> {
    let mut stream = KeyStream::new(popularity, count, ownership, 42, worker).unwrap();
    let mut rng = Rng::stream(42, worker);
    let mut counts = vec![0; count as usize];
    for _ in 0..draws {
        counts[stream.next(&mut rng, count) as usize] += 1;
    }
    counts
}

fn zipf_probabilities(n: u64, exponent: f64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-exponent)).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|w| w / sum).collect()
}

#[test]
fn uniform_is_even() {
    assert!(chi_square_z(&counts(Popularity::Uniform, 1_000, Ownership::Independent, 0, 200_000), &even(1_000)) < 3.7);
    let own = counts(Popularity::Uniform, 1_000, disjoint(1, 4), 1, 200_000);
    let own: Vec<u64> = own.into_iter().skip(1).step_by(4).collect();
    assert!(chi_square_z(&own, &even(250)) < 3.7);
}

#[test]
fn zipf_is_scattered_and_alike_for_independent_workers() {
    let n = 1_000;
    let scatter = Permutation::new(n, mix64(42, SCATTER));
    for worker in 0..3 {
        let drawn = counts(Popularity::Zipf(0.99), n, Ownership::Independent, worker, 300_000);
        let by_rank: Vec<u64> = (0..n).map(|rank| drawn[scatter.forward(rank) as usize]).collect();
        assert!(chi_square_z(&by_rank, &zipf_probabilities(n, 0.99)) < 3.7);
        let hottest = (0..n).max_by_key(|&i| drawn[i as usize]);
        assert_eq!(hottest, Some(scatter.forward(0)));
    }
}

#[test]
fn disjoint_zipf_is_the_law_over_the_own_keys() {
    let (n, workers) = (1_003, 4);
    let mut hottest = Vec::new();
    for worker in 0..workers {
        let drawn = counts(Popularity::Zipf(1.2), n, disjoint(worker, workers), worker, 300_000);
        let mut own: Vec<(u64, u64)> = (0..).zip(drawn).filter(|(i, _)| i % workers == worker).collect();
        let owned = own.len() as u64;
        assert_eq!(owned, disjoint(worker, workers).owned(n));
        let scatter = Permutation::new(owned, mix64(mix64(42, SCATTER), worker));
        let by_rank: Vec<u64> = (0..owned).map(|rank| own[scatter.forward(rank) as usize].1).collect();
        assert!(chi_square_z(&by_rank, &zipf_probabilities(owned, 1.2)) < 3.7);
        own.sort_by_key(|&(_, drawn)| drawn);
        hottest.push(own[own.len() - 1].0 / workers);
    }
    hottest.sort_unstable();
    hottest.dedup();
    assert!(hottest.len() > 1, "the hot keys of all workers are neighbours");
}

#[test]
fn hotspot_is_the_first_share_and_working_set_a_scattered_one() {
    let split = |keys: usize, of: usize| {
        let mut probabilities = vec![0.8 / keys as f64; keys];
        probabilities.resize(of, 0.2 / (of - keys) as f64);
        probabilities
    };
    let hotspot = Popularity::Hotspot { keys: 0.1, operations: 0.8 };
    let drawn = counts(hotspot, 1_000, Ownership::Independent, 0, 300_000);
    assert!(chi_square_z(&drawn, &split(100, 1_000)) < 3.7);

    // Disjoint workers together have the distribution of one worker.
    let mut union = vec![0; 1_000];
    for worker in 0..4 {
        for (sum, drawn) in union.iter_mut().zip(counts(hotspot, 1_000, disjoint(worker, 4), worker, 80_000)) {
            *sum += drawn;
        }
    }
    assert!(chi_square_z(&union, &split(100, 1_000)) < 3.7);

    let working_set = Popularity::WorkingSet { keys: 0.1, operations: 0.8 };
    let mut sets = Vec::new();
    for worker in 0..2 {
        let drawn = counts(working_set, 1_000, Ownership::Independent, worker, 300_000);
        let mut order: Vec<usize> = (0..1_000).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(drawn[i]));
        let mut set = order[..100].to_vec();
        set.sort_unstable();
        let (hot, cold): (Vec<usize>, Vec<usize>) = (0..1_000).partition(|i| set.contains(i));
        let sorted: Vec<u64> = hot.into_iter().chain(cold).map(|i| drawn[i]).collect();
        assert!(chi_square_z(&sorted, &split(100, 1_000)) < 3.7);
        sets.push(set);
    }
    assert_eq!(sets[0], sets[1]);
    let in_first_half = sets[0].iter().filter(|&&i| i < 500).count();
    assert!((30..70).contains(&in_first_half), "{in_first_half} of 100");
}

#[test]
fn shares_at_their_ends_work() {
    for (keys, operations) in [(1.0, 0.5), (0.5, 1.0), (0.5, 0.0), (1e-9, 0.9)] {
        let drawn = counts(Popularity::Hotspot { keys, operations }, 10, Ownership::Independent, 0, 10_000);
        assert_eq!(drawn.iter().sum::<u64>(), 10_000);
        match (keys, operations) {
            (_, 1.0) => assert_eq!(drawn[5..].iter().sum::<u64>(), 0),
            (_, 0.0) => assert_eq!(drawn[..5].iter().sum::<u64>(), 0),
            (1.0, _) => assert!(drawn.iter().all(|&n| n > 800)),
            _ => assert!(drawn[0] > 8_800),
        }
    }
}

#[test]
fn latest_follows_the_newest() {
    let mut stream = KeyStream::new(Popularity::Latest(0.9), 100, Ownership::Independent, 1, 0).unwrap();
    let mut rng = Rng::new(1);
    for newest in [100, 150, 151, 1_000, 50] {
        let mut ages = vec![0; newest as usize];
        for _ in 0..200_000 {
            ages[(newest - 1 - stream.next(&mut rng, newest)) as usize] += 1;
        }
        // 151 uses the distribution of 150; otherwise each insert would cost a rebuild.
        let known = if newest == 151 { 150 } else { newest };
        let mut probabilities = zipf_probabilities(known, 0.9);
        probabilities.resize(newest as usize, 0.0);
        assert!(chi_square_z(&ages, &probabilities) < 3.7, "{newest}");
    }
    assert_eq!(stream.next(&mut rng, 0), 0);
}

#[test]
fn disjoint_latest_rounds_down_to_an_own_key() {
    let (count, workers) = (1_000, 4);
    for worker in 0..workers {
        let drawn = counts(Popularity::Latest(0.9), count, disjoint(worker, workers), worker, 200_000);
        let mut expected = vec![0.0; count as usize];
        for (age, probability) in (0..).zip(zipf_probabilities(count, 0.9)) {
            let own = (0..=(count - 1 - age)).rev().find(|i| i % workers == worker).unwrap_or(worker);
            expected[own as usize] += probability;
        }
        // Newest first, because cells with few draws are merged with the next ones.
        let (drawn, expected): (Vec<u64>, Vec<f64>) = drawn.into_iter().zip(expected).rev().unzip();
        assert!(chi_square_z(&drawn, &expected) < 3.7);
    }
}

#[test]
fn sequential_walks_round() {
    let walk = |ownership, stream| {
        let mut keys = KeyStream::new(Popularity::Sequential, 8, ownership, 1, stream).unwrap();
        let mut rng = Rng::new(1);
        (0..9).map(|_| keys.next(&mut rng, 8)).collect::<Vec<_>>()
    };
    assert_eq!(walk(Ownership::Independent, 0), [0, 1, 2, 3, 4, 5, 6, 7, 0]);
    assert_eq!(walk(Ownership::Independent, 3), [6, 7, 0, 1, 2, 3, 4, 5, 6]);
    assert_eq!([1, 2, 5].map(|stream| walk(Ownership::Independent, stream)[0]), [4, 2, 5]);
    assert_eq!(walk(disjoint(2, 3), 2), [2, 5, 2, 5, 2, 5, 2, 5, 2]);
}

#[test]
fn disjoint_workers_cover_every_key() {
    for popularity in ALL {
        let mut drawn = vec![0; 50];
        for worker in 0..3 {
            let own = counts(popularity, 50, disjoint(worker, 3), worker, 20_000);
            for (sum, own) in drawn.iter_mut().zip(own) {
                assert!(*sum == 0 || own == 0, "two workers draw one key");
                *sum += own;
            }
        }
        assert!(drawn.iter().all(|&n| n > 0), "{popularity}: {drawn:?}");
    }
}

proptest! {
    #[test]
    fn draws_stay_within_what_is_owned(
        which in 0..ALL.len(), count in 1u64..=MAX_KEYS, small in 1u64..100, is_small: bool,
        workers in 1u64..50, worker in 0u64..50, seed: u64, more in 0u64..1_000,
    ) {
        let count = if is_small { small } else { count };
        let worker = worker % workers;
        for ownership in [Ownership::Independent, disjoint(worker, workers)] {
            let made = KeyStream::new(ALL[which], count, ownership, seed, worker);
            if ownership.owned(count) == 0 {
                prop_assert_eq!(made.unwrap_err(), KeyError::NothingOwned { worker, workers, count });
                continue;
            }
            let mut stream = made.unwrap();
            prop_assert_eq!(stream.owned(), ownership.owned(count));
            let mut rng = Rng::stream(seed, worker);
            for i in 0..200 {
                let newest = (count + more * i / 200).min(MAX_KEYS);
                let key = stream.next(&mut rng, newest);
                prop_assert!(ownership.owns(key));
                let end = if matches!(ALL[which], Popularity::Latest(_)) { newest } else { count };
                prop_assert!(key < end);
            }
        }
    }
}

#[test]
fn a_billion_keys_take_no_memory() {
    // Nothing in it points to the heap, so its size is all there is.
    assert!(size_of::<KeyStream>() <= 256);
    assert!(!std::mem::needs_drop::<KeyStream>(), "it owns something on the heap");
}

#[test]
fn the_same_seed_draws_the_same_keys() {
    let draw = |seed| {
        let mut stream = KeyStream::new(ALL[1], 1_000_000_000, Ownership::Independent, seed, 0).unwrap();
        let mut rng = Rng::stream(seed, 0);
        (0..100).map(|_| stream.next(&mut rng, 0)).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let new = |popularity, count, ownership| KeyStream::new(popularity, count, ownership, 1, 0).map(|_| ());
    let independent = Ownership::Independent;
    assert_eq!(new(Popularity::Uniform, 0, independent), Err(KeyError::Count { count: 0 }));
    assert!(matches!(new(Popularity::Uniform, MAX_KEYS + 1, independent), Err(KeyError::Count { .. })));
    assert!(matches!(new(Popularity::Zipf(f64::NAN), 9, independent), Err(KeyError::Exponent { .. })));
    assert!(matches!(new(Popularity::Latest(-1.0), 9, independent), Err(KeyError::Exponent { .. })));
    assert_eq!(new(Popularity::Uniform, 9, disjoint(3, 3)), Err(KeyError::Worker { worker: 3, workers: 3 }));
    assert_eq!(new(Popularity::Uniform, 9, disjoint(0, 0)), Err(KeyError::Worker { worker: 0, workers: 0 }));
    for (keys, operations) in [(0.0, 0.5), (1.5, 0.5), (0.5, f64::NAN), (f64::NAN, 0.5)] {
        let popularity = Popularity::WorkingSet { keys, operations };
        assert!(matches!(new(popularity, 9, independent), Err(KeyError::Shares { .. })));
    }
    let message = new(Popularity::Uniform, 2, disjoint(2, 3)).unwrap_err().to_string();
    assert!(message.contains("use at most 2 workers"), "{message}");
}
