//! Runs in parts, on stores that need no server.

use std::path::{Path, PathBuf};

use storebench_engine::Event;
use storebench_engine::Unsupported;
use storebench_engine::store::{AnyStore, MemoryStore, Session, SessionOptions, Slow, SlowOptions, Store};
use storebench_results::merge::merge;
use storebench_results::{FailureKind, RunResult, read_run};

use super::*;
use crate::run::{ConfigurationRequest, LabError, PrepareMode, RunOutcome, RunRequest, compile_documents, run};

const STUDY: &str = r#"
title = "Books"
question = "How many?"
seed = 7
[collections.books]
count = 2000
size = 200
[[phases]]
name = "load"
load = ["books"]
batch = 50
workers = 4
[[phases]]
name = "mixed"
mix = { read = 1, update = 1 }
streams = "disjoint"
workers = 4
operations = 4000
check = 1.0
[[phases]]
name = "steady"
mix = { read = 1 }
rate = 2000
workers = 4
duration = "400ms"
drain = "2s"
"#;

fn study(text: &str) -> Study {
    Study::parse(text, Path::new("books.toml"), &[]).unwrap()
}

fn request(text: &str, stores: &[(&str, Arc<dyn AnyStore>)], out: &Path, part: Option<PartRequest>) -> RunRequest {
    let study = study(text);
    let documents = compile_documents(&study, 1.0, Path::new(".")).unwrap();
    let stores = stores.iter().map(|(name, store)| ((*name).to_owned(), Arc::clone(store)));
    RunRequest {
        name: "books".into(),
        configurations: ConfigurationRequest::of_stores(&study, &documents, 1.0, stores),
        study,
        prices: None,
        part,
        resume: None,
        study_text: text.into(),
        study_file: Some("books.toml".into()),
        overrides: Vec::new(),
        runs_dir: Some(out.to_owned()),
        unsupported: Unsupported::Refuse,
        prepare: PrepareMode::Fresh,
        remove_after: false,
        anyway: false,
        transfers: None,
        interval: Duration::from_millis(100),
        commit: None,
    }
}

fn memory() -> Arc<dyn AnyStore> {
    Arc::new(MemoryStore::new())
}

fn quietly(request: &RunRequest) -> Result<RunOutcome, LabError> {
    run(request, Arc::new(Stop::new()), &mut |_: &Event<'_>| {})
}

fn meeting(out: &Path, part: Part) -> PartRequest {
    let folder = SharedFolder::join(&out.join("meeting"), part).unwrap();
    PartRequest { part, agreement: Agreement::Meeting(Arc::new(folder)) }
}

/// Runs all parts at once, each on its own thread, on the same stores.
fn in_parts(text: &str, parts: u32, stores: &[(&str, Arc<dyn AnyStore>)], out: &Path) -> Vec<RunOutcome> {
    std::thread::scope(|scope| {
        let run = |part: Part| scope.spawn(move || quietly(&request(text, stores, out, Some(meeting(out, part)))));
        let running: Vec<_> = Part { number: 1, of: parts }.all().map(run).collect();
        running.into_iter().map(|part| part.join().unwrap().unwrap()).collect()
    })
}

/// A time at which the first part can be ready.
fn soon() -> u64 {
    unix_now_ns() + 4_000_000_000
}

/// The merged run, and its folder.
fn together(out: &Path) -> (RunResult, PathBuf) {
    merge(&[out.to_owned()], &out.join("merged")).unwrap()
}

fn operations(result: &RunResult, phase: &str) -> u64 {
    let of = result.phases().filter(|of| of.name == phase);
    of.flat_map(|of| of.ops.values()).map(|op| op.count).sum()
}

#[test]
fn parts_that_meet_are_merged_into_one_run() {
    let dir = tempfile::tempdir().unwrap();
    let outcomes = in_parts(STUDY, 4, &[("memory", memory())], dir.path());
    for outcome in &outcomes {
        assert_eq!(outcome.result.trials[0].failure, None);
        assert!(outcome.folder.as_ref().unwrap().join("part.jsonl.gz").exists());
    }
    let (all, folder) = together(dir.path());
    assert_eq!(read_run(&folder).unwrap(), all, "it is an ordinary run folder");
    assert_eq!(all.trials[0].failure, None);
    assert_eq!((operations(&all, "load"), operations(&all, "mixed"), operations(&all, "steady")), (40, 4_000, 800));
    let parts = all.run.parts.as_ref().unwrap();
    assert_eq!((parts.of, parts.merged.len(), parts.missing.len()), (4, 4, 0));
    let load = &all.trials[0].phases[0];
    assert_eq!((load.documents.count, load.workers, load.generators.len()), (2_000, 4, 4));
    let steady = &all.trials[0].phases[2];
    assert_eq!(steady.rate.as_ref().unwrap().scheduled, 800);
    assert_eq!(steady.rate.as_ref().unwrap().planned, serde_json::json!(2000.0));
    assert_eq!(steady.all.response_ns.unwrap().count, 800);
    for of in &steady.generators {
        assert_eq!((of.workers, of.operations, of.client.worker_use.len()), (1, 200, 1));
        assert!(of.late_ns.is_some_and(|ns| ns < 100_000_000), "{:?}", of.late_ns);
    }
    let names: Vec<&str> = all.checks.iter().map(|check| check.check.as_str()).collect();
    assert!(names.contains(&"parts-incomplete") && names.contains(&"parts-apart"), "{names:?}");
    for file in ["study.toml", "intervals.jsonl.gz", "001-memory-steady.hlog"] {
        assert!(folder.join(file).exists(), "{file}");
    }
}

#[test]
fn the_same_work_is_done_in_one_part_and_in_two() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let alone = quietly(&request(STUDY, &[("memory", memory())], one.path(), None)).unwrap().result;
    in_parts(STUDY, 2, &[("memory", memory())], two.path());
    let (all, _) = together(two.path());
    for (mine, theirs) in all.trials[0].phases.iter().zip(&alone.trials[0].phases) {
        let work = |phase: &storebench_results::PhaseResult| {
            let ops = phase.ops.values().map(|op| (op.succeeded, op.misses, op.documents, op.written_bytes, op.wrong));
            (ops.collect::<Vec<_>>(), phase.documents.distinct_keys, phase.workers)
        };
        assert_eq!(work(mine), work(theirs), "{}", mine.name);
    }
}

#[test]
fn every_trial_of_every_store_is_run_by_all_parts() {
    let dir = tempfile::tempdir().unwrap();
    let text = STUDY.replace("seed = 7", "seed = 7\nrepeats = 2");
    in_parts(&text, 2, &[("a", memory()), ("b", memory())], dir.path());
    let (all, _) = together(dir.path());
    assert_eq!((all.trials.len(), all.configurations.len()), (4, 2));
    assert!(all.trials.iter().all(|trial| trial.failure.is_none() && trial.phases.len() == 3));
    assert!(all.configurations.iter().all(|of| of.trials == 2));
}

#[test]
fn a_database_is_kept_if_all_parts_found_everything() {
    let dir = tempfile::tempdir().unwrap();
    let text = STUDY.replace("seed = 7", "seed = 7\nrepeats = 2\ndatabase = \"kept\"");
    let outcomes = in_parts(&text, 2, &[("a", memory())], dir.path());
    for outcome in outcomes {
        let kept: Vec<bool> = outcome.result.trials.iter().map(|trial| trial.database_kept).collect();
        assert_eq!(kept, [false, true]);
    }
    assert_eq!(together(dir.path()).0.trials[1].phases.len(), 2, "the load is skipped");
}

/// All parts decide by the figures of all, so they try the same rates.
#[test]
fn a_search_tries_the_same_rates_in_every_part() {
    let dir = tempfile::tempdir().unwrap();
    let text = STUDY.replace("rate = 2000\n", "").replace("duration = \"400ms\"", "duration = \"200ms\"")
        + r#"
[limits]
"steady.response.p90" = "3ms"
[search]
phase = "steady"
from = 500
to = 16000
most_probes = 8
rest = "0s"
"#;
    let slow = SlowOptions { latency: Duration::from_micros(300), ..SlowOptions::default() };
    let store: Arc<dyn AnyStore> = Arc::new(Slow::new(MemoryStore::new(), slow));
    let outcomes = in_parts(&text, 2, &[("slow", store)], dir.path());
    let searches: Vec<_> = outcomes.iter().map(|outcome| outcome.result.trials[0].searches.clone()).collect();
    assert_eq!(searches[0], searches[1]);
    assert!(searches[0][0].probes.len() > 1);
    // A probe was judged over the operations of both.
    let first = &searches[0][0].probes[0];
    assert_eq!(first.limits[0].attempts, 100, "{first:?}");
    let (all, folder) = together(dir.path());
    assert_eq!((&all.trials[0].searches, &all.trials[0].failure), (&searches[0], &None));
    let shown = all.trials[0].phases.last().unwrap();
    let rate = searches[0][0].rate.unwrap_or(500.0);
    assert_eq!(shown.rate.as_ref().unwrap().scheduled, (rate / 5.0).ceil() as u64);
    let probes = std::fs::read_dir(folder)
        .unwrap()
        .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().contains("probe-"));
    assert_eq!(probes.count(), searches[0][0].probes.len(), "each probe has its log");
}

/// Fails to open sessions from the nth on.
struct Failing(MemoryStore, std::sync::atomic::AtomicU32);

impl Store for Failing {
    type Session = Box<dyn Session>;

    fn describe(&self) -> storebench_engine::store::Description {
        Store::describe(&self.0)
    }
    fn capabilities(&self) -> storebench_engine::store::Capabilities {
        Store::capabilities(&self.0)
    }
    fn inspect(&self) -> Result<storebench_engine::store::Namespace, StoreError> {
        Store::inspect(&self.0)
    }
    fn prepare(
        &self,
        layout: &storebench_engine::store::Layout,
        how: storebench_engine::store::Prepare,
    ) -> Result<(), StoreError> {
        Store::prepare(&self.0, layout, how)
    }
    async fn open(&self, options: &SessionOptions) -> Result<Box<dyn Session>, StoreError> {
        if self.1.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) == 1 {
            return Err(StoreError::Unreachable("nobody answers".into()));
        }
        Ok(Box::new(Store::open(&self.0, options).await?))
    }
    fn remove(&self) -> Result<(), StoreError> {
        Store::remove(&self.0)
    }
}

#[test]
fn a_trial_that_fails_in_one_part_fails_in_all_and_the_next_one_runs() {
    let dir = tempfile::tempdir().unwrap();
    let text = STUDY.replace("seed = 7", "seed = 7\nrepeats = 2");
    // Two parts open four sessions for the load. Then one of both fails to open one for `mixed`.
    let store: Arc<dyn AnyStore> = Arc::new(Failing(MemoryStore::new(), 6.into()));
    let outcomes = in_parts(&text, 2, &[("a", store)], dir.path());
    let kinds: Vec<FailureKind> =
        outcomes.iter().map(|of| of.result.trials[0].failure.as_ref().unwrap().kind).collect();
    assert!(kinds.contains(&FailureKind::Unreachable) && kinds.contains(&FailureKind::OtherPart), "{kinds:?}");
    assert!(outcomes.iter().all(|of| of.result.trials[1].failure.is_none()));
    let (all, _) = together(dir.path());
    let failure = all.trials[0].failure.as_ref().unwrap();
    assert_eq!((failure.kind, failure.during.as_str()), (FailureKind::Unreachable, "mixed"));
    assert!(failure.message.starts_with("part ") && failure.message.contains("nobody answers"), "{failure:?}");
    assert_eq!((all.trials[1].failure.as_ref(), all.configurations[0].trials), (None, 1));
}

#[test]
fn a_part_that_ends_ends_the_run_of_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = memory();
    let part = |number| Part { number, of: 2 };
    let first = meeting(dir.path(), part(1));
    drop(meeting(dir.path(), part(2)));
    let request = request(STUDY, &[("memory", store)], dir.path(), Some(first));
    let error = quietly(&request).unwrap_err();
    assert!(error.to_string().contains("part 2 has ended"), "{error}");
}

#[test]
fn parts_of_different_studies_do_not_begin() {
    let dir = tempfile::tempdir().unwrap();
    let store = memory();
    let other = STUDY.replace("seed = 7", "seed = 8");
    let errors: Vec<String> = std::thread::scope(|scope| {
        let run = |(text, number): (&'static str, u32)| {
            let (store, out) = (Arc::clone(&store), dir.path());
            let text = text.to_owned();
            scope.spawn(move || {
                let part = meeting(out, Part { number, of: 2 });
                quietly(&request(&text, &[("memory", store)], out, Some(part))).unwrap_err().to_string()
            })
        };
        let running = [run((STUDY, 1)), run((Box::leak(other.into_boxed_str()), 2))];
        running.into_iter().map(|part| part.join().unwrap()).collect()
    });
    assert!(errors.iter().all(|error| error.contains("runs another study")), "{errors:?}");
    assert!(matches!(store.inspect(), Ok(storebench_engine::store::Namespace::Absent)), "nothing was touched");
}

#[test]
fn one_after_the_other_is_complete_and_called_apart() {
    let dir = tempfile::tempdir().unwrap();
    let store = memory();
    // Only new documents, because the other parts have not loaded theirs yet.
    let text =
        STUDY.replace("read = 1, update = 1", "insert = 1").replace("mix = { read = 1 }", "mix = { insert = 1 }");
    let first = soon();
    for part in (Part { number: 1, of: 4 }).all() {
        let later_unix_ns = IndexMap::from([("mixed".to_owned(), first + 1), ("steady".to_owned(), first + 2)]);
        let times = StartTimes { first_unix_ns: first, later_unix_ns };
        let part = PartRequest { part, agreement: Agreement::Times(times) };
        let outcome = quietly(&request(&text, &[("memory", Arc::clone(&store))], dir.path(), Some(part))).unwrap();
        assert_eq!(outcome.result.trials[0].failure, None);
    }
    let (all, _) = together(dir.path());
    assert_eq!((operations(&all, "load"), operations(&all, "mixed"), operations(&all, "steady")), (40, 4_000, 800));
    assert_eq!(all.trials[0].failure, None);
    let apart =
        all.checks.iter().find(|check| check.check == "parts-apart" && check.phase.as_deref() == Some("steady"));
    assert_eq!(apart.unwrap().severity, storebench_results::validity::Severity::Invalid);
    assert_eq!(storebench_results::validity::exit_code(&all), 4);
}

#[test]
fn a_missing_part_is_named_and_a_damaged_one_too() {
    let dir = tempfile::tempdir().unwrap();
    in_parts(STUDY, 4, &[("memory", memory())], dir.path());
    let part = |number: u32| dir.path().join(format!("part-{number}-of-4"));
    // A part that was killed: its result has no end, and its last row is torn.
    let mut result = read_run(&part(2)).unwrap();
    result.run.ended = None;
    std::fs::write(part(2).join("run.json"), serde_json::to_vec(&result).unwrap()).unwrap();
    let (all, _) = together(dir.path());
    let failure = all.trials[0].failure.as_ref().unwrap();
    assert!(failure.message.contains("part 2 ended early"), "{failure:?}");
    let rows = std::fs::read(part(3).join("part.jsonl.gz")).unwrap();
    std::fs::write(part(3).join("part.jsonl.gz"), &rows[..rows.len() - 40]).unwrap();
    std::fs::remove_file(part(2).join("run.json")).unwrap();
    let (all, _) = together(dir.path());
    let failure = all.trials[0].failure.as_ref().unwrap();
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::OtherPart, "part 2 of 4 is missing"));
    assert_eq!(all.run.parts.as_ref().unwrap().missing, [2]);
    assert_eq!((all.configurations[0].trials, all.configurations[0].failed), (0, 1));
    let steady = all.trials[0].phases.iter().find(|phase| phase.name == "steady").unwrap();
    assert!(steady.partial.as_ref().unwrap().contains("the record of part 3 is missing"), "{:?}", steady.partial);
    assert_eq!(storebench_results::validity::exit_code(&all), 4);
}

#[test]
fn what_is_not_the_parts_of_one_run_is_refused() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    in_parts(STUDY, 2, &[("memory", memory())], dir.path());
    in_parts(&STUDY.replace("seed = 7", "seed = 8"), 2, &[("memory", memory())], other.path());
    let whole = quietly(&request(STUDY, &[("memory", memory())], other.path(), None)).unwrap().folder.unwrap();
    let part = |dir: &tempfile::TempDir, number: u32| dir.path().join(format!("part-{number}-of-2"));
    let empty = tempfile::tempdir().unwrap();
    let out = dir.path().join("merged");
    for (folders, says) in [
        (vec![part(&dir, 1), part(&dir, 1)], "part 1/2 is given twice"),
        (vec![part(&dir, 1), part(&other, 2)], "parts of different runs: the study differs"),
        (vec![whole], "was not divided into parts"),
        (vec![empty.path().to_owned()], "no part of a run is here"),
        (vec![PathBuf::from("/no/such/folder")], "cannot be read"),
    ] {
        let error = merge(&folders, &out).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert!(!out.exists(), "nothing is written");
}

#[test]
fn a_first_part_that_comes_too_late_prepares_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let times = StartTimes { first_unix_ns: 1, ..StartTimes::default() };
    let text = STUDY.split("[[phases]]\nname = \"mixed\"").next().unwrap();
    let part = PartRequest { part: Part { number: 1, of: 2 }, agreement: Agreement::Times(times) };
    let store = memory();
    let outcome = quietly(&request(text, &[("memory", Arc::clone(&store))], dir.path(), Some(part))).unwrap();
    let failure = outcome.result.trials[0].failure.as_ref().unwrap();
    assert!(failure.message.contains("give a later --start-at"), "{failure:?}");
    assert!(matches!(store.inspect(), Ok(storebench_engine::store::Namespace::Absent)), "nothing was touched");
}

#[test]
fn parts_with_different_stores_behind_one_url_do_not_begin() {
    let dir = tempfile::tempdir().unwrap();
    let failures: Vec<String> = std::thread::scope(|scope| {
        let run = |part: Part| {
            let out = dir.path();
            scope.spawn(move || {
                let request = request(STUDY, &[("memory", memory())], out, Some(meeting(out, part)));
                quietly(&request).unwrap().result.trials[0].failure.clone().unwrap().message
            })
        };
        let running: Vec<_> = Part { number: 1, of: 2 }.all().map(run).collect();
        running.into_iter().map(|part| part.join().unwrap()).collect()
    });
    assert!(failures.iter().all(|why| why.contains("part 1 has prepared nothing at memory:")), "{failures:?}");
}

#[test]
fn a_part_whose_clock_differs_is_named() {
    let part = |of: Option<&PartRequest>| Parts::of(of, &study(STUDY), &[], 1, &Arc::new(Stop::new())).unwrap();
    let parts = part(None);
    let second = 1_000_000_000;
    assert!(parts.clocks_agree(&[100 * second, 100 * second + 5], 100 * second, 101 * second).is_ok());
    assert!(parts.clocks_agree(&[99 * second, 102 * second], 100 * second, 101 * second).is_ok(), "within a second");
    let error = parts.clocks_agree(&[100 * second, 104 * second], 100 * second, 101 * second).unwrap_err().to_string();
    assert!(error.contains("the clock of part 2 differs from that of part 1 by 3.0 s"), "{error}");
    assert!(parts.clocks_agree(&[98 * second], 100 * second, 101 * second).is_err());
}

#[test]
fn nothing_is_removed_while_other_parts_may_write() {
    let dir = tempfile::tempdir().unwrap();
    let part = meeting(dir.path(), Part { number: 1, of: 2 });
    let request = RunRequest { remove_after: true, ..request(STUDY, &[("memory", memory())], dir.path(), Some(part)) };
    assert!(quietly(&request).unwrap_err().to_string().contains("--remove-after: one part may end"));
}

#[test]
fn a_single_part_can_be_merged() {
    let dir = tempfile::tempdir().unwrap();
    in_parts(STUDY, 1, &[("memory", memory())], dir.path());
    let (all, _) = together(dir.path());
    assert_eq!((all.trials[0].failure.as_ref(), operations(&all, "mixed")), (None, 4_000));
}

#[test]
fn a_folder_of_parts_is_used_once() {
    let dir = tempfile::tempdir().unwrap();
    let times = || Agreement::Times(StartTimes { first_unix_ns: soon(), ..StartTimes::default() });
    let text = STUDY.split("[[phases]]\nname = \"mixed\"").next().unwrap();
    let part = |number| Some(PartRequest { part: Part { number, of: 2 }, agreement: times() });
    let store = memory();
    quietly(&request(text, &[("memory", Arc::clone(&store))], dir.path(), part(1))).unwrap();
    let error = quietly(&request(text, &[("memory", store)], dir.path(), part(1))).unwrap_err().to_string();
    assert!(error.contains("part-1-of-2: this part has run before"), "{error}");
}

#[test]
fn what_needs_one_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let part = Part { number: 1, of: 2 };
    let timed = |later: &[(&str, u64)]| {
        let later_unix_ns = later.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect();
        Some(PartRequest { part, agreement: Agreement::Times(StartTimes { first_unix_ns: 100, later_unix_ns }) })
    };
    let mixed: &[(&str, u64)] = &[("mixed", 200)];
    let both: &[(&str, u64)] = &[("mixed", 200), ("steady", 300)];
    let repeated = STUDY.replace("seed = 7", "seed = 7\nrepeats = 2");
    let uneven = STUDY.replace("workers = 4\nrate", "workers = 3\nrate");
    let uneven = uneven.replace("rate = 2000\nworkers = 4", "rate = 2000\nworkers = 3");
    for (text, times, says) in [
        (STUDY, &[][..], "phase `mixed` follows `load`, which has no fixed length"),
        (STUDY, mixed, "phase `steady` follows `mixed`"),
        (STUDY, &[("mixed", 200), ("steady", 150)], "`steady` would begin before the phase that it follows"),
        (STUDY, &[("other", 200)], "no such phase; it has load, mixed, steady"),
        (&repeated, both, "2 trials, but with --start-at only one can run"),
        (&uneven, both, "--set phases.steady.workers=4"),
    ] {
        let error = quietly(&request(text, &[("memory", memory())], dir.path(), timed(times))).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "nothing was started");
}

#[test]
fn phases_of_known_length_follow_by_themselves() {
    let text = STUDY.replace("operations = 4000", "duration = \"2s\"\ndrain = \"1s\"");
    let study = study(&text);
    let documents = compile_documents(&study, 1.0, Path::new(".")).unwrap();
    let can = memory().capabilities();
    let plans: Vec<ResolvedPhase> =
        study.phases.iter().map(|p| ResolvedPhase::of(&study, p, &documents.catalog, &can).unwrap()).collect();
    let second = 1_000_000_000;
    let times = StartTimes { first_unix_ns: second, later_unix_ns: IndexMap::from([("mixed".into(), 10 * second)]) };
    // The length of `mixed`, its drain, and the pause between phases.
    assert_eq!(starts(&times, &plans, &study).unwrap(), [second, 10 * second, 18 * second]);
}
