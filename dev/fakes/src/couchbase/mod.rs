//! A small Couchbase cluster in one process, on ports of 127.0.0.1.
//!
//! It supports enough of the [memcached binary protocol] with Couchbase's extensions, of the management API and of the
//! query service for the official SDK to work: HELLO, SASL (SCRAM verified on both sides; PLAIN over TLS only), bucket
//! selection, cluster maps with several nodes and replicas, collections, documents with CAS and expiry, counters,
//! append and prepend, sub-documents, durability levels, and the few SQL++ statements that Storebench's driver sends.
//! It refuses everything else.
//!
//! It is more than a stub: every node has its own copies, a request for a partition that the node does not hold is
//! answered with *not my vbucket*, a key in the wrong partition is an error, and a durable write is acknowledged only
//! when a majority of copies holds it. Through [`Fake`], tests stop nodes, stall operations, inject failures and
//! corrupt answers.
//!
//! [memcached binary protocol]: https://github.com/couchbase/kv_engine/blob/master/docs/BinaryProtocol.md

mod cluster;
mod connection;
mod documents;
mod durable;
mod fake;
mod garbage;
mod http;
mod management;
mod map;
mod operations;
mod packet;
mod query;
mod scram;
mod statement;
mod subdoc;
mod views;

pub use fake::{Fake, FakeOptions, Lacks, QueryService, Tls};
pub use garbage::Garbage;
