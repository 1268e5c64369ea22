//! Helpers that tests of this crate share.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cgroup::{Limits, available};

/// Whether the machine has what a test needs. If not, the printed line counts the test as skipped.
pub(crate) fn here(has: Result<(), String>) -> bool {
    has.inspect_err(|why| println!("skipped: {why}")).is_ok()
}

/// Whether this process runs as root.
pub(crate) fn root() -> bool {
    here(if rustix::process::geteuid().is_root() { Ok(()) } else { Err("it needs root".to_owned()) })
}

/// Whether CPU and memory limits are available.
pub(crate) fn groups() -> bool {
    let limits = Limits { cpus: Some(0.5), memory_bytes: Some(1 << 30), ..Limits::default() };
    root() && here(available(&limits, None))
}

/// Whether power cuts are available.
pub(crate) fn powercuts() -> bool {
    here(crate::PowerCut::available())
}

/// Whether the machine supports networks of nodes. It is checked without `Network`, so that a bug in it cannot skip the
/// test.
pub(crate) fn networks() -> bool {
    static TRIES: AtomicU32 = AtomicU32::new(0);
    let name = format!("storebench-try-{}-{}", std::process::id(), TRIES.fetch_add(1, Ordering::Relaxed));
    let parts = format!(
        "set -e; ip netns add {name}; trap 'ip netns delete {name}' EXIT; cd /; export LC_ALL=C
         ip -netns {name} link add x0 type veth peer name x1; ip -netns {name} rule add iif x0 lookup 9
         nsenter --net=/run/netns/{name} sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'"
    );
    let tried = || {
        let out = Command::new("sh").args(["-c", &parts]).output().map_err(|error| error.to_string())?;
        if out.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&out.stderr).trim().replace('\n', "; ")) }
    };
    root() && here(tried())
}

/// Waits until a condition holds. Fails after a minute.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "no success after waiting: {what}");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
