//! What MongoDB reports about itself: statistics, query plans, samples.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ::bson::doc;
use storebench_engine::store::{Explanation, Stats, StoreError};

use super::bson::{self, Members};
use super::commands::Collection;
use super::control::{ControlConnection, PATIENCE};
use super::decode;
use super::encode::KEY;
use super::job::key_text;
use crate::net::settled;

/// Paths in `serverStatus`, each with its name here and the factor for its unit:
/// <https://www.mongodb.com/docs/manual/reference/command/serverStatus/>.
const STATUS: [(&[&str], &str, f64); 22] = [
    (&["connections", "current"], "connections", 1.0),
    (&["mem", "resident"], "resident_bytes", 1_048_576.0),
    (&["globalLock", "currentQueue", "readers"], "queued_readers", 1.0),
    (&["globalLock", "currentQueue", "writers"], "queued_writers", 1.0),
    (&["wiredTiger", "cache", "bytes currently in the cache"], "cache_bytes", 1.0),
    (&["wiredTiger", "cache", "maximum bytes configured"], "cache_limit_bytes", 1.0),
    (&["wiredTiger", "cache", "tracked dirty bytes in the cache"], "cache_dirty_bytes", 1.0),
    (&["wiredTiger", "cache", "pages requested from the cache"], "cache_requests", 1.0),
    (&["wiredTiger", "cache", "pages read into cache"], "cache_misses", 1.0),
    (&["wiredTiger", "cache", "pages written from cache"], "cache_pages_written", 1.0),
    (&["wiredTiger", "log", "log bytes written"], "journal_written_bytes", 1.0),
    (&["wiredTiger", "log", "log sync operations"], "journal_syncs", 1.0),
    (&["wiredTiger", "transaction", "transaction checkpoint currently running"], "checkpoints_running", 1.0),
    (&["wiredTiger", "checkpoint", "progress state"], "checkpoint_state", 1.0),
    (&["wiredTiger", "transaction", "transaction checkpoint most recent time (msecs)"], "checkpoint_last_ms", 1.0),
    (&["wiredTiger", "block-manager", "bytes read"], "disk_read_bytes", 1.0),
    (&["wiredTiger", "block-manager", "bytes written"], "disk_written_bytes", 1.0),
    (&["flowControl", "isLagged"], "replication_lagged", 1.0),
    (&["indexBuilds", "total"], "index_builds_begun", 1.0),
    (&["indexBuilds", "phases", "commit"], "index_builds_done", 1.0),
    (&["metrics", "ttl", "deletedDocuments"], "expired_documents", 1.0),
    (&["metrics", "queryExecutor", "collectionScans", "total"], "collection_scans", 1.0),
];

/// Paths in `dbStats`.
const DATABASE: [(&str, &str); 5] = [
    ("objects", "documents"),
    ("dataSize", "data_bytes"),
    ("storageSize", "storage_bytes"),
    ("freeStorageSize", "free_storage_bytes"),
    ("indexSize", "index_bytes"),
];

/// A number, or 1 or 0 for a truth value.
pub(super) fn number(document: Members<'_>, path: &[&str]) -> Option<f64> {
    let value = document.at(path)?;
    if value.kind == bson::BOOL { Some(f64::from(u8::from(value.is_true()))) } else { value.as_f64() }
}

/// The server's statistics, as far as it reports them and this user may read them.
pub(super) async fn read(control: &mut ControlConnection<'_>) -> Result<Stats, StoreError> {
    let mut stats = Stats::new();
    if let Ok(reply) = control.ask("admin", PATIENCE, doc! { "serverStatus": 1 }).await?
        && let Ok(told) = Members::of(&reply)
    {
        // Other servers with this protocol use other units.
        let mongo = told.get("process").and_then(|p| p.as_str()).is_none_or(|p| p.starts_with("mongo"));
        for (path, name, unit) in STATUS {
            if let Some(value) = number(told, path).filter(|_| mongo || unit == 1.0) {
                stats.push((name.to_owned(), value * unit));
            }
        }
        let of = |name: &str| stats.iter().find(|(other, _)| other == name).map(|(_, value)| *value);
        if let (Some(misses), Some(requests)) = (of("cache_misses"), of("cache_requests"))
            && requests > 0.0
        {
            stats.push(("cache_miss_ratio".to_owned(), misses / requests));
        }
    }
    let command = doc! { "dbStats": 1, "freeStorage": 1 };
    if let Ok(reply) = control.ask(&control.target.database, PATIENCE, command).await?
        && let Ok(told) = Members::of(&reply)
    {
        for (path, name) in DATABASE {
            if let Some(value) = number(told, &[path]) {
                stats.push((name.to_owned(), value));
            }
        }
        if let (Some(free), Some(storage)) = (number(told, &["freeStorageSize"]), number(told, &["storageSize"]))
            && storage > 0.0
        {
            stats.push(("fragmentation_ratio".to_owned(), free / storage));
        }
    }
    Ok(stats)
}

/// Flushes everything to the data files and waits for it: a checkpoint.
pub(super) async fn settle(control: &mut ControlConnection<'_>, at_most: Duration) -> Result<bool, StoreError> {
    let begun = Instant::now();
    let within = at_most.max(Duration::from_millis(1));
    match control.ask("admin", within, doc! { "fsync": 1 }).await {
        Ok(Ok(_)) => return Ok(true),
        // Not permitted or not supported: wait for the server's own checkpoint, if it reports one.
        Ok(Err(_)) => {}
        Err(_) if begun.elapsed() >= at_most => return Ok(false),
        Err(error) => return Err(error),
    }
    let left = at_most.saturating_sub(begun.elapsed());
    settled(left, Duration::from_millis(100), async || {
        let stats = read(control).await?;
        let of = |name: &str| stats.iter().find(|(other, _)| other == name).map_or(0.0, |(_, value)| *value);
        Ok(of("checkpoints_running") == 0.0 && of("queued_writers") == 0.0)
    })
    .await
}

/// Draws keys with `$sample`; where the server has no such stage, from all keys, of which every `n`th is kept. The server
/// chooses them; `seed` only decides their order.
pub(super) async fn sample(
    control: &mut ControlConnection<'_>,
    collection: &Collection,
    at_most: usize,
    seed: u64,
) -> Result<Vec<String>, StoreError> {
    if at_most == 0 {
        return Ok(Vec::new());
    }
    let size = i64::try_from(at_most).unwrap_or(i64::MAX);
    let command = doc! {
        "aggregate": &collection.name,
        "pipeline": [{ "$sample": { "size": size } }, { "$project": { KEY: 1 } }],
        "cursor": {},
    };
    let doing = format!("sample `{}`", collection.name);
    let key = |document: &[u8]| Some(key_text(Members::of(document).ok()?.get(KEY)?)?.into_owned());
    // `$sample` may return a document twice.
    let mut drawn = BTreeSet::new();
    let mut keys =
        match control.each(&collection.database, &doing, command, |document| drawn.extend(key(document))).await? {
            Ok(()) => drawn.into_iter().collect(),
            Err(told) if told.is_lacking() => {
                let all = doc! { "find": &collection.name, "projection": { KEY: 1 } };
                let mut spread = Spread::new(at_most);
                let add = |document: &[u8]| key(document).into_iter().for_each(|key| spread.add(key));
                let read = control.each(&collection.database, &doing, all, add).await?;
                read.map_err(|told| told.control(&control.place(), &doing))?;
                spread.kept
            }
            Err(told) => return Err(told.control(&control.place(), &doing)),
        };
    fastrand::Rng::with_seed(seed).shuffle(&mut keys);
    keys.truncate(at_most);
    Ok(keys)
}

/// Every `n`th of the keys that are added, so that at least `at_most` of many are kept, and at most twice as many.
struct Spread {
    at_most: usize,
    every: usize,
    seen: usize,
    kept: Vec<String>,
}

impl Spread {
    fn new(at_most: usize) -> Self {
        Self { at_most, every: 1, seen: 0, kept: Vec::new() }
    }

    fn add(&mut self, key: String) {
        if self.seen.is_multiple_of(self.every) {
            self.kept.push(key);
            if self.kept.len() >= self.at_most.saturating_mul(2) {
                let mut nth = 0;
                self.kept.retain(|_| {
                    nth += 1;
                    nth % 2 == 1
                });
                self.every *= 2;
            }
        }
        self.seen += 1;
    }
}

/// The plan in the answer to `explain`.
pub(super) fn explanation(reply: &[u8]) -> Result<Explanation, StoreError> {
    let wrong = || StoreError::Failed("the server's query plan cannot be decoded".into());
    let told = Members::of(reply).map_err(|_| wrong())?;
    // A router reports one plan for each shard.
    let plan = told.at(&["queryPlanner", "winningPlan"]).or_else(|| told.get("queryPlanner")).ok_or_else(wrong)?;
    let mut text = Vec::new();
    decode::write(plan, &mut text, 0).map_err(|_| wrong())?;
    let plan = String::from_utf8(text).map_err(|_| wrong())?;
    // nx-27017 reports SQLite's plan: `SCAN table` is a full scan.
    let full_scan = plan.contains("\"COLLSCAN\"") || plan.contains("\"detail\":\"SCAN ");
    Ok(Explanation { plan, full_scan })
}
