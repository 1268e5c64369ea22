//! The run folder of a large study, made without running anything. Its test and the benchmark of the report share it.

use std::error::Error;
use std::path::Path;

use storebench_engine::measure::{Interval, Label, PhaseRecord, Recorder, ResourceSample, StoreStats, WorkerUse};
use storebench_engine::store::{Capabilities, Durability, OpKind, ReadConsistency};
use storebench_results::conclude::conclude;
use storebench_results::environment::Environment;
use storebench_results::plan::Plan;
use storebench_results::{FORMAT, Pass, RunFolder, RunInfo, RunResult, Secrets, TrialResult, gather_phase};

/// Configurations, each a trial in each round.
pub(crate) const CONFIGURATIONS: u32 = 20;
/// One-second intervals of each trial: 200 trials have two hours of them.
pub(crate) const SECONDS: u64 = 36;

/// A phase of reads and updates, a little different in each trial.
fn phase(trial: u32) -> PhaseRecord {
    let intervals: Vec<Interval> = (0..SECONDS)
        .map(|second| {
            let mut record = Recorder::new(2);
            for n in 0..60u64 {
                for (op, base) in [(0, 20_000), (1, 90_000)] {
                    let tally = &mut record.ops[op];
                    tally.succeeded += 1;
                    tally.documents += 1;
                    let ns = base + n * n * 40 + u64::from(trial % CONFIGURATIONS) * 1_000 + (second * 7_919) % 5_000;
                    tally.service.saturating_record(ns);
                    tally.response.saturating_record(ns + 3_000);
                }
            }
            Interval::new(second, second * 1_000_000_000, (second + 1) * 1_000_000_000, &record)
        })
        .collect();
    let mut total = Recorder::new(2);
    intervals.iter().for_each(|i| total.add(&i.record()));
    let label = |name: &str, kind| Label { name: name.into(), kind, collection: 0, batch: 1 };
    PhaseRecord {
        name: "steady".into(),
        warm_up: false,
        loads: false,
        labels: vec![label("read", OpKind::Read), label("update", OpKind::Upsert)],
        began_unix_ns: 1_767_225_600_000_000_000,
        sending_ns: SECONDS * 1_000_000_000,
        elapsed_ns: SECONDS * 1_000_000_000,
        scheduled: Some(SECONDS * 120),
        scheduled_over_ns: Some(SECONDS * 1_000_000_000),
        workers: 2,
        connections: 1,
        in_flight: 1,
        durability: Durability::OS,
        consistency: ReadConsistency::Strong,
        isolation: None,
        total,
        intervals,
        worker_use: vec![WorkerUse::default(); 2],
        resources: (1..=SECONDS * 20)
            .map(|n| ResourceSample {
                at_ns: n * 50_000_000,
                rss_bytes: (64 << 20) + n,
                cpu_ns: n * 20_000_000,
                lateness_ns: 0,
            })
            .collect(),
        store_stats: StoreStats::default(),
        distinct_keys: vec![(0, 1_000)],
        messages: Vec::new(),
        wrong_examples: Vec::new(),
        ledger: None,
        history: None,
        answers: Vec::new(),
        of_part: None,
        partial: None,
    }
}

/// Writes the run folder of such a study with this many trials.
pub(crate) fn write(folder: &Path, count: u32) -> Result<(), Box<dyn Error>> {
    let capabilities = Capabilities::default();
    let mut trials = Vec::new();
    let mut out = RunFolder::at(folder.to_owned(), Secrets::default())?;
    for number in 1..=count {
        let record = phase(number);
        out.add_phase(number, "store", Pass::Measured, &record, [])?;
        let mut measured = gather_phase(&record, &[], &capabilities, None);
        measured.settings = [("popularity".to_owned(), "uniform".into())].into();
        measured.rate.iter_mut().for_each(|rate| rate.planned = 120.into());
        let workers = (number - 1) % CONFIGURATIONS + 1;
        trials.push(TrialResult {
            trial: number,
            round: (number - 1) / CONFIGURATIONS + 1,
            store: "store".into(),
            configuration: format!("store workers={workers}"),
            values: [("phases.steady.workers".to_owned(), workers.into())].into(),
            scheme: "memory".into(),
            url: "memory:".into(),
            phases: vec![measured],
            ..TrialResult::default()
        });
    }
    let mut result = RunResult {
        format: FORMAT.into(),
        run: RunInfo {
            name: "large".into(),
            title: "Two hours".into(),
            ended: Some("2026-01-01T02:00:00Z".into()),
            ..RunInfo::default()
        },
        plan: Plan { repeats: count / CONFIGURATIONS, ..Plan::default() },
        environment: Environment::default(),
        documents: Vec::new(),
        trials,
        configurations: Vec::new(),
        sweeps: Vec::new(),
        claims: Vec::new(),
        cost: None,
        checks: Vec::new(),
    };
    conclude(&[], &mut result);
    out.write_result(&result)?;
    out.finish()?;
    Ok(())
}
