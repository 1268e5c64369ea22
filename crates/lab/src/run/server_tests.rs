//! Tests of the runner with a store that behaves like a server: it loses connections, reports statistics and query
//! plans, and leaks secrets in its messages.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use storebench_engine::store::{
    AnyStore, Capabilities, CollectionId, Completions, Description, Durability, ErrorKind, Explanation, Layout,
    MemorySession, MemoryStore, Namespace, Op, OpError, PhaseStart, Prepare, Request, Session, SessionCounters,
    SessionOptions, Stats, Store, StoreError, Token,
};
use storebench_engine::{Caller, Event, RealClock, Stop};
use storebench_results::validity::Severity;
use storebench_results::{FailureKind, RunResult, read_run};
use storebench_study::workload::Study;

use super::*;

const PASSWORD: &str = "hush-p@ss/4711";
const TYPED: &str = "hush-p%40ss%2F4711";

const STUDY: &str = r#"
title = "Books"
seed = 7
stores = { here = "server://me:TYPED@host:1/db?token=to-ken-4711" }
[collections.books]
count = 500
size = "300B"
fields = { author = { words = 2 }, text = { text = "fill" } }
index = [["author"]]
[[phases]]
name = "load"
load = ["books"]
[[phases]]
name = "mixed"
workers = 1
operations = 3000
[phases.mix]
read = 8
update = 2
of-author = { op = "page", where = "author" }
"#;

/// How a [`Server`] misbehaves.
#[derive(Clone, Default)]
struct Manners {
    /// The operation at which a connection is lost, counted from the opening of the first session.
    breaks_at: Option<u64>,
    full_scan: bool,
    /// Leaks its password in every message.
    leaks: bool,
    /// Cannot be prepared.
    refuses: bool,
    /// How many sessions may be open at once.
    sessions: Option<u64>,
}

/// A memory store behind a connection.
#[derive(Clone)]
struct Server {
    inner: MemoryStore,
    manners: Manners,
    operations: Arc<AtomicU64>,
    prepared: Arc<Mutex<Vec<Prepare>>>,
    open: Arc<AtomicU64>,
}

impl Server {
    fn with(manners: Manners) -> Self {
        let (operations, prepared, open) = (Arc::default(), Arc::default(), Arc::default());
        Self { inner: MemoryStore::new(), manners, operations, prepared, open }
    }

    fn said(&self, what: &str) -> String {
        if self.manners.leaks { format!("{what}: `{PASSWORD}` and to-ken-4711") } else { what.to_owned() }
    }
}

struct ServerSession {
    inner: MemorySession,
    server: Server,
    counters: SessionCounters,
}

impl Drop for ServerSession {
    fn drop(&mut self) {
        self.server.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Session for ServerSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let number = self.server.operations.fetch_add(1, Ordering::Relaxed);
        if self.server.manners.breaks_at == Some(number) {
            self.counters.disconnects += 1;
            let message = self.server.said("the connection was reset");
            return out.complete(token, Err(OpError::new(ErrorKind::OutcomeUnknown, message)));
        }
        self.inner.submit(request, token, out);
    }
    fn counters(&self) -> SessionCounters {
        self.counters
    }
}

impl Store for Server {
    type Session = ServerSession;
    fn describe(&self) -> Description {
        Description { scheme: "server", url: "server://me@host:1/db".into(), version: self.said("Server 1.0") }
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { embedded: false, ..Store::capabilities(&self.inner) }
    }
    fn inspect(&self) -> Result<Namespace, StoreError> {
        Store::inspect(&self.inner)
    }
    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        self.prepared.lock().unwrap().push(how);
        if self.manners.refuses {
            return Err(StoreError::Unreachable(self.said("access denied")));
        }
        Store::prepare(&self.inner, layout, how)
    }
    async fn open(&self, options: &SessionOptions) -> Result<ServerSession, StoreError> {
        if self.manners.sessions.is_some_and(|most| self.open.load(Ordering::Relaxed) >= most) {
            return Err(StoreError::Unreachable("too many clients already".to_owned()));
        }
        let inner = Store::open(&self.inner, options).await?;
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(ServerSession { inner, server: self.clone(), counters: SessionCounters::default() })
    }
    fn stats(&self) -> Result<Stats, StoreError> {
        if self.manners.leaks {
            return Err(StoreError::Failed(self.said("no figures")));
        }
        Ok(vec![("queue_documents".into(), self.operations.load(Ordering::Relaxed) as f64)])
    }
    fn sample_keys(&self, collection: CollectionId, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError> {
        Store::sample_keys(&self.inner, collection, at_most, seed)
    }
    fn explain(&self, request: &Request<'_>) -> Result<Option<Explanation>, StoreError> {
        let Op::Page { field, value, .. } = request.op else { return Ok(None) };
        let full_scan = self.manners.full_scan;
        Ok(Some(Explanation { plan: self.said(&format!("{field} = {value}")), full_scan }))
    }
    fn remove(&self) -> Result<(), StoreError> {
        Store::remove(&self.inner)
    }
}

fn request(text: &str, server: &Server, runs_dir: Option<&Path>) -> RunRequest {
    let text = text.replace("TYPED", TYPED);
    let study = Study::parse(&text, Path::new("books.toml"), &[]).unwrap();
    let store: Arc<dyn AnyStore> = Arc::new(server.clone());
    let documents = compile_documents(&study, 1.0, Path::new(".")).unwrap();
    RunRequest {
        name: "books".into(),
        configurations: ConfigurationRequest::of_stores(&study, &documents, 1.0, [("here".to_owned(), store)]),
        study,
        prices: None,
        part: None,
        resume: None,
        study_text: text,
        study_file: None,
        overrides: vec![format!("title=by server://me:{TYPED}@host")],
        runs_dir: runs_dir.map(Path::to_owned),
        unsupported: storebench_engine::Unsupported::Refuse,
        prepare: PrepareMode::Fresh,
        remove_after: false,
        anyway: false,
        transfers: None,
        interval: Duration::from_millis(100),
        commit: None,
    }
}

fn quietly(request: &RunRequest) -> Result<RunOutcome, LabError> {
    run(request, Arc::new(Stop::new()), &mut |_: &Event<'_>| {})
}

fn check<'a>(result: &'a RunResult, check: &str) -> &'a storebench_results::validity::CheckResult {
    result.checks.iter().find(|v| v.check == check).unwrap()
}

/// A load may take hours, and the phase after it would fail.
#[test]
fn connections_that_the_server_does_not_allow_are_refused_before_the_load() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    let text = STUDY.replace("workers = 1", "workers = 2\nconnections = 50");
    let server = Server::with(Manners { sessions: Some(64), ..Manners::default() });
    let error = quietly(&request(&text, &server, Some(&runs))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "store `here`: phase `mixed` opens 100 connections at once, but only 64 could be opened: too many clients already. \
         Nothing was loaded. Use --set phases.mixed.connections=31, or let the server accept more"
    );
    assert_eq!((error.exit_code(), server.operations.load(Ordering::Relaxed), runs.exists()), (2, 0, false));
    // What it says fits.
    let fitting = text.replace("connections = 50", "connections = 31");
    assert_eq!(quietly(&request(&fitting, &server, None)).unwrap().result.trials[0].failure, None);
    let few = Server::with(Manners { sessions: Some(3), ..Manners::default() });
    let told = quietly(&request(&text, &few, None)).unwrap_err().to_string();
    assert!(told.contains("--set phases.mixed.workers=1 and --set phases.mixed.connections=1"), "{told}");
}

#[test]
fn a_lost_connection_ends_the_trial_where_the_study_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with(Manners { breaks_at: Some(1_000), ..Manners::default() });
    let text = STUDY.replace("workers = 1", "workers = 1\non_disconnect = \"end\"");
    let outcome = quietly(&request(&text, &server, Some(dir.path()))).unwrap();
    assert_eq!(outcome.exit_code(), 3);
    let trial = &outcome.result.trials[0];
    let failure = trial.failure.as_ref().unwrap();
    assert_eq!((failure.kind, failure.during.as_str()), (FailureKind::Unreachable, "mixed"));
    let mixed = &trial.phases[1];
    assert!(mixed.partial.as_ref().unwrap().contains("lost its connection 1 of 1"), "{mixed:?}");
    let operations: u64 = mixed.ops.values().map(|op| op.count).sum();
    assert!(operations > 0 && operations < 3_000, "what was measured until then is kept");
    assert_eq!(check(&outcome.result, "partial-run").severity, Severity::Caution);
    let kept = read_run(outcome.folder.as_ref().unwrap()).unwrap();
    assert_eq!(kept.trials[0].phases[1].connection_events.disconnects, 1);
}

#[test]
fn otherwise_the_run_goes_on_and_tells_what_happened() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with(Manners { breaks_at: Some(1_000), full_scan: true, ..Manners::default() });
    let text = STUDY.replace("read = 8\nupdate = 2\nof-author = {", "update = 2\nof-author = { weight = 0.01,");
    let outcome = quietly(&request(&text, &server, Some(dir.path()))).unwrap();
    let mixed = &outcome.result.trials[0].phases[1];
    assert_eq!((mixed.connection_events.disconnects, &mixed.partial), (1, &None));
    assert_eq!((mixed.sessions, mixed.in_flight_limit), (1, 1));
    assert_eq!(mixed.unknown_outcomes, 1);
    let text = storebench_results::summary::summary(&outcome.result, storebench_results::summary::Layout::plain());
    assert!(text.contains("1 connection lost · 1 unknown write outcome"), "{text}");
    let unknown = |v: &storebench_results::validity::CheckResult| {
        v.check == "errors" && v.observed.contains("1 write may or may not")
    };
    assert!(outcome.result.checks.iter().any(unknown), "{:?}", outcome.result.checks);
    let folder = outcome.folder.unwrap();
    let events = std::fs::read_to_string(folder.join("events.jsonl")).unwrap();
    assert!(events.contains(r#""connections":{"disconnects":1,"splits":0}"#), "{events}");
    // The store's statistics, and its query plan.
    let figure = mixed.store_stats.figures["queue_documents"];
    assert!(mixed.store_stats.answers >= 2 && figure.first < figure.last && figure.last == figure.max, "{figure:?}");
    assert!(folder.join("store_stats.jsonl.gz").metadata().unwrap().len() > 0);
    let plan = mixed.ops["of-author"].query_plan.as_ref().unwrap();
    assert!(plan.full_scan && plan.plan.starts_with("author = \"") && plan.field.as_deref() == Some("author"));
    assert_eq!(mixed.ops["update"].query_plan, None);
    assert_eq!(check(&outcome.result, "full-scan").severity, Severity::Caution);
}

/// The files of a run folder that contain any of these.
fn holding(folder: &Path, secrets: &[&str]) -> Vec<String> {
    let holds = |bytes: &[u8]| secrets.iter().any(|s| bytes.windows(s.len()).any(|w| w == s.as_bytes()));
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.filter(|file| holds(&std::fs::read(file).unwrap())).map(|file| file.display().to_string()).collect()
}

#[test]
fn a_server_that_tells_its_password_tells_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = [PASSWORD, TYPED, "hush-p@ss\\/4711", "to-ken-4711"];
    let server = Server::with(Manners { breaks_at: Some(1_000), leaks: true, ..Manners::default() });
    let mut told = Vec::new();
    let mut observer = |event: &Event<'_>| {
        if let Event::Note { text } = event {
            told.push(text.clone());
        }
    };
    let request_of = |server: &Server, dir: &Path| request(STUDY, server, Some(dir));
    let outcome = run(&request_of(&server, dir.path()), Arc::new(Stop::new()), &mut observer).unwrap();
    let folder = outcome.folder.as_ref().unwrap();
    assert_eq!(holding(folder, &secrets), Vec::<String>::new());
    let shown = serde_json::to_string(&outcome.result).unwrap()
        + &storebench_results::summary::summary(&outcome.result, storebench_results::summary::Layout::plain());
    let shown = shown + &told.join("\n");
    assert!(secrets.iter().all(|s| !shown.contains(s)), "{shown}");
    assert!(shown.contains("no figures: `***` and ***") && shown.contains("reset: `***`"), "{shown}");
    // The saved result is complete and can be read back.
    assert_eq!(read_run(folder).unwrap().trials[0].phases.len(), 2);

    let refusing = Server::with(Manners { refuses: true, leaks: true, ..Manners::default() });
    let error = quietly(&request_of(&refusing, &dir.path().join("more"))).unwrap_err();
    assert_eq!((error.exit_code(), error.to_string().as_str()), (3, "store `here`: access denied: `***` and ***"));
}

fn reader(server: &Server) -> Caller {
    let options = SessionOptions {
        durability: Durability::MEMORY,
        consistency: Default::default(),
        timeout: Duration::from_secs(60),
        in_flight: 1,
        clock: Arc::new(RealClock::new()),
        phase_start: PhaseStart::new(),
    };
    Caller::open(server, &options).unwrap()
}

/// The version of every document, in order.
fn versions(server: &Server, request: &RunRequest) -> Vec<u64> {
    let documents = request.configurations[0].documents.catalog.get(0);
    let mut caller = reader(server);
    let mut found = Vec::new();
    for index in 0..documents.count() {
        let mut key = Vec::new();
        documents.write_key(index, &mut key);
        let op = Op::Read { key: std::str::from_utf8(&key).unwrap() };
        caller.call(&Request { collection: CollectionId(0), op, contents: true }, |reply| {
            found.push(documents.read_marker(reply.unwrap().body.unwrap()).unwrap().1);
        });
    }
    found
}

/// A run on documents of an earlier run writes new versions. What it reads back cannot have been written by the earlier
/// run.
#[test]
fn a_run_on_kept_documents_writes_versions_of_its_own() {
    let server = Server::with(Manners::default());
    let all = STUDY.replace("read = 8\nupdate = 2\nof-author = { op = \"page\", where = \"author\" }", "update = 1");
    let first = request(&all, &server, None);
    quietly(&first).unwrap();
    let before = versions(&server, &first);
    let again = all.replace("[[phases]]\nname = \"load\"\nload = [\"books\"]\n", "");
    let mut second = request(&again, &server, None);
    second.prepare = PrepareMode::Keep;
    quietly(&second).unwrap();
    let after = versions(&server, &second);
    let latest = before.iter().max().unwrap();
    let written: Vec<u64> = before.iter().zip(&after).filter(|(a, b)| a != b).map(|(_, b)| *b).collect();
    assert!(written.len() > 400, "3,000 updates of 500 documents");
    assert!(written.iter().all(|version| version > latest), "a version came twice");
    // Once more, and twice in one run: the same keys are drawn, with later versions.
    second.study.repeats = 2.into();
    quietly(&second).unwrap();
    let last = versions(&server, &second);
    let changed = after.iter().zip(&last).filter(|(a, b)| a != b);
    assert!(changed.clone().count() > 400);
    assert!(changed.clone().all(|(_, version)| version > after.iter().max().unwrap()), "a version came twice");
}

#[test]
fn documents_of_others_are_prepared_for_reading_only() {
    let server = Server::with(Manners::default());
    quietly(&request(STUDY, &server, None)).unwrap();
    server.prepared.lock().unwrap().clear();
    let text = r#"
title = "Theirs"
repeats = 2
[collections.shelf]
existing = "books"
sample = 100
[[phases]]
name = "reads"
popularity = "hotspot:10%:90%"
operations = 1000
[phases.mix]
read = 5
exists = 1
of-author = { op = "page", where = "author", limit = 1 }
"#;
    let outcome = quietly(&request(text, &server, None)).unwrap();
    assert_eq!(*server.prepared.lock().unwrap(), [Prepare::ReadOnly, Prepare::ReadOnly]);
    for trial in &outcome.result.trials {
        let sampled = &trial.sampled["shelf"];
        assert_eq!((sampled.keys, sampled.documents_read, sampled.existing.as_str()), (100, 100, "books"));
        assert!((290..=310).contains(&sampled.mean_bytes), "{sampled:?}");
        let reads = &trial.phases[0];
        assert_eq!(reads.ops.values().map(|op| op.misses + op.errors + op.checked).sum::<u64>(), 0);
        assert!(reads.documents.distinct_keys <= 102);
    }
    assert_eq!(check(&outcome.result, "wrong-content").severity, Severity::Note);
    let mut removing = request(text, &server, None);
    removing.remove_after = true;
    assert!(quietly(&removing).unwrap_err().to_string().contains("--remove-after"));
    let nowhere = Server::with(Manners::default());
    let error = quietly(&request(text, &nowhere, None)).unwrap_err();
    assert!(error.exit_code() == 2 && error.to_string().contains("there is nothing at"), "{error}");
    let none = text.replace("where = \"author\"", "where = \"publisher\"");
    let error = quietly(&request(&none, &server, None)).unwrap_err();
    assert!(error.to_string().contains("`publisher`") && error.exit_code() == 2, "{error}");
}
