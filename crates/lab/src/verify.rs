//! Reads every document of a study back and compares it with the expected one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use storebench_documents::{Catalog, Documents};
use storebench_engine::store::{
    AnyStore, BatchBuf, CollectionId, Durability, ErrorKind, Namespace, Op, OpError, OpKind, PhaseStart, Prepare,
    Request, SessionOptions, StoreError,
};
use storebench_engine::{Caller, RealClock, Stop};
use storebench_study::workload::{Body, Study, does};

/// The format name of a [`VerifyReport`].
pub const VERIFY_FORMAT: &str = "storebench-verify/1";

/// Maximum number of reported faults.
const EXAMPLES: usize = 20;
/// Maximum number of documents in a bulk read, and their approximate size in bytes.
const BATCH: u64 = 500;
const BATCH_BYTES: u64 = 4 << 20;
/// How often a temporary failure is retried, and after how long.
const TRIES: u32 = 5;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(200);
/// Timeout of one read.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The content of the store, compared with the expected content.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct VerifyReport {
    /// Always `storebench-verify/1`.
    pub format: String,
    /// The store's URL, without secrets.
    pub url: String,
    /// Name and version of the engine or server.
    pub version: String,
    /// The study's title.
    pub title: String,
    /// Collections, in the order of the study. Those that no phase loads are left out.
    pub collections: Vec<VerifiedCollection>,
    /// Some of the documents that are missing, wrong or unreadable.
    pub faults: Vec<Fault>,
    /// Notes that the reader should know.
    pub notes: Vec<String>,
    /// Whether it was interrupted before every document was read.
    pub interrupted: bool,
}

/// The result for one collection.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct VerifiedCollection {
    /// Its name.
    pub collection: String,
    /// Expected number of documents.
    pub expected: u64,
    /// Documents that are correct.
    pub right: u64,
    /// Correct documents with a later version than the loaded one.
    pub updated: u64,
    /// Missing documents.
    pub missing: u64,
    /// Documents that match no version of the expected one.
    pub wrong: u64,
    /// Documents that could not be read.
    pub unreadable: u64,
}

/// One faulty document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Its collection.
    pub collection: String,
    /// Its key.
    pub key: String,
    /// What is wrong with it.
    pub what: String,
}

impl VerifyReport {
    /// Whether every document is present and correct.
    pub fn is_whole(&self) -> bool {
        !self.interrupted && self.collections.iter().all(|c| c.right == c.expected)
    }
}

/// What to verify.
pub struct VerifyRequest<'a> {
    /// The study that was run.
    pub study: &'a Study,
    /// Its documents, compiled with the same seed and scale.
    pub catalog: &'a Catalog,
    /// The store that holds them.
    pub store: &'a dyn AnyStore,
    /// Number of reading threads, each with its own session; at least 1.
    pub jobs: u32,
}

/// Number of documents that [`verify`] will read.
pub fn documents_to_verify(study: &Study, catalog: &Catalog) -> u64 {
    chosen(study, catalog).iter().map(|(_, d)| d.count()).sum()
}

/// Reads everything back. `progress` is called regularly with the number of documents read.
///
/// The store is opened read-only. A counter is correct if it is an integer, because what was added to it is unknown.
///
/// # Errors
/// Fails if the store cannot be reached, holds nothing, or holds only data that Storebench did not write. Documents
/// that cannot be read individually do not cause an error; they are part of the report.
pub fn verify(
    request: &VerifyRequest<'_>,
    stop: &Stop,
    progress: &mut dyn FnMut(u64),
) -> Result<VerifyReport, StoreError> {
    let VerifyRequest { study, catalog, store, .. } = *request;
    if let Some(name) = study.collections.iter().find(|(_, c)| c.existing.is_some()).map(|(name, _)| name) {
        return Err(StoreError::NotSupported(format!(
            "Storebench did not make the documents of `{name}` (`existing`), so it does not know what they should be; \
             verify a study that loads documents"
        )));
    }
    let description = store.describe();
    match store.inspect()? {
        Namespace::Absent => {
            return Err(StoreError::Unreachable(format!(
                "there is nothing to verify at {}; load it with `storebench run` first, or correct the URL",
                description.url
            )));
        }
        Namespace::Ours | Namespace::Copied(_) | Namespace::Foreign(_) => {}
    }
    if description.scheme == "null" {
        return Err(StoreError::NotSupported("null: keeps nothing, so there is nothing to verify".into()));
    }
    store.prepare(&study.into(), Prepare::ReadOnly)?;
    let mut report = VerifyReport {
        format: VERIFY_FORMAT.to_owned(),
        url: description.url,
        version: description.version,
        title: study.title.clone(),
        notes: notes(study, catalog),
        ..VerifyReport::default()
    };
    let done = AtomicU64::new(0);
    let mut before = 0;
    for (position, documents) in chosen(study, catalog) {
        let found = read_collection(request, position, documents, stop, &done, &mut |now| progress(before + now))?;
        before += done.swap(0, Ordering::Relaxed);
        let (counts, faults) = found;
        report.collections.push(counts);
        let room = EXAMPLES.saturating_sub(report.faults.len());
        report.faults.extend(faults.into_iter().take(room).map(|(_, fault)| fault));
    }
    report.interrupted = stop.asked();
    store.close()?;
    Ok(report)
}

/// The collections that a load writes; all of them if the study loads none.
fn chosen<'a>(study: &Study, catalog: &'a Catalog) -> Vec<(usize, &'a Documents)> {
    let loads = study.phases.iter().any(|p| p.loads());
    let wanted = |name: &str| !loads || study.phases.iter().any(|p| p.loaded(study).any(|l| l == name));
    catalog.iter().enumerate().filter(|(_, d)| wanted(d.name())).collect()
}

/// Operations of the study that change documents in a way that a generator cannot predict.
fn notes(study: &Study, catalog: &Catalog) -> Vec<String> {
    let does = |ops: &[OpKind], collection: &str| does(study, &study.phases, ops, collection);
    let mut notes = Vec::new();
    for (documents, trace) in catalog.iter().filter_map(|documents| Some((documents, documents.trace()?))) {
        let name = documents.name();
        if study.phases.iter().any(|phase| phase.trace.is_some()) {
            if trace.has_bodies() {
                notes.push(format!(
                    "the trace has documents of its own for `{name}`; those that it wrote count as wrong"
                ));
            }
            if trace.kinds().contains(&OpKind::Delete) {
                notes.push(format!("the trace deletes documents of `{name}`, so some may be missing legitimately"));
            }
        }
    }
    for name in study.collections.keys() {
        if does(&[OpKind::Delete, OpKind::Touch], name) {
            notes.push(format!(
                "the study deletes documents of `{name}` or lets them expire, so some may be missing legitimately"
            ));
        }
        if does(&[OpKind::Append, OpKind::Prepend, OpKind::MergePatch], name) {
            notes.push(format!(
                "the study changes parts of documents of `{name}`; the result is unpredictable, so they count as wrong"
            ));
        }
        if does(&[OpKind::Insert], name) {
            notes.push(format!("the study inserts documents into `{name}`; only the loaded ones are verified"));
        }
    }
    notes
}

type CollectionFindings = (VerifiedCollection, Vec<(u64, Fault)>);

/// Reads one collection with several threads. Each takes batches of adjacent documents.
fn read_collection(
    request: &VerifyRequest<'_>,
    position: usize,
    documents: &Documents,
    stop: &Stop,
    done: &AtomicU64,
    progress: &mut dyn FnMut(u64),
) -> Result<CollectionFindings, StoreError> {
    let count = documents.count();
    let each = (BATCH_BYTES / documents.mean_bytes().max(1)).clamp(1, BATCH);
    let next = AtomicU64::new(0);
    let jobs = u64::from(request.jobs.max(1)).min(count.div_ceil(each)).max(1);
    let failed = AtomicBool::new(false);
    let collection = CollectionId(u16::try_from(position).unwrap_or(u16::MAX));
    let work = || -> Result<CollectionFindings, StoreError> {
        let mut reader = Reader::open(request.store, collection, documents)?;
        while !stop.asked() && !failed.load(Ordering::Relaxed) {
            let start = next.fetch_add(each, Ordering::Relaxed);
            if start >= count {
                break;
            }
            let end = (start + each).min(count);
            reader.read(start, end);
            done.fetch_add(end - start, Ordering::Relaxed);
        }
        Ok(reader.found)
    };
    let (mut total, mut faults) = CollectionFindings::default();
    std::thread::scope(|scope| {
        let work = || work().inspect_err(|_| failed.store(true, Ordering::Relaxed));
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        while !threads.iter().all(|t| t.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
            progress(done.load(Ordering::Relaxed));
        }
        for thread in threads {
            let (counts, found) = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            total.right += counts.right;
            total.updated += counts.updated;
            total.missing += counts.missing;
            total.wrong += counts.wrong;
            total.unreadable += counts.unreadable;
            faults.extend(found);
        }
        Ok::<(), StoreError>(())
    })?;
    total.collection = documents.name().to_owned();
    total.expected = count;
    // Threads take batches in any order.
    faults.sort_by_key(|(index, _)| *index);
    Ok((total, faults))
}

/// One thread's session and its findings.
struct Reader<'a> {
    caller: Caller,
    collection: CollectionId,
    documents: &'a Documents,
    bulk: bool,
    keys: BatchBuf,
    key: Vec<u8>,
    scratch: Vec<u8>,
    found: CollectionFindings,
}

impl<'a> Reader<'a> {
    fn open(store: &dyn AnyStore, collection: CollectionId, documents: &'a Documents) -> Result<Self, StoreError> {
        let can = store.capabilities();
        if can.supports(OpKind::Read).is_none() {
            return Err(StoreError::NotSupported("this store cannot read single documents".into()));
        }
        let options = SessionOptions {
            // Nothing is written.
            durability: can.durability.first().map_or(Durability::OS, |(d, _)| *d),
            consistency: can.default_consistency(),
            timeout: TIMEOUT,
            in_flight: 1,
            clock: Arc::new(RealClock::new()),
            phase_start: PhaseStart::new(),
        };
        Ok(Self {
            caller: Caller::open(store, &options)?,
            collection,
            documents,
            bulk: can.supports(OpKind::BulkRead).is_some() && documents.body() != Body::Counter,
            keys: BatchBuf::new(),
            key: Vec::new(),
            scratch: Vec::new(),
            found: CollectionFindings::default(),
        })
    }

    /// Reads the documents from `start` up to, not including, `end`.
    fn read(&mut self, start: u64, end: u64) {
        if !self.bulk || self.read_bulk(start, end).is_err() {
            // One unreadable document should not hide the others of its batch.
            (start..end).for_each(|index| self.read_one(index));
        }
    }

    fn read_bulk(&mut self, start: u64, end: u64) -> Result<(), OpError> {
        self.keys.clear();
        for index in start..end {
            self.keys.push_with(|out| self.documents.write_key(index, out), |_| {});
        }
        let batch = self.keys.as_batch();
        let request = Request { collection: self.collection, op: Op::BulkRead { keys: batch }, contents: true };
        // Stores answer in any order, and omit missing documents.
        let mut wanted: HashMap<&str, u64> = batch.iter().map(|(key, _)| key).zip(start..end).collect();
        let (documents, scratch, found) = (self.documents, &mut self.scratch, &mut self.found);
        let distinct = wanted.len() as u64 == end - start;
        let mut failed = None;
        if !distinct {
            // With duplicate keys, a batch cannot distinguish the documents.
            return Err(OpError::unsupported());
        }
        self.caller.call(&request, |result| match result {
            Ok(reply) if !reply.rejects.is_empty() => failed = reply.rejects.first().map(|r| r.error.clone()),
            Ok(reply) => {
                for (key, body) in reply.rows.iter().flat_map(|rows| rows.iter()) {
                    if let Some(index) = wanted.remove(key) {
                        judge(documents, index, key, body, scratch, found);
                    }
                }
            }
            Err(error) => failed = Some(error),
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let mut missing: Vec<(u64, &str)> = wanted.into_iter().map(|(key, index)| (index, key)).collect();
        missing.sort_unstable();
        for (index, key) in missing {
            found.0.missing += 1;
            add_fault(documents, index, key, "not found".to_owned(), found);
        }
        Ok(())
    }

    fn read_one(&mut self, index: u64) {
        self.key.clear();
        self.documents.write_key(index, &mut self.key);
        let key = String::from_utf8_lossy(&self.key);
        let request = Request { collection: self.collection, op: Op::Read { key: &key }, contents: true };
        let (documents, scratch, found) = (self.documents, &mut self.scratch, &mut self.found);
        for left in (0..TRIES).rev() {
            let mut again = false;
            self.caller.call(&request, |result| match result {
                Ok(reply) => judge(documents, index, &key, reply.body.unwrap_or_default(), scratch, found),
                Err(error) if error.kind == ErrorKind::NotFound => {
                    found.0.missing += 1;
                    add_fault(documents, index, &key, "not found".to_owned(), found);
                }
                Err(error) if error.kind == ErrorKind::Temporary && left > 0 => again = true,
                Err(error) => {
                    found.0.unreadable += 1;
                    add_fault(documents, index, &key, format!("read failed: {error}"), found);
                }
            });
            if !again {
                return;
            }
            std::thread::sleep(TRY_AGAIN_AFTER);
        }
    }
}

fn judge(
    documents: &Documents,
    index: u64,
    key: &str,
    body: &[u8],
    scratch: &mut Vec<u8>,
    found: &mut CollectionFindings,
) {
    match documents.check(index, body, scratch) {
        Ok(version) => {
            found.0.right += 1;
            found.0.updated += u64::from(version > 0);
        }
        Err(mismatch) => {
            found.0.wrong += 1;
            add_fault(documents, index, key, mismatch.to_string(), found);
        }
    }
}

/// Keeps the first few faults of a thread. Those of all threads are sorted later.
fn add_fault(documents: &Documents, index: u64, key: &str, what: String, found: &mut CollectionFindings) {
    if found.1.len() < EXAMPLES {
        let collection = documents.name().to_owned();
        found.1.push((index, Fault { collection, key: key.to_owned(), what }));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use storebench_engine::store::{Completions, Layout, MemoryStore, Session, Store, Token};

    use super::*;
    use crate::run::compile_documents;

    const STUDY: &str = r#"
title = "Kinds"
[collections.books]
count = 1200
size = "120B"
[collections.blobs]
count = 30
body = "bytes"
size = "60B"
[collections.hits]
count = 20
body = "counter"
[collections.unloaded]
count = 10
[[phases]]
name = "load"
load = ["books", "blobs", "hits"]
[[phases]]
name = "odd"
collection = "books"
mix = { delete = 1, merge = 1, insert = 1 }
operations = 1
"#;

    struct World {
        study: Study,
        catalog: Arc<Catalog>,
        store: MemoryStore,
    }

    fn options() -> SessionOptions {
        SessionOptions {
            durability: Durability::MEMORY,
            consistency: storebench_engine::store::ReadConsistency::Strong,
            timeout: TIMEOUT,
            in_flight: 1,
            clock: Arc::new(RealClock::new()),
            phase_start: PhaseStart::new(),
        }
    }

    impl World {
        /// Loads everything, as a run would.
        fn loaded() -> Self {
            let study = Study::parse(STUDY, Path::new("kinds.toml"), &[]).unwrap();
            let catalog = compile_documents(&study, 1.0, Path::new(".")).unwrap().catalog;
            let world = Self { study, catalog, store: MemoryStore::new() };
            AnyStore::prepare(&world.store, &Layout::from(&world.study), Prepare::Fresh).unwrap();
            for (position, documents) in chosen(&world.study, &world.catalog) {
                for index in 0..documents.count() {
                    world.write(position, index, index, 0);
                }
            }
            world
        }

        fn call(&self, position: usize, op: Op<'_>) {
            let request = Request { collection: CollectionId(position as u16), op, contents: false };
            Caller::open(&self.store, &options())
                .unwrap()
                .call(&request, |result| assert!(result.is_ok(), "{result:?}"));
        }

        /// Stores document `index` at a version under the key of `at`.
        fn write(&self, position: usize, at: u64, index: u64, version: u64) {
            let documents = self.catalog.get(position);
            let (mut key, mut body) = (Vec::new(), Vec::new());
            documents.write_key(at, &mut key);
            documents.write_document(index, version, &mut body);
            let key = std::str::from_utf8(&key).unwrap();
            match documents.body() {
                Body::Counter => self.call(position, Op::Counter { key, delta: 3, initial: 0 }),
                _ => self.call(position, Op::Upsert { key, body: &body }),
            }
        }

        fn verify(&self, store: &dyn AnyStore, jobs: u32) -> VerifyReport {
            let request = VerifyRequest { study: &self.study, catalog: &self.catalog, store, jobs };
            verify(&request, &Stop::new(), &mut |_| {}).unwrap()
        }
    }

    /// A memory store without bulk reads that fails to read one key.
    struct Crippled(MemoryStore);

    struct CrippledSession(storebench_engine::store::MemorySession);

    impl Store for Crippled {
        type Session = CrippledSession;
        fn describe(&self) -> storebench_engine::store::Description {
            Store::describe(&self.0)
        }
        fn capabilities(&self) -> storebench_engine::store::Capabilities {
            let mut can = Store::capabilities(&self.0);
            can.operations.retain(|(kind, _)| *kind != OpKind::BulkRead);
            can
        }
        fn inspect(&self) -> Result<Namespace, StoreError> {
            Store::inspect(&self.0)
        }
        fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
            Store::prepare(&self.0, layout, how)
        }
        async fn open(&self, options: &SessionOptions) -> Result<CrippledSession, StoreError> {
            Store::open(&self.0, options).await.map(CrippledSession)
        }
        fn remove(&self) -> Result<(), StoreError> {
            Store::remove(&self.0)
        }
    }

    impl Session for CrippledSession {
        fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
            match request.op {
                Op::Read { key: "books/7" } => out.complete(token, Err(OpError::new(ErrorKind::Failed, "bad sector"))),
                _ => self.0.submit(request, token, out),
            }
        }
    }

    #[test]
    fn what_was_loaded_or_updated_is_right() {
        let world = World::loaded();
        world.write(0, 5, 5, 9);
        for jobs in [1, 4] {
            let report = world.verify(&world.store, jobs);
            assert!(report.is_whole() && report.faults.is_empty(), "{report:?}");
            let counts: Vec<_> = report.collections.iter().map(|c| (&*c.collection, c.right, c.updated)).collect();
            assert_eq!(counts, [("books", 1_200, 1), ("blobs", 30, 0), ("hits", 20, 0)]);
            assert_eq!(report.notes.len(), 3, "the notes say what the study does to documents: {:?}", report.notes);
        }
    }

    #[test]
    fn what_is_missing_swapped_or_changed_is_named_in_order() {
        let world = World::loaded();
        world.call(0, Op::Delete { key: "books/900" });
        world.write(0, 3, 4, 0);
        world.call(1, Op::Append { key: "blobs/2", bytes: b"more" });
        for jobs in [1, 3] {
            let report = world.verify(&world.store, jobs);
            let keys: Vec<&str> = report.faults.iter().map(|f| f.key.as_str()).collect();
            assert_eq!(keys, ["books/3", "books/900", "blobs/2"]);
            assert!(report.faults[0].what.contains("document 4"), "{:?}", report.faults[0]);
            let books = &report.collections[0];
            assert_eq!((books.right, books.missing, books.wrong, books.unreadable), (1_198, 1, 1, 0));
        }
    }

    #[test]
    fn a_store_without_bulk_reads_is_read_one_by_one() {
        let world = World::loaded();
        let report = world.verify(&Crippled(world.store.clone()), 2);
        let books = &report.collections[0];
        assert_eq!((books.right, books.unreadable), (1_199, 1));
        assert!(!report.is_whole() && report.faults[0].what.contains("bad sector"), "{:?}", report.faults);
    }

    #[test]
    fn an_interrupted_verification_is_not_whole() {
        let world = World::loaded();
        let stop = Stop::new();
        stop.ask();
        let request = VerifyRequest { study: &world.study, catalog: &world.catalog, store: &world.store, jobs: 2 };
        let report = verify(&request, &stop, &mut |_| {}).unwrap();
        assert!(report.interrupted && !report.is_whole());
        assert_eq!(report.collections[0].right, 0);
    }

    #[test]
    fn nothing_there_is_said() {
        let world = World::loaded();
        let request =
            VerifyRequest { study: &world.study, catalog: &world.catalog, store: &MemoryStore::new(), jobs: 1 };
        let error = verify(&request, &Stop::new(), &mut |_| {}).unwrap_err();
        assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
    }
}
