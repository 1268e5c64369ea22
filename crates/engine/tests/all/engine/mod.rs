//! Complete phases on real stores: threads, a reactor, early ends, the ledger.

mod ledger;
mod parts;

use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use storebench_documents::{Catalog, CatalogOptions};
use storebench_engine::measure::{PartialCause, PhaseRecord};
use storebench_engine::store::{
    AnyStore, BulkWrite, Capabilities, CollectionId, CollectionLayout, Completions, Description, Durability, ErrorKind,
    FutureSession, Layout, MemorySession, MemoryStore, Namespace, Op, OpError, OpKind, OwnedReply, PhaseStart, Prepare,
    ReadConsistency, Reply, Request, Respond, Runtime, Session, SessionCounters, SessionOptions, Slow, SlowOptions,
    Store, StoreError, Support, Token,
};
use storebench_engine::{
    Caller, Companion, Event, PhaseContext, PhasePlan, RealClock, Stop, StoreUse, Watch, Written, run_phase,
};
use storebench_study::workload::Study;

const STUDY: &str = r#"
title = "engine"
[collections.docs]
count = 2_000
size  = 300

[[phases]]
name    = "load"
load    = ["docs"]
batch   = 100
workers = 3

[[phases]]
name       = "mixed"
mix        = { read = 50, upsert = 40, insert = 10 }
check      = 1.0
workers    = 3
operations = 9_000
"#;

struct Lab {
    study: Study,
    catalog: Arc<Catalog>,
    clock: RealClock,
    stop: Arc<Stop>,
    written: std::cell::RefCell<Written>,
}

impl Lab {
    fn new(overrides: &[&str]) -> Self {
        let overrides: Vec<String> = overrides.iter().map(|s| (*s).to_owned()).collect();
        let study = Study::parse(STUDY, Path::new("engine.toml"), &overrides).unwrap();
        let dir = std::env::temp_dir();
        let options = CatalogOptions { seed: 7, scale: 1.0, base_dir: &dir, scratch_dir: &dir };
        let catalog = Arc::new(Catalog::compile(&study.collections, &options).unwrap());
        Self { study, catalog, clock: RealClock::new(), stop: Arc::new(Stop::new()), written: Default::default() }
    }

    fn prepared(&self, store: impl Store) -> Arc<dyn AnyStore> {
        let collections = self
            .study
            .collections
            .iter()
            .map(|(name, c)| CollectionLayout {
                name: name.clone(),
                body: c.body,
                indexes: c.index.clone(),
                existing: None,
                uses: storebench_engine::store::Uses::ALL,
            })
            .collect();
        store.prepare(&Layout { collections }, Prepare::Fresh).unwrap();
        Arc::new(store)
    }

    fn run(&self, store: &Arc<dyn AnyStore>, phase: usize) -> PhaseRecord {
        self.observed(store, phase, &mut |_| {})
    }

    fn observed(&self, store: &Arc<dyn AnyStore>, phase: usize, observer: &mut dyn FnMut(&Event<'_>)) -> PhaseRecord {
        self.accompanied(store, phase, None, observer)
    }

    fn accompanied(
        &self,
        store: &Arc<dyn AnyStore>,
        phase: usize,
        companion: Option<&mut dyn Companion>,
        observer: &mut dyn FnMut(&Event<'_>),
    ) -> PhaseRecord {
        let plan =
            PhasePlan::resolve(&self.study, &self.study.phases[phase], &self.catalog, &store.capabilities()).unwrap();
        let mut observer = |event: &Event<'_>| observer(event);
        let context = PhaseContext {
            catalog: Arc::clone(&self.catalog),
            clock: self.clock.clone(),
            stop: Arc::clone(&self.stop),
            seed: 7,
            interval: Duration::from_millis(20),
            begin: None,
            written: &mut self.written.borrow_mut(),
            companions: companion.into_iter().map(|companion| companion as &mut dyn Companion).collect(),
            gone: &|| false,
            observer: &mut observer,
        };
        run_phase(store, &plan, context).unwrap()
    }
}

fn counts(record: &PhaseRecord) -> Vec<(u64, u64, u64)> {
    record.total.ops.iter().map(|t| (t.succeeded, t.missed, t.errors())).collect()
}

#[test]
fn a_load_writes_every_document_once_and_a_mix_finds_them() {
    let lab = Lab::new(&[]);
    let store = lab.prepared(MemoryStore::new());
    let load = lab.run(&store, 0);
    assert_eq!(counts(&load), [(20, 0, 0)]);
    assert_eq!(load.total.ops[0].documents, 2_000);
    let mixed = lab.run(&store, 1);
    assert_eq!(mixed.operations(), 9_000);
    let [read, upsert, insert] = &mixed.total.ops[..] else { panic!("three labels") };
    assert_eq!((read.missed, read.wrong, mixed.total.ops.iter().map(|t| t.errors()).sum::<u64>()), (0, 0, 0));
    assert_eq!(read.checked, read.succeeded, "{:?}", mixed.wrong_examples);
    assert!(upsert.succeeded > insert.succeeded && insert.succeeded > 0);
    // Loaded and inserted documents: most of both were touched.
    let distinct = mixed.distinct_keys[0].1;
    assert!((2_000..=3_200).contains(&distinct), "{distinct}");
    assert!(mixed.partial.is_none());
}

/// A companion takes its last sample after the last interval.
#[test]
fn the_end_of_a_phase_tells_what_its_store_used_until_then() {
    const USED: StoreUse = StoreUse { cpu_ns: 7, rss_bytes: 9 };
    struct Late;
    impl Companion for Late {
        fn accompany(&mut self, watch: &Watch) {
            watch.wait_until(u64::MAX / 2);
            watch.store_uses(USED);
        }
        fn breaks(&self) -> bool {
            false
        }
    }
    let lab = Lab::new(&[]);
    let store = lab.prepared(MemoryStore::new());
    let mut told = None;
    lab.accompanied(&store, 0, Some(&mut Late), &mut |event| {
        if let Event::PhaseEnded { store, .. } = event {
            told = *store;
        }
    });
    assert_eq!(told, Some(USED));
}

#[test]
fn a_second_phase_inserts_further_documents() {
    let lab = Lab::new(&[]);
    let store = lab.prepared(MemoryStore::new());
    lab.run(&store, 0);
    for _ in 0..2 {
        let [_, _, insert] = &lab.run(&store, 1).total.ops[..] else { panic!("three labels") };
        assert_eq!((insert.errors(), insert.missed), (0, 0));
    }
}

#[test]
fn a_batch_that_is_refused_in_part_has_failed_once() {
    let lab = Lab::new(&["phases.load.batch=7"]);
    let store = lab.prepared(MemoryStore::new());
    lab.run(&store, 0);
    // Loaded again without emptying: every document already exists.
    let record = lab.run(&store, 0);
    let tally = &record.total.ops[0];
    assert_eq!((tally.succeeded, tally.ended()), (0, tally.failed_as(ErrorKind::Conflict)));
    assert!(tally.rejected >= 7 && tally.documents == 0);
    assert!(record.partial.unwrap().why.contains("docs/"), "it names a key");
}

#[test]
fn intervals_add_up_to_the_total() {
    let lab = Lab::new(&[]);
    let store = lab.prepared(Slow::new(
        MemoryStore::new(),
        SlowOptions { latency: Duration::from_micros(50), ..SlowOptions::default() },
    ));
    lab.run(&store, 0);
    let mut told = 0;
    let record = lab.observed(&store, 1, &mut |event| {
        if let Event::Interval { record, .. } = event {
            told += record.ops.iter().map(|t| t.ended()).sum::<u64>();
        }
    });
    let sum: u64 = record.intervals.iter().map(|i| i.record().ops.iter().map(|t| t.ended()).sum::<u64>()).sum();
    assert_eq!(sum, record.operations());
    assert!(told <= sum && told > 0);
    assert!(record.intervals.len() > 1);
    assert!(record.intervals.windows(2).all(|w| w[0].number < w[1].number && w[0].to_ns <= w[1].from_ns));
    let times: u64 = record.intervals.iter().map(|i| i.record().ops.iter().map(|t| t.service.len()).sum::<u64>()).sum();
    assert_eq!(times, record.total.ops.iter().map(|t| t.service.len()).sum::<u64>());
}

#[test]
fn the_same_seed_draws_the_same_operations() {
    let lab = Lab::new(&["phases.mixed.streams=disjoint"]);
    let runs: Vec<_> = (0..2)
        .map(|_| {
            let store = lab.prepared(MemoryStore::new());
            *lab.written.borrow_mut() = Written::default();
            lab.run(&store, 0);
            let record = lab.run(&store, 1);
            (counts(&record), record.distinct_keys.clone(), record.total.ops[1].bytes_written)
        })
        .collect();
    assert_eq!(runs[0], runs[1]);
}

#[test]
fn a_request_to_end_keeps_what_was_measured() {
    let lab = Lab::new(&["phases.mixed.rate=2000", "phases.mixed.operations=1_000_000"]);
    let store = lab.prepared(MemoryStore::new());
    lab.run(&store, 0);
    let stop = Arc::clone(&lab.stop);
    let record = lab.observed(&store, 1, &mut |event| {
        if matches!(event, Event::Interval { number: 2.., .. }) {
            stop.ask();
        }
    });
    assert_eq!(record.partial.as_ref().unwrap().cause, PartialCause::Interrupted);
    assert!(record.operations() > 0 && record.operations() < 1_000_000);
}

/// The memory store with wrapped sessions.
struct Wrapped<F>(MemoryStore, F);

impl<S: Session + 'static, F: Fn(MemorySession) -> S + Send + Sync + 'static> Store for Wrapped<F> {
    type Session = S;
    fn describe(&self) -> Description {
        Store::describe(&self.0)
    }
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Store::capabilities(&self.0);
        capabilities.operations.push((OpKind::View, Support::Native));
        capabilities
    }
    fn inspect(&self) -> Result<Namespace, StoreError> {
        Store::inspect(&self.0)
    }
    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        Store::prepare(&self.0, layout, how)
    }
    async fn open(&self, options: &SessionOptions) -> Result<S, StoreError> {
        Ok((self.1)(Store::open(&self.0, options).await?))
    }
    fn remove(&self) -> Result<(), StoreError> {
        Store::remove(&self.0)
    }
}

/// Runs out of space after some documents.
struct FullSession(MemorySession, Arc<AtomicU64>);

impl Session for FullSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        if request.op.kind().writes() && self.1.fetch_add(1, Ordering::Relaxed) >= 5 {
            return out.complete(token, Err(OpError::new(ErrorKind::Failed, "the disk is full")));
        }
        self.0.submit(request, token, out);
    }
}

#[test]
fn a_load_that_cannot_go_on_ends_and_says_why() {
    let lab = Lab::new(&[]);
    let writes = Arc::new(AtomicU64::new(0));
    let store = lab.prepared(Wrapped(MemoryStore::new(), move |inner| FullSession(inner, Arc::clone(&writes))));
    let record = lab.run(&store, 0);
    let partial = record.partial.as_ref().unwrap();
    assert_eq!(partial.cause, PartialCause::Failed);
    assert!(partial.why.contains("disk is full"), "{partial:?}");
    assert!(record.total.ops[0].succeeded == 5 && record.total.ops[0].errors() >= 1);
}

/// The first session loses its connection at its hundredth operation, and has cut a bulk request in two before.
struct FlakySession {
    inner: MemorySession,
    breaks: bool,
    operations: u64,
    counters: SessionCounters,
}

impl Session for FlakySession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        self.operations += 1;
        self.counters.splits = u64::from(self.breaks);
        if self.breaks && self.operations == 100 {
            self.counters.disconnects += 1;
            return out.complete(token, Err(OpError::new(ErrorKind::OutcomeUnknown, "the connection was reset")));
        }
        self.inner.submit(request, token, out);
    }
    fn counters(&self) -> SessionCounters {
        self.counters
    }
}

fn unstable(memory: MemoryStore) -> impl Store {
    let opened = AtomicU64::new(0);
    Wrapped(memory, move |inner| {
        let breaks = opened.fetch_add(1, Ordering::Relaxed) == 0;
        FlakySession { inner, breaks, operations: 0, counters: SessionCounters::default() }
    })
}

fn flaky(overrides: &[&str]) -> PhaseRecord {
    let lab = Lab::new(overrides);
    let memory = MemoryStore::new();
    let loaded = lab.prepared(memory.clone());
    lab.run(&loaded, 0);
    let store: Arc<dyn AnyStore> = Arc::new(unstable(memory));
    lab.run(&store, 1)
}

#[test]
fn lost_connections_are_counted_and_the_phase_goes_on() {
    let record = flaky(&["phases.mixed.mix={ upsert = 1 }"]);
    assert_eq!(record.total.connections, SessionCounters { disconnects: 1, splits: 1 });
    assert_eq!((record.partial.as_ref(), record.operations()), (None, 9_000));
    assert_eq!(record.unknown_outcomes(), 1);
    let by_interval: u64 = record.intervals.iter().map(|i| i.record().connections.disconnects).sum();
    assert_eq!(by_interval, 1);
    // A read whose answer was lost has changed nothing.
    assert_eq!(flaky(&["phases.mixed.mix={ read = 1 }"]).unknown_outcomes(), 0);
}

#[test]
fn a_phase_ends_at_the_first_lost_connection_if_the_study_says_so() {
    let record = flaky(&["phases.mixed.operations=10M", "phases.mixed.on_disconnect=end"]);
    let partial = record.partial.as_ref().unwrap();
    assert_eq!(partial.cause, PartialCause::Disconnected);
    assert!(partial.why.contains("lost its connection 1 of 1"), "{partial:?}");
    assert!(record.operations() >= 100 && record.operations() < 10_000_000);
}

#[test]
fn a_load_that_a_lost_connection_ended_says_that_it_did() {
    let lab = Lab::new(&["phases.load.batch=1"]);
    let store = lab.prepared(unstable(MemoryStore::new()));
    let record = lab.run(&store, 0);
    assert_eq!(record.partial.unwrap().cause, PartialCause::Disconnected);
}

/// A store behind a socket: a thread that echoes each 8-byte token back.
struct Echo {
    address: std::net::SocketAddr,
}

impl Echo {
    fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                std::thread::spawn(move || {
                    let mut copy = stream.try_clone().unwrap();
                    let _ = std::io::copy(&mut copy, &mut stream);
                });
            }
        });
        Self { address }
    }
}

/// One connection, with requests and answers in order, as in a pipelined protocol.
struct EchoSession {
    stream: tokio::net::TcpStream,
    out: Vec<u8>,
    input: Vec<u8>,
    waiting: usize,
}

impl EchoSession {
    fn push(&mut self) {
        while !self.out.is_empty() {
            match self.stream.try_write(&self.out) {
                Ok(n) => drop(self.out.drain(..n)),
                Err(_) => return,
            }
        }
    }
}

impl Session for EchoSession {
    fn submit(&mut self, _: &Request<'_>, token: Token, _: &mut dyn Completions) {
        self.out.extend_from_slice(&token.0.to_be_bytes());
        self.waiting += 1;
    }
    fn flush(&mut self) {
        self.push();
    }
    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        self.push();
        while self.stream.poll_read_ready(cx).is_ready() {
            let mut bytes = [0; 4_096];
            match self.stream.try_read(&mut bytes) {
                Ok(n) => self.input.extend_from_slice(&bytes[..n]),
                Err(_) => continue,
            }
            let whole = self.input.len() / 8 * 8;
            for token in self.input[..whole].chunks_exact(8) {
                let token = Token(u64::from_be_bytes(token.try_into().unwrap()));
                self.waiting -= 1;
                out.complete(token, Ok(Reply { documents: 1, ..Reply::default() }));
            }
            self.input.drain(..whole);
        }
        if self.waiting == 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Store for Echo {
    type Session = EchoSession;
    fn describe(&self) -> Description {
        Description { scheme: "echo", url: "echo:".into(), version: "0".into() }
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { embedded: false, ..Store::capabilities(&MemoryStore::new()) }
    }
    fn runtime(&self) -> Runtime {
        Runtime::Reactor
    }
    fn inspect(&self) -> Result<Namespace, StoreError> {
        Ok(Namespace::Ours)
    }
    fn prepare(&self, _: &Layout, _: Prepare) -> Result<(), StoreError> {
        Ok(())
    }
    async fn open(&self, _: &SessionOptions) -> Result<EchoSession, StoreError> {
        let stream = tokio::net::TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Ok(EchoSession { stream, out: Vec::new(), input: Vec::new(), waiting: 0 })
    }
    fn remove(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The same loop on a reactor, with both pacings: everything that was scheduled is sent and answered. A spin that
/// starves the reactor would leave answers unread until the drain ends.
#[test]
fn a_reactor_serves_both_pacings_and_the_closed_loop() {
    for (pacing, rate) in [("precise", 4_000), ("precise", 20_000), ("economical", 4_000)] {
        let pacing = format!("phases.mixed.pacing={pacing}");
        let rate = format!("phases.mixed.rate={rate}");
        let lab = Lab::new(&[
            "phases.mixed.mix={ read = 1 }",
            "phases.mixed.check=0",
            "phases.mixed.workers=1",
            "phases.mixed.connections=4",
            "phases.mixed.in_flight=4",
            &rate,
            "phases.mixed.operations=2_000",
            &pacing,
        ]);
        let store = lab.prepared(Echo::start());
        let record = lab.run(&store, 1);
        assert_eq!(counts(&record), [(2_000, 0, 0)], "{pacing}");
        assert_eq!(record.total.send_delay.len(), 2_000);
        // Sending and reading are the client's work, also between spins: here, several µs for each operation. A thread
        // that does not get a processor seems to spin for longer.
        let worked_ns = record.total.cpu_ns + record.total.run_queue_ns - record.total.spin_ns;
        assert!(worked_ns > 2_000 * 500, "{pacing}: {worked_ns} ns");
    }
    let lab = Lab::new(&["phases.mixed.mix={ read = 1 }", "phases.mixed.in_flight=8"]);
    let store = lab.prepared(Echo::start());
    assert_eq!(counts(&lab.run(&store, 1)), [(9_000, 0, 0)]);
}

/// Counts how often it is dropped outside a runtime, where a client could not release its sockets.
#[derive(Clone, Default)]
struct Socket(Arc<AtomicU64>);

impl Drop for Socket {
    fn drop(&mut self) {
        if tokio::runtime::Handle::try_current().is_err() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A client crate that returns a future per request, adapted; or one that never answers.
#[derive(Clone)]
struct Futures {
    silent: bool,
    dropped_outside: Arc<AtomicU64>,
}

impl Futures {
    fn new(silent: bool) -> Self {
        Self { silent, dropped_outside: Arc::default() }
    }
}

struct FuturesClient {
    silent: bool,
    socket: Socket,
}

impl Respond for FuturesClient {
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<OwnedReply, OpError>>>>;

    fn respond(&mut self, _: &Request<'_>) -> Self::Future {
        let (silent, socket) = (self.silent, self.socket.clone());
        Box::pin(async move {
            let _socket = socket;
            tokio::task::yield_now().await;
            if silent {
                std::future::pending::<()>().await;
            }
            Ok(OwnedReply::documents(1))
        })
    }
}

impl Store for Futures {
    type Session = FutureSession<FuturesClient>;
    fn describe(&self) -> Description {
        Description { scheme: "futures", url: "futures:".into(), version: "0".into() }
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { embedded: false, ..Store::capabilities(&MemoryStore::new()) }
    }
    fn runtime(&self) -> Runtime {
        Runtime::Reactor
    }
    fn inspect(&self) -> Result<Namespace, StoreError> {
        Ok(Namespace::Ours)
    }
    fn prepare(&self, _: &Layout, _: Prepare) -> Result<(), StoreError> {
        Ok(())
    }
    async fn open(&self, _: &SessionOptions) -> Result<Self::Session, StoreError> {
        let socket = Socket(Arc::clone(&self.dropped_outside));
        Ok(FutureSession::new(FuturesClient { silent: self.silent, socket }))
    }
    fn remove(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[test]
fn a_client_of_futures_is_driven_by_the_same_loop() {
    let lab = Lab::new(&["phases.mixed.mix={ read = 1 }", "phases.mixed.in_flight=16", "phases.mixed.check=0"]);
    let store = lab.prepared(Futures::new(false));
    assert_eq!(counts(&lab.run(&store, 1)), [(9_000, 0, 0)]);
}

#[test]
fn sessions_and_what_they_have_under_way_end_within_their_runtime() {
    let silent = Futures::new(true);
    let small = ["phases.mixed.mix={ read = 1 }", "phases.mixed.timeout=\"5ms\"", "phases.mixed.operations=4"];
    let lab = Lab::new(&small);
    lab.run(&lab.prepared(silent.clone()), 1);
    let options = SessionOptions {
        durability: Durability::MEMORY,
        consistency: Default::default(),
        timeout: Duration::from_millis(5),
        in_flight: 2,
        clock: Arc::new(RealClock::new()),
        phase_start: PhaseStart::new(),
    };
    let store: Arc<dyn AnyStore> = Arc::new(silent.clone());
    let mut caller = Caller::open(&*store, &options).unwrap();
    let request = Request { collection: CollectionId(0), op: Op::Read { key: "a" }, contents: true };
    let mut ended = None;
    caller.call(&request, |result| ended = Some(result.unwrap_err().kind));
    assert_eq!(ended, Some(ErrorKind::OutcomeUnknown));
    drop(caller);
    assert_eq!(silent.dropped_outside.load(Ordering::Relaxed), 0);
}

#[test]
fn what_a_store_cannot_do_is_refused_before_anything_runs() {
    let lab = Lab::new(&["phases.mixed.durability=majority"]);
    let store = lab.prepared(MemoryStore::new());
    let refused = PhasePlan::resolve(&lab.study, &lab.study.phases[1], &lab.catalog, &store.capabilities());
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("majority") && message.contains("mixed"), "{message}");
}

/// Records which views were asked for.
struct ViewSession(Arc<Mutex<Vec<String>>>);

impl Session for ViewSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        self.0.lock().unwrap().push(format!("{:?}", request.op));
        out.complete(token, Ok(Reply::written(1)));
    }
}

#[test]
fn views_are_asked_for_as_the_study_says() {
    let asked = |entry: &str| {
        let one = "phases.mixed.operations=20";
        let fields = "collections.docs.fields={ name = { words = 3 } }";
        let index = "collections.docs.index=[[\"name\"]]";
        let mix = format!("phases.mixed.mix={{ view = {{ view = \"a/b\", {entry} }} }}");
        let lab = Lab::new(&[&mix, one, fields, index]);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let store = lab.prepared(Wrapped(MemoryStore::new(), move |_| ViewSession(Arc::clone(&kept))));
        lab.run(&store, 1);
        let mut seen = seen.lock().unwrap().clone();
        seen.dedup();
        seen
    };
    let rows =
        |rows: &str, limit: u32| vec![format!("View {{ view: \"a/b\", rows: {rows}, skip: 0, limit: {limit} }}")];
    assert_eq!(asked("limit = 3"), rows("All", 3));
    assert_eq!(asked("keys = [\"a\", 7]"), rows(r#"Keys("[\"a\",7]")"#, 10));
    assert_eq!(asked("start = [1, \"x\"]"), rows(r#"Range { start: Some("[1,\"x\"]"), end: None }"#, 10));
    assert_eq!(asked("start = 1, end = 9"), rows(r#"Range { start: Some("1"), end: Some("9") }"#, 10));
    let drawn = asked("where = \"name\"");
    assert!(drawn.len() > 10, "each asks for the field of another document: {drawn:?}");
    assert!(drawn.iter().all(|op| op.contains(r#"rows: Keys("[\""#)), "{drawn:?}");
}

#[test]
fn a_view_is_not_asked_for_by_a_field_whose_value_is_not_known() {
    for field in ["name", "nmae"] {
        let mix = format!("phases.mixed.mix={{ view = {{ view = \"a/b\", where = \"{field}\" }} }}");
        let lab = Lab::new(&[&mix, "collections.docs.fields={ name = { words = 3 } }"]);
        let store = lab.prepared(Wrapped(MemoryStore::new(), |inner| inner));
        let refused = PhasePlan::resolve(&lab.study, &lab.study.phases[1], &lab.catalog, &store.capabilities());
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(&format!("index = [[\"{field}\"]]")), "{message}");
    }
}
