//! The stored form of documents, and the driver's own member in them.

use std::borrow::Cow;

pub(super) use storebench_documents::json::{Walk, elements, is_array, member, members, push_text, text};
use storebench_engine::store::OpError;
use storebench_study::workload::Body;

use crate::http::{decode_body, encode_body};
use crate::refusals::refused;

/// The member that holds a copy of the key, in indexes that are read in key order. `_id` cannot be sorted by.
pub(super) const KEY: &str = "storebench_key";

/// The text of the member with this name, if it is one.
pub(super) fn member_text<'a>(object: &'a [u8], name: &str) -> Option<Cow<'a, str>> {
    text(member(object, name)?)
}

/// The members `_seq_no` and `_primary_term` as a revision.
pub(super) fn push_revision(object: &[u8], into: &mut Vec<u8>) -> Option<()> {
    into.clear();
    into.extend_from_slice(digits(member(object, "_seq_no")?)?);
    into.push(b',');
    into.extend_from_slice(digits(member(object, "_primary_term")?)?);
    Some(())
}

/// The two numbers of a revision.
pub(super) fn revision(bytes: &[u8]) -> Option<(&str, &str)> {
    let comma = bytes.iter().position(|byte| *byte == b',')?;
    let number = |part| std::str::from_utf8(digits(part)?).ok();
    Some((number(&bytes[..comma])?, number(&bytes[comma + 1..])?))
}

fn digits(text: &[u8]) -> Option<&[u8]> {
    (!text.is_empty() && text.len() < 20 && text.iter().all(u8::is_ascii_digit)).then_some(text)
}

/// Appends the stored form of a body, an object. `key` is added if the index is read in key order.
pub(super) fn encode(kind: Body, key: Option<&str>, body: &[u8], out: &mut Vec<u8>) -> Result<(), OpError> {
    let start = out.len();
    if let Some(key) = key {
        out.push(b'{');
        push_text(KEY, out);
        out.push(b':');
        push_text(key, out);
    }
    let object = out.len();
    encode_body(kind, body, out);
    let mut walk = Walk::new(&out[object..]);
    walk.take(b'{').ok_or_else(|| refused("OpenSearch stores JSON objects only"))?;
    if object > start {
        // What is before the first member of the object becomes a comma, if it has one.
        let before = object + walk.at();
        let empty = walk.peek() == Some(b'}');
        out.splice(object..before, (!empty).then_some(b','));
    }
    Ok(())
}

/// The body of a stored document. `scratch` is where it is decoded to.
pub(super) fn decode<'a>(
    kind: Body,
    keyed: bool,
    stored: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8], OpError> {
    if kind == Body::Json && keyed { Ok(without_key(stored, scratch)) } else { decode_body(kind, stored, scratch) }
}

/// The document without the driver's own member, which is its first one.
fn without_key<'a>(stored: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    let mut walk = Walk::new(stored);
    let first = walk.take(b'{').and_then(|()| walk.member().flatten());
    if first.is_none_or(|first| first.name != KEY.as_bytes()) {
        return stored;
    }
    // Behind the comma, if another member follows.
    let end = walk.at();
    let rest = if walk.take(b',').is_some() { walk.at() } else { end };
    scratch.clear();
    scratch.push(b'{');
    scratch.extend_from_slice(&stored[rest..]);
    scratch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_comes_back_byte_for_byte() {
        let mut scratch = Vec::new();
        for text in
            [r#"{}"#, r#"{ }"#, r#"{"a":1}"#, "{ \"a\" : 1.00 ,\n\"b\":[]}", r#"{"n":123456789012345678901234567890}"#]
        {
            for key in [None, Some("a\"b")] {
                let mut out = Vec::new();
                encode(Body::Json, key, text.as_bytes(), &mut out).unwrap();
                assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok(), "{text}");
                let back = decode(Body::Json, key.is_some(), &out, &mut scratch).unwrap();
                assert_eq!(back, text.as_bytes());
            }
        }
        for (kind, body) in [(Body::Bytes, &b"\0\xff"[..]), (Body::Counter, b"-7")] {
            let mut out = Vec::new();
            encode(kind, Some("k"), body, &mut out).unwrap();
            assert_eq!(decode(kind, true, &out, &mut scratch).unwrap(), body);
            assert!(decode(kind, true, b"{}", &mut scratch).is_err());
        }
        assert!(encode(Body::Json, None, b"[1]", &mut Vec::new()).is_err());
    }

    #[test]
    fn a_revision_has_two_numbers() {
        let mut revision_bytes = Vec::new();
        push_revision(br#"{"_id":"a","_seq_no":12,"_primary_term":3}"#, &mut revision_bytes).unwrap();
        assert_eq!(revision(&revision_bytes), Some(("12", "3")));
        for wrong in [&b""[..], b"1", b"1,", b",1", b"1,x", b"1,2,3", b"123456789012345678901,1"] {
            assert_eq!(revision(wrong), None);
        }
    }
}
