//! Which servers a run controls: those that its study describes, and embedded stores that it breaks.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use storebench_engine::store::AnyStore;
use storebench_lab::run::{Disk, Links, Managed};
use storebench_machine::{Lease, Leftover, Limits, available, leases_folder};
use storebench_study::units::ByteSize;
use storebench_study::workload::{Fault, ServerSpec, Study};

use crate::failure::Failure;
use crate::stores;

/// Makes stores with their servers.
pub(crate) struct Servers {
    /// Whether commands of the study may be run; none where nothing is to be started at all.
    managed: Option<bool>,
    leases: PathBuf,
    made: u32,
    links: Option<Links>,
    /// By folder: stores with other options lie on the same one, one after the other.
    disks: HashMap<PathBuf, Arc<Disk>>,
    /// By what the study says of them: stores may share a server.
    described: HashMap<String, Managed>,
}

/// A store, its server where the run controls it, and the links that can be broken.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) store: Arc<dyn AnyStore>,
    pub(crate) server: Option<Managed>,
    pub(crate) links: Links,
}

impl Servers {
    /// `managed` allows the commands of studies.
    pub(crate) fn new(managed: bool) -> Self {
        Self {
            managed: Some(managed),
            leases: leases_folder(),
            made: 0,
            links: None,
            disks: HashMap::new(),
            described: HashMap::new(),
        }
    }

    /// For whoever only wants to know of stores.
    pub(crate) fn none() -> Self {
        Self {
            managed: None,
            leases: PathBuf::new(),
            made: 0,
            links: None,
            disks: HashMap::new(),
            described: HashMap::new(),
        }
    }

    /// Ends what an earlier process of this program was killed before it could end.
    pub(crate) fn clear_up(&self) -> Result<Vec<Leftover>, Failure> {
        Lease::clear_up(&self.leases).map_err(|error| {
            Failure::spoiled(format!(
                "{}: cannot look for what earlier runs left behind: {error}",
                self.leases.display()
            ))
        })
    }

    /// The store of a URL. Nothing is started yet.
    pub(crate) fn serve(&mut self, study: &Study, name: &str, url: &str) -> Result<Served, Failure> {
        let plain = |store| Served { store, server: None, links: Links::default() };
        let Some(managed) = self.managed else {
            return Ok(plain(stores::open(&Links::default().with_addresses(study, url))?));
        };
        let refused = |error| Failure::of_store(url, &error);
        if study.has_commands() && !managed {
            return Err(Failure::bad_input(
                "the study has commands that are run while its phases run; read them, and add --manage-servers to have them \
                 run",
            ));
        }
        if !study.servers.is_empty() && !managed && study.servers.values().any(|server| server.namespace) {
            return Err(Failure::bad_input(
                "servers run in namespaces of their own; add --manage-servers to have them run",
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
                    "servers.{server}: the study has commands that start, stop and kill the server of `{name}`; read them, \
                     and add --manage-servers to have them run"
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
                "the study kills and restarts the server of `{name}`, and does not say how; add [servers.{name}] with `run`, \
                 or with `start`, `stop` and `kill`, and give --manage-servers"
            )));
        }
        self.hosted(study, name, url)
    }

    /// The links that the study names, made once.
    fn links(&mut self, study: &Study) -> Result<Links, Failure> {
        if let Some(links) = &self.links {
            return Ok(links.clone());
        }
        let links = Links::of(study, &self.leases).map_err(|error| Failure::bad_input(format!("links: {error}")))?;
        Ok(self.links.insert(links).clone())
    }

    /// The disk that is made at a folder.
    fn disk(&mut self, at: &Path, url: &str) -> Result<Arc<Disk>, Failure> {
        if let Some(disk) = self.disks.get(at) {
            return Ok(Arc::clone(disk));
        }
        let disk = Disk::mount(at, &self.leases).map_err(|error| Failure::of_store(url, &error))?;
        Ok(Arc::clone(self.disks.entry(at.to_owned()).or_insert(Arc::new(disk))))
    }

    /// A server that the study describes.
    fn described(&mut self, study: &Study, server: &str, spec: &ServerSpec, url: &str) -> Result<Managed, Failure> {
        // Limits differ between configurations, and are set again for each.
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
        self.made += 1;
        let of_disk = study.has_faults_of_disks() && spec.node_of.is_none();
        let disk = match (of_disk, &spec.data, &spec.run) {
            (false, ..) => None,
            (true, Some(data), Some(_)) => Some(self.disk(data.as_ref(), url)?),
            (true, ..) => {
                return Err(Failure::bad_input(format!(
                    "servers.{server}: the study cuts the power of its disk or fills it; add `data`, a folder that is empty \
                     or not there, and have it started by `run`, so that all that uses the disk is known"
                )));
            }
        };
        let links = self.links(study)?;
        Managed::of(study, server, spec, log, &self.leases, disk, &links).map_err(refused)
    }

    /// An embedded store in a process of its own.
    fn hosted(&mut self, study: &Study, name: &str, url: &str) -> Result<Served, Failure> {
        let refused = |error| Failure::of_store(url, &error);
        let program = std::env::current_exe()
            .map_err(|e| Failure::spoiled(format!("cannot find the path of this program: {e}")))?;
        if let Some(faults) = study.limits_of_faults(name) {
            available(&strictest(faults), None).map_err(|why| Failure::bad_input(format!("{url}: {why}")))?;
        }
        let (socket, log) = (self.file(name, "socket"), self.file(name, "log"));
        // A store that is broken with its disk lies on one that is made for it.
        let (disk, url) = match study.has_faults_of_disks() {
            false => (None, url.to_owned()),
            true => {
                let (at, moved) = onto_disk(url).ok_or_else(|| {
                    Failure::bad_input(format!("{url}: a disk can only be made for a store whose URL is SCHEME:PATH"))
                })?;
                (Some(self.disk(&at, url)?), moved)
            }
        };
        let url = url.as_str();
        let mark = if url.contains('?') { '&' } else { '?' };
        let hosted = stores::open(&format!("hosted+{url}{mark}socket={}", socket.display()))?;
        let server = Managed::hosting(program, name, url, &socket, log, &self.leases, disk).map_err(refused)?;
        self.made += 1;
        Ok(Served { store: hosted, server: Some(server), links: Links::default() })
    }

    fn file(&mut self, name: &str, extension: &str) -> PathBuf {
        // Short, since the address of a socket is.
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
        self.leases.join(format!("{}-{}-{name}.{extension}", std::process::id(), self.made))
    }
}

/// All that a limit of a study's faults needs of this machine.
fn strictest(faults: Vec<&Fault>) -> Limits {
    let bytes = |of: &dyn Fn(&Fault) -> Option<ByteSize>| faults.iter().find_map(|fault| of(fault)).map(|size| size.0);
    Limits {
        cpus: faults.iter().find_map(|fault| fault.cpus),
        memory_bytes: bytes(&|fault| fault.memory),
        read_bytes_per_s: bytes(&|fault| fault.disk_read),
        write_bytes_per_s: bytes(&|fault| fault.disk_write),
    }
}

/// Where the disk of an embedded store is mounted, beside where the store would be, and the store's URL on it.
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
