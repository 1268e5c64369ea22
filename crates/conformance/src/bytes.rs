//! Append and prepend.

use super::Subject;
use super::suite::{Check, Stop};
use storebench_engine::store::OpKind::{Append, Prepend, Read, Upsert};
use storebench_engine::store::{ErrorKind, Op};

pub(super) const CHECKS: &[Check] = &[
    Check { name: "append: adds bytes at the end", needs: &[Upsert, Append, Read], run: append },
    Check { name: "prepend: adds bytes at the beginning", needs: &[Upsert, Prepend, Read], run: prepend },
    Check {
        name: "append: a missing document is not found and not created",
        needs: &[Append, Read],
        run: append_missing,
    },
    Check {
        name: "prepend: a missing document is not found and not created",
        needs: &[Prepend, Read],
        run: prepend_missing,
    },
    Check { name: "append: refused on JSON, which stays unchanged", needs: &[Upsert, Append, Read], run: append_json },
    Check {
        name: "prepend: refused on JSON, which stays unchanged",
        needs: &[Upsert, Prepend, Read],
        run: prepend_json,
    },
];

fn append(s: &Subject<'_>) -> Result<(), Stop> {
    let blobs = s.blobs()?;
    let mut c = s.client()?;
    c.wrote(blobs, Op::Upsert { key: "a", body: b"one" })?;
    c.wrote(blobs, Op::Append { key: "a", bytes: b"\0two\xff" })?;
    c.wrote(blobs, Op::Append { key: "a", bytes: b"" })?;
    c.wrote(blobs, Op::Append { key: "a", bytes: b"three" })?;
    c.holds_bytes(blobs, "a", b"one\0two\xffthree")
}

fn prepend(s: &Subject<'_>) -> Result<(), Stop> {
    let blobs = s.blobs()?;
    let mut c = s.client()?;
    c.wrote(blobs, Op::Upsert { key: "a", body: b"three" })?;
    c.wrote(blobs, Op::Prepend { key: "a", bytes: b"\0two\xff" })?;
    c.wrote(blobs, Op::Prepend { key: "a", bytes: b"" })?;
    c.wrote(blobs, Op::Prepend { key: "a", bytes: b"one" })?;
    c.holds_bytes(blobs, "a", b"one\0two\xffthree")
}

fn append_missing(s: &Subject<'_>) -> Result<(), Stop> {
    let blobs = s.blobs()?;
    let mut c = s.client()?;
    c.fails(ErrorKind::NotFound, blobs, Op::Append { key: "a", bytes: b"x" })?;
    c.lacks(blobs, "a")
}

fn prepend_missing(s: &Subject<'_>) -> Result<(), Stop> {
    let blobs = s.blobs()?;
    let mut c = s.client()?;
    c.fails(ErrorKind::NotFound, blobs, Op::Prepend { key: "a", bytes: b"x" })?;
    c.lacks(blobs, "a")
}

fn append_json(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.wrote(s.documents, Op::Upsert { key: "a", body: b"{}" })?;
    c.fails(ErrorKind::Refused, s.documents, Op::Append { key: "a", bytes: b" " })?;
    c.holds(s.documents, "a", &serde_json::json!({}))
}

fn prepend_json(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.wrote(s.documents, Op::Upsert { key: "a", body: b"{}" })?;
    c.fails(ErrorKind::Refused, s.documents, Op::Prepend { key: "a", bytes: b" " })?;
    c.holds(s.documents, "a", &serde_json::json!({}))
}
