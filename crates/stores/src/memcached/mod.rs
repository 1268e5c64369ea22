//! `memcached:`: memcached 1.6, through its meta protocol, pipelined: one write for all requests that were submitted
//! together, and one answer for each.
//!
//! | operation | command |
//! |---|---|
//! | insert, upsert, replace, append, prepend | `ms` with mode `E`, none, `R`, `A`, `P` |
//! | read, exists, touch, delete | `mg … v c`, `mg`, `mg … T`, `md` |
//! | cas | `ms … C`: memcached's unique number of each change |
//! | counter | `ma`; stored with 2⁶³ added, because memcached's counters are unsigned |
//! | merge | the client reads and merges, and stores the result if the document has not changed, or else starts over |
//! | bulk read | one `get` of all keys; of counters, and if a key needs base64, one `mg` for each key |
//! | other bulk operations | one command for each item, all in one write; each item has its own outcome |
//! | prefix, scan, page, view | refused: memcached has neither order nor index |
//!
//! The only guarantee is `none`: a document is in the memory of one process, and may be evicted early when memory is
//! short (the figure `evictions` counts them).
//!
//! # Own wire code
//!
//! There is no official client for Rust. `storebench-bench --only "servers memcached"` compares the driver with
//! `memcaslap`, libmemcached's load generator in C, in one run. The driver uses 0.92 to 1.32 times its CPU time
//! (`docs/benchmarks.md`).

mod control;
#[cfg(test)]
mod fuzz;
mod keys;
mod meta;
mod namespace;
mod request;
mod session;
mod settings;
mod settings_reported;

use std::sync::Arc;
use std::time::Duration;

use storebench_engine::store::ordered_map::strong_reads;
use storebench_engine::store::{
    Account, Capabilities, CollectionId, Description, Durability, Holdings, Layout, OpKind, Prepare, Runtime,
    SessionOptions, Site as _, Stats, Store, StoreError, StoreSettings, Support, prepare, remove,
};
use storebench_study::workload::Body;

use crate::connection::{Link, Ready, again};
use crate::net::{self, Control, KeySample, Memo, settled, with_net_options};
use crate::registry::{OptionHelp, Options, Scheme};
use control::{Connection, PATIENCE, find};
use keys::Listed;
use namespace::Prefix;
use settings::Settings;

use session::Memcached;
pub(crate) use session::MemcachedSession;

pub(crate) const SCHEME: Scheme = Scheme {
    name: "memcached",
    what: "memcached: a cache of values by key, in memory, pipelined",
    example: "memcached://127.0.0.1:11211",
    options: with_net_options![OptionHelp {
        name: "prefix",
        meaning: "prefix of all keys, followed by `:` (default storebench)",
    }],
    decorator: false,
    aliases: &[],
};

/// The server's default maximum item size.
const DEFAULT_LARGEST_BYTES: usize = 1 << 20;

/// The memcached store.
pub(crate) struct MemcachedStore {
    settings: Arc<Settings>,
    control: Control,
    version: Memo<String>,
    ready: Memo<Ready>,
}

impl MemcachedStore {
    /// Reads the URL. Does not connect.
    pub(crate) fn new(url: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        let settings = Arc::new(Settings::read(url, options)?);
        Ok(Self { settings, control: Control::default(), version: Memo::default(), ready: Memo::default() })
    }

    /// Connects for a control call.
    async fn reach(&self) -> Result<Connection, StoreError> {
        let (connection, version) = Connection::open(&self.settings.address, PATIENCE).await?;
        self.version.set(version);
        Ok(connection)
    }

    fn ready(&self) -> Result<Ready, StoreError> {
        self.ready.prepared(&self.settings.address.shown)
    }
}

impl Store for MemcachedStore {
    type Session = MemcachedSession;

    fn describe(&self) -> Description {
        let version = self.version.get().map_or_else(|| "memcached".to_owned(), |v| format!("memcached {v}"));
        Description { scheme: SCHEME.name, url: self.settings.address.shown.clone(), version }
    }

    fn capabilities(&self) -> Capabilities {
        let support = |kind: OpKind| {
            Some(match kind {
                OpKind::Page | OpKind::View | OpKind::Query | OpKind::Prefix | OpKind::Scan => return None,
                OpKind::Transaction => return None,
                OpKind::Counter => {
                    Support::Approximated("stored with 2^63 added, because memcached's counters are unsigned")
                }
                OpKind::MergePatch => Support::Approximated(
                    "the client reads and merges, and stores the result if the document has not changed, or else \
                     starts over",
                ),
                OpKind::BulkInsert | OpKind::BulkUpsert | OpKind::BulkDelete => {
                    Support::Approximated("one request per document, all in one write; no transaction")
                }
                OpKind::BulkRead => Support::Approximated(
                    "one request for all keys; of counters, and of keys that need base64, one for each, all in one write",
                ),
                _ => Support::Native,
            })
        };
        Capabilities {
            operations: OpKind::ALL.into_iter().filter_map(|kind| Some((kind, support(kind)?))).collect(),
            durability: vec![(Durability::MEMORY, "in the memory of one process, which may evict it")],
            shipped_durability: Durability::MEMORY,
            consistency: strong_reads("one server, which answers from its memory"),
            gives_up_at_timeout: true,
            notes: vec![
                "memcached is a cache and evicts documents when memory is short; see `evictions`. It may evict the \
                 marker too. Storebench then treats the remaining data as not its own.",
                "A document, including its header, cannot exceed the server's item size (-I, default 1 MiB).",
                "A key that exceeds 250 bytes with its prefix is replaced by its SHA-256.",
                "Expiry is in whole seconds, and a touch sets at least one. An upsert or replace removes the expiry.",
            ],
            ..Capabilities::default()
        }
    }

    fn runtime(&self) -> Runtime {
        Runtime::Reactor
    }

    fn answers(&self) -> Result<(), StoreError> {
        self.control.block_on(async { self.reach().await.map(drop) })
    }

    fn holdings(&self) -> Result<Holdings, StoreError> {
        self.control.block_on(async { Prefix::new(&mut self.reach().await?, &self.settings).look().await })
    }

    fn collections(&self) -> Result<Vec<String>, StoreError> {
        Err(StoreError::NotSupported("memcached cannot list collections, because its keys have no order".into()))
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        crate::existing::refuse_fields("memcached", layout)?;
        let counters = layout.collections.iter().find(|c| c.existing.is_some() && c.body == Body::Counter);
        if let Some(collection) = counters.filter(|_| how == Prepare::WriteExisting) {
            return Err(StoreError::NotSupported(format!(
                "memcached's counters are unsigned, so the existing counters of `{}` can only be read; counters that \
                 Storebench created can be negative",
                collection.name
            )));
        }
        let generation = self.control.block_on(async {
            let mut connection = self.reach().await?;
            let mut site = Prefix::new(&mut connection, &self.settings);
            if how.makes_nothing() {
                site.marker().await?;
            } else {
                prepare(&mut site, layout, how).await?;
            }
            Ok(site.generation)
        })?;
        let collections = namespace::collections(&self.settings, &generation, layout);
        self.ready.set(Ready { collections, read_only: how == Prepare::ReadOnly });
        Ok(())
    }

    async fn open(&self, options: &SessionOptions) -> Result<MemcachedSession, StoreError> {
        let ready = self.ready()?;
        if !ready.read_only && options.durability != Durability::MEMORY {
            return Err(StoreError::NotSupported(format!(
                "memcached cannot guarantee `{}`: it keeps documents in the memory of one process; use durability = \"none\"",
                options.durability
            )));
        }
        let (mut connection, _) = Connection::open(&self.settings.address, PATIENCE.max(options.timeout)).await?;
        let settings = connection.stats("settings").await?;
        let largest_bytes =
            find(&settings, "item_size_max").and_then(|n| n.parse().ok()).unwrap_or(DEFAULT_LARGEST_BYTES);
        let again = again(Arc::clone(&self.settings), |settings| async move {
            Connection::open(&settings.address, PATIENCE).await?.0.into_stream()
        });
        let link = Link::connected(connection.into_stream()?, again, options.in_flight, options.timeout);
        Ok(MemcachedSession::new(Memcached { largest_bytes }, ready.collections, ready.read_only, vec![link]))
    }

    fn settle(&self, at_most: Duration) -> Result<bool, StoreError> {
        self.control.block_on(async {
            let mut connection = self.reach().await?;
            settled(at_most, Duration::from_millis(20), async || {
                let stats = connection.stats("").await?;
                let busy = ["slab_reassign_running", "hash_is_expanding"];
                Ok(busy.iter().all(|name| find(&stats, name).is_none_or(|running| running == "0")))
            })
            .await
        })
    }

    fn stats(&self) -> Result<Stats, StoreError> {
        const FIGURES: [(&str, &str); 17] = [
            ("bytes", "used_memory_bytes"),
            ("limit_maxbytes", "maxmemory_bytes"),
            ("hash_bytes", "hash_table_bytes"),
            ("slab_global_page_pool", "free_pages"),
            ("curr_items", "keys"),
            ("get_hits", "keyspace_hits"),
            ("get_misses", "keyspace_misses"),
            ("evictions", "evictions"),
            ("reclaimed", "reclaimed_items"),
            ("expired_unfetched", "expired_unread"),
            ("curr_connections", "connected_clients"),
            ("bytes_read", "net_input_bytes"),
            ("bytes_written", "net_output_bytes"),
            ("conn_yields", "connection_yields"),
            ("slab_reassign_running", "slab_moves_running"),
            ("rusage_system", "cpu_system_s"),
            ("rusage_user", "cpu_user_s"),
        ];
        self.control.block_on(async {
            let mut connection = self.reach().await?;
            Prefix::new(&mut connection, &self.settings).marker().await?;
            let stats = connection.stats("").await?;
            let figure = |(theirs, ours): (&str, &str)| {
                let value = find(&stats, theirs)?.parse().ok()?;
                Some((ours.to_owned(), value))
            };
            Ok(FIGURES.into_iter().filter_map(figure).collect())
        })
    }

    fn own_settings(&self) -> Result<StoreSettings, StoreError> {
        self.control.block_on(async {
            let mut connection = self.reach().await?;
            Ok(settings_reported::read(&connection.stats("settings").await?, &connection.stats("").await?))
        })
    }

    fn account(&self, _collection: CollectionId) -> Result<Account, StoreError> {
        self.control.block_on(async {
            let stats = self.reach().await?.stats("").await?;
            let number = |name| find(&stats, name).and_then(|value| value.parse::<u64>().ok());
            // Every server of memcached has a limit. It evicts unless it was started with -M.
            let evicts = number("limit_maxbytes").map(|bytes| format!("a memory limit of {} MB", bytes / 1_000_000));
            Ok(Account { evicted: number("evictions"), evicts, ..Account::default() })
        })
    }

    fn sample_keys(&self, collection: CollectionId, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError> {
        let ready = self.ready()?;
        let collection = net::collection(&ready.collections, collection)?;
        self.control.block_on(async {
            let mut connection = self.reach().await?;
            let mut sample = KeySample::new(at_most, seed);
            let listed = namespace::list(&mut connection, |Listed { key, .. }| {
                sample.see(&collection.prefix, &key);
            })
            .await?;
            if !listed {
                return Err(StoreError::NotSupported(format!(
                    "{} does not list keys, so keys cannot be sampled; start it without -X and with its LRU crawler",
                    connection.host
                )));
            }
            Ok(sample.into_keys())
        })
    }

    fn close(&self) -> Result<(), StoreError> {
        self.ready.take();
        Ok(())
    }

    fn remove(&self) -> Result<(), StoreError> {
        self.ready.take();
        self.control.block_on(async { remove(&mut Prefix::new(&mut self.reach().await?, &self.settings)).await })
    }
}
