//! The machine of the client: what a reader needs to judge whether figures can be compared.
//!
//! The host name is left out: results are published, and it says something about people, not about speed.

mod hosts;

use serde::{Deserialize, Serialize};

use crate::human::bytes;

pub use hosts::{authority_of, host_of, is_encrypted, is_loopback, port_of};

/// The machine of the client. What the system does not report is null.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Environment {
    /// Model of the processor.
    pub cpu_model: Option<String>,
    /// Logical processors of the machine.
    pub cpus: u64,
    /// Logical processors that this process may use (affinity and control group).
    pub cpus_available: u64,
    /// Frequency governor of the first processor.
    pub governor: Option<String>,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// Memory that was available when the run began.
    pub memory_available_bytes: Option<u64>,
    /// Limit of the control group's memory, if there is one.
    pub memory_limit_bytes: Option<u64>,
    /// Kernel and its release.
    pub kernel: String,
    /// Architecture: `x86_64`, `aarch64`, …
    pub architecture: String,
    /// Operating system, as it names itself.
    pub os: Option<String>,
    /// What hints at a virtual machine or container, if anything does.
    pub virtualisation: Option<String>,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// By how much the clock may be off at most, in ns, as its time service says. Null if nothing synchronises it.
    pub clock_error_ns: Option<u64>,
    /// A number that tells machines apart: a hash of the kernel's random number of this boot.
    pub boot: Option<String>,
    /// Files this process may hold open.
    pub open_files_limit: Option<u64>,
    /// Load average over one minute when the run began.
    pub load_average_1m: Option<f64>,
    /// The file systems that hold the data of embedded stores.
    pub disks: Vec<Disk>,
}

impl Environment {
    /// What may explain that figures differ between machines, by name.
    pub(crate) fn facts(&self) -> [(&'static str, String); 5] {
        let or = |text: Option<&str>| text.filter(|text| !text.is_empty()).unwrap_or("unknown").to_owned();
        [
            ("processor", or(self.cpu_model.as_deref())),
            ("processors", self.cpus_available.to_string()),
            ("memory", self.memory_bytes.map_or_else(|| "unknown".to_owned(), |n| bytes(n as f64))),
            ("kernel", or(Some(&self.kernel))),
            ("virtualisation", or(self.virtualisation.as_deref())),
        ]
    }
}

/// No device that keeps data without power answers a sync faster, in ns.
pub const SYNC_TOO_FAST_NS: u64 = 20_000;

/// The file system below a path.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Disk {
    /// The path.
    pub path: String,
    /// Type of the file system.
    pub filesystem: Option<String>,
    /// The mounted device.
    pub device: Option<String>,
    /// Its size.
    pub total_bytes: Option<u64>,
    /// What was free when the run began.
    pub free_bytes: Option<u64>,
    /// Whether the device reports that it rotates.
    pub rotational: Option<bool>,
    /// How long it took to sync 4 KiB of new data before the run, in ns: the median of 20. Null if no phase promises that
    /// its writes are synced, or if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_p50_ns: Option<u64>,
}
