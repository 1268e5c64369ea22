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
mod tests;
