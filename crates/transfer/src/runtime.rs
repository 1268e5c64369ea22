//! Runs the asynchronous work of one thread.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use storebench_engine::with_one_waker;

use crate::error::TransferError;
use crate::timer::Timer;

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

/// How often work that waits looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(200);

/// Waits for work, but no longer than until it is to stop: `None`. The work is then dropped.
pub(crate) async fn unless<T>(stops: impl Fn() -> bool, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut timer) = (pin!(work), Timer::default());
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if stops() => Poll::Ready(None),
        Poll::Pending => {
            let _ = timer.poll(cx, LOOK);
            Poll::Pending
        }
    })
    .await
}
