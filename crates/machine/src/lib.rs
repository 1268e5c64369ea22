//! Controls processes on this machine: starts, stops, kills and pauses servers, and cleans up after itself, even if it
//! was killed.
//!
//! - [`Server`] is one server: the commands that control it, and its running processes.
//! - [`Lease`] is a file that lists what was started. The next start of Storebench uses it to find what an earlier one
//!   left.
//! - [`Watcher`], [`host_use`] and [`folder_use`] report what processes, the machine and a data folder use.
//! - [`Link`] is a proxy between a client and a server whose link can be broken.
//! - [`scrape`] and [`HostMetrics`] read metrics of other machines and stores over HTTP.
//! - [`PowerCut`] is a file system that loses what was not synced.
//! - [`run_command`] runs a user's command.
//! - [`Tree`] is a process with all its descendants.
//! - [`Cgroup`] limits what a server may use.
//! - [`Network`] puts the nodes of a store into network namespaces, so that the network between them can be
//!   partitioned.
//! - [`clock_state`] says how far this machine's clock may be off.
//! - [`drop_caches`] empties the page cache for a cold start.
//! - [`Processors`] counts the processors and cores that this process may use.
//! - [`listeners`] and [`server_roots`] find a server that this process did not start.

// Some code is used only by these optional features.
#![cfg_attr(not(all(feature = "netns", feature = "powercut")), allow(dead_code))]

#[cfg(not(all(feature = "netns", feature = "powercut")))]
mod absent;
mod broken;
mod caches;
mod cgroup;
mod clock;
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
mod processors;
mod sample;
mod server;
#[cfg(test)]
mod testing;
mod user;

#[cfg(not(feature = "netns"))]
pub use absent::Network;
#[cfg(not(feature = "powercut"))]
pub use absent::{PowerCut, PowerOff};
pub use broken::{ClientSees, Forgotten, Keep, Partition};
pub use caches::{Dropped, drop_caches};
pub use cgroup::{Cgroup, GroupUse, LimitProblem, Limits, available};
pub use clock::{ClockState, clock_state};
pub use command::run_command;
pub use device::{BlockUse, Device};
pub use lease::{Lease, Leftover, leases_folder};
pub use link::{Link, LinkCounts, LinkState, OneWay};
pub use metrics::{HostMetrics, Sample, scrape};
pub use mounts::{Mount, mount_of};
#[cfg(feature = "netns")]
pub use netns::{Network, NetworkProblem};
#[cfg(feature = "powercut")]
pub use powercut::{PowerCut, PowerOff};
pub use process::{Pid, Signal, Tree};
pub use processors::Processors;
pub use sample::{
    FolderUse, HostUse, NetworkUse, ProcessUse, Watcher, folder_use, host_use, listeners, network_speed, network_use,
    server_roots,
};
pub use server::{Commands, Problem, Server, Spec, StopBy};
pub use user::User;
