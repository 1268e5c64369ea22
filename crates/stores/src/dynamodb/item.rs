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

use storebench_documents::json::{self, Member, Walk};

/// Types that JSON lacks.
const TYPES: [&[u8]; 4] = [b"$B", b"$SS", b"$NS", b"$BS"];
/// DynamoDB refuses more than 32 levels.
const DEEPEST: u32 = 100;

const NOT_JSON: Cow<'static, str> = Cow::Borrowed("the document is not valid JSON");

type Why = Cow<'static, str>;

/// Calls `each` with the members of an object.
///
/// # Errors
/// That it is not a valid object, or the error of `each`.
pub(super) fn members<'a>(object: &'a [u8], mut each: impl FnMut(Member<'a>) -> Result<(), Why>) -> Result<(), Why> {
    let mut walk = Walk::new(object);
    walk.take(b'{').ok_or(NOT_JSON)?;
    while let Some(member) = walk.member().ok_or(NOT_JSON)? {
        each(member)?;
    }
    walk.peek().map_or(Ok(()), |_| Err(NOT_JSON))
}

fn elements<'a>(array: &'a [u8], mut each: impl FnMut(&'a [u8]) -> Result<(), Why>) -> Result<(), Why> {
    let mut walk = Walk::new(array);
    walk.take(b'[').ok_or(NOT_JSON)?;
    while walk.element().ok_or(NOT_JSON)? {
        each(walk.value().ok_or(NOT_JSON)?)?;
    }
    walk.peek().map_or(Ok(()), |_| Err(NOT_JSON))
}

/// The only member of an object.
fn only_member(object: &[u8]) -> Option<Member<'_>> {
    let mut walk = Walk::new(object);
    walk.take(b'{')?;
    let first = walk.member()??;
    walk.member()?.is_none().then_some(first)
}

/// Appends pieces, separated by commas.
struct List<'o>(&'o mut Vec<u8>, bool);

impl List<'_> {
    fn next(&mut self) -> &mut Vec<u8> {
        if std::mem::replace(&mut self.1, true) {
            self.0.push(b',');
        }
        self.0
    }
}

/// Appends the name of a member, as it is written, and a colon.
pub(super) fn push_name(name: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(name);
    out.extend_from_slice(b"\":");
}

/// Appends a JSON value as a value of DynamoDB: `7` as `{"N":"7"}`.
///
/// # Errors
/// Why DynamoDB cannot have it.
pub(super) fn push_value(value: &[u8], out: &mut Vec<u8>) -> Result<(), Why> {
    push_value_at(value, out, 0)
}

fn push_value_at(value: &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), Why> {
    if depth > DEEPEST {
        return Err("DynamoDB has no values that are nested as deeply".into());
    }
    let mut push = |texts: [&[u8]; 3]| texts.into_iter().for_each(|text| out.extend_from_slice(text));
    match value {
        [b'"', ..] => push([b"{\"S\":", value, b"}"]),
        b"true" | b"false" => push([b"{\"BOOL\":", value, b"}"]),
        b"null" => push([b"{\"NULL\":", b"true", b"}"]),
        [b'[', ..] => {
            push([b"{\"L\":[", b"", b""]);
            let mut list = List(out, false);
            elements(value, |element| push_value_at(element, list.next(), depth + 1))?;
            out.extend_from_slice(b"]}");
        }
        [b'{', ..] => {
            if let Some(special) = only_member(value).filter(|only| TYPES.contains(&only.name))
                && is_of(special)
            {
                push([b"{\"", &special.name[1..], b"\":"]);
                if special.name == b"$NS" {
                    out.push(b'[');
                    let mut list = List(out, false);
                    elements(special.value, |number| push_number(number, list.next()))?;
                    out.push(b']');
                } else {
                    out.extend_from_slice(special.value);
                }
                out.push(b'}');
                return Ok(());
            }
            push([b"{\"M\":{", b"", b""]);
            let mut list = List(out, false);
            members(value, |member| {
                push_name(member.name, list.next());
                push_value_at(member.value, list.0, depth + 1)
            })?;
            out.extend_from_slice(b"}}");
        }
        number => {
            push([b"{\"N\":", b"", b""]);
            push_number(number, out)?;
            out.push(b'}');
        }
    }
    Ok(())
}

/// Whether the member of an object that looks like a type of DynamoDB has a value of it.
fn is_of(special: Member<'_>) -> bool {
    let of = |element: &[u8]| match special.name {
        b"$NS" => is_number(element),
        _ => element.starts_with(b"\""),
    };
    match special.name {
        b"$B" => of(special.value),
        _ => json::is_array(special.value) && json::elements(special.value).next().is_some_and(of),
    }
}

/// Appends a number as a string.
fn push_number(number: &[u8], out: &mut Vec<u8>) -> Result<(), Why> {
    check_number(number)?;
    out.push(b'"');
    out.extend_from_slice(number);
    out.push(b'"');
    Ok(())
}

fn is_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let plain = match digits {
        [b'0', second, ..] => !second.is_ascii_digit(),
        [first, ..] => first.is_ascii_digit(),
        [] => false,
    };
    let text = std::str::from_utf8(text).unwrap_or_default();
    plain && text.ends_with(|c: char| c.is_ascii_digit()) && text.parse::<f64>().is_ok()
}

/// Whether DynamoDB has this number.
fn check_number(text: &[u8]) -> Result<(), Why> {
    if !is_number(text) {
        return Err(NOT_JSON);
    }
    let shown = String::from_utf8_lossy(text);
    let (mantissa, exponent) = shown.split_once(['e', 'E']).unwrap_or((&shown, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole.trim_start_matches('-'), fraction].concat();
    let (digits, zeros) = (all.trim_matches('0'), all.len() - all.trim_start_matches('0').len());
    if digits.is_empty() {
        return if shown.starts_with('-') { Err("DynamoDB has no negative zero".into()) } else { Ok(()) };
    }
    // The exponent of the first digit that is not zero.
    let first = whole.trim_start_matches('-').len() as i64 - zeros as i64 - 1;
    let magnitude = exponent.parse::<i64>().ok().and_then(|exponent| exponent.checked_add(first));
    if digits.len() > 38 {
        return Err(format!("DynamoDB has numbers of at most 38 digits, and {shown} has {}", digits.len()).into());
    }
    match magnitude {
        Some(-130..=125) => Ok(()),
        _ => Err(format!("DynamoDB has numbers from 1E-130 to 9.99E+125, and {shown} is none of them").into()),
    }
}

/// Appends a value of DynamoDB as JSON: `{"N":"7"}` as `7`.
///
/// # Errors
/// Why it has no JSON.
pub(super) fn push_json(value: &[u8], out: &mut Vec<u8>) -> Result<(), Why> {
    push_json_at(value, out, 0)
}

fn push_json_at(value: &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), Why> {
    let unknown = || Cow::Owned(format!("the server sent an unknown value: {}", String::from_utf8_lossy(value)));
    let Some(Member { name, value: inner, .. }) = only_member(value).filter(|_| depth <= DEEPEST) else {
        return Err(unknown());
    };
    match name {
        b"S" | b"BOOL" => out.extend_from_slice(inner),
        b"N" => push_number_of(inner, out)?,
        b"NULL" => out.extend_from_slice(b"null"),
        b"L" => {
            out.push(b'[');
            let mut list = List(out, false);
            elements(inner, |element| push_json_at(element, list.next(), depth + 1))?;
            out.push(b']');
        }
        b"M" => {
            if only_member(inner).is_some_and(|only| TYPES.contains(&only.name)) {
                return Err("it has a map that cannot be told from a binary value or a set".into());
            }
            out.push(b'{');
            let mut list = List(out, false);
            members(inner, |member| {
                push_name(member.name, list.next());
                push_json_at(member.value, list.0, depth + 1)
            })?;
            out.push(b'}');
        }
        b"B" | b"SS" | b"BS" | b"NS" => {
            out.extend_from_slice(b"{\"$");
            out.extend_from_slice(name);
            out.extend_from_slice(b"\":");
            if name == b"NS" {
                out.push(b'[');
                let mut list = List(out, false);
                elements(inner, |number| push_number_of(number, list.next()))?;
                out.push(b']');
            } else {
                out.extend_from_slice(inner);
            }
            out.push(b'}');
        }
        _ => return Err(unknown()),
    }
    Ok(())
}

fn push_number_of(text: &[u8], out: &mut Vec<u8>) -> Result<(), Why> {
    let number = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).filter(|text| is_number(text));
    out.extend_from_slice(number.ok_or_else(|| format!("no number: {}", String::from_utf8_lossy(text)))?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Result<String, Why> {
        let mut out = Vec::new();
        push_value(json.as_bytes(), &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    fn json(value: &str) -> Result<String, Why> {
        let mut out = Vec::new();
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
        for text in [r#"{"$B":1}"#, r#"{"$SS":[]}"#, r#"{"$NS":["1"]}"#, r#"{"$B":"AA==","c":1}"#, r#"{"B":"AA=="}"#] {
            assert!(value(text).unwrap().starts_with(r#"{"M":"#), "{text}");
        }
        assert!(json(r#"{"M":{"$B":{"S":"AA=="}}}"#).unwrap_err().contains("cannot be told"));
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
