//! One server. It is started, stopped, killed and paused through its process or by the user's commands.

mod problem;
#[cfg(test)]
mod tests;

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::cgroup::{Cgroup, GroupUse, Limits};
use super::command::{self, Failed};
use super::lease::Lease;
use super::process::{Group, Pid, Signal, Tree};
use super::user::{PRIVATE, User};

pub use problem::Problem;

/// How often conditions are polled.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long `prepare` may take: it may have to copy data.
const PREPARED_WITHIN: Duration = Duration::from_secs(3600);
/// Lines of a server's output that an error shows.
const LAST_LINES: usize = 15;

/// How a server is controlled. Commands are given to `sh -c`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Commands {
    /// A command that is the server, in the foreground. It is killed and paused by signals to its process and all its
    /// descendants.
    Run {
        /// The command.
        line: String,
        /// A prefix that runs it in the server's network namespace; empty if it has none.
        network: String,
        /// What stops it cleanly.
        stop: StopBy,
    },
    /// The same without a shell: a program and its arguments. Its standard input is a pipe that closes when this
    /// process ends.
    Program(PathBuf, Vec<String>),
    /// Commands that end when they have done their work, for servers that this process should not start itself.
    Given {
        /// Starts it.
        start: String,
        /// Stops it cleanly.
        stop: String,
        /// Kills it, so that it can write nothing more.
        kill: Option<String>,
        /// Suspends it.
        pause: Option<String>,
        /// Resumes it.
        resume: Option<String>,
    },
}

/// What makes a server shut down cleanly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopBy {
    /// A signal to its process group.
    Signal(Signal),
    /// A command. It may end before the server does.
    Command(String),
}

/// The configuration of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Its name, for messages and leases.
    pub name: String,
    /// How it is controlled.
    pub commands: Commands,
    /// The user that its commands run as; `None` for that of this process. An empty data folder becomes this user's.
    pub user: Option<User>,
    /// A command that runs once before the first start, if the data folder is empty.
    pub prepare: Option<String>,
    /// Its data folder. It is created if it does not exist.
    pub data: Option<PathBuf>,
    /// A command that succeeds as soon as the server is ready; without one, the caller has to check. If it has not
    /// finished after `ready_within`, it is killed.
    pub ready: Option<String>,
    /// Environment variables for its commands, in addition to those of this process.
    pub env: Vec<(String, String)>,
    /// The file for its output.
    pub log: PathBuf,
    /// How long it may take to become ready, and its start command to finish.
    pub ready_within: Duration,
    /// How long it may take to stop, and its stop, kill, pause and resume commands to finish.
    pub stop_within: Duration,
    /// Files that are useless without it.
    pub files: Vec<PathBuf>,
}

/// One server and its running processes. They are killed when it is dropped.
#[derive(Debug)]
pub struct Server {
    spec: Spec,
    lease: Lease,
    /// The group that limits it; `None` if it was never limited.
    group: Option<Cgroup>,
    child: Option<Child>,
    /// Whether the user's command has started it.
    given_runs: bool,
    /// Whether the user's command failed to end it, so that it may still be running.
    given_left: bool,
    paused: bool,
}

impl Server {
    /// Creates a server without starting it. `leases` is the folder for its lease while it runs.
    ///
    /// # Errors
    /// Fails if the lease cannot be written: without one, its processes would survive if Storebench is killed.
    pub fn new(spec: Spec, leases: &Path) -> std::io::Result<Self> {
        let mut lease = Lease::begin(leases, &format!("server `{}`", spec.name))?;
        for file in &spec.files {
            lease.file(file.clone())?;
        }
        Ok(Self { spec, lease, group: None, child: None, given_runs: false, given_left: false, paused: false })
    }

    /// The folder with its data.
    pub fn data(&self) -> Option<&Path> {
        self.spec.data.as_deref()
    }

    /// Its processes; empty if it is not running, or not as a child of this process.
    pub fn tree(&self) -> Tree {
        let root = self.child.as_ref().and_then(|child| Pid::of(child.id()));
        Tree::of(root.as_slice())
    }

    /// Whether it was started and not stopped. It may have died since: [`Server::died`].
    pub fn is_started(&self) -> bool {
        self.child.is_some() || self.given_runs
    }

    /// Whether its processes are started as children of this one, and not by a command of the user's that may find it
    /// running.
    pub fn is_own(&self) -> bool {
        !matches!(self.spec.commands, Commands::Given { .. })
    }

    /// How it died, if it ended without being asked to.
    pub fn died(&mut self) -> Option<Problem> {
        if !self.has_ended() {
            return None;
        }
        // Its children may still run, and would hold its port and its data.
        let how = self.end_rest().map_or_else(|| "unknown exit status".to_owned(), |status| status.to_string());
        self.forget();
        Some(Problem::Died { server: self.spec.name.clone(), how, said: self.said() })
    }

    /// Sets its limits, from its next start on. Resources that `limits` does not name are unlimited.
    ///
    /// # Errors
    /// Fails if this machine does not support these limits, or if the server is not a child of this process.
    pub fn limit(&mut self, limits: Limits) -> Result<(), Problem> {
        match &mut self.group {
            None if limits == Limits::default() => Ok(()),
            None => self.begin_group(limits),
            Some(group) => group.set(limits).map_err(|problem| self.refused("limited", problem.to_string())),
        }
    }

    /// Prepares it to be [limited](Server::limit) while it runs, from its next start on.
    ///
    /// # Errors
    /// Fails if this machine does not support limits, or if the server is not a child of this process.
    pub fn limit_later(&mut self) -> Result<(), Problem> {
        if self.group.is_some() { Ok(()) } else { self.begin_group(Limits::default()) }
    }

    fn begin_group(&mut self, limits: Limits) -> Result<(), Problem> {
        if let Commands::Given { .. } = self.spec.commands {
            return Err(self.no_way("limited", "run"));
        }
        let group = Cgroup::begin(limits, self.spec.data.as_deref());
        let group = group.map_err(|problem| self.refused("limited", problem.to_string()))?;
        for folder in group.folders() {
            self.lease.cgroup(folder).map_err(|error| self.refused("limited", format!("its lease: {error}")))?;
        }
        self.group = Some(group);
        Ok(())
    }

    /// How its limits took effect; `None` if it was never limited.
    pub fn limited(&self) -> Option<GroupUse> {
        self.group.as_ref().map(Cgroup::look)
    }

    /// Starts it. It does not wait until it is ready: [`Server::wait_ready`].
    ///
    /// # Errors
    /// Fails if a command cannot be run or fails. A server that is already started is left as it is.
    pub fn start(&mut self) -> Result<(), Problem> {
        if self.is_started() {
            return Ok(());
        }
        let empty = self.spec.data.as_ref().map_or(Ok(false), |data| self.make_folder(data))?;
        if let Some(prepare) = self.spec.prepare.as_ref().filter(|_| empty) {
            self.run("preparing it", prepare, PREPARED_WITHIN)?;
        }
        let enter = self.group.as_ref().map_or_else(String::new, Cgroup::enter_command);
        let mut command = match &self.spec.commands {
            Commands::Given { start, .. } => {
                self.run("starting it", start, self.spec.ready_within)?;
                self.given_runs = true;
                return Ok(());
            }
            // With `exec`, the process is the server and not a shell that waits for it. Only root may enter groups and
            // namespaces, so the user changes last.
            Commands::Run { line, network, .. } => {
                let mut command = Command::new("sh");
                match &self.spec.user {
                    None => command.args(["-c", &format!("{enter}exec {network}{line}")]),
                    Some(user) => command
                        .args(["-c", &format!("{enter}exec {network}\"$0\" \"$@\"")])
                        .args(user.prefix())
                        .args(["sh", "-c", &format!("exec {line}")])
                        .envs(user.environment()),
                };
                command.stdin(Stdio::null());
                command
            }
            Commands::Program(program, arguments) if enter.is_empty() => {
                let mut command = Command::new(program);
                command.args(arguments).stdin(Stdio::piped());
                command
            }
            Commands::Program(program, arguments) => {
                let mut command = Command::new("sh");
                command.args(["-c", &format!("{enter}exec \"$0\" \"$@\"")]).arg(program).args(arguments);
                command.stdin(Stdio::piped());
                command
            }
        };
        let shown = self.shown();
        let log = self.log_file().map_err(|e| self.failed("starting it", &shown, e))?;
        let other = log.try_clone().map_err(|e| self.failed("starting it", &shown, e.to_string()))?;
        command.envs(self.spec.env.iter().map(|(name, value)| (name, value))).stdout(log).stderr(other);
        // Ctrl-C is for this process, which stops the server cleanly.
        command.process_group(0);
        let child = command.spawn().map_err(|e| self.failed("starting it", &shown, format!("cannot be run: {e}")))?;
        let pid = Pid::of(child.id());
        self.child = Some(child);
        let kept = self.lease.processes(pid.as_slice());
        kept.map_err(|e| self.failed("writing its lease", &shown, e.to_string()))
    }

    /// Waits until it is ready: its `ready` command succeeds, and `answers` returns `Ok`.
    ///
    /// # Errors
    /// Fails if it dies meanwhile, or takes too long.
    pub fn wait_ready(&mut self, answers: &mut dyn FnMut() -> Result<(), String>) -> Result<Duration, Problem> {
        let (began, within) = (Instant::now(), self.spec.ready_within);
        let mut before = None;
        loop {
            if let Some(died) = self.died() {
                return Err(died);
            }
            let left = within.saturating_sub(began.elapsed());
            let ask = |ready: &String| self.run("checking whether it is ready", ready, left.max(LOOK_EVERY));
            let asked = self.spec.ready.as_ref().map_or(Ok(()), ask);
            let why = match asked.map_err(|e| e.to_string()).and_then(|()| answers()) {
                Ok(()) => return Ok(began.elapsed()),
                Err(why) => why,
            };
            if began.elapsed() >= within {
                // A check that was cut off almost immediately says less than the one before.
                let why = before.filter(|_| left < within / 10).unwrap_or(why);
                return Err(Problem::NotReady { server: self.spec.name.clone(), within, why, said: self.said() });
            }
            before = Some(why);
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Stops it cleanly. If that takes too long, kills it.
    ///
    /// # Errors
    /// Fails if its command fails, if it had to be killed, or if it has ended by itself. It then counts as ended, too.
    /// If the command failed, dropping this value stops it once more.
    pub fn stop(&mut self) -> Result<(), Problem> {
        if !self.is_started() {
            return Ok(());
        }
        // Otherwise a crash would look like a clean stop.
        if let Some(died) = self.died() {
            return Err(died);
        }
        if self.paused {
            // If that fails, it still has to be stopped.
            let _ = self.resume();
        }
        if let Commands::Given { stop, .. } = &self.spec.commands {
            let stop = stop.clone();
            return self.end_given("stopping it", &stop);
        }
        let (tree, began, within) = (self.tree(), Instant::now(), self.spec.stop_within);
        let group = self.child.as_ref().and_then(Group::of);
        let by = match &self.spec.commands {
            Commands::Run { stop, .. } => stop.clone(),
            _ => StopBy::Signal(Signal::TERM),
        };
        let asked = match &by {
            StopBy::Signal(signal) => {
                group.into_iter().for_each(|group| group.signal(*signal));
                signal_name(*signal).to_owned()
            }
            StopBy::Command(line) => {
                if let Err(problem) = self.run("stopping it", line, within) {
                    self.end(&tree);
                    return Err(problem);
                }
                format!("`{line}`")
            }
        };
        // A wrapper may end at the signal while the server that it started still writes: every process of the group was
        // asked to end. A command may speak to the server only.
        let others_run = || matches!(by, StopBy::Signal(_)) && group.is_some_and(|group| !group.pids().is_empty());
        while began.elapsed() < within {
            if self.has_ended() && !others_run() {
                // Processes that it has started and left behind are no longer part of the server.
                self.end(&tree);
                return Ok(());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        self.end(&tree);
        let remedy = match by {
            StopBy::Signal(_) => {
                "raise `stop_within`, or use the `stop_signal` that ends it at once (PostgreSQL: \"SIGINT\") or a `stop` command"
            }
            StopBy::Command(_) => "raise `stop_within`, or correct `stop`",
        };
        Err(Problem::NotStopped { server: self.spec.name.clone(), within, asked, remedy })
    }

    /// Creates its data folder if it does not exist. Returns whether it is empty; it then belongs to the server's user.
    fn make_folder(&self, data: &Path) -> Result<bool, Problem> {
        let shown = data.display();
        let failed = |what, error: std::io::Error| self.failed(what, &shown.to_string(), error.to_string());
        let make = || -> std::io::Result<()> {
            if data.exists() {
                return Ok(());
            }
            data.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::DirBuilder::new().mode(PRIVATE).create(data)
        };
        make().map_err(|error| failed("creating its data folder", error))?;
        let empty = fs::read_dir(data).is_ok_and(|mut entries| entries.next().is_none());
        let Some(user) = &self.spec.user else { return Ok(empty) };
        if empty {
            user.take(data).map_err(|error| failed("giving its data folder to its user", error))?;
        }
        if user.can_write(data) {
            return Ok(empty);
        }
        let why = format!(
            "user `{}` cannot write to its data folder {shown}; use a folder that this user may enter, such as \
             /var/tmp/{}, as `data`",
            user.name(),
            self.spec.name
        );
        Err(self.refused("started", why))
    }

    /// Kills it, as `kill -9` does: it writes nothing more.
    ///
    /// # Errors
    /// Fails if there is no command for it, if the command fails, or if it has ended by itself before.
    pub fn kill(&mut self) -> Result<(), Problem> {
        if let Commands::Given { kill, .. } = &self.spec.commands {
            let kill = kill.clone().ok_or_else(|| self.no_way("killed", "kill"))?;
            return self.end_given("killing it", &kill);
        }
        if let Some(died) = self.died() {
            return Err(died);
        }
        let tree = self.tree();
        self.end(&tree);
        Ok(())
    }

    /// Suspends it.
    ///
    /// # Errors
    /// Fails if there is no command for it, or the command fails.
    pub fn pause(&mut self) -> Result<(), Problem> {
        if let Commands::Given { pause, .. } = &self.spec.commands {
            let pause = pause.as_ref().ok_or_else(|| self.no_way("paused", "pause"))?;
            self.run("pausing it", pause, self.spec.stop_within)?;
        } else {
            self.tree().pause();
        }
        self.paused = true;
        Ok(())
    }

    /// Resumes it.
    ///
    /// # Errors
    /// Fails if there is no command for it, or the command fails.
    pub fn resume(&mut self) -> Result<(), Problem> {
        if let Commands::Given { resume, .. } = &self.spec.commands {
            let resume = resume.as_ref().ok_or_else(|| self.no_way("resumed", "resume"))?;
            self.run("resuming it", resume, self.spec.stop_within)?;
        } else {
            self.tree().resume();
        }
        self.paused = false;
        Ok(())
    }

    /// The last lines of its output.
    pub fn said(&self) -> String {
        let text = fs::read(&self.spec.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text[text.len().saturating_sub(8 << 10)..]).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }

    /// Ends it with the user's command.
    fn end_given(&mut self, what: &'static str, line: &str) -> Result<(), Problem> {
        (self.given_runs, self.paused) = (false, false);
        let ended = self.run(what, line, self.spec.stop_within);
        self.given_left = ended.is_err();
        ended
    }

    /// Whether its process has ended. It is not waited for yet, so that its number stays reserved for its group.
    fn has_ended(&self) -> bool {
        self.child.as_ref().and_then(Group::of).is_some_and(Group::leader_has_ended)
    }

    fn end(&mut self, tree: &Tree) {
        tree.kill();
        self.end_rest();
        // The next start must not collide with dying processes.
        while tree.runs() {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.forget();
    }

    /// Kills the rest of its groups, including processes that have left its tree, and waits for its process.
    fn end_rest(&mut self) -> Option<ExitStatus> {
        let child = self.child.as_mut()?;
        Group::of(child).into_iter().for_each(Group::kill);
        if let Some(group) = &self.group {
            group.kill();
        }
        // It is dead; an error means that it was already waited for.
        child.wait().ok()
    }

    fn forget(&mut self) {
        self.child = None;
        self.paused = false;
        // A failed write is harmless: a lease whose processes have ended is equivalent to an empty one.
        let _ = self.lease.processes(&[]);
    }

    fn log_file(&self) -> Result<fs::File, String> {
        let log = &self.spec.log;
        fs::OpenOptions::new().create(true).append(true).open(log).map_err(|e| format!("{}: {e}", log.display()))
    }

    /// Runs a command to completion, within this time.
    fn run(&self, what: &'static str, line: &str, within: Duration) -> Result<(), Problem> {
        command::run(line, self.spec.user.as_ref(), &self.spec.env, within, &|| false).map_err(
            |Failed { why, said }| {
                let (server, command) = (self.spec.name.clone(), line.to_owned());
                Problem::Command { server, what, command, why, said }
            },
        )
    }

    fn shown(&self) -> String {
        match &self.spec.commands {
            Commands::Run { line, .. } | Commands::Given { start: line, .. } => line.clone(),
            Commands::Program(program, arguments) => format!("{} {}", program.display(), arguments.join(" ")),
        }
    }

    fn failed(&self, what: &'static str, command: &str, why: String) -> Problem {
        let (server, command) = (self.spec.name.clone(), command.to_owned());
        Problem::Command { server, what, command, why, said: String::new() }
    }

    fn no_way(&self, what: &'static str, key: &str) -> Problem {
        let why = format!("it is controlled by commands, and none is given for this; add `{key}` to the server");
        self.refused(what, why)
    }

    fn refused(&self, what: &'static str, why: String) -> Problem {
        Problem::NoWay { server: self.spec.name.clone(), what, why }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Commands::Given { .. } = self.spec.commands {
            self.given_runs |= self.given_left;
            // Callers of `stop` get its result; here nobody can.
            let _ = self.stop();
        } else {
            let tree = self.tree();
            self.end(&tree);
        }
        for file in &self.spec.files {
            let _ = fs::remove_file(file);
        }
    }
}

/// What users call a signal.
fn signal_name(signal: Signal) -> &'static str {
    match signal {
        Signal::INT => "SIGINT",
        Signal::QUIT => "SIGQUIT",
        Signal::HUP => "SIGHUP",
        Signal::USR1 => "SIGUSR1",
        Signal::USR2 => "SIGUSR2",
        _ => "SIGTERM",
    }
}
