//! Tests which keys a bulk operation gets: each once, in order, by the phase's popularity.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::maker::{Maker, More, Stage};
use super::plan::PhasePlan;
use crate::store::{MemoryStore, Op, Store};
use storebench_documents::keys::{KeyStream, Ownership};
use storebench_documents::{Catalog, CatalogOptions};
use storebench_study::mix64;
use storebench_study::workload::{Popularity, Study};

// A shared file, because only tests use it.
#[path = "../../../documents/src/keys/fit.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod fit;
use fit::chi_square_z;

const STUDY: &str = r#"
title = "batches"
[collections.docs]
count = 200
[[phases]]
name       = "bulk"
workers    = 1
operations = 1
mix        = { read = { batch = 100 } }
"#;

const ALL: [&str; 9] = [
    "uniform",
    "zipf",
    "zipf:2",
    "hotspot:10%:90%",
    "latest",
    "latest:2",
    "sequential",
    "working-set:20%:80%",
    "working-set:10%:99.9%",
];

fn maker(overrides: &[&str], worker: u32, base: u64) -> Maker {
    let overrides: Vec<String> = overrides.iter().map(|s| (*s).to_owned()).collect();
    let study = Study::parse(STUDY, std::path::Path::new("batches.toml"), &overrides).unwrap();
    let dir = std::env::temp_dir();
    let options = CatalogOptions { seed: 3, scale: 1.0, base_dir: &dir, scratch_dir: &dir };
    let catalog = Arc::new(Catalog::compile(&study.collections, &options).unwrap());
    let capabilities = MemoryStore::new().capabilities();
    let plan = Arc::new(PhasePlan::resolve(&study, &study.phases[0], &catalog, &capabilities).unwrap());
    Maker::new(plan, catalog, worker, 3, vec![base], None).unwrap()
}

/// The keys of this many batches of a worker. Checks each batch for repeats and order.
fn batches(overrides: &[&str], worker: u32, base: u64, rounds: usize) -> Vec<Vec<u64>> {
    let mut maker = maker(overrides, worker, base);
    let mut all = Vec::new();
    let mut more = More::default();
    for _ in 0..rounds {
        let task = maker.next(&mut more).unwrap();
        assert!(more.indexes.is_sorted_by(|a, b| a < b), "{overrides:?}: each key once, in order: {:?}", more.indexes);
        assert_eq!(task.documents as usize, more.indexes.len(), "what is counted is what is sent");
        let asked = match maker.request(&task, &more, Stage::Whole, &[]).op {
            Op::BulkRead { keys } | Op::BulkDelete { keys } => keys.len(),
            Op::BulkWrite { items, .. } => items.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(asked, more.indexes.len());
        all.push(more.indexes.clone());
    }
    all
}

#[test]
fn a_batch_has_each_key_once_and_in_order_whatever_is_popular() {
    for popularity in ALL {
        let by = format!("phases.bulk.popularity={popularity}");
        for op in ["read", "upsert", "delete"] {
            let mix = format!("phases.bulk.mix={{ {op} = {{ batch = 100 }} }}");
            for batch in batches(&[&by, &mix], 0, 0, 20) {
                assert_eq!(batch.len(), 100, "{popularity}");
            }
        }
        // A worker with disjoint keys owns 50 of them.
        let own = ["phases.bulk.streams=disjoint", "phases.bulk.workers=4", "phases.bulk.mix.read.batch=40", &by];
        for batch in batches(&own, 3, 0, 20) {
            assert!(batch.len() == 40 && batch.iter().all(|index| index % 4 == 3), "{popularity}: {batch:?}");
        }
    }
}

#[test]
fn where_there_are_fewer_keys_than_the_batch_is_to_have_it_has_all_of_them() {
    for popularity in ALL {
        let by = format!("phases.bulk.popularity={popularity}");
        let all = batches(&["phases.bulk.mix.read.batch=1000", &by], 0, 0, 3);
        assert!(all.iter().all(|batch| batch.iter().copied().eq(0..200)), "{popularity}");
        let own = ["phases.bulk.streams=disjoint", "phases.bulk.workers=4", "phases.bulk.mix.read.batch=51", &by];
        let all = batches(&own, 1, 0, 3);
        assert!(all.iter().all(|batch| batch.iter().copied().eq((0..50).map(|n| 4 * n + 1))), "{popularity}");
    }
    // Keys that the popularity excludes are not requested.
    let hot = batches(&["phases.bulk.popularity=hotspot:10%:100%"], 0, 0, 3);
    assert!(hot.iter().all(|batch| batch.iter().copied().eq(0..20)), "{hot:?}");
    let cold = batches(&["phases.bulk.popularity=hotspot:90%:0%"], 0, 0, 3);
    assert!(cold.iter().all(|batch| batch.iter().copied().eq(180..200)), "{cold:?}");
    let one = batches(&["collections.docs.count=1"], 0, 0, 3);
    assert_eq!(one, [[0], [0], [0]]);
}

/// Batches of three keys out of six, drawn one after the other, each by the popularity among the keys that are left.
/// The chance of a set of keys is the sum over all orders in which it can be drawn.
#[test]
fn the_keys_of_a_batch_follow_the_popularity_among_those_that_are_left() {
    let weights: Vec<f64> = (1..=6).map(|rank| f64::from(rank).powf(-0.99)).collect();
    let mut chances: BTreeMap<Vec<u64>, f64> = BTreeMap::new();
    for a in 0..6 {
        for b in (0..6).filter(|b| *b != a) {
            for c in (0..6).filter(|c| *c != a && *c != b) {
                let all: f64 = weights.iter().sum();
                let (first, second) = (weights[a] / all, weights[b] / (all - weights[a]));
                let mut set = vec![a as u64, b as u64, c as u64];
                set.sort_unstable();
                *chances.entry(set).or_default() += first * second * weights[c] / (all - weights[a] - weights[b]);
            }
        }
    }
    let overrides = ["collections.docs.count=6", "phases.bulk.popularity=zipf:0.99", "phases.bulk.mix.read.batch=3"];
    let stream = KeyStream::new(Popularity::Zipf(0.99), 6, Ownership::Independent, mix64(3, 0), 0).unwrap();
    let rank_of = |index: u64| (0..6).find(|rank| stream.at(*rank, 6) == index).unwrap();
    let mut drawn: BTreeMap<Vec<u64>, u64> = chances.keys().map(|set| (set.clone(), 0)).collect();
    for batch in batches(&overrides, 0, 0, 40_000) {
        let mut ranks: Vec<u64> = batch.into_iter().map(rank_of).collect();
        ranks.sort_unstable();
        *drawn.get_mut(&ranks).unwrap() += 1;
    }
    let (drawn, chances): (Vec<u64>, Vec<f64>) = (drawn.into_values().collect(), chances.into_values().collect());
    assert!(chi_square_z(&drawn, &chances) < 3.7, "{drawn:?} {chances:?}");
}

#[test]
fn a_batch_over_many_keys_follows_the_popularity_as_single_draws_do() {
    // So few keys out of so many that hardly a draw repeats: the batch does not distort the popularity.
    let overrides = ["collections.docs.count=100_000", "phases.bulk.mix.read.batch=10"];
    let mut tenths = vec![0; 10];
    for index in batches(&overrides, 0, 0, 10_000).into_iter().flatten() {
        tenths[(index / 10_000) as usize] += 1;
    }
    assert!(chi_square_z(&tenths, &[0.1; 10]) < 3.7, "{tenths:?}");
}

#[test]
fn what_is_inserted_meanwhile_is_in_a_batch_once() {
    let mix = "phases.bulk.mix={ insert = 1, read = { batch = 100 } }";
    for popularity in ["latest", "latest:2", "uniform"] {
        let by = format!("phases.bulk.popularity={popularity}");
        let mut maker = maker(&["phases.bulk.workers=2", mix, &by], 1, 7);
        let (mut more, mut inserted) = (More::default(), 0);
        for _ in 0..400 {
            let task = maker.next(&mut more).unwrap();
            if more.indexes.is_empty() {
                assert_eq!(task.index, 207 + 2 * inserted + 1);
                inserted += 1;
                continue;
            }
            assert!(
                more.indexes.len() == 100 && more.indexes.is_sorted_by(|a, b| a < b),
                "{popularity}: {:?}",
                more.indexes
            );
            let exists = |index: &u64| *index < 207 || ((index - 207) % 2 == 1 && (index - 207) / 2 < inserted);
            assert!(more.indexes.iter().all(exists), "{popularity}: {:?}", more.indexes);
        }
        assert!(inserted > 100);
    }
}
