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
//! - [`Cgroup`] limits what a server may use, and [`LimitedDisk`] is a disk that can be full.
//! - [`Network`] has nodes of a store in network namespaces, so that the network between them can be partitioned.
//! - [`drop_caches`] makes the next start a cold one.
//! - [`listeners`] and [`server_roots`] find a server that this process has not started.

mod cgroup;
mod command;
mod device;
mod disk;
mod lease;
mod link;
mod metrics;
mod mounts;
mod netns;
mod powercut;
mod process;
mod sample;
mod server;
#[cfg(test)]
mod testing;

pub use cgroup::{Cgroup, GroupUse, LimitProblem, Limits, available};
pub use command::run_command;
pub use device::{BlockUse, Device};
pub use disk::{DiskProblem, Dropped, Filler, LimitedDisk, drop_caches};
pub use lease::{Lease, Leftover, leases_folder};
pub use link::{Link, LinkCounts, LinkState, OneWay};
pub use metrics::{HostMetrics, Sample, scrape};
pub use netns::{ClientSees, Network, NetworkProblem, Partition};
pub use powercut::{Forgotten, Keep, PowerCut, PowerCutUse, PowerOff};
pub use process::{Pid, Tree};
pub use sample::{
    FolderUse, HostUse, NetworkUse, ProcessUse, Watcher, folder_use, host_use, listeners, listeners_at, network_speed,
    network_use, server_roots,
};
pub use server::{Commands, Problem, Server, Spec};
