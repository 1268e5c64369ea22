//! The servers that a run controls: those described in its study, and embedded stores with faults.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use storebench_engine::store::AnyStore;
use storebench_lab::run::{Disk, Links, Managed};
use storebench_machine::{Lease, Leftover, Limits, available, leases_folder};
use storebench_study::units::ByteSize;
use storebench_study::workload::{Fault, ServerSpec, Study};

use crate::failure::Failure;
use crate::stores;

/// Creates stores together with their servers.
#[derive(Default)]
pub(crate) struct Servers {
    /// Whether the study's commands may run; `None` if nothing at all should start.
    managed: Option<bool>,
    leases: PathBuf,
    links: Option<Links>,
    /// By folder. Stores that differ only in their options use the same disk, one after the other.
    disks: HashMap<PathBuf, Arc<Disk>>,
    /// By the study's description of the server, because stores may share one.
    described: HashMap<String, Managed>,
}

/// A store, its server if the run controls it, and the links that faults can break.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) store: Arc<dyn AnyStore>,
    pub(crate) server: Option<Managed>,
    pub(crate) links: Links,
}

impl Servers {
    /// `managed` allows the study's commands to run.
    pub(crate) fn new(managed: bool) -> Self {
        Self { managed: Some(managed), leases: leases_folder(), ..Self::default() }
    }

    /// Starts nothing, for callers that only need descriptions of the stores.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// Stops and removes what earlier runs left behind because they were killed.
    pub(crate) fn clear_up(&self) -> Result<Vec<Leftover>, Failure> {
        Lease::clear_up(&self.leases).map_err(|error| {
            Failure::spoiled(format!("{}: cannot check what earlier runs left behind: {error}", self.leases.display()))
        })
    }

    /// The store of a URL, with its server and links. The server is not started yet.
    pub(crate) fn serve(&mut self, study: &Study, name: &str, url: &str) -> Result<Served, Failure> {
        let plain = |store| Served { store, server: None, links: Links::default() };
        let Some(managed) = self.managed else {
            return Ok(plain(stores::open(&Links::default().with_addresses(study, url))?));
        };
        let refused = |error| Failure::of_store(url, &error);
        if study.has_commands() && !managed {
            return Err(Failure::bad_input(
                "the study runs commands during its phases; read them, then add --manage-servers to allow them",
            ));
        }
        if !study.servers.is_empty() && !managed && study.servers.values().any(|server| server.namespace) {
            return Err(Failure::bad_input(
                "the study starts servers in their own network namespaces; add --manage-servers to allow this",
            ));
        }
        let links = self.links(study)?;
        let url = &links.with_addresses(study, url);
        let store = stores::open(url)?;
        let scheme = store.describe().scheme;
        let (links, over) = match study.has_faults_of_links() {
            true => links.with_client(url).map_err(refused)?,
            false => (links, url.to_owned()),
        };
        let store = if over == *url { store } else { stores::open(&over)? };
        if let Some((server, spec)) = study.server_of(name, scheme) {
            if !managed {
                return Err(Failure::bad_input(format!(
                    "servers.{server}: the study has commands that start, stop and kill the server of `{name}`; read \
                     them, then add --manage-servers to allow them"
                )));
            }
            let own = self.described(study, server, spec, url)?;
            let nodes = study.nodes_of(server).map(|(name, spec)| self.described(study, name, spec, url));
            let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
            return Ok(Served { store, server: Some(own.with_nodes(nodes)), links });
        }
        if !study.has_faults_of_servers() {
            return Ok(Served { links, ..plain(store) });
        }
        if !store.capabilities().embedded || store.paths().is_empty() {
            return Err(Failure::bad_input(format!(
                "the study kills and restarts the server of `{name}`, but does not say how; add [servers.{name}] with \
                 `run`, or with `start`, `stop` and `kill`, and use --manage-servers"
            )));
        }
        self.hosted(study, name, url)
    }

    /// The links of the study, created on first use.
    fn links(&mut self, study: &Study) -> Result<Links, Failure> {
        if let Some(links) = &self.links {
            return Ok(links.clone());
        }
        let links = Links::of(study, &self.leases).map_err(|error| Failure::bad_input(format!("links: {error}")))?;
        Ok(self.links.insert(links).clone())
    }

    /// The disk mounted at a folder, created on first use.
    fn disk(&mut self, at: &Path, url: &str) -> Result<Arc<Disk>, Failure> {
        if let Some(disk) = self.disks.get(at) {
            return Ok(Arc::clone(disk));
        }
        let disk = Disk::mount(at, &self.leases).map_err(|error| Failure::of_store(url, &error))?;
        Ok(Arc::clone(self.disks.entry(at.to_owned()).or_insert(Arc::new(disk))))
    }

    /// A server that the study describes, created on first use.
    fn described(&mut self, study: &Study, server: &str, spec: &ServerSpec, url: &str) -> Result<Managed, Failure> {
        // Limits differ between configurations and are set for each of them.
        let unlimited = ServerSpec { cpus: None, memory: None, ..spec.clone() };
        let key = format!("{server} {}", serde_json::to_string(&unlimited).unwrap_or_default());
        if let Some(known) = self.described.get(&key) {
            return Ok(known.clone());
        }
        let made = self.new_described(study, server, spec, url)?;
        Ok(self.described.entry(key).or_insert(made).clone())
    }

    fn new_described(&mut self, study: &Study, server: &str, spec: &ServerSpec, url: &str) -> Result<Managed, Failure> {
        let refused = |error| Failure::of_store(url, &error);
        let limits = Limits { cpus: spec.cpus, memory_bytes: spec.memory.map(|memory| memory.0), ..Limits::default() };
        let asked = study.limits_of_faults(server);
        for limits in
            [Some(limits).filter(|limits| *limits != Limits::default()), asked.map(strictest)].into_iter().flatten()
        {
            let data = spec.data.as_deref().map(Path::new);
            available(&limits, data).map_err(|why| Failure::bad_input(format!("servers.{server}: {why}")))?;
        }
        let log = self.file(server, "log");
        let of_disk = study.has_faults_of_disks() && spec.node_of.is_none();
        let disk = match (of_disk, &spec.data, &spec.run) {
            (false, ..) => None,
            (true, Some(data), Some(_)) => Some(self.disk(data.as_ref(), url)?),
            (true, ..) => {
                return Err(Failure::bad_input(format!(
                    "servers.{server}: the study cuts the power of its disk or fills it; add `data`, an empty or new \
                     folder, and start the server with `run`, so that Storebench knows every process that uses the disk"
                )));
            }
        };
        let links = self.links(study)?;
        Managed::of(study, server, spec, log, &self.leases, disk, &links).map_err(refused)
    }

    /// An embedded store in its own process.
    fn hosted(&mut self, study: &Study, name: &str, url: &str) -> Result<Served, Failure> {
        let refused = |error| Failure::of_store(url, &error);
        let program =
            crate::program().map_err(|e| Failure::spoiled(format!("cannot find the path of this program: {e}")))?;
        if let Some(faults) = study.limits_of_faults(name) {
            available(&strictest(faults), None).map_err(|why| Failure::bad_input(format!("{url}: {why}")))?;
        }
        let (socket, log) = (self.file(name, "socket"), self.file(name, "log"));
        // If the study has disk faults, the store is placed on a disk mounted for it.
        let (disk, url) = match study.has_faults_of_disks() {
            false => (None, url.to_owned()),
            true => {
                let (at, moved) = onto_disk(url).ok_or_else(|| {
                    Failure::bad_input(format!("{url}: disk faults need a store whose URL has the form SCHEME:PATH"))
                })?;
                (Some(self.disk(&at, url)?), moved)
            }
        };
        let url = url.as_str();
        let mark = if url.contains('?') { '&' } else { '?' };
        let hosted = stores::open(&format!("hosted+{url}{mark}socket={}", socket.display()))?;
        let server = Managed::hosting(program, name, url, &socket, log, &self.leases, disk).map_err(refused)?;
        Ok(Served { store: hosted, server: Some(server), links: Links::default() })
    }

    fn file(&self, name: &str, extension: &str) -> PathBuf {
        // Short, because socket paths have a length limit.
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
        // Of all calls in this process.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.leases.join(format!("{}-{number}-{name}.{extension}", std::process::id()))
    }
}

/// One limit of each kind that the faults set, to check that this machine supports it.
fn strictest(faults: Vec<&Fault>) -> Limits {
    let bytes = |of: &dyn Fn(&Fault) -> Option<ByteSize>| faults.iter().find_map(|fault| of(fault)).map(|size| size.0);
    Limits {
        cpus: faults.iter().find_map(|fault| fault.cpus),
        memory_bytes: bytes(&|fault| fault.memory),
        read_bytes_per_s: bytes(&|fault| fault.disk_read),
        write_bytes_per_s: bytes(&|fault| fault.disk_write),
    }
}

/// Where to mount the disk of an embedded store (beside the store's path), and the store's URL on that disk.
fn onto_disk(url: &str) -> Option<(PathBuf, String)> {
    let (scheme, rest) = url.split_once(':')?;
    let (path, options) = rest.find('?').map_or((rest, ""), |at| rest.split_at(at));
    let name = Path::new(path).file_name()?.to_str()?;
    let at = format!("{}.disk", path.trim_end_matches('/'));
    Some((PathBuf::from(&at), format!("{scheme}:{at}/{name}{options}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_moves_onto_its_disk_with_its_options() {
        let moved = |url| onto_disk(url).map(|(at, url)| (at.display().to_string(), url));
        let both = |at: &str, url: &str| Some((at.to_owned(), url.to_owned()));
        assert_eq!(moved("sqlite:it.db"), both("it.db.disk", "sqlite:it.db.disk/it.db"));
        assert_eq!(moved("fjall:/a/it/?cache=1MiB"), both("/a/it.disk", "fjall:/a/it.disk/it?cache=1MiB"));
        assert_eq!(moved("memory:"), None);
    }
}
