//! Two copies that begin at the same moment in one place: both keep their marks.

use std::sync::Barrier;

use storebench_engine::store::{AnyStore, CollectionLayout, CopyId, Layout, Owner, Prepare};
use storebench_study::workload::Body;

use crate::server::Server;

fn layout(name: &str) -> Layout {
    let collection = CollectionLayout { name: name.into(), body: Body::Json, indexes: Vec::new(), existing: None };
    Layout { collections: vec![collection] }
}

fn begin_together(url: &str, rounds: u32) {
    // Two stores: the control calls of one take turns.
    let stores = [(); 2].map(|()| storebench_stores::open(url).unwrap());
    let names = ["first", "second"];
    for round in 0..rounds {
        let barrier = Barrier::new(2);
        let copy = |number: usize| {
            barrier.wait();
            stores[number].prepare(&layout(names[number]), Prepare::Copy(CopyId(number as u64)))
        };
        let told = std::thread::scope(|scope| {
            let other = scope.spawn(|| copy(1));
            [copy(0), other.join().unwrap()]
        });
        let store: &dyn AnyStore = &*stores[0];
        for (number, told) in told.into_iter().enumerate() {
            told.unwrap_or_else(|error| panic!("round {round}: {error}"));
            let owner = store.owner_of(names[number]).unwrap();
            assert_eq!(owner, Some(Owner::User(Some(CopyId(number as u64)))), "round {round}: {}", names[number]);
        }
        store.prepare(&layout("first"), Prepare::Discard).unwrap();
        store.remove().unwrap();
    }
}

#[cfg(feature = "memcached")]
#[test]
fn memcached() {
    begin_together(&Server::start("memcached").url, 50);
}

#[cfg(feature = "redis")]
#[test]
fn redis() {
    begin_together(&Server::start("redis").url, 50);
}

#[cfg(feature = "mongodb")]
#[test]
fn mongodb() {
    let server = Server::start("nx-27017");
    begin_together(&format!("{}/together", server.url), 10);
}

#[cfg(feature = "postgres")]
#[test]
fn postgres() {
    begin_together(&Server::start("postgres").url, 20);
}

#[cfg(feature = "couchdb")]
#[test]
fn pouchdb_server() {
    begin_together(&Server::start("pouchdb-server").url, 5);
}

#[cfg(feature = "ravendb")]
#[test]
fn ravendb() {
    begin_together(&Server::start("ravendb").url, 5);
}

#[cfg(feature = "couchbase")]
#[test]
fn couchbase() {
    let fake = crate::couchbase::fake(storebench_fakes::couchbase::FakeOptions::default());
    begin_together(&fake.url(), 10);
}
