//! Checks that a document read back is the one that was written.

use std::borrow::Cow;

use serde_json::Value;

use super::catalog::Documents;
use super::error::{Mismatch, cut};
use super::plan::MARKER;
use super::{json, same};
use storebench_study::workload::Body;

/// Parses the digits at the beginning. Returns the number and the rest.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let len = text.iter().take_while(|b| b.is_ascii_digit()).count();
    if len == 0 || len > 20 {
        return None;
    }
    let n = text[..len].iter().try_fold(0u64, |n, d| n.checked_mul(10)?.checked_add(u64::from(d - b'0')))?;
    Some((n, &text[len..]))
}

/// The marker of a JSON document. Fast if it is still the first field; otherwise parses the whole document.
pub(crate) fn json_marker(body: &[u8]) -> Option<(u64, u64)> {
    fn first(body: &[u8]) -> Option<(u64, u64)> {
        let rest = body.strip_prefix(b"{\"")?.strip_prefix(MARKER.as_bytes())?.strip_prefix(b"\":[")?;
        let (index, rest) = number(rest)?;
        let (version, rest) = number(rest.strip_prefix(b",")?)?;
        rest.starts_with(b"]").then_some((index, version))
    }
    first(body).or_else(|| value_marker(&serde_json::from_slice(json::member(body, MARKER)?).ok()?))
}

fn value_marker(marker: &Value) -> Option<(u64, u64)> {
    let Value::Array(pair) = marker else { return None };
    // A store may return integers as 3.0; beyond 2^53 that would not be exact.
    let exact = |f: &f64| f.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(f);
    let whole = |n: &Value| n.as_u64().or_else(|| n.as_f64().filter(exact).map(|f| f as u64));
    match &pair[..] {
        [index, version] => Some((whole(index)?, whole(version)?)),
        _ => None,
    }
}

/// The marker of a document of bytes, and what follows it.
pub(crate) fn bytes_marker(body: &[u8]) -> Option<((u64, u64), &[u8])> {
    let rest = body.strip_prefix(MARKER.as_bytes())?.strip_prefix(b":")?;
    let (index, rest) = number(rest)?;
    let (version, rest) = number(rest.strip_prefix(b":")?)?;
    Some(((index, version), rest.strip_prefix(b";")?))
}

fn shown(body: &[u8]) -> String {
    cut(&String::from_utf8_lossy(&body[..body.len().min(400)]))
}

pub(crate) fn check(documents: &Documents, index: u64, body: &[u8], scratch: &mut Vec<u8>) -> Result<u64, Mismatch> {
    let make = |version: u64, scratch: &mut Vec<u8>| {
        scratch.clear();
        documents.write_document(index, version, scratch);
    };
    match documents.body() {
        Body::Counter => match std::str::from_utf8(body).map(str::trim).map(str::parse::<i64>) {
            Ok(Ok(_)) => Ok(0),
            _ => Err(Mismatch::Malformed { reason: format!("`{}` is not an integer", shown(body)) }),
        },
        Body::Bytes => {
            let ((saw, version), _) = bytes_marker(body).ok_or_else(|| Mismatch::NotMadeHere { saw: shown(body) })?;
            if saw != index {
                return Err(Mismatch::WrongDocument { expected: index, saw });
            }
            make(version, scratch);
            if scratch == body { Ok(version) } else { Err(bytes_differ(scratch, body)) }
        }
        Body::Json => {
            let marker = json_marker(body);
            let version = match marker {
                Some((saw, _)) if saw != index => return Err(Mismatch::WrongDocument { expected: index, saw }),
                Some((_, version)) => version,
                // Version 0 of the user's own documents is unmodified and has no marker.
                None if documents.is_own() => 0,
                None => {
                    return Err(match serde_json::from_slice::<Value>(body) {
                        Err(e) => Mismatch::Malformed { reason: format!("{e}: {}", shown(body)) },
                        Ok(_) => Mismatch::NotMadeHere { saw: shown(body) },
                    });
                }
            };
            make(version, scratch);
            if scratch == body || is_same(scratch, body) {
                return Ok(version);
            }
            // They differ, or a number is of another type: says where. Only documents that are not very deep are parsed.
            let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes);
            let saw = read(body).map_err(|e| {
                let is_deep = e.to_string().contains("recursion limit");
                let why = if is_deep {
                    "it differs, and is nested too deeply to show where".to_owned()
                } else {
                    e.to_string()
                };
                Mismatch::Malformed { reason: format!("{why}: {}", shown(body)) }
            })?;
            let expected = read(scratch)
                .map_err(|e| Mismatch::Malformed { reason: format!("the document to compare with: {e}") })?;
            match difference(&expected, &saw, "", true) {
                None => Ok(version),
                Some(mismatch) => Err(mismatch),
            }
        }
    }
}

/// Whether the store has the expected document, maybe with members that it added.
fn is_same(expected: &[u8], saw: &[u8]) -> bool {
    let ours = names(expected);
    let added: Vec<String> = names(saw).into_iter().filter(|name| is_added(name) && !ours.contains(name)).collect();
    let added: Vec<&str> = added.iter().map(String::as_str).collect();
    same::of_record("", expected, &[], true) == same::of_record("", saw, &added, true)
}

/// The names of an object's members.
fn names(object: &[u8]) -> Vec<String> {
    json::members(object).filter_map(|member| json::name(member.name).map(Cow::into_owned)).collect()
}

/// Whether stores add members with such names.
fn is_added(name: &str) -> bool {
    name.starts_with(['_', '@', '$'])
}

fn bytes_differ(expected: &[u8], saw: &[u8]) -> Mismatch {
    let at = expected.iter().zip(saw).take_while(|(a, b)| a == b).count();
    let part = |bytes: &[u8]| {
        let end = (at + 40).min(bytes.len());
        format!("{} bytes, from byte {at}: {}", bytes.len(), shown(&bytes[at.min(end)..end]))
    };
    Mismatch::Field { field: "document".into(), expected: part(expected), saw: part(saw) }
}

/// A store may write 12.50 as 12.5, or 3 as 3.0; but two integers are compared to the last digit.
fn same_number(a: &serde_json::Number, b: &serde_json::Number) -> bool {
    let whole = |n: &serde_json::Number| n.is_i64() || n.is_u64();
    a == b || (!(whole(a) && whole(b)) && a.as_f64().is_some() && a.as_f64() == b.as_f64())
}

/// The first difference between two values. The order of object fields does not matter. At the top level, fields that a
/// store adds are ignored.
fn difference(expected: &Value, saw: &Value, path: &str, top: bool) -> Option<Mismatch> {
    let differ = |expected: String, saw: String| {
        let field = if path.is_empty() { "document".to_owned() } else { path.to_owned() };
        Some(Mismatch::Field { field, expected: cut(&expected), saw: cut(&saw) })
    };
    match (expected, saw) {
        (Value::Object(a), Value::Object(b)) => {
            let place = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            for (name, value) in a {
                match b.get(name) {
                    Some(other) => {
                        if let Some(found) = difference(value, other, &place(name), false) {
                            return Some(found);
                        }
                    }
                    None => {
                        return Some(Mismatch::Field {
                            field: place(name),
                            expected: cut(&value.to_string()),
                            saw: "missing".into(),
                        });
                    }
                }
            }
            b.iter().find(|(name, _)| !(a.contains_key(*name) || top && is_added(name))).map(|(name, value)| {
                Mismatch::Field { field: place(name), expected: "missing".into(), saw: cut(&value.to_string()) }
            })
        }
        (Value::Array(a), Value::Array(b)) => {
            if a.len() != b.len() {
                return differ(format!("{} values", a.len()), format!("{} values", b.len()));
            }
            a.iter().zip(b).enumerate().find_map(|(i, (a, b))| difference(a, b, &format!("{path}[{i}]"), false))
        }
        (Value::Number(a), Value::Number(b)) if same_number(a, b) => None,
        _ if expected == saw => None,
        (Value::String(a), Value::String(b)) => {
            let at = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
            if at < 60 {
                return differ(expected.to_string(), saw.to_string());
            }
            // Long texts with the same beginning: show where they differ.
            let tail = |text: &str| {
                let from = (0..=at - 10).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
                format!("{} bytes, from byte {from}: {}", text.len(), &text[from..])
            };
            differ(tail(a), tail(b))
        }
        _ => differ(expected.to_string(), saw.to_string()),
    }
}
