//! The cluster's map, as far as the driver needs it: which node serves a key, and where management listens.

use serde_json::Value;
use storebench_engine::store::StoreError;

use super::durability::Copies;
use super::features::Features;
use crate::net::Host;

/// The contents of a terse configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Topology {
    /// For each vbucket, the position of its node in `data`; -1 for none.
    active: Vec<i16>,
    /// The data service of each node.
    pub(super) data: Vec<Host>,
    /// Where the management API of each node listens.
    pub(super) management: Vec<Host>,
    /// Where the view engine of each node listens.
    pub(super) views: Vec<Host>,
    /// Where the query service of each node that runs it listens.
    pub(super) queries: Vec<Host>,
    /// The number of replicas that the bucket has besides the active copy.
    pub(super) replicas: u32,
    /// Its epoch and its revision, which tell an older map from a newer one.
    pub(super) revision: (i64, i64),
    /// What the servers can do, as far as known.
    pub(super) features: Features,
}

impl Topology {
    /// Reads the configuration that a node returned. `asked` is the name under which that node was reached. It stands
    /// for nodes without a name.
    ///
    /// # Errors
    /// `Unreachable`, with what is missing.
    pub(super) fn read(config: &[u8], asked: &str, tls: bool) -> Result<Self, StoreError> {
        let wrong = |what: &str| {
            StoreError::Unreachable(format!(
                "the cluster's configuration from {asked} {what}; check that the server is Couchbase Server, and that the \
                 bucket's type is couchbase or ephemeral"
            ))
        };
        let config: Value = serde_json::from_slice(config).map_err(|e| wrong(&format!("is not JSON ({e})")))?;
        let capabilities = config["bucketCapabilities"].as_array().cloned().unwrap_or_default();
        let collections = capabilities.iter().any(|capability| capability == "collections");
        let features = Features { collections, ..Features::ALL };
        let map = &config["vBucketServerMap"];
        let nodes = config["nodesExt"].as_array().ok_or_else(|| wrong("lists no nodes"))?;
        let [kv, mgmt, capi, n1ql] =
            if tls { ["kvSSL", "mgmtSSL", "capiSSL", "n1qlSSL"] } else { ["kv", "mgmt", "capi", "n1ql"] };
        let (mut data, mut management, mut views, mut queries) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for node in nodes {
            let host = node["hostname"].as_str().unwrap_or(asked);
            let port = |service: &str| node["services"][service].as_u64().and_then(|port| u16::try_from(port).ok());
            // The SDK identifies nodes by this port, also with TLS, and requires it.
            port("mgmt").ok_or_else(|| wrong("has a node without a management port"))?;
            let at = |service| port(service).map(|port| Host { name: host.to_owned(), port });
            data.extend(at(kv));
            management.extend(at(mgmt));
            views.extend(at(capi));
            queries.extend(at(n1ql));
        }
        let active = map["vBucketMap"].as_array().filter(|map| !map.is_empty()).ok_or_else(|| wrong("has no map"))?;
        let active: Vec<i16> =
            active.iter().map(|holders| holders[0].as_i64().and_then(|n| n.try_into().ok()).unwrap_or(-1)).collect();
        let replicas = map["numReplicas"].as_u64().and_then(|n| u32::try_from(n).ok());
        let replicas = replicas.ok_or_else(|| wrong("does not give the number of replicas"))?;
        if data.is_empty() {
            return Err(wrong("has no node with the data service"));
        }
        let number = |name: &str| config[name].as_i64().unwrap_or(0);
        let revision = (number("revEpoch"), number("rev"));
        Ok(Self { active, data, management, views, queries, replicas, revision, features })
    }

    /// The number of wanted copies, and of nodes for them.
    pub(super) fn copies(&self) -> Copies {
        let nodes = u32::try_from(self.data.len()).unwrap_or(u32::MAX);
        Copies { replicas: self.replicas, nodes, durable_writes: self.features.durable_writes }
    }

    /// The vbucket of a key, of so many. `hasher` has seen nothing yet: to make one asks what the processor can do.
    #[inline]
    pub(super) fn vbucket(mut hasher: crc32fast::Hasher, key: &str, vbuckets: usize) -> u16 {
        hasher.update(key.as_bytes());
        let hash = (hasher.finalize() >> 16) & 0x7fff;
        (hash as usize % vbuckets.max(1)) as u16
    }

    /// The node of each vbucket.
    pub(super) fn active(&self) -> impl Iterator<Item = Option<usize>> {
        self.active.iter().map(|node| usize::try_from(*node).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"{
        "bucketCapabilities": ["collections"],
        "nodesExt": [
            {"hostname": "one", "services": {"kv": 1, "mgmt": 2}},
            {"services": {"kv": 3, "mgmt": 4, "capi": 5, "n1ql": 6}}
        ],
        "vBucketServerMap": {"numReplicas": 1, "vBucketMap": [[0, 1], [1, 0], [-1, 0]]}
    }"#;

    #[test]
    fn keys_are_served_where_the_map_says() {
        let topology = Topology::read(CONFIG.as_bytes(), "asked", false).unwrap();
        assert_eq!(topology.data.iter().map(Host::to_string).collect::<Vec<_>>(), ["one:1", "asked:3"]);
        assert_eq!(topology.management[1].to_string(), "asked:4");
        assert_eq!(topology.views, [Host { name: "asked".into(), port: 5 }]);
        assert_eq!(topology.queries, [Host { name: "asked".into(), port: 6 }]);
        assert_eq!(topology.replicas, 1);
        assert!(topology.features.collections);
        let old = Topology::read(CONFIG.replace("collections", "xattr").as_bytes(), "asked", false).unwrap();
        assert!(!old.features.collections);
        let active: Vec<Option<usize>> = topology.active().collect();
        let node_of =
            |key: String| active[usize::from(Topology::vbucket(crc32fast::Hasher::new(), &key, active.len()))];
        let nodes: Vec<Option<usize>> = (0..100).map(|i| node_of(format!("key-{i}"))).collect();
        for node in [Some(0), Some(1), None] {
            assert!(nodes.contains(&node), "{node:?} of {nodes:?}");
        }
    }

    #[test]
    fn a_configuration_without_what_is_needed_is_refused() {
        for (part, without) in [
            ("\"mgmt\": 4", "\"other\": 4"),
            ("vBucketMap", "other"),
            ("numReplicas", "other"),
            ("nodesExt", "nodes"),
            ("{", ""),
        ] {
            let config = CONFIG.replacen(part, without, 1);
            let error = Topology::read(config.as_bytes(), "asked", false).unwrap_err();
            assert!(matches!(error, StoreError::Unreachable(_)), "{part}");
        }
    }
}
