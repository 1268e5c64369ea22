//! Python's lock: how busy it is, and what Python keeps for each thread.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, Weak};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use super::Class;

/// How busy Python's lock was, by samples.
#[derive(Default)]
pub(super) struct LockUse {
    pub(super) watched: OnceLock<()>,
    pub(super) samples: AtomicU64,
    pub(super) busy: AtomicU64,
}

/// How often to look whether Python's lock is free, on average.
const SAMPLE_EVERY: Duration = Duration::from_millis(5);
/// A free lock is taken faster.
const FREE_WITHIN: Duration = Duration::from_micros(20);

/// Looks whether Python's lock is free, as long as the class is in use. At random times, because Python's own threads
/// take turns every 5 ms.
pub(super) fn watch_lock(class: &Weak<Class>) {
    let _state = ThreadState::keep();
    let mut random = RandomState::new().build_hasher().finish();
    loop {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(SAMPLE_EVERY.mul_f64(0.5 + (random >> 33) as f64 / (1_u64 << 31) as f64));
        let Some(class) = class.upgrade() else { return };
        let begun = Instant::now();
        let Some(took) = Python::try_attach(|_| begun.elapsed()) else { return };
        class.lock.samples.fetch_add(1, Ordering::Relaxed);
        class.lock.busy.fetch_add(u64::from(took > FREE_WITHIN), Ordering::Relaxed);
    }
}

/// Keeps what Python stores for this thread, as long as it lives: otherwise each call would start with empty
/// thread-local variables. Must be dropped on the same thread.
pub(super) struct ThreadState {
    ensured: pyo3::ffi::PyGILState_STATE,
    saved: *mut pyo3::ffi::PyThreadState,
}

impl ThreadState {
    pub(super) fn keep() -> Self {
        // SAFETY: the interpreter runs, because Python started the verb. The lock is given back at once.
        unsafe {
            let ensured = pyo3::ffi::PyGILState_Ensure();
            Self { ensured, saved: pyo3::ffi::PyEval_SaveThread() }
        }
    }
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        // SAFETY: the same thread, and in the opposite order.
        unsafe {
            pyo3::ffi::PyEval_RestoreThread(self.saved);
            pyo3::ffi::PyGILState_Release(self.ensured);
        }
    }
}
