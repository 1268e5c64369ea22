//! Consistency checks of runs on stores with known faults.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use storebench_engine::store::{
    Capabilities, Completions, Description, Layout, MemorySession, MemoryStore, Namespace, Op, OpError, Prepare, Reply,
    Request, Session, SessionOptions, Store, StoreError, Token,
};
use storebench_results::validity::{Severity, exit_code};
use storebench_results::{HistoryResult, RunResult, read_history};

use super::tests::{quietly, request};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// A read returns the version before the current one.
    StaleRead,
    /// A write is acknowledged and not done.
    LostUpdate,
    /// A delete is acknowledged and not done.
    Resurrection,
}

/// A memory store that does one of `EVERY` operations wrong.
struct Faulty {
    inner: MemoryStore,
    fault: Fault,
    state: Arc<State>,
}

const EVERY: u64 = 10;

#[derive(Default)]
struct State {
    nth: AtomicU64,
    /// How many operations were done wrong.
    wrong: AtomicU64,
    before: Mutex<HashMap<String, Vec<u8>>>,
}

impl State {
    fn is_wrong(&self) -> bool {
        let wrong = (self.nth.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(EVERY);
        self.wrong.fetch_add(u64::from(wrong), Ordering::Relaxed);
        wrong
    }
}

struct FaultySession {
    inner: MemorySession,
    fault: Fault,
    state: Arc<State>,
}

impl Session for FaultySession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let state = Arc::clone(&self.state);
        match (self.fault, &request.op) {
            (Fault::StaleRead, Op::Upsert { key, .. }) => {
                let mut found = None;
                let read = Request { op: Op::Read { key }, contents: true, ..*request };
                self.inner.submit(&read, token, &mut |_: Token, result: Result<Reply<'_>, OpError>| {
                    found = result.ok().and_then(|reply| reply.body.map(<[u8]>::to_vec));
                });
                self.inner.submit(request, token, out);
                state.before.lock().unwrap().extend(found.map(|body| ((*key).to_owned(), body)));
            }
            (Fault::StaleRead, Op::Read { key }) => {
                let older = state.before.lock().unwrap().get(*key).cloned();
                match older.filter(|_| state.is_wrong()) {
                    Some(older) => {
                        let reply = Reply { documents: 1, body: Some(&older), ..Reply::default() };
                        out.complete(token, Ok(reply));
                    }
                    None => self.inner.submit(request, token, out),
                }
            }
            (Fault::LostUpdate, Op::Upsert { .. }) | (Fault::Resurrection, Op::Delete { .. }) if state.is_wrong() => {
                out.complete(token, Ok(Reply::written(1)));
            }
            _ => self.inner.submit(request, token, out),
        }
    }
}

impl Store for Faulty {
    type Session = FaultySession;

    fn describe(&self) -> Description {
        Store::describe(&self.inner)
    }
    fn capabilities(&self) -> Capabilities {
        Store::capabilities(&self.inner)
    }
    fn inspect(&self) -> Result<Namespace, StoreError> {
        Store::inspect(&self.inner)
    }
    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        Store::prepare(&self.inner, layout, how)
    }
    async fn open(&self, options: &SessionOptions) -> Result<FaultySession, StoreError> {
        let inner = Store::open(&self.inner, options).await?;
        Ok(FaultySession { inner, fault: self.fault, state: Arc::clone(&self.state) })
    }
    fn remove(&self) -> Result<(), StoreError> {
        Store::remove(&self.inner)
    }
}

fn study(mix: &str, followed: &str) -> String {
    format!(
        r#"
title = "Who sees what"
[collections.docs]
count = 20
size = "200B"
[[phases]]
name = "load"
load = ["docs"]
[[phases]]
name = "warm"
mix = {{ read = 1, upsert = 1 }}
operations = 500
warm_up = true
[[phases]]
name = "mixed"
mix = {mix}
workers = 3
operations = 12_000
consistency_check = {followed}
"#
    )
}

/// The result of the phase, how many operations the store did wrong, and the run.
fn ran(fault: Fault, mix: &str, followed: &str) -> (HistoryResult, u64, RunResult) {
    let dir = tempfile::tempdir().unwrap();
    let state: Arc<State> = Arc::default();
    let store = Faulty { inner: MemoryStore::new(), fault, state: Arc::clone(&state) };
    let outcome =
        quietly(&request(&study(mix, followed), vec![("memory", Arc::new(store))], Some(dir.path()))).unwrap();
    let history = outcome.result.trials[0].phases[2].history.clone().expect("it was asked for");
    // What is kept says the same.
    let file = outcome.folder.unwrap().join(history.file.as_ref().unwrap());
    let kept = read_history(&file).unwrap();
    assert!(kept.operations() >= history.operations, "and those of an earlier time");
    let again = kept.report(storebench_consistency::BUDGET, 1);
    assert_eq!((again.linearizable, again.broken.len() as u64), (history.linearizable, history.broken));
    assert_eq!(again.staleness, history.staleness);
    (history, state.wrong.load(Ordering::Relaxed), outcome.result)
}

fn severity(result: &RunResult) -> Severity {
    let check = result.checks.iter().find(|check| check.check == "broken-consistency").unwrap();
    check.severity
}

const ALL: &str = "{ read = 5, upsert = 4, cas = 2, replace = 1, delete = 1 }";

#[test]
fn a_store_without_faults_is_explained() {
    for followed in ["true", "{ share = 0.5 }", "{ keys = 3 }"] {
        let (history, _, result) = ran(Fault::None, ALL, followed);
        assert_eq!((history.broken, history.undecided), (0, 0), "{:?}", history.examples);
        assert_eq!(history.linearizable, history.keys);
        let keys = match followed {
            "true" => 20..=20,
            "{ keys = 3 }" => 3..=3,
            _ => 3..=17,
        };
        assert!(keys.contains(&history.keys), "{followed}: {}", history.keys);
        assert_eq!((severity(&result), exit_code(&result)), (Severity::Pass, 0), "{followed}");
        // A compare-and-swap is two operations.
        let share = history.operations as f64 / 12_000.0;
        assert!(followed != "true" || (0.9..1.2).contains(&share), "{share}");
        assert_eq!(history.staleness.stale, 0);
    }
}

#[test]
fn each_fault_is_found() {
    for (fault, mix) in [
        (Fault::StaleRead, "{ read = 6, upsert = 4 }"),
        (Fault::LostUpdate, "{ read = 6, upsert = 4 }"),
        (Fault::LostUpdate, "{ read = 4, upsert = 2, cas = 4 }"),
        (Fault::Resurrection, "{ read = 6, upsert = 4, delete = 2 }"),
    ] {
        let (history, wrong, result) = ran(fault, mix, "true");
        assert!(wrong > 20, "{fault:?}: {wrong}");
        // With so many wrong operations, most documents have one that was seen.
        assert!(history.broken >= 10, "{fault:?}: {history:?}");
        assert_eq!((severity(&result), exit_code(&result)), (Severity::Invalid, 1), "{fault:?}");
        assert_eq!(history.examples.len(), 3);
        for key in &history.examples {
            assert!((1..=8).contains(&key.sequence.len()), "{key}");
        }
        if fault == Fault::StaleRead {
            assert!((1..=wrong).contains(&history.staleness.stale), "{history:?}");
        }
    }
}

/// A search writes versions above those of the phases after it.
#[test]
fn a_phase_after_a_search_is_explained() {
    let text = r#"
title = "After a search"
[collections.docs]
count = 20
[[phases]]
name = "load"
load = ["docs"]
[[phases]]
name = "searched"
mix = { read = 1, upsert = 1 }
duration = "50ms"
[[phases]]
name = "shared"
mix = { read = 1, upsert = 1, cas = 1 }
workers = 3
operations = 3_000
consistency_check = true
[limits]
"searched.response.p99" = "10s"
[search]
phase = "searched"
from = 400
to = 800
hold = 1
rest = "1ms"
"#;
    let result = quietly(&request(text, vec![("memory", Arc::new(MemoryStore::new()))], None)).unwrap().result;
    let history = result.trials[0].phases[2].history.clone().unwrap();
    assert_eq!((history.broken, history.linearizable), (0, 20), "{:?}", history.examples);
    assert!(history.versions_above > storebench_engine::ledger::first_version(9), "{}", history.versions_above);
}
