//! The map that tells clients which node holds which partition (vbucket).

use serde_json::{Value, json};

/// The holders of each vbucket: first the active node, then the replicas; -1 if there is none.
#[derive(Debug, Clone)]
pub(super) struct Map {
    pub holders: Vec<Vec<i16>>,
}

impl Map {
    /// Spreads the vbuckets over the nodes. The replicas of each are on the following nodes.
    pub(super) fn spread(vbuckets: u16, nodes: usize, replicas: usize) -> Self {
        let holder = |vbucket: usize, copy: usize| {
            if copy < nodes { ((vbucket + copy) % nodes) as i16 } else { -1 }
        };
        let holders = (0..usize::from(vbuckets)).map(|v| (0..=replicas).map(|copy| holder(v, copy)).collect());
        Self { holders: holders.collect() }
    }

    /// The vbucket of a key.
    pub(super) fn vbucket(&self, key: &[u8]) -> u16 {
        let hash = (crc32fast::hash(key) >> 16) & 0x7fff;
        (hash as usize % self.holders.len().max(1)) as u16
    }

    /// The node that holds the active copy.
    pub(super) fn active(&self, vbucket: u16) -> Option<usize> {
        let first = *self.holders.get(usize::from(vbucket))?.first()?;
        usize::try_from(first).ok()
    }

    /// All nodes with a copy, the active one first.
    pub(super) fn copies(&self, vbucket: u16) -> impl Iterator<Item = usize> + '_ {
        self.holders.get(usize::from(vbucket)).into_iter().flatten().filter_map(|node| usize::try_from(*node).ok())
    }

    /// The configured number of copies.
    pub(super) fn wanted_copies(&self) -> usize {
        self.holders.first().map_or(1, Vec::len)
    }
}

/// The ports of one node in the configuration.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ports {
    pub kv: u16,
    pub http: u16,
    pub kv_tls: Option<u16>,
    pub http_tls: Option<u16>,
}

/// The terse configuration of the bucket, or of the cluster if no bucket is requested.
pub(super) fn terse(
    bucket: Option<&str>,
    map: &Map,
    epoch: i64,
    revision: i64,
    members: &[(Ports, bool)],
    manifest_uid: u64,
) -> Value {
    let host = "127.0.0.1";
    let ext: Vec<Value> = members
        .iter()
        .map(|(ports, _)| {
            let mut services =
                json!({ "kv": ports.kv, "mgmt": ports.http, "n1ql": ports.http, "indexHttp": ports.http, "capi": ports.http });
            if let (Some(kv), Some(http)) = (ports.kv_tls, ports.http_tls) {
                services["kvSSL"] = json!(kv);
                services["mgmtSSL"] = json!(http);
                services["n1qlSSL"] = json!(http);
                services["capiSSL"] = json!(http);
            }
            json!({ "services": services, "hostname": host })
        })
        .collect();
    let mut config = json!({
        "rev": revision,
        "revEpoch": epoch,
        "nodesExt": ext,
        "clusterCapabilitiesVer": [1, 0],
        "clusterCapabilities": { "n1ql": ["enhancedPreparedStatements"] },
        "clusterName": "fake",
        "clusterUUID": "0123456789abcdef0123456789abcdef",
    });
    if let Some(bucket) = bucket {
        let servers: Vec<String> = members.iter().map(|(ports, _)| format!("{host}:{}", ports.kv)).collect();
        let nodes: Vec<Value> = members
            .iter()
            .map(|(ports, _)| json!({ "hostname": format!("{host}:{}", ports.http), "ports": { "direct": ports.kv } }))
            .collect();
        config["name"] = json!(bucket);
        config["nodeLocator"] = json!("vbucket");
        config["uuid"] = json!("fedcba9876543210fedcba9876543210");
        config["uri"] = json!(format!("/pools/default/buckets/{bucket}"));
        config["streamingUri"] = json!(format!("/pools/default/bucketsStreaming/{bucket}"));
        config["bucketCapabilitiesVer"] = json!("");
        config["bucketCapabilities"] =
            json!(["collections", "durableWrite", "tombstonedUserXAttrs", "dcp", "cbhello", "touch", "cccp", "xattr"]);
        config["collectionsManifestUid"] = json!(format!("{manifest_uid:x}"));
        config["nodes"] = json!(nodes);
        config["vBucketServerMap"] = json!({
            "hashAlgorithm": "CRC",
            "numReplicas": map.wanted_copies() - 1,
            "serverList": servers,
            "vBucketMap": map.holders,
        });
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_copy_is_on_another_node_and_missing_nodes_are_told() {
        let map = Map::spread(64, 3, 2);
        for vbucket in 0..64 {
            let mut nodes: Vec<usize> = map.copies(vbucket).collect();
            nodes.sort_unstable();
            assert_eq!(nodes, [0, 1, 2]);
        }
        let alone = Map::spread(64, 1, 1);
        assert_eq!(alone.holders[7], [0, -1]);
        assert_eq!(alone.copies(7).count(), 1);
    }
}
