//! One connection of a session: at most one request at a time.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hyper::http::response;
use storebench_engine::store::{Bell, Bells, LocalFuture, StoreError};

use super::Answer;
use super::wire::{Exchanged, Failure, Outgoing, Sender, Wire, exchange};
use crate::net::Backoff;

/// What a link is doing about its connection.
pub(super) enum LinkState {
    /// There is one, or was until a moment ago.
    Open(Wire),
    /// Being made. `fresh`: no try has failed since the last connection that served ended, so that
    /// requests may wait for it.
    Connecting { coming: LocalFuture<'static, Result<(Sender, Wire), StoreError>>, fresh: bool },
}

/// How a turn on a link ended.
#[derive(Debug)]
pub(super) enum Turn {
    /// Nothing more to do until it wakes.
    Waiting,
    /// The answer to its request is whole.
    Answered,
    /// There will be none.
    Failed(Failure),
    /// The connection ended while nothing was asked.
    Closed,
}

/// One connection and what is exchanged on it.
pub(super) struct Link {
    pub(super) state: LinkState,
    pub(super) backoff: Backoff,
    /// The place whose request is on it.
    pub(super) place: Option<usize>,
    /// Whether anything was answered on this connection.
    pub(super) served: bool,
    /// Whether the loss of the last connection was counted.
    pub(super) counted: bool,
    sender: Option<Sender>,
    exchange: Option<LocalFuture<'static, Exchanged>>,
    /// How the exchange ended, until a turn takes it.
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

    /// Whether there is a connection that has not ended.
    pub(super) fn is_open(&self) -> bool {
        matches!(&self.state, LinkState::Open(wire) if !wire.has_ended())
    }

    /// Whether a request can go out on it, now or as soon as it is free or made.
    pub(super) fn is_hopeful(&self) -> bool {
        match self.state {
            LinkState::Open(_) => true,
            LinkState::Connecting { fresh, .. } => fresh,
        }
    }

    /// Whether something happened that no poll has looked at yet.
    pub(super) fn is_rung(&self) -> bool {
        self.bell.is_rung()
    }

    /// A poll looks at it now: what wakes from here on rings again.
    pub(super) fn quiet(&self) {
        self.bell.quiet();
    }

    /// Makes the session poll this link.
    pub(super) fn ring(&self) {
        self.waker.wake_by_ref();
    }

    /// Whether its request was handed to the connection, so that some of it may have been sent.
    pub(super) fn has_begun(&self) -> bool {
        self.exchange.is_some() || self.head.is_some()
    }

    /// The request is over; the link is free. An exchange that has not ended takes the connection with it.
    pub(super) fn end(&mut self) -> Option<usize> {
        (self.exchange, self.head) = (None, None);
        self.place.take()
    }

    /// Something was answered on it.
    pub(super) fn serves(&mut self) {
        self.served = true;
        self.backoff.reset();
    }

    /// Goes on with connecting; false where that failed.
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

    /// Begins with a request.
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

    /// Sends what can be sent. What else happens is for the next turn.
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

    /// Sends and reads what can be. The second step takes what the first has read, and lets the connection wait for
    /// what comes next: more of the answer, or its end.
    pub(super) fn turn(&mut self) -> Turn {
        self.step();
        self.step();
        if !self.is_open() {
            // Now the exchange knows.
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
