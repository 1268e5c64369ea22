//! What a process tree uses.

use std::collections::HashMap;
use std::fs;

use super::{field, read, tick_ns};
use crate::process::{Pid, Tree};

/// What a process tree has used since it was first watched, and holds now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessUse {
    /// Processor time, in ns, exact. For a process that has ended: everything, if another process of the tree has
    /// waited for it; otherwise what it had used at its last reading.
    pub cpu_ns: u64,
    /// The user-mode part, in ns, rounded to the kernel's ticks (usually 10 ms). Use it as a share of the total, not to
    /// measure short times.
    pub user_ns: u64,
    /// The kernel-mode part, likewise.
    pub system_ns: u64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that read from disk.
    pub major_faults: u64,
    /// Bytes that it caused to be read from the storage layer.
    pub read_bytes: u64,
    /// Bytes that it sent to the storage layer: counted when a page becomes dirty, minus truncated pages.
    pub write_bytes: u64,
    /// Read calls.
    pub read_calls: u64,
    /// Write calls.
    pub write_calls: u64,
    /// Context switches because it waited.
    pub waits: u64,
    /// Context switches because its time slice ended.
    pub preemptions: u64,
    /// Resident memory now, in bytes. Shared memory counts once for each process.
    pub rss_bytes: u64,
    /// Proportional share of resident memory now, in bytes. Shared memory counts once. 0 if it was not requested.
    pub pss_bytes: u64,
    /// Processes now.
    pub processes: u64,
    /// Threads now.
    pub threads: u64,
    /// Open files now.
    pub open_files: u64,
}

/// How often processes are read again because one ended meanwhile.
const TRIES: u32 = 5;
/// User and system ticks, minor and major faults, ns.
type Cpu = [u64; 5];
/// The index of the ns. The kernel does not pass ns to a waiting parent: for children it reports only ticks.
const NS: usize = 4;
/// Bytes read and written, read calls, write calls.
type Io = [u64; 4];

/// What a process has used up to now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Reading {
    /// Its parent, if that is in the tree.
    parent: Option<Pid>,
    /// Its own.
    cpu: Cpu,
    /// The children that it has waited for, and theirs.
    waited: Cpu,
    /// Its own, plus the children that it has waited for: the kernel does not separate them.
    io: Io,
    /// Switches because it waited, and because its time slice ended, for its current threads.
    switches: [u64; 2],
}

impl Reading {
    fn all_cpu(&self) -> Cpu {
        sum(self.cpu, self.waited)
    }
}

/// Adds up what the processes of a tree use. Those that have ended count up to their last reading.
///
/// As long as a process exists, its usage counts with it, whether or not the given tree contains it. When it is gone,
/// its usage counts with the process that has waited for it, or is kept here.
#[derive(Debug, Default)]
pub struct Watcher {
    /// Processes that still exist, at their last reading.
    seen: HashMap<Pid, Reading>,
    /// Processes that are gone, and that no process of the tree has waited for.
    gone: (Cpu, Io),
    /// What processes had used before they were first seen. It is not counted.
    before: (Cpu, Io),
    switches: [u64; 2],
    /// The last look, in ticks since boot.
    looked: Option<u64>,
}

impl Watcher {
    /// Reads what a tree uses now. `pss` makes the kernel walk its memory.
    pub fn look(&mut self, tree: &Tree, pss: bool) -> ProcessUse {
        let mut tries = 0;
        let (gone, readings) = loop {
            tries += 1;
            let gone: Vec<Pid> = self.seen.keys().copied().filter(|pid| !is_there(*pid)).collect();
            let readings = self.readings(tree);
            // If a process ends meanwhile, its parent may have been read before or after that.
            if tries == TRIES || readings.keys().all(|pid| is_there(*pid)) {
                break (gone, readings);
            }
        };
        let mut now = ProcessUse::default();
        for pid in readings.keys() {
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
        let looked = self.looked.replace(ticks_now());
        self.find(looked, &readings);
        self.take(gone, readings);
        let ([user, system, minor_faults, major_faults, cpu_ns], io) = self.sums();
        let [read_bytes, write_bytes, read_calls, write_calls] = io;
        let [waits, preemptions] = self.switches;
        ProcessUse {
            cpu_ns,
            user_ns: user * tick_ns(),
            system_ns: system * tick_ns(),
            minor_faults,
            major_faults,
            read_bytes,
            write_bytes,
            read_calls,
            write_calls,
            waits,
            preemptions,
            ..now
        }
    }

    fn sums(&self) -> (Cpu, Io) {
        let all = |(cpu, io), reading: &Reading| (sum(cpu, reading.all_cpu()), sum(io, reading.io));
        let (cpu, io) = self.seen.values().fold(self.gone, all);
        (less(cpu, self.before.0), less(io, self.before.1))
    }

    /// Counts some processes only from now on: those that started before the last look and have no known ancestor, such
    /// as a server found by its port.
    fn find(&mut self, looked: Option<u64>, readings: &HashMap<Pid, Reading>) {
        let Some(looked) = looked else { return };
        let mut found = Vec::new();
        for (pid, reading) in readings.iter().filter(|(pid, _)| pid.began < looked) {
            let mut line = std::iter::successors(Some(*pid), |of| readings.get(of)?.parent);
            if !line.any(|of| self.seen.contains_key(&of)) {
                found.push((*pid, *reading));
            }
        }
        for (pid, reading) in found {
            add(&mut self.before.0, reading.all_cpu());
            add(&mut self.before.1, reading.io);
            self.seen.insert(pid, reading);
        }
    }

    fn readings(&self, tree: &Tree) -> HashMap<Pid, Reading> {
        let mut all: HashMap<Pid, Reading> = HashMap::new();
        let mut parents = HashMap::new();
        for pid in tree.pids() {
            let Some((parent, cpu, waited)) = cpu(*pid) else { continue };
            // If it cannot be read now, keep the previous value.
            let before = self.seen.get(pid).copied().unwrap_or_default();
            let io = io(*pid).map_or(before.io, |io| most(io, before.io));
            all.insert(*pid, Reading { parent: None, cpu, waited, io, switches: switches(*pid) });
            parents.insert(*pid, parent);
        }
        let of_number: HashMap<u32, Pid> = all.keys().map(|pid| (pid.number, *pid)).collect();
        for (pid, reading) in &mut all {
            reading.parent = parents.get(pid).and_then(|number| of_number.get(number)).copied();
        }
        all
    }

    /// Records the readings. `gone` are the processes that disappeared before anything was read.
    fn take(&mut self, mut gone: Vec<Pid>, readings: HashMap<Pid, Reading>) {
        // Ancestors first: what they have waited for is part of their usage.
        gone.sort_by_key(|pid| (pid.began, pid.number));
        // What living processes have since inherited from those that are gone. For I/O that is unknown.
        let growth = |pid: &Pid| {
            let (before, now) = (self.seen.get(pid)?, readings.get(pid)?);
            Some((less(now.waited, before.waited), less(now.io, before.io)))
        };
        let mut left: HashMap<Pid, (Cpu, Io)> = readings.keys().filter_map(|pid| Some((*pid, growth(pid)?))).collect();
        let mut counted = Vec::new();
        for pid in &gone {
            let Some(reading) = self.seen.get(pid) else { continue };
            let above = std::iter::successors(reading.parent, |above| self.seen.get(above)?.parent);
            let above = above.into_iter().find(|above| !gone.contains(above) && self.seen.contains_key(above));
            let all = reading.all_cpu();
            match above.map(|above| (above, left.get_mut(&above))) {
                // It has waited for this one, or for a process that has.
                Some((_, Some((cpu, io)))) if all[..NS].iter().zip(&cpu[..NS]).all(|(all, left)| all <= left) => {
                    // The part that its ticks leave out.
                    self.gone.0[NS] += all[NS].saturating_sub(cpu[NS]);
                    *cpu = less(*cpu, all);
                    // Bytes that are missing now were never added to it.
                    add(&mut self.gone.1, less(reading.io, *io));
                    *io = less(*io, reading.io);
                }
                // Unknown until that process is read again.
                Some((above, None)) if !readings.contains_key(&above) => continue,
                _ => {
                    add(&mut self.gone.0, all);
                    add(&mut self.gone.1, reading.io);
                }
            }
            counted.push(*pid);
        }
        for pid in counted {
            self.seen.remove(&pid);
        }
        for (pid, reading) in readings {
            let before = self.seen.insert(pid, reading).unwrap_or_default();
            add(&mut self.switches, less(reading.switches, before.switches));
        }
    }
}

/// Whether a process exists. It does until it is waited for.
fn is_there(pid: Pid) -> bool {
    Pid::of(pid.number) == Some(pid)
}

fn add<const N: usize>(sum: &mut [u64; N], more: [u64; N]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

fn sum<const N: usize>(mut one: [u64; N], other: [u64; N]) -> [u64; N] {
    add(&mut one, other);
    one
}

fn less<const N: usize>(mut from: [u64; N], what: [u64; N]) -> [u64; N] {
    from.iter_mut().zip(what).for_each(|(from, what)| *from = from.saturating_sub(what));
    from
}

fn most<const N: usize>(mut one: [u64; N], other: [u64; N]) -> [u64; N] {
    one.iter_mut().zip(other).for_each(|(one, other)| *one = other.max(*one));
    one
}

/// Ticks since boot.
fn ticks_now() -> u64 {
    let seconds: f64 =
        read("/proc/uptime").and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or_default();
    (seconds * 1e9) as u64 / tick_ns()
}

/// The number of a process's parent, its own usage, and that of the children it has waited for.
fn cpu(pid: Pid) -> Option<(u32, Cpu, Cpu)> {
    let text = read(format!("/proc/{}/stat", pid.number))?;
    let fields: Vec<u64> =
        text.rsplit_once(')')?.1.split_ascii_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    // The first of them is field 3.
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
    let ticked = |numbers: [usize; 4]| {
        let [user, system, minor, major] = numbers.map(field);
        [user, system, minor, major, (user + system) * tick_ns()]
    };
    let (mut own, waited) = (ticked([14, 15, 10, 12]), ticked([16, 17, 11, 13]));
    if let Some(ns) = cpu_clock_ns(pid.number) {
        own[NS] = ns;
    }
    (field(22) == pid.began).then(|| (u32::try_from(field(4)).unwrap_or(0), own, waited))
}

/// The processor time of a process with all its threads, including ended ones, in ns. `None` if the system does not
/// report it.
fn cpu_clock_ns(number: u32) -> Option<u64> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls only write to the given pointers, which stay valid during the calls.
    let told = unsafe {
        libc::clock_getcpuclockid(i32::try_from(number).ok()?, &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    told.then(|| {
        u64::try_from(time.tv_sec).ok()?.checked_mul(1_000_000_000)?.checked_add(u64::try_from(time.tv_nsec).ok()?)
    })?
}

fn io(pid: Pid) -> Option<Io> {
    let io = read(format!("/proc/{}/io", pid.number))?;
    let count = |name| field(&io, name).unwrap_or(0);
    let written = count("write_bytes").saturating_sub(count("cancelled_write_bytes"));
    Some([count("read_bytes"), written, count("syscr"), count("syscw")])
}

fn switches(pid: Pid) -> [u64; 2] {
    let mut all = [0, 0];
    // The status of a process covers only its first thread.
    for task in fs::read_dir(format!("/proc/{}/task", pid.number)).into_iter().flatten().flatten() {
        let status = read(task.path().join("status")).unwrap_or_default();
        add(
            &mut all,
            ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"].map(|name| field(&status, name).unwrap_or(0)),
        );
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Runs a script until it has made a file. Returns the first and the last reading of its tree.
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

    /// With ticks of 10 ms, two different phases would look the same.
    #[test]
    fn processor_time_is_finer_than_ticks() {
        let own = Pid::own().unwrap();
        let mut watcher = Watcher::default();
        let mut seen = |n: u64| (0..n).map(|_| watcher.look(&Tree::of(&[own]), false).cpu_ns).collect::<Vec<_>>();
        let all = seen(20);
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "looking itself takes time: {all:?}");
        assert!(all.iter().any(|ns| ns % tick_ns() != 0), "{all:?}");
        assert_eq!(cpu_clock_ns(u32::MAX), None);
    }

    /// For a child that was waited for, the kernel reports ticks. What they leave out is not lost.
    #[test]
    fn what_ticks_leave_out_of_children_stays_counted() {
        let pid = |number: u32| Pid { number, began: u64::from(number) };
        let reading = |parent: Option<u32>, cpu: Cpu, waited: Cpu| Reading {
            parent: parent.map(pid),
            cpu,
            waited,
            ..Reading::default()
        };
        let mut watcher = Watcher::default();
        let both = [
            (pid(1), reading(None, [1, 0, 0, 0, 15_000_000], [0; 5])),
            (pid(2), reading(Some(1), [1, 0, 0, 0, 19_000_000], [0; 5])),
        ];
        watcher.take(Vec::new(), both.into());
        assert_eq!(watcher.sums().0[NS], 34_000_000);
        let alone = [(pid(1), reading(None, [1, 0, 0, 0, 15_000_000], [1, 0, 0, 0, 10_000_000]))];
        watcher.take(vec![pid(2)], alone.into());
        assert_eq!(watcher.sums().0[NS], 34_000_000);
    }

    #[test]
    fn what_is_written_is_counted() {
        // On the build's disk: a temporary folder may be in memory.
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

    /// A process found while running counts from then on.
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

    /// Waits until a process itself has used this much processor time.
    fn has_spent(pid: Pid, ticks: u64) {
        let spent = || cpu(pid).is_some_and(|(_, own, _)| own[0] + own[1] >= ticks);
        crate::testing::wait_until("it has computed", spent);
    }

    fn ticks(used: ProcessUse) -> u64 {
        (used.user_ns + used.system_ns) / tick_ns()
    }

    #[test]
    fn of_several_servers_each_is_counted_once_also_when_the_first_is_killed_or_one_is_not_looked_at() {
        let spin = || {
            let script = "n=0; while [ $n -lt 200000 ]; do n=$((n+1)); done; exec sleep 600";
            let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let pid = Pid::of(child.id()).unwrap();
            (child, pid)
        };
        let (mut first, one) = spin();
        let (mut second, other) = spin();
        // Not while it is executing the other program.
        let resting = |pid: Pid| {
            let before = cpu(pid);
            std::thread::sleep(std::time::Duration::from_millis(100));
            fs::read_to_string(format!("/proc/{}/comm", pid.number)).is_ok_and(|n| n == "sleep\n") && cpu(pid) == before
        };
        for pid in [one, other] {
            has_spent(pid, 4);
            crate::testing::wait_until("it rests", || resting(pid));
        }
        let mut watcher = Watcher::default();
        let both = watcher.look(&Tree::of(&[one, other]), false);
        assert!(ticks(both) >= 8, "{both:?}");
        let almost = |now: ProcessUse| {
            let (before, now) = ((ticks(both), both.minor_faults), (ticks(now), now.minor_faults));
            assert!(now.0 >= before.0 && now.1 >= before.1, "what was used is lost: {before:?} {now:?}");
            assert!(now.0 <= before.0 + 2 && now.1 <= before.1 + 50, "it is counted twice: {before:?} {now:?}");
        };
        // One server is being restarted.
        almost(watcher.look(&Tree::of(&[one]), false));
        almost(watcher.look(&Tree::of(&[other]), false));
        almost(watcher.look(&Tree::of(&[one, other]), false));
        // First the oldest is gone, then both.
        first.kill().unwrap();
        first.wait().unwrap();
        almost(watcher.look(&Tree::of(&[other]), false));
        almost(watcher.look(&Tree::of(&[other]), false));
        second.kill().unwrap();
        second.wait().unwrap();
        almost(watcher.look(&Tree::default(), false));
        almost(watcher.look(&Tree::of(&[other]), false));
    }

    #[test]
    fn what_a_child_has_written_is_counted_once_when_its_parent_has_waited_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let there = |name: &str| folder.path().join(name).exists();
        // The shell in parentheses inherits what `dd` has written, and the outer shell inherits that.
        let script = "(dd if=/dev/zero of=/dev/null bs=1 count=5000 2>&-; touch written; while [ ! -e end ]; do sleep \
                      0.01; done); touch ended; exec sleep 600";
        let mut child = Command::new("sh").args(["-c", script]).current_dir(folder.path()).spawn().unwrap();
        let pid = Pid::of(child.id()).unwrap();
        let mut watcher = Watcher::default();
        crate::testing::wait_until("it has written", || there("written"));
        let before = watcher.look(&Tree::of(&[pid]), false);
        fs::write(folder.path().join("end"), "").unwrap();
        crate::testing::wait_until("it has ended", || there("ended"));
        let after = watcher.look(&Tree::of(&[pid]), false);
        Tree::of(&[pid]).kill();
        child.wait().unwrap();
        if before.write_calls == 0 {
            println!("skipped: the kernel does not count what processes read and write");
            return;
        }
        let ended = watcher.look(&Tree::of(&[pid]), false);
        assert!(before.write_calls >= 5000, "{before:?}");
        for now in [after, ended] {
            assert!((before.write_calls..before.write_calls + 2500).contains(&now.write_calls), "{before:?} {now:?}");
        }
    }

    /// Made-up processes, by their numbers.
    fn told(all: &[(u32, u32, u64, u64)]) -> HashMap<Pid, Reading> {
        let pid = |number: u32| Pid { number, began: u64::from(number) };
        let known = |number: u32| all.iter().any(|(other, ..)| *other == number);
        let reading = |&(number, parent, own, waited): &(u32, u32, u64, u64)| {
            let parent = known(parent).then(|| pid(parent));
            let io = [own + waited, 0, 0, 0];
            (
                pid(number),
                Reading { parent, cpu: [own, 0, 9, 0, 0], waited: [waited, 0, waited, 0, 0], io, switches: [own, 0] },
            )
        };
        all.iter().map(reading).collect()
    }

    #[test]
    fn those_that_have_gone_are_counted_where_nobody_else_counts_them() {
        let pid = |number: u32| Pid { number, began: u64::from(number) };
        let sums = |watcher: &Watcher| {
            let (cpu, io) = watcher.sums();
            (cpu[0], io[0])
        };
        let begun = |all: &[(u32, u32, u64, u64)]| {
            let mut watcher = Watcher::default();
            watcher.take(Vec::new(), told(all));
            watcher
        };
        let all = [(1, 0, 100, 0), (2, 1, 50, 0), (3, 2, 30, 0)];
        // Its parent has waited for the last, or for both.
        let mut watcher = begun(&all);
        assert_eq!(sums(&watcher), (180, 180));
        watcher.take(vec![pid(3)], told(&[(1, 0, 100, 0), (2, 1, 50, 31)]));
        assert_eq!(sums(&watcher), (181, 181));
        watcher.take(vec![pid(2)], told(&[(1, 0, 100, 85)]));
        assert_eq!(sums(&watcher), (185, 185));
        let mut watcher = begun(&all);
        watcher.take(vec![pid(3), pid(2)], told(&[(1, 0, 101, 80)]));
        assert_eq!((sums(&watcher), watcher.switches[0]), ((181, 181), 181));
        // It has waited for the middle one, and nobody for the last.
        let mut watcher = begun(&all);
        watcher.take(vec![pid(3), pid(2)], told(&[(1, 0, 100, 52)]));
        assert_eq!(sums(&watcher), (182, 182));
        // Nobody waits for children (SIGCHLD is ignored).
        let mut watcher = begun(&all);
        watcher.take(vec![pid(3), pid(2)], told(&[(1, 0, 120, 0)]));
        assert_eq!(sums(&watcher), (200, 200));
        // The parent has waited for its child but is not looked at. It is counted when the parent is looked at again.
        let mut watcher = begun(&[(1, 0, 100, 0), (2, 1, 50, 0), (7, 0, 10, 0)]);
        watcher.take(vec![pid(2)], told(&[(7, 0, 11, 0)]));
        assert_eq!(sums(&watcher), (161, 161));
        watcher.take(vec![pid(2)], told(&[(1, 0, 100, 50), (7, 0, 11, 0)]));
        assert_eq!((sums(&watcher), watcher.seen.len()), ((161, 161), 2));
        // All of them are gone.
        watcher.take(vec![pid(1), pid(7)], HashMap::new());
        assert_eq!((sums(&watcher), watcher.seen.len()), ((161, 161), 0));
    }
}
