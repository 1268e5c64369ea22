//! Samples keys spread over a table.

use rusqlite::Connection;

use super::sql::Table;

/// If fewer than one lookup in this many finds a new row, all keys are read.
const FEW: usize = 10;

/// At most `at_most` distinct keys, in the order of the rows.
///
/// In a table with row numbers, it looks up `at_most` positions, each with one descent of the tree. They are spread
/// evenly between the smallest and the largest number, with an offset drawn from `seed`. Keys after gaps, where rows
/// were deleted, are more likely. For a view, and for a table with no or very uneven row numbers, it reads all keys and
/// selects from them.
pub(super) fn keys(connection: &Connection, table: &Table, at_most: usize, seed: u64) -> rusqlite::Result<Vec<String>> {
    let edge = |which| connection.query_row(&table.edge(which), [], |row| row.get::<_, Option<i64>>(0));
    let (least, greatest) = match (edge("min"), edge("max")) {
        (Ok(Some(least)), Ok(Some(greatest))) => (least, greatest),
        (Ok(None), _) | (_, Ok(None)) => return Ok(Vec::new()),
        _ => return all(connection, table, at_most),
    };
    let span = greatest.abs_diff(least);
    if span < at_most as u64 {
        return all(connection, table, at_most);
    }
    let mut statement = connection.prepare(&table.key_from())?;
    let (mut keys, mut last) = (Vec::with_capacity(at_most), None);
    let mut random = fastrand::Rng::with_seed(seed);
    for n in 0..at_most as u128 {
        let within = (u128::from(random.u64(..)) * u128::from(span) / at_most as u128) >> 64;
        let offset = n * u128::from(span) / at_most as u128 + within;
        let from = least.saturating_add_unsigned(offset as u64);
        // The position is in a gap whose next row was already taken.
        if last.is_some_and(|last| from <= last) {
            continue;
        }
        let mut rows = statement.query([from])?;
        let Some(row) = rows.next()? else { break };
        last = Some(row.get(0)?);
        keys.extend(row.get::<_, Option<String>>(1)?);
    }
    // If most lookups found the same rows, the numbers are too uneven to locate rows.
    if keys.len() < at_most / FEW { all(connection, table, at_most) } else { Ok(keys) }
}

/// Selects evenly from all keys.
fn all(connection: &Connection, table: &Table, at_most: usize) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&table.keys())?;
    let keys = statement.query_map([], |row| row.get::<_, Option<String>>(0))?;
    let mut keys: Vec<Option<String>> = keys.filter(|key| !matches!(key, Ok(None))).collect::<rusqlite::Result<_>>()?;
    let count = keys.len();
    let taken = at_most.min(count);
    Ok((0..taken).filter_map(|n| keys[n * count / taken].take()).collect())
}

#[cfg(test)]
mod tests {
    use storebench_engine::store::{CollectionLayout, Existing};
    use storebench_study::workload::Body;

    use super::*;

    fn table(name: &str) -> Table {
        let existing = Existing { name: name.into(), key: Some("id".into()), body: Some("doc".into()) };
        Table::of(&CollectionLayout {
            name: "c".into(),
            body: Body::Json,
            indexes: Vec::new(),
            existing: Some(existing),
            uses: storebench_engine::store::Uses::ALL,
        })
    }

    fn filled(create: &str, rows: impl Iterator<Item = i64>) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(create).unwrap();
        for n in rows {
            connection.execute("INSERT INTO t (id, doc) VALUES (?1, '{}')", [n]).unwrap();
        }
        connection
    }

    #[test]
    fn keys_are_spread_over_the_rows() {
        let connection = filled("CREATE TABLE t (id INTEGER PRIMARY KEY, doc TEXT)", 1..=20_000);
        let found = keys(&connection, &table("t"), 100, 7).unwrap();
        assert_eq!(found.len(), 100);
        let numbers: Vec<i64> = found.iter().map(|key| key.parse().unwrap()).collect();
        assert!(numbers.windows(2).all(|w| w[0] < w[1]));
        assert!((0..4).all(|q| numbers.iter().filter(|n| (**n - 1) / 5_000 == q).count() == 25), "{numbers:?}");
        assert_eq!(found, keys(&connection, &table("t"), 100, 7).unwrap());
        assert_ne!(found, keys(&connection, &table("t"), 100, 8).unwrap());
    }

    #[test]
    fn small_sparse_and_strange_tables_give_what_they_have() {
        let whole = filled("CREATE TABLE t (id TEXT PRIMARY KEY, doc TEXT)", 1..=30);
        assert_eq!(keys(&whole, &table("t"), 100, 1).unwrap().len(), 30);
        assert_eq!(keys(&whole, &table("t"), 10, 1).unwrap().len(), 10);
        let rowless = filled("CREATE TABLE t (id TEXT PRIMARY KEY, doc TEXT) WITHOUT ROWID", 1..=30);
        assert_eq!(keys(&rowless, &table("t"), 10, 1).unwrap().len(), 10);
        let sparse = filled("CREATE TABLE t (id INTEGER PRIMARY KEY, doc TEXT)", [1, 2, 1 << 40, i64::MAX].into_iter());
        let found = keys(&sparse, &table("t"), 1_000, 1).unwrap();
        assert!(found.len() >= 3 && found.iter().collect::<std::collections::HashSet<_>>().len() == found.len());
        let empty = filled("CREATE TABLE t (id TEXT, doc TEXT)", 0..0);
        assert!(keys(&empty, &table("t"), 10, 1).unwrap().is_empty());
        empty
            .execute_batch("INSERT INTO t VALUES (NULL, NULL); CREATE VIEW v AS SELECT 'k' AS id, '{}' AS doc")
            .unwrap();
        assert!(keys(&empty, &table("t"), 10, 1).unwrap().is_empty());
        assert_eq!(keys(&empty, &table("v"), 10, 1).unwrap(), ["k"]);
    }
}
