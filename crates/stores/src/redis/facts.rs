//! The server properties that decide which guarantees are possible.

use storebench_engine::store::{Acknowledged, Durability, Persisted, StoreError};

use super::control::Connection;
use super::resp::Value;

/// The oldest version with all required commands: `SET … KEEPTTL` and `SCAN … TYPE`.
const OLDEST: (u32, u32) = (6, 0);
/// The default of `proto-max-bulk-len`.
const DEFAULT_LARGEST_BYTES: u64 = 512 << 20;

/// What a server reports about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// `Redis 7.0.15`.
    pub(super) version: String,
    /// Whether it is a node of a cluster.
    pub(super) cluster: bool,
    /// The number of connected replicas; in a cluster, the minimum over all nodes.
    pub(super) replicas: u32,
    pub(super) persistence: Persistence,
    /// The largest value that it accepts.
    pub(super) largest_bytes: u64,
}

/// How a server writes its append-only file, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Persistence {
    /// Unknown, because `CONFIG` is forbidden.
    Unknown,
    /// No append-only file: at most occasional snapshots.
    Memory,
    /// `appendfsync everysec`: during a sync, the process holds writes back.
    EverySecond,
    /// `appendfsync no`: each write is handed to the operating system before it is answered.
    Os,
    /// `appendfsync always`, but not during a rewrite of the file.
    AlwaysButDuringRewrites,
    /// `appendfsync always`.
    Always,
}

impl Facts {
    /// Queries a server over a new connection.
    ///
    /// # Errors
    /// `Unreachable` for a server that is too old, is a replica, or does not report its version.
    pub(super) async fn ask(connection: &mut Connection) -> Result<Self, StoreError> {
        let host = connection.host.clone();
        let server = connection.info("server").await?;
        let replication = connection.info("replication").await?;
        let Some(version) = server.get("redis_version") else {
            return Err(StoreError::Unreachable(format!(
                "{host} speaks Redis's protocol but reports no redis_version; expected Redis or Valkey"
            )));
        };
        let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
        let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if (major, minor) < OLDEST {
            return Err(StoreError::Unreachable(format!(
                "{host} is Redis {version}, which is too old; Storebench needs {}.{} or later",
                OLDEST.0, OLDEST.1
            )));
        }
        let cluster = server.get("redis_mode") == Some("cluster");
        // In a cluster, a replica leads to the primaries.
        if !cluster && replication.get("role").is_some_and(|role| role != "master") {
            let primary = replication.get("master_host").unwrap_or("its primary");
            let port = replication.get("master_port").unwrap_or_default();
            return Err(StoreError::Unreachable(format!(
                "{host} is a replica, which accepts no writes; name its primary instead ({primary} {port})"
            )));
        }
        let version = match server.get("valkey_version") {
            Some(version) => format!("Valkey {version}"),
            None => format!("Redis {version}"),
        };
        Ok(Self {
            version,
            cluster,
            replicas: replication.number("connected_slaves").unwrap_or(0.0) as u32,
            persistence: persistence(connection).await?,
            largest_bytes: setting(connection, "proto-max-bulk-len")
                .await?
                .and_then(|text| text.parse().ok())
                .unwrap_or(DEFAULT_LARGEST_BYTES),
        })
    }

    /// What both nodes can guarantee.
    pub(super) fn weaker(self, other: &Self) -> Self {
        Self {
            replicas: self.replicas.min(other.replicas),
            persistence: self.persistence.min(other.persistence),
            largest_bytes: self.largest_bytes.min(other.largest_bytes),
            ..self
        }
    }

    /// The durability levels that it can guarantee, and how.
    pub(super) fn guarantees(&self) -> Vec<(Durability, &'static str)> {
        let persisted = [(Durability::OS, OS), (Durability::FSYNC, FSYNC)];
        let persisted: Vec<_> =
            persisted.into_iter().filter(|(level, _)| self.persistence.lacks(level.persisted).is_none()).collect();
        let mut guarantees = vec![(Durability::MEMORY, MEMORY)];
        guarantees.extend(persisted.iter().copied());
        for nodes in 2..=self.replicas.saturating_add(1).min(16) {
            let acknowledged_by = Acknowledged::Nodes(nodes);
            guarantees.push((Durability { acknowledged_by, ..Durability::MEMORY }, WAIT));
            guarantees.extend(persisted.iter().map(|(level, _)| (Durability { acknowledged_by, ..*level }, WAIT_TOO)));
        }
        guarantees
    }

    /// How many replicas each write waits for, or an error that says why the level cannot be guaranteed.
    pub(super) fn waits_for(&self, durability: Durability, host: &str) -> Result<u32, StoreError> {
        let refuse =
            |why: String| Err(StoreError::NotSupported(format!("{host} cannot guarantee `{durability}`: {why}")));
        let nodes = match durability.acknowledged_by {
            Acknowledged::Nodes(nodes) => nodes.max(1),
            Acknowledged::Majority => {
                return refuse(
                    "Redis has no majority, because a primary does not know how many replicas it should have; \
                               use { acknowledged_by = 2 }"
                        .into(),
                );
            }
        };
        if durability.persisted != Persisted::None && durability.on > 1 {
            return refuse("replicas acknowledge writes in memory, before their disk; use on = 1".into());
        }
        if let Some(why) = self.persistence.lacks(durability.persisted) {
            return refuse(why.into());
        }
        if nodes - 1 > self.replicas {
            return refuse(format!(
                "it requires {} replicas, but {} are connected; start more, or use acknowledged_by = {}",
                nodes - 1,
                self.replicas,
                self.replicas + 1
            ));
        }
        Ok(nodes - 1)
    }
}

const MEMORY: &str = "as the server is configured; no durability on disk is required";
const OS: &str = "appendonly yes with appendfsync no or always: written to the append-only file before the answer";
const FSYNC: &str = "appendonly yes with appendfsync always: the append-only file is synced before the answer";
const WAIT: &str = "WAIT after each flush of writes, until that many nodes have them in memory";
const WAIT_TOO: &str = "appendonly and appendfsync on the primary, and WAIT until the replicas have the write in \
     memory";

impl Persistence {
    /// Why it does not guarantee this level, if it does not.
    fn lacks(self, persisted: Persisted) -> Option<&'static str> {
        match (persisted, self) {
            (Persisted::None, _)
            | (Persisted::Os, Self::Os | Self::Always | Self::AlwaysButDuringRewrites)
            | (Persisted::Disk, Self::Always) => None,
            (_, Self::Unknown) => Some("its settings are unknown, because this user may not run CONFIG GET"),
            (_, Self::Memory) => Some("it has appendonly no; set `appendonly yes`"),
            (Persisted::Os, Self::EverySecond) => Some(
                "with appendfsync everysec, its process holds writes back for up to 2 s during a sync; \
                 set `appendfsync always` or `no`",
            ),
            (Persisted::Disk, Self::AlwaysButDuringRewrites) => {
                Some("it does not sync during a rewrite; set `no-appendfsync-on-rewrite no`")
            }
            (Persisted::Disk, _) => Some("it does not sync before it answers; set `appendfsync always`"),
        }
    }
}

/// Checks that a server still gives the guaranteed durability on disk.
///
/// # Errors
/// `NotSupported`, which says what has changed and how to change it back.
pub(super) async fn check_persisted(connection: &mut Connection, persisted: Persisted) -> Result<(), StoreError> {
    if persisted == Persisted::None {
        return Ok(());
    }
    match persistence(connection).await?.lacks(persisted) {
        None => Ok(()),
        Some(why) => Err(StoreError::NotSupported(format!(
            "{} came back without the guaranteed durability, so it is not used: {why}",
            connection.host
        ))),
    }
}

/// What servers may guarantee that have not been queried yet.
pub(super) fn possible() -> Vec<(Durability, &'static str)> {
    let replicas = 2;
    let version = String::new();
    let persistence = Persistence::Always;
    Facts { version, cluster: false, replicas, persistence, largest_bytes: DEFAULT_LARGEST_BYTES }.guarantees()
}

async fn persistence(connection: &mut Connection) -> Result<Persistence, StoreError> {
    let Some(append) = setting(connection, "appendonly").await? else { return Ok(Persistence::Unknown) };
    if append != "yes" {
        return Ok(Persistence::Memory);
    }
    let spares = setting(connection, "no-appendfsync-on-rewrite").await?;
    Ok(match (setting(connection, "appendfsync").await?.as_deref(), spares.as_deref()) {
        (Some("no"), _) => Persistence::Os,
        (Some("everysec"), _) => Persistence::EverySecond,
        (Some("always"), Some("no")) => Persistence::Always,
        (Some("always"), _) => Persistence::AlwaysButDuringRewrites,
        _ => Persistence::Unknown,
    })
}

/// A setting of the server; `None` if it does not report it.
async fn setting(connection: &mut Connection, name: &str) -> Result<Option<String>, StoreError> {
    match connection.call(&[b"CONFIG", b"GET", name.as_bytes()]).await? {
        Value::Array(pair) => Ok(pair.get(1).and_then(Value::text)),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(persistence: Persistence, replicas: u32) -> Facts {
        Facts { version: "Redis 7".into(), cluster: false, replicas, persistence, largest_bytes: 1 }
    }

    #[test]
    fn what_is_guaranteed_is_what_opens() {
        let two = Acknowledged::Nodes(2);
        let levels = [
            Durability::MEMORY,
            Durability::OS,
            Durability::FSYNC,
            Durability::MAJORITY,
            Durability { acknowledged_by: two, ..Durability::MEMORY },
            Durability { acknowledged_by: two, ..Durability::FSYNC },
            Durability { acknowledged_by: two, persisted: Persisted::Disk, on: 2 },
            Durability { acknowledged_by: Acknowledged::Nodes(7), persisted: Persisted::Disk, on: 7 },
        ];
        use Persistence as P;
        let mut guaranteed = Vec::new();
        for persistence in [P::Memory, P::Os, P::EverySecond, P::Always, P::AlwaysButDuringRewrites, P::Unknown] {
            for replicas in [0, 1] {
                let facts = facts(persistence, replicas);
                let guarantees = facts.guarantees();
                let opens = |level: &Durability| facts.waits_for(*level, "h").is_ok();
                for level in levels {
                    let declared = guarantees.iter().any(|(d, _)| *d == level);
                    assert_eq!(declared, opens(&level), "{persistence:?} {replicas} {level}");
                }
                guaranteed.push(guarantees.len());
            }
        }
        assert_eq!(guaranteed, [1, 2, 2, 4, 1, 2, 3, 6, 2, 4, 1, 2]);
        assert_eq!(facts(P::Memory, 1).waits_for(levels[4], "h").unwrap(), 1);
    }
}
