//! Tests with fake servers that behave as real ones rarely do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use storebench_engine::store::{
    BatchBuf, BulkWrite, Durability, ErrorKind, Namespace, Op, Prepare, StoreError, ViewRows,
};

use super::help::{Ask, Say, couchdb, fake, layout, options};

fn open(port: u16) -> std::sync::Arc<dyn storebench_engine::store::AnyStore> {
    storebench_stores::open(&format!("couchdb://127.0.0.1:{port}")).unwrap()
}

fn answer(status: u16, text: &str) -> Say {
    Say::Answer(status, "", text.to_owned())
}

#[test]
fn another_server_behind_the_port_is_named_as_such() {
    let ssh = fake(|_, _| Say::Bytes(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()));
    let api = fake(|_, _| answer(200, r#"{"hello":"world"}"#));
    let page = fake(|_, _| answer(404, "<html>no such page</html>"));
    let nothing = fake(|_, _| Say::Bytes(Vec::new()));
    for (port, said) in
        [(ssh, "no valid HTTP answer"), (api, "is not CouchDB"), (page, "is not CouchDB"), (nothing, "")]
    {
        let store = open(port);
        for error in [store.inspect().unwrap_err(), store.prepare(&layout("users"), Prepare::Keep).unwrap_err()] {
            assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
            let text = error.to_string();
            assert!(text.contains(said) && text.contains(&port.to_string()), "{text}");
        }
    }
}

#[test]
fn a_server_that_wants_a_user_says_how_to_give_one() {
    let port = fake(|_, _| answer(401, r#"{"error":"unauthorized","reason":"Authentication required."}"#));
    let error = open(port).inspect().unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
    assert!(error.to_string().contains("STOREBENCH_PASSWORD"), "{error}");
}

#[test]
fn a_version_that_is_too_old_is_refused() {
    let old = fake(|_, _| answer(200, r#"{"couchdb":"Welcome","uuid":"x","version":"1.7.2"}"#));
    let error = open(old).inspect().unwrap_err();
    assert!(matches!(error, StoreError::NotSupported(_)) && error.to_string().contains("1.7.2"), "{error:?}");
}

#[test]
fn a_bulk_write_that_is_too_large_is_cut_until_it_fits() {
    let largest = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&largest);
    let port = fake(move |line, body| {
        if let Some(say) = couchdb(line) {
            return say;
        }
        if body.len() > 2_000 {
            return answer(413, r#"{"error":"too_large","reason":"the request entity is too large"}"#);
        }
        seen.fetch_max(body.len(), Ordering::SeqCst);
        let docs: serde_json::Value = serde_json::from_str(body).unwrap();
        let rows: Vec<String> = docs["docs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|doc| format!(r#"{{"ok":true,"id":{},"rev":"1-a"}}"#, doc["_id"]))
            .collect();
        answer(201, &format!("[{}]", rows.join(",")))
    });
    let store = open(port);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut ask = Ask::new(&*store, 2);
    let mut items = BatchBuf::new();
    for n in 0..100 {
        let size = if n == 7 { 5_000 } else { 50 };
        items.push(&format!("k{n}"), format!(r#"{{"t":"{}"}}"#, "x".repeat(size)).as_bytes());
    }
    let reply = ask.run(Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() }).unwrap();
    let reply = reply.as_reply();
    assert_eq!((reply.documents, reply.rejects.len()), (99, 1));
    assert_eq!((reply.rejects[0].item, reply.rejects[0].error.kind), (7, ErrorKind::Refused));
    assert!(reply.rejects[0].error.message.contains("larger than the server accepts"), "{:?}", reply.rejects);
    assert!(ask.counters().splits >= 3, "{:?}", ask.counters());
    assert!(largest.load(Ordering::SeqCst) > 500);
}

/// CouchDB 3.5 refuses the whole request if one document has a reserved field, or a text that it cannot read.
#[test]
fn what_is_refused_as_a_whole_is_cut_until_each_bad_document_stands_alone() {
    let port = fake(move |line, body| {
        if let Some(say) = couchdb(line) {
            return say;
        }
        if body.contains("_poison") {
            return answer(400, r#"{"error":"doc_validation","reason":"Bad special document member: _poison"}"#);
        }
        if body.contains("1e999") {
            return answer(400, r#"{"error":"bad_request","reason":"invalid UTF-8 JSON"}"#);
        }
        let docs: serde_json::Value = serde_json::from_str(body).unwrap();
        let rows: Vec<String> = docs["docs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|doc| format!(r#"{{"ok":true,"id":{},"rev":"1-a"}}"#, doc["_id"]))
            .collect();
        answer(201, &format!("[{}]", rows.join(",")))
    });
    let store = open(port);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let bad = [
        (7, r#"{"_poison":1}"#, "Bad special document member"),
        (8, r#"{"n":1e999}"#, "invalid UTF-8 JSON"),
        (50, r#"{"_rev":"1-a"}"#, "`_rev`"),
        (51, r#"{"\u005fdeleted":true}"#, "`_deleted`"),
        (60, "[]", "JSON objects only"),
        (99, r#"{"_id":"another"}"#, "`_id`"),
    ];
    let mut items = BatchBuf::new();
    for n in 0..100 {
        let document = bad.iter().find(|(item, _, _)| *item == n).map_or(r#"{"n":1}"#, |(_, document, _)| document);
        items.push(&format!("k{n}"), document.as_bytes());
    }
    for kind in [BulkWrite::Insert, BulkWrite::Upsert] {
        let mut ask = Ask::new(&*store, 1);
        let reply = ask.run(Op::BulkWrite { kind, items: items.as_batch() }).unwrap();
        assert_eq!(reply.as_reply().documents, 94, "{kind:?}");
        let mut rejects = reply.as_reply().rejects.to_vec();
        rejects.sort_by_key(|reject| reject.item);
        assert_eq!(rejects.len(), bad.len(), "{rejects:?}");
        for (reject, (item, _, why)) in rejects.iter().zip(bad) {
            assert_eq!((reject.item, reject.error.kind), (item, ErrorKind::Refused), "{reject:?}");
            assert!(reject.error.message.contains(why), "{reject:?}");
        }
        for (_, document, why) in bad {
            let one = if kind == BulkWrite::Insert {
                Op::Insert { key: "k", body: document.as_bytes() }
            } else {
                Op::Upsert { key: "k", body: document.as_bytes() }
            };
            if !why.starts_with('`') {
                continue;
            }
            let error = ask.run(one).unwrap_err();
            assert!(error.kind == ErrorKind::Refused && error.message.contains(why), "{error}");
        }
    }
}

#[test]
fn answers_in_another_order_go_to_the_documents_that_they_name() {
    let port = fake(|line, _| match couchdb(line) {
        Some(say) => say,
        None if line.contains("_bulk_docs") => answer(
            201,
            r#"[{"ok":true,"id":"b","rev":"1-b"},{"id":"a","error":"conflict"},{"ok":true,"id":"c","rev":"1-c"}]"#,
        ),
        None => answer(
            200,
            r#"{"rows":[{"id":"c","key":"c","value":{"rev":"1-c"},"doc":{"_id":"c","_rev":"1-c","n":3}},
                {"key":"b","error":"not_found"},
                {"id":"a","key":"a","value":{"rev":"1-a"},"doc":{"_id":"a","_rev":"1-a","n":1}}]}"#,
        ),
    });
    let store = open(port);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut ask = Ask::new(&*store, 1);
    let mut items = BatchBuf::new();
    ["a", "b", "c"].iter().for_each(|key| items.push(key, b"{}"));
    let reply = ask.run(Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() }).unwrap();
    assert_eq!((reply.as_reply().documents, reply.as_reply().rejects[0].item), (2, 0));
    let reply = ask.run(Op::BulkRead { keys: items.as_batch() }).unwrap();
    let rows: Vec<_> = reply.as_reply().rows.unwrap().iter().collect();
    let [("a", a), ("c", c)] = rows[..] else { panic!("{rows:?}") };
    assert!(a.ends_with(br#""n":1}"#) && c.ends_with(br#""n":3}"#), "{rows:?}");
}

/// CouchDB 3.5 accepts any revision for a document that never existed, if the shard holds another document.
#[test]
fn a_document_that_never_existed_is_not_made_over_a_revision() {
    let puts = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&puts);
    let port = fake(move |line, _| match couchdb(line) {
        Some(say) => say,
        None if line.starts_with("HEAD") && line.ends_with("/there") => {
            Say::Answer(200, "ETag: \"3-abc\"\r\n", String::new())
        }
        None if line.starts_with("HEAD") || line.starts_with("GET") => {
            answer(404, r#"{"error":"not_found","reason":"missing"}"#)
        }
        None => {
            seen.fetch_add(1, Ordering::SeqCst);
            answer(201, r#"{"ok":true,"id":"never","rev":"4-b"}"#)
        }
    });
    let store = open(port);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut ask = Ask::new(&*store, 1);
    let expected = b"3-abc";
    for op in [
        Op::CompareAndSwap { key: "never", expected, body: b"{}" },
        Op::Replace { key: "never", body: b"{}" },
        Op::MergePatch { key: "never", patch: b"{}" },
        Op::Delete { key: "never" },
    ] {
        assert_eq!(ask.run(op).unwrap_err().kind, ErrorKind::NotFound, "{op:?}");
    }
    let stale = ask.run(Op::CompareAndSwap { key: "there", expected: b"2-aaa", body: b"{}" });
    assert_eq!(stale.unwrap_err().kind, ErrorKind::Conflict);
    assert_eq!(puts.load(Ordering::SeqCst), 0, "nothing may be written");
    ask.run(Op::CompareAndSwap { key: "there", expected, body: b"{}" }).unwrap();
    assert_eq!(puts.load(Ordering::SeqCst), 1);
}

#[test]
fn an_outcome_without_a_revision_is_no_acknowledgement() {
    let port = fake(|line, _| match couchdb(line) {
        Some(say) => say,
        None => answer(
            201,
            r#"[{"ok":true,"id":"a","rev":"1-a"},{"id":"b","error":null},{"id":"c","error":{}},{"ok":true,"rev":7},null]"#,
        ),
    });
    let store = open(port);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut ask = Ask::new(&*store, 1);
    let mut items = BatchBuf::new();
    ["a", "b", "c", "d", "e"].iter().for_each(|key| items.push(key, b"{}"));
    for kind in [BulkWrite::Insert, BulkWrite::Upsert] {
        let reply = ask.run(Op::BulkWrite { kind, items: items.as_batch() }).unwrap();
        let reply = reply.as_reply();
        assert_eq!(reply.documents, 1);
        assert_eq!(reply.rejects.iter().map(|reject| reject.item).collect::<Vec<_>>(), [1, 2, 3, 4]);
        for reject in reply.rejects {
            assert_eq!(reject.error.kind, ErrorKind::OutcomeUnknown, "{reject:?}");
        }
    }
}

#[test]
fn a_database_that_is_gone_is_no_miss() {
    const GONE: &str = r#"{"error":"not_found","reason":"Database does not exist."}"#;
    const MISSING: &str = r#"{"error":"not_found","reason":"missing"}"#;
    let port = fake(|line, _| match couchdb(line) {
        Some(say) => say,
        // Documents with these names were removed by others after their revision was read.
        None if line.starts_with("HEAD") => Say::Answer(200, "ETag: \"1-a\"\r\n", String::new()),
        None if line.contains("/removed") => answer(404, MISSING),
        None => answer(404, GONE),
    });
    let store = open(port);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut ask = Ask::new(&*store, 1);
    let mut items = BatchBuf::new();
    items.push("a", b"{}");
    let (key, body, batch) = ("a", &b"{}"[..], items.as_batch());
    for op in [
        Op::Insert { key, body },
        Op::Upsert { key, body },
        Op::Replace { key, body },
        Op::CompareAndSwap { key, expected: b"1-a", body },
        Op::Delete { key },
        Op::MergePatch { key, patch: body },
        Op::Read { key },
        Op::BulkWrite { kind: BulkWrite::Insert, items: batch },
        Op::BulkWrite { kind: BulkWrite::Upsert, items: batch },
        Op::BulkDelete { keys: batch },
        Op::BulkRead { keys: batch },
    ] {
        let error = ask.run(op).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Failed, "{op:?}: {error}");
    }
    for op in
        [Op::Delete { key: "removed" }, Op::Read { key: "removed" }, Op::MergePatch { key: "removed", patch: body }]
    {
        let error = ask.run(op).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{op:?}: {error}");
    }
}

#[test]
fn a_throttled_operation_is_temporary_and_tells_how_long_to_wait() {
    let port = fake(|line, _| match couchdb(line) {
        Some(say) => say,
        None => Say::Answer(429, "Retry-After: 3\r\n", r#"{"error":"too_many_requests"}"#.to_owned()),
    });
    let store = open(port);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut ask = Ask::new(&*store, 1);
    for op in [Op::Read { key: "a" }, Op::Insert { key: "a", body: b"{}" }, Op::Delete { key: "a" }] {
        let error = ask.run(op).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Temporary, "{error}");
        assert!(error.message.contains("wait 3"), "{error}");
    }
}

#[test]
fn a_half_closed_connection_is_unknown_for_a_write_and_mended() {
    let times = AtomicUsize::new(0);
    let port = fake(move |line, _| match couchdb(line) {
        Some(say) => say,
        // The first write is read but not answered completely, because the server closes its end.
        None if times.fetch_add(1, Ordering::SeqCst) == 0 => Say::Bytes(b"HTTP/1.1 201 Cre".to_vec()),
        None => answer(201, r#"{"ok":true,"id":"a","rev":"1-a"}"#),
    });
    let store = open(port);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut ask = Ask::new(&*store, 1);
    assert_eq!(ask.run(Op::Insert { key: "a", body: b"{}" }).unwrap_err().kind, ErrorKind::OutcomeUnknown);
    assert_eq!(ask.counters().disconnects, 1);
    ask.run(Op::Insert { key: "a", body: b"{}" }).unwrap();
}

#[test]
fn a_silent_server_leaves_operations_to_their_timeout_and_the_next_one_gets_its_own_answer() {
    let port = fake(|line, _| match couchdb(line) {
        Some(say) => say,
        None if line.contains("silent") => Say::Nothing,
        None => Say::Answer(200, "ETag: \"1-a\"\r\n", format!(r#"{{"_id":"x","_rev":"1-a","line":"{line}"}}"#)),
    });
    let store = open(port);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut ask = Ask::new(&*store, 1);
    assert!(ask.all(&[Op::Read { key: "silent" }], Duration::from_millis(50)).is_empty());
    assert_eq!(ask.read("next").unwrap()["line"], "GET /storebench%2Dusers/next");
}

#[test]
fn a_write_that_fewer_than_a_majority_have_is_unknown() {
    let port = fake(|line, _| couchdb(line).unwrap_or_else(|| answer(202, r#"{"ok":true,"id":"a","rev":"1-a"}"#)));
    let store = open(port);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut one = Ask::new(&*store, 1);
    one.run(Op::Insert { key: "a", body: b"{}" }).unwrap();
    let mut majority = Ask::open(&*store, &options(Durability::MAJORITY, 1)).unwrap();
    let error = majority.run(Op::Insert { key: "a", body: b"{}" }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutcomeUnknown, "{error}");
}

/// splitmix64 (Steele, Lea, Flood 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Valid HTTP with an answer that is almost right, or that belongs to another request.
fn nearly(state: &mut u64) -> Say {
    const TEXTS: [&str; 10] = [
        r#"{"ok":true,"id":"a","rev":"1-a"}"#,
        r#"{"_id":"a","_rev":"1-a","n":1}"#,
        r#"[{"ok":true,"id":"a","rev":"1-a"},{"id":"b","error":"conflict","reason":"x"}]"#,
        r#"{"total_rows":1,"rows":[{"id":"a","key":"a","value":{"rev":"1-a"},"doc":{"_id":"a","_rev":"1-a"}}]}"#,
        r#"{"rows":[{"key":"a","error":"not_found"},{"id":"b","key":"b","value":{"rev":"2-b","deleted":true},"doc":null}]}"#,
        r#"{"docs":[{"_id":"a","n":1}],"bookmark":"nil"}"#,
        r#"{"error":"conflict","reason":"Document update conflict."}"#,
        "",
        "null",
        "[[[[[[[[",
    ];
    let mut text = TEXTS[next(state) as usize % TEXTS.len()].to_owned();
    for _ in 0..next(state) % 3 {
        let at = next(state) as usize % (text.len() + 1);
        match next(state) % 3 {
            0 => text.truncate(at),
            1 => text.insert(at, char::from(b"{}[]\",:\\0"[next(state) as usize % 9])),
            _ => drop((at < text.len()).then(|| text.remove(at))),
        }
    }
    let status = [200, 200, 201, 201, 202, 400, 404, 409, 412, 413, 500, 503][next(state) as usize % 12];
    let headers = ["", "ETag: \"1-a\"\r\n", "ETag: W/\"x\"\r\n", "ETag: \"\r\n"][next(state) as usize % 4];
    Say::Answer(status, headers, text)
}

#[test]
fn senseless_answers_end_every_operation_once() {
    let seed = AtomicU64::new(435);
    let port = fake(move |line, _| {
        couchdb(line).unwrap_or_else(|| nearly(&mut seed.fetch_add(0x1234_5678_9ABC, Ordering::SeqCst)))
    });
    let store = open(port);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut ask = Ask::new(&*store, 4);
    let mut items = BatchBuf::new();
    items.push("a", br#"{"n":1}"#);
    items.push("b", br#"{"n":2}"#);
    let batch = items.as_batch();
    let (key, body) = ("a", &br#"{"n":3}"#[..]);
    let ops = [
        Op::Read { key },
        Op::Exists { key },
        Op::Insert { key, body },
        Op::Upsert { key, body },
        Op::Replace { key, body },
        Op::Delete { key },
        Op::CompareAndSwap { key, expected: b"1-a", body },
        Op::CompareAndSwap { key, expected: b"?", body },
        Op::MergePatch { key, patch: body },
        Op::BulkWrite { kind: BulkWrite::Insert, items: batch },
        Op::BulkWrite { kind: BulkWrite::Upsert, items: batch },
        Op::BulkRead { keys: batch },
        Op::BulkDelete { keys: batch },
        Op::Page { field: "user", value: "1", limit: 3 },
        Op::Prefix { prefix: "a", limit: 3 },
        Op::Scan { start: "", end: None, limit: 3 },
        Op::View { view: "a/b", rows: ViewRows::Keys("[1]"), skip: 0, limit: 3 },
    ];
    for round in 0..60 {
        let ended = ask.all(&ops, Duration::from_secs(60));
        let mut tokens: Vec<u64> = ended.iter().map(|(token, _)| *token).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (0..ops.len() as u64).collect::<Vec<_>>(), "round {round}");
    }
    // Control calls too.
    for _ in 0..60 {
        let _ = (store.stats(), store.sample_keys(storebench_engine::store::CollectionId(0), 10, 1));
    }
    assert!(matches!(store.inspect(), Ok(Namespace::Absent)));
}

#[test]
fn rows_whose_documents_are_gone_are_left_out_and_others_without_one_are_not() {
    let rows = Arc::new(std::sync::Mutex::new(""));
    let said = Arc::clone(&rows);
    let port = fake(move |line, _| match couchdb(line) {
        Some(say) => say,
        None => answer(200, &format!(r#"{{"total_rows":2,"offset":0,"rows":[{}]}}"#, said.lock().unwrap())),
    });
    let store = open(port);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut ask = Ask::new(&*store, 1);
    let mut view = |limit, text| {
        *rows.lock().unwrap() = text;
        let reply = ask.run(Op::View { view: "by/n", rows: ViewRows::All, skip: 0, limit });
        reply.map(|reply| reply.as_reply().documents).map_err(|error| error.kind)
    };
    let gone = r#"{"id":"a","key":1,"value":{"n":9},"doc":null}"#;
    let whole = r#"{"id":"a","key":1,"value":null,"doc":null},{"id":"b","key":2,"value":null,"doc":{"_id":"b","n":1}}"#;
    assert_eq!(view(10, whole), Ok(1));
    assert_eq!(view(10, gone), Ok(0));
    // A full page of such rows is not the end.
    assert_eq!(view(1, gone), Err(ErrorKind::Temporary));
    for (row, kind) in [
        (r#"{"id":"a","key":1,"value":{"_id":"b"},"doc":null}"#, ErrorKind::Refused),
        (r#"{"id":"a","key":1,"value":{"_id":"a","_rev":"1-a","n":1},"doc":null}"#, ErrorKind::Temporary),
        (r#"{"id":"error","key":1,"value":null,"error":"timeout"}"#, ErrorKind::Temporary),
        // The request asked for documents.
        (r#"{"id":"a","key":1,"value":{"n":1}}"#, ErrorKind::Failed),
    ] {
        assert_eq!(view(10, row), Err(kind), "{row}");
    }
    *rows.lock().unwrap() = r#"{"id":"a","key":"a","value":{"rev":"1-a"}}"#;
    assert_eq!(ask.run(Op::Scan { start: "", end: None, limit: 5 }).unwrap_err().kind, ErrorKind::Failed);
}

#[test]
fn settings_are_told_to_administrators_only() {
    let told = |status, text: &'static str| {
        let port = fake(move |line, _| match line {
            "GET /_node/_local/_config" => answer(status, text),
            _ => couchdb(line).unwrap(),
        });
        open(port).own_settings().map(|told| told.all.len()).map_err(|error| error.to_string())
    };
    assert_eq!(told(200, r#"{"couchdb":{"max_document_size":"8000000"},"admins":{"ann":"-x"}}"#).unwrap(), 1);
    let (may_not, does_not) = ("this user may not read its settings", "this server does not tell its settings");
    for (status, why) in [(401, may_not), (403, may_not), (404, does_not)] {
        let answer = r#"{"error":"unauthorized","reason":"You are not a server admin."}"#;
        assert_eq!(told(status, answer).unwrap_err(), why, "{status}");
    }
    assert!(told(500, "{}").unwrap_err().contains("read its configuration"));
}
