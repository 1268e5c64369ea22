//! Merge patches, RFC 7396.

use serde_json::{Value, json};

use super::Subject;
use super::suite::{Check, Stop};
use storebench_engine::store::{ErrorKind, Op, OpKind};

const NEEDS: &[OpKind] = &[OpKind::Upsert, OpKind::Read, OpKind::MergePatch];

pub(super) const CHECKS: &[Check] = &[
    Check { name: "merge: sets, adds and removes members", needs: NEEDS, run: members },
    Check { name: "merge: merges nested objects, replaces arrays", needs: NEEDS, run: nested },
    Check { name: "merge: a missing document is not found and not created", needs: NEEDS, run: missing },
    Check { name: "merge: refused on bytes, which stay unchanged", needs: NEEDS, run: on_bytes },
];

fn each(s: &Subject<'_>, cases: &[(Value, Value, Value)]) -> Result<(), Stop> {
    let mut c = s.client()?;
    for (i, (before, patch, after)) in cases.iter().enumerate() {
        let key = format!("case-{i}");
        c.wrote(s.documents, Op::Upsert { key: &key, body: before.to_string().as_bytes() })?;
        c.wrote(s.documents, Op::MergePatch { key: &key, patch: patch.to_string().as_bytes() })?;
        c.holds(s.documents, &key, after).map_err(|stop| match stop {
            Stop::Failed(text) => Stop::Failed(format!("{before} merged with {patch}: {text}")),
            other => other,
        })?;
    }
    Ok(())
}

fn members(s: &Subject<'_>) -> Result<(), Stop> {
    each(
        s,
        &[
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": 1}), json!({"a": null, "c": false}), json!({"b": 1, "c": false})),
            (json!({"a": "b"}), json!({"none": null}), json!({"a": "b"})),
            (json!({"a": "b"}), json!({}), json!({"a": "b"})),
            (json!({"a": 1}), json!({"it's": "\"q\"", "dot.ted": 2}), json!({"a": 1, "it's": "\"q\"", "dot.ted": 2})),
            (json!({"a": 1}), json!({"C:\\new": 2, "\"": 3, "`": 4}), json!({"a": 1, "C:\\new": 2, "\"": 3, "`": 4})),
            (json!({"C:\\new": 2, "b\n": 3}), json!({"C:\\new": null, "b\n": 4}), json!({"b\n": 4})),
        ],
    )
}

fn nested(s: &Subject<'_>) -> Result<(), Stop> {
    each(
        s,
        &[
            (json!({"a": {"b": "c", "k": 1}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d", "k": 1}})),
            (json!({"a": {"b": {"c": 1, "d": 2}}}), json!({"a": {"b": {"c": null}}}), json!({"a": {"b": {"d": 2}}})),
            (json!({"a": [1, 2, 3]}), json!({"a": [9]}), json!({"a": [9]})),
            (json!({"a": [{"b": 1}]}), json!({"a": [{"c": null}]}), json!({"a": [{"c": null}]})),
            (json!({"a": "text"}), json!({"a": {"b": 1, "c": null}}), json!({"a": {"b": 1}})),
            (json!({"a": {"b": 1}}), json!({"a": 2}), json!({"a": 2})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        ],
    )
}

fn missing(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.fails(ErrorKind::NotFound, s.documents, Op::MergePatch { key: "a", patch: br#"{"a":1}"# })?;
    c.lacks(s.documents, "a")
}

fn on_bytes(s: &Subject<'_>) -> Result<(), Stop> {
    let (mut c, blobs) = (s.client()?, s.blobs()?);
    c.wrote(blobs, Op::Upsert { key: "a", body: b"{}" })?;
    c.fails(ErrorKind::Refused, blobs, Op::MergePatch { key: "a", patch: br#"{"a":1}"# })?;
    c.holds_bytes(blobs, "a", b"{}")
}
