//! Tests of the scripts in `servers/`: every server starts, stops, restarts after a kill, and reports errors clearly.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};

use super::server::{Server, free_port};

/// Whether something accepts connections on the port. Each test has its own ports.
fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

fn starts_and_stops(name: &'static str, nodes: &[&str]) {
    let server = Server::start(name);
    let ports = || nodes.iter().map(|node| if *node == "server" { server.port } else { server.port_of(node) });
    assert!(ports().all(listens), "{name} printed its URL before it answered");
    server.stop();
    assert!(!ports().any(listens), "{name} still runs after it was stopped");
    server.stop();
    server.restart();
    server.kill();
    assert!(!ports().any(listens), "{name} still runs after it was killed");
    server.kill();
    server.restart();
    assert!(ports().all(listens));
    // Running nodes keep running.
    server.restart();
    for node in nodes.iter().filter(|node| **node != "server") {
        server.kill_only(node);
        assert!(!listens(server.port_of(node)), "{node} of {name}, port {}, still runs", server.port_of(node));
        assert!(listens(server.port), "{name} ended with its {node}");
    }
    server.restart();
    assert!(ports().all(listens));
    refuses_a_taken_port(name);
    refuses_a_folder_it_cannot_have(name);
}

fn start(name: &str, port: u16, data: &Path) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../servers/start");
    Command::new(script).args([name, "--port", &port.to_string(), "--data"]).arg(data).output().unwrap()
}

fn refuses_a_taken_port(name: &str) {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let done = start(name, port, folder.path());
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{name}: {said}");
    assert!(done.stdout.is_empty(), "{name} has no URL to print");
    let expected = format!("cannot listen on 127.0.0.1:{port}: Address already in use; give another --port");
    assert!(said.contains(&expected), "{name}: {said}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        !left.iter().any(|file| file.to_string_lossy().ends_with(".pid")),
        "{name} left something running: {left:?}"
    );
}

fn refuses_a_folder_it_cannot_have(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    // Nobody can write below a file, not even root.
    let done = start(name, free_port(), &file.join("data"));
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{name}: {said}");
    assert!(said.contains("cannot write into the data folder") && said.contains("--data"), "{name}: {said}");
}

macro_rules! servers {
    ($($test:ident: $name:literal with $nodes:expr;)+) => {
        $(#[test] fn $test() { starts_and_stops($name, &$nodes); })+
    };
}

servers! {
    postgres: "postgres" with ["server"];
    postgres_standby: "postgres-standby" with ["server", "replica"];
    mariadb: "mariadb" with ["server"];
    redis: "redis" with ["server"];
    redis_replica: "redis-replica" with ["server", "replica"];
    redis_cluster: "redis-cluster" with ["server", "node-2", "node-3"];
    valkey: "valkey" with ["server"];
    memcached: "memcached" with ["server"];
    pouchdb_server: "pouchdb-server" with ["server"];
    ravendb: "ravendb" with ["server"];
    opensearch: "opensearch" with ["server"];
    ferretdb: "ferretdb" with ["server"];
    ferretdb_postgres: "ferretdb-postgres" with ["server", "storage"];
    nx_27017: "nx-27017" with ["server"];
    dynalite: "dynalite" with ["server"];
    moto: "moto" with ["server"];
    cassandra: "cassandra" with ["server"];
}

#[test]
fn an_option_that_a_server_lacks_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../servers/start");
    let mut start = Command::new(script);
    let done =
        start.args(["memcached", "--port", "1", "--password", "x", "--data"]).arg(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(2) && said.contains("memcached has no --password"), "{said}");
}

/// If the recorded process id now belongs to another process, that process is not killed.
#[test]
fn only_what_was_started_is_stopped() {
    let mut bystander = Command::new("sleep").arg("60").spawn().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let record = format!(r#"{{"pid": {}, "started": "1@another boot", "stop": 15}}"#, bystander.id());
    std::fs::write(folder.path().join("server.pid"), record).unwrap();
    for how in [&[][..], &["--kill"]] {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../servers/stop");
        let done = Command::new(script).args(["redis", "--data"]).arg(folder.path()).args(how).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(bystander.try_wait().unwrap().is_none(), "killed a process that no script started");
    }
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

/// A server that does not start in the time of its own starter is killed. Only Cassandra's starter allows more than the
/// common limit.
#[test]
fn each_server_has_its_own_time_to_start() {
    const PROGRAM: &str = r#"
import pathlib, sys, tempfile
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from lib import cassandra, process
from lib.fault import Fault
folder = pathlib.Path(tempfile.mkdtemp())
try:
    process.launch(folder, "server", ["sleep", "60"], lambda: False, limit_s=0.2)
except Fault as fault:
    assert "was not ready after 0.2 s and was killed" in str(fault), fault
else:
    assert False, "it was never ready"
assert not process.alive(folder, "server")
assert process.START_LIMIT_S == 120 < cassandra.START_LIMIT_S
"#;
    let servers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../servers");
    let done = Command::new("python3").args(["-c", PROGRAM, servers]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// A killed process may look dead while some of its threads still hold its sockets.
#[test]
fn a_process_is_gone_when_all_of_its_threads_are() {
    const PROGRAM: &str = r#"
import os, pathlib, socket, subprocess, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from lib import process
FIRST_THREAD_ENDS = '''
import ctypes, socket, sys, threading
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
threading.Thread(target=sys.stdin.read).start()
ctypes.CDLL(None).pthread_exit(None)
'''
child = subprocess.Popen([sys.executable, "-c", FIRST_THREAD_ENDS], stdin=-1, stdout=-1, text=True)
port = int(child.stdout.readline())
state = lambda: pathlib.Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0]
while state() != "Z":
    pass
socket.create_connection(("127.0.0.1", port)).close()
assert process._started(child.pid), "it still takes connections"
child.stdin.close()
while len(os.listdir(f"/proc/{child.pid}/task")) > 1:
    pass
assert process._started(child.pid) is None, "nothing of it is left but what its parent reaps"
"#;
    let servers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../servers");
    let done = Command::new("python3").args(["-c", PROGRAM, servers]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
