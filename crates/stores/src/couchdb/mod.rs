//! `couchdb://USER@HOST:PORT` and `couchdbs://…` (over TLS): Apache CouchDB, by its HTTP interface.
//!
//! A collection is a database `storebench-NAME` (`?prefix=` changes the first part), in which a local
//! document `_local/storebench` says that Storebench made it. Keys are document ids. An index of a
//! study is a Mango index in a design document of its own.
//!
//! | guarantee | CouchDB | pouchdb-server |
//! |---|---|---|
//! | `none` | refused | in memory: all there is |
//! | `os` | as `fsync`: nothing weaker can be set | LevelDB: written to its log, not synced |
//! | `fsync` | 3.x syncs each write before it answers; 2.x is asked to (`X-Couch-Full-Commit`) | refused |
//! | `majority` | more than half of the replicas (the default quorum `w`); HTTP 202, which says that they were fewer, is *outcome unknown* | refused |
//!
//! What was tested: pouchdb-server 4.2, which speaks CouchDB's interface over LevelDB or memory. No
//! CouchDB was at hand; where the two differ (how a revision is asked for, sizes, tasks, quorums) the
//! driver follows the documentation of CouchDB 3.x. `storebench conform couchdb://…` runs the suite
//! against yours.

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
mod store;

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
