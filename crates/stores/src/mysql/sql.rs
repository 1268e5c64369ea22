//! Tables, and the text of every statement.
//!
//! A collection is a table ``(`key` VARBINARY PRIMARY KEY, `body` LONGTEXT)``. `VARBINARY` compares and orders bytes:
//! no two keys are one by their case, accents or spaces at the end, and the primary key serves single keys, ranges and
//! prefixes in the order of the contract. `LONGTEXT` gives a document back as it was written. MySQL's JSON type would
//! not: it orders members and rewrites numbers.
//!
//! A field with an index has a generated column with the text of its value. InnoDB's index ends with the primary
//! key, so documents with equal values are in key order.

use mysql_async::Value;
use storebench_engine::store::{OpError, OpKind, SameKeys, StoreError};
use storebench_study::workload::Body;
use xxhash_rust::xxh3::xxh3_64;

use super::job::value;
use super::keys::Keys;
use super::study_queries::parameter;
use crate::document::wrong_collection;
use crate::refusals::refused;

/// The longest name of a table, column or index, in characters.
pub(super) const LONGEST_NAME: usize = 64;
/// How many characters of a value are in an index. Longer values are compared in the document too.
pub(super) const INDEXED: usize = 128;

/// What statements need to know about a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    /// Database and name, quoted.
    pub(super) place: String,
    pub(super) body: Body,
    /// Whether it is only read.
    pub(super) read_only: bool,
    /// Why a table of another program cannot take some writes. `None` for our own.
    pub(super) theirs: Option<Theirs>,
    /// The expression for the key as text.
    pub(super) key: String,
    /// The column of the key, quoted.
    pub(super) key_column: String,
    /// A key given as text, as the column takes it.
    pub(super) given: String,
    pub(super) keys: Keys,
    /// Which keys are one.
    pub(super) same: SameKeys,
    /// The order of the key's column, if that is not the order of its bytes.
    pub(super) order: Option<String>,
    /// The unique index of the key's column, quoted.
    pub(super) index: Option<String>,
    /// The expression for the document when it is read.
    pub(super) doc: String,
    /// The column of the document, quoted.
    pub(super) doc_column: String,
    pub(super) fields: Fields,
    /// Of our indexes: the first field and the name.
    pub(super) leads: Vec<(String, String)>,
}

/// What a table of another program requires of writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Theirs {
    /// Why it takes no new rows.
    pub(super) no_inserts: Option<String>,
    /// Another unique index: an upsert could overwrite the row of another key.
    pub(super) also_unique: Option<String>,
}

/// How the fields of a document are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fields {
    /// In the JSON of the document. These have a generated column.
    Json(Vec<String>),
    /// As columns of the table.
    Columns(Vec<String>),
    /// Not at all.
    None,
}

/// A statement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Text {
    /// Of an operation on one document.
    One(OpKind),
    /// Of this many documents or keys.
    Many(OpKind, u32),
    /// From a key; whether up to another one.
    Range(bool),
    /// Whose field has a value; whether the value is longer than what is indexed.
    Page(Box<str>, bool),
    /// A query of the study, by its number.
    Query(u16),
}

/// A name as an SQL identifier.
pub(super) fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text as an SQL literal, for our `sql_mode`.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''").replace('\0', "\\0"))
}

/// The text of a top-level member: its JSON, but a string without its escapes.
fn member(json: &str, field: &str) -> String {
    let path = format!("$.\"{}\"", field.replace('\\', "\\\\").replace('"', "\\\""));
    let value = format!("JSON_EXTRACT({json}, {})", literal(&path));
    format!("IF(LEFT({value}, 1) = '\"', CONCAT('\"', JSON_UNQUOTE({value}), '\"'), CONCAT('', {value}))")
}

/// The name of something that belongs to a field or an index: readable, and apart from that of every other one, though
/// the server ignores the case of such names.
fn name_of(what: &str, text: &str) -> String {
    let plain = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if plain && what.len() + text.len() <= LONGEST_NAME {
        return format!("{what}{text}");
    }
    let readable: String = text.chars().filter(char::is_ascii_alphanumeric).take(32).collect();
    format!("{what}{}_{:016x}", readable.to_ascii_lowercase(), xxh3_64(text.as_bytes()))
}

/// The name of the generated column of a field.
pub(super) fn field_column(field: &str) -> String {
    name_of("of_", field)
}

/// The definition of the generated column of a field.
pub(super) fn field_definition(field: &str) -> String {
    format!(
        "{} VARBINARY({}) AS (LEFT({}, {INDEXED})) VIRTUAL",
        identifier(&field_column(field)),
        4 * INDEXED,
        member("`body`", field)
    )
}

/// The name of an index of fields, and its definition.
pub(super) fn index_definition(fields: &[String]) -> (String, String) {
    let name = name_of("by_", &fields.join(if fields.len() > 1 { "." } else { "" }));
    let columns: Vec<String> = fields.iter().map(|field| identifier(&field_column(field))).collect();
    let definition = format!("KEY {} ({})", identifier(&name), columns.join(", "));
    (name, definition)
}

/// The column of our documents of this kind.
pub(super) fn body_column(body: Body) -> &'static str {
    match body {
        Body::Json => "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        Body::Bytes => "LONGBLOB",
        Body::Counter => "BIGINT",
    }
}

/// `n` times, with commas between.
fn times(what: &str, n: u32) -> String {
    vec![what; n as usize].join(",")
}

impl Table {
    /// A table that Storebench makes. `indexed` are the fields with a generated column.
    pub(super) fn ours(database: &str, name: &str, body: Body, read_only: bool, indexed: Vec<String>) -> Self {
        Self {
            place: format!("{}.{}", identifier(database), identifier(name)),
            body,
            read_only,
            theirs: None,
            key: "`key`".into(),
            key_column: "`key`".into(),
            given: "?".into(),
            keys: Keys::Any,
            same: SameKeys::Exact,
            order: None,
            index: Some("PRIMARY".into()),
            doc: if body == Body::Counter { "CAST(`body` AS CHAR)".into() } else { "`body`".into() },
            doc_column: "`body`".into(),
            fields: if body == Body::Json { Fields::Json(indexed) } else { Fields::None },
            leads: Vec::new(),
        }
    }

    /// Refuses an operation that does not fit the table.
    pub(super) fn fits(&self, kind: OpKind) -> Result<(), OpError> {
        crate::refusals::check_fits(kind, self.body)?;
        if self.read_only && kind.writes() {
            return Err(wrong_collection("the store was prepared for reading only; nothing was written"));
        }
        let Some(theirs) = &self.theirs else { return Ok(()) };
        let adds =
            matches!(kind, OpKind::Insert | OpKind::Upsert | OpKind::Counter | OpKind::BulkInsert | OpKind::BulkUpsert);
        if let Some(why) = theirs.no_inserts.as_ref().filter(|_| adds) {
            return Err(refused(why.clone()));
        }
        let replaces = matches!(kind, OpKind::Upsert | OpKind::Counter | OpKind::BulkUpsert);
        match theirs.also_unique.as_ref().filter(|_| replaces) {
            Some(index) => Err(refused(format!(
                "the table {} has a second unique index, `{index}`: an upsert could overwrite the row of another key. Use \
                 insert or replace",
                self.place
            ))),
            None => Ok(()),
        }
    }

    /// A key as a value: NULL, which finds nothing, for a text that is no key of the column.
    ///
    /// # Errors
    /// *Refused* for a write with such a text.
    pub(super) fn key_value(&self, kind: OpKind, key: &str) -> Result<Value, OpError> {
        match self.keys.have(key, kind.writes()) {
            true => Ok(value(key.as_bytes())),
            false if kind.writes() => {
                let (column, wanted) = (&self.key_column, self.keys.wanted());
                Err(refused(format!("the key `{key}` does not fit the column {column}: a key must be {wanted}")))
            }
            false => Ok(Value::NULL),
        }
    }

    /// The expression that orders keys by their bytes.
    fn by_bytes(&self) -> String {
        if self.order.is_none() { self.key_column.clone() } else { format!("CAST({} AS BINARY)", self.key) }
    }

    /// The text of a statement. It takes its values in the order in which the session gives them.
    pub(super) fn text(&self, text: &Text) -> Result<String, OpError> {
        let Self { place, key, key_column, given, doc, doc_column, .. } = self;
        let at = format!("WHERE {key_column} = {given}");
        let insert = |n| {
            format!("INSERT INTO {place} ({key_column}, {doc_column}) VALUES {}", times(&format!("({given},?)"), n))
        };
        // MySQL 8.0.20 and later prefer an alias of the row, which MariaDB does not know.
        let replace = format!("ON DUPLICATE KEY UPDATE {doc_column} = VALUES({doc_column})");
        let update = |to: &str| format!("UPDATE {place} SET {doc_column} = {to} {at}");
        // From NULL comes NULL: such a document is not found.
        let change = |to: &str| format!("{} AND {doc_column} IS NOT NULL", update(to));
        let within = |n| format!("WHERE {key_column} IN ({})", times(given, n));
        Ok(match text {
            Text::One(OpKind::Insert) => insert(1),
            Text::One(OpKind::Upsert) => format!("{} {replace}", insert(1)),
            Text::Many(OpKind::BulkInsert, n) => insert(*n),
            Text::Many(OpKind::BulkUpsert, n) => format!("{} {replace}", insert(*n)),
            Text::One(OpKind::Replace) => update("?"),
            Text::One(OpKind::Append) => change(&format!("CONCAT({doc_column}, ?)")),
            Text::One(OpKind::Prepend) => change(&format!("CONCAT(?, {doc_column})")),
            Text::One(OpKind::MergePatch) => change(&format!("JSON_MERGE_PATCH({doc_column}, ?)")),
            Text::One(OpKind::CompareAndSwap) => format!("{} AND CAST({doc} AS BINARY) = ?", update("?")),
            // The value is what LAST_INSERT_ID was given last.
            Text::One(OpKind::Counter) => format!(
                "INSERT INTO {place} ({key_column}, {doc_column}) VALUES ({given}, CAST(LAST_INSERT_ID(?) AS SIGNED)) ON \
                 DUPLICATE KEY UPDATE {doc_column} = CAST(LAST_INSERT_ID(COALESCE({doc_column}, 0) + ?) AS \
                 SIGNED)"
            ),
            Text::One(OpKind::Read) => format!("SELECT {doc} FROM {place} {at}"),
            Text::One(OpKind::Exists) => format!("SELECT 1 FROM {place} {at}"),
            Text::One(OpKind::Delete) => format!("DELETE FROM {place} {at}"),
            Text::Many(OpKind::BulkDelete, n) => format!("DELETE FROM {place} {}", within(*n)),
            Text::Many(OpKind::BulkRead, n) if self.same == SameKeys::Exact => {
                format!("SELECT {key}, {doc} FROM {place} {}", within(*n))
            }
            // By the requested texts: several may be one key.
            Text::Many(OpKind::BulkRead, n) => {
                let one = format!("SELECT CAST(? AS CHAR), {doc} FROM {place} {at}");
                vec![one; *n as usize].join(" UNION ALL ")
            }
            Text::Many(OpKind::Exists, n) => format!("SELECT {key} FROM {place} {}", within(*n)),
            Text::Range(bounded) => {
                let order = self.by_bytes();
                let bound = if *bounded { format!("AND {order} < ? ") } else { String::new() };
                format!("SELECT {key}, {doc} FROM {place} WHERE {order} >= ? {bound}ORDER BY {order} LIMIT ?")
            }
            Text::Page(field, long) => {
                let order = self.by_bytes();
                let condition = self.equals(field, *long)?;
                // Or else the server reads keys in their order until enough have the value: maybe all.
                let index = self.leads.iter().find(|(first, _)| **first == **field);
                let index = index.map(|(_, name)| format!(" FORCE INDEX ({})", identifier(name))).unwrap_or_default();
                format!("SELECT {key}, {doc} FROM {place}{index} WHERE {condition} ORDER BY {order} LIMIT ?")
            }
            Text::One(_) | Text::Many(..) | Text::Query(_) => return Err(OpError::unsupported()),
        })
    }

    /// That a field has a value: once if it is short or has no index, else twice.
    fn equals(&self, field: &str, long: bool) -> Result<String, OpError> {
        let in_document = format!("CAST({} AS BINARY) = ?", member(&self.doc, field));
        match &self.fields {
            Fields::Json(indexed) if !indexed.iter().any(|known| known == field) => Ok(in_document),
            Fields::Json(_) => {
                let column = identifier(&field_column(field));
                Ok(if long {
                    format!("{column} = LEFT(?, {INDEXED}) AND {in_document}")
                } else {
                    format!("{column} = ?")
                })
            }
            Fields::Columns(columns) if columns.iter().any(|known| known == field) => {
                Ok(format!("{} = ?", identifier(field)))
            }
            Fields::Columns(_) => Err(refused(format!("the table {} has no column `{field}`", self.place))),
            Fields::None => Err(wrong_collection("page works on collections of JSON only")),
        }
    }

    /// The value of a field, given as JSON, as [`Text::Page`] takes it, and whether it takes it twice.
    pub(super) fn sought(&self, field: &str, wanted: &str) -> (Value, bool) {
        if let Fields::Columns(_) = self.fields {
            return (parameter(wanted.as_bytes()), false);
        }
        let text = match serde_json::from_str::<String>(wanted) {
            Ok(text) => format!("\"{text}\""),
            Err(_) => wanted.trim().to_owned(),
        };
        let indexed = matches!(&self.fields, Fields::Json(indexed) if indexed.iter().any(|known| known == field));
        let twice = indexed && text.chars().count() >= INDEXED;
        (Value::Bytes(text.into_bytes()), twice)
    }

    /// The rows of a range, in the order of the key's column: after a key, or from one.
    pub(super) fn stream(&self, from: Option<&str>, bounded: bool, limit: u32) -> String {
        let Self { place, key, key_column, given, doc, .. } = self;
        let start = from.map(|compared| format!("{key_column} {compared} {given}"));
        let end = bounded.then(|| format!("{key_column} < {given}"));
        let bounds: Vec<String> = start.into_iter().chain(end).collect();
        let within = if bounds.is_empty() { String::new() } else { format!("WHERE {} ", bounds.join(" AND ")) };
        format!("SELECT {key}, {doc} FROM {place} {within}ORDER BY {key_column} LIMIT {limit}")
    }
}

/// Refuses names that the server does not take.
pub(super) fn check_name(name: &str) -> Result<(), StoreError> {
    if name.chars().count() <= LONGEST_NAME {
        return Ok(());
    }
    Err(StoreError::NotSupported(format!(
        "names have at most {LONGEST_NAME} characters in MySQL and MariaDB, but `{name}` has {}; rename the collection",
        name.chars().count()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_cannot_leave_their_quotes() {
        assert_eq!(identifier("a`b"), "`a``b`");
        assert_eq!(literal(r"it's \"), r"'it''s \\'");
        assert!(member("body", "a\"b\\").ends_with(r#"CONCAT('', JSON_EXTRACT(body, '$."a\\"b\\\\"')))"#));
    }

    #[test]
    fn names_that_differ_in_case_stay_apart() {
        let names = ["user", "User", "user ", "ü", &"x".repeat(62), &"x".repeat(63)].map(field_column);
        let mut folded: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
        folded.sort();
        folded.dedup();
        assert_eq!(folded.len(), names.len(), "{names:?}");
        assert!(names.iter().all(|name| name.chars().count() <= LONGEST_NAME), "{names:?}");
        assert_eq!(names[0], "of_user");
        let (one, two) = (index_definition(&["a_b".into()]), index_definition(&["a".into(), "b".into()]));
        assert_ne!(one.0, two.0);
    }

    #[test]
    fn what_only_reads_takes_no_writes() {
        let table = Table::ours("d", "t", Body::Json, true, vec!["user".into()]);
        for kind in OpKind::ALL {
            assert_eq!(table.fits(kind).is_ok(), !kind.writes() && kind != OpKind::Counter, "{kind}");
        }
        let table = Table { leads: vec![("user".into(), "by_user".into())], ..table };
        let page = |field: &str, long| table.text(&Text::Page(field.into(), long)).unwrap();
        assert_eq!(
            page("user", false),
            "SELECT `key`, `body` FROM `d`.`t` FORCE INDEX (`by_user`) WHERE `of_user` = ? ORDER BY `key` LIMIT ?"
        );
        assert!(page("user", true).contains("WHERE `of_user` = LEFT(?, 128) AND CAST(IF("));
        assert!(page("n", false).contains("JSON_EXTRACT(`body`, '$.\"n\"'))) AS BINARY) = ?"));
        let sought = |wanted: &str| table.sought("user", wanted);
        assert_eq!(sought(r#""\u0069t's""#), (Value::Bytes(b"\"it's\"".to_vec()), false));
        assert_eq!(sought(" 7.0"), (Value::Bytes(b"7.0".to_vec()), false));
        assert!(sought(&format!("\"{}\"", "x".repeat(INDEXED))).1);
    }

    #[test]
    fn an_upsert_never_reaches_the_row_of_another_key() {
        let theirs = Theirs { also_unique: Some("by_mail".into()), ..Theirs::default() };
        let table = Table { theirs: Some(theirs), ..Table::ours("d", "t", Body::Json, false, Vec::new()) };
        assert!(table.fits(OpKind::Upsert).unwrap_err().message.contains("by_mail"));
        assert!(table.fits(OpKind::Insert).is_ok() && table.fits(OpKind::Replace).is_ok());
    }
}
