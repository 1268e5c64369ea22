//! Fuzz tests of the answers of nodes, and of the maps in them.

use super::super::topology::Topology;
use super::frame::{answer, vbucket};
use super::route::Route;

const GOOD: &[&[u8]] = &[
    b"\x81\x00\0\0\x04\0\0\0\0\0\0\x09\0\0\0\x07\0\0\0\0\0\0\0\x01\xde\xad\xbe\xefWorld",
    b"\x18\x00\x03\x00\x04\0\0\0\0\0\0\x08\0\0\0\x07\0\0\0\0\0\0\0\x01\x02\0\x01\xde\xad\xbe\xefW",
    b"\x81\x01\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02",
    b"{\"rev\":3,\"revEpoch\":1,\"bucketCapabilities\":[\"collections\"],\"nodesExt\":[\
      {\"hostname\":\"one\",\"services\":{\"kv\":1,\"mgmt\":2}},{\"services\":{\"kv\":3,\"mgmt\":4,\"n1ql\":5}}],\
      \"vBucketServerMap\":{\"numReplicas\":1,\"vBucketMap\":[[0,1],[1,0],[-1,0],[1]]}}",
];

fn take(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((_, length))) = answer(rest) {
        assert!((24..=rest.len()).contains(&length), "an answer of {length} bytes in {}", rest.len());
        rest = &rest[length..];
    }
    let _ = vbucket(bytes);
    if let Ok(topology) = Topology::read(bytes, "asked", false) {
        let mut route = Route::default();
        let new = route.update(&topology);
        assert_eq!(new, route.nodes, "each node has a link");
        assert!((0..=9).all(|vbucket| route.link(vbucket) < route.nodes.len()));
        assert!(route.update(&topology).is_empty());
    }
}

crate::fuzz::fuzzed!("Couchbase", GOOD, take);
