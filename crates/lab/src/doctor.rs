//! Checks this machine for problems that would distort a measurement.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use storebench_results::environment::{Environment, SYNC_TOO_FAST_NS};
use storebench_results::human::{bytes, count, digits, duration, percent};

use crate::environment::this_machine;
use crate::sync::sync_times;

/// The format name of a [`DoctorReport`].
pub const DOCTOR_FORMAT: &str = "storebench-doctor/2";

/// Number of timed sleeps, and their requested duration.
const SLEEPS: usize = 200;
const SLEEP: Duration = Duration::from_micros(500);

/// If wake-ups are later than this at p99, it shows in response times, in ns.
const LATE_NS: u64 = 1_000_000;
/// With a lower limit on open files, a client with many connections fails.
const FEW_FILES: u64 = 4_096;
/// Less free space than this fills up in a short run.
const LITTLE_DISK: u64 = 5 << 30;
/// Less memory than this is not enough for a client next to a store.
const LITTLE_MEMORY: u64 = 1 << 30;
/// Load average divided by the number of processors.
const LOADED: f64 = 0.25;
/// A sync slower than this limits any durable store, in ns.
const SLOW_NS: u64 = 20_000_000;

/// A description of this machine, and the problems that would distort a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DoctorReport {
    /// Always `storebench-doctor/2`.
    pub format: String,
    /// The checks.
    pub checks: Vec<DoctorCheck>,
    /// The machine, as described in results.
    pub environment: Environment,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DoctorCheck {
    /// The name: `cores`, `governor`, `clock`, `wake-up`, `files`, `memory`, `disk`, `fsync`, `virtualisation`, `load`,
    /// `cpu-quota`.
    pub check: String,
    /// Whether the check passed.
    pub state: CheckState,
    /// What was found.
    pub observed: String,
    /// The consequence and what to do, in one sentence.
    pub means: String,
}

/// Whether a check passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// No problem.
    Ok,
    /// It would distort some measurements.
    Caution,
}

/// Checks this machine and the place where embedded stores would keep their data. It takes well under a second on a
/// fast disk. It writes one file there, syncs it repeatedly, and removes it.
pub fn examine(path: &Path) -> DoctorReport {
    let environment = this_machine(&[path.to_owned()]);
    let checks = [
        ("cores", cores(&environment)),
        ("governor", governor(&environment)),
        ("clock", clock(&environment)),
        ("wake-up", wake_up(&wake_lateness())),
        ("files", files(&environment)),
        ("memory", memory(&environment)),
        ("disk", disk(&environment, path)),
        ("fsync", fsync(path, sync_times(path).as_deref())),
        ("virtualisation", virtualisation(&environment)),
        ("load", load_average(environment.load_average_1m, environment.cpus_available)),
        ("cpu-quota", cpu_quota(quota(), environment.cpus_available)),
    ];
    let told = |(check, of): (&str, DoctorCheck)| DoctorCheck { check: check.to_owned(), ..of };
    DoctorReport { format: DOCTOR_FORMAT.to_owned(), checks: checks.into_iter().map(told).collect(), environment }
}

/// The result of one check, without its name.
fn found(state: CheckState, observed: impl Into<String>, means: impl Into<String>) -> DoctorCheck {
    DoctorCheck { check: String::new(), state, observed: observed.into(), means: means.into() }
}

fn ok(observed: impl Into<String>, means: impl Into<String>) -> DoctorCheck {
    found(CheckState::Ok, observed, means)
}

fn caution(observed: impl Into<String>, means: impl Into<String>) -> DoctorCheck {
    found(CheckState::Caution, observed, means)
}

fn cores(e: &Environment) -> DoctorCheck {
    let observed = match &e.cpu_model {
        Some(model) => format!("{} of {} usable, {model}", e.cpus_available, e.cpus),
        None => format!("{} of {} usable", e.cpus_available, e.cpus),
    };
    match e.cpus_available {
        0..=1 => caution(observed, "client and store share one core, so figures include both"),
        2..=3 => caution(
            observed,
            "few cores: with as many workers as cores, the client competes with the store; start with --workers 1",
        ),
        n => ok(observed, format!("enough for up to {} workers next to a store on this machine", n / 2)),
    }
}

fn governor(e: &Environment) -> DoctorCheck {
    match e.governor.as_deref() {
        Some("performance") => ok("performance", "the core frequency is constant"),
        Some(other) => caution(
            other,
            "cores slow down between operations, so low rates look slower than high ones; set `performance`",
        ),
        None => ok("not available", "the host controls the core frequency"),
    }
}

fn clock(e: &Environment) -> DoctorCheck {
    match e.clock_source.as_deref() {
        Some(source @ ("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page")) => {
            ok(source, "reading the time takes tens of ns")
        }
        Some(source) => {
            caution(source, "reading the time is a system call, which adds up to 1 µs to each measured operation")
        }
        None => ok("not available", "times come from the system's monotonic clock"),
    }
}

/// How much later than requested a sleeping thread wakes up, sorted, in ns.
fn wake_lateness() -> Vec<u64> {
    // As workers do. If the kernel refuses, its default stays in effect.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let mut late: Vec<u64> = (0..SLEEPS)
        .map(|_| {
            let begun = Instant::now();
            std::thread::sleep(SLEEP);
            u64::try_from(begun.elapsed().saturating_sub(SLEEP).as_nanos()).unwrap_or(u64::MAX)
        })
        .collect();
    late.sort_unstable();
    late
}

/// The value that this share of the sorted values does not exceed; 0 if there are none.
fn quantile(sorted: &[u64], share: f64) -> u64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((share * last as f64).round() as usize).copied().unwrap_or(0)
}

fn wake_up(late: &[u64]) -> DoctorCheck {
    let p99 = quantile(late, 0.99);
    let observed = format!("{} late at p50, {} at p99", duration(quantile(late, 0.5) as f64), duration(p99 as f64));
    if p99 < LATE_NS {
        ok(observed, "sleeping threads wake up in time; pacing = \"economical\" suffices at a rate")
    } else {
        caution(
            observed,
            "sleeping threads wake up late, which adds to response times at a rate; use --pacing precise, and stop \
             other processes",
        )
    }
}

fn files(e: &Environment) -> DoctorCheck {
    match e.open_files_limit {
        Some(limit) if limit < FEW_FILES => caution(
            format!("limit {}", count(limit)),
            "many connections, or a store with many files, would reach this limit; raise it with `ulimit -n`",
        ),
        Some(limit) => ok(format!("limit {}", count(limit)), "enough for many connections"),
        None => ok("no limit", "enough for many connections"),
    }
}

fn memory(e: &Environment) -> DoctorCheck {
    let limit = e.memory_limit_bytes.into_iter().chain(e.memory_bytes).min();
    let free = e.memory_available_bytes.into_iter().chain(limit).min();
    let observed = match (free, limit) {
        (Some(free), Some(limit)) => format!("{} available of {}", bytes(free as f64), bytes(limit as f64)),
        _ => "not available".to_owned(),
    };
    let means = "smaller data is read from memory; to measure the disk, load more";
    match free {
        Some(free) if free < LITTLE_MEMORY => {
            caution(observed, "little memory: a store and its client may be killed or swapped out; free some")
        }
        _ => ok(observed, means),
    }
}

fn disk(e: &Environment, path: &Path) -> DoctorCheck {
    let Some(disk) = e.disks.first() else {
        return caution(path.display().to_string(), "its file system is unknown");
    };
    let kind = disk.filesystem.as_deref().unwrap_or("unknown file system");
    let free = disk.free_bytes.unwrap_or(0);
    let observed = format!("{}: {kind}, {} free", path.display(), bytes(free as f64));
    match kind {
        "tmpfs" | "ramfs" => {
            caution(observed, "this is memory: data does not survive a reboot, and syncs cost nothing")
        }
        "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "fuse.sshfs" => {
            caution(observed, "a network file system: it measures the network, and some stores lose data on it")
        }
        _ if disk.rotational == Some(true) => caution(
            observed,
            "it reports itself as a rotating disk, whose random reads wait for its heads to move; virtual disks may \
                 report so, too",
        ),
        _ if free < LITTLE_DISK => caution(observed, "little space: a load may fill it; use another path"),
        "overlay" => ok(observed, "a container's layers; a volume or another path is closer to a real server"),
        _ => ok(observed, "embedded stores keep their data here"),
    }
}

fn fsync(path: &Path, times: Result<&[u64], &io::Error>) -> DoctorCheck {
    let times = match times {
        Ok(times) => times,
        Err(e) => {
            let observed = format!("{}: {e}", path.display());
            return caution(observed, "not writable; give a folder that you may write to");
        }
    };
    let p50 = quantile(times, 0.5);
    let observed =
        format!("4 KiB in {} at p50, {} at most", duration(p50 as f64), duration(quantile(times, 1.0) as f64));
    let per_s = digits(1e9 / p50.max(1) as f64);
    match p50 {
        0..SYNC_TOO_FAST_NS => caution(
            observed,
            "faster than any device: a cache answers, so durability = \"fsync\" does not survive a power failure here",
        ),
        _ => {
            let means = format!("a writer that syncs each write reaches at most {per_s} writes per second");
            if p50 < SLOW_NS { ok(observed, means) } else { caution(observed, means) }
        }
    }
}

fn virtualisation(e: &Environment) -> DoctorCheck {
    match &e.virtualisation {
        Some(kind) => caution(
            kind.clone(),
            "neighbours share this machine, so figures drift; compare only runs that alternate (`repeats`)",
        ),
        None => ok("none detected", "the machine does not appear to be shared"),
    }
}

fn load_average(load: Option<f64>, cpus: u64) -> DoctorCheck {
    match load {
        Some(load) => {
            let share = load / cpus.max(1) as f64;
            let observed = format!("{load:.2} over one minute, {} of the cores", percent(share));
            if share > LOADED {
                caution(observed, "other processes take cores from client and store; stop them")
            } else {
                ok(observed, "little else is running")
            }
        }
        None => ok("not available", "make sure that no other processes run"),
    }
}

/// The number of processors that the control group allows this process, if limited.
fn quota() -> Option<f64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let own = read("/proc/self/cgroup").unwrap_or_default();
    let two = own.lines().find_map(|l| l.strip_prefix("0::")).unwrap_or("/");
    let one = own.lines().find(|l| l.split(':').nth(1).is_some_and(|c| c.split(',').any(|c| c == "cpu")));
    let one = one.and_then(|l| l.split(':').nth(2)).unwrap_or("/");
    // In a container, the group's folder is the root of the mount.
    for folder in [two, "/"] {
        if let Some(text) = read(&format!("/sys/fs/cgroup{folder}/cpu.max"))
            && let Some(quota) = quota_of(&text.replace('\n', " "))
        {
            return Some(quota);
        }
    }
    for folder in [one, "/"] {
        let value = |name: &str| read(&format!("/sys/fs/cgroup/cpu{folder}/{name}"));
        if let (Some(quota), Some(period)) = (value("cpu.cfs_quota_us"), value("cpu.cfs_period_us"))
            && let Some(quota) = quota_of(&format!("{} {}", quota.trim(), period.trim()))
        {
            return Some(quota);
        }
    }
    None
}

/// Parses `QUOTA PERIOD` of a control group; `max` and -1 mean no limit.
fn quota_of(text: &str) -> Option<f64> {
    let mut parts = text.split_whitespace();
    let (quota, period) = (parts.next()?.parse::<f64>().ok()?, parts.next()?.parse::<f64>().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

fn cpu_quota(quota: Option<f64>, cpus: u64) -> DoctorCheck {
    match quota {
        Some(quota) if quota < cpus as f64 => caution(
            format!("{} cores", digits(quota)),
            "when the quota of a period is used up, client and store stop until the next, so the limit determines \
             tail latencies; remove it",
        ),
        Some(quota) => ok(format!("{} cores", digits(quota)), "as many as the machine has"),
        None => ok("none", "no control group limits the CPU"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::SYNCS;

    #[test]
    fn every_check_is_there_and_says_something() {
        let folder = tempfile::tempdir().unwrap();
        let report = examine(folder.path());
        let names: Vec<&str> = report.checks.iter().map(|c| c.check.as_str()).collect();
        assert_eq!(
            names,
            [
                "cores",
                "governor",
                "clock",
                "wake-up",
                "files",
                "memory",
                "disk",
                "fsync",
                "virtualisation",
                "load",
                "cpu-quota"
            ]
        );
        assert!(report.checks.iter().all(|c| !c.observed.is_empty() && !c.means.is_empty()));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    }

    #[test]
    fn what_spoils_is_a_caution() {
        let with = |change: fn(&mut Environment)| {
            let mut e = Environment { cpus: 8, cpus_available: 8, ..Environment::default() };
            change(&mut e);
            e
        };
        let caution = |found: DoctorCheck| assert_eq!(found.state, CheckState::Caution, "{found:?}");
        let ok = |found: DoctorCheck| assert_eq!(found.state, CheckState::Ok, "{found:?}");
        ok(cores(&with(|_| {})));
        caution(cores(&with(|e| e.cpus_available = 1)));
        caution(governor(&with(|e| e.governor = Some("powersave".into()))));
        caution(clock(&with(|e| e.clock_source = Some("acpi_pm".into()))));
        ok(wake_up(&[50_000; 200]));
        caution(wake_up(&[2_000_000; 200]));
        caution(files(&with(|e| e.open_files_limit = Some(256))));
        caution(memory(&with(|e| e.memory_available_bytes = Some(1 << 20))));
        caution(load_average(Some(4.0), 8));
        ok(load_average(Some(0.5), 8));
        caution(cpu_quota(Some(0.1), 2));
        ok(cpu_quota(None, 2));
    }

    #[test]
    fn syncs_are_judged_by_their_median() {
        let state = |ns: u64| fsync(Path::new("x"), Ok(&[ns; SYNCS][..])).state;
        assert_eq!(state(1_000), CheckState::Caution);
        assert_eq!(state(500_000), CheckState::Ok);
        assert_eq!(state(50_000_000), CheckState::Caution);
        let refused = fsync(Path::new("x"), Err(&io::Error::other("no")));
        assert_eq!(refused.state, CheckState::Caution);
    }

    #[test]
    fn quotas_are_read_as_control_groups_write_them() {
        assert_eq!(quota_of("max 100000"), None);
        assert_eq!(quota_of("-1 100000"), None);
        assert_eq!(quota_of("10000 100000"), Some(0.1));
        assert_eq!(quota_of("nonsense"), None);
    }
}
