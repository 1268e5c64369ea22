//! What a server reports about itself. Virtual tables tell of the node that answers.

use std::collections::{BTreeMap, BTreeSet};

use storebench_engine::store::{Stats, StoreError, StoreSettings};

use super::link::{Cells, Link, literal};
use super::settings::Settings;
use crate::net::untold_settings;

/// The thread pools that are reported and what for, and whether a node is idle only without tasks in them.
const POOLS: [(&str, &str, bool); 5] = [
    ("CompactionExecutor", "compactions", true),
    ("MemtableFlushWriter", "flushes", true),
    ("Native-Transport-Requests", "requests", false),
    ("ReadStage", "reads", false),
    ("SecondaryIndexManagement", "index_builds", true),
];
/// The settings that are reported.
const SETTINGS: &str = "auto_snapshot batch_size_fail_threshold cas_contention_timeout commitlog_compression \
                        commitlog_segment_size commitlog_sync commitlog_sync_group_window commitlog_sync_period \
                        commitlog_total_space compaction_throughput concurrent_compactors concurrent_reads \
                        concurrent_writes disk_access_mode file_cache_size key_cache_size max_mutation_size \
                        memtable_allocation_type memtable_flush_writers memtable_heap_space memtable_offheap_space \
                        native_transport_max_frame_size num_tokens paxos_variant row_cache_size";

const ASK_POOLS: &str = "SELECT name, active_tasks, pending_tasks, blocked_tasks FROM system_views.thread_pools";

/// How the figures of two tables are put together.
type Joined = fn(f64, f64) -> f64;

/// What is told of each table, by which query, and how the tables of the study are put together. The histograms of
/// tombstones are over all reads since the node started, and decay.
const OF_TABLES: [(&str, &str, Joined); 3] = [
    ("disk_mebibytes", "mebibytes FROM system_views.disk_usage", |one, other| one + other),
    ("tombstones_per_read_p99", "p99th FROM system_views.tombstones_per_read", f64::max),
    ("tombstones_per_read_max", "max FROM system_views.tombstones_per_read", f64::max),
];

/// The statistics of the node that answers.
pub(super) async fn statistics(link: &Link, keyspaces: &BTreeSet<&str>) -> Result<Stats, StoreError> {
    let mut stats = Stats::new();
    for row in link.rows_if_known(ASK_POOLS).await {
        let Some((_, what, _)) = POOLS.iter().find(|(name, ..)| *name == row.text(0)) else { continue };
        for (column, state) in [(1, "active"), (2, "pending"), (3, "blocked")] {
            stats.extend(row.number(column).map(|number| (format!("{what}_{state}"), number)));
        }
    }
    for (name, query, together) in OF_TABLES {
        let rows = link.rows_if_known(format!("SELECT keyspace_name, {query}")).await;
        let ours = rows.iter().filter(|row| keyspaces.contains(row.text(0)));
        let number = ours.filter_map(|row| row.number(1)).reduce(together);
        stats.extend(number.map(|number| (name.to_owned(), number)));
    }
    Ok(stats)
}

/// How many nodes have each value.
type Counts = BTreeMap<String, usize>;

fn counted(values: &Counts, word: &str) -> String {
    values.iter().map(|(value, nodes)| format!("{nodes} {word} {value}")).collect::<Vec<_>>().join(", ")
}

/// Whether the node has no work in the background. A server that does not tell is never known to be idle.
pub(super) async fn is_idle(link: &Link) -> bool {
    let rows = link.rows_if_known(ASK_POOLS).await;
    let busy = |column, row: &Cells| row.number(column).is_none_or(|tasks| tasks > 0.0);
    let counts = |row: &&Cells| POOLS.iter().any(|(name, _, idles)| *idles && *name == row.text(0));
    !rows.is_empty() && rows.iter().filter(counts).all(|row| !busy(1, row) && !busy(2, row))
}

/// How the nodes and the keyspace are set up.
pub(super) async fn settings(link: &Link, settings: &Settings) -> Result<StoreSettings, StoreError> {
    let mut reported = StoreSettings::default();
    // By name, on how many nodes a setting has each of its values.
    let mut all: BTreeMap<String, Counts> = BTreeMap::new();
    let nodes = link.rows_by_node("SELECT name, value FROM system_views.settings").await;
    reported.incomplete = nodes.iter().any(Result::is_err);
    for row in nodes.iter().flatten().flatten().filter(|row| SETTINGS.split(' ').any(|name| name == row.text(0))) {
        *all.entry(row.text(0).to_owned()).or_default().entry(row.text(1).to_owned()).or_default() += 1;
    }
    if all.is_empty() {
        return Err(untold_settings(matches!(nodes.first(), Some(Err(StoreError::NotSupported(_))))));
    }
    for (name, values) in &all {
        let same = values.len() == 1;
        reported.add(name, if same { values.keys().cloned().collect() } else { counted(values, "with") }, None);
    }
    let mut places = Counts::new();
    for node in link.session.get_cluster_state().get_nodes_info() {
        let [datacenter, rack] = [&node.datacenter, &node.rack].map(|name| name.as_deref().unwrap_or("?"));
        *places.entry(format!("{datacenter}/{rack}")).or_default() += 1;
    }
    reported.add("nodes", counted(&places, "in"), None);
    let keyspace = literal(&settings.keyspace);
    let query = format!("SELECT toJson(replication) FROM system_schema.keyspaces WHERE keyspace_name = {keyspace}");
    if let Some(row) = link.rows_if_known(query).await.first() {
        reported.add("replication of the keyspace", row.text(0), None);
    }
    Ok(reported)
}
