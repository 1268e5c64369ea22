//! JSON Merge Patch, [RFC 7396](https://www.rfc-editor.org/rfc/rfc7396).

use serde_json::{Map, Value};

/// Merges `patch` into `target` by the algorithm of RFC 7396 §2: objects are merged member by member, a `null` removes
/// a member, and anything else (including arrays) replaces the old value.
pub fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(members) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            // This keeps the order of the other members; `remove` does not.
            members.shift_remove(name);
        } else if let Some(member) = members.get_mut(name) {
            merge_patch(member, value);
        } else {
            let mut member = Value::Null;
            merge_patch(&mut member, value);
            members.insert(name.clone(), member);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test cases of RFC 7396, appendix A.
    #[test]
    fn does_what_the_rfc_shows() {
        let cases = [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, r#"null"#, r#"null"#),
            (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            (r#"[1,2]"#, r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ];
        for (target, patch, expected) in cases {
            let mut value: Value = serde_json::from_str(target).unwrap();
            merge_patch(&mut value, &serde_json::from_str(patch).unwrap());
            assert_eq!(value, serde_json::from_str::<Value>(expected).unwrap(), "{target} with {patch}");
        }
    }
}
