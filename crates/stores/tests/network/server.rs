//! Real servers for tests, started by the scripts in `servers/` and stopped when dropped.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use storebench_core::store::{AnyStore, conformance};

/// A server that runs as long as this value lives.
pub struct Server {
    /// The URL that a driver opens, as the script printed it.
    pub url: String,
    /// The TCP port it listens on.
    pub port: u16,
    /// Its data folder, removed with it.
    pub folder: tempfile::TempDir,
    name: &'static str,
}

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../servers").join(name)
}

/// A TCP port that nobody listens on now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Server {
    /// Starts a server of this name (see `servers/README.md`). One that does not start fails the test.
    pub fn start(name: &'static str) -> Self {
        Self::start_with(name, &[])
    }

    /// The same with further arguments of the script.
    pub fn start_with(name: &'static str, arguments: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("storebench-server-").tempdir().unwrap();
        let port = free_port();
        let url = launch(name, port, &folder, arguments);
        Self { url, port, folder, name }
    }

    /// Kills it with SIGKILL, as a crash would. Its data stay.
    pub fn kill(&self) {
        self.stop_with(&["--kill"]);
    }

    /// Starts it again on its port and data, after [`Server::kill`].
    pub fn restart(&self) {
        assert_eq!(launch(self.name, self.port, &self.folder, &[]), self.url);
    }

    fn stop_with(&self, arguments: &[&str]) {
        let data = self.folder.path();
        let done = Command::new(script("stop")).arg(self.name).arg("--data").arg(data).args(arguments).output();
        let done = done.unwrap();
        assert!(done.status.success(), "servers/stop {}: {}", self.name, String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let data = self.folder.path();
            let _ = Command::new(script("stop")).arg(self.name).arg("--data").arg(data).arg("--kill").status();
        } else {
            self.stop_with(&["--kill"]);
        }
    }
}

fn launch(name: &str, port: u16, folder: &tempfile::TempDir, arguments: &[&str]) -> String {
    let mut child = Command::new(script("start"))
        .arg(name)
        .args(["--port", &port.to_string()])
        .arg("--data")
        .arg(folder.path())
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let ended = child.wait().unwrap();
    assert!(ended.success(), "servers/start {name} failed; what it said is above");
    url.trim().to_owned()
}

/// Runs the conformance suite and prints its table; the last line of `make test` counts these.
pub fn conforms(store: &dyn AnyStore) {
    let report = conformance::run(store);
    println!("{report}");
    assert!(report.passed(), "{report}");
}
