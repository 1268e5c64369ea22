//! Tables of somebody else: every type of DynamoDB, keys, indexes, expiry.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use storebench_engine::store::{
    AnyStore, BatchBuf, BulkWrite, Durability, ErrorKind, Op, Prepare, RowPage, Rows, SameKeys, StoreError,
};

use super::{DOCUMENTS, call, make, open, rows, snapshot};
use crate::driven::{Driven, existing, layout};
use crate::server::Server;

pub(super) fn items_are_read_with_every_type(server: &Server) {
    let port = server.port;
    let all = json!({
        "id": { "S": "all" }, "digits": { "N": "12345678901234567890123456789012345678" }, "none": { "NULL": true },
        "yes": { "BOOL": true }, "list": { "L": [{ "S": "a" }, { "M": { "deep": { "N": "-0.5" } } }] },
        "bytes": { "B": "AAE=" }, "texts": { "SS": ["a", "b"] }, "numbers": { "NS": ["1", "2.5"] },
        "chunks": { "BS": ["AA==", "AQ=="] }, "empty": { "S": "" },
    });
    let unclear = json!({ "id": { "S": "unclear" }, "m": { "M": { "$B": { "S": "AA==" } } } });
    let mut items = vec![all, unclear];
    items.extend((0..200).map(|n| json!({ "id": { "S": format!("k{n:03}") }, "n": { "N": n.to_string() } })));
    make(port, "their-items", &[("id", "S")], &items);
    make(port, "their-pairs", &[("a", "S"), ("b", "N")], &[json!({ "a": { "S": "x y" }, "b": { "N": "7" } })]);
    make(port, "their-numbers", &[("n", "N")], &[json!({ "n": { "N": "7" } })]);
    let before = snapshot(port);
    let store = open(&server.url);
    store.prepare(&existing("their-items"), Prepare::ReadOnly).unwrap();
    let (found, bad) = rows(&*store);
    assert_eq!((found.len(), bad.len()), (201, 1));
    assert!(bad[0].starts_with("unclear: "), "{bad:?}");
    let expected = json!({
        "id": "all", "none": null, "yes": true, "list": ["a", { "deep": -0.5 }], "bytes": { "$B": "AAE=" },
        "texts": { "$SS": ["a", "b"] }, "numbers": { "$NS": [1, 2.5] }, "chunks": { "$BS": ["AA==", "AQ=="] },
        "empty": "",
    });
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    let reply = driven.call(Op::Read { key: "all" }).unwrap();
    let text = std::str::from_utf8(reply.as_reply().body.unwrap()).unwrap().to_owned();
    assert!(text.contains(r#""digits":12345678901234567890123456789012345678"#), "{text}");
    let mut document: Value = serde_json::from_str(&text).unwrap();
    document.as_object_mut().unwrap().remove("digits");
    assert_eq!(document, expected);
    let keys = store.sample_keys(DOCUMENTS, 40, 7).unwrap();
    assert_eq!((keys.len(), &keys), (40, &store.sample_keys(DOCUMENTS, 40, 7).unwrap()));
    assert_ne!(keys, store.sample_keys(DOCUMENTS, 40, 8).unwrap());
    assert!(keys.iter().all(|key| driven.call(Op::Exists { key }).unwrap().as_reply().documents == 1));
    let error = driven.call(Op::Delete { key: "all" }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    for (table, key, same) in
        [("their-pairs", "[\"x y\",7]", SameKeys::Exact), ("their-numbers", "7", SameKeys::Number)]
    {
        store.prepare(&existing(table), Prepare::ReadOnly).unwrap();
        assert_eq!(store.same_keys(DOCUMENTS), same);
        assert_eq!(rows(&*store).0.keys().collect::<Vec<_>>(), [key]);
        let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
        assert_eq!(driven.call(Op::Read { key }).unwrap().as_reply().documents, 1);
    }
    let error = store.prepare(&existing("no-such-table"), Prepare::ReadOnly).unwrap_err();
    assert!(error.to_string().contains("no-such-table"), "{error}");
    store.remove().unwrap();
    assert_eq!(snapshot(port), before);
}

pub(super) fn items_are_written_as_theirs(server: &Server) {
    let port = server.port;
    make(port, "their-own", &[("id", "S")], &[json!({ "id": { "S": "old" }, "n": { "N": "1" } })]);
    let store = open(&server.url);
    store.prepare(&existing("their-own"), Prepare::WriteExisting).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    let document = br#"{"n":2,"bytes":{"$B":"AAE="},"set":{"$NS":[1,2]},"id":"new"}"#;
    driven.call(Op::Insert { key: "new", body: document }).unwrap();
    let item =
        call(port, "GetItem", &json!({ "TableName": "their-own", "Key": { "id": { "S": "new" } } }))["Item"].take();
    let expected =
        json!({ "id": { "S": "new" }, "n": { "N": "2" }, "bytes": { "B": "AAE=" }, "set": { "NS": ["1", "2"] } });
    assert_eq!(item, expected, "nothing of Storebench's own");
    assert_eq!(driven.call(Op::Insert { key: "old", body: b"{}" }).unwrap_err().kind, ErrorKind::Conflict);
    for (refused, why) in [(&br#"{"id":"other"}"#[..], "differs from its key"), (br#"{"n":-0.0}"#, "negative zero")] {
        let error = driven.call(Op::Upsert { key: "x", body: refused }).unwrap_err();
        assert!(error.kind == ErrorKind::Refused && error.message.contains(why), "{error}");
    }
    let op = Op::CompareAndSwap { key: "old", expected: b"1", body: b"{}" };
    assert_eq!(driven.call(op).unwrap_err().kind, ErrorKind::Refused);
    // A table of Storebench is not written as somebody else's.
    store.prepare(&layout(), Prepare::Keep).unwrap();
    let error = store.prepare(&existing("storebench-documents"), Prepare::WriteExisting).unwrap_err();
    assert!(matches!(error, StoreError::NotSupported(_)), "{error:?}");
    store.prepare(&existing("storebench-documents"), Prepare::ReadOnly).unwrap();
    store.remove().unwrap();
}

/// Of keys that are one, all are written as one; what the server would take for another key is refused.
pub(super) fn keys_have_one_notation(server: &Server) {
    let port = server.port;
    let store = open(&server.url);
    for (kind, written, refused, kept) in [
        (
            "S",
            &[("\u{e9}", r#"{"id":"\u00e9"}"#), ("a/b", r#"{"id":"a\/b"}"#)][..],
            &[("a", r#"{"id":"b"}"#), ("m", r#"{"m":{"$SS":[]}}"#), ("n", r#"{"m":[{"$NS":["1"]},{"$B":5}]}"#)][..],
            &["\u{e9}", "a/b"][..],
        ),
        (
            "N",
            &[("6", r#"{"id":6.0}"#), ("01", "{}"), ("1.0", "{}"), ("15e1", r#"{"id":150}"#), ("-0", "{}")],
            &[("6", r#"{"id":7}"#), ("x", "{}"), ("6", r#"{"id":"6"}"#)],
            &["0", "1", "150", "6"],
        ),
        (
            "B",
            &[("AAE=", r#"{"id":{"$B":"AAE="}}"#)],
            &[("AAE", "{}"), ("AAF=", "{}"), ("AAE =", "{}"), ("A", "{}")],
            &["AAE="],
        ),
    ] {
        let table = format!("notations-{kind}");
        make(port, &table, &[("id", kind)], &[]);
        store.prepare(&existing(&table), Prepare::WriteExisting).unwrap();
        let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
        for (key, body) in written {
            driven.call(Op::Upsert { key, body: body.as_bytes() }).unwrap_or_else(|error| panic!("{key}: {error}"));
        }
        for (key, body) in refused {
            let error = driven.call(Op::Upsert { key, body: body.as_bytes() });
            let error = error.err().unwrap_or_else(|| panic!("{key} {body} was written"));
            assert_eq!(error.kind, ErrorKind::Refused, "{key}: {error}");
        }
        // moto cannot scan segments of a table with such keys.
        assert_eq!(items(port, &table).len(), kept.len());
        for key in kept {
            assert_eq!(driven.call(Op::Exists { key }).unwrap().as_reply().documents, 1, "{key}");
        }
        call(port, "DeleteTable", &json!({ "TableName": table }));
    }
}

/// All documents of a prepared collection as they came, and how many of them expire.
fn documents(store: &dyn AnyStore) -> (Vec<(String, Vec<u8>)>, usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut found, mut expiring) = (Vec::new(), 0);
    runtime.block_on(async {
        for part in store.parts().unwrap() {
            let mut stream = store.rows(Rows::Walk { collection: DOCUMENTS, part: &part }).await.unwrap();
            let mut page = RowPage::default();
            while stream.next(&mut page).await.unwrap() {
                assert!(page.bad.is_empty(), "{:?}", page.bad);
                found.extend(page.rows.as_batch().iter().map(|(key, body)| (key.to_owned(), body.to_vec())));
                expiring += page.expiring.len();
            }
        }
    });
    (found, expiring)
}

/// The items of a table, with sets in order, by their text.
fn items(port: u16, table: &str) -> Vec<String> {
    fn sorted(value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    match value {
                        Value::Array(set) if ["SS", "NS", "BS"].contains(&name.as_str()) => {
                            set.sort_by_key(Value::to_string);
                        }
                        value => sorted(value),
                    }
                }
            }
            Value::Array(values) => values.iter_mut().for_each(sorted),
            _ => {}
        }
    }
    let mut items = call(port, "Scan", &json!({ "TableName": table, "ConsistentRead": true }))["Items"].take();
    sorted(&mut items);
    let mut items: Vec<String> = items.as_array().unwrap().iter().map(Value::to_string).collect();
    items.sort_unstable();
    items
}

pub(super) fn a_copy_into_another_table_is_exact(server: &Server) {
    let port = server.port;
    let numbers = [
        "12345678901234567890123456789012345678",
        "-0.00000000000000000000000000000000000012345678901234567890123456789012345678",
        "9.9999999999999999999999999999999999999E+125",
        "-9.9999999999999999999999999999999999999E+125",
        "1E-130",
        "0.1000000000000000055511151231257827021",
        "9007199254740993",
        "0",
    ];
    let number = |n: &&str| json!({ "N": *n });
    let all = json!({
        "id": { "S": "all" }, "list": { "L": numbers.iter().map(number).collect::<Vec<_>>() },
        "set": { "NS": numbers }, "texts": { "SS": ["a", "\u{e9}\u{1f600}"] }, "chunks": { "BS": ["AA==", "/+8="] },
        "bytes": { "B": "AAH/" }, "none": { "NULL": true }, "yes": { "BOOL": false }, "empty": { "S": "" },
        "deep": { "M": { "l": { "L": [{ "M": {} }, { "L": [] }, { "NS": ["1"] }] }, "b": { "B": "AA==" } } },
        "odd name \"#k": { "S": "\u{0}\"\\" },
    });
    let key = json!({ "b": { "B": "AAH/" }, "n": { "N": "-123456789012345678901234567890.12345678" } });
    let texts = json!({ "s": { "S": "a\"[,]" }, "b": { "B": "/+8=" }, "v": { "N": "1E+2" } });
    for (table, keys, item) in [
        ("types", &[("id", "S")][..], &all),
        ("binary", &[("b", "B"), ("n", "N")], &key),
        ("texts", &[("s", "S"), ("b", "B")], &texts),
    ] {
        let target = format!("{table}-copy");
        make(port, table, keys, std::slice::from_ref(item));
        make(port, &target, keys, &[]);
        let store = open(&server.url);
        store.prepare(&existing(table), Prepare::ReadOnly).unwrap();
        let (found, _) = documents(&*store);
        let mut batch = BatchBuf::new();
        found.iter().for_each(|(key, body)| batch.push(key, body));
        store.prepare(&existing(&target), Prepare::WriteExisting).unwrap();
        let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
        let reply = driven.call(Op::BulkWrite { kind: BulkWrite::Upsert, items: batch.as_batch() }).unwrap();
        assert_eq!((reply.as_reply().documents, reply.as_reply().rejects.len()), (1, 0), "{:?}", reply.as_reply());
        let (before, after) = (items(port, table), items(port, &target));
        assert!(before.len() == 1 && before == after, "{before:#?}\n{after:#?}");
        for (key, body) in &found {
            let read = driven.call(Op::Read { key }).unwrap();
            assert_eq!(read.as_reply().bytes, body.len() as u64, "{key}");
        }
        for table in [table, &target] {
            call(port, "DeleteTable", &json!({ "TableName": table }));
        }
    }
}

pub(super) fn what_dynamodb_lacks_is_refused_alone(server: &Server) {
    let port = server.port;
    make(port, "lacks", &[("id", "S")], &[]);
    let store = open(&server.url);
    store.prepare(&existing("lacks"), Prepare::WriteExisting).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    let zeros = "0".repeat(41);
    let small = format!("{{\"n\":0.{zeros}12345678901234567890123456789012345678}}");
    let large = format!("{{\"n\":1{zeros},\"z\":[1.50,1e125,-1E-130]}}");
    let cases: [(&str, &str, &str); 12] = [
        ("large", &large, ""),
        ("above", r#"{"n":1e126}"#, "to 9.99E+125, and 1e126"),
        ("small", &small, ""),
        ("below", r#"{"n":1e-131}"#, "from 1E-130"),
        ("digits", r#"{"l":[{"n":123456789012345678901234567890123456789}]}"#, "at most 38 digits"),
        ("fraction", r#"{"n":0.123456789012345678901234567890123456789}"#, "at most 38 digits"),
        ("set", r#"{"s":{"$NS":[1,1e200]}}"#, "to 9.99E+125"),
        ("zero", r#"{"n":-0.0}"#, "negative zero"),
        ("", "{}", "a key has 1 to 2048 bytes"),
        ("nameless", r#"{"":1}"#, "no attribute without a name"),
        ("array", "[1]", "JSON objects only"),
        ("empty", r#"{"s":"","l":[],"m":{}}"#, ""),
    ];
    let mut batch = BatchBuf::new();
    cases.iter().for_each(|(key, body, _)| batch.push(key, body.as_bytes()));
    let reply = driven.call(Op::BulkWrite { kind: BulkWrite::Upsert, items: batch.as_batch() }).unwrap();
    let reply = reply.as_reply();
    let rejects: BTreeMap<usize, _> = reply.rejects.iter().map(|reject| (reject.item, &reject.error)).collect();
    for (number, (key, _, why)) in cases.iter().enumerate() {
        match rejects.get(&number) {
            Some(error) => assert!(
                error.kind == ErrorKind::Refused && !why.is_empty() && error.message.contains(why),
                "{key}: {error}"
            ),
            None => assert!(why.is_empty(), "{key} was written"),
        }
    }
    assert_eq!(reply.documents, 3);
    let found: BTreeMap<_, _> = items(port, "lacks")
        .iter()
        .map(|item| serde_json::from_str::<Value>(item).unwrap())
        .map(|item| (item["id"]["S"].as_str().unwrap().to_owned(), item["n"]["N"].as_str().map(str::to_owned)))
        .collect();
    let number = |key: &str| found[key].clone().unwrap();
    assert_eq!(number("large"), format!("1{zeros}"));
    assert_eq!(number("small"), format!("0.{zeros}12345678901234567890123456789012345678"));
    call(port, "DeleteTable", &json!({ "TableName": "lacks" }));
}

/// 400 KB with its names.
pub(super) fn the_largest_item_comes_back(server: &Server) {
    make(server.port, "largest", &[("id", "S")], &[]);
    let store = open(&server.url);
    store.prepare(&existing("largest"), Prepare::WriteExisting).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    let document = |bytes: usize| format!("{{\"id\":\"k\",\"t\":\"{}\"}}", "x".repeat(bytes - "idkt".len()));
    let error = driven.call(Op::Upsert { key: "k", body: document(409_601).as_bytes() }).unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.message.contains("maximum allowed size"), "{error}");
    let largest = document(409_600);
    driven.call(Op::Upsert { key: "k", body: largest.as_bytes() }).unwrap();
    assert_eq!(driven.call(Op::Read { key: "k" }).unwrap().as_reply().body, Some(largest.as_bytes()));
    assert_eq!(documents(&*store).0, [("k".to_owned(), largest.into_bytes())]);
    call(server.port, "DeleteTable", &json!({ "TableName": "largest" }));
}

/// A table of orders by customer and time, with a global and a local index.
fn make_orders(port: u16, more: &Value) {
    let of = |name: &str, kind: &str| json!({ "AttributeName": name, "KeyType": kind });
    let key = |hash: &str, range: &str| json!([of(hash, "HASH"), of(range, "RANGE")]);
    let all = json!({ "ProjectionType": "ALL" });
    let types = [("who", "S"), ("at", "N"), ("city", "S"), ("price", "N")];
    let mut create = json!({
        "TableName": "orders", "BillingMode": "PAY_PER_REQUEST", "KeySchema": key("who", "at"),
        "AttributeDefinitions":
            types.map(|(name, kind)| json!({ "AttributeName": name, "AttributeType": kind })),
        "GlobalSecondaryIndexes":
            [{ "IndexName": "by-city", "KeySchema": key("city", "at"), "Projection": all }],
        "LocalSecondaryIndexes":
            [{ "IndexName": "by-price", "KeySchema": key("who", "price"), "Projection": all }],
    });
    create.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let told = call(port, "CreateTable", &create);
    assert!(told["TableDescription"].is_object(), "{told}");
    while call(port, "DescribeTable", &json!({ "TableName": "orders" }))["Table"]["TableStatus"] != "ACTIVE" {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    for (who, at, city) in [("ann", 1, "Oslo"), ("ann", 2, "Lima"), ("bob", 1, "Oslo"), ("cid", 3, "Rome")] {
        let item = json!({
            "who": { "S": who }, "at": { "N": at.to_string() }, "city": { "S": city }, "price": { "N": "9.50" },
            "until": { "N": if who == "bob" { "4000000000" } else { "0" } }, "tags": { "SS": ["a", "b"] },
        });
        call(port, "PutItem", &json!({ "TableName": "orders", "Item": item }));
    }
}

fn page(driven: &mut Driven, field: &str, value: &str) -> Vec<String> {
    let reply = driven.call(Op::Page { field, value, limit: 10 }).unwrap();
    let mut keys: Vec<String> = reply.as_reply().rows.unwrap().iter().map(|(key, _)| key.to_owned()).collect();
    keys.sort_unstable();
    keys
}

/// No index has the values in these documents. Returns how many documents expire.
fn orders_are_read_and_kept(server: &Server, no_values: &[&[u8]]) -> usize {
    let port = server.port;
    let before = items(port, "orders");
    let description = || {
        let mut told = call(port, "DescribeTable", &json!({ "TableName": "orders" }))["Table"].take();
        ["KeySchema", "GlobalSecondaryIndexes", "LocalSecondaryIndexes", "StreamSpecification"].map(
            |of| match &mut told[of] {
                Value::Array(indexes) => {
                    let names = indexes.iter().map(|of| json!([of["IndexName"], of["KeySchema"], of["AttributeName"]]));
                    names.collect()
                }
                other => other.take(),
            },
        )
    };
    let described = description();
    let store = open(&server.url);
    store.prepare(&existing("orders"), Prepare::ReadOnly).unwrap();
    let (mut found, expiring) = documents(&*store);
    found.sort_unstable();
    let keys: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["[\"ann\",1]", "[\"ann\",2]", "[\"bob\",1]", "[\"cid\",3]"]);
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    assert_eq!(page(&mut driven, "who", "\"ann\""), ["[\"ann\",1]", "[\"ann\",2]"], "of the table itself");
    assert_eq!(page(&mut driven, "city", "\"Oslo\""), ["[\"ann\",1]", "[\"bob\",1]"], "of the global index");
    assert_eq!(page(&mut driven, "who", "\"nobody\""), [""; 0]);
    let error = driven.call(Op::Page { field: "price", value: "9.5", limit: 1 }).unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.message.contains("`price`"), "{error}");
    // What was read and is written again keeps every attribute, also the one by which it expires.
    store.prepare(&existing("orders"), Prepare::WriteExisting).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    for (key, body) in &found {
        driven.call(Op::Replace { key, body }).unwrap();
    }
    assert_eq!(items(port, "orders"), before);
    let moved = br#"{"who":"ann","at":3,"city":"Oslo","price":1}"#;
    driven.call(Op::Insert { key: "[\"ann\",3]", body: moved }).unwrap();
    assert_eq!(page(&mut driven, "city", "\"Oslo\"").len(), 3);
    for (key, body, why) in [
        ("[\"ann\",4]", &br#"{"at":5}"#[..], "differs from its key"),
        ("[\"ann\"]", b"{}", "expected a JSON array of both"),
        ("[\"\",4]", b"{}", "a key has 1 to 2048 bytes"),
    ] {
        let error = driven.call(Op::Upsert { key, body }).unwrap_err();
        assert!(error.kind == ErrorKind::Refused && error.message.contains(why), "{error}");
    }
    for body in no_values {
        let error = driven.call(Op::Upsert { key: "[\"ann\",4]", body }).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    }
    driven.call(Op::Delete { key: "[\"ann\",3]" }).unwrap();
    store.remove().unwrap();
    assert_eq!((items(port, "orders"), description()), (before, described));
    expiring
}

pub(super) fn ranges_and_indexes_are_read_and_kept(server: &Server) {
    make_orders(server.port, &json!({}));
    assert_eq!(
        orders_are_read_and_kept(server, &[br#"{"city":1}"#, br#"{"price":"1"}"#]),
        0,
        "dynalite has no time to live"
    );
    call(server.port, "DeleteTable", &json!({ "TableName": "orders" }));
}

/// dynalite has neither streams nor a time to live.
#[test]
fn a_stream_and_a_time_to_live_are_kept() {
    let server = Server::start("moto");
    keys_have_one_notation(&server);
    let stream = json!({ "StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES" });
    make_orders(server.port, &json!({ "StreamSpecification": stream }));
    let live = json!({ "Enabled": true, "AttributeName": "until" });
    call(server.port, "UpdateTimeToLive", &json!({ "TableName": "orders", "TimeToLiveSpecification": live }));
    assert_eq!(
        orders_are_read_and_kept(&server, &[br#"{"city":""}"#]),
        1,
        "DynamoDB does not heed a time of more than five years ago"
    );
    let store = open(&server.url);
    store.prepare(&existing("orders"), Prepare::ReadOnly).unwrap();
    assert_eq!(store.account(DOCUMENTS).unwrap().evicts.as_deref(), Some("TimeToLive on `until`"));
    let told = call(server.port, "DescribeTable", &json!({ "TableName": "orders" }));
    assert_eq!(told["Table"]["StreamSpecification"], stream);
}
