//! Tables that Storebench did not make: finding and reading them, and writing them on request.

use mysql_async::Row;
use storebench_engine::store::{Existing, Holdings, SameKeys, StoreError};
use storebench_study::workload::Body;

use super::catalog::mark;
use super::keys::Keys;
use super::login::Server;
use super::sql::{Fields, Table, Theirs, identifier, literal};
use crate::existing::TheirTable;

const TEXT: &str = "char varchar tinytext text mediumtext longtext";
const INTEGER: &str = "tinyint smallint mediumint int bigint year";
const NUMBER: &str = "decimal float double bit";
const BLOB: &str = "varbinary tinyblob blob mediumblob longblob";
const BINARY: &str = "binary vector geometry point linestring polygon multipoint multilinestring multipolygon \
     geometrycollection";

/// Character sets that do not come back from Unicode as they were: two keys would be one.
const SEVERAL_TO_ONE: &str = "cp932 sjis eucjpms ujis big5 gbk gb2312 euckr gb18030";

/// A column, as `information_schema` describes it.
struct Column {
    name: String,
    /// `varchar`, `bigint`, …
    data_type: String,
    /// `bigint(20) unsigned zerofill`
    full_type: String,
    collation: String,
    /// Whether its values are JSON. MariaDB's JSON is text with a CHECK.
    json: bool,
    /// Whether a new row must have a value for it.
    mandatory: bool,
    /// Whether the server computes its value.
    generated: bool,
    never_null: bool,
}

/// An index that is unique: its name and columns.
struct Unique {
    name: String,
    columns: Vec<String>,
    /// Whether it has the order of its values. One of hashes, as MariaDB's of a TEXT, does not.
    ordered: bool,
}

struct Found {
    columns: Vec<Column>,
    unique: Vec<Unique>,
    /// `BASE TABLE`, `VIEW`, …
    kind: String,
    engine: String,
    comment: String,
}

impl Found {
    /// The columns of the primary key.
    fn primary(&self) -> &[String] {
        self.unique.iter().find(|index| index.name == "PRIMARY").map_or(&[], |index| &index.columns)
    }
}

/// The database and the name of a table: `database.table`, or a table in the URL's database.
pub(super) fn split<'n>(database: &'n str, name: &'n str) -> (&'n str, &'n str) {
    name.split_once('.').unwrap_or((database, name))
}

async fn find(server: &mut Server, database: &str, name: &str, all: bool) -> Result<Found, StoreError> {
    let doing = "read its columns";
    let at = format!("TABLE_SCHEMA = {} AND TABLE_NAME = {}", literal(database), literal(name));
    let sql = format!(
        "SELECT TABLE_TYPE, COALESCE(ENGINE, ''), COALESCE(TABLE_COMMENT, '') FROM information_schema.TABLES WHERE {at}"
    );
    let (kind, engine, comment) =
        server.query::<(String, String, String)>(doing, &sql).await?.pop().unwrap_or_default();
    let mut definition = String::new();
    if all && !kind.is_empty() {
        // Columns that the user may not read, and indexes over them, are in no list, but they are an error here.
        let place = format!("{}.{}", identifier(database), identifier(name));
        let doing = format!("read every column of {place}; grant SELECT on the whole table");
        server.query::<Row>(&doing, &format!("SELECT * FROM {place} LIMIT 0")).await?;
        // MariaDB's JSON is text with a CHECK, which `information_schema` shows only to those who may change the table.
        if server.facts.is_mariadb() && !kind.ends_with("VIEW") {
            let told = server.query(&doing, &format!("SHOW CREATE TABLE {place}")).await?;
            definition = told.into_iter().map(|(_, told): (String, String)| told).collect();
        }
    }
    let sql = format!(
        "SELECT COLUMN_NAME, LOWER(DATA_TYPE), LOWER(COLUMN_TYPE), COALESCE(COLLATION_NAME, ''), \
         DATA_TYPE = 'json', \
         IS_NULLABLE = 'NO' AND COLUMN_DEFAULT IS NULL AND EXTRA NOT LIKE '%auto_increment%' AND EXTRA NOT LIKE \
         '%GENERATED%', EXTRA LIKE '%GENERATED%' AND EXTRA NOT LIKE '%DEFAULT_GENERATED%', IS_NULLABLE = 'NO' \
         FROM information_schema.COLUMNS c WHERE {at} ORDER BY ORDINAL_POSITION"
    );
    type Described = (String, String, String, String, bool, bool, bool, bool);
    let column = |(name, data_type, full_type, collation, json, mandatory, generated, never_null): Described| Column {
        json: json || definition.contains(&format!("CHECK (json_valid({}))", identifier(&name))),
        name,
        data_type,
        full_type,
        collation,
        mandatory,
        generated,
        never_null,
    };
    let columns = server.query(doing, &sql).await?.into_iter().map(column).collect();
    // An index over the beginning of a column makes more unique than its values.
    let sql = format!(
        "SELECT INDEX_NAME, COALESCE(COLUMN_NAME, ''), SUB_PART IS NOT NULL, INDEX_TYPE <> 'HASH' \
         FROM information_schema.STATISTICS WHERE {at} AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX"
    );
    let mut unique: Vec<Unique> = Vec::new();
    for (index, column, partial, ordered) in server.query::<(String, String, bool, bool)>(doing, &sql).await? {
        let column = if partial { format!("{column}(…)") } else { column };
        match unique.last_mut().filter(|last| last.name == index) {
            Some(last) => last.columns.push(column),
            None => unique.push(Unique { name: index, columns: vec![column], ordered }),
        }
    }
    Ok(Found { columns, unique, kind, engine, comment })
}

impl Column {
    /// Whether its type is one of these.
    fn is(&self, types: &[&str]) -> bool {
        types.iter().flat_map(|types| types.split(' ')).any(|one| one == self.data_type)
    }

    /// The expression for its value as text.
    fn text(&self) -> String {
        let quoted = identifier(&self.name);
        match () {
            () if self.is(&[BLOB]) || self.collation.starts_with("utf8mb4") && self.is(&[TEXT]) => quoted,
            () if self.is(&[TEXT]) => format!("CONVERT({quoted} USING utf8mb4)"),
            // Without the zeros that fill it, and not as bits.
            () if self.is(&[INTEGER, NUMBER]) => format!("CAST({quoted} + 0 AS CHAR)"),
            () => format!("CAST({quoted} AS CHAR)"),
        }
    }

    /// The expression for its value as JSON text. Every value comes back exactly: bytes in Base64, zero dates as the
    /// server writes them. It is NULL, which is the error of a row, for a value that is too large for the server.
    fn json_text(&self) -> String {
        let quoted = identifier(&self.name);
        let value = match () {
            // A CHECK can be switched off.
            () if self.json => format!("IF(JSON_VALID({quoted}), CAST({quoted} AS CHAR), JSON_QUOTE({quoted}))"),
            () if self.is(&[INTEGER, NUMBER]) => self.text(),
            () if self.is(&[BLOB, BINARY]) => format!("CONCAT('\"', REPLACE(TO_BASE64({quoted}), '\\n', ''), '\"')"),
            () => format!("JSON_QUOTE(CAST({quoted} AS CHAR))"),
        };
        format!("IF({quoted} IS NULL, 'null', {value})")
    }

    /// The texts that are keys.
    fn keys(&self) -> Keys {
        let sizes = self.full_type.split_once('(').and_then(|(_, sizes)| sizes.split(')').next()).unwrap_or_default();
        let size = |at: usize| sizes.split(',').nth(at).and_then(|size| size.parse().ok()).unwrap_or(0);
        match self.data_type.as_str() {
            "year" => Keys::Year,
            "bit" => Keys::Unsigned,
            _ if self.is(&[INTEGER]) && self.full_type.contains("unsigned") => Keys::Unsigned,
            _ if self.is(&[INTEGER]) => Keys::Signed,
            "decimal" => Keys::Decimal(size(1)),
            "float" | "double" => Keys::Float,
            "date" => Keys::Date,
            "datetime" | "timestamp" => Keys::Moment,
            "time" => Keys::Time,
            "binary" => Keys::Fixed(size(0)),
            _ if self.is(&[TEXT]) && !self.collation.ends_with("_bin") => Keys::Collated,
            "varchar" => Keys::Within(size(0)),
            _ => Keys::Any,
        }
    }

    /// A key given as text, as the column compares it: by its index, and without rounding.
    fn given(&self) -> String {
        let cast = match self.keys() {
            Keys::Signed | Keys::Year => "SIGNED",
            Keys::Unsigned => "UNSIGNED",
            Keys::Decimal(_) => self.full_type.split_inclusive(')').next().unwrap_or_default(),
            Keys::Date => "DATE",
            Keys::Moment => "DATETIME(6)",
            _ => return "?".into(),
        };
        format!("CAST(? AS {cast})")
    }

    /// Which keys are one.
    fn same(&self) -> SameKeys {
        let collation = self.collation.as_str();
        match self.data_type.as_str() {
            _ if self.is(&[INTEGER]) => SameKeys::Integer,
            "decimal" | "float" | "double" => SameKeys::Number,
            "datetime" | "timestamp" => SameKeys::Moment,
            "uuid" => SameKeys::Uuid,
            // Many of these also ignore accents and spaces at the end: such keys are not written.
            _ if self.is(&[TEXT]) && collation.contains("_ci") => SameKeys::AnyCase,
            // The server keeps no spaces at the end of a CHAR.
            "char" => SameKeys::Padded,
            _ if self.is(&[TEXT]) && !collation.contains("nopad") && !collation.contains("0900") => SameKeys::Padded,
            _ => SameKeys::Exact,
        }
    }
}

/// Refuses a collation of which some ASCII characters are one that differ in more than case, as i and y in Lithuanian.
async fn check_collation(server: &mut Server, key: &Column, their: &TheirTable<'_>) -> Result<(), StoreError> {
    let collation = &key.collation;
    let set = collation.split('_').next().unwrap_or_default();
    let differ = format!(
        "WITH RECURSIVE n (c) AS (SELECT 32 UNION ALL SELECT c + 1 FROM n WHERE c < 126) \
         SELECT COUNT(DISTINCT CONVERT(CONCAT(CHAR(c USING latin1), '1') USING {set}) COLLATE {collation}) FROM n"
    );
    let found: Vec<u64> = server.query("compare characters by a collation", &differ).await?;
    if found == [if key.same() == SameKeys::AnyCase { 95 - 26 } else { 95 }] {
        return Ok(());
    }
    let why =
        format!("its key `{}` has the collation {collation}, by which different ASCII characters are one", key.name);
    Err(their.refused(&format!("{why}; give the column a collation that ends with _bin")))
}

/// Finds out how to read or write a table of another program. If no column is named, the key is the primary key, and the
/// document is the whole row, which can only be read.
///
/// # Errors
/// `NotSupported` with what the table lacks, and its columns.
pub(super) async fn resolve(
    server: &mut Server,
    existing: &Existing,
    body: Body,
    write: bool,
) -> Result<Table, StoreError> {
    let target = server.target.clone();
    let (database, name) = split(&target.database, &existing.name);
    let found = find(server, database, name, write || existing.body.is_none()).await?;
    let their = TheirTable {
        place: target.place(),
        name: format!("{database}.{name}"),
        columns: found.columns.iter().map(|column| column.name.as_str()).collect(),
    };
    their.check_exists("database.table")?;
    let named =
        |wanted: &str, what| their.named(wanted, what, found.columns.iter().map(|column| (&*column.name, column)));
    let key = match (&existing.key, found.primary()) {
        (Some(key), _) | (None, [key]) => named(key, "key")?,
        (None, []) => return Err(their.unnamed("it has no primary key")),
        (None, several) => {
            let several = several.join(", ");
            return Err(their.unnamed(&format!("its primary key has several columns ({several}), and a key is one")));
        }
    };
    if key.is(&["enum set"]) {
        let why = format!("its key `{}` has the type {}, which is not ordered by its texts", key.name, key.full_type);
        return Err(their.refused(&format!("{why}; name another key column, or use --query")));
    }
    if SEVERAL_TO_ONE.split(' ').any(|set| key.collation.split('_').next() == Some(set)) {
        let why = format!("its key `{}` has a character set ({}) of which several characters", key.name, key.collation);
        return Err(their.refused(&format!("{why} are one in Unicode; name another key column, or use --query")));
    }
    let is_key = |index: &&Unique| index.columns == [key.name.as_str()];
    let is_unique = found.unique.iter().any(|index| is_key(&index));
    let index = found.unique.iter().find(|index| is_key(index) && index.ordered).map(|index| identifier(&index.name));
    let at = format!("{}.{}", identifier(database), identifier(name));
    let binary = key.is(&[BLOB, BINARY]);
    if write {
        if mark(&server.facts, name, &found.comment).is_some() {
            return Err(Holdings::default().not_theirs(&their.place, &their.name));
        }
        their.check_written(matches!(&*found.kind, "BASE TABLE" | "SYSTEM VERSIONED"), &key.name, is_unique)?;
        if found.engine != "InnoDB" {
            return Err(their.refused(&format!(
                "its engine is {}, which may do half of a statement and syncs nothing; to write into it, convert it with \
                 ALTER TABLE … ENGINE=InnoDB",
                found.engine
            )));
        }
        if !(binary || key.is(&[TEXT, INTEGER])) {
            let why = format!("its key `{}` has the type {}, which can only be read", key.name, key.full_type);
            return Err(their.refused(&why));
        }
        if index.is_none() {
            // MDEV-37199
            let lets = "by which MariaDB lets equal keys of concurrent writes in";
            let why = format!("its unique index of `{}` is one of hashes, {lets}", key.name);
            return Err(their.refused(&format!("{why}; give the column a type such as VARCHAR(255)")));
        }
        if key.keys() == Keys::Collated {
            check_collation(server, key, &their).await?;
        }
    } else if !key.never_null {
        let sql = format!("SELECT 1 FROM {at} WHERE {} IS NULL LIMIT 1", identifier(&key.name));
        if !server.query::<u8>("look for rows without a key", &sql).await?.is_empty() {
            return Err(their.has_nulls(&key.name));
        }
    }
    let document = existing.body.as_ref().map(|wanted| named(wanted, "document")).transpose()?;
    let (doc, fields) = if let Some(column) = document {
        let (fits, fields) = match body {
            Body::Json => (column.json || column.is(&[TEXT]), Fields::Json(Vec::new())),
            Body::Bytes => (column.is(&[TEXT, BLOB, BINARY]) && !column.json, Fields::None),
            Body::Counter => (column.is(&[INTEGER]), Fields::None),
        };
        if !fits {
            return Err(their.misfit(&column.name, &column.full_type));
        }
        (column.text(), fields)
    } else {
        their.check_row(write, body)?;
        let members = found.columns.iter().enumerate().map(|(position, column)| {
            let comma = if position == 0 { "{" } else { "," };
            let name = format!("{comma}{}:", serde_json::Value::from(column.name.as_str()));
            format!("{}, {}", literal(&name), column.json_text())
        });
        let members: Vec<String> = members.collect();
        let names = their.columns.iter().map(|name| (*name).to_owned()).collect();
        (format!("CONCAT({}, '}}')", members.join(", ")), Fields::Columns(names))
    };
    let given = |column: &&Column| column.name == key.name || Some(&column.name) == existing.body.as_ref();
    let others: Vec<&str> = found
        .columns
        .iter()
        .filter(|column| column.mandatory && !given(column))
        .map(|column| column.name.as_str())
        .collect();
    let computed = found.columns.iter().filter(given).find(|column| column.generated);
    let no_inserts = match computed {
        Some(column) => Some(format!("the server computes its column `{}`, so no row can be added", column.name)),
        None => {
            (!others.is_empty()).then(|| format!("a new row needs values for its columns {} too", others.join(", ")))
        }
    };
    let also_unique = found.unique.iter().find(|index| !is_key(index)).map(|index| index.name.clone());
    let same = key.same();
    let order = (same != SameKeys::Exact || !(binary || key.is(&[TEXT])))
        .then(|| format!("{} {}", key.full_type, key.collation).trim_end().to_owned());
    Ok(Table {
        place: at,
        body,
        read_only: !write,
        theirs: Some(Theirs { no_inserts, also_unique }),
        key: key.text(),
        key_column: identifier(&key.name),
        given: key.given(),
        keys: key.keys(),
        same,
        order,
        index,
        doc,
        doc_column: existing.body.as_deref().map(identifier).unwrap_or_default(),
        fields,
        leads: Vec::new(),
    })
}

/// The columns for key and document, if the table has only these: a primary key of one column, and a column of JSON.
pub(super) async fn plain_columns(server: &mut Server, table: &str) -> Result<Option<(String, String)>, StoreError> {
    let target = server.target.clone();
    let (database, name) = split(&target.database, table);
    let found = find(server, database, name, true).await?;
    let json = found.columns.iter().find(|column| column.json);
    Ok(match (found.primary(), json) {
        ([key], Some(json)) if found.columns.len() == 2 && *key != json.name => Some((key.clone(), json.name.clone())),
        _ => None,
    })
}
