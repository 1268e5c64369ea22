//! Shapes records between source and target: filters them, derives their keys, and makes their documents.

mod expiry;
mod key;
mod maker;
pub(crate) mod members;
mod project;
mod strip;

pub use expiry::Expiry;
pub use key::{KEY_FIELD, KeyRule, KeyRuleError};
pub(crate) use maker::Maker;
pub use project::{Fields, FieldsError, Projection, Renames};
pub(crate) use strip::Strip;

use std::sync::Arc;

use crate::jq::Jq;

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
            names: key.names.clone(),
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
            None if self.key.takes_out && body.first() == Some(&b'{') => {
                members::with_first(body, KEY_FIELD, key, &mut out);
            }
            None => out.extend_from_slice(body),
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Mark, Origin, Records};
    use crate::sink::RecordOp;

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
        (records.iter().map(|(key, body, _)| (key.to_owned(), text(body))).collect(), records.skipped, told)
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
