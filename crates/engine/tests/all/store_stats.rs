//! What a store reports about itself while a phase runs, and what happens to the phase if the store does not answer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use storebench_documents::{Catalog, CatalogOptions};
use storebench_engine::measure::PhaseRecord;
use storebench_engine::store::{
    AnyStore, Capabilities, CollectionLayout, Description, Layout, MemorySession, MemoryStore, Namespace, Prepare,
    SessionOptions, Stats, Store, StoreError,
};
use storebench_engine::{PhaseContext, PhasePlan, RealClock, Stop, Written, run_phase};
use storebench_study::workload::{Body, Study};

const STUDY: &str = r#"
title = "told"
[collections.docs]
count = 100
size  = 200
[[phases]]
name       = "upserts"
mix        = { upsert = 1 }
rate       = 200
duration   = "350ms"
"#;

/// The answer of a store in a test. The argument is how often it was asked before.
type Tell = fn(u64) -> Result<Stats, StoreError>;

struct Told {
    inner: MemoryStore,
    embedded: bool,
    asked: AtomicU64,
    tell: Tell,
}

impl Store for Told {
    type Session = MemorySession;
    fn describe(&self) -> Description {
        Store::describe(&self.inner)
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { embedded: self.embedded, ..Store::capabilities(&self.inner) }
    }
    fn inspect(&self) -> Result<Namespace, StoreError> {
        Store::inspect(&self.inner)
    }
    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        Store::prepare(&self.inner, layout, how)
    }
    async fn open(&self, options: &SessionOptions) -> Result<MemorySession, StoreError> {
        Store::open(&self.inner, options).await
    }
    fn stats(&self) -> Result<Stats, StoreError> {
        (self.tell)(self.asked.fetch_add(1, Ordering::Relaxed))
    }
    fn remove(&self) -> Result<(), StoreError> {
        Store::remove(&self.inner)
    }
}

fn run(embedded: bool, tell: Tell) -> PhaseRecord {
    let study = Study::parse(STUDY, Path::new("told.toml"), &[]).unwrap();
    let dir = std::env::temp_dir();
    let options = CatalogOptions { seed: 1, scale: 1.0, base_dir: &dir, scratch_dir: &dir };
    let catalog = Arc::new(Catalog::compile(&study.collections, &options).unwrap());
    let store = Told { inner: MemoryStore::new(), embedded, asked: AtomicU64::new(0), tell };
    let collections = vec![CollectionLayout {
        name: "docs".into(),
        body: Body::Json,
        indexes: Vec::new(),
        existing: None,
        uses: storebench_engine::store::Uses::ALL,
    }];
    Store::prepare(&store, &Layout { collections }, Prepare::Fresh).unwrap();
    let store: Arc<dyn AnyStore> = Arc::new(store);
    let plan = PhasePlan::resolve(&study, &study.phases[0], &catalog, &store.capabilities()).unwrap();
    let context = PhaseContext {
        catalog,
        clock: RealClock::new(),
        stop: Arc::new(Stop::new()),
        seed: 1,
        interval: Duration::from_millis(100),
        begin: None,
        written: &mut Written::default(),
        companions: Vec::new(),
        gone: &|| false,
        observer: &mut |_: &storebench_engine::Event<'_>| {},
    };
    run_phase(&store, &plan, context).unwrap()
}

/// All of the 70 scheduled operations are accounted for. On a busy machine some are scheduled and not sent.
fn whole(record: &PhaseRecord) {
    let unfinished: u64 = record.total.ops.iter().map(|tally| tally.unfinished).sum();
    assert_eq!((record.operations() + unfinished, &record.partial), (70, &None));
}

#[test]
fn a_server_is_asked_when_the_phase_begins_in_it_and_when_it_has_ended() {
    let record = run(false, |n| Ok(vec![("asked".into(), n as f64), ("no_number".into(), f64::NAN)]));
    whole(&record);
    let told = &record.store_stats;
    assert!(told.samples.len() >= 3, "{told:?}");
    assert!(told.samples.windows(2).all(|w| w[0].at_ns < w[1].at_ns));
    assert!(told.samples.iter().enumerate().all(|(n, s)| s.figures == [("asked".to_owned(), n as f64)]));
    assert!(told.samples.last().unwrap().at_ns >= 350_000_000);
}

#[test]
fn a_beat_is_skipped_while_an_answer_is_awaited() {
    let record = run(false, |n| {
        std::thread::sleep(Duration::from_millis(250));
        Ok(vec![("asked".into(), n as f64)])
    });
    whole(&record);
    // The store should be asked at 0, 100, 200 and 300 ms and at the end. At most the first, one between and the last
    // are met.
    assert!(record.store_stats.samples.len() <= 3, "{:?}", record.store_stats);
}

#[test]
fn a_store_that_fails_to_answer_harms_nothing_and_is_told_of_once() {
    let record = run(false, |n| match n {
        0 => Ok(vec![("a".into(), 1.0)]),
        n => Err(StoreError::Failed(format!("no figures for you, question {n}"))),
    });
    whole(&record);
    let told = &record.store_stats;
    assert!(told.samples.len() == 1 && told.failed >= 2, "{told:?}");
    assert_eq!(told.message.as_deref(), Some("no figures for you, question 1"));
}

#[test]
fn a_store_that_never_answers_does_not_hold_up_the_end() {
    let record = run(false, |_| {
        loop {
            std::thread::park();
        }
    });
    whole(&record);
    assert_eq!((record.store_stats.failed, record.store_stats.samples.len()), (1, 0));
}

#[test]
fn an_embedded_store_that_takes_long_is_asked_before_the_phase_only() {
    let record = run(true, |n| {
        std::thread::sleep(Duration::from_millis(20));
        Ok(vec![("asked".into(), n as f64)])
    });
    whole(&record);
    let told = &record.store_stats;
    assert!(told.too_slow && told.samples.len() == 1 && told.samples[0].at_ns == 0, "{told:?}");
}

#[test]
fn a_store_that_tells_nothing_is_asked_once() {
    let record = run(false, |n| {
        assert_eq!(n, 0);
        Ok(Stats::new())
    });
    whole(&record);
    assert_eq!(record.store_stats, Default::default());
}
