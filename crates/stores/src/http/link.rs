//! One connection of a session, with at most one request at a time.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use storebench_engine::store::{LocalFuture, SlotWaker, StoreError, WokenSlots};

use super::wire::{Failure, Wire};
use super::{Answer, RequestBuf};
use crate::net::Backoff;

/// The state of a link's connection.
pub(super) enum LinkState {
    /// Open, or closed a moment ago.
    Open(Box<Wire>),
    /// Connecting. `fresh` means that no try has failed since the last connection that served a request. Requests may
    /// then wait for the link.
    Connecting { coming: LocalFuture<'static, Result<Wire, StoreError>>, fresh: bool },
}

/// One connection and the exchange on it.
pub(super) struct Link {
    pub(super) state: LinkState,
    pub(super) backoff: Backoff,
    /// The place whose request it carries.
    pub(super) place: Option<usize>,
    /// Whether this connection has received an answer.
    pub(super) served: bool,
    /// Whether the loss of the last connection was counted.
    pub(super) counted: bool,
    /// Whether its request was passed to the connection, so that part of it may have been sent.
    pub(super) begun: bool,
    /// Whether something happened since the last poll.
    pub(super) woken: Arc<SlotWaker>,
    waker: Waker,
}

impl Link {
    pub(super) fn new(number: usize, wire: Wire, slots: &Arc<WokenSlots>) -> Self {
        let woken = slots.waker(number);
        Self {
            state: LinkState::Open(Box::new(wire)),
            backoff: Backoff::default(),
            place: None,
            served: false,
            counted: false,
            begun: false,
            waker: Waker::from(Arc::clone(&woken)),
            woken,
        }
    }

    /// Whether the connection can carry another request.
    pub(super) fn is_open(&self) -> bool {
        matches!(&self.state, LinkState::Open(wire) if wire.incoming.keeps_open)
    }

    /// Whether it can send a request, now or once it is free or connected.
    pub(super) fn is_hopeful(&self) -> bool {
        !matches!(self.state, LinkState::Connecting { fresh: false, .. })
    }

    /// Makes the session poll this link.
    pub(super) fn wake(&self) {
        self.waker.wake_by_ref();
    }

    /// Ends the request and frees the link. Without its answer, the connection cannot be used again.
    pub(super) fn end(&mut self) -> Option<usize> {
        self.begun = false;
        self.place.take()
    }

    /// Records that it received an answer.
    pub(super) fn serves(&mut self) {
        self.served = true;
        self.backoff.reset();
    }

    /// Continues connecting. Returns false if that failed.
    pub(super) fn poll_connect(&mut self) -> Poll<bool> {
        let LinkState::Connecting { coming, .. } = &mut self.state else { return Poll::Pending };
        let made = std::task::ready!(coming.as_mut().poll(&mut Context::from_waker(&self.waker)));
        let Ok(wire) = made else { return Poll::Ready(false) };
        self.state = LinkState::Open(Box::new(wire));
        Poll::Ready(true)
    }

    /// Starts a request, which was [checked](RequestBuf::check).
    pub(super) fn start(&mut self, request: &RequestBuf) {
        self.begun = true;
        if let LinkState::Open(wire) = &mut self.state {
            wire.start(request);
        }
    }

    /// Sends as much as possible. The next turn handles everything else.
    pub(super) fn push(&mut self) {
        let cx = &mut Context::from_waker(&self.waker);
        if let LinkState::Open(wire) = &mut self.state
            && wire.send(cx).is_err()
        {
            self.wake();
        }
    }

    /// Sends and reads as much as possible, and registers for more input or the end of the connection. `Ready` once the
    /// answer is complete, or will not come. `Unsent` also means that the connection ended without a request in flight.
    pub(super) fn turn(&mut self) -> Poll<Result<(), Failure>> {
        let LinkState::Open(wire) = &mut self.state else { return Poll::Pending };
        wire.poll(&mut Context::from_waker(&self.waker)).map_err(|failure| {
            wire.incoming.keeps_open = false;
            if self.begun { failure } else { Failure::Unsent }
        })
    }

    /// The answer, once it is complete.
    pub(super) fn answer(&self) -> Option<Answer<'_>> {
        let LinkState::Open(wire) = &self.state else { return None };
        Some(wire.incoming.answer())
    }
}
