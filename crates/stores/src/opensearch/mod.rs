//! `opensearch://USER@HOST:PORT`, also written `elasticsearch://`, and `opensearchs://` and `elasticsearchs://` (over
//! TLS): OpenSearch 2.12 to 3 and Elasticsearch 7.11 to 9, through their HTTP interface. On older ones, from
//! OpenSearch 1 and Elasticsearch 7.10 on, only what others made can be read and written.
//!
//! A collection is an index `storebench-NAME` (`?prefix=` changes the first part). Keys are `_id`s. The index has two
//! aliases. `….mark.MARK` is Storebench's mark: one request replaces it only if it still is what was found
//! (`must_exist`, which older versions lack). Writes go
//! through `….documents` and require an alias, because the server would create a missing index.
//!
//! Documents are stored as they are (`dynamic: false`): only fields that a study indexes are mapped, as keywords. An
//! index that is read in key order has one more member in each document, a copy of its key, since nothing can be sorted by
//! `_id`. The driver adds and removes it. Indexes that copies write into have none: a copy out reads them shard by shard.
//!
//! **Visibility and durability are two things.** A read by key finds each write at once. A search (page, prefix, scan)
//! sees what the last refresh has published, once a second by default. With the consistency `strong`, the driver
//! refreshes an index before each search of it, or `?refresh=wait_for` makes each write wait until it is published.
//!
//! | guarantee | means |
//! |---|---|
//! | `none` | `index.translog.durability=async`: the log is written every 5 s; a crash of the process loses the rest |
//! | `os` | refused: there is no such level; `fsync` includes it |
//! | `fsync` | `index.translog.durability=request`: each write is synced to disk by every copy before it is answered |
//! | `acknowledged by N, persisted disk on N` | with `?replicas=N-1`: the answer names N copies that have done so |
//!
//! `wait_for_active_shards` is no guarantee: it is checked before the write, so the driver also counts the copies in
//! each answer.
//!
//! The driver was tested with OpenSearch 2.19. For others it follows their documentation, and `storebench conform` runs
//! the suite against your server.

mod bulk;
mod capabilities;
mod dialect;
mod errors;
#[cfg(test)]
mod fuzz;
mod json;
mod memory;
mod rows;
mod sample;
mod server;
mod settings_reported;
mod site;
mod store;
mod study_queries;
mod theirs;
mod walk;

use crate::net::with_net_options;
use crate::registry::{OptionHelp, Scheme};
pub(crate) use store::OpenSearchStore;

pub(crate) const SCHEME: Scheme = Scheme {
    name: "opensearch",
    aliases: &["opensearchs", "elasticsearch", "elasticsearchs"],
    what: "OpenSearch and Elasticsearch over HTTP: JSON documents in indexes that are searched",
    example: "opensearch://admin@127.0.0.1:9200",
    options: with_net_options![
        OptionHelp { name: "prefix", meaning: "prefix of the names of Storebench's indexes (default `storebench-`)" },
        OptionHelp {
            name: "refresh",
            meaning: "when searches see a write: false (after the next refresh, the default), wait_for (the write waits \
                      for it), true (it causes one)",
        },
        OptionHelp {
            name: "replicas",
            meaning: "replicas of each index that Storebench creates; a write may wait for them (default: the server's)",
        },
        OptionHelp {
            name: "shards",
            meaning: "primary shards of each index that Storebench creates (default: the server's)",
        },
    ],
    decorator: false,
};
