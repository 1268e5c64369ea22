//! The first contact: logs in once by hand, since the SDK retries forever and does not say why.

use std::sync::Arc;
use std::time::Duration;

use couchbase_core::address;
use couchbase_core::memdx::auth_mechanism::AuthMechanism;
use couchbase_core::memdx::client::Client;
use couchbase_core::memdx::connection::{ConnectOptions, ConnectionType, TcpConnection, TlsConnection};
use couchbase_core::memdx::dispatcher::{Dispatcher, DispatcherOptions};
use couchbase_core::memdx::error::{Error, ErrorKind, ServerErrorKind};
use couchbase_core::memdx::hello_feature::HelloFeature;
use couchbase_core::memdx::op_auth_saslauto::{Credentials, SASLAuthAutoOptions};
use couchbase_core::memdx::op_bootstrap::{BootstrapOptions, OpBootstrap};
use couchbase_core::memdx::ops_core::OpsCore;
use couchbase_core::memdx::request::{GetClusterConfigRequest, HelloRequest, SelectBucketRequest};
use couchbase_core::memdx::status::Status;
use storebench_engine::store::StoreError;
use tokio::time::{Instant, timeout};

use super::features::Features;
use super::settings::Settings;
use super::topology::Topology;
use crate::net::{Host, connect};

/// Timeout of one host.
const PATIENCE: Duration = Duration::from_secs(7);

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
    let tls = settings.address.tls.as_ref();
    // For its errors: those of the SDK do not distinguish a name from a certificate.
    drop(connect(host, tls, PATIENCE).await?);
    let (config, agreed) = match timeout(PATIENCE, log_in(settings, host)).await {
        Ok(result) => result?,
        Err(_) => {
            return Err(StoreError::Unreachable(format!(
                "{host} accepted a connection, but did not answer within {PATIENCE:?}: it is overloaded or stopped, or is no \
                 Couchbase data service; {CHECK_THE_PORT}"
            )));
        }
    };
    let mut topology = Topology::read(&config, &host.name, tls.is_some())?;
    topology.features = Features { collections: agreed.collections && topology.features.collections, ..agreed };
    Ok(topology)
}

const CHECK_THE_PORT: &str =
    "check the port: the default is 11210, or 11207 with TLS (couchbases://), and 8091 is the web console";

fn not_couchbase(host: &Host, what: &str) -> StoreError {
    StoreError::Unreachable(format!("{host} is not a Couchbase data service: {what}; {CHECK_THE_PORT}"))
}

/// The map, and what the node agreed to do.
async fn log_in(settings: &Settings, host: &Host) -> Result<(Vec<u8>, Features), StoreError> {
    let failed = |error: &Error| explain(settings, host, error);
    let address = || address::Address { host: host.name.clone(), port: host.port };
    let options =
        || ConnectOptions { deadline: Instant::now() + PATIENCE, tcp_keep_alive_time: Duration::from_secs(60) };
    let (connection, mechanism) = match &settings.address.tls {
        None => {
            let connection = TcpConnection::connect(address(), options()).await.map_err(|e| failed(&e))?;
            (ConnectionType::Tcp(connection), AuthMechanism::ScramSha512)
        }
        Some(tls) => {
            let connection = TlsConnection::connect(address(), tls.config()?, options()).await;
            (ConnectionType::Tls(connection.map_err(|e| failed(&e))?), AuthMechanism::Plain)
        }
    };
    let (closed, _) = tokio::sync::oneshot::channel();
    let client = Client::new(
        connection,
        DispatcherOptions {
            unsolicited_packet_handler: Arc::new(|_| Box::pin(async {})),
            orphan_handler: None,
            on_read_close_tx: closed,
            disable_decompression: false,
            id: "storebench".into(),
        },
    );
    let (user, password) = settings.credentials();
    let mut features = vec![HelloFeature::SelectBucket, HelloFeature::Xerror, HelloFeature::Json];
    features.extend(Features::ALL.numbers().map(HelloFeature::from));
    let bootstrap = BootstrapOptions {
        hello: Some(HelloRequest::new(b"storebench".to_vec(), features)),
        get_error_map: None,
        auth: Some(SASLAuthAutoOptions {
            credentials: Credentials::UserPass { username: user.to_owned(), password: password.to_owned() },
            enabled_mechs: vec![mechanism],
        }),
        select_bucket: Some(SelectBucketRequest::new(settings.bucket.clone())),
        deadline: Instant::now() + PATIENCE,
        get_cluster_config: Some(GetClusterConfigRequest::new()),
    };
    let result = OpBootstrap::bootstrap(OpsCore {}, &client, bootstrap).await;
    // It has served its purpose. How it ends does not matter.
    let _ = client.close().await;
    let result = result.map_err(|e| failed(&e))?;
    let agreed: Vec<u16> =
        result.hello.iter().flat_map(|hello| &hello.enabled_features).map(|f| u16::from(*f)).collect();
    let config = result.cluster_config.ok_or_else(|| not_couchbase(host, "it returned no map of the cluster"))?;
    let config = String::from_utf8_lossy(&config.config).replace("$HOST", &host.name);
    Ok((config.into_bytes(), Features::agreed(&agreed)))
}

fn explain(settings: &Settings, host: &Host, error: &Error) -> StoreError {
    let (user, bucket) = (settings.credentials().0, &settings.bucket);
    let server = match error.kind() {
        ErrorKind::Server(error) => Some(error),
        ErrorKind::Resource(error) => Some(error.cause()),
        _ => None,
    };
    match server.map(|error| error.kind()) {
        Some(ServerErrorKind::UnknownBucketName) => bucket_refused(host, bucket, user),
        Some(ServerErrorKind::Auth { .. } | ServerErrorKind::Access) => login_refused(host, user),
        Some(ServerErrorKind::UnknownStatus { status: Status::AuthError }) => login_refused(host, user),
        Some(_) => StoreError::Unreachable(format!("{host} refused the connection: {error}")),
        None => not_couchbase(host, &error.to_string()),
    }
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
