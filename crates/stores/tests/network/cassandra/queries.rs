//! Queries of a study.

use serde_json::{Value, json};
use storebench_engine::store::{
    AnyStore, BatchBuf, Durability, ErrorKind, Op, Prepare, ReadConsistency, Request, SessionOptions, StoreError,
};
use storebench_study::workload::Body;

use super::{Cql, FIRST, collection, existing, open};
use crate::driven::{Driven, options};
use crate::server::Server;

fn values(of: &[(&str, Value)]) -> BatchBuf {
    let mut values = BatchBuf::new();
    of.iter().for_each(|(name, value)| values.push(name, value.to_string().as_bytes()));
    values
}

fn tried(store: &dyn AnyStore, text: &str, of: &[(&str, Value)]) -> Result<(), StoreError> {
    let values = values(of);
    let op = Op::Query { number: 0, text, values: values.as_batch() };
    store.try_query(&Request { collection: FIRST, op, contents: true })
}

/// Tries a query, and runs it.
fn rows(store: &dyn AnyStore, driven: &mut Driven, number: u16, text: &str, of: &[(&str, Value)]) -> Vec<Value> {
    tried(store, text, of).unwrap_or_else(|error| panic!("{text}: {error}"));
    let values = values(of);
    let reply = driven.call(Op::Query { number, text, values: values.as_batch() });
    let reply = reply.unwrap_or_else(|error| panic!("{text}: {error}"));
    let rows = reply.as_reply().rows.unwrap();
    rows.iter().map(|(_, row)| serde_json::from_slice(row).unwrap()).collect()
}

pub(super) fn rows_are_json(server: &Server) {
    let cql = Cql::new(server);
    for statement in [
        "CREATE KEYSPACE asked WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE asked.t (id uuid, n int, wide bigint, small smallint, d double, f float, b boolean, text text, \
         tags set<text>, PRIMARY KEY (id, n))",
        "INSERT INTO asked.t (id, n, wide, small, d, f, b, text, tags) VALUES (00000000-0000-0000-0000-000000000001, \
         1, 5000000000, 7, 0.5, 1.5, true, 'it''s', {'x', 'y'})",
        "INSERT INTO asked.t (id, n, text) VALUES (00000000-0000-0000-0000-000000000001, 2, '{\"a\": 1}')",
    ] {
        cql.run(statement);
    }
    let store = open(server, "");
    store.prepare(&existing("asked.t", None, None), Prepare::ReadOnly).unwrap();
    let stale = SessionOptions { consistency: ReadConsistency::StaleOk, ..options(Durability::MEMORY) };
    let mut driven = Driven::open_with(&*store, &stale).unwrap();
    let mut rows = |number, text: &str, of: &[(&str, Value)]| rows(&*store, &mut driven, number, text, of);
    let id = ("id", json!("00000000-0000-0000-0000-000000000001"));
    let of_one =
        "select n, d, b, tags, text from {collection} where id = from_json($id) and n <= $n limit $limit; -- all";
    assert_eq!(
        rows(0, of_one, &[id.clone(), ("n", json!(2)), ("limit", json!(1))]),
        [json!({ "n": 1, "d": 0.5, "b": true, "tags": ["x", "y"], "text": "it's" })]
    );
    // A column of text that holds an object is that object.
    let texts = "SELECT text FROM {collection} WHERE id = from_json($id)";
    assert_eq!(rows(1, texts, std::slice::from_ref(&id)), [json!({ "text": "it's" }), json!({ "a": 1 })]);
    assert_eq!(rows(2, "select json n from {collection} limit 1", &[]), [json!({ "n": 1 })]);
    assert_eq!(rows(3, "select count(*) as c from {collection}", &[]), [json!({ "c": 2 })]);
    let all = "select n from {collection} where wide = $w and small = $s and d = $d and f = $f and b = $b and \
               text = $t allow filtering";
    let mut given = [
        ("w", json!(5_000_000_000_i64)),
        ("s", json!(7)),
        ("d", json!(0.5)),
        ("f", json!(1.5)),
        ("b", json!(true)),
        ("t", json!("it's")),
    ];
    assert_eq!(rows(4, all, &given), [json!({ "n": 1 })]);
    given[1].1 = json!(-7);
    assert!(rows(4, all, &given).is_empty());
    drop(driven);
    store.close().unwrap();
    cql.run("DROP KEYSPACE asked");
}

pub(super) fn what_cql_cannot_do_is_refused(server: &Server) {
    let store = open(server, "");
    store.prepare(&collection(None, &["user"], Body::Json), Prepare::Fresh).unwrap();
    for (text, part) in [
        ("select key from {collection} where body = $v", "ALLOW FILTERING"),
        ("select key from {collection} where user = $v", "Undefined column name user"),
        ("select key as \"Key\", body from {collection}", "rename the column `Key` with AS, such as AS key"),
        ("select key as k, body as k from {collection}", "two columns of the query are named `k`"),
        ("select key from {collection} order by key", "ORDER BY"),
        ("select key from {collection}, {collection} where key = $v", "','"),
        ("insert into {collection} (key) values ($v)", "begins with SELECT; found `insert`"),
        ("select key from {collection}; select 1", "expecting EOF"),
        ("select key from {collection} where key = $v or key = $v", "'or'"),
        ("select key from {collection} where key = $v group by body", "Group by"),
        ("select key from system.local where host_id = $v allow filtering", "from_json($…)"),
    ] {
        let error = tried(&*store, text, &[("v", json!("x"))]).unwrap_err();
        assert!(matches!(&error, StoreError::NotSupported(why) if why.contains(part)), "{text}: {error}");
    }
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    driven.call(Op::Upsert { key: "a", body: b"{\"user\":\"ann\"}" }).unwrap();
    // An indexed field is compared as JSON, and a value of another type is refused.
    let text = "select body from {collection} where field_user = $v";
    assert_eq!(rows(&*store, &mut driven, 0, text, &[("v", json!("ann"))]), [json!({ "user": "ann" })]);
    assert!(rows(&*store, &mut driven, 0, text, &[("v", json!(1))]).is_empty());
    let values = values(&[("v", json!([1]))]);
    let error = driven.call(Op::Query { number: 0, text, values: values.as_batch() }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    drop(driven);
    store.remove().unwrap();
}
