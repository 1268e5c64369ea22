//! The server's statistics, waiting until it is idle, and query plans.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use serde_json::Value;
use storebench_engine::store::{Explanation, Op, Stats, StoreError};

use super::channel::{Fault, Row};
use super::login::Connected;
use super::sql::{Statement, Table, literal};
use super::wire::oid;
use crate::net::settled;
use crate::study_queries::key_range;

/// Fields of the server's own statistics, by source, with their names here. Versions have different fields. Missing
/// ones are omitted.
const FIELDS: &[(&str, &[(&str, &str)])] = &[
    (
        "pg_stat_database",
        &[
            ("blks_hit", "cache_hit_blocks"),
            ("blks_read", "cache_miss_blocks"),
            ("xact_commit", "commits"),
            ("xact_rollback", "rollbacks"),
            ("tup_inserted", "rows_inserted"),
            ("tup_updated", "rows_updated"),
            ("tup_deleted", "rows_deleted"),
            ("tup_fetched", "rows_fetched"),
            ("deadlocks", "deadlocks"),
            ("temp_bytes", "temporary_bytes"),
        ],
    ),
    (
        "pg_stat_wal",
        &[
            ("wal_records", "wal_records"),
            ("wal_fpi", "wal_full_page_images"),
            ("wal_bytes", "wal_bytes"),
            ("wal_buffers_full", "wal_buffers_full"),
            ("wal_write", "wal_writes"),
            ("wal_sync", "wal_syncs"),
        ],
    ),
    (
        "pg_stat_bgwriter",
        &[
            ("checkpoints_timed", "checkpoints_timed"),
            ("checkpoints_req", "checkpoints_requested"),
            ("buffers_checkpoint", "checkpoint_blocks_written"),
            ("buffers_clean", "background_blocks_written"),
            ("buffers_backend", "backend_blocks_written"),
        ],
    ),
    (
        "pg_stat_checkpointer",
        &[
            ("num_timed", "checkpoints_timed"),
            ("num_requested", "checkpoints_requested"),
            ("buffers_written", "checkpoint_blocks_written"),
        ],
    ),
];

/// Statements whose rows hold the name of a source and its row as JSON. `places` are the prepared tables.
pub(super) fn statistics(version_number: u32, places: &[String]) -> String {
    let mut sql = String::from(
        "SELECT 'pg_stat_database', to_jsonb(x)::text FROM pg_stat_database x WHERE datname = current_database();
         SELECT 'pg_stat_bgwriter', to_jsonb(x)::text FROM pg_stat_bgwriter x;",
    );
    if version_number >= 140_000 {
        sql += "SELECT 'pg_stat_wal', to_jsonb(x)::text FROM pg_stat_wal x;";
    }
    if version_number >= 170_000 {
        sql += "SELECT 'pg_stat_checkpointer', to_jsonb(x)::text FROM pg_stat_checkpointer x;";
    }
    sql += "SELECT '', jsonb_build_object(
              'active_sessions', count(*) FILTER (WHERE state = 'active'),
              'sessions_waiting_for_locks', count(*) FILTER (WHERE wait_event_type = 'Lock'),
              'commits_waiting_for_standbys', count(*) FILTER (WHERE wait_event = 'SyncRep'))::text
              FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
            SELECT '', jsonb_build_object('vacuums_running', count(*))::text FROM pg_stat_progress_vacuum;
            SELECT '', jsonb_build_object('index_builds_running', count(*),
              'index_build_blocks_left', coalesce(sum(blocks_total - blocks_done), 0))::text
              FROM pg_stat_progress_create_index;
            SELECT '', jsonb_build_object('standbys', count(*),
              'standby_flush_lag_bytes', max(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery()
                THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, flush_lsn)),
              'standby_replay_lag_bytes', max(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery()
                THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, replay_lsn)))::text
              FROM pg_stat_replication;";
    if !places.is_empty() {
        let tables: Vec<String> = places.iter().map(|place| format!("{}::regclass", literal(place))).collect();
        sql += &format!(
            "SELECT '', jsonb_build_object('live_rows', sum(n_live_tup), 'dead_rows', sum(n_dead_tup),
               'table_bytes', sum(pg_table_size(relid)), 'index_bytes', sum(pg_indexes_size(relid)))::text
               FROM pg_stat_all_tables WHERE relid IN ({})",
            tables.join(", ")
        );
    }
    sql
}

/// Reads the rows of [`statistics`].
pub(super) fn read(rows: &[Row]) -> Stats {
    let mut stats = Stats::new();
    for row in rows {
        let [Some(source), Some(text)] = &row[..] else { continue };
        let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(text) else { continue };
        match FIELDS.iter().find(|(name, _)| name == source) {
            Some((_, known)) => {
                let value = |(field, name): &(&str, &str)| Some(((*name).to_owned(), fields.get(*field)?.as_f64()?));
                stats.extend(known.iter().filter_map(value));
            }
            None => stats.extend(fields.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?)))),
        }
    }
    let value = |name: &str| stats.iter().find(|(n, _)| n == name).map(|(_, value)| *value);
    let share = |part: &str, rest: &str| {
        let (part, rest) = (value(part)?, value(rest)?);
        (part + rest > 0.0).then(|| part / (part + rest))
    };
    let shares = [
        ("cache_miss_share", share("cache_miss_blocks", "cache_hit_blocks")),
        ("dead_rows_share", share("dead_rows", "live_rows")),
    ];
    stats.extend(shares.into_iter().filter_map(|(name, share)| Some((name.to_owned(), share?))));
    stats
}

/// Brings our tables to rest within `at_most`. Removes dead rows and updates the planner's statistics, as autovacuum
/// would do some time later, in the middle of a measurement. Writes what the load left in memory with a checkpoint, if
/// this user may run one. Then waits until no vacuum runs in this database.
pub(super) async fn settle(server: &mut Connected, places: &[String], at_most: Duration) -> Result<bool, StoreError> {
    let begun = Instant::now();
    let mut statements: Vec<String> = places.iter().map(|place| format!("VACUUM (ANALYZE) {place}")).collect();
    statements.push("CHECKPOINT".into());
    for statement in statements {
        let Some(left) = at_most.checked_sub(begun.elapsed()).filter(|left| left.as_millis() > 0) else {
            return Ok(false);
        };
        let limit = format!("SET statement_timeout = {}", left.as_millis().min(i32::MAX as u128));
        server.query("settle", &limit).await?;
        match server.channel.query(&statement).await {
            Ok(_) => {}
            Err(Fault::Server(error)) if error.code == "57014" => return Ok(false),
            // Not every user may run a checkpoint.
            Err(Fault::Server(error)) if error.code == "42501" => {}
            Err(fault) => return Err(server.target.fault("settle", &fault)),
        }
    }
    server.query("settle", "SET statement_timeout = 0").await?;
    settled(at_most.saturating_sub(begun.elapsed()), Duration::from_millis(50), async || {
        let running = "SELECT 1 FROM pg_stat_progress_vacuum WHERE datname = current_database()";
        Ok(server.query("check whether it is idle", running).await?.is_empty())
    })
    .await
}

/// Removes dead rows of our tables, so that their space is reused.
pub(super) async fn compact(server: &mut Connected, places: &[String]) -> Result<(), StoreError> {
    for place in places {
        server.query("compact its tables", &format!("VACUUM (ANALYZE) {place}")).await?;
    }
    Ok(())
}

/// The plan of a query, for those whose plan depends on indexes.
pub(super) async fn explain(
    server: &mut Connected,
    table: &Table,
    op: &Op<'_>,
) -> Result<Option<Explanation>, StoreError> {
    let (statement, values) = if let Op::Page { field, value, limit } = *op {
        (table.page(field, limit).map_err(StoreError::NotSupported)?, vec![value.to_owned()])
    } else {
        let Some((start, end, limit)) = key_range(op) else { return Ok(None) };
        let statement = table.range(end.is_some(), limit);
        (statement, [Some(start.into()), end].into_iter().flatten().map(Cow::into_owned).collect())
    };
    server.query("explain a query", &explaining(&statement, &values)).await.map(|rows| Some(explanation(rows)))
}

/// The plan that `EXPLAIN` returns.
pub(super) fn explanation(rows: Vec<Row>) -> Explanation {
    let lines: Vec<String> = rows.into_iter().filter_map(|mut row| row.pop().flatten()).collect();
    Explanation { full_scan: full_scan(&lines), plan: lines.join("\n") }
}

/// The statements that ask for a plan. The server inserts the values, because a value may itself look like a
/// placeholder. The first plans of a prepared statement are made for the given values.
fn explaining((sql, types): &Statement, values: &[String]) -> String {
    let types: Vec<&str> = types.iter().map(|one| if *one == oid::JSONB { "jsonb" } else { "text" }).collect();
    let values: Vec<String> = values.iter().map(|value| literal(value)).collect();
    let (types, values) = (types.join(", "), values.join(", "));
    format!(
        "PREPARE storebench_explained ({types}) AS {sql}; EXPLAIN EXECUTE storebench_explained ({values}); \
         DEALLOCATE storebench_explained"
    )
}

/// Whether a plan reads a whole table, or reads a whole index for its order and filters out most of it.
fn full_scan(lines: &[String]) -> bool {
    lines.iter().enumerate().any(|(at, line)| {
        if line.contains("Seq Scan on") {
            return true;
        }
        let condition = lines.get(at + 1).is_some_and(|next| next.contains("Index Cond:"));
        let filtered = lines.get(at + 1).is_some_and(|next| next.contains("Filter:"));
        line.contains("Index Scan using") && !condition && filtered
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_out_of_each_others_places() {
        let table = Table::ours("s", "t", storebench_study::workload::Body::Json, false);
        let sql = explaining(&table.range(true, 7), &["price$20".into(), "it's $1; \\".into()]);
        assert!(sql.starts_with("PREPARE storebench_explained (text, text) AS SELECT key, doc"), "{sql}");
        assert!(sql.contains(" key >= $1 AND key < $2 ORDER BY key LIMIT 7;"), "{sql}");
        assert!(sql.contains(r"EXECUTE storebench_explained ('price$20', E'it''s $1; \\');"), "{sql}");
        let sql = explaining(&table.page("user$1", 1).unwrap(), &["\"$1\"".into()]);
        assert!(sql.contains("(jsonb) AS") && sql.contains("-> 'user$1') = $1"), "{sql}");
    }

    #[test]
    fn plans_that_read_everything() {
        let plan = |text: &str| full_scan(&text.lines().map(str::to_owned).collect::<Vec<_>>());
        assert!(plan("Limit\n  ->  Sort\n        ->  Seq Scan on t"));
        assert!(plan("Limit\n  ->  Parallel Seq Scan on t"));
        assert!(plan("Limit\n  ->  Index Scan using t_pkey on t\n        Filter: (a = 1)"));
        assert!(!plan("Limit\n  ->  Index Scan using t_pkey on t\n        Index Cond: (key >= 'a'::text)"));
        assert!(!plan("Limit\n  ->  Index Scan using t_pkey on t"));
    }

    #[test]
    fn statistics_get_names_with_units_and_what_is_missing_is_left_out() {
        let row = |source: &str, json: &str| vec![Some(source.to_owned()), Some(json.to_owned())];
        let stats = read(&[
            row("pg_stat_database", r#"{"blks_hit": 3, "blks_read": 1, "datname": "x"}"#),
            row("", r#"{"live_rows": 9, "dead_rows": 1, "standby_flush_lag_bytes": null}"#),
            vec![None, None],
        ]);
        let value = |name: &str| stats.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
        assert_eq!(value("cache_miss_share"), Some(0.25));
        assert_eq!(value("dead_rows_share"), Some(0.1));
        assert_eq!((value("wal_bytes"), value("standby_flush_lag_bytes")), (None, None));
    }
}
