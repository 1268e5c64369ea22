//! The first contact: logs in to one node, since the SDK retries a login forever and does not say why.

use storebench_engine::store::StoreError;

use super::kv::first_contact;
use super::settings::Settings;
use super::topology::Topology;

/// Asks one host after another until one returns the bucket's map.
///
/// # Errors
/// `Unreachable` with host, cause and remedy. If no host serves, this is the error of the first one.
pub(super) async fn probe(settings: &Settings) -> Result<Topology, StoreError> {
    let mut first = None;
    for host in &settings.address.hosts {
        match first_contact(settings, host).await {
            Ok(topology) => return Ok(topology),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| StoreError::BadUrl("the URL names no host".into())))
}
