//! A store session on a worker's thread.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use storebench_documents::keys::Rng;
use storebench_engine::store::{
    AnyStore, CollectionId, Completions, Durability, DurabilityRequest, ErrorKind, NAME_COLUMNS, Op, OpError, OpKind,
    OwnedReply, PhaseStart, Reply, Request, Session, SessionOptions, StoreError, Token,
};
use storebench_engine::{Clock, RealClock};

use crate::error::TransferError;
use crate::retry::{Access, RetryPolicy, Tries, is_for_now};
use crate::timer::Timer;

/// Options for opening a session.
#[derive(Debug, Clone)]
pub(crate) struct SessionRequest {
    /// What an acknowledged write survives. `None` means the strongest level that the store guarantees, up to `fsync`.
    pub(crate) durability: Option<DurabilityRequest>,
    pub(crate) access: Access,
    /// Operations in flight at once.
    pub(crate) in_flight: u32,
}

/// The session options for this store.
///
/// # Errors
/// The store cannot guarantee the requested durability.
pub(crate) fn options(store: &dyn AnyStore, request: &SessionRequest) -> Result<SessionOptions, TransferError> {
    let can = store.capabilities();
    let durability = match request.durability {
        Some(asked) => {
            let found = can.durability_for(asked);
            found.map_err(|why| TransferError::BadInput(format!("{}: {why}", store.describe().url)))?.0
        }
        None => can.default_durability().map_or(Durability::OS, |(level, _)| level),
    };
    Ok(SessionOptions {
        durability,
        consistency: can.default_consistency(),
        timeout: request.access.timeout,
        in_flight: request.in_flight,
        clock: Arc::new(RealClock::new()),
        phase_start: PhaseStart::new(),
    })
}

/// Members that the store adds to the documents of a prepared collection.
pub(crate) fn own_members(store: &dyn AnyStore, collection: CollectionId) -> Vec<String> {
    let always = store.capabilities().own_members.iter().map(|&name| name.to_owned());
    always.chain(store.key_members(collection)).collect()
}

/// Opens a session of a store that was reachable before. Retries while the store is unreachable, as a session would.
///
/// # Errors
/// Errors of the store, after the attempts that the policy allows, and those of [`options`].
pub(crate) async fn open(
    store: &dyn AnyStore,
    request: &SessionRequest,
) -> Result<(Box<dyn Session>, Arc<dyn Clock>), TransferError> {
    again(store, &request.access.retry, async || {
        let options = options(store, request)?;
        let session = store.open_any(&options).await.map_err(|error| of_store(store, error))?;
        Ok((session, options.clock))
    })
    .await
}

/// Retries as the policy says while the store is unreachable.
///
/// # Errors
/// The error of the last attempt.
pub(crate) async fn again<T>(
    store: &dyn AnyStore,
    policy: &RetryPolicy,
    mut attempt: impl AsyncFnMut() -> Result<T, TransferError>,
) -> Result<T, TransferError> {
    let clock = RealClock::new();
    let mut draw = wait_lengths(&clock);
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

/// Random delays that differ between threads, so that sessions do not reconnect at the same moment.
fn wait_lengths(clock: &RealClock) -> Rng {
    Rng::stream(std::process::id().into(), clock.now_ns())
}

/// The token of a request, and its answer.
pub(crate) type Answer = (u64, Result<OwnedReply, OpError>);

/// Adds answers to a list.
pub(crate) fn adding_to(answers: &mut Vec<Answer>) -> impl Completions {
    move |token: Token, result: Result<Reply<'_>, OpError>| answers.push((token.0, result.map(OwnedReply::from)))
}

/// Sends one request at a time.
pub(crate) struct Asker<'a> {
    store: &'a dyn AnyStore,
    session: Box<dyn Session>,
    clock: Arc<dyn Clock>,
    access: Access,
    timer: Timer,
    draw: Rng,
    token: u64,
}

impl<'a> Asker<'a> {
    /// Opens a session like [`open`].
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn open(store: &'a dyn AnyStore, access: Access) -> Result<Self, TransferError> {
        let (session, clock) = self::open(store, &SessionRequest { durability: None, access, in_flight: 1 }).await?;
        let draw = wait_lengths(&RealClock::new());
        Ok(Self { store, session, clock, access, timer: Timer::default(), draw, token: 0 })
    }

    /// Sends a request until it succeeds without rejects, or is a page of documents, retrying as the policy says. `request` makes it from the number
    /// of attempts that have failed. `tried` receives the result of each attempt and its duration in ns. `what` describes
    /// the operation in errors.
    ///
    /// # Errors
    /// The error of the last attempt.
    pub(crate) async fn ask<'r>(
        &mut self,
        request: impl Fn(u32) -> Request<'r>,
        what: &str,
        mut tried: impl FnMut(Result<&OwnedReply, ErrorKind>, u64),
    ) -> Result<OwnedReply, TransferError> {
        let mut tries = Tries::default();
        loop {
            let sent_ns = self.clock.now_ns();
            tries.begin(sent_ns);
            let request = request(tries.failed);
            // The caller handles rows of a page that cannot be read.
            let is_page = matches!(request.op, Op::Scan { .. });
            let answer = self.answer(&request).await.and_then(|reply| {
                let rejected = reply.as_reply().rejects.first().filter(|_| !is_page).map(|reject| reject.error.clone());
                rejected.map_or(Ok(reply), Err)
            });
            let now_ns = self.clock.now_ns();
            tried(answer.as_ref().map_err(|error| error.kind), now_ns - sent_ns);
            let error = match answer {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let text = format!("{what}: {error}");
            if !is_for_now(error.kind) {
                return Err(of_store(self.store, StoreError::Failed(text)));
            }
            match tries.next_ns(&self.access.retry, now_ns, &mut self.draw) {
                Some(due_ns) => self.rest(due_ns).await,
                None => return Err(of_store(self.store, given_up(&tries, &text))),
            }
        }
    }

    /// Sends a request and waits for its answer.
    async fn answer(&mut self, request: &Request<'_>) -> Result<OwnedReply, OpError> {
        self.token += 1;
        let (token, mut answers) = (self.token, Vec::new());
        self.session.submit(request, Token(token), &mut adding_to(&mut answers));
        self.session.flush();
        let deadline_ns = self.clock.now_ns().saturating_add(self.access.timeout.as_nanos() as u64);
        poll_fn(|cx| {
            loop {
                // Others are of requests that were abandoned.
                answers.retain(|(given, _)| *given == token);
                if let Some((_, answer)) = answers.pop() {
                    return Poll::Ready(answer);
                }
                let _ = self.session.poll(cx, &mut adding_to(&mut answers));
                let now_ns = self.clock.now_ns();
                if answers.is_empty() && now_ns >= deadline_ns {
                    self.session.abandon(Token(token));
                    let error = OpError::new(ErrorKind::Temporary, "no answer within the timeout");
                    answers.push((token, Err(error)));
                }
                let wake_ns = self.session.wake_at_ns().unwrap_or(u64::MAX).min(deadline_ns);
                if answers.is_empty()
                    && self.timer.poll(cx, Duration::from_nanos(wake_ns.saturating_sub(now_ns))).is_pending()
                {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Waits. Polls the session meanwhile, so that it can reconnect after it lost its connection.
    async fn rest(&mut self, until_ns: u64) {
        poll_fn(|cx| {
            let _ = self.session.poll(cx, &mut |_: Token, _: Result<Reply<'_>, OpError>| {});
            let left_ns = until_ns.saturating_sub(self.clock.now_ns());
            // A timer set to the current moment would fire one tick later and be set again.
            if left_ns == 0 { Poll::Ready(()) } else { self.timer.poll(cx, Duration::from_nanos(left_ns)) }
        })
        .await;
    }
}

/// The error for a store that was unreachable for too long.
pub(crate) fn given_up(tries: &Tries, error: &str) -> StoreError {
    let tries = tries.failed;
    StoreError::Unreachable(format!(
        "gave up after {tries} attempts: {error}; copied records stay; continue with --resume"
    ))
}

/// Checks that a store supports an operation.
///
/// # Errors
/// The store does not support it.
pub(crate) fn needs(store: &dyn AnyStore, kind: OpKind, why: &str) -> Result<(), TransferError> {
    if store.capabilities().supports(kind).is_some() {
        return Ok(());
    }
    Err(TransferError::BadInput(format!("{} cannot do `{kind}`, which {why} needs", store.describe().url)))
}

/// Wraps an error of this store.
pub(crate) fn of_store(store: &dyn AnyStore, error: StoreError) -> TransferError {
    TransferError::Store { url: store.describe().url, error }
}

/// Rewrites an error about columns to name the command's flags instead of the keys of a study.
pub(crate) fn naming_columns(error: StoreError, flags: &str) -> StoreError {
    error.map_text(|text| text.replace(NAME_COLUMNS, flags))
}
