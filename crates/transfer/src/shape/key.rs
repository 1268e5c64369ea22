//! How a record's key is derived.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::str::FromStr;

use serde_json::value::RawValue;
use storebench_documents::json::{members, name};

use crate::records::Origin;

/// The field that carries a record's key in files, unless another rule is given. It is not part of the document: it is
/// removed on the way into a store and added on the way out.
pub const KEY_FIELD: &str = "_id";

/// The source of a record's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRule {
    parts: Vec<Part>,
    /// Top-level names of the fields that the key is derived from.
    pub(super) names: Vec<String>,
    /// Whether the key's field is not part of the document.
    pub(super) takes_out: bool,
    typed: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// A field: the position of its top-level name in `names`, and the path below it.
    Field(usize, Vec<String>),
    /// A number that looks random but is derived from the copy's name and the record's origin.
    Uuid,
    /// The record's origin.
    Seq,
}

/// An invalid key rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the key rule `{rule}` {what}; expected a field (`id`) or a template (`{{user}}-{{book}}`, `{{uuid}}`, `{{seq}}`)"
)]
pub struct KeyRuleError {
    rule: String,
    what: &'static str,
}

impl Default for KeyRule {
    fn default() -> Self {
        Self::carried_by(KEY_FIELD)
    }
}

impl FromStr for KeyRule {
    type Err = KeyRuleError;

    /// Parses a field name (`id`, `address.zip`), or a template of literals and `{field}`, `{uuid}`, `{seq}`.
    fn from_str(rule: &str) -> Result<Self, KeyRuleError> {
        let wrong = |what| KeyRuleError { rule: rule.to_owned(), what };
        let mut made = Self { parts: Vec::new(), names: Vec::new(), takes_out: false, typed: rule.to_owned() };
        if !rule.contains(['{', '}']) {
            made.add_field(rule).map_err(wrong)?;
            return Ok(made);
        }
        let mut rest = rule;
        while let Some(open) = rest.find(['{', '}']) {
            if rest.as_bytes()[open] == b'}' {
                return Err(wrong("has `}` without `{`"));
            }
            if open > 0 {
                made.parts.push(Part::Literal(rest[..open].to_owned()));
            }
            let close = open + rest[open..].find('}').ok_or_else(|| wrong("has `{` without `}`"))?;
            match &rest[open + 1..close] {
                "uuid" => made.parts.push(Part::Uuid),
                "seq" => made.parts.push(Part::Seq),
                field => made.add_field(field).map_err(wrong)?,
            }
            rest = &rest[close + 1..];
        }
        if !rest.is_empty() {
            made.parts.push(Part::Literal(rest.to_owned()));
        }
        if made.parts.iter().all(|part| matches!(part, Part::Literal(_))) {
            return Err(wrong("gives every record the same key"));
        }
        Ok(made)
    }
}

impl std::fmt::Display for KeyRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.typed)
    }
}

impl KeyRule {
    /// A rule for a key in a field that is not part of the document.
    pub(crate) fn carried_by(field: &str) -> Self {
        Self {
            parts: vec![Part::Field(0, Vec::new())],
            names: vec![field.to_owned()],
            takes_out: true,
            typed: field.to_owned(),
        }
    }

    /// Whether keys depend on the position of a record in its source.
    pub(crate) fn counts(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Uuid | Part::Seq))
    }

    fn add_field(&mut self, path: &str) -> Result<(), &'static str> {
        let mut names = path.split('.').map(str::to_owned);
        let first = names.next().filter(|name| !name.is_empty() && !name.contains('{')).ok_or("names no field")?;
        let inner: Vec<String> = names.collect();
        if inner.iter().any(String::is_empty) {
            return Err("has an empty name between dots");
        }
        let position = self.names.iter().position(|name| *name == first).unwrap_or_else(|| {
            self.names.push(first);
            self.names.len() - 1
        });
        self.parts.push(Part::Field(position, inner));
        Ok(())
    }

    /// Appends the key. `found` holds the values of `names`, in the same order.
    ///
    /// # Errors
    /// A field is missing or cannot be part of a key.
    pub(crate) fn write(
        &self,
        found: &[Option<&RawValue>],
        copy: &str,
        origin: Origin,
        out: &mut String,
    ) -> Result<(), String> {
        let before = out.len();
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Field(position, path) => {
                    let value = found.get(*position).copied().flatten();
                    let shown = || {
                        std::iter::once(self.names[*position].as_str())
                            .chain(path.iter().map(String::as_str))
                            .collect::<Vec<_>>()
                            .join(".")
                    };
                    out.push_str(&text(value, path).map_err(|what| format!("the key's field `{}` {what}", shown()))?);
                }
                Part::Uuid => push_uuid(copy, origin, out),
                // Writing to a String cannot fail.
                Part::Seq => drop(write!(out, "{:05}-{:014}", origin.unit, origin.at)),
            }
        }
        if out.len() == before { Err("the key is empty".to_owned()) } else { Ok(()) }
    }
}

/// A value as text for a key.
fn text<'a>(value: Option<&'a RawValue>, path: &[String]) -> Result<Cow<'a, str>, &'static str> {
    const MISSING: &str = "is missing";
    let inner = |object: &'a [u8], wanted: &String| {
        members(object).filter(|member| name(member.name).as_deref() == Some(wanted)).last().map(|member| member.value)
    };
    let json = path.iter().try_fold(value.ok_or(MISSING)?.get().as_bytes(), inner).ok_or(MISSING)?;
    let json = std::str::from_utf8(json).map_err(|_| MISSING)?;
    match json.as_bytes()[0] {
        b'"' if !json.contains('\\') => Ok(Cow::Borrowed(&json[1..json.len() - 1])),
        b'"' => serde_json::from_str(json).map(Cow::Owned).map_err(|_| "is not valid UTF-8 text"),
        b'n' => Err("is null"),
        b'[' | b'{' => Err("is a list or an object"),
        _ => Ok(Cow::Borrowed(json)),
    }
}

/// A version 8 UUID (RFC 9562, 5.8): a hash of the copy's name and the record's origin, so that a resumed copy makes
/// the same UUIDs.
fn push_uuid(copy: &str, origin: Origin, out: &mut String) {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    hasher.update(copy.as_bytes());
    hasher.update(&origin.unit.to_le_bytes());
    hasher.update(&origin.at.to_le_bytes());
    let mut bytes = hasher.digest128().to_be_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    for (position, byte) in bytes.iter().enumerate() {
        if matches!(position, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        let _ = write!(out, "{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::super::members::find;
    use super::*;

    fn key(rule: &str, json: &str) -> Result<String, String> {
        let rule: KeyRule = rule.parse().unwrap();
        let (mut found, mut out) = (Vec::new(), String::new());
        find(json, &rule.names, &mut found).unwrap();
        rule.write(&found, "copy", Origin { unit: 2, at: 77 }, &mut out).map(|()| out)
    }

    #[test]
    fn fields_and_templates_make_keys() {
        let json = r#"{"id":"a\u0062","n":7,"deep":{"er":{"x":true,"n":12345678901234567890123,"\u0079":1.0}},"big":123456789012345678901234567890}"#;
        assert_eq!(key("id", json).unwrap(), "ab");
        assert_eq!(key("n", json).unwrap(), "7");
        assert_eq!(key("big", json).unwrap(), "123456789012345678901234567890");
        assert_eq!(key("x/{deep.er.x}-{n}", json).unwrap(), "x/true-7");
        assert_eq!(key("{deep.er.n}/{deep.er.y}", json).unwrap(), "12345678901234567890123/1.0");
        assert_eq!(key("{seq}", json).unwrap(), "00002-00000000000077");
        let uuid = key("{uuid}", json).unwrap();
        assert_eq!((uuid.len(), &uuid[14..15], uuid.clone()), (36, "8", key("{uuid}", json).unwrap()));
    }

    #[test]
    fn what_is_no_part_of_a_key_is_named() {
        let json = r#"{"null":null,"list":[1],"empty":"","deep":{"a":{}},"half":"\ud800","in":{"half":"\ud800"}}"#;
        for (rule, part) in [
            ("nothing", "`nothing` is missing"),
            ("null", "`null` is null"),
            ("list", "`list` is a list"),
            ("empty", "the key is empty"),
            ("{deep.a}", "`deep.a` is a list or an object"),
            ("deep.b", "`deep.b` is missing"),
            ("half", "`half` is not valid UTF-8 text"),
            ("in.half", "`in.half` is not valid UTF-8 text"),
        ] {
            let error = key(rule, json).unwrap_err();
            assert!(error.contains(part), "{rule}: {error}");
        }
    }

    #[test]
    fn rules_that_cannot_be_are_refused() {
        for rule in ["", "{", "}", "a}", "{a", "{}", "a..b", "{a{b}}", "x{}y", "{a}}"] {
            assert!(rule.parse::<KeyRule>().is_err(), "{rule}");
        }
        let error = "{literal".parse::<KeyRule>().unwrap_err().to_string();
        assert!(error.contains("`{` without `}`") && error.contains("{uuid}"), "{error}");
    }
}
