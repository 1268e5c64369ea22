//! An sshd of the test's own on the loopback interface, which stands for another machine.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(crate) fn place(name: &str) -> PathBuf {
    let found = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../servers/where")).arg(name).output().unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    PathBuf::from(String::from_utf8(found.stdout).unwrap().trim())
}

/// Libraries bundled with a program, if any.
pub(crate) fn libraries(root: &Path) -> String {
    let folders = fs::read_dir(root.join("usr/lib")).into_iter().flatten().flatten();
    folders.map(|folder| folder.path().display().to_string()).collect::<Vec<_>>().join(":")
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// An sshd that lives as long as this value, with a client's key for it.
pub(crate) struct Sshd {
    process: Child,
    port: u16,
    folder: tempfile::TempDir,
    root: PathBuf,
}

impl Sshd {
    /// Starts it. The remote machine has these programs, each a shell script. `None`, with a printed reason, if this
    /// process cannot run an sshd.
    pub(crate) fn start(programs: &[(&str, String)]) -> Option<Self> {
        let own_mounts = Command::new("unshare").args(["-m", "true"]).status();
        if !own_mounts.is_ok_and(|status| status.success()) {
            println!("skipped: an sshd of the test's own needs root");
            return None;
        }
        if Command::new("pgrep").arg("-V").output().is_err() {
            println!("skipped: pgrep and pkill (procps) are not on this machine");
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
        // Stands for the remote machine: its programs, and its data folder.
        for folder in ["bin", "there"] {
            fs::create_dir(path(folder)).unwrap();
        }
        for (program, script) in programs {
            let file = path("bin").join(program);
            fs::write(&file, script).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let port = free_port();
        let host_key = fs::read_to_string(path("host.pub")).unwrap();
        fs::write(path("known"), format!("[127.0.0.1]:{port} {host_key}")).unwrap();
        let config = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\nStrictModes \
             no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nSubsystem sftp internal-sftp\nSetEnv PATH={}:/usr/bin:/bin\n",
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
        let mut sshd = Self { process, port, folder, root };
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = sshd.process.try_wait().unwrap();
            assert!(ended.is_none(), "{}", fs::read_to_string(sshd.path("log")).unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(sshd)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The options of a client, with the letter that names the port.
    pub(crate) fn options(&self, port: char) -> String {
        format!(
            "-F /dev/null -o UserKnownHostsFile={} -{port} {} -i {}",
            self.path("known").display(),
            self.port,
            self.path("client").display()
        )
    }

    /// A client's program, with what it needs to run.
    pub(crate) fn client(&self, program: &str) -> String {
        format!("env LD_LIBRARY_PATH={} {}", libraries(&self.root), self.root.join("usr/bin").join(program).display())
    }

    /// The number of its process.
    #[allow(dead_code, reason = "not all tests look for what runs under it")]
    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Sshd {
    #[allow(clippy::print_stderr, reason = "shown by a test that fails")]
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("sshd said:\n{}", fs::read_to_string(self.path("log")).unwrap_or_default());
        }
    }
}
