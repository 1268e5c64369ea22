//! Pages by an indexed field.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Subject;
use super::bulk::rows_of;
use super::client::Client;
use super::json::same_json;
use super::suite::{Check, Stop, ensure};
use storebench_engine::store::{Op, OpKind, Request};

const NEEDS: &[OpKind] = &[OpKind::Upsert, OpKind::Page];

pub(super) const CHECKS: &[Check] = &[
    Check { name: "page: by text, number and boolean", needs: NEEDS, run: kinds },
    Check { name: "page: returns complete documents", needs: NEEDS, run: whole },
    Check { name: "page: at most `limit` documents", needs: NEEDS, run: limit },
    Check { name: "page: values that need escapes", needs: NEEDS, run: escapes },
    Check { name: "page: 1, \"1\" and true are different values", needs: NEEDS, run: types },
    Check { name: "page: follows an update to another value", needs: NEEDS, run: update },
    Check {
        name: "page: forgets a deleted document",
        needs: &[OpKind::Upsert, OpKind::Page, OpKind::Delete],
        run: delete,
    },
    Check { name: "page: follows a replace, a merge and a bulk write", needs: NEEDS, run: other_writes },
    Check { name: "page: without contents, counts but no rows", needs: NEEDS, run: without_contents },
];

fn put(c: &mut Client, s: &Subject<'_>, key: &str, value: &Value) -> Result<(), Stop> {
    c.wrote(s.indexed, Op::Upsert { key, body: value.to_string().as_bytes() }).map(drop)
}

/// The page must hold exactly these keys.
fn page(c: &mut Client, s: &Subject<'_>, field: &str, value: &Value, expected: &[&str]) -> Result<(), Stop> {
    let text = value.to_string();
    c.until(|c| {
        let reply = c.ok(s.indexed, Op::Page { field, value: &text, limit: 100 })?;
        let rows = rows_of(&reply.as_reply())?;
        let got: BTreeSet<&str> = rows.keys().map(String::as_str).collect();
        let wanted: BTreeSet<&str> = expected.iter().copied().collect();
        ensure!(got == wanted, "page where {field} = {text}: expected {wanted:?}, got {got:?}");
        Ok(())
    })
}

/// A client of a store with indexes.
fn client(s: &Subject<'_>) -> Result<Client, Stop> {
    if s.capabilities.indexes { s.client() } else { Err(Stop::NotSupported("indexes".into())) }
}

fn kinds(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = client(s)?;
    put(&mut c, s, "a", &json!({"user": "ann", "n": 7, "flag": true}))?;
    put(&mut c, s, "b", &json!({"user": "bob", "n": 7, "flag": false}))?;
    put(&mut c, s, "c", &json!({"user": "ann", "n": -70, "flag": true}))?;
    put(&mut c, s, "d", &json!({"other": "ann"}))?;
    put(&mut c, s, "e", &json!({"deep": {"user": "ann", "n": 7}}))?;
    page(&mut c, s, "user", &json!("ann"), &["a", "c"])?;
    page(&mut c, s, "user", &json!("bob"), &["b"])?;
    page(&mut c, s, "user", &json!("an"), &[])?;
    page(&mut c, s, "user", &json!("ANN"), &[])?;
    page(&mut c, s, "n", &json!(7), &["a", "b"])?;
    page(&mut c, s, "n", &json!(-70), &["c"])?;
    page(&mut c, s, "n", &json!(70), &[])?;
    page(&mut c, s, "flag", &json!(true), &["a", "c"])?;
    page(&mut c, s, "flag", &json!(false), &["b"])
}

fn whole(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = client(s)?;
    let value = json!({"user": "ann", "n": 1, "text": "it's \"quoted\"", "list": [1, {"a": null}]});
    put(&mut c, s, "a", &value)?;
    c.until(|c| {
        let reply = c.ok(s.indexed, Op::Page { field: "user", value: "\"ann\"", limit: 10 })?;
        let rows = rows_of(&reply.as_reply())?;
        let body = rows.get("a").ok_or_else(|| Stop::failed("the page lacks the only document"))?;
        same_json(&value, body).map_err(|text| Stop::failed(format!("row of a page: {text}")))
    })
}

fn limit(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = client(s)?;
    for i in 0..30 {
        put(&mut c, s, &format!("k{i:02}"), &json!({"user": if i % 3 == 0 { "ann" } else { "bob" }, "n": i}))?;
    }
    for (limit, expected) in [(1, 1), (3, 3), (9, 9), (10, 10), (11, 10), (1_000, 10)] {
        c.until(|c| {
            let reply = c.ok(s.indexed, Op::Page { field: "user", value: "\"ann\"", limit })?;
            let rows = rows_of(&reply.as_reply())?;
            ensure!(
                rows.len() == expected,
                "10 documents match; with limit {limit} expected {expected}, got {}",
                rows.len()
            );
            let foreign = rows.keys().find(|key| key[1..].parse::<u32>().map_or(true, |i| i % 3 != 0));
            ensure!(foreign.is_none(), "the page holds {foreign:?}, which does not match");
            Ok(())
        })?;
    }
    Ok(())
}

/// A text with a character that takes two units in UTF-16.
const BEYOND_FFFF: &str = "日本😀";

fn escapes(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = client(s)?;
    let values = [
        "it's",
        "say \"hi\"",
        "back\\slash",
        "a\nb\tc",
        "100%",
        "under_score",
        "",
        " ",
        "ключ",
        "日本",
        "a/b",
        "null",
        "{\"a\":1}",
        "$.user",
        "users/1",
        // The last one, so that if it alone is not found, the others were found.
        BEYOND_FFFF,
    ];
    for (i, value) in values.iter().enumerate() {
        put(&mut c, s, &format!("k{i}"), &json!({ "user": value }))?;
    }
    for (i, value) in values.iter().enumerate() {
        let key = format!("k{i}");
        match page(&mut c, s, "user", &json!(value), &[&key]) {
            Err(Stop::Failed(text)) if *value == BEYOND_FFFF => {
                c.holds(s.indexed, &key, &json!({ "user": value }))?;
                return Err(Stop::failed(format!(
                    "{text}. The document is correct when read by its key, and pages by other texts work: \
                     the *server* does not index a character beyond U+FFFF correctly"
                )));
            }
            found => found?,
        }
    }
    // The same value, spelled differently.
    c.until(|c| {
        let value = r#""\u0069t's""#;
        let reply = c.ok(s.indexed, Op::Page { field: "user", value, limit: 10 })?;
        let rows = rows_of(&reply.as_reply())?;
        ensure!(rows.keys().eq(["k0"]), "page where user = {value}: expected k0, got {:?}", rows.keys());
        Ok(())
    })
}

fn types(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = client(s)?;
    for field in ["user", "n", "flag"] {
        let values =
            [json!(1), json!("1"), json!(true), json!("true"), json!(0), json!(false), json!(null), json!("null")];
        for (i, value) in values.iter().enumerate() {
            put(&mut c, s, &format!("k{i}"), &json!({ field: value }))?;
        }
        for (i, value) in values.iter().enumerate().filter(|(_, value)| !value.is_null()) {
            page(&mut c, s, field, value, &[&format!("k{i}")])?;
        }
    }
    Ok(())
}

fn update(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = client(s)?;
    put(&mut c, s, "a", &json!({"user": "ann", "n": 1}))?;
    put(&mut c, s, "b", &json!({"user": "ann", "n": 1}))?;
    put(&mut c, s, "a", &json!({"user": "bob", "n": 1}))?;
    page(&mut c, s, "user", &json!("ann"), &["b"])?;
    page(&mut c, s, "user", &json!("bob"), &["a"])?;
    page(&mut c, s, "n", &json!(1), &["a", "b"])?;
    put(&mut c, s, "a", &json!({"n": 2}))?;
    page(&mut c, s, "user", &json!("bob"), &[])?;
    page(&mut c, s, "n", &json!(1), &["b"])
}

fn delete(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = client(s)?;
    put(&mut c, s, "a", &json!({"user": "ann"}))?;
    put(&mut c, s, "b", &json!({"user": "ann"}))?;
    c.wrote(s.indexed, Op::Delete { key: "a" })?;
    page(&mut c, s, "user", &json!("ann"), &["b"])
}

fn other_writes(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = client(s)?;
    for key in ["a", "b", "c", "d"] {
        put(&mut c, s, key, &json!({"user": "before"}))?;
    }
    let (mut left, mut moved) = (vec!["d"], Vec::new());
    let after = br#"{"user":"after"}"#;
    let mut items = storebench_engine::store::BatchBuf::new();
    items.push("c", after);
    let writes = [
        ("a", Op::Replace { key: "a", body: after }),
        ("b", Op::MergePatch { key: "b", patch: after }),
        ("c", Op::BulkWrite { kind: storebench_engine::store::BulkWrite::Upsert, items: items.as_batch() }),
    ];
    for (key, op) in writes {
        if s.can(op.kind()) {
            c.wrote(s.indexed, op)?;
            moved.push(key);
        } else {
            left.push(key);
        }
    }
    page(&mut c, s, "user", &json!("before"), &left)?;
    page(&mut c, s, "user", &json!("after"), &moved)
}

fn without_contents(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = client(s)?;
    for key in ["a", "b", "c"] {
        put(&mut c, s, key, &json!({"user": "ann", "text": "words"}))?;
    }
    page(&mut c, s, "user", &json!("ann"), &["a", "b", "c"])?;
    let op = Op::Page { field: "user", value: "\"ann\"", limit: 2 };
    let with = c.ok(s.indexed, op)?;
    let request = Request { collection: s.indexed, op, contents: false };
    let without = c.call_request(&request)?.map_err(|e| Stop::failed(format!("page without contents: {e}")))?;
    let (with, without) = (with.as_reply(), without.as_reply());
    ensure!(without.rows.is_none(), "no contents were wanted, yet some came");
    ensure!(without.documents == 2, "expected 2 documents, got {}", without.documents);
    ensure!(with.bytes == without.bytes, "{} bytes with contents, {} without", with.bytes, without.bytes);
    Ok(())
}
