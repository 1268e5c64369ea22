//! The network traffic of this machine.

use super::read;

/// Bytes that this machine's interfaces have carried since they exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetworkUse {
    /// Received by all interfaces except `lo`. Bridges and tunnels count the bytes of their underlying interfaces
    /// again.
    pub in_bytes: u64,
    /// Sent by all interfaces except `lo`.
    pub out_bytes: u64,
    /// Received by `lo`: traffic between processes of this machine.
    pub lo_in_bytes: u64,
    /// Sent by `lo`.
    pub lo_out_bytes: u64,
}

/// The traffic up to now. Zero if the system does not report it.
pub fn network_use() -> NetworkUse {
    parse(&read("/proc/net/dev").unwrap_or_default())
}

/// The speed of the fastest active interface, in bytes per second in each direction. `None` if no interface reports
/// one; virtual ones usually do not.
pub fn network_speed() -> Option<u64> {
    let interfaces = std::fs::read_dir("/sys/class/net").ok()?.flatten();
    let speed = |folder: std::path::PathBuf| {
        let told = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
        let up = told("operstate").is_some_and(|state| state.trim() == "up");
        // Mbit/s; -1 if unknown.
        let mbit = told("speed")?.trim().parse::<u64>().ok()?;
        (up && mbit > 0).then(|| mbit * 1_000_000 / 8)
    };
    interfaces.filter_map(|entry| speed(entry.path())).max()
}

fn parse(text: &str) -> NetworkUse {
    let mut out = NetworkUse::default();
    // Two header lines.
    for (name, counts) in text.lines().skip(2).filter_map(|line| line.split_once(':')) {
        let counts: Vec<u64> = counts.split_ascii_whitespace().map(|n| n.parse().unwrap_or(0)).collect();
        let at = |nth: usize| counts.get(nth).copied().unwrap_or(0);
        let (received, sent) = (at(0), at(8));
        if name.trim() == "lo" {
            out.lo_in_bytes += received;
            out.lo_out_bytes += sent;
        } else {
            out.in_bytes += received;
            out.out_bytes += sent;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn interfaces_are_added_up_and_lo_is_not() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
                    face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop\n    \
                    lo: 100 2 0 0 0 0 0 0 100 2 0 0 0 0 0 0\n  eth0:7 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n  \
                    eth1: 1 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0\n";
        let expected = NetworkUse { in_bytes: 8, out_bytes: 11, lo_in_bytes: 100, lo_out_bytes: 100 };
        assert_eq!(parse(text), expected);
    }

    #[test]
    fn what_is_sent_to_this_machine_itself_is_counted() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let before = network_use();
        let mut client = std::net::TcpStream::connect(socket.local_addr().unwrap()).unwrap();
        let mut server = socket.accept().unwrap().0;
        client.write_all(&[1; 10_000]).unwrap();
        server.read_exact(&mut [0; 10_000]).unwrap();
        let after = network_use();
        assert!(after.lo_in_bytes >= before.lo_in_bytes + 10_000, "{before:?} {after:?}");
        assert!(after.lo_out_bytes >= before.lo_out_bytes + 10_000);
    }
}
