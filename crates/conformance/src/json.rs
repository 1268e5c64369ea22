//! Comparing what was stored with what came back, as JSON values.

use serde_json::Value;

/// Whether `body` is the JSON value `expected`, as far as a store may change it: members in any order, the store's own
/// top-level members (beginning with `_`, `@` or `$`), numbers by their value.
///
/// # Errors
/// A text saying where they differ.
pub(super) fn same_json(expected: &Value, body: &[u8]) -> Result<(), String> {
    let mut got: Value =
        serde_json::from_slice(body).map_err(|e| format!("not JSON ({e}): `{}`", super::client::shorten(body)))?;
    if let Value::Object(members) = &mut got {
        members.retain(|name, _| !name.starts_with(['_', '@', '$']));
    }
    same(expected, &got, "$")
}

fn same(expected: &Value, got: &Value, path: &str) -> Result<(), String> {
    let differ = || Err(format!("at {path}: expected {}, got {}", show(expected), show(got)));
    match (expected, got) {
        (Value::Object(a), Value::Object(b)) => {
            if let Some(extra) = b.keys().find(|name| !a.contains_key(*name)) {
                return Err(format!("at {path}: unexpected member `{extra}`"));
            }
            for (name, value) in a {
                let Some(other) = b.get(name) else { return Err(format!("at {path}: member `{name}` is missing")) };
                same(value, other, &format!("{path}.{name}"))?;
            }
            Ok(())
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().try_for_each(|(i, (x, y))| same(x, y, &format!("{path}[{i}]")))
        }
        (Value::Number(a), Value::Number(b)) => {
            // Parsers of decimal fractions differ in the last bit; integers must be exact.
            let (x, y) = (a.as_f64().unwrap_or(f64::NAN), b.as_f64().unwrap_or(f64::NAN));
            let exact = a == b || x == y;
            let close = x.fract() != 0.0 && ((x - y) / x).abs() < 1e-15;
            if exact || close { Ok(()) } else { differ() }
        }
        (a, b) if a == b => Ok(()),
        _ => differ(),
    }
}

fn show(value: &Value) -> String {
    super::client::shorten(value.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn order_and_own_members_do_not_count_but_everything_else_does() {
        let expected = json!({"a": 1, "b": {"c": [1, 2.5, "x", null, true]}});
        assert_eq!(same_json(&expected, br#"{"_id":"k","b":{"c":[1.0,2.5,"x",null,true]},"a":1}"#), Ok(()));
        for other in [
            r#"{"a":2,"b":{"c":[1,2.5,"x",null,true]}}"#,
            r#"{"a":1,"b":{"c":[1,2.5,"x",null]}}"#,
            r#"{"a":1,"b":{"c":[1,2.5,"x",null,true],"_d":1}}"#,
            r#"{"a":1}"#,
            r#"{"a":1,"#,
            r#"{"a":"1","b":{"c":[1,2.5,"x",null,true]}}"#,
        ] {
            assert!(same_json(&expected, other.as_bytes()).is_err(), "{other}");
        }
        assert!(same_json(&json!({"n": 9_007_199_254_740_991_i64}), br#"{"n":9007199254740990}"#).is_err());
    }
}
