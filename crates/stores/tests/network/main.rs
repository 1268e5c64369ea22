//! Tests of server drivers, each with a real server that this binary starts: conformance, guarantees, faults.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]
#![cfg_attr(not(feature = "default"), allow(dead_code, unused_imports))]

#[cfg(feature = "net")]
mod comes_back;
mod conformance;
#[cfg(feature = "net")]
mod driven;
#[cfg(any(feature = "couchdb", feature = "opensearch"))]
mod http_help;
#[cfg(feature = "net")]
mod proxy;
mod scripts;
mod server;
#[cfg(feature = "net")]
mod together;

#[cfg(feature = "cql")]
mod cassandra;
#[cfg(feature = "couchbase")]
mod couchbase;
#[cfg(feature = "couchdb")]
mod couchdb;
#[cfg(feature = "dynamodb")]
mod dynamodb;
#[cfg(feature = "memcached")]
mod memcached;
#[cfg(feature = "mongodb")]
mod mongodb;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "opensearch")]
mod opensearch;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "ravendb")]
mod ravendb;
#[cfg(feature = "redis")]
mod redis;
