//! Documents as attributes: JSON to the types of DynamoDB and back.
//!
//! | DynamoDB | JSON |
//! |---|---|
//! | `S`, `BOOL`, `NULL`, `M`, `L` | text, boolean, null, object, array |
//! | `N` | a number with the same digits |
//! | `B` | `{"$B": "base64"}` |
//! | `SS`, `NS`, `BS` | `{"$SS": ["a"]}`, `{"$NS": [1.5]}`, `{"$BS": ["base64"]}` |
//!
//! So every item comes back as itself. DynamoDB has no number of more than 38 digits, below 1E-130 or above 9.99E+125,
//! and no -0; documents with one are refused. It writes numbers in its own way (`1.0` becomes `1`), and keeps neither
//! the order of members nor spaces.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use storebench_documents::json::{self, Member, Walk};
use storebench_documents::same;

/// Types that JSON lacks.
const TYPES: [&[u8]; 4] = [b"$B", b"$SS", b"$NS", b"$BS"];
/// The most levels of a document. DynamoDB refuses more than 32.
pub(super) const DEEPEST: u32 = 100;
/// The same in an item, where each level takes two.
pub(super) const DEEPEST_ITEM: u32 = 2 * DEEPEST + 2;

pub(super) const NOT_JSON: Cow<'static, str> = Cow::Borrowed("the document is not valid JSON");

const UNCLEAR: Why = Cow::Borrowed("it has a map that cannot be told from a binary value or a set");

type Why = Cow<'static, str>;

fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// Checks what the other functions rely on.
///
/// # Errors
/// That it is not valid JSON, or nested too deeply.
pub(super) fn check(json: &[u8], deepest: u32) -> Result<(), Why> {
    let mut walk = Walk::new(json);
    walk.value().filter(|_| is_json(json)).ok_or(NOT_JSON)?;
    if walk.deepest() > deepest { Err("DynamoDB has no values that are nested as deeply".into()) } else { Ok(()) }
}

/// The only member of an object.
fn only_member(object: &[u8]) -> Option<Member<'_>> {
    let mut all = json::members(object);
    all.next().filter(|_| all.next().is_none())
}

pub(super) fn push(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Appends a list: what `each` appends for every item, separated by commas.
pub(super) fn push_list<T>(
    items: impl Iterator<Item = T>,
    [open, close]: [&str; 2],
    out: &mut Vec<u8>,
    mut each: impl FnMut(T, &mut Vec<u8>) -> Result<(), Why>,
) -> Result<(), Why> {
    push(out, &[open.as_bytes()]);
    for (number, item) in items.enumerate() {
        push(out, &[if number > 0 { b"," } else { b"" }]);
        each(item, out)?;
    }
    push(out, &[close.as_bytes()]);
    Ok(())
}

/// Appends a JSON value as a value of DynamoDB: `7` as `{"N":"7"}`.
///
/// # Errors
/// Why DynamoDB cannot have it.
pub(super) fn push_value(value: &[u8], out: &mut Vec<u8>) -> Result<(), Why> {
    let special = only_member(value).filter(is_special);
    match (value.first(), special) {
        (Some(b'"'), _) => push(out, &[b"{\"S\":", value, b"}"]),
        (Some(b't' | b'f'), _) => push(out, &[b"{\"BOOL\":", value, b"}"]),
        (Some(b'n'), _) => push(out, &[b"{\"NULL\":true}"]),
        (Some(b'['), _) => return push_list(json::elements(value), ["{\"L\":[", "]}"], out, push_value),
        (Some(b'{'), Some(Member { name: b"$NS", value, .. })) => {
            return push_list(json::elements(value), ["{\"NS\":[", "]}"], out, push_number);
        }
        (Some(b'{'), None) if is_unclear(value) => return Err(UNCLEAR),
        (Some(b'{'), Some(special)) => push(out, &[b"{\"", &special.name[1..], b"\":", special.value, b"}"]),
        (Some(b'{'), None) => {
            return push_list(json::members(value), ["{\"M\":{", "}}"], out, |member, out| {
                push(out, &[b"\"", member.name, b"\":"]);
                push_value(member.value, out)
            });
        }
        _ => {
            push(out, &[b"{\"N\":"]);
            push_number(value, out)?;
            out.push(b'}');
        }
    }
    Ok(())
}

/// Whether nothing but what is inside tells an object from a type that JSON lacks. Of members with one name, servers
/// keep one.
fn is_unclear(object: &[u8]) -> bool {
    let mut names = json::members(object).map(|member| json::name(member.name));
    let first = names.next().flatten();
    first.as_ref().is_some_and(|name| TYPES.contains(&name.as_bytes())) && names.all(|name| name == first)
}

/// Whether the only member of an object stands for a type that JSON lacks.
fn is_special(only: &Member<'_>) -> bool {
    let text = |value: &[u8]| value.starts_with(b"\"");
    let number = |value: &[u8]| value.first().is_some_and(|first| matches!(first, b'-' | b'0'..=b'9'));
    match only.name {
        b"$B" => text(only.value),
        b"$NS" => json::elements(only.value).next().is_some_and(number),
        name => TYPES.contains(&name) && json::elements(only.value).next().is_some_and(text),
    }
}

/// Whether two values of DynamoDB are the same text or number, in any notation.
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    let (Some(one), Some(other)) = (only_member(one), only_member(other)) else { return false };
    let text = |value: Member<'_>| match json::text(value.value)? {
        number if value.name == b"N" => same::number(&number),
        text => Some(text.into_owned()),
    };
    one.name == other.name && text(one).is_some_and(|one| text(other) == Some(one))
}

/// Appends a number as a string, unless DynamoDB lacks it.
pub(super) fn push_number(number: &[u8], out: &mut Vec<u8>) -> Result<(), Why> {
    let shown = String::from_utf8_lossy(number);
    let canonical = same::number(&shown).ok_or(NOT_JSON)?;
    let (digits, exponent) = canonical.split_once('e').unwrap_or((&canonical, "0"));
    let digits = digits.trim_start_matches(['-', '0']).len() as i64;
    // The power of ten of the first digit.
    let magnitude = exponent.parse().unwrap_or(i64::MAX).saturating_add(digits - 1);
    Err(match (digits, magnitude) {
        (0, _) if shown.starts_with('-') => "DynamoDB has no negative zero".into(),
        (0, _) | (1..=38, -130..=125) => {
            push(out, &[b"\"", number, b"\""]);
            return Ok(());
        }
        (1..=38, _) => format!("DynamoDB has numbers from 1E-130 to 9.99E+125, and {shown} is none of them").into(),
        _ => format!("DynamoDB has numbers of at most 38 digits, and {shown} has {digits}").into(),
    })
}

/// Appends a value of DynamoDB as JSON: `{"N":"7"}` as `7`.
///
/// # Errors
/// Why it has no JSON.
pub(super) fn push_json(value: &[u8], out: &mut Vec<u8>) -> Result<(), Why> {
    let only = only_member(value).map(|only| (only.name, only.value));
    match only {
        Some((b"S" | b"BOOL", inner)) => push(out, &[inner]),
        Some((b"NULL", _)) => push(out, &[b"null"]),
        Some((b"N", inner)) => push_bare_number(inner, out)?,
        Some((b"L", inner)) => push_list(json::elements(inner), ["[", "]"], out, push_json)?,
        Some((b"M", inner)) if is_unclear(inner) => return Err(UNCLEAR),
        Some((b"M", inner)) => push_list(json::members(inner), ["{", "}"], out, push_json_member)?,
        Some((b"B", inner)) => push(out, &[b"{\"$B\":", inner, b"}"]),
        // DynamoDB promises no order of a set.
        Some((b"NS", inner)) => {
            let mut all: Vec<&[u8]> = json::elements(inner).collect();
            all.sort_by_cached_key(|number| json::text(number).and_then(|number| same::number(&number)));
            push_list(all.into_iter(), ["{\"$NS\":[", "]}"], out, push_bare_number)?;
        }
        Some((name @ (b"SS" | b"BS"), inner)) => {
            let mut all: Vec<&[u8]> = json::elements(inner).collect();
            all.sort_by_cached_key(|element| json::text(element));
            push(out, &[b"{\"$", name, b"\":"]);
            push_list(all.into_iter(), ["[", "]}"], out, |element, out| {
                push(out, &[element]);
                Ok(())
            })?;
        }
        _ => return Err(format!("the server sent an unknown value: {}", String::from_utf8_lossy(value)).into()),
    }
    Ok(())
}

/// Appends an attribute as a member of a document.
pub(super) fn push_json_member(attribute: Member<'_>, out: &mut Vec<u8>) -> Result<(), Why> {
    push(out, &[b"\"", attribute.name, b"\":"]);
    push_json(attribute.value, out)
}

fn push_bare_number(text: &[u8], out: &mut Vec<u8>) -> Result<(), Why> {
    let number = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
    let number = number.filter(|text| text.first().is_some_and(|first| *first <= b'9') && is_json(text));
    push(out, &[number.ok_or_else(|| format!("no number: {}", String::from_utf8_lossy(text)))?]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Result<String, Why> {
        let mut out = Vec::new();
        check(json.as_bytes(), DEEPEST)?;
        push_value(json.as_bytes(), &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    fn json(value: &str) -> Result<String, Why> {
        let mut out = Vec::new();
        check(value.as_bytes(), DEEPEST_ITEM)?;
        push_json(value.as_bytes(), &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn every_type_of_dynamodb_comes_back_as_itself() {
        for (item, document) in [
            (r#"{"S":"a\"\u00e9"}"#, r#""a\"\u00e9""#),
            (r#"{"S":""}"#, r#""""#),
            (r#"{"N":"12345678901234567890123456789012345678"}"#, "12345678901234567890123456789012345678"),
            (r#"{"N":"-1.5E-7"}"#, "-1.5E-7"),
            (r#"{"BOOL":true}"#, "true"),
            (r#"{"NULL":true}"#, "null"),
            (r#"{"L":[]}"#, "[]"),
            (r#"{"L":[{"N":"1"},{"L":[{"S":"a"}]},{"M":{}}]}"#, r#"[1,["a"],{}]"#),
            (r#"{"M":{"a":{"N":"0"},"b c":{"M":{"d":{"NULL":true}}}}}"#, r#"{"a":0,"b c":{"d":null}}"#),
            (r#"{"B":"AAE="}"#, r#"{"$B":"AAE="}"#),
            (r#"{"SS":["a","b"]}"#, r#"{"$SS":["a","b"]}"#),
            (r#"{"NS":["1","2.5"]}"#, r#"{"$NS":[1,2.5]}"#),
            (r#"{"BS":["AA=="]}"#, r#"{"$BS":["AA=="]}"#),
        ] {
            assert_eq!(json(item).as_deref(), Ok(document));
            assert_eq!(value(document).as_deref(), Ok(item));
        }
    }

    #[test]
    fn what_only_looks_like_a_type_stays_an_object() {
        for text in [r#"{"$B":"AA==","c":1}"#, r#"{"B":"AA=="}"#, r#"{"$b":[]}"#] {
            assert!(value(text).unwrap().starts_with(r#"{"M":"#), "{text}");
        }
        for text in [
            r#"{"$B":1}"#,
            r#"{"$SS":[]}"#,
            r#"{"$NS":["1"]}"#,
            r#"[{"$BS":{}}]"#,
            r#"{"\u0024B":"AA=="}"#,
            r#"{"$B":1,"$B":2}"#,
        ] {
            assert!(value(text).unwrap_err().contains("cannot be told"), "{text}");
        }
        assert!(json(r#"{"M":{"$B":{"S":"AA=="}}}"#).unwrap_err().contains("cannot be told"));
    }

    #[test]
    fn sets_have_one_order() {
        for (one, other) in [
            (r#"{"SS":["b","a"]}"#, r#"{"SS":["\u0061","b"]}"#),
            (r#"{"NS":["10","9","-1"]}"#, r#"{"NS":["-1","9","1E+1"]}"#),
            (r#"{"BS":["AQ==","AA=="]}"#, r#"{"BS":["AA==","AQ=="]}"#),
        ] {
            let read = |set: &str| serde_json::from_str::<serde_json::Value>(&json(set).unwrap()).unwrap();
            let [one, other] = [one, other].map(|set| read(set).to_string().replace("10.0", "10"));
            assert_eq!(one, other);
        }
        assert_eq!(json(r#"{"L":[{"S":"b"},{"S":"a"}]}"#).unwrap(), r#"["b","a"]"#);
    }

    #[test]
    fn numbers_that_dynamodb_lacks_are_refused() {
        for number in ["0", "1.0", "1e125", "9.99E+125", "1E-130", "0.00", "100000000000000000000000000000000000000000"]
        {
            assert!(value(number).is_ok(), "{number}");
        }
        for number in
            ["-0", "-0.0", "1e126", "1e-131", "123456789012345678901234567890123456789", "1e999999999999999999999"]
        {
            assert!(value(number).unwrap_err().starts_with("DynamoDB has"), "{number}");
        }
        for number in ["01", "1.", "x", "-", "", "nan", "+1", "tru"] {
            assert_eq!(value(number), Err(NOT_JSON), "{number}");
        }
    }

    #[test]
    fn invalid_json_is_refused() {
        for text in [r#"{"a" 1}"#, r#"{"a":1"#, "[1,]x", r#"{"a":{"b":}}"#] {
            assert!(value(text).is_err(), "{text}");
        }
        let deep = "[".repeat(5_000) + &"]".repeat(5_000);
        assert!(value(&deep).is_err());
    }
}
