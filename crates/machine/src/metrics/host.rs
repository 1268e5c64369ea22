//! Metrics of a machine from node_exporter, and of a store's process.

use std::collections::BTreeSet;

use super::Sample;

/// What a machine and a process have used since they started, and hold now. `None` if the endpoint does not report it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostMetrics {
    /// Busy time of all processors, in seconds.
    pub cpu_busy_s: Option<f64>,
    /// Idle time of all processors, in seconds.
    pub cpu_idle_s: Option<f64>,
    /// Idle time while waiting for a disk, in seconds.
    pub cpu_iowait_s: Option<f64>,
    /// Time that the hypervisor gave to other virtual machines, in seconds.
    pub cpu_steal_s: Option<f64>,
    /// Memory that is available without swapping.
    pub memory_available_bytes: Option<f64>,
    /// Bytes read from disks. Partitions and devices built from others are left out, because they would count twice.
    pub disk_read_bytes: Option<f64>,
    /// Bytes written to the same disks.
    pub disk_written_bytes: Option<f64>,
    /// Bytes received over the network, without the traffic of a machine with itself and its own containers.
    pub network_received_bytes: Option<f64>,
    /// Bytes sent over the network, likewise.
    pub network_sent_bytes: Option<f64>,
    /// Time in which some task waited for memory, in seconds (pressure stall information).
    pub memory_waiting_s: Option<f64>,
    /// The same for disks.
    pub io_waiting_s: Option<f64>,
    /// Processor time of the scraped process, in seconds: a store or node_exporter itself.
    pub process_cpu_s: Option<f64>,
    /// Memory of that process.
    pub process_resident_bytes: Option<f64>,
}

impl HostMetrics {
    /// Reads them from the samples of an endpoint.
    pub fn of(samples: &[Sample]) -> Self {
        let total = |name: &str, counts: &dyn Fn(&Sample) -> bool| {
            let values =
                samples.iter().filter(|sample| sample.name == name && sample.value.is_finite() && counts(sample));
            values.map(|sample| sample.value).reduce(|sum, value| sum + value)
        };
        let only = |name| total(name, &|_| true);
        let cpu = |modes: &[&str]| {
            let counts = |sample: &Sample| sample.label("mode").is_some_and(|mode| modes.contains(&mode));
            total("node_cpu_seconds_total", &counts)
        };
        let disks: BTreeSet<&str> = samples
            .iter()
            .filter(|sample| sample.name.starts_with("node_disk_"))
            .filter_map(|sample| sample.label("device"))
            .collect();
        let disk = |name| {
            let counts = |sample: &Sample| sample.label("device").is_some_and(|device| is_disk(device, &disks));
            total(name, &counts)
        };
        let network = |name| {
            let counts = |sample: &Sample| sample.label("device").is_some_and(is_network);
            total(name, &counts)
        };
        Self {
            // `user` includes the guests' time.
            cpu_busy_s: cpu(&["user", "nice", "system", "irq", "softirq"]),
            cpu_idle_s: cpu(&["idle"]),
            cpu_iowait_s: cpu(&["iowait"]),
            cpu_steal_s: cpu(&["steal"]),
            memory_available_bytes: only("node_memory_MemAvailable_bytes"),
            disk_read_bytes: disk("node_disk_read_bytes_total"),
            disk_written_bytes: disk("node_disk_written_bytes_total"),
            network_received_bytes: network("node_network_receive_bytes_total"),
            network_sent_bytes: network("node_network_transmit_bytes_total"),
            memory_waiting_s: only("node_pressure_memory_waiting_seconds_total"),
            io_waiting_s: only("node_pressure_io_waiting_seconds_total"),
            process_cpu_s: only("process_cpu_seconds_total"),
            process_resident_bytes: only("process_resident_memory_bytes"),
        }
    }
}

/// Whether no other of these devices counts the same bytes.
fn is_disk(device: &str, all: &BTreeSet<&str>) -> bool {
    // Built from other devices, from files or from memory.
    let is_made = |kind: &str| {
        device
            .strip_prefix(kind)
            .is_some_and(|rest| rest.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit()))
    };
    if ["dm", "md", "loop", "ram", "zram"].into_iter().any(is_made) {
        return false;
    }
    // `sda1` is a partition of `sda`, `nvme0n1p1` of `nvme0n1`.
    let whole = device.trim_end_matches(|c: char| c.is_ascii_digit());
    whole == device || !(all.contains(whole) || whole.strip_suffix('p').is_some_and(|whole| all.contains(whole)))
}

/// Whether it leads out of the machine. Bridges and the ends of containers' links carry the traffic of other devices.
fn is_network(device: &str) -> bool {
    device != "lo" && !["veth", "docker", "br-", "virbr", "cni"].iter().any(|kind| device.starts_with(kind))
}

#[cfg(test)]
mod tests {
    use super::super::text::parse;
    use super::*;

    const NODE: &str = r#"# HELP go_goroutines Number of goroutines that currently exist.
# TYPE go_goroutines gauge
go_goroutines 9
# HELP node_cpu_guest_seconds_total Seconds the CPUs spent in guests (VMs) for each mode.
# TYPE node_cpu_guest_seconds_total counter
node_cpu_guest_seconds_total{cpu="0",mode="nice"} 0
node_cpu_guest_seconds_total{cpu="0",mode="user"} 1000
# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.
# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu="0",mode="idle"} 52104.25
node_cpu_seconds_total{cpu="0",mode="iowait"} 12.5
node_cpu_seconds_total{cpu="0",mode="irq"} 0
node_cpu_seconds_total{cpu="0",mode="nice"} 1.25
node_cpu_seconds_total{cpu="0",mode="softirq"} 8
node_cpu_seconds_total{cpu="0",mode="steal"} 3.5
node_cpu_seconds_total{cpu="0",mode="system"} 100
node_cpu_seconds_total{cpu="0",mode="user"} 300.5
node_cpu_seconds_total{cpu="1",mode="idle"} 52000
node_cpu_seconds_total{cpu="1",mode="iowait"} 7.5
node_cpu_seconds_total{cpu="1",mode="irq"} 0.25
node_cpu_seconds_total{cpu="1",mode="nice"} 0
node_cpu_seconds_total{cpu="1",mode="softirq"} 2
node_cpu_seconds_total{cpu="1",mode="steal"} 0.5
node_cpu_seconds_total{cpu="1",mode="system"} 50
node_cpu_seconds_total{cpu="1",mode="user"} 200
# HELP node_disk_io_time_seconds_total Total seconds spent doing I/Os.
# TYPE node_disk_io_time_seconds_total counter
node_disk_io_time_seconds_total{device="dm-0"} 40.5
node_disk_io_time_seconds_total{device="nvme0n1"} 41.5
node_disk_io_time_seconds_total{device="sda"} 2
node_disk_io_time_seconds_total{device="sda1"} 1.5
# HELP node_disk_read_bytes_total The total number of bytes read successfully.
# TYPE node_disk_read_bytes_total counter
node_disk_read_bytes_total{device="dm-0"} 4.096e+09
node_disk_read_bytes_total{device="nvme0n1"} 5e+09
node_disk_read_bytes_total{device="nvme0n1p1"} 4e+09
node_disk_read_bytes_total{device="sda"} 1024
node_disk_read_bytes_total{device="sda1"} 1000
# HELP node_disk_written_bytes_total The total number of bytes written successfully.
# TYPE node_disk_written_bytes_total counter
node_disk_written_bytes_total{device="loop0"} 77
node_disk_written_bytes_total{device="md127"} 7e+09
node_disk_written_bytes_total{device="nvme0n1"} 8e+09
node_disk_written_bytes_total{device="sda"} 0
# HELP node_load1 1m load average.
# TYPE node_load1 gauge
node_load1 0.21
# HELP node_memory_MemAvailable_bytes Memory information field MemAvailable_bytes.
# TYPE node_memory_MemAvailable_bytes gauge
node_memory_MemAvailable_bytes 6.0e+09
# HELP node_memory_MemTotal_bytes Memory information field MemTotal_bytes.
# TYPE node_memory_MemTotal_bytes gauge
node_memory_MemTotal_bytes 8.201850880e+09
# HELP node_network_receive_bytes_total Network device statistic receive_bytes.
# TYPE node_network_receive_bytes_total counter
node_network_receive_bytes_total{device="docker0"} 999
node_network_receive_bytes_total{device="ens5"} 1.5e+06
node_network_receive_bytes_total{device="ens6"} 500000
node_network_receive_bytes_total{device="lo"} 9.9e+09
node_network_receive_bytes_total{device="veth12ab"} 999
# HELP node_network_transmit_bytes_total Network device statistic transmit_bytes.
# TYPE node_network_transmit_bytes_total counter
node_network_transmit_bytes_total{device="ens5"} 3e+06
node_network_transmit_bytes_total{device="lo"} 9.9e+09
# HELP node_pressure_cpu_waiting_seconds_total Total time in seconds that processes have waited for CPU time
# TYPE node_pressure_cpu_waiting_seconds_total counter
node_pressure_cpu_waiting_seconds_total 11.014162
# HELP node_pressure_io_stalled_seconds_total Total time in seconds no process could make progress due to IO congestion
# TYPE node_pressure_io_stalled_seconds_total counter
node_pressure_io_stalled_seconds_total 159.2
# HELP node_pressure_io_waiting_seconds_total Total time in seconds that processes have waited due to IO congestion
# TYPE node_pressure_io_waiting_seconds_total counter
node_pressure_io_waiting_seconds_total 162.5
# HELP node_pressure_memory_waiting_seconds_total Total time in seconds that processes have waited for memory
# TYPE node_pressure_memory_waiting_seconds_total counter
node_pressure_memory_waiting_seconds_total 0
# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 2.04
# HELP process_open_fds Number of open file descriptors.
# TYPE process_open_fds gauge
process_open_fds 10
# HELP process_resident_memory_bytes Resident memory size in bytes.
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 2.2253568e+07
# HELP promhttp_metric_handler_requests_total Total number of scrapes by HTTP status code.
# TYPE promhttp_metric_handler_requests_total counter
promhttp_metric_handler_requests_total{code="200"} 4
"#;

    #[test]
    fn what_node_exporter_tells_is_added_up() {
        let expected = HostMetrics {
            cpu_busy_s: Some(662.0),
            cpu_idle_s: Some(104_104.25),
            cpu_iowait_s: Some(20.0),
            cpu_steal_s: Some(4.0),
            memory_available_bytes: Some(6e9),
            disk_read_bytes: Some(5_000_001_024.0),
            disk_written_bytes: Some(8e9),
            network_received_bytes: Some(2e6),
            network_sent_bytes: Some(3e6),
            memory_waiting_s: Some(0.0),
            io_waiting_s: Some(162.5),
            process_cpu_s: Some(2.04),
            process_resident_bytes: Some(22_253_568.0),
        };
        assert_eq!(HostMetrics::of(&parse(NODE).unwrap()), expected);
    }

    #[test]
    fn what_is_not_told_is_none() {
        assert_eq!(HostMetrics::of(&[]), HostMetrics::default());
        let text = "node_cpu_seconds_total 5\nnode_disk_read_bytes_total{device=\"dm-0\"} 1\nprocess_cpu_seconds_total NaN\nother 1\n";
        assert_eq!(HostMetrics::of(&parse(text).unwrap()), HostMetrics::default());
    }

    #[test]
    fn disks_and_parts_of_them_are_told_apart() {
        let all: BTreeSet<&str> =
            ["sda", "sda1", "sdb1", "nvme0n1", "nvme0n1p2", "vda", "mmcblk0", "mmcblk0p1", "xvda1", "dm-3"].into();
        let disks: Vec<_> = all.iter().copied().filter(|device| is_disk(device, &all)).collect();
        assert_eq!(disks, ["mmcblk0", "nvme0n1", "sda", "sdb1", "vda", "xvda1"]);
    }
}
