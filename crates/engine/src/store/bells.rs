//! Tells a session which of its places are to be polled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use futures_util::task::AtomicWaker;

/// The places that were woken since they were last taken, and whom to tell.
#[derive(Default)]
pub struct Bells {
    rung: Mutex<Vec<usize>>,
    session: AtomicWaker,
}

impl Bells {
    /// From now on this one is woken. It is said before the places are taken, so that nothing is missed in between.
    pub fn listen(&self, waker: &Waker) {
        self.session.register(waker);
    }

    /// Puts the places that were woken in place of `turn`.
    pub fn take(&self, turn: &mut Vec<usize>) {
        turn.clear();
        std::mem::swap(turn, &mut *self.rung.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// A bell for this place.
    pub fn bell(self: &Arc<Self>, place: usize) -> Arc<Bell> {
        Arc::new(Bell { place, rung: AtomicBool::new(false), bells: Arc::clone(self) })
    }
}

/// Wakes the session for one place, so that a poll looks only at those where something happened.
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

    /// A poll looks at the place now: what wakes from here on rings again.
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
