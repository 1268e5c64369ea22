//! Any history: tries orders, one moment after another, as late as possible (Lowe, *Testing for linearizability*, 2017).
//!
//! The search walks through sends and answers in the order of time. It keeps all ways to explain what was answered so
//! far. A way is the value that the key holds, and which of the pending operations have taken effect. When an answer
//! comes, each way in which that operation has not taken effect is continued by pending operations until it has; ways
//! in which it cannot are dropped. If none is left, no order explains the history.
//!
//! Two rules keep the ways few without losing an explanation:
//! - a pending read takes effect as soon as the value fits, since it changes nothing;
//! - a pending write of a value that nobody sees takes effect just before the next other write, where it is invisible,
//!   unless some operation saw that the key held another value than one it expected: any write may be the reason.

use std::collections::HashSet;

use crate::operation::{ABSENT, Action, Operation, UNKNOWN, Value};

/// The most operations that may be pending at once.
const SLOTS: usize = 128;

/// The most ways that are kept: their memory is bounded, whatever the budget.
const MOST_WAYS: usize = 1 << 21;

/// A way to explain what was answered so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Way {
    value: Value,
    /// The pending operations that have taken effect, by their slots.
    done: u128,
}

/// The operations that are pending, by slot.
struct Pending<'a> {
    operations: &'a [Operation],
    seen: &'a HashSet<Value>,
    slots: [usize; SLOTS],
    used: u128,
    /// Those that change nothing.
    reads: u128,
    /// Writes whose value nobody sees.
    unseen: u128,
    /// Whether such writes can be hidden.
    hides: bool,
}

fn bits(mut mask: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = mask.trailing_zeros() as usize;
        (mask != 0).then(|| {
            mask &= mask - 1;
            slot
        })
    })
}

impl Pending<'_> {
    fn add(&mut self, position: usize) -> Option<usize> {
        let slot = (!self.used).trailing_zeros() as usize;
        if slot >= SLOTS {
            return None;
        }
        let bit = 1 << slot;
        self.slots[slot] = position;
        self.used |= bit;
        match self.operations[position].action {
            Action::Read(_) | Action::Differs(_) => self.reads |= bit,
            Action::Write(value) if self.hides && !self.seen.contains(&value) => self.unseen |= bit,
            _ => {}
        }
        Some(slot)
    }

    fn remove(&mut self, slot: usize) {
        let bit: u128 = 1 << slot;
        self.used &= !bit;
        self.reads &= !bit;
        self.unseen &= !bit;
    }

    fn action(&self, slot: usize) -> Action {
        self.operations[self.slots[slot]].action
    }

    /// The way after all pending reads that fit have taken effect.
    fn with_reads(&self, way: Way) -> Way {
        let fitting = bits(self.reads & !way.done).filter(|slot| self.action(*slot).fits(way.value));
        Way { done: fitting.fold(way.done, |done, slot| done | 1 << slot), ..way }
    }

    /// The way after the operation in this slot has taken effect.
    fn after(&self, way: Way, slot: usize) -> Option<Way> {
        let action = self.action(slot);
        let value = action.leaves().filter(|_| action.fits(way.value))?;
        // A compare-and-swap needs the value before it.
        let hidden = if matches!(action, Action::Swap(..)) { 0 } else { self.unseen };
        Some(self.with_reads(Way { value, done: way.done | 1 << slot | hidden }))
    }
}

pub(crate) fn explained(operations: &[Operation], initial: Value, budget: usize) -> Option<bool> {
    let seen: HashSet<Value> = operations.iter().filter_map(|of| of.action.saw()).collect();
    // What was never answered, and was seen by nobody, need not have happened. Where the key held another value than one
    // that was expected, any write may be the reason.
    let differs = operations.iter().any(|of| matches!(of.action, Action::Differs(_)));
    let needed = |of: &Operation| {
        of.answered_ns != UNKNOWN
            || match of.action {
                _ if differs => true,
                Action::Write(value) | Action::Swap(_, value) => seen.contains(&value),
                Action::Delete => seen.contains(&ABSENT),
                Action::Read(_) | Action::Differs(_) => false,
            }
    };
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(operations.len() * 2);
    for (position, of) in operations.iter().enumerate().filter(|(_, of)| needed(of)) {
        events.push((of.sent_ns, false, position));
        if of.answered_ns != UNKNOWN {
            events.push((of.answered_ns, true, position));
        }
    }
    // At the same moment sends come first: the two are concurrent.
    events.sort_unstable();
    let mut pending =
        Pending { hides: !differs, operations, seen: &seen, slots: [0; SLOTS], used: 0, reads: 0, unseen: 0 };
    let mut slot_of = vec![0u8; operations.len()];
    let mut ways = vec![Way { value: initial, done: 0 }];
    let mut left = budget.saturating_mul(operations.len().max(1));
    let (mut known, mut open) = (HashSet::new(), Vec::new());
    for (_, answered, position) in events {
        if !answered {
            let slot = pending.add(position)?;
            slot_of[position] = slot as u8;
            if pending.reads & (1 << slot) != 0 {
                for way in &mut ways {
                    *way = pending.with_reads(*way);
                }
            }
            continue;
        }
        let slot = usize::from(slot_of[position]);
        let bit: u128 = 1 << slot;
        let mut next = Vec::with_capacity(ways.len());
        if let [way] = ways[..]
            && way.done & bit != 0
        {
            next.push(way);
        } else {
            known.clear();
            open.clear();
            open.extend(ways.iter().copied());
            known.extend(ways.iter().copied());
            while let Some(way) = open.pop() {
                left = left.checked_sub(1).filter(|_| known.len() <= MOST_WAYS)?;
                if way.done & bit != 0 {
                    next.push(way);
                    continue;
                }
                for other in bits(pending.used & !pending.reads & !way.done) {
                    if let Some(after) = pending.after(way, other).filter(|after| known.insert(*after)) {
                        open.push(after);
                    }
                }
            }
        }
        if next.is_empty() {
            return Some(false);
        }
        pending.remove(slot);
        for way in &mut next {
            way.done &= !bit;
        }
        next.sort_unstable_by_key(|way| (way.value, way.done));
        next.dedup();
        ways = next;
        // What has taken effect in every way and is never answered makes room.
        let all = ways.iter().fold(u128::MAX, |all, way| all & way.done);
        for slot in bits(all & pending.used) {
            if operations[pending.slots[slot]].answered_ns == UNKNOWN {
                pending.remove(slot);
                for way in &mut ways {
                    way.done &= !(1 << slot);
                }
            }
        }
    }
    Some(true)
}
