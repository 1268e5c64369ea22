//! Describes this machine, and finds out whether a store is on it.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};

use storebench_machine::{clock_state, mount_of};
use storebench_results::environment::{Disk, Environment, host_of, is_loopback};

/// Describes this machine and the file systems of these paths. Never fails.
pub(crate) fn this_machine(paths: &[PathBuf]) -> Environment {
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let meminfo = read("/proc/meminfo").unwrap_or_default();
    let system = rustix::system::uname();
    let cpus = cpuinfo.lines().filter(|l| l.starts_with("processor")).count() as u64;
    let cpus_available = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    Environment {
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
        clock_error_ns: clock_state().and_then(|clock| clock.error_ns),
        boot: read("/proc/sys/kernel/random/boot_id").map(|id| format!("{:016x}", hash(&id))),
        open_files_limit: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
        load_average_1m: read("/proc/loadavg").and_then(|t| t.split_whitespace().next()?.parse().ok()),
        disks: paths.iter().map(|path| disk_below(path)).collect(),
    }
}

/// FNV-1a, which is the same in every process: <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The file system that holds a path, or would hold it once it is created.
fn disk_below(path: &Path) -> Disk {
    let mut disk = Disk { path: path.display().to_string(), ..Disk::default() };
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let Some(existing) = absolute.ancestors().find(|p| p.exists()).and_then(|p| p.canonicalize().ok()) else {
        return disk;
    };
    if let Ok(stat) = rustix::fs::statvfs(&existing) {
        disk.total_bytes = Some(stat.f_blocks.saturating_mul(stat.f_frsize));
        disk.free_bytes = Some(stat.f_bavail.saturating_mul(stat.f_frsize));
    }
    if let Some(mount) = mount_of(&existing) {
        disk.filesystem = Some(mount.kind);
        disk.device = Some(mount.source.display().to_string());
        let queue = |up: &str| read(&format!("/sys/dev/block/{}{up}/queue/rotational", mount.device));
        disk.rotational = queue("").or_else(|| queue("/..")).map(|text| text == "1");
    }
    disk
}

/// Whether the host of a URL is this machine, by its addresses. `None` for a URL without a host, or with a name that
/// cannot be resolved.
pub(crate) fn is_here(url: &str) -> Option<bool> {
    let host = host_of(url)?;
    if is_loopback(url) {
        return Some(true);
    }
    let addresses: Vec<IpAddr> = (host, 0).to_socket_addrs().ok()?.map(|address| address.ip()).collect();
    // Only addresses of this machine can be bound.
    (!addresses.is_empty()).then(|| addresses.iter().any(|address| UdpSocket::bind((*address, 0)).is_ok()))
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
        // Version 1 writes a number near 2^63 for no limit.
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
        let here = this_machine(&[dir.path().join("not/yet/there")]);
        assert!(here.cpus >= here.cpus_available && here.cpus_available >= 1);
        assert!(here.memory_bytes.unwrap() > 1 << 20);
        assert!(here.disks[0].total_bytes.unwrap() > 0);
        assert!(here.disks[0].filesystem.is_some());
    }

    #[test]
    fn the_name_of_the_host_is_not_told() {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let text = serde_json::to_string(&this_machine(&[])).unwrap();
        assert!(name.len() < 4 || !text.contains(&name), "{name} in {text}");
    }

    #[test]
    fn an_address_is_here_if_it_can_be_bound() {
        assert_eq!(is_here("a://127.0.0.1:1/b"), Some(true));
        assert_eq!(is_here("a://localhost/b"), Some(true));
        // An address reserved for documentation, which no machine has.
        assert_eq!(is_here("a://203.0.113.7/b"), Some(false));
        assert_eq!(is_here("a://no-such-host.invalid/b"), None);
        assert_eq!(is_here("memory:"), None);
    }
}
