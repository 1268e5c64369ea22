//! The management API, for what the SDK lacks: version, statistics, compaction.

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::Value;
use storebench_engine::store::{Stats, StoreError};

use super::settings::Settings;
use super::topology::Topology;
use crate::net::Host;

const PATIENCE: Duration = Duration::from_secs(30);

/// The server's name of each series, and the name here.
const SERIES: [(&str, &str); 9] = [
    (QUEUE, "write_queue_items"),
    (FLUSHING, "write_queue_flushing_items"),
    ("vb_active_resident_items_ratio", "resident_percent"),
    ("couch_docs_fragmentation", "fragmentation_percent"),
    ("couch_docs_actual_disk_size", "disk_bytes"),
    ("ep_cache_miss_rate", "cache_misses_percent"),
    ("ep_bg_fetched", "disk_reads_per_s"),
    ("curr_items", "bucket_documents"),
    ("mem_used", "memory_bytes"),
];
const QUEUE: &str = "ep_queue_size";
const FLUSHING: &str = "ep_flusher_todo";

/// A client of the cluster's HTTP interfaces.
pub(super) fn client(settings: &Settings) -> Result<Client, StoreError> {
    let mut builder = Client::builder().timeout(PATIENCE).no_proxy();
    if let Some(tls) = &settings.address.tls {
        builder = builder.tls_backend_preconfigured((*tls.config()?).clone());
    }
    builder.build().map_err(|e| StoreError::Failed(format!("cannot create an HTTP client: {e}")))
}

/// The management API of one bucket.
pub(super) struct Management<'a> {
    client: Client,
    settings: &'a Settings,
    hosts: &'a [Host],
}

impl<'a> Management<'a> {
    pub(super) fn new(settings: &'a Settings, topology: &'a Topology) -> Result<Self, StoreError> {
        Ok(Self { client: client(settings)?, settings, hosts: &topology.management })
    }

    /// Asks one node after another until one answers.
    async fn ask(&self, method: Method, path: &str) -> Result<Value, StoreError> {
        let mut last = StoreError::Unreachable("the cluster has no node with a management port".into());
        for host in self.hosts {
            match self.ask_one(host, method.clone(), path).await {
                Ok(told) => return told,
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn request(&self, method: Method, host: &Host, path: &str) -> RequestBuilder {
        let scheme = if self.settings.address.tls.is_some() { "https" } else { "http" };
        let (user, password) = self.settings.credentials();
        self.client.request(method, format!("{scheme}://{host}{path}")).basic_auth(user, Some(password))
    }

    /// Asks one node. After the outer error, another node may answer; after the inner one, none would do better.
    async fn ask_one(&self, host: &Host, method: Method, path: &str) -> Result<Result<Value, StoreError>, StoreError> {
        let response = self.request(method, host, path).send().await.map_err(|e| {
            let text = e.without_url().to_string();
            StoreError::Unreachable(format!("{host} (management) cannot be reached: {text}"))
        })?;
        let status = response.status();
        let body = response.bytes().await.unwrap_or_default();
        if status.is_success() {
            if body.is_empty() {
                return Ok(Ok(Value::Null));
            }
            let invalid =
                |e: serde_json::Error| StoreError::Failed(format!("{host}{path} sent an answer that is not JSON: {e}"));
            return Ok(serde_json::from_slice(&body).map_err(invalid));
        }
        Err(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => StoreError::Unreachable(format!(
                "{host}{path} answered {status}: `{}` has no permission; grant it the role Bucket Admin for `{}`",
                self.settings.credentials().0,
                self.settings.bucket
            )),
            _ => StoreError::Failed(format!("{host}{path} answered {status}")),
        })
    }

    /// Returns `None` if a node answers queries, otherwise the reason. Not every cluster runs the service, and mocks
    /// answer that they do not implement it.
    ///
    /// # Errors
    /// `Unreachable`, if a node should answer but none can be reached.
    pub(super) async fn lacks_queries(&self, topology: &Topology) -> Result<Option<String>, StoreError> {
        let mut why = None;
        let mut unreachable = None;
        for host in &topology.queries {
            let request = self.request(Method::POST, host, "/query/service");
            match request.header("content-type", "application/json").body(r#"{"statement":"SELECT 1"}"#).send().await {
                Ok(response) if matches!(response.status().as_u16(), 404 | 405 | 501) => {
                    why = Some(format!("the query service at {host} answers {}", response.status()));
                }
                // Other errors concern the statement, and are left to the statements that follow.
                Ok(_) => return Ok(None),
                Err(error) => {
                    let text = format!("{host} (query) cannot be reached: {}", error.without_url());
                    unreachable = Some(StoreError::Unreachable(text));
                }
            }
        }
        match (why, unreachable) {
            (None, Some(error)) => Err(error),
            (None, None) => Ok(Some("the cluster runs no query service".into())),
            (why, _) => Ok(why),
        }
    }

    /// The server's version, such as `7.6.2-3721-enterprise`.
    pub(super) async fn version(&self) -> Result<String, StoreError> {
        let pools = self.ask(Method::GET, "/pools").await?;
        Ok(pools["implementationVersion"].as_str().unwrap_or("of unknown version").to_owned())
    }

    /// What the cluster tells of the bucket.
    pub(super) async fn bucket(&self) -> Result<Value, StoreError> {
        self.ask(Method::GET, &format!("/pools/default/buckets/{}", self.settings.bucket)).await
    }

    async fn samples(&self) -> Result<Value, StoreError> {
        let path = format!("/pools/default/buckets/{}/stats", self.settings.bucket);
        Ok(self.ask(Method::GET, &path).await?["op"].take())
    }

    /// The bucket's statistics, over all nodes and all collections.
    pub(super) async fn stats(&self) -> Result<Stats, StoreError> {
        let op = self.samples().await?;
        let figures = SERIES.iter().filter_map(|(series, name)| {
            let last = op["samples"][*series].as_array()?.last()?.as_f64()?;
            Some(((*name).to_owned(), last))
        });
        Ok(figures.collect())
    }

    /// Whether nothing waits for the disk, and when the server sampled this, in ms of its clock.
    pub(super) async fn idle(&self) -> Result<(bool, u64), StoreError> {
        let op = self.samples().await?;
        let last = |series: &str| op["samples"][series].as_array().and_then(|all| all.last()?.as_f64()).unwrap_or(0.0);
        Ok((last(QUEUE) + last(FLUSHING) == 0.0, op["lastTStamp"].as_u64().unwrap_or(0)))
    }

    /// Starts a compaction of the bucket.
    pub(super) async fn compact(&self) -> Result<(), StoreError> {
        let path = format!("/pools/default/buckets/{}/controller/compactBucket", self.settings.bucket);
        self.ask(Method::POST, &path).await.map(drop)
    }

    /// Whether a compaction of the bucket is in progress.
    pub(super) async fn compacting(&self) -> Result<bool, StoreError> {
        let tasks = self.ask(Method::GET, "/pools/default/tasks").await?;
        Ok(tasks.as_array().is_some_and(|tasks| {
            tasks.iter().any(|task| task["type"] == "bucket_compaction" && task["bucket"] == *self.settings.bucket)
        }))
    }
}
