//! Queries of the study: `aggregate` and `find`.

use serde_json::Value;
use storebench_documents::json;
use storebench_engine::store::{Batch, OpError};

use super::bson::{self, DOCUMENT};
use super::encode;
use crate::refusals::refused;
use crate::study_queries::{Template, only_member};

/// The command of a query as JSON, cut at its parameters: `{"aggregate": […]}` or `{"find": {…}}`.
pub(super) fn template(text: &str, values: Batch<'_>) -> Result<Template, OpError> {
    let (name, value) = only_member(text, &["aggregate", "find"], "MongoDB")?;
    match (name.as_str(), &value) {
        ("aggregate", Value::Array(stages)) => {
            let writes = |stage: &Value| stage.get("$out").or_else(|| stage.get("$merge")).is_some();
            if !stages.iter().all(Value::is_object) {
                return Err(refused("each stage of an aggregation is a table"));
            }
            if stages.iter().any(writes) {
                return Err(refused("$out and $merge write, but a query may only read"));
            }
        }
        ("find", Value::Object(_)) => {}
        ("find", _) => {
            return Err(refused("write a find as { find = { filter = { … }, sort = { … }, limit = 20 } }"));
        }
        _ => return Err(refused("write an aggregation as { aggregate = [ { … }, … ] }")),
    }
    Ok(Template::of(&Value::from_iter([(name, value)]), values))
}

/// Appends the command of a query, without what all commands end with. `text` has its values already.
pub(super) fn command(collection: &str, text: &str, out: &mut Vec<u8>) -> Result<(), OpError> {
    let member = json::members(text.as_bytes()).next().ok_or(OpError::unsupported())?;
    if member.name == b"find" {
        bson::text(out, "find", collection);
        return encode::members(member.value, out);
    }
    bson::text(out, "aggregate", collection);
    encode::member("pipeline", member.value, out)?;
    bson::nested(out, DOCUMENT, "cursor", |_| {});
    Ok(())
}
