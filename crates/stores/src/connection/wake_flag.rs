//! Tells each of many links whether its socket is ready.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// A waker that records a wake-up and passes it on. A worker polls all its sessions when one of them has news.
/// The other sessions see here that they have none, which is cheaper than asking the reactor.
#[derive(Debug)]
pub(super) struct WakeFlag {
    woken: AtomicBool,
    listener: Mutex<Waker>,
}

impl WakeFlag {
    /// Starts woken, because nobody has polled yet.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { woken: AtomicBool::new(true), listener: Mutex::new(Waker::noop().clone()) })
    }

    /// Sets the waker to wake from now on.
    pub(super) fn listen(&self, waker: &Waker) {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner).clone_from(waker);
    }

    /// Whether it was woken since the last call.
    pub(super) fn take(&self) -> bool {
        // Load first: usually the flag is not set, and then nothing is written.
        self.woken.load(Ordering::Relaxed) && self.woken.swap(false, Ordering::AcqRel)
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.listener.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[derive(Default)]
    struct Count(AtomicU32);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn it_wakes_once_until_somebody_has_looked() {
        let (woken, count) = (WakeFlag::new(), Arc::new(Count::default()));
        woken.listen(&Waker::from(Arc::clone(&count)));
        assert!(woken.take() && !woken.take());
        let waker = Waker::from(Arc::clone(&woken));
        waker.wake_by_ref();
        waker.wake_by_ref();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert!(woken.take());
        waker.wake();
        assert_eq!(count.0.load(Ordering::SeqCst), 2);
    }
}
