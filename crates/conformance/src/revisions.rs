//! Compare-and-swap.

use serde_json::json;

use super::Subject;
use super::client::Client;
use super::suite::{Check, Stop, ensure};
use storebench_engine::store::{CollectionId, ErrorKind, Op, OpKind};

const NEEDS: &[OpKind] = &[OpKind::Upsert, OpKind::Read, OpKind::CompareAndSwap];

pub(super) const CHECKS: &[Check] = &[
    Check { name: "cas: replaces a document at the revision that was read", needs: NEEDS, run: right },
    Check { name: "cas: conflicts at a stale revision and changes nothing", needs: NEEDS, run: stale },
    Check { name: "cas: a missing document is not found and not created", needs: NEEDS, run: missing },
    Check {
        name: "cas: the revision of a document deleted and created again is stale",
        needs: &[OpKind::Upsert, OpKind::Read, OpKind::Delete, OpKind::CompareAndSwap],
        run: made_anew,
    },
    Check {
        name: "cas: the revision of a counter is stale after an increment",
        needs: &[OpKind::Counter, OpKind::Read, OpKind::CompareAndSwap],
        run: counted,
    },
    Check { name: "cas: the revision in a write's reply is current", needs: NEEDS, run: written },
];

/// The revision that a read returns.
fn revision(c: &mut Client, collection: CollectionId, key: &str) -> Result<Vec<u8>, Stop> {
    let reply = c.ok(collection, Op::Read { key })?;
    let revision = reply.as_reply().revision;
    revision
        .map(<[u8]>::to_vec)
        .ok_or_else(|| Stop::failed("the store supports cas, so a read must return a revision; it returned none"))
}

fn right(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.wrote(s.documents, Op::Upsert { key: "a", body: br#"{"n":1}"# })?;
    for n in 2..6 {
        let expected = revision(&mut c, s.documents, "a")?;
        let body = json!({ "n": n });
        c.wrote(s.documents, Op::CompareAndSwap { key: "a", expected: &expected, body: body.to_string().as_bytes() })?;
        c.holds(s.documents, "a", &body)?;
    }
    Ok(())
}

fn stale(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.wrote(s.documents, Op::Upsert { key: "a", body: br#"{"n":1}"# })?;
    let first = revision(&mut c, s.documents, "a")?;
    c.wrote(s.documents, Op::Upsert { key: "a", body: br#"{"n":2}"# })?;
    c.fails(ErrorKind::Conflict, s.documents, Op::CompareAndSwap { key: "a", expected: &first, body: br#"{"n":3}"# })?;
    c.holds(s.documents, "a", &json!({"n": 2}))?;
    let second = revision(&mut c, s.documents, "a")?;
    ensure!(first != second, "the revision did not change with the document");
    c.wrote(s.documents, Op::CompareAndSwap { key: "a", expected: &second, body: br#"{"n":4}"# })?;
    c.fails(ErrorKind::Conflict, s.documents, Op::CompareAndSwap { key: "a", expected: &second, body: br#"{"n":5}"# })?;
    c.holds(s.documents, "a", &json!({"n": 4}))
}

fn missing(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.wrote(s.documents, Op::Upsert { key: "other", body: b"{}" })?;
    let expected = revision(&mut c, s.documents, "other")?;
    c.fails(ErrorKind::NotFound, s.documents, Op::CompareAndSwap { key: "a", expected: &expected, body: b"{}" })?;
    c.lacks(s.documents, "a")
}

fn made_anew(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.wrote(s.documents, Op::Upsert { key: "a", body: br#"{"n":1}"# })?;
    let expected = revision(&mut c, s.documents, "a")?;
    c.wrote(s.documents, Op::Delete { key: "a" })?;
    c.wrote(s.documents, Op::Upsert { key: "a", body: br#"{"n":2}"# })?;
    c.fails(
        ErrorKind::Conflict,
        s.documents,
        Op::CompareAndSwap { key: "a", expected: &expected, body: br#"{"n":3}"# },
    )?;
    c.holds(s.documents, "a", &json!({"n": 2}))
}

fn counted(s: &Subject<'_>) -> Result<(), Stop> {
    let (mut c, counters) = (s.client()?, s.counters()?);
    let add = Op::Counter { key: "a", delta: 3, initial: 5 };
    c.wrote(counters, add)?;
    let expected = revision(&mut c, counters, "a")?;
    c.wrote(counters, add)?;
    c.fails(ErrorKind::Conflict, counters, Op::CompareAndSwap { key: "a", expected: &expected, body: b"100" })?;
    c.holds_bytes(counters, "a", b"8")?;
    let expected = revision(&mut c, counters, "a")?;
    c.wrote(counters, Op::CompareAndSwap { key: "a", expected: &expected, body: b"100" })?;
    c.holds_bytes(counters, "a", b"100")
}

fn written(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    let reply = c.wrote(s.documents, Op::Upsert { key: "a", body: br#"{"n":1}"# })?;
    // A store need not report the revision, but if it does, the revision must be correct.
    let Some(told) = reply.as_reply().revision else { return Ok(()) };
    let read = revision(&mut c, s.documents, "a")?;
    ensure!(told == read, "the upsert replied revision {told:?}, a read after it {read:?}");
    Ok(())
}
