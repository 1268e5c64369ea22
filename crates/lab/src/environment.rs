//! The machine of the client: what a reader needs to judge whether figures can be compared.
//!
//! The host's name is left out: results are published, and it tells about people, not about speed.

mod hosts;

use std::path::{Path, PathBuf};

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use hosts::{authority_of, host_of, is_here, is_loopback, port_of};

/// The machine of the client. What the system does not tell is null.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
    /// Operating system as it names itself.
    pub os: Option<String>,
    /// What hints at a virtual machine or container, if anything does.
    pub virtualisation: Option<String>,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// Files this process may hold open.
    pub open_files_limit: Option<u64>,
    /// Load average over one minute when the run began.
    pub load_average_1m: Option<f64>,
    /// Where the data of embedded stores lies.
    pub disks: Vec<Disk>,
}

/// The file system below a path.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Disk {
    /// The path.
    pub path: String,
    /// Type of the file system.
    pub filesystem: Option<String>,
    /// What it is mounted from.
    pub device: Option<String>,
    /// Its size.
    pub total_bytes: Option<u64>,
    /// What was free when the run began.
    pub free_bytes: Option<u64>,
    /// Whether the device says that it rotates.
    pub rotational: Option<bool>,
}

impl Environment {
    /// Looks at this machine, and at the file systems below these paths. Never fails.
    pub fn here(paths: &[PathBuf]) -> Self {
        let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
        let meminfo = read("/proc/meminfo").unwrap_or_default();
        let system = rustix::system::uname();
        let cpus = cpuinfo.lines().filter(|l| l.starts_with("processor")).count() as u64;
        let cpus_available = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        Self {
            cpu_model: after(&cpuinfo, "model name", ':').or_else(|| after(&cpuinfo, "Model", ':')),
            cpus: cpus.max(cpus_available),
            cpus_available,
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            memory_bytes: kib(&meminfo, "MemTotal"),
            memory_available_bytes: kib(&meminfo, "MemAvailable"),
            memory_limit_bytes: memory_limit(),
            kernel: format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy()),
            architecture: std::env::consts::ARCH.to_owned(),
            os: read("/etc/os-release")
                .and_then(|text| after(&text, "PRETTY_NAME", '='))
                .map(|name| name.trim_matches('"').to_owned()),
            virtualisation: virtualisation(&cpuinfo),
            clock_source: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            open_files_limit: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
            load_average_1m: read("/proc/loadavg").and_then(|t| t.split_whitespace().next()?.parse().ok()),
            disks: paths.iter().map(|path| Disk::below(path)).collect(),
        }
    }
}

impl Disk {
    /// The file system that a path is on, or would be on once it is made.
    pub fn below(path: &Path) -> Self {
        let mut disk = Self { path: path.display().to_string(), ..Self::default() };
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let Some(existing) = absolute.ancestors().find(|p| p.exists()).and_then(|p| p.canonicalize().ok()) else {
            return disk;
        };
        if let Ok(stat) = rustix::fs::statvfs(&existing) {
            disk.total_bytes = Some(stat.f_blocks.saturating_mul(stat.f_frsize));
            disk.free_bytes = Some(stat.f_bavail.saturating_mul(stat.f_frsize));
        }
        // Fields of a line: id, parent, major:minor, root, mount point, options, optional fields
        // that end with `-`, type, source (proc_pid_mountinfo(5)).
        let mounts = read("/proc/self/mountinfo").unwrap_or_default();
        let best = mounts
            .lines()
            .filter_map(|line| {
                let (left, right) = line.split_once(" - ")?;
                let left: Vec<&str> = left.split(' ').collect();
                let mut right = right.split(' ');
                let point = left.get(4)?.replace("\\040", " ");
                existing
                    .starts_with(&point)
                    .then(|| (point.len(), left.get(2).copied().unwrap_or_default(), right.next(), right.next()))
            })
            // Of mounts on one point the last one counts.
            .max_by_key(|(length, ..)| *length);
        if let Some((_, numbers, kind, source)) = best {
            disk.filesystem = kind.map(str::to_owned);
            disk.device = source.map(str::to_owned);
            let queue = |up: &str| read(&format!("/sys/dev/block/{numbers}{up}/queue/rotational"));
            disk.rotational = queue("").or_else(|| queue("/..")).map(|text| text == "1");
        }
        disk
    }
}

fn read(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn after(text: &str, name: &str, sign: char) -> Option<String> {
    let line = text.lines().find(|l| l.starts_with(name))?;
    Some(line.split_once(sign)?.1.trim().to_owned())
}

fn kib(meminfo: &str, name: &str) -> Option<u64> {
    let value = after(meminfo, name, ':')?;
    value.strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|n| n * 1_024)
}

fn memory_limit() -> Option<u64> {
    ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .iter()
        .filter_map(|path| read(path)?.parse::<u64>().ok())
        // Version 1 writes a number near 2^63 for none.
        .find(|n| *n < 1 << 62)
}

fn virtualisation(cpuinfo: &str) -> Option<String> {
    let mut hints = Vec::new();
    if Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists() {
        hints.push("container".to_owned());
    }
    if let Some(product) = read("/sys/class/dmi/id/product_name") {
        let known = ["virtual", "kvm", "qemu", "vmware", "bochs", "firecracker", "hvm", "compute engine"];
        if known.iter().any(|k| product.to_lowercase().contains(k)) {
            hints.push(product);
        }
    }
    let hypervisor = cpuinfo.lines().any(|l| l.starts_with("flags") && l.split(' ').any(|f| f == "hypervisor"));
    if hypervisor {
        hints.push(read("/sys/hypervisor/type").unwrap_or_else(|| "hypervisor".to_owned()));
    }
    (!hints.is_empty()).then(|| hints.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_described() {
        let dir = tempfile::tempdir().unwrap();
        let here = Environment::here(&[dir.path().join("not/yet/there")]);
        assert!(here.cpus >= here.cpus_available && here.cpus_available >= 1);
        assert!(here.memory_bytes.unwrap() > 1 << 20);
        assert!(here.disks[0].total_bytes.unwrap() > 0);
        assert!(here.disks[0].filesystem.is_some());
    }

    #[test]
    fn the_name_of_the_host_is_not_told() {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let text = serde_json::to_string(&Environment::here(&[])).unwrap();
        assert!(name.len() < 4 || !text.contains(&name), "{name} in {text}");
    }
}
