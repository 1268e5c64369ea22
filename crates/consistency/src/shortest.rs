//! A short sequence that no order explains.

use std::collections::HashSet;

use crate::explained;
use crate::operation::{ABSENT, Action, Operation, Value};

/// Leaves out operations as long as no order explains the rest. What an operation saw must stay explicable by itself, or
/// the rest would only look broken:
/// - A write is left out together with the reads of its value, and a delete with the reads that found nothing, if among
///   what is left they can have found what it left.
/// - A compare-and-swap whose expected value is left out counts as a write, which asks for less.
/// - What saw that the key held *another* value may need any write. If the rest can be explained without those, only
///   operations that change nothing are left out.
///
/// Returns the positions of the rest in the order of their sends.
pub(crate) fn shortest(operations: &[Operation], initial: Value, budget: usize) -> Vec<usize> {
    let all = Whole::of(operations, initial);
    let mut left: Vec<usize> = (0..operations.len()).collect();
    left.sort_by_key(|at| (operations[*at].sent_ns, operations[*at].answered_ns));
    let broken = |positions: &[usize]| explained(&all.some(positions), initial, budget) == Some(false);
    // First the shortest beginning that is broken, by bisection: more operations are never explained where fewer are not.
    let (mut low, mut high) = (0, left.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        if broken(&all.beginning(&left, middle)) { high = middle } else { low = middle + 1 }
    }
    left = all.beginning(&left, high);
    let named: Vec<usize> = left.iter().copied().filter(|at| !all.differs(*at)).collect();
    let any = broken(&named);
    if any {
        left = named;
    }
    // Then ever smaller pieces of what remains (Zeller and Hildebrandt, *Simplifying and isolating failure-inducing
    // input*, 2002), until none can be left out.
    let mut piece = (left.len() / 2).max(1);
    loop {
        let (before, mut from) = (left.len(), 0);
        while from < left.len() {
            let range = from..(from + piece).min(left.len());
            let may = any || left[range.clone()].iter().all(|at| operations[*at].action.leaves().is_none());
            let rest = if may { all.without(&left, range) } else { Vec::new() };
            if may && broken(&rest) { left = rest } else { from += piece }
        }
        if piece == 1 && left.len() == before {
            return left;
        }
        piece = (piece / 2).max(1);
    }
}

/// Operations of a history as they are judged without the others.
#[cfg(test)]
pub(crate) fn alone(operations: &[Operation], initial: Value, positions: &[usize]) -> Vec<Operation> {
    Whole::of(operations, initial).some(positions)
}

/// What has certainly been overwritten by then.
struct Overwritten {
    /// The answers of writes in order, and the latest send of a write answered by then.
    latest: Vec<(u64, u64)>,
}

impl Overwritten {
    fn by<'a>(operations: impl Iterator<Item = &'a Operation>) -> Self {
        let writes = operations.filter(|of| of.action.leaves().is_some_and(|value| value != ABSENT));
        let mut latest: Vec<(u64, u64)> = writes.map(|of| (of.answered_ns, of.sent_ns)).collect();
        latest.sort_unstable();
        for at in 1..latest.len() {
            latest[at].1 = latest[at].1.max(latest[at - 1].1);
        }
        Self { latest }
    }

    /// What was answered before this had been overwritten when something was sent at `sent_ns`.
    fn before(&self, sent_ns: u64) -> u64 {
        match self.latest.partition_point(|(answered_ns, _)| *answered_ns < sent_ns) {
            0 => 0,
            count => self.latest[count - 1].1,
        }
    }
}

/// The whole history.
struct Whole<'a> {
    operations: &'a [Operation],
    initial: Value,
    /// The values that some operation leaves.
    left: HashSet<Value>,
    deletes: Vec<usize>,
}

impl<'a> Whole<'a> {
    fn of(operations: &'a [Operation], initial: Value) -> Self {
        Self {
            operations,
            initial,
            left: operations.iter().filter_map(|of| of.action.leaves()).collect(),
            deletes: (0..operations.len()).filter(|at| operations[*at].action == Action::Delete).collect(),
        }
    }

    fn differs(&self, at: usize) -> bool {
        matches!(self.operations[at].action, Action::Differs(_))
    }

    /// Whether what an operation saw can be explained by these operations as well as by all. Asks for an operation and
    /// the value.
    fn sources(&self, positions: &[usize]) -> impl Fn(usize, Value) -> bool {
        let there: HashSet<usize> = positions.iter().copied().collect();
        let values: HashSet<Value> = positions.iter().filter_map(|at| self.operations[*at].action.leaves()).collect();
        let gone: Vec<usize> = self.deletes.iter().copied().filter(|delete| !there.contains(delete)).collect();
        let overwritten = Overwritten::by(positions.iter().map(|at| &self.operations[*at]));
        // Whether it can have found what a delete left.
        let can_have_found = move |of: &Operation, delete: &Operation| {
            delete.answered_ns >= overwritten.before(of.sent_ns) && delete.sent_ns <= of.answered_ns
        };
        move |at, value| match value {
            ABSENT => {
                let of = &self.operations[at];
                !gone.iter().any(|delete| can_have_found(of, &self.operations[*delete]))
            }
            // What nobody left is broken by itself.
            value => value == self.initial || values.contains(&value) || !self.left.contains(&value),
        }
    }

    /// These operations, with a write in place of a compare-and-swap whose expected value is left out.
    fn some(&self, positions: &[usize]) -> Vec<Operation> {
        let is_there = self.sources(positions);
        let of = |at: &usize| match self.operations[*at] {
            Operation { action: Action::Swap(from, to), .. } if !is_there(*at, from) => {
                Operation { action: Action::Write(to), ..self.operations[*at] }
            }
            other => other,
        };
        positions.iter().map(of).collect()
    }

    /// The first `count` operations, and those that leave what these saw.
    fn beginning(&self, order: &[usize], count: usize) -> Vec<usize> {
        let actions = || order[..count].iter().map(|at| self.operations[*at].action);
        let seen: HashSet<Value> = actions().filter_map(Action::saw).collect();
        let differs = order[..count].iter().any(|at| self.differs(*at));
        let needed =
            |at: &usize| self.operations[*at].action.leaves().is_some_and(|value| differs || seen.contains(&value));
        order[..count].iter().copied().chain(order[count..].iter().copied().filter(needed)).collect()
    }

    /// All but these, and but the reads of a value that these left.
    fn without(&self, left: &[usize], going: std::ops::Range<usize>) -> Vec<usize> {
        let rest: Vec<usize> = left[..going.start].iter().chain(&left[going.end..]).copied().collect();
        let is_there = self.sources(&rest);
        let explicable = |at: &usize| match self.operations[*at].action {
            Action::Read(value) => is_there(*at, value),
            _ => true,
        };
        rest.iter().copied().filter(explicable).collect()
    }
}
