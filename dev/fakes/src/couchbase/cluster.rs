//! The state that all nodes of a fake share: map, copies, collections, indexes, faults.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::documents::{Copy, Document, Name, alive};
use super::fake::{FakeOptions, Lacks, QueryService};
use super::garbage::{Garbage, Random};
use super::map::{self, Map, Ports};
use super::views::View;

/// One node of the cluster.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub ports: Ports,
    /// Whether it accepts connections.
    pub up: bool,
    /// Whether it accepts writes from the active copies.
    pub replicates: bool,
    /// Whether its disk accepts writes.
    pub disk: bool,
    pub copies: HashMap<u16, Copy>,
    /// The number of writes that wait for the disk.
    pub queued: u64,
}

/// A collection of a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Collection {
    pub uid: u32,
    pub name: String,
}

/// A scope with its collections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scope {
    pub uid: u32,
    pub name: String,
    pub collections: Vec<Collection>,
}

/// A secondary or primary index.
#[derive(Debug, Clone)]
pub(super) struct Index {
    pub name: String,
    pub scope: String,
    pub collection: String,
    pub collection_uid: u32,
    /// Fields in order; empty for a primary index.
    pub fields: Vec<String>,
}

/// Injected faults.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// The number of the next document operations that fail temporarily.
    pub temporary: u64,
    /// Whether document operations are left unanswered.
    pub stalled: bool,
    pub garbage: Option<(Garbage, Random)>,
}

/// What the documents of a cluster depend on: the sum of the sequence numbers, the revision of the map, and that of the
/// collections.
type Changes = (u64, i64, u64);

/// The documents of one collection in the order of their keys, as they were after `changes`. Some may have expired since.
#[derive(Debug, Default)]
pub(super) struct Listing {
    changes: Changes,
    pub documents: Vec<(Name, Document)>,
    /// Positions by the value of each field that was asked for, as JSON.
    pub by_field: HashMap<String, HashMap<String, Vec<usize>>>,
}

impl Listing {
    /// Finds the positions of all documents by the value of a field.
    pub(super) fn index(&mut self, field: &str) {
        if self.by_field.contains_key(field) {
            return;
        }
        let mut positions: HashMap<String, Vec<usize>> = HashMap::new();
        for (position, (_, document)) in self.documents.iter().enumerate() {
            let value = serde_json::from_slice::<serde_json::Value>(&document.value).unwrap_or_default();
            if let Some(value) = value.get(field) {
                positions.entry(value.to_string()).or_default().push(position);
            }
        }
        self.by_field.insert(field.to_owned(), positions);
    }
}

/// The state of the cluster.
#[derive(Debug)]
pub(super) struct Cluster {
    pub options: FakeOptions,
    pub map: Map,
    pub epoch: i64,
    pub revision: i64,
    pub nodes: Vec<Node>,
    pub scopes: Vec<Scope>,
    pub manifest_uid: u64,
    next_uid: u32,
    next_cas: u64,
    pub indexes: Vec<Index>,
    pub views: Vec<View>,
    /// The contents of the indexes when they were frozen, for queries that do not wait.
    pub frozen: Option<Vec<(Name, Document)>>,
    /// The documents of collections as queries read them.
    pub listings: HashMap<u32, Listing>,
    /// Keys with a durable write in progress.
    pub under_way: HashSet<(u16, Name)>,
    pub prepared: HashMap<String, String>,
    pub faults: Faults,
    /// The number of document operations that reached a node with their vbucket.
    pub operations: u64,
    /// How often a request reached a node without its vbucket.
    pub not_my_vbucket: u64,
    /// Values that came compressed.
    pub compressed: u64,
}

impl Cluster {
    pub(super) fn new(options: FakeOptions, ports: Vec<Ports>) -> Self {
        let nodes =
            ports.into_iter().map(|ports| Node { ports, up: true, replicates: true, disk: true, ..Node::default() });
        let nodes: Vec<Node> = nodes.collect();
        let default = Collection { uid: 0, name: "_default".into() };
        Self {
            map: Map::spread(options.vbuckets, nodes.len(), options.replicas),
            options,
            epoch: 1,
            revision: 1,
            nodes,
            scopes: vec![Scope { uid: 0, name: "_default".into(), collections: vec![default] }],
            manifest_uid: 0,
            next_uid: 8,
            next_cas: 0x0017_0000_0000_0000,
            indexes: Vec::new(),
            views: Vec::new(),
            frozen: None,
            listings: HashMap::new(),
            under_way: HashSet::new(),
            prepared: HashMap::new(),
            faults: Faults::default(),
            operations: 0,
            not_my_vbucket: 0,
            compressed: 0,
        }
    }

    /// The configuration, as sent to clients.
    pub(super) fn config(&self, bucket: bool) -> String {
        let members: Vec<(Ports, bool)> = self.nodes.iter().map(|node| (node.ports, node.up)).collect();
        let bucket = bucket.then_some(self.options.bucket.as_str());
        let mut config = map::terse(bucket, &self.map, self.epoch, self.revision, &members, self.manifest_uid);
        if let Some(capabilities) = config["bucketCapabilities"].as_array_mut() {
            let Lacks { collections, durable_writes, .. } = self.options.lacks;
            capabilities
                .retain(|name| !(collections && name == "collections" || durable_writes && name == "durableWrite"));
        }
        if self.options.queries == QueryService::Absent {
            for node in config["nodesExt"].as_array_mut().into_iter().flatten() {
                if let Some(services) = node["services"].as_object_mut() {
                    services.retain(|name, _| !name.starts_with("n1ql"));
                }
            }
        }
        config.to_string()
    }

    /// The next CAS value. Also used as a source of unique numbers.
    pub(super) fn next_cas(&mut self) -> u64 {
        self.next_cas += 0x1_0000;
        self.next_cas
    }

    /// Stores or removes a document on the active copy and on every replica that accepts it. Returns the CAS and the
    /// sequence number.
    pub(super) fn commit(&mut self, vbucket: u16, name: &Name, document: Option<Document>) -> (u64, u64) {
        let cas = self.next_cas();
        let Some(active) = self.map.active(vbucket) else { return (cas, 0) };
        let seqno = self.nodes[active].copies.entry(vbucket).or_default().seqno + 1;
        let holders: Vec<usize> = self.map.copies(vbucket).collect();
        for (position, holder) in holders.into_iter().enumerate() {
            let node = &mut self.nodes[holder];
            if position > 0 && !(node.up && node.replicates) {
                continue;
            }
            let copy = node.copies.entry(vbucket).or_default();
            copy.seqno = seqno;
            match &document {
                Some(document) => {
                    copy.documents.insert(name.clone(), Document { cas, seqno, ..document.clone() });
                }
                None => {
                    copy.documents.remove(name);
                }
            }
            if !node.disk {
                node.queued += 1;
            }
        }
        (cas, seqno)
    }

    /// Brings the copies of a node that was down up to date.
    pub(super) fn catch_up(&mut self, number: usize) {
        for vbucket in 0..self.map.holders.len() as u16 {
            let Some(active) = self.map.active(vbucket) else { continue };
            if active != number && self.map.copies(vbucket).any(|holder| holder == number) {
                let copy = self.nodes[active].copies.get(&vbucket).cloned().unwrap_or_default();
                self.nodes[number].copies.insert(vbucket, copy);
            }
        }
    }

    /// The active copies.
    fn active(&self) -> impl Iterator<Item = &Copy> {
        let vbuckets = 0..self.map.holders.len() as u16;
        vbuckets.filter_map(|vbucket| self.nodes[self.map.active(vbucket)?].copies.get(&vbucket))
    }

    /// How many documents there are whose names are wanted.
    pub(super) fn count(&self, wanted: impl Fn(&Name) -> bool) -> usize {
        let all = self.active().flat_map(|copy| &copy.documents);
        all.filter(|(name, document)| wanted(name) && alive(document)).count()
    }

    /// All current documents of the active copies, with their names.
    pub(super) fn documents(&self) -> Vec<(Name, Document)> {
        let all = self.active().flat_map(|copy| &copy.documents).filter(|(_, document)| alive(document));
        let mut all: Vec<_> = all.map(|(name, document)| (name.clone(), document.clone())).collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all
    }

    /// Lists a collection again if anything has changed.
    pub(super) fn list(&mut self, uid: u32) {
        let seqnos = self.active().map(|copy| copy.seqno).fold(0, u64::wrapping_add);
        let changes = (seqnos, self.revision, self.manifest_uid);
        if self.listings.get(&uid).is_some_and(|listing| listing.changes == changes) {
            return;
        }
        let own = self.active().flat_map(|copy| copy.documents.range((uid, Vec::new())..(uid + 1, Vec::new())));
        let mut documents: Vec<_> = own.map(|(name, document)| (name.clone(), document.clone())).collect();
        documents.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.listings.insert(uid, Listing { changes, documents, by_field: HashMap::new() });
    }

    /// The id of a collection.
    pub(super) fn collection_uid(&self, scope: &str, collection: &str) -> Option<u32> {
        let scope = self.scopes.iter().find(|s| s.name == scope)?;
        scope.collections.iter().find(|c| c.name == collection).map(|c| c.uid)
    }

    /// Whether a collection with this id exists.
    pub(super) fn has_collection(&self, uid: u32) -> bool {
        self.scopes.iter().flat_map(|s| &s.collections).any(|c| c.uid == uid)
    }

    /// Creates a scope. Returns false if the name is taken.
    pub(super) fn create_scope(&mut self, name: &str) -> bool {
        if self.scopes.iter().any(|s| s.name == name) {
            return false;
        }
        let uid = self.new_uid();
        self.scopes.push(Scope { uid, name: name.to_owned(), collections: Vec::new() });
        true
    }

    /// Creates a collection. Returns `None` if there is no such scope, and false if the name is taken.
    pub(super) fn create_collection(&mut self, scope: &str, name: &str) -> Option<bool> {
        let position = self.scopes.iter().position(|s| s.name == scope)?;
        if self.scopes[position].collections.iter().any(|c| c.name == name) {
            return Some(false);
        }
        let uid = self.new_uid();
        self.scopes[position].collections.push(Collection { uid, name: name.to_owned() });
        Some(true)
    }

    /// Removes a scope with everything in it.
    pub(super) fn drop_scope(&mut self, name: &str) -> bool {
        let Some(position) = self.scopes.iter().position(|s| s.name == name) else { return false };
        let scope = self.scopes.remove(position);
        self.manifest_uid += 1;
        for collection in scope.collections {
            self.forget(collection.uid);
        }
        true
    }

    /// Removes a collection with its documents. Returns `None` if there is no such scope.
    pub(super) fn drop_collection(&mut self, scope: &str, name: &str) -> Option<bool> {
        let scope = self.scopes.iter_mut().find(|s| s.name == scope)?;
        let Some(position) = scope.collections.iter().position(|c| c.name == name) else { return Some(false) };
        let uid = scope.collections.remove(position).uid;
        self.manifest_uid += 1;
        self.forget(uid);
        Some(true)
    }

    fn new_uid(&mut self) -> u32 {
        self.manifest_uid += 1;
        self.next_uid += 1;
        self.next_uid
    }

    fn forget(&mut self, uid: u32) {
        self.indexes.retain(|index| index.collection_uid != uid);
        for copy in self.nodes.iter_mut().flat_map(|node| node.copies.values_mut()) {
            copy.documents.retain(|(collection, _), _| *collection != uid);
        }
    }
}

/// The cluster, and the channels of its tasks.
#[derive(Debug)]
pub(super) struct Shared {
    cluster: Mutex<Cluster>,
    /// For each node, a counter whose change closes the node's connections.
    pub closing: Vec<watch::Sender<u64>>,
    /// The revision of the map, for clients that subscribe to changes.
    pub revision: watch::Sender<i64>,
}

impl Shared {
    pub(super) fn new(cluster: Cluster) -> Arc<Self> {
        let closing = cluster.nodes.iter().map(|_| watch::channel(0).0).collect();
        let revision = watch::channel(cluster.revision).0;
        Arc::new(Self { cluster: Mutex::new(cluster), closing, revision })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes all connections of a node.
    pub(super) fn close_connections(&self, node: usize) {
        if let Some(closing) = self.closing.get(node) {
            closing.send_modify(|count| *count += 1);
        }
    }
}
