//! How far reads are behind, and what each client was promised.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::operation::{ABSENT, Action, Operation, UNKNOWN, Value};

/// What reads of one key or of many returned, against what had certainly been written before they were sent.
///
/// A version is *behind* a read's answer if it was sent after the version that the read returned was answered, and was
/// itself answered before the read was sent: in every order, it lies between the two. So these are lower bounds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Staleness {
    /// Reads of a known version, and compare-and-swaps that replaced one. Reads that found nothing count only if nothing
    /// was ever deleted: they found the state before all versions.
    pub reads: u64,
    /// Of these: reads that returned a version which had been overwritten before they were sent.
    pub stale: u64,
    /// The most versions that a read was behind.
    pub versions_behind_max: u64,
    /// The longest time, in ns, that a returned version had been overwritten when the read was sent.
    pub time_behind_max_ns: u64,
    /// How often a client read a version older than one that it had written itself before.
    pub own_write_missed: u64,
    /// How often a client read a version older than one that it had read before.
    pub went_back: u64,
    /// Reads that returned something that nobody had written.
    #[serde(default)]
    pub never_written: u64,
}

impl Staleness {
    /// Adds that of another key.
    pub fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.never_written += other.never_written;
        self.stale += other.stale;
        self.versions_behind_max = self.versions_behind_max.max(other.versions_behind_max);
        self.time_behind_max_ns = self.time_behind_max_ns.max(other.time_behind_max_ns);
        self.own_write_missed += other.own_write_missed;
        self.went_back += other.went_back;
    }
}

/// A version of the key: when its write was sent and answered.
#[derive(Debug, Clone, Copy)]
struct Version {
    sent_ns: u64,
    answered_ns: u64,
}

/// How far the reads of one key, which holds `initial` at first, were behind. They may be in any order. Takes the time
/// of a sort.
pub fn staleness(operations: &[Operation], initial: Value) -> Staleness {
    let mut versions: HashMap<Value, Version> = HashMap::new();
    let deletes = operations.iter().any(|of| of.action == Action::Delete);
    // The initial value is older than everything else: all other times are one later.
    versions.insert(initial, Version { sent_ns: 0, answered_ns: 0 });
    let of_write = |of: &Operation| Version { sent_ns: of.sent_ns + 1, answered_ns: of.answered_ns.saturating_add(1) };
    let mut writes: Vec<Version> = Vec::new();
    for of in operations {
        if let Some(value) = of.action.leaves() {
            let version = of_write(of);
            if of.action != Action::Delete {
                versions.insert(value, version);
            }
            if of.answered_ns != UNKNOWN {
                writes.push(version);
            }
        }
    }
    match deletes {
        true => drop(versions.remove(&ABSENT)),
        // Before it held something, it held nothing.
        false => drop(versions.entry(ABSENT).or_insert(Version { sent_ns: 0, answered_ns: 0 })),
    }
    writes.sort_unstable_by_key(|version| version.answered_ns);
    // Of all writes answered by then, the latest send says whether something is behind.
    let (mut answered, mut latest) = (0, 0);
    // How many are behind is counted only if some are.
    let mut behind: Option<Behind> = None;
    // A compare-and-swap without an answer may not have found what it expected.
    let is_read = |of: &&Operation| of.action.saw().is_some() && of.answered_ns != UNKNOWN;
    let mut order: Vec<&Operation> = operations.iter().filter(is_read).collect();
    order.sort_unstable_by_key(|of| of.sent_ns);
    let mut answers: Vec<&Operation> = operations.iter().filter(|of| of.answered_ns != UNKNOWN).collect();
    answers.sort_unstable_by_key(|of| of.answered_ns);
    let mut answers = answers.into_iter().peekable();
    let mut out = Staleness::default();
    // The latest send among the versions that each client wrote, and among those that it read.
    let mut wrote: HashMap<u32, u64> = HashMap::new();
    let mut read: HashMap<u32, u64> = HashMap::new();
    let newer = |of: &mut HashMap<u32, u64>, client: u32, version: Version| {
        let known = of.entry(client).or_insert(0);
        *known = version.sent_ns.max(*known);
    };
    for of in order {
        // What its client knew when it sent this one.
        while let Some(known) = answers.next_if(|known| known.answered_ns < of.sent_ns) {
            if let Some(seen) = known.action.saw().and_then(|value| versions.get(&value)) {
                newer(&mut read, known.client, *seen);
            }
            if known.action.leaves().is_some() {
                newer(&mut wrote, known.client, of_write(known));
            }
        }
        if let Some(seen) = of.action.saw().and_then(|value| versions.get(&value)).copied() {
            out.reads += 1;
            let sent_ns = of.sent_ns + 1;
            while let Some(version) = writes.get(answered).filter(|version| version.answered_ns < sent_ns) {
                latest = version.sent_ns.max(latest);
                answered += 1;
            }
            if latest > seen.answered_ns {
                let behind = behind.get_or_insert_with(|| Behind::of(&writes));
                let (count, first) = behind.since(seen.answered_ns, &writes[..answered]);
                out.stale += 1;
                out.versions_behind_max = out.versions_behind_max.max(count);
                out.time_behind_max_ns = out.time_behind_max_ns.max(sent_ns - first);
            }
            let is_behind = |known: Option<&u64>| known.is_some_and(|sent_ns| seen.answered_ns < *sent_ns);
            out.own_write_missed += u64::from(is_behind(wrote.get(&of.client)));
            out.went_back += u64::from(is_behind(read.get(&of.client)));
        } else if of.action.saw().is_some_and(|value| value != ABSENT) {
            out.never_written += 1;
        }
    }
    out
}

/// The versions that were answered so far: how many of them were sent after some time, and when the first of these was
/// answered. A Fenwick tree over the order of sends, from the last one.
struct Behind {
    /// All sends, the last one first.
    sends: Vec<u64>,
    /// Count and earliest answer, of ranges that end at each place.
    tree: Vec<(u64, u64)>,
    /// How many versions it holds.
    added: usize,
}

impl Behind {
    fn of(writes: &[Version]) -> Self {
        let mut sends: Vec<u64> = writes.iter().map(|version| version.sent_ns).collect();
        sends.sort_unstable_by_key(|sent_ns| std::cmp::Reverse(*sent_ns));
        Self { tree: vec![(0, u64::MAX); sends.len() + 1], sends, added: 0 }
    }

    /// The number of sends after this time.
    fn after(&self, ns: u64) -> usize {
        self.sends.partition_point(|sent_ns| *sent_ns > ns)
    }

    fn add(&mut self, version: Version) {
        let mut at = self.after(version.sent_ns) + 1;
        while let Some((count, first)) = self.tree.get_mut(at) {
            *count += 1;
            *first = version.answered_ns.min(*first);
            at += at & at.wrapping_neg();
        }
    }

    /// Of the versions that are `answered`, in order: how many were sent after this time, and when the first was answered.
    fn since(&mut self, ns: u64, answered: &[Version]) -> (u64, u64) {
        answered[self.added..].iter().for_each(|version| self.add(*version));
        self.added = answered.len();
        let mut at = self.after(ns);
        let mut found = (0, u64::MAX);
        while at > 0 {
            let (count, first) = self.tree[at];
            found = (found.0 + count, first.min(found.1));
            at &= at - 1;
        }
        found
    }
}

/// A read of an overwritten version: the positions of the write of that version, if it is one of the operations, of a
/// later write that was answered before the read was sent, and of the read. No order explains them.
pub(crate) fn proof(operations: &[Operation], initial: Value) -> Option<Vec<usize>> {
    let mut writers: HashMap<Value, usize> = HashMap::new();
    let mut answered: Vec<usize> = Vec::new();
    for (at, of) in operations.iter().enumerate().filter(|(_, of)| of.action.leaves().is_some()) {
        if let Some(value) = of.action.leaves().filter(|value| *value != ABSENT) {
            writers.insert(value, at);
        }
        if of.answered_ns != UNKNOWN {
            answered.push(at);
        }
    }
    answered.sort_unstable_by_key(|at| operations[*at].answered_ns);
    // Of all writes answered by then, the one that was sent last.
    let latest: Vec<usize> = answered
        .iter()
        .scan(None::<usize>, |latest, at| {
            let newest = latest.filter(|latest| operations[*latest].sent_ns >= operations[*at].sent_ns).unwrap_or(*at);
            *latest = Some(newest);
            *latest
        })
        .collect();
    operations.iter().enumerate().find_map(|(at, of)| {
        let seen = of.action.saw().filter(|seen| *seen != ABSENT && of.answered_ns != UNKNOWN)?;
        let writer = writers.get(&seen).copied();
        if writer.is_none() && seen != initial {
            return None;
        }
        let before = answered.partition_point(|at| operations[*at].answered_ns < of.sent_ns);
        let later = *latest.get(before.checked_sub(1)?)?;
        let is_later = writer.is_none_or(|writer| operations[writer].answered_ns < operations[later].sent_ns);
        (is_later && later != at && writer != Some(later)).then(|| writer.into_iter().chain([later, at]).collect())
    })
}
