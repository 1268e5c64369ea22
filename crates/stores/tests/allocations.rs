//! A worker that has sent its first operations allocates no more memory, whatever the store: buffers, slots and histograms
//! are used again. Alone in its program, because every allocation of a worker's thread counts.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]
#![cfg(feature = "default")]

use std::alloc::{GlobalAlloc, Layout as Bytes, System};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use storebench_documents::{Catalog, CatalogOptions};
use storebench_engine::store::{AnyStore, CollectionLayout, Layout, Prepare};
use storebench_engine::{Event, PhaseContext, PhasePlan, RealClock, Stop, Written, run_phase};
use storebench_study::workload::Study;

#[path = "network/server.rs"]
mod server;

use server::Server;

/// Allocations on threads whose names begin like a worker's.
static BY_WORKERS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether this thread's name is being read, which may allocate.
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

impl Counting {
    fn count() {
        // A thread that ends has no such value any more.
        let _ = ASKING.try_with(|asking| {
            if !asking.replace(true) {
                let name = rustix::thread::name();
                if name.is_ok_and(|name| name.to_bytes().starts_with(b"worker-")) {
                    BY_WORKERS.fetch_add(1, Ordering::Relaxed);
                }
                asking.set(false);
            }
        });
    }
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, bytes: Bytes) -> *mut u8 {
        Self::count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(bytes) }
    }
    unsafe fn dealloc(&self, at: *mut u8, bytes: Bytes) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, bytes) }
    }
    unsafe fn realloc(&self, at: *mut u8, bytes: Bytes, new: usize) -> *mut u8 {
        Self::count();
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(at, bytes, new) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Of thousands of operations, some may let a buffer grow.
const NONE: f64 = 0.02;

const KINDS: [&str; 2] = ["upsert", "read"];

fn study(operations: u64) -> Study {
    let phases: String = KINDS
        .iter()
        .map(|kind| {
            format!(
                "[[phases]]\nname = \"{kind}\"\nmix = {{ {kind} = 1 }}\nworkers = 1\nconnections = 2\nin_flight = 8\n\
                 operations = {operations}\ncheck = 0\n"
            )
        })
        .collect();
    let text = format!(
        "title = \"Allocations\"\n[collections.documents]\ncount = 500\nsize = \"1KiB\"\n\
         fields = {{ name = {{ words = 2 }}, text = {{ text = \"fill\" }} }}\n\
         [[phases]]\nname = \"load\"\nload = [\"documents\"]\n{phases}"
    );
    Study::parse(&text, Path::new("allocations.toml"), &[]).unwrap()
}

/// Runs a phase and returns how often its worker allocated memory.
fn allocations(store: &Arc<dyn AnyStore>, operations: u64, phase: &str) -> u64 {
    let study = study(operations);
    let dir = std::env::temp_dir();
    let options = CatalogOptions { seed: 1, scale: 1.0, base_dir: &dir, scratch_dir: &dir };
    let catalog = Arc::new(Catalog::compile(&study.collections, &options).unwrap());
    let collection = &study.collections["documents"];
    let layout = CollectionLayout {
        name: "documents".into(),
        body: collection.body,
        indexes: Vec::new(),
        existing: None,
        uses: storebench_engine::store::Uses::ALL,
    };
    let how = if phase == "load" { Prepare::Fresh } else { Prepare::Keep };
    store.prepare(&Layout { collections: vec![layout] }, how).unwrap();
    let phase = study.phases.iter().find(|found| found.name == phase).unwrap();
    let plan = PhasePlan::resolve(&study, phase, &catalog, &store.capabilities()).unwrap();
    let before = BY_WORKERS.load(Ordering::Relaxed);
    let context = PhaseContext {
        catalog,
        clock: RealClock::new(),
        stop: Arc::new(Stop::new()),
        seed: 1,
        // Each interval sends its record to the main thread.
        interval: Duration::from_secs(3_600),
        begin: None,
        written: &mut Written::default(),
        companions: Vec::new(),
        gone: &|| false,
        observer: &mut |_: &Event<'_>| {},
    };
    let record = run_phase(store, &plan, context).unwrap();
    assert_eq!(record.total.ops[0].errors(), 0, "{:?}", record.messages);
    BY_WORKERS.load(Ordering::Relaxed) - before
}

/// Compares phases of `more` and of three times as many operations. `at_most` is for each further one.
fn check(url: &str, more: u64, at_most: f64) {
    let store = storebench_stores::open(url).unwrap();
    store.inspect().unwrap();
    allocations(&store, 1, "load");
    for kind in KINDS {
        let [few, many] = [more, 3 * more].map(|operations| allocations(&store, operations, kind));
        let each = many.saturating_sub(few) as f64 / (2 * more) as f64;
        println!("{url} {kind}: {few} allocations at first, {each:.3} for each further operation");
        assert!(few > 0, "nothing was counted");
        assert!(each < at_most, "{url} {kind}: {few} allocations in {more} operations, {many} in {}", 3 * more);
    }
    store.close().unwrap();
}

#[test]
fn no_operation_allocates() {
    check("null:", 20_000, NONE);
    let folder = tempfile::tempdir().unwrap();
    check(&format!("sqlite:{}", folder.path().join("a.db").display()), 500, NONE);
    for (name, operations) in [("redis", 1_000), ("memcached", 1_000), ("postgres", 1_000), ("pouchdb-server", 300)] {
        let server = Server::start(name);
        check(&server.url, operations, NONE);
    }
    // A document that was read is converted from BSON into a buffer of its own.
    check(&Server::start("nx-27017").url, 1_000, 1.0 + NONE);
}
