//! Tables: what they consist of, and the statements that use them.
//!
//! A collection of ours is a table `key text PRIMARY KEY, body` with a column `field_NAME` for each indexed field.
//! `body` is a text, which the server checks to be UTF-8 and shows as such, or a blob for collections of bytes.
//!
//! Documents are written with `UPDATE`, never with `INSERT`: an inserted row has a marker that outlives the body, so
//! that the key of an expired document would still be taken.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::Value;
use storebench_documents::json;
use storebench_engine::store::{ErrorKind, Existing, OpError, OpKind, SameKeys, StoreError};
use storebench_study::workload::Body;
use xxhash_rust::xxh3::xxh3_128;

use super::errors::is_gone;
use super::form::Form;
use super::link::{Cells, Link, literal};
use super::settings::quoted;
use super::values::{Bound, Raw};
use crate::existing::TheirTable;
use crate::refusals::refused;

/// Names of columns for indexed fields begin with this.
const FIELD: &str = "field_";
/// Longer values of indexed fields are replaced by a hash. The index drops terms of more than 1 to 8 KiB.
const LONGEST_TERM: usize = 1_000;
/// A body that no document has, for a lightweight transaction that is always done.
const NO_BODY: &str = "storebench: no document has this body";

/// A column as the server describes it.
#[derive(Debug, Clone)]
pub(super) struct Column {
    name: String,
    cql_type: String,
    kind: String,
    /// Its position in the key; -1 outside of it.
    position: i32,
}

/// Types of keys that are written, apart from texts: their values have few forms, and all of them are known to be one.
const WRITTEN_KEYS: &str = "tinyint smallint int bigint varint uuid timeuuid";

/// Of a row: its key, its document, and in how many seconds it expires.
pub(super) type ReadRow<'f> = (String, Result<Cow<'f, [u8]>, OpError>, Option<i32>);

pub(super) const NULL: OpError = OpError::fixed(ErrorKind::Failed, "the document is null");

/// What a statement does, and whether it reads or writes how long the document is kept, too.
pub(super) type Verb = (OpKind, bool);

/// Where a document is.
#[derive(Debug, Clone)]
enum Document {
    Column(String),
    /// The whole row, as a JSON object of these columns.
    Row(Vec<(String, Form)>),
}

/// A table and how it holds documents.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) keyspace: String,
    pub(super) name: String,
    pub(super) body: Body,
    pub(super) read_only: bool,
    /// Whether somebody else made it.
    pub(super) theirs: bool,
    /// The columns of the primary key.
    keys: Vec<(String, Form)>,
    /// Which keys are one: JSON of a number or a UUID has several forms.
    pub(super) same_keys: SameKeys,
    /// How many of them are the partition key.
    partition: usize,
    document: Document,
    /// The columns of the document that can expire as a whole.
    expiring: Vec<String>,
    /// The indexed fields, each with its own column.
    pub(super) fields: Vec<String>,
}

impl Table {
    /// A table of ours with these indexed fields.
    pub(super) fn ours(keyspace: &str, name: &str, body: Body, read_only: bool, fields: Vec<String>) -> Self {
        Self {
            keyspace: keyspace.to_owned(),
            name: name.to_owned(),
            body,
            read_only,
            theirs: false,
            keys: vec![("key".to_owned(), Form::Text)],
            same_keys: SameKeys::Exact,
            partition: 1,
            document: Document::Column("body".to_owned()),
            expiring: vec!["body".to_owned()],
            fields,
        }
    }

    /// Finds out how to read or write a table of another program.
    ///
    /// # Errors
    /// `NotSupported` with what the table lacks, and its columns.
    pub(super) async fn theirs(
        link: &Link,
        user: Option<&str>,
        (keyspace, name): (&str, &str),
        existing: &Existing,
        body: Body,
        write: bool,
    ) -> Result<Self, StoreError> {
        let columns = columns(link, keyspace, name).await?;
        let formed = |column: &Column| (column.name.clone(), Form::of(&column.cql_type));
        let table = TheirTable {
            place: link.place.clone(),
            name: format!("{keyspace}.{name}"),
            columns: columns.iter().map(|column| &*column.name).collect(),
        };
        table.check_exists("keyspace.table")?;
        check_unmasked(link, user, (keyspace, name), &table).await?;
        // Partition key first, each part in its order.
        let mut keys: Vec<&Column> = columns.iter().filter(|column| column.position >= 0).collect();
        keys.sort_by_key(|column| (column.kind != "partition_key", column.position));
        let partition = keys.iter().filter(|column| column.kind == "partition_key").count();
        if let Some(wanted) = &existing.key
            && !matches!(&keys[..], [only] if only.name == *wanted)
        {
            return Err(table.unnamed(&format!("the column `{wanted}` alone is not its primary key")));
        }
        if write {
            check_written(link, (keyspace, name), &keys, &table).await?;
        }
        let rest = || columns.iter().filter(|column| column.position < 0);
        let document = match &existing.body {
            None => {
                table.check_row(write, body)?;
                Document::Row(
                    columns.iter().map(|column| (column.name.clone(), Form::of_row(&column.cql_type))).collect(),
                )
            }
            Some(wanted) => {
                let column = table.named(wanted, "document", rest().map(|column| (&*column.name, column)))?;
                if Form::of(&column.cql_type) != Form::Text && (column.cql_type != "blob" || body != Body::Bytes) {
                    return Err(table.misfit(wanted, &column.cql_type));
                }
                Document::Column(wanted.clone())
            }
        };
        // Collections have a TTL for each element, and counters have none.
        let expires = |column: &&Column| {
            let of = &column.cql_type;
            let frozen = !of.contains('<') || ["frozen<", "vector<"].iter().any(|whole| of.starts_with(whole));
            column.kind == "regular" && column.cql_type != "counter" && frozen
        };
        Ok(Self {
            keyspace: keyspace.to_owned(),
            name: name.to_owned(),
            body,
            read_only: !write,
            theirs: true,
            same_keys: match keys.first().map(|key| &*key.cql_type) {
                _ if keys.len() > 1 => SameKeys::Exact,
                Some("tinyint" | "smallint" | "int" | "bigint" | "varint") => SameKeys::Integer,
                // Not `decimal`: there, 1.0 and 1.00 are two keys.
                Some("double" | "float") => SameKeys::Number,
                Some("uuid" | "timeuuid") => SameKeys::Uuid,
                Some("timestamp") => SameKeys::Moment,
                _ => SameKeys::Exact,
            },
            keys: keys.into_iter().map(formed).collect(),
            partition,
            expiring: match &document {
                Document::Column(name) => vec![name.clone()],
                Document::Row(_) => rest().filter(expires).map(|column| column.name.clone()).collect(),
            },
            document,
            fields: Vec::new(),
        })
    }

    /// Its full name in CQL.
    pub(super) fn place(&self) -> String {
        format!("{}.{}", quoted(&self.keyspace), quoted(&self.name))
    }

    /// Whether documents are whole rows.
    pub(super) fn is_rows(&self) -> bool {
        matches!(self.document, Document::Row(_))
    }

    /// A row that begins with the parts of the key: its key, its document, and in how many seconds it expires, if the
    /// row tells. `None` if a part of its key has no value, or none that JSON has.
    pub(super) fn read_row<'f>(&self, row: &[Raw<'f>]) -> Option<ReadRow<'f>> {
        let (key, rest) = row.split_at_checked(self.keys.len())?;
        let columns = if let Document::Row(names) = &self.document { names.len() } else { 1 };
        let (document, times) = rest.split_at_checked(columns)?;
        Some((self.key_text(key)?, self.document_of(document), self.expires_in(document, times)))
    }

    /// The document of these columns of an answer.
    ///
    /// # Errors
    /// *Failed* if it is null, or has a value that JSON has not.
    pub(super) fn document_of<'f>(&self, cells: &[Raw<'f>]) -> Result<Cow<'f, [u8]>, OpError> {
        let Document::Row(columns) = &self.document else {
            return cells.first().and_then(|cell| cell.0).map(Cow::Borrowed).ok_or(NULL);
        };
        let mut object = Vec::new();
        for ((name, form), cell) in columns.iter().zip(cells) {
            let Some(value) = form.json(cell.0.unwrap_or(b"null")) else {
                let why = "has NaN or an infinite number, which JSON does not have";
                return Err(OpError::new(ErrorKind::Failed, format!("its column `{name}` {why}")));
            };
            object.push(if object.is_empty() { b'{' } else { b',' });
            json::push_text(name, &mut object);
            object.push(b':');
            object.extend_from_slice(&value);
        }
        object.push(b'}');
        Ok(Cow::Owned(object))
    }

    /// In how many seconds a document expires, from its columns and their times. A row expires with the last of its
    /// columns, if all of them do.
    fn expires_in(&self, cells: &[Raw<'_>], times: &[Raw<'_>]) -> Option<i32> {
        let Document::Row(columns) = &self.document else { return times.first()?.int() };
        let mut last = None;
        let valued = |(_, cell): &(_, &Raw<'_>)| cell.0.is_some_and(|value| value != b"null");
        for ((name, _), _) in columns.iter().zip(cells).filter(valued) {
            if self.keys.iter().any(|(key, _)| key == name) {
                continue;
            }
            let time = self.expiring.iter().position(|expiring| expiring == name)?;
            last = last.max(Some(times.get(time)?.int()?));
        }
        last
    }

    /// The columns that give the document.
    fn document(&self) -> String {
        match &self.document {
            Document::Column(name) => quoted(name),
            Document::Row(columns) => read_all(columns),
        }
    }

    fn by_key(&self) -> String {
        let part = |(name, form): &(String, Form)| format!("{} = {}", quoted(name), form.given());
        self.keys.iter().map(part).collect::<Vec<_>>().join(" AND ")
    }

    /// The parts of a key, as statements take them.
    ///
    /// # Errors
    /// *Refused* if it is not the JSON array that a key of several columns is.
    pub(super) fn key<'a>(&self, key: &'a str) -> Result<Vec<Bound<'a>>, OpError> {
        let is_json = serde_json::from_str::<IgnoredAny>(key).is_ok();
        let parts: Vec<&[u8]> = match &self.keys[..] {
            [(_, Form::Text)] => return Ok(vec![Bound::bytes(key.as_bytes())]),
            [_] if self.same_keys == SameKeys::Integer && !is_whole(key) => {
                return Err(refused(format!(
                    "`{key}` is no key of this table, whose keys are whole numbers, such as -5"
                )));
            }
            // JSON of a text would be the key that is the text.
            [_] if is_json && self.same_keys != SameKeys::Uuid && !key.trim_start().starts_with('"') => {
                return Ok(vec![Bound::bytes(key.as_bytes())]);
            }
            [_] => return Ok(vec![Bound::Bytes(Cow::Owned(Value::from(key).to_string().into_bytes()))]),
            _ if is_json => json::elements(key.as_bytes()).collect(),
            _ => Vec::new(),
        };
        if parts.len() != self.keys.len() {
            return Err(refused(format!("a key of this table is a JSON array of {} values", self.keys.len())));
        }
        // A text column takes the text, and all others take JSON.
        let part = |(part, (_, form)): (&'a [u8], &(String, Form))| match json::text(part) {
            Some(text) if *form == Form::Text => Bound::Bytes(Cow::Owned(text.into_owned().into_bytes())),
            _ => Bound::bytes(part),
        };
        Ok(parts.into_iter().zip(&self.keys).map(part).collect())
    }

    /// The text of a key from its parts, which are texts or JSON: of one part that part, of several a JSON array. JSON
    /// stays as it is: numbers may have more digits than any type of ours.
    pub(super) fn key_text(&self, parts: &[Raw<'_>]) -> Option<String> {
        let read = |(part, (_, form)): (&Raw<'_>, &(String, Form))| {
            let value = form.json(part.0?).filter(|value| *form == Form::Text || **value != *b"null")?;
            let text = std::str::from_utf8(&value).ok()?;
            Some(if *form == Form::Text { Value::from(text).to_string() } else { text.to_owned() })
        };
        let values: Vec<String> = parts.iter().zip(&self.keys).map(read).collect::<Option<_>>()?;
        Some(match &values[..] {
            [one] => json::text(one.as_bytes()).map_or_else(|| one.clone(), Cow::into_owned),
            several => format!("[{}]", several.join(",")),
        })
    }

    /// The columns that give the text of a key.
    fn key_list(&self) -> String {
        read_all(&self.keys)
    }

    fn token(&self) -> String {
        let names: Vec<String> = self.keys[..self.partition].iter().map(|(name, _)| quoted(name)).collect();
        format!("token({})", names.join(", "))
    }

    /// Rows in the order of their tokens, from one on and before another: the parts of the key, the document, and in
    /// how many seconds its columns expire.
    pub(super) fn select_range(&self, start: bool, end: bool) -> String {
        let ttl: String = self.expiring.iter().map(|name| format!(", TTL({})", quoted(name))).collect();
        let token = self.token();
        let bounds = [(start, ">="), (end, "<")].into_iter().filter(|(bound, _)| *bound);
        let bounds = bounds.zip([" WHERE", " AND"]).map(|((_, sign), and)| format!("{and} {token} {sign} ?"));
        let bounds: String = bounds.collect();
        format!("SELECT {}, {}{ttl} FROM {}{bounds}", self.key_list(), self.document(), self.place())
    }

    /// The keys of the first rows from a token on.
    pub(super) fn select_keys(&self) -> String {
        format!("SELECT {} FROM {} WHERE {} >= ? LIMIT ?", self.key_list(), self.place(), self.token())
    }

    pub(super) fn page(&self, field: &str) -> String {
        let field = quoted(&column_of(field));
        format!("SELECT {}, {} FROM {} WHERE {field} = ? LIMIT ?", self.key_list(), self.document(), self.place())
    }

    /// The statements for one document. The values of an `UPDATE` are an expiry if it has one, then those of
    /// [`document_values`](Self::document_values), then the key, then the body that is expected. Upserts are
    /// lightweight transactions if `all_lwt`.
    pub(super) fn statements(&self, all_lwt: bool) -> Vec<(Verb, String)> {
        use OpKind::{CompareAndSwap, Delete, Exists, Insert, Read, Replace, Upsert};
        let (place, document, by_key) = (self.place(), self.document(), self.by_key());
        let select = |what: &str| format!("SELECT {what} FROM {place} WHERE {by_key}");
        let mut all = vec![((Read, false), select(&document)), ((Exists, false), select(&quoted(&self.keys[0].0)))];
        if self.read_only {
            return all;
        }
        let fields: String = self.fields.iter().map(|field| format!(", {} = ?", quoted(&column_of(field)))).collect();
        let update = |using: &str, condition: &str| {
            format!("UPDATE {place}{using} SET {document} = ?{fields} WHERE {by_key}{condition}")
        };
        let (upsert, insert) = if self.theirs {
            let (key, form) = &self.keys[0];
            let insert = format!("INSERT INTO {place} ({document}, {}) VALUES (?, {})", quoted(key), form.given());
            (insert.clone(), format!("{insert} IF NOT EXISTS"))
        } else {
            (update("", ""), update("", &format!(" IF {document} = null")))
        };
        let no_body = match self.body {
            Body::Bytes => NO_BODY.bytes().fold("0x".to_owned(), |hex, byte| format!("{hex}{byte:02x}")),
            _ => literal(NO_BODY),
        };
        let always = format!(" IF {document} != {no_body}");
        let expected = format!(" IF {document} = ?");
        all.extend([
            ((Read, true), select(&format!("{document}, TTL({document})"))),
            ((Upsert, false), if all_lwt { update("", &always) } else { upsert }),
            ((Insert, false), insert),
            ((Replace, false), update("", " IF EXISTS")),
            ((CompareAndSwap, false), update("", &expected)),
            ((CompareAndSwap, true), update(" USING TTL ?", &expected)),
            ((Delete, false), format!("DELETE FROM {place} WHERE {by_key} IF EXISTS")),
        ]);
        all
    }

    /// The values of a document and its indexed fields. A field that the document lacks removes what was there, with a
    /// tombstone, unless nothing was there.
    pub(super) fn document_values<'a>(&self, body: &'a [u8], new: bool) -> Vec<Bound<'a>> {
        let mut values = vec![Bound::bytes(body)];
        values.extend(self.fields.iter().map(|field| match json::member(body, field).and_then(term) {
            Some(term) => Bound::Bytes(Cow::Owned(term)),
            None if new => Bound::Unset,
            None => Bound::Null,
        }));
        values
    }
}

/// The expressions that read these columns.
fn read_all(columns: &[(String, Form)]) -> String {
    columns.iter().map(|(name, form)| form.read(name)).collect::<Vec<_>>().join(", ")
}

/// Whether a key is digits, perhaps with a sign. Servers take other forms of a number, too.
fn is_whole(key: &str) -> bool {
    let digits = key.strip_prefix(['-', '+']).unwrap_or(key);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The rows of a system table that are of a table.
fn told_of(columns: &str, table: &str, keyspace: &str, name: &str) -> String {
    let (keyspace, name) = (literal(keyspace), literal(name));
    format!("SELECT {columns} FROM system_schema.{table} WHERE keyspace_name = {keyspace} AND table_name = {name}")
}

/// Refuses a table with masked columns, unless the user is known to see what is behind the masks.
async fn check_unmasked(
    link: &Link,
    user: Option<&str>,
    (keyspace, name): (&str, &str),
    table: &TheirTable<'_>,
) -> Result<(), StoreError> {
    let query = told_of("column_name", "column_masks", keyspace, name);
    let masked = match link.rows(&format!("read the masks of `{keyspace}.{name}`"), query).await {
        // Cassandra 4 and ScyllaDB have no masks.
        Err(error) if is_gone(&error) => return Ok(()),
        masked => masked?,
    };
    let Some(column) = masked.first().map(|row| row.text(0)) else { return Ok(()) };
    let place = format!("{}.{}", quoted(keyspace), quoted(name));
    let sees = match user {
        Some(user) => {
            let listed = format!("LIST UNMASK PERMISSION ON TABLE {place} OF {}", literal(user));
            !link.rows_if_known(listed).await.is_empty()
        }
        None => false,
    };
    if sees {
        return Ok(());
    }
    Err(table.refused(&format!(
        "its column `{column}` is masked, so its documents may be masks instead of the data; use a login with GRANT \
         UNMASK ON TABLE {place}, or remove the masks with ALTER TABLE {place} ALTER {} DROP MASKED",
        quoted(column)
    )))
}

/// Refuses to write into a table in which a document would get another key, or would not stay.
async fn check_written(
    link: &Link,
    (keyspace, name): (&str, &str),
    keys: &[&Column],
    table: &TheirTable<'_>,
) -> Result<(), StoreError> {
    let [key] = keys else {
        return Err(table.refused("a table whose primary key has several columns can only be read"));
    };
    let of = &key.cql_type;
    if Form::of(of) != Form::Text && !WRITTEN_KEYS.split(' ').any(|written| written == of) {
        return Err(table.refused(&format!("its key `{}` has the type {of}, which can only be read", key.name)));
    }
    let query = told_of("default_time_to_live", "tables", keyspace, name);
    let rows = link.rows(&format!("read the settings of `{keyspace}.{name}`"), query).await?;
    match rows.first().and_then(|row| row.number(0)) {
        Some(seconds) if seconds > 0.0 => Err(table.refused(&format!(
            "its default_time_to_live is {seconds}, so the server would remove what is written after so many seconds; \
             set it to 0 with ALTER TABLE, or write into another table"
        ))),
        _ => Ok(()),
    }
}

/// The value of an indexed field as its column has it: JSON in one form, so that the same value is the same text.
/// `None` for what no page can ask for.
pub(super) fn term(value: &[u8]) -> Option<Vec<u8>> {
    let value: Value = serde_json::from_slice(value).ok()?;
    if !(value.is_string() || value.is_number() || value.is_boolean()) {
        return None;
    }
    let text = value.to_string();
    Some(if text.len() > LONGEST_TERM { format!("#{:032x}", xxh3_128(text.as_bytes())) } else { text }.into_bytes())
}

/// The column of an indexed field.
pub(super) fn column_of(field: &str) -> String {
    format!("{FIELD}{field}")
}

/// The columns of a table.
pub(super) async fn columns(link: &Link, keyspace: &str, table: &str) -> Result<Vec<Column>, StoreError> {
    let query = told_of("column_name, type, kind, position", "columns", keyspace, table);
    let rows = link.rows(&format!("read the columns of `{keyspace}.{table}`"), query).await?;
    let column = |row: &Cells| Column {
        name: row.text(0).to_owned(),
        cql_type: row.text(1).to_owned(),
        kind: row.text(2).to_owned(),
        position: row.number(3).unwrap_or(-1.0) as i32,
    };
    Ok(rows.iter().map(column).collect())
}

/// The indexed fields of a table of ours.
pub(super) async fn fields(link: &Link, keyspace: &str, table: &str) -> Result<Vec<String>, StoreError> {
    let columns = columns(link, keyspace, table).await?;
    Ok(columns.iter().filter_map(|column| column.name.strip_prefix(FIELD)).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(fields: &[&str], body: Body) -> Table {
        Table::ours("k", "T", body, false, fields.iter().map(|field| (*field).to_owned()).collect())
    }

    fn statement(table: &Table, kind: OpKind, expires: bool) -> String {
        table.statements(true).into_iter().find(|(verb, _)| *verb == (kind, expires)).unwrap().1
    }

    #[test]
    fn statements_name_every_indexed_field() {
        let table = ours(&["user"], Body::Json);
        assert_eq!(
            statement(&table, OpKind::CompareAndSwap, true),
            "UPDATE \"k\".\"T\" USING TTL ? SET \"body\" = ?, \"field_user\" = ? WHERE \"key\" = ? IF \"body\" = ?"
        );
        assert_eq!(
            statement(&table, OpKind::Insert, false),
            "UPDATE \"k\".\"T\" SET \"body\" = ?, \"field_user\" = ? WHERE \"key\" = ? IF \"body\" = null"
        );
        let values = |body: &'static [u8], new| format!("{:?}", &table.document_values(body, new)[1..]);
        assert_eq!(values(br#"{"user":null}"#, true), "[Unset]");
        assert_eq!(values(br#"{"user":[1]}"#, false), "[Null]");
        let upsert = statement(&ours(&[], Body::Bytes), OpKind::Upsert, false);
        assert!(
            upsert.ends_with(
                "IF \"body\" != 0x73746f726562656e63683a206e6f20646f63756d656e742068617320746869732062\
                                 6f6479"
            ),
            "{upsert}"
        );
    }

    #[test]
    fn one_value_is_one_term() {
        assert_eq!(term(br#""a\u0062""#), term(br#""ab""#));
        assert_eq!(term(b" 7 ").as_deref(), Some(&b"7"[..]));
        assert_ne!(term(b"\"7\""), term(b"7"));
        assert!(term(b"null").is_none() && term(b"{}").is_none());
        let long = format!("\"{}\"", "x".repeat(20_000));
        assert_eq!(term(long.as_bytes()).unwrap().len(), 33);
    }

    #[test]
    fn keys_of_other_types_and_of_several_columns_are_json() {
        let mut table = ours(&[], Body::Json);
        assert_eq!(table.key_text(&[Raw(Some(b"5"))]).unwrap(), "5");
        table.keys = vec![("id".into(), Form::Json)];
        for digits in ["5", "-123456789012345678901234567890.10"] {
            assert_eq!(table.key_text(&[Raw(Some(digits.as_bytes()))]).unwrap(), digits);
            assert_eq!(format!("{:?}", table.key(digits).unwrap()), format!("{:?}", [Bound::bytes(digits.as_bytes())]));
        }
        // JSON of a text would be the key of another text.
        let quoted = format!("{:?}", table.key("\"5\"").unwrap());
        assert_eq!(quoted, format!("{:?}", [Bound::Bytes(br#""\"5\"""#[..].into())]));
        table.same_keys = SameKeys::Integer;
        assert!(["-5", "+05"].into_iter().all(|key| table.key(key).is_ok()));
        for key in ["\"5\"", "\"\\u0035\"", " 5", "5.0", "\u{665}", "-", ""] {
            assert!(table.key(key).is_err(), "{key}");
        }
        table.same_keys = SameKeys::Exact;
        assert_eq!(table.key_text(&[Raw(Some(b"\"a-b\""))]).unwrap(), "a-b");
        assert!(statement(&table, OpKind::Read, false).ends_with("WHERE \"id\" = fromJson(?)"));
        table.keys = vec![("a".into(), Form::Text), ("b".into(), Form::Json)];
        assert_eq!(table.key_text(&[Raw(Some(b"x")), Raw(Some(b"5"))]).unwrap(), r#"["x",5]"#);
        assert_eq!(table.key(r#"["x",5]"#).unwrap().len(), 2);
        assert!(table.key("x").is_err());
        table.keys = vec![("a".into(), Form::Float)];
        assert_eq!(table.key_text(&[Raw(Some(b"1.5"))]).unwrap(), "1.5");
        assert_eq!(table.key_text(&[Raw(Some(b"NaN"))]), None);
        // A part of a key that a static row lacks.
        table.keys = vec![("a".into(), Form::Text), ("b".into(), Form::Json)];
        assert_eq!(table.key_text(&[Raw(Some(b"null")), Raw(Some(b"null"))]), None);
    }
}
