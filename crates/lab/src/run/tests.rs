//! Tests of the runner with stores that need no server.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use storebench_engine::Unsupported;
use storebench_engine::store::{
    AnyStore, Capabilities, CollectionLayout, CopyId, Description, Layout, MemoryStore, Namespace, NullStore, Prepare,
    Session, SessionOptions, Store, StoreError,
};
use storebench_engine::{Event, Stop};
use storebench_results::schema;
use storebench_results::validity::Severity;
use storebench_results::{RunResult, read_run};
use storebench_study::workload::{Body, Study};

use super::*;

const STUDY: &str = r#"
title = "Books"
seed = 7
[collections.books]
count = 2000
size = "1KiB"
compress_to = 0.4
fields = { text = { sentences = [1, 4] } }
[[phases]]
name = "load"
load = ["books"]
batch = 100
[[phases]]
name = "warm"
mix = { read = 1 }
operations = 1000
warm_up = true
[[phases]]
name = "mixed"
mix = { read = 1, update = 1 }
operations = 4000
check = 1.0
[[phases]]
name = "steady"
mix = { read = 1 }
rate = 1000
duration = "300ms"
"#;

pub(super) fn request(text: &str, stores: Vec<(&str, Arc<dyn AnyStore>)>, runs_dir: Option<&Path>) -> RunRequest {
    let study = Study::parse(text, Path::new("books.toml"), &[]).unwrap();
    let documents = compile_documents(&study, 1.0, Path::new(".")).unwrap();
    RunRequest {
        name: "books".into(),
        configurations: ConfigurationRequest::of_stores(
            &study,
            &documents,
            1.0,
            stores.into_iter().map(|(name, store)| (name.to_owned(), store)),
        ),
        study,
        prices: None,
        part: None,
        resume: None,
        study_text: text.into(),
        study_file: Some("books.toml".into()),
        overrides: Vec::new(),
        runs_dir: runs_dir.map(Path::to_owned),
        unsupported: Unsupported::Refuse,
        prepare: PrepareMode::Fresh,
        remove_after: false,
        anyway: false,
        transfers: None,
        interval: Duration::from_millis(100),
        commit: None,
    }
}

pub(super) fn quietly(request: &RunRequest) -> Result<RunOutcome, LabError> {
    run(request, Arc::new(Stop::new()), &mut |_: &Event<'_>| {})
}

/// The exit code, as on a machine that is not too busy for the test.
fn calm_exit_code(outcome: &RunOutcome) -> u8 {
    let mut result = outcome.result.clone();
    result.checks.retain(|v| !matches!(v.check.as_str(), "send-delay" | "client-saturated"));
    storebench_results::validity::exit_code(&result)
}

pub(super) fn memory() -> Arc<dyn AnyStore> {
    Arc::new(MemoryStore::new())
}

/// A memory store with configurable answers. It counts how often it was prepared and removed.
#[derive(Default)]
struct Staged {
    inner: MemoryStore,
    foreign: bool,
    unreachable: bool,
    ours: bool,
    how: Arc<Mutex<Vec<Prepare>>>,
    prepared: Arc<AtomicU32>,
    removed: Arc<AtomicU32>,
}

impl Store for Staged {
    type Session = Box<dyn Session>;

    fn describe(&self) -> Description {
        Store::describe(&self.inner)
    }
    fn capabilities(&self) -> Capabilities {
        Store::capabilities(&self.inner)
    }
    fn inspect(&self) -> Result<Namespace, StoreError> {
        match (self.foreign, self.ours) {
            (true, _) => Ok(Namespace::Foreign("3 tables".into())),
            (_, true) => Ok(Namespace::Ours),
            _ => Store::inspect(&self.inner),
        }
    }
    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        self.prepared.fetch_add(1, Ordering::Relaxed);
        self.how.lock().unwrap().push(how);
        if self.unreachable {
            return Err(StoreError::Unreachable("nobody answers on port 1".into()));
        }
        Store::prepare(&self.inner, layout, how)
    }
    async fn open(&self, options: &SessionOptions) -> Result<Box<dyn Session>, StoreError> {
        Ok(Box::new(Store::open(&self.inner, options).await?))
    }
    fn remove(&self) -> Result<(), StoreError> {
        self.removed.fetch_add(1, Ordering::Relaxed);
        Store::remove(&self.inner)
    }
}

#[test]
fn a_run_is_measured_judged_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = quietly(&request(STUDY, vec![("memory", memory())], Some(dir.path()))).unwrap();
    let result = &outcome.result;
    assert_eq!(calm_exit_code(&outcome), 0, "{:#?}", result.checks);
    let [load, warm, mixed, steady] = &result.trials[0].phases[..] else { panic!("four phases") };
    assert!(load.loads && warm.warm_up);
    assert_eq!((load.ops["books"].count, load.ops["books"].documents), (20, 2_000));
    assert!((1_980..=2_020).contains(&load.documents.distinct_keys), "an estimate within 1 %");
    assert_eq!(mixed.ops["read"].count + mixed.ops["update"].count, 4_000);
    assert!(mixed.ops["read"].checked > 0 && mixed.ops["read"].wrong == 0);
    assert!(mixed.ops["read"].response_ns.is_none() && mixed.rate.is_none());
    assert!(mixed.ops["read"].service_ns.p99.is_some());
    assert_eq!(steady.rate.as_ref().unwrap().scheduled, 300);
    assert!(steady.ops["read"].response_ns.unwrap().count > 0);
    assert_eq!(mixed.client.cpu_source, "calibrated-on-null");
    assert!(mixed.client.cpu_us_per_op.unwrap() > 0.0);
    assert!((0.3..0.5).contains(&mixed.documents.compress_page.unwrap()));
    let shares = result.checks.iter().find(|v| v.check == "client-shares-host").unwrap();
    assert_eq!(shares.severity, Severity::Note);

    let folder = outcome.folder.unwrap();
    let kept = read_run(&folder).unwrap();
    assert_eq!((&kept.checks, &kept.plan.trials), (&result.checks, &result.plan.trials));
    assert_eq!(kept.trials[0].phases[2].ops["read"].service_ns.p99, mixed.ops["read"].service_ns.p99);
    let events = std::fs::read_to_string(folder.join("events.jsonl")).unwrap();
    let kinds: Vec<String> = events
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["event"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds.iter().filter(|k| *k == "phase-ended").count(), 4);
    assert_eq!((kinds.first().unwrap().as_str(), kinds.last().unwrap().as_str()), ("run-began", "run-ended"));
}

#[test]
fn what_is_printed_fits_the_schema_and_holds_the_guaranteed_fields() {
    let outcome = quietly(&request(STUDY, vec![("memory", memory())], None)).unwrap();
    assert!(outcome.folder.is_none());
    let value = serde_json::to_value(&outcome.result).unwrap();
    assert_eq!(storebench_schema::faults(&schema(), &value), Vec::<String>::new());
    for pointer in [
        "/format",
        "/run",
        "/trials/0/store",
        "/trials/0/values",
        "/trials/0/phases/0/name",
        "/trials/0/phases/3/ops/read/count",
        "/trials/0/phases/3/ops/read/errors",
        "/trials/0/phases/3/ops/read/unfinished",
        "/trials/0/phases/3/ops/read/throughput_per_s",
        "/trials/0/phases/3/ops/read/response_ns/p50",
        "/trials/0/phases/3/ops/read/response_ns/p90",
        "/trials/0/phases/3/ops/read/response_ns/p95",
        "/trials/0/phases/3/ops/read/response_ns/p99",
        "/trials/0/phases/3/ops/read/response_ns/p99_9",
        "/trials/0/phases/3/ops/read/response_ns/p99_99",
        "/trials/0/phases/3/ops/read/response_ns/max",
        "/trials/0/phases/3/ops/read/service_ns/p99",
        "/trials/0/phases/3/client/cpu_us_per_op",
        "/trials/0/phases/3/client/rss_max_bytes",
        "/trials/0/phases/3/client/send_delay_ns/p50",
        "/trials/0/phases/3/client/send_delay_ns/p99",
        "/trials/0/phases/3/client/send_delay_ns/max",
        "/trials/0/phases/3/documents/count",
        "/trials/0/phases/3/documents/bytes",
        "/trials/0/phases/3/documents/distinct_keys",
        "/trials/0/phases/3/documents/compress_page",
        "/trials/0/phases/3/documents/compress_doc",
        "/checks/0/check",
        "/checks/0/severity",
        "/checks/0/observed",
        "/checks/0/threshold",
        "/checks/0/advice",
    ] {
        assert!(value.pointer(pointer).is_some_and(|v| !v.is_null()), "{pointer}");
    }
    assert!(value.pointer("/trials/0/phases/2/ops/read/response_ns").unwrap().is_null());
}

#[test]
fn every_round_measures_every_store() {
    let text = STUDY.replace("seed = 7", "seed = 7\nrepeats = 3");
    let request = request(&text, vec![("memory", memory()), ("null", Arc::new(NullStore::new()))], None);
    let outcome = quietly(&request).unwrap();
    let trials = &outcome.result.trials;
    assert_eq!(trials.len(), 6);
    for round in trials.chunks(2) {
        assert_ne!(round[0].store, round[1].store);
        assert!(round.iter().all(|t| t.phases.len() == 4 && t.failure.is_none()), "{round:#?}");
    }
    let saturated = outcome.result.checks.iter().filter(|v| v.check == "client-saturated");
    let null: Vec<_> = saturated.filter(|v| v.store.as_deref() == Some("null")).collect();
    assert!(!null.is_empty() && outcome.exit_code() != 1, "{null:#?}");
}

#[test]
fn somebody_elses_data_stop_a_run_before_any_store_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    let (first, theirs) = (Staged::default(), Staged { foreign: true, ..Staged::default() });
    let counters = [Arc::clone(&first.prepared), Arc::clone(&theirs.prepared)];
    let mut request = request(STUDY, vec![("first", Arc::new(first)), ("theirs", Arc::new(theirs))], Some(&runs));
    let error = quietly(&request).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    let text = error.to_string();
    for part in ["theirs", "3 tables", "nothing was touched", "--into-existing"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(counters.iter().all(|c| c.load(Ordering::Relaxed) == 0));
    assert!(!runs.exists());

    request.prepare = PrepareMode::IntoExisting;
    assert_eq!(calm_exit_code(&quietly(&request).unwrap()), 0);
    assert!(counters.iter().all(|c| c.load(Ordering::Relaxed) == 1));
}

#[test]
fn what_a_copy_writes_between_two_trials_is_not_discarded() {
    let store = Staged::default();
    let how = Arc::clone(&store.how);
    let books = CollectionLayout {
        name: "books".into(),
        body: Body::Json,
        indexes: vec![],
        existing: None,
        uses: storebench_engine::store::Uses::ALL,
    };
    Store::prepare(&store.inner, &Layout { collections: vec![books] }, Prepare::Copy(CopyId(7))).unwrap();
    let text = format!("repeats = 2\n{STUDY}");
    let mut request = request(&text, vec![("memory", Arc::new(store))], None);
    request.prepare = PrepareMode::Discard;
    assert_eq!(quietly(&request).unwrap().result.trials.len(), 2);
    assert_eq!(how.lock().unwrap().as_slice(), [Prepare::Discard, Prepare::Fresh]);
}

#[test]
fn what_a_copy_wrote_is_discarded_only_where_the_user_says_so() {
    let copied = || {
        let store = Staged::default();
        let books = CollectionLayout {
            name: "books".into(),
            body: Body::Json,
            indexes: vec![],
            existing: None,
            uses: storebench_engine::store::Uses::ALL,
        };
        let layout = Layout { collections: vec![books] };
        Store::prepare(&store.inner, &layout, Prepare::Copy(CopyId(7))).unwrap();
        store
    };
    let reads = without_load("{ read = 1 }");
    for (text, mode, expected) in [
        (STUDY, PrepareMode::Fresh, None),
        (STUDY, PrepareMode::Keep, None),
        (STUDY, PrepareMode::Discard, Some(Prepare::Discard)),
        // Its collection has the same name as the copy's.
        (STUDY, PrepareMode::IntoExisting, None),
        (&reads, PrepareMode::Discard, None),
    ] {
        let store = copied();
        let (how, inner) = (Arc::clone(&store.how), store.inner.clone());
        let mut request = request(text, vec![("memory", Arc::new(store))], None);
        (request.prepare, request.remove_after) = (mode, true);
        let told = quietly(&request).map(|outcome| outcome.result.trials[0].failure.is_none());
        let left = Store::inspect(&inner).unwrap();
        match expected {
            Some(expected) => {
                assert!(told.unwrap(), "{mode:?}");
                assert_eq!((how.lock().unwrap().as_slice(), left), (&[expected][..], Namespace::Absent));
            }
            None => {
                assert!(!told.as_ref().is_ok_and(|fine| *fine), "{mode:?}");
                assert!(matches!(left, Namespace::Copied(_)), "{mode:?} {left:?}");
                if let Err(error) = told {
                    assert_eq!(error.exit_code(), 2);
                    // Beside it, another name helps, too.
                    let remedy = if mode == PrepareMode::IntoExisting { "Rename" } else { "--discard-existing" };
                    assert!(error.to_string().contains(remedy), "{error}");
                }
            }
        }
    }
}

#[test]
fn what_a_store_cannot_do_stops_a_run_before_it_begins() {
    let text = STUDY.replace("mix = { read = 1 }\nrate", "mix = { seen = { op = \"view\", view = \"a/b\" } }\nrate");
    let store = Staged::default();
    let prepared = Arc::clone(&store.prepared);
    let error = quietly(&request(&text, vec![("memory", Arc::new(store))], None)).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("steady") && error.to_string().contains("view"), "{error}");
    assert_eq!(prepared.load(Ordering::Relaxed), 0);
    assert_eq!(quietly(&request(STUDY, vec![], None)).unwrap_err().exit_code(), 2);
}

#[test]
fn a_store_that_goes_away_leaves_what_the_others_measured() {
    let dir = tempfile::tempdir().unwrap();
    let away = Staged { unreachable: true, ..Staged::default() };
    let outcome =
        quietly(&request(STUDY, vec![("away", Arc::new(away)), ("memory", memory())], Some(dir.path()))).unwrap();
    assert_eq!(outcome.exit_code(), 3);
    let kept: RunResult = read_run(&outcome.folder.unwrap()).unwrap();
    assert_eq!(kept.trials[0].failure.as_ref().unwrap().during, "prepare");
    assert_eq!(kept.trials[1].phases.len(), 4);
    assert!(
        storebench_results::summary::summary(&kept, storebench_results::summary::Layout::plain())
            .contains("nobody answers on port 1")
    );
}

/// A store that cannot be prepared leaves nothing to report: no result, and no folder.
#[test]
fn a_run_that_never_began_leaves_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    let away = || -> Arc<dyn AnyStore> { Arc::new(Staged { unreachable: true, ..Staged::default() }) };
    let error = quietly(&request(STUDY, vec![("away", away())], Some(&runs))).unwrap_err();
    assert_eq!((error.exit_code(), error.to_string().as_str()), (3, "store `away`: nobody answers on port 1"));
    assert!(!runs.exists(), "the folder of runs was made for it");
    std::fs::create_dir(&runs).unwrap();
    let both = vec![("away", away()), ("gone", away())];
    let error = quietly(&request(STUDY, both, Some(&runs))).unwrap_err();
    assert_eq!(error.to_string().lines().count(), 2, "each store is told once: {error}");
    assert_eq!(std::fs::read_dir(&runs).unwrap().count(), 0, "only what the run itself made is removed");
    let stop = Arc::new(Stop::new());
    stop.ask();
    let error =
        run(&request(STUDY, vec![("memory", memory())], Some(&runs)), stop, &mut |_: &Event<'_>| ()).unwrap_err();
    assert!(error.exit_code() == 130 && error.to_string().contains("before anything was measured"), "{error}");
    assert_eq!(std::fs::read_dir(&runs).unwrap().count(), 0);
}

#[test]
fn an_interrupted_run_keeps_what_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let text = STUDY.replace("operations = 4000", "duration = \"1h\"");
    let stop = Arc::new(Stop::new());
    let asked = Arc::clone(&stop);
    let mut observer = |event: &Event<'_>| {
        if let Event::Interval { phase: "mixed", .. } = event {
            asked.ask();
        }
    };
    let outcome = run(&request(&text, vec![("memory", memory())], Some(dir.path())), stop, &mut observer).unwrap();
    assert_eq!(outcome.exit_code(), 130);
    let kept = read_run(&outcome.folder.unwrap()).unwrap();
    assert!(kept.run.interrupted);
    let phases = &kept.trials[0].phases;
    assert_eq!(phases.len(), 3);
    assert!(phases[2].partial.is_some() && phases[2].ops["read"].count > 0);
    assert!(phases[1].partial.is_none());
}

#[test]
fn a_phase_whose_fault_could_not_be_done_says_in_the_result_that_it_is_partial() {
    let faults = "faults = [{ at = \"50ms\", do = \"run\", command = \"exit 3\" }]";
    let text = STUDY.replace("duration = \"300ms\"", &format!("duration = \"300ms\"\n{faults}"));
    let outcome = quietly(&request(&text, vec![("memory", memory())], None)).unwrap();
    let trial = &outcome.result.trials[0];
    let steady = trial.phases.last().unwrap();
    let problem = steady.faults[0].problem.as_ref().unwrap();
    assert_eq!(steady.partial.as_ref(), Some(problem), "the phase gives the reason");
    assert_eq!(&trial.failure.as_ref().unwrap().message, problem);
    assert!(trial.phases[..3].iter().all(|phase| phase.partial.is_none()));
}

#[test]
fn data_are_removed_only_when_asked_and_after_the_last_trial() {
    for (remove_after, expected) in [(false, 0), (true, 1)] {
        let store = Staged::default();
        let removed = Arc::clone(&store.removed);
        let text = STUDY.replace("seed = 7", "seed = 7\nrepeats = 2");
        let mut request = request(&text, vec![("memory", Arc::new(store))], None);
        request.remove_after = remove_after;
        quietly(&request).unwrap();
        assert_eq!(removed.load(Ordering::Relaxed), expected);
    }
}

#[test]
fn an_interrupted_run_removes_too_when_asked() {
    let (store, other) = (Staged::default(), Staged::default());
    let (removed, untouched) = (Arc::clone(&store.removed), Arc::clone(&other.removed));
    let text = STUDY.replace("seed = 7", "seed = 7\nrepeats = 2").replace("operations = 4000", "duration = \"1h\"");
    let mut request = request(&text, vec![("one", Arc::new(store)), ("two", Arc::new(other))], None);
    request.remove_after = true;
    let stop = Arc::new(Stop::new());
    let asked = Arc::clone(&stop);
    let mut observer = |event: &Event<'_>| {
        if let Event::Interval { phase: "mixed", .. } = event {
            asked.ask();
        }
    };
    let outcome = run(&request, stop, &mut observer).unwrap();
    assert!(outcome.result.run.interrupted);
    assert_eq!((removed.load(Ordering::Relaxed), untouched.load(Ordering::Relaxed)), (1, 0));
}

/// The study without its load, and with this mix.
fn without_load(mix: &str) -> String {
    STUDY.replace("[[phases]]\nname = \"load\"\nload = [\"books\"]\nbatch = 100\n", "").replace("{ read = 1 }", mix)
}

#[test]
fn documents_that_are_to_be_measured_are_not_removed() {
    let reads = without_load("{ read = 1 }");
    let writes = without_load("{ update = 1 }").replace("{ read = 1, update = 1 }", "{ update = 1 }");
    for (text, mode, foreign) in [
        (&reads, PrepareMode::Fresh, false),
        (&writes, PrepareMode::Fresh, false),
        (&reads, PrepareMode::IntoExisting, false),
        (&writes, PrepareMode::KeepIntoExisting, false),
        (&STUDY.to_owned(), PrepareMode::KeepIntoExisting, false),
        (&reads, PrepareMode::KeepIntoExisting, true),
        (&STUDY.to_owned(), PrepareMode::KeepIntoExisting, true),
    ] {
        let store = Staged { foreign, ours: true, ..Staged::default() };
        let (how, removed) = (Arc::clone(&store.how), Arc::clone(&store.removed));
        let mut request = request(text, vec![("memory", Arc::new(store))], None);
        request.prepare = mode;
        quietly(&request).unwrap();
        let expected = if foreign { Prepare::IntoExisting } else { Prepare::Keep };
        assert_eq!(*how.lock().unwrap(), [expected], "{mode:?} {text}");
        assert_eq!(removed.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn reads_of_nothing_are_refused() {
    for (mix, mode, fine) in [
        ("{ read = 1 }", PrepareMode::Keep, false),
        ("{ read = 1, insert = 1 }", PrepareMode::Keep, false),
        ("{ read = 1, insert = 1 }", PrepareMode::Fresh, true),
    ] {
        let text = without_load(mix);
        let mut request = request(&text, vec![("memory", Arc::new(Staged::default()))], None);
        request.prepare = mode;
        match quietly(&request) {
            Ok(_) => assert!(fine, "{mix} {mode:?}"),
            Err(error) => assert!(!fine && error.to_string().contains("holds no documents"), "{error}"),
        }
    }
    let theirs = Staged { foreign: true, ..Staged::default() };
    let mut request = request(&without_load("{ read = 1 }"), vec![("theirs", Arc::new(theirs))], None);
    request.prepare = PrepareMode::Keep;
    let text = quietly(&request).unwrap_err().to_string();
    assert!(text.contains("--into-existing as well") && text.contains("keeps both"), "{text}");
}

#[test]
fn titles_hold_no_secrets() {
    let text = STUDY.replace("\"Books\"", "\"Books on couch://me:hush@host/db\"\nquestion = \"couch://me:hush@host?\"");
    let outcome = quietly(&request(&text, vec![("memory", memory())], None)).unwrap();
    assert!(!serde_json::to_string(&outcome.result).unwrap().contains("hush"));
}

#[test]
fn a_folder_that_fails_on_the_way_costs_the_folder_not_the_measurement() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    let gone = runs.clone();
    let mut notes = Vec::new();
    let mut observer = |event: &Event<'_>| match event {
        Event::PhaseBegan { phase: "mixed", .. } => std::fs::remove_dir_all(&gone).unwrap(),
        Event::Note { text } => notes.push(text.clone()),
        _ => {}
    };
    let request = request(STUDY, vec![("memory", memory())], Some(&runs));
    let outcome = run(&request, Arc::new(Stop::new()), &mut observer).unwrap();
    assert_eq!(outcome.result.trials[0].phases.len(), 4);
    assert_eq!(outcome.exit_code(), 1);
    assert!(outcome.folder_error.is_some());
    assert!(notes.iter().any(|n| n.contains("are not being saved")), "{notes:?}");
}

#[test]
fn a_scale_that_makes_no_sense_is_refused() {
    let study = Study::parse(STUDY, Path::new("books.toml"), &[]).unwrap();
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(compile_documents(&study, scale, Path::new(".")).unwrap_err().exit_code(), 2);
    }
}
