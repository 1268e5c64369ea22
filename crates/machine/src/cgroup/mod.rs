//! Limits of a server: processors, memory and the speed of its disk, by a control group of its own.
//!
//! Version 1 and version 2 of control groups are used, also both at once, as the machine has them. Their limits differ:
//!
//! - Disks: version 1 slows only what is read and written past the page cache, and what a process itself waits for
//!   (`O_DIRECT`, reads that miss the cache, `fsync` of what nobody has written back before). What the kernel writes back
//!   later counts for nobody. Version 2 slows write-back too, on file systems that know of it (ext4, btrfs, xfs, f2fs).
//! - Memory: version 1 refuses a limit below what is in use and cannot be taken back ([`LimitProblem::InUse`]); version 2
//!   ends processes until it holds. Both count the page cache of the group, and no swap is given beyond the limit.
//! - Version 2 gives controllers only to groups beside processes, not below them: where the group of this process holds
//!   processes, the limited one is made beside it, in the nearest group above that can be written, and outside of limits of
//!   the group of this process. A controller that was enabled for it stays enabled: another may use it meanwhile. Version 1
//!   makes it below the group of this process, always.
//!
//! Version 2 is tested with folders that imitate it; version 1 is tested on the real thing.

mod group;
mod layout;
mod write;

use std::path::{Path, PathBuf};

pub(crate) use group::clear;
pub use group::{Cgroup, GroupUse};

/// What a server may use. What is not said is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// Processors, of all that it has together: 0.5 is half of the time of one.
    pub cpus: Option<f64>,
    /// Memory with its page cache, in bytes. It gets no swap besides.
    pub memory_bytes: Option<u64>,
    /// Bytes that it may read from the disk of its data in a second.
    pub read_bytes_per_s: Option<u64>,
    /// Bytes that it may write to the disk of its data in a second.
    pub write_bytes_per_s: Option<u64>,
}

impl Limits {
    fn needed(&self) -> Vec<layout::Controller> {
        use layout::Controller;
        let needs = |controller: &Controller| match controller {
            Controller::Cpu => self.cpus.is_some(),
            Controller::Memory => self.memory_bytes.is_some(),
            Controller::Disk => self.read_bytes_per_s.is_some() || self.write_bytes_per_s.is_some(),
        };
        Controller::ALL.into_iter().filter(needs).collect()
    }

    fn check(&self) -> Result<(), LimitProblem> {
        let wrong = |limit, why: &str| Err(LimitProblem::Value { limit, why: why.to_owned() });
        if self.cpus.is_some_and(|cpus| !(write::LEAST_CPUS..=1e6).contains(&cpus)) {
            return wrong("cpus", "it has to be at least 0.01");
        }
        if self.memory_bytes == Some(0) {
            return wrong("memory_bytes", "nothing runs without memory");
        }
        for (limit, bytes) in
            [("read_bytes_per_s", self.read_bytes_per_s), ("write_bytes_per_s", self.write_bytes_per_s)]
        {
            if bytes == Some(0) {
                return wrong(
                    limit,
                    "0 would be no limit on some systems; pause the server to have its disk stand still",
                );
            }
        }
        Ok(())
    }
}

/// Why a limit cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitProblem {
    /// A limit that no system has.
    #[error("the limit `{limit}` cannot be: {why}")]
    Value {
        /// Which.
        limit: &'static str,
        /// Why not.
        why: String,
    },
    /// The machine has no such controller, or does not give it to this process.
    #[error("no limit of {what} can be set: {why}")]
    Missing {
        /// What it is of.
        what: &'static str,
        /// What is missing, and what to do.
        why: String,
    },
    /// No group can be made.
    #[error("no control group can be made in {}: {why}", .folder.display())]
    Refused {
        /// Where.
        folder: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// The data is on no disk that could be limited.
    #[error("no limit of the disk can be set: {0}")]
    Disk(String),
    /// More memory is in use than the limit, and the system cannot take it back.
    #[error(
        "memory cannot be limited to {wanted} bytes: {used} are in use and cannot be taken back; set the limit before the \
         server starts, or a higher one"
    )]
    InUse {
        /// The limit.
        wanted: u64,
        /// What the group uses.
        used: u64,
    },
    /// A file of the group cannot be written.
    #[error("{} cannot be set to `{value}`: {why}", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What was to be written.
        value: String,
        /// Why not.
        why: String,
    },
}

/// Whether these limits can be set on this machine by this process, for the disk of this folder where a disk is limited: a
/// group with them is made and removed.
///
/// # Errors
/// What is missing, by name, and what to do.
pub fn available(limits: &Limits, data_folder: Option<&Path>) -> Result<(), String> {
    Cgroup::begin("a trial", *limits, data_folder).map(drop).map_err(|problem| problem.to_string())
}
