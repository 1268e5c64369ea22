//! Fuzz tests: arbitrary answers to every operation.

use storebench_engine::store::{BatchBuf, BulkWrite, Op};
use storebench_study::workload::Body;

use super::dialect::{Collection, Field, SearchDialect};
use super::json;
use crate::http::fuzz_tests::answer_with;

const GOOD: &[&[u8]] = &[
    b"HTTP/1.1 201 Created\r\nConnection: close\r\n\r\n{\"_index\":\"a\",\"_id\":\"a\",\"_version\":1,\"result\":\"created\",\"_shards\":{\"total\":2,\"successful\":2,\"failed\":0},\"_seq_no\":3,\"_primary_term\":1}",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"_index\":\"a\",\"_id\":\"a\",\"_seq_no\":3,\"_primary_term\":1,\"found\":true,\"_source\":{\"storebench_key\":\"a\",\"n\":1,\"value\":7,\"base64\":\"AAEC\"}}",
    b"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n{\"_index\":\"a\",\"_id\":\"a\",\"found\":false}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n51\r\n{\"took\":1,\"hits\":{\"hits\":[{\"_id\":\"a\",\"_source\":{\"user\":\"x\"},\"sort\":[\"a\"]},{\"_id\":\"b\",\r\n1f\r\n\"_source\":{\"user\":7},\"sort\":[1]}\r\n2\r\n]}\r\n1\r\n}\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"took\":1,\"errors\":true,\"items\":[{\"index\":{\"_id\":\"b\",\"status\":201,\"_shards\":{\"successful\":1}}},{\"create\":{\"_id\":\"a\",\"status\":409,\"error\":{\"type\":\"version_conflict_engine_exception\",\"reason\":\"x\"}}},{\"delete\":{\"status\":404}}]}",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"docs\":[{\"_id\":\"b\",\"found\":true,\"_source\":{\"value\":1}},{\"_id\":\"a\",\"found\":false},{\"_id\":\"a\",\"error\":{\"type\":\"index_not_found_exception\"}}]}",
    b"HTTP/1.1 409 Conflict\r\nConnection: close\r\n\r\n{\"error\":{\"type\":\"version_conflict_engine_exception\",\"reason\":\"[a]: version conflict\"},\"status\":409}",
    b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n{\"error\":{\"root_cause\":[],\"type\":\"cluster_block_exception\",\"reason\":\"index [a] blocked\",\"caused_by\":{\"type\":\"x\",\"reason\":\"y\"}},\"status\":403}",
    b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"_shards\":{\"total\":2,\"successful\":1,\"failed\":0}}",
];

fn take(bytes: &[u8]) {
    let _ = (json::revision(bytes), super::errors::said(bytes));
    let mut batch = BatchBuf::new();
    ["b", "a", "a"].iter().for_each(|key| batch.push(key, b"{}"));
    let items = batch.as_batch();
    for (kind, copies) in [(Body::Json, None), (Body::Json, Some(2)), (Body::Bytes, None), (Body::Counter, None)] {
        let body: &[u8] = if kind == Body::Counter { b"1" } else { b"{}" };
        let ops = [
            Op::Read { key: "a" },
            Op::Exists { key: "a" },
            Op::Insert { key: "a", body },
            Op::Upsert { key: "a", body },
            Op::Replace { key: "a", body },
            Op::Delete { key: "a" },
            Op::CompareAndSwap { key: "a", expected: b"3,1", body },
            Op::MergePatch { key: "a", patch: b"{\"n\":2}" },
            Op::Append { key: "a", bytes: b"x" },
            Op::Counter { key: "a", delta: 1, initial: 0 },
            Op::BulkRead { keys: items },
            Op::BulkDelete { keys: items },
            Op::BulkWrite { kind: BulkWrite::Insert, items },
            Op::BulkWrite { kind: BulkWrite::Upsert, items },
            Op::Page { field: "user", value: "\"x\"", limit: 3 },
            Op::Prefix { prefix: "a", limit: 3 },
            Op::Scan { start: "a", end: Some("c"), limit: 3 },
            Op::Query { number: 0, text: "{\"search\":{}}", values: items },
        ];
        let field = Field { name: "user".into(), asked: "user".into(), longest: 100 };
        let mut dialect = SearchDialect {
            collections: vec![Collection {
                path: "/a/".into(),
                body: kind,
                keyed: true,
                by_key: true,
                fields: vec![field],
            }],
            refreshes: copies.is_some(),
            copies,
            most_bytes: 200,
            ..SearchDialect::default()
        };
        answer_with(&mut dialect, &ops, bytes);
    }
}

crate::fuzz::fuzzed!("OpenSearch", GOOD, take);
