//! Removes what is left of a network, and nothing else.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::ip::{batch, file, ip, namespaces};
use super::{HUB_TO_CLIENT, PREFIX};
use crate::process::{Pid, Tree, numbers};

/// How long killed processes of a namespace may take to end before the namespace is removed anyway.
const END_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Removes networks that the process with this number has left. Their names contain the number.
pub(crate) fn clear(networks: &[String], owner: u32) {
    networks.iter().filter(|name| is_of(name, owner)).for_each(|name| remove(name));
}

fn is_of(network: &str, owner: u32) -> bool {
    let number = network.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix(&format!("{owner}-")));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Kills what runs in the namespaces of a network and removes them, together with their interfaces.
pub(super) fn remove(network: &str) {
    let below = format!("{network}-");
    let mut names = namespaces();
    names.retain(|name| name == network || name.starts_with(&below));
    let until = Instant::now() + END_WITHIN;
    loop {
        let inside: Vec<Pid> = names.iter().flat_map(|name| processes(&file(name))).collect();
        if inside.is_empty() || Instant::now() > until {
            break;
        }
        Tree::of(&inside).kill();
        std::thread::sleep(LOOK_EVERY);
    }
    if names.iter().any(|name| name == network) {
        // This also removes the other end on this machine. The kernel removes the content of a namespace later than its
        // name.
        let _ = batch(Some(network), &[format!("link delete {HUB_TO_CLIENT}")]);
    }
    for name in names {
        let _ = ip(&["netns", "delete", &name]);
    }
}

/// The processes in a namespace; empty if it is the namespace of this process.
pub(super) fn processes(namespace: &Path) -> Vec<Pid> {
    let identity = |path: &Path| fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    let Some(wanted) = identity(namespace) else { return Vec::new() };
    if identity(Path::new("/proc/self/ns/net")) == Some(wanted) {
        return Vec::new();
    }
    let inside = |number: &u32| identity(Path::new(&format!("/proc/{number}/ns/net"))) == Some(wanted);
    numbers().filter(inside).filter_map(Pid::of).filter(|pid| pid.runs()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_networks_of_the_owner_are_its_own() {
        assert!(is_of("storebench-12-0", 12) && is_of("storebench-12-34", 12));
        for other in ["storebench-12-", "storebench-12", "storebench-123-0", "storebench-12-0-a", "x-12-0", "", "../x"]
        {
            assert!(!is_of(other, 12), "{other}");
        }
    }
}
