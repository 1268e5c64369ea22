//! Which connection leads to the node of a document.

use storebench_engine::store::StoreError;

use super::super::topology::Topology;
use crate::net::{Host, read_host};

/// The map, as connections see it.
#[derive(Debug, Default)]
pub(super) struct Route {
    /// The node of each link. Links are never removed.
    pub(super) nodes: Vec<Host>,
    /// The link of each vbucket. One without a node has any: that node says so.
    links: Vec<u16>,
    /// The epoch and the revision of the map.
    revision: (i64, i64),
    /// Whether a request for the map is in flight.
    pub(super) asking: bool,
}

impl Route {
    /// The number of a key's vbucket.
    #[inline]
    pub(super) fn vbucket(&self, key: &str) -> u16 {
        Topology::vbucket(key, self.links.len())
    }

    /// The link of a vbucket.
    #[inline]
    pub(super) fn link(&self, vbucket: u16) -> usize {
        self.links.get(usize::from(vbucket)).map_or(0, |link| usize::from(*link))
    }

    /// Takes over a map if it is newer. Returns the nodes that need a link, in the order in which they are added.
    ///
    /// # Errors
    /// `Unreachable`, if a node's name cannot be used.
    pub(super) fn update(&mut self, topology: &Topology) -> Result<Vec<Host>, StoreError> {
        self.asking = false;
        if !self.nodes.is_empty() && topology.revision <= self.revision {
            return Ok(Vec::new());
        }
        let known = self.nodes.len();
        let mut links = Vec::with_capacity(topology.data.len());
        for node in &topology.data {
            let host = read_host(node, 0)
                .map_err(|_| StoreError::Unreachable(format!("the cluster's map names a node `{node}`")))?;
            let link = self.nodes.iter().position(|other| *other == host).unwrap_or_else(|| {
                self.nodes.push(host);
                self.nodes.len() - 1
            });
            links.push(link as u16);
        }
        let link_of = |node: Option<usize>| node.and_then(|node| links.get(node).copied()).unwrap_or_default();
        self.links = topology.active().map(link_of).collect();
        self.revision = topology.revision;
        Ok(self.nodes[known..].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(revision: i64, nodes: &str, map: &str) -> Topology {
        let config = format!(
            r#"{{"rev":{revision},"bucketCapabilities":["collections"],"nodesExt":[{nodes}],
                "vBucketServerMap":{{"numReplicas":0,"vBucketMap":{map}}}}}"#
        );
        Topology::read(config.as_bytes(), "here", false).unwrap()
    }

    #[test]
    fn only_a_newer_map_is_taken_over_and_links_stay_where_they_are() {
        let node = |port: u16| format!(r#"{{"services":{{"kv":{port},"mgmt":1}}}}"#);
        let mut route = Route::default();
        let two = format!("{},{}", node(1), node(2));
        assert_eq!(route.update(&topology(5, &two, "[[0],[1],[-1]]")).unwrap().len(), 2);
        assert_eq!([0, 1, 2].map(|vbucket| route.link(vbucket)), [0, 1, 0]);
        assert!(route.update(&topology(4, &two, "[[1],[1],[1]]")).unwrap().is_empty());
        assert_eq!(route.link(0), 0, "it is older");
        let others = format!("{},{}", node(2), node(3));
        let new = route.update(&topology(6, &others, "[[0],[1],[1]]")).unwrap();
        assert_eq!(new, [Host { name: "here".into(), port: 3 }]);
        assert_eq!([0, 1, 2].map(|vbucket| route.link(vbucket)), [1, 2, 2]);
    }
}
