//! Fuzzing with arbitrary bytes as replies and documents.

use std::sync::LazyLock;

use storebench_study::workload::Body;

use super::bson::{self, DOCUMENT, Members, Value};
use super::errors::{ServerError, is_ok};
use super::{decode, job};

static GOOD: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let document = |fill: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        let at = bson::begin(&mut out);
        fill(&mut out);
        bson::end(&mut out, at);
        out
    };
    let stored = |out: &mut Vec<u8>| {
        bson::text(out, "_id", "key");
        bson::int64(out, "_rev", 7);
        bson::text(out, "t", "words \u{1F600}");
        bson::int32(out, "n", -3);
        bson::boolean(out, "b", true);
        bson::date(out, "_expires", 1_700_000_000_000);
        bson::binary(out, "b", [b"\0\xff", b"x"]);
        bson::head(out, bson::DOUBLE, "d");
        out.extend_from_slice(&0.5f64.to_le_bytes());
        bson::head(out, bson::OBJECT_ID, "o");
        out.extend_from_slice(&[7; 12]);
        bson::nested(out, bson::ARRAY, "a", |out| {
            bson::nested(out, DOCUMENT, "0", |out| bson::head(out, bson::NULL, "x"))
        });
    };
    vec![
        document(&stored),
        document(&|out| {
            bson::int32(out, "ok", 1);
            bson::nested(out, DOCUMENT, "cursor", |out| {
                bson::int64(out, "id", 5);
                bson::nested(out, bson::ARRAY, "firstBatch", |out| bson::nested(out, DOCUMENT, "0", stored));
            });
        }),
        document(&|out| {
            bson::int32(out, "ok", 1);
            bson::int32(out, "n", 2);
            bson::nested(out, bson::ARRAY, "writeErrors", |out| {
                bson::nested(out, DOCUMENT, "0", |out| {
                    bson::int32(out, "index", 1);
                    bson::int32(out, "code", 11_000);
                    bson::text(out, "errmsg", "E11000 duplicate key");
                });
            });
        }),
        document(&|out| {
            bson::int32(out, "ok", 0);
            bson::int32(out, "code", 10_107);
            bson::text(out, "codeName", "NotWritablePrimary");
        }),
    ]
});

/// Calls every accessor of a value.
fn walk(value: Value<'_>, depth: u32) {
    let _ = (value.as_str(), value.as_i64(), value.as_f64(), value.is_true(), value.as_binary(), job::key_text(value));
    if depth < 50 {
        value.members().into_iter().flatten().map_while(Result::ok).for_each(|(_, inner)| walk(inner, depth + 1));
    }
}

fn take(bytes: &[u8]) {
    understand(bytes);
    // Once more with the right length, since most inputs would be refused for the length alone.
    if bytes.len() > 5 {
        let mut whole = bytes.to_vec();
        whole[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        whole[bytes.len() - 1] = 0;
        understand(&whole);
    }
}

fn understand(bytes: &[u8]) {
    let mut out = Vec::new();
    for kind in [Body::Json, Body::Bytes, Body::Counter] {
        out.clear();
        let _ = decode::document(bytes, kind, Some("n"), &mut out);
    }
    let Ok(members) = Members::of(bytes) else { return };
    let _ = (is_ok(members), ServerError::of(members), members.at(&["cursor", "firstBatch"]));
    walk(Value { kind: DOCUMENT, bytes }, 0);
}

crate::fuzz::fuzzed!("MongoDB", &GOOD.iter().map(Vec::as_slice).collect::<Vec<_>>(), take);
