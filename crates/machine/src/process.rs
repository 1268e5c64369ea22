//! Processes of this machine. The start time distinguishes a process from a later one with the same number.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

pub use rustix::process::Signal;
use rustix::process::{WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use serde::{Deserialize, Serialize};

/// How long killed processes of a group may take to end. One that waits for a disk may never end.
const GROUP_WITHIN: Duration = Duration::from_secs(5);

/// A process: its number, and its start time in ticks since boot. Numbers are reused; the pair is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pid {
    /// Its number.
    pub number: u32,
    /// When it started, from field 22 of `/proc/PID/stat`.
    pub began: u64,
}

/// The fields of `/proc/PID/stat` that are used.
pub(crate) struct Stat {
    pub(crate) parent: u32,
    /// Its process group.
    pub(crate) group: u32,
    state: u8,
    pub(crate) began: u64,
}

/// The capabilities of this process, one bit each; `None` if the system does not report them.
pub(crate) fn capabilities() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let all = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(all.trim(), 16).ok()
}

/// Reads a file of `/proc`. Most of them fit into one read. `fs::read_to_string` first asks for the size, which these files
/// do not have, and then reads small parts: twice as many system calls, and hundreds for each look at all processes.
/// Behind `take`, nothing asks for the size.
pub(crate) fn read(path: impl AsRef<Path>) -> Option<String> {
    let mut text = String::with_capacity(4 << 10);
    fs::File::open(path).ok()?.take(u64::MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The numbers of all processes that can be seen.
pub(crate) fn numbers() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

pub(crate) fn stat(number: u32) -> Option<Stat> {
    let text = read(format!("/proc/{number}/stat"))?;
    // The name may hold spaces and parentheses.
    let mut rest = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = *rest.next()?.as_bytes().first()?;
    let parent = rest.next()?.parse().ok()?;
    // -1 for a process that is just disappearing.
    let group = rest.next()?.parse().unwrap_or(0);
    // Field 22; the state is field 3, the group 5.
    let began = rest.nth(16)?.parse().ok()?;
    Some(Stat { parent, group, state, began })
}

impl Stat {
    /// A zombie is listed, too.
    fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

/// All processes that can be seen.
fn all() -> impl Iterator<Item = (u32, Stat)> {
    numbers().filter_map(|number| Some((number, stat(number)?)))
}

/// Where numbers of processes mean the same: this boot of the machine, and the namespace.
fn numbering() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), namespace.display()))
}

impl Pid {
    /// The current process with this number, if any.
    pub fn of(number: u32) -> Option<Self> {
        stat(number).map(|stat| Self { number, began: stat.began })
    }

    /// This process.
    pub fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// A text by which processes of this machine can [ask](Self::ended) whether this process still runs: the machine's
    /// boot, the namespace of the process numbers, the number, and when the process began. `None` if the system does not
    /// tell one of them.
    pub fn own_address() -> Option<String> {
        let own = Self::own()?;
        Some(format!("{} {} {}", numbering()?, own.number, own.began))
    }

    /// Whether the process with this [address](Self::own_address) has ended. `None` if that cannot be known here,
    /// because it is on another machine or in another container.
    pub fn ended(address: &str) -> Option<bool> {
        let mut words = address.rsplitn(3, ' ');
        let (began, number) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        (words.next()? == numbering()?).then(|| !Self { number, began }.runs())
    }

    /// Its program and number for messages, as far as the kernel tells: `redis-server, process 123`.
    pub fn shown(self) -> String {
        let program = std::fs::read_to_string(format!("/proc/{}/comm", self.number)).unwrap_or_default();
        let program = if program.is_empty() { String::new() } else { format!("{}, ", program.trim_end()) };
        format!("{program}process {}", self.number)
    }

    /// Whether it is running. A zombie is not.
    pub fn runs(self) -> bool {
        stat(self.number).is_some_and(|stat| stat.began == self.began && !stat.has_ended())
    }

    /// Whether it is stopped (SIGSTOP).
    pub fn is_paused(self) -> bool {
        stat(self.number).is_some_and(|stat| stat.began == self.began && matches!(stat.state, b'T' | b't'))
    }

    /// Kills (SIGKILL) the whole process group, if this process runs and leads one. That includes processes that have
    /// left its tree.
    pub(crate) fn kill_group(self) {
        let leads = stat(self.number).is_some_and(|stat| stat.group == self.number && stat.began == self.began);
        if leads
            && self.runs()
            && self.number > 1
            && let Some(pid) = rustix::process::Pid::from_raw(self.number.cast_signed())
        {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }

    fn signal(self, signal: Signal) {
        // Do not signal a process that has ended. A reuse of its number within these microseconds would need the whole
        // range of numbers to wrap around.
        if self.runs()
            && let Some(pid) = rustix::process::Pid::from_raw(self.number.cast_signed())
        {
            let _ = kill_process(pid, signal);
        }
    }
}

/// A process and its descendants, except those that init has adopted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree(Vec<Pid>);

impl Tree {
    /// These processes with all their descendants.
    pub fn of(roots: &[Pid]) -> Self {
        let mut children: HashMap<u32, Vec<Pid>> = HashMap::new();
        for (number, stat) in all() {
            children.entry(stat.parent).or_default().push(Pid { number, began: stat.began });
        }
        let (mut all, mut seen) = (Vec::new(), HashSet::new());
        let mut open: Vec<Pid> = roots.iter().copied().filter(|root| root.runs()).collect();
        while let Some(pid) = open.pop() {
            if seen.insert(pid) {
                all.push(pid);
                open.extend(children.get(&pid.number).into_iter().flatten());
            }
        }
        all.sort_by_key(|pid| (pid.began, pid.number));
        Self(all)
    }

    /// The processes, oldest first.
    pub fn pids(&self) -> &[Pid] {
        &self.0
    }

    /// Whether any of them is running.
    pub fn runs(&self) -> bool {
        self.0.iter().any(|pid| pid.runs())
    }

    /// Kills all of them at once (SIGKILL), so that they can write nothing more. They are stopped first, so that none
    /// starts another while the others die.
    pub fn kill(&self) {
        self.stopped().0.iter().for_each(|pid| pid.signal(Signal::KILL));
    }

    /// Stops all of them (SIGSTOP).
    pub fn pause(&self) {
        self.stopped();
    }

    /// Stops them and what they started while they were being stopped. Returns all of them.
    fn stopped(&self) -> Self {
        let mut tree = self.clone();
        loop {
            tree.0.iter().for_each(|pid| pid.signal(Signal::STOP));
            let now = Self::of(&tree.0);
            let more = now.0.iter().any(|pid| !tree.0.contains(pid));
            if !more {
                return tree;
            }
            tree = now;
        }
    }

    /// Resumes all of them (SIGCONT).
    pub fn resume(&self) {
        self.0.iter().for_each(|pid| pid.signal(Signal::CONT));
    }
}

/// The process group of a child of this process that was started as its leader.
///
/// The number stays reserved until the child is waited for, even if the child has ended. Use it only until then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group(rustix::process::Pid);

impl Group {
    /// The group of this child.
    pub(crate) fn of(child: &std::process::Child) -> Option<Self> {
        // 0 and 1 mean all processes, or the group of this one.
        rustix::process::Pid::from_raw(child.id().cast_signed()).filter(|pid| pid.as_raw_nonzero().get() > 1).map(Self)
    }

    /// Whether its leader has ended, without waiting for it; `None` if it was waited for before.
    fn ended(self) -> Option<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.0), options).ok().map(|status| status.is_some())
    }

    /// Whether its leader has ended. This does not wait for it.
    pub(crate) fn leader_has_ended(self) -> bool {
        self.ended().unwrap_or(true)
    }

    /// Its running processes, including those that their parents have left behind.
    pub(crate) fn pids(self) -> Vec<Pid> {
        let group = self.0.as_raw_nonzero().get().cast_unsigned();
        let of_group = |(number, stat): (u32, Stat)| {
            (stat.group == group && !stat.has_ended()).then_some(Pid { number, began: stat.began })
        };
        all().filter_map(of_group).collect()
    }

    /// Sends a signal to all its processes.
    pub(crate) fn signal(self, signal: Signal) {
        if self.ended().is_some() {
            let _ = kill_process_group(self.0, signal);
        }
    }

    /// Kills the whole group (SIGKILL), including processes started at this moment, and waits up to [`GROUP_WITHIN`]
    /// until none runs.
    pub(crate) fn kill(self) {
        if self.ended().is_none() {
            // Its number may belong to another group by now.
            return;
        }
        let began = Instant::now();
        loop {
            let _ = kill_process_group(self.0, Signal::KILL);
            if self.pids().is_empty() || began.elapsed() >= GROUP_WITHIN {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_tree_is_found_paused_and_killed_whole() {
        let mut root = Command::new("sh").args(["-c", "sleep 600 & sleep 600 & wait"]).spawn().unwrap();
        let pid = Pid::of(root.id()).unwrap();
        let whole = || Tree::of(&[pid]);
        // A shell that is executing a program cannot be stopped, only the program.
        let sleeps = |pid: &Pid| fs::read_to_string(format!("/proc/{}/comm", pid.number)).is_ok_and(|n| n == "sleep\n");
        while whole().pids().iter().filter(|pid| sleeps(pid)).count() < 2 {
            std::thread::yield_now();
        }
        let tree = whole();
        assert_eq!(tree.pids()[0], pid);
        tree.pause();
        while !tree.pids().iter().all(|pid| pid.is_paused()) {
            std::thread::yield_now();
        }
        tree.resume();
        while tree.pids().iter().any(|pid| pid.is_paused()) {
            std::thread::yield_now();
        }
        tree.kill();
        root.wait().unwrap();
        while tree.runs() {
            std::thread::yield_now();
        }
        assert!(!pid.runs() && whole().pids().is_empty());
    }

    #[test]
    fn another_process_of_the_same_number_is_not_taken_for_it() {
        let own = Pid::own().unwrap();
        assert!(own.runs());
        assert!(!Pid { began: own.began + 1, ..own }.runs());
        assert_eq!(Pid::of(u32::MAX), None);
    }
}
