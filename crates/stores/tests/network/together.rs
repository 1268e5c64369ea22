//! Concurrent starts in the same place: copies keep their marks, and the documents that they write.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use storebench_engine::store::{
    AnyStore, CollectionLayout, CopyId, Durability, Layout, Op, Owner, Prepare, StoreError,
};
use storebench_study::workload::Body;

#[cfg(feature = "couchbase")]
use storebench_fakes::couchbase::Fake;

use crate::driven::Driven;
use crate::proxy::interrupting;
use crate::server::Server;

fn layout(name: &str) -> Layout {
    let collection = CollectionLayout {
        name: name.into(),
        body: Body::Json,
        indexes: Vec::new(),
        existing: None,
        uses: storebench_engine::store::Uses::ALL,
    };
    Layout { collections: vec![collection] }
}

/// Two stores, because the control calls of one store run one at a time.
fn stores(url: &str) -> [Arc<dyn AnyStore>; 2] {
    [(); 2].map(|()| storebench_stores::open(url).unwrap())
}

/// Runs two calls concurrently. Returns their results.
fn both<A: Send, B: Send>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B + Send) -> (A, B) {
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            barrier.wait();
            other()
        });
        barrier.wait();
        (one(), other.join().unwrap())
    })
}

fn copied(number: u64) -> Option<Owner> {
    Some(Owner::User(Some(CopyId(number))))
}

fn clear(store: &dyn AnyStore) {
    store.prepare(&layout("first"), Prepare::Discard).unwrap();
    store.remove().unwrap();
}

/// Two copies into different collections.
fn begin_together(url: &str, rounds: u32) {
    let stores = stores(url);
    for round in 0..rounds {
        let begin = |name, number: u64| stores[number as usize].prepare(&layout(name), Prepare::Copy(CopyId(number)));
        let told = both(|| begin("first", 0), || begin("second", 1));
        for (told, name, number) in [(told.0, "first", 0), (told.1, "second", 1)] {
            told.unwrap_or_else(|error| panic!("round {round}: {error}"));
            assert_eq!(stores[0].owner_of(name).unwrap(), copied(number), "round {round}: {name}");
        }
        clear(&*stores[0]);
    }
}

/// Two copies into a collection that a study created. The first one owns it, and the other one sees that.
fn take_over_together(url: &str, rounds: u32) {
    let stores = stores(url);
    for round in 0..rounds {
        stores[0].prepare(&layout("first"), Prepare::Fresh).unwrap();
        let take = |number: u64| {
            let store = &stores[number as usize];
            store.prepare(&layout("first"), Prepare::Copy(CopyId(number))).unwrap();
            store.owner_of("first").unwrap()
        };
        let (one, other) = both(|| take(0), || take(1));
        assert!([copied(0), copied(1)].contains(&one), "round {round}: {one:?}");
        assert_eq!(one, other, "round {round}");
        assert_eq!(stores[0].owner_of("first").unwrap(), one, "round {round}");
        clear(&*stores[0]);
    }
}

/// A copy that starts while the collections of studies are removed either is refused, or keeps its documents.
fn copy_while_removed(url: &str, rounds: u32) {
    let stores = stores(url);
    let study = Layout { collections: ["first", "third"].iter().flat_map(|name| layout(name).collections).collect() };
    stores[0].prepare(&study, Prepare::Fresh).unwrap();
    let begun = Instant::now();
    stores[0].remove().unwrap();
    let usual = begun.elapsed();
    let mut kept = 0;
    for round in 0..rounds {
        // The copy takes over the study's collection, or creates another one.
        for name in ["first", "second"] {
            stores[0].prepare(&study, Prepare::Fresh).unwrap();
            let remove = || {
                std::thread::sleep(usual * (rounds - round) / rounds);
                stores[0].remove()
            };
            let copy = || -> Result<(), StoreError> {
                std::thread::sleep(usual * round / rounds);
                stores[1].prepare(&layout(name), Prepare::Copy(CopyId(1)))?;
                let mut session = Driven::open(&*stores[1], level(&*stores[1]))?;
                session
                    .call(Op::Upsert { key: "a", body: b"{}" })
                    .unwrap_or_else(|error| panic!("round {round}: {error}"));
                Ok(())
            };
            let (removed, told) = both(remove, copy);
            removed.unwrap_or_else(|error| panic!("round {round}: {error}"));
            if let Ok(()) = told {
                kept += 1;
                assert_eq!(stores[0].owner_of(name).unwrap(), copied(1), "round {round}: {name}");
                let mut session = Driven::open(&*stores[1], level(&*stores[1])).unwrap();
                session.call(Op::Read { key: "a" }).unwrap_or_else(|error| panic!("round {round}: {name}: {error}"));
            }
            clear(&*stores[0]);
        }
    }
    assert!(kept > 0, "no copy succeeded");
}

/// Data that others write between the first and the second step of a removal stays.
#[cfg(any(feature = "ravendb", feature = "mongodb"))]
fn others_come_during_a_removal(server: &Server, first_step: &'static [u8], studied_anew: bool) {
    let url = server.url.clone();
    let called = Arc::new(AtomicBool::new(false));
    let by = {
        let (url, called) = (url.clone(), Arc::clone(&called));
        interrupting(server.port, first_step, move || {
            let [study, copy] = stores(&url);
            if studied_anew {
                study.prepare(&layout("first"), Prepare::Fresh).unwrap();
            }
            copy.prepare(&layout("second"), Prepare::Copy(CopyId(1))).unwrap();
            let mut session = Driven::open(&*copy, level(&*copy)).unwrap();
            session.call(Op::Upsert { key: "a", body: b"{}" }).unwrap();
            called.store(true, Ordering::SeqCst);
        })
    };
    let [direct, after] = stores(&url);
    direct.prepare(&layout("first"), Prepare::Fresh).unwrap();
    let slow = storebench_stores::open(&url.replace(&format!(":{}", server.port), &format!(":{by}"))).unwrap();
    slow.remove().unwrap();
    assert!(called.load(Ordering::SeqCst), "the removal has no such step");
    assert_eq!(direct.owner_of("second").unwrap(), copied(1));
    after.prepare(&layout("second"), Prepare::ReadOnly).unwrap();
    let mut session = Driven::open(&*after, level(&*after)).unwrap();
    session.call(Op::Read { key: "a" }).unwrap();
    // The removal is complete for the study's collections.
    assert_eq!(direct.owner_of("first").unwrap(), None);
}

#[cfg(feature = "ravendb")]
#[test]
fn a_ravendb_database_that_others_made_anew_during_a_removal_stays() {
    others_come_during_a_removal(&Server::start("ravendb"), b"\"removing\":true", true);
}

#[cfg(feature = "mongodb")]
#[test]
fn a_mongodb_marker_that_others_wrote_into_during_a_removal_stays() {
    others_come_during_a_removal(&Server::start("nx-27017"), b"\x02delete\0", false);
}

#[cfg(feature = "mongodb")]
#[test]
fn a_copy_waits_until_a_mongodb_marker_is_gone() {
    let server = Server::start("nx-27017");
    let [study, copy] = stores(&server.url);
    let refused = Arc::new(AtomicBool::new(false));
    let by = {
        let (copy, refused) = (Arc::clone(&copy), Arc::clone(&refused));
        interrupting(server.port, b"; removing", move || {
            let told = copy.prepare(&layout("second"), Prepare::Copy(CopyId(1)));
            assert!(matches!(&told, Err(StoreError::Failed(text)) if text.contains("is removing")), "{told:?}");
            refused.store(true, Ordering::SeqCst);
        })
    };
    study.prepare(&layout("first"), Prepare::Fresh).unwrap();
    let slow = storebench_stores::open(&server.url.replace(&format!(":{}", server.port), &format!(":{by}"))).unwrap();
    slow.remove().unwrap();
    assert!(refused.load(Ordering::SeqCst));
    copy.prepare(&layout("second"), Prepare::Copy(CopyId(1))).unwrap();
    assert_eq!(study.owner_of("second").unwrap(), copied(1));
}

/// DeleteTable takes no condition, so a table must not be made again while another removal may still send it.
#[cfg(feature = "dynamodb")]
#[test]
fn a_dynamodb_table_is_not_made_again_while_two_remove_it() {
    let server = Server::start("dynalite");
    let [study, copy] = stores(&server.url);
    let second = Arc::new(std::sync::Mutex::new(None));
    let by = {
        let (url, copy, second) = (server.url.clone(), Arc::clone(&copy), Arc::clone(&second));
        interrupting(server.port, b"; removing", move || {
            let [other, _] = stores(&url);
            *second.lock().unwrap() = Some(std::thread::spawn(move || other.remove()));
            let told = copy.prepare(&layout("first"), Prepare::Copy(CopyId(1)));
            assert!(matches!(&told, Err(StoreError::Failed(text)) if text.contains("is removing")), "{told:?}");
        })
    };
    study.prepare(&layout("first"), Prepare::Fresh).unwrap();
    let slow = storebench_stores::open(&server.url.replace(&format!(":{}", server.port), &format!(":{by}"))).unwrap();
    slow.remove().unwrap();
    let second = second.lock().unwrap().take();
    second.expect("the removal has no such step").join().unwrap().unwrap();
    copy.prepare(&layout("first"), Prepare::Copy(CopyId(1))).unwrap();
    assert_eq!(study.owner_of("first").unwrap(), copied(1));
}

/// The first durability level that the store guarantees.
fn level(store: &dyn AnyStore) -> Durability {
    store.capabilities().durability[0].0
}

/// The three tests, each with its own server.
macro_rules! together {
    ($feature:literal, $name:ident, $server:expr, $url:expr, $rounds:expr) => {
        #[cfg(feature = $feature)]
        mod $name {
            use super::*;

            fn run(test: fn(&str, u32), rounds: u32) {
                let server = $server;
                test(&$url(&server), rounds);
            }

            #[test]
            fn two_copies_begin() {
                run(begin_together, $rounds);
            }

            #[test]
            fn two_copies_take_over() {
                run(take_over_together, $rounds);
            }

            #[test]
            fn a_copy_begins_during_a_removal() {
                run(copy_while_removed, ($rounds / 4).max(4));
            }
        }
    };
}

fn url(server: &Server) -> String {
    server.url.clone()
}

together!("memcached", memcached, Server::start("memcached"), url, 50);
together!("redis", redis, Server::start("redis"), url, 50);
together!("redis", redis_cluster, Server::start("redis-cluster"), url, 10);
together!("mongodb", mongodb, Server::start("nx-27017"), |s: &Server| format!("{}/together", s.url), 10);
together!("mysql", mysql, Server::start("mariadb"), url, 10);
together!("postgres", postgres, Server::start("postgres"), url, 20);
together!("ravendb", ravendb, Server::start("ravendb"), url, 5);
together!("dynamodb", dynalite, Server::start("dynalite"), url, 5);
together!("couchbase", couchbase, crate::couchbase::fake(Default::default()), |s: &Fake| s.url(), 10);

/// No test during a removal, because pouchdb-server left a database behind that was removed during a concurrent read.
#[cfg(feature = "couchdb")]
mod pouchdb_server {
    use super::*;

    #[test]
    fn two_copies_begin() {
        begin_together(&Server::start("pouchdb-server").url, 5);
    }

    #[test]
    fn two_copies_take_over() {
        take_over_together(&Server::start("pouchdb-server").url, 5);
    }
}

/// One server for all three, because it takes long to start.
#[cfg(feature = "opensearch")]
#[test]
fn opensearch() {
    let server = crate::opensearch::quick(&[]);
    begin_together(&server.url, 5);
    take_over_together(&server.url, 5);
    copy_while_removed(&server.url, 4);
}

/// On the server of other tests, because one takes long to start.
#[cfg(feature = "cql")]
pub(crate) fn on_cassandra(url: &str) {
    begin_together(url, 5);
    take_over_together(url, 5);
    copy_while_removed(url, 4);
}
