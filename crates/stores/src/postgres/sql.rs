//! Tables, and the text of every statement.
//!
//! A collection is a table `(key text COLLATE "C" PRIMARY KEY, doc jsonb NOT NULL)`. The collation `C` orders text by
//! its bytes. The single index of the primary key therefore serves single keys, ranges and prefixes in the order of the
//! contract. Another collation would need a second index with `text_pattern_ops`, which every write would also have to
//! maintain.

use storebench_engine::store::{OpKind, StoreError};
use storebench_study::workload::Body;

use super::wire::oid;

/// The start of a comment that marks an object as Storebench's own.
pub(super) const MARK: &str = "storebench: ";
/// The merge function. It is in the schema of the tables. For tables of other programs it is in the session's temporary
/// schema, and disappears with the session.
pub(super) const MERGE: &str = "storebench_merge_patch";
/// PostgreSQL truncates longer names (`NAMEDATALEN` - 1).
pub(super) const LONGEST_NAME_BYTES: usize = 63;

/// What statements need to know about a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    /// Schema and name, quoted.
    pub(super) place: String,
    pub(super) body: Body,
    /// Whether it is only read.
    pub(super) read_only: bool,
    /// What a table of another program requires. `None` for our own.
    pub(super) theirs: Option<Theirs>,
    /// The merge function, with its schema.
    pub(super) merge: Option<String>,
    /// The expression for the key as text.
    pub(super) key: String,
    /// The type to which a key given as text is cast. `None` for text itself.
    pub(super) key_type: Option<String>,
    /// The most characters of a key, if the column cuts spaces off that are beyond them.
    pub(super) longest_key: Option<i32>,
    /// The key's column as conditions name it, and its bare name, quoted.
    pub(super) key_column: String,
    pub(super) key_name: String,
    /// The bare name of the document's column, quoted.
    pub(super) doc_name: String,
    /// How a document is passed to the server.
    pub(super) given: Given,
    /// The expression that orders keys by their bytes.
    pub(super) order: String,
    /// Whether ranges of keys follow the order of the column, which then has a unique index.
    pub(super) unique: bool,
    /// The identity of that order.
    pub(super) order_name: String,
    /// The expression for the document when it is read.
    pub(super) doc: String,
    /// Whether it is read as `jsonb`, which begins with its version.
    pub(super) jsonb: bool,
    /// The expression for the revision when it is read.
    pub(super) revision: &'static str,
    /// How fields are found.
    pub(super) fields: Fields,
}

/// What a table of another program requires of writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Theirs {
    /// Columns besides key and document for which a new row must have a value.
    pub(super) mandatory: Vec<String>,
    /// The column of the key or the document, if the server always computes its value (`GENERATED ALWAYS`), so that no
    /// row can be added with one.
    pub(super) computed: Option<String>,
    /// Whether inserts override that.
    pub(super) overrides: bool,
}

/// How a document is passed to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Given {
    /// Encoded like a document of this kind.
    pub(super) body: Body,
    /// The type of the parameter, its object identifier (OID), and the OID of its array type.
    pub(super) types: (&'static str, u32, u32),
    /// The cast to the column's type.
    pub(super) cast: &'static str,
}

impl Given {
    /// As our own column takes documents of this kind.
    pub(super) fn usual(body: Body) -> Self {
        Self { body, types: Table::column(body), cast: "" }
    }

    /// As text.
    pub(super) fn text(cast: &'static str) -> Self {
        Self { body: Body::Bytes, types: ("text", oid::TEXT, oid::TEXT_ARRAY), cast }
    }
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

/// A statement and the types of its parameters.
pub(super) type Statement = (String, Vec<u32>);

/// A name as an SQL identifier.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A string as an SQL literal, for either value of `standard_conforming_strings`.
pub(super) fn literal(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\'', "''");
    if escaped.contains('\\') { format!("E'{escaped}'") } else { format!("'{escaped}'") }
}

impl Table {
    /// A table that Storebench makes.
    pub(super) fn ours(schema: &str, name: &str, body: Body, read_only: bool) -> Self {
        Self {
            place: format!("{}.{}", identifier(schema), identifier(name)),
            body,
            read_only,
            theirs: None,
            merge: Some(format!("{}.{MERGE}", identifier(schema))),
            key: "key".into(),
            key_type: None,
            longest_key: None,
            key_column: "key".into(),
            key_name: "key".into(),
            doc_name: "doc".into(),
            given: Given::usual(body),
            order: "key".into(),
            unique: true,
            order_name: "C".into(),
            doc: if body == Body::Counter { "doc::text".into() } else { "doc".into() },
            jsonb: body == Body::Json,
            revision: "xmin",
            fields: if body == Body::Json { Fields::Json("doc".into()) } else { Fields::None },
        }
    }

    /// The type of the column, its OID, and the OID of its array type.
    pub(super) fn column(body: Body) -> (&'static str, u32, u32) {
        match body {
            Body::Json => ("jsonb", oid::JSONB, oid::JSONB_ARRAY),
            Body::Bytes => ("bytea", oid::BYTEA, oid::BYTEA_ARRAY),
            Body::Counter => ("bigint", oid::INT8, oid::INT8_ARRAY),
        }
    }

    /// A key given as text, cast to the type of the column. A text that is too long gets a full stop at its end, so that
    /// the server refuses it even if the rest is spaces, which it would cut off.
    fn cast(&self, key: &str) -> String {
        match (&self.key_type, self.longest_key) {
            (Some(name), _) => format!("CAST({key}::text AS {name})"),
            (None, Some(most)) => format!("({key} || CASE WHEN length({key}) > {most} THEN '.' ELSE '' END)"),
            (None, None) => key.to_owned(),
        }
    }

    fn any_of(&self) -> String {
        match &self.key_type {
            None => "ANY($1)".into(),
            Some(name) => format!("ANY(CAST($1::text[] AS {name}[]))"),
        }
    }

    /// Whether the statement of an operation fits the table.
    fn fits(&self, kind: OpKind) -> bool {
        let of_body = match kind {
            OpKind::Append | OpKind::Prepend => self.body == Body::Bytes,
            OpKind::Counter => self.body == Body::Counter,
            OpKind::MergePatch => self.body == Body::Json && self.merge.is_some(),
            _ => true,
        };
        let of_theirs = self.theirs.as_ref().is_none_or(|theirs| match kind {
            // Not every table has xmin.
            OpKind::CompareAndSwap => false,
            OpKind::Insert | OpKind::Upsert | OpKind::Counter | OpKind::BulkInsert | OpKind::BulkUpsert => {
                theirs.mandatory.is_empty() && (theirs.computed.is_none() || theirs.overrides)
            }
            _ => true,
        });
        of_body && of_theirs && !(kind.writes() && self.read_only)
    }

    /// The statement of an operation whose text depends on nothing else. `None` if it does not fit this table.
    pub(super) fn statement(&self, kind: OpKind) -> Option<Statement> {
        if !self.fits(kind) {
            return None;
        }
        let Self { place, key_column, key_name, doc, doc_name, revision, .. } = self;
        let Given { types: (sql_type, one, many), cast, .. } = self.given;
        let given = self.cast("$1");
        let table = format!("{place} AS t");
        let overrides = self.theirs.as_ref().is_some_and(|theirs| theirs.overrides && theirs.computed.is_some());
        let overriding = if overrides { "OVERRIDING SYSTEM VALUE " } else { "" };
        let insert = format!("INSERT INTO {table} ({key_name}, {doc_name}) {overriding}VALUES ({given}, $2{cast})");
        let items = format!("unnest($1::text[], $2::{sql_type}[])");
        let item = self.cast("k");
        let unnest = format!(
            "INSERT INTO {table} ({key_name}, {doc_name}) {overriding}SELECT {item}, d{cast} FROM {items} AS g(k, d)"
        );
        let on = format!("ON CONFLICT ({key_name})");
        let replace = format!("{on} DO UPDATE SET {doc_name} = EXCLUDED.{doc_name}");
        let update = |to: String| format!("UPDATE {table} SET {doc_name} = {to} WHERE {key_column} = {given}");
        // From NULL comes NULL: such a document of somebody else's is not found.
        let change = |to: String| format!("{} AND t.{doc_name} IS NOT NULL", update(to));
        let (sql, types) = match kind {
            OpKind::Insert => (insert, vec![oid::TEXT, one]),
            OpKind::Upsert => (format!("{insert} {replace}"), vec![oid::TEXT, one]),
            OpKind::Replace => (update(format!("$2{cast}")), vec![oid::TEXT, one]),
            OpKind::Append => (change(format!("t.{doc_name} || $2")), vec![oid::TEXT, one]),
            OpKind::Prepend => (change(format!("$2 || t.{doc_name}")), vec![oid::TEXT, one]),
            OpKind::Read => {
                (format!("SELECT {revision}, {doc} FROM {table} WHERE {key_column} = {given}"), vec![oid::TEXT])
            }
            OpKind::Exists => (format!("SELECT 1 FROM {table} WHERE {key_column} = {given}"), vec![oid::TEXT]),
            OpKind::Delete => (format!("DELETE FROM {table} WHERE {key_column} = {given}"), vec![oid::TEXT]),
            OpKind::Counter => (
                format!(
                    "{insert} {on} DO UPDATE SET {doc_name} = COALESCE(t.{doc_name}, 0) + $3 RETURNING t.{doc_name}::bigint"
                ),
                vec![oid::TEXT, one, oid::INT8],
            ),
            // An update that waits for another one reads the row again when that one has ended, including its xmin
            // (READ COMMITTED).
            OpKind::CompareAndSwap => (
                format!(
                    "WITH done AS (UPDATE {place} SET doc = $2 WHERE key = $1 AND xmin = $3 RETURNING xmin) \
                     SELECT (SELECT xmin FROM done), 1 WHERE EXISTS (SELECT 1 FROM {place} WHERE key = $1)"
                ),
                vec![oid::TEXT, one, oid::XID],
            ),
            OpKind::MergePatch => {
                let merge = self.merge.as_deref().unwrap_or_default();
                // A document that is stored as text is merged as jsonb.
                let to_json = if self.jsonb { "" } else { "::jsonb" };
                let back = if self.jsonb {
                    ""
                } else if cast.is_empty() {
                    "::text"
                } else {
                    cast
                };
                (change(format!("{merge}(t.{doc_name}{to_json}, $2){back}")), vec![oid::TEXT, oid::JSONB])
            }
            OpKind::BulkInsert if self.key_type.is_some() => {
                // Reports which of the given texts were new: the column may hold `7` for a key given as `007`.
                let sql = format!(
                    "WITH given AS (SELECT k, d, n FROM {items} WITH ORDINALITY AS g(k, d, n)), \
                     made AS (INSERT INTO {table} ({key_name}, {doc_name}) {overriding}SELECT {item}, d{cast} FROM given ORDER BY n \
                     {on} DO NOTHING RETURNING {key_column} AS made) \
                     SELECT DISTINCT ON (made) k FROM given JOIN made ON made = {item} ORDER BY made, n"
                );
                (sql, vec![oid::TEXT_ARRAY, many])
            }
            OpKind::BulkInsert => {
                (format!("{unnest} {on} DO NOTHING RETURNING {key_column}"), vec![oid::TEXT_ARRAY, many])
            }
            OpKind::BulkUpsert => (format!("{unnest} {replace}"), vec![oid::TEXT_ARRAY, many]),
            // By the requested texts: a text may occur twice, and several texts may be one key.
            OpKind::BulkRead => (
                format!(
                    "SELECT g.k, {doc} FROM unnest($1::text[]) AS g(k) JOIN {table} ON {key_column} = {}",
                    self.cast("g.k")
                ),
                vec![oid::TEXT_ARRAY],
            ),
            // FOR UPDATE needs the privilege to update rows, which a user who may delete need not have.
            OpKind::BulkDelete if self.theirs.is_some() => {
                (format!("DELETE FROM {table} WHERE {key_column} = {}", self.any_of()), vec![oid::TEXT_ARRAY])
            }
            // Lock the rows in the order of their keys: a plan may visit them in any order.
            OpKind::BulkDelete => (
                format!(
                    "WITH locked AS (SELECT {key_column} AS k FROM {table} WHERE {key_column} = {} \
                     ORDER BY {key_column} FOR UPDATE) DELETE FROM {table} USING locked WHERE {key_column} = locked.k",
                    self.any_of()
                ),
                vec![oid::TEXT_ARRAY],
            ),
            _ => return None,
        };
        Some((sql, types))
    }

    /// The `COPY` that inserts documents. `None` into a table of another program, since it cannot cast.
    pub(super) fn copy_in(&self) -> Option<Statement> {
        let Self { place, key_name, doc_name, .. } = self;
        let sql = || (format!("COPY {place} ({key_name}, {doc_name}) FROM STDIN (FORMAT binary)"), Vec::new());
        (self.theirs.is_none() && !self.read_only).then(sql)
    }

    /// A range of keys: `$1` is inclusive, and `$2`, if bounded, exclusive.
    ///
    /// The limit is part of the text, so that the planner knows it in cached plans.
    pub(super) fn range(&self, bounded: bool, limit: u32) -> Statement {
        let Self { place, key, doc, order, .. } = self;
        let bound = if bounded { format!(" AND {order} < $2") } else { String::new() };
        let types = vec![oid::TEXT; if bounded { 2 } else { 1 }];
        let sql =
            format!("SELECT {key}, {doc} FROM {place} AS t WHERE {order} >= $1{bound} ORDER BY {order} LIMIT {limit}");
        (sql, types)
    }

    /// A `COPY` of a range of keys, in the order of [`Table::ranged`].
    pub(super) fn copy_out(&self, start: Option<&str>, end: Option<&str>) -> String {
        let Self { place, key, doc, .. } = self;
        let ranged = self.ranged();
        // If the order is that of the key's bytes, bounds stay text.
        let bound = |compared: &str, bound: &str| {
            let bound = if self.unique { self.cast(&literal(bound)) } else { literal(bound) };
            format!("{ranged} {compared} {bound}")
        };
        let bounds: Vec<String> =
            start.map(|key| bound(">=", key)).into_iter().chain(end.map(|key| bound("<", key))).collect();
        let within = if bounds.is_empty() { String::new() } else { format!(" WHERE {}", bounds.join(" AND ")) };
        format!("COPY (SELECT {key}, {doc} FROM {place} AS t{within} ORDER BY {ranged}) TO STDOUT (FORMAT binary)")
    }

    /// The order of key ranges: the column itself if it has an index, otherwise its text by bytes, which every type
    /// has.
    pub(super) fn ranged(&self) -> &str {
        if self.unique { &self.key_column } else { &self.order }
    }

    /// The documents whose field equals `$1`, as JSON.
    ///
    /// # Errors
    /// What the table lacks.
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
            Fields::None => return Err("page works on collections of JSON only".into()),
        };
        // In the order of the index's second column, so that the first documents are always the same.
        let sql = format!("SELECT {key}, {doc} FROM {place} AS t WHERE {condition} ORDER BY {order} LIMIT {limit}");
        Ok((sql, vec![oid::JSONB]))
    }
}

/// The name of an index, and the statement that creates it. The key is its last column, so that documents with equal
/// values are in key order.
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

/// FNV-1a, 64 bits. An index has the same name in every version of this program.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

/// Creates the function that merges by RFC 7396 inside one UPDATE. PostgreSQL has no such function.
pub(super) fn create_merge(create: &str, name: &str) -> String {
    format!(
        "{create} FUNCTION {name}(target jsonb, patch jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $merge$
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
$merge$;"
    )
}

/// Marks the function as ours.
pub(super) fn mark_merge(name: &str) -> String {
    format!("COMMENT ON FUNCTION {name}(jsonb, jsonb) IS '{MARK}merges a JSON Merge Patch (RFC 7396)';")
}

/// Refuses names that PostgreSQL would truncate, since two of them could then be equal.
pub(super) fn check_name(name: &str) -> Result<(), StoreError> {
    if name.len() <= LONGEST_NAME_BYTES {
        return Ok(());
    }
    Err(StoreError::NotSupported(format!(
        "PostgreSQL truncates names after {LONGEST_NAME_BYTES} bytes, but the name `{name}` has {}; rename \
         the collection",
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
        let given: Vec<OpKind> = OpKind::ALL.into_iter().filter(|kind| table.statement(*kind).is_some()).collect();
        assert_eq!(given, [OpKind::Read, OpKind::Exists, OpKind::BulkRead]);
        assert!(table.copy_in().is_none());
    }
}
