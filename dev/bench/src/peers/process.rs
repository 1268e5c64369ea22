//! Runs a client to its end, and tells what it took.

use std::io::{Read, Seek};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wait4::Wait4;

use crate::Failure;

/// What a client printed, and what the complete process took.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) text: String,
    /// Processor time, of which outside the kernel, in µs.
    pub(super) cpu_us: f64,
    pub(super) user_us: f64,
    pub(super) seconds: f64,
    /// The most resident memory, in MB.
    pub(super) peak_mb: f64,
    /// The most of it that the process allocated itself, looked at every 20 ms: without its program and libraries.
    pub(super) own_mb: f64,
}

/// Runs a client. `fine` lists the exit codes of a run that did its work.
pub(super) fn run(command: &mut Command, fine: &[i32]) -> Result<Ended, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
    let began = Instant::now();
    let mut child = command.spawn().map_err(|e| format!("{name} cannot be run: {e}"))?;
    let process = child.id();
    let gone = AtomicBool::new(false);
    let (ended, seconds, own_mb) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(process, &gone));
        let ended = child.wait4();
        let seconds = began.elapsed().as_secs_f64();
        gone.store(true, Ordering::Relaxed);
        (ended, seconds, watcher.join().unwrap_or(0.0))
    });
    let ended = ended?;
    let mut text = String::new();
    for file in [&mut out, &mut err] {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        text.push_str(&String::from_utf8_lossy(&bytes));
    }
    if !ended.status.code().is_some_and(|code| fine.contains(&code)) {
        return Err(format!("{name} ended with {}: {}", ended.status, text.trim()).into());
    }
    let user_us = ended.rusage.utime.as_secs_f64() * 1e6;
    Ok(Ended {
        text,
        cpu_us: user_us + ended.rusage.stime.as_secs_f64() * 1e6,
        user_us,
        seconds,
        peak_mb: ended.rusage.maxrss as f64 / 1e6,
        own_mb,
    })
}

/// The most anonymous memory of a process, in MB, until it is gone.
fn watch(process: u32, gone: &AtomicBool) -> f64 {
    let mut most: f64 = 0.0;
    while !gone.load(Ordering::Relaxed) {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        most = most.max(kib.unwrap_or(0.0) * 1.024e-3);
        std::thread::sleep(Duration::from_millis(20));
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_complete_process_is_measured() {
        let mut busy = Command::new("sh");
        busy.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; sleep 0.2; exit 3"]);
        let ended = run(&mut busy, &[3]).unwrap();
        assert!(ended.text == "done\n" && ended.cpu_us >= ended.user_us && ended.user_us > 0.0, "{ended:?}");
        assert!(ended.peak_mb > ended.own_mb && ended.own_mb > 0.01 && ended.seconds > 0.0, "{ended:?}");
        assert!(run(&mut busy, &[0]).unwrap_err().to_string().contains("done"));
        assert!(run(&mut Command::new("no-such-program"), &[0]).is_err());
    }
}
