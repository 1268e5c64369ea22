//! Samples of keys, which read little of a large table if its keys are text, bytes or numbers with a unique index.
//!
//! The server has no statement that draws rows. So the keys are cut into pieces, again and again, at places between the
//! ends of a piece. `EXPLAIN` estimates the rows of a piece from a few pages of the index. Then each piece gives keys in
//! proportion.

use mysql_async::prelude::Queryable;
use mysql_async::{Params, Row, Value};
use storebench_engine::store::{SameKeys, StoreError};

use super::job::{bytes_of, value};
use super::login::Server;
use super::sql::Table;
use crate::existing::not_copied;

/// A table of at most this many rows is read completely.
const FEW: usize = 10_000;
/// About how many pieces a larger one is cut into, at most.
const PIECES: usize = 1_000;
/// How often pieces are cut, at most.
const ROUNDS: usize = 200;
/// The most selects in a statement.
const TOGETHER: usize = 100;
/// How many times the wanted keys are read, so that fewer of them are neighbours.
const THINNED: usize = 4;

/// The keys from a place to the next piece.
struct Piece {
    low: String,
    /// How many the server says there are.
    estimate: f64,
    /// Whether that is a count, as for a few pages. InnoDB doubles what it has found for more.
    counted: bool,
}

impl Piece {
    fn rows(&self) -> f64 {
        if self.counted { self.estimate } else { self.estimate / 2.0 }
    }
}

/// Returns at most `at_most` keys, in the order of ranges. Reads all keys of a small table, and of one that cannot be cut.
///
/// # Errors
/// `NotSupported` if the first or the last key is not UTF-8.
pub(super) async fn sample(
    server: &mut Server,
    table: &Table,
    at_most: usize,
    seed: u64,
) -> Result<Vec<String>, StoreError> {
    let Table { place, key, key_column: column, .. } = table;
    let all = format!("FROM {place} WHERE {column} IS NOT NULL ORDER BY");
    let beyond = format!("SELECT 1 {all} {column} LIMIT 1 OFFSET {}", FEW.max(THINNED * at_most));
    let end = |order: &str| (format!("SELECT {key} {all} {column} {order} LIMIT 1"), Vec::new());
    let mut ends = Vec::new();
    if table.index.is_some() && is_cut(table) && !ask(server, "", &[(beyond, Vec::new())]).await?.is_empty() {
        for mut row in ask(server, "", &[end("ASC"), end("DESC")]).await? {
            let key = String::from_utf8(bytes_of(&mut row, 0).unwrap_or_default());
            let refused = |_| not_copied(&server.target.place(), place, "a key is not UTF-8");
            ends.push(key.map_err(refused)?);
        }
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut cut = Vec::new();
    if let [low, high] = &*ends {
        cut = pieces(server, table, low.clone(), high, at_most.clamp(2, PIECES), &mut random).await?;
    }
    let (Some(high), 2..) = (ends.pop(), cut.len()) else {
        let drawn = format!("SELECT {key} AS k, {column} AS o {all} MD5(CONCAT({key}, '/{seed}')), 1 LIMIT {at_most}");
        let sql = format!("SELECT k FROM ({drawn}) AS drawn ORDER BY o");
        return Ok(texts(ask(server, "", &[(sql, Vec::new())]).await?));
    };
    let total: f64 = cut.iter().map(Piece::rows).sum();
    let (select, mut selects) = (format!("SELECT {key} FROM {place}"), Vec::new());
    for (at, piece) in cut.iter().enumerate() {
        // Rounded at random, so that each piece gives its part.
        let run = ((THINNED * at_most) as f64 * piece.rows() / total + random.f64()) as usize;
        let skip = if piece.rows() > (4 * run) as f64 { random.usize(..=run) } else { 0 };
        let ends = [piece.low.as_str(), next(&cut, at, &high)];
        selects.push(within(table, &select, ends, &format!("ORDER BY {column} LIMIT {run} OFFSET {skip}")));
    }
    let keys = texts(ask(server, "", &selects).await?);
    let mut drawn = random.choose_multiple(keys.into_iter().enumerate(), at_most);
    drawn.sort_unstable();
    Ok(drawn.into_iter().map(|(_, key)| key).collect())
}

/// Cuts all keys into pieces, in their order: about this many, of about as many rows each. None if the server does not
/// explain each statement by one row.
async fn pieces(
    server: &mut Server,
    table: &Table,
    low: String,
    high: &str,
    wanted: usize,
    random: &mut fastrand::Rng,
) -> Result<Vec<Piece>, StoreError> {
    let index = table.index.as_deref().unwrap_or_default();
    let select = format!("SELECT 1 FROM {} FORCE INDEX ({index})", table.place);
    let mut pieces = vec![Piece { low, estimate: f64::MAX, counted: false }];
    for _ in 0..ROUNDS {
        let most = (pieces.iter().map(Piece::rows).sum::<f64>() / wanted as f64).max(1.0);
        let (mut cuts, mut halves) = (Vec::new(), Vec::new());
        for (at, piece) in pieces.iter().enumerate().filter(|(_, piece)| piece.rows() > most) {
            let (low, end) = (piece.low.as_str(), next(&pieces, at, high));
            let cut = between(table, low, end, 0.25 + random.f64() / 2.0);
            halves.push(within(table, &select, [low, &cut], ""));
            halves.push(within(table, &select, [&cut, end], ""));
            cuts.push((at, cut));
        }
        if cuts.is_empty() {
            break;
        }
        let mut explained = ask(server, "EXPLAIN FORMAT=TRADITIONAL ", &halves).await?;
        explained.retain(|row| row.get_opt::<String, _>("select_type") != Some(Ok("UNION RESULT".into())));
        if explained.len() != halves.len() {
            return Ok(Vec::new());
        }
        let estimate = |row: &Row| row.get_opt::<u64, _>("rows").and_then(Result::ok).unwrap_or(0) as f64;
        for ((at, low), halves) in cuts.into_iter().zip(explained.chunks_exact(2)).rev() {
            let (left, right, whole) = (estimate(&halves[0]), estimate(&halves[1]), &mut pieces[at]);
            // Only one of them may be possible: columns have orders of their own.
            if left > 0.0 && right > 0.0 {
                // Counts of both are half of a doubled estimate of the whole.
                whole.counted |= whole.estimate < f64::MAX && left + right < 0.75 * whole.estimate;
                whole.estimate = left;
                let right = Piece { low, estimate: right, counted: whole.counted };
                pieces.insert(at + 1, right);
            }
        }
    }
    Ok(pieces)
}

/// Where a piece ends.
fn next<'p>(pieces: &'p [Piece], at: usize, high: &'p str) -> &'p str {
    pieces.get(at + 1).map_or(high, |piece| &piece.low)
}

/// A select of the rows from one key to another, with its values.
fn within(table: &Table, select: &str, ends: [&str; 2], order: &str) -> (String, Vec<Value>) {
    let Table { key_column: column, given, .. } = table;
    let sql = format!("{select} WHERE {column} >= {given} AND {column} < {given} {order}");
    (sql, ends.map(|key| value(key.as_bytes())).into())
}

/// Sends selects, many in a statement. Their rows are in the same order.
async fn ask(server: &mut Server, before: &str, selects: &[(String, Vec<Value>)]) -> Result<Vec<Row>, StoreError> {
    let mut rows = Vec::new();
    for together in selects.chunks(TOGETHER) {
        let sql: Vec<String> = together.iter().map(|(sql, _)| format!("({sql})")).collect();
        let values: Vec<Value> = together.iter().flat_map(|(_, values)| values.clone()).collect();
        let sql = format!("{before}{}", sql.join(" UNION ALL "));
        let asked: Result<Vec<Row>, _> = server.conn.exec(sql, Params::Positional(values)).await;
        rows.append(&mut asked.map_err(|error| server.target.fault("sample its keys", &error))?);
    }
    Ok(rows)
}

/// The keys in rows. Those that are not text are left out.
fn texts(rows: Vec<Row>) -> Vec<String> {
    rows.into_iter().filter_map(|mut row| String::from_utf8(bytes_of(&mut row, 0)?).ok()).collect()
}

/// Whether places between keys are known: numbers, text and bytes.
fn is_cut(table: &Table) -> bool {
    table.order.is_none() || !matches!(table.same, SameKeys::Exact | SameKeys::Moment | SameKeys::Uuid)
}

/// A place between two keys, at about this share of the way. It may be outside, where a column has an order of its own.
fn between(table: &Table, low: &str, high: &str, share: f64) -> String {
    if let (SameKeys::Integer, Ok(low), Ok(high)) = (table.same, low.parse::<i128>(), high.parse::<i128>()) {
        return (low + ((high - low) as f64 * share).ceil() as i128).to_string();
    }
    if let (SameKeys::Number, Ok(low), Ok(high)) = (table.same, low.parse::<f64>(), high.parse::<f64>()) {
        return (low + (high - low) * share).to_string();
    }
    let folded = |key: &str| if table.same == SameKeys::AnyCase { key.to_lowercase() } else { key.to_owned() };
    let [low, high] = [low, high].map(folded);
    let same = low.chars().zip(high.chars()).take_while(|(low, high)| low == high).count();
    // The next two characters, as digits of a number. Other character sets than Unicode's have only some of them.
    let most = if table.key == table.key_column { 0xFFFF } else { 127 };
    let digits = |key: &str| [0, 1].map(|at| key.chars().nth(same + at).map_or(0, u32::from).min(most));
    let ends = [digits(&low), digits(&high)];
    let base = if ends.as_flattened().iter().all(|digit| *digit < 128) { 128 } else { 1 << 16 };
    let [from, to] = ends.map(|[first, second]| f64::from(first) * f64::from(base) + f64::from(second));
    let number = (from + (to - from) * share).ceil() as u32;
    let between = [number / base, number % base].into_iter().filter(|digit| *digit > 0).filter_map(char::from_u32);
    high.chars().take(same).chain(between).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use storebench_study::workload::Body;

    #[test]
    fn places_are_between_keys() {
        let ours = Table::ours("d", "t", Body::Json, true, Vec::new());
        let number = Table { same: SameKeys::Integer, ..ours.clone() };
        for (table, low, high) in [
            (&ours, "", "z"),
            (&ours, "k0001", "k0900"),
            (&ours, "k1", "k1999"),
            (&ours, "k19", "k2"),
            (&ours, "user:Zoë", "user:é"),
            (&number, "-5", "18446744073709551615"),
            (&number, "9", "15"),
        ] {
            for share in [0.25, 0.5, 0.75] {
                let text = between(table, low, high, share);
                let order = |key: &str| match table.same {
                    SameKeys::Integer => format!("{:030}", key.parse::<i128>().unwrap() + 10),
                    _ => key.to_owned(),
                };
                assert!(order(low) < order(&text) && order(&text) < order(high), "{low} {text} {high}");
            }
        }
    }
}
