//! What this process uses of the machine: CPU and memory, and whether it is starved.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Clock;

/// How often the process is sampled. This does not divide the 100 ms period of scheduler quotas: a sampler in step with
/// the quotas would only wake while the process is allowed to run.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(17);

/// The process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResourceSample {
    /// When, in ns from the phase's start.
    pub at_ns: u64,
    /// Resident memory in bytes.
    pub rss_bytes: u64,
    /// CPU time of the whole process since it began, user and system, in ns.
    pub cpu_ns: u64,
    /// How late the sampler itself was woken, in ns. It reveals a process that is stopped, throttled or starved.
    pub lateness_ns: u64,
}

/// Samples the process on a separate thread until it is stopped.
pub struct Sampler {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Vec<ResourceSample>>,
}

impl Sampler {
    /// Starts sampling. Times count from `start_ns` of the clock.
    pub fn start(clock: impl Clock, start_ns: u64) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("resources".into()).spawn(move || {
            let memory = Memory::open();
            let sample = |at_ns, lateness_ns| ResourceSample {
                at_ns,
                rss_bytes: memory.rss_bytes(),
                cpu_ns: process_cpu_ns(),
                lateness_ns,
            };
            let mut samples = vec![sample(clock.now_ns().saturating_sub(start_ns), 0)];
            let every = SAMPLE_EVERY.as_nanos() as u64;
            let mut scheduled = clock.now_ns() + every;
            loop {
                let wait = scheduled.saturating_sub(clock.now_ns());
                let ended =
                    !matches!(stopped.recv_timeout(Duration::from_nanos(wait)), Err(mpsc::RecvTimeoutError::Timeout));
                let now = clock.now_ns();
                let lateness_ns = if ended { 0 } else { now.saturating_sub(scheduled) };
                samples.push(sample(now.saturating_sub(start_ns), lateness_ns));
                if ended {
                    return samples;
                }
                scheduled = now + every;
            }
        })?;
        Ok(Self { stop, thread })
    }

    /// Stops sampling and returns the samples in order.
    pub fn finish(self) -> Vec<ResourceSample> {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

/// The memory of this process, read from a file that stays open: one system call each time.
struct Memory(Option<File>);

impl Memory {
    fn open() -> Self {
        Self(File::open("/proc/self/statm").ok())
    }

    /// Resident memory in bytes; 0 if the system does not report it.
    fn rss_bytes(&self) -> u64 {
        let pages = || {
            let mut text = [0; 128];
            let bytes = self.0.as_ref()?.read_at(&mut text, 0).ok()?;
            std::str::from_utf8(&text[..bytes]).ok()?.split(' ').nth(1)?.parse::<u64>().ok()
        };
        pages().unwrap_or(0) * rustix::param::page_size() as u64
    }
}

/// Resident memory of this process in bytes; 0 if the system does not report it.
pub fn rss_bytes() -> u64 {
    Memory::open().rss_bytes()
}

fn nanoseconds(time: rustix::time::Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time of this process, user and system, in ns.
pub fn process_cpu_ns() -> u64 {
    nanoseconds(rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime))
}

/// CPU time of the calling thread, user and system, in ns.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime))
}

/// How long the calling thread was ready to run but not running, in ns; 0 if the system does not report it
/// (`/proc/thread-self/schedstat`, second figure).
pub fn thread_run_queue_ns() -> u64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealClock;

    #[test]
    fn the_process_can_be_seen() {
        let clock = RealClock::new();
        let sampler = Sampler::start(clock.clone(), clock.now_ns()).unwrap();
        std::thread::sleep(SAMPLE_EVERY * 3);
        let samples = sampler.finish();
        assert!(samples.len() >= 2);
        assert!(samples.iter().all(|s| s.rss_bytes > 0 && s.cpu_ns > 0));
        assert!(samples.windows(2).all(|w| w[0].at_ns <= w[1].at_ns && w[0].cpu_ns <= w[1].cpu_ns));
    }
}
