//! Stores that are Python classes. The engine drives them like any other store: schedule, clock and histograms are in
//! Rust, and only the operation itself is Python.
//!
//! The package wraps the user's class in an adapter, which has:
//! - `name`, `durability`, `consistency`, and `operations`: the names of the methods that the class has;
//! - `is_async`: whether operations are coroutines, which then run on one event loop for all sessions;
//! - `open()`: a new object of the class, one for each session; `close(object)`;
//! - `bulk_upsert(object, collection, items)` and so on, for classes without such a method;
//! - `begin(object, coroutine, ended)`: starts a coroutine, calls `ended` with its future, and returns the future;
//! - `close_control()`: closes the object of `control`;
//! - `control(name, *arguments)`: calls a method outside a phase, and waits for a coroutine.

mod lock;
mod session;
mod site;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use pyo3::exceptions::PyConnectionError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use storebench_engine::store::{
    AnyStore, Capabilities, Description, Durability, FutureSession, Holdings, Layout, OpKind, Prepare, ReadConsistency,
    Runtime, SessionOptions, Site as _, Stats, Store, StoreError, Support, at_once, prepare, remove,
};
use storebench_study::workload::Body;

use lock::{LockUse, ThreadState, watch_lock};
use session::{Caller, PythonSession};
use site::{CONTROL, ClassSite};

/// Operations that a class without its own method gets from another one.
const MADE: [(OpKind, &str, &str); 5] = [
    (OpKind::Exists, "read", "a read"),
    (OpKind::BulkUpsert, "upsert", "one upsert per document"),
    (OpKind::BulkInsert, "insert", "one insert per document"),
    (OpKind::BulkRead, "read", "one read per document"),
    (OpKind::BulkDelete, "delete", "one delete per document"),
];

/// The adapters of the classes that were given to a verb, by name.
static CLASSES: LazyLock<Mutex<HashMap<String, Arc<Py<PyAny>>>>> = LazyLock::new(Mutex::default);

/// Lets verbs open a class as `python:NAME`.
#[pyfunction]
pub(crate) fn provide(name: String, adapter: Py<PyAny>) {
    CLASSES.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::new(adapter));
    storebench_stores::provide("python", Arc::new(open));
}

fn open(name: &str) -> Result<Arc<dyn AnyStore>, StoreError> {
    let adapter = CLASSES.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
    let adapter = adapter
        .ok_or_else(|| StoreError::BadUrl(format!("unknown store `python:{name}`; pass the class instead of a URL")))?;
    let class = Python::attach(|py| Class::of(py, name, adapter).map_err(|error| error.value(py).to_string()));
    class
        .map(|class| Arc::new(PythonStore(class)) as _)
        .map_err(|what| StoreError::BadUrl(format!("python:{name}: {what}")))
}

/// An error of a control call.
fn failed(error: PyErr) -> StoreError {
    Python::attach(|py| {
        let text = said(py, &error);
        if error.is_instance_of::<PyConnectionError>(py) {
            StoreError::Unreachable(text)
        } else {
            StoreError::Failed(text)
        }
    })
}

/// The type and the message of an exception.
fn said(py: Python<'_>, error: &PyErr) -> String {
    let name = error.get_type(py).name().map_or_else(|_| "exception".to_owned(), |name| name.to_string());
    format!("{name}: {}", error.value(py))
}

/// A class and its capabilities.
struct Class {
    adapter: Arc<Py<PyAny>>,
    url: String,
    version: String,
    is_async: bool,
    capabilities: Capabilities,
    /// The operations that have a method.
    own: Vec<OpKind>,
    /// The collections that were prepared.
    prepared: Mutex<Arc<Prepared>>,
    lock: LockUse,
    /// Why closing a session failed, the first time.
    unclosed: Mutex<Option<String>>,
}

/// What a store was prepared for.
#[derive(Default)]
struct Prepared {
    /// What the store calls each collection, and what it holds.
    collections: Vec<(String, Body)>,
    read_only: bool,
}

impl Class {
    fn of(py: Python<'_>, name: &str, adapter: Arc<Py<PyAny>>) -> PyResult<Arc<Self>> {
        let object = adapter.bind(py);
        let methods: Vec<String> = object.getattr("operations")?.extract()?;
        let has = |method: &str| methods.iter().any(|name| name == method);
        let own: Vec<OpKind> = OpKind::ALL.into_iter().filter(|kind| has(&method(*kind))).collect();
        let mut operations: Vec<(OpKind, Support)> = own.iter().map(|kind| (*kind, Support::Native)).collect();
        for (kind, of, how) in MADE {
            if !own.contains(&kind) && has(of) {
                operations.push((kind, Support::Approximated(how)));
            }
        }
        let word = |name: &str| object.getattr(name)?.extract::<String>();
        let wrong = |what: &str, text: &str, expected: &str| {
            crate::arrow::bad_input(format!("unknown {what} `{text}`; expected {expected}"))
        };
        let levels = "a level of docs/study-file.md, such as none, os or fsync";
        let (durability, consistency) = (word("durability")?, word("consistency")?);
        let durability: Durability = durability.parse().map_err(|_| wrong("durability", &durability, levels))?;
        let consistency = [ReadConsistency::StaleOk, ReadConsistency::Session, ReadConsistency::Strong]
            .into_iter()
            .find(|level| level.to_string() == consistency)
            .ok_or_else(|| wrong("consistency", &consistency, "strong, session or stale-ok"))?;
        let is_async = object.getattr("is_async")?.extract()?;
        let capabilities = Capabilities {
            operations,
            durability: vec![(durability, "as the class declares")],
            shipped_durability: durability,
            consistency: vec![(consistency, "as the class declares")],
            // A plain method returns when it is done.
            gives_up_at_timeout: is_async,
            notes: vec![
                "A Python class: Storebench trusts what it declares; the conformance suite checks only part of it.",
            ],
            ..Capabilities::default()
        };
        let version = format!("Python {}", Python::version_str().split(' ').next().unwrap_or_default());
        Ok(Arc::new(Self {
            url: format!("python:{name}"),
            version,
            is_async,
            capabilities,
            own,
            prepared: Mutex::default(),
            lock: LockUse::default(),
            unclosed: Mutex::default(),
            adapter,
        }))
    }

    /// Calls a method outside a phase.
    fn control<'py>(&self, py: Python<'py>, name: &str, arguments: &[&str]) -> PyResult<Bound<'py, PyAny>> {
        let words: Vec<&str> = std::iter::once(name).chain(arguments.iter().copied()).collect();
        self.adapter.bind(py).call_method1("control", PyTuple::new(py, words)?)
    }

    fn collections(&self) -> Result<Vec<String>, StoreError> {
        Python::attach(|py| self.control(py, "collections", &[])?.extract()).map_err(failed)
    }

    fn prepared(&self) -> Arc<Prepared> {
        Arc::clone(&self.prepared.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The method of an operation.
fn method(kind: OpKind) -> String {
    kind.name().replace('-', "_")
}

/// A Python class as a store.
struct PythonStore(Arc<Class>);

impl Store for PythonStore {
    type Session = PythonSession;

    fn describe(&self) -> Description {
        Description { scheme: "python", url: self.0.url.clone(), version: self.0.version.clone() }
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities.clone()
    }

    fn runtime(&self) -> Runtime {
        if self.0.is_async { Runtime::Reactor } else { Runtime::Plain }
    }

    fn holdings(&self) -> Result<Holdings, StoreError> {
        let _alone = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        at_once(ClassSite::new(&self.0).look())
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        let _alone = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        let mut site = ClassSite::new(&self.0);
        if how.makes_nothing() {
            let found = at_once(site.look())?;
            for collection in &layout.collections {
                let existing = collection.existing.as_ref().map(|existing| &existing.name);
                match existing {
                    Some(name) if found.marked_as(name).is_some() => return Err(found.not_theirs(&self.0.url, name)),
                    Some(name) if found.theirs.contains(name) => {}
                    Some(name) => return Err(found.missing(&self.0.url, name)),
                    None if found.check_form(&site, &collection.name, collection.body)? => {}
                    None => return Err(found.missing(&self.0.url, &collection.name)),
                }
            }
        } else {
            at_once(prepare(&mut site, layout, how))?;
        }
        let of = |collection| (Store::full_name(self, collection), collection.body);
        let collections = layout.collections.iter().map(of).collect();
        let prepared = Arc::new(Prepared { collections, read_only: how == Prepare::ReadOnly });
        *self.0.prepared.lock().unwrap_or_else(PoisonError::into_inner) = prepared;
        Ok(())
    }

    async fn open(&self, options: &SessionOptions) -> Result<Self::Session, StoreError> {
        if self.0.capabilities.guarantees(options.durability).is_none() {
            return Err(StoreError::NotSupported(format!(
                "{} cannot guarantee durability `{}`",
                self.0.url, options.durability
            )));
        }
        if !self.0.capabilities.consistency.iter().any(|(level, _)| *level == options.consistency) {
            return Err(StoreError::NotSupported(format!(
                "{} cannot guarantee the read consistency `{}`",
                self.0.url, options.consistency
            )));
        }
        let class = Arc::downgrade(&self.0);
        self.0.lock.watched.get_or_init(|| {
            // Without it, only the check `python-bound` is missing.
            let _ = std::thread::Builder::new().name("python-lock".into()).spawn(move || watch_lock(&class));
        });
        let state = ThreadState::keep();
        let object = Python::attach(|py| self.0.adapter.call_method0(py, "open")).map_err(failed)?;
        let caller = Caller { class: Arc::clone(&self.0), prepared: self.0.prepared(), object, _state: state };
        Ok(if self.0.is_async {
            PythonSession::Async(Box::new(FutureSession::new(caller)))
        } else {
            PythonSession::Sync(caller)
        })
    }

    fn stats(&self) -> Result<Stats, StoreError> {
        let LockUse { samples, busy, .. } = &self.0.lock;
        let of = |name: &str, count: &AtomicU64| (name.to_owned(), count.load(Ordering::Relaxed) as f64);
        Ok(vec![of("python_lock_samples", samples), of("python_lock_busy_samples", busy)])
    }

    fn close(&self) -> Result<(), StoreError> {
        let closed = Python::attach(|py| self.0.adapter.call_method0(py, "close_control")).map_err(failed);
        match self.0.unclosed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(why) => Err(StoreError::Failed(format!("{}: a session could not be closed: {why}", self.0.url))),
            None => closed.map(drop),
        }
    }

    fn remove(&self) -> Result<(), StoreError> {
        let _alone = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        at_once(remove(&mut ClassSite::new(&self.0)))
    }
}
