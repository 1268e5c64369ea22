//! How the workers of a phase begin together, hand over what they recorded, and are told to stop.

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::clock::RealClock;
use super::events::Gauges;
use super::stop::Stop;
use crate::measure::Recorder;
use crate::store::PhaseStart;

/// What a worker recorded in one interval.
pub struct Snapshot {
    /// Number of the interval, from 0.
    pub interval: u64,
    /// The worker.
    pub worker: u32,
    /// The record. Once emptied, the recorder comes back through [`Outbox::spare`].
    pub recorder: Box<Recorder>,
    /// The worker's state now.
    pub now: Gauges,
    /// Whether the worker has ended and sends no more.
    pub last: bool,
}

/// Where a worker's recorders go, and where emptied ones come from.
pub struct Outbox {
    /// Takes snapshots.
    pub snapshots: Sender<Snapshot>,
    /// Returns emptied recorders.
    pub spare: Receiver<Box<Recorder>>,
}

/// A worker's connection to the others.
pub struct Member {
    /// The run's clock.
    pub clock: RealClock,
    /// Asks this phase to stop, because the user wants it or because a load failed.
    pub stop: Arc<Stop>,
    /// Where it waits, with its sessions open, until all begin.
    pub pass: Pass,
    /// When the phase begins.
    pub start: PhaseStart,
    /// Where its snapshots go.
    pub outbox: Outbox,
}

/// Where workers wait until all are ready and the phase is started.
#[derive(Default)]
pub(super) struct StartGate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    arrived: usize,
    open: bool,
}

impl StartGate {
    /// One worker's pass through the gate.
    pub(super) fn pass(self: &Arc<Self>) -> Pass {
        Pass { gate: Arc::clone(self), arrived: false }
    }

    /// Waits until this many workers have arrived.
    pub(super) fn wait_for(&self, workers: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.arrived < workers {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets everybody through, including those that come later.
    pub(super) fn open(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).open = true;
        self.changed.notify_all();
    }
}

/// One worker's pass through the gate. If a worker ends before it gets there, for instance because its driver panics
/// while it opens a session, it still counts as arrived. Nobody waits for it forever.
pub struct Pass {
    gate: Arc<StartGate>,
    arrived: bool,
}

impl Pass {
    /// Arrives, and waits until the gate is open.
    pub fn wait(&mut self) {
        self.arrive();
        let mut state = self.gate.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.open {
            state = self.gate.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn arrive(&mut self) {
        if !std::mem::replace(&mut self.arrived, true) {
            self.gate.state.lock().unwrap_or_else(PoisonError::into_inner).arrived += 1;
            self.gate.changed.notify_all();
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.arrive();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn nobody_passes_before_the_gate_opens_and_everybody_after() {
        let gate = Arc::new(StartGate::default());
        let through = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let mut pass = gate.pass();
                let through = &through;
                scope.spawn(move || {
                    pass.wait();
                    through.fetch_add(1, Ordering::SeqCst);
                });
            }
            // Returns once all have arrived. None can have passed, because the gate is closed.
            gate.wait_for(3);
            assert_eq!(through.load(Ordering::SeqCst), 0);
            gate.open();
        });
        assert_eq!(through.load(Ordering::SeqCst), 3);
        // A late worker does not wait for others.
        gate.pass().wait();
    }

    #[test]
    fn one_that_never_comes_holds_up_nobody() {
        let gate = Arc::new(StartGate::default());
        let (lost, mut here) = (gate.pass(), gate.pass());
        let ended = std::thread::spawn(move || {
            let _lost = lost;
            panic!("a driver panics while it opens a session");
        })
        .join();
        assert!(ended.is_err());
        std::thread::scope(|scope| {
            scope.spawn(move || here.wait());
            gate.wait_for(2);
            gate.open();
        });
    }

    #[test]
    fn arriving_twice_counts_once() {
        let gate = Arc::new(StartGate::default());
        let mut pass = gate.pass();
        pass.arrive();
        pass.arrive();
        drop(pass);
        assert_eq!(gate.state.lock().unwrap().arrived, 1);
    }
}
