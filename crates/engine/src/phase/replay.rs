//! Recorded traffic: which operation is sent next, and when.
//!
//! A client belongs to one worker. It has at most one operation in flight, so that its operations are sent in the order of
//! the trace. Any free slot takes the operation whose time comes first, of a client that has none in flight. An operation
//! that is sent later than its time is late; its response time counts from its time.

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
    clients: Vec<Client>,
    /// Clients without an operation in flight that have some left: when the next one is scheduled (at full speed: its
    /// position), and the client.
    ready: BinaryHeap<Reverse<(u64, usize)>>,
    /// The client of each slot.
    slots: Vec<Option<usize>>,
    /// Free slots, and since when.
    free: Vec<(usize, u64)>,
    /// How many operations were not taken.
    pub(super) left: u64,
}

#[derive(Debug, Default)]
struct Client {
    /// Positions of its operations in the trace.
    ops: Vec<u32>,
    /// How many of them were taken.
    taken: usize,
    idle_since_ns: u64,
}

/// What can be sent next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Upcoming {
    pub(super) slot: usize,
    /// Since when its slot is free and its client waits for nothing.
    pub(super) since_ns: u64,
    /// When it is scheduled, in ns after the start of the phase; `None` at full speed.
    pub(super) scheduled_ns: Option<u64>,
}

impl Replay {
    pub(super) fn new(trace: Arc<Trace>, speed: Speed, worker: u32, workers: u32, slots: usize) -> Self {
        let mut clients = Vec::new();
        clients.resize_with(trace.clients().div_ceil(workers) as usize, Client::default);
        let mut left = 0;
        for (position, op) in trace.ops().iter().enumerate() {
            if op.client % workers == worker {
                clients[(op.client / workers) as usize].ops.push(position as u32);
                left += 1;
            }
        }
        let mut replay =
            Self { trace, speed, clients, ready: BinaryHeap::new(), slots: vec![None; slots], free: Vec::new(), left };
        (0..replay.clients.len()).for_each(|client| replay.idle(client, 0));
        replay
    }

    /// A client waits for no answer.
    fn idle(&mut self, number: usize, since_ns: u64) {
        let client = &mut self.clients[number];
        client.idle_since_ns = since_ns;
        if let Some(next) = client.ops.get(client.taken).copied() {
            let order = match self.speed {
                Speed::Times(times) => scheduled_ns(self.trace.ops()[next as usize].at_ns, times),
                Speed::Max => next.into(),
            };
            self.ready.push(Reverse((order, number)));
        }
    }

    /// A slot is free, at the latest from this time on.
    pub(super) fn freed(&mut self, slot: usize, since_ns: u64) {
        if let Some(client) = self.slots[slot].take() {
            self.idle(client, since_ns);
        }
        self.free.push((slot, since_ns));
    }

    /// The operation whose time comes first, of those that a free slot can take: the slot that was free first.
    pub(super) fn upcoming(&self) -> Option<Upcoming> {
        let Reverse((order, client)) = *self.ready.peek()?;
        let (slot, free_ns) = *self.free.iter().min_by_key(|(_, since_ns)| *since_ns)?;
        let scheduled_ns = matches!(self.speed, Speed::Times(_)).then_some(order);
        Some(Upcoming { slot, since_ns: free_ns.max(self.clients[client].idle_since_ns), scheduled_ns })
    }

    /// Takes the operation that is [upcoming](Self::upcoming), and its position in the trace.
    pub(super) fn take(&mut self, slot: usize) -> Option<(u32, TraceOp)> {
        let Reverse((_, number)) = self.ready.pop()?;
        self.free.retain(|(free, _)| *free != slot);
        self.slots[slot] = Some(number);
        let client = &mut self.clients[number];
        let position = client.ops[client.taken];
        client.taken += 1;
        self.left -= 1;
        Some((position, self.trace.ops()[position as usize]))
    }

    /// The operations that were not taken, each with the time for which it is scheduled, in ns after the start.
    pub(super) fn untaken(&self) -> impl Iterator<Item = (u64, TraceOp)> {
        let times = if let Speed::Times(times) = self.speed { times } else { f64::INFINITY };
        self.clients.iter().flat_map(|client| &client.ops[client.taken..]).map(move |position| {
            let op = self.trace.ops()[*position as usize];
            (scheduled_ns(op.at_ns, times), op)
        })
    }
}
