//! Fuzz tests: arbitrary answers to every operation.

use std::sync::Arc;

use storebench_engine::store::{BatchBuf, BulkWrite, Isolation, Op, OpKind, Step};
use storebench_study::workload::Body;

use super::dialect::DynamoDialect;
use super::table::{Form, Table};
use super::{errors, item};
use crate::http::aws::{Credentials, Signer};
use crate::http::fuzz_tests::answer_with;
use crate::net::Secret;

const GOOD: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\nContent-Length: 58\r\n\r\n{\"ConsumedCapacity\":{\"CapacityUnits\":1,\"TableName\":\"t-1\"}}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4c\r\n{\"Item\":{\"sb_key\":{\"S\":\"a\"},\"sb_rev\":{\"S\":\"7\"},\"body\":{\"S\":\"{\\\"n\\\":1}\"}}    }\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"Count\":1,\"Items\":[{\"sb_key\":{\"S\":\"a\"},\"body\":{\"S\":\"{}\"}}],\"LastEvaluatedKey\":{\"sb_key\":{\"S\":\"a\"}}}",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"Responses\":{\"t\":[{\"sb_key\":{\"S\":\"a\"},\"n\":{\"N\":\"1\"},\"l\":{\"L\":[{\"NS\":[\"1\"]}]}}]},\"UnprocessedKeys\":{\"t\":{\"Keys\":[{\"sb_key\":{\"S\":\"b\"}}]}}}",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"UnprocessedItems\":{\"t\":[{\"PutRequest\":{\"Item\":{\"sb_key\":{\"S\":\"b\"}}}}]}}",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"Attributes\":{\"sb_key\":{\"S\":\"a\"},\"body\":{\"N\":\"12\"}}}",
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n{\"__type\":\"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException\",\"message\":\"The conditional request failed\"}",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"ConsumedCapacity\":[{\"CapacityUnits\":2}],\"Responses\":[{\"Item\":{\"sb_key\":{\"S\":\"a\"},\"sb_rev\":{\"S\":\"7\"},\"body\":{\"S\":\"{}\"}}},{}]}",
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n{\"__type\":\"x#TransactionCanceledException\",\"CancellationReasons\":[{\"Code\":\"None\"},{\"Code\":\"TransactionConflict\",\"Message\":\"m\"}]}",
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n{\"__type\":\"com.amazon.coral.validate#ValidationException\",\"message\":\"no\"}",
    b"HTTP/1.1 500 No\r\nConnection: close\r\n\r\n<html>",
];

fn take(bytes: &[u8]) {
    if item::check(bytes, item::DEEPEST_ITEM).is_ok() {
        let _ = (item::push_value(bytes, &mut Vec::new()), item::push_json(bytes, &mut Vec::new()));
    }
    let mut batch = BatchBuf::new();
    ["b", "a", "a"].iter().for_each(|key| batch.push(key, b"{}"));
    let items = batch.as_batch();
    for form in [Form::Whole(Body::Json), Form::Whole(Body::Bytes), Form::Whole(Body::Counter), Form::Native] {
        let body: &[u8] = if form == Form::Whole(Body::Counter) { b"1" } else { b"{}" };
        let step = |(kind, key): (OpKind, &str)| {
            let body = if kind.writes() { body.to_vec() } else { Vec::new() };
            Step { kind: Some(kind), key: key.into(), body, ..Step::default() }
        };
        let steps = [(OpKind::Read, "a"), (OpKind::Upsert, "b"), (OpKind::Delete, "c")].map(step);
        let ops = [
            Op::Read { key: "a" },
            Op::Exists { key: "a" },
            Op::Insert { key: "a", body },
            Op::Upsert { key: "a", body },
            Op::Replace { key: "a", body },
            Op::Delete { key: "a" },
            Op::CompareAndSwap { key: "a", expected: b"7", body },
            Op::MergePatch { key: "a", patch: b"{\"n\":2}" },
            Op::Append { key: "a", bytes: b"x" },
            Op::Counter { key: "a", delta: 1, initial: 0 },
            Op::BulkRead { keys: items },
            Op::BulkDelete { keys: items },
            Op::BulkWrite { kind: BulkWrite::Insert, items },
            Op::BulkWrite { kind: BulkWrite::Upsert, items },
            Op::Page { field: "user", value: "\"x\"", limit: 3 },
            Op::Transaction { isolation: Isolation::Serializable, steps: &steps, rolls_back: false },
        ];
        let key = Credentials { key: "k".into(), secret: Secret::new("s"), token: None };
        let mut dialect = DynamoDialect {
            tables: [Table::ours("t".into(), form, ["user"].into_iter())].into(),
            signer: Signer::new(key, "h".into(), "r".into(), ["s", "a"]),
            read_only: false,
            strong: true,
            consumed: Arc::new(errors::Consumed::default()),
            random: fastrand::Rng::with_seed(1),
            scratch: Vec::new(),
        };
        answer_with(&mut dialect, &ops, bytes);
    }
}

crate::fuzz::fuzzed!("DynamoDB", GOOD, take);
