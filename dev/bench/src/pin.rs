//! Keeping a thread on one processor, so that a wake does not come with a move.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps the calling thread on the last processor it may use: the first one takes most interrupts.
/// False where the system refuses.
pub(crate) fn this_thread() -> bool {
    let Ok(allowed) = sched_getaffinity(None) else { return false };
    let Some(last) = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu)) else { return false };
    let mut one = CpuSet::new();
    one.set(last);
    sched_setaffinity(None, &one).is_ok()
}

/// Runs something on a thread of its own that is kept on one processor.
pub(crate) fn pinned<T: Send>(work: impl FnOnce() -> Result<T, crate::Failure> + Send) -> Result<T, crate::Failure> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if !this_thread() {
                return Err("the system does not let a thread be kept on one processor".to_owned());
            }
            work().map_err(|failure| failure.to_string())
        });
        match thread.join() {
            Ok(result) => result.map_err(Into::into),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
