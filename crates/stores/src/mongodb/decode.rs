//! Decodes a server's BSON to JSON text in one pass.
//!
//! Types that JSON lacks are written as MongoDB's Extended JSON v2 (canonical), so that documents of other programs
//! lose nothing:
//! <https://github.com/mongodb/specifications/blob/master/source/extended-json/extended-json.md>.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use storebench_study::workload::Body;

use super::bson::{
    ARRAY, BINARY, BOOL, DATE, DOCUMENT, DOUBLE, Garbage, INT32, INT64, Members, NULL, OBJECT_ID, STRING, Value,
};
use super::encode::{EXPIRY, KEY, REVISION};

/// Deeper than any document that MongoDB stores. Protects this program's stack.
const DEEPEST: u32 = 220;

/// What a stored document holds besides its body.
#[derive(Debug, Default)]
pub(super) struct DecodedDocument<'b> {
    pub(super) key: Option<Value<'b>>,
    /// The revision, if this driver wrote the document.
    pub(super) revision: Option<i64>,
    /// The BSON type of the requested member.
    pub(super) field: Option<u8>,
}

/// Appends the body of a stored document to `out`: what the user stored, without the driver's own members. `field`
/// names a top-level member whose type to report.
pub(super) fn document<'b>(
    stored: &'b [u8],
    kind: Body,
    field: Option<&str>,
    out: &mut Vec<u8>,
) -> Result<DecodedDocument<'b>, Garbage> {
    let mut found = DecodedDocument::default();
    let mut first = true;
    let mut whole = kind == Body::Json;
    if whole {
        out.push(b'{');
    }
    for member in Members::of(stored)? {
        let (name, value) = member?;
        if name.starts_with('_') {
            match name {
                KEY => {
                    found.key = Some(value);
                    continue;
                }
                REVISION if value.kind == INT64 => {
                    found.revision = value.as_i64();
                    continue;
                }
                EXPIRY if value.kind == DATE => continue,
                _ => {}
            }
        }
        match kind {
            Body::Json => {
                if field == Some(name) {
                    found.field = Some(value.kind);
                }
                if !std::mem::take(&mut first) {
                    out.push(b',');
                }
                text(name, out);
                out.push(b':');
                write(value, out, 0)?;
            }
            Body::Bytes if name == "b" => {
                out.extend_from_slice(value.as_binary().ok_or(Garbage)?);
                whole = true;
            }
            Body::Counter if name == "n" => {
                out.extend_from_slice(itoa::Buffer::new().format(value.as_i64().ok_or(Garbage)?).as_bytes());
                whole = true;
            }
            _ => {}
        }
    }
    if kind == Body::Json {
        out.push(b'}');
    }
    if whole { Ok(found) } else { Err(Garbage) }
}

/// Whether two BSON types are the same JSON type.
pub(super) fn same_type(a: u8, b: u8) -> bool {
    let number = |kind| matches!(kind, INT32 | INT64 | DOUBLE);
    a == b || (number(a) && number(b))
}

/// Appends a value as JSON.
pub(super) fn write(value: Value<'_>, out: &mut Vec<u8>, depth: u32) -> Result<(), Garbage> {
    if depth > DEEPEST {
        return Err(Garbage);
    }
    match value.kind {
        STRING => text(value.as_str().ok_or(Garbage)?, out),
        DOCUMENT | ARRAY => {
            let object = value.kind == DOCUMENT;
            out.push(if object { b'{' } else { b'[' });
            for (position, member) in value.members().ok_or(Garbage)?.enumerate() {
                let (name, inner) = member?;
                if position > 0 {
                    out.push(b',');
                }
                if object {
                    text(name, out);
                    out.push(b':');
                }
                write(inner, out, depth + 1)?;
            }
            out.push(if object { b'}' } else { b']' });
        }
        INT32 | INT64 => {
            out.extend_from_slice(itoa::Buffer::new().format(value.as_i64().ok_or(Garbage)?).as_bytes());
        }
        DOUBLE => {
            let number = value.as_f64().ok_or(Garbage)?;
            if number.is_finite() {
                serde_json::to_writer(&mut *out, &number).map_err(|_| Garbage)?;
            } else {
                let name = if number.is_nan() {
                    "NaN"
                } else if number > 0.0 {
                    "Infinity"
                } else {
                    "-Infinity"
                };
                extended("$numberDouble", name, out);
            }
        }
        BOOL => out.extend_from_slice(if value.bytes == [0] { b"false" } else { b"true" }),
        NULL => out.extend_from_slice(b"null"),
        _ => other(value, out, depth)?,
    }
    Ok(())
}

/// Appends a value of a type that JSON lacks.
fn other(value: Value<'_>, out: &mut Vec<u8>, depth: u32) -> Result<(), Garbage> {
    let bytes = value.bytes;
    match value.kind {
        OBJECT_ID => extended("$oid", &hex(bytes), out),
        DATE => {
            out.extend_from_slice(br#"{"$date":"#);
            let ms = i64::from_le_bytes(bytes.try_into().map_err(|_| Garbage)?);
            extended("$numberLong", itoa::Buffer::new().format(ms), out);
            out.push(b'}');
        }
        BINARY => {
            let (subtype, data) = bytes.get(4..).and_then(<[u8]>::split_first).ok_or(Garbage)?;
            out.extend_from_slice(br#"{"$binary":{"base64":"#);
            text(&STANDARD.encode(data), out);
            out.extend_from_slice(br#","subType":"#);
            text(&hex(&[*subtype]), out);
            out.extend_from_slice(b"}}");
        }
        0x06 => out.extend_from_slice(br#"{"$undefined":true}"#),
        0x0B => {
            let mut parts = bytes.split(|b| *b == 0).map(String::from_utf8_lossy);
            out.extend_from_slice(br#"{"$regularExpression":{"pattern":"#);
            text(&parts.next().unwrap_or_default(), out);
            out.extend_from_slice(br#","options":"#);
            text(&parts.next().unwrap_or_default(), out);
            out.extend_from_slice(b"}}");
        }
        0x0D | 0x0E => {
            let name = if value.kind == 0x0D { "$code" } else { "$symbol" };
            let inner = bytes.get(4..bytes.len() - 1).ok_or(Garbage)?;
            extended(name, &String::from_utf8_lossy(inner), out);
        }
        0x0C => {
            let (name, id) = bytes.split_at_checked(bytes.len().saturating_sub(12)).ok_or(Garbage)?;
            let name = name.get(4..name.len().saturating_sub(1)).ok_or(Garbage)?;
            out.extend_from_slice(br#"{"$dbPointer":{"$ref":"#);
            text(&String::from_utf8_lossy(name), out);
            out.extend_from_slice(br#","$id":"#);
            extended("$oid", &hex(id), out);
            out.extend_from_slice(b"}}");
        }
        0x0F => {
            let code_end = bytes.get(4..).and_then(<[u8]>::first_chunk).map(|b| u32::from_le_bytes(*b) as usize + 8);
            let (code, scope) = code_end.and_then(|end| bytes.split_at_checked(end)).ok_or(Garbage)?;
            out.extend_from_slice(br#"{"$code":"#);
            text(&String::from_utf8_lossy(code.get(8..code.len().saturating_sub(1)).ok_or(Garbage)?), out);
            out.extend_from_slice(br#","$scope":"#);
            write(Value { kind: DOCUMENT, bytes: scope }, out, depth + 1)?;
            out.push(b'}');
        }
        0x11 => {
            let stamp = u64::from_le_bytes(bytes.try_into().map_err(|_| Garbage)?);
            let (seconds, count) = ((stamp >> 32) as u32, stamp as u32);
            out.extend_from_slice(format!(r#"{{"$timestamp":{{"t":{seconds},"i":{count}}}}}"#).as_bytes());
        }
        0x13 => {
            let bytes = bytes.try_into().map_err(|_| Garbage)?;
            extended("$numberDecimal", &::bson::Decimal128::from_bytes(bytes).to_string(), out);
        }
        0xFF => out.extend_from_slice(br#"{"$minKey":1}"#),
        0x7F => out.extend_from_slice(br#"{"$maxKey":1}"#),
        _ => return Err(Garbage),
    }
    Ok(())
}

fn extended(name: &str, value: &str, out: &mut Vec<u8>) {
    out.push(b'{');
    text(name, out);
    out.push(b':');
    text(value, out);
    out.push(b'}');
}

/// Bytes as hexadecimal digits, as object ids are written.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|b| [b >> 4, b & 15]).filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

/// Appends a string with its quotes and escapes.
fn text(value: &str, out: &mut Vec<u8>) {
    let bytes = value.as_bytes();
    out.push(b'"');
    let mut done = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if *byte >= 0x20 && *byte != b'"' && *byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[done..at]);
        done = at + 1;
        let short = match byte {
            b'"' | b'\\' => *byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            _ => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(hex(&[*byte]).as_bytes());
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
    }
    out.extend_from_slice(&bytes[done..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
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
}
