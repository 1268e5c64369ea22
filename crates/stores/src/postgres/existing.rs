//! Tables that Storebench did not make: found, read, sampled; never written.

use storebench_core::store::{Existing, StoreError};
use storebench_core::workload::Body;

use super::channel::Channel;
use super::login::Target;
use super::sql::{Fields, Table, identifier, literal};

/// A column: its name, its type, whether it alone is the primary key.
struct Column {
    name: String,
    sql_type: String,
    primary: bool,
}

/// Finds out how a table of somebody else's is read. `name` is `schema.table`, or a table in
/// `public`; the key is the primary key unless a column is named, the document the whole row.
///
/// # Errors
/// `NotSupported` naming what the table lacks, and what it has.
pub(super) async fn resolve(
    target: &Target,
    channel: &mut Channel,
    existing: &Existing,
    body: Body,
) -> Result<Table, StoreError> {
    let (schema, name) = existing.name.split_once('.').unwrap_or(("public", &existing.name));
    let columns = columns(target, channel, schema, name).await?;
    let refused = |why: &str| {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        StoreError::NotSupported(format!(
            "{}: {why}; `{schema}.{name}` has the columns {}",
            target.place(),
            names.join(", ")
        ))
    };
    if columns.is_empty() {
        return Err(StoreError::NotSupported(format!(
            "{}: there is no table `{schema}.{name}` that this user may see; write it as schema.table",
            target.place()
        )));
    }
    let find = |wanted: &str| columns.iter().find(|column| column.name == wanted);
    let key = match &existing.key {
        Some(wanted) => find(wanted).ok_or_else(|| refused(&format!("there is no column `{wanted}` for the key")))?,
        None => columns
            .iter()
            .find(|column| column.primary)
            .ok_or_else(|| refused("no single column is its primary key, so name the one that holds the key"))?,
    };
    let quoted = identifier(&key.name);
    let textual = matches!(key.sql_type.as_str(), "text" | "character varying");
    let as_text = if textual { format!("t.{quoted}") } else { format!("t.{quoted}::text") };
    let (doc, jsonb, fields) = match &existing.body {
        None if body == Body::Json => {
            let fields = columns.iter().map(|c| (c.name.clone(), c.sql_type.clone())).collect();
            ("to_jsonb(t)".to_owned(), true, Fields::Columns(fields))
        }
        None => return Err(refused("a whole row is JSON, so name the column that holds the document")),
        Some(wanted) => {
            let column =
                find(wanted).ok_or_else(|| refused(&format!("there is no column `{wanted}` for the document")))?;
            let quoted = format!("t.{}", identifier(&column.name));
            match (column.sql_type.as_str(), body) {
                ("jsonb", Body::Json) => (quoted.clone(), true, Fields::Json(quoted)),
                ("json" | "text" | "character varying", Body::Json) => {
                    (format!("{quoted}::text"), false, Fields::Json(format!("{quoted}::jsonb")))
                }
                ("bytea", Body::Bytes) => (quoted, false, Fields::None),
                ("text" | "character varying", Body::Bytes) => (quoted, false, Fields::None),
                ("bigint" | "integer" | "smallint", Body::Counter) => (format!("{quoted}::text"), false, Fields::None),
                (other, _) => {
                    return Err(refused(&format!(
                        "the column `{wanted}` is of type {other}, which does not hold what the collection's `body` says"
                    )));
                }
            }
        }
    };
    Ok(Table {
        place: format!("{}.{}", identifier(schema), identifier(name)),
        schema: identifier(schema),
        body,
        read_only: true,
        order: format!("{as_text} COLLATE \"C\""),
        key: as_text,
        key_type: (!textual).then(|| if key.sql_type == "character" { "bpchar".into() } else { key.sql_type.clone() }),
        key_column: format!("t.{quoted}"),
        doc,
        jsonb,
        // Views and foreign tables have no xmin, and nothing is written here.
        revision: "NULL::xid",
        fields,
    })
}

async fn columns(target: &Target, channel: &mut Channel, schema: &str, name: &str) -> Result<Vec<Column>, StoreError> {
    let sql = format!(
        "SELECT a.attname, format_type(a.atttypid, NULL), \
                EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary \
                        AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum) \
           FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
           JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
          WHERE n.nspname = {} AND c.relname = {} AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY a.attnum",
        literal(schema),
        literal(name)
    );
    let rows = channel.query(&sql).await.map_err(|fault| target.fault("look at its columns", &fault))?;
    let column = |row: &super::channel::Row| {
        let [Some(name), Some(sql_type), Some(primary)] = &row[..] else { return None };
        Some(Column { name: name.clone(), sql_type: sql_type.clone(), primary: primary == "t" })
    };
    Ok(rows.iter().filter_map(column).collect())
}

/// A table of at most so many pages is read whole for a sample.
const SMALL_PAGES: f64 = 1_000.0;

/// Keys of so many rows at most, from pages chosen by `seed` all over the table
/// (`TABLESAMPLE SYSTEM`), so that a large table is not read whole.
pub(super) async fn sample(
    target: &Target,
    channel: &mut Channel,
    table: &Table,
    at_most: usize,
    seed: u64,
) -> Result<Vec<String>, StoreError> {
    let doing = "sample its keys";
    let failed = |fault: &super::channel::Fault| target.fault(doing, fault);
    let place = literal(&table.place);
    let sql = format!(
        "SELECT c.relkind, greatest(c.reltuples, 0), \
                coalesce((SELECT sum(pg_relation_size(relid)) FROM pg_partition_tree(c.oid)), 0) \
                  + CASE WHEN c.relkind IN ('r', 'm') THEN pg_relation_size(c.oid) ELSE 0 END \
           FROM pg_class c WHERE c.oid = {place}::regclass"
    );
    let rows = channel.query(&sql).await.map_err(|fault| failed(&fault))?;
    let value = |at: usize| rows.first().and_then(|row| row.get(at).cloned().flatten()).unwrap_or_default();
    let number = |at: usize| value(at).parse::<f64>().unwrap_or(0.0);
    if !matches!(value(0).as_str(), "r" | "p" | "m") {
        return Err(StoreError::NotSupported(format!(
            "{}: {} is a view or foreign table, which cannot be sampled; name the table behind it",
            target.place(),
            table.place
        )));
    }
    let pages = (number(2) / 8_192.0).max(1.0);
    // Where the planner has no count yet, a page is taken to hold ten rows: more than enough are drawn.
    let rows_a_page = if number(1) > 0.0 { (number(1) / pages).max(0.01) } else { 10.0 };
    let percent = (200.0 * at_most as f64 / (rows_a_page * pages)).max(100.0 * 100.0 / pages);
    let from = if pages <= SMALL_PAGES || percent >= 50.0 {
        String::new()
    } else {
        format!(" TABLESAMPLE SYSTEM ({percent}) REPEATABLE ({})", seed % (1 << 31))
    };
    let sql = format!(
        "SELECT {key} FROM {} AS t{from} WHERE {} IS NOT NULL ORDER BY md5({key} || '/{seed}'), 1 LIMIT {at_most}",
        table.place,
        table.key_column,
        key = table.key
    );
    let rows = channel.query(&sql).await.map_err(|fault| failed(&fault))?;
    Ok(rows.into_iter().filter_map(|mut row| row.pop().flatten()).collect())
}
