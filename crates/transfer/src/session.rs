//! A session of a store on the thread of a worker.

use std::sync::Arc;
use std::time::Duration;

use storebench_core::engine::{Clock, RealClock};
use storebench_core::keys::Rng;
use storebench_core::store::{
    AnyStore, Durability, NAME_COLUMNS, OpKind, PhaseStart, Session, SessionOptions, StoreError,
};

use crate::error::TransferError;
use crate::retry::{RetryPolicy, Tries};

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

/// Opens a session of a store that was reached before: one that is away now may come back, as within a session.
///
/// # Errors
/// As [`open`], once the store was tried as often as the policy says.
pub(crate) async fn open_again(
    store: &dyn AnyStore,
    request: &SessionRequest,
    policy: &RetryPolicy,
) -> Result<(Box<dyn Session>, Arc<dyn Clock>), TransferError> {
    again(store, policy, async || open(store, request).await).await
}

/// Tries as often as the policy says while the store cannot be reached.
///
/// # Errors
/// The last try's.
pub(crate) async fn again<T>(
    store: &dyn AnyStore,
    policy: &RetryPolicy,
    mut attempt: impl AsyncFnMut() -> Result<T, TransferError>,
) -> Result<T, TransferError> {
    let clock = RealClock::new();
    let mut draw = Rng::stream(std::process::id().into(), clock.now_ns());
    let mut tries = Tries::default();
    loop {
        tries.begin(clock.now_ns());
        let error = match attempt().await {
            Err(TransferError::Store { error: StoreError::Unreachable(text), .. }) => text,
            ended => return ended,
        };
        let now_ns = clock.now_ns();
        let Some(due_ns) = tries.next_ns(policy, now_ns, &mut draw) else {
            return Err(of_store(store, given_up(&tries, &error)));
        };
        tokio::time::sleep(Duration::from_nanos(due_ns - now_ns)).await;
    }
}

/// A store that was away too long while it was read.
pub(crate) fn given_up(tries: &Tries, error: &str) -> StoreError {
    let tries = tries.failed;
    StoreError::Unreachable(format!(
        "given up after {tries} tries: {error}; what was copied stays, go on with --resume"
    ))
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
pub(crate) fn of_store(store: &dyn AnyStore, error: StoreError) -> TransferError {
    TransferError::Store { url: store.describe().url, error }
}

/// An error about columns, with the flags that name them in place of a study's.
pub(crate) fn naming_columns(error: StoreError, flags: &str) -> StoreError {
    let named = |text: String| text.replace(NAME_COLUMNS, flags);
    match error {
        StoreError::BadUrl(text) => StoreError::BadUrl(named(text)),
        StoreError::NotOurs(text) => StoreError::NotOurs(named(text)),
        StoreError::NotSupported(text) => StoreError::NotSupported(named(text)),
        other => other,
    }
}
