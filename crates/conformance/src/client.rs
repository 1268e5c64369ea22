//! Drives one session of any store from plain code, with one or many operations at a time.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::json::same_json;
use super::suite::Stop;
use super::time::Time;
use serde_json::Value;
use storebench_engine::store::{
    AnyStore, CollectionId, ErrorKind, Op, OpError, OwnedReply, ReadConsistency, Reply, Request, Runtime, Session,
    SessionOptions, StoreError, Token,
};

/// After this long without an answer, an operation counts as never answered. It is far more than any store needs, so
/// that a slow machine fails no check.
const PATIENCE: Duration = Duration::from_secs(60);

/// The result of an operation, owned.
pub(super) type Answer = Result<OwnedReply, OpError>;

/// A session and what drives it.
pub(super) struct Client {
    // In an `Option` so that it can be dropped within the runtime that owns its sockets.
    session: Option<Box<dyn Session>>,
    runtime: Option<tokio::runtime::Runtime>,
    time: Time,
    consistency: ReadConsistency,
    next_token: u64,
}

fn opened(session: &mut Option<Box<dyn Session>>) -> &mut dyn Session {
    &mut **session.as_mut().expect("only `drop` takes the session")
}

impl Drop for Client {
    fn drop(&mut self) {
        let _within = self.runtime.as_ref().map(tokio::runtime::Runtime::enter);
        drop(self.session.take());
    }
}

impl Client {
    /// Opens a session on this thread.
    pub(super) fn open(store: &dyn AnyStore, options: &SessionOptions, time: &Time) -> Result<Self, StoreError> {
        let runtime = match store.runtime() {
            Runtime::Plain => None,
            Runtime::Reactor => Some(
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(|e| StoreError::Failed(format!("could not create a tokio runtime: {e}")))?,
            ),
        };
        let opening = store.open_any(options);
        let session = match &runtime {
            Some(runtime) => runtime.block_on(opening)?,
            None => block_on(opening)?,
        };
        Ok(Self {
            session: Some(session),
            runtime,
            time: time.clone(),
            consistency: options.consistency,
            next_token: 1,
        })
    }

    /// Does one operation, with contents wanted. Retries *temporary* errors, because nothing was done.
    pub(super) fn call(&mut self, collection: CollectionId, op: Op<'_>) -> Result<Answer, Stop> {
        self.call_request(&Request { collection, op, contents: true })
    }

    /// The same for a whole request.
    pub(super) fn call_request(&mut self, request: &Request<'_>) -> Result<Answer, Stop> {
        let begun = Instant::now();
        loop {
            let token = Token(self.next_token);
            self.next_token += 1;
            let mut answers = Answers::default();
            self.submit(request, token, &mut answers);
            self.finish(1, &mut answers)?;
            match answers.0.pop() {
                Some((answered, answer)) if answered == token => match answer {
                    Err(error) if error.kind == ErrorKind::Temporary && begun.elapsed() < PATIENCE => {
                        thread::sleep(Duration::from_millis(1));
                    }
                    answer => return Ok(answer),
                },
                other => {
                    return Err(Stop::failed(format!(
                        "{} with token {token:?} was completed as {other:?}",
                        request.op.kind()
                    )));
                }
            }
        }
    }

    /// Submits without waiting.
    pub(super) fn submit(&mut self, request: &Request<'_>, token: Token, answers: &mut Answers) {
        let session = opened(&mut self.session);
        match &self.runtime {
            None => session.submit(request, token, answers),
            Some(runtime) => runtime.block_on(async {
                session.submit(request, token, answers);
                // The task that reconnects a session runs only here.
                tokio::task::yield_now().await;
            }),
        }
    }

    /// Tells the session that nobody waits for this operation any more.
    pub(super) fn abandon(&mut self, token: Token) {
        let _within = self.runtime.as_ref().map(tokio::runtime::Runtime::enter);
        opened(&mut self.session).abandon(token);
    }

    /// Flushes, and polls until this many answers have arrived.
    pub(super) fn finish(&mut self, wanted: usize, answers: &mut Answers) -> Result<(), Stop> {
        let session = opened(&mut self.session);
        match &self.runtime {
            None => finish_plain(session, &self.time, wanted, answers),
            Some(runtime) => runtime.block_on(finish_reactor(session, &self.time, wanted, answers)),
        }?;
        if answers.0.len() > wanted {
            return Err(Stop::failed(format!("{} completions for {wanted} operations", answers.0.len())));
        }
        Ok(())
    }

    /// Polls once. Returns whether the session says that nothing is in flight.
    pub(super) fn idle(&mut self, answers: &mut Answers) -> bool {
        let session = opened(&mut self.session);
        let once = poll_fn(|cx| Poll::Ready(session.poll(cx, answers).is_ready()));
        match &self.runtime {
            None => block_on(once),
            Some(runtime) => runtime.block_on(once),
        }
    }

    /// Polls up to a hundred times. Returns whether one of the polls did not request the next one before it returned.
    pub(super) fn comes_to_rest(&mut self, answers: &mut Answers) -> bool {
        let _within = self.runtime.as_ref().map(tokio::runtime::Runtime::enter);
        let session = opened(&mut self.session);
        (0..100).any(|_| {
            let woken = Arc::new(WakeFlag::default());
            let waker = Waker::from(Arc::clone(&woken));
            let _ = session.poll(&mut Context::from_waker(&waker), answers);
            !woken.0.load(Ordering::Relaxed)
        })
    }

    /// Does an operation that must succeed.
    pub(super) fn ok(&mut self, collection: CollectionId, op: Op<'_>) -> Result<OwnedReply, Stop> {
        self.call(collection, op)?.map_err(|error| Stop::failed(format!("{} must succeed; got {error}", show(&op))))
    }

    /// Does a write of one document that must succeed and say that it wrote one.
    pub(super) fn wrote(&mut self, collection: CollectionId, op: Op<'_>) -> Result<OwnedReply, Stop> {
        let reply = self.ok(collection, op)?;
        match reply.as_reply().documents {
            1 => Ok(reply),
            n => Err(Stop::failed(format!("{} must reply 1 document; got {n}", show(&op)))),
        }
    }

    /// Does an operation that must fail in this way.
    pub(super) fn fails(&mut self, kind: ErrorKind, collection: CollectionId, op: Op<'_>) -> Result<(), Stop> {
        match self.call(collection, op)? {
            Err(error) if error.kind == kind => Ok(()),
            Err(error) => Err(Stop::failed(format!("{} must end as {kind}; got {error}", show(&op)))),
            Ok(reply) => {
                Err(Stop::failed(format!("{} must end as {kind}; it succeeded: {:?}", show(&op), reply.as_reply())))
            }
        }
    }

    /// Reads a document that must exist, as bytes.
    pub(super) fn read(&mut self, collection: CollectionId, key: &str) -> Result<Vec<u8>, Stop> {
        let reply = self.ok(collection, Op::Read { key })?;
        body_of(&reply.as_reply()).map_err(|text| Stop::failed(format!("read of `{key}`: {text}")))
    }

    /// A document must exist and be this JSON.
    pub(super) fn holds(&mut self, collection: CollectionId, key: &str, expected: &Value) -> Result<(), Stop> {
        self.until(|client| {
            let body = client.read(collection, key)?;
            same_json(expected, &body).map_err(|text| Stop::failed(format!("read of `{key}`: {text}")))
        })
    }

    /// A document must exist and be these bytes.
    pub(super) fn holds_bytes(&mut self, collection: CollectionId, key: &str, expected: &[u8]) -> Result<(), Stop> {
        self.until(|client| {
            let body = client.read(collection, key)?;
            if body == expected {
                return Ok(());
            }
            Err(Stop::failed(format!(
                "read of `{key}`: expected {} bytes `{}`, got {} bytes `{}`",
                expected.len(),
                shorten(expected),
                body.len(),
                shorten(&body)
            )))
        })
    }

    /// A document must not exist.
    pub(super) fn lacks(&mut self, collection: CollectionId, key: &str) -> Result<(), Stop> {
        self.until(|client| client.fails(ErrorKind::NotFound, collection, Op::Read { key }))
    }

    /// Retries for some seconds if the store guarantees only stale reads.
    pub(super) fn until<T>(&mut self, mut attempt: impl FnMut(&mut Self) -> Result<T, Stop>) -> Result<T, Stop> {
        let begun = Instant::now();
        loop {
            match attempt(self) {
                Err(Stop::Failed(_))
                    if self.consistency == ReadConsistency::StaleOk && begun.elapsed() < PATIENCE / 4 =>
                {
                    thread::sleep(Duration::from_millis(20));
                }
                result => return result,
            }
        }
    }
}

/// The body of a reply to a single read, checked against its counts.
fn body_of(reply: &Reply<'_>) -> Result<Vec<u8>, String> {
    let body = reply.body.ok_or("contents were wanted but no body came")?;
    if reply.documents != 1 {
        return Err(format!("a single read must reply 1 document; got {}", reply.documents));
    }
    if reply.bytes != body.len() as u64 {
        return Err(format!("a body of {} bytes was counted as {}", body.len(), reply.bytes));
    }
    Ok(body.to_vec())
}

/// A short form of an operation: what is asked, and the beginning of a body as text.
pub(super) fn show(op: &Op<'_>) -> String {
    let with = |key: &str, body: &[u8]| format!("of `{}` with {}", shorten(key.as_bytes()), shorten(body));
    let what = match op {
        Op::Insert { key, body } | Op::Upsert { key, body } | Op::Replace { key, body } => with(key, body),
        Op::CompareAndSwap { key, body, .. } => with(key, body),
        Op::Append { key, bytes } | Op::Prepend { key, bytes } => with(key, bytes),
        Op::MergePatch { key, patch } => with(key, patch),
        Op::Read { key } | Op::Exists { key } | Op::Delete { key } => format!("of `{}`", shorten(key.as_bytes())),
        Op::BulkWrite { items, .. } | Op::BulkRead { keys: items } | Op::BulkDelete { keys: items } => {
            format!("of {} keys", items.len())
        }
        other => {
            let text = format!("{other:?}");
            format!("({})", shorten(text.as_bytes()))
        }
    };
    format!("{} {what}", op.kind())
}

/// The beginning of some bytes as text.
pub(super) fn shorten(bytes: &[u8]) -> String {
    let end = bytes.len().min(60);
    let more = if end < bytes.len() { "…" } else { "" };
    format!("{}{more}", String::from_utf8_lossy(&bytes[..end]))
}

/// Completions in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Answers(pub(super) Vec<(Token, Answer)>);

impl storebench_engine::store::Completions for Answers {
    fn complete(&mut self, token: Token, result: Result<Reply<'_>, OpError>) {
        self.0.push((token, result.map(OwnedReply::from)));
    }
}

/// The result of one look at a session: whether enough answers have arrived, or else when to look again at the latest.
enum Look {
    Done,
    Again(Duration),
}

fn look(
    session: &mut dyn Session,
    cx: &mut Context<'_>,
    time: &Time,
    wanted: usize,
    answers: &mut Answers,
) -> Result<Look, Stop> {
    let idle = session.poll(cx, answers).is_ready();
    if answers.0.len() >= wanted {
        return Ok(Look::Done);
    }
    if idle {
        return Err(Stop::failed(format!(
            "the session says that nothing is in flight, but only {} of {wanted} operations have completed",
            answers.0.len()
        )));
    }
    let wait = session.wake_at_ns().map(|at_ns| time.wait_for(at_ns));
    Ok(Look::Again(wait.unwrap_or(PATIENCE).min(PATIENCE)))
}

fn never(wanted: usize, answers: &Answers) -> Stop {
    Stop::failed(format!("only {} of {wanted} operations completed within {PATIENCE:?}", answers.0.len()))
}

fn finish_plain(session: &mut dyn Session, time: &Time, wanted: usize, answers: &mut Answers) -> Result<(), Stop> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let begun = Instant::now();
    session.flush();
    loop {
        match look(session, &mut Context::from_waker(&waker), time, wanted, answers)? {
            Look::Done => return Ok(()),
            Look::Again(_) if begun.elapsed() > PATIENCE => return Err(never(wanted, answers)),
            Look::Again(wait) => thread::park_timeout(wait),
        }
    }
}

async fn finish_reactor(
    session: &mut dyn Session,
    time: &Time,
    wanted: usize,
    answers: &mut Answers,
) -> Result<(), Stop> {
    let begun = Instant::now();
    session.flush();
    let mut alarm = pin!(tokio::time::sleep(PATIENCE));
    poll_fn(|cx| {
        loop {
            match look(session, cx, time, wanted, answers) {
                Err(stop) => return Poll::Ready(Err(stop)),
                Ok(Look::Done) => return Poll::Ready(Ok(())),
                Ok(Look::Again(_)) if begun.elapsed() > PATIENCE => return Poll::Ready(Err(never(wanted, answers))),
                Ok(Look::Again(wait)) => {
                    alarm.as_mut().reset(tokio::time::Instant::now() + wait);
                    if alarm.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    })
    .await
}

/// Whether it was woken.
#[derive(Default)]
struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, which sleeps while it waits.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = Pin::as_mut(&mut future).poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}
