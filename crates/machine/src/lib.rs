//! What Storebench does to processes of this machine: starts servers, stops, kills and pauses them, and clears up behind
//! itself, also when it was killed.
//!
//! - [`Server`] is one server: the commands that control it, and what runs of it now.
//! - [`Lease`] is a file that names what was started, so that the next start of Storebench finds what an earlier one left.
//! - [`Watcher`], [`host_use`] and [`folder_use`] tell what processes, the machine and a folder of data use.
//! - [`PowerCut`] is a file system that forgets what was not synced.
//! - [`Tree`] is a process with all that it has started.

mod lease;
mod powercut;
mod process;
mod sample;
mod server;

pub use lease::{Lease, Leftover, leases_folder};
pub use powercut::{Forgotten, Keep, PowerCut, PowerCutUse, PowerOff};
pub use process::{Pid, Tree};
pub use sample::{FolderUse, HostUse, ProcessUse, Watcher, folder_use, host_use};
pub use server::{Commands, Problem, Server, Spec};
