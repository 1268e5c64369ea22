//! A connection, and the exchange of one request for its answer. It spawns no task: whoever waits for an answer also
//! polls the connection.

use std::future::poll_fn;
use std::task::{Context, Poll};

use super::RequestBuf;
use super::incoming::Incoming;
use crate::connection::{Pipe, READS_PER_TURN, Read, exchange, write};
use crate::net::Stream;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection had ended: nothing of the request was sent.
    Unsent,
    /// The connection ended before the answer.
    Lost(String),
    /// The input is not a valid answer.
    Garbled(String),
}

/// One connection, with at most one request.
pub(super) struct Wire {
    stream: Stream,
    pipe: Pipe<()>,
    pub(super) incoming: Incoming,
}

impl Wire {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, pipe: Pipe::new(1), incoming: Incoming::new() }
    }

    /// Starts a request, which was [checked](RequestBuf::check). Nothing is sent yet.
    pub(super) fn start(&mut self, request: &RequestBuf) {
        request.write(self.pipe.request((), true));
        self.incoming.begin(request.is_head());
    }

    /// Sends what the socket accepts now.
    ///
    /// # Errors
    /// If the connection is broken. The next poll tells what that means.
    pub(super) fn send(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        write(&mut self.pipe, &mut self.stream, cx)
    }

    /// Sends and reads until the answer is complete, and then stops. Without a request, it waits for the end of the
    /// connection.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        for _ in 0..READS_PER_TURN {
            match self.poll_more(cx) {
                Poll::Ready(Ok(false)) => {}
                other => return other.map_ok(|_| ()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Sends, and reads once. Returns whether the answer is complete.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Failure>> {
        let read = exchange(&mut self.pipe, &mut self.stream, cx);
        if self.pipe.is_idle() && !self.pipe.input().is_empty() {
            return Poll::Ready(Err(Failure::Garbled("the server sent data before any request".into())));
        }
        Poll::Ready(match read {
            Ok(Read::Nothing) => return Poll::Pending,
            Ok(Read::Bytes) => match self.incoming.take(&mut self.pipe) {
                Ok(true) => {
                    self.answered();
                    Ok(true)
                }
                other => other,
            },
            Ok(Read::End) if self.incoming.ends_when_closed() && !self.pipe.is_idle() => {
                self.answered();
                Ok(true)
            }
            Ok(Read::End) => Err(self.lost("the server closed the connection".into())),
            Err(why) => Err(self.lost(why)),
        })
    }

    fn answered(&mut self) {
        // What is left of a request that was answered early would be taken for the next one.
        self.incoming.keeps_open &= self.pipe.sendable().is_empty() && self.pipe.input().is_empty();
        self.pipe.pop();
    }

    fn lost(&mut self, why: String) -> Failure {
        match self.pipe.lose().next() {
            Some(((), false)) => Failure::Unsent,
            _ => Failure::Lost(why),
        }
    }

    /// Exchanges a request for its complete answer.
    pub(super) async fn exchange(&mut self, request: &RequestBuf) -> Result<(), Failure> {
        self.start(request);
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Exchanges a request for the head of its answer, and the start of its body, which may have any size.
    pub(super) async fn ask(&mut self, request: &RequestBuf) -> Result<(), Failure> {
        self.start(request);
        self.incoming.most = u64::MAX;
        while !self.incoming.has_head() {
            self.more().await?;
        }
        Ok(())
    }

    /// Reads more of the answer. Returns whether it is complete.
    pub(super) async fn more(&mut self) -> Result<bool, Failure> {
        if self.pipe.is_idle() {
            return Ok(true);
        }
        poll_fn(|cx| self.poll_more(cx)).await
    }
}
