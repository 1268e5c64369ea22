//! Histories of reads and writes in which each read names its write: decided in the time of a sort.
//!
//! The write of a value and its reads belong together: in any order that explains them, no other write is between
//! them. Let `first` be the earliest answer among them and `last` the latest send. If `first` is before `last`, the
//! key held the value throughout (*held*). Otherwise all of them overlap, and the value may have been there at a moment
//! between `last` and `first` only (*brief*). There is an order if and only if (Gibbons and Korach 1997, theorem 4.5)
//! - no read is answered before the write of its value is sent;
//! - no two values are held at the same time;
//! - no brief value lies within the time in which another one is held.

use std::collections::HashMap;

use crate::operation::{Action, Operation, UNKNOWN, Value};

/// The write of a value and its reads.
#[derive(Debug, Clone, Copy)]
struct Zone {
    written_ns: Option<u64>,
    first_ns: u64,
    last_ns: u64,
}

impl Zone {
    fn take(&mut self, of: &Operation) {
        self.first_ns = self.first_ns.min(of.answered_ns.saturating_add(1));
        self.last_ns = self.last_ns.max(of.sent_ns + 1);
    }
}

pub(crate) fn explained(operations: &[Operation], initial: Value) -> bool {
    zones(operations, initial).is_some_and(|zones| fit(&zones))
}

/// The zones. `None` if a read is answered before its write is sent, or has none.
fn zones(operations: &[Operation], initial: Value) -> Option<Vec<Zone>> {
    let none = Zone { written_ns: None, first_ns: UNKNOWN, last_ns: 0 };
    let mut zones: HashMap<Value, Zone> = HashMap::with_capacity(operations.len() / 2 + 1);
    // The initial value was written before everything else: all other times are one later.
    zones.insert(initial, Zone { written_ns: Some(0), first_ns: 0, ..none });
    for of in operations {
        if let Action::Write(value) = of.action {
            let zone = zones.entry(value).or_insert(none);
            zone.written_ns = Some(of.sent_ns + 1);
            zone.take(of);
        }
    }
    for of in operations {
        if let Action::Read(value) = of.action {
            let zone = zones.get_mut(&value)?;
            if of.answered_ns.saturating_add(1) < zone.written_ns? {
                return None;
            }
            zone.take(of);
        }
    }
    // A write that was never answered, and whose value nobody read, need not have happened.
    Some(zones.into_values().filter(|zone| zone.first_ns != UNKNOWN).collect())
}

fn fit(zones: &[Zone]) -> bool {
    let mut held: Vec<(u64, u64)> =
        zones.iter().filter(|zone| zone.first_ns < zone.last_ns).map(|zone| (zone.first_ns, zone.last_ns)).collect();
    held.sort_unstable();
    if held.windows(2).any(|pair| pair[1].0 < pair[0].1) {
        return false;
    }
    let mut brief = zones.iter().filter(|zone| zone.first_ns >= zone.last_ns);
    !brief.any(|zone| {
        // The held value that begins last before it.
        let before = held.partition_point(|(first, _)| *first < zone.last_ns);
        before > 0 && zone.first_ns < held[before - 1].1
    })
}
