//! Makes a [`Session`] from any client crate that returns a future per request.
//!
//! The futures are polled in place, each with its own waker, so that only futures that were woken are polled again. No
//! future is spawned, and their places are reused, so an operation costs no allocation here.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::task::coop::{Unconstrained, unconstrained};

use super::wakers::{SlotWaker, WokenSlots};
use super::{Completions, OpError, OwnedReply, Request, Session, SessionCounters, Token};

/// A client that answers each request with a future.
pub trait Respond {
    /// Resolves to the result of the operation. It owns what it needs of the request.
    type Future: Future<Output = Result<OwnedReply, OpError>>;

    /// Begins an operation. The future is polled once before the session's `submit` returns, and
    /// again whenever it wakes.
    fn respond(&mut self, request: &Request<'_>) -> Self::Future;

    /// What happened beyond the operations.
    fn counters(&self) -> SessionCounters {
        SessionCounters::default()
    }
}

/// A session over a client that answers with futures.
///
/// [`Session::abandon`] drops the future, and the client does what it does for dropped futures. The outcome of the
/// operation is then unknown.
pub struct FutureSession<R: Respond> {
    client: R,
    places: Vec<FuturePlace<R::Future>>,
    free: Vec<usize>,
    slots: Arc<WokenSlots>,
    /// Places to poll in this turn; kept for its memory.
    turn: Vec<usize>,
    in_flight: usize,
}

struct FuturePlace<F> {
    token: Token,
    /// Boxed once for all futures of this place: each replaces the last. It runs outside tokio's budget. Otherwise work
    /// that is deferred when the budget runs out would be lost if `submit` is called in a short run of a runtime.
    future: Pin<Box<Option<Unconstrained<F>>>>,
    woken: Arc<SlotWaker>,
    waker: Waker,
}

impl<R: Respond> FutureSession<R> {
    /// A session over this client.
    pub fn new(client: R) -> Self {
        Self { client, places: Vec::new(), free: Vec::new(), slots: Arc::default(), turn: Vec::new(), in_flight: 0 }
    }

    fn take_place(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            let place = self.places.len();
            let woken = self.slots.waker(place);
            self.places.push(FuturePlace {
                token: Token(0),
                future: Box::pin(None),
                waker: Waker::from(Arc::clone(&woken)),
                woken,
            });
            place
        })
    }

    /// Polls the future of a place, if it still has one.
    fn poll_place(&mut self, number: usize, out: &mut dyn Completions) {
        let place = &mut self.places[number];
        place.woken.reset();
        let Some(future) = place.future.as_mut().as_pin_mut() else { return };
        if let Poll::Ready(result) = future.poll(&mut Context::from_waker(&place.waker)) {
            let token = place.token;
            self.clear_place(number);
            match result {
                Ok(reply) => out.complete(token, Ok(reply.as_reply())),
                Err(error) => out.complete(token, Err(error)),
            }
        }
    }

    fn clear_place(&mut self, number: usize) {
        self.places[number].future.set(None);
        self.free.push(number);
        self.in_flight -= 1;
    }
}

impl<R: Respond> Session for FutureSession<R> {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let future = self.client.respond(request);
        let number = self.take_place();
        self.places[number].token = token;
        self.places[number].future.set(Some(unconstrained(future)));
        self.in_flight += 1;
        // Polled at once, so that the request is usually on its way when `submit` returns.
        self.poll_place(number, out);
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        self.slots.listen(cx.waker());
        let mut turn = std::mem::take(&mut self.turn);
        self.slots.take(&mut turn);
        for number in &turn {
            self.poll_place(*number, out);
        }
        self.turn = turn;
        if self.in_flight == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    fn abandon(&mut self, token: Token) {
        let found = self.places.iter().position(|place| place.token == token && place.future.is_some());
        if let Some(number) = found {
            self.clear_place(number);
        }
    }

    fn counters(&self) -> SessionCounters {
        self.client.counters()
    }
}

#[cfg(test)]
#[path = "futures_tests.rs"]
mod tests;
