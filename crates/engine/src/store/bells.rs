//! Tells a session which of its places to poll.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use futures_util::task::AtomicWaker;

/// The places that were woken since they were last taken, and the waker to notify.
#[derive(Default)]
pub struct Bells {
    rung: Mutex<Vec<usize>>,
    session: AtomicWaker,
}

impl Bells {
    /// Sets the waker to notify. Call it before [`take`](Self::take), so that nothing is missed in between.
    pub fn listen(&self, waker: &Waker) {
        self.session.register(waker);
    }

    /// Replaces the contents of `turn` with the places that were woken.
    pub fn take(&self, turn: &mut Vec<usize>) {
        turn.clear();
        std::mem::swap(turn, &mut *self.rung.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// A bell for this place.
    pub fn bell(self: &Arc<Self>, place: usize) -> Arc<Bell> {
        Arc::new(Bell { place, rung: AtomicBool::new(false), bells: Arc::clone(self) })
    }
}

/// Wakes the session for one place, so that a poll looks only at places where something happened.
pub struct Bell {
    place: usize,
    rung: AtomicBool,
    bells: Arc<Bells>,
}

impl Bell {
    /// Whether something happened that no poll has looked at yet.
    pub fn is_rung(&self) -> bool {
        self.rung.load(Ordering::Acquire)
    }

    /// Called when a poll looks at the place: later wakes ring again.
    pub fn quiet(&self) {
        self.rung.store(false, Ordering::Release);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            self.bells.rung.lock().unwrap_or_else(PoisonError::into_inner).push(self.place);
            self.bells.session.wake();
        }
    }
}
