//! Limits of a server: processors, memory and the speed of its disk, by a control group of its own.

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
