//! A server on another machine, controlled over ssh with the commands that the documentation shows: the other machine is this
//! one, over an sshd of the test's own.
#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use storebench_machine::{Commands, Problem, Server, Spec};

fn place(name: &str) -> PathBuf {
    let found = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../servers/where")).arg(name).output().unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    PathBuf::from(String::from_utf8(found.stdout).unwrap().trim())
}

/// Libraries that came with a program, if any did.
fn libraries(root: &Path) -> String {
    let folders = fs::read_dir(root.join("usr/lib")).into_iter().flatten().flatten();
    folders.map(|folder| folder.path().display().to_string()).collect::<Vec<_>>().join(":")
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// An sshd that lives as long as this value, and a client's key for it.
struct Sshd {
    process: Child,
    port: u16,
    folder: tempfile::TempDir,
    root: PathBuf,
}

impl Sshd {
    /// None, said aloud, where the machine does not let this process have one.
    fn start() -> Option<Self> {
        let own_mounts = Command::new("unshare").args(["-m", "true"]).status();
        if !own_mounts.is_ok_and(|status| status.success()) {
            println!("skipped: an sshd of the test's own needs root");
            return None;
        }
        let root = place("ssh");
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
        let port = free_port();
        let config = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\nStrictModes \
             no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n",
            path("host").display(),
            path("client.pub").display()
        );
        fs::write(path("config"), config).unwrap();
        // As root it wants a user of its own: one that only it sees.
        let users = fs::read_to_string("/etc/passwd").unwrap();
        fs::write(path("users"), users + "sshd:x:65533:65534::/:/usr/sbin/nologin\n").unwrap();
        fs::set_permissions(path("users"), fs::Permissions::from_mode(0o644)).unwrap();
        let script = format!(
            "mount --bind {} /etc/passwd && mkdir -p /run/sshd && exec {} -D -e -f {}",
            path("users").display(),
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
        let mut sshd = Self { process, port, folder, root };
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

    /// The client's command, to be followed by what is run over there.
    fn ssh(&self) -> String {
        format!(
            "LD_LIBRARY_PATH={} {} -p {} -i {} -o BatchMode=yes -o ConnectTimeout=5 -o StrictHostKeyChecking=no -o \
             UserKnownHostsFile=/dev/null -o LogLevel=ERROR root@127.0.0.1",
            libraries(&self.root),
            self.root.join("usr/bin/ssh").display(),
            self.port,
            self.path("client").display()
        )
    }

    /// Redis over there, by the commands of the documentation.
    fn redis(&self, port: u16, folder: &Path) -> Spec {
        let (ssh, data, root) = (self.ssh(), folder.display(), place("redis"));
        let server =
            format!("env LD_LIBRARY_PATH={} {}", libraries(&root), root.join("usr/bin/redis-server").display());
        // The name that it gives itself is cut to 15 signs.
        let signal = |name: &str| format!("{ssh} 'pkill -{name} -F {data}/pid redis-server'");
        Spec {
            name: "redis".into(),
            commands: Commands::Given {
                start: format!(
                    "{ssh} 'cd {data} && {{ setsid {server} --port {port} --appendonly yes </dev/null >log 2>&1 & echo $! >pid; \
                     }}'"
                ),
                stop: format!(
                    "{}; {ssh} 'while pkill -0 -F {data}/pid redis-server; do sleep 0.1; done'",
                    signal("TERM")
                ),
                kill: Some(signal("KILL")),
                pause: Some(signal("STOP")),
                resume: Some(signal("CONT")),
            },
            prepare: None,
            data: None,
            ready: None,
            env: Vec::new(),
            log: self.path("commands.log"),
            ready_within: Duration::from_secs(60),
            stop_within: Duration::from_secs(60),
            files: Vec::new(),
        }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Asks a Redis whether it is there; an error in words where it is not, or does not answer.
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
    let leases = tempfile::tempdir().unwrap();
    fs::set_permissions(leases.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let there = sshd.path("there");
    fs::create_dir(&there).unwrap();
    let port = free_port();
    let mut server = Server::new(sshd.redis(port, &there), leases.path()).unwrap();
    let pid = || fs::read_to_string(there.join("pid")).unwrap().trim().parse::<u32>().unwrap();
    let runs = |pid: u32| {
        fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z ") && stat.contains("redis"))
    };

    server.start().unwrap();
    server.wait_ready(&mut || ask(port)).unwrap();
    let first = pid();
    assert!(runs(first));

    server.pause().unwrap();
    assert!(ask(port).is_err(), "it stands still");
    server.resume().unwrap();
    server.wait_ready(&mut || ask(port)).unwrap();

    server.kill().unwrap();
    while runs(first) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(ask(port).is_err());

    server.start().unwrap();
    server.wait_ready(&mut || ask(port)).unwrap();
    let second = pid();
    assert!(second != first && runs(second));
    server.stop().unwrap();
    assert!(!runs(second) && ask(port).is_err());

    // Whoever has its number now is not touched: the name has to be right, too.
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    fs::write(there.join("pid"), other.id().to_string()).unwrap();
    assert!(matches!(server.kill(), Err(Problem::Command { .. })), "there is no such server");
    assert!(other.try_wait().unwrap().is_none());
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn a_command_that_fails_over_there_is_shown_with_what_it_said() {
    let Some(sshd) = Sshd::start() else { return };
    let leases = tempfile::tempdir().unwrap();
    fs::set_permissions(leases.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let mut spec = sshd.redis(1, Path::new("/nowhere"));
    let mut server = Server::new(spec.clone(), leases.path()).unwrap();
    let problem = server.start().unwrap_err().to_string();
    assert!(problem.contains("it is started") && problem.contains("/nowhere"), "{problem}");
    // Nobody is there who would let us in.
    drop(sshd);
    spec.name = "gone".into();
    let problem = Server::new(spec, leases.path()).unwrap().start().unwrap_err().to_string();
    assert!(problem.contains("ended with exit status: 255") && problem.contains("refused"), "{problem}");
}
