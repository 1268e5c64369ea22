//! Tests with fake servers: errors, throttling, and transactions that meet others.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use storebench_engine::store::{
    AnyStore, BatchBuf, BulkWrite, Durability, ErrorKind, Op, OpKind, Prepare, Step, StoreError,
};

use super::open;
use super::transactions::{step, transaction};
use crate::driven::{Answer, Driven, existing, layout};
use crate::server::free_port;

#[test]
fn wrong_port_and_other_servers_are_named_without_the_secret() {
    let nobody = free_port();
    for url in [format!("dynamodb://me:hush@127.0.0.1:{nobody}")] {
        let store = open(&url);
        for error in [store.inspect().unwrap_err(), store.prepare(&layout(), Prepare::Keep).unwrap_err()] {
            assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
            let text = format!("{error} {error:?} {:?}", store.describe());
            assert!(!text.contains("hush") && text.contains("127.0.0.1:"), "{text}");
        }
    }
    for (answer, said) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "is not DynamoDB"),
        (
            "HTTP/1.1 400 No\r\nContent-Length: 62\r\n\r\n{\"__type\":\"x#UnrecognizedClientException\",\"message\":\"bad \
             key\"}",
            "check the access key",
        ),
    ] {
        let port = fake(move |_, _| answer.to_owned());
        let error = open(&format!("dynamodb://me:hush@127.0.0.1:{port}")).inspect().unwrap_err();
        assert!(matches!(&error, StoreError::Unreachable(text) if text.contains(said)), "{error:?}");
        assert!(!error.to_string().contains("hush"));
    }
    for url in ["dynamodb://h/path", "dynamodb://h,i", "dynamodb://h?prefix=a/b", "dynamodb://h?documents=both"] {
        assert!(matches!(storebench_stores::open(url).err(), Some(StoreError::BadUrl(_))), "{url}");
    }
}

/// A server that answers each request by its operation and its body. Returns its port.
fn fake(answer: impl Fn(&str, &Value) -> String + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.unwrap(), Arc::clone(&answer));
            thread::spawn(move || {
                let (mut got, mut piece) = (Vec::new(), [0; 65_536]);
                loop {
                    let Some(end) = got.windows(4).position(|four| four == b"\r\n\r\n") else {
                        match stream.read(&mut piece) {
                            Ok(0) | Err(_) => return,
                            Ok(n) => got.extend_from_slice(&piece[..n]),
                        }
                        continue;
                    };
                    let head = String::from_utf8_lossy(&got[..end]).into_owned();
                    let header = |name: &str| {
                        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name))?;
                        Some(line.split_once(':')?.1.trim().to_owned())
                    };
                    let length = header("content-length:").map_or(0, |length| length.parse().unwrap());
                    while got.len() < end + 4 + length {
                        let n = stream.read(&mut piece).unwrap();
                        got.extend_from_slice(&piece[..n]);
                    }
                    let body = serde_json::from_slice(&got[end + 4..end + 4 + length]).unwrap_or_default();
                    got.drain(..end + 4 + length);
                    let target = header("x-amz-target:").unwrap_or_default();
                    let operation = target.strip_prefix("DynamoDB_20120810.").unwrap_or_default();
                    if stream.write_all(answer(operation, &body).as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

fn ok(body: &Value) -> String {
    let body = body.to_string();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn error(status: u16, name: &str) -> String {
    let body = json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{name}"), "message": "why" }).to_string();
    format!("HTTP/1.1 {status} No\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// A server with one table of somebody else, whose key has this type, which does not let this user list tables. Other
/// operations are answered by `rest`.
fn with_a_table(
    kind: &'static str,
    rest: impl Fn(&str, &Value) -> String + Send + Sync + 'static,
) -> Arc<dyn AnyStore> {
    let port = fake(move |operation, body| match operation {
        "" => ok(&json!(["127.0.0.1"])),
        "ListTables" => error(400, "AccessDeniedException"),
        "DescribeTable" => ok(&json!({ "Table": {
            "TableStatus": "ACTIVE", "KeySchema": [{ "AttributeName": "id", "KeyType": "HASH" }],
            "AttributeDefinitions": [{ "AttributeName": "id", "AttributeType": kind }],
        } })),
        "DescribeTimeToLive" => ok(&json!({
            "TimeToLiveDescription": { "TimeToLiveStatus": "ENABLED", "AttributeName": "until" },
        })),
        "GetItem" if body["Key"]["sb_key"].is_object() => error(400, "ValidationException"),
        _ => rest(operation, body),
    });
    let store = open(&format!("dynamodb://127.0.0.1:{port}"));
    store.prepare(&existing("t"), Prepare::WriteExisting).unwrap();
    store
}

/// A server with an empty table of Storebench.
fn with_our_table(rest: impl Fn(&str, &Value) -> String + Send + Sync + 'static) -> Arc<dyn AnyStore> {
    let port = fake(move |operation, body| match operation {
        "ListTables" => ok(&json!({ "TableNames": [] })),
        "DescribeTable" => ok(&json!({ "Table": { "TableStatus": "ACTIVE" } })),
        "CreateTable" | "PutItem" => ok(&json!({})),
        "" | "UpdateTimeToLive" | "DescribeTimeToLive" => error(400, "UnknownOperationException"),
        _ => rest(operation, body),
    });
    let store = open(&format!("dynamodb://127.0.0.1:{port}"));
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    store
}

fn upserts(driven: &mut Driven, keys: &[String]) -> Answer {
    let mut items = BatchBuf::new();
    keys.iter().for_each(|key| items.push(key, b"{}"));
    driven.call(Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() })
}

/// It does three of four documents of a request, and nothing of every third request.
#[test]
fn only_what_a_throttled_server_has_done_is_acknowledged_and_the_rest_can_be_tried_again() {
    let (done, requests) = (Arc::new(Mutex::new(BTreeSet::new())), AtomicUsize::new(0));
    let kept = Arc::clone(&done);
    let store = with_a_table("S", move |_, body| {
        if requests.fetch_add(1, Ordering::SeqCst) % 3 == 2 {
            return error(400, "ProvisionedThroughputExceededException");
        }
        let mut left = Vec::new();
        for (number, item) in body["RequestItems"]["t"].as_array().unwrap().iter().enumerate() {
            if number % 4 == 1 {
                left.push(item);
                continue;
            }
            let key = item["PutRequest"]["Item"]["id"]["S"].as_str().unwrap().to_owned();
            assert!(kept.lock().unwrap().insert(key), "it was done already");
        }
        ok(&json!({ "UnprocessedItems": if left.is_empty() { json!({}) } else { json!({ "t": left }) } }))
    });
    let version = store.describe().version;
    assert!(version.contains("Alternator"), "{version}");
    let mut driven = Driven::open(&*store, Durability::MAJORITY).unwrap();
    let mut left: Vec<String> = (0..60).map(|n| format!("k{n:02}")).collect();
    let (mut acknowledged, mut tries) = (BTreeSet::new(), 0);
    while !left.is_empty() {
        tries += 1;
        match upserts(&mut driven, &left) {
            Ok(reply) => {
                let reply = reply.as_reply();
                let rejects: BTreeSet<usize> = reply.rejects.iter().map(|reject| reject.item).collect();
                assert!(reply.rejects.iter().all(|r| r.error.kind == ErrorKind::Temporary), "{:?}", reply.rejects);
                assert_eq!(reply.documents as usize + rejects.len(), left.len());
                let (rest, written): (Vec<_>, Vec<_>) =
                    left.into_iter().enumerate().partition(|(number, _)| rejects.contains(number));
                acknowledged.extend(written.into_iter().map(|(_, key)| key));
                left = rest.into_iter().map(|(_, key)| key).collect();
            }
            Err(error) => assert_eq!(error.kind, ErrorKind::Temporary, "{error}"),
        }
        assert_eq!(acknowledged, *done.lock().unwrap(), "try {tries}");
        assert!(tries < 30, "{left:?}");
    }
    assert_eq!(store.account(super::DOCUMENTS).unwrap().evicts.as_deref(), Some("TimeToLive on `until`"));
}

/// An answer has at most 16 MB, so a server leaves keys although it is not throttled.
#[test]
fn reads_go_on_as_long_as_the_server_reads_some() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let store = with_a_table("S", move |_, body| {
        let keys = body["RequestItems"]["t"]["Keys"].as_array().unwrap();
        // Nothing more after 18 requests.
        let some = if counted.fetch_add(1, Ordering::SeqCst) < 18 { keys.len().min(7) } else { 0 };
        let left = if some < keys.len() { json!({ "t": { "Keys": keys[some..] } }) } else { json!({}) };
        ok(&json!({ "Responses": { "t": keys[..some] }, "UnprocessedKeys": left }))
    });
    let mut driven = Driven::open(&*store, Durability::MAJORITY).unwrap();
    let mut keys = BatchBuf::new();
    (0..120).for_each(|n| keys.push(&format!("k{n}"), b""));
    assert_eq!(driven.call(Op::BulkRead { keys: keys.as_batch() }).unwrap().as_reply().documents, 120);
    assert_eq!(requests.load(Ordering::SeqCst), 18);
    let error = driven.call(Op::BulkRead { keys: keys.as_batch() }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Temporary, "{error}");
}

/// DynamoDB writes numbers in its own way, also in what it leaves.
#[test]
fn what_is_left_under_another_name_is_not_acknowledged() {
    let store = with_a_table("N", |_, _| {
        ok(&json!({ "UnprocessedItems": { "t": [{ "PutRequest": { "Item": { "id": { "N": "1" } } } }] } }))
    });
    let mut driven = Driven::open(&*store, Durability::MAJORITY).unwrap();
    let error = upserts(&mut driven, &["1.0".into(), "2".into()]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutcomeUnknown, "{error}");
}

#[test]
fn throttling_is_temporary_and_a_fault_of_the_server_leaves_a_write_open() {
    for (status, name, write, read) in [
        (400, "ProvisionedThroughputExceededException", ErrorKind::Temporary, ErrorKind::Temporary),
        (400, "ThrottlingException", ErrorKind::Temporary, ErrorKind::Temporary),
        (500, "InternalServerError", ErrorKind::OutcomeUnknown, ErrorKind::Temporary),
        (503, "ServiceUnavailable", ErrorKind::OutcomeUnknown, ErrorKind::Temporary),
        (400, "ResourceNotFoundException", ErrorKind::Failed, ErrorKind::Failed),
        (400, "AccessDeniedException", ErrorKind::Refused, ErrorKind::Refused),
    ] {
        let store = with_a_table("S", move |_, _| error(status, name));
        let mut driven = Driven::open(&*store, Durability::MAJORITY).unwrap();
        let told = driven.call(Op::Upsert { key: "a", body: b"{}" }).unwrap_err();
        assert!(told.kind == write && told.message.contains(name), "{told}");
        assert_eq!(driven.call(Op::Read { key: "a" }).unwrap_err().kind, read, "{name}");
    }
}

fn cancelled(code: &str) -> String {
    let body = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException", "Message": "cancelled",
        "CancellationReasons": [{ "Code": "None" }, { "Code": code, "Message": "why" }],
    })
    .to_string();
    format!("HTTP/1.1 400 No\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// The outcome of a transaction whose writes get these answers, and the requests. `old` exists.
fn written(answers: &[String], steps: &[Step]) -> (Answer, Vec<Value>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (kept, answers) = (Arc::clone(&requests), answers.to_vec());
    let store = with_our_table(move |operation, body| {
        if operation == "TransactWriteItems" {
            let mut requests = kept.lock().unwrap();
            requests.push(body.clone());
            return answers[requests.len() - 1].clone();
        }
        assert_eq!(operation, "TransactGetItems");
        let item = json!({ "sb_key": { "S": "old" }, "sb_rev": { "S": "7" }, "body": { "S": "{\"n\":1}" } });
        let found = |get: &Value| get["Get"]["Key"]["sb_key"]["S"] == "old";
        let found = |get| if found(get) { json!({ "Item": item }) } else { json!({}) };
        ok(&json!({ "Responses": body["TransactItems"].as_array().unwrap().iter().map(found).collect::<Vec<_>>() }))
    });
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    let answer = driven.call(transaction(steps, false));
    let requests = requests.lock().unwrap().clone();
    (answer, requests)
}

#[test]
fn writes_of_a_transaction_have_the_condition_that_what_was_read_is_unchanged() {
    use OpKind::{Delete, Insert, Read, Replace, Upsert};
    let steps = [(Read, "none"), (Upsert, "blind"), (Insert, "new"), (Replace, "gone"), (Delete, "old")].map(step);
    let (answer, requests) = written(&[ok(&json!({}))], &steps);
    assert_eq!(answer.unwrap().as_reply().steps, [0, 1, 1, 0, 1]);
    let told = |item: &Value| {
        let (action, of) = item.as_object().unwrap().iter().next().unwrap();
        let key = of["Key"]["sb_key"]["S"].as_str().or(of["Item"]["sb_key"]["S"].as_str()).unwrap();
        let condition = of["ConditionExpression"].as_str().unwrap_or("always");
        format!(
            "{action} {key} {condition} {}",
            of["ExpressionAttributeValues"][":e"]["S"].as_str().unwrap_or_default()
        )
    };
    let items: Vec<_> = requests[0]["TransactItems"].as_array().unwrap().iter().map(told).collect();
    assert_eq!(
        items,
        [
            "ConditionCheck none attribute_not_exists(#k) ",
            "Put blind always ",
            "Put new attribute_not_exists(#k) ",
            "ConditionCheck gone attribute_not_exists(#k) ",
            "Delete old sb_rev = :e 7",
        ]
    );
    let (answer, requests) = written(&[], &[(Upsert, "a"), (Insert, "old")].map(step));
    assert_eq!((answer.unwrap_err().kind, requests.len()), (ErrorKind::Conflict, 0));
}

#[test]
fn a_transaction_that_meets_another_is_aborted_and_one_whose_answer_is_lost_is_sent_again_with_its_token() {
    let steps = [(OpKind::Read, "old"), (OpKind::Upsert, "new")].map(step);
    for (code, kind) in [
        ("ConditionalCheckFailed", ErrorKind::Aborted),
        ("TransactionConflict", ErrorKind::Aborted),
        ("ThrottlingError", ErrorKind::Temporary),
        ("ProvisionedThroughputExceeded", ErrorKind::Temporary),
        ("ValidationError", ErrorKind::Refused),
    ] {
        let error = written(&[cancelled(code)], &steps).0.unwrap_err();
        assert!(error.kind == kind && error.message.contains(code), "{error}");
    }
    let (fault, done) = (error(500, "InternalServerError"), ok(&json!({})));
    for lost in [fault.clone(), "no answer\r\n\r\n".to_owned()] {
        let (answer, requests) = written(&[lost, done.clone()], &steps);
        assert_eq!(answer.unwrap().as_reply().steps, [1, 1]);
        assert!(requests.len() == 2 && requests[0] == requests[1], "{requests:#?}");
        assert!(requests[0]["ClientRequestToken"].as_str().is_some_and(|token| (1..=36).contains(&token.len())));
    }
    for second in [fault.clone(), cancelled("ConditionalCheckFailed"), error(400, "TransactionInProgressException")] {
        let error = written(&[fault.clone(), second], &steps).0.unwrap_err();
        assert_eq!(error.kind, ErrorKind::OutcomeUnknown, "{error}");
    }
    // One that reads meets one that writes.
    let store = with_our_table(|_, _| cancelled("TransactionConflict"));
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    assert_eq!(driven.call(transaction(&steps, false)).unwrap_err().kind, ErrorKind::Aborted);
}
