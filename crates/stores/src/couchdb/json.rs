//! CouchDB's own fields in documents.

use std::borrow::Cow;

pub(super) use storebench_documents::json::{Member, Walk, elements, is_array, member, members, name, push_text, text};

use crate::ascii;

/// The text of the member with this name, if it is one.
pub(super) fn member_text<'a>(object: &'a [u8], name: &str) -> Option<Cow<'a, str>> {
    text(member(object, name)?)
}

/// The revision in a document. CouchDB writes it at the start, PouchDB at the end.
pub(super) fn revision(document: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"\"_rev\":\"";
    let after_id = members(document).take(2).find(|member| member.name == b"_rev").map(|member| member.value);
    match after_id {
        Some(value) => value.strip_prefix(b"\"")?.strip_suffix(b"\""),
        None => {
            let start = memchr::memmem::rfind(document, NAME)? + NAME.len();
            let length = memchr::memchr(b'"', &document[start..])?;
            Some(&document[start..start + length])
        }
    }
}

/// Whether the text has the form of a CouchDB revision: a number, `-`, hexadecimal digits.
pub(super) fn is_revision(text: &[u8]) -> bool {
    let Some(dash) = memchr::memchr(b'-', text) else { return false };
    let (number, digest) = (&text[..dash], &text[dash + 1..]);
    !number.is_empty()
        && !digest.is_empty()
        && text.len() < 200
        && number.iter().all(u8::is_ascii_digit)
        && ascii::all(digest, |byte| byte.is_ascii_hexdigit())
}

/// The first field of `document` that would override the driver's key, revision or deletion flag in CouchDB. An `_id`
/// that equals the key is harmless.
pub(super) fn steering(document: &[u8], key: &str) -> Option<&'static str> {
    const NAMES: [&str; 3] = ["_id", "_rev", "_deleted"];
    let may_have = |sign: &[u8]| memchr::memmem::find(document, sign).is_some();
    if !may_have(b"\"_") && !may_have(b"\"\\u00") {
        return None;
    }
    members(document).find_map(|member| {
        let name = name(member.name)?;
        let found = NAMES.into_iter().find(|reserved| *reserved == name)?;
        (found != "_id" || text(member.value).as_deref() != Some(key)).then_some(found)
    })
}

/// Appends `{"_id":key,"_rev":rev,` and the fields of `document`, which must be an object.
///
/// Otherwise it returns false and appends nothing.
pub(super) fn push_document(out: &mut Vec<u8>, key: &str, revision: Option<&[u8]>, document: &[u8]) -> bool {
    let mut walk = Walk::new(document);
    if walk.take(b'{').is_none() {
        return false;
    }
    let next = walk.peek();
    out.extend_from_slice(b"{\"_id\":");
    push_text(key, out);
    if let Some(revision) = revision {
        out.extend_from_slice(b",\"_rev\":\"");
        out.extend_from_slice(revision);
        out.push(b'"');
    }
    if next != Some(b'}') {
        out.push(b',');
    }
    out.extend_from_slice(&document[walk.at()..]);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_found_in_front_and_at_the_end() {
        assert_eq!(revision(br#"{"_id":"a","_rev":"1-ab","x":{"_rev":"9-ff"}}"#), Some(&b"1-ab"[..]));
        assert_eq!(revision(br#"{"x":{"_rev":"9-ff"},"_id":"a","_rev":"2-cd"}"#), Some(&b"2-cd"[..]));
        assert_eq!(revision(br#"{"x":1}"#), None);
        assert!(is_revision(b"12-0aF") && !is_revision(b"1") && !is_revision(b"-a") && !is_revision(b"1-\"x"));
    }

    #[test]
    fn members_that_would_steer_the_server_are_found_at_the_top_only() {
        let found = |text: &str| steering(text.as_bytes(), "k");
        assert_eq!(found(r#"{"a":"_id","b":{"_rev":"1-x"},"_id":"k","_attachments":{}}"#), None);
        assert_eq!(found(r#"{"a":1,"_id":"other"}"#), Some("_id"));
        assert_eq!(found(r#"{"\u005frev":"1-x"}"#), Some("_rev"));
        assert_eq!(found(r#"{"_deleted":true}"#), Some("_deleted"));
    }

    #[test]
    fn a_document_gets_its_key_and_revision() {
        let mut out = Vec::new();
        assert!(push_document(&mut out, "a\"b", None, b" { } "));
        assert_eq!(out, b"{\"_id\":\"a\\\"b\"} ");
        out.clear();
        assert!(push_document(&mut out, "k", Some(b"1-a"), br#"{"x":1}"#));
        assert_eq!(out, br#"{"_id":"k","_rev":"1-a","x":1}"#);
        assert!(!push_document(&mut out, "k", None, b"[1]"));
    }
}
