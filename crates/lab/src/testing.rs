//! Hand-made measurements for tests.

use storebench_engine::measure::{Interval, Label, PhaseRecord, Recorder, ResourceSample, StoreStats};
use storebench_engine::store::{Durability, OpKind, ReadConsistency};

/// A copy that took 2 s and wrote 20,000 documents in one operation.
pub(crate) fn copy_record() -> PhaseRecord {
    let labels = vec![Label { name: "books".into(), kind: OpKind::BulkInsert, collection: 0, batch: 1_000 }];
    let mut total = Recorder::new(labels.len());
    (total.ops[0].succeeded, total.ops[0].documents) = (1, 20_000);
    PhaseRecord {
        name: "copy".into(),
        warm_up: false,
        loads: true,
        labels,
        began_unix_ns: 1_767_225_600_000_000_000,
        sending_ns: 2_000_000_000,
        elapsed_ns: 2_000_000_000,
        scheduled: None,
        scheduled_over_ns: None,
        workers: 2,
        connections: 1,
        in_flight: 1,
        durability: Durability::OS,
        consistency: ReadConsistency::Strong,
        isolation: None,
        intervals: vec![Interval::new(0, 0, 2_000_000_000, &total)],
        total,
        worker_use: Vec::new(),
        resources: vec![ResourceSample { at_ns: 1, rss_bytes: 1, cpu_ns: 1, lateness_ns: 0 }],
        store_stats: StoreStats::default(),
        distinct_keys: Vec::new(),
        messages: Vec::new(),
        wrong_examples: Vec::new(),
        ledger: None,
        history: None,
        answers: Vec::new(),
        of_part: None,
        partial: None,
    }
}
