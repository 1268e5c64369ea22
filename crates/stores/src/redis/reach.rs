//! Connections to a server, or to all primaries of a cluster.

use std::time::Duration;

use storebench_engine::store::StoreError;

use super::cluster::{self, Range, SLOTS};
use super::control::Connection;
use super::facts::Facts;
use super::settings::{ClusterChoice, Settings, ordered_cluster};

/// A connected server or cluster.
pub(super) struct Reached {
    pub(super) facts: Facts,
    /// The server, or each primary of the cluster.
    pub(super) nodes: Vec<Connection>,
    /// The node of each range of slots, in a cluster.
    pub(super) map: Option<Vec<Range>>,
}

/// Which node has which slots of a cluster, and the epoch in which that was so: it rises with each slot that moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slots {
    ranges: Vec<Range>,
    epoch: String,
}

impl Slots {
    /// Asks a node.
    ///
    /// # Errors
    /// An answer that is none of Redis.
    pub(super) async fn ask(connection: &mut Connection) -> Result<Self, StoreError> {
        let mut ranges = ask_ranges(connection).await?;
        ranges.sort_by_key(|range| range.first);
        let answer = connection.ask(&[b"CLUSTER", b"INFO"]).await?;
        let text = answer.text().unwrap_or_default();
        let epoch = text.lines().find_map(|line| line.strip_prefix("cluster_current_epoch:"));
        Ok(Self { ranges, epoch: epoch.unwrap_or_default().trim().to_owned() })
    }
}

async fn ask_ranges(connection: &mut Connection) -> Result<Vec<Range>, StoreError> {
    let answer = connection.ask(&[b"CLUSTER", b"SLOTS"]).await?;
    cluster::ranges(&answer, &connection.host).ok_or_else(|| connection.unexpected("CLUSTER SLOTS", &answer))
}

impl Reached {
    /// Connects, logs in, and queries the server's properties.
    ///
    /// # Errors
    /// `Unreachable` or `BadUrl`, from [`Connection::open`] and [`Facts::ask`].
    pub(super) async fn open(settings: &Settings, patience: Duration) -> Result<Self, StoreError> {
        let mut failure = None;
        for host in &settings.address.hosts {
            match Connection::open(settings, host, patience).await {
                Ok(connection) => return Self::from(settings, connection, patience).await,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| StoreError::BadUrl("the URL does not name a host".into())))
    }

    async fn from(settings: &Settings, mut connection: Connection, patience: Duration) -> Result<Self, StoreError> {
        let facts = Facts::ask(&mut connection).await?;
        let host = connection.host.clone();
        if !facts.cluster || settings.cluster == ClusterChoice::No {
            if settings.cluster == ClusterChoice::Yes {
                return Err(StoreError::BadUrl(format!("{host} is not a node of a cluster; remove cluster=yes")));
            }
            if settings.address.hosts.len() > 1 {
                return Err(StoreError::BadUrl(format!("{host} is not a node of a cluster; name only one host")));
            }
            return Ok(Self { facts, nodes: vec![connection], map: None });
        }
        if settings.ordered {
            return Err(ordered_cluster());
        }
        let map = ask_ranges(&mut connection).await?;
        let served: usize = map.iter().map(|range| usize::from(range.last - range.first) + 1).sum();
        if served < SLOTS {
            return Err(StoreError::Unreachable(format!(
                "{host}: the cluster has no node for {} of its {SLOTS} slots; run `redis-cli --cluster check {host}`",
                SLOTS - served
            )));
        }
        let mut nodes: Vec<Connection> = Vec::new();
        let mut all: Option<Facts> = None;
        for range in &map {
            if nodes.iter().any(|node| node.host == range.host) {
                continue;
            }
            let mut connection = Connection::open(settings, &range.host, patience).await?;
            let facts = Facts::ask(&mut connection).await?;
            all = Some(match all {
                None => facts,
                Some(all) => all.weaker(&facts),
            });
            nodes.push(connection);
        }
        Ok(Self { facts: all.unwrap_or(facts), nodes, map: Some(map) })
    }

    /// The node that holds a key.
    pub(super) fn node_of(&mut self, key: &[u8]) -> &mut Connection {
        let position = self.map.as_ref().and_then(|map| {
            let slot = cluster::slot(key);
            let range = map.iter().find(|range| (range.first..=range.last).contains(&slot))?;
            self.nodes.iter().position(|node| node.host == range.host)
        });
        &mut self.nodes[position.unwrap_or(0)]
    }
}
