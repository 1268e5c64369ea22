//! Real networks of nodes, with processes that communicate in them.

mod servers;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, channel};

use super::ip::{ip, namespaces};
use super::make::hub_interface;
use super::range::CLIENT;
use super::*;
use crate::testing::{groups, networks, wait_until};
use crate::{ClientSees, Commands, Limits, Pid, Server, Signal, Spec, StopBy};

/// Timeout for what should happen.
const LONG: Duration = Duration::from_secs(60);
/// Timeout for what should not happen.
const SHORT: Duration = Duration::from_millis(150);

impl Network {
    /// The names of its nodes, in order.
    fn names(&self) -> &[String] {
        &self.nodes
    }

    /// The address of this machine in the network, which nodes see as the clients' address.
    fn client_address(&self) -> IpAddr {
        self.end_address(0).into()
    }

    /// A command line for `sh -c` that runs this line in a node, whatever it contains; `None` for an unknown node.
    fn command(&self, name: &str, line: &str) -> Option<String> {
        let enter = self.enter_command(name)?;
        Some(format!("{enter}sh -c '{}'", line.replace('\'', r"'\''")))
    }

    /// Whether anything is cut.
    fn is_partitioned(&self) -> bool {
        !self.cuts.is_empty()
    }
}

/// A network, and a folder for leases and other files.
struct TestNetwork {
    // Dropped first.
    network: Network,
    folder: tempfile::TempDir,
}

impl TestNetwork {
    fn new(names: &[&str]) -> Option<Self> {
        if !networks() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let network = Network::begin(&folder.path().join("leases"), names).unwrap();
        Some(Self { network, folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn address(&self, name: &str) -> IpAddr {
        self.network.address(name).unwrap()
    }

    fn enter(&self, name: &str) -> String {
        self.network.enter_command(name).unwrap()
    }

    fn inside<T: Send>(&self, name: &str, act: impl FnOnce() -> T + Send) -> T {
        inside(&self.network.namespace(name).unwrap(), act).unwrap()
    }

    /// Asserts that packets are lost exactly between these ends.
    fn assert_cut(&self, cut: &[(&str, &str)]) {
        let ends: Vec<&str> =
            std::iter::once("client").chain(self.network.names().iter().map(String::as_str)).collect();
        for (from, to) in ends.iter().flat_map(|from| ends.iter().map(move |to| (*from, *to))) {
            if from == to {
                continue;
            }
            let is_cut = cut.contains(&(from, to));
            assert_eq!(self.vanishes(from, to), is_cut, "{from} to {to}");
            if to != "client" {
                let is_cut = is_cut || cut.contains(&(to, from));
                let reached = self.network.reaches(from, to, if is_cut { SHORT } else { LONG }).unwrap();
                assert_eq!(reached, !is_cut, "{from} to {to} and back");
            }
        }
    }

    /// Asks the middle's kernel where it would route a packet.
    fn vanishes(&self, from: &str, to: &str) -> bool {
        let end = |name| if name == "client" { 0 } else { node(name, self.network.names()).unwrap() };
        let (from, to) = (end(from), end(to));
        let (device, source, target) =
            (hub_interface(from), self.network.end_address(from), self.network.end_address(to));
        let asked = format!("route get {target} from {source} iif {device}");
        match batch(Some(&self.network.name), &[asked]) {
            Ok(()) => false,
            Err(NetworkProblem::Command { why, .. }) if why.contains("Invalid argument") => true,
            Err(problem) => panic!("{problem}"),
        }
    }
}

/// Both directions of each pair.
fn both<'a>(pairs: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    pairs.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect()
}

/// A process that is killed at the end of its test.
struct Process(Child);

impl Process {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    fn pid(&self) -> Pid {
        Pid::of(self.0.id()).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process in a node that prints lines.
struct Worker {
    _process: Process,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Worker {
    fn start(place: &TestNetwork, node: &str, script: &str, args: &[&str]) -> Self {
        let line = format!("exec {}python3 -c \"$0\" \"$@\"", place.enter(node));
        let mut command = Command::new("sh");
        command.args(["-c", &line, script]).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(&mut command);
        let child = &mut process.0;
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let (said, lines) = channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        Self { _process: process, input, lines }
    }

    fn tell(&mut self, what: &str) {
        writeln!(self.input, "{what}").unwrap();
    }

    fn hear(&self) -> String {
        self.lines.recv_timeout(LONG).unwrap()
    }

    fn ask(&mut self, what: &str) -> String {
        self.tell(what);
        self.hear()
    }

    fn is_silent(&self) -> bool {
        self.lines.recv_timeout(SHORT).is_err()
    }
}

/// Echoes lines in capitals, on any number of connections.
const ECHO: &str = "
import socketserver, sys
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line.upper())
class Server(socketserver.ThreadingTCPServer):
    # What was killed while it was cut off leaves connections that the kernel still ends.
    daemon_threads = allow_reuse_address = True
with Server((sys.argv[1], 7000), Echo) as server:
    print('listens', flush=True)
    server.serve_forever()
";

/// Sends lines to it on one connection; prints the answers, or the error.
const ASK: &str = "
import socket, sys
try:
    s = socket.create_connection((sys.argv[1], 7000))
    print('connected', flush=True)
    answers = s.makefile()
    for line in sys.stdin:
        s.sendall(line.encode())
        print(answers.readline().strip() or 'closed', flush=True)
except OSError as error:
    print(error, flush=True)
";

#[test]
fn it_is_available_where_its_parts_are() {
    if networks() {
        Network::available().unwrap();
    }
}

#[test]
fn connections_stall_while_it_is_partitioned_and_go_on_when_it_is_healed() {
    let Some(mut place) = TestNetwork::new(&["a", "b", "c"]) else { return };
    let to = place.address("b").to_string();
    let echo = Worker::start(&place, "b", ECHO, &[&to]);
    assert_eq!(echo.hear(), "listens");
    let mut workers = Vec::new();
    for node in ["a", "c"] {
        let mut worker = Worker::start(&place, node, ASK, &[&to]);
        assert_eq!((worker.hear(), worker.ask("before")), ("connected".into(), "BEFORE".into()));
        workers.push(worker);
    }
    let mut client = TcpStream::connect((place.address("b"), 7000)).unwrap();
    client.set_read_timeout(Some(LONG)).unwrap();
    let mut answers = BufReader::new(client.try_clone().unwrap());
    let mut ask = move || {
        client.write_all(b"client\n").unwrap();
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        assert_eq!(line, "CLIENT\n");
    };
    ask();
    for round in 0..2 {
        place.network.partition(&Partition::groups(&[&["a"], &["b", "c"]])).unwrap();
        assert!(place.network.is_partitioned());
        workers[0].tell("during");
        // A new connection is not refused either.
        let late = Worker::start(&place, "a", ASK, &[&to]);
        assert!(workers[0].is_silent() && late.is_silent(), "round {round}");
        assert_eq!(workers[1].ask("same side"), "SAME SIDE");
        ask();
        place.network.heal().unwrap();
        assert!(!place.network.is_partitioned());
        assert_eq!((workers[0].hear(), late.hear()), ("DURING".into(), "connected".into()), "round {round}");
        assert_eq!(workers[0].ask("after"), "AFTER");
    }
}

#[test]
fn each_partition_cuts_what_it_says_and_heals_the_one_before() {
    let Some(mut place) = TestNetwork::new(&["a", "b", "c"]) else { return };
    place.assert_cut(&[]);
    let split = || Partition::groups(&[&["a"], &["b", "c"]]);
    let nodes = [("a", "b"), ("a", "c")];
    place.network.partition(&split()).unwrap();
    place.assert_cut(&both(&nodes));
    place.network.partition(&split().client_sees(ClientSees::Group(0))).unwrap();
    place.assert_cut(&both(&[&nodes[..], &[("client", "b"), ("client", "c")]].concat()));
    place.network.partition(&split().client_sees(ClientSees::Group(1))).unwrap();
    place.assert_cut(&both(&[&nodes[..], &[("client", "a")]].concat()));
    // A bridge: b reaches both a and c, but a does not reach c.
    place.network.partition(&Partition::one_way(&["a"], &["c"])).unwrap();
    place.assert_cut(&[("a", "c")]);
    place.network.partition(&Partition::groups(&[&["b"]]).client_sees(ClientSees::Nobody)).unwrap();
    place.assert_cut(&both(&[("a", "b"), ("b", "c"), ("client", "a"), ("client", "b"), ("client", "c")]));
    place.network.partition(&Partition::one_way(&["b", "client"], &["client", "c"])).unwrap();
    place.assert_cut(&[("b", "client"), ("b", "c"), ("client", "c")]);
    // An invalid partition changes nothing.
    let unknown = place.network.partition(&Partition::groups(&[&["d"]])).unwrap_err().to_string();
    assert!(unknown.contains("unknown node `d`; expected one of: a, b, c"), "{unknown}");
    assert!(!place.network.reaches("client", "c", SHORT).unwrap());
    place.network.heal().unwrap();
    place.assert_cut(&[]);
}

#[test]
fn one_way_lets_the_other_way_pass() {
    let Some(mut place) = TestNetwork::new(&["a", "b"]) else { return };
    let (a, b) = (place.address("a"), place.address("b"));
    let bind = |address: IpAddr, to: IpAddr| {
        let socket = UdpSocket::bind((address, 7000))?;
        socket.connect((to, 7000))?;
        socket.set_read_timeout(Some(LONG))?;
        io::Result::Ok(socket)
    };
    let in_a = place.inside("a", || bind(a, b)).unwrap();
    let in_b = place.inside("b", || bind(b, a)).unwrap();
    let hear = |socket: &UdpSocket| {
        let mut bytes = [0; 16];
        let count = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    };
    place.network.partition(&Partition::one_way(&["a"], &["b"])).unwrap();
    // The sender gets no error.
    assert_eq!(in_a.send(b"lost").unwrap(), 4);
    in_b.send(b"heard").unwrap();
    assert_eq!(hear(&in_a), "heard");
    place.network.partition(&Partition::one_way(&["b"], &["a"])).unwrap();
    in_b.send(b"lost").unwrap();
    in_a.send(b"heard too").unwrap();
    assert_eq!(hear(&in_b), "heard too", "what was lost does not come later");
    place.network.heal().unwrap();
    in_b.send(b"healed").unwrap();
    assert_eq!(hear(&in_a), "healed");
}

#[test]
fn a_node_reaches_nothing_outside() {
    let Some(place) = TestNetwork::new(&["a"]) else { return };
    // Addresses reserved for documentation: nobody has them.
    let connect = || TcpStream::connect_timeout(&"198.51.100.1:9".parse().unwrap(), LONG);
    assert_eq!(place.inside("a", connect).unwrap_err().kind(), ErrorKind::NetworkUnreachable);
    assert!(place.inside("a", || TcpListener::bind("127.0.0.1:0")).is_ok(), "its loopback is up");
    let client = TcpListener::bind((place.network.client_address(), 0)).unwrap();
    assert!(!client.local_addr().unwrap().ip().is_loopback());
    assert_eq!(place.network.address("b"), None);
    assert_eq!((place.network.enter_command("client"), place.network.command("b", "true")), (None, None));
}

#[test]
fn networks_that_begin_at_once_do_not_meet() {
    if !networks() {
        return;
    }
    let begin = || TestNetwork::new(&["a", "b"]).unwrap();
    let mut places: Vec<TestNetwork> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(begin)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let ranges: BTreeSet<String> = places.iter().map(|place| place.network.range.to_string()).collect();
    assert_eq!(ranges.len(), 3);
    let other = SocketAddr::new(places[1].address("a"), 9);
    let connect = || TcpStream::connect_timeout(&other, LONG);
    assert_eq!(places[0].inside("a", connect).unwrap_err().kind(), ErrorKind::NetworkUnreachable);
    places[0].network.partition(&Partition::groups(&[&["a"]]).client_sees(ClientSees::Nobody)).unwrap();
    places[0].assert_cut(&both(&[("a", "b"), ("client", "a"), ("client", "b")]));
    places[1].assert_cut(&[]);
    drop(places.remove(1));
    places[1].assert_cut(&[]);
}

#[test]
fn a_server_runs_in_a_node_within_its_limits() {
    let Some(mut place) = TestNetwork::new(&["a", "b"]) else { return };
    let address = place.address("b").to_string();
    fs::write(place.path("echo.py"), ECHO).unwrap();
    let mut spec =
        spec("b", format!("{}python3 {} {address}", place.enter("b"), place.path("echo.py").display()), &place);
    spec.prepare = place.network.command("b", "x='a b'; grep -q eth0 /proc/net/dev && echo \"$x\" > $DATA/prepared");
    spec.env = vec![("DATA".into(), place.path("b").display().to_string())];
    let mut server = Server::new(spec, &place.path("leases")).unwrap();
    let limited = groups();
    if limited {
        server.limit(Limits { memory_bytes: Some(256 << 20), ..Limits::default() }).unwrap();
    }
    server.start().unwrap();
    let connect = || TcpStream::connect((&*address, 7000)).map(drop).map_err(|error| error.to_string());
    server.wait_ready(&mut { connect }).unwrap();
    assert_eq!(fs::read_to_string(place.path("b/prepared")).unwrap(), "a b\n");
    let pid = server.tree().pids()[0];
    let name = fs::read_to_string(format!("/proc/{}/comm", pid.number)).unwrap();
    assert!(name.starts_with("python3"), "{name}");
    assert_eq!(clear::processes(&file(&place.network.namespace("b").unwrap())), [pid]);
    if limited {
        assert!(server.limited().unwrap().memory_bytes > 0);
    }
    place.network.partition(&Partition::groups(&[&["a"], &["b"]]).client_sees(ClientSees::Group(0))).unwrap();
    // Killed and restarted while it is cut off.
    server.kill().unwrap();
    server.start().unwrap();
    assert!(!place.network.reaches("client", "b", SHORT).unwrap());
    place.network.heal().unwrap();
    server.wait_ready(&mut { connect }).unwrap();
}

fn spec(name: &str, line: String, place: &TestNetwork) -> Spec {
    Spec {
        name: name.into(),
        commands: Commands::Run { line, network: String::new(), stop: StopBy::Signal(Signal::TERM) },
        user: None,
        prepare: None,
        data: Some(place.path(name)),
        ready: None,
        env: Vec::new(),
        log: place.path(&format!("{name}.log")),
        ready_within: LONG,
        stop_within: LONG,
        files: Vec::new(),
    }
}

/// What exists of a network on this machine: namespaces, interfaces, routes, processes.
#[derive(Debug, PartialEq)]
struct Traces {
    namespaces: usize,
    interfaces: usize,
    routed: bool,
    running: usize,
}

fn traces(network: &str, interfaces_of: u32, range: &str, processes: &[Pid]) -> Traces {
    let interfaces = fs::read_dir("/sys/class/net").unwrap().flatten();
    let name = network.rsplit_once('-').unwrap().1;
    let wanted = format!("sb{interfaces_of}-{name}");
    Traces {
        namespaces: namespaces().iter().filter(|name| name.starts_with(network)).count(),
        interfaces: interfaces.filter(|entry| *entry.file_name() == *wanted).count(),
        // Look for its own route: a released range may belong to another test's network a moment later.
        routed: ip(&["-4", "route", "show"])
            .unwrap()
            .lines()
            .any(|route| route.contains(range) && route.contains(&wanted)),
        running: processes.iter().filter(|pid| pid.runs()).count(),
    }
}

const NOTHING: Traces = Traces { namespaces: 0, interfaces: 0, routed: false, running: 0 };

#[test]
fn it_is_removed_with_all_that_runs_in_it_when_it_is_dropped() {
    let Some(place) = TestNetwork::new(&["a", "b"]) else { return };
    let other = TestNetwork::new(&["a"]).unwrap();
    let (name, range) = (place.network.name.clone(), place.network.range.to_string());
    let sleep = Process::start(Command::new("sh").args(["-c", &format!("exec {}sleep 600", place.enter("a"))]));
    let pid = sleep.pid();
    let inside = file(&place.network.namespace("a").unwrap());
    wait_until("it has entered the node", || clear::processes(&inside) == [pid]);
    let there = || traces(&name, std::process::id(), &range, &[pid]);
    assert_eq!(there(), Traces { namespaces: 3, interfaces: 1, routed: true, running: 1 });
    let leases = || fs::read_dir(place.folder.path().join("leases")).unwrap().count();
    assert_eq!(leases(), 1);
    drop(place.network);
    assert_eq!(there(), NOTHING);
    assert_eq!(leases(), 0);
    other.assert_cut(&[]);
}

/// If this variable is set, this is the process to be killed. Its value is the folder.
const TO_BE_KILLED: &str = "STOREBENCH_TEST_NETWORK";

/// Creates a network with a process in it and waits for it to end.
fn to_be_killed(folder: &Path) -> ! {
    let mut network = Network::begin(&folder.join("leases"), &["a", "b"]).unwrap();
    network.partition(&Partition::groups(&[&["a"]])).unwrap();
    // No lease names this process.
    let line = format!("exec {}sleep 600", network.enter_command("a").unwrap());
    let mut child = Process::start(Command::new("sh").args(["-c", &line]));
    let inside = file(&network.namespace("a").unwrap());
    wait_until("it has entered the node", || !clear::processes(&inside).is_empty());
    let told =
        serde_json::json!({ "name": network.name, "range": network.range.to_string(), "process": child.pid().number });
    fs::write(folder.join("told.new"), told.to_string()).unwrap();
    fs::rename(folder.join("told.new"), folder.join("told")).unwrap();
    child.0.wait().unwrap();
    panic!("it was not killed");
}

#[test]
fn what_a_killed_process_has_left_is_cleared_up() {
    if let Some(folder) = std::env::var_os(TO_BE_KILLED) {
        to_be_killed(Path::new(&folder));
    }
    let name = "netns::tests::what_a_killed_process_has_left_is_cleared_up";
    let Some(place) = TestNetwork::new(&["a", "b"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env(TO_BE_KILLED, folder.path());
    let mut child = Process::start(&mut command);
    let said = folder.path().join("told");
    wait_until("it has made all", || {
        assert!(child.0.try_wait().unwrap().is_none(), "it has ended by itself");
        said.exists()
    });
    let told: serde_json::Value = serde_json::from_slice(&fs::read(&said).unwrap()).unwrap();
    let pid = Pid::of(u32::try_from(told["process"].as_u64().unwrap()).unwrap()).unwrap();
    let owner = child.0.id();
    let there = || traces(told["name"].as_str().unwrap(), owner, told["range"].as_str().unwrap(), &[pid]);
    let all = Traces { namespaces: 3, interfaces: 1, routed: true, running: 1 };
    let leases = folder.path().join("leases");
    assert_eq!(Lease::clear_up(&leases).unwrap(), [], "it runs");
    assert_eq!(there(), all);
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    assert_eq!(there(), all, "nobody else clears up");
    let left = Lease::clear_up(&leases).unwrap();
    assert_eq!((left.len(), &*left[0].what), (1, "a network of nodes"));
    assert_eq!(there(), NOTHING);
    assert_eq!(fs::read_dir(&leases).unwrap().count(), 0);
    place.assert_cut(&[]);
}

#[test]
fn names_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let why = |names: &[&str]| Network::begin(folder.path(), names).unwrap_err().to_string();
    assert!(why(&["a", "a"]).contains("another node"));
    assert!(why(&["client"]).contains("this machine"));
    let long = "a".repeat(33);
    for name in ["", "a b", "a/b", "a'b", &long] {
        assert!(why(&[name]).contains("32 letters"), "{name}");
    }
    assert!(why(&[]).contains("got 0") && why(&["x"; 300]).contains("1 to 252 nodes"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_a_process_may_not_do_is_told_by_name() {
    assert_eq!(missing_capability(0x1ff_feff_ffff), None);
    assert_eq!(missing_capability(0xa804_25fb), Some("CAP_NET_ADMIN"), "root in a container");
    assert_eq!(missing_capability(0x1000), Some("CAP_SYS_ADMIN"));
    assert!(capabilities().is_some(), "the system tells");
}

#[test]
fn interfaces_have_names_that_the_kernel_takes() {
    // The highest process number, with up to ten thousand networks.
    assert!("sb4194304-9999".len() <= 15 && hub_interface(Network::MOST_NODES).len() <= 15);
    assert!(interface_prefix().starts_with("sb"));
    assert_eq!((last(0), last(1), last(Network::MOST_NODES)), (CLIENT, FIRST, HUB - 1));
}
