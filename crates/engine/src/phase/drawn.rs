//! Tests which parents a worker requests with `draw = "parents"`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::maker::{Maker, More, Stage};
use super::plan::PhasePlan;
use crate::store::{MemoryStore, Op, Store};
use storebench_documents::{Catalog, CatalogOptions};
use storebench_study::workload::Study;

/// One user has half of all highlights, and many have one.
const STUDY: &str = r#"
title = "drawn"
[collections.users]
count = 1_000
[collections.highlights]
per    = { users = { bins = [[1, 150], [2, 10, 40], [10, 100, 9], [1_000, 1]], total = 2_000 } }
key    = "highlights/{parent}/{seq:06}"
index  = [["user"]]
fields = { user = "{parent}" }
[[phases]]
name       = "asked"
collection = "highlights"
workers    = 4
operations = 1
mix        = { page = { where = "user", draw = "parents" } }
"#;

fn resolved(overrides: &[&str]) -> (Arc<PhasePlan>, Arc<Catalog>) {
    let overrides: Vec<String> = overrides.iter().map(|s| (*s).to_owned()).collect();
    let study = Study::parse(STUDY, std::path::Path::new("drawn.toml"), &overrides).unwrap();
    let dir = std::env::temp_dir();
    let options = CatalogOptions { seed: 3, scale: 1.0, base_dir: &dir, scratch_dir: &dir };
    let catalog = Arc::new(Catalog::compile(&study.collections, &options).unwrap());
    let capabilities = MemoryStore::new().capabilities();
    (Arc::new(PhasePlan::resolve(&study, &study.phases[0], &catalog, &capabilities).unwrap()), catalog)
}

/// How often each worker requests each user in this many operations. Users are recognized in the requests.
fn asked(overrides: &[&str], operations: u64) -> Vec<BTreeMap<String, u64>> {
    let (plan, catalog) = resolved(overrides);
    let of_worker = |worker| {
        let mut maker = Maker::new(Arc::clone(&plan), Arc::clone(&catalog), worker, 3, vec![0; 2], None).unwrap();
        let (mut asked, mut more) = (BTreeMap::new(), More::default());
        for _ in 0..operations {
            let task = maker.next(&mut more).unwrap();
            let mut tell = |user: &str| *asked.entry(user.to_owned()).or_default() += 1;
            match maker.request(&task, &more, Stage::Whole, &[]).op {
                Op::Page { value, .. } => tell(value.trim_matches('"')),
                Op::Prefix { prefix, .. } => tell(prefix.split('/').nth(1).unwrap()),
                Op::Read { key } | Op::Upsert { key, .. } => {
                    let (user, seq) = key["highlights/".len()..].split_once('/').unwrap();
                    assert_eq!(seq, "000000", "the first of the user's highlights");
                    tell(user);
                }
                Op::BulkRead { keys } => keys.iter().for_each(|(key, _)| tell(key.split('/').nth(1).unwrap())),
                other => panic!("{other:?}"),
            }
        }
        asked
    };
    (0..plan.workers).map(of_worker).collect()
}

/// The user with a thousand highlights.
fn heavy() -> String {
    let (_, catalog) = resolved(&[]);
    (0..1_000).find(|user| catalog.get(1).children_of(*user).count() == 1_000).unwrap().to_string()
}

#[test]
fn every_user_with_highlights_is_asked_for_alike() {
    let mixes = [
        "page = { where = \"user\", draw = \"parents\" }",
        "prefix = { draw = \"parents\" }",
        "read = { draw = \"parents\" }",
        "update = { draw = \"parents\" }",
        "read = { batch = 5, draw = \"parents\" }",
    ];
    for mix in mixes {
        let mut users: BTreeMap<String, u64> = BTreeMap::new();
        for (user, times) in asked(&[&format!("phases.asked.mix={{ {mix} }}")], 5_000).into_iter().flatten() {
            *users.entry(user).or_default() += times;
        }
        assert_eq!(users.len(), 200, "users without highlights are not asked for");
        let draws: u64 = users.values().sum();
        let expected = draws as f64 / 200.0;
        // 199 degrees of freedom: below 267 in all but 0.1 % of seeds.
        let chi: f64 = users.values().map(|n| (*n as f64 - expected).powi(2) / expected).sum();
        assert!(chi < 267.0, "{mix}: {chi}");
        let heavy = users[&heavy()] as f64;
        assert!((heavy - expected).abs() < 5.0 * expected.sqrt(), "{mix}: {heavy}, not {expected}");
    }
}

#[test]
fn drawn_documents_meet_the_heavy_user_half_of_the_time() {
    let all = asked(&["phases.asked.mix.page.draw=documents"], 2_000);
    let heavy = heavy();
    let share = all.iter().map(|users| users[&heavy]).sum::<u64>() as f64 / 8_000.0;
    assert!((share - 0.5).abs() < 0.03, "{share}");
}

#[test]
fn disjoint_workers_share_no_parent() {
    for popularity in ["uniform", "zipf", "hotspot", "working-set", "latest", "sequential"] {
        let popularity = format!("phases.asked.popularity={popularity}");
        let all = asked(&["phases.asked.streams=disjoint", &popularity], 3_000);
        let users: usize = all.iter().map(BTreeMap::len).sum();
        let union: BTreeSet<&String> = all.iter().flat_map(BTreeMap::keys).collect();
        assert_eq!(union.len(), users, "{popularity}");
        assert!(all.iter().all(|users| users.len() > 10), "{popularity}");
    }
    // With sequential keys each worker requests all of its own users, so together they request all.
    let all = asked(&["phases.asked.streams=disjoint", "phases.asked.popularity=sequential"], 50);
    assert!(all.iter().all(|users| users.len() == 50 && users.values().all(|n| *n == 1)));
}

#[test]
fn independent_workers_draw_apart_from_the_same_popular_users() {
    let all = asked(&["phases.asked.popularity=zipf"], 2_000);
    let hottest = |users: &BTreeMap<String, u64>| users.iter().max_by_key(|(_, n)| **n).unwrap().0.clone();
    assert!(all.iter().all(|users| hottest(users) == hottest(&all[0])));
    assert!(all.windows(2).all(|two| two[0] != two[1]), "but not in the same order");
}

#[test]
fn the_first_parents_are_not_the_heavy_ones() {
    // A tenth of the 200 users contains at most half of the 10 heavy ones.
    let (_, catalog) = resolved(&[]);
    let all = asked(&["phases.asked.popularity='hotspot:10%:100%'"], 1_000);
    let hot: BTreeSet<&String> = all.iter().flat_map(BTreeMap::keys).collect();
    assert_eq!(hot.len(), 20);
    let heavy = hot.iter().filter(|u| catalog.get(1).children_of(u.parse().unwrap()).count() >= 10).count();
    assert!(heavy <= 5, "{heavy}");
}

#[test]
fn more_disjoint_workers_than_parents_are_refused() {
    let overrides = ["phases.asked.streams=disjoint", "phases.asked.workers=201"].map(str::to_owned);
    let study = Study::parse(STUDY, std::path::Path::new("drawn.toml"), &overrides).unwrap();
    let (_, catalog) = resolved(&[]);
    let capabilities = MemoryStore::new().capabilities();
    let error = PhasePlan::resolve(&study, &study.phases[0], &catalog, &capabilities).unwrap_err().to_string();
    assert!(error.contains("documents of 200 parents") && error.contains("201 workers"), "{error}");
}
