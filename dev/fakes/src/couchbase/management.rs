//! The management API, as far as the SDK and Storebench's driver use it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::cluster::{Cluster, Shared};
use super::fake::QueryService;
use super::http::{Answer, Request, decoded};
use super::{query, views};

/// The memory of the bucket on each node, in bytes.
const RAM_QUOTA: u64 = 256 << 20;

/// Answers an authorized request.
pub(super) async fn answer(request: &Request, shared: &Arc<Shared>) -> Answer {
    if request.path == "/query/service" {
        let queries = shared.lock().options.queries;
        if queries != QueryService::Runs {
            return Answer::text(501, "Not Implemented");
        }
        return query::answer(request, shared).await;
    }
    let parts: Vec<&str> = request.path.split('/').filter(|part| !part.is_empty()).collect();
    let mut cluster = shared.lock();
    if let (_, [bucket, "_design", design, "_view", name]) = (&request.method, &parts[..]) {
        let here = decoded(bucket) == cluster.options.bucket;
        let answer = || views::answer(request, &decoded(design), &decoded(name), &cluster);
        return if here { answer() } else { Answer::text(404, "Requested resource not found.") };
    }
    match (request.method.as_str(), &parts[..]) {
        ("GET", ["pools"]) => {
            let version = cluster.options.version.clone();
            Answer::json(
                200,
                &json!({
                    "isAdminCreds": true,
                    "implementationVersion": version,
                    "pools": [{ "name": "default", "uri": "/pools/default" }],
                }),
            )
        }
        ("GET", ["pools", "default", "nodeServices"]) => Answer::text(200, &cluster.config(false)),
        ("GET", ["pools", "default", "b", name]) if *name == cluster.options.bucket => {
            Answer::text(200, &cluster.config(true))
        }
        ("GET", ["pools", "default", "tasks"]) => Answer::json(200, &json!([])),
        (method, ["pools", "default", "buckets", name, rest @ ..]) if *name == cluster.options.bucket => {
            bucket(method, rest, &request.body, &mut cluster)
        }
        _ => Answer::text(404, "Requested resource not found."),
    }
}

fn bucket(method: &str, path: &[&str], body: &[u8], cluster: &mut Cluster) -> Answer {
    match (method, path) {
        ("GET", []) => {
            let items = cluster.count(|_| true);
            Answer::json(
                200,
                &json!({
                    "name": cluster.options.bucket,
                    "bucketType": "membase",
                    "storageBackend": "couchstore",
                    "replicaNumber": cluster.options.replicas,
                    "durabilityMinLevel": "none",
                    "evictionPolicy": "valueOnly",
                    "compressionMode": "passive",
                    "maxTTL": 0,
                    "quota": { "ram": RAM_QUOTA * cluster.nodes.len() as u64, "rawRAM": RAM_QUOTA },
                    "basicStats": { "itemCount": items, "diskUsed": 0, "memUsed": 0 },
                }),
            )
        }
        ("GET", ["stats"]) => Answer::json(200, &stats(cluster)),
        ("POST", ["controller", "compactBucket"]) => Answer::text(200, ""),
        (_, ["scopes", ..]) if cluster.options.lacks.collections => Answer::text(404, "Requested resource not found."),
        ("GET", ["scopes"]) => Answer::json(200, &manifest(cluster)),
        ("POST", ["scopes"]) => match name_of(body) {
            None => Answer::json(400, &json!({ "errors": { "name": "The value must be supplied" } })),
            Some(name) if cluster.create_scope(&name) => changed(cluster),
            Some(name) => refused(&format!("Scope with name \"{name}\" already exists")),
        },
        ("DELETE", ["scopes", scope]) if *scope != "_default" => {
            if cluster.drop_scope(scope) {
                changed(cluster)
            } else {
                no_scope(scope)
            }
        }
        ("POST", ["scopes", scope, "collections"]) => match name_of(body) {
            None => Answer::json(400, &json!({ "errors": { "name": "The value must be supplied" } })),
            Some(name) => match cluster.create_collection(scope, &name) {
                None => no_scope(scope),
                Some(true) => changed(cluster),
                Some(false) => refused(&format!("Collection with name \"{name}\" in scope \"{scope}\" already exists")),
            },
        },
        ("DELETE", ["scopes", scope, "collections", name]) => match cluster.drop_collection(scope, name) {
            None => no_scope(scope),
            Some(true) => changed(cluster),
            Some(false) => Answer::json(
                404,
                &json!({ "errors": { "_": format!("Collection with name \"{name}\" is not found") } }),
            ),
        },
        _ => Answer::text(404, "Requested resource not found."),
    }
}

fn changed(cluster: &Cluster) -> Answer {
    Answer::json(200, &json!({ "uid": format!("{:x}", cluster.manifest_uid) }))
}

fn refused(text: &str) -> Answer {
    Answer::json(400, &json!({ "errors": { "_": text } }))
}

fn no_scope(scope: &str) -> Answer {
    Answer::json(404, &json!({ "errors": { "_": format!("Scope with name \"{scope}\" is not found") } }))
}

fn manifest(cluster: &Cluster) -> Value {
    let scopes: Vec<Value> = cluster
        .scopes
        .iter()
        .map(|scope| {
            let collections: Vec<Value> = scope
                .collections
                .iter()
                .map(|c| json!({ "uid": format!("{:x}", c.uid), "name": c.name, "maxTTL": 0, "history": false }))
                .collect();
            json!({ "uid": format!("{:x}", scope.uid), "name": scope.name, "collections": collections })
        })
        .collect();
    json!({ "uid": format!("{:x}", cluster.manifest_uid), "scopes": scopes })
}

/// Two samples of each series. A real server returns sixty.
fn stats(cluster: &Cluster) -> Value {
    let queued: u64 = cluster.nodes.iter().map(|node| node.queued).sum();
    let items = cluster.count(|_| true);
    let looked_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    json!({ "op": {
        "samples": {
            "ep_queue_size": [queued, queued],
            "ep_flusher_todo": [0, 0],
            "vb_active_resident_items_ratio": [100, 100],
            "couch_docs_fragmentation": [0, 0],
            "couch_docs_actual_disk_size": [4096, 4096],
            "ep_cache_miss_rate": [0, 0],
            "ep_bg_fetched": [0, 0],
            "curr_items": [items, items],
            "mem_used": [1_048_576, 1_048_576],
        },
        "samplesCount": 2,
        "isPersistent": true,
        "lastTStamp": looked_ms,
        "interval": 1_000,
    }})
}

/// The `name` of a form.
fn name_of(body: &[u8]) -> Option<String> {
    let body = std::str::from_utf8(body).ok()?;
    let name = body.split('&').find_map(|pair| pair.strip_prefix("name="))?;
    (!name.is_empty() && !name.contains('%')).then(|| name.to_owned())
}
