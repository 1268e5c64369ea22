//! A pipe over a connection that comes back by itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use storebench_core::store::StoreError;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::Pipe;
use super::bell::Bell;
use crate::net::{Backoff, Stream};

/// A connection being made, up to where requests may be sent.
pub(crate) type Connecting = Pin<Box<dyn Future<Output = Result<Stream, StoreError>>>>;

/// Makes the connection of a link again.
pub(crate) type Connect = Box<dyn Fn() -> Connecting>;

/// One connection with what is in flight on it.
pub(crate) struct Link<T> {
    /// Requests and answers.
    pub(crate) pipe: Pipe<T>,
    state: State,
    connect: Connect,
    backoff: Backoff,
    disconnects: u64,
    bell: Arc<Bell>,
    waker: Waker,
    /// Whom the bell wakes.
    listener: Option<Waker>,
}

enum State {
    Up(Stream),
    /// Not connected, and waiting before the next try.
    Down(Pin<Box<Sleep>>),
    Connecting(Connecting),
}

/// What a look at a link gave.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Nothing more now; the waker is registered.
    Nothing,
    /// More bytes came into the pipe.
    Input,
    /// The connection was lost, or could not be made, for this reason. The caller takes what was
    /// awaited with [`Pipe::lose`].
    Lost(String),
    /// It is connected again.
    Connected,
}

impl<T> Link<T> {
    /// Over a connection that is there.
    pub(crate) fn connected(stream: Stream, connect: Connect, window: u32, seed: u64) -> Self {
        Self::new(State::Up(stream), connect, window, seed)
    }

    /// Over one that is to be made: what is asked meanwhile is sent when it is.
    pub(crate) fn connecting(connect: Connect, window: u32, seed: u64) -> Self {
        Self::new(State::Connecting(connect()), connect, window, seed)
    }

    fn new(state: State, connect: Connect, window: u32, seed: u64) -> Self {
        let bell = Bell::new();
        Self {
            pipe: Pipe::new(window),
            state,
            connect,
            backoff: Backoff::new(seed),
            disconnects: 0,
            waker: Waker::from(Arc::clone(&bell)),
            bell,
            listener: None,
        }
    }

    /// Whether requests may be sent now.
    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// Whether it waits before it tries to connect again.
    pub(crate) fn is_down(&self) -> bool {
        matches!(self.state, State::Down(_))
    }

    /// How often it was lost after it had been made.
    pub(crate) fn disconnects(&self) -> u64 {
        self.disconnects
    }

    /// Whether a [`Link::turn`] may give anything. Wakes the task of `cx` when that changes.
    #[inline]
    pub(crate) fn has_news(&mut self, cx: &Context<'_>) -> bool {
        if !self.listener.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            self.bell.listen(cx.waker());
            self.listener = Some(cx.waker().clone());
        }
        self.bell.take()
    }

    /// Whether it was woken while nobody polled: a link that is down is looked after by submits too.
    pub(crate) fn was_woken(&self) -> bool {
        self.bell.take()
    }

    /// Writes what may be written. What goes wrong shows at the next turn.
    pub(crate) fn flush(&mut self) {
        if let State::Up(stream) = &mut self.state
            && write(&mut self.pipe, stream, &mut Context::from_waker(&self.waker)).is_err()
        {
            self.bell.mark();
        }
    }

    /// Moves on: connects, writes, reads once. To be called again until it gives nothing.
    pub(crate) fn turn(&mut self) -> Turn {
        let cx = &mut Context::from_waker(&self.waker);
        match &mut self.state {
            State::Up(stream) => match exchange(&mut self.pipe, stream, cx) {
                Ok(0) => Turn::Nothing,
                Ok(_) => Turn::Input,
                Err(why) => {
                    self.disconnects += 1;
                    self.wait();
                    Turn::Lost(why)
                }
            },
            State::Down(sleep) => match sleep.as_mut().poll(cx) {
                Poll::Pending => Turn::Nothing,
                Poll::Ready(()) => {
                    self.state = State::Connecting((self.connect)());
                    self.turn()
                }
            },
            State::Connecting(connecting) => match connecting.as_mut().poll(cx) {
                Poll::Pending => Turn::Nothing,
                Poll::Ready(Ok(stream)) => {
                    self.state = State::Up(stream);
                    self.backoff.reset();
                    Turn::Connected
                }
                Poll::Ready(Err(error)) => {
                    self.wait();
                    Turn::Lost(error.to_string())
                }
            },
        }
    }

    /// Gives the connection up, since what came over it is not to be trusted. The caller takes what
    /// was awaited with [`Pipe::lose`].
    pub(crate) fn give_up(&mut self) {
        if self.is_up() {
            self.disconnects += 1;
        }
        self.wait();
    }

    fn wait(&mut self) {
        self.state = State::Down(Box::pin(tokio::time::sleep(self.backoff.next_wait())));
        // The next turn registers for the end of the wait.
        self.bell.mark();
    }
}

/// Writes what may be written, and what TLS still holds.
fn write<T>(pipe: &mut Pipe<T>, stream: &mut Stream, cx: &mut Context<'_>) -> Result<(), String> {
    let mut stream = Pin::new(stream);
    let mut wrote = false;
    loop {
        let bytes = pipe.sendable();
        if bytes.is_empty() {
            break;
        }
        match stream.as_mut().poll_write(cx, bytes) {
            Poll::Ready(Ok(0)) => return Err("the server takes no more bytes".to_owned()),
            Poll::Ready(Ok(bytes)) => pipe.sent(bytes),
            Poll::Ready(Err(error)) => return Err(error.to_string()),
            Poll::Pending => break,
        }
        wrote = true;
    }
    if wrote || matches!(*stream, Stream::Tls(_)) {
        match stream.poll_flush(cx) {
            Poll::Ready(Err(error)) => return Err(error.to_string()),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
    }
    Ok(())
}

/// Writes, then reads once. Gives how many bytes came.
fn exchange<T>(pipe: &mut Pipe<T>, stream: &mut Stream, cx: &mut Context<'_>) -> Result<usize, String> {
    // A server that has gone may have said why before it went: what it said is read first.
    let written = write(pipe, stream, cx);
    let mut room = ReadBuf::new(pipe.room());
    let read = Pin::new(stream).poll_read(cx, &mut room);
    let bytes = room.filled().len();
    pipe.filled(bytes);
    match read {
        Poll::Ready(Ok(())) if bytes > 0 => Ok(bytes),
        Poll::Ready(Ok(())) => Err("the server closed it".to_owned()),
        Poll::Ready(Err(error)) => Err(error.to_string()),
        Poll::Pending => written.map(|()| 0),
    }
}
