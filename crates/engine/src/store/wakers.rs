//! Tells a session which of its places to poll.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use futures_util::task::AtomicWaker;

/// The places that were woken since they were last taken, and the waker to notify.
#[derive(Default)]
pub struct WokenSlots {
    woken: Mutex<Vec<usize>>,
    session: AtomicWaker,
}

impl WokenSlots {
    /// Sets the waker to notify. Call it before [`take`](Self::take), so that nothing is missed in between.
    pub fn listen(&self, waker: &Waker) {
        self.session.register(waker);
    }

    /// Replaces the contents of `turn` with the places that were woken.
    pub fn take(&self, turn: &mut Vec<usize>) {
        turn.clear();
        std::mem::swap(turn, &mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The waker of this place.
    pub fn waker(self: &Arc<Self>, place: usize) -> Arc<SlotWaker> {
        Arc::new(SlotWaker { place, woken: AtomicBool::new(false), slots: Arc::clone(self) })
    }
}

/// Wakes the session for one place, so that a poll looks only at places where something happened.
pub struct SlotWaker {
    place: usize,
    woken: AtomicBool,
    slots: Arc<WokenSlots>,
}

impl SlotWaker {
    /// Whether something happened that no poll has looked at yet.
    pub fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }

    /// Called when a poll looks at the place: later wake-ups notify the session again.
    pub fn reset(&self) {
        self.woken.store(false, Ordering::Release);
    }
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.slots.woken.lock().unwrap_or_else(PoisonError::into_inner).push(self.place);
            self.slots.session.wake();
        }
    }
}
