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

/// What the kernel adds to a parent that has waited for a child: user and system ticks, minor and major faults, bytes read and
/// written, calls that read and write.
type Counts = [u64; 8];

/// What a process has used, as it was seen last.
#[derive(Debug, Clone, Copy)]
struct Seen {
    used: Counts,
    /// What it had used before it was one of the tree.
    before: Counts,
    parent: u32,
    /// Switches because it waited, and because its time was over: the kernel forgets them with the process.
    switches: [u64; 2],
}

/// Adds up what the processes of a tree use, those among them that end, too: up to their last reading.
#[derive(Debug, Default)]
pub struct Watcher {
    seen: HashMap<Pid, Seen>,
    /// Of processes that have ended, and whose parent does not tell of them.
    gone: Counts,
    switches: [u64; 2],
    /// When was looked last, in ticks since the machine began.
    looked: Option<u64>,
}

impl Watcher {
    /// Reads what a tree uses now; `pss` costs the kernel a walk over its memory.
    pub fn look(&mut self, tree: &Tree, pss: bool) -> ProcessUse {
        let mut now = ProcessUse::default();
        let looked = self.looked.replace(ticks_now());
        for pid in tree.pids() {
            if !self.take(*pid, looked) {
                continue;
            }
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
        }
        self.bury();
        let mut all = self.gone;
        for seen in self.seen.values() {
            add(&mut all, &difference(&seen.used, &seen.before));
        }
        let [user, system, minor, major, read_bytes, write_bytes, read_calls, write_calls] = all;
        ProcessUse {
            user_ns: user * tick_ns(),
            system_ns: system * tick_ns(),
            minor_faults: minor,
            major_faults: major,
            read_bytes,
            write_bytes,
            read_calls,
            write_calls,
            waits: self.switches[0],
            preemptions: self.switches[1],
            ..now
        }
    }

    /// Reads one process; false where it is gone.
    fn take(&mut self, pid: Pid, looked: Option<u64>) -> bool {
        let Some((parent, cpu)) = cpu(pid) else { return false };
        let known = self.seen.get(&pid).copied();
        let io = io(pid).or(known.map(|seen| [seen.used[4], seen.used[5], seen.used[6], seen.used[7]]));
        let mut used = [0; 8];
        used[..4].copy_from_slice(&cpu);
        used[4..].copy_from_slice(&io.unwrap_or_default());
        // One that was there before and is of the tree only now, such as a server that has just been found.
        let is_found = looked.is_some_and(|looked| pid.began < looked);
        let before = known.map_or(if is_found { used } else { Counts::default() }, |seen| seen.before);
        let switches = switches(pid);
        let last = known.map_or(if is_found { switches } else { [0; 2] }, |seen| seen.switches);
        for (sum, (now, last)) in self.switches.iter_mut().zip(switches.iter().zip(last)) {
            *sum += now.saturating_sub(last);
        }
        self.seen.insert(pid, Seen { used, before, parent, switches });
        true
    }

    /// Keeps what those have used who have ended, unless a parent has waited for them and tells of it. Those who run on and
    /// were not of the tree this time, such as a node that is just being stopped, stay.
    fn bury(&mut self) {
        let ended: Vec<Pid> = self.seen.keys().filter(|pid| !pid.runs()).copied().collect();
        let dead: Vec<(Pid, Seen)> = ended.iter().filter_map(|pid| Some((*pid, self.seen.remove(pid)?))).collect();
        for (_, seen) in dead {
            let told = self.seen.keys().any(|pid| pid.number == seen.parent);
            if !told {
                add(&mut self.gone, &difference(&seen.used, &seen.before));
            }
        }
    }
}

fn add(sum: &mut Counts, more: &Counts) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

fn difference(of: &Counts, before: &Counts) -> Counts {
    std::array::from_fn(|nth| of[nth].saturating_sub(before[nth]))
}

/// Ticks since the machine began.
fn ticks_now() -> u64 {
    let seconds: f64 =
        read("/proc/uptime").and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or_default();
    (seconds * 1e9) as u64 / tick_ns()
}

/// The parent of a process; its user and system ticks, minor and major faults, with those of its children that it has waited for.
fn cpu(pid: Pid) -> Option<(u32, [u64; 4])> {
    let text = read(format!("/proc/{}/stat", pid.number))?;
    let fields: Vec<u64> =
        text.rsplit_once(')')?.1.split_ascii_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    // Field 3 is the first of them.
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
    let used = [field(14) + field(16), field(15) + field(17), field(10) + field(11), field(12) + field(13)];
    (field(22) == pid.began).then_some((u32::try_from(field(4)).unwrap_or(0), used))
}

/// Bytes that a process read and wrote, and its calls, with those of its children that it has waited for; none where it does not
/// tell, as of one that has ended.
fn io(pid: Pid) -> Option<[u64; 4]> {
    let text = read(format!("/proc/{}/io", pid.number))?;
    let of = |name: &str| field(&text, name);
    let written = of("write_bytes")?.saturating_sub(of("cancelled_write_bytes").unwrap_or(0));
    Some([of("read_bytes")?, written, of("syscr")?, of("syscw")?])
}

/// Switches of all threads of a process that are there now: its own status tells of its first thread alone.
fn switches(pid: Pid) -> [u64; 2] {
    let mut all = [0; 2];
    for task in fs::read_dir(format!("/proc/{}/task", pid.number)).into_iter().flatten().flatten() {
        let status = read(task.path().join("status")).unwrap_or_default();
        all[0] += field(&status, "voluntary_ctxt_switches").unwrap_or(0);
        all[1] += field(&status, "nonvoluntary_ctxt_switches").unwrap_or(0);
    }
    all
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

    /// A shell that counts for a while and then sleeps.
    fn spin() -> (std::process::Child, Pid) {
        let script = "n=0; while [ $n -lt 200000 ]; do n=$((n+1)); done; sleep 600";
        let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let pid = Pid::of(child.id()).unwrap();
        (child, pid)
    }

    /// Of two nodes one is killed, and the other left out for once: nothing is counted twice, and nothing forgotten.
    #[test]
    fn nodes_that_end_or_are_left_out_are_counted_once() {
        let (mut one, first) = spin();
        let (mut other, second) = spin();
        let mut watcher = Watcher::default();
        let spent = |used: ProcessUse| used.user_ns + used.system_ns;
        let both = |watcher: &mut Watcher| spent(watcher.look(&Tree::of(&[first, second]), false));
        // Both have done what they do and sleep.
        let sleeps = |pid: Pid| Tree::of(&[pid]).pids().len() == 2;
        while !(sleeps(first) && sleeps(second)) {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let before = both(&mut watcher);
        assert!(before >= 50_000_000, "{before}");
        let alone = spent(watcher.look(&Tree::of(&[second]), false));
        Tree::of(&[first]).kill();
        one.wait().unwrap();
        let after = spent(watcher.look(&Tree::of(&[second]), false));
        let without = spent(watcher.look(&Tree::of(&[]), false));
        let again = both(&mut watcher);
        Tree::of(&[second]).kill();
        other.wait().unwrap();
        // A tick or two for the end of a process.
        for now in [alone, after, without, again, both(&mut watcher)] {
            assert!((before..before + 40_000_000).contains(&now), "{before} {now}");
        }
    }

    /// One that is found while it runs is counted from then on.
    #[test]
    fn what_a_server_used_before_it_was_found_is_none_of_the_phases() {
        let (mut child, pid) = spin();
        while Tree::of(&[pid]).pids().len() < 2 {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let mut watcher = Watcher::default();
        watcher.look(&Tree::of(&[]), false);
        let used = watcher.look(&Tree::of(&[pid]), false);
        Tree::of(&[pid]).kill();
        child.wait().unwrap();
        assert!(used.user_ns < 20_000_000 && used.processes == 2, "{used:?}");
    }

    #[test]
    fn a_server_that_was_started_again_goes_on_counting() {
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
