//! Operations on one document.

use std::time::Duration;

use serde_json::json;

use super::Subject;
use super::suite::{Check, Stop, ensure};
use storebench_engine::store::OpKind::{Delete, Exists, Insert, Read, Replace, Touch, Upsert};
use storebench_engine::store::{ErrorKind, Op, OpKind, Request};

pub(super) const CHECKS: &[Check] = &[
    Check { name: "insert: stores a new document", needs: &[Insert, Read], run: insert },
    Check { name: "insert: a second insert conflicts and changes nothing", needs: &[Insert, Read], run: insert_twice },
    Check { name: "insert: a deleted key is free again", needs: &[Insert, Delete, Read], run: insert_after_delete },
    Check { name: "upsert: stores a new document and overwrites an old one", needs: &[Upsert, Read], run: upsert },
    Check { name: "replace: overwrites a document", needs: &[Upsert, Replace, Read], run: replace },
    Check {
        name: "replace: a missing document is not found and not created",
        needs: &[Replace, Read],
        run: replace_missing,
    },
    Check { name: "read: a missing document is not found", needs: &[Upsert, Read], run: read_missing },
    Check { name: "read: without contents, counts but no body", needs: &[Upsert, Read], run: read_without_contents },
    Check { name: "exists: one or zero documents, never not found", needs: &[Upsert, Exists], run: exists },
    Check { name: "delete: removes a document, and only that one", needs: &[Upsert, Delete, Read], run: delete },
    Check { name: "delete: a missing document is not found", needs: &[Upsert, Delete], run: delete_missing },
    Check { name: "touch: a document lives until its expiry", needs: &[Upsert, Touch, Read], run: touch },
    Check { name: "touch: a missing document is not found", needs: &[Touch], run: touch_missing },
    Check {
        name: "collections: the same key in two collections is two documents",
        needs: &[Upsert, Read],
        run: collections,
    },
];

fn insert(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.wrote(s.documents, Op::Insert { key: "a", body: br#"{"n":1}"# })?;
    c.holds(s.documents, "a", &json!({"n": 1}))
}

fn insert_twice(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.wrote(s.documents, Op::Insert { key: "a", body: br#"{"n":1}"# })?;
    c.fails(ErrorKind::Conflict, s.documents, Op::Insert { key: "a", body: br#"{"n":2}"# })?;
    c.holds(s.documents, "a", &json!({"n": 1}))
}

fn insert_after_delete(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.wrote(s.documents, Op::Insert { key: "a", body: br#"{"n":1}"# })?;
    c.wrote(s.documents, Op::Delete { key: "a" })?;
    c.wrote(s.documents, Op::Insert { key: "a", body: br#"{"n":2}"# })?;
    c.holds(s.documents, "a", &json!({"n": 2}))
}

fn upsert(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.wrote(s.documents, Op::Upsert { key: "a", body: br#"{"n":1,"only":"before"}"# })?;
    c.holds(s.documents, "a", &json!({"n": 1, "only": "before"}))?;
    c.wrote(s.documents, Op::Upsert { key: "a", body: br#"{"n":2}"# })?;
    c.holds(s.documents, "a", &json!({"n": 2}))
}

fn replace(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.wrote(s.documents, Op::Upsert { key: "a", body: br#"{"n":1,"only":"before"}"# })?;
    c.wrote(s.documents, Op::Replace { key: "a", body: br#"{"n":2}"# })?;
    c.holds(s.documents, "a", &json!({"n": 2}))
}

fn replace_missing(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.fails(ErrorKind::NotFound, s.documents, Op::Replace { key: "a", body: br#"{"n":2}"# })?;
    c.lacks(s.documents, "a")
}

fn read_missing(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.lacks(s.documents, "a")?;
    c.wrote(s.documents, Op::Upsert { key: "aa", body: b"{}" })?;
    c.lacks(s.documents, "a")
}

fn read_without_contents(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.wrote(s.documents, Op::Upsert { key: "a", body: br#"{"text":"some words"}"# })?;
    c.holds(s.documents, "a", &json!({"text": "some words"}))?;
    let bytes = c.read(s.documents, "a")?.len() as u64;
    let request = Request { collection: s.documents, op: Op::Read { key: "a" }, contents: false };
    let reply = c.call_request(&request)?.map_err(|e| Stop::failed(format!("read without contents: {e}")))?;
    let reply = reply.as_reply();
    ensure!(reply.body.is_none() && reply.rows.is_none(), "no contents were wanted, yet some came");
    ensure!(reply.documents == 1, "a read replied {} documents without contents", reply.documents);
    ensure!(reply.bytes == bytes, "{bytes} bytes with contents, {} without", reply.bytes);
    Ok(())
}

fn exists(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.wrote(s.documents, Op::Upsert { key: "a", body: b"{}" })?;
    for (key, expected) in [("a", 1), ("b", 0), ("aa", 0)] {
        c.until(|c| {
            let documents = c.ok(s.documents, Op::Exists { key })?.as_reply().documents;
            ensure!(documents == expected, "exists of `{key}`: expected {expected} documents, got {documents}");
            Ok(())
        })?;
    }
    Ok(())
}

fn delete(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    for key in ["a", "aa", "b"] {
        c.wrote(s.documents, Op::Upsert { key, body: b"{}" })?;
    }
    c.wrote(s.documents, Op::Delete { key: "a" })?;
    c.lacks(s.documents, "a")?;
    c.holds(s.documents, "aa", &json!({}))?;
    c.holds(s.documents, "b", &json!({}))
}

fn delete_missing(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.fails(ErrorKind::NotFound, s.documents, Op::Delete { key: "a" })?;
    c.wrote(s.documents, Op::Upsert { key: "a", body: b"{}" })?;
    c.wrote(s.documents, Op::Delete { key: "a" })?;
    c.fails(ErrorKind::NotFound, s.documents, Op::Delete { key: "a" })
}

fn touch(s: &Subject<'_>) -> Result<(), Stop> {
    // The capabilities after preparation: what the server allows is known only then.
    if let Some(late) = s.store.capabilities().expires_late_by {
        return Err(Stop::NotSupported(format!(
            "removal of expired documents within a minute; this server removes them every {late:?}"
        )));
    }
    let mut c = s.client()?;
    for key in ["short", "long", "untouched"] {
        c.wrote(s.documents, Op::Upsert { key, body: b"{}" })?;
    }
    c.wrote(s.documents, Op::Touch { key: "long", expiry: Duration::from_secs(3600) })?;
    c.wrote(s.documents, Op::Touch { key: "short", expiry: Duration::from_secs(1) })?;
    // Servers expire documents by the second, and some do it lazily: only that it goes is guaranteed, not when.
    let begun_ns = s.time.now_ns();
    while c.lacks(s.documents, "short").is_err() {
        ensure!(s.time.now_ns() - begun_ns < 60_000_000_000, "a document with 1 s to live is still there after 60 s");
        s.time.pass(Duration::from_millis(50));
    }
    c.holds(s.documents, "long", &json!({}))?;
    c.holds(s.documents, "untouched", &json!({}))?;
    if s.can(OpKind::Insert) {
        c.wrote(s.documents, Op::Insert { key: "short", body: br#"{"n":2}"# })?;
        c.holds(s.documents, "short", &json!({"n": 2}))?;
    }
    Ok(())
}

fn touch_missing(s: &Subject<'_>) -> Result<(), Stop> {
    s.client()?.fails(ErrorKind::NotFound, s.documents, Op::Touch { key: "a", expiry: Duration::from_secs(60) })
}

fn collections(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.wrote(s.documents, Op::Upsert { key: "a", body: br#"{"n":1}"# })?;
    c.lacks(s.indexed, "a")?;
    c.wrote(s.indexed, Op::Upsert { key: "a", body: br#"{"n":2}"# })?;
    c.holds(s.documents, "a", &json!({"n": 1}))?;
    c.holds(s.indexed, "a", &json!({"n": 2}))
}
