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

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyConnectionError, PyTimeoutError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCFunction, PyList, PyString, PyTuple};
use serde::{Deserialize, Serialize};
use storebench_engine::store::{
    AnyStore, Batch, BatchBuf, BulkWrite, Capabilities, Completions, Description, Durability, ErrorKind, FutureSession,
    Holdings, Layout, Made, Making, Marked, Op, OpError, OpKind, OwnedReply, Prepare, ReadConsistency, Reject, Removal,
    Request, Respond, Runtime, Session, SessionCounters, SessionOptions, Site, Stats, Store, StoreError, Support,
    Token, at_once, prepare, remove, several,
};
use storebench_study::workload::Body;
use tokio::sync::oneshot;

/// The collection that holds Storebench's marker, and the key of the marker in it.
const MARKER: (&str, &str) = ("storebench-marker", "marker");

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
    let all = CLASSES.lock().unwrap_or_else(PoisonError::into_inner);
    let adapter = all.get(name).cloned();
    let adapter = adapter
        .ok_or_else(|| StoreError::BadUrl(format!("unknown store `python:{name}`; pass the class instead of a URL")))?;
    drop(all);
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

/// How busy Python's lock was, by samples.
#[derive(Default)]
struct LockUse {
    watched: OnceLock<()>,
    samples: AtomicU64,
    busy: AtomicU64,
}

/// How often to look whether Python's lock is free, on average.
const SAMPLE_EVERY: Duration = Duration::from_millis(5);
/// A free lock is taken faster.
const FREE_WITHIN: Duration = Duration::from_micros(20);

/// Looks whether Python's lock is free, as long as the class is in use. At random times, because Python's own threads
/// take turns every 5 ms.
fn watch_lock(class: &Weak<Class>) {
    let _state = ThreadState::keep();
    let mut random = RandomState::new().build_hasher().finish();
    loop {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(SAMPLE_EVERY.mul_f64(0.5 + (random >> 33) as f64 / (1_u64 << 31) as f64));
        let Some(class) = class.upgrade() else { return };
        let begun = Instant::now();
        let Some(took) = Python::try_attach(|_| begun.elapsed()) else { return };
        class.lock.samples.fetch_add(1, Ordering::Relaxed);
        class.lock.busy.fetch_add(u64::from(took > FREE_WITHIN), Ordering::Relaxed);
    }
}

/// Keeps what Python stores for this thread, as long as it lives: otherwise each call would start with empty
/// thread-local variables. Must be dropped on the same thread.
struct ThreadState {
    ensured: pyo3::ffi::PyGILState_STATE,
    saved: *mut pyo3::ffi::PyThreadState,
}

impl ThreadState {
    fn keep() -> Self {
        // SAFETY: the interpreter runs, because Python started the verb. The lock is given back at once.
        unsafe {
            let ensured = pyo3::ffi::PyGILState_Ensure();
            Self { ensured, saved: pyo3::ffi::PyEval_SaveThread() }
        }
    }
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        // SAFETY: the same thread, and in the opposite order.
        unsafe {
            pyo3::ffi::PyEval_RestoreThread(self.saved);
            pyo3::ffi::PyGILState_Release(self.ensured);
        }
    }
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
            pyo3::exceptions::PyValueError::new_err(format!("unknown {what} `{text}`; expected {expected}"))
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

/// The content of the marker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Marker {
    format: String,
    /// Whether Storebench wrote into a store that was empty.
    made: bool,
    /// Name and mark of each collection.
    collections: Vec<(String, String)>,
}

const FORMAT: &str = "storebench-python-store/1";

/// A Python class as a store.
struct PythonStore(Arc<Class>);

/// The steps of preparing and removing. Other processes are not kept out: a class has no way to say that.
struct ClassSite<'c> {
    class: &'c Class,
    found: Option<Marker>,
}

/// Keeps out other stores of this process.
static CONTROL: Mutex<()> = Mutex::new(());

impl ClassSite<'_> {
    fn marker(&self) -> Result<Option<Marker>, StoreError> {
        let text = Python::attach(|py| {
            let found = self.class.control(py, "read", &[MARKER.0, MARKER.1])?;
            if found.is_none() { Ok(None) } else { bytes_of(&found).map(Some) }
        });
        let Some(text) = text.map_err(failed)? else { return Ok(None) };
        let marker: Result<Marker, _> = serde_json::from_slice(&text);
        marker.ok().filter(|marker| marker.format == FORMAT).map(Some).ok_or_else(|| self.marker_taken(MARKER.0))
    }

    fn write(&self, marker: &Marker) -> Result<(), StoreError> {
        let text = serde_json::to_string(marker).map_err(|e| StoreError::Failed(e.to_string()))?;
        Python::attach(|py| self.class.control(py, "upsert", &[MARKER.0, MARKER.1, &text]).map(drop)).map_err(failed)
    }

    /// Creates a collection if it is not among these.
    fn create(&self, names: &[String], name: &str) -> Result<(), StoreError> {
        if names.iter().any(|there| there == name) {
            return Ok(());
        }
        Python::attach(|py| self.class.control(py, "create", &[name]).map(drop)).map_err(failed)
    }

    fn drop_collection(&self, name: &str) -> Result<(), StoreError> {
        Python::attach(|py| self.class.control(py, "drop", &[name]).map(drop)).map_err(failed)
    }
}

impl Site for ClassSite<'_> {
    const ANOTHER: &'static str = "another store, or another place in it";
    const RESERVED: &'static str = MARKER.0;

    fn shown(&self) -> String {
        self.class.url.clone()
    }

    async fn look(&mut self) -> Result<Holdings, StoreError> {
        let names = self.class.collections()?;
        self.found = if names.iter().any(|name| name == MARKER.0) { self.marker()? } else { None };
        let marked = self.found.iter().flat_map(|marker| &marker.collections);
        let marked: Vec<Marked> = marked.map(|(name, mark)| Marked::new(&**name, &**mark)).collect();
        let is_ours = |name: &String| name == MARKER.0 || marked.iter().any(|marked| marked.name == *name);
        let theirs: Vec<String> = names.into_iter().filter(|name| !is_ours(name)).collect();
        Ok(Holdings {
            absent: theirs.is_empty() && self.found.is_none(),
            foreign: several("collection", &theirs),
            made: self.found.as_ref().map(|marker| marker.made),
            marked,
            theirs,
            removing: false,
        })
    }

    async fn make(&mut self, making: &Making<'_>) -> Result<Made, StoreError> {
        let names = self.class.collections()?;
        if names.iter().any(|name| name == MARKER.0) && self.marker()? != self.found {
            return Ok(Made::Changed);
        }
        self.create(&names, MARKER.0)?;
        let collections = making.marked.iter().map(|marked| (marked.name.clone(), marked.mark.clone())).collect();
        let marker = Marker { format: FORMAT.to_owned(), made: making.made, collections };
        if self.found.as_ref() != Some(&marker) {
            self.write(&marker)?;
        }
        // Also what an earlier process marked and then did not create.
        making.collections.iter().try_for_each(|planned| self.create(&names, planned.name()))?;
        Ok(Made::Done)
    }

    async fn unmake(&mut self, removal: &Removal) -> Result<Made, StoreError> {
        let now = self.marker()?.unwrap_or_default();
        let marked: Vec<Marked> = now.collections.iter().map(|(name, mark)| Marked::new(&**name, &**mark)).collect();
        if !removal.still(&marked) {
            return Ok(Made::Changed);
        }
        // Dropping may take long. A copy that wants one of these collections meanwhile waits, or is refused.
        let removing: Vec<(String, String)> = removal
            .going
            .iter()
            .map(|going| {
                let removing = going.removing();
                (removing.name, removing.mark)
            })
            .collect();
        let mut marker = now;
        for (name, mark) in marker.collections.iter_mut().filter(|(name, _)| removal.takes(name)) {
            *mark = Marked::new(&**name, &**mark).removing().mark;
        }
        self.write(&marker)?;
        let names = self.class.collections()?;
        for going in removal.going.iter().filter(|going| names.contains(&going.name)) {
            self.drop_collection(&going.name)?;
        }
        // What others have marked meanwhile stays.
        let mut marker = self.marker()?.unwrap_or_default();
        marker.collections.retain(|entry| !removing.contains(entry));
        if marker.collections.is_empty() {
            self.drop_collection(MARKER.0)?;
        } else {
            self.write(&marker)?;
        }
        Ok(Made::Done)
    }
}

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
        at_once(ClassSite { class: &self.0, found: None }.look())
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        let _alone = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        let mut site = ClassSite { class: &self.0, found: None };
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
        let collections = layout.collections.iter().map(|collection| of(collection)).collect();
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
        at_once(remove(&mut ClassSite { class: &self.0, found: None }))
    }
}

/// Calls the methods of one object of the class.
struct Caller {
    class: Arc<Class>,
    prepared: Arc<Prepared>,
    object: Py<PyAny>,
    /// Declared last, so that it is dropped last.
    _state: ThreadState,
}

impl Drop for Caller {
    fn drop(&mut self) {
        let closed = Python::try_attach(|py| {
            let closed = self.class.adapter.call_method1(py, "close", (&self.object,));
            closed.map(drop).map_err(|error| said(py, &error))
        });
        if let Some(Err(why)) = closed {
            // Told when the store is closed.
            self.class.unclosed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        }
    }
}

/// How what a method returned becomes a reply.
#[derive(Debug, Clone, Copy)]
enum Meaning {
    /// Nothing: a document was written.
    Written,
    /// True, or false for this kind of error.
    Whether(ErrorKind),
    /// True or false: one or no document.
    Exists,
    /// The document, or None.
    Document { contents: bool },
    /// The document or None, of which only the existence counts.
    IsDocument,
    /// An integer.
    Counter,
    /// Nothing: this many documents were written.
    AllWritten(usize),
    /// A list: whether each was written.
    EachWritten(usize),
    /// The number of documents.
    Number,
    /// A list of key and document.
    Rows { contents: bool },
}

impl Caller {
    /// Begins the call of an operation. Returns what the method returned.
    fn call<'py>(&self, py: Python<'py>, request: &Request<'_>) -> Result<(Bound<'py, PyAny>, Meaning), OpError> {
        let kind = request.op.kind();
        let supported = self.class.capabilities.supports(kind).is_some();
        let collections = &self.prepared.collections;
        let Some((collection, body)) = collections.get(request.collection.position()).filter(|_| supported) else {
            return Err(OpError::unsupported());
        };
        if self.prepared.read_only && writes(kind) {
            return Err(OpError::new(ErrorKind::Refused, "the store was opened for reading only"));
        }
        let fits = match kind {
            OpKind::Append | OpKind::Prepend => *body == Body::Bytes,
            OpKind::Counter => *body == Body::Counter,
            OpKind::MergePatch => *body == Body::Json,
            _ => true,
        };
        if !fits {
            return Err(OpError::new(
                ErrorKind::Refused,
                format!("{kind} does not work on `{collection}`, which has another type of document"),
            ));
        }
        let (own, name) = (self.class.own.contains(&kind), method(kind));
        let object = self.object.bind(py);
        let text = |text: &str| PyString::new(py, text).into_any();
        let data = |bytes: &[u8]| PyBytes::new(py, bytes).into_any();
        let contents = request.contents;
        let call = |name: &str, more: Vec<Bound<'py, PyAny>>| {
            let arguments = std::iter::once(text(collection)).chain(more);
            if own || kind == OpKind::Exists {
                return PyTuple::new(py, arguments.collect::<Vec<_>>())
                    .and_then(|arguments| object.call_method1(name, arguments));
            }
            // The adapter calls another method for each document.
            let arguments = std::iter::once(object.clone()).chain(arguments);
            PyTuple::new(py, arguments.collect::<Vec<_>>())
                .and_then(|arguments| self.class.adapter.bind(py).call_method1(name, arguments))
        };
        let (result, meaning) = match request.op {
            Op::Insert { key, body } => {
                (call(&name, vec![text(key), data(body)]), Meaning::Whether(ErrorKind::Conflict))
            }
            Op::Upsert { key, body } => (call(&name, vec![text(key), data(body)]), Meaning::Written),
            Op::Replace { key, body } => {
                (call(&name, vec![text(key), data(body)]), Meaning::Whether(ErrorKind::NotFound))
            }
            Op::Append { key, bytes } | Op::Prepend { key, bytes } => {
                (call(&name, vec![text(key), data(bytes)]), Meaning::Whether(ErrorKind::NotFound))
            }
            Op::MergePatch { key, patch } => {
                (call(&name, vec![text(key), data(patch)]), Meaning::Whether(ErrorKind::NotFound))
            }
            Op::Read { key } => (call(&name, vec![text(key)]), Meaning::Document { contents }),
            Op::Exists { key } if own => (call(&name, vec![text(key)]), Meaning::Exists),
            Op::Exists { key } => (call("read", vec![text(key)]), Meaning::IsDocument),
            Op::Delete { key } => (call(&name, vec![text(key)]), Meaning::Whether(ErrorKind::NotFound)),
            Op::Touch { key, expiry } => {
                let seconds = expiry.as_secs_f64().into_pyobject(py).map(|s| s.into_any());
                let seconds = seconds.unwrap_or_else(|never| match never {});
                (call(&name, vec![text(key), seconds]), Meaning::Whether(ErrorKind::NotFound))
            }
            Op::Counter { key, delta, initial } => {
                let number = |n: i64| n.into_pyobject(py).map(|n| n.into_any()).unwrap_or_else(|never| match never {});
                (call(&name, vec![text(key), number(delta), number(initial)]), Meaning::Counter)
            }
            Op::BulkWrite { kind, items } => {
                let pairs = items.iter().map(|(key, body)| (PyString::new(py, key), PyBytes::new(py, body)));
                let pairs = PyList::new(py, pairs.collect::<Vec<_>>()).map(|list| list.into_any());
                let meaning = match kind {
                    BulkWrite::Upsert => Meaning::AllWritten(items.len()),
                    BulkWrite::Insert => Meaning::EachWritten(items.len()),
                };
                (pairs.and_then(|pairs| call(&name, vec![pairs])), meaning)
            }
            Op::BulkRead { keys } => {
                (keys_of(py, keys).and_then(|keys| call(&name, vec![keys])), Meaning::Rows { contents })
            }
            Op::BulkDelete { keys } => (keys_of(py, keys).and_then(|keys| call(&name, vec![keys])), Meaning::Number),
            Op::Prefix { prefix, limit } => {
                let limit = limit.into_pyobject(py).map(|n| n.into_any()).unwrap_or_else(|never| match never {});
                (call(&name, vec![text(prefix), limit]), Meaning::Rows { contents })
            }
            Op::Scan { start, end, limit } => {
                let limit = limit.into_pyobject(py).map(|n| n.into_any()).unwrap_or_else(|never| match never {});
                let end = end.map_or_else(|| py.None().into_bound(py), text);
                (call(&name, vec![text(start), end, limit]), Meaning::Rows { contents })
            }
            Op::Page { .. } | Op::View { .. } | Op::CompareAndSwap { .. } => return Err(OpError::unsupported()),
        };
        let result = result.map_err(|error| of_exception(py, &error, writes(kind)))?;
        if !self.class.is_async && result.hasattr("__await__").unwrap_or(false) {
            // Otherwise Python warns that nobody awaited it.
            let _ = result.call_method0("close");
            let why = format!("{name} returned an awaitable; define it with `async def`");
            return Err(OpError::new(ErrorKind::Refused, why));
        }
        Ok((result, meaning))
    }
}

/// Whether an operation changes something.
fn writes(kind: OpKind) -> bool {
    use OpKind::{BulkRead, Exists, Page, Prefix, Read, Scan, View};
    !matches!(kind, Read | Exists | BulkRead | Page | Prefix | Scan | View)
}

fn keys_of<'py>(py: Python<'py>, keys: Batch<'_>) -> PyResult<Bound<'py, PyAny>> {
    let keys = keys.iter().map(|(key, _)| PyString::new(py, key)).collect::<Vec<_>>();
    PyList::new(py, keys).map(|list| list.into_any())
}

/// An exception of a method. Only its class can say that nothing was done; of other writes the outcome is unknown.
fn of_exception(py: Python<'_>, error: &PyErr, writes: bool) -> OpError {
    let told = error.value(py).getattr("store_error").and_then(|kind| kind.extract::<String>());
    let kind = match told.as_deref() {
        Ok("refused") => ErrorKind::Refused,
        Ok("temporary") => ErrorKind::Temporary,
        Ok("failed") => ErrorKind::Failed,
        _ if writes => ErrorKind::OutcomeUnknown,
        _ if error.is_instance_of::<PyTimeoutError>(py) || error.is_instance_of::<PyConnectionError>(py) => {
            ErrorKind::Temporary
        }
        _ => ErrorKind::Failed,
    };
    OpError::new(kind, said(py, error))
}

/// A document that a method returned.
fn bytes_of(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    match value.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.as_bytes().to_vec()),
        Err(_) => match value.cast::<PyString>() {
            Ok(text) => text.extract::<String>().map(String::into_bytes),
            // Such as bytearray and memoryview.
            Err(_) => value.extract::<Vec<u8>>(),
        },
    }
}

/// What a method returned, as a reply.
fn reply(value: &Bound<'_, PyAny>, meaning: Meaning, writes: bool) -> Result<OwnedReply, OpError> {
    // What a write has done is then unknown.
    let kind = if writes { ErrorKind::OutcomeUnknown } else { ErrorKind::Failed };
    let wrong = |e: PyErr| {
        let why = said(value.py(), &e);
        OpError::new(kind, format!("the method returned the wrong type ({why}); see docs/python-stores.md"))
    };
    Ok(match meaning {
        Meaning::Written => OwnedReply::documents(1),
        Meaning::Whether(_) | Meaning::Exists if value.is_none() => {
            return Err(OpError::new(
                kind,
                "the method returned None, expected True or False; see docs/python-stores.md",
            ));
        }
        Meaning::Whether(kind) => match value.is_truthy().map_err(wrong)? {
            true => OwnedReply::documents(1),
            false if kind == ErrorKind::Conflict => return Err(OpError::conflict("the key exists")),
            false => return Err(OpError::not_found()),
        },
        Meaning::Exists => OwnedReply::documents(u32::from(value.is_truthy().map_err(wrong)?)),
        Meaning::IsDocument => OwnedReply::documents(u32::from(!value.is_none())),
        Meaning::Document { .. } if value.is_none() => return Err(OpError::not_found()),
        Meaning::Document { contents } => {
            let body = bytes_of(value).map_err(wrong)?;
            let reply = OwnedReply::documents(1);
            if contents { reply.body(body) } else { reply.bytes(body.len() as u64) }
        }
        Meaning::Counter => OwnedReply::documents(1).counter(value.extract().map_err(wrong)?),
        Meaning::AllWritten(items) => OwnedReply::documents(u32::try_from(items).unwrap_or(u32::MAX)),
        Meaning::EachWritten(items) => {
            let each = value.try_iter().map_err(wrong)?;
            let each: Vec<bool> =
                each.map(|one| one.and_then(|one| one.is_truthy())).collect::<Result<_, _>>().map_err(wrong)?;
            if each.len() != items {
                let said = format!(
                    "bulk_insert returned {} results, expected {items}: one True or False for each",
                    each.len()
                );
                return Err(OpError::new(ErrorKind::OutcomeUnknown, said));
            }
            let rejected = each.iter().enumerate().filter(|(_, written)| !**written);
            let rejects: Vec<Reject> =
                rejected.map(|(item, _)| Reject { item, error: OpError::conflict("the key exists") }).collect();
            OwnedReply::documents(u32::try_from(items - rejects.len()).unwrap_or(u32::MAX)).rejects(rejects)
        }
        Meaning::Number => OwnedReply::documents(value.extract().map_err(wrong)?),
        Meaning::Rows { contents } => {
            let mut rows = BatchBuf::new();
            for row in value.try_iter().map_err(wrong)? {
                let (key, body): (String, Bound<'_, PyAny>) = row.and_then(|row| row.extract()).map_err(wrong)?;
                rows.push(&key, &bytes_of(&body).map_err(wrong)?);
            }
            if contents {
                OwnedReply::default().rows(rows)
            } else {
                let bytes = rows.as_batch().iter().map(|(_, body)| body.len() as u64).sum();
                OwnedReply::documents(u32::try_from(rows.len()).unwrap_or(u32::MAX)).bytes(bytes)
            }
        }
    })
}

/// One session: an object of the class.
enum PythonSession {
    /// Its methods return when they are done.
    Sync(Caller),
    /// Its methods are coroutines.
    Async(Box<FutureSession<Caller>>),
}

impl Session for PythonSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        match self {
            Self::Async(session) => session.submit(request, token, out),
            Self::Sync(caller) => {
                // Other threads run Python as soon as this one has its answer.
                let done = Python::attach(|py| {
                    let (value, meaning) = caller.call(py, request)?;
                    reply(&value, meaning, writes(request.op.kind()))
                });
                match done {
                    Ok(reply) => out.complete(token, Ok(reply.as_reply())),
                    Err(error) => out.complete(token, Err(error)),
                }
            }
        }
    }

    fn poll(&mut self, cx: &mut std::task::Context<'_>, out: &mut dyn Completions) -> std::task::Poll<()> {
        match self {
            Self::Async(session) => session.poll(cx, out),
            Self::Sync(_) => std::task::Poll::Ready(()),
        }
    }

    fn counters(&self) -> SessionCounters {
        SessionCounters::default()
    }

    fn abandon(&mut self, token: Token) {
        if let Self::Async(session) = self {
            session.abandon(token);
        }
    }
}

type Answer = Result<OwnedReply, OpError>;

/// A coroutine that was begun. It is cancelled when nobody waits for it any more.
struct Begun(Py<PyAny>);

impl Drop for Begun {
    fn drop(&mut self) {
        // Does nothing to one that has ended.
        let _ = Python::try_attach(|py| self.0.call_method0(py, "cancel").map(drop));
    }
}

impl Respond for Caller {
    type Future = std::pin::Pin<Box<dyn Future<Output = Answer>>>;

    fn respond(&mut self, request: &Request<'_>) -> Self::Future {
        let writes = writes(request.op.kind());
        let begun = Python::attach(|py| {
            let (coroutine, meaning) = self.call(py, request)?;
            let (send, answer) = oneshot::channel();
            let send = Mutex::new(RefCell::new(Some(send)));
            let ended = move |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, pyo3::types::PyDict>>| {
                let py = arguments.py();
                let result = arguments
                    .get_item(0)
                    .and_then(|future| future.call_method0("result"))
                    .map_err(|error| of_exception(py, &error, writes))
                    .and_then(|value| reply(&value, meaning, writes));
                let send = send.lock().unwrap_or_else(PoisonError::into_inner).take();
                // Nobody waits for an abandoned operation.
                let _ = send.map(|send| send.send(result));
            };
            let begin = || {
                let ended = PyCFunction::new_closure(py, None, None, ended)?;
                self.class.adapter.call_method1(py, "begin", (&self.object, coroutine, ended))
            };
            begin().map(|future| (answer, Begun(future))).map_err(|error| of_exception(py, &error, writes))
        });
        Box::pin(async move {
            let lost = |_| OpError::new(ErrorKind::OutcomeUnknown, "the event loop has ended");
            let (answer, _begun) = begun?;
            answer.await.map_err(lost).and_then(|answer| answer)
        })
    }
}
