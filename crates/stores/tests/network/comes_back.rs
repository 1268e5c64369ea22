//! A server is killed and restarted in the middle of a phase. With every driver, one worker with four connections at a
//! fixed rate reconnects by itself.
//!
//! At such a rate, nothing is in flight between two operations, and even less while every operation is rejected. The
//! session must reconnect nevertheless.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use storebench_documents::{Catalog, CatalogOptions};
use storebench_engine::measure::{PhaseRecord, Tally};
use storebench_engine::store::{AnyStore, CollectionLayout, Layout, Prepare};
use storebench_engine::{Companion, Event, PhaseContext, PhasePlan, RealClock, Stop, Watch, Written, run_phase};
use storebench_study::workload::Study;

use crate::server::Server;

/// A phase far longer than any server needs to come back. The test ends it once the server is back.
const STUDY: &str = r#"
title = "comes back"
[collections.documents]
count = 500
size  = 100
[[phases]]
name        = "phase"
workers     = 1
connections = 4
rate        = 200
timeout     = "3s"
mix         = { upsert = 1 }
duration    = "90s"
"#;

/// The number of operations that complete before the kill, and by default the number that fail before the restart.
const ENOUGH: u64 = 100;

/// Kills a server and restarts it.
struct Killer<K, R> {
    kill: K,
    restart: R,
    /// The number of operations that end while the server is down.
    away: u64,
    /// The time of the restart, in ns from the phase's start; 0 until then.
    restarted_ns: Arc<AtomicU64>,
}

impl<K: FnMut() + Send, R: FnMut() + Send> Companion for Killer<K, R> {
    fn accompany(&mut self, watch: &Watch) {
        assert!(watch.wait_for_operations(ENOUGH), "the phase ended before anything was done");
        (self.kill)();
        assert!(watch.wait_for_operations(watch.operations() + self.away), "the phase ended while the server was away");
        (self.restart)();
        self.restarted_ns.store(watch.now_ns().max(1), Ordering::SeqCst);
    }
}

/// Runs the phase, and ends it once [`ENOUGH`] operations succeeded after the restart. Returns how often a connection
/// was lost.
fn comes_back(store: &Arc<dyn AnyStore>, away: u64, kill: impl FnMut() + Send, restart: impl FnMut() + Send) -> u64 {
    let study = Study::parse(STUDY, Path::new("comes-back.toml"), &[]).unwrap();
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
    store.prepare(&Layout { collections: vec![layout] }, Prepare::Fresh).unwrap();
    let plan = PhasePlan::resolve(&study, &study.phases[0], &catalog, &store.capabilities()).unwrap();
    let restarted_ns = Arc::new(AtomicU64::new(0));
    let mut killer = Killer { kill, restart, away, restarted_ns: Arc::clone(&restarted_ns) };
    let stop = Arc::new(Stop::new());
    let asked = Arc::clone(&stop);
    let mut answered = 0;
    let mut observer = |event: &Event<'_>| {
        if let Event::Interval { number, record, .. } = event {
            let begun_at = restarted_ns.load(Ordering::SeqCst);
            // Only intervals that began after the restart.
            if begun_at > 0 && number * INTERVAL.as_nanos() as u64 >= begun_at {
                answered += record.ops[0].succeeded;
            }
            if answered >= ENOUGH {
                asked.ask();
            }
        }
    };
    let context = PhaseContext {
        catalog,
        clock: RealClock::new(),
        stop,
        seed: 1,
        interval: INTERVAL,
        begin: None,
        written: &mut Written::default(),
        companions: vec![&mut killer],
        gone: &|| false,
        observer: &mut observer,
    };
    let record: PhaseRecord = run_phase(store, &plan, context).unwrap();
    let tally: &Tally = &record.total.ops[0];
    assert!(restarted_ns.load(Ordering::SeqCst) > 0);
    assert!(tally.errors() > 0, "the server was down, but nothing failed");
    assert!(answered >= ENOUGH, "the sessions did not reconnect: {answered} answers; {:?}", record.messages);
    record.total.connections.disconnects
}

const INTERVAL: std::time::Duration = std::time::Duration::from_millis(100);

fn real(name: &'static str, arguments: &[&str]) {
    let server = Server::start_with(name, arguments);
    let store = storebench_stores::open(&server.url).unwrap();
    assert!(comes_back(&store, ENOUGH, || server.kill(), || server.restart()) > 0);
    store.close().unwrap();
}

#[test]
#[cfg(feature = "mysql")]
fn to_mariadb() {
    real("mariadb", &[]);
}

#[test]
#[cfg(feature = "postgres")]
fn to_postgres() {
    real("postgres", &[]);
}

#[test]
#[cfg(feature = "redis")]
fn to_redis() {
    real("redis", &["--option=appendonly yes", "--option=appendfsync always"]);
}

#[test]
#[cfg(feature = "cql")]
fn to_cassandra() {
    real("cassandra", &["--option=commitlog_sync: batch"]);
}

#[test]
#[cfg(feature = "memcached")]
fn to_memcached() {
    real("memcached", &[]);
}

#[test]
#[cfg(feature = "mongodb")]
fn to_mongodb() {
    real("nx-27017", &[]);
}

#[test]
#[cfg(feature = "couchdb")]
fn to_couchdb() {
    real("pouchdb-server", &[]);
}

#[test]
#[cfg(feature = "dynamodb")]
fn to_dynamodb() {
    real("dynalite", &[]);
}

#[test]
#[cfg(feature = "ravendb")]
fn to_ravendb() {
    real("ravendb", &[]);
}

#[test]
#[cfg(feature = "opensearch")]
fn to_opensearch() {
    real("opensearch", &[]);
}

#[test]
#[cfg(feature = "couchbase")]
fn to_couchbase() {
    let fake = crate::couchbase::fake(storebench_fakes::couchbase::FakeOptions::default());
    let store = storebench_stores::open(&fake.url()).unwrap();
    // The SDK reports a lost connection only to the operations in flight on it, and lets the others time out. If
    // nothing is in flight when the node dies, no loss is counted, and failures come as slowly as timeouts.
    comes_back(&store, 8, || fake.kill(0), || fake.revive(0));
}

/// As observed with CouchDB 3.5: for about two seconds after it died, each connection is refused.
#[test]
#[cfg(feature = "couchdb")]
fn to_an_http_server_that_refuses_connections_for_longer() {
    let server = Server::start("pouchdb-server");
    let door = Door::open(server.port);
    let url = server.url.replace(&format!(":{}", server.port), &format!(":{}", door.port));
    assert_ne!(url, server.url);
    let store = storebench_stores::open(&url).unwrap();
    // 400 operations at 200 a second.
    assert!(comes_back(&store, 400, || door.shut(), || door.reopen()) > 0);
}

/// A proxy that can be shut, so that a running server becomes unreachable.
struct Door {
    port: u16,
    to: u16,
    /// The open connections; `None` while it is shut.
    through: Arc<Mutex<Option<Vec<std::net::TcpStream>>>>,
}

impl Door {
    fn open(to: u16) -> Self {
        let door = Self { port: crate::server::free_port(), to, through: Arc::default() };
        door.reopen();
        door
    }

    fn reopen(&self) {
        let listener = std::net::TcpListener::bind(("127.0.0.1", self.port)).unwrap();
        *self.through.lock().unwrap() = Some(Vec::new());
        let (to, through) = (self.to, Arc::clone(&self.through));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(here) = stream else { return };
                let there = std::net::TcpStream::connect(("127.0.0.1", to)).unwrap();
                let mut open = through.lock().unwrap();
                // The listener closes when this thread ends.
                let Some(open) = open.as_mut() else { return };
                for (mut from, mut to) in [(&here, &there), (&there, &here)]
                    .map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap()))
                {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(std::net::Shutdown::Both);
                    });
                }
                open.push(here);
            }
        });
    }

    fn shut(&self) {
        let through = self.through.lock().unwrap().take();
        // Wakes the listener, which waits for another connection, so that it notices the shutdown.
        drop(std::net::TcpStream::connect(("127.0.0.1", self.port)));
        for stream in through.into_iter().flatten() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
            std::thread::yield_now();
        }
    }
}

/// A test process with this variable in its environment hosts the store.
#[cfg(all(feature = "hosted", feature = "sqlite"))]
const HOST: &str = "STOREBENCH_TEST_HOST";

#[test]
#[cfg(all(feature = "hosted", feature = "sqlite"))]
fn to_an_embedded_store_in_a_process_of_its_own() {
    if let Some(folder) = std::env::var_os(HOST) {
        let folder = Path::new(&folder);
        let store = storebench_stores::open(&format!("sqlite:{}", folder.join("db").display())).unwrap();
        storebench_stores::host(store, &folder.join("socket")).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let start = || {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "comes_back::to_an_embedded_store_in_a_process_of_its_own"])
            .env(HOST, folder.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        child
    };
    let child = Mutex::new(start());
    let url = format!("hosted+sqlite:{}?socket={}", folder.path().join("db").display(), socket.display());
    let store = storebench_stores::open(&url).unwrap();
    let kill = || {
        let mut child = child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    };
    assert!(comes_back(&store, ENOUGH, kill, || *child.lock().unwrap() = start()) > 0);
    kill();
}
