//! A session: operations, each with a connection to itself while it is under way.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{SystemTime, UNIX_EPOCH};

use storebench_core::store::{
    Completions, FutureSession, OpError, OwnedReply, Request, Respond, Session, SessionCounters, Token,
};
use storebench_core::workload::Body;

use super::commands::{Builder, Collection, Tails};
use super::job::{Begin, Job, Step};
use super::lane::{Lane, Taken};
use crate::net::{STEP, finish};

/// One session.
pub(crate) struct MongoSession {
    inner: FutureSession<Client>,
    writes: Arc<Lane>,
    reads: Arc<Lane>,
}

impl MongoSession {
    pub(super) fn new(client: Client) -> Self {
        let (writes, reads) = (Arc::clone(&client.writes), Arc::clone(&client.reads));
        Self { inner: FutureSession::new(client), writes, reads }
    }
}

impl Session for MongoSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        self.inner.submit(request, token, out);
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        self.inner.poll(cx, out)
    }

    fn abandon(&mut self, token: Token) {
        self.inner.abandon(token);
    }

    fn counters(&self) -> SessionCounters {
        let of = |lane: &Lane| SessionCounters {
            disconnects: lane.disconnects(),
            splits: lane.splits.load(Ordering::Relaxed),
        };
        let mut counters = of(&self.writes);
        if !Arc::ptr_eq(&self.writes, &self.reads) {
            counters += of(&self.reads);
        }
        counters
    }
}

/// What operations share.
pub(super) struct Client {
    pub(super) shared: Arc<Shared>,
    /// Where writes go, and reads that must see them.
    pub(super) writes: Arc<Lane>,
    /// Where other reads go.
    pub(super) reads: Arc<Lane>,
}

pub(super) struct Shared {
    pub(super) collections: Vec<Collection>,
    pub(super) tails: Tails,
    pub(super) read_only: bool,
    /// Where the drawing of revisions is: the state of splitmix64.
    pub(super) revisions: AtomicU64,
}

impl Shared {
    fn draw(&self) -> i64 {
        finish(self.revisions.fetch_add(STEP, Ordering::Relaxed)).cast_signed()
    }
}

/// Milliseconds since 1970, by this machine's clock.
pub(super) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

impl Client {
    fn begin(&self, request: &Request<'_>, lane: &Lane, message: &mut Vec<u8>) -> Result<Option<Job>, OpError> {
        let collection = self.shared.collections.get(request.collection.position()).ok_or_else(outside)?;
        let kind = request.op.kind();
        if self.shared.read_only && kind.writes() {
            return Err(read_only());
        }
        if collection.body == Body::Counter && matches!(kind, storebench_core::store::OpKind::Page) {
            return Err(OpError::unsupported());
        }
        let limits = &lane.limits;
        let begin = Begin {
            builder: Builder { out: message, collection, tails: &self.shared.tails },
            most_document_bytes: limits.most_document_bytes,
            most_message_bytes: limits.most_message_bytes,
            most_writes: limits.most_writes,
            draw: &mut || self.shared.draw(),
            now_ms: now_ms(),
        };
        let (job, splits) = begin.begin(request)?;
        if splits > 0 {
            lane.splits.fetch_add(splits as u64, Ordering::Relaxed);
        }
        Ok(job)
    }
}

fn outside() -> OpError {
    OpError::new(storebench_core::store::ErrorKind::Refused, "there is no such collection in the prepared layout")
}

fn read_only() -> OpError {
    OpError::new(storebench_core::store::ErrorKind::Refused, "prepared for reading only; nothing is written")
}

impl Respond for Client {
    type Future = Exchange;

    fn respond(&mut self, request: &Request<'_>) -> Exchange {
        let lane = if request.op.kind().writes() { &self.writes } else { &self.reads };
        let mut message = lane.buffer();
        let state = match self.begin(request, lane, &mut message) {
            Ok(Some(mut job)) => match job.without_asking() {
                Some(reply) => State::Known(Some(Ok(reply))),
                None => State::Asking { job, position: request.collection.position() },
            },
            // Nothing was asked for: no document.
            Ok(None) => State::Known(Some(Ok(if request.contents && asks_for_rows(request) {
                OwnedReply::documents(0).rows(storebench_core::store::BatchBuf::new())
            } else {
                OwnedReply::documents(0)
            }))),
            Err(error) => State::Known(Some(Err(error))),
        };
        Exchange { shared: Arc::clone(&self.shared), lane: Arc::clone(lane), state, message, taken: None, ticket: None }
    }
}

fn asks_for_rows(request: &Request<'_>) -> bool {
    use storebench_core::store::OpKind;
    matches!(request.op.kind(), OpKind::Page | OpKind::Prefix | OpKind::Scan | OpKind::BulkRead)
}

/// One operation, from its first message to its reply.
pub(super) struct Exchange {
    shared: Arc<Shared>,
    lane: Arc<Lane>,
    state: State,
    message: Vec<u8>,
    taken: Option<Taken>,
    ticket: Option<u64>,
}

// One for each operation in flight, in a place of its own: boxing the larger would cost an allocation.
#[allow(clippy::large_enum_variant)]
enum State {
    /// Ended without asking.
    Known(Option<Result<OwnedReply, OpError>>),
    Asking {
        job: Job,
        position: usize,
    },
}

impl Future for Exchange {
    type Output = Result<OwnedReply, OpError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { shared, lane, state, message, taken, ticket } = self.get_mut();
        let (job, position) = match state {
            State::Known(known) => return Poll::Ready(known.take().unwrap_or_else(|| Err(outside()))),
            State::Asking { job, position } => (job, *position),
        };
        loop {
            let using = match taken {
                Some(using) => using,
                None => match ready!(lane.poll_take(cx, ticket)) {
                    Ok(got) => taken.insert(got),
                    Err(error) => return Poll::Ready(Err(error)),
                },
            };
            if let Err(broken) = ready!(using.connection.poll_exchange(message, cx)) {
                *taken = None;
                lane.lost();
                return Poll::Ready(job.broken_off(broken.operation(job.at_stake())));
            }
            let reply = using.connection.reply();
            let Some(collection) = shared.collections.get(position) else { return Poll::Ready(Err(outside())) };
            match job.answer(reply, message, collection, &shared.tails, &mut || shared.draw()) {
                Step::Again => {}
                Step::Done { result, elsewhere } => {
                    if let Some(using) = taken.take() {
                        lane.give_back(using, elsewhere);
                    }
                    return Poll::Ready(result);
                }
            }
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.lane.give_buffer_back(std::mem::take(&mut self.message));
        if self.ticket.is_some() {
            self.lane.leave(self.ticket.take());
        }
        // Given up on the way: the answer may still come, so the connection is of no more use.
        if self.taken.take().is_some() {
            self.lane.given_up();
        }
    }
}
