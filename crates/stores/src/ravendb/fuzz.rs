//! Fuzzing with arbitrary bytes as answers, for every operation.

use std::sync::Arc;
use std::time::Duration;

use storebench_engine::store::{BatchBuf, BulkWrite, CollectionLayout, Op};
use storebench_study::workload::Body;

use super::dialect::Raven;
use super::json::{self, Walk};
use super::target::{Collection, Expiry, Target};
use crate::http::fuzz_tests::answer_with;

const GOOD: &[&[u8]] = &[
    b"HTTP/1.1 201 Created\r\nConnection: close\r\n\r\n{\"Results\":[{\"Type\":\"PUT\",\"@id\":\"c/a\",\"@collection\":\"C\",\"@change-vector\":\"A:1-x\"}]}",
    b"HTTP/1.1 200 OK\r\nETag: \"A:1-x\"\r\nConnection: close\r\n\r\n{\"Results\":[{\"user\":\"x\",\"v\":12,\"@metadata\":{\"@collection\":\"C\",\"@change-vector\":\"A:1-x\",\"@id\":\"c/a\",\"@expires\":\"2030-01-01T12:00:00.0000000Z\"}}],\"Includes\":{}}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{\"TotalResults\":1,\"Results\":[{\"user\":\"x\",\"@metadata\":{\"@id\":\"c/a\r\n2b\r\n\",\"@change-vector\":\"A:1\"}}],\"IsStale\":false}\r\n0\r\n\r\n",
    b"HTTP/1.1 409 Conflict\r\nConnection: close\r\n\r\n{\"Type\":\"Raven.Client.Exceptions.ConcurrencyException\",\"Message\":\"Document c/a has change vector A:2\"}",
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"Status\":\"Patched\",\"ModifiedDocument\":{\"v\":7,\"@metadata\":{\"@id\":\"c/a\"}},\"ChangeVector\":\"A:1\"}",
    b"HTTP/1.1 201 Created\r\nConnection: close\r\n\r\n{\"Results\":[{\"Type\":\"PATCH\",\"PatchStatus\":\"Patched\",\"ModifiedDocument\":null},{\"PatchStatus\":\"DocumentDoesNotExist\"}]}",
    b"HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\n\r\n{\"Type\":\"System.IO.InvalidDataException\",\"Message\":\"no\",\"Error\":\"x\"}",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"Results\":[null,{\"n\":1,\"@metadata\":{\"@id\":\"c/b\",\"@change-vector\":\"A:3\"}}]}",
];

fn take(bytes: &[u8]) {
    let _ = (json::document(&mut Walk::new(bytes)), super::expiry::left(&String::from_utf8_lossy(bytes)));
    let mut batch = BatchBuf::new();
    ["b", "a", "a"].iter().for_each(|key| batch.push(key, b"{}"));
    let items = batch.as_batch();
    for kind in [Body::Json, Body::Counter] {
        let body: &[u8] = if kind == Body::Counter { b"1" } else { b"{}" };
        let ops = [
            Op::Read { key: "a" },
            Op::Exists { key: "a" },
            Op::Insert { key: "a", body },
            Op::Upsert { key: "a", body },
            Op::Replace { key: "a", body },
            Op::Delete { key: "a" },
            Op::CompareAndSwap { key: "a", expected: b"A:1", body },
            Op::MergePatch { key: "a", patch: b"{\"n\":2}" },
            Op::Touch { key: "a", expiry: Duration::from_secs(1) },
            Op::Counter { key: "a", delta: 1, initial: 0 },
            Op::BulkRead { keys: items },
            Op::BulkDelete { keys: items },
            Op::BulkWrite { kind: BulkWrite::Insert, items },
            Op::BulkWrite { kind: BulkWrite::Upsert, items },
            Op::Page { field: "user", value: "\"x\"", limit: 3 },
            Op::Prefix { prefix: "a", limit: 3 },
            Op::Scan { start: "a", end: Some("b"), limit: 3 },
        ];
        let layout = CollectionLayout {
            name: "c".into(),
            body: kind,
            indexes: Vec::new(),
            existing: None,
            uses: storebench_engine::store::Uses::ALL,
        };
        let target = Target {
            path: "/databases/x".into(),
            collections: vec![Collection::ours(&layout)],
            read_only: false,
            expiry: Expiry::new(false, 5, true),
            may_expire: true,
            ours: true,
            nodes: 1,
        };
        let mut raven = Raven {
            target: Arc::new(target),
            bulk_docs: "/bulk_docs".into(),
            wait: String::new(),
            queries: Default::default(),
        };
        answer_with(&mut raven, &ops, bytes);
    }
}

crate::fuzz::fuzzed!("RavenDB", GOOD, take);
