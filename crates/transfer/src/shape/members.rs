//! Finds and edits members of a JSON object without parsing it into a tree.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use storebench_documents::json::push_text;

/// Tracks which bytes of JSON are outside of strings.
#[derive(Default)]
pub(crate) struct Texts {
    within: bool,
    escaped: bool,
}

impl Texts {
    /// Advances by one byte. Returns whether it is outside of strings.
    pub(crate) fn is_outside(&mut self, byte: u8) -> bool {
        if self.within {
            self.within = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            return false;
        }
        self.within = byte == b'"';
        !self.within
    }
}

/// Finds top-level members by name, each as a slice of `json`, and checks that the text is one JSON object.
///
/// # Errors
/// What is wrong with the JSON, and the column; or which of the names occurs twice. Parsers disagree about which of two
/// members counts, so a record whose key or operation is among them has no certain meaning.
pub(crate) fn find<'a>(json: &'a str, names: &[String], found: &mut Vec<Option<&'a RawValue>>) -> Result<(), String> {
    found.clear();
    found.resize(names.len(), None);
    let mut twice = None;
    let mut parser = serde_json::Deserializer::from_str(json);
    let parsed = parser.deserialize_map(Members { names, found, twice: &mut twice }).and_then(|()| parser.end());
    parsed.map_err(|e| wrong(json, &e))?;
    match twice {
        None => Ok(()),
        Some(position) => Err(format!("its field `{}` occurs twice; remove one of them", names[position])),
    }
}

/// Why a text is not a record.
fn wrong(json: &str, error: &serde_json::Error) -> String {
    if !error.is_data() {
        return format!("broken JSON: {error}");
    }
    let kind = match json.trim_start().bytes().next() {
        Some(b'[') => "a list",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "null",
        _ => "a number",
    };
    format!("it is {kind}, but a record must be a JSON object such as {{\"_id\": \"a\"}}")
}

struct Members<'n, 'f, 'a> {
    names: &'n [String],
    found: &'f mut Vec<Option<&'a RawValue>>,
    /// Position of a name that occurs twice.
    twice: &'f mut Option<usize>,
}

impl<'a> Visitor<'a> for Members<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key_seed(Name(self.names))? {
            match name {
                None => drop(map.next_value::<IgnoredAny>()?),
                Some(position) => {
                    if self.found[position].replace(map.next_value()?).is_some() {
                        *self.twice = Some(position);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Matches a member's name against the wanted names; gives the position.
struct Name<'n>(&'n [String]);

impl<'a> DeserializeSeed<'a> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'a>>(self, parser: D) -> Result<Option<usize>, D::Error> {
        parser.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Option<usize>, E> {
        Ok(self.0.iter().position(|wanted| wanted == name))
    }
}

/// Appends `json` without one of its members. `value` is a slice of `json`.
pub(crate) fn without(json: &str, value: &RawValue, out: &mut Vec<u8>) {
    let start = value.get().as_ptr() as usize - json.as_ptr() as usize;
    let mut end = start + value.get().len();
    let bytes = json.as_bytes();
    let blank = |b: u8| matches!(b, b' ' | b'\t' | b'\n' | b'\r');
    let before = |mut at: usize| {
        while at > 0 && blank(bytes[at - 1]) {
            at -= 1;
        }
        at
    };
    // A colon and the quoted name precede the value.
    let colon = before(start) - 1;
    let mut begin = before(colon) - 1;
    loop {
        begin = memchr::memrchr(b'"', &bytes[..begin]).unwrap_or(0);
        let escapes = bytes[..begin].iter().rev().take_while(|byte| **byte == b'\\').count();
        // A quote after an odd number of backslashes is part of the name.
        if escapes % 2 == 0 {
            break;
        }
    }
    let previous = before(begin);
    if bytes[previous - 1] == b',' {
        begin = previous - 1;
    } else {
        while blank(bytes[end]) {
            end += 1;
        }
        if bytes[end] == b',' {
            end += 1;
            while blank(bytes[end]) {
                end += 1;
            }
        }
    }
    out.extend_from_slice(&bytes[..begin]);
    out.extend_from_slice(&bytes[end..]);
}

/// Appends an object with an additional first member. `json` starts with its brace.
pub(crate) fn with_first(json: &[u8], name: &str, value: &str, out: &mut Vec<u8>) {
    out.push(b'{');
    push_text(name, out);
    out.push(b':');
    push_text(value, out);
    let rest = json[1..].trim_ascii_start();
    if rest.first() != Some(&b'}') {
        out.push(b',');
    }
    out.extend_from_slice(rest);
}

/// The object with only the members for which `keeps` returns true, verbatim. `None` if that is all of them, or if the
/// body is not a JSON object.
pub(crate) fn keeping<E>(
    body: &[u8],
    mut keeps: impl FnMut(&str, &RawValue) -> Result<bool, E>,
) -> Result<Option<Vec<u8>>, E> {
    let found = std::str::from_utf8(body).ok().and_then(|json| Some((json, written(json).ok()?)));
    let Some((json, all)) = found else { return Ok(None) };
    let at = |part: &RawValue| part.get().as_ptr() as usize - json.as_ptr() as usize;
    let (mut out, mut keeps_all) = (Vec::with_capacity(json.len()), true);
    let mut object = ObjectWriter::new(&mut out);
    for (written, value) in all {
        if keeps(&name(written).unwrap_or_default(), value)? {
            object.raw(&json[at(written)..at(value) + value.get().len()]);
        } else {
            keeps_all = false;
        }
    }
    object.end();
    Ok((!keeps_all).then_some(out))
}

/// Whether a value is this string.
pub(crate) fn is_text(value: &RawValue, text: &str) -> bool {
    serde_json::from_str::<Cow<'_, str>>(value.get()).is_ok_and(|value| value == text)
}

/// Appends an object, member by member.
pub(crate) struct ObjectWriter<'o> {
    out: &'o mut Vec<u8>,
    /// The byte to write before the next member.
    before: u8,
}

impl<'o> ObjectWriter<'o> {
    pub(crate) fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, before: b'{' }
    }

    /// Adds a member, or its beginning, verbatim.
    pub(crate) fn raw(&mut self, member: &str) -> &mut Vec<u8> {
        self.out.push(std::mem::replace(&mut self.before, b','));
        self.out.extend_from_slice(member.as_bytes());
        self.out
    }

    /// Adds a member's name. The caller appends the value.
    pub(crate) fn name(&mut self, name: &str) -> &mut Vec<u8> {
        push_text(name, self.raw(""));
        self.out.push(b':');
        self.out
    }

    pub(crate) fn add(&mut self, name: &str, json: &str) {
        self.name(name).extend_from_slice(json.as_bytes());
    }

    pub(crate) fn end(self) {
        if self.before == b'{' {
            self.out.push(b'{');
        }
        self.out.push(b'}');
    }
}

/// The members of an object in order, verbatim.
///
/// # Errors
/// `json` is not an object.
pub(crate) fn written(json: &str) -> Result<Vec<(&RawValue, &RawValue)>, serde_json::Error> {
    struct All;

    impl<'a> Visitor<'a> for All {
        type Value = Vec<(&'a RawValue, &'a RawValue)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON object")
        }

        fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(entry) = map.next_entry()? {
                all.push(entry);
            }
            Ok(all)
        }
    }

    let mut parser = serde_json::Deserializer::from_str(json);
    parser.deserialize_map(All).and_then(|all| parser.end().map(|()| all))
}

/// A name with its escapes decoded.
pub(crate) fn name(written: &RawValue) -> Result<Cow<'_, str>, serde_json::Error> {
    let json = written.get();
    if json.contains('\\') { serde_json::from_str(json) } else { Ok(Cow::Borrowed(&json[1..json.len() - 1])) }
}

/// The members of an object, in order.
///
/// # Errors
/// `json` is not an object.
pub(crate) fn all(json: &str) -> Result<Vec<(Cow<'_, str>, &RawValue)>, String> {
    let written = written(json);
    let all = written.and_then(|all| all.into_iter().map(|(written, value)| Ok((name(written)?, value))).collect());
    all.map_err(|e| format!("broken JSON: {e}"))
}

/// Merges a document from its columns, its JSON columns and its overflow. The overflow has priority.
///
/// # Errors
/// A part that should be JSON is not.
pub(crate) fn merge(line: &str, json: &[(&str, String)], overflow: Option<&str>) -> Result<String, ()> {
    let more = all(overflow.unwrap_or("{}")).map_err(drop)?;
    let own = all(line).map_err(drop)?;
    let hidden: HashSet<&str> = more.iter().map(|(name, _)| name.as_ref()).collect();
    let mut out = Vec::new();
    let mut object = ObjectWriter::new(&mut out);
    // Line breaks can occur between tokens, but not inside strings.
    let mut add = |name: &str, value: &str| {
        object.name(name).extend(value.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')));
    };
    own.iter().filter(|(name, _)| !hidden.contains(name.as_ref())).for_each(|(name, value)| add(name, value.get()));
    for (name, value) in json {
        serde_json::from_str::<serde::de::IgnoredAny>(value).map_err(drop)?;
        if !hidden.contains(name) {
            add(name, value);
        }
    }
    more.iter().for_each(|(name, value)| add(name, value.get()));
    object.end();
    String::from_utf8(out).map_err(drop)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::*;

    fn value_of(json: &str, name: &str) -> Option<String> {
        let mut found = Vec::new();
        find(json, &[name.to_owned()], &mut found).unwrap();
        found[0].map(|value| value.get().to_owned())
    }

    #[test]
    fn members_are_found_by_their_decoded_names() {
        let json = r#" { "a" : [1, {"_id": 2}], "\u005fid" : "x\"y" , "b":{} } "#;
        assert_eq!(value_of(json, "_id").unwrap(), r#""x\"y""#);
        assert_eq!(value_of(json, "c"), None);
    }

    #[test]
    fn a_wanted_member_that_occurs_twice_is_an_error() {
        let twice = r#"{"a":1,"b":{"a":3},"\u0061":1}"#;
        let error = find(twice, &["a".to_owned()], &mut Vec::new()).unwrap_err();
        assert!(error.contains("`a` occurs twice"), "{error}");
        assert_eq!(value_of(twice, "b").unwrap(), r#"{"a":3}"#);
    }

    #[test]
    fn what_is_no_object_is_told() {
        let wrong = |json: &str| find(json, &[], &mut Vec::new()).unwrap_err();
        assert!(wrong("[1]").contains("it is a list, but a record must be a JSON object"), "{}", wrong("[1]"));
        assert!(wrong("{\"a\":1} x").contains("trailing characters"));
        assert!(wrong("{\"a\":").contains("EOF"));
        assert!(wrong("{\"a\":01}").contains("column"));
    }

    #[test]
    fn several_members_are_taken_out() {
        for (json, rest) in [
            (r#"{"_id":"a","_rev":"1-x","n":1}"#, r#"{"n":1}"#),
            (r#"{"n":1,"_rev":"1-x","_id":"a"}"#, r#"{"n":1}"#),
            (r#"{ "_rev" : {"_id":1}, "n" : [1, 2], "_id":"a" }"#, r#"{"n" : [1, 2]}"#),
            (r#"{"_id":"a","_rev":"b"}"#, "{}"),
            (r#"{"n":1}"#, r#"{"n":1}"#),
        ] {
            let left = keeping(json.as_bytes(), |name, _| Ok::<_, ()>(!["_id", "_rev"].contains(&name))).unwrap();
            let expected = (json != rest).then(|| rest.to_owned());
            assert_eq!(left.map(|left| String::from_utf8(left).unwrap()), expected);
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[\\x00-\\x7fé漢\u{1f600}]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(2, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-c\"\\\\_]{0,3}", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// The same object with whitespace wherever it is allowed.
    fn wide(object: &Map<String, Value>) -> String {
        let members: Vec<String> =
            object.iter().map(|(k, v)| format!(" {} \t: {v} ", Value::from(k.as_str()))).collect();
        format!("{{\n{} }}", members.join(","))
    }

    proptest! {
        #[test]
        fn a_member_is_taken_out_and_put_in_again(
            members in prop::collection::vec(("[a-c\"\\\\_]{0,3}", json()), 0..5),
            place in 0usize..6,
            spaced in any::<bool>(),
        ) {
            let mut all: Vec<(String, Value)> = members;
            all.retain(|(name, _)| name != "_id");
            let rest: Map<String, Value> = all.into_iter().collect();
            let mut object: Vec<(String, Value)> = rest.clone().into_iter().collect();
            object.insert(place.min(object.len()), ("_id".into(), "the key".into()));
            let object: Map<String, Value> = object.into_iter().collect();
            let text = if spaced { wide(&object) } else { Value::from(object.clone()).to_string() };
            let (mut found, mut out) = (Vec::new(), Vec::new());
            find(&text, &["_id".to_owned()], &mut found).unwrap();
            without(&text, found[0].unwrap(), &mut out);
            prop_assert_eq!(&serde_json::from_slice::<Map<String, Value>>(&out).unwrap(), &rest);
            let mut again = Vec::new();
            with_first(&out, "_id", "the key", &mut again);
            prop_assert_eq!(serde_json::from_slice::<Map<String, Value>>(&again).unwrap(), object);
        }
    }
}
