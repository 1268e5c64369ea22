//! The suite on the stores of this crate, and on stores with one defect each.

use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::broken::{Broken, Defect};
use super::{Report, Stop, run_on_fake_clock, run_telling, suite};
use storebench_engine::FakeClock;
use storebench_engine::store::{
    Capabilities, Description, FutureSession, Layout, Limit, MemorySession, MemoryStore, Namespace, OpError, OpKind,
    OwnedReply, Owner, Prepare, Reply, Request, Respond, Runtime, Session, SessionOptions, Slow, SlowOptions, Store,
    StoreError, Token,
};

fn assert_passes(store: &dyn storebench_engine::store::AnyStore) -> Report {
    let report = run_fast(store);
    assert!(report.passed(), "{report}");
    report
}

/// With a clock that every wait moves on, so that nothing really waits.
fn run_fast(store: &dyn storebench_engine::store::AnyStore) -> Report {
    run_on_fake_clock(store, &FakeClock::new())
}

/// Whether a check is about what the memory store does not have.
fn is_of_others(check: &str) -> bool {
    ["query: ", "transaction: ", "race: documents written together"].iter().any(|topic| check.starts_with(topic))
}

#[test]
fn memory_conforms() {
    let mut told = Vec::new();
    let report = run_telling(&MemoryStore::new(), &mut |progress| told.push(progress));
    assert!(told.iter().map(|progress| progress.check).eq(report.rows.iter().map(|row| row.check)));
    assert!(told.iter().enumerate().all(|(i, progress)| progress.done == i && progress.of == told.len()));
    assert!(report.passed(), "{report}");
    let unsupported = report.rows.iter().filter(|row| matches!(row.outcome, Err(Stop::NotSupported(_))));
    let others: Vec<&str> = unsupported.map(|row| row.check).filter(|check| !is_of_others(check)).collect();
    assert!(
        others.is_empty(),
        "memory supports all that is checked, except a language of its own and transactions\n{report}"
    );
}

#[test]
fn slow_memory_conforms() {
    let options = SlowOptions {
        latency: Duration::from_millis(20),
        jitter: Duration::from_millis(20),
        concurrency: NonZeroU32::new(8),
        ..Default::default()
    };
    assert_passes(&Slow::new(MemoryStore::new(), options));
}

#[test]
fn limited_memory_conforms() {
    assert_passes(&Limit::new(MemoryStore::new(), 100.0).unwrap());
}

/// A memory store behind futures, on a plain thread or a reactor.
struct Futures {
    inner: MemoryStore,
    runtime: Runtime,
}

struct MemoryClient {
    session: MemorySession,
    asked: u32,
    runtime: Runtime,
}

/// An answer that comes after some wakes, or after a timer.
struct Later {
    answer: Option<Result<OwnedReply, OpError>>,
    wakes: u32,
    timer: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Future for Later {
    type Output = Result<OwnedReply, OpError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(timer) = &mut self.timer
            && timer.as_mut().poll(cx).is_pending()
        {
            return Poll::Pending;
        }
        self.timer = None;
        if self.wakes > 0 {
            self.wakes -= 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.answer.take().expect("polled after its end"))
    }
}

impl Respond for MemoryClient {
    type Future = Later;

    fn respond(&mut self, request: &Request<'_>) -> Later {
        let mut answer = None;
        self.session.submit(request, Token(0), &mut |_: Token, result: Result<Reply<'_>, OpError>| {
            answer = Some(result.map(OwnedReply::from));
        });
        self.asked += 1;
        let timer = (self.runtime == Runtime::Reactor && self.asked.is_multiple_of(20))
            .then(|| Box::pin(tokio::time::sleep(Duration::from_micros(10))));
        Later { answer, wakes: self.asked % 3, timer }
    }
}

impl Store for Futures {
    type Session = FutureSession<MemoryClient>;

    fn describe(&self) -> Description {
        self.inner.describe()
    }
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    fn runtime(&self) -> Runtime {
        self.runtime
    }
    fn inspect(&self) -> Result<Namespace, StoreError> {
        self.inner.inspect()
    }
    fn owner_of(&self, collection: &str) -> Result<Option<Owner>, StoreError> {
        self.inner.owner_of(collection)
    }
    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        self.inner.prepare(layout, how)
    }
    async fn open(&self, options: &SessionOptions) -> Result<Self::Session, StoreError> {
        let session = self.inner.open(options).await?;
        Ok(FutureSession::new(MemoryClient { session, asked: 0, runtime: self.runtime }))
    }
    fn remove(&self) -> Result<(), StoreError> {
        self.inner.remove()
    }
}

#[test]
fn futures_on_a_plain_thread_conform() {
    assert_passes(&Futures { inner: MemoryStore::new(), runtime: Runtime::Plain });
}

#[test]
fn futures_on_a_reactor_conform_also_slowed_down() {
    assert_passes(&Futures { inner: MemoryStore::new(), runtime: Runtime::Reactor });
    let options = SlowOptions { latency: Duration::from_micros(10), ..Default::default() };
    assert_passes(&Slow::new(Futures { inner: MemoryStore::new(), runtime: Runtime::Reactor }, options));
}

/// The checks that must fail for each defect, and those that may. No other check may fail.
#[test]
fn every_defect_fails_the_checks_that_look_for_it() {
    let cases: &[(Defect, &[&str], &[&str])] = &[
        (
            Defect::InsertOverwrites,
            &["insert: a second insert conflicts", "race: exactly one insert"],
            &["insert:", "race:"],
        ),
        (Defect::DropsEvery100th, &["session: 1,000 operations in flight"], &["session", "prefix:", "scan:", "race:"]),
        (
            Defect::RowsReversed,
            &["prefix: the first `limit`", "scan: from start", "prefix: neighbours"],
            &["prefix:", "scan:"],
        ),
        (
            Defect::IgnoresLimit,
            &["page: at most", "prefix: the first", "scan: the first", "page: without contents"],
            &["page:", "prefix:", "scan:"],
        ),
        (Defect::CasOverwrites, &["cas: conflicts at a stale", "race: every cas"], &["cas:", "race: every cas"]),
        (Defect::BulkInsertOverwrites, &["bulk-insert: rejects"], &["bulk-insert:"]),
        (Defect::BulkInsertAllOrNothing, &["bulk-insert: rejects"], &["bulk-insert:", "keys: an empty key"]),
        (
            Defect::MergeReplaces,
            &["merge: sets, adds", "merge: merges nested", "race: merges"],
            &["merge:", "race: merges", "page: follows a replace"],
        ),
        (
            Defect::CounterAddsAtOnce,
            &["counter: begins at", "race: counters"],
            &["counter:", "race: counters", "cas: the revision of a counter"],
        ),
        (Defect::DeletesNothingHappily, &["delete: a missing document", "keys: quotes"], &["delete:", "keys:"]),
        (
            Defect::AlwaysContents,
            &["read: without contents", "bulk-read: without", "page: without", "prefix: without"],
            &["read: without", "bulk-read: without", "page: without", "prefix: without"],
        ),
        (Defect::CompletesTwice, &["session: 1,000 operations in flight", "session: failures in flight"], &[""]),
        (Defect::ForgetsToComplete, &["session: 1,000 operations in flight", "session: failures in flight"], &[""]),
        (Defect::WrongToken, &["session: 1,000 operations in flight"], &[""]),
        (Defect::PrefixIgnoresCase, &["prefix: neighbours", "prefix: Unicode"], &["prefix:"]),
        (Defect::SilentlyUnsupported, &["append: adds", "race: appends"], &["append:", "race: appends"]),
        (Defect::GuaranteesAnything, &["open: declared"], &["open:"]),
        (Defect::FreshKeeps, &["prepare: fresh empties"], &[""]),
        (Defect::ReadOnlyMakes, &["prepare: read-only"], &["prepare: read-only", "ownership:"]),
        (Defect::WriteExistingMakes, &["prepare: write-existing"], &["prepare: write-existing"]),
        (Defect::FreshTakesCopies, &["ownership: what a copy wrote", "ownership: a copy into"], &["ownership:"]),
        (
            Defect::IntoExistingTakesCopies,
            &["ownership: what a copy wrote", "ownership: a study's collection"],
            &["ownership:"],
        ),
        (Defect::RemoveTakesCopies, &["ownership: what a copy wrote", "ownership: a copy into"], &["ownership:"]),
        (Defect::RemoveLeavesBeside, &["ownership: a study's collection"], &["ownership: a study's"]),
        (Defect::CopiedIsOurs, &["ownership: what a copy wrote"], &["ownership:"]),
        (Defect::CopyLeavesStudys, &["ownership: a copy into"], &["ownership: a copy into"]),
        (Defect::SecondCopyRenames, &["ownership: what a copy wrote"], &["ownership: what"]),
        (
            Defect::DiscardKeeps,
            &["ownership: discard removes"],
            &["ownership:", "inspect:", "prepare:", "remove:", "open:", "control:"],
        ),
        (Defect::NeverExpires, &["touch: a document lives"], &["touch:"]),
        (Defect::AnswersAKeyOnce, &["bulk-read: a repeated"], &["bulk-read: a repeated"]),
        (Defect::UpsertsBackwards, &["bulk-upsert: of a repeated"], &["bulk-upsert: of a repeated"]),
        (Defect::SplitsSurrogates, &["page: values that need"], &["page: values that need"]),
        (Defect::WakesItself, &["session: nothing in flight"], &["session: nothing in flight"]),
        (
            Defect::UndoesNoStep,
            &[
                "transaction: one that is rolled back",
                "transaction: a step that fails",
                "race: documents written together",
            ],
            &["transaction: one that is rolled", "transaction: a step that fails", "race: documents written together"],
        ),
        (
            Defect::DoesTheLastStep,
            &[
                "transaction: all steps",
                "transaction: a step sees",
                "transaction: steps in several",
                "transaction: only",
            ],
            &["transaction:", "race: documents written together"],
        ),
        (Defect::Panics, &["prepend: adds", "prepend: a missing", "prepend: refused"], &["prepend:"]),
    ];
    for (defect, must_fail, may_fail) in cases {
        let report = run_fast(&Broken::new(*defect));
        let failed: Vec<&str> = report.failed().collect();
        for name in *must_fail {
            assert!(failed.iter().any(|check| check.starts_with(name)), "{defect:?} must fail `{name}`\n{report}");
        }
        for check in failed {
            assert!(
                may_fail.iter().any(|topic| check.starts_with(topic)),
                "{defect:?} may not fail `{check}`\n{report}"
            );
        }
    }
}

#[test]
fn an_index_that_splits_characters_is_the_servers() {
    let report = run_fast(&Broken::new(Defect::SplitsSurrogates));
    assert!(report.to_string().contains("the *server* does not index a character beyond U+FFFF"), "{report}");
}

#[test]
fn what_is_not_supported_and_refused_is_told_apart() {
    struct NoCounters(MemoryStore);
    impl Store for NoCounters {
        type Session = MemorySession;
        fn describe(&self) -> Description {
            self.0.describe()
        }
        fn capabilities(&self) -> Capabilities {
            let mut capabilities = self.0.capabilities();
            capabilities.operations.retain(|(kind, _)| *kind != OpKind::Counter);
            capabilities
        }
        fn inspect(&self) -> Result<Namespace, StoreError> {
            self.0.inspect()
        }
        fn owner_of(&self, collection: &str) -> Result<Option<Owner>, StoreError> {
            self.0.owner_of(collection)
        }
        fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
            self.0.prepare(layout, how)
        }
        async fn open(&self, options: &SessionOptions) -> Result<MemorySession, StoreError> {
            self.0.open(options).await
        }
        fn remove(&self) -> Result<(), StoreError> {
            self.0.remove()
        }
    }
    let report = assert_passes(&NoCounters(MemoryStore::new()));
    for row in &report.rows {
        let about_counters = row.check.contains("counter") || is_of_others(row.check);
        assert_eq!(about_counters, matches!(row.outcome, Err(Stop::NotSupported(_))), "{}\n{report}", row.check);
    }
    assert!(report.to_string().contains("not supported  counter"), "{report}");
}

#[test]
fn the_report_is_an_aligned_table() {
    let report = Report {
        store: "memory:".into(),
        rows: vec![
            super::Row { check: "a: short", outcome: Ok(()) },
            super::Row { check: "b: a longer one", outcome: Err(Stop::Failed("saw 2".into())) },
            super::Row { check: "c", outcome: Err(Stop::NotSupported("touch".into())) },
        ],
    };
    assert_eq!(
        report.to_string(),
        "conformance of memory:\n\
         \x20 a: short         pass\n\
         \x20 b: a longer one  FAIL           saw 2\n\
         \x20 c                not supported  touch\n\
         1 passed, 1 failed, 1 not supported"
    );
}

#[test]
fn names_are_unique_and_every_operation_but_views_is_needed_somewhere() {
    let checks = suite();
    let names: std::collections::BTreeSet<_> = checks.iter().map(|check| check.name).collect();
    assert_eq!(names.len(), checks.len());
    for kind in OpKind::ALL {
        let needed = checks.iter().any(|check| check.needs.contains(&kind));
        assert!(needed || kind == OpKind::View, "no check needs {kind}");
    }
}
