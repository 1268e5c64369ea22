//! A table: how keys and documents are kept in its items.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use storebench_documents::json::{self, push_text};
use storebench_documents::same;
use storebench_engine::store::OpError;
use storebench_study::workload::Body;

use super::item;
use crate::document;
use crate::refusals::refused;

/// Attributes of Storebench's own tables.
pub(super) const KEY: &str = "sb_key";
pub(super) const REVISION: &str = "sb_rev";
pub(super) const BODY: &str = "body";
pub(super) const EXPIRES: &str = "sb_expires";
/// The beginning of their names.
const OWN: &str = "sb_";
const INDEX: &str = "sb_index_";
/// The key of the item that holds the mark.
pub(super) const MARKER: &str = "storebench:marker";

/// The largest values of a hash key and of a range key, in bytes.
const LONGEST: [usize; 2] = [2048, 1024];

/// How documents are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As a whole, in one attribute.
    Whole(Body),
    /// Members are attributes, in one of Storebench's tables.
    Native,
    /// Members are attributes, in a table of somebody else. It gets no attribute that a document does not have.
    Theirs,
}

/// The type of a key: `S`, `N` or `B`.
type Kind = char;

/// An attribute of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// A global secondary index that contains whole items. Without a name, it is the table itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) field: String,
    pub(super) name: String,
    pub(super) attribute: Attribute,
}

impl Index {
    /// The index of a study over a field.
    pub(super) fn over(field: &str) -> Self {
        // Names of indexes have the characters of names of tables.
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let name: String = field.chars().map(|c| if fits(c) { c } else { '_' }).take(200).collect();
        let attribute = Attribute { name: format!("{INDEX}{field}"), kind: 'S' };
        Self { field: field.to_owned(), name: format!("{INDEX}{name}"), attribute }
    }
}

/// A table and its form.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) form: Form,
    /// The hash key, and the range key if there is one.
    pub(super) keys: Vec<Attribute>,
    pub(super) indexes: Vec<Index>,
    /// The attribute with the time after which DynamoDB removes an item.
    pub(super) expires: Option<String>,
}

impl Table {
    /// One of Storebench's tables. `fields` are the indexed ones.
    pub(super) fn ours<'f>(name: String, form: Form, fields: impl Iterator<Item = &'f str>) -> Self {
        let mut indexes: Vec<Index> = fields.map(Index::over).collect();
        indexes.sort_by(|a, b| a.field.cmp(&b.field));
        indexes.dedup();
        Self { name, form, keys: vec![Attribute { name: KEY.to_owned(), kind: 'S' }], indexes, expires: None }
    }

    /// Somebody else's table, by its description. With a range key, its own hash key selects pages.
    pub(super) fn theirs(name: String, told: &Value, expires: Option<String>) -> Option<Self> {
        let keys: Vec<Attribute> = told["KeySchema"].as_array()?.iter().filter_map(|of| attribute(told, of)).collect();
        let own = |hash: &Attribute| Index { field: hash.name.clone(), name: String::new(), attribute: hash.clone() };
        let own = keys.first().filter(|_| keys.len() > 1).map(own);
        let indexes = own.into_iter().chain(indexes(told)).collect();
        (!keys.is_empty()).then_some(Self { name, form: Form::Theirs, keys, indexes, expires })
    }

    /// Takes the indexes of one of Storebench's tables from its description, so that each write maintains all of them.
    /// Returns the first field that should have one and has none.
    pub(super) fn take_indexes(&mut self, told: &Value) -> Option<String> {
        let field = |index: &Index| Some(index.field.strip_prefix(INDEX)?.to_owned());
        let there = indexes(told).into_iter().filter_map(|index| Some(Index { field: field(&index)?, ..index }));
        let wanted = std::mem::replace(&mut self.indexes, there.collect());
        let missing = wanted.into_iter().find(|wanted| self.index_over(&wanted.field).is_none());
        missing.map(|index| index.field)
    }

    /// The number of the index over a field.
    pub(super) fn index_over(&self, field: &str) -> Option<usize> {
        self.indexes.iter().position(|index| index.field == field)
    }

    pub(super) fn is_theirs(&self) -> bool {
        self.form == Form::Theirs
    }

    /// The kind of its documents.
    pub(super) fn body(&self) -> Body {
        if let Form::Whole(body) = self.form { body } else { Body::Json }
    }

    /// Appends the attributes of a key, without brackets.
    ///
    /// # Errors
    /// *Refused* if the table cannot have this key.
    pub(super) fn push_key(&self, key: &str, out: &mut Vec<u8>) -> Result<(), OpError> {
        if let [only] = self.keys.as_slice() {
            if key == MARKER && only.name == KEY {
                return Err(refused("the key `storebench:marker` is reserved for Storebench's marker"));
            }
            return push_part(only, key, LONGEST[0], out);
        }
        let part = |part| json::text(part).or_else(|| std::str::from_utf8(part).ok().map(Cow::Borrowed));
        let parts: Vec<Cow<'_, str>> = json::elements(key.as_bytes()).filter_map(part).collect();
        // One item has one text as its key: another one would overwrite it in silence.
        let ([hash, range], [first, second], true) = (&*self.keys, &*parts, self.array_of(&parts) == key.as_bytes())
        else {
            return Err(refused(format!(
                "`{key}` is no key of the table `{}`, which has a hash key and a range key; expected a JSON array of \
                 both without spaces, such as [\"a\",7], with numbers in their shortest form",
                self.name
            )));
        };
        push_part(hash, first, LONGEST[0], out)?;
        push_part(range, second, LONGEST[1], out)
    }

    /// The key of an item. `None` for the marker, and for an item without a key, which no server sends.
    pub(super) fn key_of<'i>(&self, item: &'i [u8]) -> Option<Cow<'i, str>> {
        let part = |attribute: &Attribute| {
            let value = json::members(json::member(item, &attribute.name)?).next()?.value;
            json::text(value)
        };
        if let [only] = self.keys.as_slice() {
            return part(only).filter(|key| only.name != KEY || key != MARKER);
        }
        let parts: Vec<Cow<'_, str>> = self.keys.iter().map(part).collect::<Option<_>>()?;
        String::from_utf8(self.array_of(&parts)).ok().map(Cow::Owned)
    }

    /// The JSON array of the parts of a key, with numbers as they are shortest.
    fn array_of(&self, parts: &[Cow<'_, str>]) -> Vec<u8> {
        let mut key = Vec::new();
        for (attribute, part) in self.keys.iter().zip(parts) {
            key.push(if key.is_empty() { b'[' } else { b',' });
            match same::number(part).filter(|_| attribute.kind == 'N') {
                Some(number) => key.extend_from_slice(shortest(&number).as_bytes()),
                None => push_text(part, &mut key),
            }
        }
        key.push(b']');
        key
    }

    /// Appends the item of a document, with brackets.
    ///
    /// # Errors
    /// *Refused* if DynamoDB cannot have the key or the document.
    pub(super) fn push_item(&self, key: &str, revision: &[u8], body: &[u8], out: &mut Vec<u8>) -> Result<(), OpError> {
        document::check(self.body(), body)?;
        let start = out.len();
        out.push(b'{');
        self.push_key(key, out)?;
        if !self.is_theirs() {
            push_attribute(REVISION, 'S', &String::from_utf8_lossy(revision), out);
            for index in &self.indexes {
                if let Some(value) = json::member(body, &index.field).and_then(canonical) {
                    push_attribute(&index.attribute.name, 'S', &value, out);
                }
            }
        }
        match self.form {
            Form::Whole(Body::Json) => {
                let text = std::str::from_utf8(body).map_err(|_| refused("the document is not UTF-8"))?;
                push_attribute(BODY, 'S', text, out);
            }
            Form::Whole(Body::Counter) => push_attribute(BODY, 'N', &String::from_utf8_lossy(body), out),
            Form::Whole(Body::Bytes) => push_attribute(BODY, 'B', &BASE64.encode(body), out),
            Form::Native | Form::Theirs => {
                item::check(body, item::DEEPEST).map_err(refused)?;
                if !body.trim_ascii_start().starts_with(b"{") {
                    return Err(refused("DynamoDB stores JSON objects only"));
                }
                json::members(body).try_for_each(|member| self.push_member(member, start, out)).map_err(refused)?;
            }
        }
        out.push(b'}');
        Ok(())
    }

    /// Appends a member of a document as an attribute. The item, which begins at `start`, has the attributes of its key
    /// already.
    fn push_member(&self, member: json::Member<'_>, start: usize, out: &mut Vec<u8>) -> Result<(), Cow<'static, str>> {
        let name = json::name(member.name).ok_or(item::NOT_JSON)?;
        if name.is_empty() {
            return Err("DynamoDB has no attribute without a name".into());
        }
        if !self.is_theirs() && name.starts_with(OWN) {
            return Err(
                format!("the document has the member `{name}`; Storebench keeps what begins with `{OWN}`").into()
            );
        }
        let before = out.len();
        item::push(out, &[b",\"", member.name, b"\":"]);
        let value = out.len();
        item::push_value(member.value, out)?;
        if self.keys.iter().any(|key| key.name == name) {
            let key = json::member(&out[start..before], &name);
            let same = key.is_some_and(|key| item::is_same(key, &out[value..]));
            out.truncate(before);
            if !same {
                return Err(format!("the member `{name}` of the document differs from its key").into());
            }
        }
        Ok(())
    }

    /// The document of an item. `scratch` is where it is decoded to.
    ///
    /// # Errors
    /// Why the item is no document.
    pub(super) fn body_of<'a>(&self, item: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<&'a [u8], Cow<'static, str>> {
        scratch.clear();
        let Form::Whole(body) = self.form else {
            item::check(item, item::DEEPEST_ITEM)?;
            let own = |member: &json::Member<'_>| !self.is_theirs() && member.name.starts_with(OWN.as_bytes());
            let members = json::members(item).filter(|member| !own(member));
            item::push_list(members, ["{", "}"], scratch, item::push_json_member)?;
            return Ok(scratch);
        };
        let value = json::member(item, BODY).and_then(|value| json::members(value).next());
        let value = value.ok_or("the item has no document in Storebench's format")?.value;
        match body {
            Body::Json => match json::text(value) {
                Some(text) => scratch.extend_from_slice(text.as_bytes()),
                None => return Err("the document is not text".into()),
            },
            Body::Counter => scratch.extend(value.iter().filter(|byte| **byte != b'"')),
            Body::Bytes => {
                let text = value.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or_default();
                BASE64.decode_vec(text, scratch).map_err(|_| "the document is not in base64")?;
            }
        }
        Ok(scratch)
    }
}

/// An attribute of a key schema, with its type in a description.
fn attribute(told: &Value, of: &Value) -> Option<Attribute> {
    let name = of["AttributeName"].as_str()?;
    let mut all = told["AttributeDefinitions"].as_array()?.iter();
    let kind = all.find(|of| of["AttributeName"] == name)?["AttributeType"].as_str()?.chars().next()?;
    Some(Attribute { name: name.to_owned(), kind })
}

/// The indexes in a description that hold whole items, by the attributes of their hash keys.
fn indexes(told: &Value) -> Vec<Index> {
    let index = |of: &Value| {
        let whole = of["Projection"]["ProjectionType"] == "ALL" && of["IndexStatus"] == "ACTIVE";
        let attribute = attribute(told, of["KeySchema"].get(0)?).filter(|_| whole)?;
        Some(Index { field: attribute.name.clone(), name: of["IndexName"].as_str()?.to_owned(), attribute })
    };
    told["GlobalSecondaryIndexes"].as_array().into_iter().flatten().filter_map(index).collect()
}

/// Appends an attribute of a key.
fn push_part(attribute: &Attribute, part: &str, longest: usize, out: &mut Vec<u8>) -> Result<(), OpError> {
    let (name, kind) = (&attribute.name, attribute.kind);
    let wrong = |what: &str| refused(format!("`{part}` is no {what}, which the key `{name}` of the table is"));
    let bytes = match kind {
        // The server keeps the bytes, and other texts of them would be the same key.
        'B' => BASE64.decode(part).map_err(|_| wrong("base64 with its padding"))?.len(),
        _ => part.len(),
    };
    if bytes == 0 || bytes > longest {
        return Err(refused(format!("a key has 1 to {longest} bytes in DynamoDB, and this one has {bytes}")));
    }
    let number = match kind {
        'N' => Some(shortest(&same::number(part).ok_or_else(|| wrong("number"))?)),
        _ => None,
    };
    if let Some(number) = &number {
        item::push_number(number.as_bytes(), &mut Vec::new()).map_err(refused)?;
    }
    push_attribute(name, kind, number.as_deref().unwrap_or(part), out);
    Ok(())
}

/// A number such as `15e-1` without an exponent, unless that is longer than the digits that DynamoDB keeps.
fn shortest(number: &str) -> String {
    let Some((digits, exponent)) = number.split_once('e') else { return number.to_owned() };
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    match exponent.parse::<i32>() {
        Ok(zeros @ 0..=38) => format!("{sign}{digits}{}", "0".repeat(zeros as usize)),
        Ok(places @ -38..0) => {
            let padded = format!("{digits:0>width$}", width = places.unsigned_abs() as usize + 1);
            let (whole, fraction) = padded.split_at(padded.len() - places.unsigned_abs() as usize);
            format!("{sign}{whole}.{fraction}")
        }
        _ => number.to_owned(),
    }
}

/// Appends an attribute, after a comma if it is not the first one.
fn push_attribute(name: &str, kind: Kind, value: &str, out: &mut Vec<u8>) {
    if !out.ends_with(b"{") {
        out.push(b',');
    }
    push_text(name, out);
    out.push(b':');
    push_scalar(kind, value, out);
}

/// Appends a value of a key: `{"S":"a"}`.
pub(super) fn push_scalar(kind: Kind, value: &str, out: &mut Vec<u8>) {
    item::push(out, &[b"{\"", kind.encode_utf8(&mut [0; 4]).as_bytes(), b"\":"]);
    push_text(value, out);
    out.push(b'}');
}

/// The JSON text that stands for an indexed value in every notation. `None` for arrays and objects.
pub(super) fn canonical(value: &[u8]) -> Option<String> {
    match value.first()? {
        b'[' | b'{' => None,
        b'-' | b'0'..=b'9' => same::number(std::str::from_utf8(value).ok()?),
        _ => serde_json::from_slice::<Value>(value).ok().map(|scalar| scalar.to_string()),
    }
}

/// The value of an index for a JSON value. `None` if the index has no such values.
pub(super) fn indexed(index: &Index, theirs: bool, value: &[u8]) -> Option<String> {
    if !theirs {
        return canonical(value);
    }
    match (index.attribute.kind, value.first()?) {
        ('S', b'"') => json::text(value).map(Cow::into_owned),
        ('N', b'-' | b'0'..=b'9') => String::from_utf8(value.to_vec()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn item(table: &Table, key: &str, body: &[u8]) -> Result<Value, OpError> {
        let mut out = Vec::new();
        table.push_item(key, b"7", body, &mut out)?;
        let mut scratch = Vec::new();
        assert_eq!(table.key_of(&out).as_deref(), Some(key));
        let back = table.body_of(&out, &mut scratch).unwrap();
        match table.form {
            Form::Whole(_) => assert_eq!(back, body, "as it was written"),
            _ => assert_eq!(serde_json::from_slice::<Value>(back).unwrap()["n"], json!(1)),
        }
        Ok(serde_json::from_slice(&out).unwrap())
    }

    #[test]
    fn a_whole_document_comes_back_byte_by_byte() {
        let table = |body| Table::ours("t".into(), Form::Whole(body), ["user", "user"].into_iter());
        let written = item(&table(Body::Json), "a\"b", br#"{ "user" : "\u0061" , "n":1.0, "n":2}"#).unwrap();
        assert_eq!(written["sb_key"]["S"], "a\"b");
        assert_eq!((&written["sb_rev"]["S"], &written["sb_index_user"]["S"]), (&json!("7"), &json!("\"a\"")));
        item(&table(Body::Bytes), "k", b"\0\xff\"").unwrap();
        assert_eq!(item(&table(Body::Counter), "k", b"-5").unwrap()["body"]["N"], "-5");
        assert_eq!(table(Body::Json).indexes.len(), 1);
    }

    #[test]
    fn members_of_a_native_document_are_attributes() {
        let table = Table::ours("t".into(), Form::Native, ["n"].into_iter());
        let written = item(&table, "k", br#"{"n":1,"list":["a"]}"#).unwrap();
        assert_eq!((&written["n"]["N"], &written["list"]["L"][0]["S"]), (&json!("1"), &json!("a")));
        assert_eq!(written["sb_index_n"]["S"], "1e0");
        for refused in [&br#"{"sb_rev":1}"#[..], br#"{"n":-0}"#, br#"{"":1}"#, b"[1]", b"{"] {
            assert!(item(&table, "k", refused).is_err(), "{}", String::from_utf8_lossy(refused));
        }
        assert!(item(&table, MARKER, b"{}").is_err() && item(&table, "", b"{}").is_err());
        assert!(item(&table, &"k".repeat(2049), b"{}").is_err());
    }

    #[test]
    fn a_composite_key_is_an_array_and_a_document_has_its_key() {
        let told = json!({
            "KeySchema": [{ "AttributeName": "pk" }, { "AttributeName": "sk" }],
            "AttributeDefinitions": [
                { "AttributeName": "sk", "AttributeType": "N" }, { "AttributeName": "pk", "AttributeType": "S" },
            ],
            "GlobalSecondaryIndexes": [{
                "IndexName": "by_sk", "IndexStatus": "ACTIVE", "Projection": { "ProjectionType": "ALL" },
                "KeySchema": [{ "AttributeName": "sk" }],
            }],
        });
        let table = Table::theirs("t".into(), &told, None).unwrap();
        let written = item(&table, r#"["a b",7]"#, br#"{"n":1,"pk":"a b"}"#).unwrap();
        assert_eq!(written, json!({ "pk": { "S": "a b" }, "sk": { "N": "7" }, "n": { "N": "1" } }));
        assert!(item(&table, r#"["a b",7]"#, br#"{"n":1,"pk":"other"}"#).is_err());
        assert!(item(&table, "a b", br#"{"n":1}"#).is_err());
        // The document may write its key in another way.
        item(&table, r#"["a b",7]"#, br#"{"n":1,"pk":"a\u0020b","sk":7.0}"#).unwrap();
        assert!(item(&table, r#"["a b",7]"#, br#"{"n":1,"sk":"7"}"#).is_err());
        for same in ["-1.25", "0", "1200", "0.001", "5e125"] {
            item(&table, &format!(r#"["a",{same}]"#), br#"{"n":1}"#).unwrap();
        }
        // Each would be the item of another text.
        for other in [r#"["a b","7"]"#, r#"["a b", 7]"#, r#"["a b",7.0]"#, r#"["a b",70e-1]"#, r#"["a\u0020b",7]"#] {
            assert!(item(&table, other, br#"{"n":1}"#).is_err(), "{other}");
        }
        assert_eq!((table.index_over("pk"), table.index_over("sk")), (Some(0), Some(1)), "the table is its own index");
        assert_eq!(indexed(&table.indexes[0], true, b"\"a\"").as_deref(), Some("a"));
        assert_eq!(indexed(&table.indexes[1], true, b"7").as_deref(), Some("7"));
        assert_eq!(indexed(&table.indexes[1], true, b"\"7\""), None);
    }

    #[test]
    fn notations_of_one_value_are_indexed_alike() {
        assert_eq!(canonical(b"1.0"), canonical(b"1"));
        assert_eq!(canonical(br#""\u0069t's""#), canonical(b"\"it's\""));
        assert_ne!(canonical(b"1"), canonical(b"\"1\""));
        assert_eq!(canonical(b"[1]"), None);
    }
}
