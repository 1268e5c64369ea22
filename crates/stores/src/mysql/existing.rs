//! Tables that Storebench did not make: finding, reading and sampling them, and writing them on request.

use storebench_engine::store::{Existing, NAME_COLUMNS, SameKeys, StoreError};
use storebench_study::workload::Body;

use super::login::Server;
use super::sql::{Fields, Table, Theirs, identifier, literal};

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
}

struct Found {
    columns: Vec<Column>,
    unique: Vec<Unique>,
    /// `BASE TABLE`, `VIEW`, …
    kind: String,
    engine: String,
}

impl Found {
    fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    fn is_unique(&self, name: &str) -> bool {
        self.unique.iter().any(|index| index.columns == [name])
    }

    /// The columns of the primary key.
    fn primary(&self) -> &[String] {
        self.unique.iter().find(|index| index.name == "PRIMARY").map_or(&[], |index| &index.columns)
    }
}

/// The database and the name of a table: `database.table`, or a table in the URL's database.
pub(super) fn split<'n>(database: &'n str, name: &'n str) -> (&'n str, &'n str) {
    name.split_once('.').unwrap_or((database, name))
}

async fn find(server: &mut Server, database: &str, name: &str) -> Result<Found, StoreError> {
    let doing = "read its columns";
    let at = format!("TABLE_SCHEMA = {} AND TABLE_NAME = {}", literal(database), literal(name));
    let sql = format!("SELECT TABLE_TYPE, COALESCE(ENGINE, '') FROM information_schema.TABLES WHERE {at}");
    let (kind, engine) = server.query::<(String, String)>(doing, &sql).await?.pop().unwrap_or_default();
    let checked = if server.facts.is_mariadb() {
        "EXISTS (SELECT 1 FROM information_schema.CHECK_CONSTRAINTS k WHERE k.CONSTRAINT_SCHEMA = c.TABLE_SCHEMA \
         AND k.TABLE_NAME = c.TABLE_NAME AND k.CHECK_CLAUSE = CONCAT('json_valid(`', c.COLUMN_NAME, '`)'))"
    } else {
        "FALSE"
    };
    let sql = format!(
        "SELECT COLUMN_NAME, LOWER(DATA_TYPE), LOWER(COLUMN_TYPE), COALESCE(COLLATION_NAME, ''), \
         DATA_TYPE = 'json' OR {checked}, \
         IS_NULLABLE = 'NO' AND COLUMN_DEFAULT IS NULL AND EXTRA NOT LIKE '%auto_increment%' AND EXTRA NOT LIKE \
         '%GENERATED%', EXTRA LIKE '%GENERATED%' AND EXTRA NOT LIKE '%DEFAULT_GENERATED%', IS_NULLABLE = 'NO' \
         FROM information_schema.COLUMNS c WHERE {at} ORDER BY ORDINAL_POSITION"
    );
    type Row = (String, String, String, String, bool, bool, bool, bool);
    let rows: Vec<Row> = server.query(doing, &sql).await?;
    let columns =
        rows.into_iter().map(|(name, data_type, full_type, collation, json, mandatory, generated, never_null)| {
            Column { name, data_type, full_type, collation, json, mandatory, generated, never_null }
        });
    let columns = columns.collect();
    // An index over the beginning of a column makes more unique than its values.
    let sql = format!(
        "SELECT INDEX_NAME, COALESCE(COLUMN_NAME, ''), SUB_PART IS NOT NULL FROM information_schema.STATISTICS \
         WHERE {at} AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX"
    );
    let mut unique: Vec<Unique> = Vec::new();
    for (index, column, partial) in server.query::<(String, String, bool)>(doing, &sql).await? {
        let column = if partial { format!("{column}(…)") } else { column };
        match unique.last_mut().filter(|last| last.name == index) {
            Some(last) => last.columns.push(column),
            None => unique.push(Unique { name: index, columns: vec![column] }),
        }
    }
    Ok(Found { columns, unique, kind, engine })
}

impl Column {
    fn is_binary(&self) -> bool {
        matches!(
            self.data_type.as_str(),
            "binary"
                | "varbinary"
                | "tinyblob"
                | "blob"
                | "mediumblob"
                | "longblob"
                | "vector"
                | "geometry"
                | "point"
                | "linestring"
                | "polygon"
                | "multipoint"
                | "multilinestring"
                | "multipolygon"
                | "geometrycollection"
        )
    }

    fn is_text(&self) -> bool {
        matches!(self.data_type.as_str(), "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext")
    }

    fn is_integer(&self) -> bool {
        matches!(self.data_type.as_str(), "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year")
    }

    fn is_number(&self) -> bool {
        self.is_integer() || matches!(self.data_type.as_str(), "decimal" | "float" | "double" | "bit")
    }

    /// The expression for its value as text.
    fn text(&self) -> String {
        let quoted = identifier(&self.name);
        match self.data_type.as_str() {
            "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => quoted,
            _ if self.is_text() && self.collation.starts_with("utf8mb4") => quoted,
            _ if self.is_text() => format!("CONVERT({quoted} USING utf8mb4)"),
            // Without the zeros that fill it, and not as bits.
            _ if self.is_number() => format!("CAST({quoted} + 0 AS CHAR)"),
            _ => format!("CAST({quoted} AS CHAR)"),
        }
    }

    /// The expression for its value as JSON text. Every value comes back exactly: bytes in Base64, zero dates as the
    /// server writes them.
    fn json_text(&self) -> String {
        let quoted = identifier(&self.name);
        let value = match () {
            () if self.json => format!("CAST({quoted} AS CHAR)"),
            () if self.is_number() => self.text(),
            () if self.is_binary() => format!("CONCAT('\"', REPLACE(TO_BASE64({quoted}), '\\n', ''), '\"')"),
            () => format!("JSON_QUOTE(CAST({quoted} AS CHAR))"),
        };
        format!("IFNULL({value}, 'null')")
    }

    /// A key given as text, as the column compares it: by its index, and without rounding.
    fn given(&self) -> String {
        match self.data_type.as_str() {
            _ if self.is_integer() && self.full_type.contains("unsigned") => "CAST(? AS UNSIGNED)".into(),
            _ if self.is_integer() => "CAST(? AS SIGNED)".into(),
            "decimal" => {
                format!("CAST(? AS {})", self.full_type.split(')').next().unwrap_or_default().to_owned() + ")")
            }
            "date" => "CAST(? AS DATE)".into(),
            "datetime" | "timestamp" => "CAST(? AS DATETIME(6))".into(),
            _ => "?".into(),
        }
    }

    /// Which keys are one.
    fn same(&self) -> SameKeys {
        let collation = self.collation.as_str();
        match self.data_type.as_str() {
            _ if self.is_integer() => SameKeys::Integer,
            "decimal" | "float" | "double" => SameKeys::Number,
            "datetime" | "timestamp" => SameKeys::Moment,
            "uuid" => SameKeys::Uuid,
            // Also, many of these ignore accents and spaces at the end.
            _ if self.is_text() && collation.contains("_ci") => SameKeys::AnyCase,
            _ if self.is_text() && !collation.contains("nopad") && !collation.contains("0900") => SameKeys::Padded,
            _ => SameKeys::Exact,
        }
    }
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
    let found = find(server, database, name).await?;
    let place = target.place();
    if found.columns.is_empty() {
        return Err(StoreError::NotSupported(format!(
            "{place}: there is no table `{database}.{name}` that this user can see; write it as database.table"
        )));
    }
    let refused = |why: &str| {
        let names: Vec<&str> = found.columns.iter().map(|column| column.name.as_str()).collect();
        let names = names.join(", ");
        StoreError::NotSupported(format!("{place}: {why}; `{database}.{name}` has the columns {names}"))
    };
    // For errors that naming another column may solve.
    let unnamed = |why: &str| match refused(why) {
        StoreError::NotSupported(text) => StoreError::NotSupported(format!("{text}; {NAME_COLUMNS}")),
        other => other,
    };
    let key = match (&existing.key, found.primary()) {
        (Some(wanted), _) => wanted,
        (None, [one]) => one,
        (None, []) => return Err(unnamed("it has no primary key")),
        (None, several) => {
            let several = several.join(", ");
            return Err(unnamed(&format!("its primary key has several columns ({several}), and a key is one")));
        }
    };
    let key = found.column(key).ok_or_else(|| unnamed(&format!("there is no column `{key}` for the key")))?;
    if write && found.kind != "BASE TABLE" {
        return Err(refused("it is not a table, so it cannot be written; name the table behind it"));
    }
    if write && found.engine != "InnoDB" {
        return Err(refused(&format!(
            "its engine is {}, which may do half of a statement and syncs nothing; to write into it, convert it with ALTER \
             TABLE … ENGINE=InnoDB",
            found.engine
        )));
    }
    let unique = found.is_unique(&key.name);
    if write && !unique {
        return Err(refused(&format!(
            "its column `{}` is not unique, so it cannot be the key; name the column of the primary key, or create a \
             unique index",
            key.name
        )));
    }
    if write && !(key.is_text() || key.is_binary() || key.is_integer()) {
        return Err(refused(&format!("its key `{}` has the type {}, which can only be read", key.name, key.full_type)));
    }
    let at = format!("{}.{}", identifier(database), identifier(name));
    if !write && !key.never_null {
        let sql = format!("SELECT 1 FROM {at} WHERE {} IS NULL LIMIT 1", identifier(&key.name));
        if !server.query::<u8>("look for rows without a key", &sql).await?.is_empty() {
            return Err(refused(&format!(
                "its key column `{}` is NULL in some rows; use --query to copy them",
                key.name
            )));
        }
    }
    let document = match &existing.body {
        None if write => return Err(unnamed("no column is named for the document")),
        None if body != Body::Json => {
            return Err(unnamed("a whole row is JSON, and no column is named for the document"));
        }
        None => None,
        Some(wanted) => Some(
            found.column(wanted).ok_or_else(|| unnamed(&format!("there is no column `{wanted}` for the document")))?,
        ),
    };
    let fits = document.is_none_or(|column| match body {
        Body::Json => column.json || column.is_text(),
        Body::Bytes => (column.is_text() || column.is_binary()) && !column.json,
        Body::Counter => column.is_integer(),
    });
    if !fits {
        let (name, full_type) = document.map_or(("", ""), |column| (&column.name, &column.full_type));
        return Err(refused(&format!(
            "the column `{name}` has the type {full_type}, which does not fit the collection's `body`"
        )));
    }
    let (doc, fields) = match document {
        Some(column) if body == Body::Json => (column.text(), Fields::Json(Vec::new())),
        Some(column) => (column.text(), Fields::None),
        None => {
            let members = found.columns.iter().enumerate().map(|(position, column)| {
                let comma = if position == 0 { "" } else { "," };
                let name = format!("{comma}{}:", serde_json::Value::from(column.name.as_str()));
                format!("{}, {}", literal(&name), column.json_text())
            });
            let members: Vec<String> = members.collect();
            let names = found.columns.iter().map(|column| column.name.clone()).collect();
            (format!("CONCAT('{{', {}, '}}')", members.join(", ")), Fields::Columns(names))
        }
    };
    let others: Vec<&str> = found
        .columns
        .iter()
        .filter(|column| column.mandatory && column.name != key.name && Some(&column.name) != existing.body.as_ref())
        .map(|column| column.name.as_str())
        .collect();
    let computed = [Some(key), document].into_iter().flatten().find(|column| column.generated);
    let no_inserts = match (computed, others.is_empty()) {
        (Some(column), _) => Some(format!("the server computes its column `{}`, so no row can be added", column.name)),
        (None, false) => Some(format!("a new row needs values for its columns {} too", others.join(", "))),
        (None, true) => None,
    };
    let also = found.unique.iter().find(|index| index.columns != [key.name.as_str()]).map(|index| index.name.clone());
    let same = key.same();
    let theirs = Theirs { no_inserts, also_unique: also };
    let order = (same != SameKeys::Exact || !(key.is_text() || key.is_binary()))
        .then(|| format!("{} {}", key.full_type, key.collation).trim_end().to_owned());
    Ok(Table {
        place: at,
        body,
        read_only: !write,
        theirs: Some(theirs),
        key: key.text(),
        key_column: identifier(&key.name),
        given: key.given(),
        same,
        order,
        unique,
        doc,
        doc_column: existing.body.as_deref().map(identifier).unwrap_or_default(),
        fields,
    })
}

/// The columns for key and document, if the table has only these: a primary key of one column, and a column of JSON.
pub(super) async fn plain_columns(server: &mut Server, table: &str) -> Result<Option<(String, String)>, StoreError> {
    let target = server.target.clone();
    let (database, name) = split(&target.database, table);
    let found = find(server, database, name).await?;
    let json = found.columns.iter().find(|column| column.json);
    Ok(match (found.primary(), json) {
        ([key], Some(json)) if found.columns.len() == 2 && *key != json.name => Some((key.clone(), json.name.clone())),
        _ => None,
    })
}

/// A table of at most about this many rows is read completely for a sample.
const FEW: u64 = 50_000;
/// How many neighbouring keys are read at each random place of a larger table.
const TOGETHER: usize = 50;
/// At most this many keys of a larger table are put into the order of ranges, which needs no more.
const ORDERED: usize = 5_000;

/// Returns at most `at_most` keys, in the order of ranges unless they are many. In a large table they are read at random places between the
/// smallest and the largest key, for which numbers and texts are drawn evenly.
pub(super) async fn sample(
    server: &mut Server,
    table: &Table,
    at_most: usize,
    seed: u64,
) -> Result<Vec<String>, StoreError> {
    let doing = "sample its keys";
    let Table { place, key, key_column, .. } = table;
    let plan: Vec<mysql_async::Row> = server.query(doing, &format!("EXPLAIN SELECT {key} FROM {place}")).await?;
    let rows: u64 = plan.first().and_then(|row| row.get::<Option<u64>, _>("rows").flatten()).unwrap_or(0);
    if rows <= FEW.max(4 * at_most as u64) || !table.unique {
        let sql = format!(
            "SELECT k FROM (SELECT {key} AS k, {key_column} AS o FROM {place} WHERE {key_column} IS NOT NULL ORDER BY \
             MD5(CONCAT({key}, '/{seed}')), 1 LIMIT {at_most}) AS drawn ORDER BY o"
        );
        return Ok(texts(server.query(doing, &sql).await?));
    }
    let ends = format!("SELECT CAST(MIN({key_column}) AS CHAR), CAST(MAX({key_column}) AS CHAR) FROM {place}");
    let Some((Some(low), Some(high))) = server.query::<(Option<String>, Option<String>)>(doing, &ends).await?.pop()
    else {
        return Ok(Vec::new());
    };
    let (mut random, mut keys) = (fastrand::Rng::with_seed(seed), Vec::new());
    let each = (at_most / 100).clamp(1, TOGETHER);
    let literal_key = |key: &str| table.given.replacen('?', &literal(key), 1);
    // Places may be near each other, so there are more of them than needed.
    for _ in 0..(2 * at_most.div_ceil(each)) {
        let from = literal_key(&between(&low, &high, random.f64(), table.same));
        let sql = format!("SELECT {key} FROM {place} WHERE {key_column} >= {from} ORDER BY {key_column} LIMIT {each}");
        keys.extend(texts(server.query(doing, &sql).await?));
    }
    keys.sort_unstable();
    keys.dedup();
    random.shuffle(&mut keys);
    keys.truncate(at_most);
    if keys.len() > ORDERED {
        return Ok(keys);
    }
    let list: Vec<String> = keys.iter().map(|key| literal_key(key)).collect();
    let list = if list.is_empty() { "NULL".to_owned() } else { list.join(", ") };
    let sql = format!("SELECT {key} FROM {place} WHERE {key_column} IN ({list}) ORDER BY {key_column}");
    Ok(texts(server.query(doing, &sql).await?))
}

/// Keys that are text.
fn texts(keys: Vec<Vec<u8>>) -> Vec<String> {
    keys.into_iter().filter_map(|key| String::from_utf8(key).ok()).collect()
}

/// A key between two others: this share of the way.
fn between(low: &str, high: &str, share: f64, same: SameKeys) -> String {
    if let (SameKeys::Integer | SameKeys::Number, Ok(low), Ok(high)) = (same, low.parse::<f64>(), high.parse::<f64>()) {
        return format!("{:.0}", low + (high - low) * share);
    }
    // Behind what both begin with, the next bytes count as the digits of a number.
    let common = low.bytes().zip(high.bytes()).take_while(|(a, b)| a == b).count();
    let common = (0..=common).rev().find(|at| low.is_char_boundary(*at) && high.is_char_boundary(*at)).unwrap_or(0);
    let (head, tails) = (&low[..common], [&low[common..], &high[common..]]);
    let ascii: Vec<u8> = (0..128).collect();
    let all_in = |digits: &&[u8]| tails.iter().all(|tail| tail.bytes().all(|byte| digits.contains(&byte)));
    let digits = [&b"0123456789"[..], b"-0123456789abcdef"].into_iter().find(all_in).unwrap_or(&ascii);
    let base = digits.len() as u64;
    let [low, high] = tails.map(|tail| {
        let mut bytes = tail.bytes();
        let mut digit =
            || bytes.next().map_or(0, |byte| digits.partition_point(|digit| *digit < byte).min(digits.len() - 1));
        (0..DIGITS).fold(0, |number, _| number * base + digit() as u64)
    });
    let mut drawn = low + (high.saturating_sub(low) as f64 * share) as u64;
    let mut tail = [0; DIGITS];
    for byte in tail.iter_mut().rev() {
        *byte = digits[(drawn % base) as usize];
        drawn /= base;
    }
    format!("{head}{}", String::from_utf8_lossy(&tail))
}

/// How many characters of a key are drawn.
const DIGITS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_between_two_others() {
        assert_eq!(between("10", "20", 0.5, SameKeys::Integer), "15");
        assert_eq!(between("user0000", "user9999", 0.5, SameKeys::Exact), "user49995000");
        assert_eq!(between("k/0a", "k/ff", 0.5, SameKeys::Exact).len(), 10);
        for (low, high) in [("a", "a"), ("", "z"), ("é", "ü"), ("A!", "Z~")] {
            for share in [0.0, 0.3, 0.99] {
                let key = between(low, high, share, SameKeys::Exact);
                assert!(*key <= *format!("{high}\u{7F}") && key.len() >= DIGITS, "{low} {key} {high}");
            }
        }
    }
}
