//! Connects and reconnects the links of a session.

use std::sync::Arc;
use std::time::Duration;

use storebench_engine::store::{Persisted, StoreError};

use super::control::{Connection, PATIENCE};
use super::facts;
use super::resp::Value;
use super::scripts::{self, Names};
use super::settings::Settings;
use crate::connection::Connect;
use crate::net::Host;

/// Loads the scripts on a connection.
pub(super) async fn load(connection: &mut Connection, settings: &Settings) -> Result<Names, StoreError> {
    let mut names = Names::default();
    for (name, text) in names.0.iter_mut().zip(scripts::needed(settings.ordered)) {
        match connection.ask(&[b"SCRIPT", b"LOAD", text.as_bytes()]).await? {
            Value::Bulk(given) => *name = given,
            other => return Err(connection.unexpected("SCRIPT LOAD", &other)),
        }
    }
    Ok(names)
}

/// Connects to a replica that answers reads.
///
/// # Errors
/// `Unreachable` if it is no replica, or has lost its primary: what it holds may then be of any age.
pub(super) async fn replica(settings: &Settings, host: &Host, patience: Duration) -> Result<Connection, StoreError> {
    let mut connection = Connection::open(settings, host, patience).await?;
    let role = connection.ask(&[b"ROLE"]).await?;
    let told = |at: usize| role.items().get(at).and_then(Value::text);
    match (told(0).as_deref(), told(3).as_deref()) {
        (Some("slave"), Some("connected")) => Ok(connection),
        (Some("slave"), _) => {
            Err(StoreError::Unreachable(format!("{host} is a replica that does not follow its primary now")))
        }
        _ => Err(StoreError::Unreachable(format!("{host} is no replica; correct `replica=` in the URL"))),
    }
}

/// How a session reconnects to a replica.
pub(super) fn replica_again(settings: &Arc<Settings>, host: &Host) -> Connect {
    crate::connection::again((Arc::clone(settings), host.clone()), move |(settings, host)| async move {
        replica(&settings, &host, PATIENCE).await?.into_stream()
    })
}

/// How a session reconnects to a node. A restart may change the node's settings. If the node no longer gives the
/// guaranteed durability on disk, the session does not use it. Missing replicas show in the answer to each `WAIT`.
pub(super) fn again(settings: &Arc<Settings>, host: &Host, cluster: bool, persisted: Persisted) -> Connect {
    crate::connection::again((Arc::clone(settings), host.clone()), move |(settings, host)| async move {
        let mut connection = Connection::open(&settings, &host, PATIENCE).await?;
        // The former primary may be a replica now, and its reads would be stale. In a cluster, the node redirects
        // them itself.
        if !cluster {
            let role = connection.ask(&[b"ROLE"]).await?;
            if role.items().first().and_then(Value::text).as_deref() != Some("master") {
                return Err(StoreError::Unreachable(format!("{host} is now a replica; name its primary")));
            }
        }
        facts::check_persisted(&mut connection, persisted).await?;
        load(&mut connection, &settings).await?;
        connection.into_stream()
    })
}
