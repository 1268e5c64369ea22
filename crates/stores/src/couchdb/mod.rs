//! `couchdb://USER@HOST:PORT` and `couchdbs://…` (over TLS): Apache CouchDB, through its HTTP interface.
//!
//! A collection is a database `storebench-NAME` (`?prefix=` changes the first part). In it, a local document
//! `_local/storebench` says that Storebench created it. Keys are document ids. An index of a study is a Mango index in
//! its own design document.
//!
//! | guarantee | CouchDB | pouchdb-server |
//! |---|---|---|
//! | `none` | refused | in memory: the only level |
//! | `os` | same as `fsync`: CouchDB has no weaker level | LevelDB: written to its log, not synced |
//! | `fsync` | 3.x syncs each write before it answers; 2.x does so on request (`X-Couch-Full-Commit`) | refused |
//! | `majority` | more than half of the replicas (the default quorum `w`); HTTP 202, which means fewer, is *outcome unknown* | refused |
//!
//! The driver was tested with pouchdb-server 4.2, which offers CouchDB's interface over LevelDB or memory. It was not
//! tested with CouchDB. Where the two differ (reading a revision, sizes, tasks, quorums), the driver follows the
//! documentation of CouchDB 3.x. `storebench conform couchdb://…` runs the suite against your server.

mod bulk;
mod dialect;
#[cfg(test)]
mod fuzz;
mod json;
mod memory;
mod pages;
mod rows;
mod sample;
mod server;
mod settings_reported;
mod site;
mod store;
mod study_queries;

use crate::net::with_net_options;
use crate::registry::{OptionHelp, Scheme};
pub(crate) use store::CouchStore;

pub(crate) const SCHEME: Scheme = Scheme {
    name: "couchdb",
    aliases: &["couchdbs"],
    what: "Apache CouchDB over HTTP: documents with revisions, Mango indexes, views",
    example: "couchdb://admin@127.0.0.1:5984",
    options: with_net_options![OptionHelp {
        name: "prefix",
        meaning: "prefix of the names of Storebench's databases (default `storebench-`)",
    }],
    decorator: false,
};
