//! Limits a server's processors, memory and disk bandwidth with a control group.

mod group;
mod layout;
mod write;

use std::path::{Path, PathBuf};

pub(crate) use group::clear;
pub use group::{Cgroup, GroupUse};

/// What a server may use. `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// Processors in total: 0.5 is half of one processor's time.
    pub cpus: Option<f64>,
    /// Memory including its page cache, in bytes. It gets no swap in addition.
    pub memory_bytes: Option<u64>,
    /// Bytes per second that it may read from its data disk.
    pub read_bytes_per_s: Option<u64>,
    /// Bytes per second that it may write to its data disk.
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
            return wrong("cpus", "expected at least 0.01");
        }
        if self.memory_bytes == Some(0) {
            return wrong("memory_bytes", "expected at least 1 byte");
        }
        for (limit, bytes) in
            [("read_bytes_per_s", self.read_bytes_per_s), ("write_bytes_per_s", self.write_bytes_per_s)]
        {
            if bytes == Some(0) {
                return wrong(limit, "0 means no limit on some systems; to stop its disk I/O, pause the server");
            }
        }
        Ok(())
    }
}

/// Why a limit cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitProblem {
    /// An invalid limit.
    #[error("invalid limit `{limit}`: {why}")]
    Value {
        /// The name of the limit.
        limit: &'static str,
        /// Why not.
        why: String,
    },
    /// The machine lacks the controller, or does not delegate it to this process.
    #[error("cannot limit {what}: {why}")]
    Missing {
        /// The limited resource.
        what: &'static str,
        /// What is missing, and what to do.
        why: String,
    },
    /// A group cannot be created.
    #[error("cannot create a control group in {}: {why}", .folder.display())]
    Refused {
        /// The parent folder.
        folder: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// The data is not on a disk that can be limited.
    #[error("cannot limit the disk: {0}")]
    Disk(String),
    /// More memory is in use than the limit, and the kernel cannot reclaim it.
    #[error(
        "cannot limit memory to {wanted} bytes: {used} bytes are in use and cannot be reclaimed; set the limit before \
         the server starts, or set a higher one"
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
        /// The path.
        file: PathBuf,
        /// The value that should have been written.
        value: String,
        /// Why not.
        why: String,
    },
}

/// Whether this process can set these limits on this machine. It creates and removes a group with them. A disk limit
/// applies to the disk of `data_folder`.
///
/// # Errors
/// Says what is missing and what to do.
pub fn available(limits: &Limits, data_folder: Option<&Path>) -> Result<(), String> {
    Cgroup::begin(*limits, data_folder).map(drop).map_err(|problem| problem.to_string())
}
