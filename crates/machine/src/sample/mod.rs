//! What processes and the machine use, read from `/proc`: growing counters, and current levels.

mod folder;
mod host;
mod listener;
mod network;
mod processes;

pub use folder::{FolderUse, folder_use};
pub use host::{HostUse, host_use};
pub use listener::{listeners, server_roots};
pub use network::{NetworkUse, network_speed, network_use};
pub use processes::{ProcessUse, Watcher};

use crate::process::read;

/// The number in a line such as `name: 12 kB`.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Nanoseconds per tick, the unit of `/proc/PID/stat`.
fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}
