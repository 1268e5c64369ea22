//! The management API, where the SDK has nothing: version, statistics, compaction.

use std::time::Duration;

use reqwest::{Client, Method, StatusCode};
use serde_json::Value;
use storebench_core::store::{Stats, StoreError};

use super::settings::Settings;
use super::topology::Topology;
use crate::net::Host;

const PATIENCE: Duration = Duration::from_secs(30);
/// The oldest server with collections.
const OLDEST: u32 = 7;

/// What the server calls a series, what it is here.
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
    builder.build().map_err(|e| StoreError::Failed(format!("no HTTP client could be made: {e}")))
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

    /// Asks one node after the other until one answers.
    async fn ask(&self, method: Method, path: &str) -> Result<Value, StoreError> {
        let scheme = if self.settings.address.tls.is_some() { "https" } else { "http" };
        let (user, password) = self.settings.credentials();
        let mut last = StoreError::Unreachable("the cluster has no node with a management port".into());
        for host in self.hosts {
            let request = self.client.request(method.clone(), format!("{scheme}://{host}{path}"));
            let sent = request.basic_auth(user, Some(password)).send().await;
            let response = match sent {
                Ok(response) => response,
                Err(e) => {
                    let text = e.without_url().to_string();
                    last = StoreError::Unreachable(format!("{host} (management) cannot be reached: {text}"));
                    continue;
                }
            };
            let status = response.status();
            let body = response.bytes().await.unwrap_or_default();
            if status.is_success() {
                if body.is_empty() {
                    return Ok(Value::Null);
                }
                return serde_json::from_slice(&body)
                    .map_err(|e| StoreError::Failed(format!("{host}{path} answered what is no JSON: {e}")));
            }
            last = match status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => StoreError::Unreachable(format!(
                    "{host}{path} answered {status}: `{user}` may not ask that; grant the role Bucket Admin of `{}`",
                    self.settings.bucket
                )),
                _ => StoreError::Failed(format!("{host}{path} answered {status}")),
            };
        }
        Err(last)
    }

    /// The server's version, such as `7.6.2-3721-enterprise`.
    ///
    /// # Errors
    /// `Unreachable` for one that is too old.
    pub(super) async fn version(&self) -> Result<String, StoreError> {
        let pools = self.ask(Method::GET, "/pools").await?;
        let version = pools["implementationVersion"].as_str().unwrap_or_default().to_owned();
        match version.split('.').next().and_then(|major| major.parse::<u32>().ok()) {
            Some(major) if major >= OLDEST => Ok(version),
            _ => Err(StoreError::Unreachable(format!(
                "{} is Couchbase Server `{version}`; Storebench works in collections and needs 7.0 or newer",
                self.hosts.first().map(ToString::to_string).unwrap_or_default()
            ))),
        }
    }

    async fn samples(&self) -> Result<Value, StoreError> {
        let path = format!("/pools/default/buckets/{}/stats", self.settings.bucket);
        Ok(self.ask(Method::GET, &path).await?["op"].take())
    }

    /// What the bucket tells about itself, over all nodes and all collections.
    pub(super) async fn stats(&self) -> Result<Stats, StoreError> {
        let op = self.samples().await?;
        let figures = SERIES.iter().filter_map(|(series, name)| {
            let last = op["samples"][*series].as_array()?.last()?.as_f64()?;
            Some(((*name).to_owned(), last))
        });
        Ok(figures.collect())
    }

    /// Whether nothing waits for the disk, and when the server looked, in ms of its clock.
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

    /// Whether a compaction of the bucket is under way.
    pub(super) async fn compacting(&self) -> Result<bool, StoreError> {
        let tasks = self.ask(Method::GET, "/pools/default/tasks").await?;
        Ok(tasks.as_array().is_some_and(|tasks| {
            tasks.iter().any(|task| task["type"] == "bucket_compaction" && task["bucket"] == *self.settings.bucket)
        }))
    }

    /// The bucket's map as it is now.
    pub(super) async fn topology(&self) -> Result<Topology, StoreError> {
        let path = format!("/pools/default/b/{}", self.settings.bucket);
        let config = self.ask(Method::GET, &path).await?;
        let asked = self.hosts.first().map(|host| host.name.as_str()).unwrap_or_default();
        Topology::read(config.to_string().as_bytes(), asked, self.settings.address.tls.is_some())
    }
}
