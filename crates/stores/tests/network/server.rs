//! Real servers for tests, started by the scripts in `servers/` and stopped when dropped.
#![allow(dead_code, unused_imports, reason = "each driver's tests use only a part")]

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

#[path = "../report/mod.rs"]
mod report;

pub(crate) use report::{conforms, conforms_but};

/// A server that runs until this value is dropped.
pub(crate) struct Server {
    /// The URL that a driver opens, as the script printed it.
    pub(crate) url: String,
    /// The TCP port it listens on.
    pub(crate) port: u16,
    /// Its data folder, removed with it.
    pub(crate) folder: tempfile::TempDir,
    name: &'static str,
    arguments: Vec<String>,
}

fn script(name: &str) -> Command {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../servers").join(name);
    let mut command = Command::new(path);
    command.stdin(Stdio::null());
    command
}

/// A TCP port that nobody listens on now, outside the kernel's range for clients, so that a restarted server finds it
/// free.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Each test binary starts at a different port.
    let begin = u16::try_from(std::process::id() % 200).unwrap() * 100;
    loop {
        let port = 12_000 + (begin + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Server {
    /// Starts the server with this name (see `servers/README.md`). The test fails if it does not start.
    pub(crate) fn start(name: &'static str) -> Self {
        Self::start_with(name, &[])
    }

    /// The same, with additional arguments for the script.
    pub(crate) fn start_with(name: &'static str, arguments: &[&str]) -> Self {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let mut tries = 0;
        loop {
            let folder = tempfile::Builder::new().prefix("storebench-server-").tempdir().unwrap();
            let mut server = Self { url: String::new(), port: free_port(), folder, name, arguments: arguments.clone() };
            match server.launch() {
                Ok(url) => {
                    server.url = url;
                    return server;
                }
                // Somebody took the port after it was found free.
                Err(said) if said.contains("Address already in use") && tries < 5 => tries += 1,
                Err(said) => panic!("servers/start {name} failed: {said}"),
            }
        }
    }

    /// The server package's `psql`, on its database.
    #[allow(dead_code, reason = "each test binary uses only a part")]
    pub(crate) fn psql(&self) -> std::process::Command {
        let servers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../servers");
        let where_is_it = "import sys; sys.dont_write_bytecode = True; sys.path.insert(0, sys.argv[1])\n\
            from lib import debian, postgres\n\
            root = postgres.install()\n\
            print(root / postgres.BINARIES / 'psql'); print(debian.environment(root)['LD_LIBRARY_PATH'])";
        let found = std::process::Command::new("python3").args(["-c", where_is_it, servers]).output().unwrap();
        assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
        let text = String::from_utf8(found.stdout).unwrap();
        let mut lines = text.lines();
        let mut psql = std::process::Command::new(lines.next().unwrap());
        psql.env("LD_LIBRARY_PATH", lines.next().unwrap_or_default()).args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            &self.url,
        ]);
        psql
    }

    /// Kills it with SIGKILL, like a crash. Keeps its data.
    pub(crate) fn kill(&self) {
        self.stop_with(&["--kill"]);
    }

    /// Kills one node of several, such as the `replica` of `postgres-standby` and `redis-replica`.
    pub(crate) fn kill_only(&self, node: &str) {
        self.stop_with(&["--kill", "--only", node]);
    }

    /// Stops it cleanly. Keeps its data.
    pub(crate) fn stop(&self) {
        self.stop_with(&[]);
    }

    /// Restarts it (all nodes that are not running) with the same port, data and arguments.
    pub(crate) fn restart(&self) {
        let url = self.launch().unwrap_or_else(|said| panic!("servers/start {} failed: {said}", self.name));
        assert_eq!(url, self.url);
    }

    /// The commands that start, stop, kill and pause it, as a table `[servers.NAME]` of a study.
    #[allow(dead_code, reason = "each test binary uses only a part")]
    pub(crate) fn commands(&self) -> String {
        self.commands_of("", self.port)
    }

    /// The same for one node of several, such as the `replica` of `postgres-standby`.
    #[allow(dead_code, reason = "each test binary uses only a part")]
    pub(crate) fn commands_of_node(&self, node: &str) -> String {
        self.commands_of(&format!(" --only {node}"), self.port_of(node))
    }

    fn commands_of(&self, only: &str, port: u16) -> String {
        let at = |script: &str| {
            let folder = self.folder.path().display();
            format!("{}/../../servers/{script} {} --data {folder}", env!("CARGO_MANIFEST_DIR"), self.name)
        };
        let more: String = self.arguments.iter().map(|argument| format!(" '{argument}'")).collect();
        let (start, stop, pause) = (at("start"), at("stop"), at("pause"));
        // On a busy machine, a server in Java takes minutes to start.
        let patience = if matches!(self.name, "opensearch" | "cassandra") { "ready_within = \"7m\"\n" } else { "" };
        format!(
            "start = \"{start} --port {}{more}\"\nstop = \"{stop}{only}\"\nkill = \"{stop} --kill{only}\"\npause = \
             \"{pause}{only}\"\nresume = \"{pause} --resume{only}\"\nport = {port}\n{patience}",
            self.port
        )
    }

    /// The port of another node, such as `replica`, `node-2` or `node-3`.
    pub(crate) fn port_of(&self, node: &str) -> u16 {
        let text = std::fs::read_to_string(self.folder.path().join(format!("{node}.port"))).unwrap();
        text.trim().parse().unwrap()
    }

    fn stop_with(&self, arguments: &[&str]) {
        let mut stop = script("stop");
        let done = stop.arg(self.name).arg("--data").arg(self.folder.path()).args(arguments).output().unwrap();
        assert!(done.status.success(), "servers/stop {}: {}", self.name, String::from_utf8_lossy(&done.stderr));
    }

    fn launch(&self) -> Result<String, String> {
        let mut start = script("start");
        start.arg(self.name).args(["--port", &self.port.to_string()]).arg("--data").arg(self.folder.path());
        let done = start.args(&self.arguments).output().unwrap();
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).into_owned());
        }
        Ok(String::from_utf8(done.stdout).unwrap().trim().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut stop = script("stop");
        stop.arg(self.name).arg("--data").arg(self.folder.path()).arg("--kill");
        let done = stop.output();
        // A second panic would abort all tests of this binary.
        if !std::thread::panicking() {
            let done = done.unwrap();
            assert!(done.status.success(), "servers/stop {}: {}", self.name, String::from_utf8_lossy(&done.stderr));
        }
    }
}
