//! Reads what CouchDB answers without building values of it: members and elements are slices of the
//! answer, and a document stays the bytes that came.

use std::borrow::Cow;

/// The members of an object, by name as written (escapes kept) and value.
pub(super) struct Members<'a>(Items<'a>);

/// The elements of an array.
pub(super) struct Elements<'a>(Items<'a>);

struct Items<'a> {
    text: &'a [u8],
    at: usize,
    end: u8,
}

/// The members of `text`, if that begins as an object. Ends early where it is not JSON.
pub(super) fn members(text: &[u8]) -> Members<'_> {
    Members(Items::of(text, b'{', b'}'))
}

/// The elements of `text`, if that begins as an array. Ends early where it is not JSON.
pub(super) fn elements(text: &[u8]) -> Elements<'_> {
    Elements(Items::of(text, b'[', b']'))
}

/// The value of a member, if `text` is an object with such a member.
pub(super) fn member<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    members(text).find(|(found, _)| *found == name.as_bytes()).map(|(_, value)| value)
}

/// The text of a JSON string; none where it is no string.
pub(super) fn string(value: &[u8]) -> Option<Cow<'_, str>> {
    let inside = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if memchr::memchr(b'\\', inside).is_none() {
        return std::str::from_utf8(inside).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice::<String>(value).ok().map(Cow::Owned)
}

/// Whether the whole of `text` is one JSON array, as far as its brackets tell.
pub(super) fn is_array(text: &[u8]) -> bool {
    let start = skip_space(text, 0);
    text.get(start) == Some(&b'[') && skip_value(text, start).is_some()
}

/// The revision that a document carries. CouchDB writes it in front, PouchDB at the end.
pub(super) fn revision(document: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"\"_rev\":\"";
    let after_id = members(document).take(2).find(|(name, _)| *name == b"_rev").map(|(_, value)| value);
    match after_id {
        Some(value) => value.strip_prefix(b"\"")?.strip_suffix(b"\""),
        None => {
            let start = memchr::memmem::rfind(document, NAME)? + NAME.len();
            let length = memchr::memchr(b'"', &document[start..])?;
            Some(&document[start..start + length])
        }
    }
}

/// Whether this is how CouchDB writes a revision: a number, `-`, hexadecimal digits.
pub(super) fn is_revision(text: &[u8]) -> bool {
    let Some(dash) = memchr::memchr(b'-', text) else { return false };
    let (number, digest) = (&text[..dash], &text[dash + 1..]);
    !number.is_empty()
        && !digest.is_empty()
        && text.len() < 200
        && number.iter().all(u8::is_ascii_digit)
        && digest.iter().all(u8::is_ascii_hexdigit)
}

/// The first member of `document` that says something to CouchDB in the place of what the driver says: its key, its
/// revision, that it is deleted. The key itself says nothing new.
pub(super) fn steering(document: &[u8], key: &str) -> Option<&'static str> {
    const NAMES: [&str; 3] = ["_id", "_rev", "_deleted"];
    let may_have = |sign: &[u8]| memchr::memmem::find(document, sign).is_some();
    if !may_have(b"\"_") && !may_have(b"\"\\u00") {
        return None;
    }
    members(document).find_map(|(name, value)| {
        let quoted = [b"\"", name, b"\""].concat();
        let name = string(&quoted)?;
        let found = NAMES.into_iter().find(|reserved| *reserved == name)?;
        (found != "_id" || string(value).as_deref() != Some(key)).then_some(found)
    })
}

/// Appends `{"_id":key,"_rev":rev,` and the members of `document`, which must be an object.
///
/// Gives false, and appends nothing, where it is none.
pub(super) fn push_document(out: &mut Vec<u8>, key: &str, revision: Option<&[u8]>, document: &[u8]) -> bool {
    let open = skip_space(document, 0);
    if document.get(open) != Some(&b'{') {
        return false;
    }
    let first = skip_space(document, open + 1);
    out.extend_from_slice(b"{\"_id\":");
    push_string(out, key);
    if let Some(revision) = revision {
        out.extend_from_slice(b",\"_rev\":\"");
        out.extend_from_slice(revision);
        out.push(b'"');
    }
    if document.get(first) != Some(&b'}') {
        out.push(b',');
    }
    out.extend_from_slice(&document[first..]);
    true
}

/// Appends a JSON string.
pub(super) fn push_string(out: &mut Vec<u8>, text: &str) {
    // A Vec takes everything and a string is always JSON.
    let _ = serde_json::to_writer(out, text);
}

impl<'a> Items<'a> {
    fn of(text: &'a [u8], open: u8, end: u8) -> Self {
        let start = skip_space(text, 0);
        let at = if text.get(start) == Some(&open) { start + 1 } else { text.len() };
        Self { text, at, end }
    }

    /// Where the next item begins; none at the end.
    fn start(&mut self) -> Option<usize> {
        let mut at = skip_space(self.text, self.at);
        if self.text.get(at) == Some(&b',') {
            at = skip_space(self.text, at + 1);
        }
        if self.text.get(at).is_none_or(|byte| *byte == self.end) {
            self.at = self.text.len();
            return None;
        }
        Some(at)
    }

    fn value(&mut self, start: usize) -> Option<&'a [u8]> {
        let end = skip_value(self.text, start);
        self.at = end.unwrap_or(self.text.len());
        end.map(|end| &self.text[start..end])
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.0.start()?;
        let name = self.0.value(start)?.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        let colon = skip_space(self.0.text, self.0.at);
        if self.0.text.get(colon) != Some(&b':') {
            self.0.at = self.0.text.len();
            return None;
        }
        let start = skip_space(self.0.text, colon + 1);
        Some((name, self.0.value(start)?))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.0.start()?;
        self.0.value(start)
    }
}

fn skip_space(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// Where the value ends that begins at `start`.
fn skip_value(text: &[u8], start: usize) -> Option<usize> {
    match *text.get(start)? {
        b'"' => skip_string(text, start),
        b'{' | b'[' => {
            let (mut at, mut depth) = (start, 0_usize);
            loop {
                // Between strings only brackets count.
                at += text.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'))?;
                match text[at] {
                    b'"' => at = skip_string(text, at)?,
                    b'{' | b'[' => {
                        depth += 1;
                        at += 1;
                    }
                    _ => {
                        depth -= 1;
                        at += 1;
                        if depth == 0 {
                            return Some(at);
                        }
                    }
                }
            }
        }
        b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
            let length =
                text[start..].iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n'));
            Some(length.map_or(text.len(), |length| start + length))
        }
        _ => None,
    }
}

fn skip_string(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn members_and_elements_are_slices_of_the_text() {
        let text = br#" {"a" : [1, "x]\"", {"b":2}] ,"c":null,"d":"e\u00e9"} "#;
        let found: Vec<_> = members(text).map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].1, br#"[1, "x]\"", {"b":2}]"#);
        let inner: Vec<_> = elements(&found[0].1).collect();
        assert_eq!(inner, [&b"1"[..], br#""x]\"""#, br#"{"b":2}"#]);
        assert_eq!(string(&found[2].1).as_deref(), Some("eé"));
        assert_eq!(elements(b"[]").count() + members(b"{}").count() + elements(b"").count(), 0);
        assert!(is_array(b" [] ") && !is_array(b"[") && !is_array(b"{}"));
    }

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
    fn no_depth_ends_a_walk() {
        let deep = format!(r#"{{"a":{}{},"b":2}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(member(deep.as_bytes(), "b"), Some(&b"2"[..]));
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

    proptest! {
        #[test]
        fn any_bytes_are_taken(text: Vec<u8>) {
            let _ = members(&text).count() + elements(&text).count();
            let _ = (revision(&text), string(&text), is_array(&text));
        }

        #[test]
        fn whatever_serde_writes_is_read(values: Vec<(String, Vec<i32>)>) {
            let text = serde_json::to_vec(&values).unwrap();
            let read: Vec<(String, usize)> = elements(&text)
                .map(|pair| {
                    let mut pair = elements(pair);
                    let name = string(pair.next().unwrap()).unwrap().into_owned();
                    (name, elements(pair.next().unwrap()).count())
                })
                .collect();
            let expected: Vec<_> = values.iter().map(|(name, list)| (name.clone(), list.len())).collect();
            prop_assert_eq!(read, expected);
        }
    }
}
