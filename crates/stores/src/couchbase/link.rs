//! The SDK's connections to a bucket.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use couchbase::bucket::Bucket;
use couchbase::cluster::Cluster;
use couchbase::diagnostics::ConnectionState;
use couchbase::options::diagnostic_options::PingOptions;
use couchbase::service_type::ServiceType;
use futures_util::FutureExt;
use storebench_engine::store::StoreError;
use tokio::time::{Instant, sleep, timeout};

use super::probe::probe;
use super::settings::Settings;
use super::topology::Topology;

/// Timeout of connecting, from the first packet to a connection to every node.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a session waits for nodes that do not answer while others do.
pub(super) const GRACE: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A cluster and one of its buckets, with a connection to every node of the map.
pub(super) struct Link {
    /// Its connections close when it is dropped.
    cluster: Cluster,
    pub(super) bucket: Bucket,
}

impl Link {
    /// Connects, and waits until every node in the map is connected. After [`GRACE`], one connected node is enough.
    ///
    /// # Errors
    /// `Unreachable`, with cause and remedy.
    pub(super) async fn open(settings: &Settings, topology: &Topology) -> Result<Self, StoreError> {
        let options = settings.cluster_options()?;
        let string = settings.connection_string();
        let connecting = async {
            let cluster = Cluster::connect(&string, options).await?;
            let bucket = cluster.bucket(&settings.bucket);
            Ok::<_, couchbase::error::Error>(Self { cluster, bucket })
        };
        let deadline = Instant::now() + PATIENCE;
        let link = match timeout(PATIENCE, unwound(connecting)).await {
            Ok(Some(Ok(link))) => link,
            Ok(Some(Err(error))) => return Err(unreachable(settings, &error.kind().to_string())),
            Ok(None) => return Err(unreachable(settings, "the client could not decode the answers")),
            // The SDK retries forever and does not say why. The first contact may.
            Err(_) => {
                probe(settings).await?;
                return Err(unreachable(settings, "no connection was ready in time"));
            }
        };
        let begun = Instant::now();
        loop {
            let connected = link.connected().await;
            if topology.data.iter().all(|node| connected.contains(&node.to_string())) {
                break;
            }
            // A node that is away must not keep a session from the others, so it gets only limited time.
            if !connected.is_empty() && begun.elapsed() >= GRACE {
                return Ok(link);
            }
            if Instant::now() >= deadline {
                probe(settings).await?;
                return Err(unreachable(settings, "no node answers on the data service"));
            }
            sleep(LOOK_EVERY).await;
        }
        // The bucket has separate connections. This waits for those to all nodes.
        let options = PingOptions::new().service_types(vec![ServiceType::KV]);
        let _ = timeout(GRACE, unwound(link.bucket.ping(options))).await;
        Ok(link)
    }

    /// The nodes to which the SDK is connected now, as `host:port`. These are the connections for the cluster's map.
    /// The SDK reports nothing about those of the bucket while a single node is away. Both come and go with their node.
    pub(super) async fn connected(&self) -> Vec<String> {
        let Some(Ok(report)) = unwound(self.cluster.diagnostics(None)).await else { return Vec::new() };
        let endpoints = report.services.into_values().flatten();
        let connected = endpoints.filter(|e| e.state == ConnectionState::Connected && e.local_address.is_some());
        connected.map(|endpoint| endpoint.remote_address).collect()
    }
}

fn unreachable(settings: &Settings, why: &str) -> StoreError {
    StoreError::Unreachable(format!(
        "{}: {why}; check that all nodes are reachable from here under the names that the cluster gives them",
        settings.address.shown
    ))
}

/// The result of a future. `None` if it panicked: the SDK panics on some answers that no real server gives.
pub(super) async fn unwound<T>(future: impl Future<Output = T>) -> Option<T> {
    AssertUnwindSafe(future).catch_unwind().await.ok()
}
