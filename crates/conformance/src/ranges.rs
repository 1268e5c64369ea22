//! Pages by key prefix and key range.

use serde_json::json;

use super::Subject;
use super::bulk::rows_of;
use super::client::{Client, show};
use super::suite::{Check, Stop, ensure};
use super::values::ODD_KEYS;
use storebench_engine::store::{Op, OpKind, Request};

const PREFIX: &[OpKind] = &[OpKind::Upsert, OpKind::Prefix];
const SCAN: &[OpKind] = &[OpKind::Upsert, OpKind::Scan];

pub(super) const CHECKS: &[Check] = &[
    Check { name: "prefix: neighbours stay out, order is by key", needs: PREFIX, run: prefix_neighbours },
    Check { name: "prefix: the first `limit` documents", needs: PREFIX, run: prefix_limit },
    Check { name: "prefix: Unicode, wildcards and case", needs: PREFIX, run: prefix_odd },
    Check {
        name: "prefix: keys of 1 byte, and of 250 bytes or the declared maximum",
        needs: PREFIX,
        run: prefix_lengths,
    },
    Check { name: "prefix: an empty prefix matches everything", needs: PREFIX, run: prefix_empty },
    Check { name: "prefix: without contents, counts but no rows", needs: PREFIX, run: prefix_without_contents },
    Check { name: "scan: from start up to, but not including, end, in order", needs: SCAN, run: scan_bounds },
    Check { name: "scan: the first `limit` documents", needs: SCAN, run: scan_limit },
    Check { name: "scan: to the end of the collection and no further", needs: SCAN, run: scan_to_end },
    Check {
        name: "scan: sees updates and deletes",
        needs: &[OpKind::Upsert, OpKind::Scan, OpKind::Delete],
        run: scan_changes,
    },
];

fn fill<K: AsRef<str>>(c: &mut Client, s: &Subject<'_>, keys: &[K]) -> Result<(), Stop> {
    for key in keys {
        let key = key.as_ref();
        c.wrote(s.documents, Op::Upsert { key, body: json!({ "key": key }).to_string().as_bytes() })?;
    }
    Ok(())
}

/// The operation must return exactly these keys in this order, each with its own document.
fn gives<K: AsRef<str>>(c: &mut Client, s: &Subject<'_>, op: Op<'_>, expected: &[K]) -> Result<(), Stop> {
    c.until(|c| {
        let reply = c.ok(s.documents, op)?;
        let reply = reply.as_reply();
        for (key, body) in rows_of(&reply)? {
            super::json::same_json(&json!({ "key": key }), &body)
                .map_err(|text| Stop::failed(format!("{}: row `{key}` {text}", show(&op))))?;
        }
        let rows = reply.rows.unwrap_or_default();
        let got: Vec<&str> = rows.iter().map(|(key, _)| key).collect();
        let wanted: Vec<&str> = expected.iter().map(AsRef::as_ref).collect();
        ensure!(got == wanted, "{}: expected {wanted:?}, got {got:?}", show(&op));
        Ok(())
    })
}

fn prefix_neighbours(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    fill(&mut c, s, &["b/", "a/2", "a/10", "a/1", "a", "a0", "a.", "a//", "b/1", "A/1", "aa/1"])?;
    gives(&mut c, s, Op::Prefix { prefix: "a/", limit: 100 }, &["a//", "a/1", "a/10", "a/2"])?;
    gives(&mut c, s, Op::Prefix { prefix: "a/1", limit: 100 }, &["a/1", "a/10"])?;
    gives(&mut c, s, Op::Prefix { prefix: "b/", limit: 100 }, &["b/", "b/1"])?;
    gives::<&str>(&mut c, s, Op::Prefix { prefix: "a/3", limit: 100 }, &[])?;
    gives::<&str>(&mut c, s, Op::Prefix { prefix: "c", limit: 100 }, &[])
}

fn prefix_limit(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    let keys: Vec<String> = (0..200).map(|i| format!("p/{i:03}")).collect();
    let mut shuffled: Vec<_> = keys.iter().collect();
    shuffled.sort_by_key(|key| xxhash_rust::xxh3::xxh3_64(key.as_bytes()));
    fill(&mut c, s, &shuffled)?;
    fill(&mut c, s, &["o/999", "q/000"])?;
    for limit in [1, 2, 10, 199, 200, 201] {
        let expected = &keys[..keys.len().min(limit as usize)];
        gives(&mut c, s, Op::Prefix { prefix: "p/", limit }, expected)?;
    }
    gives(&mut c, s, Op::Prefix { prefix: "p/1", limit: 3 }, &["p/100", "p/101", "p/102"])
}

fn prefix_odd(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    let keys = [
        "w_1",
        "wx1",
        "w%1",
        "w*1",
        "W_1",
        "it's/1",
        "its/1",
        "ключ/1",
        "ключ/2",
        "ключа",
        "日本/1",
        "z\u{10FFFF}x",
        "z",
        "é",
        "e",
    ];
    fill(&mut c, s, &keys)?;
    gives(&mut c, s, Op::Prefix { prefix: "w_", limit: 100 }, &["w_1"])?;
    gives(&mut c, s, Op::Prefix { prefix: "w%", limit: 100 }, &["w%1"])?;
    gives(&mut c, s, Op::Prefix { prefix: "w*", limit: 100 }, &["w*1"])?;
    gives(&mut c, s, Op::Prefix { prefix: "w", limit: 100 }, &["w%1", "w*1", "w_1", "wx1"])?;
    gives(&mut c, s, Op::Prefix { prefix: "it's", limit: 100 }, &["it's/1"])?;
    gives(&mut c, s, Op::Prefix { prefix: "ключ", limit: 100 }, &["ключ/1", "ключ/2", "ключа"])?;
    gives(&mut c, s, Op::Prefix { prefix: "ключ/", limit: 100 }, &["ключ/1", "ключ/2"])?;
    gives(&mut c, s, Op::Prefix { prefix: "日", limit: 100 }, &["日本/1"])?;
    gives(&mut c, s, Op::Prefix { prefix: "z", limit: 100 }, &["z", "z\u{10FFFF}x"])?;
    gives(&mut c, s, Op::Prefix { prefix: "z\u{10FFFF}", limit: 100 }, &["z\u{10FFFF}x"])?;
    gives(&mut c, s, Op::Prefix { prefix: "e", limit: 100 }, &["e"])
}

fn prefix_lengths(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    let longest = s.longest_key();
    let keys = ["k".to_owned(), "k".repeat(longest - 1), "k".repeat(longest), "l".to_owned()];
    fill(&mut c, s, &keys)?;
    gives(&mut c, s, Op::Prefix { prefix: "k", limit: 100 }, &keys[..3])?;
    gives(&mut c, s, Op::Prefix { prefix: &keys[1], limit: 100 }, &keys[1..3])?;
    gives(&mut c, s, Op::Prefix { prefix: &keys[2], limit: 100 }, &keys[2..3])
}

fn prefix_empty(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    fill(&mut c, s, &ODD_KEYS)?;
    let mut sorted = ODD_KEYS;
    sorted.sort_unstable();
    gives(&mut c, s, Op::Prefix { prefix: "", limit: 100 }, &sorted)?;
    gives(&mut c, s, Op::Prefix { prefix: "", limit: 5 }, &sorted[..5])
}

fn prefix_without_contents(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    fill(&mut c, s, &["a/1", "a/2", "a/3", "b"])?;
    gives(&mut c, s, Op::Prefix { prefix: "a/", limit: 2 }, &["a/1", "a/2"])?;
    let op = Op::Prefix { prefix: "a/", limit: 2 };
    let with = c.ok(s.documents, op)?;
    let request = Request { collection: s.documents, op, contents: false };
    let without = c.call_request(&request)?.map_err(|e| Stop::failed(format!("prefix without contents: {e}")))?;
    let (with, without) = (with.as_reply(), without.as_reply());
    ensure!(without.rows.is_none(), "no contents were wanted, yet some came");
    ensure!(without.documents == 2, "expected 2 documents, got {}", without.documents);
    ensure!(with.bytes == without.bytes, "{} bytes with contents, {} without", with.bytes, without.bytes);
    Ok(())
}

fn scan_bounds(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    fill(&mut c, s, &["d", "b", "a", "c", "bb", "ключ"])?;
    let scan = |start, end| Op::Scan { start, end, limit: 100 };
    gives(&mut c, s, scan("b", Some("d")), &["b", "bb", "c"])?;
    gives(&mut c, s, scan("b", Some("bb")), &["b"])?;
    gives(&mut c, s, scan("ba", Some("cc")), &["bb", "c"])?;
    gives(&mut c, s, scan("c", None), &["c", "d", "ключ"])?;
    gives(&mut c, s, scan("", None), &["a", "b", "bb", "c", "d", "ключ"])?;
    gives::<&str>(&mut c, s, scan("b", Some("b")), &[])?;
    gives::<&str>(&mut c, s, scan("d", Some("b")), &[])?;
    gives::<&str>(&mut c, s, scan("яя", None), &[])
}

fn scan_limit(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    let keys: Vec<String> = (0..150).map(|i| format!("{i:04}")).collect();
    let reversed: Vec<_> = keys.iter().rev().collect();
    fill(&mut c, s, &reversed)?;
    for limit in [1, 7, 100] {
        let expected = &keys[20..20 + limit as usize];
        gives(&mut c, s, Op::Scan { start: "0020", end: None, limit }, expected)?;
    }
    gives(&mut c, s, Op::Scan { start: "0020", end: Some("0025"), limit: 3 }, &keys[20..23])?;
    gives(&mut c, s, Op::Scan { start: "0140", end: None, limit: 100 }, &keys[140..])
}

fn scan_to_end(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    fill(&mut c, s, &["a", "z"])?;
    // Neighbouring collections hold keys that a scan beyond its own end would find.
    for (collection, key) in [(s.indexed, "m"), (s.indexed, "zz")] {
        c.wrote(collection, Op::Upsert { key, body: br#"{"other":true}"# })?;
    }
    gives(&mut c, s, Op::Scan { start: "", end: None, limit: 100 }, &["a", "z"])
}

fn scan_changes(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    fill(&mut c, s, &["a", "b", "c"])?;
    c.wrote(s.documents, Op::Delete { key: "b" })?;
    fill(&mut c, s, &["aa", "a"])?;
    gives(&mut c, s, Op::Scan { start: "a", end: None, limit: 100 }, &["a", "aa", "c"])
}
