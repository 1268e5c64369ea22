//! Indexes, aliases and data streams that others made: what can be read and written there.

use serde_json::Value;
use storebench_engine::store::{Prepare, StoreError};

use super::dialect::Field;
use super::rows::LONGEST_TERM;
use super::server::{Server, index_path, mark_in, setting};
use crate::http::Method;

/// What stands behind a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Behind {
    /// The indexes, and how many shards each has.
    pub(super) indexes: Vec<(String, u32)>,
    /// Whether a key names one document: there is one index, and documents need no routing.
    pub(super) by_key: bool,
    /// The most documents of a search in each index.
    pub(super) window: usize,
    /// Fields that are indexed as they are.
    pub(super) fields: Vec<Field>,
}

/// Types of fields whose terms are the values.
const EXACT: &str = "keyword constant_keyword wildcard boolean long integer short byte double unsigned_long";

impl Server {
    /// Looks at what stands behind the name of an index, an alias or a data stream.
    ///
    /// # Errors
    /// `NotSupported` if documents would be left out, changed, or (if they are written) put in the wrong place.
    pub(super) async fn behind(&self, name: &str, how: Prepare) -> Result<Behind, StoreError> {
        let refused = |why: String| StoreError::NotSupported(format!("{}: `{name}` {why}", self.host));
        if name.contains(['*', ',']) || name.starts_with('_') {
            return Err(refused("is not the name of one index, alias or data stream; name one".into()));
        }
        let Some(found) = self.indexes(name, "").await?.filter(|found| !found.is_empty()) else {
            return Err(refused("does not exist; name an index, an alias or a data stream, or load it first".into()));
        };
        let why = |(index, told): (&String, &Value)| {
            incomplete(name, index, told).or_else(|| rewritten(index, told).filter(|_| how != Prepare::ReadOnly))
        };
        if let Some(why) = found.iter().find_map(why) {
            return Err(refused(why));
        }
        // A server that has just started takes a moment, and so does a new index, which is yellow from the beginning.
        let ready = "wait_for_status=yellow&wait_for_no_initializing_shards=true&timeout=30s";
        let health = format!("/_cluster/health{}?{ready}", index_path(name));
        if self.call(Method::GET, &health, None).await?.json()["status"] == "red" {
            return Err(refused("is red: a part of its documents cannot be reached; repair it first".into()));
        }
        let one = found.len() == 1;
        let behind = Behind {
            by_key: one && found.values().all(|told| told["mappings"]["_routing"]["required"] != true),
            window: found.values().filter_map(window).min().unwrap_or(usize::MAX),
            fields: found.values().next().map(|told| exact_fields(&told["mappings"]["properties"])).unwrap_or_default(),
            indexes: found.iter().map(|(index, told)| (index.clone(), shards(told))).collect(),
        };
        if how == Prepare::WriteExisting {
            let ours = found.iter().any(|(index, told)| mark_in(index, &told["aliases"]).is_some());
            let why = match () {
                () if ours => "was made by Storebench, in its own format",
                () if found.values().any(|told| told["data_stream"].is_string()) => {
                    "is a data stream, or an index of one, which only appends"
                }
                () if found.values().any(|told| told["aliases"][name]["is_write_index"] == false) => {
                    "is an alias without a write index"
                }
                () if !one => "is an alias of several indexes: a key may be in another one than its write index",
                () if !behind.by_key => "requires routing for each document",
                () if behind.indexes.iter().any(|(_, shards)| *shards > 1)
                    && self.routed(&[name.to_owned()]).await? > 0 =>
                {
                    "has documents with _routing: a write by key may go to another shard and make a second document"
                }
                () => return Ok(behind),
            };
            return Err(refused(format!(
                "{why}; Storebench does not write into it. Use another index, by its own name"
            )));
        }
        Ok(behind)
    }
}

fn shards(told: &Value) -> u32 {
    setting(told, "index.number_of_shards").and_then(|number| number.parse().ok()).unwrap_or(1)
}

fn window(told: &Value) -> Option<usize> {
    setting(told, "index.max_result_window")?.parse().ok()
}

/// Why an index does not keep documents as they are sent.
fn rewritten(index: &str, told: &Value) -> Option<String> {
    ["index.default_pipeline", "index.final_pipeline"].into_iter().find_map(|name| {
        let pipeline = setting(told, name).filter(|pipeline| *pipeline != "_none")?;
        Some(format!(
            "sends documents through the ingest pipeline `{pipeline}`, which may change or drop them (index `{index}`, \
             {name}); set it to _none in the index, or in the template that the index is made by"
        ))
    })
}

/// Why an index does not give back all documents as they were written.
fn incomplete(name: &str, index: &str, told: &Value) -> Option<String> {
    let (settings, source) = (&told["settings"], &told["mappings"]["_source"]);
    let on = |name| setting(told, name) == Some("true");
    if on("index.verified_before_close") {
        return Some(format!("is closed (index `{index}`); open it first"));
    }
    let alias = &told["aliases"][name];
    for part in ["filter", "search_routing", "index_routing"] {
        if !alias[part].is_null() {
            return Some(format!(
                "is an alias with {part}, which shows a part of the documents; name the index `{index}`"
            ));
        }
    }
    let stored = |mode: &Value| mode.as_str().is_some_and(|mode| mode.eq_ignore_ascii_case("stored"));
    let kept =
        |(part, value): (&String, &Value)| part == "enabled" && *value == true || part == "mode" && stored(value);
    let (mode, kind) = (&settings["index.mapping.source.mode"], &settings["index.mode"]);
    let search = setting(told, "index.search.default_pipeline").filter(|pipeline| *pipeline != "_none");
    let hides_vectors = on("index.mapping.exclude_source_vectors");
    let vector = |kind: &str| told["mappings"].to_string().contains(&format!("\"type\":\"{kind}\""));
    let why = match () {
        () if !source.as_object().into_iter().flatten().all(kept) => format!("_source: {source}"),
        () if !mode.is_null() && !stored(mode) => format!("index.mapping.source.mode: {mode}"),
        // Both make documents from their fields, unless they are set to store them.
        () if (kind == "logsdb" || kind == "time_series") && !stored(mode) && !stored(&source["mode"]) => {
            format!("index.mode: {kind}")
        }
        () if on("index.derived_source.enabled") => "index.derived_source.enabled".into(),
        () if on("index.knn.derived_source.enabled") && vector("knn_vector") => {
            "index.knn.derived_source.enabled; reindex it into an index where that is false".into()
        }
        () if search.is_some() => {
            format!("index.search.default_pipeline: {}; set it to _none", search.unwrap_or_default())
        }
        () if hides_vectors && ["dense_vector", "sparse_vector", "rank_vectors"].into_iter().any(vector) => {
            "index.mapping.exclude_source_vectors; set it to false".into()
        }
        () => return None,
    };
    Some(format!("does not return documents as they were written (index `{index}`, {why}), so they cannot be read"))
}

/// The top-level fields whose terms are the values, or that have such a part, as a text has by default.
pub(super) fn exact_fields(properties: &Value) -> Vec<Field> {
    let exact =
        |mapping: &Value| mapping["type"].as_str().is_some_and(|kind| EXACT.split(' ').any(|exact| exact == kind));
    let field = |(name, mapping): (&String, &Value)| {
        let parts = mapping["fields"].as_object().into_iter().flatten();
        let parts = parts.map(|(part, mapping)| (format!("{name}.{part}"), mapping));
        let mut all = std::iter::once((name.clone(), mapping)).chain(parts);
        let (asked, mapping) = all.find(|(_, mapping)| exact(mapping))?;
        let longest = mapping["ignore_above"].as_u64().map_or(LONGEST_TERM, |longest| longest as usize);
        Some(Field { name: name.clone(), asked, longest: longest.min(LONGEST_TERM) })
    };
    properties.as_object().into_iter().flatten().filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_leaves_documents_out_is_named() {
        let why = |told: Value| incomplete("logs", "logs-1", &told);
        let open = json!({ "aliases": { "logs": {} }, "mappings": {}, "settings": {} });
        assert_eq!(why(open), None);
        let vectors = json!({ "properties": { "v": { "properties": { "w": { "type": "dense_vector" } } } } });
        let vectors = |part: &str, hides: &str| json!({ part: { "index.mapping.exclude_source_vectors": hides }, "mappings": vectors });
        let knn = |settings: Value| {
            let field = json!({ "type": "knn_vector", "dimension": 2 });
            let defaults = json!({ "index.knn.derived_source.enabled": "true" });
            json!({ "settings": settings, "defaults": defaults, "mappings": { "properties": { "v": field } } })
        };
        for told in [
            json!({ "mappings": { "_source": { "enabled": true } } }),
            json!({ "mappings": { "properties": { "dense_vector": { "type": "keyword" } } } }),
            vectors("settings", "false"),
            json!({ "mappings": vectors("", "")["mappings"] }),
            json!({ "settings": { "index.mode": "logsdb", "index.mapping.source.mode": "STORED" } }),
            json!({ "settings": { "index.mode": "logsdb" }, "mappings": { "_source": { "mode": "stored" } } }),
            json!({ "settings": { "index.mode": "lookup", "index.derived_source.enabled": "false" } }),
            json!({ "defaults": { "index.search.default_pipeline": "_none" } }),
            json!({ "defaults": { "index.knn.derived_source.enabled": "true" } }),
            knn(json!({ "index.knn.derived_source.enabled": "false" })),
        ] {
            assert_eq!(why(told.clone()), None, "{told}");
        }
        for (told, said) in [
            (json!({ "settings": { "index.verified_before_close": "true" } }), "is closed"),
            (json!({ "aliases": { "logs": { "filter": { "term": {} } } } }), "filter"),
            (json!({ "mappings": { "_source": { "enabled": false } } }), "_source"),
            (json!({ "mappings": { "_source": { "excludes": ["a"] } } }), "excludes"),
            (json!({ "mappings": { "_source": { "mode": "synthetic" } } }), "synthetic"),
            (json!({ "settings": { "index.mapping.source.mode": "synthetic" } }), "source.mode"),
            (json!({ "settings": { "index.mode": "time_series" } }), "index.mode"),
            (json!({ "settings": { "index.derived_source.enabled": "true" } }), "index.derived_source"),
            (knn(json!({ "index.knn": "true" })), "index.knn.derived_source"),
            (json!({ "settings": { "index.search.default_pipeline": "mine" } }), "index.search.default_pipeline: mine"),
            (vectors("settings", "true"), "exclude_source_vectors"),
            (vectors("defaults", "true"), "exclude_source_vectors"),
        ] {
            assert!(why(told.clone()).is_some_and(|why| why.contains(said)), "{told}");
        }
    }

    #[test]
    fn a_field_is_asked_for_where_it_is_indexed_as_it_is() {
        let properties = json!({
            "user": { "type": "keyword" },
            "n": { "type": "long" },
            "text": { "type": "text" },
            "title": { "type": "text", "fields": { "keyword": { "type": "keyword", "ignore_above": 256 } } },
            "name": { "type": "text", "fields": { "raw": { "type": "keyword" } } },
            "deep": { "properties": { "x": { "type": "keyword" } } },
        });
        let mut found = exact_fields(&properties);
        found.sort_by(|one, other| one.name.cmp(&other.name));
        let found: Vec<_> = found.iter().map(|field| (&*field.name, &*field.asked, field.longest)).collect();
        let longest = LONGEST_TERM;
        let expected = [
            ("n", "n", longest),
            ("name", "name.raw", longest),
            ("title", "title.keyword", 256),
            ("user", "user", longest),
        ];
        assert_eq!(found, expected);
    }
}
