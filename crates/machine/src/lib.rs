//! What Storebench does to processes of this machine: starts servers, stops, kills and pauses them, and clears up behind
//! itself, also when it was killed.
//!
//! - [`Server`] is one server: the commands that control it, and what runs of it now.
//! - [`Lease`] is a file that names what was started, so that the next start of Storebench finds what an earlier one left.
//! - [`Watcher`], [`host_use`] and [`folder_use`] tell what processes, the machine and a folder of data use.
//! - [`Link`] is a proxy between a client and a server whose link can be broken.
//! - [`scrape`] and [`HostMetrics`] read what other machines and stores tell of themselves over HTTP.
//! - [`PowerCut`] is a file system that forgets what was not synced.
//! - [`run_command`] runs a command of the user's own.
//! - [`Tree`] is a process with all that it has started.
//! - [`Cgroup`] limits what a server may use.
//! - [`Network`] has nodes of a store in network namespaces, so that the network between them can be partitioned.
//! - [`drop_caches`] makes the next start a cold one.
//! - [`listeners`] and [`server_roots`] find a server that this process has not started.

// What only the parts use that are left out.
#![cfg_attr(not(all(feature = "netns", feature = "powercut")), allow(dead_code))]

#[cfg(not(all(feature = "netns", feature = "powercut")))]
mod absent;
mod broken;
mod caches;
mod cgroup;
mod command;
mod device;
mod lease;
mod link;
mod metrics;
mod mounts;
#[cfg(feature = "netns")]
mod netns;
#[cfg(feature = "powercut")]
mod powercut;
mod process;
mod sample;
mod server;
#[cfg(test)]
mod testing;

#[cfg(not(feature = "netns"))]
pub use absent::Network;
#[cfg(not(feature = "powercut"))]
pub use absent::{PowerCut, PowerOff};
pub use broken::{ClientSees, Forgotten, Keep, Partition};
pub use caches::{Dropped, drop_caches};
pub use cgroup::{Cgroup, GroupUse, LimitProblem, Limits, available};
pub use command::run_command;
pub use device::{BlockUse, Device};
pub use lease::{Lease, Leftover, leases_folder};
pub use link::{Link, LinkCounts, LinkState, OneWay};
pub use metrics::{HostMetrics, Sample, scrape};
#[cfg(feature = "netns")]
pub use netns::{Network, NetworkProblem};
#[cfg(feature = "powercut")]
pub use powercut::{PowerCut, PowerCutUse, PowerOff};
pub use process::{Pid, Tree};
pub use sample::{
    FolderUse, HostUse, NetworkUse, ProcessUse, Watcher, folder_use, host_use, listeners, listeners_at, network_speed,
    network_use, server_roots,
};
pub use server::{Commands, Problem, Server, Spec};
