//! Pins a thread to one processor, so that a wake-up does not migrate it.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Pins the calling thread to the last processor that it may use, because the first one takes most interrupts. Returns
/// false if the system refuses.
pub(crate) fn this_thread() -> bool {
    let Ok(allowed) = sched_getaffinity(None) else { return false };
    let Some(last) = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu)) else { return false };
    let mut one = CpuSet::new();
    one.set(last);
    sched_setaffinity(None, &one).is_ok()
}

/// Runs work on a separate thread that is pinned to one processor.
pub(crate) fn pinned<T: Send>(work: impl FnOnce() -> Result<T, crate::Failure> + Send) -> Result<T, crate::Failure> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if !this_thread() {
                return Err("the system does not allow pinning a thread to one processor".to_owned());
            }
            work().map_err(|failure| failure.to_string())
        });
        match thread.join() {
            Ok(result) => result.map_err(Into::into),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
