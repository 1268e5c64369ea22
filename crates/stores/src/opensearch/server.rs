//! Control calls to a server: version, indexes, marks, settings, figures.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use storebench_engine::store::{SiteOutcome, StoreError};

use super::errors;
use super::json::KEY;
use super::rows::LONGEST_TERM;
use crate::http::{Client, Method, Response};
use crate::net::Host;

/// The limit of a request if the server does not say it: `http.max_content_length` of a server as it is shipped.
const USUAL_BYTES: usize = 100 << 20;

/// What a server reports about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Welcome {
    pub(super) elastic: bool,
    pub(super) number: String,
    pub(super) version: (u32, u32),
    /// Whether it is Elasticsearch 7.10 without what is not open source.
    pub(super) oss: bool,
}

impl Welcome {
    /// Name and version, for the result.
    pub(super) fn shown(&self) -> String {
        format!("{} {}", if self.elastic { "Elasticsearch" } else { "OpenSearch" }, self.number)
    }

    /// Whether it replaces an alias only if it exists (`must_exist`), without which marks would not be safe.
    pub(super) fn can_mark(&self) -> bool {
        self.version >= if self.elastic { (7, 11) } else { (2, 12) }
    }

    /// Whether it has points in time.
    pub(super) fn has_points_in_time(&self) -> bool {
        if self.elastic { !self.oss } else { self.version >= (2, 4) }
    }
}

/// A server for control calls.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) client: Client,
    pub(super) host: Host,
}

/// The path of an index, encoded.
pub(super) fn index_path(index: &str) -> String {
    format!("/{}", utf8_percent_encode(index, NON_ALPHANUMERIC))
}

/// The same, followed by `/rest`.
pub(super) fn path(index: &str, rest: &str) -> String {
    format!("{}/{rest}", index_path(index))
}

/// Several indexes in one path.
pub(super) fn paths(indexes: &[String], rest: &str) -> String {
    path(&indexes.join(","), rest).replace("%2C", ",")
}

/// The alias that Storebench writes through.
pub(super) fn documents_of(index: &str) -> String {
    format!("{index}.documents")
}

/// The alias that is a mark. Aliases have neither spaces nor all punctuation.
fn mark_alias(index: &str, mark: &str) -> String {
    format!("{index}.mark.{}", mark.replace("; ", "!").replace(' ', "~"))
}

/// The changes that replace the mark of an index, if it still is `before`.
pub(super) fn marking(index: &str, before: &str, mark: &str) -> [Value; 2] {
    [
        json!({ "remove": { "index": index, "alias": mark_alias(index, before), "must_exist": true } }),
        json!({ "add": { "index": index, "alias": mark_alias(index, mark) } }),
    ]
}

/// The mark among the aliases of an index.
pub(super) fn mark_in(index: &str, aliases: &Value) -> Option<String> {
    let names = aliases.as_object()?.keys();
    let mut marks = names.filter_map(|name| name.strip_prefix(index)?.strip_prefix(".mark."));
    marks.next().map(|mark| mark.replace('!', "; ").replace('~', " "))
}

impl Server {
    /// Makes a call. The caller checks the status, except that of a rejected user.
    pub(super) async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Response, StoreError> {
        let response = self.client.call(method, path, body).await?;
        match response.status {
            401 => Err(response.rejected_user(&self.host, "opensearch")),
            429 if !errors::is_blocked(response.answer().body) => Err(response.too_busy(&self.host)),
            _ => Ok(response),
        }
    }

    /// The error of an answer that the caller did not expect.
    pub(super) fn unexpected(&self, doing: &str, response: &Response) -> StoreError {
        let said = errors::said(response.answer().body).unwrap_or_else(|| response.answer().shown());
        let text = format!("{} could not {doing}: HTTP {}: {said}", self.host, response.status);
        match response.status {
            403 if !errors::is_blocked(response.answer().body) => {
                StoreError::Unreachable(format!("{text}; use a user with this permission"))
            }
            _ => StoreError::Failed(text),
        }
    }

    /// Makes a call that must succeed. Returns its answer as JSON.
    pub(super) async fn done(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        doing: &str,
    ) -> Result<Value, StoreError> {
        let response = self.call(method, path, body).await?;
        if response.is_success() { Ok(response.json()) } else { Err(self.unexpected(doing, &response)) }
    }

    /// Identifies the server.
    ///
    /// # Errors
    /// `Unreachable` if there is no server, if it is another one, or if the password is wrong; `NotSupported` for a
    /// version that is too old.
    pub(super) async fn welcome(&self) -> Result<Welcome, StoreError> {
        let response = self.call(Method::GET, "/", None).await?;
        let told = response.json();
        let text = |name: &str| told["version"][name].as_str().unwrap_or_default().to_owned();
        let (number, distribution) = (text("number"), text("distribution"));
        let elastic = distribution.is_empty();
        let known = if elastic { told["tagline"] == "You Know, for Search" } else { distribution == "opensearch" };
        if !known || !response.is_success() {
            return Err(StoreError::Unreachable(format!(
                "{} speaks HTTP, but is neither OpenSearch nor Elasticsearch ({}); check the port (usually 9200)",
                self.host,
                response.answer().shown()
            )));
        }
        let mut parts = number.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
        let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        let welcome = Welcome { elastic, number, version, oss: text("build_flavor") == "oss" };
        let oldest = if elastic { (7, 10) } else { (1, 0) };
        if version < oldest {
            return Err(StoreError::NotSupported(format!(
                "{} is {}, which is too old: Storebench needs Elasticsearch 7.10 or OpenSearch 1.0; upgrade the server",
                self.host,
                welcome.shown()
            )));
        }
        Ok(welcome)
    }

    /// Each index that has this name, matches it, or is behind an alias or a data stream of this name, with its
    /// aliases, and with mappings and settings (see [`setting`]) unless `what` is `_alias`. `None` if there is none.
    pub(super) async fn indexes(&self, name: &str, what: &str) -> Result<Option<Map<String, Value>>, StoreError> {
        // `*` is for Storebench's own patterns.
        let path = path(name, what).replace("%2A", "*");
        let defaults = if what.is_empty() { "&include_defaults=true&flat_settings=true" } else { "" };
        let path = format!("{}?expand_wildcards=all{defaults}", path.trim_end_matches('/'));
        let response = self.call(Method::GET, &path, None).await?;
        match (response.status, response.json()) {
            (404, _) => Ok(None),
            (200, Value::Object(found)) => Ok(Some(found)),
            _ => Err(self.unexpected(&format!("describe `{name}`"), &response)),
        }
    }

    /// The names of data streams. Empty if the server has none, or does not know any.
    pub(super) async fn data_streams(&self) -> Result<Vec<String>, StoreError> {
        let response = self.call(Method::GET, "/_data_stream", None).await?;
        if !response.is_success() && !matches!(response.status, 400 | 404 | 405) {
            return Err(self.unexpected("list data streams", &response));
        }
        let told = response.json();
        let streams = told["data_streams"].as_array().into_iter().flatten();
        Ok(streams.filter_map(|stream| stream["name"].as_str().map(str::to_owned)).collect())
    }

    /// Creates an index with its mark. It may not be ready yet.
    pub(super) async fn create(
        &self,
        index: &str,
        settings: &Value,
        properties: &Value,
        mark: &str,
    ) -> Result<SiteOutcome, StoreError> {
        let body = json!({
            "settings": settings,
            "mappings": { "dynamic": false, "properties": properties },
            "aliases": { documents_of(index): {}, mark_alias(index, mark): {} },
        });
        let path = format!("{}?wait_for_active_shards=0", index_path(index));
        let response = self.call(Method::PUT, &path, Some(&body)).await?;
        match errors::type_of(response.answer().body).as_deref() {
            None if response.is_success() => Ok(SiteOutcome::Done),
            Some("resource_already_exists_exception") => Ok(SiteOutcome::Changed),
            _ => Err(self.unexpected(&format!("create the index `{index}`"), &response)),
        }
    }

    /// Makes all of these changes to indexes and their aliases, or none, if one of these does not exist.
    pub(super) async fn change(&self, actions: Vec<Value>, doing: &str) -> Result<SiteOutcome, StoreError> {
        if actions.is_empty() {
            return Ok(SiteOutcome::Done);
        }
        let response = self.call(Method::POST, "/_aliases", Some(&json!({ "actions": actions }))).await?;
        match response.status {
            200..=299 => Ok(SiteOutcome::Done),
            404 => Ok(SiteOutcome::Changed),
            _ => Err(self.unexpected(doing, &response)),
        }
    }

    /// Adds to the mapping of an index. Only documents that are written from now on are found by its new fields.
    pub(super) async fn map(&self, index: &str, mapping: &Value) -> Result<(), StoreError> {
        let doing = format!("index fields of `{index}`");
        self.done(Method::PUT, &path(index, "_mapping"), Some(mapping), &doing).await.map(drop)
    }

    /// Whether an index has documents.
    pub(super) async fn has_documents(&self, index: &str) -> Result<bool, StoreError> {
        let names = [index.to_owned()];
        self.refresh(&names).await?;
        Ok(self.count(&names, json!({ "match_all": {} })).await? > 0)
    }

    /// Makes searches see everything that was written.
    pub(super) async fn refresh(&self, indexes: &[String]) -> Result<(), StoreError> {
        let doing = "refresh its indexes, without which the latest documents would be left out";
        self.on_all_shards(&paths(indexes, "_refresh"), None, doing).await.map(drop)
    }

    /// The number of documents that a search finds with this query.
    pub(super) async fn count(&self, indexes: &[String], query: Value) -> Result<u64, StoreError> {
        let body = json!({ "query": query });
        let told = self.on_all_shards(&paths(indexes, "_count"), Some(&body), "count documents").await?;
        Ok(told["count"].as_u64().unwrap_or_default())
    }

    /// The number of documents that are in a shard by their `_routing`, after a refresh.
    pub(super) async fn routed(&self, indexes: &[String]) -> Result<u64, StoreError> {
        self.refresh(indexes).await?;
        self.count(indexes, json!({ "exists": { "field": "_routing" } })).await
    }

    /// Makes a call that every shard must take part in.
    async fn on_all_shards(&self, path: &str, body: Option<&Value>, doing: &str) -> Result<Value, StoreError> {
        let told = self.done(Method::POST, path, body, doing).await?;
        if told["_shards"]["failed"] == 0 {
            return Ok(told);
        }
        let (host, shards) = (&self.host, &told["_shards"]);
        Err(StoreError::Failed(format!("{host}: not every shard could {doing}: {shards}; repair them, then try again")))
    }

    /// The durability of the log and the number of replicas of an index.
    pub(super) async fn log_of(&self, index: &str) -> Result<(bool, u64), StoreError> {
        let names = "index.translog.durability,index.number_of_replicas";
        let path = path(index, &format!("_settings/{names}?flat_settings=true&include_defaults=true"));
        let told = self.done(Method::GET, &path, None, &format!("read the settings of `{index}`")).await?;
        let index = told.as_object().and_then(|all| all.values().next());
        let of = |name| index.and_then(|index| setting(index, name)).unwrap_or_default().to_lowercase();
        let replicas = of("index.number_of_replicas").parse().unwrap_or(0);
        Ok((of("index.translog.durability") == "async", replicas))
    }

    /// Sets the durability of the log of an index.
    pub(super) async fn set_log(&self, index: &str, durability: &str) -> Result<(), StoreError> {
        let body = json!({ "index.translog.durability": durability });
        let doing = format!("set index.translog.durability={durability} on `{index}`");
        self.done(Method::PUT, &path(index, "_settings"), Some(&body), &doing).await.map(drop)
    }

    /// The longest request that every node accepts. The usual limit if this user may not see it.
    pub(super) async fn most_bytes(&self) -> Result<usize, StoreError> {
        let path = "/_nodes/http?filter_path=nodes.*.http.max_content_length_in_bytes";
        let told = self.call(Method::GET, path, None).await?.json();
        let nodes = told["nodes"].as_object().into_iter().flatten();
        let limits = nodes.filter_map(|(_, node)| node["http"]["max_content_length_in_bytes"].as_u64());
        Ok(limits.min().map_or(USUAL_BYTES, |limit| usize::try_from(limit).unwrap_or(usize::MAX)))
    }

    /// The figures of indexes, added up.
    pub(super) async fn figures(&self, indexes: &[String], what: &str) -> Result<Value, StoreError> {
        let told = self.done(Method::GET, &paths(indexes, &format!("_stats/{what}")), None, "tell its figures").await?;
        Ok(told["_all"].clone())
    }
}

/// A setting of an index or its default, from what the server tells of it with flat names.
pub(super) fn setting<'a>(index: &'a Value, name: &str) -> Option<&'a str> {
    ["settings", "defaults"].into_iter().find_map(|part| index[part][name].as_str())
}

/// The mapping of these fields: each as one text that is compared as it is.
pub(super) fn properties<'f>(keyed: bool, fields: impl Iterator<Item = &'f String>) -> Map<String, Value> {
    let mut properties = Map::new();
    if keyed {
        properties.insert(KEY.to_owned(), json!({ "type": "keyword" }));
    }
    for field in fields {
        properties.insert(field.clone(), json!({ "type": "keyword", "ignore_above": LONGEST_TERM }));
    }
    properties
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_an_alias() {
        for mark in ["json; study", "json; copy 00000000000000ab", "bytes; removing", "json"] {
            let alias = mark_alias("storebench-a$b", mark);
            assert!(!alias.contains([' ', '*', ',', '#', ':', '/', '"']), "{alias}");
            let aliases = json!({ "mine": {}, "storebench-a$b.documents": {}, alias: {} });
            assert_eq!(mark_in("storebench-a$b", &aliases).as_deref(), Some(mark));
        }
        assert_eq!(mark_in("a", &json!({ "a.documents": {}, "ab.mark.json": {} })), None);
        assert_eq!(paths(&["a$".into(), "b".into()], "_stats"), "/a%24,b/_stats");
    }
}
