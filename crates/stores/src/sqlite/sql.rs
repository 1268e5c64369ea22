//! The SQL of the driver: one table for each collection, with the columns `key` and `body`, and the format of bodies.

use storebench_engine::store::{CollectionLayout, StoreError};
use storebench_study::workload::Body;

/// How the bodies of a collection are stored in its table.
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

    /// The SQL expression that reads a body.
    fn read(self, table: &Table) -> String {
        if self == Self::Jsonb { format!("json({})", table.body) } else { table.body.clone() }
    }

    /// The SQL expression that stores a parameter.
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
    /// All keys, from the first one.
    All,
    From,
    Between,
}

/// The number of kinds.
pub(super) const KINDS: usize = Kind::Between as usize + 1;

/// A name as an SQL identifier.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A table and its columns, as named in statements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: String,
    key: String,
    body: String,
    /// Key and body without the table's name, for statements that write.
    key_name: String,
    body_name: String,
    /// Whether Storebench did not create it.
    pub(super) theirs: bool,
    /// The key as text. In a table that Storebench did not create, it may have another type.
    listed_key: String,
}

impl Table {
    /// The table of a collection: one that Storebench created, or an existing one.
    pub(super) fn of(collection: &CollectionLayout) -> Self {
        let Some(existing) = &collection.existing else {
            let (key, body) = ("key".to_owned(), "body".to_owned());
            return Self {
                name: identifier(&collection.name),
                listed_key: key.clone(),
                key_name: key.clone(),
                body_name: body.clone(),
                theirs: false,
                key,
                body,
            };
        };
        let name = identifier(&existing.name);
        // Qualify columns with the table, because SQLite takes an unknown quoted name for a text.
        let column = |named: &Option<String>, usual| identifier(named.as_deref().unwrap_or(usual));
        let (key_name, body_name) = (column(&existing.key, "key"), column(&existing.body, "body"));
        let (key, body) = (format!("{name}.{key_name}"), format!("{name}.{body_name}"));
        Self { listed_key: format!("CAST({key} AS TEXT)"), name, key, body, key_name, body_name, theirs: true }
    }

    /// A query without rows that fails if the table or a column is missing.
    pub(super) fn probe(&self) -> String {
        format!("SELECT {}, {} FROM {} LIMIT 0", self.key, self.body, self.name)
    }

    /// The smallest or largest row number, with one lookup.
    pub(super) fn edge(&self, which: &str) -> String {
        format!("SELECT {which}(rowid) FROM {}", self.name)
    }

    /// The first key at or after a row number.
    pub(super) fn key_from(&self) -> String {
        format!("SELECT rowid, {} FROM {} WHERE rowid >= ?1 ORDER BY rowid LIMIT 1", self.listed_key, self.name)
    }

    /// A query for the collation of the key in a unique index that has no other column.
    pub(super) fn collation(&self) -> String {
        let (name, key) = self.quoted();
        format!(
            "SELECT x.coll FROM pragma_index_list('{name}') AS l, pragma_index_xinfo(l.name) AS x \
             WHERE l.\"unique\" AND x.key AND x.name = '{key}' COLLATE NOCASE \
             AND 1 = (SELECT count(*) FROM pragma_index_info(l.name))"
        )
    }

    /// A query for the declared type of the key.
    pub(super) fn declared_type(&self) -> String {
        let (name, key) = self.quoted();
        format!("SELECT type FROM pragma_table_info('{name}') WHERE name = '{key}' COLLATE NOCASE")
    }

    /// The names of the table and of the key's column, within SQL texts.
    fn quoted(&self) -> (String, String) {
        let quoted = |name: &str| name.trim_matches('"').replace("\"\"", "\"").replace('\'', "''");
        (quoted(&self.name), quoted(&self.key_name))
    }

    /// The types of the keys.
    pub(super) fn key_kinds(&self) -> String {
        format!("SELECT DISTINCT typeof({}) FROM {} ORDER BY 1", self.key, self.name)
    }

    /// The statement of a range of keys.
    pub(super) fn range(&self, start: &str, bounded: bool) -> Kind {
        match bounded {
            true => Kind::Between,
            // Keys in other tables may be numbers, which sort before every text, even the empty one.
            false if start.is_empty() && self.theirs => Kind::All,
            false => Kind::From,
        }
    }

    /// Returns a row if the key is the row number, which is an integer and in the order of the table.
    pub(super) fn is_row_number(&self) -> String {
        let (name, key) = self.quoted();
        format!(
            "SELECT 1 FROM pragma_table_list('{name}') AS t, pragma_table_info('{name}') AS c \
             WHERE t.schema = 'main' AND t.type = 'table' AND NOT t.wr \
             AND c.name = '{key}' COLLATE NOCASE AND c.pk = 1 AND upper(c.type) = 'INTEGER' \
             AND 1 = (SELECT count(*) FROM pragma_table_info('{name}') WHERE pk > 0) \
             AND NOT EXISTS (SELECT 1 FROM pragma_index_list('{name}') WHERE origin = 'pk')"
        )
    }

    /// A query for whether a numeric key is found by its text. That depends on the type of its column.
    pub(super) fn finds_by_text(&self) -> String {
        let Self { key, name, listed_key, .. } = self;
        format!(
            "SELECT EXISTS (SELECT 1 FROM {name} WHERE {key} = \
             (SELECT text FROM (SELECT {listed_key} AS text FROM {name} LIMIT 1)))"
        )
    }

    /// Returns a row if it is a view.
    pub(super) fn is_view(&self) -> String {
        let name = self.name.trim_matches('"').replace("\"\"", "\"").replace('\'', "''");
        format!("SELECT 1 FROM sqlite_schema WHERE type = 'view' AND name = '{name}' COLLATE NOCASE")
    }

    /// All keys.
    pub(super) fn keys(&self) -> String {
        format!("SELECT {} FROM {} ORDER BY {}", self.listed_key, self.name, self.key)
    }
}

/// Creates the table of a collection. It has a rowid, because 2 KiB documents in the leaves of a table WITHOUT ROWID
/// spill to overflow pages. Measured with 100,000 of them on 4 KiB pages, a table WITHOUT ROWID reads 60 k/s instead of
/// 200 k/s, loads 12 k/s instead of 30 k/s in random key order, and takes 13 % more space. Only loading and scanning in
/// key order is as fast or slightly faster.
pub(super) fn create_table(table: &str, format: Format) -> String {
    format!(
        "CREATE TABLE {} (key TEXT PRIMARY KEY NOT NULL, body {} NOT NULL) STRICT",
        identifier(table),
        format.column()
    )
}

/// Creates an index over fields. Its last column is the key, so that documents with the same value are in key order.
pub(super) fn create_index(table: &str, fields: &[String]) -> Result<String, StoreError> {
    let expressions: Vec<String> = fields.iter().map(|f| extract("body", f)).collect::<Result<_, _>>()?;
    Ok(format!(
        "CREATE INDEX IF NOT EXISTS {} ON {} ({}, key)",
        identifier(&format!("{table}.{}", fields.join("."))),
        identifier(table),
        expressions.join(", ")
    ))
}

/// The expression for a field's value. The index and the query use the same text, so that the query uses the index.
fn extract(body: &str, field: &str) -> Result<String, StoreError> {
    Ok(format!("json_extract({body}, {})", path(field)?))
}

fn path(field: &str) -> Result<String, StoreError> {
    if field.contains(['"', '\\']) {
        return Err(StoreError::NotSupported(format!(
            "SQLite's JSON paths cannot name the field `{field}`, which contains a quote or a backslash; rename it"
        )));
    }
    Ok(format!("'$.\"{}\"'", field.replace('\'', "''")))
}

/// The text of a statement.
pub(super) fn statement(of: &Table, format: Format, kind: Kind) -> String {
    let Table { name: table, key, listed_key, key_name, body_name, .. } = of;
    let read = format.read(of);
    let body = format.write("?2");
    // Keys are listed in byte order, whatever the collation of an existing table.
    let order = if of.theirs { format!("{key} COLLATE BINARY") } else { key.clone() };
    let insert = format!("INSERT INTO {table} ({key_name}, {body_name}) VALUES (?1, {body})");
    let update = |to: String| format!("UPDATE {table} SET {body_name} = {to} WHERE {key} = ?1");
    // From NULL comes NULL: such a document of somebody else's is not found.
    let change = |to: String| format!("{} AND {body_name} IS NOT NULL", update(to));
    match kind {
        Kind::Insert => format!("{insert} ON CONFLICT ({key_name}) DO NOTHING"),
        Kind::Upsert => format!("{insert} ON CONFLICT ({key_name}) DO UPDATE SET {body_name} = excluded.{body_name}"),
        Kind::Replace => update(body),
        // `||` returns a text even for two blobs.
        Kind::Append => change(format!("CAST({body_name} || ?2 AS BLOB)")),
        Kind::Prepend => change(format!("CAST(?2 || {body_name} AS BLOB)")),
        Kind::Read => format!("SELECT {read} FROM {table} WHERE {key} = ?1"),
        Kind::Exists => format!("SELECT 1 FROM {table} WHERE {key} = ?1"),
        Kind::Delete => format!("DELETE FROM {table} WHERE {key} = ?1"),
        Kind::Counter => format!(
            "INSERT INTO {table} ({key_name}, {body_name}) VALUES (?1, ?3) ON CONFLICT ({key_name}) \
             DO UPDATE SET {body_name} = COALESCE({body_name}, 0) + ?2 RETURNING {body_name}"
        ),
        Kind::CompareAndSwap => format!("{} AND {read} = ?3", update(body)),
        Kind::Merge => {
            let patch = if format == Format::Jsonb { "jsonb_patch" } else { "json_patch" };
            change(format!("{patch}({body_name}, ?2)"))
        }
        Kind::All => format!("SELECT {listed_key}, {read} FROM {table} ORDER BY {order} LIMIT ?2"),
        Kind::From => {
            format!("SELECT {listed_key}, {read} FROM {table} WHERE {order} >= ?1 ORDER BY {order} LIMIT ?2")
        }
        Kind::Between => {
            format!(
                "SELECT {listed_key}, {read} FROM {table} WHERE {order} >= ?1 AND {order} < ?3 ORDER BY {order} LIMIT ?2"
            )
        }
    }
}

/// The text of a page query: `?1` is the value, `?2` the limit. `json_extract` returns 1 for `true`, and the text of an
/// object for the object. So if `typed`, the query also compares the JSON type (`?3`).
pub(super) fn page(table: &Table, format: Format, field: &str, typed: bool) -> Result<String, StoreError> {
    let typed = if typed { format!(" AND json_type({}, {}) = ?3", table.body, path(field)?) } else { String::new() };
    Ok(format!(
        "SELECT {}, {} FROM {} WHERE {} IS ?1{typed} LIMIT ?2",
        table.listed_key,
        format.read(table),
        table.name,
        extract(&table.body, field)?
    ))
}

/// The columns of a table or view; empty if it does not exist.
pub(super) fn columns(connection: &rusqlite::Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
    statement.query_map([table], |row| row.get(0))?.collect()
}
