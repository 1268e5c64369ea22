//! Processes of this machine, told apart from later ones of the same number by when they began.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use serde::{Deserialize, Serialize};

/// How long processes of a group may take to end after they were killed: one that waits for a disk may do so for ever.
const GROUP_WITHIN: Duration = Duration::from_secs(5);

/// A process: its number, and when it began, in ticks since the machine did. Numbers are used again; the pair is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pid {
    /// Its number.
    pub number: u32,
    /// When it began, as field 22 of `/proc/PID/stat` says.
    pub began: u64,
}

/// What `/proc/PID/stat` says.
pub(crate) struct Stat {
    pub(crate) parent: u32,
    /// Its process group.
    pub(crate) group: u32,
    state: u8,
    pub(crate) began: u64,
}

/// The capabilities of this process, a bit each; none where the system does not tell.
pub(crate) fn capabilities() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let all = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(all.trim(), 16).ok()
}

/// The numbers of all processes that can be seen.
pub(crate) fn numbers() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

pub(crate) fn stat(number: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name may hold spaces and parentheses.
    let mut rest = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = *rest.next()?.as_bytes().first()?;
    let parent = rest.next()?.parse().ok()?;
    // -1 of one that is gone in this moment.
    let group = rest.next()?.parse().unwrap_or(0);
    // Field 22; the state was field 3, the group 5.
    let began = rest.nth(16)?.parse().ok()?;
    Some(Stat { parent, group, state, began })
}

impl Stat {
    /// One that has ended and was not waited for is told of all the same.
    fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

/// All processes that can be seen.
fn all() -> impl Iterator<Item = (u32, Stat)> {
    numbers().filter_map(|number| Some((number, stat(number)?)))
}

impl Pid {
    /// The process of this number, if there is one now.
    pub fn of(number: u32) -> Option<Self> {
        stat(number).map(|stat| Self { number, began: stat.began })
    }

    /// This process.
    pub fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// Whether it runs still. One that has ended and was not waited for does not.
    pub fn runs(self) -> bool {
        stat(self.number).is_some_and(|stat| stat.began == self.began && !stat.has_ended())
    }

    /// Whether it is stopped (SIGSTOP).
    pub fn is_paused(self) -> bool {
        stat(self.number).is_some_and(|stat| stat.began == self.began && matches!(stat.state, b'T' | b't'))
    }

    /// Ends at once (SIGKILL) all of the process group that it leads, if it runs and leads one: also what has left its tree.
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
        // One that has ended meanwhile has nothing to hear; that its number is taken again within these microseconds would
        // need the whole space of numbers to be used up.
        if self.runs()
            && let Some(pid) = rustix::process::Pid::from_raw(self.number.cast_signed())
        {
            let _ = kill_process(pid, signal);
        }
    }
}

/// A process and all that it has started, as long as they have not left it for init.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree(Vec<Pid>);

impl Tree {
    /// These processes with all that they have started.
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

    /// The processes, the oldest first.
    pub fn pids(&self) -> &[Pid] {
        &self.0
    }

    /// Whether any of them runs.
    pub fn runs(&self) -> bool {
        self.0.iter().any(|pid| pid.runs())
    }

    /// Ends all of them at once, with no chance to write anything (SIGKILL). They are stopped first, so that none begins
    /// another while the others die.
    pub fn kill(&self) {
        self.stopped().0.iter().for_each(|pid| pid.signal(Signal::KILL));
    }

    /// Stops all of them where they are (SIGSTOP).
    pub fn pause(&self) {
        self.stopped();
    }

    /// Stops them, and what they began while they were being stopped; gives all of them.
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

    /// Lets all of them go on (SIGCONT).
    pub fn resume(&self) {
        self.0.iter().for_each(|pid| pid.signal(Signal::CONT));
    }

    /// Asks the first of them to end (SIGTERM), which is to end the others.
    pub fn terminate(&self) {
        if let Some(first) = self.0.first() {
            first.signal(Signal::TERM);
        }
    }
}

/// A process group of a child of this process, which began it as its leader.
///
/// Its number stays its own as long as the child was not waited for, also when it has ended: to be used until then, and not
/// after.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group(rustix::process::Pid);

impl Group {
    /// That of this child.
    pub(crate) fn of(child: &std::process::Child) -> Option<Self> {
        // Such numbers mean all processes, or the group of this one.
        rustix::process::Pid::from_raw(child.id().cast_signed()).filter(|pid| pid.as_raw_nonzero().get() > 1).map(Self)
    }

    /// Whether its leader has ended, without waiting for it; none where somebody has waited for it before.
    fn ended(self) -> Option<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.0), options).ok().map(|status| status.is_some())
    }

    /// Whether its leader has ended. It is not waited for by this.
    pub(crate) fn leader_has_ended(self) -> bool {
        self.ended().unwrap_or(true)
    }

    /// Those of its processes that run still, also those that their parents have left behind.
    pub(crate) fn pids(self) -> Vec<Pid> {
        let group = self.0.as_raw_nonzero().get().cast_unsigned();
        let of_group = |(number, stat): (u32, Stat)| {
            (stat.group == group && !stat.has_ended()).then_some(Pid { number, began: stat.began })
        };
        all().filter_map(of_group).collect()
    }

    /// Ends all of it at once (SIGKILL), also what is begun in this moment, and waits a while until none runs.
    pub(crate) fn kill(self) {
        if self.ended().is_none() {
            // Its number may be somebody else's by now.
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
        // A shell that begins a program cannot be stopped, only the program.
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
