//! One connection of a session: at most one request at a time.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use storebench_core::store::{LocalFuture, StoreError};
use tokio::io::AsyncWrite;

use super::input::Input;
use super::parser::{Garbled, Parser};
use crate::net::{Backoff, Stream};

/// The links that asked to be polled, and whom to tell.
#[derive(Default)]
pub(super) struct Woken {
    links: Mutex<Vec<usize>>,
    pub(super) session: AtomicWaker,
}

impl Woken {
    /// Puts the links that were woken in place of `turn`.
    pub(super) fn swap(&self, turn: &mut Vec<usize>) {
        turn.clear();
        std::mem::swap(turn, &mut *self.links.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Wakes the session for one link, so that a poll looks only at those where something happened.
struct Bell {
    link: usize,
    rung: AtomicBool,
    woken: Arc<Woken>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            self.woken.links.lock().unwrap_or_else(PoisonError::into_inner).push(self.link);
            self.woken.session.wake();
        }
    }
}

/// What a link is doing about its connection.
pub(super) enum State {
    Open(Stream),
    /// Being made. `fresh`: no try has failed since the last connection that served ended, so that
    /// requests may wait for it.
    Connecting {
        coming: LocalFuture<'static, Result<Stream, StoreError>>,
        fresh: bool,
    },
}

/// How a turn on a link ended.
#[derive(Debug)]
pub(super) enum Turn {
    /// Nothing more to do until it wakes.
    Waiting,
    /// The answer to its request is whole.
    Answered,
    /// The stream ended.
    Closed,
    /// The stream broke.
    Broken(io::Error),
    /// What came is not an answer.
    Garbled(Garbled),
}

/// One connection and the buffers of its request in flight.
pub(super) struct Link {
    pub(super) state: State,
    pub(super) backoff: Backoff,
    /// The place whose request is on it.
    pub(super) place: Option<usize>,
    /// Whether that request is being sent.
    pub(super) begun: bool,
    /// How much of that request was written.
    pub(super) written: usize,
    /// Whether anything was answered on this connection.
    pub(super) served: bool,
    /// Whether the loss of the last connection was counted.
    pub(super) counted: bool,
    pub(super) input: Input,
    pub(super) parser: Parser,
    bell: Arc<Bell>,
    waker: Waker,
}

impl Link {
    pub(super) fn new(number: usize, seed: u64, stream: Stream, woken: &Arc<Woken>) -> Self {
        let bell = Arc::new(Bell { link: number, rung: AtomicBool::new(false), woken: Arc::clone(woken) });
        Self {
            state: State::Open(stream),
            backoff: Backoff::new(seed),
            place: None,
            begun: false,
            written: 0,
            served: false,
            counted: false,
            input: Input::default(),
            parser: Parser::default(),
            waker: Waker::from(Arc::clone(&bell)),
            bell,
        }
    }

    /// Whether a request can go out on it, now or as soon as it is free or made.
    pub(super) fn is_hopeful(&self) -> bool {
        match self.state {
            State::Open(_) => true,
            State::Connecting { fresh, .. } => fresh,
        }
    }

    /// Whether something happened that no poll has looked at yet.
    pub(super) fn is_rung(&self) -> bool {
        self.bell.rung.load(Ordering::Acquire)
    }

    /// A poll looks at it now: what wakes from here on rings again.
    pub(super) fn quiet(&self) {
        self.bell.rung.store(false, Ordering::Release);
    }

    /// Makes the session poll this link.
    pub(super) fn ring(&self) {
        self.waker.wake_by_ref();
    }

    /// Begins with a request.
    pub(super) fn begin(&mut self, place: usize, to_head: bool) {
        self.place = Some(place);
        self.begun = false;
        self.written = 0;
        self.input.clear();
        self.parser.begin(to_head);
    }

    /// The request is over; the link is free.
    pub(super) fn end(&mut self) -> Option<usize> {
        self.input.clear();
        self.parser.begin(false);
        (self.begun, self.written) = (false, 0);
        self.place.take()
    }

    /// Something was answered on it.
    pub(super) fn serves(&mut self) {
        self.served = true;
        self.backoff.reset();
    }

    /// Goes on with connecting.
    pub(super) fn poll_connect(&mut self) -> Poll<Result<Stream, StoreError>> {
        match &mut self.state {
            State::Connecting { coming, .. } => coming.as_mut().poll(&mut Context::from_waker(&self.waker)),
            State::Open(_) => Poll::Pending,
        }
    }

    /// Writes what is left of the request.
    pub(super) fn write(&mut self, request: &[u8]) -> Turn {
        let State::Open(stream) = &mut self.state else { return Turn::Waiting };
        self.begun = true;
        let cx = &mut Context::from_waker(&self.waker);
        while self.written < request.len() {
            match Pin::new(&mut *stream).poll_write(cx, &request[self.written..]) {
                Poll::Ready(Ok(0)) => return Turn::Broken(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(bytes)) => self.written += bytes,
                Poll::Ready(Err(error)) => return Turn::Broken(error),
                Poll::Pending => return Turn::Waiting,
            }
        }
        // TCP sends at once; TLS may hold back the end of what it encrypted.
        if stream.is_encrypted()
            && let Poll::Ready(Err(error)) = Pin::new(stream).poll_flush(cx)
        {
            return Turn::Broken(error);
        }
        Turn::Waiting
    }

    /// Reads until nothing more is there or the answer is whole. At the end the stream is asked once
    /// more, which costs no system call and makes it ring when something comes.
    pub(super) fn read(&mut self) -> Turn {
        let State::Open(stream) = &mut self.state else { return Turn::Waiting };
        let cx = &mut Context::from_waker(&self.waker);
        loop {
            let came = match self.input.poll_fill(stream, cx) {
                Poll::Pending => return Turn::Waiting,
                Poll::Ready(Err(error)) => return Turn::Broken(error),
                Poll::Ready(Ok(came)) => came,
            };
            if self.place.is_none() {
                if came == 0 {
                    return Turn::Closed;
                }
                return Turn::Garbled(Garbled("the server sent what nobody asked for"));
            }
            if came == 0 && self.parser.untouched(&self.input) {
                return Turn::Closed;
            }
            match self.parser.advance(&mut self.input, came == 0) {
                Ok(true) => return Turn::Answered,
                Ok(false) => {}
                Err(_) if came == 0 => return Turn::Closed,
                Err(garbled) => return Turn::Garbled(garbled),
            }
        }
    }
}
