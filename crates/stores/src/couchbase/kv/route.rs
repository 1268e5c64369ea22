//! Which connection leads to the node of a document.

use super::super::topology::Topology;
use crate::net::Host;

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
    /// What keys are hashed with; it has seen none.
    hasher: crc32fast::Hasher,
}

impl Route {
    /// The number of a key's vbucket.
    #[inline]
    pub(super) fn vbucket(&self, key: &str) -> u16 {
        Topology::vbucket(self.hasher.clone(), key, self.links.len())
    }

    /// The link of a vbucket.
    #[inline]
    pub(super) fn link(&self, vbucket: u16) -> usize {
        self.links.get(usize::from(vbucket)).map_or(0, |link| usize::from(*link))
    }

    /// Whether any vbucket has this link.
    pub(super) fn uses(&self, link: usize) -> bool {
        self.links.iter().any(|other| usize::from(*other) == link)
    }

    /// Takes over a map if it is newer. Returns the nodes that need a link, in the order in which they are added.
    pub(super) fn update(&mut self, topology: &Topology) -> Vec<Host> {
        if !self.nodes.is_empty() && topology.revision <= self.revision {
            return Vec::new();
        }
        let known = self.nodes.len();
        let mut links = Vec::with_capacity(topology.data.len());
        for node in &topology.data {
            let link = self.nodes.iter().position(|other| other == node).unwrap_or_else(|| {
                self.nodes.push(node.clone());
                self.nodes.len() - 1
            });
            links.push(link as u16);
        }
        let link_of = |node: Option<usize>| node.and_then(|node| links.get(node).copied()).unwrap_or_default();
        self.links = topology.active().map(link_of).collect();
        self.revision = topology.revision;
        self.nodes[known..].to_vec()
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

    /// Every vbucket has a link, whatever the map says.
    #[test]
    fn no_map_leads_to_a_link_that_is_not_there() {
        let mut route = Route::default();
        let nodes =
            [r#"{"services":{"kv":0,"mgmt":1},"hostname":"["}"#, r#"{"services":{"kv":9,"mgmt":1},"hostname":""}"#];
        for (revision, map) in (1..).zip(["[[0],[1]]", "[[7]]", "[[-9],[1],[99999]]", "[[],[null]]", "[[\"x\"]]"]) {
            route.update(&topology(revision, &nodes.join(","), map));
            assert!((0..=1024).all(|vbucket| route.link(vbucket) < route.nodes.len()), "{map}");
            assert!(usize::from(route.vbucket("key")) < route.links.len());
        }
    }

    #[test]
    fn only_a_newer_map_is_taken_over_and_links_stay_where_they_are() {
        let node = |port: u16| format!(r#"{{"services":{{"kv":{port},"mgmt":1}}}}"#);
        let mut route = Route::default();
        let two = format!("{},{}", node(1), node(2));
        assert_eq!(route.update(&topology(5, &two, "[[0],[1],[-1]]")).len(), 2);
        assert_eq!([0, 1, 2].map(|vbucket| route.link(vbucket)), [0, 1, 0]);
        assert!(route.update(&topology(4, &two, "[[1],[1],[1]]")).is_empty());
        assert_eq!(route.link(0), 0, "it is older");
        let others = format!("{},{}", node(2), node(3));
        let new = route.update(&topology(6, &others, "[[0],[1],[1]]"));
        assert_eq!(new, [Host { name: "here".into(), port: 3 }]);
        assert_eq!([0, 1, 2].map(|vbucket| route.link(vbucket)), [1, 2, 2]);
        assert_eq!([0, 1, 2].map(|link| route.uses(link)), [false, true, true]);
    }
}
