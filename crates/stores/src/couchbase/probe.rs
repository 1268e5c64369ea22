//! The first contact: logs in to one node, since the SDK retries a login forever and does not say why.

use storebench_engine::store::StoreError;

use super::features::Features;
use super::kv::first_contact;
use super::settings::Settings;
use super::topology::Topology;
use crate::net::Host;

/// Asks one host after another until one returns the bucket's map.
///
/// # Errors
/// `Unreachable` with host, cause and remedy. If no host serves, this is the error of the first one.
pub(super) async fn probe(settings: &Settings) -> Result<Topology, StoreError> {
    let mut first = None;
    for host in &settings.address.hosts {
        match probe_one(settings, host).await {
            Ok(topology) => return Ok(topology),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| StoreError::BadUrl("the URL names no host".into())))
}

async fn probe_one(settings: &Settings, host: &Host) -> Result<Topology, StoreError> {
    let (config, agreed) = first_contact(settings, host).await?;
    let mut topology = Topology::read(&config, &host.name, settings.address.tls.is_some())?;
    topology.features = Features { collections: agreed.collections && topology.features.collections, ..agreed };
    Ok(topology)
}

const CHECK_THE_PORT: &str =
    "check the port: the default is 11210, or 11207 with TLS (couchbases://), and 8091 is the web console";

pub(super) fn not_couchbase(host: &Host, what: &str) -> StoreError {
    StoreError::Unreachable(format!("{host} is not a Couchbase data service: {what}; {CHECK_THE_PORT}"))
}

pub(super) fn silent(host: &Host, patience: std::time::Duration) -> StoreError {
    StoreError::Unreachable(format!(
        "{host} accepted a connection, but did not answer within {patience:?}: it is overloaded or stopped, or is no \
         Couchbase data service; {CHECK_THE_PORT}"
    ))
}

pub(super) fn bucket_refused(host: &Host, bucket: &str, user: &str) -> StoreError {
    StoreError::Unreachable(format!(
        "{host} has no bucket `{bucket}` for `{user}`: it does not exist, or `{user}` may not use it; create it, or \
         name another bucket after the host"
    ))
}

pub(super) fn login_refused(host: &Host, user: &str) -> StoreError {
    StoreError::Unreachable(format!(
        "{host} refused the login of `{user}`: the user or the password is wrong; set them in the URL, or set the \
         password with STOREBENCH_PASSWORD or password_file="
    ))
}
