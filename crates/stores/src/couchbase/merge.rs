//! Merge patches (RFC 7396): through sub-document operations if these have the same effect, otherwise through a
//! compare-and-swap loop.

use couchbase::error::ErrorKind as Kind;
use couchbase::options::kv_options::{MutateInOptions, ReplaceOptions};
use couchbase::subdoc::mutate_in_specs::MutateInSpec;
use serde_json::Value;
use storebench_engine::store::{ErrorKind, OpError, OpKind, OwnedReply, merge_patch};

use super::counter::{CONTENDED, TRIES};
use super::operations::{Context, Target, call, flags, written};

const KIND: OpKind = OpKind::MergePatch;
/// The most paths that the server accepts in one request.
const MOST_PATHS: usize = 16;
/// Keeps a path, quotes included, below the server's limit of 1,024 bytes.
const LONGEST_NAME: usize = 500;

/// Merges a patch into a document.
pub(super) async fn apply(context: &Context, target: &Target, key: &str, patch: &[u8]) -> Result<OwnedReply, OpError> {
    let patch: Value = serde_json::from_slice(patch)
        .map_err(|e| OpError::new(ErrorKind::Refused, format!("the patch is not JSON: {e}")))?;
    // The SDK (1.1) accepts a durability level for sub-document writes, but does not send it.
    let parts = if context.level.is_none() { specs(&patch) } else { None };
    if let Some(parts) = parts {
        let options = MutateInOptions::new().preserve_expiry(true);
        match call(context, KIND, key, target.collection.mutate_in(key, &parts, options)).await {
            Ok(result) => return Ok(OwnedReply::documents(1).revision(result.cas().to_be_bytes().to_vec())),
            // All or nothing is done, so nothing was: a member to be removed does not exist, or the document is not an
            // object.
            Err(called) if called.kind().is_some_and(is_about_paths) => {}
            Err(called) => return Err(called.into()),
        }
    }
    swap(context, target, key, &patch).await
}

fn is_about_paths(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::PathNotFound | Kind::PathMismatch | Kind::PathInvalid | Kind::PathTooBig | Kind::DocumentNotJSON
    )
}

/// The path and the new value, if any, of each member that a patch sets or removes. `None` for patches that do more.
pub(super) fn parts<'p>(patch: &'p Value) -> Option<Vec<(String, Option<&'p Value>)>> {
    let members = patch.as_object().filter(|members| (1..=MOST_PATHS).contains(&members.len()))?;
    // The server reads escapes of JSON in a path.
    let literal = |name: &str| !name.chars().any(|c| matches!(c, '"' | '\\') || c.is_control());
    let fits = |(name, value): (&String, &Value)| {
        !value.is_object() && (1..=LONGEST_NAME).contains(&name.len()) && literal(name)
    };
    let part = |(name, value): (&String, &'p Value)| {
        (format!("`{}`", name.replace('`', "``")), Some(value).filter(|value| !value.is_null()))
    };
    members.iter().all(fits).then(|| members.iter().map(part).collect())
}

fn specs(patch: &Value) -> Option<Vec<MutateInSpec>> {
    let spec = |(path, value): (String, Option<&Value>)| match value {
        None => Some(MutateInSpec::remove(path, None)),
        Some(value) => MutateInSpec::upsert(path, value, None).ok(),
    };
    parts(patch)?.into_iter().map(spec).collect()
}

async fn swap(context: &Context, target: &Target, key: &str, patch: &Value) -> Result<OwnedReply, OpError> {
    for _ in 0..TRIES {
        let found = call(context, OpKind::Read, key, target.collection.get(key, None)).await?;
        let mut document: Value = serde_json::from_slice(found.content_as_raw().0)
            .map_err(|_| OpError::new(ErrorKind::Refused, "the stored document is not JSON"))?;
        merge_patch(&mut document, patch);
        let mut options = ReplaceOptions::new().cas(found.cas()).preserve_expiry(true);
        options.durability_level = context.level.clone();
        let (text, flags) = (document.to_string(), flags(target.body));
        match call(context, KIND, key, target.collection.replace_raw(key, text.as_bytes(), flags, options)).await {
            Ok(result) => return Ok(written(&result)),
            Err(called) if called.kind() == Some(&Kind::CasMismatch) => {}
            Err(called) => return Err(called.into()),
        }
    }
    Err(CONTENDED)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_sub_documents_do_the_same_is_done_by_them() {
        let paths = |patch: &Value| specs(patch).map(|specs| specs.iter().map(|s| s.path.clone()).collect::<Vec<_>>());
        assert_eq!(paths(&json!({"a": 1, "b.c": null, "d`": [1]})).unwrap(), ["`a`", "`b.c`", "`d```"]);
        let many: serde_json::Map<String, Value> = (0..17).map(|i| (format!("m{i}"), json!(i))).collect();
        let escapes = [json!({"C:\\new": 1}), json!({"say \"x\"": 1}), json!({"a\u{1f}": null})];
        let others = [json!({"a": {"b": 1}}), json!({}), json!([1]), json!({"": 1}), Value::Object(many)];
        for patch in others.into_iter().chain(escapes) {
            assert_eq!(paths(&patch), None, "{patch}");
        }
    }
}
