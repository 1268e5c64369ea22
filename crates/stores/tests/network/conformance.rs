//! Runs the conformance suite on every server. These tests take longest, and their name makes them start first.

use std::sync::Arc;

use storebench_engine::store::AnyStore;

use crate::server::{Server, conforms};

fn open(url: &str) -> Arc<dyn AnyStore> {
    storebench_stores::open(url).unwrap()
}

#[cfg(feature = "couchbase")]
mod couchbase {
    use super::*;
    use crate::couchbase::{fake, three};
    use storebench_fakes::couchbase::{Fake, FakeOptions};

    fn leaves_nothing(fake: &Fake, options: &str) {
        conforms(&*open(&format!("{}{options}", fake.url())));
        assert_eq!(fake.collections(), ["_default._default"], "something was left behind");
    }

    #[test]
    fn one_node() {
        leaves_nothing(&fake(FakeOptions::default()), "");
    }

    #[test]
    fn one_node_through_the_official_client() {
        leaves_nothing(&fake(FakeOptions::default()), "?client=sdk");
    }

    #[test]
    fn three_nodes_with_replicas() {
        leaves_nothing(&three(2), "");
    }
}

#[cfg(feature = "couchdb")]
#[test]
fn pouchdb_server() {
    let server = Server::start("pouchdb-server");
    conforms(&*open(&server.url));
}

#[cfg(feature = "memcached")]
#[test]
fn memcached() {
    let server = crate::memcached::large();
    conforms(&*open(&server.url));
}

#[cfg(feature = "mongodb")]
#[test]
fn nx_27017() {
    let server = Server::start("nx-27017");
    let store = open(&format!("{}/conformance", server.url));
    conforms(&*store);
    let version = store.describe().version;
    assert!(version.contains("nx-27017") && version.contains("not MongoDB"), "{version}");
}

#[cfg(feature = "postgres")]
#[test]
fn postgres() {
    let server = Server::start("postgres");
    conforms(&*open(&server.url));
}

#[cfg(feature = "postgres")]
#[test]
fn postgres_with_a_standby() {
    let server = Server::start("postgres-standby");
    conforms(&*open(&format!("{}?schema=else where&apply=yes", server.url)));
}

#[cfg(feature = "ravendb")]
#[test]
fn ravendb() {
    let server = Server::start("ravendb");
    conforms(&*open(&server.url));
}

#[cfg(feature = "redis")]
#[test]
fn redis() {
    let server = Server::start("redis");
    conforms(&*open(&server.url));
}

#[cfg(feature = "redis")]
#[test]
fn redis_with_an_order_that_syncs() {
    use storebench_engine::store::Durability;

    let options = ["--option=appendonly yes", "--option=appendfsync always"];
    let server = Server::start_with("redis", &options);
    let store = open(&format!("{}?ordered=yes", server.url));
    store.inspect().unwrap();
    let guaranteed: Vec<_> = store.capabilities().durability.iter().map(|(level, _)| *level).collect();
    assert_eq!(guaranteed, [Durability::MEMORY, Durability::OS, Durability::FSYNC]);
    conforms(&*store);
}

#[cfg(feature = "redis")]
#[test]
fn redis_cluster() {
    let server = Server::start("redis-cluster");
    conforms(&*open(&server.url));
}
