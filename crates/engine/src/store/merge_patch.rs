//! JSON Merge Patch, [RFC 7396](https://www.rfc-editor.org/rfc/rfc7396), on the text of documents: numbers keep their
//! digits, and what a patch does not name stays as it was written, repeated members included.

use serde::de::IgnoredAny;
use serde_json::Value;
use storebench_documents::json::{Member, Walk, members, name, repeated};

use super::{ErrorKind, OpError};

/// Refuses what [`merge_patch`] does not take.
///
/// # Errors
/// *Refused* if the patch is not JSON, or if an object of it names a member twice.
pub fn check_patch(patch: &[u8]) -> Result<(), OpError> {
    let refused = |why| OpError::new(ErrorKind::Refused, why);
    serde_json::from_slice::<Value>(patch).map_err(|e| refused(format!("the patch is not JSON: {e}")))?;
    match repeated(patch) {
        Some(name) => Err(refused(format!("the patch names the member `{name}` twice; leave one of them out"))),
        None => Ok(()),
    }
}

/// Merges a patch that was checked into a stored document by the algorithm of RFC 7396 §2: objects are merged member by
/// member, a `null` removes a member, and anything else (including arrays) replaces the old value. Each of several
/// members with the name of a change is changed.
///
/// # Errors
/// *Failed* if the stored document is not JSON.
pub fn merge_patch(old: &[u8], patch: &[u8]) -> Result<Vec<u8>, OpError> {
    serde_json::from_slice::<IgnoredAny>(old)
        .map_err(|e| OpError::new(ErrorKind::Failed, format!("the stored document is not JSON: {e}")))?;
    let mut out = Vec::with_capacity(old.len() + patch.len());
    merge(old, patch, &mut out);
    Ok(out)
}

fn merge(old: &[u8], patch: &[u8], out: &mut Vec<u8>) {
    if Walk::new(patch).peek() != Some(b'{') {
        return out.extend_from_slice(patch.trim_ascii());
    }
    // The changes, and whether there is a member for each.
    let mut changes: Vec<_> = members(patch).map(|change| (name(change.name), change, false)).collect();
    out.push(b'{');
    let start = out.len();
    // Without a new value, the member stays as it is.
    let mut put = |member: Member<'_>, old: &[u8], new: Option<&[u8]>| {
        if new != Some(b"null") && out.len() > start {
            out.push(b',');
        }
        match new {
            None => out.extend_from_slice(member.whole),
            Some(b"null") => {}
            Some(new) => {
                out.push(b'"');
                out.extend_from_slice(member.name);
                out.extend_from_slice(b"\":");
                merge(old, new, out);
            }
        }
    };
    for member in members(old) {
        let its_name = name(member.name);
        let change = changes.iter_mut().find(|(name, ..)| name.is_some() && *name == its_name);
        let new = change.map(|(_, change, found)| {
            *found = true;
            change.value
        });
        put(member, member.value, new);
    }
    for (_, change, _) in changes.iter().filter(|(.., found)| !found) {
        put(*change, b"", Some(change.value));
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
            check_patch(patch.as_bytes()).unwrap();
            let merged = merge_patch(target.as_bytes(), patch.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(merged).unwrap(), expected, "{target} with {patch}");
        }
    }

    #[test]
    fn what_is_not_named_keeps_its_text() {
        let old = br#" {"n" : 12345678901234567890123.10, "f":1E5,"d":{"x":1,"x":2},"\u0061":{"b":0.10,"c":1},"z":"\ud800"} "#;
        for (patch, expected) in [
            (
                r#"{"new":100000000000000000000001.0}"#,
                r#"{"n" : 12345678901234567890123.10,"f":1E5,"d":{"x":1,"x":2},"\u0061":{"b":0.10,"c":1},"z":"\ud800","new":100000000000000000000001.0}"#,
            ),
            (
                r#"{"n":null,"z":null,"f":null,"d":{"x":3},"a":{"c":[ 1 ]}}"#,
                r#"{"d":{"x":3,"x":3},"\u0061":{"b":0.10,"c":[ 1 ]}}"#,
            ),
        ] {
            let merged = merge_patch(old, patch.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(merged).unwrap(), expected);
        }
        assert_eq!(merge_patch(b"{", b"{}").unwrap_err().kind, ErrorKind::Failed);
        assert_eq!(check_patch(br#"{"a":{"b":1,"\u0062":2}}"#).unwrap_err().kind, ErrorKind::Refused);
    }

    proptest! {
        /// The algorithm of the RFC, on trees.
        #[test]
        fn texts_are_merged_as_trees_are(old in tree(), patch in tree()) {
            fn expected(old: &Value, patch: &Value) -> Value {
                let Value::Object(changes) = patch else { return patch.clone() };
                let mut merged = old.as_object().cloned().unwrap_or_default();
                for (name, change) in changes {
                    let new = expected(merged.get(name).unwrap_or(&Value::Null), change);
                    if change.is_null() { merged.shift_remove(name) } else { merged.insert(name.clone(), new) };
                }
                merged.into()
            }
            let merged = merge_patch(old.to_string().as_bytes(), patch.to_string().as_bytes()).unwrap();
            prop_assert_eq!(String::from_utf8(merged).unwrap(), expected(&old, &patch).to_string());
        }
    }

    /// Few names, so that the members of two trees meet.
    fn tree() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(Value::Null), any::<i8>().prop_map(Value::from), "[\"\\\\a]{0,2}".prop_map(Value::from)];
        leaf.prop_recursive(3, 16, 4, |inner| {
            let object = prop::collection::btree_map("[ab\"]", inner.clone(), 0..4);
            prop_oneof![
                3 => object.prop_map(|members| members.into_iter().collect::<serde_json::Map<_, _>>().into()),
                1 => prop::collection::vec(inner, 0..3).prop_map(Value::from),
            ]
        })
    }
}
