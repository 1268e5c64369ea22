//! Shapes records between source and target: filters them, derives their keys, and makes their documents.

mod expiry;
mod key;
pub(crate) mod members;
mod project;

pub use expiry::Expiry;
pub use key::{KEY_FIELD, KeyRule, KeyRuleError};
pub use project::{Fields, FieldsError, Projection, Renames};

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::jq::{self, Jq};
use crate::records::{Mark, Origin, Records};
use crate::sink::RecordOp;

/// Makes records from JSON. The steps are: filter, map, extract the key and other fields, project.
#[derive(Debug, Clone)]
pub struct Shape {
    key: KeyRule,
    /// Hashed into derived keys, so that two copies derive different ones.
    copy: String,
    /// Whether to keep keys that come from a store.
    keeps_keys: bool,
    /// Members to look for: those of the key, and others.
    names: Vec<String>,
    /// Index of the name whose value is written instead of the document, if any.
    value: Option<usize>,
    /// Index of the name whose value is the record's operation, if any.
    verb: Option<usize>,
    /// Index of the name whose value is the record's expiry, if any.
    expiry: Option<usize>,
    filter: Option<Arc<Jq>>,
    map: Option<Arc<Jq>>,
    projection: Projection,
}

impl Shape {
    /// Derives keys by this rule. Without a rule, uses the field `_id` of a file's record, or the key of a store's
    /// document.
    pub fn new(key: Option<KeyRule>, copy: &str) -> Self {
        let keeps_keys = key.is_none();
        Self::by(key.unwrap_or_default(), copy, keeps_keys)
    }

    /// The name of the copy, from which some keys are derived.
    pub(crate) fn copy(&self) -> &str {
        &self.copy
    }

    /// Whether keys depend on the position of a record in its source: `{uuid}` and `{seq}`.
    pub fn counts(&self) -> bool {
        self.key.counts()
    }

    fn by(key: KeyRule, copy: &str, keeps_keys: bool) -> Self {
        Self {
            names: key.names().to_vec(),
            key,
            copy: copy.to_owned(),
            keeps_keys,
            value: None,
            verb: None,
            expiry: None,
            filter: None,
            map: None,
            projection: Projection::default(),
        }
    }

    /// Writes the value of a top-level field instead of the document: strings without quotes, other values as JSON.
    #[must_use]
    pub fn with_value(mut self, field: &str) -> Self {
        self.value = Some(self.look_for(field));
        self
    }

    /// Applies the operation that this top-level field of each record names.
    #[must_use]
    pub fn with_verb(mut self, field: &str) -> Self {
        self.verb = Some(self.look_for(field));
        self
    }

    /// Sets the expiry of each document from this top-level field.
    #[must_use]
    pub fn with_expiry(mut self, field: &str) -> Self {
        self.expiry = Some(self.look_for(field));
        self
    }

    /// Drops records for which this expression does not hold.
    #[must_use]
    pub fn with_filter(mut self, filter: Jq) -> Self {
        self.filter = Some(Arc::new(filter));
        self
    }

    /// Replaces each record by the output of this expression, or drops it.
    #[must_use]
    pub fn with_map(mut self, map: Jq) -> Self {
        self.map = Some(Arc::new(map));
        self
    }

    /// Keeps, drops or renames members of each document.
    #[must_use]
    pub fn with_projection(mut self, projection: Projection) -> Self {
        self.projection = projection;
        self
    }

    /// Takes keys from a field that is not part of the document.
    #[must_use]
    pub fn carried_by(field: &str) -> Self {
        Self::by(KeyRule::carried_by(field), "", true)
    }

    fn look_for(&mut self, field: &str) -> usize {
        self.names.iter().position(|name| name == field).unwrap_or_else(|| {
            self.names.push(field.to_owned());
            self.names.len() - 1
        })
    }

    /// Whether a store's documents are copied without being parsed.
    pub(crate) fn is_plain(&self) -> bool {
        let looks = self.value.or(self.verb).or(self.expiry).is_some() || !self.projection.is_empty();
        self.keeps_keys && !looks && self.filter.is_none() && self.map.is_none()
    }

    /// A record as a file would hold it. This is the original if that is known, else the document, with its key added
    /// if that is not part of it.
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

    /// Creates a maker for one thread.
    pub(crate) fn maker(&self) -> Maker<'_> {
        Maker { shape: self, found: Vec::new(), key: String::new(), body: Vec::new(), projected: Vec::new() }
    }
}

/// Makes records for one thread.
pub(crate) struct Maker<'s> {
    shape: &'s Shape,
    // Borrows from the current text; empty between calls.
    found: Vec<Option<&'static RawValue>>,
    key: String,
    body: Vec<u8>,
    projected: Vec<u8>,
}

/// A record as it was read.
#[derive(Clone, Copy)]
struct Came<'a> {
    /// The record as a file would hold it: the input for jq, and what a reject shows.
    seen: &'a str,
    /// The document, unless a map replaces it.
    document: &'a str,
    /// The key, if the record is from a store.
    key: Option<&'a str>,
    origin: Origin,
}

/// The outcome of filter and map for a record.
enum Said {
    /// The record is dropped.
    Nothing,
    /// The record does not change.
    Same,
    /// The record is replaced, with this key if the new one has none.
    Another(String, Option<String>),
}

impl Shape {
    fn ask_jq(&self, came: Came<'_>) -> Result<Said, String> {
        if self.filter.is_none() && self.map.is_none() {
            return Ok(Said::Same);
        }
        // jq accepts more than JSON, so check that this is JSON.
        let mut found = Vec::new();
        members::find(came.seen, &self.names, &mut found)?;
        let mut key = came.key.map(str::to_owned);
        if came.key.is_none() && self.key.takes_out() {
            let mut carried = String::new();
            key = self.key.write(&found, &self.copy, came.origin, &mut carried).is_ok().then_some(carried);
        }
        let variable = || [jq::text_or_null(key.as_deref())];
        let input = jq::value(came.seen)?;
        if let Some(filter) = &self.filter
            && !filter.holds(input.clone(), variable()).map_err(|e| format!("--filter: {e}"))?
        {
            return Ok(Said::Nothing);
        }
        let Some(map) = &self.map else { return Ok(Said::Same) };
        let wrong = |e: String| format!("--map: {e}");
        let Some(made) = map.one(input, variable()).map_err(wrong)? else { return Ok(Said::Nothing) };
        if made.first() != Some(&b'{') {
            return Err(wrong("the output is not a JSON object, which a record must be".to_owned()));
        }
        let made = String::from_utf8(made).map_err(|e| wrong(e.to_string()))?;
        Ok(Said::Another(made, key.filter(|_| self.keeps_keys)))
    }
}

impl Maker<'_> {
    /// Adds a record from a file.
    ///
    /// # Errors
    /// Why the text is not a valid record.
    pub(crate) fn text(&mut self, json: &str, origin: Origin, into: &mut Records) -> Result<(), String> {
        self.make(Came { seen: json, document: json, key: None, origin }, into)
    }

    /// Adds a document from a store.
    ///
    /// # Errors
    /// Why the document is not a valid record.
    pub(crate) fn document(
        &mut self,
        key: &str,
        body: &[u8],
        origin: Origin,
        into: &mut Records,
    ) -> Result<(), String> {
        if self.shape.is_plain() {
            into.push(key, body, origin);
            return Ok(());
        }
        let document = std::str::from_utf8(body).map_err(|e| format!("the document is not UTF-8: {e}"))?;
        let mut seen = Cow::Borrowed(document);
        if self.shape.key.takes_out() {
            let mut found = Vec::new();
            members::find(document, self.shape.key.names(), &mut found)?;
            match found[0] {
                Some(own) if members::is_text(own, key) => {}
                Some(_) if self.shape.filter.is_some() || self.shape.map.is_some() => {
                    return Err(format!(
                        "its field `{KEY_FIELD}` differs from its key, and jq expects the key there; use --key"
                    ));
                }
                Some(_) => {}
                None => {
                    let mut out = Vec::with_capacity(key.len() + document.len() + 9);
                    members::with_first(document.trim_ascii_start().as_bytes(), KEY_FIELD, key, &mut out);
                    seen = String::from_utf8(out).map_err(|e| e.to_string())?.into();
                }
            }
        }
        self.make(Came { seen: &seen, document, key: Some(key), origin }, into)
    }

    fn make(&mut self, came: Came<'_>, into: &mut Records) -> Result<(), String> {
        let said = self.shape.ask_jq(came)?;
        let of_file = came.key.is_none();
        let kept = came.key.filter(|_| self.shape.keeps_keys);
        match &said {
            Said::Nothing => {
                into.skip(came.seen.len());
                Ok(())
            }
            Said::Same => self.add(came.document, kept, of_file, came, into),
            Said::Another(json, key) => self.add(json, key.as_deref(), true, came, into),
        }
    }

    /// Adds a record after filter and map. `kept` is its key if that is in no field. `carries` says whether the key's
    /// field is not part of the document.
    fn add(
        &mut self,
        json: &str,
        kept: Option<&str>,
        carries: bool,
        came: Came<'_>,
        into: &mut Records,
    ) -> Result<(), String> {
        let mut found = shorten(std::mem::take(&mut self.found));
        let result = self.add_found(json, kept, carries, came, &mut found, into);
        found.clear();
        self.found = lengthen(found);
        result
    }

    fn add_found<'a>(
        &mut self,
        json: &'a str,
        kept: Option<&str>,
        carries: bool,
        came: Came<'_>,
        found: &mut Vec<Option<&'a RawValue>>,
        into: &mut Records,
    ) -> Result<(), String> {
        let shape = self.shape;
        members::find(json, &shape.names, found)?;
        let carried = found.first().copied().flatten().filter(|_| carries && shape.key.takes_out());
        self.key.clear();
        match kept {
            Some(kept) if carried.is_none() => self.key.push_str(kept),
            _ => shape.key.write(found, &shape.copy, came.origin, &mut self.key)?,
        }
        if carried.is_some_and(|key| !key.get().starts_with('"')) {
            into.made_text();
        }
        let mark = shape.mark(found)?;
        if let Some(at) = shape.value {
            let value = value_of(found[at], &shape.names[at])?;
            into.push_shaped(&self.key, value.as_bytes(), came.origin, came.seen.as_bytes());
            into.mark(mark);
            return Ok(());
        }
        let mut document = json;
        if let Some(carried) = carried {
            self.body.clear();
            members::without(json, carried, &mut self.body);
            document = std::str::from_utf8(&self.body).map_err(|e| e.to_string())?;
        }
        if !shape.projection.is_empty() {
            self.projected.clear();
            shape.projection.apply(document, &mut self.projected)?;
            into.push_shaped(&self.key, &self.projected, came.origin, came.seen.as_bytes());
        } else if shape.map.is_some() {
            into.push_shaped(&self.key, document.as_bytes(), came.origin, came.seen.as_bytes());
        } else {
            into.push(&self.key, document.as_bytes(), came.origin);
        }
        into.mark(mark);
        Ok(())
    }
}

impl Shape {
    /// The operation and expiry from the record's own fields.
    fn mark(&self, found: &[Option<&RawValue>]) -> Result<Mark, String> {
        let mut mark = Mark::default();
        if let Some(at) = self.verb {
            let name = &self.names[at];
            let json = found[at].ok_or_else(|| format!("the field `{name}`, which names the operation, is missing"))?;
            let verb =
                serde_json::from_str::<Cow<'_, str>>(json.get()).ok().and_then(|text| RecordOp::of_record(&text));
            mark.verb = Some(verb.ok_or_else(|| {
                let known: Vec<&str> = RecordOp::by_record().map(RecordOp::name).collect();
                let json: String = json.get().chars().take(60).collect();
                format!("the field `{name}` is {json}, which is not an operation; expected {}", known.join(", "))
            })?);
        }
        if let Some((json, at)) = self.expiry.and_then(|at| Some((found[at]?, at))) {
            mark.expiry = Expiry::of_json(json.get()).map_err(|e| format!("the field `{}`: {e}", self.names[at]))?;
        }
        Ok(mark)
    }
}

/// The value of a field, to be written instead of the document.
fn value_of<'a>(found: Option<&'a RawValue>, name: &str) -> Result<Cow<'a, str>, String> {
    let json = found.ok_or_else(|| format!("the field `{name}`, whose value is the document, is missing"))?.get();
    if json.starts_with('"') {
        return serde_json::from_str(json).map(Cow::Owned).map_err(|e| format!("the field `{name}`: {e}"));
    }
    Ok(Cow::Borrowed(json))
}

/// Removes a store's own members from its documents.
#[derive(Debug, Clone)]
pub(crate) struct Strip {
    names: Vec<String>,
    /// Index of the name that marks attachments.
    attachments: Option<usize>,
    drop_attachments: bool,
    body: Vec<u8>,
    /// Documents whose attachments were dropped.
    pub(crate) dropped: u64,
}

impl Strip {
    pub(crate) fn new(own: &[&str], attachments: Option<&str>, drop_attachments: bool) -> Self {
        let names = own.iter().copied().chain(attachments).map(str::to_owned).collect();
        let attachments = attachments.map(|_| own.len());
        Self { names, attachments, drop_attachments, body: Vec::new(), dropped: 0 }
    }

    /// The document without those members.
    ///
    /// # Errors
    /// The document has attachments, and dropping them was not allowed.
    pub(crate) fn apply<'b>(&'b mut self, body: &'b [u8]) -> Result<&'b [u8], String> {
        if self.names.is_empty() {
            return Ok(body);
        }
        let (mut has_attachments, attachments) = (false, self.attachments);
        let without = members::keeping(body, |name, _| {
            let own = self.names.iter().position(|own| own == name);
            has_attachments |= own.is_some() && own == attachments;
            Ok::<_, String>(own.is_none())
        })?;
        self.attached(has_attachments)?;
        let Some(without) = without else { return Ok(body) };
        self.body = without;
        Ok(&self.body)
    }
}

impl Strip {
    /// Drops the attachments of a document, if it has any, or refuses it.
    ///
    /// # Errors
    /// Dropping them was not allowed.
    pub(crate) fn attached(&mut self, has_attachments: bool) -> Result<(), String> {
        if has_attachments && !self.drop_attachments {
            return Err("it has attachments, which cannot be copied; use --drop-attachments to drop them".into());
        }
        self.dropped += u64::from(has_attachments);
        Ok(())
    }
}

/// Empties a list so that it can hold borrows of any lifetime. Its memory is kept for the next text.
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
        assert!(missing.contains("`n`, whose value is the document, is missing"), "{missing}");
        // The key's field may also be the value.
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

    fn jq(text: &str) -> Jq {
        Jq::of_record(text).unwrap()
    }

    /// Applies a shape to the records of a file: keys and documents, the number skipped, and the errors.
    fn of_file(shape: &Shape, texts: &[&str]) -> (Vec<(String, String)>, u64, Vec<String>) {
        let (mut records, mut maker, mut told) = (Records::new(), shape.maker(), Vec::new());
        for (at, json) in texts.iter().enumerate() {
            told.extend(maker.text(json, Origin { unit: 0, at: at as u64 }, &mut records).err());
        }
        let text = |body: &[u8]| String::from_utf8(body.to_vec()).unwrap();
        (records.iter().map(|(key, body, _)| (key.to_owned(), text(body))).collect(), records.skipped(), told)
    }

    fn of_store(shape: &Shape, key: &str, json: &str) -> Result<(String, String), String> {
        let mut records = Records::new();
        shape.maker().document(key, json.as_bytes(), Origin::default(), &mut records)?;
        let (key, body, _) = records.get(0).unwrap_or_default();
        Ok((key.to_owned(), String::from_utf8(body.to_vec()).unwrap()))
    }

    fn pair(key: &str, json: &str) -> (String, String) {
        (key.to_owned(), json.to_owned())
    }

    #[test]
    fn a_filter_leaves_out_and_changes_nothing() {
        let shape = Shape::new(None, "c").with_filter(jq("._id == $key and .n > 1"));
        let texts =
            [r#"{"_id":"a","n":1}"#, r#"{ "_id":"b", "n": 2.0, "n":3e0}"#, r#"{"_id":"c","n":{}}"#, "[1]", "nan"];
        let (made, skipped, told) = of_file(&shape, &texts);
        assert_eq!(made, [pair("b", r#"{ "n": 2.0, "n":3e0}"#), pair("c", r#"{"n":{}}"#)]);
        assert_eq!((skipped, told.len()), (1, 2), "{told:?}");
        assert_eq!(of_store(&shape, "k", r#" {"n":7.0}"#).unwrap(), pair("k", r#" {"n":7.0}"#));
        // A document that contains its key is not changed.
        assert_eq!(of_store(&shape, "k", r#"{"_id":"k","n":7}"#).unwrap(), pair("k", r#"{"_id":"k","n":7}"#));
        assert!(of_store(&shape, "k", r#"{"_id":"other","n":7}"#).unwrap_err().contains("differs from its key"));
        let wrong = of_store(&Shape::new(None, "c").with_filter(jq(".n.x")), "k", r#"{"n":7}"#).unwrap_err();
        assert!(wrong.starts_with("--filter: cannot index 7"), "{wrong}");
    }

    #[test]
    fn a_map_makes_other_records_and_may_make_their_keys() {
        let shape = Shape::new(None, "c").with_map(jq("if .n == 0 then empty else {m: .n} end"));
        let (made, skipped, _) = of_file(&shape, &[r#"{"_id":"a","n":1}"#, r#"{"_id":"b","n":0}"#]);
        assert_eq!((made, skipped), (vec![pair("a", r#"{"m":1}"#)], 1));
        assert_eq!(of_store(&shape, "k", r#"{"n":2}"#).unwrap(), pair("k", r#"{"m":2}"#));
        let shape = Shape::new(None, "c").with_map(jq("._id = \"x\" + .isbn | del(.isbn)"));
        assert_eq!(of_file(&shape, &[r#"{"isbn":"1","n":1}"#]).0, [pair("x1", r#"{"n":1}"#)]);
        assert_eq!(of_store(&shape, "k", r#"{"isbn":"2"}"#).unwrap(), pair("x2", "{}"));
        // A rule derives keys from the map's output.
        let shape = Shape::new(Some("m".parse().unwrap()), "c").with_map(jq("{m: .n, old: $key}"));
        assert_eq!(of_file(&shape, &[r#"{"_id":"a","n":1}"#]).0, [pair("1", r#"{"m":1,"old":null}"#)]);
        assert_eq!(of_store(&shape, "k", r#"{"n":2}"#).unwrap(), pair("2", r#"{"m":2,"old":"k"}"#));
        for (map, why) in [
            ("[.]", "not a JSON object"),
            (".,.", "several outputs"),
            (".n | error", "--map: 1"),
            ("{a: nan}", "its output is not JSON"),
        ] {
            let told = of_file(&Shape::new(None, "c").with_map(jq(map)), &[r#"{"_id":"a","n":1}"#]).2;
            assert!(told[0].contains(why), "{map}: {told:?}");
        }
        let told = of_file(&Shape::new(None, "c").with_map(jq("{}")), &["{}"]).2;
        assert!(told[0].contains("`_id` is missing"), "{told:?}");
    }

    #[test]
    fn what_was_shaped_is_told_as_it_came() {
        let shape = Shape::new(None, "c").with_map(jq("{}"));
        let mut records = Records::new();
        shape.maker().text(r#"{"_id":"a","n":1.0}"#, Origin::default(), &mut records).unwrap();
        shape.maker().document("k", br#"{"n":2}"#, Origin::default(), &mut records).unwrap();
        let told = |at: usize| String::from_utf8(shape.original("?", records.before(at), b"{}")).unwrap();
        assert_eq!((told(0), told(1)), (r#"{"_id":"a","n":1.0}"#.to_owned(), r#"{"_id":"k","n":2}"#.to_owned()));
    }

    #[test]
    fn a_projection_comes_last() {
        let only = Projection { without: Some("isbn,op,ttl".parse().unwrap()), ..Projection::default() };
        let shape =
            Shape::new(Some("isbn".parse().unwrap()), "c").with_verb("op").with_expiry("ttl").with_projection(only);
        let mut records = Records::new();
        let mut maker = shape.maker();
        let mut make = |json: &str| maker.text(json, Origin::default(), &mut records);
        make(r#"{"isbn":"1","op":"insert","n":1,"ttl":60}"#).unwrap();
        make(r#"{"isbn":"2","op":"delete","ttl":null}"#).unwrap();
        for (json, why) in [
            (r#"{"isbn":"3"}"#, "`op`, which names the operation, is missing"),
            (r#"{"isbn":"3","op":"drop"}"#, "`op` is \"drop\""),
            (r#"{"isbn":"3","op":7}"#, "expected upsert, insert"),
            (r#"{"isbn":"3","op":"upsert","ttl":"soon"}"#, "`ttl`: invalid expiry \"soon\""),
        ] {
            let told = make(json).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        assert_eq!(records.get(0).map(|(key, body, _)| (key, body)), Some(("1", &br#"{"n":1}"#[..])));
        let minute = Some(Expiry::In(std::time::Duration::from_secs(60)));
        assert_eq!(records.mark_of(0), Mark { verb: Some(RecordOp::Insert), expiry: minute });
        assert_eq!(records.mark_of(1), Mark { verb: Some(RecordOp::Delete), expiry: None });
    }
}
