//! One connection of a session, with at most one request at a time.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hyper::http::response;
use storebench_engine::store::{Bell, Bells, LocalFuture, StoreError};

use super::Answer;
use super::wire::{Exchanged, Failure, Outgoing, Sender, Wire, exchange};
use crate::net::Backoff;

/// The state of a link's connection.
pub(super) enum LinkState {
    /// Open, or closed a moment ago.
    Open(Wire),
    /// Connecting. `fresh` means that no try has failed since the last connection that served a request. Requests may
    /// then wait for the link.
    Connecting { coming: LocalFuture<'static, Result<(Sender, Wire), StoreError>>, fresh: bool },
}

/// The result of [`Link::turn`].
#[derive(Debug)]
pub(super) enum Turn {
    /// Nothing to do until it is woken.
    Waiting,
    /// The answer to its request is complete.
    Answered,
    /// There will be no answer.
    Failed(Failure),
    /// The connection ended without a request in flight.
    Closed,
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
    sender: Option<Sender>,
    exchange: Option<LocalFuture<'static, Exchanged>>,
    /// The result of the exchange, until a turn takes it.
    head: Option<Result<response::Parts, Failure>>,
    body: Vec<u8>,
    bell: Arc<Bell>,
    waker: Waker,
}

impl Link {
    pub(super) fn new(number: usize, seed: u64, (sender, wire): (Sender, Wire), bells: &Arc<Bells>) -> Self {
        let bell = bells.bell(number);
        Self {
            state: LinkState::Open(wire),
            backoff: Backoff::new(seed),
            place: None,
            served: false,
            counted: false,
            sender: Some(sender),
            exchange: None,
            head: None,
            body: Vec::new(),
            waker: Waker::from(Arc::clone(&bell)),
            bell,
        }
    }

    /// Whether the connection is open.
    pub(super) fn is_open(&self) -> bool {
        matches!(&self.state, LinkState::Open(wire) if !wire.has_ended())
    }

    /// Whether it can send a request, now or once it is free or connected.
    pub(super) fn is_hopeful(&self) -> bool {
        match self.state {
            LinkState::Open(_) => true,
            LinkState::Connecting { fresh, .. } => fresh,
        }
    }

    /// Whether something happened since the last poll.
    pub(super) fn is_rung(&self) -> bool {
        self.bell.is_rung()
    }

    /// Resets the bell before a poll. Later wake-ups ring it again.
    pub(super) fn quiet(&self) {
        self.bell.quiet();
    }

    /// Makes the session poll this link.
    pub(super) fn ring(&self) {
        self.waker.wake_by_ref();
    }

    /// Whether its request was passed to the connection, so that part of it may have been sent.
    pub(super) fn has_begun(&self) -> bool {
        self.exchange.is_some() || self.head.is_some()
    }

    /// Ends the request and frees the link. An unfinished exchange closes the connection.
    pub(super) fn end(&mut self) -> Option<usize> {
        (self.exchange, self.head) = (None, None);
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
        Poll::Ready(match made {
            Ok((sender, wire)) => {
                self.sender = Some(sender);
                self.state = LinkState::Open(wire);
                true
            }
            Err(_) => false,
        })
    }

    /// Starts a request.
    pub(super) fn start(&mut self, request: Result<Outgoing, Failure>) {
        self.head = match (request, self.sender.take()) {
            (Ok(request), Some(sender)) => {
                self.exchange = Some(Box::pin(exchange(sender, request, std::mem::take(&mut self.body))));
                None
            }
            (Ok(_), None) => Some(Err(Failure::Unsent)),
            (Err(failure), sender) => {
                self.sender = sender;
                Some(Err(failure))
            }
        };
    }

    /// Sends as much as possible. The next turn handles everything else.
    pub(super) fn push(&mut self) {
        self.step();
        if self.head.is_some() || !self.is_open() {
            self.ring();
        }
    }

    fn step(&mut self) {
        let cx = &mut Context::from_waker(&self.waker);
        if let Some(exchange) = &mut self.exchange
            && let Poll::Ready(done) = exchange.as_mut().poll(cx)
        {
            self.exchange = None;
            (self.sender, self.body, self.head) = (Some(done.sender), done.body, Some(done.head));
        }
        if let LinkState::Open(wire) = &mut self.state {
            wire.poll(cx);
        }
    }

    /// Sends and reads as much as possible. The second step processes what the first one read, and registers for more
    /// input or the end of the connection.
    pub(super) fn turn(&mut self) -> Turn {
        self.step();
        self.step();
        if !self.is_open() {
            // Let the exchange notice the end of the connection.
            self.step();
        }
        match &self.head {
            Some(Ok(_)) => Turn::Answered,
            Some(Err(_)) => match self.head.take() {
                Some(Err(failure)) => Turn::Failed(failure),
                _ => Turn::Waiting,
            },
            None if self.exchange.is_none() && !self.is_open() => Turn::Closed,
            None => Turn::Waiting,
        }
    }

    /// The answer, after [`Turn::Answered`].
    pub(super) fn answer(&self) -> Option<Answer<'_>> {
        let head = self.head.as_ref()?.as_ref().ok()?;
        Some(Answer::of_parts(head.status.as_u16(), Some(&head.headers), &self.body))
    }
}
