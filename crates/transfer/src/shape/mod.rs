//! What becomes of a record between source and target: its key, and which text is the document.

mod key;
pub(crate) mod members;

pub use key::{KEY_FIELD, KeyRule, KeyRuleError};

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::records::{Origin, Records};

/// Makes records of JSON texts.
#[derive(Debug, Clone)]
pub struct Shape {
    key: KeyRule,
    /// Part of derived keys, so that two copies make different ones.
    copy: String,
    /// Whether keys that a store gave are kept.
    keeps_keys: bool,
    /// Members that are looked for: those of the key, and the value.
    names: Vec<String>,
    /// Which of the names is the value, where the document is not written as a whole.
    value: Option<usize>,
}

impl Shape {
    /// Keys by this rule, or, without one, by the field `_id` of a file's record and the key of a store's.
    pub fn new(key: Option<KeyRule>, copy: &str) -> Self {
        let keeps_keys = key.is_none();
        let key = key.unwrap_or_default();
        Self { names: key.names().to_vec(), key, copy: copy.to_owned(), keeps_keys, value: None }
    }

    /// Writes the value of a top-level field instead of the document: a text without its quotes, anything
    /// else as JSON.
    #[must_use]
    pub fn with_value(mut self, field: &str) -> Self {
        let known = self.names.iter().position(|name| name == field);
        self.value = Some(known.unwrap_or_else(|| {
            self.names.push(field.to_owned());
            self.names.len() - 1
        }));
        self
    }

    /// Keys by a field that is no part of the document.
    pub(crate) fn carried_by(field: &str) -> Self {
        let key = KeyRule::carried_by(field);
        Self { names: key.names().to_vec(), key, copy: String::new(), keeps_keys: true, value: None }
    }

    /// A record as a file would hold it: as it came where that is known, else with its key where that is no
    /// part of the document.
    pub(crate) fn original(&self, key: &str, before: Option<&[u8]>, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match before {
            Some(before) => out.extend_from_slice(before),
            None if self.key.takes_out() && body.first() == Some(&b'{') => {
                members::with_first(body, KEY_FIELD, key, &mut out);
            }
            None => out.extend_from_slice(body),
        }
        out
    }

    /// A maker for one thread.
    pub(crate) fn maker(&self) -> Maker<'_> {
        Maker { shape: self, found: Vec::new(), key: String::new(), body: Vec::new() }
    }
}

/// Makes records for one thread.
pub(crate) struct Maker<'s> {
    shape: &'s Shape,
    // Borrows from the text at hand only; empty between calls.
    found: Vec<Option<&'static RawValue>>,
    key: String,
    body: Vec<u8>,
}

impl Maker<'_> {
    /// Adds the record of a file.
    ///
    /// # Errors
    /// Why it is none.
    pub(crate) fn text(&mut self, json: &str, origin: Origin, into: &mut Records) -> Result<(), String> {
        let rule = &self.shape.key;
        let mut found = shorten(std::mem::take(&mut self.found));
        let result = (|| {
            members::find(json, &self.shape.names, &mut found).map_err(|e| format!("broken JSON: {e}"))?;
            self.key.clear();
            rule.write(&found, &self.shape.copy, origin, &mut self.key)?;
            if let Some(at) = self.shape.value {
                let value = value_of(found[at], &self.shape.names[at])?;
                into.push_shaped(&self.key, value.as_bytes(), origin, json.as_bytes());
                return Ok(());
            }
            match found.first().copied().flatten().filter(|_| rule.takes_out()) {
                None => into.push(&self.key, json.as_bytes(), origin),
                Some(value) => {
                    self.body.clear();
                    members::without(json, value, &mut self.body);
                    into.push(&self.key, &self.body, origin);
                }
            }
            Ok(())
        })();
        found.clear();
        self.found = lengthen(found);
        result
    }

    /// Adds the document of a store.
    ///
    /// # Errors
    /// Why a rule makes no key of it.
    pub(crate) fn document(
        &mut self,
        key: &str,
        body: &[u8],
        origin: Origin,
        into: &mut Records,
    ) -> Result<(), String> {
        let Shape { keeps_keys, value, names, .. } = self.shape;
        if *keeps_keys && value.is_none() {
            into.push(key, body, origin);
            return Ok(());
        }
        let json = std::str::from_utf8(body).map_err(|e| format!("the document is not UTF-8: {e}"))?;
        let Some(at) = value.filter(|_| *keeps_keys) else { return self.text(json, origin, into) };
        let mut found = Vec::new();
        members::find(json, names, &mut found).map_err(|e| format!("broken JSON: {e}"))?;
        into.push_shaped(key, value_of(found[at], &names[at])?.as_bytes(), origin, body);
        Ok(())
    }
}

/// A field as what is written instead of the document.
fn value_of<'a>(found: Option<&'a RawValue>, name: &str) -> Result<Cow<'a, str>, String> {
    let json = found.ok_or_else(|| format!("the field `{name}`, whose value is to be written, is missing"))?.get();
    if json.starts_with('"') {
        return serde_json::from_str(json).map(Cow::Owned).map_err(|e| format!("the field `{name}`: {e}"));
    }
    Ok(Cow::Borrowed(json))
}

/// Takes members that are a store's own out of what it gave.
#[derive(Debug, Clone)]
pub(crate) struct Strip {
    names: Vec<String>,
    /// The one of them that tells of attachments.
    attachments: Option<usize>,
    drop_attachments: bool,
    body: Vec<u8>,
    /// Documents whose attachments were left behind.
    pub(crate) dropped: u64,
}

impl Strip {
    pub(crate) fn new(own: &[&str], attachments: Option<&str>, drop_attachments: bool) -> Self {
        let names = own.iter().copied().chain(attachments).map(str::to_owned).collect();
        let attachments = attachments.map(|_| own.len());
        Self { names, attachments, drop_attachments, body: Vec::new(), dropped: 0 }
    }

    /// The document without them.
    ///
    /// # Errors
    /// It has attachments, which nobody said may be left behind.
    pub(crate) fn apply<'b>(&'b mut self, body: &'b [u8]) -> Result<&'b [u8], String> {
        if self.names.is_empty() {
            return Ok(body);
        }
        let mut found = Vec::new();
        // What is no JSON object has no members.
        let Some(json) = std::str::from_utf8(body).ok() else { return Ok(body) };
        if members::find(json, &self.names, &mut found).is_err() {
            return Ok(body);
        }
        if self.attachments.is_some_and(|at| found[at].is_some()) {
            if !self.drop_attachments {
                return Err(
                    "it has attachments, which are not copied; leave them behind with --drop-attachments".into()
                );
            }
            self.dropped += 1;
        }
        self.body.clear();
        members::without_all(json, &found, &mut self.body);
        Ok(&self.body)
    }
}

/// An empty list may hold borrows of any length: its memory is kept over texts.
fn lengthen(found: Vec<Option<&RawValue>>) -> Vec<Option<&'static RawValue>> {
    found.into_iter().map(|_| None).collect()
}

fn shorten<'a>(found: Vec<Option<&'static RawValue>>) -> Vec<Option<&'a RawValue>> {
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(rule: Option<&str>, json: &str) -> Result<(String, String), String> {
        let shape = Shape::new(rule.map(|rule| rule.parse().unwrap()), "copy");
        let mut records = Records::new();
        shape.maker().text(json, Origin::default(), &mut records)?;
        let (key, body, _) = records.get(0).unwrap();
        Ok((key.to_owned(), String::from_utf8(body.to_vec()).unwrap()))
    }

    #[test]
    fn the_key_travels_beside_the_document_or_in_it() {
        let json = r#"{"_id":"a","n":1}"#;
        assert_eq!(made(None, json).unwrap(), ("a".into(), r#"{"n":1}"#.into()));
        assert_eq!(made(Some("_id"), json).unwrap(), ("a".into(), json.into()));
        assert_eq!(made(Some("x{n}"), json).unwrap(), ("x1".into(), json.into()));
        assert!(made(None, r#"{"n":1}"#).unwrap_err().contains("`_id` is missing"));
        assert!(made(None, r#"{"n":1"#).unwrap_err().contains("broken JSON"));
    }

    #[test]
    fn the_value_of_a_field_is_written_instead_of_the_document() {
        let shape = Shape::new(None, "copy").with_value("n");
        let mut records = Records::new();
        let texts = [r#"{"n":7,"_id":"a"}"#, r#"{"_id":"b","n":"t\"x"}"#, r#"{"_id":"c","n":{"x":1}}"#];
        texts.iter().for_each(|json| shape.maker().text(json, Origin::default(), &mut records).unwrap());
        shape.maker().document("d", br#"{"n":-1}"#, Origin::default(), &mut records).unwrap();
        let bodies: Vec<_> = records.iter().map(|(key, body, _)| (key, std::str::from_utf8(body).unwrap())).collect();
        assert_eq!(bodies, [("a", "7"), ("b", "t\"x"), ("c", r#"{"x":1}"#), ("d", "-1")]);
        assert_eq!(shape.original("b", records.before(1), b"t"), texts[1].as_bytes());
        let missing = shape.maker().text(r#"{"_id":"e"}"#, Origin::default(), &mut records).unwrap_err();
        assert!(missing.contains("`n`, whose value is to be written, is missing"), "{missing}");
        // The key's own field may be the value.
        let shape = Shape::new(Some("n".parse().unwrap()), "copy").with_value("n");
        let mut records = Records::new();
        shape.maker().text(r#"{"n":7}"#, Origin::default(), &mut records).unwrap();
        assert_eq!(records.get(0).map(|(key, body, _)| (key, body)), Some(("7", &b"7"[..])));
    }

    #[test]
    fn a_record_that_is_told_can_be_copied_again() {
        let shape = Shape::new(None, "copy");
        assert_eq!(shape.original("a", None, br#"{"n":1}"#), br#"{"_id":"a","n":1}"#);
        assert_eq!(shape.original("a", None, b"[1]"), b"[1]");
        let by_rule = Shape::new(Some("n".parse().unwrap()), "copy");
        assert_eq!(by_rule.original("1", None, br#"{"n":1}"#), br#"{"n":1}"#);
    }

    #[test]
    fn a_store_s_keys_are_kept_unless_a_rule_is_given() {
        let mut records = Records::new();
        let body = br#"{"_id":7,"n":1}"#;
        Shape::new(None, "c").maker().document("k", body, Origin::default(), &mut records).unwrap();
        Shape::new(Some("n".parse().unwrap()), "c")
            .maker()
            .document("k", body, Origin::default(), &mut records)
            .unwrap();
        let all: Vec<_> = records.iter().map(|(k, b, _)| (k.to_owned(), b == body)).collect();
        assert_eq!(all, [("k".to_owned(), true), ("1".to_owned(), true)]);
    }
}
