//! Nodes of a store in network namespaces of this machine, between which the network can be cut. What it does and needs is
//! said at [`Network`].

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

use crate::broken::Partition;
use crate::lease::{Lease, leases_folder};
use crate::process::capabilities;

pub(crate) use clear::clear;

/// What names of namespaces begin with; the number of the process and that of the network follow.
const PREFIX: &str = "storebench-";
/// The interface of the namespace in the middle to this machine.
const HUB_TO_CLIENT: &str = "client";
/// How long a node may take to be reached before the network is said not to work.
const REACHED_WITHIN: Duration = Duration::from_secs(5);
/// How long [`Network::available`] waits for what is not to arrive.
const CUT_FOR: Duration = Duration::from_millis(200);
/// Capabilities, as bits of what `/proc/self/status` tells.
const NEEDED: [(&str, u64); 2] = [("CAP_NET_ADMIN", 1 << 12), ("CAP_SYS_ADMIN", 1 << 21)];

/// Why there is no network of nodes, or why it does not do what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkProblem {
    /// A name that no node can have.
    #[error("no node can be called `{name}`: {why}")]
    Name {
        /// The name.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// There is no such node.
    #[error("unknown node `{name}`; expected one of: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// All that there are.
        known: String,
    },
    /// A command of the system is missing or failed.
    #[error("the network of nodes cannot be made or changed: `{command}`: {why}")]
    Command {
        /// The command.
        command: String,
        /// How it ended, and what to do.
        why: String,
    },
    /// The machine does not allow something.
    #[error("the network of nodes cannot be made or used: {0}")]
    Refused(String),
    /// A partition that separates nobody or names something twice.
    #[error("the network cannot be partitioned so: {0}")]
    Partition(String),
}

/// A network of nodes on this machine, each in a network namespace of its own, that can be partitioned.
///
/// # What it looks like
///
/// There is one namespace for each node, with a loopback, an interface `eth0` and one address, and one more namespace in the
/// middle, which forwards packets between nodes, and between them and this machine. All addresses are of one private range
/// `a.b.c.0/24` that this machine does not use: .1 is this machine, nodes begin with .2 in their order. Whatever else a node
/// would reach it cannot: it has no route to it. A node has kernel settings (`net.*`) of its own, mostly the kernel's
/// defaults.
///
/// Nothing of this machine's own network is changed but for one interface more, with one route: neither a filter nor a
/// setting. Filters of this machine (Docker's, a firewall's, those of bridges) do not hold for what nodes send to each other:
/// the middle has none. They hold for what this machine sends to nodes and gets from them: that clients reach every node
/// is tried when the network begins.
///
/// What a node is reached by is its address: what listens on `127.0.0.1` in a node is reached by nobody outside of it.
/// Broadcasts and multicasts do not leave a node; there is no IPv6 between nodes. Sockets in the file system are shared.
///
/// # What a partition does
///
/// Packets vanish in the middle, as on a cable that is cut behind the next switch: nobody is told, neither by a reset nor
/// by an error, and interfaces stay up. Connections stay open and stall; new ones are not answered. Linux itself gives up
/// new ones after about two minutes, and open ones that have something to send after about a quarter of an hour. When it is
/// healed, what was underway continues with the next packet that TCP sends again by itself: that may take about as long again
/// as the partition has lasted, up to two minutes.
///
/// It holds for every packet that is sent after [`partition`](Network::partition) has returned. While it runs, pairs of
/// nodes are cut one after another, all within some milliseconds.
///
/// Packets take the same way, and cost as much, before, during and after a partition: routes are looked up in a table for
/// each sender, in which a cut is a route to nowhere.
///
/// # What it needs
///
/// Linux with network namespaces, veth interfaces and policy routing, root (`CAP_NET_ADMIN` and `CAP_SYS_ADMIN`), `ip` of
/// iproute2 and `nsenter` of util-linux: [`Network::available`] tries it.
///
/// It is removed when it is dropped, and what runs in its namespaces is killed. Where its process is killed,
/// [`Lease::clear_up`] does both.
#[derive(Debug)]
pub struct Network {
    /// That of the namespace in the middle; those of nodes begin with it.
    name: String,
    nodes: Vec<String>,
    range: Range,
    cuts: BTreeSet<Cut>,
    /// Dropped last.
    _lease: Lease,
}

impl Network {
    /// What stands for this machine, where clients are, in a partition that goes one way.
    pub const CLIENT: &'static str = "client";

    /// The most nodes that a network has.
    pub const MOST_NODES: usize = (HUB - FIRST) as usize;

    /// Whether this process can have one on this machine: a network of two nodes is made, partitioned, healed and removed.
    ///
    /// # Errors
    /// What is missing, by name, and what to do about it.
    pub fn available() -> Result<(), String> {
        if let Some(missing) = capabilities().and_then(missing_capability) {
            return Err(format!(
                "this process may not change the network (it has no {missing}): run as root, in a container with \
                 `--privileged`"
            ));
        }
        let tried = || {
            let mut network = Self::begin(&leases_folder(), &["a", "b"])?;
            network.partition(&Partition::groups(&[&["a"], &["b"]]))?;
            if network.reaches("a", "b", CUT_FOR)? {
                return Err(NetworkProblem::Refused("packets arrive where a route to nowhere is set".to_owned()));
            }
            network.heal()?;
            network.must_reach("a", "b")
        };
        tried().map_err(|problem: NetworkProblem| problem.to_string())
    }

    /// Makes one with nodes of these names. `leases` is the folder that names it while it is there.
    ///
    /// Names are of at most 32 letters, digits, `-`, `_` and `.`.
    ///
    /// # Errors
    /// Where a name cannot be, there are none or too many, something is [missing](Network::available), or nodes do not
    /// reach each other or cannot be reached from here. Nothing of it remains then.
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
        // All are treated the same: that each sends and receives is enough.
        for (to, from) in names.iter().zip(names.iter().cycle().skip(1)) {
            network.must_reach(Self::CLIENT, to)?;
            if from != to {
                network.must_reach(from, to)?;
            }
        }
        Ok(network)
    }

    /// The names of its nodes, in their order.
    pub fn names(&self) -> &[String] {
        &self.nodes
    }

    /// The address of a node; none of one that it does not have.
    pub fn address(&self, name: &str) -> Option<IpAddr> {
        node(name, &self.nodes).ok().map(|end| self.end_address(end).into())
    }

    /// The address of this machine in it: that of clients, as nodes see them.
    pub fn client_address(&self) -> IpAddr {
        self.end_address(0).into()
    }

    /// The name of a node's namespace, as `ip netns` has it; none of a node that it does not have.
    pub fn namespace(&self, name: &str) -> Option<String> {
        node(name, &self.nodes).ok().map(|end| self.end_namespace(end))
    }

    /// What a program and its arguments have to be preceded by, so that it runs in a node: `exec {enter_command}server`. It
    /// ends with a space. The process is the same one, with the files, mounts and user that it would have anyway; only
    /// `/sys` tells of the interfaces of this machine. None of a node that it does not have.
    pub fn enter_command(&self, name: &str) -> Option<String> {
        // `ip netns exec` would hide control groups, and mount things of its own.
        self.namespace(name).map(|namespace| format!("nsenter --net='{}' ", file(&namespace).display()))
    }

    /// A line for `sh -c` that does in a node what this one, whatever it holds, does here; none of a node that it does not
    /// have.
    pub fn command(&self, name: &str, line: &str) -> Option<String> {
        let enter = self.enter_command(name)?;
        Some(format!("{enter}sh -c '{}'", line.replace('\'', r"'\''")))
    }

    /// Partitions it; what was cut before and is not cut by this partition is healed.
    ///
    /// # Errors
    /// Where it names what is not there or separates nobody, or a command fails: all is as it was before then.
    pub fn partition(&mut self, partition: &Partition) -> Result<(), NetworkProblem> {
        let cuts = partition.cuts(&self.nodes)?;
        self.set(cuts)
    }

    /// Everybody reaches everybody again.
    ///
    /// # Errors
    /// Where a command fails: all is as it was before then.
    pub fn heal(&mut self) -> Result<(), NetworkProblem> {
        self.set(BTreeSet::new())
    }

    /// Whether anything is cut.
    pub fn is_partitioned(&self) -> bool {
        !self.cuts.is_empty()
    }

    /// Whether one node, or [`Network::CLIENT`], can begin a TCP connection to another node: it listens there for a moment on
    /// a free port and tries. No answer within this time is a no.
    ///
    /// # Errors
    /// Where there is no such node, its namespace cannot be entered any more, or this machine refuses to send.
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
                // Reset, so that its port is free at once.
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
            "{why}; a filter of this machine or a policy of its routes may be in the way: allow {} on interfaces `{}*`",
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

    /// Cuts first, so that nothing passes on a way that neither state has.
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
            // Some of them may have been done.
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
        return Err(NetworkProblem::Refused(format!("it has from 1 to {most} nodes, and {given} are asked for")));
    }
    for (number, name) in names.iter().enumerate() {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > 32 || !name.bytes().all(plain) {
            return wrong(name, "names are of at most 32 letters, digits, `-`, `_` and `.`");
        }
        if *name == Network::CLIENT {
            return wrong(name, "that is this machine");
        }
        if names[..number].contains(name) {
            return wrong(name, "another one is called so");
        }
    }
    Ok(())
}

/// Whether there is the program by which nodes are entered.
fn nsenter() -> Result<(), NetworkProblem> {
    let mut command = Command::new("nsenter");
    command.args(["--net=/proc/self/ns/net", "true"]).stdin(Stdio::null());
    let failed = |why: String| NetworkProblem::Command { command: "nsenter --net=…".to_owned(), why };
    let out = command.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => failed("it is not there; install `util-linux`".to_owned()),
        _ => failed(error.to_string()),
    })?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    Err(failed(format!("{} ({}); run Storebench as root, and install `util-linux`", said.trim(), out.status)))
}

/// The first capability that a process with these lacks.
fn missing_capability(all: u64) -> Option<&'static str> {
    NEEDED.iter().find(|(_, bit)| all & bit == 0).map(|(name, _)| *name)
}
