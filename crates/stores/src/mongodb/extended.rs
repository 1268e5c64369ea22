//! Converts Extended JSON v2 back to the BSON types that JSON lacks: dates, object ids, decimals, binary data.
//!
//! <https://github.com/mongodb/specifications/blob/master/source/extended-json/extended-json.md>

use ::bson::{Bson, Document};
use serde_json::Value as Json;

use super::bson::Members;
use super::decode;

/// First members of the objects that [`decode`] writes for such types.
const NAMES: [&str; 13] = [
    "$oid",
    "$date",
    "$binary",
    "$numberDouble",
    "$numberDecimal",
    "$undefined",
    "$regularExpression",
    "$code",
    "$symbol",
    "$dbPointer",
    "$timestamp",
    "$minKey",
    "$maxKey",
];

/// If `text` begins with an object that stands for a type that JSON lacks, appends the value. Returns the type and the
/// length of the object in bytes.
///
/// An object counts only if it would be read back as exactly the same JSON. One that merely looks similar, such as
/// `{"$date": "yesterday"}` or `{"$numberLong": "5"}`, stays an object with a member of that name.
pub(super) fn extended(text: &str, out: &mut Vec<u8>) -> Option<(u8, usize)> {
    let name = text.strip_prefix('{')?.trim_start().strip_prefix('"')?;
    if !name.starts_with('$') || !NAMES.iter().any(|n| name.strip_prefix(n).is_some_and(|rest| rest.starts_with('"'))) {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Json>();
    let json = values.next()?.ok()?;
    let length = values.byte_offset();
    let value = Bson::try_from(json.clone()).ok()?;
    let holder = Document::from_iter([("v".to_owned(), value)]).to_vec().ok()?;
    let (_, value) = Members::of(&holder).ok()?.next()?.ok()?;
    let mut back = Vec::new();
    decode::write(value, &mut back, 0).ok()?;
    if serde_json::from_slice::<Json>(&back).ok()? != json {
        return None;
    }
    out.extend_from_slice(value.bytes);
    Some((value.kind, length))
}

#[cfg(test)]
mod tests {
    use ::bson::spec::BinarySubtype;
    use ::bson::{Binary, DateTime, Decimal128, JavaScriptCodeWithScope, Regex, Timestamp, doc, oid::ObjectId};

    use super::super::{bson as wire, encode};
    use super::*;

    /// The JSON of a document, and the BSON of that JSON.
    fn there_and_back(document: &[u8]) -> (String, Vec<u8>) {
        let mut json = Vec::new();
        decode::document(document, storebench_study::workload::Body::Json, None, &mut json).unwrap();
        let mut bytes = Vec::new();
        let at = wire::begin(&mut bytes);
        encode::members(&json, &mut bytes).unwrap();
        wire::end(&mut bytes, at);
        (String::from_utf8(json).unwrap(), bytes)
    }

    #[test]
    fn every_type_of_mongodb_comes_back_as_itself() {
        let document = doc! {
            "id": ObjectId::from_bytes([7; 12]),
            "when": DateTime::from_millis(1_700_000_000_123),
            "before": DateTime::from_millis(-1),
            "bytes": Binary { subtype: BinarySubtype::Uuid, bytes: vec![1; 16] },
            "none": Binary { subtype: BinarySubtype::Generic, bytes: vec![] },
            "price": "19.90".parse::<Decimal128>().unwrap(),
            "nan": f64::NAN,
            "endless": [f64::INFINITY, f64::NEG_INFINITY],
            "pattern": Regex { pattern: "^a".try_into().unwrap(), options: "i".try_into().unwrap() },
            "code": Bson::JavaScriptCode("f()".into()),
            "scoped": JavaScriptCodeWithScope { code: "g()".into(), scope: doc! { "x": 1 } },
            "symbol": Bson::Symbol("s".into()),
            "stamp": Timestamp { time: 5, increment: 6 },
            "least": Bson::MinKey,
            "most": Bson::MaxKey,
            "undefined": Bson::Undefined,
            "deep": { "list": [ { "at": DateTime::from_millis(0), "n": 1, "long": i64::MAX } ] },
        };
        let bytes = document.to_vec().unwrap();
        let (json, back) = there_and_back(&bytes);
        assert_eq!(Document::from_reader(back.as_slice()).unwrap().to_string(), document.to_string(), "{json}");
        assert_eq!(back, bytes, "{json}");
    }

    #[test]
    fn what_only_looks_alike_stays_an_object() {
        for text in [
            r#"{"$date":"yesterday"}"#,
            r#"{"$date":5}"#,
            r#"{"$date":{"$numberLong":"1"},"and":"more"}"#,
            r#"{"$oid":"no"}"#,
            r#"{"$numberLong":"5"}"#,
            r#"{"$numberDouble":"1.5"}"#,
            r#"{"$binary":"AAAA"}"#,
            r#"{"$gt":5}"#,
            r#"{"$oidx":"070707070707070707070707"}"#,
            r#"{"a":{"$oid":"070707070707070707070707"}}"#,
            r#"{"$oid":"0707"#,
        ] {
            let mut out = Vec::new();
            assert_eq!((extended(text, &mut out), out.len()), (None, 0), "{text}");
        }
        let (text, rest) = (r#"{ "$oid" : "070707070707070707070707" }"#, r#","b":1}"#);
        let mut out = Vec::new();
        assert_eq!(extended(&format!("{text}{rest}"), &mut out), Some((wire::OBJECT_ID, text.len())));
        assert_eq!(out, [7; 12]);
    }
}
