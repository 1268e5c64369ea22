//! Statistics of the server.

use storebench_engine::store::{Account, Stats, StoreError};

use super::namespace::Prefix;
use super::reach::Reached;
use super::settings::Settings;

/// How to combine a figure over several nodes.
#[derive(Clone, Copy)]
enum Over {
    Sum,
    Greatest,
}

/// Names in `INFO`, and Storebench's names.
const FIGURES: &[(&str, &str, Over)] = &[
    ("used_memory", "used_memory_bytes", Over::Sum),
    ("used_memory_rss", "used_memory_rss_bytes", Over::Sum),
    ("used_memory_dataset", "dataset_bytes", Over::Sum),
    ("maxmemory", "maxmemory_bytes", Over::Sum),
    ("mem_fragmentation_ratio", "fragmentation_ratio", Over::Greatest),
    ("keyspace_hits", "keyspace_hits", Over::Sum),
    ("keyspace_misses", "keyspace_misses", Over::Sum),
    ("evicted_keys", "evicted_keys", Over::Sum),
    ("expired_keys", "expired_keys", Over::Sum),
    ("connected_clients", "connected_clients", Over::Sum),
    ("blocked_clients", "blocked_clients", Over::Sum),
    ("connected_slaves", "connected_replicas", Over::Sum),
    ("total_commands_processed", "commands", Over::Sum),
    ("total_net_input_bytes", "net_input_bytes", Over::Sum),
    ("total_net_output_bytes", "net_output_bytes", Over::Sum),
    ("used_cpu_sys", "cpu_system_s", Over::Sum),
    ("used_cpu_user", "cpu_user_s", Over::Sum),
    ("aof_enabled", "aof_enabled", Over::Greatest),
    ("aof_rewrite_in_progress", "aof_rewrites_running", Over::Sum),
    ("aof_current_size", "aof_bytes", Over::Sum),
    ("aof_base_size", "aof_base_bytes", Over::Sum),
    ("aof_buffer_length", "aof_buffer_bytes", Over::Sum),
    ("aof_pending_bio_fsync", "aof_syncs_pending", Over::Sum),
    ("aof_delayed_fsync", "aof_syncs_delayed", Over::Sum),
    ("rdb_bgsave_in_progress", "rdb_saves_running", Over::Sum),
    ("rdb_changes_since_last_save", "rdb_changes_unsaved", Over::Sum),
    ("lazyfree_pending_objects", "lazy_frees_pending", Over::Sum),
];

/// The figures of all nodes.
pub(super) async fn stats(reached: &mut Reached) -> Result<Stats, StoreError> {
    let mut stats = Stats::new();
    let mut add = |name: &str, value: f64, over: Over| match stats.iter_mut().find(|(other, _)| other == name) {
        None => stats.push((name.to_owned(), value)),
        Some((_, total)) => match over {
            Over::Sum => *total += value,
            Over::Greatest => *total = total.max(value),
        },
    };
    for node in &mut reached.nodes {
        let info = node.info("everything").await?;
        for (theirs, ours, over) in FIGURES {
            if let Some(value) = info.number(theirs) {
                add(ours, value, *over);
            }
        }
        let offset = info.number("master_repl_offset").unwrap_or(0.0);
        for (_, value) in info.lines().filter(|(name, _)| is_numbered(name, "slave")) {
            if let (Some(theirs), Some(lag_s)) = (field(value, "offset"), field(value, "lag")) {
                add("replication_lag_bytes", (offset - theirs).max(0.0), Over::Greatest);
                add("replication_lag_s", lag_s, Over::Greatest);
            }
        }
        let databases = info.lines().filter(|(name, _)| is_numbered(name, "db"));
        for keys in databases.filter_map(|(_, value)| field(value, "keys")) {
            add("keys", keys, Over::Sum);
        }
    }
    Ok(stats)
}

/// What the server counts: keys of the whole database, and keys that it removed.
pub(super) async fn account(reached: &mut Reached, settings: &Settings) -> Result<Account, StoreError> {
    let marked = Prefix { reached, settings }.marker().await?.made.is_some();
    let (mut keys, mut evicted, mut limits) = (0, 0.0, Vec::new());
    for node in &mut reached.nodes {
        let info = node.info("everything").await?;
        // A key that has expired was not lost.
        keys += node.number(&[b"DBSIZE"]).await?.unsigned_abs() + info.number("expired_keys").unwrap_or(0.0) as u64;
        evicted += info.number("evicted_keys").unwrap_or(0.0);
        let limit = info.number("maxmemory").filter(|bytes| *bytes > 0.0);
        let policy = info.get("maxmemory_policy").filter(|policy| *policy != "noeviction");
        limits.extend(
            limit
                .zip(policy)
                .map(|(bytes, policy)| format!("maxmemory {:.0} MB with maxmemory-policy {policy}", bytes / 1e6)),
        );
    }
    Ok(Account {
        documents: Some(keys - u64::from(marked)),
        evicted: Some(evicted as u64),
        evicts: limits.into_iter().next(),
        ..Account::default()
    })
}

/// Whether no node is saving, rewriting, freeing or syncing in the background.
pub(super) async fn is_settled(reached: &mut Reached) -> Result<bool, StoreError> {
    const RUNNING: [&str; 5] = [
        "rdb_bgsave_in_progress",
        "aof_rewrite_in_progress",
        "aof_rewrite_scheduled",
        "aof_pending_bio_fsync",
        "lazyfree_pending_objects",
    ];
    for node in &mut reached.nodes {
        let info = node.info("everything").await?;
        if RUNNING.iter().any(|name| info.number(name).is_some_and(|running| running > 0.0)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a line is one of several alike: `slave0:ip=127.0.0.1,port=6380,state=online,offset=14,lag=1`,
/// `db0:keys=1,expires=0,avg_ttl=0`.
fn is_numbered(name: &str, what: &str) -> bool {
    name.strip_prefix(what).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn field(value: &str, name: &str) -> Option<f64> {
    value.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_lines_are_found() {
        let line = "ip=127.0.0.1,port=6380,state=online,offset=14,lag=1";
        assert_eq!((field(line, "offset"), field(line, "lag"), field(line, "set")), (Some(14.0), Some(1.0), None));
        let is_database = |name| is_numbered(name, "db");
        assert!(is_database("db0") && !is_database("db") && !is_database("dbx"));
    }
}
