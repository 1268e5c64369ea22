//! Hand-made measurements for the tests of this crate.

use storebench_documents::Compression;
use storebench_engine::measure::{
    Interval, Label, PhaseRecord, Recorder, ResourceSample, StatsSample, StoreStats, WorkerUse,
};
use storebench_engine::store::{Capabilities, Durability, ErrorKind, OpKind, ReadConsistency, Support};

use super::gather::gather_phase;
use super::model::{CollectionResult, FORMAT, RunInfo, RunResult, TrialResult};
use super::phase::Percentiles;
use super::settings::{SettingResult, SettingsResult};
use crate::conclude::conclude;
use crate::environment::Environment;

fn label(name: &str, kind: OpKind, batch: u32) -> Label {
    Label { name: name.into(), kind, collection: 0, batch }
}

fn record(name: &str, labels: Vec<Label>, intervals: Vec<Interval>, scheduled: Option<u64>) -> PhaseRecord {
    let mut total = Recorder::new(labels.len());
    for interval in &intervals {
        total.add(&interval.record());
    }
    let elapsed_ns = intervals.last().map_or(0, |i| i.to_ns);
    let share = |n: u64| elapsed_ns / 100 * n;
    PhaseRecord {
        name: name.into(),
        warm_up: false,
        loads: false,
        labels,
        began_unix_ns: 1_767_225_600_000_000_000,
        sending_ns: elapsed_ns,
        elapsed_ns,
        scheduled,
        scheduled_over_ns: scheduled.map(|_| elapsed_ns),
        workers: 2,
        connections: 1,
        in_flight: 4,
        durability: Durability::OS,
        consistency: ReadConsistency::Strong,
        isolation: None,
        total,
        intervals,
        worker_use: vec![
            WorkerUse {
                cpu_ns: share(30),
                spin_ns: share(10),
                run_queue_ns: share(1),
                wall_ns: elapsed_ns,
                processor: Some(3),
            },
            WorkerUse { cpu_ns: share(20), run_queue_ns: share(2), wall_ns: elapsed_ns, ..WorkerUse::default() },
        ],
        resources: (1..=elapsed_ns / 100_000_000)
            .map(|n| ResourceSample {
                at_ns: n * 100_000_000,
                rss_bytes: (20 << 20) + n,
                cpu_ns: 1_000_000_000 + n * 60_000_000,
                lateness_ns: 60_000,
            })
            .collect(),
        store_stats: StoreStats {
            samples: (0..=elapsed_ns / 1_000_000_000)
                .map(|n| StatsSample {
                    at_ns: n * 1_000_000_000,
                    took_ns: 90_000,
                    figures: vec![("wal_bytes".into(), n as f64 * 4_096.0)],
                })
                .collect(),
            ..StoreStats::default()
        },
        distinct_keys: vec![(0, 9_000)],
        messages: Vec::new(),
        wrong_examples: Vec::new(),
        ledger: None,
        history: None,
        answers: Vec::new(),
        of_part: None,
        partial: None,
    }
}

/// A load of 20,000 documents of 1 KiB in batches of 1,000 within 2 s.
pub(crate) fn load() -> PhaseRecord {
    let labels = vec![label("books", OpKind::BulkInsert, 1_000)];
    let intervals = (0..2)
        .map(|number| {
            let mut record = Recorder::new(1);
            let tally = &mut record.ops[0];
            for n in 0..10u64 {
                tally.succeeded += 1;
                tally.documents += 1_000;
                tally.bytes_written += 1_024_000;
                tally.service.record(90_000_000 + n * 1_000_000).unwrap();
            }
            Interval::new(number, number * 1_000_000_000, (number + 1) * 1_000_000_000, &record)
        })
        .collect();
    PhaseRecord {
        loads: true,
        in_flight: 1,
        distinct_keys: vec![(0, 20_000)],
        ..record("load", labels, intervals, None)
    }
}

fn mixed(open: bool) -> (Vec<Label>, Vec<Interval>) {
    let labels = vec![label("read", OpKind::Read, 1), label("update", OpKind::Upsert, 1)];
    let intervals = (0..12)
        .map(|number| {
            let mut record = Recorder::new(2);
            for n in 0..500u64 {
                for (op, service_ns) in [(0, 20_000 + n * 100), (1, 60_000 + n * 300)] {
                    let tally = &mut record.ops[op];
                    tally.succeeded += 1;
                    tally.documents += 1;
                    tally.service.record(service_ns).unwrap();
                    if open {
                        tally.response.record(service_ns + 5_000 + n * 10).unwrap();
                        tally.client_queueing.record(n).unwrap();
                        record.send_delay.record(3_000 + n).unwrap();
                    }
                }
                record.ops[0].bytes_read += 1_024;
                record.ops[1].bytes_written += 1_040;
            }
            record.ops[0].checked += 5;
            Interval::new(number, number * 1_000_000_000, (number + 1) * 1_000_000_000, &record)
        })
        .collect();
    (labels, intervals)
}

/// 12 s at 1,000 operations per second, without errors.
pub(crate) fn open_loop() -> PhaseRecord {
    let (labels, intervals) = mixed(true);
    record("steady", labels, intervals, Some(12_000))
}

/// 12 s in closed loop; some updates fail.
pub(crate) fn closed_loop() -> PhaseRecord {
    let (labels, mut intervals) = mixed(false);
    let mut changed = intervals[3].record();
    let tally = &mut changed.ops[1];
    tally.failed[ErrorKind::Temporary as usize] += 7;
    tally.failed_time.record_n(2_000_000, 7).unwrap();
    intervals[3] = Interval::new(3, intervals[3].from_ns, intervals[3].to_ns, &changed);
    let mut record = record("mixed", labels, intervals, None);
    record.messages = vec![("temporary: database is locked".into(), 7)];
    record
}

/// The capabilities of an embedded store.
pub(crate) fn capabilities() -> Capabilities {
    Capabilities {
        operations: vec![(OpKind::Read, Support::Native)],
        durability: vec![(Durability::OS, "synchronous = OFF")],
        consistency: vec![(ReadConsistency::Strong, "one database file")],
        embedded: true,
        longest_key_bytes: None,
        expires_late_by: None,
        ..Capabilities::default()
    }
}

/// The books.
pub(crate) fn documents() -> Vec<CollectionResult> {
    vec![CollectionResult {
        collection: "books".into(),
        count: 20_000,
        mean_bytes: 1_024,
        body: "json".into(),
        compression: Some(Compression {
            sample_documents: 1_000,
            sample_bytes: 1_024_000,
            doc_snappy: 0.71,
            page_zstd3: 0.41,
            long_zstd: None,
        }),
        ..CollectionResult::default()
    }]
}

/// A run of one trial with these phases on an embedded store.
pub(crate) fn run_of(phases: &[PhaseRecord]) -> RunResult {
    let documents = documents();
    let capabilities = capabilities();
    let phases = phases
        .iter()
        .map(|record| {
            let calibrated = Some(&[400.0, 900.0][..record.labels.len()]);
            let mut phase = gather_phase(record, &documents, &capabilities, calibrated);
            phase.settings = [("popularity".to_owned(), "uniform".into())].into();
            phase.rate.iter_mut().for_each(|rate| rate.planned = 1_000.into());
            phase
        })
        .collect();
    RunResult {
        format: FORMAT.into(),
        run: RunInfo {
            name: "books".into(),
            title: "Books, read and updated".into(),
            began: "2026-01-01T00:00:00Z".into(),
            ended: Some("2026-01-01T00:01:00Z".into()),
            storebench_version: "0.1.0".into(),
            seed: 7,
            scale: 1.0,
            folder: Some("runs/books-20260101-000000".into()),
            ..RunInfo::default()
        },
        plan: crate::plan::Plan { repeats: 1, ..crate::plan::Plan::default() },
        environment: Environment { cpus: 2, cpus_available: 2, ..Environment::default() },
        documents,
        trials: vec![TrialResult {
            trial: 1,
            round: 1,
            store: "sqlite".into(),
            configuration: "sqlite".into(),
            scheme: "sqlite".into(),
            url: "sqlite:books.db".into(),
            version: "SQLite 3.51.0".into(),
            embedded: true,
            began: "2026-01-01T00:00:00Z".into(),
            phases,
            ..TrialResult::default()
        }],
        configurations: Vec::new(),
        sweeps: Vec::new(),
        claims: Vec::new(),
        cost: None,
        checks: Vec::new(),
    }
}

/// What a store says of its settings: the memory for documents, and of each setting its name, its value and whether it
/// was changed.
pub(crate) fn settings(memory_bytes: Option<u64>, all: &[(&str, &str, Option<bool>)]) -> SettingsResult {
    let of = |(name, value, changed): &(&str, &str, Option<bool>)| {
        ((*name).to_owned(), SettingResult { value: (*value).to_owned(), changed: *changed })
    };
    SettingsResult { all: all.iter().map(of).collect(), memory_bytes, ..SettingsResult::default() }
}

/// Makes a trial `factor` times as fast.
pub(crate) fn speed(trial: &mut TrialResult, factor: f64) {
    let times = |p: &mut Percentiles| {
        for ns in [&mut p.p50, &mut p.p90, &mut p.p95, &mut p.p99, &mut p.p99_9, &mut p.p99_99, &mut p.max] {
            *ns = ns.map(|ns| (ns as f64 / factor) as u64);
        }
    };
    for phase in &mut trial.phases {
        for op in phase.ops.values_mut() {
            op.throughput_per_s *= factor;
            op.documents_per_s *= factor;
            let attempts = op.response_of_attempts_ns.iter_mut().chain(&mut op.service_of_attempts_ns);
            op.response_ns.iter_mut().chain(attempts).for_each(times);
            times(&mut op.service_ns);
        }
        let all = &mut phase.all;
        let attempts = all.response_of_attempts_ns.iter_mut().chain(&mut all.service_of_attempts_ns);
        all.response_ns.iter_mut().chain(attempts).for_each(times);
        times(&mut all.service_ns);
    }
}

/// A run of a load and a closed loop with 1, 2, 4 and 8 workers in three rounds, each round a little faster than the
/// one before: more workers help up to 4. Nothing is concluded yet.
pub(crate) fn swept() -> RunResult {
    const SPEEDS: [(u32, [f64; 3]); 4] =
        [(1, [1.0, 1.03, 1.05]), (2, [1.92, 1.97, 2.0]), (4, [3.1, 3.2, 3.22]), (8, [3.12, 3.17, 3.25])];
    let mut run = run_of(&[load(), closed_loop()]);
    let trial = run.trials.remove(0);
    let name = trial.phases[1].name.clone();
    run.plan.repeats = 3;
    for round in 0..3 {
        for (workers, speeds) in SPEEDS {
            let mut trial = TrialResult {
                trial: run.trials.len() as u32 + 1,
                round: round as u32 + 1,
                configuration: format!("sqlite workers={workers}"),
                values: [(format!("phases.{name}.workers"), workers.into())].into(),
                documents: [("books".to_owned(), 20_000)].into(),
                ..trial.clone()
            };
            trial.phases[1].workers = workers;
            speed(&mut trial, speeds[round]);
            run.trials.push(trial);
        }
    }
    run
}

/// The run with everything that is derived from its trials.
pub(crate) fn concluded(mut run: RunResult) -> RunResult {
    conclude(&[], &mut run);
    run
}
