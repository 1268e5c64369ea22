//! Where control calls block.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use storebench_engine::store::StoreError;
use tokio::runtime::{Builder, Runtime};

/// A private current-thread runtime, made at the first call. Calls take turns.
#[derive(Debug, Default)]
pub(crate) struct Control(Mutex<Option<Runtime>>);

impl Control {
    /// Runs a control call to its end. Not to be called from within a runtime.
    ///
    /// # Errors
    /// Those of the call; `Failed` where the system gives no runtime.
    pub(crate) fn block_on<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = match place.take() {
            Some(runtime) => runtime,
            None => Builder::new_current_thread().enable_all().build().map_err(|e| {
                StoreError::Failed(format!("the system gives no event loop: {e}; are files or memory used up?"))
            })?,
        };
        let result = runtime.block_on(call);
        *place = Some(runtime);
        result
    }
}

/// How long one look may take where no time at all was given.
const SHORTEST_LOOK: Duration = Duration::from_secs(1);

/// Asks every so often whether a store has come to rest, at most so long; says whether it has. A server that answers
/// late, or not at all, does not make it longer.
///
/// # Errors
/// Those of asking.
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

/// Waits for a moment while others remove what is there, which takes seconds at most.
pub(crate) async fn rest() {
    tokio::time::sleep(Duration::from_millis(250)).await;
}
