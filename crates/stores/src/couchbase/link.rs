//! The SDK's connections to a bucket.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use couchbase::bucket::Bucket;
use couchbase::cluster::Cluster;
use couchbase::options::diagnostic_options::PingOptions;
use couchbase::results::diagnostics::PingState;
use couchbase::service_type::ServiceType;
use futures_util::FutureExt;
use storebench_core::store::StoreError;
use tokio::time::{Instant, sleep, timeout};

use super::probe::probe;
use super::settings::Settings;
use super::topology::Topology;

/// How long connecting may take, from the first packet to a connection to every node.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long one look whether nodes answer may take.
const PING: Duration = Duration::from_secs(1);

/// A cluster and one of its buckets, with a connection to every node of the map.
pub(super) struct Link {
    /// Its connections end with it.
    #[allow(dead_code)]
    cluster: Cluster,
    pub(super) bucket: Bucket,
}

impl Link {
    /// Connects, and waits until every node that the map names has answered, or one at least when
    /// the time is up.
    ///
    /// # Errors
    /// `Unreachable` with cause and remedy.
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
            Ok(None) => return Err(unreachable(settings, "its client could not make sense of the answers")),
            // The SDK tries for ever and does not say why: the first contact may.
            Err(_) => {
                probe(settings).await?;
                return Err(unreachable(settings, "no connection was ready in time"));
            }
        };
        loop {
            let answering = link.answering().await;
            if topology.data.iter().all(|node| answering.contains(node)) {
                return Ok(link);
            }
            if Instant::now() >= deadline {
                return if answering.is_empty() {
                    probe(settings).await?;
                    Err(unreachable(settings, "no node answers on the data service"))
                } else {
                    Ok(link)
                };
            }
            // A node that is away does not keep a session from the others: it is given a second, no more.
            if !answering.is_empty() && Instant::now() + PATIENCE >= deadline + PING * 2 {
                return Ok(link);
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The nodes that answer now, as `host:port`.
    pub(super) async fn answering(&self) -> Vec<String> {
        let options = PingOptions::new().service_types(vec![ServiceType::KV]).kv_timeout(PING);
        let Ok(Some(Ok(report))) = timeout(PING * 2, unwound(self.bucket.ping(options))).await else {
            return Vec::new();
        };
        let endpoints = report.services.get(&ServiceType::KV).into_iter().flatten();
        endpoints.filter(|endpoint| endpoint.state == PingState::Ok).map(|endpoint| endpoint.remote.clone()).collect()
    }
}

fn unreachable(settings: &Settings, why: &str) -> StoreError {
    StoreError::Unreachable(format!(
        "{}: {why}; are all nodes of the cluster reachable from here under the names it gives them?",
        settings.address.shown
    ))
}

/// What a future gives; none when it panicked. The SDK panics on some answers that no server gives.
pub(super) async fn unwound<T>(future: impl Future<Output = T>) -> Option<T> {
    AssertUnwindSafe(future).catch_unwind().await.ok()
}
