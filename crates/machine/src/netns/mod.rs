//! Nodes of a store in network namespaces of this machine, with a network that can be partitioned. [`Network`]
//! describes what it does and needs.

mod clear;
mod ip;
mod make;
mod partition;
mod range;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ip::{batch, file, inside};
use make::{interface_prefix, last, own_name};
use partition::{Cut, End, node};
use range::{FIRST, HUB, Range};

use crate::broken::{ClientSees, Partition};
use crate::lease::{Lease, leases_folder};
use crate::process::capabilities;

pub(crate) use clear::clear;

/// Prefix of namespace names. The numbers of the process and of the network follow.
const PREFIX: &str = "storebench-";
/// The middle namespace's interface to this machine.
const HUB_TO_CLIENT: &str = "client";
/// How long a node may take to answer before the network counts as broken.
const REACHED_WITHIN: Duration = Duration::from_secs(5);
/// How long [`Network::available`] waits for packets that should not arrive.
const CUT_FOR: Duration = Duration::from_millis(200);
/// Capabilities, as bits of the mask in `/proc/self/status`.
const NEEDED: [(&str, u64); 2] = [("CAP_NET_ADMIN", 1 << 12), ("CAP_SYS_ADMIN", 1 << 21)];

/// Why a network of nodes cannot be created or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkProblem {
    /// An invalid node name.
    #[error("invalid node name `{name}`: {why}")]
    Name {
        /// The name.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// An unknown node.
    #[error("unknown node `{name}`; expected one of: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// All node names.
        known: String,
    },
    /// A system command is missing or failed.
    #[error("cannot create or change the network of nodes: `{command}`: {why}")]
    Command {
        /// The command.
        command: String,
        /// How it failed, and what to do.
        why: String,
    },
    /// The system does not permit something.
    #[error("cannot create or use the network of nodes: {0}")]
    Refused(String),
    /// A partition that separates nothing or names a node twice.
    #[error("invalid partition: {0}")]
    Partition(String),
}

/// A network of nodes on this machine, each in its own network namespace, that can be partitioned.
///
/// # Layout
///
/// Each node has a namespace with a loopback, an interface `eth0` and one address. One more namespace in the middle
/// forwards packets between nodes, and between nodes and this machine. All addresses are in one private range
/// `a.b.c.0/24` that this machine does not use: .1 is this machine, and the nodes follow in order from .2. A node
/// cannot reach anything else: it has no route to it. A node has its own kernel settings (`net.*`), mostly the kernel's
/// defaults.
///
/// The machine's own network changes only by one additional interface with one route. No filters and no settings
/// change. This machine's filters (Docker, firewalls, bridges) do not apply to traffic between nodes: the middle has
/// none. They do apply to traffic between this machine and nodes. Therefore [`begin`](Network::begin) checks that
/// clients reach every node.
///
/// Nodes are reachable only at their addresses: a server that listens on `127.0.0.1` in a node is not reachable from
/// outside. Broadcasts and multicasts do not leave a node, and there is no IPv6 between nodes. Sockets in the file
/// system are shared.
///
/// # Partitions
///
/// The middle drops packets, like a cable that is cut behind the next switch. There is no reset and no error, and
/// interfaces stay up. Connections stay open and stall; new ones get no answer. Linux gives up on a new connection
/// after about two minutes, and on an open one with data to send after about 15 minutes. After healing, a stalled
/// connection continues with TCP's next retransmission. That may take about as long as the partition lasted, up to two
/// minutes.
///
/// A partition applies to every packet sent after [`partition`](Network::partition) has returned. During the call,
/// pairs of nodes are cut one after another, within a few milliseconds.
///
/// Packets take the same path, at the same cost, before, during and after a partition: each sender has its own routing
/// table, in which a cut is a blackhole route.
///
/// # Requirements
///
/// Linux with network namespaces, veth interfaces and policy routing; root (`CAP_NET_ADMIN` and `CAP_SYS_ADMIN`); `ip`
/// of iproute2 and `nsenter` of util-linux. [`Network::available`] checks this.
///
/// Dropping the network removes it and kills what runs in its namespaces. If its process was killed,
/// [`Lease::clear_up`] does both.
#[derive(Debug)]
pub struct Network {
    /// The name of the middle namespace. The nodes' names begin with it.
    name: String,
    nodes: Vec<String>,
    range: Range,
    cuts: BTreeSet<Cut>,
    /// Dropped last.
    _lease: Lease,
}

impl Network {
    /// The name of this machine, where clients run, in a one-way partition.
    pub const CLIENT: &'static str = "client";

    /// The maximum number of nodes.
    pub const MOST_NODES: usize = (HUB - FIRST) as usize;

    /// Whether this process can create a network on this machine: it creates, partitions, heals and removes one with
    /// two nodes.
    ///
    /// # Errors
    /// Says what is missing and what to do about it.
    pub fn available() -> Result<(), String> {
        if let Some(missing) = capabilities().and_then(missing_capability) {
            return Err(format!(
                "this process may not change the network ({missing} is missing); run as root, in a container with \
                 `--privileged`"
            ));
        }
        let tried = || {
            let mut network = Self::begin(&leases_folder(), &["a", "b"])?;
            let groups = vec![vec!["a".to_owned()], vec!["b".to_owned()]];
            network.partition(&Partition::Groups { groups, client_sees: ClientSees::All })?;
            if network.reaches("a", "b", CUT_FOR)? {
                return Err(NetworkProblem::Refused("packets pass a blackhole route".to_owned()));
            }
            network.heal()?;
            network.must_reach("a", "b")
        };
        tried().map_err(|problem: NetworkProblem| problem.to_string())
    }

    /// Creates a network with nodes of these names. `leases` is the folder for its lease.
    ///
    /// A name has at most 32 letters, digits, `-`, `_` and `.`.
    ///
    /// # Errors
    /// Fails if a name is invalid, if there are no names or too many, if something is [missing](Network::available), or
    /// if nodes do not reach each other or cannot be reached from here. Then nothing of it remains.
    pub fn begin(leases: &Path, names: &[&str]) -> Result<Self, NetworkProblem> {
        check(names)?;
        nsenter()?;
        let told = |error: io::Error| NetworkProblem::Refused(format!("its lease in {}: {error}", leases.display()));
        let mut lease = Lease::begin(leases, "a network of nodes").map_err(told)?;
        let (name, interface) = own_name();
        lease.network(&name).map_err(told)?;
        let nodes = names.iter().copied().map(str::to_owned).collect();
        let mut network = Self { name, nodes, range: Range::NONE, cuts: BTreeSet::new(), _lease: lease };
        network.make(&interface)?;
        // All nodes are set up alike, so it is enough that each sends and receives.
        for (to, from) in names.iter().zip(names.iter().cycle().skip(1)) {
            network.must_reach(Self::CLIENT, to)?;
            if from != to {
                network.must_reach(from, to)?;
            }
        }
        Ok(network)
    }

    /// The address of a node; `None` for an unknown node.
    pub fn address(&self, name: &str) -> Option<IpAddr> {
        node(name, &self.nodes).ok().map(|end| self.end_address(end).into())
    }

    /// The name of a node's namespace for `ip netns`; `None` for an unknown node.
    fn namespace(&self, name: &str) -> Option<String> {
        node(name, &self.nodes).ok().map(|end| self.end_namespace(end))
    }

    /// A prefix for a program and its arguments, so that the program runs in a node: `exec {enter_command}server`. It
    /// ends with a space. The process stays the same, with its files, mounts and user; only `/sys` still lists the
    /// interfaces of this machine. `None` for an unknown node.
    pub fn enter_command(&self, name: &str) -> Option<String> {
        // `ip netns exec` would hide control groups and add its own mounts.
        self.namespace(name).map(|namespace| format!("nsenter --net='{}' ", file(&namespace).display()))
    }

    /// Partitions it. Pairs that were cut before and are not cut by this partition are healed.
    ///
    /// # Errors
    /// Fails if it names an unknown node or separates nothing, or if a command fails. Then nothing changes.
    pub fn partition(&mut self, partition: &Partition) -> Result<(), NetworkProblem> {
        let cuts = partition.cuts(&self.nodes)?;
        self.set(cuts)
    }

    /// Heals all cuts.
    ///
    /// # Errors
    /// Fails if a command fails. Then nothing changes.
    pub fn heal(&mut self) -> Result<(), NetworkProblem> {
        self.set(BTreeSet::new())
    }

    /// Whether one node, or [`Network::CLIENT`], can open a TCP connection to another node. It listens there briefly on
    /// a free port and connects. No answer `within` this time means no.
    ///
    /// # Errors
    /// Fails if there is no such node, if its namespace can no longer be entered, or if this machine refuses to send.
    pub fn reaches(&self, from: &str, to: &str, within: Duration) -> Result<bool, NetworkProblem> {
        let failed = |what: &str, e: io::Error| NetworkProblem::Refused(format!("`{from}` to `{to}`: {what}: {e}"));
        let to_end = node(to, &self.nodes)?;
        let address = self.end_address(to_end);
        let listener = inside(&self.end_namespace(to_end), || TcpListener::bind((address, 0)))?;
        let listener = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, _listener) = listener.map_err(|error| failed("cannot listen", error))?;
        let connect = || TcpStream::connect_timeout(&address, within);
        let connected = match from {
            Self::CLIENT => connect(),
            _ => inside(&self.end_namespace(node(from, &self.nodes)?), connect)?,
        };
        match connected {
            Ok(stream) => {
                // Reset the connection, so that its port is free at once.
                let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => Ok(false),
            Err(error) => Err(failed("cannot connect", error)),
        }
    }

    fn must_reach(&self, from: &str, to: &str) -> Result<(), NetworkProblem> {
        let why = match self.reaches(from, to, REACHED_WITHIN) {
            Ok(true) => return Ok(()),
            Ok(false) => format!("no answer from `{to}` to `{from}`"),
            Err(NetworkProblem::Refused(why)) => why,
            Err(other) => return Err(other),
        };
        Err(NetworkProblem::Refused(format!(
            "{why}; a firewall or a routing rule of this machine may block it: allow {} on interfaces `{}*`",
            self.range,
            interface_prefix()
        )))
    }

    fn end_address(&self, end: End) -> Ipv4Addr {
        self.range.address(last(end))
    }

    fn end_namespace(&self, end: End) -> String {
        format!("{}-{}", self.name, self.nodes[end - 1])
    }

    /// All ends: this machine and the nodes.
    fn ends(&self) -> impl Iterator<Item = End> + use<> {
        0..=self.nodes.len()
    }

    /// Cuts come first, so that no packet takes a path that exists in neither state.
    fn set(&mut self, cuts: BTreeSet<Cut>) -> Result<(), NetworkProblem> {
        let lines = |now: &BTreeSet<Cut>, wanted: &BTreeSet<Cut>| -> Vec<String> {
            let cut = wanted.difference(now).map(|&pair| self.route(pair, true));
            cut.chain(now.difference(wanted).map(|&pair| self.route(pair, false))).collect()
        };
        let (there, back) = (lines(&self.cuts, &cuts), lines(&cuts, &self.cuts));
        if there.is_empty() {
            return Ok(());
        }
        if let Err(problem) = batch(Some(&self.name), &there) {
            // Some of the commands may have succeeded.
            let _ = batch(Some(&self.name), &back);
            return Err(problem);
        }
        self.cuts = cuts;
        Ok(())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        clear::remove(&self.name);
    }
}

fn check(names: &[&str]) -> Result<(), NetworkProblem> {
    let wrong = |name: &str, why| Err(NetworkProblem::Name { name: name.to_owned(), why });
    if names.is_empty() || names.len() > Network::MOST_NODES {
        let (most, given) = (Network::MOST_NODES, names.len());
        return Err(NetworkProblem::Refused(format!("expected 1 to {most} nodes, got {given}")));
    }
    for (number, name) in names.iter().enumerate() {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > 32 || !name.bytes().all(plain) {
            return wrong(name, "a name has at most 32 letters, digits, `-`, `_` and `.`");
        }
        if *name == Network::CLIENT {
            return wrong(name, "this name is reserved for this machine");
        }
        if names[..number].contains(name) {
            return wrong(name, "another node has this name");
        }
    }
    Ok(())
}

/// Checks for the program that enters namespaces.
fn nsenter() -> Result<(), NetworkProblem> {
    let mut command = Command::new("nsenter");
    command.args(["--net=/proc/self/ns/net", "true"]).stdin(Stdio::null());
    let failed = |why: String| NetworkProblem::Command { command: "nsenter --net=…".to_owned(), why };
    let out = command.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => failed("command not found; install `util-linux`".to_owned()),
        _ => failed(error.to_string()),
    })?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    Err(failed(format!("{} ({}); run Storebench as root, and install `util-linux`", said.trim(), out.status)))
}

/// The first needed capability that is missing from this mask.
fn missing_capability(all: u64) -> Option<&'static str> {
    NEEDED.iter().find(|(_, bit)| all & bit == 0).map(|(name, _)| *name)
}
