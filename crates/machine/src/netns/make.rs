//! Creates a network: namespaces, interfaces, addresses, routes.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::ip::{batch, inside, ip, namespaces};
use super::partition::{Cut, End};
use super::range::{self, CLIENT, HUB};
use super::{HUB_TO_CLIENT, Network, NetworkProblem, PREFIX};

/// Prefix of the middle's interfaces to nodes; the node's number follows.
const HUB_TO_NODE: &str = "n";
/// A node's only interface besides its loopback.
const NODE_TO_HUB: &str = "eth0";
/// The number of the middle's first routing table.
const TABLES: usize = 1000;

impl Network {
    /// Creates everything. If it fails, dropping the network removes what was created.
    pub(super) fn make(&mut self, interface: &str) -> Result<(), NetworkProblem> {
        let hub = self.name.clone();
        ip(&["netns", "add", &hub])?;
        let to = HUB_TO_CLIENT;
        let mut links = vec![format!(
            "link add {interface} address {} type veth peer name {to} address {} netns {hub}",
            hardware(CLIENT),
            hardware(HUB)
        )];
        for end in self.ends().skip(1) {
            let namespace = self.end_namespace(end);
            ip(&["netns", "add", &namespace])?;
            links.push(format!(
                "link add {} netns {hub} address {} type veth peer name {NODE_TO_HUB} address {} netns {namespace}",
                hub_interface(end),
                hardware(HUB),
                hardware(last(end))
            ));
        }
        batch(None, &links)?;
        no_ipv6(Some(interface));
        self.claim(interface)?;
        inside(&hub, forward)??;
        let mut lines = vec!["link set lo up".to_owned(), format!("address add {} dev lo", self.range.address(HUB))];
        // Routes can only use interfaces that are up.
        lines.extend(self.ends().map(|end| format!("link set {} up", hub_interface(end))));
        for end in self.ends() {
            let (device, table, address) = (hub_interface(end), table(end), self.end_address(end));
            // Static neighbours avoid ARP: it would add a delay, and report an address that does not answer.
            lines.push(neighbour(address, last(end), &device));
            lines.push(format!("rule add priority {table} iif {device} lookup {table}"));
            lines.extend(self.ends().filter(|to| *to != end).map(|to| self.route((end, to), false)));
        }
        batch(Some(&hub), &lines)?;
        for end in self.ends().skip(1) {
            let (namespace, address) = (self.end_namespace(end), self.end_address(end));
            inside(&namespace, || no_ipv6(Some(NODE_TO_HUB)))?;
            let mut lines = vec!["link set lo up".to_owned()];
            lines.push(format!("address add {address}/24 dev {NODE_TO_HUB} noprefixroute"));
            lines.extend(self.to_hub(NODE_TO_HUB, address));
            batch(Some(&namespace), &lines)?;
        }
        Ok(())
    }

    /// Claims an unused range, even if another process is looking for one now.
    fn claim(&mut self, interface: &str) -> Result<(), NetworkProblem> {
        let routes = ip(&["-json", "-4", "route", "show", "table", "all"])?;
        let used = range::used(&routes).map_err(|error| NetworkProblem::Command {
            command: "ip -json -4 route show table all".to_owned(),
            why: format!("cannot parse its output: {error}; install a newer `iproute2`"),
        })?;
        for range in range::free(&used, std::process::id().wrapping_mul(0x9e37_79b9) >> 8) {
            self.range = range;
            let address = range.address(CLIENT);
            batch(None, &[format!("address add {address} dev {interface}")])?;
            // If two processes add the same route, only one succeeds.
            match batch(None, &self.to_hub(interface, address)) {
                Err(NetworkProblem::Command { why, .. }) if why.contains("File exists") => {
                    batch(None, &[format!("address delete {address}/32 dev {interface}")])?;
                }
                other => return other,
            }
        }
        Err(NetworkProblem::Refused("no private range is free: this machine has routes to all of them".to_owned()))
    }

    /// Makes all others reachable through the middle.
    fn to_hub(&self, device: &str, own: Ipv4Addr) -> [String; 3] {
        let hub = self.range.address(HUB);
        [
            format!("link set {device} up"),
            format!("route add {} via {hub} dev {device} src {own} onlink", self.range),
            neighbour(hub, HUB, device),
        ]
    }

    /// The middle's route for packets from one end to another.
    pub(super) fn route(&self, (from, to): Cut, cut: bool) -> String {
        let (address, table) = (self.end_address(to), table(from));
        match cut {
            true => format!("route replace blackhole {address} table {table}"),
            false => format!("route replace {address} dev {} table {table}", hub_interface(to)),
        }
    }
}

pub(super) fn interface_prefix() -> String {
    format!("sb{}-", std::process::id())
}

/// An unused name for a network of this process, and for its interface on this machine (at most 15 bytes).
pub(super) fn own_name() -> (String, String) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let interface = format!("{}{number}", interface_prefix());
        // An earlier process with the same number may have left one.
        let below = format!("{name}-");
        let taken = namespaces().iter().any(|other| *other == name || other.starts_with(&below));
        if !taken && !Path::new("/sys/class/net").join(&interface).exists() {
            return (name, interface);
        }
    }
}

/// The last byte of the address of an end.
pub(super) fn last(end: End) -> u8 {
    // There are at most `MOST_NODES`.
    CLIENT + u8::try_from(end).unwrap_or(u8::MAX - CLIENT)
}

/// The matching hardware address. It is fixed, so that nothing assigns another one later.
fn hardware(last: u8) -> String {
    format!("02:5b:00:00:00:{last:02x}")
}

fn neighbour(address: Ipv4Addr, last: u8, device: &str) -> String {
    format!("neigh replace {address} lladdr {} nud permanent dev {device}", hardware(last))
}

/// The middle's interface to an end.
pub(super) fn hub_interface(end: End) -> String {
    if end == 0 { HUB_TO_CLIENT.to_owned() } else { format!("{HUB_TO_NODE}{end}") }
}

/// The middle's routing table for packets from an end.
fn table(end: End) -> usize {
    TABLES + end
}

/// Makes the namespace of this thread forward all packets that its routes allow, from any source.
fn forward() -> Result<(), NetworkProblem> {
    let put = |file: &Path, value: &str| {
        fs::write(file, value).map_err(|error| {
            NetworkProblem::Refused(format!(
                "{} cannot be set to {value}: {error}; in a container, mount /proc/sys writable (`--privileged`)",
                file.display()
            ))
        })
    };
    let folder = Path::new("/proc/sys/net/ipv4");
    put(&folder.join("ip_forward"), "1")?;
    // Reverse-path filtering would also drop the open direction if only the other is cut.
    for interface in fs::read_dir(folder.join("conf")).into_iter().flatten().flatten() {
        put(&interface.path().join("rp_filter"), "0")?;
    }
    no_ipv6(None);
    Ok(())
}

/// Disables IPv6 on one interface of this thread's namespace, or on all. It is not used, and would send its own
/// packets. A kernel without IPv6 does not have these files.
fn no_ipv6(interface: Option<&str>) {
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", interface.unwrap_or("all")), "1");
}
