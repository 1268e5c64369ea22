//! A session of a store on the thread of a worker.

use std::sync::Arc;
use std::time::Duration;

use storebench_core::engine::{Clock, RealClock};
use storebench_core::store::{AnyStore, Durability, OpKind, PhaseStart, Session, SessionOptions};

use crate::error::TransferError;

/// How a session is to behave.
#[derive(Debug, Clone)]
pub(crate) struct SessionRequest {
    /// What an acknowledged write survives; none for the strongest that the store promises up to `fsync`.
    pub(crate) durability: Option<Durability>,
    /// How long one try of an operation may take.
    pub(crate) timeout: Duration,
    /// Operations in flight at once.
    pub(crate) in_flight: u32,
}

/// What a session of this store is opened with.
///
/// # Errors
/// The store cannot promise the durability.
pub(crate) fn options(store: &dyn AnyStore, request: &SessionRequest) -> Result<SessionOptions, TransferError> {
    let can = store.capabilities();
    let durability = match request.durability {
        Some(wanted) if can.promises(wanted).is_none() => {
            let offered: Vec<String> = can.durability.iter().map(|(d, _)| d.to_string()).collect();
            return Err(TransferError::BadInput(format!(
                "{} cannot promise durability `{wanted}`; it can: {}",
                store.describe().url,
                offered.join(", ")
            )));
        }
        Some(wanted) => wanted,
        None => can.default_durability().map_or(Durability::OS, |(level, _)| level),
    };
    Ok(SessionOptions {
        durability,
        consistency: can.default_consistency(),
        timeout: request.timeout,
        in_flight: request.in_flight,
        clock: Arc::new(RealClock::new()),
        phase_start: PhaseStart::new(),
    })
}

/// Opens a session.
///
/// # Errors
/// The store's, and as [`options`].
pub(crate) async fn open(
    store: &dyn AnyStore,
    request: &SessionRequest,
) -> Result<(Box<dyn Session>, Arc<dyn Clock>), TransferError> {
    let options = options(store, request)?;
    let session = store.open_any(&options).await.map_err(|error| of_store(store, error))?;
    Ok((session, options.clock))
}

/// Refuses a store that cannot do an operation.
///
/// # Errors
/// Which operation, and of which store.
pub(crate) fn needs(store: &dyn AnyStore, kind: OpKind, why: &str) -> Result<(), TransferError> {
    if store.capabilities().supports(kind).is_some() {
        return Ok(());
    }
    Err(TransferError::BadInput(format!("{} cannot do `{kind}`, which {why} needs", store.describe().url)))
}

/// An error of this store.
pub(crate) fn of_store(store: &dyn AnyStore, error: storebench_core::store::StoreError) -> TransferError {
    TransferError::Store { url: store.describe().url, error }
}
