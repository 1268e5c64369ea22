//! A decorator that holds replies back until a time: the shared part of [`Slow`](super::Slow) and
//! [`Limit`](super::Limit).
//!
//! The inner operation is done at `submit`. Its reply is kept as owned data and handed over once the clock has passed
//! the time that [`DueTimes`] gave it. If the inner session completes later than that, the decorator waits for it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::erased::{forward, forwarded};
use super::{
    Account, BuiltIndex, Capabilities, CollectionId, CollectionLayout, Completions, Description, Explanation, Holdings,
    Layout, LocalFuture, Namespace, OpError, OwnedReply, Owner, PhaseStart, Prepare, Reply, Request, RowStream, Rows,
    Runtime, SameKeys, Session, SessionCounters, SessionOptions, Stats, Store, StoreError, StoreSettings, Token,
};
use crate::Clock;

/// When operations end. All sessions of a store share one value.
pub trait DueTimes: Send + Sync + 'static {
    /// The earliest time at which an operation that is submitted at `now_ns` may complete. `phase_start_ns` is when its
    /// session's measured phase begins, if it has one.
    fn due_ns(&self, now_ns: u64, phase_start_ns: Option<u64>) -> u64;

    /// The name in front of the `+` in the store's URL.
    fn prefix(&self) -> &'static str;

    /// Its options as in a URL, without the `?`.
    fn query(&self) -> String;

    /// What a user should know about a store that is decorated like this.
    fn note(&self) -> &'static str;
}

/// A store whose replies are held back.
#[derive(Debug)]
pub struct Held<S, D> {
    inner: S,
    due: Arc<D>,
}

impl<S, D: DueTimes> Held<S, D> {
    /// Decorates a store.
    pub(super) fn over(inner: S, due: D) -> Self {
        Self { inner, due: Arc::new(due) }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store, D: DueTimes> Store for Held<S, D> {
    type Session = HeldSession<S::Session, D>;

    forwarded!(forward! self => Store, &self.inner);

    /// The inner store with the decorator in its URL.
    fn describe(&self) -> Description {
        let inner = self.inner.describe();
        let query = self.due.query();
        let joint = match (query.is_empty(), inner.url.contains('?')) {
            (true, _) => "",
            (false, true) => "&",
            (false, false) => "?",
        };
        Description { url: format!("{}+{}{joint}{query}", self.due.prefix(), inner.url), ..inner }
    }

    /// As the inner store, except that an operation can be given up before its reply is handed over.
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.inner.capabilities();
        capabilities.gives_up_at_timeout = true;
        // A stream would be neither held back nor counted.
        capabilities.rows = &[];
        capabilities.notes.push(self.due.note());
        capabilities
    }

    fn rows<'a>(&'a self, _: Rows<'a>) -> LocalFuture<'a, Result<Box<dyn RowStream>, StoreError>> {
        Box::pin(async { Err(StoreError::NotSupported(format!("{}+ cannot stream rows", self.due.prefix()))) })
    }

    async fn open(&self, options: &SessionOptions) -> Result<Self::Session, StoreError> {
        Ok(HeldSession {
            inner: self.inner.open(options).await?,
            due: Arc::clone(&self.due),
            clock: Arc::clone(&options.clock),
            phase_start: options.phase_start.clone(),
            kept: Kept::default(),
        })
    }
}

/// A session whose replies are held back.
pub struct HeldSession<S, D> {
    inner: S,
    due: Arc<D>,
    clock: Arc<dyn Clock>,
    phase_start: PhaseStart,
    kept: Kept,
}

#[cfg(test)]
impl<S, D> HeldSession<S, D> {
    /// The most operations that it ever had in flight at once.
    pub(super) fn places(&self) -> usize {
        self.kept.places.len()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Session, D: DueTimes> Session for HeldSession<S, D> {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let now_ns = self.clock.now_ns();
        let due_ns = self.due.due_ns(now_ns, self.phase_start.get());
        let inner_token = self.kept.enter(token, due_ns);
        self.inner.submit(request, inner_token, &mut self.kept);
        // The inner operation may have taken longer than planned.
        self.kept.release(self.clock.now_ns(), out);
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        let inner = self.inner.poll(cx, &mut self.kept);
        self.kept.release(self.clock.now_ns(), out);
        if inner.is_ready() && self.kept.held == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    /// When the next held reply is due, or when the inner session wants to be woken.
    fn wake_at_ns(&self) -> Option<u64> {
        [self.kept.next_due_ns(), self.inner.wake_at_ns()].into_iter().flatten().min()
    }

    /// Drops the reply. The operation still takes its share of the store's time: a server does not know that its client
    /// has given up.
    fn abandon(&mut self, token: Token) {
        if let Some(inner_token) = self.kept.abandon(token) {
            self.inner.abandon(inner_token);
        }
    }

    fn counters(&self) -> SessionCounters {
        self.inner.counters()
    }
}

/// Replies that are kept until their time, in reused places. A place keeps its buffers, so memory is at most the
/// largest replies times the most operations in flight at once.
#[derive(Default)]
struct Kept {
    places: Vec<HeldOperation>,
    free: Vec<u32>,
    /// Answered operations by due time, then by order of submission. Abandoned operations stay inside until they reach
    /// the top, where they are removed at once.
    ready: BinaryHeap<Reverse<(u64, u64, u32)>>,
    submitted: u64,
    held: usize,
}

#[derive(Default)]
struct HeldOperation {
    /// The operation that has this place; numbers are never reused.
    number: u64,
    token: Token,
    due_ns: u64,
    state: HeldState,
    reply: OwnedReply,
    error: Option<OpError>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum HeldState {
    #[default]
    Free,
    Asked,
    Answered,
}

impl Kept {
    /// Takes a place for an operation. Returns the token for the inner session.
    fn enter(&mut self, token: Token, due_ns: u64) -> Token {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(HeldOperation::default());
            u32::try_from(self.places.len() - 1).expect("no session has 2^32 operations in flight")
        });
        self.submitted += 1;
        self.held += 1;
        let taken = &mut self.places[place as usize];
        taken.number = self.submitted;
        taken.token = token;
        taken.due_ns = due_ns;
        taken.state = HeldState::Asked;
        inner_token(place, self.submitted)
    }

    /// Hands over every answered operation that is due.
    fn release(&mut self, now_ns: u64, out: &mut dyn Completions) {
        while let Some(&Reverse((due_ns, number, place))) = self.ready.peek()
            && due_ns <= now_ns
        {
            self.ready.pop();
            if !self.is_current(number, place) {
                continue;
            }
            self.leave(place);
            let left = &mut self.places[place as usize];
            let result = match left.error.take() {
                Some(error) => Err(error),
                None => Ok(left.reply.as_reply()),
            };
            out.complete(left.token, result);
        }
        self.drop_abandoned();
    }

    /// Drops an operation. Returns its inner token if the inner session has not answered yet.
    fn abandon(&mut self, token: Token) -> Option<Token> {
        let place = self.places.iter().position(|place| place.state != HeldState::Free && place.token == token)?;
        let asked = self.places[place].state == HeldState::Asked;
        let number = self.places[place].number;
        let place = u32::try_from(place).ok()?;
        self.leave(place);
        self.drop_abandoned();
        asked.then(|| inner_token(place, number))
    }

    fn leave(&mut self, place: u32) {
        self.places[place as usize].state = HeldState::Free;
        self.free.push(place);
        self.held -= 1;
    }

    fn is_current(&self, number: u64, place: u32) -> bool {
        let place = &self.places[place as usize];
        place.state == HeldState::Answered && place.number == number
    }

    /// Removes abandoned operations from the top of the heap, so that [`Self::next_due_ns`] need not search.
    fn drop_abandoned(&mut self) {
        while let Some(&Reverse((_, number, place))) = self.ready.peek()
            && !self.is_current(number, place)
        {
            self.ready.pop();
        }
    }

    fn next_due_ns(&self) -> Option<u64> {
        self.ready.peek().map(|Reverse((due_ns, ..))| *due_ns)
    }
}

/// The place, and the low bits of the operation's number. They keep an answer to an operation that has left its place
/// from being taken for its successor's.
fn inner_token(place: u32, number: u64) -> Token {
    Token(u64::from(place) | (number << 32))
}

/// Receives what the inner session completes.
impl Completions for Kept {
    fn complete(&mut self, token: Token, result: Result<Reply<'_>, OpError>) {
        let place_number = token.0 as u32;
        let Some(place) = self.places.get_mut(place_number as usize) else { return };
        if place.state != HeldState::Asked || inner_token(place_number, place.number) != token {
            return;
        }
        place.state = HeldState::Answered;
        match result {
            Ok(reply) => place.reply.copy_from(&reply),
            Err(error) => place.error = Some(error),
        }
        self.ready.push(Reverse((place.due_ns, place.number, place_number)));
    }
}
