//! Bulk forms.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Subject;
use super::json::same_json;
use super::suite::{Check, Stop, ensure};
use storebench_engine::store::OpKind::{BulkDelete, BulkInsert, BulkRead, BulkUpsert, Read, Upsert};
use storebench_engine::store::{BatchBuf, BulkWrite, ErrorKind, Op, Reply, Request};

pub(super) const CHECKS: &[Check] = &[
    Check { name: "bulk-insert: stores every new document", needs: &[BulkInsert, Read], run: insert },
    Check {
        name: "bulk-insert: rejects the conflicting items, stores the others",
        needs: &[BulkInsert, Upsert, Read],
        run: insert_some,
    },
    Check { name: "bulk-upsert: 1,000 documents, new and old", needs: &[BulkUpsert, Read], run: upsert },
    Check { name: "bulk-upsert: of bytes", needs: &[BulkUpsert, Read], run: upsert_bytes },
    Check { name: "bulk-read: leaves missing keys out", needs: &[BulkRead, Upsert], run: read },
    Check {
        name: "bulk-read: without contents, counts but no rows",
        needs: &[BulkRead, Upsert],
        run: read_without_contents,
    },
    Check {
        name: "bulk-delete: removes what is there, leaves missing keys out",
        needs: &[BulkDelete, Upsert, Read],
        run: delete,
    },
    Check {
        name: "bulk-insert: of a repeated key, the first item is stored and the second conflicts",
        needs: &[BulkInsert, Read],
        run: insert_repeated,
    },
    Check {
        name: "bulk-upsert: of a repeated key, the last document stays and each item counts",
        needs: &[BulkUpsert, Read],
        run: upsert_repeated,
    },
    Check {
        name: "bulk-read: a repeated key is answered as often as it is requested",
        needs: &[BulkRead, Upsert],
        run: read_repeated,
    },
    Check { name: "bulk-delete: a repeated key counts once", needs: &[BulkDelete, Upsert, Read], run: delete_repeated },
];

/// Keys of which some are repeated, next to each other and apart. They are neither ascending nor descending.
const REPEATED: [&str; 9] = ["m", "b", "b", "z", "m", "a", "b", "m", "y"];

/// The documents that the items of [`REPEATED`] write.
fn repeated() -> BatchBuf {
    batch(REPEATED.iter().enumerate().map(|(i, key)| (*key, json!({ "item": i }).to_string())))
}

fn batch<'a>(items: impl IntoIterator<Item = (&'a str, String)>) -> BatchBuf {
    let mut batch = BatchBuf::new();
    for (key, body) in items {
        batch.push(key, body.as_bytes());
    }
    batch
}

/// The rows of a reply by key, checked against its counts.
pub(super) fn rows_of(reply: &Reply<'_>) -> Result<BTreeMap<String, Vec<u8>>, Stop> {
    let rows = reply.rows.ok_or_else(|| Stop::failed("contents were wanted but no rows came"))?;
    let documents = reply.documents as usize;
    ensure!(documents == rows.len(), "{} rows were counted as {documents}", rows.len());
    let bytes: u64 = rows.iter().map(|(_, body)| body.len() as u64).sum();
    ensure!(bytes == reply.bytes, "bodies of {bytes} bytes were counted as {}", reply.bytes);
    let by_key: BTreeMap<_, _> = rows.iter().map(|(key, body)| (key.to_owned(), body.to_vec())).collect();
    ensure!(by_key.len() == rows.len(), "a key appeared in more than one row");
    Ok(by_key)
}

fn insert(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    let keys = ["a", "b/1", "ключ", "it's"];
    let items = batch(keys.iter().enumerate().map(|(i, key)| (*key, json!({ "n": i }).to_string())));
    let op = Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() };
    let reply = c.ok(s.documents, op)?;
    let reply = reply.as_reply();
    ensure!(reply.documents == 4 && reply.rejects.is_empty(), "4 new documents: got {reply:?}");
    for (i, key) in keys.iter().enumerate() {
        c.holds(s.documents, key, &json!({ "n": i }))?;
    }
    Ok(())
}

fn insert_some(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    let keys: Vec<String> = (0..50).map(|i| format!("k{i:02}")).collect();
    let there = [0, 7, 8, 31, 49];
    for i in there {
        c.wrote(s.documents, Op::Upsert { key: &keys[i], body: br#"{"n":"old"}"# })?;
    }
    let items = batch(keys.iter().enumerate().map(|(i, key)| (key.as_str(), json!({ "n": i }).to_string())));
    let reply = c.ok(s.documents, Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() })?;
    let reply = reply.as_reply();
    ensure!(reply.documents == 45, "50 inserts of which 5 keys exist: expected 45 documents, got {}", reply.documents);
    let mut rejected: Vec<usize> = reply.rejects.iter().map(|reject| reject.item).collect();
    rejected.sort_unstable();
    ensure!(rejected == there, "items {there:?} exist already; rejected were {rejected:?}");
    if let Some(reject) = reply.rejects.iter().find(|reject| reject.error.kind != ErrorKind::Conflict) {
        return Err(Stop::failed(format!("an item whose key exists must be a conflict; got {reject:?}")));
    }
    for (i, key) in keys.iter().enumerate() {
        let expected = if there.contains(&i) { json!({"n": "old"}) } else { json!({ "n": i }) };
        c.holds(s.documents, key, &expected)?;
    }
    Ok(())
}

fn upsert(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    let keys: Vec<String> = (0..1_500).map(|i| format!("key-{i:05}")).collect();
    for (round, range) in [(0, 0..1_000), (1, 500..1_500)] {
        let items =
            batch(keys[range].iter().map(|key| (key.as_str(), json!({"key": key, "round": round}).to_string())));
        let reply = c.ok(s.documents, Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() })?;
        let reply = reply.as_reply();
        ensure!(
            reply.documents == 1_000 && reply.rejects.is_empty(),
            "bulk-upsert of 1,000: got {} documents and {} rejects",
            reply.documents,
            reply.rejects.len()
        );
    }
    for (i, key) in keys.iter().enumerate() {
        c.holds(s.documents, key, &json!({ "key": key, "round": u8::from(i >= 500) }))?;
    }
    Ok(())
}

fn upsert_bytes(s: &Subject<'_>) -> Result<(), Stop> {
    let (mut c, blobs) = (s.client()?, s.blobs()?);
    let mut items = BatchBuf::new();
    items.push("a", b"\0\xff");
    items.push("b", b"'\"\\");
    let reply = c.ok(blobs, Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() })?;
    ensure!(reply.as_reply().documents == 2, "bulk-upsert of 2: got {:?}", reply.as_reply());
    c.holds_bytes(blobs, "a", b"\0\xff")?;
    c.holds_bytes(blobs, "b", b"'\"\\")
}

fn read(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    let expected: BTreeMap<String, Value> =
        (0..20).map(|i| (format!("k{i}"), json!({"n": i, "text": "words"}))).collect();
    for (key, value) in &expected {
        c.wrote(s.documents, Op::Upsert { key, body: value.to_string().as_bytes() })?;
    }
    let mut keys = batch(expected.keys().map(|key| (key.as_str(), String::new())));
    for missing in ["k", "k20", "missing"] {
        keys.push(missing, b"");
    }
    c.until(|c| {
        let reply = c.ok(s.documents, Op::BulkRead { keys: keys.as_batch() })?;
        let reply = reply.as_reply();
        let rows = rows_of(&reply)?;
        ensure!(rows.keys().eq(expected.keys()), "asked for 20 keys and 3 missing ones; got {:?}", rows.keys());
        for (key, body) in &rows {
            same_json(&expected[key], body).map_err(|text| Stop::failed(format!("bulk-read of `{key}`: {text}")))?;
        }
        ensure!(reply.rejects.is_empty(), "missing keys are left out, not rejected; got {:?}", reply.rejects);
        Ok(())
    })?;
    let mut keys = BatchBuf::new();
    keys.push("missing", b"");
    let reply = c.ok(s.documents, Op::BulkRead { keys: keys.as_batch() })?;
    ensure!(reply.as_reply().documents == 0, "a bulk read of a missing key: got {:?}", reply.as_reply());
    Ok(())
}

fn read_without_contents(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    let mut keys = BatchBuf::new();
    for key in ["a", "b", "c"] {
        c.wrote(s.documents, Op::Upsert { key, body: br#"{"text":"words"}"# })?;
        keys.push(key, b"");
    }
    keys.push("missing", b"");
    let op = Op::BulkRead { keys: keys.as_batch() };
    c.until(|c| {
        let with = c.ok(s.documents, op)?;
        rows_of(&with.as_reply())?;
        let request = Request { collection: s.documents, op, contents: false };
        let without = c.call_request(&request)?.map_err(|e| Stop::failed(format!("without contents: {e}")))?;
        let (with, without) = (with.as_reply(), without.as_reply());
        ensure!(without.rows.is_none() && without.body.is_none(), "no contents were wanted, yet some came");
        ensure!(without.documents == 3, "expected 3 documents, got {}", without.documents);
        ensure!(with.bytes == without.bytes, "{} bytes with contents, {} without", with.bytes, without.bytes);
        Ok(())
    })
}

fn delete(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    for key in ["a", "b", "c", "d"] {
        c.wrote(s.documents, Op::Upsert { key, body: b"{}" })?;
    }
    let keys = batch(["a", "missing", "c", "aa"].map(|key| (key, String::new())));
    let reply = c.ok(s.documents, Op::BulkDelete { keys: keys.as_batch() })?;
    let reply = reply.as_reply();
    ensure!(reply.documents == 2, "2 of 4 keys exist; bulk-delete replied {}", reply.documents);
    ensure!(reply.rejects.is_empty(), "missing keys are left out, not rejected; got {:?}", reply.rejects);
    c.lacks(s.documents, "a")?;
    c.lacks(s.documents, "c")?;
    c.holds(s.documents, "b", &json!({}))?;
    c.holds(s.documents, "d", &json!({}))
}

fn insert_repeated(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    let items = repeated();
    let reply = c.ok(s.documents, Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() })?;
    let reply = reply.as_reply();
    let mut rejected: Vec<usize> = reply.rejects.iter().map(|reject| reject.item).collect();
    rejected.sort_unstable();
    ensure!(
        reply.documents == 5 && rejected == [2, 4, 6, 7],
        "inserts of {REPEATED:?}: expected 5 documents and items 2, 4, 6 and 7 rejected; got {} documents and {rejected:?}",
        reply.documents
    );
    if let Some(reject) = reply.rejects.iter().find(|reject| reject.error.kind != ErrorKind::Conflict) {
        return Err(Stop::failed(format!("the second insert of a key must be a conflict; got {reject:?}")));
    }
    for (key, first) in [("m", 0), ("b", 1), ("z", 3), ("a", 5), ("y", 8)] {
        c.holds(s.documents, key, &json!({ "item": first }))?;
    }
    Ok(())
}

fn upsert_repeated(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    let items = repeated();
    // The first round finds no documents. The second finds those of the first.
    for round in ["new", "old"] {
        let reply = c.ok(s.documents, Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() })?;
        let reply = reply.as_reply();
        ensure!(
            reply.documents == 9 && reply.rejects.is_empty(),
            "upserts of {REPEATED:?} ({round} documents): expected 9 documents, got {} and {:?}",
            reply.documents,
            reply.rejects
        );
        for (key, last) in [("m", 7), ("b", 6), ("z", 3), ("a", 5), ("y", 8)] {
            c.holds(s.documents, key, &json!({ "item": last }))?;
        }
    }
    Ok(())
}

fn read_repeated(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    for key in ["m", "b", "z", "a"] {
        c.wrote(s.documents, Op::Upsert { key, body: json!({ "key": key }).to_string().as_bytes() })?;
    }
    let mut keys = BatchBuf::new();
    REPEATED.iter().for_each(|key| keys.push(key, b""));
    let op = Op::BulkRead { keys: keys.as_batch() };
    c.until(|c| {
        let with = c.ok(s.documents, op)?;
        let with = with.as_reply();
        let rows = with.rows.ok_or_else(|| Stop::failed("contents were wanted but no rows came"))?;
        let mut found: Vec<&str> = rows.iter().map(|(key, _)| key).collect();
        found.sort_unstable();
        let expected = ["a", "b", "b", "b", "m", "m", "m", "z"];
        ensure!(found == expected, "a read of {REPEATED:?}, of which `y` is missing, gave rows of {found:?}");
        ensure!(with.documents == 8, "8 rows were counted as {}", with.documents);
        for (key, body) in rows.iter() {
            let expected = json!({ "key": key });
            same_json(&expected, body).map_err(|text| Stop::failed(format!("bulk-read of `{key}`: {text}")))?;
        }
        let request = Request { collection: s.documents, op, contents: false };
        let without = c.call_request(&request)?.map_err(|e| Stop::failed(format!("without contents: {e}")))?;
        let without = without.as_reply();
        ensure!(without.documents == 8, "without contents: expected 8 documents, got {}", without.documents);
        ensure!(with.bytes == without.bytes, "{} bytes with contents, {} without", with.bytes, without.bytes);
        Ok(())
    })
}

fn delete_repeated(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    for key in ["m", "b", "z", "a", "kept"] {
        c.wrote(s.documents, Op::Upsert { key, body: b"{}" })?;
    }
    let mut keys = BatchBuf::new();
    REPEATED.iter().for_each(|key| keys.push(key, b""));
    let reply = c.ok(s.documents, Op::BulkDelete { keys: keys.as_batch() })?;
    let reply = reply.as_reply();
    ensure!(reply.documents == 4, "4 documents were there to delete; {REPEATED:?} replied {}", reply.documents);
    ensure!(reply.rejects.is_empty(), "repeated keys are left out, not rejected; got {:?}", reply.rejects);
    for key in ["m", "b", "z", "a", "y"] {
        c.lacks(s.documents, key)?;
    }
    c.holds(s.documents, "kept", &json!({}))
}
