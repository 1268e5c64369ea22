//! Servers that a run starts and stops: what a study says of them, and embedded stores in a process of their own.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use storebench_core::store::{AnyStore, StoreError};
use storebench_core::workload::ServerSpec;
use storebench_machine::{Commands, Problem, Server, Spec, Tree};

/// A server that a run controls. Arms that measure one place share it.
#[derive(Debug, Clone)]
pub struct Managed(Arc<Mutex<Server>>);

impl Managed {
    /// The server that a study describes. `log` gets what it says; `leases` names it while it runs.
    ///
    /// # Errors
    /// Where its lease cannot be written.
    pub fn of(name: &str, said: &ServerSpec, log: PathBuf, leases: &Path) -> Result<Self, StoreError> {
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
        Self::new(spec, leases)
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
        Self::new(spec, leases)
    }

    fn new(spec: Spec, leases: &Path) -> Result<Self, StoreError> {
        let name = spec.name.clone();
        let made = Server::new(spec, leases).map_err(|error| {
            StoreError::Failed(format!("server `{name}` cannot be named in a lease, so it is not started: {error}"))
        })?;
        Ok(Self(Arc::new(Mutex::new(made))))
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether both are the same server.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
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

    /// Its processes and its folder as they are now; none while it is being started, stopped or killed.
    pub(super) fn seen(&self) -> Option<(Tree, Option<PathBuf>)> {
        let server = match self.0.try_lock() {
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
