//! A server on another machine, controlled over ssh with exactly the commands that `docs/servers.md` shows. The other
//! machine is this one, reached through the test's own sshd.
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use storebench_machine::{Commands, Pid, Problem, Server, Spec, Tree};

fn place(name: &str) -> PathBuf {
    let found = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../servers/where")).arg(name).output().unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    PathBuf::from(String::from_utf8(found.stdout).unwrap().trim())
}

/// Libraries bundled with a program, if any.
fn libraries(root: &Path) -> String {
    let folders = fs::read_dir(root.join("usr/lib")).into_iter().flatten().flatten();
    folders.map(|folder| folder.path().display().to_string()).collect::<Vec<_>>().join(":")
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// An sshd that lives as long as this value, with a client's key for it.
struct Sshd {
    process: Child,
    port: u16,
    folder: tempfile::TempDir,
    root: PathBuf,
    /// The port of the remote Redis.
    redis: u16,
}

impl Sshd {
    /// `None`, with a printed reason, if this process cannot run an sshd.
    fn start() -> Option<Self> {
        let own_mounts = Command::new("unshare").args(["-m", "true"]).status();
        if !own_mounts.is_ok_and(|status| status.success()) {
            println!("skipped: an sshd of the test's own needs root");
            return None;
        }
        if Command::new("pgrep").arg("-V").output().is_err() {
            println!("skipped: pgrep and pkill (procps) are not on this machine");
            return None;
        }
        let (root, redis) = (place("ssh"), place("redis"));
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for key in ["host", "client"] {
            let made = Command::new(root.join("usr/bin/ssh-keygen"))
                .env("LD_LIBRARY_PATH", libraries(&root))
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(path(key))
                .status();
            assert!(made.unwrap().success());
        }
        // Stands for the remote machine: its programs, and its data folder.
        for folder in ["bin", "there"] {
            fs::create_dir(path(folder)).unwrap();
        }
        for program in ["redis-server", "redis-cli"] {
            let file = path("bin").join(program);
            let from = redis.join("usr/bin").join(program);
            let script =
                format!("#!/bin/sh\nexport LD_LIBRARY_PATH={}\nexec {} \"$@\"\n", libraries(&redis), from.display());
            fs::write(&file, script).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let port = free_port();
        let host_key = fs::read_to_string(path("host.pub")).unwrap();
        fs::write(path("known"), format!("[127.0.0.1]:{port} {host_key}")).unwrap();
        let config = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\nStrictModes \
             no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nSetEnv PATH={}:/usr/bin:/bin\n",
            path("host").display(),
            path("client.pub").display(),
            path("bin").display()
        );
        fs::write(path("config"), config).unwrap();
        // As root, sshd requires its own user and folder, and an unlocked root password. Only sshd sees these files.
        let users = fs::read_to_string("/etc/passwd").unwrap();
        fs::write(path("users"), users + "sshd:x:65533:65534::/:/usr/sbin/nologin\n").unwrap();
        fs::write(path("passwords"), "root:*:20000:0:99999:7:::\n").unwrap();
        fs::set_permissions(path("users"), fs::Permissions::from_mode(0o644)).unwrap();
        let script = format!(
            "mount --bind {} /etc/passwd && mount --bind {} /etc/shadow && mount -t tmpfs none /run && mkdir -m 755 \
             /run/sshd && exec {} -D -e -f {}",
            path("users").display(),
            path("passwords").display(),
            root.join("usr/sbin/sshd").display(),
            path("config").display()
        );
        let log = fs::File::create(path("log")).unwrap();
        let process = Command::new("unshare")
            .args(["-m", "--propagation", "private", "sh", "-c", &script])
            .env("LD_LIBRARY_PATH", libraries(&root))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut sshd = Self { process, port, folder, root, redis: free_port() };
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = sshd.process.try_wait().unwrap();
            assert!(ended.is_none(), "{}", fs::read_to_string(sshd.path("log")).unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(sshd)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The server from the documentation, with the address, the folder and the port of this test.
    fn spec(&self) -> Spec {
        let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/servers.md")).unwrap();
        let section = page.split("## Over ssh").nth(1).unwrap();
        let shown = section.split("```").nth(1).unwrap().strip_prefix("toml").unwrap();
        let shown: toml::Table = shown.parse().unwrap();
        let server = &shown["servers"]["redis"];
        let address = format!(
            "-F /dev/null -o UserKnownHostsFile={} -p {} -i {} root@127.0.0.1",
            self.path("known").display(),
            self.port,
            self.path("client").display()
        );
        let fill = |text: &toml::Value| {
            let text = text.as_str().unwrap().replace("/srv/redis", &self.path("there").display().to_string());
            let text = text.replace("-p 22 -i ~/.ssh/bench bench@10.0.0.7", &address);
            text.replace("{port}", &self.redis.to_string()).replace("{name}", "redis")
        };
        let mut env: Vec<(String, String)> =
            server["env"].as_table().unwrap().iter().map(|(name, value)| (name.clone(), fill(value))).collect();
        assert!(env.iter().any(|(_, value)| value.contains(&address)), "the documentation shows another address");
        // Only the client needs these libraries: the remote side does not get this environment.
        let on = &mut env.iter_mut().find(|(name, _)| name == "ON").unwrap().1;
        let client =
            format!("env LD_LIBRARY_PATH={} {}", libraries(&self.root), self.root.join("usr/bin/ssh").display());
        *on = on.replacen("ssh", &client, 1);
        Spec {
            name: "redis".into(),
            commands: Commands::Given {
                start: fill(&server["start"]),
                stop: fill(&server["stop"]),
                kill: Some(fill(&server["kill"])),
                pause: Some(fill(&server["pause"])),
                resume: Some(fill(&server["resume"])),
            },
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

impl Drop for Sshd {
    fn drop(&mut self) {
        // Sessions are its children.
        Tree::of(Pid::of(self.process.id()).as_slice()).kill();
        let _ = self.process.wait();
        let left = self.left();
        Tree::of(&left).kill();
        if std::thread::panicking() {
            eprintln!("sshd said:\n{}", fs::read_to_string(self.path("log")).unwrap_or_default());
        } else {
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
    let Some(sshd) = Sshd::start() else { return };
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
    let Some(sshd) = Sshd::start() else { return };
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
    let Some(sshd) = Sshd::start() else { return };
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
