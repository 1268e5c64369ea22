//! Starts a fake, and gives tests control over it.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::cluster::{Cluster, Index, Shared};
use super::garbage::{Garbage, Random};
use super::map::Ports;
use super::views::View;
use super::{connection, http};

/// The TLS configuration of encrypted listeners.
#[derive(Clone)]
pub struct Tls(pub Arc<ServerConfig>);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

/// The behaviour of the query service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueryService {
    /// It answers requests.
    #[default]
    Runs,
    /// It answers each request with 501, like mocks that have only the data service.
    NotImplemented,
    /// The map names no node with this service.
    Absent,
}

/// What a fake lacks of what Couchbase Server 7.0 has, like older ones and mocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lacks {
    /// Collections besides the default one.
    pub collections: bool,
    /// Durable writes.
    pub durable_writes: bool,
    /// Writes that keep the document's expiry.
    pub keeping_expiry: bool,
    /// Compressed documents.
    pub snappy: bool,
}

/// The options of a fake.
#[derive(Debug, Clone)]
pub struct FakeOptions {
    /// The number of nodes.
    pub nodes: usize,
    /// The configured number of replicas of the bucket, besides the active copy.
    pub replicas: usize,
    /// The number of vbuckets.
    pub vbuckets: u16,
    /// The only user.
    pub user: String,
    /// The password.
    pub password: String,
    /// The only bucket.
    pub bucket: String,
    /// The largest value that it stores, in bytes.
    pub largest_value_bytes: usize,
    /// How long a durable write waits for its copies before its outcome becomes ambiguous.
    pub durability_timeout: Duration,
    /// The version that it reports.
    pub version: String,
    /// The first node's port of the data service; 0 for any.
    pub port: u16,
    /// If set, every node also has encrypted listeners.
    pub tls: Option<Tls>,
    /// The behaviour of the query service.
    pub queries: QueryService,
    /// What it lacks.
    pub lacks: Lacks,
}

impl Default for FakeOptions {
    fn default() -> Self {
        Self {
            nodes: 1,
            replicas: 0,
            vbuckets: 64,
            user: "storebench".into(),
            password: "password".into(),
            bucket: "default".into(),
            largest_value_bytes: 20 << 20,
            durability_timeout: Duration::from_secs(10),
            version: "7.6.0-0000-fake".into(),
            port: 0,
            tls: None,
            queries: QueryService::Runs,
            lacks: Lacks::default(),
        }
    }
}

/// A running cluster. Dropping it stops the cluster.
pub struct Fake {
    shared: Arc<Shared>,
    /// Dropping it stops the listeners.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The service of a listener.
#[derive(Clone, Copy)]
enum Service {
    Data,
    Http,
}

impl Fake {
    /// Starts a cluster on its own threads.
    ///
    /// # Errors
    /// If a port is not available.
    pub fn start(options: FakeOptions) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let tls = options.tls.clone();
        let mut listeners = Vec::new();
        let mut ports = Vec::new();
        for node in 0..options.nodes.max(1) {
            let mut listen = |service, encrypted: bool, port: u16| -> std::io::Result<u16> {
                let listener = TcpListener::bind(("127.0.0.1", port))?;
                listener.set_nonblocking(true)?;
                let port = listener.local_addr()?.port();
                listeners.push((listener, node, service, encrypted));
                Ok(port)
            };
            let mut own = Ports {
                kv: listen(Service::Data, false, if node == 0 { options.port } else { 0 })?,
                http: listen(Service::Http, false, 0)?,
                ..Ports::default()
            };
            if tls.is_some() {
                own.kv_tls = Some(listen(Service::Data, true, 0)?);
                own.http_tls = Some(listen(Service::Http, true, 0)?);
            }
            ports.push(own);
        }
        let shared = Shared::new(Cluster::new(options, ports));
        for (listener, node, service, encrypted) in listeners {
            let _within = runtime.enter();
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let acceptor = tls.as_ref().filter(|_| encrypted).map(|tls| TlsAcceptor::from(Arc::clone(&tls.0)));
            runtime.spawn(listen(listener, Arc::clone(&shared), node, service, acceptor));
        }
        Ok(Self { shared, runtime: Some(runtime) })
    }

    /// The address of each node's data service, as `127.0.0.1:port`.
    pub fn addresses(&self) -> Vec<String> {
        self.shared.lock().nodes.iter().map(|node| format!("127.0.0.1:{}", node.ports.kv)).collect()
    }

    /// The URL for Storebench's driver.
    pub fn url(&self) -> String {
        let cluster = self.shared.lock();
        let (options, port) = (&cluster.options, cluster.nodes[0].ports.kv);
        format!("couchbase://{}:{}@127.0.0.1:{port}/{}", options.user, options.password, options.bucket)
    }

    /// The same for encrypted connections. The certificate must be for `localhost`.
    pub fn tls_url(&self) -> Option<String> {
        let cluster = self.shared.lock();
        let (options, port) = (&cluster.options, cluster.nodes[0].ports.kv_tls?);
        Some(format!("couchbases://{}:{}@localhost:{port}/{}", options.user, options.password, options.bucket))
    }

    /// The URL of the management API of the first node, without credentials.
    pub fn management_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.shared.lock().nodes[0].ports.http)
    }

    /// Stops a node like a crash: its connections end, and its copies keep their documents. The map does not change
    /// until [`Fake::fail_over`].
    pub fn kill(&self, node: usize) {
        self.shared.lock().nodes[node].up = false;
        self.shared.close_connections(node);
    }

    /// Restarts a node, and brings its copies up to date.
    pub fn revive(&self, node: usize) {
        let mut cluster = self.shared.lock();
        cluster.nodes[node].up = true;
        cluster.catch_up(node);
    }

    /// Sets whether a node accepts writes from the active copies on other nodes.
    pub fn set_replicating(&self, node: usize, replicates: bool) {
        let mut cluster = self.shared.lock();
        cluster.nodes[node].replicates = replicates;
        if replicates {
            cluster.catch_up(node);
        }
    }

    /// Sets whether a node's disk accepts writes.
    pub fn set_disk(&self, node: usize, works: bool) {
        let mut cluster = self.shared.lock();
        cluster.nodes[node].disk = works;
        if works {
            cluster.nodes[node].queued = 0;
        }
    }

    /// Removes a node from the map. Replicas of its active copies become active, and lost copies are not replaced.
    pub fn fail_over(&self, node: usize) {
        let gone = node as i16;
        self.change_map(|cluster| {
            for holders in &mut cluster.map.holders {
                let wanted = holders.len();
                holders.retain(|holder| *holder != gone && *holder != -1);
                holders.resize(wanted, -1);
            }
        });
    }

    /// Moves all vbuckets whose active copy is on `from` to another node. Unless `tell` is set, clients learn of it
    /// only from the answer *not my vbucket*.
    pub fn move_vbuckets(&self, from: usize, to: usize, tell: bool) {
        {
            let mut cluster = self.shared.lock();
            for vbucket in 0..cluster.map.holders.len() as u16 {
                if cluster.map.active(vbucket) == Some(from) {
                    let copy = cluster.nodes[from].copies.get(&vbucket).cloned().unwrap_or_default();
                    cluster.nodes[to].copies.insert(vbucket, copy);
                }
            }
            for holders in &mut cluster.map.holders {
                if holders[0] == from as i16 {
                    holders.iter_mut().filter(|holder| **holder == to as i16).for_each(|holder| *holder = from as i16);
                    holders[0] = to as i16;
                }
            }
            cluster.revision += 1;
        }
        if tell {
            self.tell();
        }
    }

    fn change_map(&self, change: impl FnOnce(&mut Cluster)) {
        {
            let mut cluster = self.shared.lock();
            change(&mut cluster);
            cluster.revision += 1;
        }
        self.tell();
    }

    fn tell(&self) {
        let revision = self.shared.lock().revision;
        self.shared.revision.send_replace(revision);
    }

    /// Lets this many of the next document operations fail temporarily.
    pub fn fail_temporarily(&self, operations: u64) {
        self.shared.lock().faults.temporary = operations;
    }

    /// Sets whether document operations are left unanswered. Operations that come meanwhile run when the stall ends.
    pub fn stall(&self, stalled: bool) {
        self.shared.lock().faults.stalled = stalled;
    }

    /// Closes every connection of every node.
    pub fn close_connections(&self) {
        for node in 0..self.shared.closing.len() {
            self.shared.close_connections(node);
        }
    }

    /// Starts or stops corrupting every answer.
    pub fn garble(&self, how: Option<(Garbage, u64)>) {
        self.shared.lock().faults.garbage = how.map(|(garbage, seed)| (garbage, Random::new(seed)));
    }

    /// Sets whether indexes keep their current contents. Meanwhile, queries that require the latest writes wait.
    pub fn freeze_indexes(&self, frozen: bool) {
        let mut cluster = self.shared.lock();
        cluster.frozen = frozen.then(|| cluster.documents());
    }

    /// Creates a foreign scope with one collection and one document.
    pub fn put_foreign(&self, scope: &str, collection: &str, key: &str, value: &[u8]) {
        let mut cluster = self.shared.lock();
        cluster.create_scope(scope);
        cluster.create_collection(scope, collection);
        let uid = cluster.collection_uid(scope, collection).unwrap_or_default();
        let vbucket = cluster.map.vbucket(key.as_bytes());
        let document = super::documents::Document { value: value.to_vec(), ..Default::default() };
        cluster.commit(vbucket, &(uid, key.as_bytes().to_vec()), Some(document));
    }

    /// Creates a foreign view of the default collection that emits this field of the documents.
    pub fn put_foreign_view(&self, design: &str, name: &str, field: &str) {
        let (design, name, field) = (design.to_owned(), name.to_owned(), field.to_owned());
        self.shared.lock().views.push(View { design, name, field });
    }

    /// Creates a foreign primary index on a collection.
    pub fn put_foreign_index(&self, scope: &str, collection: &str) {
        let mut cluster = self.shared.lock();
        let collection_uid = cluster.collection_uid(scope, collection).unwrap_or_default();
        let (scope, collection) = (scope.to_owned(), collection.to_owned());
        cluster.indexes.push(Index { name: "#primary".into(), scope, collection, collection_uid, fields: Vec::new() });
    }

    /// All documents of a collection in the active copies, by key.
    pub fn documents(&self, scope: &str, collection: &str) -> Vec<(String, Vec<u8>)> {
        let cluster = self.shared.lock();
        let Some(uid) = cluster.collection_uid(scope, collection) else { return Vec::new() };
        let of = cluster.documents().into_iter().filter(|((collection, _), _)| *collection == uid);
        of.map(|((_, key), document)| (String::from_utf8_lossy(&key).into_owned(), document.value)).collect()
    }

    /// The names of scopes and their collections, as `scope.collection`. Empty scopes are `scope.`.
    pub fn collections(&self) -> Vec<String> {
        let cluster = self.shared.lock();
        let of = |scope: &super::cluster::Scope| -> Vec<String> {
            if scope.collections.is_empty() {
                return vec![format!("{}.", scope.name)];
            }
            scope.collections.iter().map(|c| format!("{}.{}", scope.name, c.name)).collect()
        };
        cluster.scopes.iter().flat_map(of).collect()
    }

    /// The number of completed document operations, and how often a request reached a node without its vbucket.
    pub fn counts(&self) -> (u64, u64) {
        let cluster = self.shared.lock();
        (cluster.operations, cluster.not_my_vbucket)
    }

    /// The number of values that came compressed.
    pub fn compressed(&self) -> u64 {
        self.shared.lock().compressed
    }
}

async fn listen(
    listener: tokio::net::TcpListener,
    shared: Arc<Shared>,
    node: usize,
    service: Service,
    tls: Option<TlsAcceptor>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        // A node that is down closes connections.
        if !shared.lock().nodes[node].up {
            continue;
        }
        let (shared, tls) = (Arc::clone(&shared), tls.clone());
        // Answers are small and complete, so send each without delay.
        let _ = stream.set_nodelay(true);
        tokio::spawn(async move {
            match (tls, service) {
                (None, Service::Data) => connection::serve(stream, shared, node, false).await,
                (None, Service::Http) => http::serve(stream, shared, node).await,
                (Some(tls), service) => {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    match service {
                        Service::Data => connection::serve(stream, shared, node, true).await,
                        Service::Http => http::serve(stream, shared, node).await,
                    }
                }
            }
        });
    }
}
