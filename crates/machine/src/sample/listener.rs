//! Finds the processes of a server that this process did not start, by where it listens.

use std::collections::HashSet;
use std::fs;

use super::read;
use crate::process::{Pid, numbers, stat};

/// `TCP_LISTEN`.
const LISTEN: &str = "0A";

/// The processes that listen on a TCP port of this machine, on any address, oldest first. There may be several, because
/// children inherit their parents' sockets; [`server_roots`] finds the server among them.
///
/// Empty if nothing listens, if the process belongs to another user and this one is not root, or if it is in another
/// network namespace, as in a container: what listens there is a proxy or the kernel.
pub fn listeners(port: u16) -> Vec<Pid> {
    let mut inodes = HashSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        inodes.extend(listening_on(&read(table).unwrap_or_default(), port));
    }
    holders(&inodes)
}

/// Inodes of sockets that listen on a port.
fn listening_on(table: &str, port: u16) -> Vec<u64> {
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let local = fields.get(1)?.rsplit_once(':')?.1;
        let wanted = u16::from_str_radix(local, 16).ok()? == port && *fields.get(3)? == LISTEN;
        if wanted { fields.get(9)?.parse().ok() } else { None }
    };
    table.lines().skip(1).filter_map(row).collect()
}

/// The processes that have one of these sockets open, oldest first.
fn holders(inodes: &HashSet<u64>) -> Vec<Pid> {
    let mut out: Vec<Pid> = Vec::new();
    if inodes.is_empty() {
        return out;
    }
    for number in numbers() {
        let mut files = fs::read_dir(format!("/proc/{number}/fd")).into_iter().flatten().flatten();
        let holds = files.any(|file| {
            let link = fs::read_link(file.path()).unwrap_or_default();
            let inode = link.to_str().and_then(|link| link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
            inode.is_some_and(|inode| inodes.contains(&inode))
        });
        out.extend(Pid::of(number).filter(|_| holds));
    }
    out.sort_by_key(|pid| (pid.began, pid.number));
    out
}

/// The servers that these processes belong to. Each is given by its topmost process, so that [`Tree`](crate::Tree)
/// finds the rest.
///
/// A parent belongs to the same server if it runs the same program or is in the same process group. So a worker leads
/// to its master, a PostgreSQL backend to the postmaster, and a foreground child of a script to the script. The shell
/// in which a user started it, systemd, and a container runtime do not belong to it. Neither do this process and its
/// ancestors.
pub fn server_roots(pids: &[Pid]) -> Vec<Pid> {
    let own = line_above(std::process::id());
    let mut out: Vec<Pid> = pids.iter().filter(|pid| pid.runs()).map(|pid| root(*pid, &own)).collect();
    out.sort_by_key(|pid| (pid.began, pid.number));
    out.dedup();
    out
}

/// A process and all its ancestors.
fn line_above(number: u32) -> HashSet<u32> {
    let mut out = HashSet::from([0, 1]);
    let mut next = number;
    while out.insert(next) {
        next = stat(next).map_or(0, |stat| stat.parent);
    }
    out
}

fn root(pid: Pid, own: &HashSet<u32>) -> Pid {
    let program = |number: u32| fs::read_link(format!("/proc/{number}/exe")).ok();
    let mut root = pid;
    loop {
        let Some(child) = stat(root.number).filter(|stat| stat.began == root.began) else { return root };
        if own.contains(&child.parent) {
            return root;
        }
        let Some(parent) = stat(child.parent) else { return root };
        let same_program = program(root.number).is_some_and(|one| program(child.parent) == Some(one));
        if !same_program && (parent.group != child.group || child.group == 0) {
            return root;
        }
        root = Pid { number: child.parent, began: parent.began };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::wait_until;
    use std::net::TcpListener;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};

    fn own() -> Pid {
        Pid::own().unwrap()
    }

    #[test]
    fn who_listens_on_a_port_is_found() {
        for address in ["127.0.0.1:0", "[::]:0"] {
            let Ok(socket) = TcpListener::bind(address) else { continue };
            let port = socket.local_addr().unwrap().port();
            assert!(listeners(port).contains(&own()), "{address}");
            // A connection to the port does not listen on it.
            let to = std::net::SocketAddr::from(([127, 0, 0, 1], port));
            let client = std::net::TcpStream::connect(to).unwrap();
            assert!(!listeners(client.local_addr().unwrap().port()).contains(&own()));
            drop(socket);
            assert!(!listeners(port).contains(&own()), "{address}");
        }
    }

    /// A script in its own process group, with the listening socket as its standard input.
    fn script(socket: TcpListener, script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0).stdin(Stdio::from(std::os::fd::OwnedFd::from(socket)));
        command.spawn().unwrap()
    }

    #[test]
    fn a_server_is_its_topmost_process() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        // A script that waits for a program that has the socket, like a master with workers in the same group.
        let mut child = script(socket, "exec 3<&0; sleep 600 <&3 & wait");
        let top = Pid::of(child.id()).unwrap();
        let found = || -> Vec<Pid> { listeners(port).into_iter().filter(|pid| *pid != own()).collect() };
        wait_until("both have the socket", || found().len() == 2);
        assert_eq!(found()[0], top);
        assert_eq!(server_roots(&found()), [top], "this process has started it and does not belong to it");
        let worker = found()[1];
        assert_eq!(server_roots(&[worker]), [top]);
        crate::Tree::of(&[top]).kill();
        child.wait().unwrap();
        wait_until("nobody listens", || found().is_empty());
        assert_eq!(server_roots(&[top, worker]), []);
    }

    #[test]
    fn a_shell_that_started_it_in_a_group_of_its_own_does_not_belong_to_it() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        // As in a user's shell, where every command has its own group.
        let mut shell = script(socket, "exec 3<&0; setsid sleep 600 <&3 3<&- & exec 3<&- 0<&-; wait");
        let top = Pid::of(shell.id()).unwrap();
        let found = || -> Vec<Pid> { listeners(port).into_iter().filter(|pid| *pid != own()).collect() };
        let is_sleep =
            |pid: &Pid| fs::read_to_string(format!("/proc/{}/comm", pid.number)).is_ok_and(|n| n == "sleep\n");
        wait_until("the program has the socket alone", || found().len() == 1 && found().iter().all(is_sleep));
        let server = found();
        assert_ne!(server, [top]);
        assert_eq!(server_roots(&server), server);
        crate::Tree::of(&[top]).kill();
        shell.wait().unwrap();
    }

    #[test]
    fn tables_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 4711 1 0 100 0\n   \
                     1: 0100007F:1538 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  0  0 4712 1 0 100 0\n";
        assert_eq!(listening_on(table, 5432), [4711]);
        assert!(listening_on(table, 40000).is_empty());
    }
}
