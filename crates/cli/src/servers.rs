//! Which servers a run controls: those that its study describes, and embedded stores that it breaks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use storebench_core::store::AnyStore;
use storebench_core::workload::Study;
use storebench_lab::run::{Disk, Managed};
use storebench_machine::{Lease, Leftover, Limits, available, leases_folder};

use crate::failure::Failure;
use crate::stores;

/// Makes stores with their servers.
pub(crate) struct Servers {
    /// Whether commands of the study may be run; none where nothing is to be started at all.
    managed: Option<bool>,
    leases: PathBuf,
    made: u32,
}

/// A store, and its server where the run controls it.
pub(crate) type Served = (Arc<dyn AnyStore>, Option<Managed>);

impl Servers {
    /// `managed` allows the commands of studies.
    pub(crate) fn new(managed: bool) -> Self {
        Self { managed: Some(managed), leases: leases_folder(), made: 0 }
    }

    /// For whoever only wants to know of stores.
    pub(crate) fn none() -> Self {
        Self { managed: None, leases: PathBuf::new(), made: 0 }
    }

    /// Ends what an earlier process of this program was killed before it could end.
    pub(crate) fn clear_up(&self) -> Result<Vec<Leftover>, Failure> {
        Lease::clear_up(&self.leases).map_err(|error| {
            Failure::spoiled(format!("{}: what earlier runs left cannot be looked for: {error}", self.leases.display()))
        })
    }

    /// The store of a URL. Nothing is started yet.
    pub(crate) fn serve(&mut self, study: &Study, name: &str, url: &str) -> Result<Served, Failure> {
        let store = stores::open(url)?;
        let Some(managed) = self.managed else { return Ok((store, None)) };
        let refused = |error| Failure::of_store(url, &error);
        if let Some((server, spec)) = study.server_of(name, store.describe().scheme) {
            if !managed {
                return Err(Failure::bad_input(format!(
                    "servers.{server}: the study has commands that start, stop and kill the server of `{name}`; read them, \
                     and add --manage-servers to have them run"
                )));
            }
            let limits =
                Limits { cpus: spec.cpus, memory_bytes: spec.memory.map(|memory| memory.0), ..Limits::default() };
            if limits != Limits::default() {
                available(&limits, None).map_err(|why| Failure::bad_input(format!("servers.{server}: {why}")))?;
            }
            let log = self.file(name, "log");
            let disk = match (study.has_faults_of_disks(), &spec.data, &spec.run) {
                (false, ..) => None,
                (true, Some(data), Some(_)) => Some(Disk::mount(data.as_ref(), &self.leases).map_err(refused)?),
                (true, ..) => {
                    return Err(Failure::bad_input(format!(
                        "servers.{server}: the study cuts the power of its disk or fills it; add `data`, a folder that is \
                         empty or not there, and have it started by `run`, so that all that uses the disk is known"
                    )));
                }
            };
            return Ok((store, Some(Managed::of(server, spec, log, &self.leases, disk).map_err(refused)?)));
        }
        if !study.has_faults() {
            return Ok((store, None));
        }
        if !store.capabilities().embedded || store.paths().is_empty() {
            return Err(Failure::bad_input(format!(
                "the study kills and restarts the server of `{name}`, and does not say how; add [servers.{name}] with `run`, \
                 or with `start`, `stop` and `kill`, and give --manage-servers"
            )));
        }
        let program = std::env::current_exe()
            .map_err(|e| Failure::spoiled(format!("this program does not know where it is: {e}")))?;
        let (socket, log) = (self.file(name, "socket"), self.file(name, "log"));
        // A store that is broken with its disk lies on one that is made for it.
        let (disk, url) = match study.has_faults_of_disks() {
            false => (None, url.to_owned()),
            true => {
                let (at, moved) = onto_disk(url).ok_or_else(|| {
                    Failure::bad_input(format!("{url}: a disk can only be made for a store whose URL is SCHEME:PATH"))
                })?;
                (Some(Disk::mount(&at, &self.leases).map_err(refused)?), moved)
            }
        };
        let url = url.as_str();
        let mark = if url.contains('?') { '&' } else { '?' };
        let hosted = stores::open(&format!("hosted+{url}{mark}socket={}", socket.display()))?;
        let server = Managed::hosting(program, name, url, &socket, log, &self.leases, disk).map_err(refused)?;
        self.made += 1;
        Ok((hosted, Some(server)))
    }

    fn file(&mut self, name: &str, extension: &str) -> PathBuf {
        // Short, since the address of a socket is.
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
        self.leases.join(format!("{}-{}-{name}.{extension}", std::process::id(), self.made))
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
