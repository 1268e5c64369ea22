//! Tests with fake servers: other versions, and answers that a real server rarely gives.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use storebench_engine::store::{
    Acknowledged, BatchBuf, BulkWrite, Durability, ErrorKind, Op, Persisted, Prepare, StoreError,
};

use super::{DOCUMENTS, open, walk, walked};
use crate::http_help::{Ask, Say, existing, fake, layout, options};

fn answer(status: u16, body: &Value) -> Say {
    Say::Answer(status, "", body.to_string())
}

/// The answers to the requests of `prepare` and `open`. `None` for other requests.
fn usual(greeting: &Value, line: &str) -> Option<Say> {
    let index = json!({ "storebench-users": {
        "aliases": {},
        "mappings": { "properties": { "storebench_key": { "type": "keyword" }, "user": { "type": "keyword" } } },
        "settings": { "index.number_of_shards": "1" },
    } });
    let settings = json!({ "storebench-users": { "settings": { "index.number_of_replicas": "1" } } });
    Some(match line {
        "GET /" => answer(200, greeting),
        _ if line.starts_with("GET /storebench%2D*/_alias") => answer(200, &json!({})),
        _ if line.starts_with("GET /_nodes/http") => answer(200, &json!({})),
        _ if line.starts_with("GET /_cluster/health") => answer(200, &json!({ "status": "green" })),
        _ if line.contains("/_settings") => answer(200, &settings),
        _ if line.starts_with("GET /") && line.contains("expand_wildcards") => answer(200, &index),
        _ if line.starts_with("PUT /storebench%2Dusers?") => answer(200, &json!({ "acknowledged": true })),
        _ if line.ends_with("/_refresh") => answer(200, &json!({ "_shards": { "failed": 0 } })),
        _ => return None,
    })
}

/// The error of one type, as both families write it.
fn error(kind: &str, reason: &str) -> Value {
    let root = json!({ "type": kind, "reason": reason, "index_uuid": "x", "shard": "0", "index": "storebench-users" });
    let mut error = root.clone();
    error["root_cause"] = json!([root]);
    error
}

fn opensearch(number: &str) -> Value {
    json!({ "version": { "distribution": "opensearch", "number": number }, "tagline": "The OpenSearch Project" })
}

fn elasticsearch(number: &str) -> Value {
    json!({ "version": { "number": number, "build_flavor": "default" }, "tagline": "You Know, for Search" })
}

#[test]
fn both_families_are_told_apart_and_old_versions_refused() {
    for (greeting, said) in [
        (elasticsearch("7.10.2"), Ok("Elasticsearch 7.10.2")),
        (elasticsearch("8.19.1"), Ok("Elasticsearch 8.19.1")),
        (elasticsearch("9.0.0-beta1"), Ok("Elasticsearch 9.0.0-beta1")),
        (opensearch("1.3.20"), Ok("OpenSearch 1.3.20")),
        (opensearch("3.1.0"), Ok("OpenSearch 3.1.0")),
        (elasticsearch("7.9.3"), Err("too old")),
        (elasticsearch("6.8.0"), Err("too old")),
        // With compatibility.override_main_response_version.
        (opensearch("7.10.2"), Ok("OpenSearch 7.10.2")),
        (
            json!({ "version": { "distribution": "other", "number": "8.0.0" }, "tagline": "You Know, for Search" }),
            Err("neither"),
        ),
        (json!({ "couchdb": "Welcome", "version": "3.3" }), Err("neither OpenSearch nor Elasticsearch")),
        (json!([1]), Err("neither")),
    ] {
        let port = fake(move |line, _| usual(&greeting, line).unwrap_or_else(|| answer(404, &json!({}))));
        let store = open(&format!("opensearch://127.0.0.1:{port}"));
        match said {
            Ok(version) => {
                store.answers().unwrap();
                assert_eq!(store.describe().version, version);
            }
            Err(said) => {
                let error = store.inspect().unwrap_err();
                assert!(error.to_string().contains(said), "{error}");
            }
        }
    }
    let port = fake(|_, _| answer(401, &json!({ "error": { "type": "security_exception", "reason": "no" } })));
    let error = open(&format!("opensearch://127.0.0.1:{port}")).inspect().unwrap_err();
    assert!(matches!(&error, StoreError::Unreachable(text) if text.contains("STOREBENCH_PASSWORD")), "{error:?}");
}

/// A walk has the paths and the answers of its family, and begins again where a point in time is lost.
#[test]
fn each_family_has_its_own_points_in_time() {
    for (greeting, begin, end) in [
        (opensearch("2.4.0"), "/_search/point_in_time?", "DELETE /_search/point_in_time"),
        (elasticsearch("8.1.0"), "/_pit?", "DELETE /_pit"),
    ] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&seen);
        let searches = AtomicUsize::new(0);
        let port = fake(move |line, body| {
            if let Some(say) = usual(&greeting, line) {
                return say;
            }
            lines.lock().unwrap().push(line.to_owned());
            if line.contains(begin) {
                return answer(200, &json!({ "id": "p", "pit_id": "p" }));
            }
            if line.starts_with("POST /_search?") {
                assert!(body.contains(r#""id":"p""#), "{body}");
                if searches.fetch_add(1, Ordering::SeqCst) == 0 {
                    let reason = json!({ "type": "search_context_missing_exception", "reason": "No search context" });
                    return answer(404, &json!({ "error": reason }));
                }
                let hit = json!({ "_id": "a", "_source": { "n": 1 }, "sort": [0, 7] });
                return answer(200, &json!({ "pit_id": "p", "hits": { "hits": [hit] } }));
            }
            answer(200, &json!({}))
        });
        let store = open(&format!("opensearch://127.0.0.1:{port}"));
        store.prepare(&existing("theirs"), Prepare::ReadOnly).unwrap();
        assert_eq!(walked(&*store).len(), 1);
        let seen = seen.lock().unwrap();
        assert_eq!(seen.iter().filter(|line| line.contains(begin)).count(), 2, "{seen:?}");
        assert!(seen.iter().all(|line| !line.contains(begin) || line.contains("preference=_shards%3A0")), "{seen:?}");
        assert_eq!(seen.last().map(String::as_str), Some(end));
    }
    let oss = json!({ "version": { "number": "7.10.2", "build_flavor": "oss" }, "tagline": "You Know, for Search" });
    for greeting in [opensearch("1.3.0"), oss] {
        let port = fake(move |line, _| usual(&greeting, line).unwrap_or_else(|| answer(404, &json!({}))));
        let store = open(&format!("opensearch://127.0.0.1:{port}"));
        store.prepare(&existing("theirs"), Prepare::ReadOnly).unwrap();
        assert!(store.capabilities().rows.is_empty());
        // Its aliases cannot be replaced safely.
        let error = store.prepare(&layout("users"), Prepare::Fresh).unwrap_err();
        assert!(matches!(&error, StoreError::NotSupported(text) if text.contains("2.12")), "{error:?}");
    }
}

/// Elasticsearch 8 names itself in a header, and its errors otherwise than OpenSearch.
#[test]
fn elasticsearch_8_is_understood() {
    let indexes = AtomicUsize::new(0);
    let blocked = "index [storebench-users] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, \
                   index has read-only-allow-delete block];";
    let busy = "rejected execution of coordinating operation [coordinating_and_primary_bytes=0]";
    let port = fake(move |line, body| {
        const PRODUCT: &str = "X-elastic-product: Elasticsearch\r\n";
        let tell = |status, body: Value| Say::Answer(status, PRODUCT, body.to_string());
        let fails = |status: u16, kind: &str, reason: &str| {
            tell(status, json!({ "error": error(kind, reason), "status": status }))
        };
        if let Some(Say::Answer(status, _, body)) = usual(&elasticsearch("8.19.1"), line) {
            return Say::Answer(status, PRODUCT, body);
        }
        let written = json!({ "_seq_no": 4, "_primary_term": 1, "result": "updated", "_shards": { "successful": 1 } });
        match line {
            _ if line.starts_with("DELETE /storebench%2Dusers") => {
                fails(403, "cluster_block_exception", "index [x] blocked by: [FORBIDDEN/8/index write (api)];")
            }
            _ if line.contains("/_create/") => {
                let why = "[a]: version conflict, document already exists (current version [1])";
                fails(409, "version_conflict_engine_exception", why)
            }
            _ if line.contains("/_doc/full") => fails(429, "cluster_block_exception", blocked),
            _ if line.contains("/_doc/busy") => fails(429, "es_rejected_execution_exception", busy),
            _ if line.starts_with("GET") => tell(200, json!({ "_seq_no": 3, "_primary_term": 1, "found": true })),
            // Another client writes first, once.
            _ if line.contains("if_seq_no=") && indexes.fetch_add(1, Ordering::SeqCst) == 0 => {
                let why = "[a]: version conflict, required seqNo [3], primary term [1]. current document has seqNo [4]";
                fails(409, "version_conflict_engine_exception", why)
            }
            _ if line.contains("/_bulk") && body.contains("whole") => {
                fails(429, "es_rejected_execution_exception", busy)
            }
            _ if line.contains("/_bulk") => {
                let item = |line: &str| match line.contains("busy") {
                    true => {
                        json!({ "index": { "status": 429, "error": error("es_rejected_execution_exception", busy) } })
                    }
                    false => json!({ "index": { "status": 201, "_shards": { "successful": 1 } } }),
                };
                let items: Vec<Value> = body.lines().step_by(2).map(item).collect();
                tell(200, json!({ "errors": true, "took": 0, "items": items }))
            }
            _ => tell(200, written),
        }
    });
    let store = open(&format!("elasticsearch://127.0.0.1:{port}"));
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    assert_eq!(store.describe().version, "Elasticsearch 8.19.1");
    let mut session = Ask::new(&*store, 1);
    let mut fails = |op: Op<'_>, kind: ErrorKind, said: &str| {
        let error = session.run(op).unwrap_err();
        assert!(error.kind == kind && error.message.contains(said), "{error:?}");
    };
    fails(Op::Insert { key: "a", body: b"{}" }, ErrorKind::Conflict, "");
    fails(Op::Upsert { key: "busy", body: b"{}" }, ErrorKind::Temporary, "rejected execution of coordinating");
    fails(Op::Upsert { key: "full", body: b"{}" }, ErrorKind::Temporary, "free space on the server's disk");
    fails(Op::Delete { key: "a" }, ErrorKind::Refused, "index.blocks");
    session.run(Op::Replace { key: "a", body: b"{}" }).unwrap();
    let mut bulk = |keys: [&str; 3]| {
        let mut items = BatchBuf::new();
        keys.iter().for_each(|key| items.push(key, b"{}"));
        session.run(Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() })
    };
    let error = bulk(["a", "whole", "b"]).unwrap_err();
    assert!(error.kind == ErrorKind::Temporary && error.message.contains("coordinating"), "{error}");
    let reply = bulk(["a", "busy", "b"]).unwrap();
    let reply = reply.as_reply();
    let rejects: Vec<_> = reply.rejects.iter().map(|reject| (reject.item, reject.error.kind)).collect();
    assert_eq!((reply.documents, rejects), (2, vec![(1, ErrorKind::Temporary)]));
}

/// Whether writes are blocked or the server is busy decides what to do about it, in control calls, too.
#[test]
fn a_block_is_told_with_its_remedy() {
    for (status, kind, reason, said) in [
        (403, "cluster_block_exception", "[FORBIDDEN/5/index read-only (api)]", "index.blocks"),
        (429, "cluster_block_exception", "[TOO_MANY_REQUESTS/12/disk usage exceeded]", "index.blocks"),
        (503, "cluster_block_exception", "[SERVICE_UNAVAILABLE/1/state not recovered]", "not recovered"),
        (429, "es_rejected_execution_exception", "queue capacity = 1000", "try again later"),
        (403, "security_exception", "no permissions", "use a user with this permission"),
    ] {
        let port = fake(move |line, _| match line.starts_with("PUT /storebench%2Dusers?") {
            true => answer(status, &json!({ "error": error(kind, reason), "status": status })),
            false => usual(&elasticsearch("8.19.1"), line).unwrap_or_else(|| answer(404, &json!({}))),
        });
        let error = open(&format!("elasticsearch://127.0.0.1:{port}")).prepare(&layout("users"), Prepare::Fresh);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert_eq!(error.contains("index.blocks"), said == "index.blocks", "{error}");
        assert_eq!(error.contains("this permission"), said.ends_with("permission"), "{error}");
    }
}

/// Vectors, and documents made from their fields, would be left out or changed without a word.
#[test]
fn documents_that_elasticsearch_makes_from_fields_are_not_copied() {
    for (defaults, index, said) in [
        (json!({ "index.mapping.exclude_source_vectors": "true" }), json!({}), Some("exclude_source_vectors")),
        (json!({}), json!({ "index.mapping.exclude_source_vectors": "false" }), None),
        (json!({}), json!({}), None),
        (json!({}), json!({ "index.mode": "logsdb" }), Some("index.mode")),
    ] {
        let told = json!({ "theirs": {
            "mappings": { "properties": { "v": { "type": "dense_vector" } } },
            "settings": index,
            "defaults": defaults,
        } });
        let asked = "GET /theirs?expand_wildcards=all&include_defaults=true&flat_settings=true";
        let port = fake(move |line, _| match line == asked {
            true => answer(200, &told),
            false => usual(&elasticsearch("9.2.0"), line).unwrap_or_else(|| answer(404, &json!({}))),
        });
        let store = open(&format!("elasticsearch://127.0.0.1:{port}"));
        let error = store.prepare(&existing("theirs"), Prepare::ReadOnly).err().map(|error| error.to_string());
        assert_eq!(error.is_some(), said.is_some(), "{error:?}");
        assert!(error.unwrap_or_default().contains(said.unwrap_or_default()));
    }
}

/// OpenSearch shows at most 10,000 rows, so a query that finds as many may have found more.
#[test]
fn a_query_without_a_size_does_not_lose_rows() {
    let port = fake(|line, body| {
        usual(&opensearch("2.19.0"), line).unwrap_or_else(|| {
            let asked: Value = serde_json::from_str(body).unwrap();
            let found = if asked["query"].is_null() { 10_000 } else { 9_999 };
            let hits = vec![json!({ "_id": "a", "_source": {} }); found];
            answer(200, &json!({ "hits": { "hits": hits } }))
        })
    });
    let store = open(&format!("opensearch://127.0.0.1:{port}"));
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut session = Ask::new(&*store, 1);
    let values = BatchBuf::new();
    let mut query = |number, text| session.run(Op::Query { number, text, values: values.as_batch() });
    let error = query(0, r#"{"search":{}}"#).unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.message.contains("give it a `size`"), "{error}");
    assert_eq!(query(1, r#"{"search":{"size":10000}}"#).unwrap().as_reply().documents, 10_000);
    assert_eq!(query(2, r#"{"search":{"query":{"match_all":{}}}}"#).unwrap().as_reply().documents, 9_999);
}

#[test]
fn a_write_that_too_few_copies_have_is_of_unknown_outcome() {
    let port = fake(|line, _| {
        usual(&opensearch("2.19.0"), line).unwrap_or_else(|| {
            assert!(line.contains("wait_for_active_shards=2"), "{line}");
            if line.contains("/dropped") {
                return answer(200, &json!({ "_version": -3, "result": "noop", "_shards": { "successful": 0 } }));
            }
            let have = if line.contains("/few") { 1 } else { 2 };
            let shards = json!({ "total": 2, "successful": have, "failed": 0 });
            answer(201, &json!({ "_seq_no": 1, "_primary_term": 1, "result": "created", "_shards": shards }))
        })
    });
    let two = Durability { acknowledged_by: Acknowledged::Nodes(2), persisted: Persisted::Disk, on: 2 };
    let store = open(&format!("opensearch://127.0.0.1:{port}"));
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    assert!(Ask::open(&*store, &options(two, 1)).is_err(), "only with ?replicas=1");
    let store = open(&format!("opensearch://127.0.0.1:{port}?replicas=1"));
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut session = Ask::open(&*store, &options(two, 1)).unwrap();
    session.upsert("many", "{}");
    let error = session.run(Op::Upsert { key: "few", body: b"{}" }).unwrap_err();
    assert!(error.kind == ErrorKind::OutcomeUnknown && error.message.contains("1 of 2"), "{error}");
    let error = session.run(Op::Upsert { key: "dropped", body: b"{}" }).unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.message.contains("ingest pipeline"), "{error}");
}

/// Without a refresh, a copy would leave out the latest documents without a word.
#[test]
fn what_cannot_be_refreshed_is_not_read() {
    for (status, body, said) in [
        (
            403,
            json!({ "error": error("security_exception", "no permissions for [indices:admin/refresh]") }),
            "refresh]",
        ),
        (200, json!({ "_shards": { "total": 2, "successful": 1, "failed": 1 } }), "not every shard"),
    ] {
        let port = fake(move |line, _| match line.ends_with("/_refresh") {
            true => answer(status, &body),
            false => usual(&opensearch("2.19.0"), line).unwrap_or_else(|| {
                answer(200, &json!({ "_shards": { "failed": 0 }, "count": 1, "pit_id": "p", "hits": { "hits": [] } }))
            }),
        });
        let store = open(&format!("opensearch://127.0.0.1:{port}"));
        store.prepare(&existing("storebench-users"), Prepare::ReadOnly).unwrap();
        let errors = [
            walk(&*store, "storebench-users/0").unwrap_err(),
            store.account(DOCUMENTS).unwrap_err(),
            store.sample_keys(DOCUMENTS, 9, 1).unwrap_err(),
            store.settle(Duration::from_secs(60)).unwrap_err(),
        ];
        for error in errors.map(|error| error.to_string()) {
            assert!(error.contains(said) && error.contains("the latest documents would be left out"), "{error}");
            assert_eq!(error.contains("use a user with this permission"), status == 403, "{error}");
        }
    }
}

/// An index is deleted without any condition, so a deletion of two removals could meet what was made again in between.
#[test]
fn a_removal_is_left_to_whoever_began_it() {
    let looks = AtomicUsize::new(0);
    let port = fake(move |line, body| {
        assert!(line.starts_with("GET /"), "{line} {body}");
        let aliases = json!({ "storebench-users.documents": {}, "storebench-users.mark.json!removing~1": {} });
        match line.contains("/_alias") && looks.fetch_add(1, Ordering::SeqCst) < 4 {
            true => answer(200, &json!({ "storebench-users": { "aliases": aliases } })),
            false => usual(&opensearch("2.19.0"), line).unwrap_or_else(|| answer(404, &json!({}))),
        }
    });
    open(&format!("opensearch://127.0.0.1:{port}")).remove().unwrap();
}

/// A server without data streams says so. Other answers do not mean that there are none.
#[test]
fn data_streams_that_cannot_be_listed_are_an_error() {
    for (status, fails) in [(400, false), (404, false), (405, false), (403, true), (500, true)] {
        let port = fake(move |line, _| match line.starts_with("GET /_data_stream") {
            true => answer(status, &json!({ "error": error("some_exception", "no") })),
            false => usual(&opensearch("2.19.0"), line).unwrap_or_else(|| answer(404, &json!({}))),
        });
        let found = open(&format!("opensearch://127.0.0.1:{port}")).collections();
        let why = found.as_ref().err().map(ToString::to_string).unwrap_or_default();
        assert!(found.is_err() == fails && why.contains("list data streams") == fails, "{status}: {found:?}");
    }
}

#[test]
fn errors_of_a_bulk_are_those_of_its_documents() {
    let port = fake(|line, body| {
        if let Some(say) = usual(&opensearch("2.19.0"), line) {
            return say;
        }
        if body.len() > 1_000 {
            return answer(413, &json!({}));
        }
        let of = |status: u16, kind: &str| {
            let error = json!({ "type": kind, "reason": "r" });
            json!({ "index": { "status": status, "error": error } })
        };
        let item = |line: &str| match serde_json::from_str::<Value>(line).unwrap()["index"]["_id"].as_str().unwrap() {
            "busy" => of(429, "rejected_execution_exception"),
            "blocked" => of(403, "cluster_block_exception"),
            "away" => of(503, "unavailable_shards_exception"),
            "broken" => of(500, "illegal_state_exception"),
            "odd" => json!({ "index": {} }),
            "dropped" => json!({ "index": { "status": 200, "result": "noop" } }),
            _ => json!({ "index": { "status": 201 } }),
        };
        let items: Vec<Value> = body.lines().step_by(2).map(item).collect();
        answer(200, &json!({ "took": 1, "errors": true, "items": items }))
    });
    let store = open(&format!("opensearch://127.0.0.1:{port}"));
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut session = Ask::new(&*store, 1);
    let mut items = BatchBuf::new();
    let keys = ["a", "busy", "b", "blocked", "away", "c", "broken", "odd", "dropped", "d", "large"];
    for key in keys {
        items.push(key, format!(r#"{{"t":"{}"}}"#, "x".repeat(if key == "large" { 2_000 } else { 100 })).as_bytes());
    }
    let reply = session.run(Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() }).unwrap();
    let reply = reply.as_reply();
    assert_eq!(reply.documents, 4);
    let mut kinds: Vec<_> = reply.rejects.iter().map(|reject| (keys[reject.item], reject.error.kind)).collect();
    kinds.sort_unstable();
    let expected = [
        ("away", ErrorKind::OutcomeUnknown),
        ("blocked", ErrorKind::Refused),
        ("broken", ErrorKind::OutcomeUnknown),
        ("busy", ErrorKind::Temporary),
        ("dropped", ErrorKind::Refused),
        ("large", ErrorKind::Refused),
        ("odd", ErrorKind::OutcomeUnknown),
    ];
    assert_eq!(kinds, expected);
    assert!(session.counters().splits > 0);
}

/// A whole request that is rejected was not begun.
#[test]
fn a_busy_server_is_temporary_and_says_how_long_to_wait() {
    let port = fake(|line, _| {
        usual(&elasticsearch("8.0.0"), line).unwrap_or_else(|| {
            let error =
                json!({ "error": { "type": "circuit_breaking_exception", "reason": "[parent] Data too large" } });
            Say::Answer(429, "Retry-After: 3\r\n", error.to_string())
        })
    });
    let store = open(&format!("elasticsearch://127.0.0.1:{port}"));
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut session = Ask::new(&*store, 1);
    let error = session.run(Op::Upsert { key: "a", body: b"{}" }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Temporary);
    assert!(error.message.contains("Data too large; the server asks to wait 3 (Retry-After)"), "{error}");
}

#[test]
fn an_index_that_stays_red_is_refused() {
    let port = fake(|line, _| {
        if line.starts_with("GET /_cluster/health/theirs?wait_for_status=yellow") {
            return answer(408, &json!({ "status": "red", "timed_out": true }));
        }
        usual(&opensearch("2.19.0"), line).unwrap_or_else(|| answer(404, &json!({})))
    });
    let store = open(&format!("opensearch://127.0.0.1:{port}"));
    let error = store.prepare(&existing("theirs"), Prepare::ReadOnly).unwrap_err();
    assert!(matches!(&error, StoreError::NotSupported(text) if text.contains("is red")), "{error:?}");
}
