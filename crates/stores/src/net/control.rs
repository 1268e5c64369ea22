//! Runs control calls, which block.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use storebench_engine::store::StoreError;
use tokio::runtime::{Builder, Runtime};

/// A private current-thread runtime, created at the first call. Calls run one at a time.
#[derive(Debug, Default)]
pub(crate) struct Control(Mutex<Option<Runtime>>);

impl Control {
    /// Runs a control call to completion. Must not be called from within a runtime.
    ///
    /// # Errors
    /// Those of the call; `Failed` if the runtime cannot be created.
    pub(crate) fn block_on<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = match place.take() {
            Some(runtime) => runtime,
            None => Builder::new_current_thread().enable_all().build().map_err(|e| {
                StoreError::Failed(format!("cannot create an event loop: {e}; check the limits of files and memory"))
            })?,
        };
        let result = runtime.block_on(call);
        *place = Some(runtime);
        result
    }
}

/// That a server did not tell its settings: it refuses to tell this user, or cannot tell anybody.
pub(crate) fn untold_settings(refused: bool) -> StoreError {
    let why = if refused { "this user may not read its settings" } else { "this server does not tell its settings" };
    StoreError::NotSupported(why.into())
}

/// The time allowed for one check if the caller allows none.
const SHORTEST_LOOK: Duration = Duration::from_secs(1);

/// Polls a store until it is idle, for at most `at_most`. Returns whether it is. A server that answers late, or not
/// at all, does not prolong the wait.
///
/// # Errors
/// Those of `ask`.
pub(crate) async fn settled(
    at_most: Duration,
    every: Duration,
    mut ask: impl AsyncFnMut() -> Result<bool, StoreError>,
) -> Result<bool, StoreError> {
    let begun = Instant::now();
    let rest = async {
        while !ask().await? {
            if begun.elapsed() >= at_most {
                return Ok(false);
            }
            tokio::time::sleep(every).await;
        }
        Ok(true)
    };
    tokio::time::timeout(at_most.max(SHORTEST_LOOK), rest).await.unwrap_or(Ok(false))
}

/// Waits a moment while others remove what is there, which takes at most seconds.
pub(crate) async fn rest() {
    tokio::time::sleep(Duration::from_millis(250)).await;
}
