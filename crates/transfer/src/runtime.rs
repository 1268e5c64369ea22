//! Runs the asynchronous work of one thread.

use storebench_engine::with_one_waker;

use crate::error::TransferError;

/// Runs work on this thread, which must not be inside a runtime.
///
/// # Errors
/// Errors of the work, or the event loop cannot be started.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, TransferError>>) -> Result<T, TransferError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime
        .map_err(|e| TransferError::Target(format!("cannot start the event loop: {e}")))?
        .block_on(with_one_waker(work))
}
