//! Fuzz tests: arbitrary answers to every operation.

use storebench_engine::store::{BatchBuf, BulkWrite, Op, ViewRows};
use storebench_study::workload::Body;

use super::dialect::{Collection, CouchDialect};
use super::json;
use crate::http::fuzz_tests::answer_with;

const GOOD: &[&[u8]] = &[
    b"HTTP/1.1 201 Created\r\nContent-Length: 34\r\n\r\n{\"ok\":true,\"id\":\"a\",\"rev\":\"1-abcdef\"}",
    b"HTTP/1.1 200 OK\r\nETag: \"3-abc\"\r\nContent-Length: 42\r\n\r\n{\"_id\":\"a\",\"_rev\":\"3-abc\",\"n\":1,\"t\":\"\\u00e9\"}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4f\r\n{\"rows\":[{\"id\":\"a\",\"key\":\"a\",\"value\":{\"rev\":\"3-abc\"},\"doc\":{\"_id\":\"a\",\"n\":1}},\r\n24\r\n{\"key\":\"b\",\"error\":\"not_found\"}    ]}\r\n0\r\n\r\n",
    b"HTTP/1.1 201 Created\r\nConnection: close\r\n\r\n[{\"ok\":true,\"id\":\"a\",\"rev\":\"1-a\"},{\"id\":\"b\",\"error\":\"conflict\",\"reason\":\"Document update conflict.\"}]",
    b"HTTP/1.1 409 Conflict\r\nConnection: close\r\n\r\n{\"error\":\"conflict\",\"reason\":\"Document update conflict.\"}",
    b"HTTP/1.1 404 Object Not Found\r\nConnection: close\r\n\r\n{\"error\":\"not_found\",\"reason\":\"missing\"}",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"docs\":[{\"_id\":\"a\",\"_rev\":\"1-a\",\"user\":\"x\"}],\"bookmark\":\"nil\"}",
    b"HTTP/1.1 413 Too Large\r\nConnection: close\r\n\r\n{\"error\":\"too_large\",\"reason\":\"a\"}",
    b"HTTP/1.1 200 OK\r\nETag: \"1-a\"\r\nConnection: close\r\n\r\n{\"_id\":\"a\",\"value\":12,\"base64\":\"AAEC\"}",
];

fn take(bytes: &[u8]) {
    let _ = (json::revision(bytes), json::is_revision(bytes));
    json::push_document(&mut Vec::new(), "k", Some(b"1-a"), bytes);
    let mut batch = BatchBuf::new();
    ["b", "a", "a"].iter().for_each(|key| batch.push(key, b"{}"));
    let items = batch.as_batch();
    for (kind, pouch) in [(Body::Json, false), (Body::Json, true), (Body::Bytes, false), (Body::Counter, false)] {
        let body: &[u8] = if kind == Body::Counter { b"1" } else { b"{}" };
        let ops = [
            Op::Read { key: "a" },
            Op::Exists { key: "a" },
            Op::Insert { key: "a", body },
            Op::Upsert { key: "a", body },
            Op::Replace { key: "a", body },
            Op::Delete { key: "a" },
            Op::CompareAndSwap { key: "a", expected: b"3-abc", body },
            Op::MergePatch { key: "a", patch: b"{\"n\":2}" },
            Op::Append { key: "a", bytes: b"x" },
            Op::Counter { key: "a", delta: 1, initial: 0 },
            Op::BulkRead { keys: items },
            Op::BulkDelete { keys: items },
            Op::BulkWrite { kind: BulkWrite::Insert, items },
            Op::BulkWrite { kind: BulkWrite::Upsert, items },
            Op::Page { field: "user", value: "\"x\"", limit: 3 },
            Op::Prefix { prefix: "a", limit: 3 },
            Op::Scan { start: "a", end: Some("b"), limit: 3 },
            Op::View { view: "d/v", rows: ViewRows::All, skip: 0, limit: 3 },
        ];
        let mut dialect = CouchDialect {
            collections: vec![Collection { path: "/db/".into(), body: kind, designs: 1, met: false }],
            pouch,
            read_only: false,
            majority: false,
            stale: false,
            queries: Default::default(),
            scratch: Vec::new(),
        };
        answer_with(&mut dialect, &ops, bytes);
    }
}

crate::fuzz::fuzzed!("CouchDB", GOOD, take);
