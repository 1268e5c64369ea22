//! The server's statistics and settings, waiting until it is idle, and query plans.

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Params, Row, Value};
use storebench_engine::store::{Explanation, Stats, StoreError, StoreSettings};

use super::login::Server;
use super::sql::literal;
use crate::net::settled;

/// Counters of `SHOW GLOBAL STATUS`, each with its name here. Versions have different ones.
const FIGURES: &str = "
    Innodb_buffer_pool_read_requests cache_requests     Innodb_buffer_pool_reads cache_misses
    Innodb_buffer_pool_pages_dirty dirty_pages          Innodb_buffer_pool_wait_free waits_for_free_pages
    Innodb_data_fsyncs fsyncs                           Innodb_dblwr_pages_written doublewrite_pages
    Innodb_data_read read_bytes                         Innodb_data_written written_bytes
    Innodb_history_list_length history_list_length      Innodb_deadlocks deadlocks
    Innodb_log_waits log_waits                          Innodb_os_log_written log_bytes
    Innodb_row_lock_current_waits waiting_for_locks     Innodb_row_lock_waits lock_waits
    Innodb_row_lock_time lock_wait_ms                   Innodb_rows_deleted rows_deleted
    Innodb_rows_inserted rows_inserted                  Innodb_rows_read rows_read
    Innodb_rows_updated rows_updated                    Handler_read_rnd_next rows_scanned
    Com_commit commits                                  Com_rollback rollbacks
    Created_tmp_disk_tables temporary_tables_on_disk    Prepared_stmt_count prepared_statements
    Rpl_semi_sync_master_clients semi_sync_replicas     Rpl_semi_sync_master_no_tx commits_without_replica
    Rpl_semi_sync_source_clients semi_sync_replicas     Rpl_semi_sync_source_no_tx commits_without_replica
    Threads_connected connections                       Threads_running active_sessions";

/// The server's own counters, and the sizes of the prepared tables as the server last counted them.
pub(super) async fn statistics(server: &mut Server, places: &[String]) -> Result<Stats, StoreError> {
    let doing = "read its statistics";
    let rows: Vec<(String, String)> = server.query(doing, "SHOW GLOBAL STATUS").await?;
    let words: Vec<&str> = FIGURES.split_whitespace().collect();
    let figure = |(name, value): (String, String)| {
        let [_, here] = words.chunks_exact(2).find(|both| both[0] == name)? else { return None };
        Some(((*here).to_owned(), value.parse().ok()?))
    };
    let mut stats: Stats = rows.into_iter().filter_map(figure).collect();
    if !places.is_empty() {
        let sizes = format!(
            "SELECT CAST(SUM(DATA_LENGTH) AS DOUBLE), CAST(SUM(INDEX_LENGTH) AS DOUBLE), CAST(SUM(DATA_FREE) AS DOUBLE) \
             FROM information_schema.TABLES WHERE CONCAT('`', REPLACE(TABLE_SCHEMA, '`', '``'), '`.`', \
             REPLACE(TABLE_NAME, '`', '``'), '`') IN ({})",
            places.iter().map(|place| literal(place)).collect::<Vec<_>>().join(", ")
        );
        type Sizes = (Option<f64>, Option<f64>, Option<f64>);
        if let Some((data, index, free)) = server.query::<Sizes>(doing, &sizes).await?.pop() {
            let named = [("table_bytes", data), ("index_bytes", index), ("free_bytes", free)];
            stats.extend(named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        }
    }
    let value = |name: &str| stats.iter().find(|(n, _)| n == name).map(|(_, value)| *value);
    if let (Some(requests @ 1.0..), Some(misses)) = (value("cache_requests"), value("cache_misses")) {
        stats.push(("cache_miss_share".into(), misses / requests));
    }
    Ok(stats)
}

/// Statements of a history as short as this are normal on an idle server.
const SHORT_HISTORY: f64 = 50.0;

/// Updates the optimizer's statistics of our tables, as the server would do some time later, and waits until old versions
/// of rows are removed.
pub(super) async fn settle(server: &mut Server, places: &[String], at_most: Duration) -> Result<bool, StoreError> {
    let begun = Instant::now();
    for place in places {
        let sql = format!("ANALYZE TABLE {place}");
        let left = at_most.saturating_sub(begun.elapsed());
        match tokio::time::timeout(left, server.query::<Row>("settle", &sql)).await {
            Ok(done) => drop(done?),
            Err(_) => return Ok(false),
        }
    }
    let mut last = f64::INFINITY;
    settled(at_most.saturating_sub(begun.elapsed()), Duration::from_millis(100), async || {
        let rows: Vec<(String, String)> =
            server.query("settle", "SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'").await?;
        // MySQL does not tell it here.
        let length = rows.first().and_then(|(_, length)| length.parse().ok()).unwrap_or(0.0);
        let rests = length <= SHORT_HISTORY || length >= last;
        last = length;
        Ok(rests)
    })
    .await
}

/// Builds our tables again, without the room of removed rows.
pub(super) async fn compact(server: &mut Server, places: &[String]) -> Result<(), StoreError> {
    if places.is_empty() {
        return Err(StoreError::NotSupported("OPTIMIZE TABLE needs a writable collection that Storebench made".into()));
    }
    for place in places {
        server.query::<Row>("compact its tables", &format!("OPTIMIZE TABLE {place}")).await?;
    }
    Ok(())
}

/// The plan of a statement, which is not executed. Its values are given as to the statement itself.
pub(super) async fn explanation(server: &mut Server, sql: &str, values: Vec<Value>) -> Result<Explanation, StoreError> {
    let explained: Result<Vec<Row>, _> =
        server.conn.exec(format!("EXPLAIN FORMAT=TRADITIONAL {sql}"), Params::Positional(values)).await;
    let rows = explained.map_err(|error| server.target.fault("explain a query", &error))?;
    let mut plan = Explanation { plan: String::new(), full_scan: false };
    for row in &rows {
        let [kind, table, key, estimate, extra] = ["type", "table", "key", "rows", "Extra"].map(|name| {
            let value = row.get::<Value, _>(name).filter(|value| *value != Value::NULL);
            value.map_or("-".to_owned(), |value| value.as_sql(true).trim_matches('\'').to_owned())
        });
        plan.full_scan |= full_scan(&kind, &table, &extra);
        let end = if plan.plan.is_empty() { "" } else { "\n" };
        plan.plan += &format!("{end}{kind} on {table}, key {key}, about {estimate} rows; {extra}");
    }
    Ok(plan)
}

/// Whether a line of a plan reads a whole table, or reads a whole index for its order and filters out most of it.
fn full_scan(kind: &str, table: &str, extra: &str) -> bool {
    !table.starts_with('<') && (kind == "ALL" || (kind == "index" && extra.contains("Using where")))
}

/// The settings that are reported: those that speed, memory and durability depend on.
const SETTINGS: &str = "binlog_format binlog_row_image character_set_server collation_server default_storage_engine \
     flush_time general_log innodb_% join_buffer_size key_buffer_size log_bin log_slow_query max_allowed_packet \
     max_connections max_prepared_stmt_count optimizer_switch performance_schema query_cache_size query_cache_type \
     read_only rpl_semi_sync%enabled rpl_semi_sync%timeout rpl_semi_sync%wait% sort_buffer_size sync_binlog \
     table_open_cache thread_cache_size thread_handling tmp_table_size transaction_isolation tx_isolation wsrep_on";

/// How the server says that it is set up. It does not say which settings were changed. Texts that may name paths are left
/// out.
pub(super) async fn settings(server: &mut Server) -> Result<StoreSettings, StoreError> {
    let likes: Vec<String> =
        SETTINGS.split_whitespace().map(|name| format!("Variable_name LIKE {}", literal(name))).collect();
    let sql = format!("SHOW GLOBAL VARIABLES WHERE {}", likes.join(" OR "));
    let rows: Vec<(String, String)> = server.query("read its settings", &sql).await?;
    let mut settings = StoreSettings::default();
    for (name, value) in rows {
        let names_paths = ["_dir", "_path", "_filename", "_table"].iter().any(|part| name.contains(part));
        if name == "innodb_buffer_pool_size" {
            settings.memory_bytes = value.parse().ok();
        }
        if !names_paths || name == "innodb_file_per_table" {
            settings.add(name, value, None);
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_that_read_everything() {
        assert!(full_scan("ALL", "t", "Using where; Using filesort"));
        assert!(full_scan("index", "t", "Using where"));
        assert!(!full_scan("index", "t", ""), "the first rows in the order of an index");
        assert!(!full_scan("range", "t", "Using where"));
        assert!(!full_scan("ALL", "<derived2>", ""));
    }
}
