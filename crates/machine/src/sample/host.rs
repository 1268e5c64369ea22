//! What the whole machine uses.

use super::{field, read, tick_ns};

/// What the machine has used since boot, and has free now. Zero if the system does not report it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostUse {
    /// Busy time of all processors, in ns.
    pub busy_ns: u64,
    /// Total time of all processors, busy or not, in ns.
    pub all_ns: u64,
    /// Part of it: idle while waiting for a disk.
    pub disk_wait_ns: u64,
    /// Part of it: given by the hypervisor to other virtual machines.
    pub stolen_ns: u64,
    /// Memory that is available without swapping, in bytes.
    pub available_bytes: u64,
    /// Time in which some task waited for a processor, in ns (pressure stall information).
    pub cpu_pressure_ns: u64,
    /// The same for memory.
    pub memory_pressure_ns: u64,
    /// The same for disks.
    pub disk_pressure_ns: u64,
}

/// Reads what the machine uses now.
pub fn host_use() -> HostUse {
    let mut out = HostUse::default();
    let stat = read("/proc/stat").unwrap_or_default();
    if let Some(line) = stat.lines().next().and_then(|line| line.strip_prefix("cpu ")) {
        let ticks: Vec<u64> = line.split_ascii_whitespace().map(|n| n.parse().unwrap_or(0)).collect();
        let at = |nth: usize| ticks.get(nth).copied().unwrap_or(0) * tick_ns();
        // user, nice, system, idle, iowait, irq, softirq, steal; user includes guests.
        out.busy_ns = at(0) + at(1) + at(2) + at(5) + at(6);
        out.disk_wait_ns = at(4);
        out.stolen_ns = at(7);
        out.all_ns = out.busy_ns + at(3) + at(4) + at(7);
    }
    out.available_bytes = field(&read("/proc/meminfo").unwrap_or_default(), "MemAvailable").unwrap_or(0) << 10;
    let pressure = |what: &str| {
        let text = read(format!("/proc/pressure/{what}")).unwrap_or_default();
        let some = text.lines().find_map(|line| line.strip_prefix("some ")).unwrap_or_default();
        let total = some.split_ascii_whitespace().find_map(|pair| pair.strip_prefix("total="));
        total.and_then(|us| us.parse::<u64>().ok()).unwrap_or(0) * 1_000
    };
    out.cpu_pressure_ns = pressure("cpu");
    out.memory_pressure_ns = pressure("memory");
    out.disk_pressure_ns = pressure("io");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_tells_of_itself() {
        let first = host_use();
        assert!(first.all_ns >= first.busy_ns && first.available_bytes > 1 << 20, "{first:?}");
        let later = host_use();
        assert!(later.all_ns >= first.all_ns);
    }
}
