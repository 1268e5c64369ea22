//! One server: started, stopped, killed and paused, by its process or by the user's own commands.

use std::fmt;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::cgroup::{Cgroup, GroupUse, Limits};
use super::command::{self, Failed};
use super::lease::Lease;
use super::process::{Pid, Tree};

/// How often is looked whether something has happened.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long what is run once before the first start may take: data may have to be copied.
const PREPARED_WITHIN: Duration = Duration::from_secs(3600);
/// Lines of a server's output that an error shows.
const LAST_LINES: usize = 15;

/// How a server is controlled. Commands are given to `sh -c`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Commands {
    /// A command that is the server, in the foreground: it is stopped, killed and paused by signals to its process and all
    /// that it has started.
    Run(String),
    /// The same, without a shell: a program and its arguments. Its standard input is a pipe that ends with this process.
    Program(PathBuf, Vec<String>),
    /// Commands that have ended when they have done what they are for, for servers that this process is not to have started.
    Given {
        /// Starts it.
        start: String,
        /// Stops it in order.
        stop: String,
        /// Ends it at once, with no chance to write anything.
        kill: Option<String>,
        /// Has it stand still.
        pause: Option<String>,
        /// Lets it go on.
        resume: Option<String>,
    },
}

/// What is known of a server before it is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Its name, for messages and leases.
    pub name: String,
    /// How it is controlled.
    pub commands: Commands,
    /// A command that is run once before the first start, where the data folder is empty.
    pub prepare: Option<String>,
    /// The folder with its data. Made where it is not there.
    pub data: Option<PathBuf>,
    /// A command that succeeds as soon as it is ready; without one, whoever starts it has to ask.
    pub ready: Option<String>,
    /// What its commands find in their environment besides that of this process.
    pub env: Vec<(String, String)>,
    /// Where what it says is kept.
    pub log: PathBuf,
    /// How long it may take to be ready.
    pub ready_within: Duration,
    /// How long it may take to stop in order.
    pub stop_within: Duration,
    /// Files that are of no use without it.
    pub files: Vec<PathBuf>,
}

/// Why a server does not do what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A command could not be run or failed.
    #[error("server `{server}`: {what}: `{command}` {why}{}", Said(.said))]
    Command {
        /// The server.
        server: String,
        /// What it was for.
        what: &'static str,
        /// The command.
        command: String,
        /// How it ended.
        why: String,
        /// The last lines that it said.
        said: String,
    },
    /// It ended before it was ready, or while nobody had asked it to.
    #[error("server `{server}` has ended by itself, {how}{}", Said(.said))]
    Died {
        /// The server.
        server: String,
        /// How.
        how: String,
        /// The last lines that it said.
        said: String,
    },
    /// It runs, and is not ready.
    #[error("server `{server}` was not ready within {within:?}: {why}; give it longer with `ready_within`{}", Said(.said))]
    NotReady {
        /// The server.
        server: String,
        /// How long it was waited for.
        within: Duration,
        /// What was seen instead.
        why: String,
        /// The last lines that it said.
        said: String,
    },
    /// It did not stop in time, and was killed.
    #[error("server `{server}` had not stopped within {within:?} and was killed; give it longer with `stop_within`")]
    NotStopped {
        /// The server.
        server: String,
        /// How long it was waited for.
        within: Duration,
    },
    /// There is no way to do it.
    #[error("server `{server}` cannot be {what}: {why}")]
    NoWay {
        /// The server.
        server: String,
        /// What was asked for.
        what: &'static str,
        /// What is missing.
        why: String,
    },
}

struct Said<'a>(&'a str);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "; the last that it said:\n{}", self.0) }
    }
}

/// One server, and what runs of it. What runs still is killed when it is dropped.
#[derive(Debug)]
pub struct Server {
    spec: Spec,
    lease: Lease,
    /// What limits it, once it was limited.
    group: Option<Cgroup>,
    child: Option<Child>,
    /// Whether the user's own command has started it.
    given_runs: bool,
    /// Whether the user's own command has failed to end it, so that it may run still.
    given_left: bool,
    paused: bool,
}

impl Server {
    /// A server that was not started yet; `leases` is the folder that names it while it runs.
    ///
    /// # Errors
    /// Where the lease cannot be written: what runs without one would outlast a kill.
    pub fn new(spec: Spec, leases: &Path) -> std::io::Result<Self> {
        let mut lease = Lease::begin(leases, &format!("server `{}`", spec.name))?;
        for file in &spec.files {
            lease.file(file.clone())?;
        }
        Ok(Self { spec, lease, group: None, child: None, given_runs: false, given_left: false, paused: false })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The folder with its data.
    pub fn data(&self) -> Option<&Path> {
        self.spec.data.as_deref()
    }

    /// Where what it says is kept.
    pub fn log(&self) -> &Path {
        &self.spec.log
    }

    /// Its processes; none where it does not run, or not as a process of this one.
    pub fn tree(&self) -> Tree {
        let root = self.child.as_ref().and_then(|child| Pid::of(child.id()));
        Tree::of(root.as_slice())
    }

    /// Whether it was started and not stopped. It may have died meanwhile: [`Server::died`].
    pub fn is_started(&self) -> bool {
        self.child.is_some() || self.given_runs
    }

    /// How it has died, if it has though it was not asked to.
    pub fn died(&mut self) -> Option<Problem> {
        let status = self.ended()?;
        self.forget();
        Some(Problem::Died { server: self.spec.name.clone(), how: status.to_string(), said: self.said() })
    }

    /// How its process has ended, if it has. What it has started and left behind is no server any more, and is ended too.
    fn ended(&mut self) -> Option<ExitStatus> {
        let child = self.child.as_mut()?;
        let process = rustix::process::Pid::from_raw(child.id().cast_signed())?;
        // Not waited for yet, so that its number stays that of its group.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(process), look).ok()??;
        Tree::of_group(child.id()).kill();
        child.try_wait().ok()?
    }

    /// Limits what it may use, from its next start on; what is not named is not limited any more.
    ///
    /// # Errors
    /// Where this machine has no such limits, or it is not a process of this one.
    pub fn limit(&mut self, limits: Limits) -> Result<(), Problem> {
        if self.group.is_none() && limits == Limits::default() {
            return Ok(());
        }
        if let Commands::Given { .. } = self.spec.commands {
            return Err(self.no_way("limited", "run"));
        }
        match &mut self.group {
            Some(group) => group.set(limits).map_err(|problem| {
                let why = problem.to_string();
                Problem::NoWay { server: self.spec.name.clone(), what: "limited", why }
            }),
            None => self.begin_group(limits),
        }
    }

    /// Makes it such that it can be [limited](Server::limit) while it runs, from its next start on.
    ///
    /// # Errors
    /// Where this machine has no such limits, or it is not a process of this one.
    pub fn limit_later(&mut self) -> Result<(), Problem> {
        if self.group.is_some() {
            return Ok(());
        }
        if let Commands::Given { .. } = self.spec.commands {
            return Err(self.no_way("limited", "run"));
        }
        self.begin_group(Limits::default())
    }

    fn begin_group(&mut self, limits: Limits) -> Result<(), Problem> {
        let refused = |why: String| Problem::NoWay { server: self.spec.name.clone(), what: "limited", why };
        let group = Cgroup::begin(&self.spec.name, limits, self.spec.data.as_deref());
        let group = group.map_err(|problem| refused(problem.to_string()))?;
        for folder in group.folders() {
            self.lease.cgroup(folder.clone()).map_err(|error| refused(format!("its lease: {error}")))?;
        }
        self.group = Some(group);
        Ok(())
    }

    /// How its limits were felt; none where it was never limited.
    pub fn limited(&self) -> Option<GroupUse> {
        self.group.as_ref().map(Cgroup::look)
    }

    /// Starts it. Whether it is ready is another question: [`Server::wait_ready`].
    ///
    /// # Errors
    /// Where a command cannot be run or fails. One that is started already is left as it is.
    pub fn start(&mut self) -> Result<(), Problem> {
        if self.is_started() {
            return Ok(());
        }
        if let Some(data) = self.spec.data.clone() {
            let made = fs::create_dir_all(&data);
            made.map_err(|e| self.failed("its data folder is made", &data.display().to_string(), e.to_string()))?;
            let empty = fs::read_dir(&data).is_ok_and(|mut entries| entries.next().is_none());
            if let Some(prepare) = self.spec.prepare.clone().filter(|_| empty) {
                self.run("it is prepared", &prepare, PREPARED_WITHIN)?;
            }
        }
        let enter = self.group.as_ref().map_or_else(String::new, Cgroup::enter_command);
        let mut command = match &self.spec.commands {
            Commands::Given { start, .. } => {
                let start = start.clone();
                self.run("it is started", &start, self.spec.ready_within)?;
                self.given_runs = true;
                return Ok(());
            }
            Commands::Run(line) => {
                let mut command = Command::new("sh");
                // So that the process is the server, and not a shell that waits for it.
                command.args(["-c", &format!("{enter}exec {line}")]).stdin(Stdio::null());
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
        let log = self.log_file().map_err(|e| self.failed("it is started", &shown, e))?;
        let other = log.try_clone().map_err(|e| self.failed("it is started", &shown, e.to_string()))?;
        command.envs(self.spec.env.iter().map(|(name, value)| (name, value))).stdout(log).stderr(other);
        // Ctrl-C is for this process, which stops the server in order.
        command.process_group(0);
        let child = command.spawn().map_err(|e| self.failed("it is started", &shown, format!("cannot be run: {e}")))?;
        let pid = Pid::of(child.id());
        self.child = Some(child);
        let kept = self.lease.processes(pid.as_slice());
        kept.map_err(|e| self.failed("its lease is written", &shown, e.to_string()))
    }

    /// Waits until it is ready: its `ready` command succeeds, and `answers` says so.
    ///
    /// # Errors
    /// Where it dies meanwhile, or takes too long.
    pub fn wait_ready(&mut self, answers: &mut dyn FnMut() -> Result<(), String>) -> Result<Duration, Problem> {
        let began = Instant::now();
        loop {
            if let Some(died) = self.died() {
                return Err(died);
            }
            let ready = self.spec.ready.clone();
            let left = self.spec.ready_within.saturating_sub(began.elapsed()).max(LOOK_EVERY);
            let asked = ready.map_or(Ok(()), |ready| self.run("it is asked whether it is ready", &ready, left));
            let why = match asked.map_err(|e| e.to_string()).and_then(|()| answers()) {
                Ok(()) => return Ok(began.elapsed()),
                Err(why) => why,
            };
            if began.elapsed() >= self.spec.ready_within {
                return Err(Problem::NotReady {
                    server: self.spec.name.clone(),
                    within: self.spec.ready_within,
                    why,
                    said: self.said(),
                });
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Stops it in order; one that takes too long is killed.
    ///
    /// # Errors
    /// Where its command fails, or it had to be killed, or has ended by itself. It counts as ended then too; where a command has
    /// failed, it is stopped once more when this value is dropped.
    pub fn stop(&mut self) -> Result<(), Problem> {
        if !self.is_started() {
            return Ok(());
        }
        // Whoever stops one that has ended already would take its crash for an end in order.
        if let Some(died) = self.died() {
            return Err(died);
        }
        if self.paused {
            // Where that fails it has to be stopped all the same.
            let _ = self.resume();
        }
        if let Commands::Given { stop, .. } = &self.spec.commands {
            let stop = stop.clone();
            return self.end_given("it is stopped", &stop);
        }
        let tree = self.tree();
        tree.terminate();
        let began = Instant::now();
        while began.elapsed() < self.spec.stop_within {
            if self.child.is_none() || self.ended().is_some() {
                // Also those who have a group of their own.
                tree.kill();
                self.forget();
                return Ok(());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        self.end(&tree);
        Err(Problem::NotStopped { server: self.spec.name.clone(), within: self.spec.stop_within })
    }

    /// Ends it at once, as `kill -9` does: it writes nothing more.
    ///
    /// # Errors
    /// Where there is no command for it, or the command fails.
    pub fn kill(&mut self) -> Result<(), Problem> {
        if let Commands::Given { kill, .. } = &self.spec.commands {
            let kill = kill.clone().ok_or_else(|| self.no_way("killed", "kill"))?;
            return self.end_given("it is killed", &kill);
        }
        let died = self.died();
        let tree = self.tree();
        self.end(&tree);
        died.map_or(Ok(()), Err)
    }

    /// Has it stand still where it is.
    ///
    /// # Errors
    /// Where there is no command for it, or the command fails.
    pub fn pause(&mut self) -> Result<(), Problem> {
        if let Commands::Given { pause, .. } = &self.spec.commands {
            let pause = pause.clone().ok_or_else(|| self.no_way("paused", "pause"))?;
            self.run("it is paused", &pause, self.spec.stop_within)?;
        } else {
            self.tree().pause();
        }
        self.paused = true;
        Ok(())
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// Where there is no command for it, or the command fails.
    pub fn resume(&mut self) -> Result<(), Problem> {
        if let Commands::Given { resume, .. } = &self.spec.commands {
            let resume = resume.clone().ok_or_else(|| self.no_way("resumed", "resume"))?;
            self.run("it is resumed", &resume, self.spec.stop_within)?;
        } else {
            self.tree().resume();
        }
        self.paused = false;
        Ok(())
    }

    /// The last lines that it said.
    pub fn said(&self) -> String {
        let text = fs::read(&self.spec.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text[text.len().saturating_sub(8 << 10)..]).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }

    /// Ends it by the user's own command.
    fn end_given(&mut self, what: &'static str, line: &str) -> Result<(), Problem> {
        (self.given_runs, self.paused) = (false, false);
        let ended = self.run(what, line, self.spec.stop_within);
        self.given_left = ended.is_err();
        ended
    }

    fn end(&mut self, tree: &Tree) {
        tree.kill();
        if let Some(child) = &mut self.child {
            Tree::of_group(child.id()).kill();
            // It cannot go on; what cannot be waited for has been waited for.
            let _ = child.wait();
        }
        // The next start must not meet those that are still dying.
        while tree.runs() {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.forget();
    }

    fn forget(&mut self) {
        self.child = None;
        self.paused = false;
        // An empty lease says the same as one whose processes have gone.
        let _ = self.lease.processes(&[]);
    }

    fn log_file(&self) -> Result<fs::File, String> {
        let log = &self.spec.log;
        fs::OpenOptions::new().create(true).append(true).open(log).map_err(|e| format!("{}: {e}", log.display()))
    }

    /// Runs a command to its end, which has to come within this time.
    fn run(&self, what: &'static str, line: &str, within: Duration) -> Result<(), Problem> {
        command::run(line, &self.spec.env, within, &|| false).map_err(|Failed { why, said }| {
            let (server, command) = (self.spec.name.clone(), line.to_owned());
            Problem::Command { server, what, command, why, said }
        })
    }

    fn shown(&self) -> String {
        match &self.spec.commands {
            Commands::Run(line) | Commands::Given { start: line, .. } => line.clone(),
            Commands::Program(program, arguments) => format!("{} {}", program.display(), arguments.join(" ")),
        }
    }

    fn failed(&self, what: &'static str, command: &str, why: String) -> Problem {
        let (server, command) = (self.spec.name.clone(), command.to_owned());
        Problem::Command { server, what, command, why, said: String::new() }
    }

    fn no_way(&self, what: &'static str, key: &str) -> Problem {
        let why = format!("it is controlled by commands, and none is given for it; add `{key}` to the server");
        Problem::NoWay { server: self.spec.name.clone(), what, why }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Commands::Given { .. } = self.spec.commands {
            self.given_runs |= self.given_left;
            // Whoever stops it in order hears how that went; here nobody is left who could.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    struct Lab(tempfile::TempDir);

    impl Lab {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
            Self(folder)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn server(&self, commands: Commands, change: impl FnOnce(&mut Spec)) -> Server {
            let mut spec = Spec {
                name: "it".into(),
                commands,
                prepare: None,
                data: Some(self.path("data")),
                ready: None,
                env: vec![("FOLDER".into(), self.0.path().display().to_string())],
                log: self.path("log"),
                ready_within: Duration::from_secs(30),
                stop_within: Duration::from_secs(30),
                files: Vec::new(),
            };
            change(&mut spec);
            Server::new(spec, self.0.path()).unwrap()
        }

        fn leases(&self) -> usize {
            let entries = fs::read_dir(self.0.path()).unwrap().flatten();
            entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "lease")).count()
        }
    }

    fn run(line: &str) -> Commands {
        Commands::Run(line.into())
    }

    const TALKS: &str =
        "sh -c 'trap \"echo bye; exit 0\" TERM; echo $GREETING; touch $FOLDER/up; while :; do sleep 0.01; done'";

    #[test]
    fn a_process_is_started_paused_killed_started_again_and_stopped_in_order() {
        let lab = Lab::new();
        let mut server = lab.server(run(TALKS), |spec| {
            spec.env.push(("GREETING".into(), "hello".into()));
            spec.ready = Some("test -e $FOLDER/up".into());
            spec.prepare = Some("echo once >> $FOLDER/prepared; touch $FOLDER/data/made".into());
        });
        server.start().unwrap();
        server.wait_ready(&mut || Ok(())).unwrap();
        let first = server.tree();
        server.pause().unwrap();
        // A shell that was met while it begins a program waits for it, which is stopped in its place.
        while !server.tree().pids().iter().any(|pid| pid.is_paused()) {
            std::thread::yield_now();
        }
        server.kill().unwrap();
        assert!(
            !first.runs() && !server.is_started() && server.died().is_none(),
            "a kill that was asked for is no death"
        );
        assert!(!server.said().contains("bye"));
        server.start().unwrap();
        server
            .wait_ready(&mut || if server_said(&lab, "hello") >= 2 { Ok(()) } else { Err("not yet".into()) })
            .unwrap();
        server.stop().unwrap();
        assert!(server.said().ends_with("bye"), "{}", server.said());
        assert_eq!(fs::read_to_string(lab.path("prepared")).unwrap(), "once\n");
        assert_eq!(lab.leases(), 1);
        drop(server);
        assert_eq!(lab.leases(), 0);
    }

    fn server_said(lab: &Lab, what: &str) -> usize {
        fs::read_to_string(lab.path("log")).unwrap().matches(what).count()
    }

    #[test]
    fn one_that_dies_shows_its_last_words() {
        let lab = Lab::new();
        let mut server = lab.server(run("sh -c 'echo the port is in use >&2; exit 7'"), |_| ());
        server.start().unwrap();
        let died = server.wait_ready(&mut || Err("nobody answers".into())).unwrap_err().to_string();
        assert!(died.contains("exit status: 7") && died.contains("the port is in use"), "{died}");
        assert!(!server.is_started());
    }

    #[test]
    fn one_that_never_gets_ready_or_does_not_stop_is_told() {
        let lab = Lab::new();
        let mut server =
            lab.server(run("sh -c 'trap \"\" TERM; touch $FOLDER/up; while :; do sleep 0.01; done'"), |spec| {
                spec.ready_within = Duration::from_millis(50);
                spec.stop_within = Duration::from_millis(50);
            });
        server.start().unwrap();
        while !lab.path("up").exists() {
            std::thread::yield_now();
        }
        let slow = server.wait_ready(&mut || Err("nobody answers".into())).unwrap_err();
        assert!(slow.to_string().contains("nobody answers"), "{slow}");
        let tree = server.tree();
        assert!(matches!(server.stop(), Err(Problem::NotStopped { .. })));
        assert!(!tree.runs());
    }

    #[test]
    fn a_command_that_fails_says_so_in_its_own_words() {
        let lab = Lab::new();
        let mut server = lab.server(run("true"), |spec| spec.prepare = Some("echo no room; false".into()));
        let failed = server.start().unwrap_err().to_string();
        assert!(failed.contains("no room") && failed.contains("exit status: 1"), "{failed}");
    }

    #[test]
    fn the_users_own_commands_are_used_and_what_has_none_is_refused() {
        let lab = Lab::new();
        let given = |kill: Option<&str>| Commands::Given {
            start: "echo start >> $FOLDER/did".into(),
            stop: "echo stop >> $FOLDER/did".into(),
            kill: kill.map(str::to_owned),
            pause: None,
            resume: None,
        };
        let mut server = lab.server(given(Some("echo kill >> $FOLDER/did")), |_| ());
        server.start().unwrap();
        server.kill().unwrap();
        server.start().unwrap();
        server.stop().unwrap();
        server.start().unwrap();
        drop(server);
        assert_eq!(fs::read_to_string(lab.path("did")).unwrap(), "start\nkill\nstart\nstop\nstart\nstop\n");
        let mut server = lab.server(given(None), |_| ());
        assert!(server.kill().unwrap_err().to_string().contains("add `kill`"));
        assert!(server.pause().unwrap_err().to_string().contains("add `pause`"));
    }

    #[test]
    fn commands_that_fail_leave_nothing_running_or_standing_still() {
        let lab = Lab::new();
        let say = |what: &str| format!("echo {what} >> $FOLDER/did; test ! -e $FOLDER/no-{what}");
        let given = || Commands::Given {
            start: say("start"),
            stop: say("stop"),
            kill: Some(say("kill")),
            pause: Some(say("pause")),
            resume: Some(say("resume")),
        };
        let did = || {
            let all = fs::read_to_string(lab.path("did")).unwrap();
            fs::remove_file(lab.path("did")).unwrap();
            all.replace('\n', " ")
        };
        // What was killed while it stood still does not stand still when it is started again.
        let mut server = lab.server(given(), |_| ());
        server.start().unwrap();
        server.pause().unwrap();
        server.kill().unwrap();
        server.start().unwrap();
        server.stop().unwrap();
        assert_eq!(did(), "start pause kill start stop ");
        // One that cannot be let go on is stopped all the same.
        fs::write(lab.path("no-resume"), "").unwrap();
        server.start().unwrap();
        server.pause().unwrap();
        server.stop().unwrap();
        assert_eq!(did(), "start pause resume stop ");
        // Nor is one dropped as it stands still, which could not stop in order.
        server.start().unwrap();
        server.pause().unwrap();
        drop(server);
        assert_eq!(did(), "start pause resume stop ");
        // Whoever could not be ended may run still.
        for (what, end) in [("stop", Server::stop as fn(&mut Server) -> _), ("kill", Server::kill)] {
            let mut server = lab.server(given(), |_| ());
            server.start().unwrap();
            let no = lab.path(&format!("no-{what}"));
            fs::write(&no, "").unwrap();
            assert!(end(&mut server).is_err());
            fs::remove_file(no).unwrap();
            drop(server);
            assert_eq!(did(), format!("start {what} stop "));
        }
    }

    #[test]
    fn what_a_server_that_ended_by_itself_left_behind_is_ended() {
        let lab = Lab::new();
        let mark = format!("sleep 311.{}", std::process::id());
        let line = format!("sh -c '{mark} & sleep 0.2; exit 7'");
        let mut server = lab.server(Commands::Run(line), |_| {});
        server.start().unwrap();
        let died = loop {
            if let Some(died) = server.died() {
                break died;
            }
            std::thread::sleep(LOOK_EVERY);
        };
        assert!(died.to_string().contains("exit status: 7"), "{died}");
        let running = || {
            let found = Command::new("pgrep").args(["-x", "-f", &mark]).output().unwrap();
            String::from_utf8(found.stdout).unwrap()
        };
        while !running().is_empty() {
            std::thread::sleep(LOOK_EVERY);
        }
        // A crash is none that was asked for, whoever is the first to meet it.
        for end in [Server::stop, Server::kill] {
            server.start().unwrap();
            let pid = server.tree().pids()[0];
            while pid.runs() {
                std::thread::sleep(LOOK_EVERY);
            }
            let told = end(&mut server).unwrap_err();
            assert!(matches!(told, Problem::Died { .. }), "{told}");
            assert!(!server.is_started());
        }
    }

    #[test]
    fn commands_that_hang_or_leave_their_output_open_are_not_waited_for() {
        let lab = Lab::new();
        let mark = format!("sleep 611.{}", std::process::id());
        let given = Commands::Given {
            start: format!("{mark} & true"),
            stop: format!("pkill -x -f '{mark}'"),
            kill: None,
            pause: None,
            resume: None,
        };
        let mut server = lab.server(given, |spec| {
            spec.ready = Some("sleep 600".into());
            spec.ready_within = Duration::from_millis(300);
        });
        server.start().unwrap();
        let problem = server.wait_ready(&mut || Ok(())).unwrap_err();
        assert!(problem.to_string().contains("had not ended within"), "{problem}");
        server.stop().unwrap();
    }

    #[test]
    fn a_program_ends_with_its_input() {
        let lab = Lab::new();
        let mut server = lab.server(Commands::Program("cat".into(), Vec::new()), |_| ());
        server.start().unwrap();
        let tree = server.tree();
        // Its end of the pipe is closed when this process ends, however that is.
        drop(server.child.as_mut().unwrap().stdin.take());
        while tree.runs() {
            std::thread::yield_now();
        }
        assert!(matches!(server.died(), Some(Problem::Died { .. })));
    }
}
