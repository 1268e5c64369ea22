//! A server on another machine, controlled over ssh with exactly the commands that `docs/servers.md` shows. The other
//! machine is this one, reached through the test's own sshd.
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use storebench_machine::{Commands, Pid, Problem, Server, Spec, Tree};

use crate::sshd::{Sshd, free_port, libraries, place};

/// A remote machine with a Redis.
struct Remote {
    sshd: Sshd,
    /// The port of the Redis.
    redis: u16,
}

impl Remote {
    /// `None`, with a printed reason, if this process cannot run an sshd.
    fn start() -> Option<Self> {
        let redis = place("redis");
        let program = |name: &'static str| {
            let program = redis.join("usr/bin").join(name);
            let libraries = libraries(&redis);
            (name, format!("#!/bin/sh\nexport LD_LIBRARY_PATH={libraries}\nexec {} \"$@\"\n", program.display()))
        };
        let sshd = Sshd::start(&["redis-server", "redis-cli"].map(program))?;
        Some(Self { sshd, redis: free_port() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.sshd.path(name)
    }

    /// The server from the documentation, with the address, the folder and the port of this test.
    fn spec(&self) -> Spec {
        let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/servers.md")).unwrap();
        let section = page.split("## Over ssh").nth(1).unwrap();
        let shown = section.split("```").nth(1).unwrap().strip_prefix("toml").unwrap();
        let shown: toml_edit::DocumentMut = shown.parse().unwrap();
        let server = &shown["servers"]["redis"];
        let address = format!("{} root@127.0.0.1", self.sshd.options('p'));
        let fill = |text: &toml_edit::Item| {
            let text = text.as_str().unwrap().replace("/srv/redis", &self.path("there").display().to_string());
            let text = text.replace("-p 22 -i ~/.ssh/bench bench@10.0.0.7", &address);
            text.replace("{port}", &self.redis.to_string()).replace("{name}", "redis")
        };
        let mut env: Vec<(String, String)> =
            server["env"].as_table().unwrap().iter().map(|(name, value)| (name.to_owned(), fill(value))).collect();
        assert!(env.iter().any(|(_, value)| value.contains(&address)), "the documentation shows another address");
        // Only the client needs these libraries: the remote side does not get this environment.
        let on = &mut env.iter_mut().find(|(name, _)| name == "ON").unwrap().1;
        *on = on.replacen("ssh", &self.sshd.client("ssh"), 1);
        Spec {
            name: "redis".into(),
            commands: Commands::Given {
                start: fill(&server["start"]),
                stop: fill(&server["stop"]),
                kill: Some(fill(&server["kill"])),
                pause: Some(fill(&server["pause"])),
                resume: Some(fill(&server["resume"])),
            },
            user: None,
            prepare: None,
            data: None,
            ready: Some(fill(&server["ready"])),
            env,
            log: self.path("commands.log"),
            ready_within: Duration::from_secs(60),
            stop_within: Duration::from_secs(60),
            files: Vec::new(),
        }
    }

    fn server(&self) -> Server {
        let leases = self.path("leases");
        fs::create_dir_all(&leases).unwrap();
        fs::set_permissions(&leases, fs::Permissions::from_mode(0o700)).unwrap();
        Server::new(self.spec(), &leases).unwrap()
    }

    fn pid_file(&self) -> PathBuf {
        self.path("there/redis.pid")
    }

    /// The process whose number is in the PID file.
    fn redis(&self) -> Pid {
        Pid::of(fs::read_to_string(self.pid_file()).unwrap().trim().parse().unwrap()).unwrap()
    }

    /// What runs in the data folder: the server is not a child of this process.
    fn left(&self) -> Vec<Pid> {
        let numbers = fs::read_dir("/proc").unwrap().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let there = fs::canonicalize(self.path("there")).unwrap();
        let inside = |number: &u32| fs::read_link(format!("/proc/{number}/cwd")).is_ok_and(|at| at.starts_with(&there));
        numbers.filter(inside).filter_map(Pid::of).filter(|pid| pid.runs()).collect()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Sessions are its children.
        Tree::of(Pid::of(self.sshd.process()).as_slice()).kill();
        let left = self.left();
        Tree::of(&left).kill();
        if !std::thread::panicking() {
            assert!(left.is_empty(), "left running: {left:?}");
        }
    }
}

/// Sends a PING to a Redis. Fails if it is not running or does not answer.
fn ask(port: u16) -> Result<(), String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(|e| e.to_string())?;
    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    stream.write_all(b"PING\r\n").map_err(|e| e.to_string())?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).map_err(|e| e.to_string())?;
    if &answer == b"+PONG\r\n" { Ok(()) } else { Err(format!("{answer:?}")) }
}

#[test]
fn a_server_is_started_paused_killed_and_stopped_over_ssh() {
    let Some(sshd) = Remote::start() else { return };
    let mut server = sshd.server();
    let asked = || ask(sshd.redis);
    server.start().unwrap();
    server.wait_ready(&mut || asked()).unwrap();
    let first = sshd.redis();
    assert_eq!(sshd.left(), [first], "`left` finds the server");

    server.pause().unwrap();
    assert!(first.is_paused() && asked().is_err(), "it is suspended");
    server.resume().unwrap();
    asked().unwrap();

    server.kill().unwrap();
    assert!(!first.runs() && asked().is_err());
    let log = || fs::read_to_string(sshd.path("there/redis.log")).unwrap();
    assert!(!log().contains("Received SIGTERM"), "it could not shut down cleanly");

    server.start().unwrap();
    server.wait_ready(&mut || asked()).unwrap();
    let second = sshd.redis();
    assert!(second != first && second.runs());
    server.stop().unwrap();
    assert!(!second.runs() && asked().is_err());
    assert!(log().contains("Received SIGTERM") && log().contains("ready to exit, bye bye"), "{}", log());

    // A suspended server must stop, too, although nobody is left to resume it.
    server.start().unwrap();
    server.pause().unwrap();
    drop(server);
    assert_eq!(sshd.left(), []);
}

#[test]
fn no_other_process_is_touched_over_ssh() {
    let Some(sshd) = Remote::start() else { return };
    let mut server = sshd.server();
    // Another program, and the same program on another port.
    let another = free_port();
    let mut others = [
        Command::new("sleep").arg("600").spawn().unwrap(),
        Command::new(sshd.path("bin/redis-server"))
            .args(["--port", &another.to_string()])
            .current_dir(sshd.path("bin"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    ];
    let began = Instant::now();
    while ask(another).is_err() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let untouched = others.each_mut().map(|other| {
        fs::write(sshd.pid_file(), other.id().to_string()).unwrap();
        let failed = [Server::kill, Server::pause, Server::resume].map(|end| end(&mut server));
        let failed = failed.iter().all(|done| matches!(done, Err(Problem::Command { .. })));
        let pid = Pid::of(other.id()).unwrap();
        let runs = pid.runs() && !pid.is_paused();
        other.kill().unwrap();
        other.wait().unwrap();
        (failed, runs)
    });
    assert_eq!(untouched, [(true, true), (true, true)]);
    // A PID file with a dead process does not prevent a start. One with a running server does.
    server.start().unwrap();
    let mut again = sshd.server();
    let problem = again.start().unwrap_err().to_string();
    assert!(problem.contains("it runs already"), "{problem}");
    drop(again);
    assert!(sshd.redis().runs(), "only the `Server` that started it stops it");
}

#[test]
fn a_start_that_fails_over_there_is_shown_with_what_was_said() {
    let Some(sshd) = Remote::start() else { return };
    let mut server = sshd.server();
    let taken = TcpListener::bind(("127.0.0.1", sshd.redis)).unwrap();
    let problem = server.start().unwrap_err().to_string();
    assert!(problem.contains("starting it") && problem.contains("Address already in use"), "{problem}");
    drop(taken);
    assert!(!server.is_started());
    fs::rename(sshd.path("there"), sshd.path("elsewhere")).unwrap();
    let problem = server.start().unwrap_err().to_string();
    assert!(problem.contains("No such file or directory"), "{problem}");
    fs::rename(sshd.path("elsewhere"), sshd.path("there")).unwrap();
    // Nothing is left to connect to.
    let spec = sshd.spec();
    drop(sshd);
    let leases = tempfile::tempdir().unwrap();
    fs::set_permissions(leases.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let problem = Server::new(spec, leases.path()).unwrap().start().unwrap_err().to_string();
    assert!(problem.contains("ended with exit status: 255") && problem.contains("refused"), "{problem}");
}
