//! Recorded traffic: which operation each lane sends next.
//!
//! A client belongs to one worker and one lane, so that its operations are sent one after another, in the order of the
//! trace. An operation whose lane is still busy at its time is late; its response time counts from its time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use storebench_documents::trace::{Trace, TraceOp};
use storebench_study::workload::Speed;

/// When an operation of a trace is scheduled, in ns after the start of the phase.
pub(super) fn scheduled_ns(at_ns: u64, times: f64) -> u64 {
    if times == 1.0 { at_ns } else { (at_ns as f64 / times).round() as u64 }
}

/// One worker's part of a trace.
#[derive(Debug)]
pub(super) struct Replay {
    trace: Arc<Trace>,
    speed: Speed,
    lanes: Vec<Lane>,
    /// The free lanes that have operations left: when the next one is scheduled (at full speed: its position), and the
    /// lane.
    ready: BinaryHeap<Reverse<(u64, usize)>>,
    left: u64,
}

#[derive(Debug, Default)]
struct Lane {
    /// Positions of its operations in the trace.
    ops: Vec<u32>,
    /// How many of them were taken.
    taken: usize,
    free_since_ns: u64,
}

impl Replay {
    pub(super) fn new(trace: Arc<Trace>, speed: Speed, worker: u32, workers: u32, lanes: usize) -> Self {
        let mut all: Vec<Lane> = (0..lanes).map(|_| Lane::default()).collect();
        let mut left = 0;
        for (position, op) in trace.ops().iter().enumerate() {
            if op.client % workers == worker {
                all[(op.client / workers) as usize % lanes].ops.push(position as u32);
                left += 1;
            }
        }
        Self { trace, speed, lanes: all, ready: BinaryHeap::new(), left }
    }

    fn order(&self, position: u32) -> u64 {
        match self.speed {
            Speed::Times(times) => scheduled_ns(self.trace.ops()[position as usize].at_ns, times),
            Speed::Max => position.into(),
        }
    }

    /// A lane is free.
    pub(super) fn freed(&mut self, lane: usize, since_ns: u64) {
        let Lane { ops, taken, free_since_ns } = &mut self.lanes[lane];
        *free_since_ns = since_ns;
        if let Some(next) = ops.get(*taken).copied() {
            let order = self.order(next);
            self.ready.push(Reverse((order, lane)));
        }
    }

    /// The free lane whose operation comes first, since when it is free, and when that operation is scheduled, in ns after
    /// the start (not at full speed).
    pub(super) fn peek(&self) -> Option<(usize, u64, Option<u64>)> {
        let Reverse((order, lane)) = *self.ready.peek()?;
        let scheduled = matches!(self.speed, Speed::Times(_)).then_some(order);
        Some((lane, self.lanes[lane].free_since_ns, scheduled))
    }

    /// Takes the operation that [`peek`](Self::peek) has shown, and its position in the trace.
    pub(super) fn take(&mut self) -> Option<(u32, TraceOp)> {
        let Reverse((_, lane)) = self.ready.pop()?;
        let lane = &mut self.lanes[lane];
        let position = lane.ops[lane.taken];
        lane.taken += 1;
        self.left -= 1;
        Some((position, self.trace.ops()[position as usize]))
    }

    /// How many operations were not taken.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// The operations that were not taken, each with the time for which it is scheduled, in ns after the start.
    pub(super) fn untaken(&self) -> impl Iterator<Item = (u64, TraceOp)> {
        let times = if let Speed::Times(times) = self.speed { times } else { f64::INFINITY };
        self.lanes.iter().flat_map(|lane| &lane.ops[lane.taken..]).map(move |position| {
            let op = self.trace.ops()[*position as usize];
            (scheduled_ns(op.at_ns, times), op)
        })
    }
}
