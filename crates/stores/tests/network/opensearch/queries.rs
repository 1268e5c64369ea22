//! Queries of a study, on a real server.

use serde_json::{Value, json};
use storebench_engine::store::{
    BatchBuf, CopyId, Durability, Op, Prepare, ReadConsistency, Request, SessionOptions, StoreError,
};

use super::{DOCUMENTS, ask, open};
use crate::http_help::{Ask, layout, options};
use crate::server::Server;

pub(super) fn find_what_is_mapped(server: &Server) {
    let store = open(&server.url);
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let tried = |text: &str, values: &BatchBuf| {
        let op = Op::Query { number: 0, text, values: values.as_batch() };
        store.try_query(&Request { collection: DOCUMENTS, op, contents: false })
    };
    let refused = |text: &str, said: &str| {
        let error = tried(text, &BatchBuf::new()).unwrap_err();
        assert!(matches!(&error, StoreError::NotSupported(text) if text.contains(said)), "{text}: {error:?}");
    };
    let rich = r#"{"search":{"query":{"range":{"n":{"gte":"$least"}}},"sort":["n"],
        "aggs":{"all":{"sum":{"field":"n"}}}}}"#;
    let mut values = BatchBuf::new();
    values.push("least", b"9");
    refused(&rich.replace("\"$least\"", "9"), "No field mapping can be found for the field with name [n]");
    let unmapped = r#"{"search":{"query":{"term":{"n":9}}}}"#;
    refused(unmapped, "No field mapping can be found for the field with name [n]");
    refused(r#"{"search":{"query":{"no-such":{}}}}"#, "unknown query [no-such]");
    refused(r#"{"search":{"inquire":{}}}"#, "inquire");
    refused(r#"{"search":[]}"#, "search = {");
    refused(r#"{"delete_by_query":{"query":{"match_all":{}}}}"#, "may only read");
    let build = |name: &str, text: &str| store.build_index(DOCUMENTS, name, text);
    for (text, said) in [
        (r#"{"n":{"type":"no-such"}}"#, "No handler for type [no-such]"),
        (r#"{"user":{"type":"integer"}}"#, "cannot be changed"),
        ("[]", "table of fields"),
    ] {
        let error = build("by-n", text).unwrap_err();
        assert!(matches!(&error, StoreError::NotSupported(why) if why.contains(said)), "{text}: {error:?}");
    }
    let by_n = r#"{"n":{"type":"integer"}}"#;
    assert!(build("by-n", by_n).unwrap().took.is_some());
    store.drop_index(DOCUMENTS, "by-n", by_n).unwrap();
    assert!(build("by-x", r#"{"x":{"type":"date"}}"#).unwrap().took.is_some());
    assert!(build("by-n", by_n).unwrap().took.is_none(), "both are kept");
    tried(rich, &values).unwrap();
    ask(server.port, "PUT", "/storebench-users/_settings", &json!({ "index.refresh_interval": "-1" }));
    let stale = SessionOptions { consistency: ReadConsistency::StaleOk, ..options(Durability::FSYNC, 1) };
    let (mut strong, mut stale) = (Ask::new(&*store, 1), Ask::open(&*store, &stale).unwrap());
    for n in [7, 10, 9] {
        strong.upsert(&format!("u{n}"), &format!(r#"{{"user":"x","n":{n}}}"#));
    }
    let query = Op::Query { number: 0, text: rich, values: values.as_batch() };
    let rows = |session: &mut Ask| -> Vec<Value> {
        let reply = session.run(query).unwrap();
        reply.as_reply().rows.unwrap().iter().map(|(_, row)| serde_json::from_slice(row).unwrap()).collect()
    };
    assert_eq!(rows(&mut stale), [json!({ "all": { "value": 0.0 } })]);
    // As numbers, not as texts; and without the driver's own member.
    let found = [json!({ "user": "x", "n": 9 }), json!({ "user": "x", "n": 10 }), json!({ "all": { "value": 19.0 } })];
    assert_eq!(rows(&mut strong), found);
    let few = r#"{"search":{"_source":false,"fields":["n"],"sort":["n"],"size":1}}"#;
    let reply = strong.run(Op::Query { number: 1, text: few, values: BatchBuf::new().as_batch() }).unwrap();
    assert_eq!(reply.as_reply().rows.unwrap().get(0), Some(("u7", &br#"{"n":[7]}"#[..])));
    let explain = |op| store.explain(&Request { collection: DOCUMENTS, op, contents: false }).unwrap().unwrap();
    let plan = explain(query);
    assert!(plan.plan.contains("n:[9 TO") && !plan.full_scan, "{plan:?}");
    assert!(explain(Op::Query { number: 1, text: few, values: BatchBuf::new().as_batch() }).full_scan);
    let error = build("late", by_n).unwrap_err();
    assert!(matches!(&error, StoreError::NotSupported(why) if why.contains("load it again")), "{error:?}");
    drop((strong, stale));
    // What a copy makes keeps the server's own behaviour, because it is the user's.
    store.prepare(&layout("users"), Prepare::Discard).unwrap();
    store.remove().unwrap();
    store.prepare(&layout("users"), Prepare::Copy(CopyId(1))).unwrap();
    tried(unmapped, &BatchBuf::new()).unwrap();
    store.prepare(&layout("users"), Prepare::Discard).unwrap();
    store.remove().unwrap();
}
