//! How long a store may take to answer at all. Drivers wait as long as a slow server may need; the user may not.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use storebench_study::units::Span;

use super::{AnyStore, StoreError};

/// Makes the first contact with a store, and waits no longer than this. What a driver still waits for then is left
/// behind.
///
/// # Errors
/// `Unreachable` if there is no answer in time; those of [`Store::answers`](super::Store::answers).
pub fn first_answer(store: &Arc<dyn AnyStore>, within: Duration) -> Result<(), StoreError> {
    let (tell, told) = mpsc::channel();
    let asked = Arc::clone(store);
    let asking = std::thread::Builder::new().name("first-answer".into()).spawn(move || {
        // Nobody may be waiting any more.
        let _ = tell.send(asked.answers());
    });
    asking.map_err(|e| StoreError::Failed(format!("cannot start a thread: {e}")))?;
    told.recv_timeout(within).unwrap_or_else(|_| {
        Err(StoreError::Unreachable(format!(
            "{} did not answer within {}, the timeout of an operation; check the host name, the port, whether the server \
             runs, and any firewall in between",
            store.describe().url,
            Span(within)
        )))
    })
}
