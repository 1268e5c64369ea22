//! Work of one thread that waits for stores.

use crate::error::TransferError;

/// Does work on this thread, which is in no runtime.
///
/// # Errors
/// The work's; the system gives no event loop.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, TransferError>>) -> Result<T, TransferError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|e| TransferError::Target(format!("the system gives no event loop: {e}")))?.block_on(work)
}
