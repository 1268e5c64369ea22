//! How the records of workers that end at different times are gathered.

use super::*;
use crate::store::{MemoryStore, Store};
use storebench_documents::CatalogOptions;
use storebench_study::workload::Study;

const STUDY: &str = r#"
title = "gathered"
[collections.docs]
count = 10
[[phases]]
name     = "phase"
workers  = 2
mix      = { read = 1 }
duration = "10s"
"#;

fn plan() -> PhasePlan {
    let study = Study::parse(STUDY, std::path::Path::new("gathered.toml"), &[]).unwrap();
    let dir = std::env::temp_dir();
    let options = CatalogOptions { seed: 1, scale: 1.0, base_dir: &dir, scratch_dir: &dir };
    let catalog = Catalog::compile(&study.collections, &options).unwrap();
    PhasePlan::resolve(&study, &study.phases[0], &catalog, &Store::capabilities(&MemoryStore::new())).unwrap()
}

/// Nothing waits for a worker that has ended: the intervals of the others are reported live, and their recorders are
/// dropped.
#[test]
fn a_worker_that_has_ended_holds_back_no_interval() {
    let plan = plan();
    let mut gathered = Gathered::new(&plan, 1_000);
    let mut told: Vec<(u64, u64)> = Vec::new();
    let mut take = |gathered: &mut Gathered, worker, interval, last| {
        let mut recorder = Box::new(Recorder::new(1));
        recorder.ops[0].succeeded = 1;
        gathered.take(
            Snapshot { interval, worker, recorder, now: Gauges::default(), last },
            &plan,
            &mut |event: &Event<'_>| {
                if let Event::Interval { number, record, .. } = event {
                    told.push((*number, record.ops[0].succeeded));
                }
            },
        );
    };
    take(&mut gathered, 0, 0, false);
    take(&mut gathered, 1, 0, false);
    take(&mut gathered, 0, 1, true);
    for interval in 1..100 {
        take(&mut gathered, 1, interval, false);
        assert!(gathered.open.len() <= 1, "{} recorders are kept", gathered.open.len());
    }
    take(&mut gathered, 1, 100, true);
    // The last interval ends with the phase, wherever that is within it.
    assert_eq!(gathered.open.keys().copied().collect::<Vec<_>>(), [100]);
    assert_eq!(told.len(), 100);
    assert_eq!((told[0], told[1], told[2]), ((0, 2), (1, 2), (2, 1)));
    assert_eq!(gathered.total.ops[0].succeeded, 103);
}

/// A worker that is held up, by a call that does not return, does not hold back the others forever.
#[test]
fn a_worker_that_is_held_up_holds_back_no_more_intervals_than_are_kept_open() {
    let plan = plan();
    let mut gathered = Gathered::new(&plan, 1_000);
    let mut told = Vec::new();
    let mut take = |gathered: &mut Gathered, worker, interval, last| {
        let mut recorder = Box::new(Recorder::new(1));
        recorder.ops[0].succeeded = 1;
        gathered.take(
            Snapshot { interval, worker, recorder, now: Gauges::default(), last },
            &plan,
            &mut |event: &Event<'_>| {
                if let Event::Interval { number, .. } = event {
                    told.push(*number);
                }
            },
        );
    };
    for interval in 0..1_000 {
        take(&mut gathered, 1, interval, false);
        assert!(gathered.open.len() as u64 <= MOST_OPEN + 1, "{} recorders are kept", gathered.open.len());
    }
    // Its record of the first interval comes late, and goes into no interval that was already reported.
    take(&mut gathered, 0, 0, false);
    take(&mut gathered, 0, 999, true);
    take(&mut gathered, 1, 1_000, true);
    assert_eq!(told, (0..=999).collect::<Vec<_>>());
    assert_eq!(gathered.total.ops[0].succeeded, 1_003);
}

/// What is in flight is that of all workers, and how far behind the phase is, that of the worker that is furthest.
#[test]
fn an_interval_tells_the_state_of_all_workers() {
    let plan = plan();
    let mut gathered = Gathered::new(&plan, 1_000);
    let mut told = Vec::new();
    let mut take = |gathered: &mut Gathered, worker, interval, (in_flight, behind_ns): (u64, Option<u64>), last| {
        let now = Gauges { in_flight: Some(in_flight), behind_ns, store: None };
        let recorder = Box::new(Recorder::new(1));
        gathered.take(Snapshot { interval, worker, recorder, now, last }, &plan, &mut |event: &Event<'_>| {
            if let Event::Interval { now, .. } = event {
                told.push((now.in_flight, now.behind_ns));
            }
        });
    };
    take(&mut gathered, 0, 0, (2, Some(5)), false);
    take(&mut gathered, 1, 0, (3, Some(70)), false);
    take(&mut gathered, 1, 1, (9, Some(9)), true);
    take(&mut gathered, 0, 1, (4, None), false);
    assert_eq!(told, [(Some(5), Some(70)), (Some(4), None)]);
}
