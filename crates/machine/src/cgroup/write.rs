//! Writes limits to the files of a control group.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::layout::{Controller, Version};
use super::{LimitProblem, Limits};
use crate::device::Device;

/// The period of the CPU quota, in µs: the kernel's default.
const PERIOD_US: u64 = 100_000;
/// The kernel rejects quotas below 1 ms.
pub(super) const LEAST_CPUS: f64 = 0.01;

/// Sets or removes the limits of one controller in a group.
pub(super) fn write(
    folder: &Path,
    version: Version,
    controller: Controller,
    limits: &Limits,
    device: Option<Device>,
) -> Result<(), LimitProblem> {
    match controller {
        Controller::Cpu => cpu(folder, version, limits.cpus),
        Controller::Memory => memory(folder, version, limits.memory_bytes),
        Controller::Disk => device.map_or(Ok(()), |device| disk(folder, version, limits, device)),
    }
}

fn put(folder: &Path, file: &str, value: &str) -> Result<(), LimitProblem> {
    put_raw(folder, file, value).map_err(|e| failed(folder, file, value, &e))
}

fn put_raw(folder: &Path, file: &str, value: &str) -> std::io::Result<()> {
    fs::write(folder.join(file), value)
}

fn failed(folder: &Path, file: &str, value: &str, error: &std::io::Error) -> LimitProblem {
    let file = folder.join(file);
    // These file systems cannot create files, and report that as a lack of permission.
    let why = if file.exists() { error.to_string() } else { "this kernel has no such limit".to_owned() };
    LimitProblem::File { file, value: value.to_owned(), why }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "limits are checked before")]
fn cpu(folder: &Path, version: Version, cpus: Option<f64>) -> Result<(), LimitProblem> {
    let quota = cpus.map(|cpus| (cpus * PERIOD_US as f64).round() as u64);
    match version {
        Version::One => {
            put(folder, "cpu.cfs_period_us", &PERIOD_US.to_string())?;
            put(folder, "cpu.cfs_quota_us", &quota.map_or("-1".to_owned(), |quota| quota.to_string()))
        }
        Version::Two => {
            let quota = quota.map_or("max".to_owned(), |quota| quota.to_string());
            put(folder, "cpu.max", &format!("{quota} {PERIOD_US}"))
        }
    }
}

fn memory(folder: &Path, version: Version, bytes: Option<u64>) -> Result<(), LimitProblem> {
    if version == Version::Two {
        // Disable swap first: memory above the limit must not be swapped out.
        if folder.join("memory.swap.max").exists() {
            put(folder, "memory.swap.max", bytes.map_or("max", |_| "0"))?;
        }
        return put(folder, "memory.max", &bytes.map_or("max".to_owned(), |bytes| bytes.to_string()));
    }
    let value = bytes.map_or("-1".to_owned(), |bytes| bytes.to_string());
    let set = |file: &str| {
        put_raw(folder, file, &value).map_err(|error| match (error.raw_os_error(), bytes) {
            (Some(number), Some(wanted)) if number == rustix::io::Errno::BUSY.raw_os_error() => {
                LimitProblem::InUse { wanted, used: number_of(folder, "memory.usage_in_bytes").unwrap_or(0) }
            }
            _ => failed(folder, file, &value, &error),
        })
    };
    let (alone, with_swap) = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes");
    if !folder.join(with_swap).exists() {
        return set(alone);
    }
    // The plain limit must never exceed the limit with swap.
    let raised = bytes.is_none_or(|bytes| number_of(folder, with_swap).is_some_and(|now| bytes > now));
    let order = if raised { [with_swap, alone] } else { [alone, with_swap] };
    order.into_iter().try_for_each(set)
}

fn disk(folder: &Path, version: Version, limits: &Limits, device: Device) -> Result<(), LimitProblem> {
    let (read, write) = (limits.read_bytes_per_s, limits.write_bytes_per_s);
    match version {
        Version::One => {
            // 0 removes the limit.
            let value = |bytes: Option<u64>| format!("{device} {}", bytes.unwrap_or(0));
            put(folder, "blkio.throttle.read_bps_device", &value(read))?;
            put(folder, "blkio.throttle.write_bps_device", &value(write))
        }
        Version::Two => {
            let value = |bytes: Option<u64>| bytes.map_or("max".to_owned(), |bytes| bytes.to_string());
            put(folder, "io.max", &format!("{device} rbps={} wbps={}", value(read), value(write)))
        }
    }
}

/// Removes all disk limits: a process that waits for a slow disk cannot end.
pub(super) fn lift_disks(folder: &Path) {
    for file in ["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device", "io.max"] {
        for line in fs::read_to_string(folder.join(file)).unwrap_or_default().lines() {
            let Some(device) = line.split(' ').next() else { continue };
            let none = if file == "io.max" { "rbps=max wbps=max" } else { "0" };
            let _ = put_raw(folder, file, &format!("{device} {none}"));
        }
    }
}

/// The number in a file.
pub(super) fn number_of(folder: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
}

/// The number after a name in a file of lines such as `oom_kill 3`.
pub(super) fn entry_of(folder: &Path, file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(folder.join(file)).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Whether the error says that something else still uses it.
pub(super) fn is_busy(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::ResourceBusy
}
