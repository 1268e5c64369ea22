//! Servers that a run starts and stops: what a study says of them, and embedded stores in a process of their own.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use storebench_core::store::{AnyStore, StoreError};
use storebench_core::workload::ServerSpec;
use storebench_machine::{Commands, Forgotten, GroupUse, Keep, Lease, Limits, PowerCut, Problem, Server, Spec, Tree};

/// A server that a run controls. Arms that measure one place share it.
#[derive(Debug, Clone)]
pub struct Managed {
    server: Arc<Mutex<Server>>,
    /// Goes after the server, which has files of it open.
    disk: Option<Arc<Disk>>,
}

/// A disk that is made for a server: its power can be cut, and it can be full.
#[derive(Debug)]
pub struct Disk {
    files: PowerCut,
    /// Goes last: until then what is mounted has a name.
    _lease: Lease,
}

impl Disk {
    /// Mounts one at a folder that is empty or not there. The content of its files lies in a folder beside it, and goes with it.
    ///
    /// # Errors
    /// Where the machine has no such disks, or the folder is in use.
    pub fn mount(at: &Path, leases: &Path) -> Result<Self, StoreError> {
        let refused = |why: String| StoreError::NotSupported(format!("a disk that can be cut off and filled: {why}"));
        PowerCut::available().map_err(refused)?;
        let mut backing = at.as_os_str().to_owned();
        backing.push(".backing");
        let backing = PathBuf::from(backing);
        let lease = || -> std::io::Result<Lease> {
            let mut lease = Lease::begin(leases, &format!("the disk at {}", at.display()))?;
            lease.mount(at)?;
            lease.folder(at)?;
            lease.folder(&backing)?;
            Ok(lease)
        };
        let lease = lease().map_err(|error| refused(error.to_string()))?;
        let files = PowerCut::mount(at, &backing).map_err(|error| refused(error.to_string()))?;
        Ok(Self { files, _lease: lease })
    }
}

impl Managed {
    /// The server that a study describes. `log` gets what it says; `leases` names it while it runs.
    ///
    /// # Errors
    /// Where its lease cannot be written.
    pub fn of(
        name: &str,
        said: &ServerSpec,
        log: PathBuf,
        leases: &Path,
        disk: Option<Disk>,
    ) -> Result<Self, StoreError> {
        let fill = |text: &String| {
            let port = said.port.map(|port| port.to_string()).unwrap_or_default();
            text.replace("{data}", said.data.as_deref().unwrap_or_default())
                .replace("{port}", &port)
                .replace("{name}", name)
        };
        let commands = match (&said.run, &said.start, &said.stop) {
            (Some(run), ..) => Commands::Run(fill(run)),
            (None, Some(start), Some(stop)) => Commands::Given {
                start: fill(start),
                stop: fill(stop),
                kill: said.kill.as_ref().map(fill),
                pause: said.pause.as_ref().map(fill),
                resume: said.resume.as_ref().map(fill),
            },
            _ => return Err(StoreError::NotSupported(format!("server `{name}` has neither `run` nor `start`"))),
        };
        let spec = Spec {
            name: name.to_owned(),
            commands,
            prepare: said.prepare.as_ref().map(fill),
            data: said.data.as_ref().map(PathBuf::from),
            ready: said.ready.as_ref().map(fill),
            env: said.env.iter().map(|(name, value)| (name.clone(), fill(value))).collect(),
            files: vec![log.clone()],
            log,
            ready_within: said.ready_within.0,
            stop_within: said.stop_within.0,
        };
        Self::new(spec, leases, disk)
    }

    /// An embedded store in a process of its own: `program host URL --socket FILE`.
    ///
    /// # Errors
    /// Where its lease cannot be written.
    pub fn hosting(
        program: PathBuf,
        name: &str,
        url: &str,
        socket: &Path,
        log: PathBuf,
        leases: &Path,
        disk: Option<Disk>,
    ) -> Result<Self, StoreError> {
        let arguments = ["host", url, "--socket", &socket.display().to_string(), "--until-input-ends"];
        let spec = Spec {
            name: name.to_owned(),
            commands: Commands::Program(program, arguments.map(str::to_owned).to_vec()),
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

    fn new(spec: Spec, leases: &Path, disk: Option<Disk>) -> Result<Self, StoreError> {
        let name = spec.name.clone();
        let made = Server::new(spec, leases).map_err(|error| {
            StoreError::Failed(format!("server `{name}` cannot be named in a lease, so it is not started: {error}"))
        })?;
        Ok(Self { server: Arc::new(Mutex::new(made)), disk: disk.map(Arc::new) })
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether both are the same server.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.server, &other.server)
    }

    /// Limits it from its next start on as a study says, which may differ between arms.
    pub(super) fn limit(&self, said: Option<&ServerSpec>) -> Result<(), StoreError> {
        let limits = Limits {
            cpus: said.and_then(|said| said.cpus),
            memory_bytes: said.and_then(|said| said.memory).map(|memory| memory.0),
            ..Limits::default()
        };
        self.server().limit(limits).map_err(|problem| StoreError::NotSupported(problem.to_string()))
    }

    /// Starts it, and waits until the store answers. Gives how long that took.
    pub(super) fn start(&self, store: &dyn AnyStore) -> Result<Duration, StoreError> {
        let mut server = self.server();
        server.start().map_err(failed)?;
        server.wait_ready(&mut || store.inspect().map(drop).map_err(|e| e.to_string())).map_err(failed)
    }

    /// Stops it in order, and waits until it has ended.
    pub(super) fn stop(&self) -> Result<(), StoreError> {
        self.server().stop().map_err(failed)
    }

    /// Ends it at once.
    pub(super) fn kill(&self) -> Result<(), StoreError> {
        self.server().kill().map_err(failed)
    }

    /// Has it stand still.
    pub(super) fn pause(&self) -> Result<(), StoreError> {
        self.server().pause().map_err(failed)
    }

    /// Lets it go on.
    pub(super) fn resume(&self) -> Result<(), StoreError> {
        self.server().resume().map_err(failed)
    }

    fn disk(&self) -> Result<&PowerCut, StoreError> {
        let none = || StoreError::NotSupported("the server has no disk that can be cut off or filled".to_owned());
        self.disk.as_deref().map(|disk| &disk.files).ok_or_else(none)
    }

    /// Makes durable what is on its disk, as time would, if it has one of its own.
    pub(super) fn settle_disk(&self) -> Result<(), StoreError> {
        self.disk.as_ref().map_or(Ok(()), |disk| disk.files.settle()).map_err(|e| StoreError::Failed(e.to_string()))
    }

    /// Cuts its power: it ends at once, and its disk forgets what was not synced. Gives what that was.
    pub(super) fn cut_power(&self, keep: Option<u64>) -> Result<Forgotten, StoreError> {
        let disk = self.disk()?;
        let mut server = self.server();
        // It must not notice: what it acknowledged on a disk that is gone would be no fault of its own.
        server.pause().map_err(failed)?;
        let off = disk.power_off();
        server.kill().map_err(failed)?;
        let keep = keep.map_or(Keep::Nothing, Keep::Some);
        off.power_on(keep).map_err(|error| StoreError::Failed(format!("the disk does not come back: {error}")))
    }

    /// Has its disk be full, or not.
    pub(super) fn fill_disk(&self, full: bool) -> Result<(), StoreError> {
        self.disk()?.full(full);
        Ok(())
    }

    /// How its limits were felt so far; none where it has none.
    pub(super) fn limited(&self) -> Option<GroupUse> {
        self.server().limited()
    }

    /// Its processes and its folder as they are now; none while it is being started, stopped or killed.
    pub(super) fn seen(&self) -> Option<(Tree, Option<PathBuf>)> {
        let server = match self.server.try_lock() {
            Ok(server) => server,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some((server.tree(), server.data().map(PathBuf::from)))
    }

    /// How it has ended though nobody asked it to.
    pub(super) fn died(&self) -> Option<StoreError> {
        self.server().died().map(failed)
    }
}

fn failed(problem: Problem) -> StoreError {
    StoreError::Unreachable(problem.to_string())
}
