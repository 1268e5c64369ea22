//! Tables, and the text of every statement.
//!
//! A collection is a table `(key text COLLATE "C" PRIMARY KEY, doc jsonb NOT NULL)`. Under the
//! collation `C` texts are ordered by their bytes, so the one index of the primary key serves single
//! keys, ranges and prefixes in the order of the contract. Under another collation it would take a
//! second index with `text_pattern_ops`, which every write would have to keep as well.

use storebench_core::store::StoreError;
use storebench_core::workload::Body;

use super::wire::oid;

/// What a comment must begin with for Storebench to take what carries it for its own.
pub(super) const MARK: &str = "storebench: ";
/// The function that merges, in the schema of the tables.
pub(super) const MERGE: &str = "storebench_merge_patch";
/// PostgreSQL cuts longer names (`NAMEDATALEN` - 1).
pub(super) const LONGEST_NAME_BYTES: usize = 63;

/// A table as its statements need to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    /// Schema and name, quoted.
    pub(super) place: String,
    /// The schema, quoted.
    pub(super) schema: String,
    pub(super) body: Body,
    /// Whether it is only read.
    pub(super) read_only: bool,
    /// The key as text, `%` for the parameter in a condition, and what the key is ordered by.
    pub(super) key: String,
    /// The type that a key given as text is cast to; none for text itself.
    pub(super) key_type: Option<String>,
    /// The column of the key, quoted.
    pub(super) key_column: String,
    /// The key in the order of its bytes.
    pub(super) order: String,
    /// The document as it is read.
    pub(super) doc: String,
    /// Whether it is read as `jsonb`, which has its version in front.
    pub(super) jsonb: bool,
    /// The revision as it is read.
    pub(super) revision: &'static str,
    /// How fields are found.
    pub(super) fields: Fields,
}

/// How the fields of a document are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fields {
    /// In this `jsonb` expression.
    Json(String),
    /// As columns of the table, by name and type.
    Columns(Vec<(String, String)>),
    /// Not at all.
    None,
}

/// What an operation needs of a table.
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
    BulkInsert,
    BulkUpsert,
    BulkRead,
    BulkDelete,
    Copy,
}

/// Every kind, in order of its number.
pub(super) const KINDS: [Kind; 16] = [
    Kind::Insert,
    Kind::Upsert,
    Kind::Replace,
    Kind::Append,
    Kind::Prepend,
    Kind::Read,
    Kind::Exists,
    Kind::Delete,
    Kind::Counter,
    Kind::CompareAndSwap,
    Kind::Merge,
    Kind::BulkInsert,
    Kind::BulkUpsert,
    Kind::BulkRead,
    Kind::BulkDelete,
    Kind::Copy,
];

/// A statement and the types of its parameters.
pub(super) type Statement = (String, Vec<u32>);

/// A name as an SQL identifier.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as an SQL literal, whatever `standard_conforming_strings` is.
pub(super) fn literal(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\'', "''");
    if escaped.contains('\\') { format!("E'{escaped}'") } else { format!("'{escaped}'") }
}

impl Table {
    /// A table that Storebench makes.
    pub(super) fn ours(schema: &str, name: &str, body: Body, read_only: bool) -> Self {
        Self {
            place: format!("{}.{}", identifier(schema), identifier(name)),
            schema: identifier(schema),
            body,
            read_only,
            key: "key".into(),
            key_type: None,
            key_column: "key".into(),
            order: "key".into(),
            doc: if body == Body::Counter { "doc::text".into() } else { "doc".into() },
            jsonb: body == Body::Json,
            revision: "xmin",
            fields: if body == Body::Json { Fields::Json("doc".into()) } else { Fields::None },
        }
    }

    /// Type of the column, its object identifier, that of an array of it.
    pub(super) fn column(body: Body) -> (&'static str, u32, u32) {
        match body {
            Body::Json => ("jsonb", oid::JSONB, oid::JSONB_ARRAY),
            Body::Bytes => ("bytea", oid::BYTEA, oid::BYTEA_ARRAY),
            Body::Counter => ("bigint", oid::INT8, oid::INT8_ARRAY),
        }
    }

    /// What the comment of a table of ours says.
    pub(super) fn mark(body: Body) -> String {
        let what = match body {
            Body::Json => "json",
            Body::Bytes => "bytes",
            Body::Counter => "counters",
        };
        format!("{MARK}collection of {what}")
    }

    /// A key given as the text parameter with this number.
    fn given(&self, number: u32) -> String {
        match &self.key_type {
            None => format!("${number}"),
            Some(name) => format!("CAST(${number}::text AS {name})"),
        }
    }

    fn any_of(&self) -> String {
        match &self.key_type {
            None => "ANY($1)".into(),
            Some(name) => format!("ANY(CAST($1::text[] AS {name}[]))"),
        }
    }

    /// The text of a statement; none where it does not fit this table.
    pub(super) fn statement(&self, kind: Kind) -> Option<Statement> {
        let Self { place, key, key_column, doc, revision, .. } = self;
        let (sql_type, one, many) = Self::column(self.body);
        let given = self.given(1);
        let writes = !matches!(kind, Kind::Read | Kind::Exists | Kind::BulkRead);
        let fits = match kind {
            Kind::Append | Kind::Prepend => self.body == Body::Bytes,
            Kind::Counter => self.body == Body::Counter,
            Kind::Merge => self.body == Body::Json,
            _ => true,
        };
        if !fits || (writes && self.read_only) {
            return None;
        }
        let insert = format!("INSERT INTO {place} (key, doc) VALUES ($1, $2)");
        let unnest = format!("INSERT INTO {place} (key, doc) SELECT * FROM unnest($1::text[], $2::{sql_type}[])");
        let update = "ON CONFLICT (key) DO UPDATE SET doc = EXCLUDED.doc";
        let (sql, types) = match kind {
            Kind::Insert => (insert, vec![oid::TEXT, one]),
            Kind::Upsert => (format!("{insert} {update}"), vec![oid::TEXT, one]),
            Kind::Replace => (format!("UPDATE {place} SET doc = $2 WHERE key = $1"), vec![oid::TEXT, one]),
            Kind::Append => (format!("UPDATE {place} SET doc = doc || $2 WHERE key = $1"), vec![oid::TEXT, one]),
            Kind::Prepend => (format!("UPDATE {place} SET doc = $2 || doc WHERE key = $1"), vec![oid::TEXT, one]),
            Kind::Read => {
                (format!("SELECT {revision}, {doc} FROM {place} AS t WHERE {key_column} = {given}"), vec![oid::TEXT])
            }
            Kind::Exists => (format!("SELECT 1 FROM {place} AS t WHERE {key_column} = {given}"), vec![oid::TEXT]),
            Kind::Delete => (format!("DELETE FROM {place} WHERE key = $1"), vec![oid::TEXT]),
            Kind::Counter => (
                format!(
                    "INSERT INTO {place} AS t (key, doc) VALUES ($1, $2) \
                     ON CONFLICT (key) DO UPDATE SET doc = t.doc + $3 RETURNING doc"
                ),
                vec![oid::TEXT, one, oid::INT8],
            ),
            // An update that waits for another one looks at the row again when that has ended, its
            // xmin included (READ COMMITTED).
            Kind::CompareAndSwap => (
                format!(
                    "WITH done AS (UPDATE {place} SET doc = $2 WHERE key = $1 AND xmin = $3 RETURNING xmin) \
                     SELECT (SELECT xmin FROM done), 1 WHERE EXISTS (SELECT 1 FROM {place} WHERE key = $1)"
                ),
                vec![oid::TEXT, one, oid::XID],
            ),
            Kind::Merge => (
                format!("UPDATE {place} SET doc = {}.{MERGE}(doc, $2) WHERE key = $1", self.schema),
                vec![oid::TEXT, one],
            ),
            Kind::BulkInsert => {
                (format!("{unnest} ON CONFLICT (key) DO NOTHING RETURNING key"), vec![oid::TEXT_ARRAY, many])
            }
            Kind::BulkUpsert => (format!("{unnest} {update}"), vec![oid::TEXT_ARRAY, many]),
            Kind::BulkRead => (
                format!("SELECT {key}, {doc} FROM {place} AS t WHERE {key_column} = {}", self.any_of()),
                vec![oid::TEXT_ARRAY],
            ),
            Kind::BulkDelete => (format!("DELETE FROM {place} WHERE key = ANY($1)"), vec![oid::TEXT_ARRAY]),
            Kind::Copy => (format!("COPY {place} (key, doc) FROM STDIN (FORMAT binary)"), vec![]),
        };
        Some((sql, types))
    }

    /// A range of keys: from `$1` on, up to but without `$2` where it is bounded.
    ///
    /// The limit stands in the text, so that the planner knows it in plans that it keeps.
    pub(super) fn range(&self, bounded: bool, limit: u32) -> Statement {
        let Self { place, key, doc, order, .. } = self;
        let bound = if bounded { format!(" AND {order} < $2") } else { String::new() };
        let types = vec![oid::TEXT; if bounded { 2 } else { 1 }];
        let sql =
            format!("SELECT {key}, {doc} FROM {place} AS t WHERE {order} >= $1{bound} ORDER BY {order} LIMIT {limit}");
        (sql, types)
    }

    /// The documents whose field equals `$1`, as JSON.
    ///
    /// # Errors
    /// What the table lacks for it.
    pub(super) fn page(&self, field: &str, limit: u32) -> Result<Statement, String> {
        let Self { place, key, doc, order, .. } = self;
        let condition = match &self.fields {
            Fields::Json(json) => format!("({json} -> {}) = $1", literal(field)),
            Fields::Columns(columns) => {
                let Some((name, sql_type)) = columns.iter().find(|(name, _)| name == field) else {
                    return Err(format!("the table {place} has no column `{field}`"));
                };
                format!("t.{} = CAST($1::jsonb #>> '{{}}' AS {sql_type})", identifier(name))
            }
            Fields::None => return Err("pages are of collections of JSON only".into()),
        };
        // In the order of the index's second column, so that the first are the same ones each time.
        let sql = format!("SELECT {key}, {doc} FROM {place} AS t WHERE {condition} ORDER BY {order} LIMIT {limit}");
        Ok((sql, vec![oid::JSONB]))
    }
}

/// The name of an index, and the statement that makes it; the key at its end keeps the documents of
/// a value in key order.
pub(super) fn create_index(table: &str, place: &str, fields: &[String]) -> (String, String) {
    let full = format!("{table}.{}", fields.join("."));
    let name = if full.len() <= LONGEST_NAME_BYTES {
        full
    } else {
        let mut cut = 40.min(table.len());
        while !table.is_char_boundary(cut) {
            cut -= 1;
        }
        format!("{}.{:016x}", &table[..cut], fnv1a(full.as_bytes()))
    };
    let expressions: Vec<String> = fields.iter().map(|field| format!("(doc -> {})", literal(field))).collect();
    let sql = format!("CREATE INDEX {} ON {place} ({}, key)", identifier(&name), expressions.join(", "));
    (name, sql)
}

/// FNV-1a, 64 bits: the same name for the same index in every version of this program.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

/// The function that merges by RFC 7396 inside one UPDATE, which PostgreSQL has none for.
pub(super) fn create_merge(schema: &str) -> String {
    let name = format!("{}.{MERGE}", identifier(schema));
    format!(
        "CREATE FUNCTION {name}(target jsonb, patch jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $merge$
DECLARE
  result jsonb := target;
  member text;
  part jsonb;
BEGIN
  IF jsonb_typeof(patch) <> 'object' THEN
    RETURN patch;
  END IF;
  IF result IS NULL OR jsonb_typeof(result) <> 'object' THEN
    result := '{{}}';
  END IF;
  FOR member, part IN SELECT * FROM jsonb_each(patch) LOOP
    IF jsonb_typeof(part) = 'null' THEN
      result := result - member;
    ELSE
      result := result || jsonb_build_object(member, {name}(result -> member, part));
    END IF;
  END LOOP;
  RETURN result;
END
$merge$;
COMMENT ON FUNCTION {name}(jsonb, jsonb) IS '{MARK}merges a JSON Merge Patch (RFC 7396)';"
    )
}

/// Refuses names that PostgreSQL would cut, so that two of them could become one.
pub(super) fn check_name(name: &str) -> Result<(), StoreError> {
    if name.len() <= LONGEST_NAME_BYTES {
        return Ok(());
    }
    Err(StoreError::NotSupported(format!(
        "PostgreSQL cuts names after {LONGEST_NAME_BYTES} bytes, and the collection `{name}` has {}; rename it",
        name.len()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_cannot_leave_their_quotes() {
        assert_eq!(identifier(r#"a"b"#), r#""a""b""#);
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal(r"a\' OR 1"), r"E'a\\'' OR 1'");
    }

    #[test]
    fn long_index_names_stay_apart() {
        let table = "t".repeat(63);
        let names = [["a"], ["b"]].map(|f| create_index(&table, "x", &f.map(str::to_owned)).0);
        assert!(names.iter().all(|name| name.len() <= LONGEST_NAME_BYTES) && names[0] != names[1], "{names:?}");
        assert!(check_name(&table).is_ok() && check_name(&format!("{table}t")).is_err());
    }

    #[test]
    fn what_only_reads_gets_no_statement_that_writes() {
        let table = Table::ours("s", "t", Body::Json, true);
        let given: Vec<Kind> = KINDS.into_iter().filter(|kind| table.statement(*kind).is_some()).collect();
        assert_eq!(given, [Kind::Read, Kind::Exists, Kind::BulkRead]);
    }
}
