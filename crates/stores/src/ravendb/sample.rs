//! Samples of keys, and how queries are answered.

use std::collections::HashSet;

use serde_json::{Value, json};
use storebench_engine::store::{Explanation, StoreError};

use super::server::Server;
use super::study_queries::automatic;
use super::target::Collection;
use crate::http::Method;
use crate::net::places;

/// From how many places of a collection keys are taken.
const PLACES: u64 = 64;
/// How many keys one request reads.
const AT_ONCE: u64 = 1_024;

impl Server {
    /// Returns keys from places spread over the collection, in the order of its last writes. RavenDB skips to a place
    /// without reading documents.
    pub(super) async fn sample_keys(
        &self,
        collection: &Collection,
        at_most: usize,
        seed: u64,
    ) -> Result<Vec<String>, StoreError> {
        let told = self.get("/collections/stats", "count its documents").await?;
        let mut counts = told["Collections"].as_object().into_iter().flatten();
        let count = counts.find(|(name, _)| name.eq_ignore_ascii_case(&collection.name));
        let count = count.and_then(|(_, count)| count.as_u64()).unwrap_or(0);
        let mut seen = HashSet::new();
        let mut keys = Vec::new();
        for (start, length) in places(count, at_most as u64, AT_ONCE, PLACES, seed) {
            let mut request = self.client.request();
            request.begin(Method::GET).raw(&self.path("/collections/docs?name=")).segment(&collection.name);
            request.raw("&start=").number(start).raw("&pageSize=").number(length);
            request.raw("&metadataOnly=true");
            let mut key = Vec::new();
            for id in self.ids(&request).await? {
                if collection.naming.key(&id, &mut key)
                    && let Ok(key) = std::str::from_utf8(&key)
                    && keys.len() < at_most
                    && seen.insert(key.to_owned())
                {
                    keys.push(key.to_owned());
                }
            }
        }
        Ok(keys)
    }

    /// How RavenDB answers one of our queries.
    pub(super) async fn explain(&self, query: &str) -> Result<Explanation, StoreError> {
        if query.starts_with("from index ") {
            let name = query.split('\'').nth(1).unwrap_or_default();
            let stats = self.get("/indexes/stats", "read the statistics of its indexes").await?;
            let index = stats["Results"].as_array().into_iter().flatten().find(|index| index["Name"] == name);
            let plan = match index {
                Some(index) => format!(
                    "{query}\nindex of type {}, {} entries, {}",
                    index["Type"].as_str().unwrap_or("unknown"),
                    index["EntriesCount"],
                    if index["IsStale"] == true { "behind the writes" } else { "up to date" }
                ),
                None => query.to_owned(),
            };
            return Ok(Explanation { plan, full_scan: false });
        }
        let body = json!({ "Query": query, "QueryParameters": { "v": "x" } });
        let path = self.path("/queries?debug=explain");
        let told = self.call(Method::POST, &path, Some(&body), "explain a query").await?.json();
        let reasons = told["Results"].as_array().into_iter().flatten();
        let reasons = reasons.map(|one: &Value| {
            format!("\nnot {}: {}", one["Index"].as_str().unwrap_or("?"), one["Reason"].as_str().unwrap_or("?"))
        });
        let plan = format!("{query}\n{}{}", automatic(&told), reasons.collect::<String>());
        Ok(Explanation { plan, full_scan: false })
    }
}
