//! Indexes of the study, as maps in RavenDB's words.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use storebench_engine::store::{BuiltIndex, StoreError};
use storebench_study::workload::COLLECTION;

use super::server::{INDEX_PREFIX, Server};
use super::target::Collection;
use crate::http::Method;
use crate::refusals::refused_by_server;

/// How soon the state of an index is read again at first, and at most.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const LOOK_LATEST: Duration = Duration::from_secs(1);
/// How long a new index may be missing in the list.
const LISTED_WITHIN: Duration = Duration::from_secs(30);
/// How long building an index may take.
const LONG: Duration = Duration::from_secs(24 * 3_600);

/// RavenDB's name of an index of a study.
fn full_name(collection: &Collection, name: &str) -> String {
    format!("{INDEX_PREFIX}{}{name}", collection.naming.prefix)
}

/// Builds an index, unless the database has one with this name, and waits until it has indexed every document.
pub(super) async fn build(
    server: &Server,
    collection: &Collection,
    name: &str,
    text: &str,
) -> Result<BuiltIndex, StoreError> {
    let name = full_name(collection, name);
    let existed = figures(server, &name).await?.is_some();
    let begun = Instant::now();
    if !existed {
        let map = text.replace(COLLECTION, &format!("docs.{}", collection.name));
        server.make_indexes(&[json!({ "Name": name, "Maps": [map] })]).await.map_err(refused_by_server)?;
    }
    let mut pause = LOOK_AGAIN;
    loop {
        let told = server.stats_if_there().await?.unwrap_or_default();
        let index = told["Indexes"].as_array().into_iter().flatten().find(|index| index["Name"] == name.as_str());
        let state = index.and_then(|index| index["State"].as_str()).unwrap_or_default();
        let waited = begun.elapsed();
        if matches!(state, "Error" | "Disabled") || waited > LONG || (index.is_none() && waited > LISTED_WITHIN) {
            let state = if index.is_none() { "missing" } else { state };
            return Err(StoreError::Failed(format!(
                "the index `{name}` is not ready after {waited:?}; its state: {state}"
            )));
        }
        if index.is_some_and(|index| index["IsStale"] == false) {
            break;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOOK_LATEST);
    }
    let took = (!existed).then(|| begun.elapsed());
    let told = figures(server, &name).await?.unwrap_or_default();
    match told["ErrorsCount"].as_u64() {
        Some(errors) if errors > 0 => Err(StoreError::Failed(format!(
            "the index `{name}` has {errors} errors, so some documents are missing from it; see Indexing Errors in RavenDB Studio"
        ))),
        _ => Ok(BuiltIndex { took, bytes: told["Memory"]["DiskSize"]["SizeInBytes"].as_u64() }),
    }
}

/// Removes an index.
pub(super) async fn drop(server: &Server, collection: &Collection, name: &str) -> Result<(), StoreError> {
    server.remove_index(&full_name(collection, name)).await
}

/// The statistics of an index; `None` if there is no such index.
async fn figures(server: &Server, name: &str) -> Result<Option<Value>, StoreError> {
    let told =
        server.call(Method::GET, &server.path("/indexes/stats"), None, "read the size of an index").await?.json();
    let index = told["Results"].as_array().into_iter().flatten().find(|index| index["Name"] == name);
    Ok(index.cloned())
}
