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
    /// was ever deleted.
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
}

impl Staleness {
    /// Adds that of another key.
    pub fn add(&mut self, other: &Self) {
        self.reads += other.reads;
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

impl Version {
    /// Whether this one is older than the other in every order.
    fn is_before(self, other: Self) -> bool {
        self.answered_ns < other.sent_ns
    }
}

/// How far the reads of one key, which holds `initial` at first, were behind. They may be in any order. Takes the time
/// of a sort, and for each stale read the time to count the versions that it was behind.
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
    if deletes {
        versions.remove(&ABSENT);
    }
    // By answers. Of all writes answered by then, the latest send says whether something is behind.
    writes.sort_unstable_by_key(|version| version.answered_ns);
    let latest: Vec<u64> = writes
        .iter()
        .scan(0, |latest, version| {
            *latest = version.sent_ns.max(*latest);
            Some(*latest)
        })
        .collect();
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
            let answered = writes.partition_point(|version| version.answered_ns < sent_ns);
            if answered > 0 && latest[answered - 1] > seen.answered_ns {
                let behind = writes[..answered].iter().filter(|version| seen.is_before(**version));
                let (count, first) =
                    behind.fold((0, u64::MAX), |(count, first), version| (count + 1, first.min(version.answered_ns)));
                out.stale += 1;
                out.versions_behind_max = out.versions_behind_max.max(count);
                out.time_behind_max_ns = out.time_behind_max_ns.max(sent_ns - first);
            }
            let is_behind = |known: Option<&u64>| known.is_some_and(|sent_ns| seen.answered_ns < *sent_ns);
            out.own_write_missed += u64::from(is_behind(wrote.get(&of.client)));
            out.went_back += u64::from(is_behind(read.get(&of.client)));
        }
    }
    out
}
