//! Servers that a run starts and stops: those of the study, and embedded stores in separate processes.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use storebench_engine::store::{AnyStore, StoreError};
use storebench_machine::{
    Commands, Dropped, Forgotten, GroupUse, Keep, Limits, Pid, PowerCut, Problem, Server, Signal, Spec, StopBy, Tree,
    User, drop_caches, listeners,
};
use storebench_study::units::ByteSize;
use storebench_study::workload::{Fault, ServerSpec, StopSignal, Study};

use super::disk::Disk;
use super::links::Links;

/// Timeout of a connection that only checks whether the server listens.
const LISTENS_WITHIN: Duration = Duration::from_millis(200);

/// A server that a run controls, with the further nodes of its store. Configurations that measure the same place share
/// it.
#[derive(Debug, Clone)]
pub struct Managed {
    name: String,
    server: Arc<Mutex<Server>>,
    /// The address on which it listens, if known.
    listens: Option<SocketAddr>,
    /// Dropped after the server, which has files open on it.
    disk: Option<Arc<Disk>>,
    nodes: Vec<Managed>,
    /// The values of placeholders in commands.
    places: Vec<(String, String)>,
}

/// How long a server took to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Started {
    /// Until its port accepted connections; `None` if the port is unknown.
    pub listening: Option<Duration>,
    /// Until it was ready: both the server and the store answered.
    pub ready: Duration,
}

impl Managed {
    /// The server that a study describes. `log` is the file for its output; `leases` is the folder for its lease.
    ///
    /// # Errors
    /// Fails if its lease cannot be written, or its user does not exist.
    pub fn of(
        study: &Study,
        name: &str,
        said: &ServerSpec,
        log: PathBuf,
        leases: &Path,
        disk: Option<Arc<Disk>>,
        links: &Links,
    ) -> Result<Self, StoreError> {
        let places = places(study, name, said, links);
        let fill = |text: &String| filled(text, &places);
        let commands = match (&said.run, &said.start, &said.stop) {
            (Some(run), _, stop) => Commands::Run {
                line: fill(run),
                network: links.enter(name),
                stop: match stop {
                    Some(stop) => StopBy::Command(fill(stop)),
                    None => StopBy::Signal(signal_of(said.stop_signal.unwrap_or_default())),
                },
            },
            (None, Some(start), Some(stop)) => Commands::Given {
                start: fill(start),
                stop: fill(stop),
                kill: said.kill.as_ref().map(fill),
                pause: said.pause.as_ref().map(fill),
                resume: said.resume.as_ref().map(fill),
            },
            _ => return Err(StoreError::NotSupported(format!("server `{name}` needs `run`, or `start` and `stop`"))),
        };
        let user = said.user.as_deref().map(User::find).transpose();
        let user = user.map_err(|why| StoreError::NotSupported(format!("servers.{name}: {why}")))?.flatten();
        let spec = Spec {
            name: name.to_owned(),
            commands,
            user,
            prepare: said.prepare.as_ref().map(fill),
            data: said.data.as_ref().map(PathBuf::from),
            ready: said.ready.as_ref().map(fill),
            env: said.env.iter().map(|(name, value)| (name.clone(), fill(value))).collect(),
            files: vec![log.clone()],
            log,
            ready_within: said.ready_within.0,
            stop_within: said.stop_within.0,
        };
        let address = links.address(name).unwrap_or(Ipv4Addr::LOCALHOST.into());
        let port = said.port.map(|port| SocketAddr::from((address, port)));
        Ok(Self { listens: port, places, ..Self::new(spec, leases, disk)? })
    }

    /// An embedded store in a separate process: `program host URL --socket FILE`.
    ///
    /// # Errors
    /// Fails if its lease cannot be written.
    pub fn hosting(
        program: PathBuf,
        name: &str,
        url: &str,
        socket: &Path,
        log: PathBuf,
        leases: &Path,
        disk: Option<Arc<Disk>>,
    ) -> Result<Self, StoreError> {
        let arguments = ["host", url, "--socket", &socket.display().to_string(), "--until-input-ends"];
        let spec = Spec {
            name: name.to_owned(),
            commands: Commands::Program(program, arguments.map(str::to_owned).to_vec()),
            user: None,
            prepare: None,
            data: None,
            ready: None,
            env: Vec::new(),
            files: vec![socket.to_owned(), log.clone()],
            log,
            ready_within: Duration::from_secs(60),
            stop_within: Duration::from_secs(60),
        };
        Self::new(spec, leases, disk)
    }

    fn new(spec: Spec, leases: &Path, disk: Option<Arc<Disk>>) -> Result<Self, StoreError> {
        let name = spec.name.clone();
        let made = Server::new(spec, leases).map_err(|error| {
            StoreError::Failed(format!("cannot write the lease of server `{name}`, so it is not started: {error}"))
        })?;
        let places = vec![("{name}".to_owned(), name.clone())];
        Ok(Self { name, server: Arc::new(Mutex::new(made)), listens: None, disk, nodes: Vec::new(), places })
    }

    /// The number of the store's nodes.
    pub(super) fn count(&self) -> u32 {
        1 + self.nodes.len() as u32
    }

    /// Adds the further nodes of its store, in their starting order.
    #[must_use]
    pub fn with_nodes(self, nodes: Vec<Self>) -> Self {
        Self { nodes, ..self }
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether both are the same server.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.server, &other.server)
    }

    /// The node with this name; the store's own server for `None`.
    pub(super) fn node(&self, name: Option<&str>) -> Result<&Self, StoreError> {
        match name {
            None => Ok(self),
            Some(name) if name == self.name => Ok(self),
            Some(name) => self.nodes.iter().find(|node| node.name == name).ok_or_else(|| {
                StoreError::NotSupported(format!(
                    "server `{name}` does not belong to this store, whose own server is `{}`",
                    self.name
                ))
            }),
        }
    }

    fn all(&self) -> impl DoubleEndedIterator<Item = &Self> {
        std::iter::once(self).chain(&self.nodes)
    }

    /// A command with its placeholders replaced.
    pub(super) fn fill(&self, command: &str) -> String {
        filled(command, &self.places)
    }

    /// Sets the limits of the study, from its next start on. They may differ between configurations.
    pub(super) fn limit(&self, study: &Study) -> Result<(), StoreError> {
        let changes = study.has_faults_of_limits();
        for of in self.all() {
            let limits = study.servers.get(&of.name).map(limits_of).unwrap_or_default();
            let refused = |problem: Problem| StoreError::NotSupported(problem.to_string());
            let mut server = of.server();
            if changes {
                server.limit_later().map_err(refused)?;
            }
            server.limit(limits).map_err(refused)?;
        }
        Ok(())
    }

    /// Applies the limits of a fault on top of the study's limits; with `None`, only the study's.
    pub(super) fn limit_during_fault(&self, study: &Study, fault: Option<&Fault>) -> Result<(), StoreError> {
        let mut limits = study.servers.get(&self.name).map(limits_of).unwrap_or_default();
        if let Some(fault) = fault {
            let bytes = |size: Option<ByteSize>| size.map(|size| size.0);
            limits = Limits {
                cpus: fault.cpus.or(limits.cpus),
                memory_bytes: bytes(fault.memory).or(limits.memory_bytes),
                read_bytes_per_s: bytes(fault.disk_read),
                write_bytes_per_s: bytes(fault.disk_write),
            };
        }
        self.server().limit(limits).map_err(|problem| StoreError::NotSupported(problem.to_string()))
    }

    /// Starts it and its further nodes, and waits until the store answers.
    pub(super) fn start(&self, store: &dyn AnyStore) -> Result<Started, StoreError> {
        let started = self.start_one(Some(store))?;
        self.nodes.iter().try_for_each(|node| node.start_one(None).map(drop))?;
        Ok(started)
    }

    /// Starts only this server. A node other than the store's own is ready when its `ready` command succeeds and it
    /// listens.
    pub(super) fn start_one(&self, store: Option<&dyn AnyStore>) -> Result<Started, StoreError> {
        let began = Instant::now();
        let mut server = self.server();
        self.port_is_free(&server)?;
        server.start().map_err(failed)?;
        let mut listening = None;
        let mut answers = || {
            if let (None, Some(address)) = (listening, self.listens) {
                match TcpStream::connect_timeout(&address, LISTENS_WITHIN) {
                    Ok(_) => listening = Some(began.elapsed()),
                    Err(error) if store.is_none() => return Err(format!("nothing listens on {address}: {error}")),
                    // The store itself shows whether it answers.
                    Err(_) => {}
                }
            }
            store.map_or(Ok(()), |store| store.inspect().map(drop).map_err(|e| e.to_string()))
        };
        server.wait_ready(&mut answers).map_err(failed)?;
        Ok(Started { listening, ready: began.elapsed() })
    }

    /// Refuses to start a server on a port where something already listens: its own error says less, and what listens
    /// there might be measured in its place.
    fn port_is_free(&self, server: &Server) -> Result<(), StoreError> {
        let Some(address) = self.listens.filter(|_| server.is_own() && !server.is_started()) else { return Ok(()) };
        if TcpStream::connect_timeout(&address, LISTENS_WITHIN).is_err() {
            return Ok(());
        }
        let other = listeners(address.port()).first().map_or_else(String::new, |other| format!(" ({})", other.shown()));
        Err(StoreError::Unreachable(format!(
            "server `{}` cannot be started: something else{other} already listens on {address}; stop it, or give the \
             server another `port`",
            self.name
        )))
    }

    /// Stops its further nodes and then it, and waits until they have ended.
    pub(super) fn stop(&self) -> Result<(), StoreError> {
        // All are stopped; the first error is returned.
        let ended: Vec<_> = self.all().rev().map(Self::stop_one).collect();
        ended.into_iter().collect()
    }

    /// Stops only this server.
    pub(super) fn stop_one(&self) -> Result<(), StoreError> {
        self.server().stop().map_err(failed)
    }

    /// Stops and restarts every server of the store, one after another, the store's own last.
    pub(super) fn roll(&self, store: &dyn AnyStore) -> Result<(), StoreError> {
        for node in &self.nodes {
            node.stop_one()?;
            node.start_one(None)?;
        }
        self.stop_one()?;
        self.start_one(Some(store)).map(drop)
    }

    /// Kills it.
    pub(super) fn kill(&self) -> Result<(), StoreError> {
        self.server().kill().map_err(failed)
    }

    /// Suspends it.
    pub(super) fn pause(&self) -> Result<(), StoreError> {
        self.server().pause().map_err(failed)
    }

    /// Resumes it.
    pub(super) fn resume(&self) -> Result<(), StoreError> {
        self.server().resume().map_err(failed)
    }

    /// Drops its data from the system's caches while it is stopped.
    pub(super) fn go_cold(&self, store: &dyn AnyStore) -> Result<Dropped, StoreError> {
        let paths = match self.server().data() {
            Some(data) => vec![data.to_owned()],
            None => store.paths(),
        };
        // Files that a store removes on closing, such as a log, are not cached.
        let there: Vec<PathBuf> = paths.into_iter().filter(|path| path.exists()).collect();
        drop_caches(&there).map_err(StoreError::NotSupported)
    }

    fn disk(&self) -> Result<&PowerCut, StoreError> {
        let none = || StoreError::NotSupported("the server has no disk that supports power cuts".to_owned());
        self.disk.as_deref().map(|disk| &disk.files).ok_or_else(none)
    }

    /// Makes everything on its disk durable, as time would, if it has its own disk.
    pub(super) fn settle_disk(&self) -> Result<(), StoreError> {
        self.disk.as_ref().map_or(Ok(()), |disk| disk.files.settle()).map_err(|e| StoreError::Failed(e.to_string()))
    }

    /// Cuts its power: it is killed, and its disk loses what was not synced. Returns what was lost.
    pub(super) fn cut_power(&self, keep: Option<u64>) -> Result<Forgotten, StoreError> {
        let disk = self.disk()?;
        let mut server = self.server();
        // It must not notice: it would not be to blame for a write acknowledged on a disk that is gone.
        server.pause().map_err(failed)?;
        let off = disk.power_off();
        let killed = server.kill().map_err(failed);
        let keep = keep.map_or(Keep::Nothing, Keep::Some);
        // Restore the disk, whatever happened to the server.
        let forgotten = off.power_on(keep);
        killed?;
        forgotten.map_err(|error| StoreError::Failed(format!("the disk did not return after the power cut: {error}")))
    }

    /// Sets whether its disk is full.
    pub(super) fn fill_disk(&self, full: bool) -> Result<(), StoreError> {
        self.disk()?.full(full);
        Ok(())
    }

    /// How its limits have taken effect so far; `None` if it has none.
    pub(super) fn limited(&self) -> Option<GroupUse> {
        self.server().limited()
    }

    /// The current processes of all its nodes, and its own data folder; `None` while it is being started, stopped or
    /// killed.
    pub(super) fn seen(&self) -> Option<(Tree, Option<PathBuf>)> {
        let seen = |of: &Self| {
            let server = match of.server.try_lock() {
                Ok(server) => server,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return None,
            };
            Some((server.tree(), server.data().map(PathBuf::from)))
        };
        let (own, data) = seen(self)?;
        let of_nodes: Vec<Tree> = self.nodes.iter().filter_map(|node| seen(node).map(|(tree, _)| tree)).collect();
        if of_nodes.is_empty() {
            return Some((own, data));
        }
        let all: Vec<Pid> = std::iter::once(&own).chain(&of_nodes).flat_map(|tree| tree.pids()).copied().collect();
        Some((Tree::of(&all), data))
    }

    /// How this server ended without being asked to, in a line. It then counts as ended, and can be started again.
    pub(super) fn ended(&self) -> Option<String> {
        let problem = self.server().died()?;
        let Problem::Died { how, said, .. } = &problem else { return Some(problem.to_string()) };
        Some(match said.lines().last() {
            Some(last) => format!("{how}; its last output: {}", last.trim()),
            None => how.clone(),
        })
    }

    /// How it or a node ended without being asked to.
    pub(super) fn died(&self) -> Option<StoreError> {
        self.all().find_map(|of| of.server().died()).map(failed)
    }
}

fn signal_of(stop: StopSignal) -> Signal {
    match stop {
        StopSignal::Term => Signal::TERM,
        StopSignal::Int => Signal::INT,
        StopSignal::Quit => Signal::QUIT,
        StopSignal::Hup => Signal::HUP,
        StopSignal::Usr1 => Signal::USR1,
        StopSignal::Usr2 => Signal::USR2,
    }
}

fn limits_of(said: &ServerSpec) -> Limits {
    Limits { cpus: said.cpus, memory_bytes: said.memory.map(|memory| memory.0), ..Limits::default() }
}

/// The placeholders in the commands of a server: its own name, port, address and data, and those of the others by name.
fn places(study: &Study, name: &str, said: &ServerSpec, links: &Links) -> Vec<(String, String)> {
    let port = |of: &ServerSpec| of.port.map(|port| port.to_string()).unwrap_or_default();
    let address = |of: &str| links.address(of).map_or_else(|| "127.0.0.1".to_owned(), |address| address.to_string());
    let mut all = vec![
        ("{address}".to_owned(), address(name)),
        ("{data}".to_owned(), said.data.clone().unwrap_or_default()),
        ("{port}".to_owned(), port(said)),
        ("{name}".to_owned(), name.to_owned()),
    ];
    for (other, of) in &study.servers {
        all.push((format!("{{data.{other}}}"), of.data.clone().unwrap_or_default()));
        all.push((format!("{{port.{other}}}"), port(of)));
        all.push((format!("{{address.{other}}}"), address(other)));
    }
    all
}

fn filled(text: &str, places: &[(String, String)]) -> String {
    places.iter().fold(text.to_owned(), |text, (place, value)| text.replace(place, value))
}

fn failed(problem: Problem) -> StoreError {
    StoreError::Unreachable(problem.to_string())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_port_that_is_taken_is_said_before_the_server_is_started() {
        let folder = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let spec = Spec {
            name: "pg".to_owned(),
            commands: Commands::Run {
                line: format!("touch {}", folder.path().join("started").display()),
                network: String::new(),
                stop: StopBy::Signal(Signal::TERM),
            },
            user: None,
            prepare: None,
            data: None,
            ready: None,
            env: Vec::new(),
            log: folder.path().join("log"),
            ready_within: Duration::from_secs(60),
            stop_within: Duration::from_secs(60),
            files: Vec::new(),
        };
        let server = Managed { listens: Some(address), ..Managed::new(spec, folder.path(), None).unwrap() };
        let Err(StoreError::Unreachable(told)) = server.start_one(None) else { panic!("the port is taken") };
        let own = Pid::own().unwrap().shown();
        assert_eq!(
            told,
            format!(
                "server `pg` cannot be started: something else ({own}) already listens on {address}; stop it, or give \
                 the server another `port`"
            )
        );
        assert!(!folder.path().join("started").exists());
    }
}
