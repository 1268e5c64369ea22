//! What a tree of processes uses.

use std::collections::HashMap;
use std::fs;

use super::{field, read, tick_ns};
use crate::process::{Pid, Tree};

/// What a tree of processes has used since it was watched, and holds now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessUse {
    /// Processor time in user mode, in ns. Of processes that have ended: where another of the tree has waited for them.
    pub user_ns: u64,
    /// Processor time in the kernel, in ns.
    pub system_ns: u64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that read from disk.
    pub major_faults: u64,
    /// Bytes that it had read from the storage layer.
    pub read_bytes: u64,
    /// Bytes that it had sent to the storage layer: counted when a page is made dirty, less what was thrown away.
    pub write_bytes: u64,
    /// Calls that read.
    pub read_calls: u64,
    /// Calls that write.
    pub write_calls: u64,
    /// Switches to another process because it waited.
    pub waits: u64,
    /// Switches to another process because its time was over.
    pub preemptions: u64,
    /// Resident memory now, in bytes: what processes share counts for each of them.
    pub rss_bytes: u64,
    /// Its share of resident memory now, in bytes: what processes share counts once; 0 where it was not asked for.
    pub pss_bytes: u64,
    /// Processes now.
    pub processes: u64,
    /// Threads now.
    pub threads: u64,
    /// Open files now.
    pub open_files: u64,
}

/// Counts that the kernel forgets with the process.
#[derive(Debug, Clone, Copy, Default)]
struct Own {
    read_bytes: u64,
    write_bytes: u64,
    read_calls: u64,
    write_calls: u64,
    waits: u64,
    preemptions: u64,
}

/// Adds up what the processes of a tree use, those among them that end, too: up to their last reading.
#[derive(Debug, Default)]
pub struct Watcher {
    before: HashMap<Pid, Own>,
    sums: Own,
    /// Of processes whose parent is not of the tree any more, or was never: what they had used when they were seen last.
    cpu: HashMap<Pid, [u64; 4]>,
    gone: [u64; 4],
    roots: Vec<Pid>,
}

impl Watcher {
    /// Reads what a tree uses now; `pss` costs the kernel a walk over its memory.
    pub fn look(&mut self, tree: &Tree, pss: bool) -> ProcessUse {
        let mut now = ProcessUse::default();
        let root = tree.pids().first().copied();
        // Another server stands in its place: what the one before used stays counted.
        if root != self.roots.last().copied()
            && let Some(root) = root
        {
            let ended: Vec<[u64; 4]> = self.cpu.drain().map(|(_, used)| used).collect();
            for used in ended {
                add(&mut self.gone, used);
            }
            self.roots.push(root);
        }
        let mut living = HashMap::new();
        for pid in tree.pids() {
            let Some(cpu) = cpu(*pid) else { continue };
            living.insert(*pid, cpu);
            now.processes += 1;
            let path = |name: &str| format!("/proc/{}/{name}", pid.number);
            if let Some(status) = read(path("status")) {
                now.rss_bytes += field(&status, "VmRSS").unwrap_or(0) << 10;
                now.threads += field(&status, "Threads").unwrap_or(0);
            }
            now.open_files += fs::read_dir(path("fd")).map_or(0, |entries| entries.count() as u64);
            if pss && let Some(rollup) = read(path("smaps_rollup")) {
                now.pss_bytes += field(&rollup, "Pss").unwrap_or(0) << 10;
            }
            self.own(*pid);
        }
        if !living.is_empty() {
            // Of one that has ended its parent, who waited for it, tells.
            self.cpu = living;
        }
        let mut all = self.gone;
        self.cpu.values().for_each(|used| add(&mut all, *used));
        let [user, system, minor, major] = all;
        ProcessUse {
            user_ns: user * tick_ns(),
            system_ns: system * tick_ns(),
            minor_faults: minor,
            major_faults: major,
            read_bytes: self.sums.read_bytes,
            write_bytes: self.sums.write_bytes,
            read_calls: self.sums.read_calls,
            write_calls: self.sums.write_calls,
            waits: self.sums.waits,
            preemptions: self.sums.preemptions,
            ..now
        }
    }

    /// Adds what a process has done since it was looked at last.
    fn own(&mut self, pid: Pid) {
        let io = read(format!("/proc/{}/io", pid.number)).unwrap_or_default();
        let mut now = Own {
            read_bytes: field(&io, "read_bytes").unwrap_or(0),
            write_bytes: field(&io, "write_bytes")
                .unwrap_or(0)
                .saturating_sub(field(&io, "cancelled_write_bytes").unwrap_or(0)),
            read_calls: field(&io, "syscr").unwrap_or(0),
            write_calls: field(&io, "syscw").unwrap_or(0),
            ..Own::default()
        };
        // The status of a process tells of its first thread alone.
        for task in fs::read_dir(format!("/proc/{}/task", pid.number)).into_iter().flatten().flatten() {
            let status = read(task.path().join("status")).unwrap_or_default();
            now.waits += field(&status, "voluntary_ctxt_switches").unwrap_or(0);
            now.preemptions += field(&status, "nonvoluntary_ctxt_switches").unwrap_or(0);
        }
        let before = self.before.insert(pid, now).unwrap_or_default();
        let sums = &mut self.sums;
        for (sum, now, before) in [
            (&mut sums.read_bytes, now.read_bytes, before.read_bytes),
            (&mut sums.write_bytes, now.write_bytes, before.write_bytes),
            (&mut sums.read_calls, now.read_calls, before.read_calls),
            (&mut sums.write_calls, now.write_calls, before.write_calls),
            (&mut sums.waits, now.waits, before.waits),
            (&mut sums.preemptions, now.preemptions, before.preemptions),
        ] {
            *sum += now.saturating_sub(before);
        }
    }
}

fn add(sum: &mut [u64; 4], more: [u64; 4]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// User and system ticks, minor and major faults of a process, and of its children that it has waited for.
fn cpu(pid: Pid) -> Option<[u64; 4]> {
    let text = read(format!("/proc/{}/stat", pid.number))?;
    let fields: Vec<u64> =
        text.rsplit_once(')')?.1.split_ascii_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    // Field 3 is the first of them.
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
    (field(22) == pid.began)
        .then(|| [field(14) + field(16), field(15) + field(17), field(10) + field(11), field(12) + field(13)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Waits until a script has made a file, and gives what its tree has used by then.
    fn used(script: &str, done: &std::path::Path) -> (ProcessUse, ProcessUse) {
        let mut child = Command::new("sh").args(["-c", script]).current_dir(done.parent().unwrap()).spawn().unwrap();
        let pid = Pid::of(child.id()).unwrap();
        let mut watcher = Watcher::default();
        let first = watcher.look(&Tree::of(&[pid]), false);
        while !done.exists() {
            watcher.look(&Tree::of(&[pid]), false);
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let last = watcher.look(&Tree::of(&[pid]), true);
        Tree::of(&[pid]).kill();
        child.wait().unwrap();
        (first, last)
    }

    #[test]
    fn what_children_used_that_have_ended_stays_counted() {
        let folder = tempfile::tempdir().unwrap();
        let done = folder.path().join("done");
        let script = "i=0; while [ $i -lt 3 ]; do (n=0; while [ $n -lt 60000 ]; do n=$((n+1)); done); i=$((i+1)); done; \
                      touch done; exec sleep 600";
        let (first, last) = used(script, &done);
        let spent = |of: ProcessUse| of.user_ns + of.system_ns;
        assert!(spent(last) > spent(first) + 20_000_000, "{first:?} {last:?}");
        assert!(last.processes >= 1 && last.threads >= 1 && last.rss_bytes > 100_000, "{last:?}");
        assert!(last.pss_bytes > 0 && last.pss_bytes <= last.rss_bytes && first.pss_bytes == 0);
        assert!(last.minor_faults > first.minor_faults && last.open_files > 0);
    }

    #[test]
    fn what_is_written_is_counted() {
        // On the disk that the build is on: a folder of temporary files may be in memory.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let done = folder.path().join("done");
        let (first, last) =
            used("sleep 0.05; dd if=/dev/zero of=it bs=1M count=8 2>&-; sleep 0.05; touch done; exec sleep 600", &done);
        let written = last.write_calls - first.write_calls;
        assert!(written >= 1, "{last:?}");
        assert!(last.waits >= first.waits);
    }

    #[test]
    fn a_server_that_was_started_again_goes_on_counting() {
        let spin = || {
            let mut child = Command::new("sh")
                .args(["-c", "n=0; while [ $n -lt 200000 ]; do n=$((n+1)); done; sleep 600"])
                .spawn()
                .unwrap();
            let pid = Pid::of(child.id()).unwrap();
            (std::mem::replace(&mut child, Command::new("true").spawn().unwrap()), pid)
        };
        let mut watcher = Watcher::default();
        let mut before = 0;
        for _ in 0..2 {
            let (mut child, pid) = spin();
            let spent = |watcher: &mut Watcher| {
                let used = watcher.look(&Tree::of(&[pid]), false);
                used.user_ns + used.system_ns
            };
            while spent(&mut watcher) < before + 50_000_000 {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            child.kill().unwrap();
            child.wait().unwrap();
            before = spent(&mut watcher);
            assert!(before >= 50_000_000, "it does not forget what has ended: {before}");
        }
        assert!(before >= 100_000_000);
    }
}
