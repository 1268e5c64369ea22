//! The store drivers of Storebench, and the registry that opens a store by its URL.
//!
//! A driver's types stay private to its module. The crate exports [`open`], which returns an
//! [`AnyStore`](storebench_engine::store::AnyStore), and [`schemes`], which lists the supported stores.

// The drivers share code. A build with only some drivers leaves part of it unused.
#![cfg_attr(not(feature = "default"), allow(dead_code, unused_imports, unused_variables))]
// The futures of Couchbase's client nest deeper than the default limit of 128.
#![cfg_attr(feature = "couchbase", recursion_limit = "256")]

mod ascii;
#[cfg(feature = "stream")]
mod connection;
#[cfg(feature = "couchbase")]
mod couchbase;
#[cfg(feature = "couchdb")]
mod couchdb;
#[cfg(feature = "cql")]
mod cql;
#[cfg(feature = "dynamodb")]
mod dynamodb;
mod existing;
#[cfg(feature = "sqlite")]
mod fair;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(test)]
mod fuzz;
#[cfg(feature = "hosted")]
mod hosted;
#[cfg(feature = "http")]
mod http;
#[cfg(any(feature = "couchbase", feature = "cql"))]
mod marker;
#[cfg(feature = "memcached")]
mod memcached;
#[cfg(feature = "mongodb")]
mod mongodb;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "stream")]
#[cfg_attr(not(feature = "net"), allow(unused_macros, reason = "a hosted store uses only a small part of it"))]
mod net;
#[cfg(feature = "opensearch")]
mod opensearch;
#[cfg(test)]
#[cfg(all(feature = "fjall", feature = "redb"))]
mod places_tests;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "ravendb")]
mod ravendb;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "redis")]
mod redis;
mod refusals;
mod registry;
mod repeats;
#[cfg(feature = "sqlite")]
mod sqlite;
mod study_queries;

#[cfg(feature = "hosted")]
pub use hosted::serve as host;
use storebench_engine::store::document;

pub use registry::{Open, OptionHelp, Scheme, is_scheme, meant, open, provide, schemes};
