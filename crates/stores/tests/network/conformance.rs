//! Runs the conformance suite on every server. These tests take longest, and their name makes them start first.

use std::sync::Arc;

use storebench_engine::store::AnyStore;

use crate::server::{Server, conforms, conforms_but};

fn open(url: &str) -> Arc<dyn AnyStore> {
    storebench_stores::open(url).unwrap()
}

#[cfg(feature = "cql")]
#[test]
fn cassandra() {
    let server = crate::cassandra::quick();
    conforms(&*open(&server.url));
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
    fn one_node_with_compressed_documents() {
        leaves_nothing(&fake(FakeOptions::default()), "?compression=snappy");
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

/// DynamoDB has no items larger than 400 KB.
#[cfg(feature = "dynamodb")]
const TOO_LARGE: [(&str, &str); 2] = [
    ("documents: JSON of 2 bytes to 1 MiB comes back", "Item size has exceeded"),
    ("documents: bytes of 2 bytes to 1 MiB come back", "Item size has exceeded"),
];

#[cfg(feature = "dynamodb")]
#[test]
fn dynalite() {
    let server = Server::start("dynalite");
    let store = open(&server.url);
    conforms_but(&*store, &TOO_LARGE);
    let version = store.describe().version;
    assert!(version.starts_with("dynalite, which is not DynamoDB"), "{version}");
}

/// With documents as DynamoDB's own types.
#[cfg(feature = "dynamodb")]
#[test]
fn moto() {
    let server = Server::start("moto");
    let nameless = ("documents: every kind of JSON comes back", "no attribute without a name");
    conforms_but(&*open(&format!("{}?documents=native", server.url)), &[&TOO_LARGE[..], &[nameless]].concat());
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

/// Faults of FerretDB 1.24: it takes no arrays within arrays and no names with dots, and its updates are not atomic.
#[cfg(feature = "mongodb")]
const FERRETDB: [(&str, &str); 6] = [
    ("documents: every kind of JSON comes back", "nested arrays are not supported"),
    ("merge: sets, adds and removes members", "key must not contain '.' sign"),
    ("race: counters add up", "each once"),
    ("race: every cas is based on its own revision", "updates were lost"),
    ("race: merges of different members are all kept", "is missing"),
    ("race: appends are all kept", "were acknowledged"),
];

#[cfg(feature = "mongodb")]
#[test]
fn ferretdb() {
    let server = Server::start("ferretdb");
    let store = open(&format!("{}/conformance", server.url));
    conforms_but(&*store, &FERRETDB);
    let version = store.describe().version;
    assert!(version.starts_with("FerretDB 1.24.2, which is not MongoDB"), "{version}");
}

#[cfg(feature = "mongodb")]
#[test]
fn ferretdb_postgres() {
    let server = Server::start("ferretdb-postgres");
    // PostgreSQL has no room for such a key in an index. FerretDB does not say that nothing was written.
    let long = ("keys: an empty key and one of 100,000 bytes are stored or refused", "index row");
    conforms_but(&*open(&format!("{}/conformance", server.url)), &[&FERRETDB[..], &[long]].concat());
}

/// OpenSearch takes no document with an empty name at its top.
#[cfg(feature = "opensearch")]
const NAMELESS: (&str, &str) = ("documents: every kind of JSON comes back", "field name cannot be an empty string");

#[cfg(feature = "opensearch")]
#[test]
fn opensearch() {
    let server = crate::opensearch::quick(&[]);
    conforms_but(&*open(&server.url), &[NAMELESS]);
}

/// With writes that refresh, on indexes of several shards.
#[cfg(feature = "opensearch")]
#[test]
#[ignore = "soak: minutes of refreshes"]
fn soak_opensearch_that_refreshes() {
    let server = crate::opensearch::quick(&[]);
    conforms_but(&*open(&format!("{}?prefix=other-&refresh=true&shards=3&replicas=0", server.url)), &[NAMELESS]);
}

#[cfg(feature = "mysql")]
#[test]
fn mariadb() {
    let server = crate::mysql::quick();
    let store = open(&server.url);
    conforms(&*store);
    let guaranteed: Vec<_> = store.capabilities().durability.iter().map(|(level, _)| *level).collect();
    assert_eq!(guaranteed, [storebench_engine::store::Durability::MEMORY]);
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
fn valkey() {
    let server = Server::start("valkey");
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
