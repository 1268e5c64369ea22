//! Tests of decoding.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::{bson, encode};
use super::*;

fn stored(json: &str) -> Result<Vec<u8>, storebench_engine::store::OpError> {
    let mut out = Vec::new();
    let at = bson::begin(&mut out);
    bson::text(&mut out, KEY, "the key");
    encode::members(json.as_bytes(), &mut out)?;
    bson::int64(&mut out, REVISION, -7);
    bson::date(&mut out, EXPIRY, 1);
    bson::end(&mut out, at);
    Ok(out)
}

fn there_and_back(json: &str) -> String {
    let bytes = stored(json).unwrap();
    // The official crate can read the bytes.
    let theirs = ::bson::Document::from_reader(bytes.as_slice()).unwrap();
    assert_eq!(theirs.get_str(KEY).unwrap(), "the key");
    let mut out = Vec::new();
    let found = document(&bytes, Body::Json, None, &mut out).unwrap();
    assert_eq!(found.key.and_then(|k| k.as_str()), Some("the key"));
    assert_eq!(found.revision, Some(-7));
    String::from_utf8(out).unwrap()
}

#[test]
fn text_that_needs_no_change_comes_back_as_it_was() {
    for json in [
        "{}",
        r#"{"z":1,"a":null,"b":true,"c":false,"d":[],"e":{},"f":""}"#,
        r#"{"n":[0,-1,2147483647,2147483648,-2147483648,-2147483649,9007199254740991,-9223372036854775808]}"#,
        r#"{"f":[1.0,-0.0,0.1,1.5e-9,1.25e+30,3.141592653589793]}"#,
        r#"{"it's":1,"say \"hi\"":2,"dot.ted":3,"$dol$lar":4,"":7,"ключ":"日本 😀\u0001\n\\"}"#,
        r#"{"$date":{"$numberLong":"1"},"deep":[[[[{"a":[{}]}]]]]}"#,
    ] {
        assert_eq!(there_and_back(json), json);
    }
    assert_eq!(
        there_and_back(" { \"a\" : \"\\u00e9\\ud83d\\ude00\\/\\b\\f\" , \"b\" : [ -0 , 1E2 ] } "),
        "{\"a\":\"é😀/\\u0008\\u000c\",\"b\":[-0.0,100.0]}"
    );
}

#[test]
fn what_is_no_json_or_no_bson_is_refused_with_a_reason() {
    for (json, reason) in [
        ("", "empty"),
        ("[1]", "objects only"),
        ("{", "name in quotes"),
        (r#"{"a" 1}"#, "`:`"),
        (r#"{"a":1,}"#, "name in quotes"),
        (r#"{"a":01}"#, "`,` or `}`"),
        (r#"{"a":1.}"#, "digit"),
        (r#"{"a":-}"#, "digit"),
        (r#"{"a":tru}"#, "value"),
        (r#"{"a":"b}"#, "does not end"),
        (r#"{"a":"\x"}"#, "escape"),
        (r#"{"a":"\ud800"}"#, "surrogate"),
        (r#"{"a":"\u12"}"#, "hexadecimal"),
        (r#"{"a":1} 2"#, "follows"),
        (r#"{"a":9223372036854775808}"#, "beyond 64 bits"),
        (r#"{"a":1e999}"#, "too large"),
        (r#"{"a":-1.0e-999}"#, "too small"),
        (r#"{"a\u0000b":1}"#, "U+0000"),
        (r#"{"_id":1}"#, "reserves the member name"),
        (r#"{"_sb_rev":1}"#, "reserves the member name"),
    ] {
        let error = stored(json).unwrap_err();
        assert!(error.message.contains(reason), "{json}: {error}");
    }
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert!(stored(&deep).unwrap_err().message.contains("100 levels"));
    assert!(encode::members(b"{\"a\":\"\xff\"}", &mut Vec::new()).is_err());
}

#[test]
fn types_that_json_lacks_are_told_as_extended_json() {
    use ::bson::{Bson, DateTime, Timestamp, doc, oid::ObjectId};
    let document_of_others = doc! {
        "_id": ObjectId::from_bytes([7; 12]),
        "when": DateTime::from_millis(-5),
        "stamp": Timestamp { time: 9, increment: 8 },
        "bytes": Bson::Binary(::bson::Binary { subtype: 4.into(), bytes: vec![1, 2] }),
        "nan": f64::NAN,
        "money": "1.20".parse::<::bson::Decimal128>().unwrap(),
        "regex": Bson::RegularExpression(::bson::Regex { pattern: "^a".try_into().unwrap(), options: "i".try_into().unwrap() }),
        "code": Bson::JavaScriptCodeWithScope(::bson::JavaScriptCodeWithScope { code: "x".into(), scope: doc! {"y": 1} }),
        "min": Bson::MinKey,
        "_sb_rev": "theirs",
    };
    let bytes = document_of_others.to_vec().unwrap();
    let mut out = Vec::new();
    let found = document(&bytes, Body::Json, None, &mut out).unwrap();
    assert_eq!(found.key.map(|k| hex(k.bytes)), Some("07".repeat(12)));
    assert_eq!(found.revision, None);
    let expected = json!({
        "when": {"$date": {"$numberLong": "-5"}},
        "stamp": {"$timestamp": {"t": 9, "i": 8}},
        "bytes": {"$binary": {"base64": "AQI=", "subType": "04"}},
        "nan": {"$numberDouble": "NaN"},
        "money": {"$numberDecimal": "1.20"},
        "regex": {"$regularExpression": {"pattern": "^a", "options": "i"}},
        "code": {"$code": "x", "$scope": {"y": 1}},
        "min": {"$minKey": 1},
        "_sb_rev": "theirs",
    });
    assert_eq!(serde_json::from_slice::<Json>(&out).unwrap(), expected);
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<i32>().prop_map(Json::from),
        any::<f64>().prop_filter("JSON has finite numbers", |f| f.is_finite()).prop_map(Json::from),
        any::<String>().prop_map(Json::from),
    ];
    leaf.prop_recursive(5, 60, 8, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..8).prop_map(Json::from),
            proptest::collection::vec(("[^\0]*", inner), 0..8).prop_map(|m| Json::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_comes_back(value in any_json()) {
        let json = json!({ "v": value }).to_string();
        let back: Json = serde_json::from_str(&there_and_back(&json)).unwrap();
        prop_assert_eq!(back, serde_json::from_str::<Json>(&json).unwrap());
    }

    #[test]
    fn any_text_is_encoded_or_refused(text in any::<Vec<u8>>()) {
        let _ = encode::members(&text, &mut Vec::new());
    }

    #[test]
    fn garbage_is_told_never_a_panic(bytes in any::<Vec<u8>>(), kind in 0..3) {
        let kind = [Body::Json, Body::Bytes, Body::Counter][kind as usize];
        let _ = document(&bytes, kind, Some("v"), &mut Vec::new());
    }

    #[test]
    fn a_damaged_document_is_told_never_a_panic(at in 0_usize..80, byte in any::<u8>()) {
        let mut bytes = stored(r#"{"v":[1,{"a":"b"},true],"w":1.5,"x":null,"y":5000000000}"#).unwrap();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = document(&bytes, Body::Json, Some("v"), &mut Vec::new());
    }
}
