//! The view engine: views that emit one field of the documents of the default collection.

use std::cmp::Ordering;

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::http::{Answer, Request};

/// A view: `emit(doc.field, null)` for documents that have the field.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub design: String,
    pub name: String,
    pub field: String,
}

/// Answers a query of a view.
pub(super) fn answer(request: &Request, design: &str, name: &str, cluster: &Cluster) -> Answer {
    let Some(view) = cluster.views.iter().find(|view| view.design == design && view.name == name) else {
        return Answer::json(404, &json!({ "error": "not_found", "reason": "missing" }));
    };
    let given = |name: &str| request.query.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
    let parsed = |name: &str| given(name).map(serde_json::from_str::<Value>).transpose();
    let (Ok(start), Ok(end)) = (parsed("startkey"), parsed("endkey")) else {
        return Answer::json(400, &json!({ "error": "bad_request", "reason": "invalid UTF-8 JSON" }));
    };
    let body = serde_json::from_slice::<Value>(&request.body).unwrap_or_default();
    let keys = body["keys"].as_array();
    let wanted = |key: &Value| {
        keys.is_none_or(|keys| keys.contains(key))
            && start.as_ref().is_none_or(|start| collate(key, start) != Ordering::Less)
            && end.as_ref().is_none_or(|end| collate(key, end) != Ordering::Greater)
    };
    let limit = given("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
    let skip = given("skip").and_then(|skip| skip.parse().ok()).unwrap_or(0);
    let default = cluster.collection_uid("_default", "_default").unwrap_or_default();
    let mut rows: Vec<(Value, String)> = cluster
        .documents()
        .into_iter()
        .filter(|((collection, _), _)| *collection == default)
        .filter_map(|((_, id), document)| {
            let value: Value = serde_json::from_slice(&document.value).ok()?;
            Some((value.get(&view.field)?.clone(), String::from_utf8_lossy(&id).into_owned()))
        })
        .collect();
    rows.sort_by(|(a, a_id), (b, b_id)| collate(a, b).then_with(|| a_id.cmp(b_id)));
    let total = rows.len();
    let shown = rows.into_iter().filter(|(key, _)| wanted(key)).skip(skip).take(limit);
    let shown: Vec<Value> = shown.map(|(key, id)| json!({ "id": id, "key": key, "value": null })).collect();
    Answer::json(200, &json!({ "total_rows": total, "rows": shown }))
}

/// The collation of views for numbers and simple texts: numbers first. The server collates letters by Unicode, so tests
/// use only digits and lower-case letters.
fn collate(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Number(_), _) => Ordering::Less,
        (_, Value::Number(_)) => Ordering::Greater,
        _ => a.to_string().cmp(&b.to_string()),
    }
}
