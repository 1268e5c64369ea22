//! The SQL of the driver: one table a collection, `key` and `body`, and how a body is kept.

use storebench_core::store::StoreError;
use storebench_core::workload::Body;

/// How bodies of a collection are kept in its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON as text.
    Text,
    /// JSON in SQLite's binary form.
    Jsonb,
    /// Bytes as they are.
    Bytes,
    /// A 64-bit integer.
    Counter,
}

impl Format {
    pub(super) fn of(body: Body, jsonb: bool) -> Self {
        match body {
            Body::Json if jsonb => Self::Jsonb,
            Body::Json => Self::Text,
            Body::Bytes => Self::Bytes,
            Body::Counter => Self::Counter,
        }
    }

    /// The name in the marker table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Text => "json",
            Self::Jsonb => "jsonb",
            Self::Bytes => "bytes",
            Self::Counter => "counter",
        }
    }

    fn column(self) -> &'static str {
        match self {
            Self::Text => "TEXT",
            Self::Jsonb | Self::Bytes => "BLOB",
            Self::Counter => "INTEGER",
        }
    }

    /// The body as it is handed out.
    fn read(self) -> &'static str {
        if self == Self::Jsonb { "json(body)" } else { "body" }
    }

    /// A parameter as it is stored.
    fn write(self, parameter: &str) -> String {
        if self == Self::Jsonb { format!("jsonb({parameter})") } else { parameter.to_owned() }
    }
}

/// The statements of a collection, as positions in a session's table of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Insert,
    Upsert,
    Replace,
    Append,
    Prepend,
    Read,
    Exists,
    Delete,
    Counter,
    CompareAndSwap,
    Merge,
    From,
    Between,
}

/// How many kinds there are.
pub(super) const KINDS: usize = Kind::Between as usize + 1;

/// A name as an SQL identifier.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The table of a collection. With a rowid, because 2 KiB documents in the leaves of a table
/// WITHOUT ROWID spill to overflow pages: measured with 100,000 of them on 4 KiB pages, it reads
/// 60 k/s instead of 200 k/s, loads 12 k/s instead of 30 k/s in random key order, and takes 13 %
/// more space; only loading and scanning in key order is as fast or a little faster.
pub(super) fn create_table(table: &str, format: Format) -> String {
    format!(
        "CREATE TABLE {} (key TEXT PRIMARY KEY NOT NULL, body {} NOT NULL) STRICT",
        identifier(table),
        format.column()
    )
}

/// An index over fields; the key at its end keeps the documents of a value in key order.
pub(super) fn create_index(table: &str, fields: &[String]) -> Result<String, StoreError> {
    let expressions: Vec<String> = fields.iter().map(|f| extract(f)).collect::<Result<_, _>>()?;
    Ok(format!(
        "CREATE INDEX IF NOT EXISTS {} ON {} ({}, key)",
        identifier(&format!("{table}.{}", fields.join("."))),
        identifier(table),
        expressions.join(", ")
    ))
}

/// A field's value; the text is the same in index and query, so that the one serves the other.
fn extract(field: &str) -> Result<String, StoreError> {
    Ok(format!("json_extract(body, {})", path(field)?))
}

fn path(field: &str) -> Result<String, StoreError> {
    if field.contains(['"', '\\']) {
        return Err(StoreError::NotSupported(format!(
            "SQLite's JSON paths cannot name the field `{field}`: it holds a quotation mark or a backslash; rename it"
        )));
    }
    Ok(format!("'$.\"{}\"'", field.replace('\'', "''")))
}

/// The text of a statement.
pub(super) fn statement(table: &str, format: Format, kind: Kind) -> String {
    let table = identifier(table);
    let read = format.read();
    let body = format.write("?2");
    match kind {
        Kind::Insert => format!("INSERT INTO {table} (key, body) VALUES (?1, {body}) ON CONFLICT DO NOTHING"),
        Kind::Upsert => format!(
            "INSERT INTO {table} (key, body) VALUES (?1, {body}) ON CONFLICT (key) DO UPDATE SET body = excluded.body"
        ),
        Kind::Replace => format!("UPDATE {table} SET body = {body} WHERE key = ?1"),
        // `||` gives a text even of two blobs.
        Kind::Append => format!("UPDATE {table} SET body = CAST(body || ?2 AS BLOB) WHERE key = ?1"),
        Kind::Prepend => format!("UPDATE {table} SET body = CAST(?2 || body AS BLOB) WHERE key = ?1"),
        Kind::Read => format!("SELECT {read} FROM {table} WHERE key = ?1"),
        Kind::Exists => format!("SELECT 1 FROM {table} WHERE key = ?1"),
        Kind::Delete => format!("DELETE FROM {table} WHERE key = ?1"),
        Kind::Counter => format!(
            "INSERT INTO {table} (key, body) VALUES (?1, ?3) ON CONFLICT (key) DO UPDATE SET body = body + ?2 \
             RETURNING body"
        ),
        Kind::CompareAndSwap => format!("UPDATE {table} SET body = {body} WHERE key = ?1 AND {read} = ?3"),
        Kind::Merge => {
            let patch = if format == Format::Jsonb { "jsonb_patch" } else { "json_patch" };
            format!("UPDATE {table} SET body = {patch}(body, ?2) WHERE key = ?1")
        }
        Kind::From => format!("SELECT key, {read} FROM {table} WHERE key >= ?1 ORDER BY key LIMIT ?2"),
        Kind::Between => format!("SELECT key, {read} FROM {table} WHERE key >= ?1 AND key < ?3 ORDER BY key LIMIT ?2"),
    }
}

/// The text of a page query: `?1` is the value, `?2` the limit. `json_extract` gives 1 for `true` and
/// the text of an object for it, so where `typed` the JSON type is asked for too (`?3`).
pub(super) fn page(table: &str, format: Format, field: &str, typed: bool) -> Result<String, StoreError> {
    let typed = if typed { format!(" AND json_type(body, {}) = ?3", path(field)?) } else { String::new() };
    Ok(format!(
        "SELECT key, {} FROM {} WHERE {} IS ?1{typed} LIMIT ?2",
        format.read(),
        identifier(table),
        extract(field)?
    ))
}
