//! Samples keys of an index.

use std::collections::BTreeSet;

use serde_json::json;
use storebench_engine::store::StoreError;

use super::rows::MOST_ROWS;
use super::server::{Server, path};
use crate::http::Method;

impl Server {
    /// At most `at_most` keys of an index, determined by `seed`. OpenSearch scores all documents at random, and returns
    /// the first ones. Several such samples of a large index overlap.
    pub(super) async fn sample(&self, name: &str, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError> {
        self.refresh(&[name.to_owned()]).await?;
        let (mut keys, mut known) = (Vec::new(), BTreeSet::new());
        let size = at_most.min(MOST_ROWS as usize);
        for round in 0.. {
            let before = keys.len();
            let random = json!({ "seed": (seed >> 2) + round, "field": "_seq_no" });
            let search = json!({
                "size": size,
                "_source": false,
                "query": { "function_score": { "query": { "match_all": {} }, "random_score": random } },
            });
            let path = path(name, "_search?allow_partial_search_results=false");
            let told = self.done(Method::POST, &path, Some(&search), "sample keys").await?;
            let hits = told["hits"]["hits"].as_array().map(Vec::as_slice).unwrap_or_default();
            let found = hits.iter().filter_map(|hit| hit["_id"].as_str().map(str::to_owned));
            keys.extend(found.filter(|key| known.insert(key.clone())));
            if hits.len() < size || keys.len() == before || keys.len() >= at_most {
                break;
            }
        }
        keys.truncate(at_most);
        Ok(keys)
    }
}
