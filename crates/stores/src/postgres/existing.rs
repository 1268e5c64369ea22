//! Tables that Storebench did not make: finding, reading and sampling them, and writing them on request.

use storebench_engine::store::{Existing, Holdings, StoreError};
use storebench_study::workload::Body;

use super::channel::Row;
use super::login::Connected;
use super::sql::{Fields, Given, MARK, MERGE, Table, Theirs, identifier, literal};
use crate::existing::TheirTable;

/// Makes statements fail if a policy hides rows from this user, instead of omitting those rows. pg_dump does the same.
pub(super) const ALL_ROWS: &str = "SET row_security = off; ";

/// How values become text in every session that reads many rows, so that each one reads a value as the same text.
pub(super) const AS_TEXT: &str = "SET DateStyle = 'ISO'; SET TimeZone = 'UTC'; SET IntervalStyle = 'iso_8601'; \
                                  SET bytea_output = 'hex'; SET extra_float_digits = 3";

/// A column: its name and type, whether it alone is the primary key, whether its values are unique, whether a new row
/// must have a value for it, whether it belongs to a table and not to a view, and whether it is declared NOT NULL.
struct Column {
    name: String,
    sql_type: String,
    primary: bool,
    unique: bool,
    mandatory: bool,
    /// Whether the server computes its value, and accepts no other.
    computed: bool,
    of_table: bool,
    /// Whether Storebench made the table.
    ours: bool,
    never_null: bool,
    /// Whether the type is PostgreSQL's own. Operators of other types are found only through `search_path`.
    builtin: bool,
    /// The identity of its order: type, collation and version.
    order_name: String,
    /// The number in the parentheses of its type, as PostgreSQL keeps it; -1 without them.
    modifier: i32,
    /// Whether its collation, or that of a unique index of it, takes different texts for one.
    merges: bool,
}

/// Types of keys that are written, apart from texts: of these, it is known which texts are one key, and none is rounded.
const WRITTEN_KEYS: [&str; 6] = ["character", "smallint", "integer", "bigint", "numeric", "uuid"];

/// Finds out how to read or write a table of another program. `name` is `schema.table`, or a table in `public`. If no
/// column is named, the key is the primary key, and the document is the whole row, which can only be read. `write` says
/// that it is to be written, and whether inserts override the identity of a key.
///
/// # Errors
/// `NotSupported` with what the table lacks, and its columns.
pub(super) async fn resolve(
    server: &mut Connected,
    existing: &Existing,
    body: Body,
    write: Option<bool>,
) -> Result<Table, StoreError> {
    let overrides = write == Some(true);
    let write = write.is_some();
    let (schema, name) = existing.name.split_once('.').unwrap_or(("public", &existing.name));
    let columns = columns(server, schema, name).await?;
    let their = TheirTable {
        place: server.target.place(),
        name: format!("{schema}.{name}"),
        columns: columns.iter().map(|column| column.name.as_str()).collect(),
    };
    their.check_exists("schema.table")?;
    let named = |wanted: &str, what| their.named(wanted, what, columns.iter().map(|column| (&*column.name, column)));
    let key = match &existing.key {
        Some(wanted) => named(wanted, "key")?,
        None => columns
            .iter()
            .find(|column| column.primary)
            .ok_or_else(|| their.unnamed("no single column is its primary key"))?,
    };
    let quoted = identifier(&key.name);
    let textual = matches!(key.sql_type.as_str(), "text" | "character varying");
    let as_text = if textual { format!("t.{quoted}") } else { format!("t.{quoted}::text") };
    if write {
        if key.ours {
            return Err(Holdings::default().not_theirs(&their.place, &their.name));
        }
        their.check_written(key.of_table, &key.name, key.unique)?;
        let rounds = key.modifier >= 0 && !textual && key.sql_type != "character";
        if rounds || !(textual || is_citext(&key.sql_type) || WRITTEN_KEYS.contains(&&*key.sql_type)) {
            let what = format!("its key `{}` has the type {}, which may round or change keys", key.name, key.sql_type);
            return Err(
                their.refused(&format!("{what}, so it can only be read; name another unique column with --to-key"))
            );
        }
        if key.merges {
            let what = format!("the collation of its key `{}` takes different texts for one", key.name);
            return Err(their.refused(&format!("{what}, so it can only be read; give the column a deterministic one")));
        }
    }
    if !write {
        let sql = format!("{ALL_ROWS}SELECT FROM {}.{} LIMIT 0", identifier(schema), identifier(name));
        server.query(&format!("read `{schema}.{name}`"), &sql).await?;
    }
    if !write && !key.never_null && has_null(server, schema, name, &quoted).await? {
        return Err(their.has_nulls(&key.name));
    }
    let mut given = Given::usual(body);
    let (doc, jsonb, fields) = match &existing.body {
        None => {
            their.check_row(write, body)?;
            let fields = columns.iter().map(|c| (c.name.clone(), c.sql_type.clone())).collect();
            // As `jsonb`, a column of `json` would lose repeated members and the notation of its numbers.
            // A type of others may be one over `json`.
            let keeps =
                columns.iter().any(|column| column.sql_type.trim_end_matches("[]") == "json" || !column.builtin);
            (if keeps { "row_to_json(t.*)::text" } else { "to_jsonb(t.*)" }.to_owned(), !keeps, Fields::Columns(fields))
        }
        Some(wanted) => {
            let column = named(wanted, "document")?;
            let quoted = format!("t.{}", identifier(&column.name));
            match (column.sql_type.as_str(), body) {
                ("jsonb", Body::Json) => (quoted.clone(), true, Fields::Json(quoted)),
                (sql_type @ ("json" | "text" | "character varying"), Body::Json) => {
                    given = Given::text(if sql_type == "json" { "::json" } else { "" });
                    (format!("{quoted}::text"), false, Fields::Json(format!("{quoted}::jsonb")))
                }
                ("bytea", Body::Bytes) => (quoted, false, Fields::None),
                ("text" | "character varying", Body::Bytes) => {
                    given = Given::text("");
                    (quoted, false, Fields::None)
                }
                ("bigint" | "integer" | "smallint", Body::Counter) => (format!("{quoted}::text"), false, Fields::None),
                (other, _) => return Err(their.misfit(wanted, other)),
            }
        }
    };
    let others = |column: &&Column| column.name != key.name && Some(&column.name) != existing.body.as_ref();
    let mandatory = columns.iter().filter(others).filter(|column| column.mandatory).map(|column| column.name.clone());
    let computed = key.computed.then(|| key.name.clone());
    let theirs = Theirs { mandatory: mandatory.collect(), computed, overrides };
    let merges = write && may_make_temporary(server).await?;
    Ok(Table {
        place: format!("{}.{}", identifier(schema), identifier(name)),
        body,
        read_only: !write,
        theirs: Some(theirs),
        merge: merges.then(|| format!("pg_temp.{MERGE}")),
        key_name: quoted.clone(),
        doc_name: existing.body.as_deref().map(identifier).unwrap_or_default(),
        given,
        order: format!("{as_text} COLLATE \"C\""),
        unique: key.unique && key.builtin,
        order_name: key.order_name.clone(),
        key: as_text,
        key_type: (!textual).then(|| if key.sql_type == "character" { "bpchar".into() } else { key.sql_type.clone() }),
        longest_key: (textual && key.modifier > 4).then(|| key.modifier - 4),
        key_column: format!("t.{quoted}"),
        doc,
        jsonb,
        // Views, foreign and partitioned tables have no xmin.
        revision: "NULL::xid",
        fields,
    })
}

/// Whether a type is that of an extension, which may be in any schema.
pub(super) fn is_citext(sql_type: &str) -> bool {
    sql_type.rsplit('.').next() == Some("citext")
}

/// The columns for key and document, if the table has only these: a primary key of one column, and a column of JSON.
pub(super) async fn plain_columns(server: &mut Connected, table: &str) -> Result<Option<(String, String)>, StoreError> {
    let (schema, name) = table.split_once('.').unwrap_or(("public", table));
    let columns = columns(server, schema, name).await?;
    let is_json = |column: &&Column| matches!(column.sql_type.as_str(), "json" | "jsonb") && !column.primary;
    let key = columns.iter().find(|column| column.primary);
    let both = key.zip(columns.iter().find(is_json)).filter(|_| columns.len() == 2);
    Ok(both.map(|(key, body)| (key.name.clone(), body.name.clone())))
}

/// Whether a column is NULL in any row.
async fn has_null(server: &mut Connected, schema: &str, name: &str, column: &str) -> Result<bool, StoreError> {
    let table = format!("{}.{}", identifier(schema), identifier(name));
    let sql = format!("SELECT EXISTS (SELECT 1 FROM {table} AS t WHERE t.{column} IS NULL)");
    Ok(is_true(&server.query("look for rows without a key", &sql).await?))
}

/// Whether this user may create temporary objects, such as the merge function.
async fn may_make_temporary(server: &mut Connected) -> Result<bool, StoreError> {
    let sql = "SELECT has_database_privilege(current_database(), 'TEMP')";
    Ok(is_true(&server.query("check the user's privileges", sql).await?))
}

fn is_true(rows: &[Row]) -> bool {
    rows.first().and_then(|row| row.first()?.as_deref()) == Some("t")
}

async fn columns(server: &mut Connected, schema: &str, name: &str) -> Result<Vec<Column>, StoreError> {
    let sql = format!(
        "SELECT a.attname, format_type(a.atttypid, NULL), \
                EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary \
                        AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum), \
                EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indimmediate \
                        AND i.indisvalid AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum), \
                a.attnotnull AND NOT a.atthasdef AND a.attidentity = '', c.relkind IN ('r', 'p'), a.attnotnull, \
                y.typnamespace = 'pg_catalog'::regnamespace, \
                concat_ws(' ', format_type(a.atttypid, NULL), o.collname, o.collversion, \
                          (SELECT datcollate FROM pg_database WHERE datname = current_database())), \
                a.attidentity = 'a', obj_description(c.oid, 'pg_class') LIKE '{MARK}%', a.atttypmod, \
                EXISTS (SELECT 1 FROM pg_collation d WHERE to_jsonb(d)->>'collisdeterministic' = 'false' AND (d.oid = o.oid \
                        OR EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique \
                                   AND i.indkey[0] = a.attnum AND i.indcollation[0] = d.oid))) \
           FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
           JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
           JOIN pg_type y ON y.oid = a.atttypid LEFT JOIN pg_collation o ON o.oid = a.attcollation \
          WHERE n.nspname = {} AND c.relname = {} AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY a.attnum",
        literal(schema),
        literal(name)
    );
    let rows = server.query("read its columns", &sql).await?;
    let column = |row: &Row| {
        let [Some(name), Some(sql_type), flags @ ..] = &row[..] else { return None };
        let flag = |at: usize| flags.get(at).is_some_and(|flag| flag.as_deref() == Some("t"));
        let (name, sql_type) = (name.clone(), sql_type.clone());
        Some(Column {
            name,
            sql_type,
            primary: flag(0),
            unique: flag(1),
            mandatory: flag(2),
            computed: flag(7),
            of_table: flag(3),
            ours: flag(8),
            never_null: flag(4),
            builtin: flag(5),
            order_name: flags.get(6).cloned().flatten().unwrap_or_default(),
            modifier: flags.get(9).and_then(|number| number.as_ref()?.parse().ok()).unwrap_or(-1),
            merges: flag(10),
        })
    };
    Ok(rows.iter().filter_map(column).collect())
}

/// A table of at most this many pages is read completely for a sample.
const SMALL_PAGES: f64 = 1_000.0;

/// Returns at most `at_most` keys, in the order of ranges. They come from pages that `seed` selects throughout the
/// table (`TABLESAMPLE SYSTEM`), so that a large table is not read completely.
pub(super) async fn sample(
    server: &mut Connected,
    table: &Table,
    at_most: usize,
    seed: u64,
) -> Result<Vec<String>, StoreError> {
    let doing = "sample its keys";
    let place = literal(&table.place);
    let sql = format!(
        "SELECT c.relkind, greatest(c.reltuples, 0), \
                coalesce((SELECT sum(pg_relation_size(relid)) FROM pg_partition_tree(c.oid)), 0) \
                  + CASE WHEN c.relkind IN ('r', 'm') THEN pg_relation_size(c.oid) ELSE 0 END \
           FROM pg_class c WHERE c.oid = {place}::regclass"
    );
    let rows = server.query(doing, &sql).await?;
    let value = |at: usize| rows.first().and_then(|row| row.get(at).cloned().flatten()).unwrap_or_default();
    let number = |at: usize| value(at).parse::<f64>().unwrap_or(0.0);
    if !matches!(value(0).as_str(), "r" | "p" | "m") {
        return Err(StoreError::NotSupported(format!(
            "{}: {} is a view or foreign table, which cannot be sampled; name the table behind it",
            server.target.place(),
            table.place
        )));
    }
    let pages = (number(2) / 8_192.0).max(1.0);
    // If the planner has no count yet, assume ten rows per page: more than enough are drawn.
    let rows_a_page = if number(1) > 0.0 { (number(1) / pages).max(0.01) } else { 10.0 };
    let percent = (200.0 * at_most as f64 / (rows_a_page * pages)).max(100.0 * 100.0 / pages);
    let from = if pages <= SMALL_PAGES || percent >= 50.0 {
        String::new()
    } else {
        format!(" TABLESAMPLE SYSTEM ({percent}) REPEATABLE ({})", seed % (1 << 31))
    };
    let sql = format!(
        "SELECT k FROM (SELECT {key} AS k, {} AS o FROM {} AS t{from} WHERE {} IS NOT NULL \
         ORDER BY md5({key} || '/{seed}'), 1 LIMIT {at_most}) AS drawn ORDER BY o, k",
        table.ranged(),
        table.place,
        table.key_column,
        key = table.key
    );
    let rows = server.query(doing, &format!("{AS_TEXT}; {sql}")).await?;
    Ok(rows.into_iter().filter_map(|mut row| row.pop().flatten()).collect())
}
