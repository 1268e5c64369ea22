//! The query service: indexes, and the selections that use them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::cluster::{Cluster, Index, Shared};
use super::documents::{Document, Name, alive};
use super::http::{Answer, Request};
use super::statement::{By, Keyspace, Select, Statement, parse};

const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The default time that a query waits for an index that is behind.
const LONGEST_WAIT: Duration = Duration::from_secs(75);

/// An error as the service reports it.
struct Refusal {
    http: u16,
    code: u32,
    text: String,
}

impl Refusal {
    fn new(http: u16, code: u32, text: impl Into<String>) -> Self {
        Self { http, code, text: text.into() }
    }
}

/// Answers a request of the service.
pub(super) async fn answer(request: &Request, shared: &Arc<Shared>) -> Answer {
    let options: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let context = options["client_context_id"].as_str().unwrap_or_default();
    match run(&options, shared).await {
        Ok((prepared, rows)) => {
            let mut body = json!({ "requestID": "fake", "clientContextID": context });
            if let Some(name) = prepared {
                body["prepared"] = json!(name);
            }
            body["results"] = Value::Array(rows);
            body["status"] = json!("success");
            body["metrics"] =
                json!({ "elapsedTime": "1ms", "executionTime": "1ms", "resultCount": 0, "resultSize": 0 });
            Answer::json(200, &body)
        }
        Err(refusal) => Answer::json(
            refusal.http,
            &json!({
                "requestID": "fake",
                "clientContextID": context,
                "errors": [{ "code": refusal.code, "msg": refusal.text }],
                "status": "fatal",
            }),
        ),
    }
}

/// The name of a newly prepared statement, and the rows.
type Rows = (Option<String>, Vec<Value>);

async fn run(options: &Value, shared: &Arc<Shared>) -> Result<Rows, Refusal> {
    let (text, prepared) = statement_of(options, &mut shared.lock())?;
    let statement = parse(&text)
        .ok_or_else(|| Refusal::new(400, 3000, format!("syntax error - this fake does not know: {text}")))?;
    let waits = options["scan_consistency"] == "request_plus";
    if waits && matches!(statement, Statement::Select(_)) {
        wait_for_indexes(options, shared).await?;
    }
    let mut cluster = shared.lock();
    let rows = match statement {
        Statement::CreateIndex { name, on, fields } => create(&mut cluster, name, &on, fields)?,
        Statement::CreatePrimary { name, on } => create(&mut cluster, name, &on, Vec::new())?,
        Statement::DropIndex { name, on } => remove(&mut cluster, &name, &on)?,
        Statement::Indexes(on) => indexes(&cluster, &on),
        Statement::Explain(select) => {
            let scope = scope_of(options, &cluster)?;
            vec![plan(index_for(&cluster, &scope, &select)?, &select)]
        }
        Statement::Select(select) => selected(&mut cluster, options, &select)?,
        Statement::Count(collection) => {
            let select = Select { collection, bodies: false, by: By::Offset };
            let scope = scope_of(options, &cluster)?;
            let uid = index_for(&cluster, &scope, &select)?.collection_uid;
            let count = cluster.count(|(collection, _)| *collection == uid);
            vec![json!({ "n": count })]
        }
    };
    Ok((prepared, rows))
}

fn statement_of(options: &Value, cluster: &mut Cluster) -> Result<(String, Option<String>), Refusal> {
    if let Some(name) = options["prepared"].as_str() {
        let text = cluster.prepared.get(name).cloned();
        return text
            .map(|text| (text, None))
            .ok_or_else(|| Refusal::new(404, 4040, format!("No such prepared statement: {name}")));
    }
    let text = options["statement"].as_str().unwrap_or_default();
    match text.strip_prefix("PREPARE ") {
        None => Ok((text.to_owned(), None)),
        Some(_) if options["auto_execute"] != true => {
            Err(Refusal::new(400, 3000, "this fake prepares only what is executed at once"))
        }
        Some(text) => {
            let name = format!("prepared-{}", cluster.prepared.len());
            cluster.prepared.insert(name.clone(), text.to_owned());
            Ok((text.to_owned(), Some(name)))
        }
    }
}

async fn wait_for_indexes(options: &Value, shared: &Arc<Shared>) -> Result<(), Refusal> {
    let asked = options["timeout"].as_str().and_then(|text| text.strip_suffix("ms")).and_then(|ms| ms.parse().ok());
    let deadline = Instant::now() + asked.map_or(LONGEST_WAIT, Duration::from_millis);
    while shared.lock().frozen.is_some() {
        if Instant::now() >= deadline {
            return Err(Refusal::new(504, 1080, "Timeout exceeded"));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

fn create(cluster: &mut Cluster, name: String, on: &Keyspace, fields: Vec<String>) -> Result<Vec<Value>, Refusal> {
    let uid =
        if on.bucket == cluster.options.bucket { cluster.collection_uid(&on.scope, &on.collection) } else { None };
    let Some(collection_uid) = uid else {
        return Err(Refusal::new(404, 12003, format!("Keyspace not found in CB datastore: {on:?}")));
    };
    if cluster.indexes.iter().any(|index| index.name == name && index.collection_uid == collection_uid) {
        return Err(Refusal::new(409, 4300, format!("The index {name} already exists.")));
    }
    let (scope, collection) = (on.scope.clone(), on.collection.clone());
    cluster.indexes.push(Index { name, scope, collection, collection_uid, fields });
    Ok(Vec::new())
}

fn remove(cluster: &mut Cluster, name: &str, on: &Keyspace) -> Result<Vec<Value>, Refusal> {
    let before = cluster.indexes.len();
    let is_it = |index: &Index| index.name == name && index.scope == on.scope && index.collection == on.collection;
    cluster.indexes.retain(|index| !is_it(index));
    if cluster.indexes.len() == before {
        return Err(Refusal::new(404, 12004, format!("Index not found - {name}")));
    }
    Ok(Vec::new())
}

fn indexes(cluster: &Cluster, on: &Keyspace) -> Vec<Value> {
    let of = cluster.indexes.iter().filter(|index| index.scope == on.scope && index.collection == on.collection);
    of.map(|index| {
        let mut row = json!({
            "name": index.name,
            "using": "gsi",
            "state": "online",
            "keyspace_id": index.collection,
            "scope_id": index.scope,
            "bucket_id": cluster.options.bucket,
            "index_key": index.fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>(),
        });
        if index.fields.is_empty() {
            row["is_primary"] = json!(true);
        }
        row
    })
    .collect()
}

/// The scope that unqualified names are in.
fn scope_of(options: &Value, cluster: &Cluster) -> Result<String, Refusal> {
    let context = options["query_context"].as_str().unwrap_or_default().trim_start_matches("default:");
    let names: Vec<&str> = context.split('.').map(|name| name.trim_matches('`')).collect();
    match names[..] {
        [bucket, scope] if bucket == cluster.options.bucket => Ok(scope.to_owned()),
        _ => Err(Refusal::new(400, 3000, "a query_context of bucket and scope is needed")),
    }
}

fn index_for<'c>(cluster: &'c Cluster, scope: &str, select: &Select) -> Result<&'c Index, Refusal> {
    let Some(uid) = cluster.collection_uid(scope, &select.collection) else {
        let text = format!("Keyspace not found in CB datastore: {scope}.{}", select.collection);
        return Err(Refusal::new(404, 12003, text));
    };
    let fits = |index: &&Index| match &select.by {
        By::Field(field) => index.fields.first() == Some(field),
        By::UserAndNumber => index.fields.first().is_some_and(|field| field == "user"),
        By::Keys { .. } | By::Offset => index.fields.is_empty(),
    };
    let mut of = cluster.indexes.iter().filter(|index| index.collection_uid == uid);
    // Like the server: if there is a primary index, it can answer any query with a full scan.
    of.clone().find(fits).or_else(|| of.find(|index| index.fields.is_empty())).ok_or_else(|| {
        let text = format!("No index available on keyspace `{scope}`.`{}` that matches your query.", select.collection);
        Refusal::new(404, 4000, text)
    })
}

fn plan(index: &Index, select: &Select) -> Value {
    let by_everything = index.fields.is_empty() && matches!(select.by, By::Field(_) | By::Offset | By::UserAndNumber);
    let operator = if by_everything { "PrimaryScan3" } else { "IndexScan3" };
    let mut scan = json!({ "#operator": operator, "index": index.name, "keyspace": select.collection, "using": "gsi" });
    if !by_everything {
        let range = match &select.by {
            By::Field(_) | By::Offset | By::UserAndNumber => {
                json!({ "low": "$value", "high": "$value", "inclusion": 3 })
            }
            By::Keys { end: true } => json!({ "low": "$start", "high": "$end", "inclusion": 1 }),
            By::Keys { end: false } => json!({ "low": "$start", "inclusion": 1 }),
        };
        scan["spans"] = json!([{ "range": [range] }]);
    }
    let mut steps = vec![scan];
    if select.bodies {
        steps.push(json!({ "#operator": "Fetch", "keyspace": select.collection }));
    }
    steps.push(json!({ "#operator": "Limit", "expr": "$limit" }));
    json!({ "plan": { "#operator": "Sequence", "~children": steps } })
}

fn selected(cluster: &mut Cluster, options: &Value, select: &Select) -> Result<Vec<Value>, Refusal> {
    let scope = scope_of(options, cluster)?;
    index_for(cluster, &scope, select)?;
    let uid = cluster.collection_uid(&scope, &select.collection).unwrap_or_default();
    let limit = match &select.by {
        By::UserAndNumber => u64::MAX,
        _ => options["$limit"].as_u64().ok_or_else(|| Refusal::new(400, 5010, "$limit is no number"))?,
    };
    cluster.list(uid);
    if let (By::Field(field), Some(listing)) = (&select.by, cluster.listings.get_mut(&uid)) {
        listing.index(field);
    }
    let Cluster { listings, frozen, .. } = &*cluster;
    let Some(listing) = listings.get(&uid) else { return Ok(Vec::new()) };
    let live = &listing.documents[..];
    let seen: &[(Name, Document)] = frozen.as_deref().unwrap_or(live);
    let begins = |key: &str| {
        let at = (uid, key.as_bytes().to_vec());
        seen.partition_point(|(name, _)| *name < at)
    };
    let text = |name: &str| options[name].as_str().unwrap_or_default();
    let range = match &select.by {
        By::Keys { end: true } => begins(text("$start"))..begins(text("$end")),
        By::Keys { end: false } => begins(text("$start"))..seen.len(),
        _ => begins("")..seen.len(),
    };
    let candidates: Box<dyn Iterator<Item = &(Name, Document)>> = match &select.by {
        By::Field(field) if frozen.is_none() => {
            let positions = listing.by_field.get(field).and_then(|all| all.get(&options["$value"].to_string()));
            Box::new(positions.into_iter().flatten().map(|position| &live[*position]))
        }
        _ => Box::new(seen.get(range).unwrap_or_default().iter().take_while(|((collection, _), _)| *collection == uid)),
    };
    let mut rows = Vec::new();
    let mut skip = if select.by == By::Offset { options["$offset"].as_u64().unwrap_or(0) } else { 0 };
    for ((_, key), document) in candidates.filter(|(_, document)| frozen.is_some() || alive(document)) {
        let Ok(key) = std::str::from_utf8(key) else { continue };
        let matches = match &select.by {
            By::Offset | By::Keys { .. } => true,
            By::UserAndNumber => {
                let value = serde_json::from_slice::<Value>(&document.value).unwrap_or_default();
                let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
                value["user"] == options["$user"] && number(&value["n"]) >= number(&options["$n"])
            }
            By::Field(field) => {
                let value = serde_json::from_slice::<Value>(&document.value).unwrap_or_default();
                !options["$value"].is_null() && value.get(field) == Some(&options["$value"])
            }
        };
        if !matches {
            continue;
        }
        if skip > 0 {
            skip -= 1;
            continue;
        }
        let mut row = json!({ "k": key });
        if select.bodies {
            // Fetch the current document, even if the index is behind.
            let name = (uid, key.as_bytes().to_vec());
            let Ok(position) = live.binary_search_by(|(other, _)| other.cmp(&name)) else { continue };
            let document = &live[position].1;
            if !alive(document) {
                continue;
            }
            row["v"] = serde_json::from_slice(&document.value)
                .unwrap_or_else(|_| json!(format!("<binary ({} b)>", document.value.len())));
        }
        rows.push(if select.by == By::UserAndNumber { row["v"].take() } else { row });
        if rows.len() as u64 >= limit {
            break;
        }
    }
    if select.by == By::UserAndNumber {
        rows.sort_by(|a, b| a["n"].as_f64().partial_cmp(&b["n"].as_f64()).unwrap_or(std::cmp::Ordering::Equal));
    }
    Ok(rows)
}
