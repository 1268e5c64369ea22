//! A first-come, first-served lock, so that no worker starves.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// A fair lock. It guards no value, because the data that it protects is in a file.
#[derive(Debug, Default)]
pub(crate) struct FairLock {
    state: Mutex<FairState>,
}

#[derive(Debug, Default)]
struct FairState {
    held: bool,
    waiting: VecDeque<Arc<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    thread: Thread,
    granted: AtomicBool,
}

/// Holds the lock until dropped.
#[derive(Debug)]
pub(crate) struct FairGuard<'a>(&'a FairLock);

impl FairLock {
    /// Takes the lock. Returns `None` if it is not available within `at_most`.
    pub(crate) fn acquire(&self, at_most: Duration) -> Option<FairGuard<'_>> {
        let waiter = {
            let mut state = self.state();
            if !state.held {
                state.held = true;
                return Some(FairGuard(self));
            }
            let waiter = Arc::new(Waiter { thread: std::thread::current(), granted: AtomicBool::new(false) });
            state.waiting.push_back(Arc::clone(&waiter));
            waiter
        };
        let start = Instant::now();
        loop {
            if waiter.granted.load(Ordering::Acquire) {
                return Some(FairGuard(self));
            }
            let Some(left) = at_most.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) else {
                let mut state = self.state();
                if waiter.granted.load(Ordering::Acquire) {
                    return Some(FairGuard(self));
                }
                state.waiting.retain(|other| !Arc::ptr_eq(other, &waiter));
                return None;
            };
            std::thread::park_timeout(left);
        }
    }

    fn state(&self) -> MutexGuard<'_, FairState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FairGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        match state.waiting.pop_front() {
            // Hand the lock over without freeing it, so that no other thread can jump the queue.
            Some(next) => {
                next.granted.store(true, Ordering::Release);
                next.thread.unpark();
            }
            None => state.held = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn one_at_a_time_and_nobody_lost() {
        let lock = FairLock::default();
        let inside = AtomicU32::new(0);
        let done = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let _guard = lock.acquire(Duration::from_secs(60)).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        done.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 2_000);
    }

    #[test]
    fn who_gives_up_leaves_the_queue() {
        let lock = FairLock::default();
        let first = lock.acquire(Duration::ZERO).unwrap();
        assert!(lock.acquire(Duration::from_millis(1)).is_none());
        drop(first);
        assert!(lock.acquire(Duration::ZERO).is_some());
    }
}
